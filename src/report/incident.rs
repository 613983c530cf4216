//! The incident: what a report finds, and what alerts are made from.

use std::{sync::Arc, time::Duration};

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::{
    api::{AlertStatus, Cause, Owner, Ownership, ProblemKind, Revision, Severity},
    diagnosis::Explanation,
};

use super::truncate;

/// Current problems with the same namespace, owner, container and kind.
///
/// The status lists them as far as it has space, metrics and alerts are made from all of them. Many objects may select the same failing
/// pods, so `alerts/delivery` shares names and texts between their incidents, and those that cannot be sent one by one have no
/// texts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Incident {
    /// A hash of namespace, owner, container and kind, as in the status.
    pub key: ArcStr,
    pub namespace: ArcStr,
    /// The top controller, derived from names; a pod without controller is its own owner.
    pub owner: Arc<Owner>,
    /// The failing container; empty if the problem is not of one container.
    pub container: ArcStr,
    /// Part of the incident's identity, unlike the reason.
    pub kind: ProblemKind,
    /// The most specific reason of its pods, such as OOMKilled. May change while the incident lasts.
    pub reason: ArcStr,
    /// Unknown unless it is proven. May become known while the incident lasts.
    pub cause: Cause,
    /// When it began. Must not move forward while the incident lasts, or it never gets older than a webhook's `after`.
    /// The tracker ensures that.
    pub since: Timestamp,
    /// The threshold that had to pass after `since` before it counted as a problem. `after` is counted from its end.
    pub tolerated: Duration,
    /// The number of pods; exact.
    pub pods: u64,
    /// How many pods the owner has in all; zero if unknown.
    pub of: u64,
    /// From an annotation; otherwise critical if none of the owner's pods works. May change while the incident lasts.
    pub severity: Severity,
    /// From an annotation, like the URLs; empty if unknown. May change while the incident lasts.
    pub team: ArcStr,
    pub runbook: ArcStr,
    pub dashboard: ArcStr,
    pub texts: Arc<Texts>,
    /// The cause that the incident has in common with others.
    pub common_cause: Option<Arc<CommonCause>>,
    /// Whether it is about the object's own spec, and not about pods. Each webhook is sent it, whatever its `match`.
    pub is_of_spec: bool,
    /// The controllers that cannot create pods, if pods are missing.
    pub controllers: Vec<Owner>,
    /// The incidents that this one stands for, if it is about a common cause itself: first those that no alert about
    /// another common cause reported; of these, the most severe of each namespace, then the second of each, and so on.
    pub members: Vec<Member>,
}

impl Incident {
    /// The namespace that takes the space for the incident's alert, and that a mention because of it counts for: if it is
    /// about a common cause without one, that of its members. Empty if these are in several.
    pub(crate) fn counted_in(&self) -> &str {
        let mut namespaces = self.members.iter().map(|member| member.namespace.as_str());
        match namespaces.next() {
            Some(first) if self.namespace.is_empty() && namespaces.all(|other| other == first) => first,
            _ => &self.namespace,
        }
    }
}

impl From<&AlertStatus> for Incident {
    /// What a status stores of an incident, which may be gone.
    fn from(alert: &AlertStatus) -> Self {
        Self {
            key: alert.key.as_str().into(),
            namespace: alert.namespace.as_str().into(),
            owner: alert.owner.clone().into(),
            container: alert.container.as_str().into(),
            kind: alert.kind,
            reason: alert.reason.as_str().into(),
            cause: alert.cause,
            // Absent if an older version stored it, whose label was always `warning`.
            severity: alert.severity.unwrap_or_default(),
            team: alert.team.as_str().into(),
            since: alert.since.0,
            ..Self::default()
        }
    }
}

/// What an alert shows of an incident, and what decides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    pub example_pods: Vec<String>,
    /// One sentence: the cause, or what is known.
    pub message: String,
    /// The revision that fails, if an earlier one is still healthy.
    pub revision: Option<Revision>,
    /// What supports the cause beside the pods themselves, redacted: that of an example pod.
    pub evidence: Vec<String>,
    /// The last lines of an example pod's log, redacted; may be empty.
    pub logs: Arc<str>,
    /// Why the log is missing or was cut; may be empty.
    pub log_note: ArcStr,
}

impl Texts {
    /// The note of texts that were left out.
    pub const LEFT_OUT: ArcStr = arcstr::literal!("left out: there are too many incidents");

    /// Those of an incident whose texts were left out.
    #[must_use]
    pub fn left_out() -> Self {
        Self { log_note: Self::LEFT_OUT, ..Self::default() }
    }

    /// About how many bytes they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let revision = self.revision.as_ref();
        let changes = revision.into_iter().flat_map(|revision| revision.changes.iter().chain([&revision.name]));
        let texts = self.example_pods.iter().chain(&self.evidence).chain(changes);
        // Each also has a place in memory.
        let texts: usize = texts.map(|text| text.len() + size_of::<String>()).sum();
        size_of::<Self>() + self.message.len() + texts + self.logs.len() + self.log_note.len()
    }
}

/// An incident that has a common cause with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The key of the incident.
    pub key: String,
    pub namespace: String,
    pub owner: Owner,
    /// The number of pods.
    pub pods: u64,
}

/// A cause that several incidents have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonCause {
    /// A hash of kind, namespace and name.
    pub key: String,
    /// For example Node.
    pub kind: String,
    /// Empty if the cause is not an object in a namespace.
    pub namespace: String,
    pub name: String,
    pub cause: Cause,
    /// One sentence.
    pub message: String,
}

/// Pods that should exist, but that their controllers cannot create: those of one owner. They belong to one incident, which
/// has no example pods.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingPods {
    pub namespace: String,
    /// The top controller.
    pub owner: Owner,
    /// The controllers that cannot create pods: ReplicaSets of a Deployment, Jobs of a CronJob, or the owner itself.
    pub controllers: Vec<Owner>,
    pub reason: &'static str,
    pub since: Timestamp,
    /// The threshold: how long after `since` the state became a problem.
    pub tolerated: Duration,
    pub missing: u64,
    /// How many pods these controllers should have.
    pub of: u64,
    pub explanation: Explanation,
    /// The annotations of the pod template, or the values that an earlier status listed; absent if there are none.
    pub ownership: Option<Box<Ownership>>,
}

impl MissingPods {
    /// The controllers as they are shown, without the owner itself.
    pub(super) fn other_controllers(&self) -> impl Iterator<Item = Owner> {
        let others = self.controllers.iter().filter(|controller| **controller != self.owner);
        others.map(|controller| truncate::shown_owner(&controller.kind, &controller.name))
    }
}
