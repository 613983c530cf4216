//! A small world in which problems come and go, receivers fail and the operator is killed at each step
//! of the protocol; and what must hold in it whatever happens.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use proptest::prelude::*;

use super::{Incident, Notification, ObjectName, Pace, Plan, Policy, Situation, plan, record, retry::Outcome};
use crate::api::{
    AlertPhase, GoDuration, MessageKind, Owner, SecretKeyRef, SecretKeySource, Webhook, WebhookFormat, WebhookStatus,
};

const BYTES: usize = 64 * 1024;
const KEYS: u8 = 6;

/// What a receiver does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Receiver {
    Takes,
    Unreachable,
    TakesButItsAnswerIsLost,
    LosesItAndFails,
    TakesAndFails,
    Busy,
    WantsLess,
    Refuses,
    Gone,
}

/// Before which step the operator is killed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kill {
    Storing,
    Sending,
    Recording,
}

#[derive(Clone, Debug)]
enum Happening {
    Begins(u8),
    Ends(u8),
    Time(u16),
    Receiver(Receiver),
    Killed(Kill),
    SecretChanges,
    StatusIsWiped,
}

/// What the receiver may have seen of one attempt.
struct Attempt {
    at: Timestamp,
    id: String,
    kind: MessageKind,
    started: Vec<String>,
    ended: Vec<String>,
    taken: bool,
    /// The operator can't know that it was not taken.
    maybe: bool,
    /// The operator knows that it was taken.
    known: bool,
}

struct World {
    object: ObjectName,
    policy: Policy,
    now: Timestamp,
    present: BTreeMap<String, Timestamp>,
    stored: WebhookStatus,
    config: u32,
    last_sent: Option<Timestamp>,
    receiver: Receiver,
    kill: Option<Kill>,
    wiped: bool,
    attempts: Vec<Attempt>,
    /// Incidents that were old enough to be told, and that no taken message told yet.
    owed: BTreeSet<String>,
    /// How many incidents the receiver believes to be beyond those told one by one.
    storm: u64,
}

fn webhook(format: WebhookFormat) -> Webhook {
    Webhook {
        name: "ops".to_owned(),
        format,
        url_from: SecretKeySource { secret_key_ref: SecretKeyRef { name: "s".to_owned(), key: "url".to_owned() } },
        signing_key_from: None,
        headers_from: None,
        ca_from: None,
        after: Some(GoDuration::from("30s")),
        repeat_every: Some(GoDuration::from("1h")),
        send_resolved: None,
        match_: None,
        timeout: None,
    }
}

fn key(number: u8) -> String {
    format!("key{number}")
}

impl World {
    fn new(format: WebhookFormat) -> Self {
        Self {
            object: ObjectName { namespace: "orchestr-system".to_owned(), name: "cluster".to_owned() },
            policy: Policy::new(0, &webhook(format)).unwrap(),
            now: "2026-07-01T10:00:00Z".parse().unwrap(),
            present: BTreeMap::new(),
            stored: WebhookStatus::default(),
            config: 0,
            last_sent: None,
            receiver: Receiver::Takes,
            kill: None,
            wiped: false,
            attempts: Vec::new(),
            owed: BTreeSet::new(),
            storm: 0,
        }
    }

    fn incidents(&self) -> Vec<Incident> {
        let incident = |(key, since): (&String, &Timestamp)| Incident {
            key: key.clone(),
            namespace: "shop".to_owned(),
            owner: Owner { kind: "Deployment".to_owned(), name: key.clone() },
            container: "app".to_owned(),
            reason: "OOMKilled".to_owned(),
            since: *since,
            pods: 1,
            example_pods: vec!["cart-a".to_owned()],
            message: "out of memory".to_owned(),
            logs: "the end".into(),
            log_note: String::new(),
        };
        self.present.iter().map(incident).collect()
    }

    fn plan(&self) -> Plan {
        plan(
            &self.stored,
            &Situation {
                object: &self.object,
                policy: &self.policy,
                incidents: &self.incidents(),
                config: &self.config.to_string(),
                last_sent: self.last_sent,
                bytes: BYTES,
                now: self.now,
            },
        )
    }

    fn is_ripe(&self, since: Timestamp) -> bool {
        since.checked_add(self.policy.after).unwrap() <= self.now
    }

    fn begins(&mut self, number: u8) {
        self.present.entry(key(number)).or_insert(self.now);
    }

    fn ends(&mut self, number: u8) {
        self.present.remove(&key(number));
    }

    fn happens(&mut self, happening: &Happening) {
        match happening {
            Happening::Begins(number) => self.begins(*number),
            Happening::Ends(number) => self.ends(*number),
            Happening::Time(seconds) => return self.pass(u64::from(*seconds)),
            Happening::Receiver(receiver) => self.receiver = *receiver,
            Happening::Killed(kill) => self.kill = Some(*kill),
            Happening::SecretChanges => self.config += 1,
            Happening::StatusIsWiped => {
                self.stored = WebhookStatus::default();
                self.last_sent = None;
                self.wiped = true;
            }
        }
        self.act();
    }

    /// Lets time pass, and the operator act whenever it said that it would.
    fn pass(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        loop {
            let wake = self.act();
            match wake {
                Some(wake) if wake <= until => {
                    assert!(wake > self.now, "a wake in the past");
                    self.now = wake;
                }
                _ => break,
            }
        }
        self.now = until;
        self.act();
    }

    /// The operator does all that it can do at this instant.
    fn act(&mut self) -> Option<Timestamp> {
        for _ in 0..100 {
            let decided = self.plan();
            let firing = |key: &String| {
                self.stored.alerts.iter().any(|alert| alert.key == *key && told(alert.phase))
                    && decided.state.alerts.iter().any(|alert| alert.key == *key && told(alert.phase))
            };
            let due: Vec<String> = self
                .present
                .iter()
                .filter(|(key, since)| self.is_ripe(**since) && !firing(key) && self.storm == 0)
                .map(|(key, _)| key.clone())
                .collect();
            self.owed.extend(due);
            if self.killed(Kill::Storing) {
                continue;
            }
            self.store(decided.state);
            let Some(message) = decided.send else { return decided.wake };
            if self.killed(Kill::Sending) {
                self.note(&message, false, true, false);
                continue;
            }
            let (outcome, taken) = self.receive(&message);
            let dies = self.killed(Kill::Recording);
            self.note(&message, taken, dies || outcome.is_uncertain(), taken && !dies && outcome == ok());
            if dies {
                continue;
            }
            let recorded = record(&self.stored, &message, &outcome, self.now, 0.7);
            if outcome == ok() {
                self.last_sent = Some(self.now);
                for alert in &message.started {
                    self.owed.remove(&alert.key);
                }
                if let Some(storm) = &message.storm {
                    self.storm = storm.count;
                    let known = recorded.alerts.iter().filter(|alert| alert.phase != AlertPhase::Resolved);
                    let one_by_one: BTreeSet<_> = known.map(|alert| alert.key.clone()).collect();
                    self.owed.retain(|key| one_by_one.contains(key));
                }
            }
            self.store(recorded);
        }
        panic!("it never comes to rest: {:#?}", self.stored);
    }

    fn killed(&mut self, at: Kill) -> bool {
        let killed = self.kill == Some(at);
        if killed {
            self.kill = None;
            self.last_sent = None;
        }
        killed
    }

    fn store(&mut self, state: WebhookStatus) {
        let text = serde_json::to_string(&state).unwrap();
        assert!(text.len() < BYTES + 2_048, "a state of {} bytes", text.len());
        self.stored = serde_json::from_str(&text).unwrap();
        assert_eq!(self.stored, state, "something is lost on the way through the API");
    }

    fn receive(&self, message: &Notification) -> (Outcome, bool) {
        let answered = |status| Outcome::Answered { status, retry_after: None };
        match self.receiver {
            Receiver::Takes => (ok(), true),
            Receiver::Unreachable => (Outcome::Unreachable, false),
            Receiver::TakesButItsAnswerIsLost => (Outcome::TimedOut, true),
            Receiver::LosesItAndFails => (answered(500), false),
            Receiver::TakesAndFails => (answered(503), true),
            Receiver::Busy => (Outcome::Answered { status: 429, retry_after: Some(Duration::from_secs(77)) }, false),
            Receiver::WantsLess if message.detail == crate::api::Detail::Counts => (ok(), true),
            Receiver::WantsLess => (answered(413), false),
            Receiver::Refuses => (answered(404), false),
            Receiver::Gone => (answered(410), false),
        }
    }

    fn note(&mut self, message: &Notification, taken: bool, maybe: bool, known: bool) {
        // An end that is told again, to a receiver that forgets, is not told for the first time.
        let marked = |alert: &&super::Alert| {
            let known = self.stored.alerts.iter().find(|known| known.key == alert.key);
            known.is_some_and(|known| matches!(known.phase, AlertPhase::Announcing | AlertPhase::Resolving))
        };
        let keys = |alerts: &[super::Alert]| alerts.iter().filter(marked).map(|alert| alert.key.clone()).collect();
        self.attempts.push(Attempt {
            at: self.now,
            id: message.id.clone(),
            kind: message.kind,
            started: keys(&message.started),
            ended: keys(&message.ended),
            taken,
            maybe,
            known,
        });
    }

    /// A receiver that works, for as long as it takes until nothing more is to be said.
    fn calm_down(&mut self) {
        self.receiver = Receiver::Takes;
        self.kill = None;
        self.config += 1;
        self.pass(60 * 60);
    }

    /// What was taken or may have been, of one incident: an id and whether it tells of its beginning.
    /// Attempts of one message are one.
    fn story(&self, key: &str) -> Vec<(String, bool)> {
        let mut story: Vec<(String, bool)> = Vec::new();
        let announcements = |attempt: &&Attempt| {
            matches!(attempt.kind, MessageKind::Firing | MessageKind::Resolved) && (attempt.taken || attempt.maybe)
        };
        for attempt in self.attempts.iter().filter(announcements) {
            for (keys, begins) in [(&attempt.started, true), (&attempt.ended, false)] {
                let told = (attempt.id.clone(), begins);
                if keys.iter().any(|told| told == key) && !story.contains(&told) {
                    story.push(told);
                }
            }
        }
        story
    }
}

fn told(phase: AlertPhase) -> bool {
    matches!(phase, AlertPhase::Firing | AlertPhase::Resolving)
}

fn ok() -> Outcome {
    Outcome::Answered { status: 200, retry_after: None }
}

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
        5 => (0..KEYS).prop_map(Happening::Ends),
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

/// Times and kinds of the messages that were taken.
fn taken(world: &World) -> Vec<(i64, MessageKind, Vec<String>, Vec<String>)> {
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
    assert_eq!((resolved, world.storm), (1, 0));
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
        world.policy = Policy::new(0, &wanted).unwrap();
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
    assert_eq!((taken(&world).len(), world.storm), (1, 10));
    world.storm(110..1_000);
    world.pass(60);
    assert_eq!((taken(&world).len(), world.storm), (2, 900));
    for number in 1_000..1_060 {
        world.storm(number..number + 1);
        world.pass(60);
    }
    let more = taken(&world).len() - 2;
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
    assert_eq!(told, [(MessageKind::Firing, 100), (MessageKind::Resolved, 0)]);
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
