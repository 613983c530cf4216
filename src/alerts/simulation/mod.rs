//! A small world in which problems come and go, receivers fail and the operator is killed at each step
//! of the protocol; and what must hold in it whatever happens.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use super::{
    Incident, IncidentMemory, Notification, NotificationPolicy, Plan, PlanInput, Source,
    address::AddressPolicy,
    deletion_notices,
    destination::{Destination, UrlPolicy},
    formats::render,
    plan, record, resend,
    retry::AttemptOutcome,
};
use crate::api::{
    AlertPhase, GoDuration, MessageKind, NamespacedName, Owner, ProblemKind, SecretKeyRef, SecretKeySource, Webhook,
    WebhookFormat, WebhookStatus,
};

mod messages;
mod promises;
mod properties;
mod stories;

const BYTES: usize = 64 * 1024;
const KEYS: u8 = 6;

/// What a receiver does with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Receiver {
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
    /// It ends, and its owner has no pod left.
    Deleted(u8),
    /// Its reason becomes another one.
    Reason(u8, &'static str),
    /// Whether anybody knows what goes on.
    Known(bool),
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

pub(super) struct World {
    pub source: Source,
    pub policy: NotificationPolicy,
    pub now: Timestamp,
    pub present: BTreeMap<String, Timestamp>,
    /// Incidents that are not like the others.
    pub made: BTreeMap<String, Incident>,
    /// The messages that were taken.
    pub sent: Vec<Notification>,
    memory: IncidentMemory,
    deleted: BTreeSet<String>,
    known: bool,
    address: u32,
    usable: bool,
    /// The message that was under way when the operator was killed.
    interrupted: Option<String>,
    pub stored: WebhookStatus,
    config: u32,
    last_sent: Option<Timestamp>,
    pub receiver: Receiver,
    kill: Option<Kill>,
    wiped: bool,
    attempts: Vec<Attempt>,
    /// Incidents that were old enough to be told, and that no taken message told yet.
    owed: BTreeSet<String>,
    /// How many incidents the receiver believes to be beyond those told one by one.
    storm: u64,
}

pub(super) fn webhook(format: WebhookFormat) -> Webhook {
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
    pub fn new(format: WebhookFormat) -> Self {
        let object = NamespacedName { namespace: "orchestr-system".to_owned(), name: "cluster".to_owned() };
        Self {
            source: Source { object, uid: "0a1b2c3d-uid".to_owned(), cluster: String::new() },
            made: BTreeMap::new(),
            sent: Vec::new(),
            memory: IncidentMemory::default(),
            deleted: BTreeSet::new(),
            known: true,
            address: 0,
            usable: true,
            interrupted: None,
            policy: NotificationPolicy::new(0, &webhook(format)).unwrap(),
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
            kind: ProblemKind::Crash,
            reason: "OOMKilled".to_owned(),
            since: *since,
            tolerated: std::time::Duration::ZERO,
            pods: 1,
            example_pods: vec!["cart-a".to_owned()],
            message: "out of memory".to_owned(),
            logs: "the end".into(),
            log_note: String::new(),
        };
        let all = self.present.iter().map(incident);
        all.map(|incident| match self.made.get(&incident.key) {
            Some(made) => Incident { since: incident.since, ..made.clone() },
            None => incident,
        })
        .collect()
    }

    fn with<T>(&self, ask: impl FnOnce(&PlanInput<'_>) -> T) -> T {
        let ended: Vec<String> = self.deleted.iter().cloned().collect();
        ask(&PlanInput {
            source: &self.source,
            policy: &self.policy,
            incidents: &self.incidents(),
            memory: &self.memory,
            ended: &ended,
            config: &self.config.to_string(),
            receiver: self.usable.then_some(&*format!("receiver {}", self.address)),
            last_sent: self.last_sent,
            bytes: BYTES,
            now: self.now,
        })
    }

    fn plan(&mut self) -> Plan {
        let mut incidents = self.incidents();
        self.memory.update(&mut incidents);
        self.with(|input| plan(&self.stored, input))
    }

    /// The object is deleted: what its receiver is sent last.
    pub fn deletion_notices(&self) -> Vec<Notification> {
        self.with(|input| deletion_notices(&self.stored, input))
    }

    fn is_ripe(&self, since: Timestamp) -> bool {
        since.checked_add(self.policy.after).unwrap() <= self.now
    }

    pub fn begins(&mut self, number: u8) {
        self.deleted.remove(&key(number));
        self.present.entry(key(number)).or_insert(self.now);
    }

    /// An incident of its own words begins, if it hasn't, and is so from now on.
    pub fn is(&mut self, incident: Incident) {
        self.present.entry(incident.key.clone()).or_insert(incident.since);
        self.made.insert(incident.key.clone(), incident);
    }

    pub fn ends(&mut self, number: u8) {
        self.present.remove(&key(number));
    }

    fn happens(&mut self, happening: &Happening) {
        match happening {
            Happening::Begins(number) => self.begins(*number),
            Happening::Ends(number) => self.ends(*number),
            Happening::Deleted(number) => {
                self.ends(*number);
                self.deleted.insert(key(*number));
            }
            Happening::Reason(number, reason) => {
                let now = self.incidents().into_iter().find(|incident| incident.key == key(*number));
                self.made.extend(now.map(|now| (now.key.clone(), Incident { reason: (*reason).to_owned(), ..now })));
            }
            Happening::Known(known) => self.known = *known,
            Happening::Time(seconds) => return self.pass(u64::from(*seconds)),
            Happening::Receiver(receiver) => self.receiver = *receiver,
            Happening::Killed(kill) => self.kill = Some(*kill),
            Happening::SecretChanges => self.config += 1,
            Happening::StatusIsWiped => {
                self.interrupted = None;
                self.stored = WebhookStatus::default();
                self.last_sent = None;
                self.wiped = true;
            }
        }
        self.act();
    }

    /// Lets time pass, and the operator act whenever it said that it would.
    pub fn pass(&mut self, seconds: u64) {
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
            let (reminder, next) = self.with(|input| resend(&self.stored, input));
            if let Some(message) = reminder {
                let (outcome, taken) = self.receive(&message);
                self.note(&message, taken, outcome.is_uncertain(), taken && outcome == ok());
                self.last_sent = (outcome == ok()).then_some(self.now).or(self.last_sent);
                let recorded = record(&self.stored, &message, &outcome, self.now, 0.7);
                self.store(recorded);
                continue;
            }
            if !self.known {
                return next;
            }
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
            let Some(message) = decided.send else { return decided.wake.into_iter().chain(next).min() };
            let repeats = matches!(message.kind, MessageKind::Firing | MessageKind::Resolved);
            if let Some(id) = self.interrupted.take().filter(|_| repeats) {
                assert_eq!(message.id, id, "what was under way at a crash is sent again under its id");
            }
            if repeats && matches!(self.kill, Some(Kill::Sending | Kill::Recording)) {
                self.interrupted = Some(message.id.clone());
            }
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

    fn receive(&self, message: &Notification) -> (AttemptOutcome, bool) {
        let answered = |status| AttemptOutcome::Answered { status, retry_after: None };
        match self.receiver {
            Receiver::Takes => (ok(), true),
            Receiver::Unreachable => (AttemptOutcome::Unreachable, false),
            Receiver::TakesButItsAnswerIsLost => (AttemptOutcome::TimedOut, true),
            Receiver::LosesItAndFails => (answered(500), false),
            Receiver::TakesAndFails => (answered(503), true),
            Receiver::Busy => {
                (AttemptOutcome::Answered { status: 429, retry_after: Some(Duration::from_secs(77)) }, false)
            }
            Receiver::WantsLess if message.detail == crate::api::Detail::Names => (ok(), true),
            Receiver::WantsLess => (answered(413), false),
            Receiver::Refuses => (answered(404), false),
            Receiver::Gone => (answered(410), false),
        }
    }

    fn note(&mut self, message: &Notification, taken: bool, maybe: bool, known: bool) {
        self.check(message);
        if taken {
            self.sent.push(message.clone());
        }
        // An end that is told again, to a receiver that forgets, is not told for the first time.
        let marked = |alert: &&super::Alert| {
            if message.kind == MessageKind::Resend {
                return false;
            }
            let known = self.stored.alerts.iter().find(|known| known.key == alert.key);
            known.is_some_and(|known| matches!(known.phase, AlertPhase::Announcing | AlertPhase::Resolving))
        };
        let keys = |alerts: &[super::Alert]| alerts.iter().filter(marked).map(|alert| alert.key.clone()).collect();
        self.attempts.push(Attempt {
            at: self.now,
            id: message.id.clone(),
            kind: message.kind,
            started: keys(&message.started),
            ended: keys(&message.resolved),
            taken,
            maybe,
            known,
        });
    }

    /// What is true of every message: it names all that it marks as sent, and resolves nothing that goes on.
    fn check(&self, message: &Notification) {
        let text = String::from_utf8(render(message, &destination(self.policy.format)).body).unwrap();
        let said = self.attempts.iter().any(|attempt| attempt.id == message.id);
        let marks = self.stored.alerts.iter().filter(|_| message.kind != MessageKind::Resend);
        for alert in marks {
            let named = match alert.phase {
                AlertPhase::Announcing => message.started.iter().any(|named| named.key == alert.key),
                AlertPhase::Resolving => message.resolved.iter().any(|named| named.key == alert.key),
                _ => continue,
            };
            let is_name = alert.owner.name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            // The end of an incident at PagerDuty is named by its key alone.
            let by_key = self.policy.format == WebhookFormat::PagerDuty && alert.phase == AlertPhase::Resolving;
            assert!(named && (!is_name || by_key || text.contains(&alert.owner.name)), "{} in {text}", alert.key);
            let goes_on = self.known && self.present.contains_key(&alert.key);
            assert!(alert.phase != AlertPhase::Resolving || said || !goes_on, "{} is resolved and goes on", alert.key);
        }
    }

    /// A receiver that works, for as long as it takes until nothing more is to be said.
    fn calm_down(&mut self) {
        self.receiver = Receiver::Takes;
        self.kill = None;
        self.known = true;
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

/// A receiver's URL that reads this format.
pub(super) fn destination(format: WebhookFormat) -> Destination {
    let policy = UrlPolicy { plain_http: false, addresses: AddressPolicy::default() };
    let url = "https://receiver.example.com/hook?routing_key=R012345678901234567890123456789A";
    Destination::new(format, url.as_bytes(), policy).unwrap()
}

fn ok() -> AttemptOutcome {
    AttemptOutcome::Answered { status: 200, retry_after: None }
}
