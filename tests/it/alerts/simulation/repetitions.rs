//! Repetitions: when lasting incidents are sent again, and what may happen meanwhile.

use std::{collections::BTreeSet, time::Duration};

use super::{Behaviour, Simulation, accepted, key};
use orchestr::api::{MessageKind, WebhookFormat};

fn kinds(sim: &Simulation) -> Vec<MessageKind> {
    accepted(sim).into_iter().map(|(_, kind, ..)| kind).collect()
}

/// A receiver that is unreachable since it should have been sent a repetition.
fn failing(format: WebhookFormat) -> Simulation {
    let mut sim = Simulation::new(format);
    sim.start(1);
    sim.advance(3_600);
    sim.receiver = Behaviour::Unreachable;
    sim.advance(60);
    assert_eq!(sim.stored.pending.as_ref().map(|pending| pending.kind), Some(MessageKind::Repeat));
    sim
}

#[test]
fn repeats_nothing_if_the_interval_is_zero() {
    for (format, interval) in [(WebhookFormat::Slack, 0), (WebhookFormat::Alertmanager, 3_600)] {
        let mut sim = Simulation::new(format);
        sim.policy.repeat_every = Duration::from_secs(interval);
        sim.start(1);
        sim.advance(3 * 3_600);
        assert!(!kinds(&sim).contains(&MessageKind::Repeat), "{format:?}");
    }
}

#[test]
fn does_not_repeat_an_incident_that_is_gone() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.advance(3_620);
        sim.end(1);
        sim.advance(600);
        assert_eq!(kinds(&sim), [MessageKind::Firing, MessageKind::Resolved], "{format:?}");
    }
}

#[test]
fn repeats_incidents_and_storm_once_each_hour_to_pagerduty() {
    use MessageKind::{Firing, Repeat, Resolved};
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.policy.pacing.max_incidents = 2;
    sim.add_storm(0..6);
    sim.advance(7_220);
    // The storm ends shortly before its second repetition.
    sim.active.retain(|key, _| key.as_str() < "storm0002");
    sim.advance(600);
    let name = |keys: &[String]| keys.first().cloned().unwrap_or_default();
    let times: Vec<_> = accepted(&sim).into_iter().map(|(at, kind, started, _)| (at, kind, name(&started))).collect();
    let storms: Vec<_> = sim.sent.iter().map(|sent| sent.storm.as_ref().map(|storm| storm.count)).collect();
    let [first, second] = [0, 1].map(|number| (format!("storm000{number}"), None));
    let (storm, end) = ((String::new(), Some(4)), (String::new(), Some(0)));
    let expected = [
        (30, Firing, &first),
        (32, Firing, &second),
        (34, Firing, &storm),
        (3_630, Repeat, &first),
        (3_632, Repeat, &second),
        (3_634, Repeat, &storm),
        (7_230, Repeat, &first),
        (7_232, Repeat, &second),
        (7_250, Resolved, &end),
    ];
    assert_eq!(times, expected.map(|(at, kind, (name, _))| (at, kind, name.clone())));
    assert_eq!(storms, expected.map(|(.., (_, storm))| *storm));
}

#[test]
fn drops_a_repetition_whose_only_incident_ends_meanwhile() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.start(1);
    sim.start(2);
    sim.advance(3_600);
    sim.receiver = Behaviour::Unreachable;
    sim.advance(60);
    sim.end(1);
    sim.receiver = Behaviour::Accepts;
    sim.advance(25);
    let sent: Vec<_> = accepted(&sim).into_iter().skip(2).map(|(_, kind, started, _)| (kind, started)).collect();
    assert_eq!(sent, [(MessageKind::Repeat, vec![key(2)])]);
}

#[test]
fn repeats_no_silenced_incident_while_another_one_ends() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start(1);
    sim.start(2);
    sim.advance(3_600);
    sim.receiver = Behaviour::Unreachable;
    sim.advance(60);
    sim.silence("key2", 600);
    sim.end(1);
    sim.receiver = Behaviour::Accepts;
    sim.advance(25);
    assert_eq!(kinds(&sim), [MessageKind::Firing]);
}

#[test]
fn repeats_incidents_that_do_not_fit_with_the_others() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.add_storm(0..100);
    sim.advance(3 * 3_600);
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
        let repeats: Vec<_> = sim.attempts.iter().filter(|attempt| attempt.kind == MessageKind::Repeat).collect();
        let ids: BTreeSet<_> = repeats.iter().map(|attempt| &attempt.id).collect();
        assert!(repeats.len() > 1 && ids.len() == 1, "{format:?}: {} attempts, {ids:?}", repeats.len());
    }
}

#[test]
fn sends_the_end_instead_of_a_failing_repetition() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = failing(format);
        sim.end(1);
        sim.advance(300);
        sim.receiver = Behaviour::Accepts;
        sim.advance(600);
        assert_eq!(
            (kinds(&sim), sim.stored.dropped),
            (vec![MessageKind::Firing, MessageKind::Resolved], 0),
            "{format:?}"
        );
    }
}

#[test]
fn sends_a_new_receiver_a_start_instead_of_a_repetition() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = failing(format);
        sim.receiver = Behaviour::Accepts;
        (sim.receiver_number, sim.config) = (1, 1);
        sim.advance(60);
        assert_eq!(kinds(&sim), [MessageKind::Firing, MessageKind::Firing], "{format:?}");
        assert_eq!(accepted(&sim)[1].2, [key(1)]);
    }
}

#[test]
fn keeps_the_id_of_a_failing_message_for_a_new_receiver() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.receiver = Behaviour::Fails;
    sim.start(1);
    sim.advance(60);
    (sim.receiver_number, sim.config) = (1, 1);
    sim.receiver = Behaviour::Accepts;
    sim.advance(600);
    let ids: BTreeSet<_> = sim.attempts.iter().map(|attempt| &attempt.id).collect();
    assert_eq!((ids.len(), accepted(&sim).len()), (1, 1));
}
