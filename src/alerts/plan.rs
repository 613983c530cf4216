//! Decides which message to send to a receiver, if any, and when to decide again.
//!
//! The protocol for each webhook, with one request at a time:
//!
//! 1. Call [`plan`], and store its state if it differs from the stored one. This makes the message's ID and contents
//!    durable.
//! 2. Send the message, if there is one.
//! 3. Call [`super::record`] with the outcome, store the result, and start again.
//!
//! After a crash, start at 1 with the stored state: the same message is sent with the same ID. Do not call `plan`
//! between 2 and 3, before the list of pods is complete, or while the object is paused, because any incident missing
//! from the input counts as gone. During such times [`super::resend`] keeps alerts alive at receivers that expire them.

use std::collections::HashMap;

use jiff::Timestamp;

use super::{
    common_cause::Grouped,
    compose::{Envelope, compose, repeat_at, revert_excess},
    input::PlanInput,
    lifecycle::{Event, Life},
    message_id::new_id,
    muted,
    notification::Notification,
    refusal, storm,
    times::{elapses_at, whole_seconds},
    webhook_state::WebhookState,
};
use crate::api::{AlertPhase, AlertStatus, MessageKind, PendingMessage, WebhookStatus};

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// To be stored before anything is sent.
    pub state: WebhookStatus,
    pub send: Option<Notification>,
    /// When to decide again if the incidents do not change; always after `now`.
    pub wake: Option<Timestamp>,
}

/// Decides what to send to a receiver now.
#[must_use]
pub fn plan(previous: &WebhookStatus, input: &PlanInput<'_>) -> Plan {
    let grouped = Grouped::new(previous, input);
    let mut webhook = WebhookState::new(previous, input, &grouped);
    webhook.status.name.clone_from(&input.policy.name);
    webhook.status.sends_no_ends = !input.policy.send_resolved;
    if webhook.status.config != input.config {
        input.config.clone_into(&mut webhook.status.config);
        webhook.status.stopped = false;
        webhook.status.next_attempt = None;
        webhook.status.failures = 0;
        webhook.status.refusals = 0;
        refusal::forget(&mut webhook.status);
    }
    if let Some(receiver) = input.receiver {
        webhook.set_receiver(receiver);
    }
    webhook.update_alerts();
    storm::update(&mut webhook);
    webhook.clean_up();
    let mut timer = WakeTimer { now: input.now, wake: None };
    let silent = webhook.status.stopped || input.receiver.is_none();
    let send = if silent { None } else { next_message(&mut webhook, input, &mut timer) };
    timer.is_due(input.memory.settled_at(input.now));
    schedule(&webhook, &mut timer);
    Plan { state: webhook.status, send, wake: timer.wake }
}

/// Keeps the earliest of the times that are still to come.
struct WakeTimer {
    now: Timestamp,
    wake: Option<Timestamp>,
}

impl WakeTimer {
    /// Whether a time has come. If not, the timer wakes at it.
    fn is_due(&mut self, at: Option<Timestamp>) -> bool {
        match at {
            Some(at) if at > self.now => {
                self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
                false
            }
            Some(_) => true,
            None => false,
        }
    }
}

/// Returns the next attempt at the pending message, or a new message.
fn next_message(webhook: &mut WebhookState<'_>, input: &PlanInput<'_>, timer: &mut WakeTimer) -> Option<Notification> {
    let changed = has_changes(webhook);
    if let Some(pending) = &webhook.status.pending {
        if pending.kind == MessageKind::Repeat && changed {
            // The message about the changes replaces the repetition.
            webhook.drop_pending();
        } else {
            let next = webhook.status.next_attempt.as_ref().map_or(webhook.now, |next| next.0);
            return timer.is_due(Some(next)).then(|| attempt_pending(webhook, input)).flatten();
        }
    }
    let group_interval = refusal::group_interval(&webhook.status, input.policy);
    let group_interval = elapses_at(webhook.status.last_success.as_ref(), group_interval);
    let earliest = group_interval.max(webhook.status.next_attempt.as_ref().map(|next| next.0)).unwrap_or(webhook.now);
    let repeat = repeat_at(webhook);
    let kind = if changed {
        MessageKind::Firing
    } else if timer.is_due(repeat) {
        MessageKind::Repeat
    } else {
        refusal::on_all_sent(&mut webhook.status);
        return None;
    };
    if !timer.is_due(Some(earliest)) {
        return None;
    }
    if kind == MessageKind::Repeat {
        mark_repeat(webhook)
    } else {
        mark_changes(webhook)
    }
    revert_excess(webhook);
    webhook.status.pending = Some(PendingMessage {
        id: new_id(webhook, input, kind),
        kind: if kind == MessageKind::Firing && !webhook.announces() { MessageKind::Resolved } else { kind },
        created: whole_seconds(webhook.now),
        attempts: 0,
        in_flight: false,
        maybe_delivered: false,
        detail: refusal::detail(&webhook.status),
    });
    attempt_pending(webhook, input)
}

/// Whether an alert or the storm needs a message.
fn has_changes(webhook: &WebhookState<'_>) -> bool {
    webhook.status.alerts.iter().any(|alert| needs_message(webhook, alert))
        || webhook.status.storm.as_ref().is_some_and(|storm| storm::needs_message(webhook, storm))
}

fn needs_message(webhook: &WebhookState<'_>, alert: &AlertStatus) -> bool {
    match alert.phase {
        _ if refusal::waits(webhook, alert) => false,
        // If its incident has ended, it waits until that returns, or is dropped.
        AlertPhase::Queued => alert.gone_since.is_none(),
        AlertPhase::Firing => webhook.begins(alert) || webhook.policy.send_resolved && webhook.is_resolved(alert),
        AlertPhase::Announcing | AlertPhase::Resolving | AlertPhase::Resolved => false,
    }
}

/// Marks the alerts and the storm that the next message is about.
fn mark_changes(webhook: &mut WebhookState<'_>) {
    let mut changed: Vec<AlertStatus> =
        webhook.status.alerts.iter().filter(|alert| needs_message(webhook, alert)).cloned().collect();
    // Firing alerts come before resolved ones, the oldest first. Last comes what the receiver refused, the earliest refusal first.
    let refused_at = |alert: &AlertStatus| alert.refused_at.as_ref().map(|at| at.0);
    let order = |alert: &AlertStatus| (refused_at(alert), !webhook.begins(alert), alert.since.0);
    changed.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key)));
    let is_retried = changed.first().is_some_and(|alert| alert.refused_at.is_some());
    changed.retain(|alert| is_retried || alert.refused_at.is_none());
    changed.truncate(if is_retried { 1 } else { refusal::part_size(webhook) });
    let storm_is_due = webhook.status.storm.as_ref().is_some_and(|storm| storm::needs_message(webhook, storm));
    let is_storm_refused = webhook.status.storm.as_ref().is_some_and(|storm| storm.refused_at.is_some());
    if webhook.policy.pacing.single_incident {
        let begins = changed.first().is_some_and(|alert| webhook.begins(alert));
        if storm_is_due && !begins {
            storm::mark(webhook);
            return;
        }
    } else if is_retried || is_storm_refused || webhook.status.part_size > 0 {
        // The storm has a message of its own.
        if storm_is_due && (is_retried || changed.is_empty()) {
            storm::mark(webhook);
            return;
        }
    } else if storm_is_due || webhook.status.storm.as_ref().is_some_and(|storm| storm::has_changed(webhook, storm)) {
        // A message that is sent anyway includes the current count.
        storm::mark(webhook);
    }
    let event = |alert: &AlertStatus| if webhook.begins(alert) { Event::Announced } else { Event::EndAnnounced };
    let events: HashMap<String, Event> = changed.iter().map(|alert| (alert.key.clone(), event(alert))).collect();
    let at = webhook.circumstances();
    for alert in &mut webhook.status.alerts {
        if let Some(event) = events.get(&alert.key) {
            Life::from(alert).on(*event, at);
        }
    }
}

/// Marks the incidents of a partial repetition. A complete repetition lists all firing alerts.
fn mark_repeat(webhook: &mut WebhookState<'_>) {
    let part_size = refusal::part_size(webhook);
    let mut repeated: Vec<&AlertStatus> =
        webhook.status.alerts.iter().filter(|alert| muted::is_repeated(webhook, alert)).collect();
    repeated.sort_by_key(|alert| sent_at(alert));
    // A complete repetition leaves out what the receiver refused.
    let is_retried = repeated.first().is_some_and(|alert| alert.refused_at.is_some());
    if part_size == usize::MAX && !is_retried {
        return;
    }
    repeated.retain(|alert| is_retried || alert.refused_at.is_none());
    repeated.truncate(if is_retried { 1 } else { part_size });
    let oldest = repeated.first().map(|alert| sent_at(alert));
    let keys: Vec<String> = repeated.iter().map(|alert| alert.key.clone()).collect();
    let storm = webhook.status.storm.as_ref().filter(|storm| storm.gone_since.is_none() && !storm::is_muted(webhook));
    let storm_sent_at = storm.and_then(|storm| storm.sent_at.as_ref()).map(|at| at.0);
    match oldest {
        Some(sent_at) if storm_sent_at.is_none_or(|storm| sent_at.is_some_and(|alert| alert <= storm)) => {
            let is_oldest = |alert: &&mut AlertStatus| keys.contains(&alert.key) && alert.phase == AlertPhase::Firing;
            let at = webhook.circumstances();
            let oldest = webhook.status.alerts.iter_mut().filter(is_oldest);
            oldest.for_each(|alert| _ = Life::from(alert).on(Event::Announced, at));
        }
        _ => storm::mark(webhook),
    }
}

fn sent_at(alert: &AlertStatus) -> Option<Timestamp> {
    alert.sent_at.as_ref().map(|at| at.0)
}

/// Counts an attempt at the pending message, and builds it from the current incidents.
fn attempt_pending(webhook: &mut WebhookState<'_>, input: &PlanInput<'_>) -> Option<Notification> {
    if webhook.status.storm.as_ref().is_some_and(|storm| storm.phase == AlertPhase::Announcing) {
        storm::mark(webhook);
    }
    // The incidents' texts may be longer than at the previous attempt.
    revert_excess(webhook);
    let pending = webhook.status.pending.as_mut()?;
    pending.attempts = pending.attempts.saturating_add(1);
    // If a crash prevents the outcome of an attempt from being recorded, the message may have been delivered.
    pending.maybe_delivered |= pending.in_flight;
    pending.in_flight = true;
    let (id, kind, created, detail) = (pending.id.clone(), pending.kind, pending.created.0, pending.detail);
    Some(compose(webhook, input, Envelope { id, kind, created, detail }))
}

/// Sets the timer to when the decision may change although the incidents do not.
fn schedule(webhook: &WebhookState<'_>, timer: &mut WakeTimer) {
    for incident in webhook.incidents.values() {
        timer.is_due(webhook.policy.due_at(incident, webhook.now));
    }
    for alert in &webhook.status.alerts {
        let (since, duration) = match alert.phase {
            AlertPhase::Resolved => (alert.sent_at.as_ref(), webhook.policy.pacing.resolved_retention),
            _ => (alert.gone_since.as_ref(), webhook.keep_firing_for(alert)),
        };
        timer.is_due(elapses_at(since, duration));
        timer.is_due(refusal::retry_at(&webhook.status, alert));
    }
    if let Some(storm) = &webhook.status.storm {
        timer.is_due(storm::wakes_at(webhook, storm));
    }
    for at in muted::wakes_at(webhook) {
        timer.is_due(at);
    }
}
