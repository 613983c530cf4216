//! An incident in a message, independent of the message's format.

use std::sync::Arc;

use arcstr::ArcStr;
use jiff::Timestamp;

use super::incident::{Member, namespace_of};
use crate::api::{Cause, Owner, ProblemKind, Revision, Severity};

/// An incident in a message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alert {
    pub key: String,
    pub namespace: String,
    pub owner: Owner,
    /// Empty if the problem is not of one container.
    pub container: String,
    pub kind: ProblemKind,
    pub reason: String,
    pub cause: Cause,
    pub severity: Severity,
    /// The severity when the receiver was first sent the alert.
    pub first_severity: Severity,
    /// The team when the receiver was first sent the alert; empty if unknown.
    pub team: String,
    /// The links of the spec, with their names; empty if the incident is gone.
    pub links: Vec<(String, String)>,
    /// How many links are too long.
    pub omitted_links: usize,
    /// URLs; empty if unknown, or if the incident is gone.
    pub runbook: ArcStr,
    pub dashboard: ArcStr,
    pub since: Timestamp,
    /// `None` while firing.
    pub resolved_at: Option<Timestamp>,
    /// The number of pods; zero if the incident is gone.
    pub pods: u64,
    /// How many pods the owner has in all; zero if unknown.
    pub of: u64,
    pub example_pods: Vec<String>,
    pub message: String,
    pub revision: Option<Revision>,
    pub evidence: Vec<String>,
    pub logs: Arc<str>,
    /// Why the log is missing or was cut; may be empty.
    pub log_note: String,
    /// Whether the alert is about a common cause of incidents. `owner` is then its kind and name, and `namespace` is empty
    /// if it has none.
    pub is_common_cause: bool,
    /// The incidents that the alert about a common cause stands for, in the order of
    /// [`Incident::members`](super::Incident::members); empty if they are gone.
    pub members: Vec<Member>,
    /// How many incidents continue although the alert about their common cause is resolved.
    pub remaining: u64,
    /// How many incidents began and ended while they were held back, as the first message with this alert said; zero unless
    /// the receiver is sent alerts again and again.
    pub held_back: u64,
}

impl Alert {
    /// The namespace that a mention because of this alert counts for; empty if it is about a common cause in several.
    pub(super) fn mentioned_namespace(&self) -> &str {
        namespace_of(&self.namespace, &self.members)
    }
}
