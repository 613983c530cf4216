//! Properties that hold for every sequence of events.

use std::time::Duration;

use proptest::prelude::*;

use super::{KEYS, Simulation, key, script::behaviour};
use orchestr::api::{AlertPhase, MessageKind, WebhookFormat};

/// Words of a script, after which the operator runs.
pub(super) fn event() -> impl Strategy<Value = String> {
    let receiver = prop_oneof![
        4 => Just("Accepts"),
        1 => Just("Unreachable"),
        1 => Just("AcceptsWithoutAnswering"),
        1 => Just("Fails"),
        1 => Just("AcceptsAndFails"),
        1 => Just("RateLimits"),
        1 => Just("RejectsDetails"),
        1 => Just("AnswersNotFound"),
        1 => Just("RefusesNaming([1,4])"),
        1 => Just("Gone"),
    ];
    let crash = prop_oneof![Just("storing"), Just("sending"), Just("recording")];
    prop_oneof![
        6 => (0..KEYS).prop_map(|key| format!("+{key} .")),
        4 => (0..KEYS).prop_map(|key| format!("-{key} .")),
        2 => (0..KEYS).prop_map(|key| format!("x{key} .")),
        1 => (0..KEYS, prop_oneof![Just("Error"), Just("OOMKilled")]).prop_map(|(key, to)| format!("{key}:{to} .")),
        1 => any::<bool>().prop_map(|known| if known { "known ." } else { "unknown ." }.to_owned()),
        8 => (1_u16..90).prop_map(|seconds| format!("{seconds}s")),
        1 => (90_u16..2_000).prop_map(|seconds| format!("{seconds}s")),
        3 => receiver.prop_map(|receiver| format!("{receiver} .")),
        3 => crash.prop_map(|step| format!("crash@{step} .")),
        1 => Just("secret .".to_owned()),
    ]
}

/// Whether an event changes how the receiver behaves.
pub(super) fn is_receiver(event: &str) -> bool {
    event.split(' ').next().is_some_and(|word| behaviour(word).is_some())
}

pub(super) fn format() -> impl Strategy<Value = WebhookFormat> {
    prop_oneof![Just(WebhookFormat::Slack), Just(WebhookFormat::PagerDuty), Just(WebhookFormat::Alertmanager)]
}

impl Simulation {
    /// Applies events, and lets a working receiver receive all that is left to send.
    pub(super) fn live(&mut self, events: &[String]) {
        events.iter().for_each(|event| self.play(event));
        self.recover();
    }

    /// All incidents end, and nothing remains of them.
    pub(super) fn end_all(&mut self) {
        self.active.clear();
        self.recover();
        assert_eq!(self.storm, 0);
        assert!(self.stored.alerts.is_empty() && self.stored.storm.is_none(), "{:?}", self.stored);
    }

    /// Checks that starts and ends of an alert alternate. Returns whether the receiver considers it firing.
    pub(super) fn check_history(&self, key: &str) -> bool {
        let history = self.history(key);
        for (index, (_, starts)) in history.iter().enumerate() {
            assert_eq!(*starts, index % 2 == 0, "{key}: {history:?}");
        }
        history.last().is_some_and(|(_, starts)| *starts)
    }

    /// Checks that the last message about an alert was delivered.
    pub(super) fn check_delivered(&self, key: &str) {
        if let Some((id, _)) = self.history(key).last() {
            assert!(self.attempts.iter().any(|attempt| attempt.id == *id && attempt.confirmed), "{key}");
        }
    }

    /// Checks that what was due and not sent is over, and counted.
    pub(super) fn check_lost(&self) {
        let current: Vec<_> = self.due_unsent.iter().filter(|key| self.active.contains_key(*key)).collect();
        assert!(current.is_empty(), "unsent, but still current: {current:?}");
        let lost = i64::try_from(self.due_unsent.len()).unwrap();
        assert!(lost <= self.stored.dropped + self.ended_while_muted(), "{lost} lost, {:?}", self.stored);
    }

    /// How many alerts fire.
    pub(super) fn firing(&self) -> u64 {
        self.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count() as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sends_one_start_and_one_end_of_every_incident(
        format in format(),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut sim = Simulation::new(format);
        sim.live(&events);
        for key in (0..KEYS).map(key) {
            prop_assert_eq!(sim.check_history(&key), sim.active.contains_key(&key), "{}", key);
            sim.check_delivered(&key);
        }
        sim.check_lost();
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
        let events: Vec<_> = events.into_iter().filter(|event| !is_receiver(event)).collect();
        sim.live(&events);
        sim.check_lost();
    }

    #[test]
    fn sends_current_incidents_again_after_the_status_was_wiped(
        format in format(),
        events in prop::collection::vec(event(), 1..30),
        more in prop::collection::vec(event(), 1..30),
    ) {
        let mut sim = Simulation::new(format);
        events.iter().for_each(|event| sim.play(event));
        let before = sim.attempts.len();
        sim.play("wiped .");
        sim.live(&more);
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
        sim.policy.pacing.max_incidents = 2;
        sim.live(&events);
        prop_assert!(sim.firing() <= 2);
        prop_assert_eq!(sim.firing() + sim.storm, sim.active.len() as u64);
        prop_assert!(sim.due_unsent.iter().all(|key| !sim.active.contains_key(key)), "{:?}", sim.due_unsent);
        prop_assert!(sim.due_unsent.is_empty() || sim.stored.dropped > 0);
        sim.end_all();
    }
}
