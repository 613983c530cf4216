//! Guarantees of docs/alerts.md: when incidents resolve, what a changed receiver is sent, and what happens while the
//! current incidents are unknown.

use std::time::Duration;

use super::{Simulation, played};
use orchestr::api::WebhookFormat;

#[test]
fn resolves_incidents_of_deleted_owners_within_seconds() {
    for format in [WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut sim = played(format, &("+1 40s -1 20s ".repeat(8) + "+1 40s"));
        let before = sim.now;
        sim.play("x1 0s 10s");
        let end = sim.attempts.iter().rev().find(|attempt| !attempt.resolved.is_empty()).unwrap();
        assert!(end.at.duration_since(before).as_secs() <= 7, "{format:?}: {:?}", end.at.duration_since(before));
    }
}

#[test]
fn keeps_alerts_alive_while_incidents_are_unknown() {
    for usable in [true, false] {
        let mut sim = Simulation::new(WebhookFormat::Alertmanager);
        sim.start(1);
        sim.advance(100);
        let before = sim.sent.len();
        sim.play("unknown .");
        sim.usable = usable;
        sim.advance(20 * 60);
        let resent: Vec<_> = sim.sent[before..].iter().collect();
        assert!(resent.len() >= 19, "{} messages in 20 minutes", resent.len());
        assert!(resent.iter().all(|sent| sent.ongoing.len() == 1 && sent.resolved.is_empty()), "{resent:?}");
        // A restarted operator continues from the stored status before it knows the incidents.
        sim.last_sent = None;
        let before = sim.sent.len();
        sim.advance(1);
        assert_eq!(sim.sent.len(), before + 1);
    }
}

#[test]
fn retries_404_within_a_minute_and_then_every_two_minutes() {
    let mut sim = played(WebhookFormat::Slack, "Fails +1 100s AnswersNotFound");
    let failures = sim.attempts.len();
    while sim.attempts.len() == failures {
        sim.advance(1);
    }
    sim.play("Accepts 30s");
    assert_eq!(sim.said(0), "+1", "one 404 after other failures");
    assert_eq!((sim.stored.failures, sim.stored.refusals), (0, 0));

    let mut sim = played(WebhookFormat::Slack, "AnswersNotFound +1 90s");
    assert_eq!(sim.attempts.len(), 3, "three attempts within a minute");
    sim.play("59s");
    assert_eq!(sim.attempts.len(), 3, "then every minute or two");
    sim.play("60s");
    assert_eq!(sim.attempts.len(), 4);
}

#[test]
fn counts_what_ends_while_waiting_for_space() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    // The names are so long that they need several messages.
    sim.policy.pacing.group_interval = Duration::from_secs(60);
    sim.active = (0..80).map(|number| (format!("{}{number:03}", "x".repeat(240)), sim.now)).collect();
    sim.advance(31);
    sim.active.clear();
    sim.advance(3_600);
    let started: usize = sim.sent.iter().map(|message| message.started.len()).sum();
    assert!((10..80).contains(&started), "{started}");
    assert_eq!(sim.stored.dropped, 80 - started as i64);
}

#[test]
fn ignores_stopped_in_an_edited_status() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.stored.stopped = true;
    sim.play("+1 60s");
    assert_eq!(sim.said(0), "+1");
}

/// As if the state of messages could not be stored: after a restart, the same message has the same ID.
fn unstored(format: WebhookFormat, script: &str) -> Simulation {
    let mut sim = Simulation::new(format);
    sim.is_unstored = true;
    sim.play(script);
    sim
}

#[test]
fn an_id_follows_from_the_incidents_and_their_beginnings() {
    // Nothing was stored, so the new process sends what lasts again.
    let mut sim = unstored(WebhookFormat::Slack, "+1 +2 10m wiped .");
    assert_eq!((sim.attempts.len(), sim.ids().len()), (2, 1));
    // Others, or the same ones with other beginnings, or their ends, are another message.
    sim.play("-2 . wiped . -1 . 60s +1 +2 60s");
    assert_eq!((sim.attempts.len(), sim.ids().len()), (5, 4));
}

#[test]
fn an_incident_that_begins_again_has_another_id() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = unstored(format, "+1 60s");
        let begun = sim.active.clone();
        sim.play("-1 60s");
        // It came back with the same beginning, as one whose pod could not be seen for a while.
        sim.active = begun;
        sim.play("60s");
        assert_eq!(sim.ids().len(), 3, "{format:?}");
    }
}
