//! The status of an `Orchestr` object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProblemKind;

/// What the operator found. Always under 256 KiB as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrchestrStatus {
    /// The generation of the spec that this status is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Ready, PodsHealthy, Stalled, AlertsDelivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// When the operator last checked the pods. Updated with every write and at least every 5 minutes: an older time
    /// means that the operator is not running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check_time: Option<Time>,
    /// How many pods the object selects.
    #[serde(default)]
    pub watched_pods: i64,
    /// How many of these pods have a problem, including those that the list omits.
    #[serde(default)]
    pub problematic_pod_count: i64,
    /// How many pods have a problem that is not reported because of `ignoreReasons` or the annotation kopf.dev/ignore.
    #[serde(default)]
    pub ignored_pods: i64,
    /// The most frequent reason of the problems.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub top_reason: String,
    /// How many pods `problematicPods` omits.
    #[serde(default)]
    pub omitted_pods: i64,
    /// How many incidents `incidents` omits.
    #[serde(default)]
    pub omitted_incidents: i64,
    /// One entry per namespace, owner, container and kind of problem; the most recent first.
    #[serde(default)]
    pub incidents: Vec<Incident>,
    /// The pods with a problem; the most recent first.
    #[serde(default)]
    pub problematic_pods: Vec<PodProblem>,
    /// The delivery state of each webhook.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub webhooks: Vec<WebhookStatus>,
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
    /// How many pods are affected.
    pub pods: i64,
    /// When the first of the pods began to fail.
    pub since: Time,
    /// The names of up to three of the pods.
    #[serde(default)]
    pub example_pods: Vec<String>,
}

/// A controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    /// The kind, such as Deployment.
    pub kind: String,
    /// The name, in the pod's namespace.
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
    /// The STATUS that `kubectl get pods` prints.
    pub status: String,
    /// The kind of problem, such as Crash.
    #[serde(default)]
    pub kind: ProblemKind,
    /// The reason, such as OOMKilled.
    pub reason: String,
    /// A description of the problem.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
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
    pub since: Time,
    /// The containers with a problem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
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
    /// The source of `logs`; absent until the log was read, or if logs are disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_source: Option<LogSource>,
    /// Why there is no log, or how it was shortened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_note: String,
}

/// The type of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerKind {
    /// One of `spec.containers`.
    App,
    /// One of `spec.initContainers` that must complete before the next one starts.
    Init,
    /// One of `spec.initContainers` with `restartPolicy: Always`.
    Sidecar,
}

/// A container's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerStateName {
    /// The container is waiting to start.
    Waiting,
    /// The container is running.
    Running,
    /// The container has terminated.
    Terminated,
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
    #[serde(default, skip_serializing_if = "no_signal")]
    pub signal: i32,
    /// When the container terminated, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// The termination message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

fn no_signal(signal: &i32) -> bool {
    *signal == 0
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

/// The delivery state of a webhook, from which a restarted operator continues. If it is lost, messages may be sent twice,
/// but none is lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookStatus {
    /// The webhook's name in the spec.
    pub name: String,
    /// When the receiver last accepted a message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Time>,
    /// Why the last attempt failed; absent after a success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<DeliveryError>,
    /// How many attempts failed since the last success.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub failures: i64,
    /// How many consecutive attempts were answered with 403 or 404. A proxy may do so during a rollout of the receiver, so
    /// the first ones are retried soon.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub refusals: i64,
    /// The earliest time of the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_attempt: Option<Time>,
    /// The receiver answered 410 Gone. Nothing is sent until the webhook or its Secret changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// A hash of the webhook's spec and Secrets, to detect changes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// The format and the version of the Secret with the URL. If they change, the receiver is a new one and is sent all
    /// ongoing incidents.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub receiver: String,
    /// How many incidents were due but ended before they could be sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub dropped: i64,
    /// The message that is being sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingMessage>,
    /// The incidents that are sent individually. Their number is limited; `storm` summarizes the others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub alerts: Vec<AlertStatus>,
    /// A summary of the incidents that are too many to be sent individually.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storm: Option<StormStatus>,
}

/// Why a delivery failed. It never contains a URL, a header, or anything from the receiver's response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryError {
    /// When the attempt failed.
    pub time: Time,
    /// A description of the error.
    pub message: String,
}

/// A message that is being sent. It is stored before the first attempt, so that a restarted operator sends the same
/// message with the same ID.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingMessage {
    /// The ID, the same for every attempt (`webhook-id`), so that a receiver can detect retries.
    pub id: String,
    /// The purpose of the message.
    pub kind: MessageKind,
    /// When the message was created.
    pub created: Time,
    /// How many attempts were started.
    pub attempts: i64,
    /// Whether an attempt was started whose result is not recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_flight: bool,
    /// Whether an attempt failed after which the receiver may have accepted the message.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub maybe_delivered: bool,
    /// How much the message contains; less after the receiver rejected it as too large (413).
    #[serde(default, skip_serializing_if = "Detail::is_full")]
    pub detail: Detail,
}

/// The purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MessageKind {
    /// An incident began. The message may also contain resolved incidents.
    Firing,
    /// An incident was resolved.
    Resolved,
    /// An incident is ongoing and was last sent `repeatEvery` ago.
    Repeat,
    /// All ongoing incidents for a receiver that forgets them otherwise (Alertmanager). Never pending.
    Resend,
    /// A test with `orchestr webhook test`. Never pending.
    Test,
}

/// How much a message contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Detail {
    /// Everything that fits.
    #[default]
    Full,
    /// Everything but logs.
    NoLogs,
    /// Only what identifies the incidents.
    #[serde(alias = "Counts")]
    Names,
}

impl Detail {
    fn is_full(&self) -> bool {
        *self == Self::Full
    }
}

/// The state of an incident at a receiver. It repeats what identifies the incident, because the resolved message is sent
/// when the incident itself no longer exists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlertStatus {
    /// The incident's key.
    pub key: String,
    /// The pods' namespace.
    pub namespace: String,
    /// The pods' top-level controller, as far as it can be derived from names.
    pub owner: Owner,
    /// The container that causes the problem; absent if the cause is not a single container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    /// The kind of problem.
    #[serde(default)]
    pub kind: ProblemKind,
    /// The reason in the last message.
    pub reason: String,
    /// When the incident began.
    pub since: Time,
    /// What was sent to the receiver.
    pub phase: AlertPhase,
    /// When the receiver last accepted a message with this incident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Time>,
    /// When the incident ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_since: Option<Time>,
    /// How often the incident came back soon after it ended. Each time doubles how long it must be gone before a resolved
    /// message is sent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub returns: i64,
}

/// What was sent to a receiver about an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AlertPhase {
    /// Nothing yet; the next message will contain it.
    Queued,
    /// The pending message reports that it began.
    Announcing,
    /// A message that it began.
    Firing,
    /// The pending message reports that it was resolved.
    Resolving,
    /// A message that it was resolved. Kept for a while, because the incident may come back.
    Resolved,
}

/// The incidents that are not sent individually; messages contain only their number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StormStatus {
    /// When the incidents became too many.
    pub since: Time,
    /// The number of incidents in the last message, or in the pending one.
    pub count: i64,
    /// A hash of their keys, to detect changes.
    pub members: String,
    /// What was sent to the receiver.
    pub phase: AlertPhase,
    /// When the receiver last accepted a message with this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Time>,
    /// When the last of these incidents ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone_since: Option<Time>,
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}
