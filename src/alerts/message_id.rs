//! The IDs of messages: unique, or, if their state cannot be stored, such that they follow from the alerts. Pure.

use ring::digest::{Context, SHA256};

use super::{Source, input::PlanInput, notification::Notification, webhook_state::WebhookState};
use crate::{
    api::{AlertPhase, AlertStatus, MessageKind, StormStatus, WebhookStatus},
    hex::hex,
};

/// A unique ID of a new message. It depends on the kind, because two messages of different kinds may be built at the
/// same time.
pub(super) fn new_id(webhook: &WebhookState<'_>, input: &PlanInput<'_>, kind: MessageKind) -> String {
    let nanoseconds = webhook.now.as_nanosecond().to_string();
    let alerts = webhook.status.alerts.iter().map(|alert| format!("{} {}", alert.key, alert.phase as u8));
    digest(kind, input.source, [input.policy.name.clone(), nanoseconds].into_iter().chain(alerts))
}

/// Gives a new message an ID that follows from its alerts. A restarted operator finds no trace of the message. If it
/// plans the same one, the receiver recognizes it by this ID. It may group the incidents in other messages, which have
/// other IDs, and it does not send the end of an incident that has ended in the meantime.
///
/// `previous` and `state` are those before and after the plan of the message.
pub(super) fn name_unstored(
    previous: &WebhookStatus,
    state: &mut WebhookStatus,
    message: Option<&mut Notification>,
    source: &Source,
) {
    let (Some(pending), Some(message)) = (&state.pending, message) else { return };
    // A retry keeps the ID of the first attempt.
    if previous.pending.as_ref().is_some_and(|known| known.id == pending.id) {
        return;
    }
    let id = id(state, pending.kind, source);
    message.id.clone_from(&id);
    state.pending.iter_mut().for_each(|pending| pending.id.clone_from(&id));
}

fn id(state: &WebhookStatus, kind: MessageKind, source: &Source) -> String {
    let mut parts: Vec<String> = state
        .alerts
        .iter()
        .filter(|alert| is_part(kind, alert.phase))
        .map(|alert| alert_part(kind, alert, &state.alerts))
        .collect();
    parts.extend(state.storm.as_ref().filter(|storm| is_part(kind, storm.phase)).map(|storm| storm_part(kind, storm)));
    parts.sort_unstable();
    digest(kind, source, [state.name.clone(), state.receiver.clone()].into_iter().chain(parts))
}

fn digest(kind: MessageKind, source: &Source, parts: impl Iterator<Item = String>) -> String {
    let mut hash = Context::new(&SHA256);
    hash.update(&[kind as u8]);
    let object = [&source.uid, &source.object.namespace, &source.object.name].map(String::clone);
    for part in object.into_iter().chain(parts) {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    hex(&hash.finish().as_ref()[..16])
}

fn is_part(kind: MessageKind, phase: AlertPhase) -> bool {
    match phase {
        AlertPhase::Announcing | AlertPhase::Resolving => true,
        // A repetition for a group marks no alerts.
        AlertPhase::Firing => kind == MessageKind::Repeat,
        AlertPhase::Queued | AlertPhase::Resolved => false,
    }
}

fn alert_part(kind: MessageKind, alert: &AlertStatus, all: &[AlertStatus]) -> String {
    let AlertStatus { key, phase, since, sent_at, .. } = alert;
    // Each repetition has an ID of its own.
    let repeated = sent_at.as_ref().filter(|_| kind == MessageKind::Repeat);
    // An incident that ended and came back with the same start is announced again.
    let ended = all.iter().find(|earlier| earlier.phase == AlertPhase::Resolved && earlier.key == *key);
    let ended = ended.and_then(|earlier| earlier.sent_at.as_ref());
    let times = [Some(since), repeated, ended].map(|time| time.map(|time| time.0.as_second()));
    format!("{key} {} {times:?}", *phase as u8)
}

fn storm_part(kind: MessageKind, storm: &StormStatus) -> String {
    let StormStatus { phase, since, count, members, sent_at, .. } = storm;
    let repeated = sent_at.as_ref().filter(|_| kind == MessageKind::Repeat);
    let times = [Some(since), repeated].map(|time| time.map(|time| time.0.as_second()));
    format!("storm {} {count} {members} {times:?}", *phase as u8)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::api::NamespacedName;

    /// The ID of a message about alerts with these keys, phases and beginnings, which was planned as `planned`.
    fn named(planned: &str, kind: &str, previous: &WebhookStatus, alerts: &[(&str, &str, i64)]) -> String {
        let time = |seconds: i64| Timestamp::from_second(seconds).unwrap().to_string();
        let alerts: Vec<_> = alerts
            .iter()
            .map(|(key, phase, since)| {
                json!({
                    "key": key, "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"}, "reason": "Error",
                    "since": time(*since), "phase": phase, "sentAt": time(*since + 60),
                })
            })
            .collect();
        let pending = json!({"id": planned, "kind": kind, "created": time(1_000), "attempts": 1});
        let status = json!({"name": "ops", "receiver": "r", "pending": pending, "alerts": alerts});
        let mut state: WebhookStatus = serde_json::from_value(status).unwrap();
        let source = Source::from(NamespacedName::new("shop", "cluster"));
        let mut message =
            Notification::test(planned.to_owned(), source.clone(), "ops".to_owned(), Timestamp::UNIX_EPOCH);
        name_unstored(previous, &mut state, Some(&mut message), &source);
        assert_eq!(Some(&message.id), state.pending.as_ref().map(|pending| &pending.id));
        message.id
    }

    #[test]
    fn an_id_follows_from_key_phase_and_start() {
        let id = |planned: &str, alerts: &[_]| named(planned, "Firing", &WebhookStatus::default(), alerts);
        let first = id("planned-now", &[("a", "Announcing", 10), ("b", "Announcing", 20), ("c", "Firing", 30)]);
        assert_eq!(first.len(), 32);
        let same = id("planned-later", &[("b", "Announcing", 20), ("a", "Announcing", 10), ("d", "Queued", 50)]);
        assert_eq!(same, first, "after a restart, which does not know of c yet");
        for other in [
            &[("a", "Announcing", 10)][..],
            &[("a", "Announcing", 11), ("b", "Announcing", 20)],
            &[("a", "Resolving", 10), ("b", "Announcing", 20)],
            &[("a", "Announcing", 10), ("b", "Announcing", 20), ("a", "Resolved", 10)],
        ] {
            assert_ne!(id("planned-now", other), first, "{other:?}");
        }
    }

    #[test]
    fn each_repetition_has_an_id_of_its_own() {
        let id = |since| named("planned", "Repeat", &WebhookStatus::default(), &[("a", "Firing", since)]);
        assert_eq!(id(10), id(10));
        assert_ne!(id(10), id(20));
    }

    #[test]
    fn a_retry_keeps_its_id() {
        let stored: WebhookStatus = serde_json::from_value(json!({
            "name": "ops",
            "pending": {"id": "stored", "kind": "Firing", "created": "2026-07-01T10:00:00Z", "attempts": 1},
        }))
        .unwrap();
        assert_eq!(named("stored", "Firing", &stored, &[("a", "Announcing", 10)]), "stored");
        assert_ne!(named("other", "Firing", &stored, &[("a", "Announcing", 10)]), "other");
    }
}
