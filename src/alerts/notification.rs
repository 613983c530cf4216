//! What a receiver is sent, before it is put into the receiver's format.

use std::{cmp::Reverse, collections::HashMap, sync::Arc};

use jiff::Timestamp;

use super::incident::{Incident, Source};
use crate::api::{AlertStatus, Detail, MessageKind, Owner, ProblemKind};

/// A message to one receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// The same for every attempt; no two messages have the same.
    pub id: String,
    /// What the message is for.
    pub kind: MessageKind,
    /// Where it comes from.
    pub source: Source,
    /// The webhook's name.
    pub webhook: String,
    /// When the message was decided on; the same for every attempt.
    pub created: Timestamp,
    /// The time of this attempt.
    pub now: Timestamp,
    /// How much is told.
    pub detail: Detail,
    /// What began, the earliest first.
    pub started: Vec<Alert>,
    /// What the receiver knows of already, and goes on, as far as it fits into the message.
    pub ongoing: Vec<Alert>,
    /// How many incidents the receiver knows of that go on and do not fit.
    pub hidden: u64,
    /// How many incidents go on that the receiver was not sent yet, and that this message does not name: they are young,
    /// or wait for their turn.
    pub unsent: u64,
    /// What is over.
    pub resolved: Vec<Alert>,
    /// The incidents beyond those that are told one by one.
    pub storm: Option<Storm>,
    /// The reasons of all that goes on, and of how many incidents, the most frequent first.
    pub reasons: Vec<(String, u64)>,
    /// Whether the object was deleted: what is called ended here may go on, but nobody watches it.
    pub object_deleted: bool,
}

/// One incident.
#[derive(Clone, Debug, PartialEq)]
pub struct Alert {
    /// The incident's key.
    pub key: String,
    /// The pods' namespace.
    pub namespace: String,
    /// Their top controller.
    pub owner: Owner,
    /// The container that causes the problem; empty where the pod as a whole does.
    pub container: String,
    /// The kind of problem.
    pub kind: ProblemKind,
    /// The reason, which may change while the incident lasts.
    pub reason: String,
    /// When it began.
    pub since: Timestamp,
    /// When it was over; absent while it goes on.
    pub resolved_at: Option<Timestamp>,
    /// How many pods; zero where the incident is no more.
    pub pods: u64,
    /// A few of them.
    pub example_pods: Vec<String>,
    /// The cause in words.
    pub message: String,
    /// The last lines of a log.
    pub logs: Arc<str>,
    /// Why there is no log, or what was cut from it.
    pub log_note: String,
}

/// Incidents beyond those that are told one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storm {
    /// How many there are now; exact.
    pub count: u64,
    /// When there began to be too many.
    pub since: Timestamp,
    /// When there were none left; absent while there are.
    pub resolved_at: Option<Timestamp>,
}

impl Notification {
    /// A message sent by hand, to try a receiver.
    #[must_use]
    pub fn test(id: String, source: impl Into<Source>, webhook: String, now: Timestamp) -> Self {
        let source = source.into();
        let object = &source.object;
        let alert = Alert {
            key: "test".to_owned(),
            namespace: object.namespace.clone(),
            owner: Owner { kind: "Orchestr".to_owned(), name: object.name.clone() },
            container: String::new(),
            kind: ProblemKind::Unknown,
            reason: "Test".to_owned(),
            since: now,
            resolved_at: None,
            pods: 1,
            example_pods: vec!["example-pod".to_owned()],
            message: "nothing is wrong: somebody ran orchestr webhook test".to_owned(),
            logs: Arc::from("the last lines of a container's log stand here"),
            log_note: String::new(),
        };
        Self {
            id,
            kind: MessageKind::Test,
            source,
            webhook,
            created: now,
            now,
            detail: Detail::Full,
            reasons: vec![(alert.reason.clone(), 1)],
            started: vec![alert],
            ongoing: Vec::new(),
            hidden: 0,
            unsent: 0,
            resolved: Vec::new(),
            storm: None,
            object_deleted: false,
        }
    }

    /// The message that all that this one tells of is over: after a test, for receivers that keep open
    /// what they are told of.
    #[must_use]
    pub fn resolved(mut self, id: String, now: Timestamp) -> Self {
        self.resolved.append(&mut self.started);
        self.resolved.append(&mut self.ongoing);
        for alert in &mut self.resolved {
            alert.resolved_at.get_or_insert(now);
            alert.pods = 0;
        }
        if let Some(storm) = &mut self.storm {
            storm.count = 0;
            storm.resolved_at.get_or_insert(now);
        }
        self.reasons.clear();
        Self { id, created: now, now, ..self }
    }

    /// How many incidents go on that the receiver was sent, this message included; exact.
    #[must_use]
    pub fn firing(&self) -> u64 {
        let storm = self.storm.as_ref().map_or(0, |storm| storm.count);
        ((self.started.len() + self.ongoing.len()) as u64).saturating_add(self.hidden).saturating_add(storm)
    }

    /// Whether all that the receiver was sent is over.
    #[must_use]
    pub fn is_resolved(&self) -> bool {
        self.firing() == 0
    }

    /// Whether nothing is broken of all that the webhook matches, as far as anybody knows.
    #[must_use]
    pub fn is_all_clear(&self) -> bool {
        self.is_resolved() && self.unsent == 0 && !self.object_deleted
    }
}

impl Alert {
    pub(super) fn new(known: &AlertStatus, incident: Option<&Incident>) -> Self {
        let mut alert = Self {
            key: known.key.clone(),
            namespace: known.namespace.clone(),
            owner: known.owner.clone(),
            container: known.container.clone(),
            kind: known.kind,
            reason: known.reason.clone(),
            since: known.since.0,
            resolved_at: None,
            pods: 0,
            example_pods: Vec::new(),
            message: String::new(),
            logs: Arc::from(""),
            log_note: String::new(),
        };
        if let Some(incident) = incident {
            alert.reason.clone_from(&incident.reason);
            alert.pods = incident.pods;
            alert.example_pods.clone_from(&incident.example_pods);
            alert.message.clone_from(&incident.message);
            alert.logs = Arc::clone(&incident.logs);
            alert.log_note.clone_from(&incident.log_note);
        }
        alert
    }
}

/// Counts reasons, the most frequent first, then by name.
pub(super) fn count_reasons<'a>(reasons: impl Iterator<Item = &'a str>) -> Vec<(String, u64)> {
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().map(|(reason, count)| (reason.to_owned(), count)).collect();
    counts.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    counts
}
