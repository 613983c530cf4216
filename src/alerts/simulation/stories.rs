//! Courses of events that people know, and what they are told then.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;

use super::{BYTES, Happening, KEYS, Kill, Receiver, World, key, webhook};
use crate::{
    alerts::NotificationPolicy,
    api::{AlertPhase, MessageKind, WebhookFormat, WebhookStatus},
};

/// Times and kinds of the messages that were taken.
pub(super) fn taken(world: &World) -> Vec<(i64, MessageKind, Vec<String>, Vec<String>)> {
    let start: Timestamp = "2026-07-01T10:00:00Z".parse().unwrap();
    let taken = world.attempts.iter().filter(|attempt| attempt.taken);
    taken
        .map(|attempt| {
            let at = attempt.at.duration_since(start).as_secs();
            (at, attempt.kind, attempt.started.clone(), attempt.ended.clone())
        })
        .collect()
}

#[test]
fn a_lasting_incident_is_told_after_a_while_again_each_hour_and_when_it_is_over() {
    let mut world = World::new(WebhookFormat::Slack);
    world.begins(1);
    world.pass(2 * 3_600 + 600);
    world.ends(1);
    world.pass(600);
    use MessageKind::{Firing, Repeat, Resolved};
    assert_eq!(
        taken(&world),
        [
            (30, Firing, vec![key(1)], vec![]),
            (3_630, Repeat, vec![], vec![]),
            (7_230, Repeat, vec![], vec![]),
            (7_830, Resolved, vec![], vec![key(1)]),
        ]
    );
}

#[test]
fn a_rollout_sends_nothing() {
    let mut world = World::new(WebhookFormat::Slack);
    for number in 0..KEYS {
        world.begins(number);
        world.pass(25);
        world.ends(number);
    }
    world.pass(600);
    assert_eq!(taken(&world), []);
    assert_eq!(world.stored.dropped, 0);
}

#[test]
fn a_flapping_pod_is_told_once_and_its_end_once() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut world = World::new(format);
        for _ in 0..20 {
            world.begins(1);
            world.pass(40);
            world.ends(1);
            world.pass(20);
        }
        world.pass(3_600);
        let kinds: Vec<_> = taken(&world).into_iter().map(|(_, kind, ..)| kind).collect();
        assert_eq!(kinds, [MessageKind::Firing, MessageKind::Resolved], "{format:?}");
    }
}

#[test]
fn a_pod_that_flaps_slowly_is_soon_told_less_often() {
    let mut world = World::new(WebhookFormat::Slack);
    for _ in 0..20 {
        world.begins(1);
        world.pass(100);
        world.ends(1);
        world.pass(100);
    }
    world.pass(3_600);
    let began = taken(&world).into_iter().filter(|(_, kind, ..)| *kind == MessageKind::Firing).count();
    assert!(began <= 3, "told {began} times that it began");
}

#[test]
fn what_happens_soon_after_a_message_is_told_together_in_the_next() {
    let mut world = World::new(WebhookFormat::Slack);
    for number in 0..4 {
        world.begins(number);
        world.pass(5);
    }
    world.pass(120);
    let told: Vec<_> = taken(&world).into_iter().map(|(at, _, started, _)| (at, started.len())).collect();
    assert_eq!(told, [(30, 1), (60, 3)]);
}

#[test]
fn a_storm_is_a_few_messages_with_exact_numbers() {
    let mut world = World::new(WebhookFormat::Slack);
    for second in 0..50_u64 {
        for number in 0..20_u64 {
            world.present.insert(format!("storm{:04}", second * 20 + number), world.now);
        }
        world.pass(1);
    }
    world.pass(40 * 60);
    let fired = taken(&world).into_iter().filter(|(_, kind, ..)| *kind == MessageKind::Firing).count();
    assert!(fired <= 4, "{fired} messages");
    let firing = world.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count() as u64;
    assert_eq!((firing, world.storm), (100, 900));
    world.present.clear();
    world.pass(40 * 60);
    let resolved = taken(&world).into_iter().filter(|(_, kind, ..)| *kind == MessageKind::Resolved).count();
    assert_eq!((resolved, world.storm), (2, 0), "a hundred ends by name take two messages");
}

#[test]
fn alertmanager_is_reminded_before_it_forgets() {
    let mut world = World::new(WebhookFormat::Alertmanager);
    world.begins(1);
    world.pass(1_000);
    world.ends(1);
    world.pass(1_000);
    let times: Vec<_> = taken(&world).into_iter().map(|(at, ..)| at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 60), "{times:?}");
    assert_eq!(times.first(), Some(&30));
    let last = *times.last().unwrap();
    assert!((1_030 + 240..=1_030 + 300).contains(&last), "resolved is told for five minutes: {last}");
}

#[test]
fn a_status_is_not_written_for_reminders() {
    let mut world = World::new(WebhookFormat::Alertmanager);
    world.begins(1);
    world.pass(60);
    let before = world.stored.clone();
    world.pass(1_800);
    assert_eq!(world.stored, before);
}

#[test]
fn an_outage_delays_and_counts_what_it_hid() {
    let mut world = World::new(WebhookFormat::Slack);
    world.receiver = Receiver::Unreachable;
    world.begins(1);
    world.pass(60);
    world.begins(2);
    world.pass(120);
    world.ends(1);
    world.pass(600);
    assert_eq!(world.stored.dropped, 1);
    let ids: BTreeSet<_> = world.attempts.iter().map(|attempt| &attempt.id).collect();
    assert_eq!(ids.len(), 2, "one id for the incident that ended, one for the other");
    world.receiver = Receiver::Takes;
    world.pass(600);
    assert_eq!(taken(&world).len(), 1);
}

#[test]
fn a_receiver_that_is_gone_is_left_alone_until_something_changes() {
    let mut world = World::new(WebhookFormat::Slack);
    world.receiver = Receiver::Gone;
    world.begins(1);
    world.pass(24 * 3_600);
    assert_eq!(world.attempts.len(), 1);
    assert!(world.stored.stopped);
    world.receiver = Receiver::Takes;
    world.happens(&Happening::SecretChanges);
    assert_eq!(world.attempts.len(), 2);
    assert_eq!(world.attempts[0].id, world.attempts[1].id);
}

#[test]
fn a_receiver_that_wants_less_gets_less() {
    let mut world = World::new(WebhookFormat::Slack);
    world.receiver = Receiver::WantsLess;
    world.begins(1);
    world.pass(60);
    let ids: BTreeSet<_> = world.attempts.iter().map(|attempt| &attempt.id).collect();
    assert_eq!((world.attempts.len(), ids.len()), (3, 1));
    assert_eq!(world.stored.failures, 0);
}

#[test]
fn a_full_state_of_hostile_names_keeps_within_its_bytes() {
    let mut world = World::new(WebhookFormat::Alertmanager);
    for number in 0..300 {
        world.present.insert(format!("{number:03}{}", "\"\\".repeat(200)), world.now);
    }
    world.pass(60);
    assert!(world.stored.storm.is_some());
    let length = serde_json::to_string(&world.stored).unwrap().len();
    assert!(length <= BYTES + 2_048, "{length} bytes");
    assert!(length > BYTES / 2, "there was room for more than {length} bytes");
}

#[test]
fn a_node_whose_clock_is_ahead_does_not_silence_its_pods() {
    let mut world = World::new(WebhookFormat::Slack);
    let ahead = |seconds: u64| world.now + Duration::from_secs(seconds);
    let (year, little) = (ahead(31_536_000), ahead(20));
    world.present.insert(key(1), year);
    world.act();
    assert_eq!(taken(&world).len(), 1, "told at once: its age isn't known");
    world.present.insert(key(2), little);
    world.pass(49);
    assert_eq!(taken(&world).len(), 1);
    world.pass(1);
    assert_eq!(taken(&world).len(), 2, "a little later than by a right clock");
}

#[test]
fn a_status_that_lost_its_pending_message_recovers() {
    let mut world = World::new(WebhookFormat::Slack);
    world.receiver = Receiver::Unreachable;
    world.begins(1);
    world.pass(30);
    world.stored.pending = None;
    world.receiver = Receiver::Takes;
    world.pass(300);
    world.ends(1);
    world.kill = Some(Kill::Recording);
    world.pass(30);
    assert_eq!(world.stored.alerts[0].phase, AlertPhase::Resolved);
    let kinds: Vec<_> = taken(&world).into_iter().map(|(_, kind, ..)| kind).collect();
    assert_eq!(kinds, [MessageKind::Firing, MessageKind::Resolved, MessageKind::Resolved]);
}

#[test]
fn news_do_not_wait_for_a_repetition_that_fails() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut world = World::new(format);
        world.begins(1);
        world.pass(3_600);
        world.receiver = Receiver::Unreachable;
        world.pass(60);
        assert_eq!(world.stored.pending.as_ref().map(|pending| pending.kind), Some(MessageKind::Repeat));
        world.begins(2);
        world.pass(60);
        assert_ne!(world.stored.pending.as_ref().map(|pending| pending.kind), Some(MessageKind::Repeat));
        world.receiver = Receiver::Takes;
        world.pass(600);
        assert_eq!(taken(&world)[1].2, [key(2)], "{format:?}");
    }
}

#[test]
fn pagerduty_is_told_of_one_incident_at_a_time() {
    let mut world = World::new(WebhookFormat::PagerDuty);
    for number in 0..3 {
        world.begins(number);
    }
    world.pass(3_700);
    for number in 0..3 {
        world.ends(number);
    }
    world.pass(300);
    let told = taken(&world);
    use MessageKind::{Firing, Repeat, Resolved};
    let expected: Vec<_> = [(30, 3_630), (32, 3_632), (34, 3_634)].into_iter().zip(0..3).collect();
    for (index, ((first, again), number)) in expected.into_iter().enumerate() {
        assert_eq!(told[index], (first, Firing, vec![key(number)], vec![]));
        assert_eq!(told[index + 3], (again, Repeat, vec![key(number)], vec![]));
        assert_eq!(told[index + 6], (3_730 + 2 * index as i64, Resolved, vec![], vec![key(number)]));
    }
    assert_eq!(told.len(), 9);
}

#[test]
fn only_what_matches_is_told() {
    let mut world = World::new(WebhookFormat::Slack);
    let mut wanted = webhook(WebhookFormat::Slack);
    let matching = |namespaces: &[&str], reasons: &[&str]| {
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect());
        Some(crate::api::Match { namespaces: texts(namespaces), reasons: texts(reasons) })
    };
    for (match_, told) in [
        (matching(&["sh*"], &["OOMKilled"]), 1),
        (matching(&[], &[]), 1),
        (matching(&["kube-*"], &[]), 0),
        (matching(&[], &["Error"]), 0),
    ] {
        wanted.match_ = match_;
        world.policy = NotificationPolicy::new(0, &wanted).unwrap();
        world.stored = WebhookStatus::default();
        world.attempts.clear();
        world.present.clear();
        world.begins(1);
        world.pass(60);
        assert_eq!(taken(&world).len(), told, "{:?}", wanted.match_);
    }
}

#[test]
fn the_end_is_not_told_where_it_is_not_wanted() {
    for format in [WebhookFormat::Slack, WebhookFormat::Alertmanager] {
        let mut world = World::new(format);
        world.policy.send_resolved = false;
        world.policy.pace.tracked = 1;
        world.begins(1);
        world.begins(2);
        world.pass(60);
        let before = taken(&world).len();
        world.present.clear();
        world.pass(29);
        let reminded = taken(&world).len();
        world.pass(3_600);
        let after: Vec<_> = taken(&world).into_iter().skip(reminded).collect();
        assert!(before > 0 && after.iter().all(|(.., ended)| ended.is_empty()), "{after:?}");
        assert!(world.stored.alerts.is_empty() && world.stored.storm.is_none(), "{:?}", world.stored);
    }
}

#[test]
fn a_storm_that_calms_down_is_told_one_by_one() {
    let mut world = World::new(WebhookFormat::Slack);
    for number in 0..150 {
        world.present.insert(format!("storm{number:03}"), world.now);
    }
    world.pass(60);
    assert_eq!(world.storm, 50);
    world.present.retain(|key, _| key.as_str() >= "storm080");
    world.pass(600);
    assert_eq!((world.storm, world.stored.storm.is_some()), (0, false));
    let firing = world.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count();
    assert_eq!(firing, 70);
    assert_eq!(world.stored.dropped, 0);
}

#[test]
fn what_may_have_been_told_is_finished_before_anything_else() {
    let mut world = World::new(WebhookFormat::Slack);
    world.receiver = Receiver::LosesItAndFails;
    world.begins(1);
    world.pass(31);
    world.ends(1);
    world.pass(900);
    assert_eq!(world.stored.dropped, 0, "it may have been told: its end must be");
    world.receiver = Receiver::Takes;
    while taken(&world).is_empty() {
        world.pass(1);
    }
    world.receiver = Receiver::LosesItAndFails;
    world.pass(60);
    assert_eq!(world.stored.alerts[0].phase, AlertPhase::Resolving);
    world.begins(1);
    world.pass(60);
    assert_eq!(world.stored.alerts[0].phase, AlertPhase::Resolving, "its end may have been told");
    world.receiver = Receiver::Takes;
    world.pass(600);
    use MessageKind::{Firing, Resolved};
    let kinds: Vec<_> = taken(&world).into_iter().map(|(_, kind, ..)| kind).collect();
    assert_eq!(kinds, [Firing, Resolved, Firing]);
}

#[test]
fn what_ends_while_it_waits_for_its_turn_is_told() {
    let mut world = World::new(WebhookFormat::PagerDuty);
    let all: Vec<String> = (0..20).map(|number| format!("many{number:02}")).collect();
    world.present.extend(all.iter().map(|key| (key.clone(), world.now)));
    world.pass(30);
    world.present.clear();
    world.pass(3_600);
    let began: BTreeSet<String> = taken(&world).into_iter().flat_map(|(_, _, started, _)| started).collect();
    assert_eq!((began.len(), world.stored.dropped), (20, 0));
}

impl World {
    fn storm(&mut self, numbers: std::ops::Range<u32>) {
        self.present.extend(numbers.map(|number| (format!("storm{number:04}"), self.now)));
    }
}

#[test]
fn a_storm_that_grows_much_is_told_at_once_and_one_that_grows_slowly_now_and_then() {
    let mut world = World::new(WebhookFormat::Slack);
    world.storm(0..110);
    world.pass(60);
    assert_eq!((taken(&world).len(), world.storm), (2, 10), "a hundred names take two messages");
    world.storm(110..1_000);
    world.pass(60);
    assert_eq!((taken(&world).len(), world.storm), (3, 900));
    // Also where the time at which it was told is of a clock that was ahead.
    world.corrupt(false);
    for number in 1_000..1_060 {
        world.storm(number..number + 1);
        world.pass(60);
    }
    let more = taken(&world).len() - 3;
    assert!((10..=12).contains(&more), "{more} messages in an hour");
    assert!(world.storm > 950);
}

#[test]
fn an_end_during_a_storm_makes_no_room_for_another_message() {
    let mut world = World::new(WebhookFormat::Slack);
    world.storm(0..150);
    world.pass(60);
    world.present.remove("storm0007");
    world.pass(600);
    let told: Vec<_> = taken(&world).into_iter().map(|(_, kind, started, _)| (kind, started.len())).collect();
    assert_eq!(told, [(MessageKind::Firing, 65), (MessageKind::Firing, 35), (MessageKind::Resolved, 0)]);
}

#[test]
fn a_storm_that_nobody_was_told_of_is_counted_for_what_it_hid() {
    let mut world = World::new(WebhookFormat::Slack);
    world.receiver = Receiver::Unreachable;
    world.storm(0..150);
    world.pass(60);
    assert_eq!(world.stored.storm.as_ref().map(|storm| storm.count), Some(50));
    world.present.retain(|key, _| key.as_str() >= "storm0080");
    world.pass(600);
    assert_eq!((world.stored.dropped, world.stored.storm.is_none()), (80, true));
}

#[test]
fn a_status_from_a_clock_that_was_ahead_or_with_absurd_numbers_silences_nothing() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut world = World::new(format);
        world.policy.pace.tracked = 2;
        world.receiver = Receiver::LosesItAndFails;
        for number in 0..KEYS {
            world.begins(number);
        }
        world.pass(40);
        world.corrupt(true);
        world.receiver = Receiver::Takes;
        world.pass(4_000);
        let firing = world.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count() as u64;
        assert_eq!(firing + world.storm, u64::from(KEYS), "{format:?} {:#?}", world.stored);
        world.present.clear();
        world.act();
        world.corrupt(false);
        world.pass(1_000);
        let firing = world.stored.alerts.iter().any(|alert| alert.phase != AlertPhase::Resolved);
        assert!(!firing && world.stored.storm.is_none(), "{format:?} {:#?}", world.stored);
        world.corrupt(false);
        world.pass(4_000);
        assert!(world.stored.alerts.is_empty(), "{format:?}");
    }
}

impl World {
    /// Writes instants of a far future, and on demand absurd numbers, over those of the stored state.
    fn corrupt(&mut self, numbers: bool) {
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
            // So that the pace alone decides.
            state["nextAttempt"] = serde_json::Value::Null;
        }
        self.stored = serde_json::from_value(state).unwrap();
    }
}
