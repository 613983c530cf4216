//! Typical sequences of events, and the messages that a receiver gets.

use std::{collections::BTreeSet, time::Duration};

use super::{BYTES, Behaviour, CrashPoint, Event, KEYS, Simulation, accepted, key, webhook};
use orchestr::{
    alerts::{Incident, NotificationPolicy},
    api::{AlertPhase, MessageKind, Owner, WebhookFormat, WebhookStatus},
};

#[test]
fn sends_a_lasting_incident_hourly_until_it_is_resolved() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start(1);
    sim.advance(2 * 3_600 + 600);
    sim.end(1);
    sim.advance(600);
    use MessageKind::{Firing, Repeat, Resolved};
    assert_eq!(
        accepted(&sim),
        [
            (30, Firing, vec![key(1)], vec![]),
            (3_630, Repeat, vec![], vec![]),
            (7_230, Repeat, vec![], vec![]),
            (7_830, Resolved, vec![], vec![key(1)]),
        ]
    );
}

#[test]
fn sends_nothing_about_a_rollout() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    for number in 0..KEYS {
        sim.start(number);
        sim.advance(25);
        sim.end(number);
    }
    sim.advance(600);
    assert_eq!(accepted(&sim), []);
    assert_eq!(sim.stored.dropped, 0);
}

#[test]
fn sends_one_start_and_one_end_of_a_flapping_pod() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = Simulation::new(format);
        for _ in 0..20 {
            sim.start(1);
            sim.advance(40);
            sim.end(1);
            sim.advance(20);
        }
        sim.advance(3_600);
        let kinds: Vec<_> = accepted(&sim).into_iter().map(|(_, kind, ..)| kind).collect();
        assert_eq!(kinds, [MessageKind::Firing, MessageKind::Resolved], "{format:?}");
    }
}

#[test]
fn sends_a_slowly_flapping_pod_less_and_less_often() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    for _ in 0..20 {
        sim.start(1);
        sim.advance(100);
        sim.end(1);
        sim.advance(100);
    }
    sim.advance(3_600);
    let began = accepted(&sim).into_iter().filter(|(_, kind, ..)| *kind == MessageKind::Firing).count();
    assert!(began <= 3, "{began} messages about the start");
}

#[test]
fn groups_changes_within_30_s_after_a_message_into_the_next() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    for number in 0..4 {
        sim.start(number);
        sim.advance(5);
    }
    sim.advance(120);
    let messages: Vec<_> = accepted(&sim).into_iter().map(|(at, _, started, _)| (at, started.len())).collect();
    assert_eq!(messages, [(30, 1), (60, 3)]);
}

#[test]
fn sends_alerts_to_alertmanager_again_before_they_expire() {
    let mut sim = Simulation::new(WebhookFormat::Alertmanager);
    sim.start(1);
    sim.advance(1_000);
    sim.end(1);
    sim.advance(1_000);
    let times: Vec<_> = accepted(&sim).into_iter().map(|(at, ..)| at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 60), "{times:?}");
    assert_eq!(times.first(), Some(&30));
    let last = *times.last().unwrap();
    assert!((1_030 + 240..=1_030 + 300).contains(&last), "resolved alerts are sent for five minutes: {last}");
}

#[test]
fn does_not_change_the_status_for_alerts_sent_again() {
    let mut sim = Simulation::new(WebhookFormat::Alertmanager);
    sim.start(1);
    sim.advance(60);
    let before = sim.stored.clone();
    sim.advance(1_800);
    assert_eq!(sim.stored, before);
}

#[test]
fn counts_what_began_and_ended_during_an_outage() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.receiver = Behaviour::Unreachable;
    sim.start(1);
    sim.advance(60);
    sim.start(2);
    sim.advance(120);
    sim.end(1);
    sim.advance(600);
    assert_eq!(sim.stored.dropped, 1);
    let ids: BTreeSet<_> = sim.attempts.iter().map(|attempt| &attempt.id).collect();
    assert_eq!(ids.len(), 2, "one ID for each incident");
    sim.receiver = Behaviour::Accepts;
    sim.advance(600);
    assert_eq!(accepted(&sim).len(), 1);
}

#[test]
fn stops_after_410_until_the_secret_changes() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.receiver = Behaviour::Gone;
    sim.start(1);
    sim.advance(24 * 3_600);
    assert_eq!(sim.attempts.len(), 1);
    assert!(sim.stored.stopped);
    sim.receiver = Behaviour::Accepts;
    sim.apply(&Event::SecretChanges);
    assert_eq!(sim.attempts.len(), 2);
    assert_eq!(sim.attempts[0].id, sim.attempts[1].id);
}

#[test]
fn shortens_a_message_that_is_too_large() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.receiver = Behaviour::RejectsDetails;
    sim.start(1);
    sim.advance(60);
    let ids: BTreeSet<_> = sim.attempts.iter().map(|attempt| &attempt.id).collect();
    assert_eq!((sim.attempts.len(), ids.len()), (3, 1));
    assert_eq!(sim.stored.failures, 0);
}

#[test]
fn keeps_a_full_status_with_hostile_names_within_its_bytes() {
    let mut sim = Simulation::new(WebhookFormat::Alertmanager);
    for number in 0..300 {
        sim.active.insert(format!("{number:03}{}", "\"\\".repeat(200)), sim.now);
    }
    sim.advance(60);
    assert!(sim.stored.storm.is_some());
    let length = serde_json::to_string(&sim.stored).unwrap().len();
    assert!(length <= BYTES + 2_048, "{length} bytes");
    assert!(length > BYTES / 2, "only {length} bytes are used");
}

#[test]
fn sends_incidents_of_a_node_whose_clock_is_ahead() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    let ahead = |seconds: u64| sim.now + Duration::from_secs(seconds);
    let (year, little) = (ahead(31_536_000), ahead(20));
    sim.active.insert(key(1), year);
    sim.run();
    assert_eq!(accepted(&sim).len(), 1, "sent immediately: its age is unknown");
    sim.active.insert(key(2), little);
    sim.advance(49);
    assert_eq!(accepted(&sim).len(), 1);
    sim.advance(1);
    assert_eq!(accepted(&sim).len(), 2, "later than with a correct clock");
}

#[test]
fn recovers_from_a_status_that_lost_its_pending_message() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.receiver = Behaviour::Unreachable;
    sim.start(1);
    sim.advance(30);
    sim.stored.pending = None;
    sim.receiver = Behaviour::Accepts;
    sim.advance(300);
    sim.end(1);
    sim.crash = Some(CrashPoint::Recording);
    sim.advance(30);
    assert_eq!(sim.stored.alerts[0].phase, AlertPhase::Resolved);
    let kinds: Vec<_> = accepted(&sim).into_iter().map(|(_, kind, ..)| kind).collect();
    assert_eq!(kinds, [MessageKind::Firing, MessageKind::Resolved, MessageKind::Resolved]);
}

#[test]
fn sends_changes_without_waiting_for_a_failing_repetition() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.advance(3_600);
        sim.receiver = Behaviour::Unreachable;
        sim.advance(60);
        assert_eq!(sim.stored.pending.as_ref().map(|pending| pending.kind), Some(MessageKind::Repeat));
        sim.start(2);
        sim.advance(60);
        assert_ne!(sim.stored.pending.as_ref().map(|pending| pending.kind), Some(MessageKind::Repeat));
        sim.receiver = Behaviour::Accepts;
        sim.advance(600);
        assert_eq!(accepted(&sim)[1].2, [key(2)], "{format:?}");
    }
}

#[test]
fn sends_pagerduty_one_incident_at_a_time() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    for number in 0..3 {
        sim.start(number);
    }
    sim.advance(3_700);
    for number in 0..3 {
        sim.end(number);
    }
    sim.advance(300);
    let messages = accepted(&sim);
    use MessageKind::{Firing, Repeat, Resolved};
    let expected: Vec<_> = [(30, 3_630), (32, 3_632), (34, 3_634)].into_iter().zip(0..3).collect();
    for (index, ((first, again), number)) in expected.into_iter().enumerate() {
        assert_eq!(messages[index], (first, Firing, vec![key(number)], vec![]));
        assert_eq!(messages[index + 3], (again, Repeat, vec![key(number)], vec![]));
        assert_eq!(messages[index + 6], (3_730 + 2 * index as i64, Resolved, vec![], vec![key(number)]));
    }
    assert_eq!(messages.len(), 9);
}

#[test]
fn sends_only_incidents_that_match() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    let mut spec = webhook(WebhookFormat::Slack);
    let matching = |namespaces: &[&str], reasons: &[&str]| {
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        Some(orchestr::api::Match {
            namespaces: texts(namespaces),
            reasons: texts(reasons),
            ..orchestr::api::Match::default()
        })
    };
    for (match_, expected) in [
        (matching(&["sh*"], &["OOMKilled"]), 1),
        (matching(&[], &[]), 1),
        (matching(&["kube-*"], &[]), 0),
        (matching(&[], &["Error"]), 0),
    ] {
        spec.match_ = match_;
        sim.policy = NotificationPolicy::new(0, &spec).unwrap();
        sim.stored = WebhookStatus::default();
        sim.attempts.clear();
        sim.active.clear();
        sim.start(1);
        sim.advance(60);
        assert_eq!(accepted(&sim).len(), expected, "{:?}", spec.match_);
    }
}

#[test]
fn sends_no_end_without_send_resolved() {
    for format in [WebhookFormat::Slack, WebhookFormat::Alertmanager] {
        let mut sim = Simulation::new(format);
        sim.policy.send_resolved = false;
        sim.policy.pacing.max_incidents = 1;
        sim.start(1);
        sim.start(2);
        sim.advance(60);
        let before = accepted(&sim).len();
        sim.active.clear();
        sim.advance(29);
        let resent = accepted(&sim).len();
        sim.advance(3_600);
        let after: Vec<_> = accepted(&sim).into_iter().skip(resent).collect();
        assert!(before > 0 && after.iter().all(|(.., resolved)| resolved.is_empty()), "{after:?}");
        assert!(sim.sent.iter().all(|message| message.resolved.is_empty()), "{format:?}: nor is it sent again");
        assert!(sim.stored.alerts.is_empty() && sim.stored.storm.is_none(), "{:?}", sim.stored);
    }
}

#[test]
fn repeats_an_uncertain_message_before_any_other() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.receiver = Behaviour::Fails;
    sim.start(1);
    sim.advance(31);
    sim.start(2);
    sim.advance(900);
    let ids: BTreeSet<_> = sim.attempts.iter().map(|attempt| &attempt.id).collect();
    assert_eq!(ids.len(), 1, "the second incident waits until the first message is certain");
    sim.end(2);
    sim.receiver = Behaviour::Accepts;
    sim.advance(400);
    sim.end(1);
    sim.receiver = Behaviour::Fails;
    sim.advance(90);
    assert_eq!(sim.stored.alerts[0].phase, AlertPhase::Resolving);
    sim.start(1);
    sim.advance(60);
    assert_eq!(sim.stored.alerts[0].phase, AlertPhase::Resolving, "the end may have been delivered");
    sim.receiver = Behaviour::Accepts;
    sim.advance(600);
    use MessageKind::{Firing, Resolved};
    let kinds: Vec<_> = accepted(&sim).into_iter().map(|(_, kind, ..)| kind).collect();
    assert_eq!(kinds, [Firing, Resolved, Firing]);
}

#[test]
fn sends_the_end_of_an_uncertain_start() {
    // The first attempt is uncertain, the later ones are not.
    for crash in [None, Some(CrashPoint::Sending)] {
        let mut sim = Simulation::new(WebhookFormat::Slack);
        sim.receiver = if crash.is_none() { Behaviour::Fails } else { Behaviour::Unreachable };
        sim.crash = crash;
        sim.start(1);
        sim.advance(31);
        sim.receiver = Behaviour::Unreachable;
        sim.advance(60);
        sim.end(1);
        sim.advance(600);
        sim.receiver = Behaviour::Accepts;
        sim.advance(600);
        let kinds: Vec<_> = accepted(&sim).into_iter().map(|(_, kind, ..)| kind).collect();
        assert_eq!((kinds, sim.stored.dropped), (vec![MessageKind::Resolved], 0), "{crash:?}");
    }
}

#[test]
fn sends_no_message_about_dropped_incidents() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start(1);
    sim.advance(60);
    sim.receiver = Behaviour::Unreachable;
    sim.start(2);
    sim.advance(60);
    sim.end(2);
    sim.advance(300);
    assert!(sim.stored.dropped == 1 && sim.stored.pending.is_none(), "{:?}", sim.stored);
    sim.receiver = Behaviour::Accepts;
    sim.advance(600);
    assert_eq!(accepted(&sim).len(), 1);
}

#[test]
fn sends_starts_before_ends_to_pagerduty() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.start(1);
    sim.start(2);
    sim.advance(100);
    for (ends, starts) in [(1, 4), (2, 3)] {
        sim.end(ends);
        sim.start(starts);
    }
    sim.advance(100);
    let messages: Vec<_> =
        accepted(&sim).into_iter().skip(2).map(|(at, _, started, over)| (at, started, over)).collect();
    let expected = [
        (130, vec![key(3)], vec![]),
        (132, vec![key(4)], vec![]),
        (134, vec![], vec![key(1)]),
        (136, vec![], vec![key(2)]),
    ];
    assert_eq!(messages, expected);
}

#[test]
fn counts_incidents_that_end_while_waiting_for_their_turn() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    let all: Vec<String> = (0..20).map(|number| format!("many{number:02}")).collect();
    sim.active.extend(all.iter().map(|key| (key.clone(), sim.now)));
    sim.advance(30);
    sim.active.clear();
    sim.advance(3_600);
    let began: BTreeSet<String> = accepted(&sim).into_iter().flat_map(|(_, _, started, _)| started).collect();
    assert_eq!((began.len(), sim.stored.dropped), (1, 19));
}

#[test]
fn sends_everything_despite_an_absurd_status() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut sim = Simulation::new(format);
        sim.policy.pacing.max_incidents = 2;
        sim.receiver = Behaviour::Fails;
        for number in 0..KEYS {
            sim.start(number);
        }
        sim.advance(40);
        sim.corrupt(true);
        sim.receiver = Behaviour::Accepts;
        sim.advance(4_000);
        let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count() as u64;
        assert_eq!(firing + sim.storm, u64::from(KEYS), "{format:?} {:#?}", sim.stored);
        sim.active.clear();
        sim.run();
        sim.corrupt(false);
        sim.advance(1_000);
        let firing = sim.stored.alerts.iter().any(|alert| alert.phase != AlertPhase::Resolved);
        assert!(!firing && sim.stored.storm.is_none(), "{format:?} {:#?}", sim.stored);
        sim.corrupt(false);
        sim.advance(4_000);
        assert!(sim.stored.alerts.is_empty(), "{format:?}");
    }
}

impl Simulation {
    /// Overwrites the times of the stored state with a far future, and optionally its numbers with absurd ones.
    pub(super) fn corrupt(&mut self, numbers: bool) {
        let future = serde_json::json!("9999-12-30T00:00:00Z");
        let mut state = serde_json::to_value(&self.stored).unwrap();
        state["nextAttempt"] = future.clone();
        state["lastSuccess"] = future.clone();
        for part in ["/alerts/0", "/alerts/1", "/storm"] {
            let Some(part) = state.pointer_mut(part) else { continue };
            for field in ["sentAt", "goneSince"] {
                if numbers || part.get(field).is_some() {
                    part[field] = future.clone();
                }
            }
            if numbers {
                part["returns"] = i64::MAX.into();
                part["count"] = i64::MIN.into();
            }
        }
        if numbers {
            state["failures"] = i64::MAX.into();
            state["dropped"] = i64::MAX.into();
            state["pending"]["attempts"] = i64::MAX.into();
        } else {
            // So that only the group interval delays the next message.
            state["nextAttempt"] = serde_json::Value::Null;
        }
        self.stored = serde_json::from_value(state).unwrap();
    }
}

/// The simulation itself identifies incidents by their keys, so the plans are checked one by one.
#[test]
fn equal_keys_of_different_owners_have_their_own_alerts() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start(1);
    sim.advance(60);
    let forged = sim.incidents().remove(0);
    sim.set_incident(Incident {
        namespace: "ml".into(),
        owner: Owner { kind: "Job".to_owned(), name: "train".to_owned() }.into(),
        ..forged
    });
    sim.now += Duration::from_secs(60);
    let planned = sim.step();
    let [alert] = &planned.state.alerts[..] else { panic!("{:?}", planned.state) };
    assert_eq!((&alert.owner.name, alert.gone_since.is_some()), (&key(1), true), "its incident is gone");

    sim.stored = planned.state;
    (sim.stored.alerts[0].phase, sim.stored.alerts[0].sent_at) = (AlertPhase::Resolved, None);
    let planned = sim.step();
    let [alert] = &planned.state.alerts[..] else { panic!("{:?}", planned.state) };
    assert_eq!((alert.owner.name.as_str(), alert.gone_since.is_some()), ("train", false), "the other has its own");
}
