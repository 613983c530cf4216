//! Which revision of a pod's owner fails, how it differs from the one before, and what its pod template says.

use std::sync::Arc;

use crate::{
    diagnosis::{TemplateChanges, owner_names, revision_hash, revision_name},
    index::Index,
    pods::Pod,
    report::{Comparison, FailingRevision, Workload},
    revisions::RevisionKey,
};

use super::super::rollouts::RolloutRequests;

/// What is known of the pod template of a pod's revision, compared with an earlier one that is healthy, if there is one.
pub(super) fn template(requests: &mut RolloutRequests<'_>, index: &Index, pod: &Pod) -> Option<Arc<TemplateChanges>> {
    let (kind, name) = owner_names(pod)?;
    let hash = revision_hash(pod)?;
    let before = index.healthy_before(&pod.namespace, kind, name, hash);
    let compared = before.and_then(|before| requests.comparison(RevisionKey::new(pod, hash, Some(before.hash))?));
    let comparison = match (before, compared) {
        (Some(_), Some(comparison)) => comparison,
        // Without an earlier revision, or if that has turned out to be newer.
        _ => requests.comparison(RevisionKey::new(pod, hash, None)?)?,
    };
    match comparison {
        Comparison::Compared(changes) => Some(changes),
        Comparison::Unknown | Comparison::TooLarge => None,
    }
}

/// The owner of a pod with a problem, and this revision of it if it is the one that fails. `compare` returns how it differs
/// from an earlier revision, or none if the other one is not earlier.
pub(super) fn workload(
    index: &Index,
    pod: &Pod,
    revision: Option<&str>,
    compare: impl FnOnce(RevisionKey) -> Option<Comparison>,
) -> Workload {
    // A pod without a controller is its own owner.
    let Some((kind, name)) = owner_names(pod) else { return Workload { of: 1, revision: None } };
    let revision = revision.and_then(|hash| {
        let before = index.healthy_before(&pod.namespace, kind, name, hash)?;
        let comparison = match RevisionKey::new(pod, hash, Some(before.hash)) {
            Some(key) => compare(key)?,
            None => Comparison::Unknown,
        };
        let name = revision_name(kind, name, hash);
        Some(FailingRevision { name, healthy_before: before.pods.into(), comparison })
    });
    Workload { of: index.pods_of(&pod.namespace, kind, name).pods.into(), revision }
}
