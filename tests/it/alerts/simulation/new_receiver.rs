//! A receiver that replaces another one, and does not work at first: no alert that the other one was sent is lost.

use proptest::prelude::*;

use super::{
    KEYS, Simulation, key,
    mutes::mute,
    played,
    properties::{event, format},
    storms::storm_of_eight,
};
use orchestr::{
    alerts::Pacing,
    api::{AlertPhase, MessageKind, WebhookFormat},
};

#[test]
fn a_new_receiver_is_sent_an_alert_after_its_silence() {
    for format in WebhookFormat::ALL {
        let mut sim = played(format, "+1 100s");
        let before = sim.sent.len();
        sim.play("silence:1:600 receiver 0s +2 2m");
        assert_eq!(sim.said(1), "+2", "{format:?}");
        let others = sim.sent.iter().skip(before).filter(|sent| sent.kind != MessageKind::Resend);
        for sent in others {
            assert!(sent.ongoing.is_empty(), "{format:?}: listed, it would count as sent");
            assert_eq!((sent.muted, sent.is_all_clear()), (1, false), "{format:?}");
        }
        sim.play("10m");
        assert_eq!(sim.said(1), "+2 | +1", "{format:?}");
    }
}

#[test]
fn a_mute_leaves_a_storm_that_an_earlier_receiver_has() {
    for (format, (then, expected)) in [WebhookFormat::Slack, WebhookFormat::Alertmanager]
        .into_iter()
        .flat_map(|format| [(format, ("40m", 8)), (format, ("-* 40m", 0))])
    {
        let mut sim = storm_of_eight(format);
        sim.play("Unreachable receiver 60s");
        assert_eq!(sim.stored.storm.as_ref().map(|storm| storm.phase), Some(AlertPhase::Announcing), "{format:?}");
        sim.play("quiet:60 60s Accepts 30m");
        assert_eq!(sim.stored.storm.as_ref().map(|storm| storm.phase), Some(AlertPhase::Firing), "{format:?}");
        let before = sim.sent.len();
        sim.play(then);
        assert_eq!(sim.storms(before), [expected], "{format:?}");
        assert_eq!((sim.stored.dropped, sim.stored.muted.as_ref()), (0, None), "{format:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_alert_that_a_receiver_may_have_been_sent_ends(
        format in format(),
        max_incidents in prop_oneof![Just(2_usize), Just(20)],
        events in prop::collection::vec(
            prop_oneof![4 => event(), 1 => mute(), 1 => Just("receiver .".to_owned())],
            1..60,
        ),
    ) {
        let mut sim = Simulation::new(format);
        sim.policy.pacing = Pacing { max_incidents, ..sim.policy.pacing };
        sim.live(&events);
        sim.end_all();
        for number in 0..KEYS {
            let history = sim.history(&key(number));
            prop_assert!(history.last().is_none_or(|(_, starts)| !starts), "{}: not resolved: {:?}", number, history);
        }
    }
}
