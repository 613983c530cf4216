//! The status of an `Orchestr` object.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Cause, LenientList, Owner, ProblemKind, Severity, WebhookStatus, lenient, open_enum::open_enum, schema};

/// What the operator found. Always under 256 KiB as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct OrchestrStatus {
    /// The generation of the spec that this status is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, PodsHealthy, Stalled, AlertsDelivered.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    #[schemars(with = "Vec<schema::Condition>")]
    pub conditions: Vec<Condition>,
    /// When the operator last checked the pods. Updated with every write and at least every 5 minutes: an older time
    /// means that the operator is not running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub last_check_time: Option<Time>,
    /// How many pods the object selects.
    pub watched_pods: i64,
    /// How many of these pods have a problem, including those that the list omits.
    pub problematic_pod_count: i64,
    /// How many pods should exist but do not, because their controllers cannot create them.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    pub missing_pods: i64,
    /// How many pods have a problem that is not reported because of `ignoreReasons` or the annotation kopf.dev/ignore.
    pub ignored_pods: i64,
    /// The most frequent reason of the problems.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub top_reason: String,
    /// The most frequent proven cause of the problems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_cause: Option<Cause>,
    /// How many pods `problematicPods` omits.
    pub omitted_pods: i64,
    /// How many incidents `incidents` omits.
    pub omitted_incidents: i64,
    /// Causes that several incidents have in common, such as a node. Those that explain most pods come first.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub common_causes: Vec<CommonCause>,
    /// One entry per namespace, owner, container and kind of problem; the most recent first.
    #[serde(default, deserialize_with = "lenient::list")]
    pub incidents: Vec<Incident>,
    /// The pods with a problem; the most recent first.
    #[serde(default, deserialize_with = "lenient::list")]
    pub problematic_pods: Vec<PodProblem>,
    /// Incidents that have ended within seven days; the most recent first, at most 50. An incident that only left view,
    /// because the spec changed or its pods could not be read, is not one of them.
    #[serde(default, skip_serializing_if = "LenientList::is_empty")]
    #[schemars(with = "Vec<EndedIncident>")]
    pub history: LenientList<EndedIncident>,
    /// Since when `history` is complete, apart from the spans in `unwatched`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub history_since: Option<Time>,
    /// How many ended incidents were dropped from `history` to keep it within its limits.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    pub omitted_history: i64,
    /// The spans since `historySince` in which the pods were not watched; the most recent first, at most 20.
    #[serde(default, skip_serializing_if = "LenientList::is_empty")]
    #[schemars(with = "Vec<UnwatchedSpan>")]
    pub unwatched: LenientList<UnwatchedSpan>,
    /// The delivery state of each webhook.
    #[serde(
        default,
        deserialize_with = "lenient::shared_list",
        serialize_with = "lenient::serialize_shared",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(
        with = "Vec<WebhookStatus>",
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub webhooks: Vec<Arc<WebhookStatus>>,
}

/// Pods with the same namespace, owner, failing container and kind of problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// A hash of namespace, owner, container and kind as 16 hexadecimal digits. It stays the same while the incident
    /// lasts.
    pub key: String,
    /// The kind of problem, such as Crash.
    #[serde(default)]
    pub kind: ProblemKind,
    /// The pods' namespace.
    pub namespace: String,
    /// The pods' top-level controller, as far as it can be derived from names. A pod without a controller is its own
    /// owner.
    pub owner: Owner,
    /// The container that causes the problem; absent if the cause is not a single container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// The most specific reason among the pods, such as OOMKilled. It may change while the incident lasts.
    pub reason: String,
    /// The proven cause, such as OutOfMemory; Unknown if the API does not prove any.
    #[serde(default)]
    pub cause: Cause,
    /// A sentence that explains the cause, or what is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// If the API proves only how the container ended: the line of its log that says most about why, in the container's own
    /// words, redacted and of at most 160 characters. Absent if no line does, or if logs are disabled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_line: String,
    /// What exists in the place of a missing object, such as `there is a ConfigMap app-configuration`. Only commands fill it, with
    /// the permissions of their callers, so a status never has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(skip)]
    pub hint: String,
    /// How severe it is: critical, warning or info. From the annotation kopf.dev/severity of a pod or of the namespace;
    /// otherwise critical if none of the owner's pods works, else warning. It may change while the incident lasts.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub severity: Option<Severity>,
    /// The team that is responsible, from the annotation kopf.dev/team of a pod or of the namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub team: String,
    /// The URL of a runbook, from the annotation kopf.dev/runbook of a pod or of the namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub runbook: String,
    /// The URL of a dashboard, from the annotation kopf.dev/dashboard of a pod or of the namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dashboard: String,
    /// Annotations of a pod, or of the namespace, that are ignored because their values are not valid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invalid_annotations: Vec<String>,
    /// How many pods are affected.
    pub pods: i64,
    /// The most pods that were affected at the same time; absent if it is the present number.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    pub most_pods: i64,
    /// How many pods the owner has, or should have.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    pub of: i64,
    /// The revision of the owner that fails, if an earlier one is still healthy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// When the first of the pods began to fail.
    #[schemars(with = "schema::Time")]
    pub since: Time,
    /// Whether it may have begun before. Only in what commands print: the operator remembers the beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub since_at_latest: bool,
    /// The names of up to three of the pods.
    #[serde(default)]
    pub example_pods: Vec<String>,
    /// If pods are missing: up to three of the owner's controllers that cannot create them, such as the ReplicaSet of a
    /// Deployment. Absent if the owner creates its pods itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<Owner>,
}

/// A revision of a workload that fails while an earlier one is healthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Revision {
    /// The name of the ReplicaSet or ControllerRevision.
    pub name: String,
    /// How many pods of the earlier revision are healthy.
    #[serde(default)]
    pub healthy_before: i64,
    /// What changed in the pod template: images, commands, arguments, limits and probes with their values, environment
    /// variables only by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
}

/// An incident that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndedIncident {
    /// The key that the incident had in `incidents`.
    pub key: String,
    /// The kind of problem, such as Crash.
    #[serde(default)]
    pub kind: ProblemKind,
    /// The pods' namespace.
    pub namespace: String,
    /// The pods' top-level controller.
    pub owner: Owner,
    /// The container that caused the problem; absent if the cause was not a single container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// The most specific reason, such as OOMKilled.
    pub reason: String,
    /// The proven cause, such as OutOfMemory; Unknown if the API did not prove any.
    #[serde(default)]
    pub cause: Cause,
    /// The beginning of the last sentence that explained it; absent if the spec has changed since, because its
    /// `redactPatterns` may be others.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The most pods that were affected at the same time.
    pub pods: i64,
    /// When the incident began.
    #[schemars(with = "schema::Time")]
    pub began: Time,
    /// If the pods were not watched when the incident ended: when it was last known to last. It ended between then and
    /// `ended`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub last_seen: Option<Time>,
    /// When the incident was found to be over.
    #[schemars(with = "schema::Time")]
    pub ended: Time,
}

/// A time in which the pods were not watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnwatchedSpan {
    /// The beginning: of NotRunning, the last check before; of an interruption, when the watch failed.
    #[schemars(with = "schema::Time")]
    pub from: Time,
    /// The end; absent if the pods are still not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub until: Option<Time>,
    /// NotRunning if the operator was not running, or could not write the status. Otherwise the reason of the condition
    /// Ready, such as Paused or PodAccessDenied.
    pub reason: String,
    /// Whether the spec changed. Then the incidents before and after it are not compared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub spec_changed: bool,
}

/// A cause that several incidents have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommonCause {
    /// Node, Image, Registry, ConfigMap, Secret, ResourceQuota or StorageClass.
    pub kind: String,
    /// The name, with the namespace of a namespaced object.
    pub name: String,
    /// How many owners of pods are affected.
    pub owners: i64,
    /// How many pods are affected.
    pub pods: i64,
    /// When the first of the incidents began.
    #[schemars(with = "schema::Time")]
    pub since: Time,
    /// Whether it may have begun before. Only in what commands print: the operator remembers the beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub since_at_latest: bool,
    /// A sentence that explains it.
    pub message: String,
}

/// A pod with a problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodProblem {
    /// The pod's name.
    pub name: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The STATUS that `kubectl get pods` prints.
    pub status: String,
    /// The kind of problem, such as Crash.
    #[serde(default)]
    pub kind: ProblemKind,
    /// The reason, such as OOMKilled.
    pub reason: String,
    /// The proven cause, such as OutOfMemory; Unknown if the API does not prove any.
    #[serde(default)]
    pub cause: Cause,
    /// A description of the problem.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What proves or supports the cause beside the pod itself, mostly events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// The pod's phase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// The node that the pod is scheduled to, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// The pod's top-level controller, if any, as far as it can be derived from names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// When the problem began.
    #[schemars(with = "schema::Time")]
    pub since: Time,
    /// Whether it may have begun before. Only in what commands print: the operator remembers the beginning.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(skip)]
    pub since_at_latest: bool,
    /// The containers with a problem.
    #[serde(default, deserialize_with = "lenient::list", skip_serializing_if = "Vec::is_empty")]
    pub container_issues: Vec<ContainerIssue>,
}

/// The problem of a container and the log that explains it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerIssue {
    /// The container's name.
    pub name: String,
    /// App, Init or Sidecar.
    #[serde(rename = "type")]
    pub kind: ContainerKind,
    /// Waiting, Running or Terminated.
    pub state: ContainerStateName,
    /// The state's reason, such as CrashLoopBackOff.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The state's message from the kubelet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether the container passes its readiness probe.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: i32,
    /// How the container last terminated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_termination: Option<LastTermination>,
    /// The last lines of the log of the run that failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub logs: String,
    /// The source of `logs`: Current, Previous, TerminationMessage or Unavailable. Absent until the log was read, or if logs
    /// are disabled.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub log_source: Option<LogSource>,
    /// Why there is no log, or how it was shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_note: String,
}

open_enum! {
    /// The type of a container.
    pub enum ContainerKind {
        /// One of `spec.containers`.
        App,
        /// One of `spec.initContainers` that must complete before the next one starts.
        Init,
        /// One of `spec.initContainers` with `restartPolicy: Always`.
        Sidecar,
    } else = App
}

open_enum! {
    /// A container's state.
    pub enum ContainerStateName {
        /// The container is waiting to start.
        Waiting,
        /// The container is running.
        Running,
        /// The container has terminated.
        Terminated,
    } else = Waiting
}

/// How a container terminated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastTermination {
    /// The reason from the kubelet, such as OOMKilled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The exit code.
    pub exit_code: i32,
    /// The signal, if the container runtime reports one.
    #[serde(default, skip_serializing_if = "lenient::is_default")]
    pub signal: i32,
    /// When the container terminated, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::Time>")]
    pub finished_at: Option<Time>,
    /// The termination message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The source of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LogSource {
    /// The current run of the container, or the last one if it was not restarted.
    Current,
    /// The run before the current one.
    Previous,
    /// The termination message, because the log is empty or no longer available.
    TerminationMessage,
    /// There is no log; `logNote` gives the reason.
    Unavailable,
}
