//! Resolved alerts in the status: how long they stay, and what happens when their incidents return.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;

use super::{BYTES, Simulation, kibibyte_key, played};
use orchestr::api::{AlertPhase, WebhookFormat};

fn resolved(format: WebhookFormat) -> Simulation {
    let sim = played(format, "+1 60s -1 60s");
    assert_eq!(sim.stored.alerts[0].phase, AlertPhase::Resolved);
    sim
}

#[test]
fn keeps_the_end_of_a_resolved_alert_when_its_incident_returns() {
    let mut sim = resolved(WebhookFormat::Alertmanager);
    sim.policy.after = Duration::from_secs(3_600);
    sim.start(1);
    sim.advance(600);
    let ends: Vec<Option<Timestamp>> =
        sim.sent.iter().flat_map(|message| &message.resolved).map(|alert| alert.resolved_at).collect();
    assert!(ends.len() > 3, "a resolved alert is sent for five minutes: {ends:?}");
    assert_eq!(BTreeSet::from_iter(ends), BTreeSet::from([Some("2026-07-01T10:01:00Z".parse().unwrap())]));
}

#[test]
fn keeps_resolved_alerts_for_15_minutes() {
    let mut sim = resolved(WebhookFormat::Slack);
    let sent_at = sim.stored.alerts[0].sent_at.as_ref().unwrap().0;
    let wake = sim.run().unwrap();
    assert_eq!(wake.duration_since(sent_at).as_secs(), 15 * 60);
    sim.now = wake;
    sim.run();
    assert!(sim.stored.alerts.is_empty());
}

#[test]
fn evicts_the_oldest_resolved_alerts_when_the_status_is_full() {
    // Long names reach the limit of bytes, which has space for 64 alerts, and short ones that of 100 alerts.
    for (format, name, batch, left) in [
        (WebhookFormat::Alertmanager, kibibyte_key as fn(&str) -> String, 40, 24),
        (WebhookFormat::Slack, str::to_owned, 60, 40),
    ] {
        let mut sim = Simulation::new(format);
        let name = |kind: &str, number: usize| name(&format!("{kind}{number:03}"));
        for kind in ["a", "b"] {
            sim.active = (0..batch).map(|number| (name(kind, number), sim.now)).collect();
            sim.advance(90);
            sim.active.clear();
            sim.advance(90);
        }
        sim.active = (0..batch).map(|number| (name("c", number), sim.now)).collect();
        sim.advance(90);
        let length = serde_json::to_string(&sim.stored.alerts).unwrap().len();
        assert!(length <= BYTES && sim.stored.alerts.len() <= sim.policy.pacing.max_incidents, "{format:?}");
        let count = |kind: &str| sim.stored.alerts.iter().filter(|alert| alert.key.starts_with(kind)).count();
        assert_eq!(["a", "b", "c"].map(count), [0, left, batch], "{format:?}: the oldest resolved alerts are evicted");
        assert!(sim.stored.storm.is_none(), "{format:?}");
    }
}

#[test]
fn sends_a_storm_that_returns_to_a_new_receiver() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.policy.pacing.max_incidents = 2;
    sim.play("+s0..10 100s");
    let incidents = std::mem::take(&mut sim.active);
    sim.play("10s receiver 10s");
    sim.active = incidents;
    sim.play("100s");
    assert!(sim.book(1).contains("storm=8"), "{}", sim.book(1));
}
