//! Repetitions: when lasting incidents are sent again, and what may happen meanwhile.

use std::time::Duration;

use super::{Simulation, played};
use orchestr::api::{MessageKind, WebhookFormat};

/// A receiver that is unreachable since it should have been sent a repetition.
fn failing(format: WebhookFormat) -> Simulation {
    let sim = played(format, "+1 1h Unreachable 60s");
    assert_eq!(sim.stored.pending.as_ref().map(|pending| pending.kind), Some(MessageKind::Repeat));
    sim
}

#[test]
fn repeats_nothing_if_the_interval_is_zero() {
    for (format, interval) in [(WebhookFormat::Slack, 0), (WebhookFormat::Alertmanager, 3_600)] {
        let mut sim = Simulation::new(format);
        sim.policy.repeat_every = Duration::from_secs(interval);
        sim.play("+1 3h");
        assert_eq!(sim.book(0), "30 +1", "{format:?}");
    }
}

#[test]
fn does_not_repeat_an_incident_that_is_gone() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        assert_eq!(played(format, "+1 3620s -1 10m").said(0), "+1 | -1", "{format:?}");
    }
}

#[test]
fn repeats_incidents_and_storm_once_each_hour_to_pagerduty() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.policy.pacing.max_incidents = 2;
    // The storm ends shortly before its second repetition.
    sim.play("+s0..6 7220s -s2..6 10m");
    let expected = [
        "30 +s0 | 32 +s1 | 34 storm=4",
        "3630 repeat +s0 | 3632 repeat +s1 | 3634 repeat storm=4",
        "7230 repeat +s0 | 7232 repeat +s1 | 7250 storm=0",
    ];
    assert_eq!(sim.book(0), expected.join(" | "));
}

#[test]
fn drops_a_repetition_whose_only_incident_ends_meanwhile() {
    let sim = played(WebhookFormat::PagerDuty, "+1 +2 1h Unreachable 60s -1 Accepts 25s");
    assert_eq!(sim.said(2), "repeat +2");
}

#[test]
fn repeats_no_silenced_incident_while_another_one_ends() {
    let sim = played(WebhookFormat::Slack, "+1 +2 1h Unreachable 60s silence:2:600 -1 Accepts 25s");
    assert_eq!(sim.said(0), "+1 +2");
}

#[test]
fn repeats_incidents_that_do_not_fit_with_the_others() {
    let sim = played(WebhookFormat::Slack, "+s0..100 3h");
    let repeats: Vec<_> = sim.sent.iter().filter(|sent| sent.kind == MessageKind::Repeat).collect();
    assert_eq!(repeats.len(), 2);
    for repeat in repeats {
        assert!(repeat.omitted > 0 && repeat.firing() == 100, "{} of {}", repeat.omitted, repeat.firing());
    }
}

#[test]
fn retries_a_repetition_with_the_same_id() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let sim = failing(format);
        assert!(sim.attempts.len() > 2 && sim.ids().len() == 2, "{format:?}: {:?}", sim.ids());
    }
}

#[test]
fn sends_the_end_instead_of_a_failing_repetition() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = failing(format);
        sim.play("-1 5m Accepts 10m");
        assert_eq!((sim.said(0).as_str(), sim.stored.dropped), ("+1 | -1", 0), "{format:?}");
    }
}

#[test]
fn sends_a_new_receiver_a_start_instead_of_a_repetition() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = failing(format);
        sim.play("Accepts receiver 60s");
        assert_eq!(sim.said(0), "+1 | +1", "{format:?}");
    }
}

#[test]
fn keeps_the_id_of_a_failing_message_for_a_new_receiver() {
    let sim = played(WebhookFormat::Slack, "Fails +1 60s receiver Accepts 10m");
    assert_eq!((sim.ids().len(), sim.said(0).as_str()), (1, "+1"));
}
