//! Decides which message to send to a receiver, if any, and when to decide again.
//!
//! The protocol for each webhook, with one request at a time:
//!
//! 1. Call [`step`], and store its state if it differs from the stored one. This makes the message's ID and contents
//!    durable.
//! 2. Send the message, if there is one.
//! 3. Call [`super::record`] with the outcome, store the result, and start again.
//!
//! After a crash, start at 1 with the stored state: the same message is sent with the same ID. Do not call `step` between 2
//! and 3.
//!
//! A receiver that expires alerts (Alertmanager) is sent them again and again: a message of the kind Resend depends only on
//! what the receiver was sent, and changes no state, so it is sent without being stored, and also while the current
//! incidents are unknown.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    common_cause::Grouped,
    compose::{compose, is_resent, new_id, revert_excess},
    held_back,
    input::StepInput,
    lifecycle::Event,
    notification::Notification,
    refusal, retry,
    state::WebhookState,
    thread::thread,
    times::{elapses_at, later, whole_seconds},
};
use crate::api::{AlertPhase, AlertStatus, Detail, MessageKind, PendingMessage, WebhookStatus};

/// The minimum time before an answer in a thread. It interrupts nobody, and the ends of many threads are a message each. Slack
/// accepts a message a second.
const THREAD_INTERVAL: Duration = Duration::from_secs(1);

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// To be stored before anything is sent. The same as before if the message is of the kind Resend.
    pub state: WebhookStatus,
    pub message: Option<Notification>,
    /// When to decide again if the incidents do not change; always after `now`.
    pub wake: Option<Timestamp>,
}

/// Decides what to send to a receiver now.
#[must_use]
pub fn step(previous: &WebhookStatus, input: &StepInput<'_>) -> Step {
    let grouped = Grouped::new(previous, input);
    let mut webhook = WebhookState::new(previous, input, &grouped);
    let mut timer = WakeTimer { now: input.now, wake: None };
    let mut message = resend(&webhook, &mut timer);
    if message.is_none() && input.incidents_known {
        webhook.configure();
        webhook.update();
        if !webhook.status.stopped && input.receiver.is_some() {
            message = next_message(&mut webhook, &mut timer);
        }
        schedule(&webhook, &mut timer);
    }
    Step { state: webhook.status, message, wake: timer.wake }
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

/// A message that keeps alerts alive at a receiver that expires them, if one is due.
fn resend(webhook: &WebhookState<'_>, timer: &mut WakeTimer) -> Option<Notification> {
    let (state, input) = (&webhook.status, webhook.input);
    let every = input.policy.pacing.resend_interval?;
    let is_sent = |alert: &AlertStatus| match alert.phase {
        AlertPhase::Firing => alert.refused_at.is_none() && alert.gone_since.is_none(),
        AlertPhase::Announcing => alert.overflow.is_none() && state.may_be_delivered(),
        _ => is_resent(webhook, alert),
    };
    // While a message is sent in parts, these name the alerts.
    if !input.can_resend || state.stopped || state.part_size > 0 || !state.alerts_and_storm().any(is_sent) {
        return None;
    }
    let due = input.last_sent.and_then(|sent| later(sent, every)).unwrap_or(input.now);
    // The stored time may come from a clock that was ahead.
    let retry = state.next_attempt.as_ref().map(|next| next.0);
    let retry = retry.filter(|retry| later(input.now, retry::MAX_WAIT).is_some_and(|limit| *retry <= limit));
    if !timer.is_due(retry.max(Some(due))) {
        return None;
    }
    timer.is_due(later(input.now, every));
    let message = new_message(webhook, MessageKind::Resend, Time(input.now), state.resend_detail);
    Some(compose(webhook, &message))
}

/// Returns the next attempt at the pending message, or a new message.
fn next_message(webhook: &mut WebhookState<'_>, timer: &mut WakeTimer) -> Option<Notification> {
    let input = webhook.input;
    let changed = webhook.status.alerts_and_storm().any(|alert| needs_message(webhook, alert));
    if let Some(pending) = &webhook.status.pending {
        if pending.kind == MessageKind::Repeat && changed {
            // The message about the changes replaces the repetition.
            webhook.drop_pending();
        } else {
            let next = webhook.status.next_attempt.as_ref().map_or(input.now, |next| next.0);
            return timer.is_due(Some(next)).then(|| attempt_pending(webhook)).flatten();
        }
    }
    let thread = changed_alerts(webhook).first().and_then(|first| thread_of_end(webhook, first)).map(str::to_owned);
    let group_interval = match &thread {
        Some(_) => THREAD_INTERVAL.min(input.policy.pacing.group_interval),
        None => refusal::group_interval(&webhook.status, input.policy),
    };
    let group_interval = elapses_at(webhook.status.last_success.as_ref(), group_interval);
    let earliest = group_interval.max(webhook.status.next_attempt.as_ref().map(|next| next.0)).unwrap_or(input.now);
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
    let events = if kind == MessageKind::Repeat { repeated(webhook) } else { changes(webhook) };
    let at = webhook.circumstances();
    for alert in webhook.status.alerts_and_storm_mut() {
        events.get(&alert.key).into_iter().for_each(|event| alert.on(*event, at));
    }
    prepare(webhook);
    let kind = if kind == MessageKind::Firing && !webhook.announces() { MessageKind::Resolved } else { kind };
    let detail = refusal::detail(&webhook.status);
    webhook.status.pending = Some(new_message(webhook, kind, whole_seconds(input.now), detail));
    attempt_pending(webhook)
}

fn new_message(webhook: &WebhookState<'_>, kind: MessageKind, created: Time, detail: Detail) -> PendingMessage {
    let id = new_id(webhook, kind, !webhook.input.is_unstored || kind == MessageKind::Resend);
    PendingMessage { id, kind, created, attempts: 0, in_flight: false, maybe_delivered: false, detail }
}

fn needs_message(webhook: &WebhookState<'_>, alert: &AlertStatus) -> bool {
    match alert.phase {
        _ if refusal::waits(webhook, alert) => false,
        // If its incident has ended, it waits until that returns, or is dropped.
        AlertPhase::Queued => alert.gone_since.is_none(),
        AlertPhase::Firing => {
            webhook.begins(alert)
                || webhook.news_at(alert).is_some_and(|at| at <= webhook.input.now)
                || webhook.input.policy.send_resolved && webhook.is_resolved(alert)
        }
        AlertPhase::Announcing | AlertPhase::Resolving | AlertPhase::Resolved => false,
    }
}

/// The alerts that need a message, in the order in which they are sent.
fn changed_alerts<'a>(webhook: &'a WebhookState<'_>) -> Vec<&'a AlertStatus> {
    let mut changed: Vec<&AlertStatus> =
        webhook.status.alerts_and_storm().filter(|alert| needs_message(webhook, alert)).collect();
    // Firing alerts come first, the oldest before others, then the storm, and then resolved alerts. Last comes what the
    // receiver refused, the earliest refusal first.
    let rank = |alert: &AlertStatus| match alert.overflow {
        Some(_) => 1,
        None if webhook.begins(alert) => 0,
        None => 2,
    };
    let order = |alert: &AlertStatus| (alert.refused_at.as_ref().map(|at| at.0), rank(alert), alert.since.0);
    changed.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key)));
    changed
}

/// The thread that the end of an alert is sent to, if its end is what is to be sent.
fn thread_of_end<'a>(webhook: &WebhookState<'_>, alert: &'a AlertStatus) -> Option<&'a str> {
    thread(alert).filter(|_| webhook.is_resolved(alert))
}

/// What the next message says about alerts, by key: that they begin, or have ended. The ends of a thread have a message of their
/// own.
fn changes(webhook: &WebhookState<'_>) -> HashMap<String, Event> {
    let mut changed = changed_alerts(webhook);
    let thread = changed.first().and_then(|first| thread_of_end(webhook, first));
    changed.retain(|alert| thread_of_end(webhook, alert) == thread);
    let included = first_part(webhook, &changed);
    // A whole message that is sent anyway includes the present number of the storm.
    let is_whole = refusal::part_size(webhook) == usize::MAX && included.iter().all(|alert| alert.refused_at.is_none());
    let storm = webhook.status.storm.as_ref();
    let storm =
        storm.filter(|storm| is_whole && thread.is_none() && storm.refused_at.is_none() && webhook.has_changed(storm));
    events(webhook, included.into_iter().chain(storm))
}

/// As many of these alerts as a message may be about. What the receiver refused is sent alone, after all others.
fn first_part<'a>(webhook: &WebhookState<'_>, alerts: &[&'a AlertStatus]) -> Vec<&'a AlertStatus> {
    let is_retried = alerts.first().is_some_and(|alert| alert.refused_at.is_some());
    let size = if is_retried { 1 } else { refusal::part_size(webhook) };
    alerts.iter().copied().filter(|alert| is_retried || alert.refused_at.is_none()).take(size).collect()
}

/// What a partial repetition says about alerts, by key: that they continue. A complete one lists all firing alerts, but what
/// the receiver refused.
fn repeated(webhook: &WebhookState<'_>) -> HashMap<String, Event> {
    let mut repeated: Vec<&AlertStatus> =
        webhook.status.alerts_and_storm().filter(|alert| held_back::is_repeated(webhook, alert)).collect();
    repeated.sort_by_key(|alert| alert.sent_at.as_ref().map(|at| at.0));
    let is_retried = repeated.first().is_some_and(|alert| alert.refused_at.is_some());
    if refusal::part_size(webhook) == usize::MAX && !is_retried {
        return HashMap::new();
    }
    events(webhook, first_part(webhook, &repeated))
}

fn events<'a>(webhook: &WebhookState<'_>, alerts: impl IntoIterator<Item = &'a AlertStatus>) -> HashMap<String, Event> {
    let event = |alert| if webhook.is_resolved(alert) { Event::EndAnnounced } else { Event::Announced };
    alerts.into_iter().map(|alert| (alert.key.clone(), event(alert))).collect()
}

/// Updates the number of a storm that is announced, and takes back the announcements that do not fit into one message. The
/// incidents' texts may be longer than at the previous attempt.
fn prepare(webhook: &mut WebhookState<'_>) {
    let overflow = webhook.present_overflow();
    let storm = webhook.status.storm.as_mut().filter(|storm| storm.phase == AlertPhase::Announcing);
    if let Some(storm) = storm.filter(|_| overflow.count > 0) {
        storm.overflow = Some(overflow);
    }
    revert_excess(webhook);
}

/// Counts an attempt at the pending message, and builds it from the current incidents.
fn attempt_pending(webhook: &mut WebhookState<'_>) -> Option<Notification> {
    prepare(webhook);
    let pending = webhook.status.pending.as_mut()?;
    pending.attempts = pending.attempts.saturating_add(1);
    // If a crash prevents the outcome of an attempt from being recorded, the message may have been delivered.
    pending.maybe_delivered |= pending.in_flight;
    pending.in_flight = true;
    let pending = pending.clone();
    Some(compose(webhook, &pending))
}

/// When the repeat interval of the first alert ends.
fn repeat_at(webhook: &WebhookState<'_>) -> Option<Timestamp> {
    let every = webhook.input.policy.repeat_every;
    if every.is_zero() || webhook.input.policy.pacing.resend_interval.is_some() {
        return None;
    }
    let repeated = webhook.status.alerts_and_storm().filter(|alert| held_back::is_repeated(webhook, alert));
    repeated.filter_map(|alert| elapses_at(alert.sent_at.as_ref(), every)).min()
}

/// Sets the timer to when the decision may change although the incidents do not.
fn schedule(webhook: &WebhookState<'_>, timer: &mut WakeTimer) {
    let policy = webhook.input.policy;
    timer.is_due(webhook.input.memory.settled_at(webhook.input.now));
    for incident in webhook.incidents.values() {
        timer.is_due(policy.due_at(incident, webhook.input.now));
    }
    for alert in webhook.status.alerts_and_storm() {
        let (since, duration) = match alert.phase {
            AlertPhase::Resolved => (alert.sent_at.as_ref(), policy.pacing.resolved_retention),
            _ => (alert.gone_since.as_ref(), webhook.keep_firing_for(alert)),
        };
        timer.is_due(elapses_at(since, duration));
        timer.is_due(refusal::retry_at(&webhook.status, alert));
        timer.is_due(webhook.news_at(alert));
    }
    for at in held_back::wakes_at(webhook) {
        timer.is_due(at);
    }
}
