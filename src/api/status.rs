//! What users read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator found. Under 256 KiB as JSON, whatever the cluster's state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrchestrStatus {
    /// The generation of the spec that this status answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, PodsHealthy, Stalled, AlertsDelivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// How many pods the object selects.
    #[serde(default)]
    pub watched_pods: i64,
    /// How many of them have a problem; exact, also where the list is cut.
    #[serde(default)]
    pub problematic_pod_count: i64,
    /// How many of those `problematicPods` leaves out.
    #[serde(default)]
    pub omitted_pods: i64,
    /// How many incidents `incidents` leaves out.
    #[serde(default)]
    pub omitted_incidents: i64,
    /// One per namespace, owner, container and reason; the most recent first.
    #[serde(default)]
    pub incidents: Vec<Incident>,
    /// The pods with a problem; the most recent first.
    #[serde(default)]
    pub problematic_pods: Vec<PodProblem>,
    /// What each webhook has delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub webhooks: Vec<WebhookStatus>,
}

/// Pods that fail alike: same namespace, owner, container and reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// A hash of namespace, owner, container and reason: the same incident always has the same key.
    pub key: String,
    /// The pods' namespace.
    pub namespace: String,
    /// Their top controller as far as names tell; a pod without one is its own owner.
    pub owner: Owner,
    /// The container that causes the problem; empty where the pod as a whole does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// The cause, such as OOMKilled.
    pub reason: String,
    /// How many pods; exact.
    pub pods: i64,
    /// When the first of them began to fail.
    pub since: Time,
    /// Up to three of them.
    #[serde(default)]
    pub example_pods: Vec<String>,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    /// Such as Deployment.
    pub kind: String,
    /// Its name, in the pod's namespace.
    pub name: String,
}

/// A pod with a problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodProblem {
    /// The pod's name.
    pub name: String,
    /// The pod's namespace.
    pub namespace: String,
    /// What `kubectl get pods` prints as its STATUS.
    pub status: String,
    /// The cause, such as OOMKilled.
    pub reason: String,
    /// The cause in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The pod's phase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// The node it is scheduled to; absent where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Its top controller as far as names tell; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// When the problem began.
    pub since: Time,
    /// Each troubled container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub container_issues: Vec<ContainerIssue>,
}

/// What is wrong with a container, and the log that explains it.
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
    /// The state's message, as the kubelet wrote it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Whether the container passes its readiness probe.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: i32,
    /// How its previous life, or the present one if that is over, ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_termination: Option<LastTermination>,
    /// The last lines of the life that failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub logs: String,
    /// Where `logs` comes from; absent until the log was looked for, or where logs are not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_source: Option<LogSource>,
    /// Why there is no log, or what was cut from it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_note: String,
}

/// What a container is to its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerKind {
    /// One of `spec.containers`.
    App,
    /// One of `spec.initContainers` that must end before the next begins.
    Init,
    /// One of `spec.initContainers` with `restartPolicy: Always`.
    Sidecar,
}

/// A container's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerStateName {
    /// It waits to start.
    Waiting,
    /// It runs.
    Running,
    /// It has ended.
    Terminated,
}

/// How a container's life ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastTermination {
    /// The runtime's word for it, such as OOMKilled.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The exit code.
    pub exit_code: i32,
    /// The signal, where the runtime tells it.
    #[serde(default)]
    pub signal: i32,
    /// When it ended; absent where the runtime doesn't know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The termination message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Where a log comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LogSource {
    /// The container's present life, or its last one where it is not restarted.
    Current,
    /// The life before the present one.
    Previous,
    /// The termination message, where the log is empty or gone.
    TerminationMessage,
    /// There is none; `logNote` says why.
    Unavailable,
}

/// What a webhook has delivered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookStatus {
    /// The webhook's name in the spec.
    pub name: String,
}
