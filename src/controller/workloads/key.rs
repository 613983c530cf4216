//! Which kinds of objects create pods, and how one of them is identified.

use kube::core::{ApiResource, GroupVersionKind};

use crate::api::Owner;

/// The kinds that create pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::controller) enum WorkloadKind {
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    ReplicationController,
}

impl WorkloadKind {
    /// The first in their order.
    pub(super) const FIRST: Self = Self::ReplicaSet;
    const ALL: [Self; 5] =
        [Self::ReplicaSet, Self::StatefulSet, Self::DaemonSet, Self::Job, Self::ReplicationController];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::ReplicationController => "ReplicationController",
        }
    }

    pub(super) fn resource(self) -> ApiResource {
        let (group, plural) = match self {
            Self::ReplicaSet => ("apps", "replicasets"),
            Self::StatefulSet => ("apps", "statefulsets"),
            Self::DaemonSet => ("apps", "daemonsets"),
            Self::Job => ("batch", "jobs"),
            Self::ReplicationController => ("", "replicationcontrollers"),
        };
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", self.as_str()), plural)
    }
}

/// A workload as an event names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::controller) struct WorkloadKey {
    pub(super) namespace: String,
    pub(super) kind: WorkloadKind,
    pub(super) name: String,
    /// Empty if only the name is known, from a status.
    pub(super) uid: String,
}

impl WorkloadKey {
    pub(in crate::controller) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn as_owner(&self) -> Owner {
        Owner { kind: self.kind.as_str().to_owned(), name: self.name.clone() }
    }
}
