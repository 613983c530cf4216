//! Which revision of a pod's owner fails, and how it differs from the one before.

use crate::{
    diagnosis::{owner_names, revision_name},
    facts::{Known, RevisionFact},
    index::Index,
    pods::Pod,
    report::{Comparison, FailingRevision, Workload},
};

/// The owner of a pod with a problem, and this revision of it if it is the one that fails.
pub(super) fn workload(index: &Index, pod: &Pod, revision: Option<&str>, known: &Known<'_>) -> Workload {
    // A pod without a controller is its own owner.
    let Some((kind, name)) = owner_names(pod) else { return Workload { of: 1, revision: None } };
    let revision = revision.and_then(|hash| {
        let before = index.healthy_before(&pod.namespace, kind, name, hash)?;
        let comparison = match known.revision_fact(pod, hash, Some(before.hash)) {
            Some(RevisionFact::Compared(changes)) => Comparison::Compared(changes),
            Some(RevisionFact::TooLarge) => Comparison::TooLarge,
            // It does not follow the other one.
            Some(RevisionFact::NotNewer(_)) => return None,
            None => Comparison::Unknown,
        };
        let name = revision_name(kind, name, hash);
        Some(FailingRevision { name, healthy_before: before.pods.into(), comparison })
    });
    Workload { of: index.pods_of(&pod.namespace, kind, name).pods.into(), revision }
}
