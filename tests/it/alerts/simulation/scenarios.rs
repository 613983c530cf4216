//! Typical sequences of events, and the messages that a receiver gets.

use std::time::Duration;

use super::{BYTES, Behaviour, CrashPoint, KEYS, Simulation, accepted, key, played, webhook};
use orchestr::{
    alerts::{Incident, NotificationPolicy},
    api::{AlertPhase, MessageKind, Owner, WebhookFormat, WebhookStatus},
};

use WebhookFormat::{Alertmanager, PagerDuty, Slack};

#[test]
fn sends_a_slowly_flapping_pod_less_and_less_often() {
    let sim = played(Slack, &("+1 100s -1 100s ".repeat(20) + "1h"));
    let began = sim.book(0).matches('+').count();
    assert!(began <= 3, "{began} messages about the start");
}

#[test]
fn sends_alerts_to_alertmanager_again_before_they_expire() {
    let sim = played(Alertmanager, "+1 1000s -1 1000s");
    let times: Vec<_> = accepted(&sim).into_iter().map(|(at, ..)| at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 60), "{times:?}");
    assert_eq!(times.first(), Some(&30));
    let last = *times.last().unwrap();
    assert!((1_030 + 240..=1_030 + 300).contains(&last), "resolved alerts are sent for five minutes: {last}");
}

#[test]
fn does_not_change_the_status_for_alerts_sent_again() {
    let mut sim = played(Alertmanager, "+1 60s");
    let before = sim.stored.clone();
    sim.play("30m");
    assert_eq!(sim.stored, before);
}

#[test]
fn keeps_a_full_status_with_hostile_names_within_its_bytes() {
    let mut sim = Simulation::new(Alertmanager);
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
fn repeats_incidents_that_do_not_fit_with_the_others() {
    let sim = played(Slack, "+s0..100 3h");
    let repeats: Vec<_> = sim.sent.iter().filter(|sent| sent.kind == MessageKind::Repeat).collect();
    assert_eq!(repeats.len(), 2);
    for repeat in repeats {
        assert!(repeat.omitted > 0 && repeat.firing() == 100, "{} of {}", repeat.omitted, repeat.firing());
    }
}

#[test]
fn sends_incidents_of_a_node_whose_clock_is_ahead() {
    let mut sim = Simulation::new(Slack);
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
    let mut sim = played(Slack, "Unreachable +1 30s");
    sim.stored.pending = None;
    sim.play("Accepts 5m -1");
    sim.crash = Some(CrashPoint::Recording);
    sim.play("30s");
    assert_eq!(sim.stored.alerts[0].phase, AlertPhase::Resolved);
    assert_eq!(sim.said(0), "+1 | -1 | -1");
}

#[test]
fn sends_only_incidents_that_match() {
    let mut sim = Simulation::new(Slack);
    let mut spec = webhook(Slack);
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
    for format in [Slack, Alertmanager] {
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
fn sends_everything_despite_an_absurd_status() {
    for format in [Slack, PagerDuty, Alertmanager] {
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
    let mut sim = Simulation::new(Slack);
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
