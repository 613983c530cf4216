//! What to send to a receiver, if anything, and when to look again.
//!
//! The protocol, one webhook at a time and one request at a time:
//!
//! 1. [`plan`]. Where its state differs from the stored one, store it: the message's id and what it
//!    tells are now safe.
//! 2. Send the message, if there is one.
//! 3. [`super::record`] the outcome, store that, and begin again.
//!
//! Whoever dies on the way begins again at 1 with the stored state, and sends the same message under
//! the same id. `plan` is not called between 2 and 3, nor before the list of pods is complete, nor while
//! the object is paused: any incident that is missing from its input counts as gone. What then keeps a receiver's alerts
//! alive is [`super::remind`].

use jiff::Timestamp;

use super::{
    compose::{Envelope, goes_on, keep_what_fits, message, new_id, repeat_at},
    incident::{Incident, IncidentMemory, Source},
    notification::Notification,
    policy::NotificationPolicy,
    storm,
    webhook_state::{WebhookState, seconds, will_have_been},
};
use crate::api::{AlertPhase, AlertStatus, Detail, MessageKind, PendingMessage, WebhookStatus};

/// All that a decision depends on, beside the stored state.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// Where the alerts come from.
    pub source: &'a Source,
    /// The webhook.
    pub policy: &'a NotificationPolicy,
    /// Every incident of the object.
    pub incidents: &'a [Incident],
    /// What is remembered of them.
    pub memory: &'a IncidentMemory,
    /// The keys of incidents that are gone and cannot come back, as their owners have no pod left.
    pub ended: &'a [String],
    /// A hash of the webhook's spec and the Secrets it names, however they are read. When it changes,
    /// waiting is over.
    pub config: &'a str,
    /// What tells this receiver from another; absent while the webhook can't be used: nothing is sent then.
    pub receiver: Option<&'a str>,
    /// When this process last sent a message to this receiver that was taken. It is not stored.
    pub last_sent: Option<Timestamp>,
    /// How much of the status the alerts may take: [`super::alert_bytes`].
    pub bytes: usize,
    /// The time.
    pub now: Timestamp,
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What is to be stored before anything is sent.
    pub state: WebhookStatus,
    /// What to send.
    pub send: Option<Notification>,
    /// When time alone may change the decision; always after `now`.
    pub wake: Option<Timestamp>,
}

/// Decides what to send to a receiver now.
#[must_use]
pub fn plan(previous: &WebhookStatus, input: &PlanInput<'_>) -> Plan {
    let mut webhook = WebhookState::new(previous, input);
    webhook.status.name.clone_from(&input.policy.name);
    if webhook.status.config != input.config {
        input.config.clone_into(&mut webhook.status.config);
        webhook.status.stopped = false;
        webhook.status.next_attempt = None;
        webhook.status.failures = 0;
        webhook.status.refusals = 0;
    }
    if let Some(receiver) = input.receiver {
        webhook.address(receiver);
    }
    webhook.update();
    let mut clock = Clock { now: input.now, wake: None };
    let silent = webhook.status.stopped || input.receiver.is_none();
    let send = if silent { None } else { choose(&mut webhook, input, &mut clock) };
    look_again(&webhook, &mut clock);
    Plan { state: webhook.status, send, wake: clock.wake }
}

/// Gathers the instants at which to look again.
struct Clock {
    now: Timestamp,
    wake: Option<Timestamp>,
}

impl Clock {
    /// Whether an instant has come; if not, it is one to look again at.
    fn has_come(&mut self, at: Option<Timestamp>) -> bool {
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

fn choose(webhook: &mut WebhookState<'_>, input: &PlanInput<'_>, clock: &mut Clock) -> Option<Notification> {
    let news = is_news(webhook);
    if let Some(pending) = &webhook.status.pending {
        if pending.kind == MessageKind::Repeat && news {
            // A repetition tells nothing that the news don't.
            webhook.unmark();
            webhook.status.pending = None;
        } else {
            let next = webhook.status.next_attempt.as_ref().map_or(webhook.now, |next| next.0);
            return clock.has_come(Some(next)).then(|| send_pending(webhook, input)).flatten();
        }
    }
    let pace = will_have_been(webhook.status.last_success.as_ref(), input.policy.pace.interval);
    let gate = pace.max(webhook.status.next_attempt.as_ref().map(|next| next.0)).unwrap_or(webhook.now);
    let repeat = repeat_at(webhook);
    let kind = if news {
        MessageKind::Firing
    } else if clock.has_come(repeat) {
        MessageKind::Repeat
    } else {
        return None;
    };
    if !clock.has_come(Some(gate)) {
        return None;
    }
    if kind == MessageKind::Repeat {
        mark_repeat(webhook)
    } else {
        mark_news(webhook)
    }
    keep_what_fits(webhook);
    let announces = webhook.status.alerts.iter().any(|alert| alert.phase == AlertPhase::Announcing)
        || webhook.status.storm.as_ref().is_some_and(|storm| storm.phase == AlertPhase::Announcing);
    webhook.status.pending = Some(PendingMessage {
        id: new_id(webhook, input, kind),
        kind: if kind == MessageKind::Firing && !announces { MessageKind::Resolved } else { kind },
        created: seconds(webhook.now),
        attempts: 0,
        in_flight: false,
        maybe_delivered: false,
        detail: Detail::Full,
    });
    send_pending(webhook, input)
}

/// Whether there is something that the receiver doesn't know.
fn is_news(webhook: &WebhookState<'_>) -> bool {
    webhook.status.alerts.iter().any(|alert| is_new(webhook, alert))
        || webhook.status.storm.as_ref().is_some_and(|storm| storm::is_due(webhook, storm))
}

fn is_new(webhook: &WebhookState<'_>, alert: &AlertStatus) -> bool {
    match alert.phase {
        AlertPhase::Queued => true,
        AlertPhase::Firing => webhook.policy.send_resolved && webhook.is_over(alert),
        AlertPhase::Announcing | AlertPhase::Resolving | AlertPhase::Resolved => false,
    }
}

fn mark_news(webhook: &mut WebhookState<'_>) {
    let mut news: Vec<AlertStatus> =
        webhook.status.alerts.iter().filter(|alert| is_new(webhook, alert)).cloned().collect();
    // What begins comes before what ends, the oldest first.
    news.sort_by(|a, b| {
        (a.phase != AlertPhase::Queued, a.since.0, &a.key).cmp(&(b.phase != AlertPhase::Queued, b.since.0, &b.key))
    });
    let storm_is_due = webhook.status.storm.as_ref().is_some_and(|storm| storm::is_due(webhook, storm));
    if webhook.policy.pace.single {
        news.truncate(1);
        let begins = news.first().is_some_and(|alert| alert.phase == AlertPhase::Queued);
        if storm_is_due && !begins {
            storm::mark(webhook);
            return;
        }
    } else if storm_is_due || webhook.status.storm.as_ref().is_some_and(|storm| storm::has_changed(webhook, storm)) {
        // A message that goes out anyway tells the present number.
        storm::mark(webhook);
    }
    for alert in webhook.status.alerts.iter_mut().filter(|alert| news.iter().any(|new| new.key == alert.key)) {
        let begins = alert.phase == AlertPhase::Queued;
        alert.phase = if begins { AlertPhase::Announcing } else { AlertPhase::Resolving };
    }
}

/// A message for a group tells all that goes on; one for a single incident must say for which.
fn mark_repeat(webhook: &mut WebhookState<'_>) {
    if !webhook.policy.pace.single {
        return;
    }
    let oldest = webhook.status.alerts.iter_mut().filter(|alert| goes_on(alert)).min_by_key(|alert| sent_at(alert));
    let storm = webhook.status.storm.as_ref().filter(|storm| storm.gone_since.is_none());
    let storm_sent = storm.and_then(|storm| storm.sent_at.as_ref()).map(|at| at.0);
    match oldest {
        Some(alert) if storm_sent.is_none_or(|storm| sent_at(alert).is_some_and(|alert| alert <= storm)) => {
            alert.phase = AlertPhase::Announcing;
        }
        _ => storm::mark(webhook),
    }
}

fn sent_at(alert: &AlertStatus) -> Option<Timestamp> {
    alert.sent_at.as_ref().map(|at| at.0)
}

fn send_pending(webhook: &mut WebhookState<'_>, input: &PlanInput<'_>) -> Option<Notification> {
    if webhook.status.storm.as_ref().is_some_and(|storm| storm.phase == AlertPhase::Announcing) {
        storm::mark(webhook);
    }
    // What the message is about may have got longer since it was decided on.
    keep_what_fits(webhook);
    let pending = webhook.status.pending.as_mut()?;
    pending.attempts = pending.attempts.saturating_add(1);
    // A crash before this attempt's outcome is stored must not be taken for "was never sent". What a
    // crash left open stays open.
    pending.maybe_delivered |= pending.in_flight;
    pending.in_flight = true;
    let (id, kind, created, detail) = (pending.id.clone(), pending.kind, pending.created.0, pending.detail);
    Some(message(webhook, input, Envelope { id, kind, created, detail }))
}

/// Notes when the state may change by itself.
fn look_again(webhook: &WebhookState<'_>, clock: &mut Clock) {
    let active =
        |key: &str| webhook.status.alerts.iter().any(|alert| alert.key == key && alert.phase != AlertPhase::Resolved);
    let young = webhook
        .present
        .values()
        .filter_map(|incident| webhook.policy.ripe_at(incident, webhook.now).map(|at| (incident, at)));
    for (incident, ripe) in young {
        if ripe > webhook.now && !active(&incident.key) {
            clock.has_come(Some(ripe));
        }
    }
    for alert in &webhook.status.alerts {
        let (since, long) = match alert.phase {
            AlertPhase::Resolved => (alert.sent_at.as_ref(), webhook.policy.pace.memory),
            _ => (alert.gone_since.as_ref(), webhook.hold(alert)),
        };
        clock.has_come(will_have_been(since, long));
    }
    if let Some(storm) = &webhook.status.storm {
        clock.has_come(storm::due_at(webhook, storm));
    }
}
