//! Which revision of a pod's owner fails, how it differs from the one before, and what its pod template says.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    diagnosis::{TemplateChanges, owner_names, revision_hash, revision_name},
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

    /// What is known of the pod template of a pod's revision, compared with an earlier one that is healthy, if there is one.
    pub(super) fn template(
        &mut self,
        index: &Index,
        pod: &Pod,
        object: &NamespacedName,
        now: Instant,
    ) -> Option<Arc<TemplateChanges>> {
        let (kind, name) = owner_names(pod)?;
        let hash = revision_hash(pod)?;
        let before = index.healthy_before(&pod.namespace, kind, name, hash);
        let compared = before.and_then(|before| self.ask(RolloutQuery::new(pod, hash, Some(&before))?, object, now));
        let comparison = match (before, compared) {
            (Some(_), Some(comparison)) => comparison,
            // Without an earlier revision, or if that has turned out to be newer.
            _ => self.ask(RolloutQuery::new(pod, hash, None)?, object, now)?,
        };
        match comparison {
            Comparison::Compared(changes) => Some(changes),
            Comparison::Unknown | Comparison::TooLarge => None,
        }
    }

    /// Which right is missing for what this object asked.
    pub(super) fn warning(&self, object: &NamespacedName) -> Option<String> {
        self.rollouts.warning(object)
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
        let comparison = match RolloutQuery::new(pod, hash, Some(&before)) {
            Some(query) => compare(query)?,
            None => Comparison::Unknown,
        };
        let name = revision_name(kind, name, hash);
        Some(FailingRevision { name, healthy_before: before.pods.into(), comparison })
    });
    Workload { of: index.pods_of(&pod.namespace, kind, name).pods.into(), revision }
}
