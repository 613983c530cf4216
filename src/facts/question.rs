//! What is read because a verdict or its explanation depends on it, and the answers.

use std::sync::Arc;

use arcstr::ArcStr;
use k8s_openapi::{api::batch::v1::CronJob, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::{
    api::is_object_name,
    diagnosis::{
        ClaimFacts, ClusterNodes, JobFacts, LimitChanges, PortHolders, Preemptions, TemplateChanges, WorkloadObject,
        needs_job, owner_names, revision_hash, revision_name,
    },
    pods::{Controller, Pod, Uid},
};

/// How many claims of a pod are read.
const CLAIMS: usize = 4;
/// How much of the API server's message is kept when it denies access, in bytes.
const DENIAL_LIMIT: usize = 512;

/// What is read. The order is that in which reads that are due at the same time are started.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Question {
    Job(JobKey),
    /// The revision of a workload that a pod belongs to, compared with an earlier one.
    Revision(RevisionKey),
    /// How the memory limits of a revision came about: that of the workload of this resource and name. The key has no earlier
    /// revision.
    LimitChanges {
        workload: (&'static str, String),
        revision: RevisionKey,
    },
    /// The nodes of the cluster.
    Nodes,
    /// A PersistentVolumeClaim, with its StorageClass and the free volumes.
    Claim {
        namespace: String,
        name: ArcStr,
    },
    /// The events about one pod, also those that are no warnings.
    EventsOf {
        namespace: String,
        pod: Uid,
    },
    /// The Warning events of a namespace.
    Events(String),
    /// The events about kills in a namespace, which are no warnings.
    Kills(String),
    /// The preemptions in a namespace.
    Preemptions(String),
    /// The pods of a namespace that use ports of their nodes.
    PortHolders(String),
}

/// A Job as a pod's owner reference names it. The key contains all three, so that a pod with a forged reference affects no
/// other pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// A revision, and its owner as the pods name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RevisionKey {
    pub(crate) namespace: String,
    pub(crate) resource: &'static str,
    /// The name of the ReplicaSet or ControllerRevision.
    pub(crate) failing: String,
    /// The UID of the pods' controller: the ReplicaSet itself, or the StatefulSet or DaemonSet.
    pub(crate) controller_uid: String,
    /// The name of the one that it is compared with; empty if there is none.
    pub(crate) before: String,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    Job(JobFact),
    Revision(RevisionFact),
    LimitChanges(Arc<LimitChanges>),
    Nodes(Arc<ClusterNodes>),
    Claim(Arc<ClaimFacts>),
    /// The events are kept elsewhere.
    Listed {
        is_complete: bool,
    },
    Preemptions(Arc<Preemptions>),
    PortHolders(Arc<PortHolders>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobFact {
    pub(crate) facts: Arc<JobFacts>,
    /// The API server's message if it denied access to the CronJob; else empty.
    pub(crate) denial: String,
    /// Whether the CronJob is gone, or another one has its name. This is final.
    pub(crate) is_orphan: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RevisionFact {
    Compared(Arc<TemplateChanges>),
    /// The revision is not newer than the other one: one that was replaced has returned. With what its own template says.
    NotNewer(Arc<TemplateChanges>),
    TooLarge,
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer<T = Fact> {
    Read(T),
    /// The object is gone, or another one has its name. This is final.
    Gone,
    /// RBAC denies access, with the API server's message.
    Denied(String),
    /// It could not be read for another reason.
    Unavailable,
}

impl<T> Answer<T> {
    /// What an error of the API server says.
    pub(crate) fn of_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_not_found() => Self::Gone,
            kube::Error::Api(status) if status.is_forbidden() => {
                Self::Denied(status.message[..status.message.floor_char_boundary(DENIAL_LIMIT)].to_owned())
            }
            _ => Self::Unavailable,
        }
    }
}

impl JobKey {
    /// The key of the Job that controls a pod.
    pub(crate) fn new(pod: &Pod, job: &Controller) -> Self {
        Self { namespace: pod.namespace.to_string(), name: job.name.to_string(), uid: job.uid.to_string() }
    }

    pub(crate) fn of(job: &WorkloadObject) -> Self {
        let ObjectMeta { namespace, name, uid, .. } = job.metadata.clone();
        let text = Option::unwrap_or_default;
        Self { namespace: text(namespace), name: text(name), uid: text(uid) }
    }
}

impl From<JobFacts> for JobFact {
    fn from(facts: JobFacts) -> Self {
        Self { facts: Arc::new(facts), ..Self::default() }
    }
}

impl JobFact {
    /// What a Job says, and the CronJob that it belongs to, if it was read.
    pub(crate) fn of(job: &WorkloadObject, cron_job: Option<&CronJob>) -> Self {
        JobFacts::of(job, cron_job).into()
    }

    /// Whether another read would give the same result.
    pub(super) fn is_final(&self) -> bool {
        let has_cron_job = self.facts.cron_job.is_some() && !self.is_orphan;
        self.facts.complete || self.facts.superseded || self.facts.failed.is_some() && !has_cron_job
    }
}

impl RevisionKey {
    /// The revision of a pod, and an earlier one. Both are values of the label of revisions.
    pub(crate) fn new(pod: &Pod, hash: &str, before: Option<&str>) -> Option<Self> {
        let (owner_kind, owner_name) = owner_names(pod)?;
        let controller = pod.controller.as_ref()?;
        let resource = if controller.kind == "ReplicaSet" { "replicasets" } else { "controllerrevisions" };
        let key = Self {
            namespace: pod.namespace.to_string(),
            resource,
            failing: revision_name(owner_kind, owner_name, hash),
            controller_uid: controller.uid.to_string(),
            before: before.map(|before| revision_name(owner_kind, owner_name, before)).unwrap_or_default(),
        };
        // The names come from labels, which are not checked by all writers.
        let before = before.map(|_| &key.before);
        let are_names = [&key.namespace, &key.failing].into_iter().chain(before).all(|name| is_object_name(name));
        are_names.then_some(key)
    }
}

impl Question {
    /// How the memory limits of a pod's revision came about. Only the workloads of Kubernetes are read.
    pub(crate) fn limit_changes(pod: &Pod) -> Option<Self> {
        let (kind, name) = owner_names(pod)?;
        let resource = match kind {
            "Deployment" => "deployments",
            "StatefulSet" => "statefulsets",
            "DaemonSet" => "daemonsets",
            _ => return None,
        };
        let revision = RevisionKey::new(pod, revision_hash(pod)?, None)?;
        is_object_name(name).then(|| Self::LimitChanges { workload: (resource, name.to_owned()), revision })
    }

    /// The first claims of a pod, by name.
    pub(crate) fn claims(pod: &Pod) -> impl Iterator<Item = (ArcStr, Self)> {
        let names = pod.requirements.as_deref().map(|own| own.claims.first()).unwrap_or_default();
        // The API server does not check all names in a pod.
        let names = names.iter().filter(|name| is_object_name(name)).take(CLAIMS);
        names.map(|name| (name.clone(), Self::Claim { namespace: pod.namespace.to_string(), name: name.clone() }))
    }

    /// The resource and namespace for which access is granted or denied.
    pub(super) fn scope(&self) -> (&'static str, String) {
        let resource = match self {
            Self::Job(_) => "jobs",
            Self::Revision(RevisionKey { resource, .. }) => resource,
            Self::LimitChanges { workload: (resource, _), .. } => resource,
            Self::Nodes => "nodes",
            Self::Claim { .. } => "persistentvolumeclaims",
            Self::EventsOf { .. } | Self::Events(_) | Self::Kills(_) | Self::Preemptions(_) => "events",
            Self::PortHolders(_) => "pods",
        };
        (resource, self.namespace().to_owned())
    }

    /// The namespace to which the request counts. The nodes have none: no tenant can keep them from being read.
    pub(crate) fn namespace(&self) -> &str {
        match self {
            Self::Job(JobKey { namespace, .. })
            | Self::Revision(RevisionKey { namespace, .. })
            | Self::LimitChanges { revision: RevisionKey { namespace, .. }, .. }
            | Self::Claim { namespace, .. }
            | Self::EventsOf { namespace, .. }
            | Self::Events(namespace)
            | Self::Kills(namespace)
            | Self::Preemptions(namespace)
            | Self::PortHolders(namespace) => namespace,
            Self::Nodes => "",
        }
    }

    /// Whether the verdict on a pod, or its explanation, may depend on the answer.
    pub(crate) fn concerns(&self, pod: &Pod) -> bool {
        match self {
            Self::Job(key) => needs_job(pod).is_some_and(|job| job.uid == key.uid.as_str()),
            Self::Revision(key) | Self::LimitChanges { revision: key, .. } => {
                pod.controller.as_ref().is_some_and(|own| own.uid == key.controller_uid.as_str())
            }
            Self::Nodes => pod.node.is_empty(),
            Self::Claim { namespace, name } => {
                let requirements = pod.requirements.as_deref().filter(|_| pod.namespace == namespace.as_str());
                requirements.is_some_and(|requirements| requirements.claims.first().contains(name))
            }
            Self::EventsOf { pod: uid, .. } => pod.uid == *uid,
            Self::Preemptions(namespace) => pod.namespace == namespace.as_str() && pod.node.is_empty(),
            Self::Events(namespace) | Self::Kills(namespace) | Self::PortHolders(namespace) => {
                pod.namespace == namespace.as_str()
            }
        }
    }
}
