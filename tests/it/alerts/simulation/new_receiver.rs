//! A receiver that replaces another one, and does not work at first: no alert that the other one was sent is lost.

use proptest::prelude::*;

use super::{
    Behaviour, Event, KEYS, Simulation, accepted, key,
    mutes::mute,
    properties::{event, format},
};
use orchestr::{
    alerts::Pacing,
    api::{AlertPhase, MessageKind, WebhookFormat},
};

impl Simulation {
    /// The receiver is replaced by one that cannot be reached.
    fn replace_receiver(&mut self) {
        self.receiver = Behaviour::Unreachable;
        self.apply(&Event::ReceiverReplaced);
    }

    /// Of each accepted message after the first `skip` ones that is not a resend, the keys that started and are resolved.
    fn changes_after(&self, skip: usize) -> Vec<(Vec<String>, Vec<String>)> {
        let sent = accepted(self).into_iter().skip(skip).filter(|(_, kind, ..)| *kind != MessageKind::Resend);
        sent.map(|(_, _, started, resolved)| (started, resolved)).collect()
    }
}

#[test]
fn a_silence_leaves_an_alert_that_an_earlier_receiver_has() {
    for (format, lasts) in WebhookFormat::ALL.into_iter().flat_map(|format| [(format, true), (format, false)]) {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.advance(100);
        let before = sim.sent.len();
        sim.replace_receiver();
        sim.advance(60);
        assert_eq!(sim.stored.alerts[0].phase, AlertPhase::Announcing, "{format:?}");
        sim.silence("key1", 3_600);
        sim.advance(60);
        sim.receiver = Behaviour::Accepts;
        sim.advance(1_800);
        assert_eq!((sim.changes_after(before), sim.stored.muted.as_ref()), (vec![], None), "{format:?}");
        let expected = if lasts {
            sim.advance(3_600);
            (vec![key(1)], vec![])
        } else {
            sim.end(1);
            sim.advance(120);
            (vec![], vec![key(1)])
        };
        assert_eq!((sim.changes_after(before), sim.stored.dropped), (vec![expected], 0), "{format:?}");
    }
}

#[test]
fn a_new_receiver_is_sent_an_alert_after_its_silence() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.advance(100);
        let before = sim.sent.len();
        sim.silence("key1", 600);
        sim.apply(&Event::ReceiverReplaced);
        sim.start(2);
        sim.advance(120);
        let changes = |keys: &[u8]| keys.iter().map(|number| (vec![key(*number)], vec![])).collect::<Vec<_>>();
        assert_eq!(sim.changes_after(before), changes(&[2]), "{format:?}");
        let others = sim.sent.iter().skip(before).filter(|sent| sent.kind != MessageKind::Resend);
        for sent in others {
            assert!(sent.ongoing.is_empty(), "{format:?}: listed, it would count as sent");
            assert_eq!((sent.muted, sent.is_all_clear()), (1, false), "{format:?}");
        }
        sim.advance(600);
        assert_eq!(sim.changes_after(before), changes(&[2, 1]), "{format:?}");
    }
}

#[test]
fn a_failing_new_receiver_is_sent_ends_of_meanwhile() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.advance(100);
        let before = sim.sent.len();
        sim.replace_receiver();
        sim.advance(60);
        sim.end(1);
        sim.advance(900);
        sim.receiver = Behaviour::Accepts;
        sim.advance(900);
        assert_eq!(sim.changes_after(before), [(vec![], vec![key(1)])], "{format:?}");
        assert_eq!(sim.stored.dropped, 0, "{format:?}");
    }
}

#[test]
fn a_new_receiver_is_sent_the_end_of_an_uncertain_alert() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut sim = Simulation::new(format);
        sim.receiver = Behaviour::AcceptsWithoutAnswering;
        sim.start(1);
        sim.advance(31);
        let before = sim.sent.len();
        sim.replace_receiver();
        sim.silence("key1", 3_600);
        sim.advance(60);
        sim.end(1);
        sim.receiver = Behaviour::Accepts;
        sim.advance(900);
        assert_eq!(sim.changes_after(before), [(vec![], vec![key(1)])], "{format:?}");
    }
}

#[test]
fn a_mute_leaves_a_storm_that_an_earlier_receiver_has() {
    for (format, lasts) in [WebhookFormat::Slack, WebhookFormat::Alertmanager]
        .into_iter()
        .flat_map(|format| [(format, true), (format, false)])
    {
        let mut sim = Simulation::new(format);
        sim.policy.pacing = Pacing { max_incidents: 2, ..sim.policy.pacing };
        sim.add_storm(0..10);
        sim.advance(60);
        assert_eq!(sim.storm, 8, "{format:?}");
        sim.replace_receiver();
        sim.advance(60);
        assert_eq!(sim.stored.storm.as_ref().map(|storm| storm.phase), Some(AlertPhase::Announcing), "{format:?}");
        sim.begin_quiet_hours(60);
        sim.advance(60);
        sim.receiver = Behaviour::Accepts;
        sim.advance(1_800);
        assert_eq!(sim.stored.storm.as_ref().map(|storm| storm.phase), Some(AlertPhase::Firing), "{format:?}");
        let before = sim.sent.len();
        if !lasts {
            sim.active.clear();
        }
        sim.advance(2_400);
        let storms = sim.sent[before..].iter().filter(|message| message.kind != MessageKind::Resend);
        let storms: Vec<u64> = storms.filter_map(|message| Some(message.storm.as_ref()?.count)).collect();
        assert_eq!(storms, [if lasts { 8 } else { 0 }], "{format:?}");
        assert_eq!((sim.stored.dropped, sim.stored.muted.as_ref()), (0, None), "{format:?}");
    }
}

#[test]
fn growth_of_a_storm_unsent_before_quiet_hours_is_sent_after() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut sim = Simulation::new(format);
        sim.policy.pacing = Pacing { max_incidents: 2, ..sim.policy.pacing };
        sim.add_storm(0..10);
        sim.advance(60);
        let before = sim.sent.len();
        sim.receiver = Behaviour::Unreachable;
        sim.add_storm(10..40);
        sim.advance(60);
        // Alertmanager is sent it after the next attempt to send it everything again.
        assert_eq!(sim.stored.pending.is_some(), format != WebhookFormat::Alertmanager, "{format:?}");
        sim.begin_quiet_hours(60);
        sim.receiver = Behaviour::Accepts;
        sim.advance(1_800);
        assert_eq!((sim.changes_after(before), sim.storm), (vec![], 8), "{format:?}");
        sim.advance(2_400);
        assert_eq!((sim.storm, sim.stored.pending.as_ref()), (38, None), "{format:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_alert_that_a_receiver_may_have_been_sent_ends(
        format in format(),
        max_incidents in prop_oneof![Just(2_usize), Just(20)],
        events in prop::collection::vec(
            prop_oneof![4 => event(), 1 => mute(), 1 => Just(Event::ReceiverReplaced)],
            1..60,
        ),
    ) {
        let mut sim = Simulation::new(format);
        sim.policy.pacing = Pacing { max_incidents, ..sim.policy.pacing };
        for event in &events {
            sim.apply(event);
        }
        sim.recover();
        for number in 0..KEYS {
            sim.end(number);
        }
        sim.recover();
        for number in 0..KEYS {
            let history = sim.history(&key(number));
            prop_assert!(history.last().is_none_or(|(_, starts)| !starts), "{}: not resolved: {:?}", number, history);
        }
        prop_assert_eq!(sim.storm, 0);
        prop_assert!(sim.stored.alerts.is_empty() && sim.stored.storm.is_none(), "{:?}", sim.stored);
    }
}
