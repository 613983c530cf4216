//! Updates a webhook's status with the outcome of an attempt.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    lifecycle::{Circumstances, Event},
    notification::{Alert, Notification},
    refusal,
    retry::{self, AttemptOutcome, RetryDecision},
    sanitize, thread,
    times::{later, whole_seconds},
};
use crate::api::{AlertPhase, DeliveryError, Mention, MessageKind, Severity, WebhookStatus};

/// The limit of an error message, in UTF-16 code units.
const ERROR_LIMIT: usize = 320;
/// The most namespaces that are stored with their last mention. Beyond them, the oldest is forgotten, so that too many
/// namespaces cause further mentions instead of none.
const MENTIONED: usize = 8;

/// Returns the status after an attempt to send a message.
///
/// `state` is that of the [step](super::Step) with the message, `random` is from 0 to 1.
#[must_use]
pub fn record(
    state: &WebhookStatus,
    sent: &Notification,
    outcome: &AttemptOutcome,
    now: Timestamp,
    random: f64,
) -> WebhookStatus {
    let mut state = state.clone();
    let count = |failures: i64| u32::try_from(failures).unwrap_or(u32::MAX);
    state.refusals = if outcome.is_refusal() { state.refusals.saturating_add(1) } else { 0 };
    let failures = state.failures.saturating_add(1);
    let decision = retry::decide(outcome, count(failures), count(state.refusals), now, random);
    if decision == RetryDecision::Delivered {
        on_delivered(&mut state, sent, now);
        return state;
    }
    // The IDs differ if a resend failed: the pending message is not affected.
    if let Some(pending) = state.pending.as_mut().filter(|pending| pending.id == sent.id) {
        pending.in_flight = false;
        pending.maybe_delivered |= outcome.is_uncertain();
    }
    state.last_error = Some(DeliveryError {
        time: whole_seconds(now),
        message: sanitize::single_line(&outcome.description(), ERROR_LIMIT),
    });
    let next_attempt = match decision {
        RetryDecision::Reduce { at, .. }
            if thread::leave(&mut state, sent) || refusal::reduce(&mut state, sent, now) =>
        {
            state.next_attempt = Some(round_up(at));
            return state;
        }
        RetryDecision::Reduce { same_at: at, .. } | RetryDecision::Retry { at } => Some(at),
        RetryDecision::Stop | RetryDecision::Delivered => None,
    };
    state.failures = i64::from(count(failures));
    state.next_attempt = next_attempt.map(round_up);
    state.stopped |= decision == RetryDecision::Stop;
    state
}

fn on_delivered(state: &mut WebhookStatus, sent: &Notification, now: Timestamp) {
    let recovered = state.last_error.is_some();
    state.failures = 0;
    state.next_attempt = None;
    state.last_error = None;
    // Alertmanager is sent a message every minute, which must not cause a status write every minute.
    if sent.kind != MessageKind::Resend || recovered {
        state.last_success = Some(whole_seconds(now));
    }
    let is_part = state.part_size > 0;
    refusal::on_accepted(state, sent, now);
    if sent.kind == MessageKind::Resend {
        return;
    }
    state.pending = None;
    if let Some(muted) = &mut state.muted {
        let reported = i64::try_from(sent.ended_while_muted).unwrap_or(i64::MAX);
        muted.ended = muted.ended.saturating_sub(reported).max(0);
    }
    state.muted.take_if(|muted| muted.is_empty());
    keep_held_back(state, sent);
    // A repetition counts the firing alerts that it has no space to name: they are repeated too.
    let repeats_all = sent.kind == MessageKind::Repeat && sent.omitted > 0 && !is_part;
    let at = Circumstances { now, maybe_delivered: false };
    for alert in state.alerts_and_storm_mut() {
        let named = |alerts: &[Alert]| alerts.iter().any(|named| named.key == alert.key);
        let is_sent = match alert.phase {
            AlertPhase::Queued | AlertPhase::Resolved => false,
            _ if alert.overflow.is_some() => sent.storm.is_some(),
            AlertPhase::Announcing => named(&sent.started),
            AlertPhase::Resolving => named(&sent.resolved),
            AlertPhase::Firing => {
                let is_repeated = alert.refused_at.is_none() && (alert.sent_at.is_some() || !alert.began_elsewhere);
                // Of what an answer in a thread lists, the channel was not sent anything.
                repeats_all && is_repeated || sent.thread.is_none() && named(&sent.ongoing)
            }
        };
        if is_sent {
            alert.on(Event::Accepted, at);
        }
    }
    state.storm.take_if(|storm| storm.phase == AlertPhase::Resolved);
    record_mentions(state, sent, now);
}

/// Keeps what the message said about incidents that were held back with the alert that said it.
fn keep_held_back(state: &mut WebhookStatus, sent: &Notification) {
    /// So that the number takes a bounded part of the space of an alert.
    const MOST: u64 = 999_999;
    let number = |held_back: u64| i64::try_from(held_back.min(MOST)).unwrap_or_default();
    for named in sent.started.iter().chain(&sent.resolved).chain(&sent.ongoing).filter(|named| named.held_back > 0) {
        let alerts = state.alerts.iter_mut().filter(|alert| alert.key == named.key);
        alerts.for_each(|alert| alert.held_back = number(named.held_back));
    }
    if let (Some(storm), Some(named)) = (&mut state.storm, &sent.storm) {
        storm.held_back = number(named.held_back);
    }
}

/// Stores the namespaces whose incidents the message announced with a mention, or as critical incidents of a storm.
fn record_mentions(state: &mut WebhookStatus, sent: &Notification, now: Timestamp) {
    if sent.kind != MessageKind::Firing {
        return;
    }
    let mentioned = sent.started.iter().filter(|_| !sent.mentions.is_empty());
    let mentioned = mentioned.map(|alert| (alert.counted_in(), alert.severity));
    let critical = sent.storm.iter().flat_map(|storm| &storm.critical);
    for (namespace, severity) in mentioned.chain(critical.map(|namespace| (namespace.as_str(), Severity::Critical))) {
        // The more severe incident was the reason of the mention.
        if state.mentioned.iter().any(|own| own.namespace == namespace && own.severity > severity) {
            continue;
        }
        state.mentioned.retain(|own| own.namespace != namespace);
        state.mentioned.push(Mention { namespace: namespace.to_owned(), severity, at: whole_seconds(now) });
    }
    let excess = state.mentioned.len().saturating_sub(MENTIONED);
    state.mentioned.drain(..excess);
}

/// Rounds up to a second, so that the wait is not shorter than what the receiver asked for.
fn round_up(at: Timestamp) -> Time {
    let floor = whole_seconds(at);
    if floor.0 == at { floor } else { Time(later(floor.0, std::time::Duration::from_secs(1)).unwrap_or(at)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        alerts::{Incident, Storm},
        api::NamespacedName,
    };

    fn message(now: Timestamp) -> Notification {
        let object = NamespacedName { namespace: "shop".to_owned(), name: "cluster".to_owned() };
        Notification::test("id".to_owned(), object, "ops".to_owned(), now)
    }

    fn delivered(sent: Notification, state: &serde_json::Value) -> WebhookStatus {
        let state: WebhookStatus = serde_json::from_value(state.clone()).unwrap();
        let now = sent.now;
        record(&state, &sent, &AttemptOutcome::Answered { status: 200, retry_after: None }, now, 0.5)
    }

    #[test]
    fn marks_what_the_delivered_message_names() {
        use AlertPhase::{Announcing, Firing, Queued, Resolved, Resolving};
        let now: Timestamp = "2026-07-01T10:00:00Z".parse().unwrap();
        let named = |keys: &[&str]| -> Vec<Alert> {
            let incident = |key: &&str| Incident { key: (*key).into(), ..Incident::default() };
            keys.iter().map(|key| Alert { incident: incident(key), ..Alert::default() }).collect()
        };
        for (kind, omitted, thread, repeats_all) in [
            (MessageKind::Repeat, 2, None, true),
            (MessageKind::Repeat, 0, None, false),
            (MessageKind::Firing, 2, None, false),
            (MessageKind::Resolved, 0, None, false),
            // The channel does not see what an answer in a thread lists.
            (MessageKind::Resolved, 0, Some("1.2"), false),
        ] {
            let (started, resolved, ongoing) = (named(&["b", "f"]), named(&["d"]), named(&["e"]));
            let is_repeated = thread.is_none();
            let thread = thread.map(str::to_owned);
            let sent = Notification { kind, omitted, started, resolved, ongoing, thread, ..message(now) };
            // Each alert's phase, the phase that follows, and whether the alert counts as sent.
            let alerts = [
                ("a", Announcing, Announcing, false),
                ("b", Announcing, Firing, true),
                ("c", Resolving, Resolving, false),
                ("d", Resolving, Resolved, true),
                ("e", Firing, Firing, is_repeated),
                ("f", Queued, Queued, false),
                ("g", Firing, Firing, repeats_all),
            ];
            let alert = |(key, phase, ..): (&str, _, _, _)| {
                json!({
                    "key": key, "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"}, "container": "",
                    "kind": "Crash", "reason": "Error", "since": now, "phase": phase,
                })
            };
            let recorded = delivered(sent, &json!({"name": "ops", "alerts": alerts.map(alert)}));
            for (alert, (key, _, phase, sent)) in recorded.alerts.iter().zip(alerts) {
                assert_eq!((alert.phase, alert.sent_at.is_some()), (phase, sent), "{key} after {kind:?}");
            }
        }
        for (phase, included, expected) in [
            (Queued, false, Some((Queued, false))),
            (Announcing, false, Some((Announcing, false))),
            (Announcing, true, Some((Firing, true))),
            (Firing, false, Some((Firing, false))),
            (Firing, true, Some((Firing, true))),
            (Resolving, true, None),
        ] {
            let storm = included.then(|| Storm { count: 3, since: now, ..Storm::default() });
            let sent = Notification { kind: MessageKind::Firing, storm, ..message(now) };
            let storm = json!({"since": now, "count": 3, "members": "", "phase": phase});
            let recorded = delivered(sent, &json!({"name": "ops", "storm": storm})).storm;
            assert_eq!(recorded.map(|storm| (storm.phase, storm.sent_at.is_some())), expected, "{phase:?} {included}");
        }
    }

    #[test]
    fn waits_at_least_as_long_as_retry_after_asks() {
        let outcome = AttemptOutcome::Answered { status: 429, retry_after: Some(std::time::Duration::from_secs(90)) };
        for (now, next) in [("10:00:00.9", "10:01:31"), ("10:00:00", "10:01:30")] {
            let now = format!("2026-07-01T{now}Z").parse().unwrap();
            let state = record(&WebhookStatus::default(), &message(now), &outcome, now, 0.5);
            assert_eq!(state.next_attempt.unwrap().0.to_string(), format!("2026-07-01T{next}Z"));
            assert_eq!(state.last_error.unwrap().time.0.to_string(), "2026-07-01T10:00:00Z");
        }
    }
}
