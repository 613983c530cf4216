//! What holds whatever happens.

use std::time::Duration;

use proptest::prelude::*;

use super::{Happening, KEYS, Kill, Receiver, World, key};
use crate::{
    alerts::Pace,
    api::{AlertPhase, MessageKind, WebhookFormat},
};

fn happening() -> impl Strategy<Value = Happening> {
    let receiver = prop_oneof![
        4 => Just(Receiver::Takes),
        1 => Just(Receiver::Unreachable),
        1 => Just(Receiver::TakesButItsAnswerIsLost),
        1 => Just(Receiver::LosesItAndFails),
        1 => Just(Receiver::TakesAndFails),
        1 => Just(Receiver::Busy),
        1 => Just(Receiver::WantsLess),
        1 => Just(Receiver::Refuses),
        1 => Just(Receiver::Gone),
    ];
    let kill = prop_oneof![Just(Kill::Storing), Just(Kill::Sending), Just(Kill::Recording)];
    prop_oneof![
        6 => (0..KEYS).prop_map(Happening::Begins),
        4 => (0..KEYS).prop_map(Happening::Ends),
        2 => (0..KEYS).prop_map(Happening::Deleted),
        1 => (0..KEYS, prop_oneof![Just("Error"), Just("OOMKilled")]).prop_map(|(key, to)| Happening::Reason(key, to)),
        1 => any::<bool>().prop_map(Happening::Known),
        8 => (1_u16..90).prop_map(Happening::Time),
        1 => (90_u16..2_000).prop_map(Happening::Time),
        3 => receiver.prop_map(Happening::Receiver),
        3 => kill.prop_map(Happening::Killed),
        1 => Just(Happening::SecretChanges),
    ]
}

fn format() -> impl Strategy<Value = WebhookFormat> {
    prop_oneof![Just(WebhookFormat::Slack), Just(WebhookFormat::PagerDuty), Just(WebhookFormat::Alertmanager)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_incident_is_announced_once_and_resolved_once(
        format in format(),
        happenings in prop::collection::vec(happening(), 1..60),
    ) {
        let mut world = World::new(format);
        for happening in &happenings {
            world.happens(happening);
        }
        world.calm_down();

        for number in 0..KEYS {
            let (key, story) = (key(number), world.story(&key(number)));
            // Beginning and end take turns, each under one id, whatever was repeated.
            for (index, (_, begins)) in story.iter().enumerate() {
                prop_assert_eq!(*begins, index % 2 == 0, "{}: {:?}", key, story);
            }
            prop_assert_eq!(
                story.last().is_some_and(|(_, begins)| *begins),
                world.present.contains_key(&key),
                "{}: told last is what is: {:?}", key, story
            );
            // What was told last was told for certain.
            if let Some((id, _)) = story.last() {
                prop_assert!(world.attempts.iter().any(|attempt| attempt.id == *id && attempt.known));
            }
        }
        let lost = world.owed.iter().filter(|key| !world.present.contains_key(*key)).count();
        prop_assert_eq!(lost, world.owed.len(), "it goes on, and nobody was told: {:?}", world.owed);
        prop_assert!(i64::try_from(lost).unwrap() <= world.stored.dropped, "{} lost, {:?}", lost, world.stored);
        prop_assert!(world.stored.pending.is_none() && world.stored.failures == 0);
        for pair in world.attempts.windows(2) {
            if let [one, next] = pair && one.known && next.kind != MessageKind::Resend && one.id != next.id {
                let gap = next.at.duration_since(one.at).unsigned_abs();
                prop_assert!(
                    one.kind == MessageKind::Resend || gap + Duration::from_secs(1) > world.policy.pace.interval,
                    "{:?} after a message was taken", gap
                );
            }
        }
    }

    #[test]
    fn a_healthy_receiver_misses_nothing(
        format in format(),
        happenings in prop::collection::vec(happening(), 1..60),
    ) {
        let mut world = World::new(format);
        for happening in &happenings {
            if !matches!(happening, Happening::Receiver(_)) {
                world.happens(happening);
            }
        }
        prop_assert_eq!(world.stored.dropped, 0);
        world.calm_down();
        prop_assert!(world.owed.is_empty());
    }

    #[test]
    fn a_wiped_status_costs_repetition_and_no_silence(
        format in format(),
        happenings in prop::collection::vec(happening(), 1..30),
        more in prop::collection::vec(happening(), 1..30),
    ) {
        let mut world = World::new(format);
        for happening in &happenings {
            world.happens(happening);
        }
        let before = world.attempts.len();
        world.happens(&Happening::StatusIsWiped);
        for happening in &more {
            world.happens(happening);
        }
        world.calm_down();
        for key in world.present.keys() {
            let told = world.attempts.iter().skip(before).any(|attempt| attempt.known && attempt.started.contains(key));
            prop_assert!(told, "{}", key);
        }
    }

    #[test]
    fn in_a_storm_the_numbers_are_exact(
        format in format(),
        happenings in prop::collection::vec(happening(), 1..80),
    ) {
        let mut world = World::new(format);
        world.policy.pace = Pace { tracked: 2, ..world.policy.pace };
        for happening in &happenings {
            world.happens(happening);
        }
        world.calm_down();
        let told = world.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count() as u64;
        prop_assert!(told <= 2);
        prop_assert_eq!(told + world.storm, world.present.len() as u64);
        prop_assert!(world.owed.iter().all(|key| !world.present.contains_key(key)), "{:?}", world.owed);
        prop_assert!(world.owed.is_empty() || world.stored.dropped > 0);
        for number in 0..KEYS {
            world.ends(number);
        }
        world.calm_down();
        prop_assert_eq!(world.storm, 0);
        prop_assert!(world.stored.alerts.is_empty() && world.stored.storm.is_none(), "{:?}", world.stored);
    }
}
