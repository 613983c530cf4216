//! What is known about a pod or a workload. All texts are redacted, on one line, and safe for a terminal, except the fields of
//! [`PodProblem`] and [`Incident`], which are redacted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::api::{Cause, ContainerKind, ContainerStateName, Incident, Owner, PodProblem};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    /// For example `deployment/cart`.
    pub(super) target: String,
    pub(super) namespace: String,
    /// The time of the API server.
    pub(super) time: Time,
    pub(super) state: State,
    /// The workload, or that of the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workload: Option<WorkloadPart>,
    /// The pod, or one pod of each of the largest incidents of the workload.
    pub(super) pods: Vec<PodPart>,
    /// What could not be read, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) not_read: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum State {
    Healthy,
    /// Of a Job that is not complete: its pods are healthy so far.
    #[serde(rename = "Healthy")]
    Running,
    /// Not healthy yet, but the time that it is given is not over.
    Settling,
    Problem,
    /// The pods of the workload could not be read.
    Unknown,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodPart {
    pub(super) name: String,
    /// The STATUS of kubectl.
    pub(super) status: String,
    pub(super) state: State,
    /// Since when it is healthy, or has its problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Time>,
    /// When its state may change although the pod does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Time>,
    /// Whether the annotation kopf.dev/ignore excludes it from reports.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) ignored: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) created: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<Owner>,
    /// One sentence about the cause, or what is known; empty without a problem.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) explanation: String,
    /// A sentence about each other container that has a problem.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) also: Vec<String>,
    /// As `orchestr scan --logs -o json` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) problem: Option<PodProblem>,
    pub(super) containers: Vec<ContainerPart>,
    /// Those that are not as they should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) conditions: Vec<ConditionPart>,
    /// The objects that its problem may be about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) objects: Vec<ObjectPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_state: Option<NodePart>,
    #[serde(skip_serializing_if = "Events::is_empty")]
    pub(super) events: Events,
}

fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerPart {
    pub(super) name: String,
    #[serde(rename = "type")]
    pub(super) kind: ContainerKind,
    pub(super) image: String,
    pub(super) state: ContainerStateName,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    /// Since when it is running, or when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Time>,
    pub(super) ready: bool,
    pub(super) restarts: i32,
    /// How the run before the present state ended, or the present state if it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_termination: Option<TerminationPart>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) memory_limit: String,
    /// A sentence about each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) probes: Vec<String>,
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TerminationPart {
    pub(super) exit_code: i32,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) started_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finished_at: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
}

/// A condition of a pod or a node.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConditionPart {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<Time>,
}

/// An object that the pod refers to.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectPart {
    pub(super) kind: &'static str,
    pub(super) name: String,
    /// Absent if it could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exists: Option<bool>,
    /// Whether the pod can do without it.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) optional: bool,
    /// The keys that the pod needs but the object lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) missing_keys: Vec<String>,
    /// The keys that the pod needs, if they could not be compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) unchecked_keys: Vec<String>,
    /// How the pod uses it, such as `env of app`.
    pub(super) used_by: Vec<String>,
    /// More about its state, such as that of a claim.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) detail: String,
    #[serde(skip_serializing_if = "Events::is_empty")]
    pub(super) events: Events,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodePart {
    pub(super) name: String,
    pub(super) exists: bool,
    /// Whether it is cordoned.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) unschedulable: bool,
    /// Those that are not as they should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) conditions: Vec<ConditionPart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) taints: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkloadPart {
    /// For example `deployment/cart`.
    pub(super) name: String,
    /// How far its rollout is.
    pub(super) progress: String,
    /// Absent if they could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pods: Option<Counts>,
    /// The newest revision, or that of the pod, and what changed in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<RevisionPart>,
    /// Why pods of it cannot be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) missing_pods: Option<MissingPart>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) incidents: Vec<Incident>,
    #[serde(skip_serializing_if = "Events::is_empty")]
    pub(super) events: Events,
}

impl WorkloadPart {
    pub(super) fn without_pods(name: String, progress: String) -> Self {
        Self {
            name,
            progress,
            pods: None,
            revision: None,
            missing_pods: None,
            incidents: Vec::new(),
            events: Events::default(),
        }
    }
}

/// How many of the pods are in which state.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    pub(super) total: usize,
    pub(super) healthy: usize,
    pub(super) settling: usize,
    pub(super) problems: usize,
    /// Those that cannot be decoded.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) unreadable: usize,
    /// Whether there are more than were read.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) more: bool,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RevisionPart {
    /// The name of the ReplicaSet or ControllerRevision.
    pub(super) name: String,
    /// The name of the one before.
    pub(super) before: String,
    pub(super) changes: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MissingPart {
    pub(super) cause: Cause,
    pub(super) message: String,
    /// The quotas of the namespace, if one of them is the cause.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) quotas: Vec<String>,
}

/// The most recent events, newest first.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Events {
    pub(super) shown: Vec<EventPart>,
    /// How many older ones are left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) omitted: usize,
    /// Whether there are more than were read.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) more: bool,
}

impl Events {
    pub(super) fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventPart {
    /// The object, such as `ReplicaSet cart-5d9f`.
    pub(super) about: String,
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) count: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) first: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<Time>,
    /// The component that reported it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) from: String,
}
