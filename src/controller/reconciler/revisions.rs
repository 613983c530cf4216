//! Which revision of a pod's owner fails, and how it differs from the one before.

use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    diagnosis::{owner_names, revision_name},
    index::Index,
    pods::Pod,
    report::{Comparison, FailingRevision, Workload},
};

use super::super::rollouts::{RolloutQuery, Rollouts};

/// The comparisons that one reconcile asks for.
pub(super) struct RolloutRequests<'a> {
    rollouts: &'a mut Rollouts,
    queries: Vec<RolloutQuery>,
    /// Whether a comparison is being made.
    lacks: bool,
}

impl<'a> RolloutRequests<'a> {
    pub(super) fn new(rollouts: &'a mut Rollouts) -> Self {
        Self { rollouts, queries: Vec::new(), lacks: false }
    }

    pub(super) fn ask(&mut self, query: RolloutQuery, object: &NamespacedName, now: Instant) -> Option<Comparison> {
        let answer = self.rollouts.ask(query, object, now);
        self.queries.extend(answer.query);
        self.lacks |= answer.is_lacking;
        answer.comparison
    }

    /// The queries to start, and whether a comparison is lacking.
    pub(super) fn take(&mut self) -> (Vec<RolloutQuery>, bool) {
        (std::mem::take(&mut self.queries), self.lacks)
    }
}

/// The owner of a pod with a problem, and this revision of it if it is the one that fails. `compare` returns how it differs
/// from an earlier revision, or none if the other one is not earlier.
pub(super) fn workload(
    index: &Index,
    pod: &Pod,
    revision: Option<&str>,
    compare: impl FnOnce(RolloutQuery) -> Option<Comparison>,
) -> Workload {
    // A pod without a controller is its own owner.
    let Some((kind, name)) = owner_names(pod) else { return Workload { of: 1, revision: None } };
    let revision = revision.and_then(|hash| {
        let before = index.healthy_before(&pod.namespace, kind, name, hash)?;
        let comparison = match RolloutQuery::new(pod, hash, &before) {
            Some(query) => compare(query)?,
            None => Comparison::Unknown,
        };
        let name = revision_name(kind, name, hash);
        Some(FailingRevision { name, healthy_before: before.pods.into(), comparison })
    });
    Workload { of: index.pods_of(&pod.namespace, kind, name).pods.into(), revision }
}
