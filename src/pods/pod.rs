//! A pod as the diagnosis sees it: the fields it uses, and no others.
//!
//! Everything a cluster can put into these fields is data, never trusted: texts are clipped to a bound
//! as they are read, and a field of an unknown value is kept as it stands.

use jiff::Timestamp;

use super::History;

/// The longest text kept of a `message` or a `reason`, in bytes. The kubelet itself cuts termination
/// messages at 4096.
pub const TEXT_LIMIT: usize = 4096;

/// A pod's identity across its life: its UID, as the 128 bits that it nearly always is, else a hash of
/// the text. In halves: a `u128` would pad all that it stands in to a multiple of 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid([u64; 2]);

impl From<u128> for Uid {
    fn from(bits: u128) -> Self {
        Self([(bits >> 64) as u64, bits as u64])
    }
}

impl From<Uid> for u128 {
    fn from(Uid([high, low]): Uid) -> Self {
        Self::from(high) << 64 | Self::from(low)
    }
}

/// A pod, with what is needed to judge it and to name it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.labels`, sorted by key.
    pub labels: Vec<(String, String)>,
    /// Whether `metadata.annotations` asks that the pod never be reported.
    pub ignored: bool,
    /// The owner reference with `controller: true`.
    pub controller: Option<Controller>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`: when its grace period ends.
    pub deletion: Option<Timestamp>,
    /// `spec.nodeName`; empty if it is not scheduled.
    pub node: String,
    /// `spec.restartPolicy`.
    pub restart_policy: RestartPolicy,
    /// `spec.initContainers`, in order.
    pub init_containers: Vec<ContainerSpec>,
    /// `spec.containers`, in order.
    pub containers: Vec<ContainerSpec>,
    /// `status.phase`: Pending, Running, Succeeded, Failed, Unknown, or empty.
    pub phase: String,
    /// `status.reason`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// `status.conditions`.
    pub conditions: Vec<PodCondition>,
    /// `status.initContainerStatuses`, in order.
    pub init_statuses: Vec<ContainerStatus>,
    /// `status.containerStatuses`, in order.
    pub statuses: Vec<ContainerStatus>,
    /// What earlier versions of the pod showed. The API does not have it: the index fills it in.
    pub history: History,
}

/// A controller as an owner reference names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// Such as `apps/v1`.
    pub api_version: String,
    /// Such as ReplicaSet.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its UID as text.
    pub uid: String,
}

/// What the spec says of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSpec {
    /// Its name.
    pub name: String,
    /// Its own `restartPolicy`, if it has one; Always makes an init container a native sidecar.
    pub restart_policy: Option<RestartPolicy>,
    /// The exit codes after which `restartPolicyRules` ask for a restart.
    pub restart_rules: Vec<ExitCodes>,
    /// Whether `resizePolicy` asks for a restart when a resource is resized.
    pub restarts_on_resize: bool,
    /// Whether it has a readiness probe.
    pub readiness_probe: bool,
    /// `resources.limits.memory` as written; empty where there is none.
    pub memory_limit: String,
}

/// Whether a container is started again after it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// Always, which is the API's default.
    #[default]
    Always,
    /// Only after a failure.
    OnFailure,
    /// Never.
    Never,
}

impl RestartPolicy {
    /// The policy of this name; absent for a name that the API does not have.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
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
    /// Whether the set is of all codes but these.
    pub negated: bool,
    /// The codes.
    pub values: Vec<i32>,
}

impl ExitCodes {
    /// Whether the code is one of the set.
    #[must_use]
    pub fn contains(&self, code: i32) -> bool {
        self.values.contains(&code) != self.negated
    }
}

/// One of `status.conditions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCondition {
    /// Such as PodScheduled.
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// The machine's word for why.
    pub reason: String,
    /// Why, in words.
    pub message: String,
    /// `lastTransitionTime`.
    pub since: Option<Timestamp>,
}

/// What the kubelet says of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// Whether it passes its readiness probe.
    pub ready: bool,
    /// Whether it passed its startup probe; absent while the kubelet doesn't know.
    pub started: Option<bool>,
    /// How often it was restarted.
    pub restarts: i32,
    /// Its present state.
    pub state: ContainerState,
    /// How its previous life ended, with no more than `terminated` set.
    pub last: Option<Terminated>,
}

/// A container's state. The kubelet sets at most one of the three; where none is set, it waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerState {
    /// It waits to start.
    pub waiting: Option<Waiting>,
    /// It runs.
    pub running: Option<Running>,
    /// It has ended.
    pub terminated: Option<Terminated>,
}

/// Why a container waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Such as CrashLoopBackOff; may be empty.
    pub reason: String,
    /// In words.
    pub message: String,
}

/// A running container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// `startedAt`.
    pub started: Option<Timestamp>,
}

/// How a container's life ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terminated {
    /// The exit code.
    pub exit_code: i32,
    /// The signal, where the runtime tells it, else 0.
    pub signal: i32,
    /// Such as OOMKilled; may be empty.
    pub reason: String,
    /// The termination message.
    pub message: String,
    /// `startedAt`; absent where the container never ran.
    pub started: Option<Timestamp>,
    /// `finishedAt`.
    pub finished: Option<Timestamp>,
    /// `containerID`: which life of the container this was; may be empty.
    pub container_id: String,
}

impl ContainerSpec {
    /// Whether this init container is a native sidecar.
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy == Some(RestartPolicy::Always)
    }
}

impl Pod {
    /// The condition of this type, if the pod has it.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&PodCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Whether a condition of this type has status True.
    #[must_use]
    pub fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == "True")
    }

    /// Whether a container of this name is a native sidecar: an init container that always restarts.
    #[must_use]
    pub fn is_sidecar(&self, container: &str) -> bool {
        self.init_containers.iter().any(|spec| spec.name == container && spec.is_sidecar())
    }
}
