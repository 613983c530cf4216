//! Simulates an operator with one webhook: incidents start and end, the receiver fails, and the operator crashes at
//! each step of the protocol. The tests check the guarantees of docs/alerts.md for every such sequence of events.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};

use orchestr::{
    alerts::{
        CurrentMutes, CustomFormat, Farewell, GoneAlerts, Incident, IncidentMemory, MuteRules, Notification,
        NotificationPolicy, ObjectInput, Request, Source, Step, StepInput, Texts, last_messages, record, render, step,
    },
    api::{
        AlertPhase, AlertStatus, CustomRequest, GoDuration, MessageKind, NamespacedName, Owner, ProblemKind,
        SecretKeyRef, SecretKeySource, Webhook, WebhookFormat, WebhookStatus,
    },
};

mod common_causes;
mod contents;
mod guarantees;
mod held_back;
mod mutes;
mod new_receiver;
mod ownership;
mod present;
mod properties;
mod receiver;
mod refusals;
mod repair;
mod resending;
mod returning;
mod scenarios;
mod script;
mod storms;
mod tenants;
mod transcripts;

use mutes::Mutes;
pub(super) use receiver::Behaviour;
use receiver::{Attempt, accepted, ok};
use script::played;

/// The key that PagerDuty's messages contain.
pub(super) const KEY: &str = "R012345678901234567890123456789A";
const BYTES: usize = 64 * 1024;
const KEYS: u8 = 6;

/// The step before which the operator crashes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum CrashPoint {
    Storing,
    Sending,
    Recording,
}

pub(super) struct Simulation {
    pub source: Source,
    pub policy: NotificationPolicy,
    pub now: Timestamp,
    /// The current incidents, and when they began.
    pub active: BTreeMap<String, Timestamp>,
    /// The common causes of incidents, by key.
    causes: BTreeMap<String, u8>,
    /// Incidents that differ from the default one.
    custom: BTreeMap<String, Incident>,
    /// The messages that the receiver accepted.
    pub sent: Vec<Notification>,
    /// The same in words, see [`script`].
    book: Vec<String>,
    memory: IncidentMemory,
    deleted: BTreeSet<String>,
    /// The keys of incidents in namespaces with a pod that cannot be judged.
    unclear: BTreeSet<String>,
    incidents_known: bool,
    /// Whether messages are sent although their state cannot be stored.
    is_unstored: bool,
    mutes: Mutes,
    mute_rules: MuteRules,
    /// Identifies the receiver.
    receiver_number: u32,
    usable: bool,
    /// The message that was in flight when the operator crashed: its ID, and the incidents that it announced.
    interrupted: Option<(String, Vec<String>)>,
    pub stored: WebhookStatus,
    config: u32,
    last_sent: Option<Timestamp>,
    pub receiver: Behaviour,
    crash: Option<CrashPoint>,
    attempts: Vec<Attempt>,
    /// Incidents that were due, and that no accepted message contained yet.
    due_unsent: BTreeSet<String>,
    /// The size of the storm that the receiver was last sent.
    storm: u64,
    /// Incidents whose start may be sent with two IDs.
    may_start_twice: BTreeSet<String>,
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
        mentions: None,
        custom: (format == WebhookFormat::Custom).then(custom),
        timeout: None,
    }
}

/// Compiled once, because that takes as long as many messages.
static CUSTOM: LazyLock<Arc<CustomFormat>> = LazyLock::new(|| Arc::new(CustomFormat::new(&custom()).unwrap()));

/// A chat for which a spec describes the request.
pub(super) fn custom() -> CustomRequest {
    let body = r#"{"status": {{ status }}, "title": {{ title }}, "text": {{ text }}}"#.to_owned();
    CustomRequest { body, max_bytes: Some(65_536), ..CustomRequest::default() }
}

fn key(number: u8) -> String {
    format!("key{number}")
}

/// A key with this prefix whose alert takes exactly 1 KiB of the space for alerts.
fn kibibyte_key(prefix: &str) -> String {
    format!("{prefix:x<443}")
}

impl Simulation {
    pub fn new(format: WebhookFormat) -> Self {
        let object = NamespacedName { namespace: "orchestr-system".to_owned(), name: "cluster".to_owned() };
        let mut policy = NotificationPolicy::new(0, &webhook(format)).unwrap();
        policy.custom = (format == WebhookFormat::Custom).then(|| Arc::clone(&CUSTOM));
        // The default incidents are of one namespace.
        policy.is_of_one_namespace = true;
        Self {
            source: Source { object, uid: "0a1b2c3d-uid".to_owned(), cluster: String::new() },
            causes: BTreeMap::new(),
            custom: BTreeMap::new(),
            sent: Vec::new(),
            book: Vec::new(),
            memory: IncidentMemory::default(),
            deleted: BTreeSet::new(),
            unclear: BTreeSet::new(),
            incidents_known: true,
            is_unstored: false,
            mutes: Mutes::default(),
            mute_rules: MuteRules::default(),
            receiver_number: 0,
            usable: true,
            interrupted: None,
            policy,
            now: "2026-07-01T10:00:00Z".parse().unwrap(),
            active: BTreeMap::new(),
            stored: WebhookStatus::default(),
            config: 0,
            last_sent: None,
            receiver: Behaviour::Accepts,
            crash: None,
            attempts: Vec::new(),
            due_unsent: BTreeSet::new(),
            storm: 0,
            may_start_twice: BTreeSet::new(),
        }
    }

    fn incidents(&self) -> Vec<Incident> {
        let incident = |(key, since): (&String, &Timestamp)| Incident {
            key: key.as_str().into(),
            namespace: "shop".into(),
            owner: Owner { kind: "Deployment".to_owned(), name: key.clone() }.into(),
            container: "app".into(),
            kind: ProblemKind::Crash,
            reason: "OOMKilled".into(),
            since: *since,
            pods: 1,
            texts: Arc::new(Texts {
                example_pods: vec!["cart-a".to_owned()],
                message: "out of memory".to_owned(),
                logs: "the end".into(),
                ..Texts::default()
            }),
            common_cause: self.causes.get(key).map(|cause| common_causes::node(*cause)),
            ..Incident::default()
        };
        let all = self.active.iter().map(incident);
        all.map(|incident| match self.custom.get(incident.key.as_str()) {
            Some(custom) => Incident { since: incident.since, common_cause: incident.common_cause, ..custom.clone() },
            None => incident,
        })
        .collect()
    }

    fn with_input<T>(&self, call: impl FnOnce(&StepInput<'_>) -> T) -> T {
        let gone = GoneAlerts {
            ended: self.deleted.iter().cloned().collect(),
            unclear: self.unclear.iter().cloned().collect(),
            is_incomplete: false,
        };
        let incidents = self.incidents();
        let object = ObjectInput {
            source: &self.source,
            incidents: &incidents,
            incidents_known: self.incidents_known,
            memory: &self.memory,
            gone: &gone,
            mute_rules: &self.mute_rules,
            mutes: &CurrentMutes::new(&self.mute_rules, &incidents, &self.memory, self.now),
            bytes: BYTES,
            is_unstored: self.is_unstored,
            now: self.now,
        };
        call(&StepInput {
            object,
            policy: &self.policy,
            config: &self.config.to_string(),
            receiver: self.usable.then_some(&*format!("receiver {}", self.receiver_number)),
            can_resend: true,
            last_sent: self.last_sent,
        })
    }

    fn step(&mut self) -> Step {
        if self.incidents_known {
            let incidents = self.incidents();
            self.memory.update(&incidents);
        }
        self.with_input(|input| step(&self.stored, input))
    }

    /// The step while the incidents are unknown: the receiver is sent what it was sent before.
    fn resend(&self) -> Step {
        self.with_input(|input| {
            let mut input = *input;
            input.object.incidents_known = false;
            step(&self.stored, &input)
        })
    }

    /// The messages that end everything, because the object was deleted.
    pub fn last_messages(&self) -> Vec<Notification> {
        self.with_input(|input| last_messages(&self.stored, input, Farewell::ObjectDeleted, &|_| false))
    }

    /// The IDs of all messages that were attempted.
    fn ids(&self) -> BTreeSet<&str> {
        self.attempts.iter().map(|attempt| attempt.id.as_str()).collect()
    }

    fn is_due(&self, since: Timestamp) -> bool {
        since.checked_add(self.policy.after).unwrap() <= self.now
    }

    pub fn start(&mut self, number: u8) {
        self.deleted.remove(&key(number));
        self.active.entry(key(number)).or_insert(self.now);
    }

    /// Starts an incident that is not the default one, or replaces its texts.
    pub fn set_incident(&mut self, incident: Incident) {
        self.active.entry(incident.key.to_string()).or_insert(incident.since);
        self.custom.insert(incident.key.to_string(), incident);
    }

    pub fn end(&mut self, number: u8) {
        self.active.remove(&key(number));
    }

    /// The operator is restarted: only the status is known.
    pub fn restart(&mut self) {
        let stored = Arc::new(self.stored.clone());
        (self.memory, self.last_sent) = (IncidentMemory::restored(&[stored], self.now), None);
    }

    /// Advances the time, and runs the operator at each time at which it must decide again.
    pub fn advance(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        loop {
            let wake = self.run();
            match wake {
                Some(wake) if wake <= until => {
                    assert!(wake > self.now, "a wake in the past");
                    self.now = wake;
                }
                _ => break,
            }
        }
        self.now = until;
        self.run();
    }

    /// Runs the operator until there is nothing left to do at this time. Returns when it must decide again.
    fn run(&mut self) -> Option<Timestamp> {
        for _ in 0..100 {
            let planned = self.step();
            if let Some(message) = planned.message.as_ref().filter(|message| message.kind == MessageKind::Resend) {
                assert_eq!(planned.state, self.stored, "it is not stored");
                let (outcome, accepted) = self.receive(message);
                self.record_attempt(message, accepted, outcome.is_uncertain(), accepted && outcome == ok());
                self.note_refusal(message, &outcome);
                self.last_sent = (outcome == ok()).then_some(self.now).or(self.last_sent);
                let recorded = record(&self.stored, message, &outcome, self.now, 0.7);
                self.store(recorded);
                continue;
            }
            if !self.incidents_known {
                return planned.wake;
            }
            self.check_new_common_causes(&planned.state);
            self.note_due_incidents(&planned.state);
            self.note_withdrawn(&planned.state);
            if self.crashes_at(CrashPoint::Storing) {
                continue;
            }
            self.store(planned.state);
            let Some(message) = planned.message else { return planned.wake };
            let is_change = matches!(message.kind, MessageKind::Firing | MessageKind::Resolved);
            if let Some((id, announced)) = self.interrupted.take().filter(|_| is_change) {
                // If all incidents that it announced have ended, it is not.
                let is_replaced =
                    !announced.is_empty() && announced.iter().all(|key| self.may_start_twice.contains(key));
                assert!(
                    message.id == id || is_replaced,
                    "a message that a crash interrupted is sent again with its ID"
                );
            }
            if is_change && matches!(self.crash, Some(CrashPoint::Sending | CrashPoint::Recording)) {
                let announced = message.started.iter().map(|alert| alert.key.to_string());
                let is_announced = |storm: &&AlertStatus| storm.phase == AlertPhase::Announcing;
                let storm = self.stored.storm.iter().filter(is_announced).map(|storm| storm.key.clone());
                self.interrupted = Some((message.id.clone(), announced.chain(storm).collect()));
            }
            if self.crashes_at(CrashPoint::Sending) {
                self.record_attempt(&message, false, true, false);
                continue;
            }
            let (outcome, accepted) = self.receive(&message);
            let crashes = self.crashes_at(CrashPoint::Recording);
            let confirmed = accepted && !crashes && outcome == ok();
            self.record_attempt(&message, accepted, crashes || outcome.is_uncertain(), confirmed);
            if crashes {
                continue;
            }
            self.note_refusal(&message, &outcome);
            let recorded = record(&self.stored, &message, &outcome, self.now, 0.7);
            if outcome == ok() {
                self.note_delivery(&message, &recorded);
            }
            self.store(recorded);
        }
        panic!("the operator never stops: {:#?}", self.stored);
    }

    /// Notes which incidents are due and not firing at the receiver, neither before nor after the plan.
    fn note_due_incidents(&mut self, planned: &WebhookStatus) {
        let is_sent = |state: &WebhookStatus, key: &String| {
            let own = state.alerts.iter().filter(|alert| {
                // A member that joins a common cause later is sent with the stored alert.
                let planned = planned.alerts.iter().find(|planned| planned.key == alert.key);
                alert.key == *key || planned.is_some_and(|planned| self.is_covered(key, planned))
            });
            own.into_iter().any(|alert| match alert.phase {
                AlertPhase::Firing | AlertPhase::Resolving => true,
                // In a repetition to PagerDuty.
                AlertPhase::Announcing => alert.sent_at.is_some(),
                AlertPhase::Queued | AlertPhase::Resolved => false,
            })
        };
        let due = self.active.iter().filter(|(key, since)| {
            self.is_due(**since) && self.storm == 0 && !(is_sent(&self.stored, key) && is_sent(planned, key))
        });
        let due: Vec<String> = due.map(|(key, _)| key.clone()).collect();
        self.due_unsent.extend(due);
    }

    /// Notes the incidents whose start may have been accepted, and that ended before that was certain: if they return, they
    /// start again.
    fn note_withdrawn(&mut self, planned: &WebhookStatus) {
        let is_withdrawn = |alert: &&AlertStatus| {
            let planned = planned.alerts.iter().chain(&planned.storm).find(|planned| planned.key == alert.key);
            let has_ended =
                |planned: &AlertStatus| planned.phase != AlertPhase::Announcing && planned.gone_since.is_some();
            alert.phase == AlertPhase::Announcing && planned.is_some_and(has_ended)
        };
        let stored = self.stored.alerts.iter().chain(&self.stored.storm);
        self.may_start_twice.extend(stored.filter(is_withdrawn).map(|alert| alert.key.clone()));
    }

    fn note_delivery(&mut self, message: &Notification, recorded: &WebhookStatus) {
        self.last_sent = Some(self.now);
        // An end without a start follows a start that may have been accepted.
        for alert in message.started.iter().chain(&message.resolved) {
            self.due_unsent.remove(alert.key.as_str());
            // The message stands for all incidents with the common cause, also for those that ended before their turn.
            for stored in recorded.alerts.iter().filter(|stored| stored.key == alert.key) {
                stored.members.iter().for_each(|member| _ = self.due_unsent.remove(member));
            }
        }
        if let Some(storm) = &message.storm {
            self.storm = storm.count;
            let tracked = recorded.alerts.iter().filter(|alert| alert.phase != AlertPhase::Resolved);
            let tracked: BTreeSet<_> = tracked.map(|alert| alert.key.clone()).collect();
            self.due_unsent.retain(|key| tracked.contains(key));
        }
    }

    fn crashes_at(&mut self, at: CrashPoint) -> bool {
        let crashes = self.crash == Some(at);
        if crashes {
            self.crash = None;
            self.last_sent = None;
        }
        crashes
    }

    fn store(&mut self, state: WebhookStatus) {
        let text = serde_json::to_string(&state).unwrap();
        let [alerts, name] = [json!(state.alerts), json!(state.name)].map(|part| part.to_string().len());
        assert!(alerts <= BYTES, "alerts of {alerts} bytes");
        // The schema limits a webhook's name to 63 characters, the tests of hostile texts do not.
        assert!(text.len() - alerts - name < 3_072, "{} bytes beside alerts and name", text.len() - alerts - name);
        self.stored = serde_json::from_str(&text).unwrap();
        assert_eq!(self.stored, state, "serialization loses a field");
    }

    /// Lets a working receiver receive all that is left to send.
    fn recover(&mut self) {
        self.receiver = Behaviour::Accepts;
        self.crash = None;
        self.remove_mutes();
        self.incidents_known = true;
        self.config += 1;
        self.advance(60 * 60);
    }
}

/// The request of a message. That of the format Custom has the templates of [`custom`].
pub(super) fn request(message: &Notification, format: WebhookFormat) -> Request {
    match format {
        WebhookFormat::Custom => CUSTOM.render(message),
        WebhookFormat::PagerDuty => render(message, format, KEY),
        _ => render(message, format, ""),
    }
    .unwrap()
}

/// The text of a message.
pub(super) fn rendered_text(message: &Notification, format: WebhookFormat) -> String {
    String::from_utf8(request(message, format).body).unwrap()
}

pub(super) fn rendered(message: &Notification, format: WebhookFormat) -> Value {
    serde_json::from_slice(&request(message, format).body).unwrap()
}
