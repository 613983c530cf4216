//! What is known about a pod or a workload. All texts are redacted, on one line, and safe for a terminal, except the fields of
//! [`PodProblem`] and [`Incident`], which are redacted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::api::{Cause, ContainerKind, ContainerStateName, Incident, Owner, PodProblem};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    /// For example `deployment/cart`.
    pub(crate) target: String,
    pub(crate) namespace: String,
    /// The time of the API server.
    pub(crate) time: Time,
    pub(crate) state: State,
    /// The workload that is explained, or the workload of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workload: Option<WorkloadPart>,
    /// The pod, or one pod of each of the largest incidents of the workload.
    pub(crate) pods: Vec<PodPart>,
    /// What could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_read: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) enum State {
    #[default]
    Healthy,
    /// A Job that is not complete, but whose pods are healthy so far.
    #[serde(rename = "Healthy")]
    Running,
    /// Not healthy yet, but the time that it is given is not over.
    Settling,
    Problem,
    /// The pods of the workload could not be read.
    Unknown,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodPart {
    pub(crate) name: String,
    /// The STATUS of kubectl.
    pub(crate) status: String,
    pub(crate) state: State,
    /// Since when it is healthy, or has its problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Time>,
    /// Whether the problem may have begun before.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) since_at_latest: bool,
    /// When its state may change although the pod does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<Time>,
    /// Whether the annotation kopf.dev/ignore excludes it from reports.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) ignored: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<Owner>,
    /// One sentence about the cause, or what is known; empty without a problem.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) explanation: String,
    /// The line that it quotes from the log, see [`Incident`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) log_line: String,
    /// What exists in the place of a missing object.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) hint: String,
    /// A sentence about each other container that has a problem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) also: Vec<String>,
    /// As `orchestr scan --logs -o json` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<PodProblem>,
    pub(crate) containers: Vec<ContainerPart>,
    /// Those that are not as they should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<ConditionPart>,
    /// The objects that its problem may be about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) objects: Vec<ObjectPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_state: Option<NodePart>,
    #[serde(skip_serializing_if = "Events::is_empty")]
    pub(crate) events: Events,
}

pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerPart {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: ContainerKind,
    pub(crate) image: String,
    pub(crate) state: ContainerStateName,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// Since when it is running, or when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Time>,
    pub(crate) ready: bool,
    pub(crate) restarts: i32,
    /// How the run before the present state ended, or the present state if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_termination: Option<TerminationPart>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) memory_limit: String,
    /// A sentence about each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) probes: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TerminationPart {
    pub(crate) exit_code: i32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) finished_at: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
}

/// A condition of a pod or a node.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ConditionPart {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Time>,
}

/// The kinds of objects that pods refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub(crate) enum ReferenceKind {
    ConfigMap,
    Secret,
    PersistentVolumeClaim,
    ServiceAccount,
}

/// An object that the pod refers to.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectPart {
    pub(crate) kind: ReferenceKind,
    pub(crate) name: String,
    /// Absent if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exists: Option<bool>,
    /// Whether the pod can do without it.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) optional: bool,
    /// The keys that the pod needs but the object lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) missing_keys: Vec<String>,
    /// The keys that the pod needs, if they could not be compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unchecked_keys: Vec<String>,
    /// How the pod uses it, such as `env of app`.
    pub(crate) used_by: Vec<String>,
    /// More about its state, such as the phase of a claim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) detail: String,
    #[serde(skip_serializing_if = "Events::is_empty")]
    pub(crate) events: Events,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePart {
    pub(crate) name: String,
    pub(crate) exists: bool,
    /// Whether it is cordoned.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) unschedulable: bool,
    /// Those that are not as they should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<ConditionPart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) taints: Vec<String>,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadPart {
    /// For example `deployment/cart`.
    pub(crate) name: String,
    /// How far its rollout is.
    pub(crate) progress: String,
    /// Absent if they could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pods: Option<Counts>,
    /// The newest revision, or the revision of the pod, and what changed in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<RevisionPart>,
    /// Why pods of it cannot be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missing_pods: Option<MissingPart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) incidents: Vec<Incident>,
    #[serde(skip_serializing_if = "Events::is_empty")]
    pub(crate) events: Events,
}

/// How many of the pods are in which state.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    pub(crate) total: usize,
    pub(crate) healthy: usize,
    pub(crate) settling: usize,
    pub(crate) problems: usize,
    /// Those that cannot be decoded.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) unreadable: usize,
    /// Whether there are more than were read.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) more: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevisionPart {
    /// The name of the ReplicaSet or ControllerRevision.
    pub(crate) name: String,
    /// The name of the one before.
    pub(crate) before: String,
    pub(crate) changes: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MissingPart {
    pub(crate) cause: Cause,
    pub(crate) message: String,
    /// What exists in the place of a missing service account.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) hint: String,
    /// The quotas of the namespace, if one of them is the cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) quotas: Vec<String>,
}

/// The most recent events, newest first.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Events {
    pub(crate) shown: Vec<EventPart>,
    /// How many older ones are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) omitted: usize,
    /// Whether there are more than were read.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) more: bool,
}

impl Events {
    pub(crate) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventPart {
    /// The object, such as `ReplicaSet cart-5d9f`.
    pub(crate) about: String,
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) count: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last: Option<Time>,
    /// The component that reported it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) from: String,
}
