//! Incidents with a common cause: one alert stands for all of them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use proptest::prelude::*;

use super::{
    BYTES, KEYS, Simulation, key, played,
    properties::{event, format, is_receiver},
    rendered, rendered_text, webhook,
};
use orchestr::{
    alerts::{CommonCause, Grouped, Incident, IncidentMemory, NotificationPolicy},
    api::{AlertPhase, AlertStatus, Cause, Match, MessageKind, WebhookFormat, WebhookStatus},
};

/// A node that does not report.
pub(super) fn node(number: u8) -> Arc<CommonCause> {
    Arc::new(CommonCause {
        key: node_key(number),
        kind: "Node".to_owned(),
        namespace: String::new(),
        name: format!("node{number}"),
        cause: Cause::NodeNotReady,
        message: format!("node{number} does not report: 9 of its 10 pods, of 4 owners, are not ready"),
    })
}

fn node_key(number: u8) -> String {
    format!("node{number}")
}

impl Simulation {
    /// Whether incidents are grouped by this common cause now.
    pub(super) fn has_common_cause(&self, key: &str) -> bool {
        self.with_input(|input| {
            Grouped::new(&self.stored, input).iter().any(|incident| incident.key == key && !incident.members.is_empty())
        })
    }

    /// Whether the alert about a common cause stands for an incident. Its members may have other common causes meanwhile.
    pub(super) fn is_covered(&self, key: &String, alert: &AlertStatus) -> bool {
        let is_unknown = || {
            let current = self.incidents().into_iter().find(|incident| incident.key == *key);
            current.is_some_and(|incident| self.memory.may_lack_cause(&incident, self.now))
        };
        alert.members.contains(key)
            && (self.causes.contains_key(key) || !self.has_common_cause(&alert.key) || is_unknown())
    }

    /// Checks that each common cause that starts to be tracked has a member that no other alert reported.
    pub(super) fn check_new_common_causes(&self, planned: &WebhookStatus) {
        let active = |state: &WebhookStatus| -> Vec<AlertStatus> {
            state.alerts.iter().filter(|alert| alert.phase != AlertPhase::Resolved).cloned().collect()
        };
        let before = active(&self.stored);
        let is_reported = |key: &String| {
            let since = self.active.get(key).map(|since| since.as_second());
            before.iter().filter(|alert| alert.members.contains(key)).any(|alert| {
                let sent = alert.sent_at.as_ref().map(|sent| sent.0.as_second());
                sent.is_none_or(|sent| since.is_none_or(|since| since <= sent))
            })
        };
        for alert in active(planned) {
            let is_new = !alert.members.is_empty() && before.iter().all(|known| known.key != alert.key);
            assert!(
                !is_new || alert.members.iter().any(|key| !is_reported(key)),
                "{} is not new: {before:?}",
                alert.key
            );
        }
    }

    /// Checks that no alert about a common cause is resolved while one of its members continues: it must have its own
    /// alert, or have lost its common cause and wait for the end of another alert.
    pub(super) fn check_resolved_members(&self, alert: &AlertStatus) {
        let has_own_alert =
            |key: &String| self.stored.alerts.iter().any(|own| own.key == *key && own.phase != AlertPhase::Resolved);
        // Another alert about a common cause that is over.
        let is_held = |key: &String| {
            let ending = |phase| !matches!(phase, AlertPhase::Resolving | AlertPhase::Resolved);
            self.stored.alerts.iter().any(|other| other.members.contains(key) && ending(other.phase))
        };
        let continues = |key: &&String| {
            let Some(since) = self.active.get(*key).filter(|_| !has_own_alert(key)) else { return false };
            self.causes.contains_key(*key) || self.is_due(*since) && !is_held(key)
        };
        let left: Vec<_> = alert.members.iter().filter(continues).collect();
        assert!(left.is_empty(), "{} is resolved, but not {left:?}: {:?}", alert.key, self.stored);
    }
}

const SOME: [WebhookFormat; 3] = [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager];

/// The words of some messages, sorted: it does not matter in which order equal alerts are sent.
fn sorted(said: &str) -> Vec<&str> {
    let mut words: Vec<_> = said.split([' ', '|']).filter(|word| !word.is_empty()).collect();
    words.sort_unstable();
    words
}

#[test]
fn sends_one_start_and_one_end_for_a_node() {
    for format in WebhookFormat::ALL {
        let mut sim = played(format, "+0..4 *=7");
        for (number, pods) in (0..4).zip([3, 2, 2, 2]) {
            sim.change(&key(number), |incident| Incident { pods, ..incident });
        }
        sim.play("5m");
        let firing = sim.sent.first().unwrap().clone();
        let members: Vec<_> = firing.started[0].members.iter().map(|own| (own.key.clone(), own.pods)).collect();
        assert_eq!(members, [(key(0), 3), (key(1), 2), (key(2), 2), (key(3), 2)]);
        assert_eq!(firing.started[0].pods, 9);
        let text = rendered_text(&firing, format);
        let sentence = "node7 does not report: 9 of its 10 pods, of 4 owners, are not ready";
        for part in [sentence, "shop/Deployment key0 (3 pods)", "key1 (2 pods)", "key2 (2 pods)", "key3 (2 pods)"] {
            assert!(text.contains(part), "{format:?} lacks {part}: {text}");
        }
        sim.play("*= -* 10m");
        assert_eq!(sim.book(0), "30 +node7 | 330 -node7", "{format:?}");
    }
}

#[test]
fn a_common_cause_has_one_identity_from_start_to_end() {
    for (format, path) in [
        (WebhookFormat::PagerDuty, "/dedup_key"),
        (WebhookFormat::Generic, "/alerts/0/fingerprint"),
        (WebhookFormat::Alertmanager, "/0/labels"),
    ] {
        // Another member joins.
        let sim = played(format, "+0..3 *=7 100s +3 3=7 4000s -* 100s");
        let identity = |message| {
            let body = rendered(message, format);
            body.pointer(path).unwrap().to_string()
        };
        let identities: BTreeSet<String> = sim.sent.iter().map(identity).collect();
        assert!(sim.sent.len() >= 3 && identities.len() == 1, "{format:?}: {identities:?}");
    }
}

#[test]
fn sends_a_broken_member_when_its_common_cause_is_resolved() {
    for format in SOME {
        for restarts in [false, true] {
            let mut sim = played(format, "+0..4 *=7 100s *=");
            if restarts {
                sim.run();
                sim.memory = IncidentMemory::default();
                sim.last_sent = None;
            }
            sim.play("5s -1..4 24s");
            assert_eq!(sim.said(0), "+node7", "{format:?}: the others recover in the meantime");
            sim.play("10m");
            assert_eq!(sorted(&sim.said(1)), ["+0", "-node7"], "{format:?}");
            let times = sim.book[1..].iter().map(|message| message.split_once(' ').unwrap().0.parse::<u64>().unwrap());
            assert!(times.clone().all(|at| (130..=135).contains(&at)), "{}", sim.book(1));
            let before = sim.book.len();
            sim.play("-0 10m");
            assert_eq!(sim.said(before), "-0", "{format:?}");
        }
    }
}

#[test]
fn says_that_a_cause_is_no_longer_common() {
    for format in WebhookFormat::ALL {
        // Two owners are too few for a common cause, but the node still does not report.
        let sim = played(format, "+0..4 *=7 100s *= -2 -3 60s");
        let ended = sim.sent.iter().find(|sent| sent.resolved.iter().any(|alert| alert.key == node_key(7)));
        let text = rendered_text(ended.unwrap(), format);
        assert!(text.to_lowercase().contains("no longer a common cause"), "{format:?}: {text}");
        assert!(text.contains("2 of its problems continue"), "{format:?}: {text}");
        assert!(!text.contains("RESOLVED") && !text.contains("Over"), "{format:?}: {text}");
    }
}

#[test]
fn members_that_join_later_are_sent_with_the_repetition() {
    let mut sim = played(WebhookFormat::Slack, "+0..3 *=7 100s");
    for number in 3..6 {
        sim.play(&format!("+{number} {number}=7 100s -{number} 100s +{number}"));
    }
    sim.play("2000s");
    assert_eq!(sim.book.len(), 1);
    sim.play("3000s");
    let repeat = sim.sent.last().unwrap();
    assert_eq!((repeat.kind, repeat.ongoing[0].members.len()), (MessageKind::Repeat, 6));
    assert_eq!(sim.stored.alerts[0].members.len(), 6);
}

#[test]
fn sends_members_one_by_one_if_fewer_than_two_match() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    let mut spec = webhook(WebhookFormat::Slack);
    spec.match_ = Some(Match { namespaces: Some(vec!["shop".to_owned()]), ..Match::default() });
    sim.policy = NotificationPolicy::new(0, &spec).unwrap();
    sim.play("+0..3 *=7");
    for number in 1..3 {
        sim.change(&key(number), |incident| Incident { namespace: "other".into(), ..incident });
    }
    sim.play("60s");
    assert_eq!(sim.book(0), "30 +0");
}

#[test]
fn is_due_as_soon_as_its_first_member_is() {
    let mut sim = played(WebhookFormat::Slack, "+0 0=7 20s +1 +2 *=7");
    for (number, seconds) in [(0, 120), (1, 60), (2, 90)] {
        sim.change(&key(number), |incident| Incident { tolerated: Duration::from_secs(seconds), ..incident });
    }
    sim.play("5m");
    assert_eq!(sim.book(0), format!("{} +node7", 20 + 60 + 30));
    assert_eq!(sim.sent[0].started[0].since.to_string(), "2026-07-01T10:00:00Z");
}

#[test]
fn admits_that_silent_members_are_broken() {
    let mut sim = played(WebhookFormat::PagerDuty, "+0..3 *=7 60s +4 60s");
    sim.policy.pacing.keep_deleted_firing_for = Duration::from_secs(1);
    sim.play("*= x4 0s 10s");
    let end = sim.sent.last().unwrap();
    assert_eq!((end.kind, end.resolved[0].key.as_str(), end.unsent), (MessageKind::Resolved, "key4", 3));
}

#[test]
fn keeps_the_status_within_its_bytes_for_many_members() {
    let mut sim = Simulation::new(WebhookFormat::Generic);
    for number in 0..1_000 {
        let key = format!("{number:016x}");
        sim.active.insert(key.clone(), sim.now);
        sim.causes.insert(key, (number % 10) as u8);
    }
    // Each store is checked.
    sim.advance(60);
    assert!(sim.stored.storm.is_none() && sim.stored.alerts.len() == 10);
    assert!(sim.stored.alerts.iter().all(|alert| alert.members.len() == 32));
    assert!(serde_json::to_string(&sim.stored.alerts).unwrap().len() <= BYTES);
    sim.advance(4_000);
    assert_eq!(sim.book(0).matches('+').count(), 10);
}

#[test]
fn tracks_a_common_cause_before_any_single_incident() {
    let sim = played(WebhookFormat::Slack, "+s0..150 1s +0..3 0..3=7 29s 60s");
    assert!(!sim.stored.alerts.iter().any(|alert| alert.key == node_key(7)), "the storm is older");
    let sim = played(WebhookFormat::Slack, "+s0..150 +0..3 0..3=7 90s");
    assert!(sim.stored.alerts.iter().any(|alert| alert.key == node_key(7)));
    assert_eq!(sim.storm, 51, "a common cause counts as one problem");
}

#[test]
fn reports_each_cause_once_while_incidents_move_between_two() {
    for format in WebhookFormat::ALL {
        for restarts in [false, true] {
            let mut sim = played(format, "+0..3 *=1 5m");
            for cause in [2, 1].repeat(3) {
                sim.play(&format!("+3 *={cause} 5m"));
                if restarts {
                    sim.memory = IncidentMemory::default();
                    sim.last_sent = None;
                }
            }
            // The first message about the second cause names all of its members.
            let started =
                sim.sent.iter().flat_map(|sent| &sent.started).find(|alert| alert.key == node_key(2)).unwrap();
            assert_eq!(started.members.len(), 4, "{format:?}");
            assert_eq!(sim.book(0), "30 +node1 | 330 +node2", "{format:?}");
            sim.play("*= -* 10m");
            assert_eq!(sorted(&sim.said(2)), ["-node1", "-node2"], "{format:?}");
            assert!(sim.book[2..].iter().all(|message| message.starts_with("213")), "{format:?}: {}", sim.book(2));
        }
    }
}

#[test]
fn repeats_an_alert_whose_members_have_another_common_cause() {
    for format in WebhookFormat::ALL {
        let sim = played(format, "+0..3 *=1 100s *=2 -0 4000s");
        let last = sim.sent.last().unwrap();
        let repeated = last.ongoing.iter().chain(&last.started).find(|alert| alert.key == node_key(1)).unwrap();
        let members: Vec<_> = repeated.members.iter().map(|own| own.key.clone()).collect();
        assert_eq!((members, repeated.pods, repeated.cause), (vec![key(1), key(2)], 2, Cause::NodeNotReady));
        // The sentence about the cause may no longer be true.
        let text = rendered_text(last, format);
        assert!(text.contains("node1") && !text.contains("does not report"), "{format:?}: {text}");
    }
}

#[test]
fn another_common_cause_is_due_with_its_first_new_member() {
    let mut sim = played(WebhookFormat::Slack, "+0..3 *=1 100s +3 *=2 20s -3 100s");
    assert_eq!(sim.book(1), "", "the new member recovered too soon");
    sim.play("+3 +4 3..5=2 100s");
    assert_eq!(sim.book(1), "250 +node2");
    let started = &sim.sent.last().unwrap().started[0];
    assert_eq!((started.members.len(), started.since.to_string().as_str()), (5, "2026-07-01T10:00:00Z"));
}

#[test]
fn recognizes_members_that_move_between_common_causes() {
    let mut sim = played(WebhookFormat::Slack, "+0..60 *=1 100s *=2 100s *=1 100s *=3 100s *=2 100s *=1 100s");
    // The first alert stores 32 members. The second one stores the others, and is needed because of them.
    assert_eq!(sim.book(0), "30 +node1 | 100 +node2");
    assert!(sim.stored.alerts.iter().all(|alert| alert.members.len() == 32));
    sim.play("-* 10m");
    assert_eq!(sim.book(2), "630 -node1 -node2");
}

/// How many common causes the incidents of a property move between.
const CAUSES: u8 = 3;

fn event_or_cause() -> impl Strategy<Value = String> {
    prop_oneof![
        12 => event(),
        4 => (0..KEYS, prop::option::weighted(0.7, 0..CAUSES)).prop_map(|(key, cause)| match cause {
            Some(cause) => format!("{key}={cause} ."),
            None => format!("{key}= ."),
        }),
        // All of them, as when a node fails or recovers, or when an image turns out to be one of several of a registry.
        1 => Just(format!("0..{KEYS}= 1s")),
        3 => (0..CAUSES).prop_map(|cause| format!("0..{KEYS}={cause} 1s")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_incident_and_common_cause_starts_and_ends_once(
        format in format(),
        events in prop::collection::vec(event_or_cause(), 1..60),
    ) {
        let mut sim = Simulation::new(format);
        sim.live(&events);
        let firing = |sim: &Simulation, is_about: &dyn Fn(&AlertStatus) -> bool| {
            sim.stored.alerts.iter().any(|alert| alert.phase == AlertPhase::Firing && is_about(alert))
        };
        for key in (0..KEYS).map(key).chain((0..CAUSES).map(node_key)) {
            let is_firing = sim.check_history(&key);
            prop_assert_eq!(is_firing, firing(&sim, &|alert| alert.key == key), "{}", key);
            sim.check_delivered(&key);
            if key.starts_with("node") {
                prop_assert_eq!(is_firing, sim.has_common_cause(&key), "{}: {:?}", key, sim.stored);
                continue;
            }
            let is_member = sim.causes.get(&key).is_some_and(|cause| {
                firing(&sim, &|alert| alert.key == node_key(*cause) || alert.members.contains(&key))
            });
            match sim.active.contains_key(&key) {
                true => prop_assert!(is_firing || is_member, "{} is not sent: {:#?}", key, sim.stored),
                false => prop_assert!(!is_firing, "{} is over", key),
            }
        }
        sim.check_lost();
        prop_assert!(sim.stored.pending.is_none() && sim.stored.failures == 0);
    }

    #[test]
    fn a_working_receiver_misses_only_ended_members(
        format in format(),
        events in prop::collection::vec(event_or_cause(), 1..60),
    ) {
        let mut sim = Simulation::new(format);
        let events: Vec<_> = events.into_iter().filter(|event| !is_receiver(event)).collect();
        sim.live(&events);
        sim.check_lost();
    }
}

/// As after a failover, until the events are read from which a missing Secret is known.
#[test]
fn a_common_cause_that_is_unknown_after_a_restart_is_not_over() {
    // The status stores 32 of the members.
    for (format, count) in WebhookFormat::ALL.into_iter().zip([3, 40].into_iter().cycle()) {
        let mut sim = played(format, &format!("+0..{count} *=7 2m *= restart 5m"));
        assert_eq!(sim.book(0), "30 +node7", "{format:?}: the causes are unknown");
        sim.play("*=7 15m");
        assert_eq!(sim.book(0), "30 +node7", "{format:?}: they are known again");
        if count > 3 {
            continue;
        }
        // They are not found within ten minutes.
        sim.play("*= restart 599s");
        assert_eq!(sim.book(0), "30 +node7", "{format:?}");
        sim.play("15m");
        let said = sim.said(1);
        assert_eq!(sorted(&said).iter().filter(|word| word.starts_with('-')).collect::<Vec<_>>(), [&"-node7"]);
        assert!(said.contains("+0"), "{format:?}: {said}");
    }
}
