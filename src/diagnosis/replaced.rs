//! The rule for replaced pods: the controller of a failed pod has, or had, a healthy pod that was created later.

use std::collections::HashMap;

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::pods::Pod;

use super::owner::{PodOwner, owner, owner_names};

/// The kinds of owners that replace a failed pod by one of another name. Other controllers delete a pod before they
/// replace it.
const REPLACING_OWNERS: [&str; 4] = ["Deployment", "ReplicaSet", "Rollout", "ReplicationController"];

/// The owner of a pod if it is one that replaces failed pods.
pub(crate) fn replacing_owner(pod: &Pod) -> Option<(&str, &str)> {
    owner_names(pod).filter(|(kind, _)| REPLACING_OWNERS.contains(kind))
}

/// When a pod that is healthy under any thresholds was created, if it replaces the failed pods that are older.
pub(crate) fn replaces_older_than(healthy: &Pod) -> Option<Timestamp> {
    healthy.created.filter(|_| healthy.phase == "Running")
}

/// When the youngest healthy pod of each owner was created. The index keeps the same in its label sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replacements(HashMap<(ArcStr, PodOwner), Timestamp>);

impl Replacements {
    /// Adds a pod that is healthy under any thresholds.
    pub(crate) fn add(&mut self, healthy: &Pod) {
        if let (Some(created), Some(_)) = (replaces_older_than(healthy), replacing_owner(healthy))
            && let Some(owner) = owner(healthy)
        {
            let youngest = self.0.entry((healthy.namespace.clone(), owner)).or_insert(created);
            *youngest = created.max(*youngest);
        }
    }

    /// Whether a pod was replaced. A pod without a creation time was not.
    pub(crate) fn has_replaced(&self, pod: &Pod) -> bool {
        let Some((owner, created)) = owner(pod).zip(pod.created) else { return false };
        self.0.get(&(pod.namespace.clone(), owner)).is_some_and(|youngest| *youngest > created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::testing::controller;

    fn pod(kind: &str, name: &str, namespace: &str, created: i64) -> Pod {
        let (controller, created) = (Some(controller(kind, name, "u")), Timestamp::from_second(created).ok());
        Pod { namespace: namespace.into(), phase: "Running".into(), controller, created, ..Pod::default() }
    }

    #[test]
    fn a_later_pod_of_the_same_owner_replaces_a_failed_one() {
        for kind in ["ReplicaSet", "ReplicationController", "Rollout", "StatefulSet", "DaemonSet", "Job"] {
            let mut known = Replacements::default();
            known.add(&pod(kind, "web", "shop", 50));
            known.add(&pod(kind, "web", "shop", 20));
            let replaces = REPLACING_OWNERS.contains(&kind);
            assert_eq!(known.has_replaced(&pod(kind, "web", "shop", 49)), replaces, "{kind}");
            for other in [pod(kind, "web", "shop", 50), pod(kind, "web", "bank", 1), pod(kind, "api", "shop", 1)] {
                assert!(!known.has_replaced(&other), "{other:?}");
            }
            assert!(!known.has_replaced(&Pod { created: None, ..pod(kind, "web", "shop", 1) }));
        }
    }

    #[test]
    fn a_pod_that_has_succeeded_replaces_none() {
        let mut known = Replacements::default();
        known.add(&Pod { phase: "Succeeded".into(), ..pod("ReplicaSet", "web", "shop", 50) });
        assert!(!known.has_replaced(&pod("ReplicaSet", "web", "shop", 1)));
    }
}
