//! Silences and quiet hours: what they hold back, what passes, and what is sent when they end.

use jiff::{Timestamp, tz::TimeZone};
use proptest::prelude::*;

use super::{
    Behaviour, Event, KEYS, Simulation, accepted, key,
    properties::{event, format},
    rendered_text,
};
use orchestr::{
    alerts::{Alert, Incident, IncidentMemory, MuteRules, Notification, Pacing},
    api::{AlertPhase, MessageKind, MuteMatch, MutedStatus, QuietHours, Severity, Silence, WebhookFormat},
};

/// The silences and quiet hours of a simulation, as its own checks evaluate them.
#[derive(Default)]
pub(super) struct Mutes {
    /// The silenced owners, with one `*` at the end of some, and until when.
    silences: Vec<(String, Timestamp)>,
    /// From when to when, in minutes of the day in UTC.
    quiet_hours: Option<(u16, u16)>,
}

/// The minute of the day in UTC.
fn minute(at: Timestamp) -> u16 {
    let time = TimeZone::UTC.to_datetime(at);
    u16::try_from(i32::from(time.hour()) * 60 + i32::from(time.minute())).unwrap()
}

impl Simulation {
    /// Silences an owner, or all owners whose names begin with the text before a `*`.
    pub(super) fn silence(&mut self, owner: &str, seconds: u64) {
        let until = self.now + std::time::Duration::from_secs(seconds);
        self.mutes.silences.retain(|(silenced, _)| silenced != owner);
        self.mutes.silences.push((owner.to_owned(), until));
        self.update_mute_rules();
    }

    pub(super) fn begin_quiet_hours(&mut self, minutes: u16) {
        let start = minute(self.now);
        self.mutes.quiet_hours = Some((start, (start + minutes) % (24 * 60)));
        self.update_mute_rules();
    }

    pub(super) fn remove_mutes(&mut self) {
        self.mutes = Mutes::default();
        self.update_mute_rules();
    }

    pub(super) fn set_severity(&mut self, number: u8, severity: Severity) {
        let current = self.incidents().into_iter().find(|incident| incident.key == key(number));
        self.custom.extend(current.map(|current| (current.key.to_string(), Incident { severity, ..current })));
    }

    fn update_mute_rules(&mut self) {
        let silence = |(index, (owner, until)): (usize, &(String, Timestamp))| Silence {
            name: format!("s{index}"),
            until: until.to_string(),
            match_: MuteMatch { owners: Some(vec![owner.clone()]), ..MuteMatch::default() },
            ..Silence::default()
        };
        let silences: Vec<_> = self.mutes.silences.iter().enumerate().map(silence).collect();
        let time = |minute: u16| format!("{:02}:{:02}", minute / 60, minute % 60);
        let quiet_hours = self.mutes.quiet_hours.map(|(start, end)| QuietHours {
            name: "nights".to_owned(),
            start: time(start),
            end: time(end),
            time_zone: "Etc/UTC".to_owned(),
            ..QuietHours::default()
        });
        self.mute_rules = MuteRules::new(&silences, quiet_hours.as_slice(), &mut Vec::new());
    }

    /// Whether alerts about a current incident are held back now.
    fn is_muted(&self, key: &str) -> bool {
        let Some(incident) = self.incidents().into_iter().find(|incident| incident.key == key) else { return false };
        let owner = &incident.owner.name;
        let silenced = self.mutes.silences.iter().any(|(silenced, until)| {
            let matches = silenced.strip_suffix('*').map_or(silenced == owner, |start| owner.starts_with(start));
            matches && self.now < *until
        });
        let now = minute(self.now);
        let quiet = self.mutes.quiet_hours.is_some_and(|(start, end)| {
            if start < end { (start..end).contains(&now) } else { now >= start || now < end }
        });
        silenced || quiet && incident.severity != Severity::Critical
    }

    /// Checks that a message, unless it may have been delivered before, announces and repeats only what is not muted, and
    /// that it ends a storm only if no incident is left that the storm may have counted.
    pub(super) fn check_mutes(&self, message: &Notification) {
        if !self.incidents_known || message.kind == MessageKind::Resend {
            return;
        }
        let is_muted = |alert: &Alert| {
            if alert.members.is_empty() {
                self.is_muted(&alert.key)
            } else {
                let mut due = alert.members.iter().filter(|member| self.is_due(self.active[&member.key])).peekable();
                due.peek().is_some() && due.all(|member| self.is_muted(&member.key))
            }
        };
        if message.kind == MessageKind::Repeat {
            let repeated = message.started.iter().chain(&message.ongoing);
            let is_counted = message.storm.is_some() || message.omitted > 0;
            assert!(is_counted || repeated.into_iter().any(|alert| !is_muted(alert)), "{message:?}");
        } else {
            for alert in &message.started {
                assert!(!is_muted(alert), "{} is announced although it is muted", alert.key);
            }
        }
        if message.storm.as_ref().is_some_and(|storm| storm.resolved_at.is_some()) {
            let tracked = |key: &String| {
                self.stored.alerts.iter().any(|alert| {
                    (alert.key == *key || alert.members.contains(key)) && alert.phase != AlertPhase::Resolved
                })
            };
            let left = self.active.iter().find(|(key, since)| self.is_due(**since) && !tracked(key));
            assert_eq!(left, None, "the storm ends");
        }
    }

    fn muted(&self) -> MutedStatus {
        self.stored.muted.clone().unwrap_or_default()
    }

    /// How many incidents are known to have begun and ended while they were held back.
    fn ended_while_muted(&self) -> i64 {
        let reported: u64 = self.sent.iter().map(|message| message.ended_while_muted).sum();
        self.muted().ended + i64::try_from(reported).unwrap()
    }
}

#[test]
fn sends_an_incident_when_the_silence_ends_if_it_lasts() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.silence("key1", 600);
        sim.start(1);
        sim.start(2);
        sim.advance(300);
        let sent: Vec<_> = accepted(&sim).into_iter().flat_map(|(_, _, started, _)| started).collect();
        assert_eq!(sent, [key(2)], "{format:?}");
        let muted = sim.muted();
        assert_eq!((muted.count, muted.ended, muted.by.as_str()), (1, 0, "silence s0"));
        assert_eq!(muted.until.unwrap().0.to_string(), "2026-07-01T10:10:00Z");
        assert_eq!(muted.incidents[0].key, key(1));
        // A restarted operator continues.
        sim.memory = IncidentMemory::default();
        sim.advance(400);
        let sent: Vec<_> = accepted(&sim).into_iter().filter(|(_, _, started, _)| *started == [key(1)]).collect();
        assert_eq!(sent, [(600, MessageKind::Firing, vec![key(1)], vec![])], "{format:?}");
        assert_eq!(sim.stored.muted, None, "{format:?}");
    }
}

#[test]
fn counts_what_began_and_ended_while_held_back() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.silence("*", 600);
        sim.start(1);
        sim.start(2);
        sim.advance(60);
        sim.end(1);
        // An incident that returns soon has not ended.
        sim.end(2);
        sim.advance(20);
        sim.start(2);
        sim.advance(100);
        sim.end(2);
        sim.advance(100);
        sim.start(3);
        sim.end(3);
        sim.advance(100);
        assert_eq!((sim.muted().count, sim.muted().ended, sim.sent.len()), (0, 2, 0), "{format:?}");
        sim.advance(1_000);
        assert_eq!((sim.sent.len(), sim.muted().ended), (0, 2), "{format:?}: nothing else is sent");
        sim.start(4);
        sim.advance(60);
        let message = sim.sent.iter().find(|message| message.kind == MessageKind::Firing).unwrap();
        assert_eq!(message.ended_while_muted, 2, "{format:?}");
        let text = rendered_text(message, format);
        assert!(text.contains("2 problems began and ended while they were held back"), "{format:?}: {text}");
        assert_eq!(sim.stored.muted, None, "{format:?}");
        sim.end(4);
        sim.advance(600);
        assert_eq!(sim.ended_while_muted(), 2, "{format:?}: they are counted once");
    }
}

#[test]
fn counts_an_incident_that_returns_for_a_moment() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.silence("*", 600);
    sim.start(1);
    sim.advance(40);
    sim.end(1);
    sim.start(1);
    sim.advance(10);
    sim.end(1);
    sim.advance(60);
    assert_eq!((sim.muted().count, sim.muted().ended), (0, 1));
}

#[test]
fn says_how_many_problems_are_held_back() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.start(1);
    sim.advance(60);
    sim.silence("*", 3_600);
    sim.start(2);
    sim.advance(60);
    sim.end(1);
    sim.advance(60);
    let message = sim.sent.last().unwrap();
    assert_eq!((message.kind, message.muted, message.unsent), (MessageKind::Resolved, 1, 0));
    assert!(!message.is_all_clear());
    let text = rendered_text(message, WebhookFormat::Slack);
    assert!(text.contains("1 other problem is held back by silences or quiet hours."), "{text}");
}

#[test]
fn sends_the_end_of_an_alert_while_it_is_muted() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.advance(60);
        sim.silence("*", 7_200);
        sim.begin_quiet_hours(120);
        sim.advance(60);
        sim.end(1);
        sim.advance(40);
        assert!(sim.attempts.iter().any(|attempt| attempt.resolved == [key(1)]), "{format:?}");
    }
}

#[test]
fn keeps_alerts_at_alertmanager_alive_while_they_are_muted() {
    let mut sim = Simulation::new(WebhookFormat::Alertmanager);
    sim.start(1);
    sim.advance(60);
    sim.silence("*", 3_600);
    sim.advance(3_600);
    let times: Vec<_> = accepted(&sim).into_iter().map(|(at, ..)| at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 60) && times.len() > 55, "{times:?}");
    assert!(sim.sent.iter().all(|sent| sent.resolved.is_empty()));
}

#[test]
fn a_muted_alert_survives_a_change_of_the_receiver() {
    for (format, mutes, lasts) in WebhookFormat::ALL
        .into_iter()
        .flat_map(|format| [(format, true, true), (format, true, false), (format, false, true)])
    {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.advance(100);
        if mutes {
            sim.silence("*", 7_200);
        }
        // Its incident returns after the change.
        sim.end(1);
        sim.advance(1);
        let before = sim.sent.len();
        sim.receiver_number += 1;
        sim.run();
        sim.start(1);
        sim.advance(6_000);
        let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count();
        assert_eq!((firing, sim.muted().count), (1, 0), "{format:?}");
        let changes = |sim: &Simulation| -> Vec<_> {
            let sent = accepted(sim).into_iter().skip(before).filter(|(_, kind, ..)| *kind != MessageKind::Resend);
            sent.map(|(_, _, started, resolved)| (started, resolved)).collect()
        };
        if !mutes {
            assert_eq!(changes(&sim)[0], (vec![key(1)], vec![]), "{format:?}");
            continue;
        }
        assert_eq!(changes(&sim), [], "{format:?}");
        if format == WebhookFormat::Alertmanager {
            let resent = sim.sent[before..].iter().filter(|message| message.ongoing.len() == 1).count();
            assert!(resent >= 100, "{resent} messages");
        }
        let expected = if lasts {
            sim.advance(2_000);
            (vec![key(1)], vec![])
        } else {
            sim.end(1);
            sim.advance(120);
            (vec![], vec![key(1)])
        };
        assert_eq!((changes(&sim), sim.ended_while_muted()), (vec![expected], 0), "{format:?}");
    }
}

#[test]
fn a_muted_storm_survives_a_change_of_the_receiver() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        for lasts in [true, false] {
            let mut sim = Simulation::new(format);
            sim.policy.pacing = Pacing { max_incidents: 2, ..sim.policy.pacing };
            sim.add_storm(0..10);
            sim.advance(60);
            assert_eq!(sim.storm, 8, "{format:?}");
            sim.begin_quiet_hours(60);
            sim.receiver_number += 1;
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
            assert_eq!(sim.ended_while_muted(), 0, "{format:?}");
        }
    }
}

#[test]
fn repeats_a_muted_alert_when_the_silence_ends() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.advance(3_000);
        sim.silence("key1", 6_000);
        sim.advance(9_000);
        let sent: Vec<_> = accepted(&sim).into_iter().map(|(at, kind, ..)| (at, kind)).collect();
        assert_eq!(sent, [(30, MessageKind::Firing), (9_000, MessageKind::Repeat)], "{format:?}");
    }
}

#[test]
fn withdraws_a_repetition_unsent_before_the_silence() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty] {
        let mut sim = Simulation::new(format);
        sim.start(1);
        sim.advance(60);
        sim.receiver = Behaviour::Unreachable;
        sim.advance(3_600);
        assert!(sim.stored.pending.is_some());
        sim.silence("key1", 3_600);
        sim.receiver = Behaviour::Accepts;
        sim.advance(3_000);
        assert_eq!((accepted(&sim).len(), sim.stored.pending.as_ref()), (1, None), "{format:?}");
        sim.advance(900);
        assert_eq!(accepted(&sim).len(), 2, "{format:?}");
    }
}

#[test]
fn holds_back_an_announcement_unsent_before_the_silence() {
    for (receiver, announced) in [(Behaviour::Unreachable, 0), (Behaviour::AcceptsWithoutAnswering, 1)] {
        let mut sim = Simulation::new(WebhookFormat::Slack);
        sim.receiver = receiver;
        sim.start(1);
        sim.advance(31);
        sim.silence("key1", 3_600);
        sim.receiver = Behaviour::Accepts;
        sim.advance(1_800);
        let history = sim.history(&key(1));
        assert_eq!(history.len(), announced, "{receiver:?}: only what may have been delivered is sent again");
        assert_eq!(sim.muted().count, 1 - i64::try_from(announced).unwrap(), "{receiver:?}");
        sim.advance(1_900);
        assert_eq!(sim.history(&key(1)).len(), 1, "{receiver:?}");
        assert_eq!(sim.stored.dropped, 0);
    }
}

#[test]
fn a_message_without_announcements_says_what_is_resolved() {
    for format in [WebhookFormat::Slack, WebhookFormat::Generic] {
        let mut sim = Simulation::new(format);
        sim.start(2);
        sim.advance(60);
        sim.receiver = Behaviour::Unreachable;
        sim.end(2);
        sim.start(1);
        sim.advance(32);
        let pending = sim.stored.pending.as_ref().map(|pending| pending.kind);
        assert_eq!(pending, Some(MessageKind::Firing), "{format:?}");
        sim.begin_quiet_hours(60);
        let before = sim.sent.len();
        sim.receiver = Behaviour::Accepts;
        sim.advance(600);
        let changes = sim.sent[before..].iter().filter(|message| message.kind != MessageKind::Resend);
        let changes: Vec<_> = changes.map(|sent| (sent.kind, sent.started.len(), sent.resolved.len())).collect();
        assert_eq!(changes, [(MessageKind::Resolved, 0, 1)], "{format:?}");
    }
}

#[test]
fn an_incident_that_ended_before_it_could_be_sent_is_held_back() {
    for numbers in [1..2, 1..4] {
        let mut sim = Simulation::new(WebhookFormat::Slack);
        sim.start(0);
        sim.advance(20);
        // They are due 20 s after the first message, and wait for the next.
        sim.start_with_cause(numbers.clone(), 7);
        sim.advance(32);
        assert_eq!(sim.stored.alerts.last().map(|alert| alert.phase), Some(AlertPhase::Queued), "{numbers:?}");
        numbers.clone().for_each(|number| sim.end(number));
        sim.advance(2);
        sim.begin_quiet_hours(60);
        sim.advance(1_800);
        let count = i64::try_from(numbers.len()).unwrap();
        assert_eq!((sim.sent.len(), sim.muted().ended, sim.stored.dropped), (1, count, 0), "{numbers:?}");
    }
}

#[test]
fn incidents_pass_quiet_hours_once_they_are_critical() {
    let mut sim = Simulation::new(WebhookFormat::PagerDuty);
    sim.begin_quiet_hours(60);
    sim.start(1);
    sim.start(2);
    sim.set_severity(1, Severity::Critical);
    sim.advance(300);
    sim.set_severity(2, Severity::Critical);
    sim.run();
    sim.start(3);
    sim.advance(3_310);
    let sent: Vec<_> = accepted(&sim).into_iter().map(|(at, _, started, _)| (at, started)).collect();
    assert_eq!(sent, [(30, vec![key(1)]), (300, vec![key(2)]), (3_600, vec![key(3)])]);
}

#[test]
fn announces_when_a_silence_is_removed() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.silence("*", 86_400);
    sim.start(1);
    sim.advance(600);
    sim.apply(&Event::MutesRemoved);
    assert_eq!(accepted(&sim).into_iter().map(|(at, ..)| at).collect::<Vec<_>>(), [600]);
}

#[test]
fn holds_back_a_common_cause_only_if_all_of_its_incidents_are() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        sim.silence("*", 600);
        sim.start_with_cause(0..3, 7);
        sim.advance(300);
        assert_eq!((sim.sent.len(), sim.muted().count), (0, 3), "{format:?}");
        sim.start_with_cause(3..4, 7);
        sim.mutes.silences = (0..3).map(|number| (key(number), sim.now + jiff::SignedDuration::from_mins(5))).collect();
        sim.update_mute_rules();
        sim.advance(60);
        let started: Vec<_> = sim.sent.iter().flat_map(|sent| &sent.started).collect();
        assert_eq!(started.iter().map(|alert| alert.members.len()).collect::<Vec<_>>(), [4], "{format:?}");
        assert_eq!(sim.stored.muted, None, "{format:?}");
        sim.advance(900);
        let started: usize = sim.sent.iter().map(|sent| sent.started.len()).sum();
        assert_eq!(started, 1, "{format:?}: the incidents have no alerts of their own");
    }
}

#[test]
fn counts_more_incidents_than_the_status_lists() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.begin_quiet_hours(60);
    sim.add_storm(0..40);
    sim.advance(60);
    assert_eq!((sim.muted().count, sim.muted().incidents.len()), (40, 16));
    sim.active.retain(|key, _| key.as_str() < "storm0010");
    sim.advance(60);
    assert_eq!((sim.muted().count, sim.muted().ended, sim.muted().incidents.len()), (10, 30, 10));
    sim.advance(3_600);
    assert_eq!(sim.sent[0].ended_while_muted, 30);
    let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count();
    assert_eq!((firing, sim.stored.dropped), (10, 0));
}

#[test]
fn a_storm_that_was_sent_does_not_end_because_it_is_muted() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        let mut sim = Simulation::new(format);
        sim.policy.pacing = Pacing { max_incidents: 2, ..sim.policy.pacing };
        sim.add_storm(0..10);
        sim.advance(60);
        assert_eq!(sim.storm, 8, "{format:?}");
        sim.begin_quiet_hours(120);
        let kinds =
            |sim: &Simulation| accepted(sim).into_iter().filter(|(_, kind, ..)| *kind != MessageKind::Resend).count();
        let before = kinds(&sim);
        sim.advance(600);
        sim.add_storm(10..40);
        sim.advance(3_000);
        assert_eq!(kinds(&sim), before, "{format:?}: neither its end nor its growth is sent");
        assert_eq!(sim.storm, 8, "{format:?}");
        sim.advance(7_200);
        assert_eq!(sim.storm, 38, "{format:?}");
        sim.active.clear();
        sim.advance(900);
        assert_eq!((sim.storm, sim.stored.storm.is_none()), (0, true), "{format:?}");
    }
}

#[test]
fn an_unsent_storm_that_is_muted_is_not_dropped() {
    let mut sim = Simulation::new(WebhookFormat::Slack);
    sim.policy.pacing = Pacing { max_incidents: 2, ..sim.policy.pacing };
    sim.receiver = Behaviour::Unreachable;
    sim.add_storm(0..10);
    sim.advance(31);
    assert!(sim.stored.storm.is_some());
    sim.begin_quiet_hours(60);
    sim.receiver = Behaviour::Accepts;
    sim.advance(600);
    assert_eq!((sim.sent.len(), sim.stored.dropped, sim.muted().count), (0, 0, 10));
    assert_eq!(sim.stored.storm, None);
    sim.advance(3_600);
    assert_eq!((sim.storm, sim.stored.dropped), (8, 0));
}

pub(super) fn mute() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..KEYS, 1_u16..2_000).prop_map(|(key, seconds)| Event::Silenced(key, seconds)),
        2 => (1_u16..60).prop_map(Event::QuietHoursBegin),
        1 => Just(Event::MutesRemoved),
        2 => (0..KEYS, prop_oneof![Just(Severity::Warning), Just(Severity::Critical)])
            .prop_map(|(key, severity)| Event::SeverityChanges(key, severity)),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(prop_oneof![4 => event(), 1 => mute()], 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each message is also checked by [`Simulation::check_mutes`].
    #[test]
    fn every_incident_heard_starts_and_ends_once(format in format(), events in events()) {
        let mut sim = Simulation::new(format);
        for event in &events {
            sim.apply(event);
        }
        sim.recover();
        for number in 0..KEYS {
            let (key, history) = (key(number), sim.history(&key(number)));
            for (index, (_, starts)) in history.iter().enumerate() {
                prop_assert_eq!(*starts, index % 2 == 0, "{}: {:?}", key, history);
            }
            let is_firing = history.last().is_some_and(|(_, starts)| *starts);
            prop_assert_eq!(is_firing, sim.active.contains_key(&key), "{}: {:?}", key, history);
        }
        // What was due and is over was sent, or counted.
        let lost = sim.due_unsent.iter().filter(|key| !sim.active.contains_key(*key)).count();
        prop_assert_eq!(lost, sim.due_unsent.len(), "unsent, but still current: {:?}", sim.due_unsent);
        let counted = sim.stored.dropped + sim.ended_while_muted();
        prop_assert!(i64::try_from(lost).unwrap() <= counted, "{} lost, {} counted", lost, counted);
        prop_assert_eq!(sim.muted().count, 0);
        prop_assert!(sim.stored.pending.is_none() && sim.muted().incidents.is_empty());
    }

    #[test]
    fn sends_the_end_of_muted_alerts_to_a_new_receiver(
        format in format(),
        max_incidents in prop_oneof![Just(2_usize), Just(20)],
        events in prop::collection::vec(prop_oneof![
            4 => event().prop_filter("the receiver works", |event| {
                !matches!(event, Event::ReceiverChanges(_) | Event::Crash(_))
            }),
            1 => mute(),
            1 => Just(Event::ReceiverReplaced),
        ], 1..60),
    ) {
        let mut sim = Simulation::new(format);
        sim.policy.pacing = Pacing { max_incidents, ..sim.policy.pacing };
        for event in &events {
            sim.apply(event);
        }
        sim.recover();
        let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing);
        prop_assert!(firing.clone().all(|alert| alert.sent_at.is_some()), "unknown to the new receiver: {:?}", sim.stored);
        prop_assert_eq!(firing.count() as u64 + sim.storm, sim.active.len() as u64);
        for number in 0..KEYS {
            sim.end(number);
        }
        sim.recover();
        for number in 0..KEYS {
            let (key, history) = (key(number), sim.history(&key(number)));
            let mut is_firing = false;
            for (_, starts) in &history {
                prop_assert!(*starts || is_firing, "{}: {:?}", key, history);
                is_firing = *starts;
            }
            prop_assert!(!is_firing, "{}: not resolved: {:?}", key, history);
        }
        prop_assert_eq!(sim.storm, 0);
        prop_assert!(sim.stored.alerts.is_empty() && sim.stored.storm.is_none(), "{:?}", sim.stored);
    }

    #[test]
    fn storms_stay_exact_when_mutes_end(format in format(), events in events()) {
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
        prop_assert!(sim.due_unsent.is_empty() || sim.stored.dropped + sim.ended_while_muted() > 0);
        for number in 0..KEYS {
            sim.end(number);
        }
        sim.recover();
        prop_assert_eq!(sim.storm, 0);
        prop_assert!(sim.stored.alerts.is_empty() && sim.stored.storm.is_none(), "{:?}", sim.stored);
    }
}

#[test]
fn a_changed_reason_stays_silenced_after_a_failover() {
    for format in WebhookFormat::ALL {
        let mut sim = Simulation::new(format);
        let until = sim.now + std::time::Duration::from_secs(3_600);
        let silence = Silence {
            name: "errors".to_owned(),
            until: until.to_string(),
            match_: MuteMatch { reasons: Some(vec!["Error".to_owned()]), ..MuteMatch::default() },
            ..Silence::default()
        };
        sim.mute_rules = MuteRules::new(&[silence], &[], &mut Vec::new());
        sim.start(1);
        sim.apply(&Event::ReasonChanges(1, "Error"));
        sim.advance(60);
        assert_eq!((sim.sent.len(), sim.muted().count), (0, 1), "{format:?}");
        sim.apply(&Event::ReasonChanges(1, "OOMKilled"));
        sim.advance(60);
        for _ in 0..2 {
            sim.restart();
            sim.advance(600);
            assert_eq!((sim.sent.len(), sim.muted().count), (0, 1), "{format:?}: another replica leads");
        }
        sim.advance(3_600);
        let sent: Vec<_> = accepted(&sim).into_iter().flat_map(|(_, _, started, _)| started).collect();
        assert_eq!(sent.first(), Some(&key(1)), "{format:?}: the silence has ended");
    }
}

/// The only incident of the storm ended and returned just before the receiver changed, so it is not due at that time.
#[test]
fn a_new_receiver_is_sent_a_storm_that_was_empty_at_first() {
    for format in [WebhookFormat::Slack, WebhookFormat::Alertmanager] {
        let mut sim = Simulation::new(format);
        sim.policy.pacing = Pacing { max_incidents: 2, ..sim.policy.pacing };
        for number in [3, 2, 4] {
            sim.apply(&Event::Starts(number));
        }
        for event in [Event::SecondsPass(35), Event::Ends(4), Event::Starts(4), Event::ReceiverReplaced] {
            sim.apply(&event);
        }
        sim.recover();
        let firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count();
        assert_eq!((firing, sim.storm, sim.active.len()), (2, 1, 3), "{format:?}");
    }
}
