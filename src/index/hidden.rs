//! The pods that may not be healthy, but that a view does not show.

use std::collections::{BTreeSet, HashSet};

use crate::{api::Owner, diagnosis::owner_names, pods::Pod};

/// The hidden suspects of the namespaces that a view selects, by owner. It is collected once for all incidents of a status,
/// because all suspects of the cluster must be examined for it.
#[derive(Debug, Default)]
pub(crate) struct HiddenSuspects<'a> {
    /// The namespace, kind and name of each owner that a pod names.
    owners: HashSet<(&'a str, &'a str, &'a str)>,
    /// The Jobs among them.
    jobs: BTreeSet<(&'a str, &'a str)>,
    /// The pods that name no owner.
    pods: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> HiddenSuspects<'a> {
    pub(super) fn add(&mut self, pod: &'a Pod) {
        let namespace = &*pod.namespace;
        match owner_names(pod) {
            Some((kind, name)) => {
                self.owners.insert((namespace, kind, name));
                if kind == "Job" {
                    self.jobs.insert((namespace, name));
                }
            }
            None => _ = self.pods.insert((namespace, &pod.name)),
        }
    }

    /// Whether an owner has such pods. It is compared by name if a pod does not name it: a pod that has lost the labels of its
    /// ReplicaSet names no controller any more, and that of a CronJob names the Job.
    #[must_use]
    pub(crate) fn has(&self, namespace: &str, owner: &Owner) -> bool {
        let Owner { kind, name } = owner;
        self.owners.contains(&(namespace, &**kind, &**name))
            || kind == "CronJob" && has_part_of(&self.jobs, namespace, name)
            || if kind == "Pod" {
                self.pods.contains(&(namespace, &**name))
            } else {
                has_part_of(&self.pods, namespace, name)
            }
    }
}

/// Whether one of the names begins with that of the owner and a hyphen.
fn has_part_of(names: &BTreeSet<(&str, &str)>, namespace: &str, owner: &str) -> bool {
    let beginning = format!("{owner}-");
    let next = names.range((namespace, &*beginning)..).next();
    next.is_some_and(|(own, name)| *own == namespace && name.starts_with(&beginning))
}
