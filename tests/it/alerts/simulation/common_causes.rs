//! Incidents with a common cause: one alert stands for all of them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use proptest::prelude::*;

use super::{
    BYTES, Behaviour, CrashPoint, Event, KEYS, Simulation, accepted, key,
    properties::{event, format},
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

    /// Starts incidents with a common cause.
    pub(in crate::alerts) fn start_with_cause(&mut self, numbers: std::ops::Range<u8>, cause: u8) {
        for number in numbers {
            self.start(number);
            self.causes.insert(key(number), cause);
        }
    }

    /// Ends all common causes, but not their incidents.
    pub(in crate::alerts) fn end_common_causes(&mut self) {
        self.causes.clear();
    }

    /// Of each accepted message that is not a resend, the time in seconds, and the keys that started and are resolved.
    fn changes(&self) -> Vec<(i64, Vec<String>, Vec<String>)> {
        let messages = accepted(self).into_iter().filter(|(_, kind, ..)| *kind != MessageKind::Resend);
        messages.map(|(at, _, started, resolved)| (at, started, resolved)).collect()
    }
}

fn keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

#[test]
fn sends_one_start_and_one_end_for_a_node() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.start_with_cause(0..4, 7);
        for (number, pods) in (0..4).zip([3, 2, 2, 2]) {
            let incident = sim.incidents().remove(usize::from(number));
            sim.custom.insert(key(number), Incident { pods, ..incident });
        }
        sim.advance(300);
        let firing = sim.sent.first().unwrap().clone();
        let members: Vec<_> = firing.started[0].members.iter().map(|own| (own.key.clone(), own.pods)).collect();
        assert_eq!(members, [(key(0), 3), (key(1), 2), (key(2), 2), (key(3), 2)]);
        assert_eq!(firing.started[0].pods, 9);
        let text = rendered_text(&firing, format);
        let sentence = "node7 does not report: 9 of its 10 pods, of 4 owners, are not ready";
        for part in [sentence, "shop/Deployment key0 (3 pods)", "key1 (2 pods)", "key2 (2 pods)", "key3 (2 pods)"] {
            assert!(text.contains(part), "{format:?} lacks {part}: {text}");
        }
        sim.active.clear();
        sim.causes.clear();
        sim.advance(600);
        let expected = [(30, keys(&["node7"]), keys(&[])), (330, keys(&[]), keys(&["node7"]))];
        assert_eq!(sim.changes(), expected, "{format:?}");
    }
}

#[test]
fn a_common_cause_has_one_identity_from_start_to_end() {
    for (format, path) in [
        (WebhookFormat::PagerDuty, "/dedup_key"),
        (WebhookFormat::Generic, "/alerts/0/fingerprint"),
        (WebhookFormat::Alertmanager, "/0/labels"),
    ] {
        let mut sim = Simulation::new(format);
        sim.start_with_cause(0..3, 7);
        sim.advance(100);
        // Another member, and another cause of most members.
        sim.start_with_cause(3..4, 7);
        sim.advance(4_000);
        sim.active.clear();
        sim.advance(100);
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
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        for restarts in [false, true] {
            let mut sim = Simulation::new(format);
            sim.start_with_cause(0..4, 7);
            sim.advance(100);
            sim.causes.clear();
            if restarts {
                sim.run();
                sim.memory = IncidentMemory::default();
                sim.last_sent = None;
            }
            sim.advance(5);
            for number in 1..4 {
                sim.end(number);
            }
            sim.advance(24);
            assert_eq!(sim.changes().len(), 1, "{format:?}: the others recover in the meantime");
            sim.advance(600);
            let (started, resolved): (Vec<_>, Vec<_>) =
                sim.changes().into_iter().skip(1).map(|(_, started, resolved)| (started, resolved)).unzip();
            assert_eq!((started.concat(), resolved.concat()), (vec![key(0)], keys(&["node7"])), "{format:?}");
            assert!(sim.changes().iter().skip(1).all(|(at, ..)| (130..=135).contains(at)), "{:?}", sim.changes());
            sim.end(0);
            sim.advance(600);
            assert_eq!(sim.changes().last().unwrap().2, [key(0)], "{format:?}");
        }
    }
}

#[test]
fn says_that_a_cause_is_no_longer_common() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.start_with_cause(0..4, 7);
        sim.advance(100);
        // Two owners are too few for a common cause, but the node still does not report.
        sim.causes.clear();
        sim.end(2);
        sim.end(3);
        sim.advance(60);
        let ended = sim.sent.iter().find(|sent| sent.resolved.iter().any(|alert| alert.key == node_key(7)));
        let text = rendered_text(ended.unwrap(), format);
        assert!(text.to_lowercase().contains("no longer a common cause"), "{format:?}: {text}");
        assert!(text.contains("2 of its problems continue"), "{format:?}: {text}");
        assert!(!text.contains("RESOLVED") && !text.contains("Over"), "{format:?}: {text}");
    }
}

#[test]
fn sends_one_alert_for_each_of_two_unrelated_faults() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.start_with_cause(0..2, 1);
        sim.start_with_cause(2..4, 2);
        sim.start(4);
        sim.advance(300);
        let started: Vec<String> = sim.changes().into_iter().flat_map(|(_, started, _)| started).collect();
        assert_eq!(BTreeSet::from_iter(started.clone()), BTreeSet::from([key(4), node_key(1), node_key(2)]));
        assert_eq!(started.len(), 3, "{format:?}");
        for number in 0..2 {
            sim.end(number);
        }
        sim.advance(300);
        let resolved: Vec<String> = sim.changes().into_iter().flat_map(|(.., resolved)| resolved).collect();
        assert_eq!(resolved, [node_key(1)], "{format:?}");
    }
}

#[test]
fn keeps_the_alerts_of_members_that_were_sent_before() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut sim = Simulation::new(format);
        sim.start(0);
        sim.advance(60);
        sim.start_with_cause(0..2, 7);
        sim.advance(100);
        assert!(sim.changes().iter().all(|(_, started, _)| !started.contains(&node_key(7))), "one member is left");
        sim.start_with_cause(0..4, 7);
        sim.advance(100);
        let started: Vec<String> = sim.changes().into_iter().flat_map(|(_, started, _)| started).collect();
        assert_eq!(started, [key(0), key(1), node_key(7)], "{format:?}");
        sim.active.clear();
        sim.advance(600);
        let mut resolved: Vec<String> = sim.changes().into_iter().flat_map(|(.., resolved)| resolved).collect();
        resolved.sort();
        assert_eq!(resolved, [key(0), key(1), node_key(7)], "{format:?}");
    }
}

#[test]
fn members_that_join_later_are_sent_with_the_repetition() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start_with_cause(0..3, 7);
    sim.advance(100);
    for number in 3..6 {
        sim.start_with_cause(number..number + 1, 7);
        sim.advance(100);
        sim.end(number);
        sim.advance(100);
        sim.start_with_cause(number..number + 1, 7);
    }
    sim.advance(2_000);
    assert_eq!(sim.changes().len(), 1);
    sim.advance(3_000);
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
    sim.start_with_cause(0..3, 7);
    for number in 1..3 {
        let incident = sim.incidents().remove(usize::from(number));
        sim.custom.insert(key(number), Incident { namespace: "other".into(), ..incident });
    }
    sim.advance(60);
    assert_eq!(sim.changes(), [(30, vec![key(0)], vec![])]);
}

#[test]
fn is_due_as_soon_as_its_first_member_is() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start_with_cause(0..1, 7);
    sim.advance(20);
    sim.start_with_cause(1..3, 7);
    let tolerated = |sim: &mut Simulation, number: u8, seconds| {
        let incident = sim.incidents().remove(usize::from(number));
        sim.custom.insert(key(number), Incident { tolerated: Duration::from_secs(seconds), ..incident });
    };
    tolerated(&mut sim, 0, 120);
    tolerated(&mut sim, 1, 60);
    tolerated(&mut sim, 2, 90);
    sim.advance(300);
    assert_eq!(sim.changes(), [(20 + 60 + 30, keys(&["node7"]), vec![])]);
    assert_eq!(sim.sent[0].started[0].since.to_string(), "2026-07-01T10:00:00Z");
}

#[test]
fn admits_that_silent_members_are_broken() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.start_with_cause(0..3, 7);
    sim.advance(60);
    sim.start(4);
    sim.advance(60);
    sim.policy.pacing.keep_deleted_firing_for = Duration::from_secs(1);
    sim.causes.clear();
    sim.apply(&Event::Deleted(4));
    sim.advance(10);
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
    assert_eq!(sim.changes().iter().map(|(_, started, _)| started.len()).sum::<usize>(), 10);
}

#[test]
fn members_that_are_not_stored_stay_silent_until_the_end() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start_with_cause(0..60, 7);
    sim.advance(100);
    sim.causes.clear();
    sim.advance(5);
    for number in 1..60 {
        sim.end(number);
    }
    sim.advance(600);
    let changes: Vec<_> = sim.changes().into_iter().map(|(_, started, resolved)| (started, resolved)).collect();
    assert_eq!(changes, [(keys(&["node7"]), vec![]), (vec![key(0)], keys(&["node7"]))]);
}

#[test]
fn counts_the_members_of_a_dropped_common_cause() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.receiver = Behaviour::Unreachable;
    sim.start(5);
    sim.advance(60);
    sim.start_with_cause(0..4, 7);
    sim.advance(60);
    sim.active.remove(&key(0));
    sim.active.remove(&key(1));
    sim.active.remove(&key(2));
    sim.active.remove(&key(3));
    sim.advance(600);
    assert_eq!(sim.stored.dropped, 4);
}

#[test]
fn tracks_a_common_cause_before_any_single_incident() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.add_storm(0..150);
    sim.advance(1);
    sim.start_with_cause(0..3, 7);
    sim.advance(29);
    sim.advance(60);
    assert!(!sim.stored.alerts.iter().any(|alert| alert.key == node_key(7)), "the storm is older");
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.add_storm(0..150);
    sim.start_with_cause(0..3, 7);
    sim.advance(90);
    assert!(sim.stored.alerts.iter().any(|alert| alert.key == node_key(7)));
    assert_eq!(sim.storm, 51, "a common cause counts as one problem");
}

/// Like [`Simulation::changes`], without those before the common causes moved.
fn changes_after(sim: &Simulation, seconds: i64) -> Vec<(i64, Vec<String>, Vec<String>)> {
    sim.changes().into_iter().filter(|(at, ..)| *at > seconds).collect()
}

#[test]
fn reports_each_cause_once_while_incidents_move_between_two() {
    for format in WebhookFormat::ALL {
        for restarts in [false, true] {
            let mut sim = Simulation::new(format);
            let restart = |sim: &mut Simulation| {
                if restarts {
                    sim.memory = IncidentMemory::default();
                    sim.last_sent = None;
                }
            };
            sim.start_with_cause(0..3, 1);
            sim.advance(300);
            for _ in 0..3 {
                sim.start_with_cause(0..4, 2);
                sim.advance(300);
                restart(&mut sim);
                sim.start_with_cause(0..4, 1);
                sim.advance(300);
                restart(&mut sim);
            }
            // The first message about the second cause names all of its members.
            let started =
                sim.sent.iter().flat_map(|sent| &sent.started).find(|alert| alert.key == node_key(2)).unwrap();
            assert_eq!(started.members.len(), 4, "{format:?}");
            let expected = [(30, keys(&["node1"]), vec![]), (330, keys(&["node2"]), vec![])];
            assert_eq!(sim.changes(), expected, "{format:?}");
            sim.active.clear();
            sim.causes.clear();
            sim.advance(600);
            let end = changes_after(&sim, 330);
            assert!(end.iter().all(|(at, started, _)| (2_130..2_140).contains(at) && started.is_empty()), "{end:?}");
            let mut resolved: Vec<String> = end.into_iter().flat_map(|(.., resolved)| resolved).collect();
            resolved.sort();
            assert_eq!(resolved, keys(&["node1", "node2"]), "{format:?}");
        }
    }
}

#[test]
fn reported_incidents_with_another_common_cause_are_known() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut sim = Simulation::new(format);
        sim.start_with_cause(0..3, 1);
        sim.advance(100);
        sim.start_with_cause(0..3, 2);
        sim.advance(100);
        // Fewer members of each cause than an alert needs to start.
        sim.end(0);
        sim.start_with_cause(1..2, 3);
        sim.advance(100);
        sim.end(1);
        sim.advance(100);
        assert_eq!(sim.changes(), [(30, keys(&["node1"]), vec![])], "{format:?}");
        sim.end(2);
        sim.advance(600);
        let expected = [(30, keys(&["node1"]), vec![]), (430, vec![], keys(&["node1"]))];
        assert_eq!(sim.changes(), expected, "{format:?}");
    }
}

#[test]
fn repeats_an_alert_whose_members_have_another_common_cause() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.start_with_cause(0..3, 1);
        sim.advance(100);
        sim.start_with_cause(0..3, 2);
        sim.end(0);
        sim.advance(4_000);
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
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start_with_cause(0..3, 1);
    sim.advance(100);
    sim.start_with_cause(0..4, 2);
    sim.advance(20);
    sim.end(3);
    sim.advance(100);
    assert_eq!(changes_after(&sim, 30), [], "the new member recovered too soon");
    sim.start_with_cause(3..5, 2);
    sim.advance(100);
    assert_eq!(changes_after(&sim, 30), [(250, keys(&["node2"]), vec![])]);
    let started = &sim.sent.last().unwrap().started[0];
    assert_eq!((started.members.len(), started.since.to_string().as_str()), (5, "2026-07-01T10:00:00Z"));
}

#[test]
fn resolves_a_common_cause_while_another_continues() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut sim = Simulation::new(format);
        sim.start_with_cause(0..3, 1);
        sim.advance(100);
        sim.start_with_cause(0..5, 2);
        sim.advance(100);
        sim.end(0);
        sim.end(1);
        sim.advance(100);
        assert_eq!(changes_after(&sim, 30), [(130, keys(&["node2"]), vec![])], "{format:?}");
        sim.end(2);
        sim.advance(100);
        assert_eq!(changes_after(&sim, 130), [(330, vec![], keys(&["node1"]))], "{format:?}");
        sim.active.clear();
        sim.advance(100);
        assert_eq!(changes_after(&sim, 330), [(430, vec![], keys(&["node2"]))], "{format:?}");
    }
}

#[test]
fn sends_a_member_that_left_its_common_cause() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.start_with_cause(0..3, 1);
    sim.advance(100);
    sim.start_with_cause(0..3, 2);
    sim.causes.remove(&key(0));
    sim.advance(300);
    assert_eq!(changes_after(&sim, 30), [(100, vec![key(0)], vec![])]);
    sim.active.clear();
    sim.advance(100);
    let mut resolved: Vec<String> = changes_after(&sim, 100).into_iter().flat_map(|(.., resolved)| resolved).collect();
    resolved.sort();
    assert_eq!(resolved, [key(0), node_key(1)]);
}

#[test]
fn recognizes_members_that_move_between_common_causes() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start_with_cause(0..60, 1);
    sim.advance(100);
    for cause in [2, 1, 3, 2, 1] {
        sim.start_with_cause(0..60, cause);
        sim.advance(100);
    }
    // The first alert stores 32 members. The second one stores the others, and is needed because of them.
    let expected = [(30, keys(&["node1"]), vec![]), (100, keys(&["node2"]), vec![])];
    assert_eq!(sim.changes(), expected);
    assert!(sim.stored.alerts.iter().all(|alert| alert.members.len() == 32));
    sim.active.clear();
    sim.advance(600);
    assert_eq!(changes_after(&sim, 100), [(630, vec![], keys(&["node1", "node2"]))]);
}

#[test]
fn reports_another_common_cause_of_members_that_failed_again() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start_with_cause(0..4, 1);
    sim.advance(100);
    sim.end(0);
    sim.end(1);
    sim.advance(1_000);
    sim.start_with_cause(0..2, 2);
    sim.advance(100);
    assert_eq!(changes_after(&sim, 30), [(1_130, keys(&["node2"]), vec![])]);
    sim.active.clear();
    sim.advance(100);
    assert_eq!(changes_after(&sim, 1_130), [(1_230, vec![], keys(&["node1", "node2"]))]);
}

/// How many common causes the incidents of a property move between.
const CAUSES: u8 = 3;

fn event_or_cause() -> impl Strategy<Value = Event> {
    prop_oneof![
        12 => event(),
        4 => (0..KEYS, prop::option::weighted(0.7, 0..CAUSES)).prop_map(|(key, cause)| Event::CauseChanges(key, cause)),
        // All of them, as when a node fails or recovers, or when an image turns out to be one of several of a registry.
        1 => Just(Event::CauseChanges(u8::MAX, None)),
        3 => (0..CAUSES).prop_map(|cause| Event::CauseChanges(u8::MAX, Some(cause))),
    ]
}

fn apply_all(sim: &mut Simulation, events: &[Event]) {
    for event in events {
        if let Event::CauseChanges(u8::MAX, cause) = event {
            for number in 0..KEYS {
                match cause {
                    Some(cause) => _ = sim.causes.insert(key(number), *cause),
                    None => _ = sim.causes.remove(&key(number)),
                }
            }
            sim.apply(&Event::SecondsPass(1));
        } else {
            sim.apply(event);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_incident_and_common_cause_starts_and_ends_once(
        format in format(),
        events in prop::collection::vec(event_or_cause(), 1..60),
    ) {
        let mut sim = Simulation::new(format);
        apply_all(&mut sim, &events);
        sim.recover();

        let firing = |sim: &Simulation, key: &str| {
            sim.stored.alerts.iter().any(|alert| alert.key == key && alert.phase == AlertPhase::Firing)
        };
        for key in (0..KEYS).map(key).chain((0..CAUSES).map(node_key)) {
            let history = sim.history(&key);
            for (index, (_, starts)) in history.iter().enumerate() {
                prop_assert_eq!(*starts, index % 2 == 0, "{}: {:?}", key, history);
            }
            let is_firing = history.last().is_some_and(|(_, starts)| *starts);
            prop_assert_eq!(is_firing, firing(&sim, &key), "{}: {:?}", key, history);
            if let Some((id, _)) = history.last() {
                prop_assert!(sim.attempts.iter().any(|attempt| attempt.id == *id && attempt.confirmed));
            }
            if key.starts_with("node") {
                prop_assert_eq!(is_firing, sim.has_common_cause(&key), "{}: {:?}", key, sim.stored);
                continue;
            }
            let is_member = sim.causes.get(&key).is_some_and(|cause| {
                let mut firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing);
                firing.any(|alert| alert.key == node_key(*cause) || alert.members.contains(&key))
            });
            match sim.active.contains_key(&key) {
                true => prop_assert!(is_firing || is_member, "{} is not sent: {:#?}", key, sim.stored),
                false => prop_assert!(!is_firing, "{} is over: {:?}", key, history),
            }
        }
        let lost = sim.due_unsent.iter().filter(|key| !sim.active.contains_key(*key)).count();
        prop_assert_eq!(lost, sim.due_unsent.len(), "unsent, but still current: {:?}", sim.due_unsent);
        prop_assert!(i64::try_from(lost).unwrap() <= sim.stored.dropped, "{:?} lost, {:?}", sim.due_unsent, sim.stored);
        prop_assert!(sim.stored.pending.is_none() && sim.stored.failures == 0);
    }

    #[test]
    fn a_working_receiver_misses_only_ended_members(
        format in format(),
        events in prop::collection::vec(event_or_cause(), 1..60),
    ) {
        let mut sim = Simulation::new(format);
        let events: Vec<_> =
            events.into_iter().filter(|event| !matches!(event, Event::ReceiverChanges(_))).collect();
        apply_all(&mut sim, &events);
        sim.recover();
        prop_assert!(sim.due_unsent.iter().all(|key| !sim.active.contains_key(key)), "{:?}", sim.due_unsent);
        prop_assert!(i64::try_from(sim.due_unsent.len()).unwrap() <= sim.stored.dropped, "{:?}", sim.due_unsent);
    }
}

#[test]
fn repeats_an_interrupted_common_cause_with_its_id() {
    for crash in [CrashPoint::Sending, CrashPoint::Recording] {
        let mut sim = Simulation::new(WebhookFormat::Slack);
        sim.start_with_cause(0..3, 7);
        sim.crash = Some(crash);
        sim.advance(300);
        let ids: BTreeSet<_> = sim.attempts.iter().map(|attempt| attempt.id.clone()).collect();
        assert_eq!((sim.attempts.len(), ids.len()), (2, 1), "{crash:?}");
    }
}

/// As after a failover, until the events are read from which a missing Secret is known.
#[test]
fn a_common_cause_that_is_unknown_after_a_restart_is_not_over() {
    // The status stores 32 of the members.
    for (format, count) in WebhookFormat::ALL.into_iter().zip([3, 40].into_iter().cycle()) {
        let mut sim = Simulation::new(format);
        sim.start_with_cause(0..count, 7);
        sim.advance(120);
        let before = sim.changes();
        assert_eq!(before, [(30, keys(&["node7"]), keys(&[]))], "{format:?}");
        let causes = std::mem::take(&mut sim.causes);
        sim.restart();
        sim.advance(300);
        assert_eq!(sim.changes(), before, "{format:?}: they are unknown");
        sim.causes = causes;
        sim.advance(900);
        assert_eq!(sim.changes(), before, "{format:?}: they are known again");

        if count > 3 {
            continue;
        }
        // They are not found within ten minutes.
        sim.causes.clear();
        sim.restart();
        sim.advance(599);
        assert_eq!(sim.changes(), before, "{format:?}");
        sim.advance(900);
        let after: BTreeSet<String> = sim.changes().into_iter().flat_map(|(_, started, _)| started).skip(1).collect();
        let resolved: Vec<String> = sim.changes().into_iter().flat_map(|(_, _, resolved)| resolved).collect();
        assert_eq!(resolved, [node_key(7)], "{format:?}");
        assert!(after.contains(&key(0)), "{format:?}: {after:?}");
    }
}
