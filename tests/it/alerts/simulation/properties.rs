//! Properties that hold for every sequence of events.

use std::time::Duration;

use proptest::prelude::*;

use super::{Behaviour, CrashPoint, Event, KEYS, Simulation, key};
use orchestr::{
    alerts::Pacing,
    api::{AlertPhase, MessageKind, WebhookFormat},
};

pub(super) fn event() -> impl Strategy<Value = Event> {
    let receiver = prop_oneof![
        4 => Just(Behaviour::Accepts),
        1 => Just(Behaviour::Unreachable),
        1 => Just(Behaviour::AcceptsWithoutAnswering),
        1 => Just(Behaviour::Fails),
        1 => Just(Behaviour::AcceptsAndFails),
        1 => Just(Behaviour::RateLimits),
        1 => Just(Behaviour::RejectsDetails),
        1 => Just(Behaviour::AnswersNotFound),
        1 => Just(Behaviour::RefusesNaming(&[1, 4])),
        1 => Just(Behaviour::Gone),
    ];
    let crash = prop_oneof![Just(CrashPoint::Storing), Just(CrashPoint::Sending), Just(CrashPoint::Recording)];
    prop_oneof![
        6 => (0..KEYS).prop_map(Event::Starts),
        4 => (0..KEYS).prop_map(Event::Ends),
        2 => (0..KEYS).prop_map(Event::Deleted),
        1 => (0..KEYS, prop_oneof![Just("Error"), Just("OOMKilled")]).prop_map(|(key, to)| Event::ReasonChanges(key, to)),
        1 => any::<bool>().prop_map(Event::IncidentsKnown),
        8 => (1_u16..90).prop_map(Event::SecondsPass),
        1 => (90_u16..2_000).prop_map(Event::SecondsPass),
        3 => receiver.prop_map(Event::ReceiverChanges),
        3 => crash.prop_map(Event::Crash),
        1 => Just(Event::SecretChanges),
    ]
}

pub(super) fn format() -> impl Strategy<Value = WebhookFormat> {
    prop_oneof![Just(WebhookFormat::Slack), Just(WebhookFormat::PagerDuty), Just(WebhookFormat::Alertmanager)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sends_one_start_and_one_end_of_every_incident(
        format in format(),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut sim = Simulation::new(format);
        for event in &events {
            sim.apply(event);
        }
        sim.recover();

        for number in 0..KEYS {
            let (key, history) = (key(number), sim.history(&key(number)));
            // Starts and ends alternate, and attempts of one message have one ID.
            for (index, (_, starts)) in history.iter().enumerate() {
                prop_assert_eq!(*starts, index % 2 == 0, "{}: {:?}", key, history);
            }
            prop_assert_eq!(
                history.last().is_some_and(|(_, starts)| *starts),
                sim.active.contains_key(&key),
                "{}: the last message is outdated: {:?}", key, history
            );
            // The last message was delivered.
            if let Some((id, _)) = history.last() {
                prop_assert!(sim.attempts.iter().any(|attempt| attempt.id == *id && attempt.confirmed));
            }
        }
        let lost = sim.due_unsent.iter().filter(|key| !sim.active.contains_key(*key)).count();
        prop_assert_eq!(lost, sim.due_unsent.len(), "unsent, but still current: {:?}", sim.due_unsent);
        prop_assert!(i64::try_from(lost).unwrap() <= sim.stored.dropped, "{} lost, {:?}", lost, sim.stored);
        prop_assert!(sim.stored.pending.is_none() && sim.stored.failures == 0);
        for pair in sim.attempts.windows(2) {
            if let [one, next] = pair && one.confirmed && next.kind != MessageKind::Resend && one.id != next.id {
                let gap = next.at.duration_since(one.at).unsigned_abs();
                prop_assert!(
                    one.kind == MessageKind::Resend || next.is_part || gap + Duration::from_secs(1) > sim.policy.pacing.group_interval,
                    "{:?} after a delivered message", gap
                );
            }
        }
    }

    #[test]
    fn drops_only_what_ended_before_its_turn_if_the_receiver_works(
        format in format(),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut sim = Simulation::new(format);
        for event in &events {
            if !matches!(event, Event::ReceiverChanges(_)) {
                sim.apply(event);
            }
        }
        sim.recover();
        let lost = sim.due_unsent.iter().filter(|key| !sim.active.contains_key(*key)).count();
        prop_assert_eq!(lost, sim.due_unsent.len(), "unsent, but still current: {:?}", sim.due_unsent);
        prop_assert!(i64::try_from(lost).unwrap() <= sim.stored.dropped, "{} lost, {:?}", lost, sim.stored);
    }

    #[test]
    fn sends_current_incidents_again_after_the_status_was_wiped(
        format in format(),
        events in prop::collection::vec(event(), 1..30),
        more in prop::collection::vec(event(), 1..30),
    ) {
        let mut sim = Simulation::new(format);
        for event in &events {
            sim.apply(event);
        }
        let before = sim.attempts.len();
        sim.apply(&Event::StatusWiped);
        for event in &more {
            sim.apply(event);
        }
        sim.recover();
        for key in sim.active.keys() {
            let sent = sim.attempts.iter().skip(before).any(|attempt| attempt.confirmed && attempt.started.contains(key));
            prop_assert!(sent, "{}", key);
        }
    }

    #[test]
    fn counts_storms_exactly(
        format in format(),
        events in prop::collection::vec(event(), 1..80),
    ) {
        let mut sim = Simulation::new(format);
        sim.policy.pacing = Pacing { max_incidents: 2, ..sim.policy.pacing };
        for event in &events {
            sim.apply(event);
        }
        sim.recover();
        let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count() as u64;
        prop_assert!(firing <= 2);
        prop_assert_eq!(firing + sim.storm, sim.active.len() as u64);
        prop_assert!(sim.due_unsent.iter().all(|key| !sim.active.contains_key(key)), "{:?}", sim.due_unsent);
        prop_assert!(sim.due_unsent.is_empty() || sim.stored.dropped > 0);
        for number in 0..KEYS {
            sim.end(number);
        }
        sim.recover();
        prop_assert_eq!(sim.storm, 0);
        prop_assert!(sim.stored.alerts.is_empty() && sim.stored.storm.is_none(), "{:?}", sim.stored);
    }
}
