//! Guarantees of docs/alerts.md: when incidents resolve, what a changed receiver is sent, and what happens while the
//! current incidents are unknown.

use std::time::Duration;

use super::{Simulation, key, played, webhook};
use orchestr::{
    alerts::{IncidentMemory, NotificationPolicy},
    api::{Match, WebhookFormat},
};

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
fn an_alert_lasts_while_a_pod_of_its_namespace_is_unclear() {
    for format in [WebhookFormat::Generic, WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager]
    {
        let mut sim = played(format, "+1 60s");
        sim.unclear.insert(key(1));
        sim.play("-1 1000s");
        assert_eq!(sim.book(0), "30 +1", "{format:?}");
        sim.unclear.clear();
        sim.play("60s");
        assert_eq!(sim.said(1), "-1", "{format:?}");
    }
}

#[test]
fn keeps_alerts_firing_for_30_s_and_for_5_minutes_at_most() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.policy.after = Duration::from_secs(600);
    sim.play("+1 700s -1 100s");
    assert_eq!(sim.book(0), "600 +1 | 730 -1", "`after` delays the start only");
    let sim = played(WebhookFormat::PagerDuty, &("+1 40s -1 20s ".repeat(30) + "+1 40s -1 400s"));
    assert_eq!(sim.book(0), "30 +1 | 2140 -1", "a flapping incident keeps firing longer");
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
fn counts_incidents_that_end_while_the_webhook_is_unusable() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.usable = false;
    sim.play("+1 60s");
    assert!(sim.stored.next_attempt.is_none() && sim.stored.failures == 0, "nothing was tried");
    sim.play("-1 10m +2 60s");
    assert_eq!((sim.attempts.len(), sim.stored.dropped), (0, 1));
    sim.usable = true;
    sim.play("secret 1s");
    assert_eq!(sim.said(0), "+2");
}

#[test]
fn sends_firing_alerts_to_a_new_receiver() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Generic] {
        let mut sim = played(format, "+1 +2 5m");
        let before = sim.book.len();
        // A new version of the Secret is not a new receiver.
        sim.play("-2 10s secret 10s");
        assert_eq!(sim.book.len(), before, "{format:?}");
        sim.play("receiver 60s");
        let said = sim.said(before);
        assert_eq!(said.replace(" | ", " "), "+1 -2", "{format:?}");
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
fn continues_to_match_an_incident_whose_reason_changes() {
    for after in [0, 60] {
        let mut spec = webhook(WebhookFormat::Slack);
        spec.match_ = Some(Match { reasons: Some(vec!["Error".to_owned()]), ..Match::default() });
        let mut sim = Simulation::new(WebhookFormat::Slack);
        sim.policy = NotificationPolicy::new(0, &spec).unwrap();
        sim.policy.after = Duration::from_secs(after);
        sim.play("+1 1:Error 10s 1:OOMKilled 10m");
        // Also after a restart of the operator, when only the status is known.
        sim.memory = IncidentMemory::default();
        sim.play("10m");
        assert_eq!(sim.said(0), "+1", "after {after} s");
        sim.play("-1 60s");
        assert_eq!(sim.said(0), "+1 | -1");
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
