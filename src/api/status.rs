//! What users read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProblemKind;

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
    /// When the operator last checked the pods. Refreshed with every write and at least every 5 minutes: an older time
    /// means that no operator is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check_time: Option<Time>,
    /// How many pods the object selects.
    #[serde(default)]
    pub watched_pods: i64,
    /// How many of them have a problem; exact, even if the list is cut.
    #[serde(default)]
    pub problematic_pod_count: i64,
    /// How many pods have a problem that is not reported, because of `ignoreReasons` or the annotation kopf.dev/ignore.
    #[serde(default)]
    pub ignored_pods: i64,
    /// The reason that most of the problematic pods share.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub top_reason: String,
    /// How many of those `problematicPods` leaves out.
    #[serde(default)]
    pub omitted_pods: i64,
    /// How many incidents `incidents` leaves out.
    #[serde(default)]
    pub omitted_incidents: i64,
    /// One per namespace, owner, container and kind; the most recent first.
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

/// Pods that fail alike: same namespace, owner, container and kind of problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// A hash of namespace, owner, container and kind, 16 hexadecimal digits: it stays the same while the incident
    /// lasts.
    pub key: String,
    /// The kind of problem, such as Crash.
    #[serde(default)]
    pub kind: ProblemKind,
    /// The pods' namespace.
    pub namespace: String,
    /// Their top controller as far as names tell; a pod without one is its own owner.
    pub owner: Owner,
    /// The container that causes the problem; empty where the pod as a whole does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// The most telling reason of its pods, such as OOMKilled. It may change while the incident lasts.
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
    /// The kind of problem, such as Crash.
    #[serde(default)]
    pub kind: ProblemKind,
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
    /// The signal, if the runtime says that there was one.
    #[serde(default, skip_serializing_if = "no_signal")]
    pub signal: i32,
    /// When it ended; absent where the runtime doesn't know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The termination message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

fn no_signal(signal: &i32) -> bool {
    *signal == 0
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

/// What a webhook has delivered, and what it is about to. It is also the memory of the delivery: a
/// restarted operator goes on from here. Losing it costs messages sent twice, never one not sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookStatus {
    /// The webhook's name in the spec.
    pub name: String,
    /// When the receiver last took a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Time>,
    /// Why the last attempt failed; absent after a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<DeliveryError>,
    /// Attempts that failed since the last success.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub failures: i64,
    /// How many of the last attempts in a row were answered with 403 or 404. A proxy answers so during a rollout of the
    /// receiver: the first ones are soon tried again.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub refusals: i64,
    /// Nothing is sent before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Time>,
    /// The receiver said that it is gone for good (410): nothing is sent until the webhook or its
    /// Secret changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// A hash of the webhook's spec and Secrets, by which a change of them is noticed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// The format, and the version of the Secret that holds the URL: by it a changed receiver is noticed, which is sent
    /// what goes on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub receiver: String,
    /// Problems that were due but ended before the receiver could be told.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub dropped: i64,
    /// The message that is being delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingMessage>,
    /// What the receiver is told of one by one; bounded, `storm` stands for the rest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub alerts: Vec<AlertStatus>,
    /// The incidents that are too many to be told one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storm: Option<StormStatus>,
}

/// Why a delivery failed. It never holds a URL, a header, or anything that the receiver said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryError {
    /// When.
    pub time: Time,
    /// In words.
    pub message: String,
}

/// A message on its way. It is stored before it is sent, so that a restarted operator sends the same
/// message under the same id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingMessage {
    /// The same for every attempt: a receiver tells repeated attempts by it (`webhook-id`).
    pub id: String,
    /// What the message is for.
    pub kind: MessageKind,
    /// When it was decided on.
    pub created: Time,
    /// How often it was sent, or begun to be sent.
    pub attempts: i64,
    /// Whether an attempt was begun whose outcome isn't recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_flight: bool,
    /// Whether an attempt failed in a way that leaves open whether the receiver took the message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maybe_delivered: bool,
    /// How much is told; less after the receiver found the message too large (413).
    #[serde(default, skip_serializing_if = "Detail::is_full")]
    pub detail: Detail,
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MessageKind {
    /// Something broke; it may also tell what is over.
    Firing,
    /// Something is over.
    Resolved,
    /// Nothing changed for `repeatEvery`, and something is still broken.
    Repeat,
    /// The receiver forgets what isn't sent again and again (Alertmanager). Never pending.
    Resend,
    /// Sent by hand, to try the receiver. Never pending.
    Test,
}

/// How much a message tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Detail {
    /// Everything that fits.
    #[default]
    Full,
    /// No logs.
    NoLogs,
    /// Only what names the incidents that the message is about.
    #[serde(alias = "Counts")]
    Names,
}

impl Detail {
    fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

/// One incident as a receiver knows it. It repeats what names the incident, for the message that tells
/// its end is sent when the incident itself is no more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertStatus {
    /// The incident's key.
    pub key: String,
    /// The pods' namespace.
    pub namespace: String,
    /// Their top controller as far as names tell.
    pub owner: Owner,
    /// The container that causes the problem; absent where the pod as a whole does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// The kind of problem.
    #[serde(default)]
    pub kind: ProblemKind,
    /// The reason as the receiver was last sent it.
    pub reason: String,
    /// When it began.
    pub since: Time,
    /// What the receiver knows of it.
    pub phase: AlertPhase,
    /// When a message that tells of it was last taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Time>,
    /// Since when the incident is no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_since: Option<Time>,
    /// How often it came back soon after it was gone. Each time doubles how long it must be gone before
    /// the receiver is told that it is over.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub returns: i64,
}

/// What a receiver knows of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AlertPhase {
    /// Nothing yet: it is to be told with the next message.
    Queued,
    /// The pending message tells that it began.
    Announcing,
    /// That it began.
    Firing,
    /// The pending message tells that it is over.
    Resolving,
    /// That it is over. Remembered for a while, as it may come back.
    Resolved,
}

/// Incidents beyond those that are told one by one: the receiver is told how many they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StormStatus {
    /// When there began to be too many.
    pub since: Time,
    /// How many the receiver was told of, or is about to be.
    pub count: i64,
    /// A hash of their keys, by which a change is noticed.
    pub members: String,
    /// What the receiver knows of it.
    pub phase: AlertPhase,
    /// When a message that tells of it was last taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Time>,
    /// Since when there are no such incidents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_since: Option<Time>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
