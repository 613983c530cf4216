//! The input and the output of [`watching`](super::watching()).

use std::collections::HashMap;

use jiff::Timestamp;

use crate::{api::OrchestrStatus, diagnosis::ContainerFinding, logs::Masking, pods::Pod};

use super::{
    change::OmittedIncidents,
    incident::Incident,
    incident::MissingPods,
    incidents::{FindOwnership, FindWorkload},
    problem::{PodFinding, Problem},
    tracker::Tracker,
};

/// The inputs of [`watching`](super::watching()).
pub struct Input<'a> {
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.report.maxPods`.
    pub max_pods: usize,
    /// How many pods the object selects.
    pub watched_pods: u64,
    /// In any order.
    pub findings: Vec<PodFinding<'a>>,
    /// The pods that should exist but do not; at most one value per owner, in any order.
    pub missing: &'a [MissingPods],
    pub find_workload: FindWorkload<'a>,
    pub find_ownership: FindOwnership<'a>,
    /// How many failed pods are left out, because their Jobs were not read yet.
    pub unread_jobs: u64,
    /// How many pods could not be decoded, and one of them.
    pub unreadable: Option<(u64, String)>,
    /// Which selected namespaces are not watched and why, if any.
    pub outside: Option<String>,
    /// Which of the selected namespaces may not be read and why, if any.
    pub denied: Option<String>,
    /// Whether logs are shown: then room is reserved for logs that are still to be read.
    pub logs: bool,
    /// What to mask in messages, which may quote a container's output; absent for the default policy.
    pub masking: Option<&'a Masking<'a>>,
    /// How many pods a node has, whether or not the object selects them; zero if unknown.
    pub pods_on_node: &'a dyn Fn(&str) -> u64,
    /// The memory of earlier reconciles, already updated with `findings`.
    pub tracker: &'a Tracker,
    /// How many pods have a problem that the spec or an annotation excludes.
    pub ignored_pods: u64,
    /// The parts of the spec that are wrong, and that the rest is in force.
    pub wrong: Option<String>,
    /// Sentences added to Ready's message, for instance about a missing right.
    pub warnings: Vec<String>,
    /// Whether the object has webhooks: then room is reserved for their state, and incidents are returned for alerts.
    pub has_webhooks: bool,
    /// The status in the API. Transition times are kept from it.
    pub previous: Option<&'a OrchestrStatus>,
    pub now: Timestamp,
}

/// The outcome of one reconcile of an object whose pods are watched.
pub struct Report<'a> {
    pub status: OrchestrStatus,
    /// The incidents that the status does not list.
    pub omitted: OmittedIncidents,
    /// All incidents, for metrics and alerts. Unlike the status' list it is never cut. They have texts if the object has
    /// webhooks.
    pub incidents: Vec<Incident>,
    /// The containers that the status lists, each with its pod. The status shows their logs.
    pub shown: Vec<(&'a Pod, &'a ContainerFinding)>,
    pub(super) problems: Vec<Problem<'a>>,
}

impl Report<'_> {
    /// How many pods of each namespace have a problem with each reason.
    pub(crate) fn pods_by_reason(&self) -> HashMap<(&str, &str), u64> {
        let mut counts = HashMap::new();
        for problem in &self.problems {
            *counts.entry((problem.namespace, &*problem.finding.reason)).or_default() += 1;
        }
        counts
    }
}
