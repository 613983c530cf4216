//! Silences and quiet hours: what they hold back, what passes, and what is sent when they end.

use jiff::{Timestamp, tz::TimeZone};
use proptest::prelude::*;

use super::{
    KEYS, Simulation, accepted, key, played,
    properties::{event, format, is_receiver},
    rendered_text,
    storms::storm_of_eight,
};
use orchestr::{
    alerts::{Alert, IncidentMemory, MuteRules, Notification},
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
    pub(super) fn ended_while_muted(&self) -> i64 {
        let reported: u64 = self.sent.iter().map(|message| message.ended_while_muted).sum();
        self.muted().ended + i64::try_from(reported).unwrap()
    }
}

#[test]
fn sends_an_incident_when_the_silence_ends_if_it_lasts() {
    for format in WebhookFormat::ALL {
        let mut sim = played(format, "silence:1:600 +1 +2 5m");
        assert_eq!(sim.book(0), "30 +2", "{format:?}");
        let muted = sim.muted();
        assert_eq!((muted.count, muted.ended, muted.by.as_str()), (1, 0, "silence s0"));
        assert_eq!(muted.until.unwrap().0.to_string(), "2026-07-01T10:10:00Z");
        assert_eq!(muted.incidents[0].key, key(1));
        // A restarted operator continues.
        sim.memory = IncidentMemory::default();
        sim.play("400s");
        assert_eq!(sim.book(1), "600 +1", "{format:?}");
        assert_eq!(sim.stored.muted, None, "{format:?}");
    }
}

#[test]
fn says_how_many_problems_are_held_back() {
    let sim = played(WebhookFormat::Slack, "+1 60s silence:*:3600 +2 60s -1 60s");
    let message = sim.sent.last().unwrap();
    assert_eq!((message.kind, message.muted, message.unsent), (MessageKind::Resolved, 1, 0));
    assert!(!message.is_all_clear());
    let text = rendered_text(message, WebhookFormat::Slack);
    assert!(text.contains("1 other problem is held back by silences or quiet hours."), "{text}");
}

#[test]
fn keeps_alerts_at_alertmanager_alive_while_they_are_muted() {
    let sim = played(WebhookFormat::Alertmanager, "+1 60s silence:*:3600 1h");
    let times: Vec<_> = accepted(&sim).into_iter().map(|(at, ..)| at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] <= 60) && times.len() > 55, "{times:?}");
    assert!(sim.sent.iter().all(|sent| sent.resolved.is_empty()));
}

#[test]
fn a_muted_alert_survives_a_change_of_the_receiver() {
    for format in WebhookFormat::ALL {
        // Its incident returns after the change.
        let sim = played(format, "+1 100s -1 1s receiver 0s +1 100m");
        assert_eq!(sim.said(1).split(" | ").next(), Some("+1"), "{format:?}");
        for (then, expected) in [("2000s", "+1"), ("-1 2m", "-1")] {
            let mut sim = played(format, "+1 100s silence:*:7200 -1 1s");
            let before = sim.sent.len();
            sim.play("receiver 0s +1 100m");
            assert_eq!((sim.firing(), sim.muted().count, sim.said(1).as_str()), (1, 0, ""), "{format:?}");
            if format == WebhookFormat::Alertmanager {
                let resent = sim.sent[before..].iter().filter(|message| message.ongoing.len() == 1).count();
                assert!(resent >= 100, "{resent} messages");
            }
            sim.play(then);
            assert_eq!((sim.said(1).as_str(), sim.ended_while_muted()), (expected, 0), "{format:?}");
        }
    }
}

#[test]
fn a_muted_storm_survives_a_change_of_the_receiver() {
    for format in [WebhookFormat::Slack, WebhookFormat::PagerDuty, WebhookFormat::Alertmanager] {
        for (then, expected) in [("40m", 8), ("-* 40m", 0)] {
            let mut sim = storm_of_eight(format);
            sim.play("quiet:60 receiver 30m");
            assert_eq!(sim.stored.storm.as_ref().map(|storm| storm.phase), Some(AlertPhase::Firing), "{format:?}");
            let before = sim.sent.len();
            sim.play(then);
            assert_eq!((sim.storms(before), sim.ended_while_muted()), (vec![expected], 0), "{format:?}");
        }
    }
}

#[test]
fn holds_back_an_announcement_unsent_before_the_silence() {
    for (receiver, announced) in [("Unreachable", 0), ("AcceptsWithoutAnswering", 1)] {
        let mut sim = played(WebhookFormat::Slack, &format!("{receiver} +1 31s silence:1:3600 Accepts 30m"));
        let history = sim.history(&key(1));
        assert_eq!(history.len(), announced, "{receiver}: only what may have been delivered is sent again");
        assert_eq!(sim.muted().count, 1 - i64::try_from(announced).unwrap(), "{receiver}");
        sim.play("1900s");
        assert_eq!((sim.history(&key(1)).len(), sim.stored.dropped), (1, 0), "{receiver}");
    }
}

#[test]
fn an_incident_that_ended_before_it_could_be_sent_is_held_back() {
    for (started, ended, count) in [("+1 1=7", "-1", 1), ("+1..4 1..4=7", "-1..4", 3)] {
        // They are due 20 s after the first message, and wait for the next.
        let mut sim = played(WebhookFormat::Slack, &format!("+0 20s {started} 32s"));
        assert_eq!(sim.stored.alerts.last().map(|alert| alert.phase), Some(AlertPhase::Queued), "{started}");
        sim.play(&format!("{ended} 2s quiet:60 30m"));
        assert_eq!((sim.sent.len(), sim.muted().ended, sim.stored.dropped), (1, count, 0), "{started}");
    }
}

#[test]
fn holds_back_a_common_cause_only_if_all_of_its_incidents_are() {
    for format in WebhookFormat::ALL {
        let mut sim = played(format, "silence:*:600 +0..3 *=7 5m");
        assert_eq!((sim.sent.len(), sim.muted().count), (0, 3), "{format:?}");
        sim.play("+3 3=7");
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

pub(super) fn mute() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (0..KEYS, 1_u16..2_000).prop_map(|(key, seconds)| format!("silence:{key}:{seconds} .")),
        2 => (1_u16..60).prop_map(|minutes| format!("quiet:{minutes} .")),
        1 => Just("unmute .".to_owned()),
        2 => (0..KEYS, prop_oneof![Just("Warning"), Just("Critical")])
            .prop_map(|(key, severity)| format!("{key}!{severity} .")),
    ]
}

fn events() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop_oneof![4 => event(), 1 => mute()], 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each message is also checked by [`Simulation::check_mutes`].
    #[test]
    fn every_incident_heard_starts_and_ends_once(format in format(), events in events()) {
        let mut sim = Simulation::new(format);
        sim.live(&events);
        for key in (0..KEYS).map(key) {
            prop_assert_eq!(sim.check_history(&key), sim.active.contains_key(&key), "{}", key);
        }
        sim.check_lost();
        prop_assert_eq!(sim.muted().count, 0);
        prop_assert!(sim.stored.pending.is_none() && sim.muted().incidents.is_empty());
    }

    #[test]
    fn sends_the_end_of_muted_alerts_to_a_new_receiver(
        format in format(),
        max_incidents in prop_oneof![Just(2_usize), Just(20)],
        events in prop::collection::vec(prop_oneof![
            4 => event().prop_filter("the receiver works", |event| !is_receiver(event) && !event.starts_with("crash")),
            1 => mute(),
            1 => Just("receiver .".to_owned()),
        ], 1..60),
    ) {
        let mut sim = Simulation::new(format);
        sim.policy.pacing.max_incidents = max_incidents;
        sim.live(&events);
        let mut firing = sim.stored.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing);
        prop_assert!(firing.all(|alert| alert.sent_at.is_some()), "unknown to the new receiver: {:?}", sim.stored);
        prop_assert_eq!(sim.firing() + sim.storm, sim.active.len() as u64);
        sim.end_all();
        for key in (0..KEYS).map(key) {
            let history = sim.history(&key);
            let mut is_firing = false;
            for (_, starts) in &history {
                prop_assert!(*starts || is_firing, "{}: {:?}", key, history);
                is_firing = *starts;
            }
            prop_assert!(!is_firing, "{}: not resolved: {:?}", key, history);
        }
    }

    #[test]
    fn storms_stay_exact_when_mutes_end(format in format(), events in events()) {
        let mut sim = Simulation::new(format);
        sim.policy.pacing.max_incidents = 2;
        sim.live(&events);
        prop_assert!(sim.firing() <= 2);
        prop_assert_eq!(sim.firing() + sim.storm, sim.active.len() as u64);
        prop_assert!(sim.due_unsent.iter().all(|key| !sim.active.contains_key(key)), "{:?}", sim.due_unsent);
        prop_assert!(sim.due_unsent.is_empty() || sim.stored.dropped + sim.ended_while_muted() > 0);
        sim.end_all();
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
        for script in ["+1 1:Error 60s", "1:OOMKilled 60s", "restart 10m", "restart 10m"] {
            sim.play(script);
            assert_eq!((sim.sent.len(), sim.muted().count), (0, 1), "{format:?}: another replica leads");
        }
        sim.play("1h");
        assert!(sim.said(0).starts_with("+1"), "{format:?}: the silence has ended: {}", sim.said(0));
    }
}
