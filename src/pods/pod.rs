//! A pod, reduced to the fields that the diagnosis uses.
//!
//! The content of these fields is never trusted: texts and lists are cut to a bound as they are read, and values that
//! the API does not define are kept as they are.

use jiff::Timestamp;

use super::{History, Uid};

/// The longest text that is kept, in bytes. The kubelet cuts termination messages at 4096.
pub const TEXT_LIMIT: usize = 4096;

/// The most containers, conditions, labels or finalizers that are kept. The API server accepts pods of up to 1.5 MiB,
/// which can hold thousands.
pub(super) const LIST_LIMIT: usize = 256;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    pub uid: Uid,
    pub namespace: String,
    pub name: String,
    /// `metadata.labels`, sorted by key.
    pub labels: Vec<(String, String)>,
    /// Whether the annotation `kopf.dev/ignore` is "true".
    pub ignored: bool,
    /// The owner reference with `controller: true`.
    pub controller: Option<Controller>,
    pub finalizers: Vec<String>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`: the end of the grace period.
    pub deletion: Option<Timestamp>,
    /// `metadata.deletionGracePeriodSeconds`. The API server sets it to 0 when the kubelet confirms that the pod has ended.
    pub deletion_grace: Option<i64>,
    /// `spec.nodeName`; empty until the pod is scheduled.
    pub node: String,
    pub restart_policy: RestartPolicy,
    /// `spec.terminationGracePeriodSeconds`.
    pub termination_grace: Option<u32>,
    /// Whether `spec.imagePullSecrets` names any.
    pub has_pull_secrets: bool,
    /// The names in `spec.schedulingGates`.
    pub scheduling_gates: Vec<String>,
    /// The condition types in `spec.readinessGates`.
    pub readiness_gates: Vec<String>,
    pub init_containers: Vec<ContainerSpec>,
    pub containers: Vec<ContainerSpec>,
    /// `status.phase`: Pending, Running, Succeeded, Failed, Unknown, or empty.
    pub phase: String,
    /// `status.reason`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    pub conditions: Vec<PodCondition>,
    /// `status.initContainerStatuses`.
    pub init_statuses: Vec<ContainerStatus>,
    /// `status.containerStatuses`.
    pub statuses: Vec<ContainerStatus>,
    /// Observations of earlier versions of the pod. Not part of the API object: the index fills it in.
    pub history: History,
}

/// A controller, as named by an owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// For example `apps/v1`.
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
}

/// An entry of `spec.containers` or `spec.initContainers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSpec {
    pub name: String,
    /// The container's own `restartPolicy`. Always makes an init container a native sidecar.
    pub restart_policy: Option<RestartPolicy>,
    /// The exit codes after which `restartPolicyRules` ask for a restart.
    pub restart_rules: Vec<ExitCodes>,
    /// Whether `resizePolicy` asks for a restart when a resource is resized.
    pub restarts_on_resize: bool,
    pub image: String,
    /// The first word of `command`, or else of `args`; empty if the image decides. Further words may contain secrets.
    pub command: String,
    pub liveness_probe: Option<Box<Probe>>,
    pub readiness_probe: Option<Box<Probe>>,
    pub startup_probe: Option<Box<Probe>>,
    /// `resources.limits.memory` as written; empty without a limit.
    pub memory_limit: String,
}

/// A probe of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// What is probed, for example `GET :8080/healthz`, `GET https://:8443/healthz`, `TCP :5432`, `gRPC :9000` or
    /// `exec pg_isready`. Only the first word of a command and no query of a URL, because they may contain secrets.
    pub action: String,
    /// `initialDelaySeconds`.
    pub initial_delay: u32,
    /// `periodSeconds`.
    pub period: u32,
    /// `timeoutSeconds`.
    pub timeout: u32,
    /// `failureThreshold`.
    pub failure_threshold: u32,
    /// `terminationGracePeriodSeconds`, which overrides that of the pod.
    pub termination_grace: Option<u32>,
}

/// A number of seconds, or of failures. None if it is negative; a number too large for the type is cut to its maximum.
pub(super) fn seconds(value: i64) -> Option<u32> {
    (value >= 0).then(|| u32::try_from(value).unwrap_or(u32::MAX))
}

/// The text, cut to at most `limit` bytes.
pub(super) fn within(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        text.truncate(text.floor_char_boundary(limit));
        text.shrink_to_fit();
    }
    text
}

/// The first word of a command line, whose further words may contain secrets.
pub(super) fn first_word(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

/// When a container is restarted after it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// The API's default.
    #[default]
    Always,
    OnFailure,
    Never,
}

impl RestartPolicy {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "Always" => Some(Self::Always),
            "OnFailure" => Some(Self::OnFailure),
            "Never" => Some(Self::Never),
            _ => None,
        }
    }
}

/// A set of exit codes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitCodes {
    /// Whether the set holds all codes except these.
    pub negated: bool,
    pub values: Vec<i32>,
}

impl ExitCodes {
    /// The exit codes after which a rule of `restartPolicyRules` restarts the container or the whole pod.
    pub(super) fn from_restart_rule(action: &str, operator: &str, values: Vec<i32>) -> Option<Self> {
        let negated = match operator {
            "In" => false,
            "NotIn" => true,
            _ => return None,
        };
        matches!(action, "Restart" | "RestartAllContainers").then_some(Self { negated, values })
    }

    #[must_use]
    pub(crate) fn contains(&self, code: i32) -> bool {
        self.values.contains(&code) != self.negated
    }
}

/// The value of `resizePolicy[].restartPolicy` with which a resize restarts the container.
pub(super) const RESTART_CONTAINER: &str = "RestartContainer";

/// An entry of `status.conditions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCondition {
    /// The condition's type, for example PodScheduled.
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    pub reason: String,
    pub message: String,
    /// `lastTransitionTime`.
    pub since: Option<Timestamp>,
}

/// The kubelet's status of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerStatus {
    pub name: String,
    /// Whether the readiness probe passes.
    pub ready: bool,
    /// Whether the startup probe has passed; absent until the kubelet has reported it.
    pub started: Option<bool>,
    pub restarts: i32,
    pub state: ContainerState,
    /// How the previous instance ended: `lastState.terminated`.
    pub last: Option<Terminated>,
}

/// A container's state. The kubelet sets at most one of the three; without any, the container is waiting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerState {
    pub waiting: Option<Waiting>,
    pub running: Option<Running>,
    pub terminated: Option<Terminated>,
}

/// Why a container is waiting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// For example CrashLoopBackOff; may be empty.
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// `startedAt`.
    pub started: Option<Timestamp>,
}

/// How a container instance ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terminated {
    pub exit_code: i32,
    /// The signal if the runtime reports it, otherwise 0.
    pub signal: i32,
    /// For example OOMKilled; may be empty.
    pub reason: String,
    /// The termination message.
    pub message: String,
    /// `startedAt`; absent if the container never ran.
    pub started: Option<Timestamp>,
    /// `finishedAt`.
    pub finished: Option<Timestamp>,
    /// `containerID`, which differs for each instance of a container; may be empty.
    pub container_id: String,
}

impl ContainerSpec {
    /// Whether this init container is a native sidecar.
    #[must_use]
    pub(crate) fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }
}

impl Pod {
    /// The condition of this type.
    #[must_use]
    pub(crate) fn condition(&self, kind: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Whether the condition of this type has status True.
    #[must_use]
    pub(crate) fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == "True")
    }

    /// Whether the container of this name is a native sidecar.
    #[must_use]
    pub(crate) fn is_sidecar(&self, container: &str) -> bool {
        self.init_containers.iter().any(|spec| spec.name == container && spec.is_sidecar())
    }
}
