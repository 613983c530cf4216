//! Guarantees of docs/alerts.md: when incidents resolve, what a changed receiver is sent, and what happens while the
//! current incidents are unknown.

use std::time::Duration;

use super::{Behaviour, Event, Simulation, accepted, key, webhook};
use orchestr::{
    alerts::{IncidentMemory, NotificationPolicy},
    api::{Match, MessageKind, WebhookFormat},
};

#[test]
fn resolves_incidents_of_deleted_owners_within_seconds() {
    for format in [WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut sim = Simulation::new(format);
        for _ in 0..8 {
            sim.start(1);
            sim.advance(40);
            sim.end(1);
            sim.advance(20);
        }
        sim.start(1);
        sim.advance(40);
        let before = sim.now;
        sim.apply(&Event::Deleted(1));
        sim.advance(10);
        let end = sim.attempts.iter().rev().find(|attempt| !attempt.resolved.is_empty()).unwrap();
        assert!(end.at.duration_since(before).as_secs() <= 7, "{format:?}: {:?}", end.at.duration_since(before));
    }
}

#[test]
fn an_alert_lasts_while_a_pod_of_its_namespace_is_unclear() {
    for format in [WebhookFormat::Generic, WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager]
    {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.advance(60);
        sim.unclear.insert(key(1));
        sim.end(1);
        sim.advance(1_000);
        assert!(sim.attempts.iter().all(|attempt| attempt.resolved.is_empty()), "{format:?}");
        sim.unclear.clear();
        sim.advance(60);
        assert!(sim.attempts.iter().any(|attempt| !attempt.resolved.is_empty()), "{format:?}");
    }
}

#[test]
fn keeps_alerts_firing_for_30_s_and_for_5_minutes_at_most() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.policy.after = Duration::from_secs(600);
    sim.start(1);
    sim.advance(700);
    assert_eq!(accepted(&sim).len(), 1);
    let held = |sim: &mut Simulation| {
        let before = (sim.now, accepted(sim).len());
        sim.end(1);
        while accepted(sim).len() == before.1 {
            sim.advance(1);
        }
        sim.now.duration_since(before.0).as_secs()
    };
    assert_eq!(held(&mut sim), 30, "`after` delays the start only");

    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    for _ in 0..30 {
        sim.start(1);
        sim.advance(40);
        sim.end(1);
        sim.advance(20);
    }
    sim.start(1);
    sim.advance(40);
    assert_eq!(held(&mut sim), 300, "a flapping incident keeps firing longer");
}

#[test]
fn keeps_alerts_alive_while_incidents_are_unknown() {
    for usable in [true, false] {
        let mut sim = Simulation::new(WebhookFormat::Alertmanager);
        sim.start(1);
        sim.advance(100);
        let before = sim.sent.len();
        sim.apply(&Event::IncidentsKnown(false));
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
fn counts_incidents_that_end_while_the_webhook_is_unusable() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.usable = false;
    sim.start(1);
    sim.advance(60);
    assert!(sim.stored.next_attempt.is_none() && sim.stored.failures == 0, "nothing was tried");
    sim.end(1);
    sim.advance(600);
    sim.start(2);
    sim.advance(60);
    assert_eq!((sim.attempts.len(), sim.stored.dropped), (0, 1));
    sim.usable = true;
    sim.config += 1;
    sim.advance(1);
    assert_eq!(accepted(&sim).into_iter().map(|(_, _, started, _)| started).collect::<Vec<_>>(), [[key(2)]]);
}

#[test]
fn sends_firing_alerts_to_a_new_receiver() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Generic] {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.start(2);
        sim.advance(300);
        let before = sim.sent.len();
        sim.end(2);
        sim.advance(10);
        // A new version of the Secret is not a new receiver.
        sim.apply(&Event::SecretChanges);
        sim.advance(10);
        assert_eq!(sim.sent.len(), before, "{format:?}");
        sim.receiver_number += 1;
        sim.apply(&Event::SecretChanges);
        sim.advance(60);
        let started: Vec<_> =
            sim.sent[before..].iter().flat_map(|sent| &sent.started).map(|alert| &alert.key).collect();
        assert_eq!(started, [&key(1)], "{format:?}");
        let resolved: Vec<_> =
            sim.sent[before..].iter().flat_map(|sent| &sent.resolved).map(|alert| &alert.key).collect();
        assert_eq!(resolved, [&key(2)], "{format:?}");
    }
}

#[test]
fn retries_404_within_a_minute_and_then_every_two_minutes() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.receiver = Behaviour::Fails;
    sim.start(1);
    sim.advance(100);
    sim.receiver = Behaviour::AnswersNotFound;
    let failures = sim.attempts.len();
    while sim.attempts.len() == failures {
        sim.advance(1);
    }
    sim.receiver = Behaviour::Accepts;
    sim.advance(30);
    assert_eq!(accepted(&sim).len(), 1, "one 404 after other failures");
    assert_eq!((sim.stored.failures, sim.stored.refusals), (0, 0));

    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.receiver = Behaviour::AnswersNotFound;
    sim.start(1);
    sim.advance(30 + 60);
    assert_eq!(sim.attempts.len(), 3, "three attempts within a minute");
    sim.advance(59);
    assert_eq!(sim.attempts.len(), 3, "then every minute or two");
    sim.advance(60);
    assert_eq!(sim.attempts.len(), 4);
}

#[test]
fn continues_to_match_an_incident_whose_reason_changes() {
    for after in [0, 60] {
        let mut spec = webhook(WebhookFormat::Slack);
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        spec.match_ = Some(Match { reasons: texts(&["Error"]), ..Match::default() });
        let mut sim = Simulation::new(WebhookFormat::Slack);
        sim.policy = NotificationPolicy::new(0, &spec).unwrap();
        sim.policy.after = Duration::from_secs(after);
        sim.start(1);
        sim.apply(&Event::ReasonChanges(1, "Error"));
        sim.advance(10);
        sim.apply(&Event::ReasonChanges(1, "OOMKilled"));
        sim.advance(600);
        // Also after a restart of the operator, when only the status is known.
        sim.memory = IncidentMemory::default();
        sim.advance(600);
        let kinds: Vec<_> = accepted(&sim).into_iter().map(|(_, kind, ..)| kind).collect();
        assert_eq!(kinds, [MessageKind::Firing], "after {after} s");
        sim.end(1);
        sim.advance(60);
        assert_eq!(accepted(&sim).len(), 2);
    }
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
    let started: usize = accepted(&sim).iter().map(|(_, _, started, _)| started.len()).sum();
    assert!((10..80).contains(&started), "{started}");
    assert_eq!(sim.stored.dropped, 80 - started as i64);
}

#[test]
fn ignores_stopped_in_an_edited_status() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.stored.stopped = true;
    sim.start(1);
    sim.advance(60);
    assert_eq!(sim.sent.len(), 1);
}
