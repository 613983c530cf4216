//! Stored states that are repaired: edited ones, ones with future times, and ones that a crash left behind.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;

use super::{Simulation, played};
use orchestr::api::{MessageKind, WebhookFormat};

/// A state with two firing alerts and a storm, with one field replaced.
fn with_field(pointer: &str, time: Timestamp) -> Simulation {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.policy.pacing.max_incidents = 2;
    sim.play("+s0..10 5m");
    let mut state = serde_json::to_value(&sim.stored).unwrap();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    state.pointer_mut(parent).unwrap()[field] = serde_json::to_value(time).unwrap();
    sim.stored = serde_json::from_value(state).unwrap();
    sim
}

#[test]
fn limits_future_times_of_the_stored_state() {
    let now: Timestamp = "2026-07-01T10:05:00Z".parse().unwrap();
    let after = |seconds: i64| Timestamp::from_second(now.as_second() + seconds).unwrap();
    for (pointer, limit) in
        [("/nextAttempt", after(3_600)), ("/lastSuccess", now), ("/alerts/0/sentAt", now), ("/storm/sentAt", now)]
    {
        for (stored, expected) in [(after(50 * 3_600), limit), (limit, limit)] {
            let mut sim = with_field(pointer, stored);
            assert_eq!(sim.now, now);
            let state = serde_json::to_value(sim.step().state).unwrap();
            let time = |value: &serde_json::Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
            assert_eq!(time(state.pointer(pointer).unwrap()), expected, "{pointer}");
        }
    }
    // A future time of an incident's end is replaced by the present.
    for pointer in ["/alerts/0/goneSince", "/storm/goneSince"] {
        let mut sim = with_field(pointer, after(50 * 3_600));
        sim.active.clear();
        sim.advance(600);
        assert!(sim.sent.iter().any(|message| !message.resolved.is_empty()), "{pointer}");
        assert!(sim.stored.storm.is_none(), "{pointer}: {:?}", sim.stored);
        let alerts = &sim.stored.alerts;
        assert!(alerts.iter().all(|alert| alert.gone_since.as_ref().is_some_and(|at| at.0 == now)), "{alerts:?}");
    }
}

#[test]
fn a_failed_message_leaves_an_uncertain_one_uncertain() {
    // The operator crashes before it sends the message about the second incident. After the restart, it first sends the
    // alerts of Alertmanager again, which fails.
    let mut sim = played(WebhookFormat::Alertmanager, "+1 35s Unreachable crash@sending +2 30s");
    assert!(sim.stored.last_error.is_some());
    assert!(sim.stored.pending.as_ref().unwrap().in_flight, "{:?}", sim.stored.pending);
    sim.play("-2 10m");
    assert_eq!(sim.stored.dropped, 0, "its start may have been delivered, so its end must be");
}

#[test]
fn records_that_alertmanager_recovered() {
    let mut sim = played(WebhookFormat::Alertmanager, "+1 60s");
    let success = sim.stored.last_success.clone();
    sim.play("Fails 2m");
    assert!(sim.stored.last_error.is_some() && sim.stored.failures > 0);
    assert_eq!(sim.stored.last_success, success);
    sim.play("Accepts 2m");
    assert!(sim.stored.last_error.is_none() && sim.stored.failures == 0);
    assert_ne!(sim.stored.last_success, success);
}

/// Another version may have phases, kinds of messages and details that this one does not know.
#[test]
fn sends_the_end_of_what_another_version_has_sent() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.policy.pacing.max_incidents = 2;
        sim.play("+s0..10 5m");
        let mut state = serde_json::to_value(&sim.stored).unwrap();
        for alert in state["alerts"].as_array_mut().unwrap() {
            (alert["phase"], alert["severity"]) = (json!("Newer"), json!("newer"));
        }
        (state["storm"]["phase"], state["storm"]["severity"]) = (json!("Newer"), json!("newer"));
        state["pending"] = json!({
            "id": "p", "kind": "Newer", "created": sim.now, "attempts": 1, "inFlight": true, "detail": "Newer",
        });
        sim.stored = serde_json::from_value(state).unwrap();
        let before = sim.sent.len();
        sim.advance(60);
        let began = sim.sent[before..].iter().filter(|message| message.kind == MessageKind::Firing).count();
        assert_eq!(began, 0, "{format:?}: nothing began");
        sim.active.clear();
        sim.advance(3_600);
        let ended: BTreeSet<&str> =
            sim.sent[before..].iter().flat_map(|message| &message.resolved).map(|alert| alert.key.as_str()).collect();
        assert_eq!(ended.len(), 2, "{format:?}");
        assert!(sim.stored.storm.is_none(), "{format:?}: {:?}", sim.stored.storm);
    }
}
