//! A pod, reduced to the fields that the diagnosis uses.
//!
//! The content of these fields is never trusted: texts and lists are cut to a bound as they are read, and values that
//! the API does not define are kept as they are.

use std::fmt;

use arcstr::ArcStr;
use jiff::Timestamp;

use super::Uid;
use crate::{api::Ownership, quantity::Quantity};

/// The longest text that is kept, in bytes. The kubelet cuts termination messages at 4096.
pub const TEXT_LIMIT: usize = 4096;

/// The most containers, conditions, labels or gates of a pod. The API server accepts pods of up to 1.5 MiB, which can hold
/// thousands. A pod that has more is not judged, which is reported.
pub(super) const LIST_LIMIT: usize = 256;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    pub uid: Uid,
    pub namespace: ArcStr,
    pub name: ArcStr,
    /// `metadata.labels`, sorted by key.
    pub labels: Vec<(ArcStr, ArcStr)>,
    /// Whether the annotation `kopf.dev/ignore` is "true".
    pub ignored: bool,
    /// The annotations `kopf.dev/severity`, `team`, `runbook` and `dashboard`, if there are any.
    pub ownership: Option<Box<Ownership>>,
    /// The owner reference with `controller: true`.
    pub controller: Option<Controller>,
    pub finalizers: FirstNames,
    /// `metadata.generation`: 1 until something changes the spec, such as a resize in place. Absent in Kubernetes before 1.33.
    pub generation: Option<i64>,
    /// `metadata.creationTimestamp`.
    pub created: Option<Timestamp>,
    /// `metadata.deletionTimestamp`: the end of the grace period.
    pub deletion: Option<Timestamp>,
    /// `metadata.deletionGracePeriodSeconds`. The API server sets it to 0 when the kubelet confirms that the pod has ended.
    pub deletion_grace: Option<i64>,
    /// `spec.nodeName`; empty until the pod is scheduled.
    pub node: ArcStr,
    /// Absent once the pod is on a node.
    pub requirements: Option<Box<Requirements>>,
    /// The ports of the node that its containers use.
    pub host_ports: Box<[HostPort]>,
    pub restart_policy: RestartPolicy,
    /// `spec.terminationGracePeriodSeconds`.
    pub termination_grace: Option<u32>,
    /// Whether `spec.imagePullSecrets` names any.
    pub has_pull_secrets: bool,
    /// The names in `spec.schedulingGates`.
    pub scheduling_gates: FirstNames,
    /// The condition types in `spec.readinessGates`.
    pub readiness_gates: Vec<ArcStr>,
    pub init_containers: Vec<ContainerSpec>,
    pub containers: Vec<ContainerSpec>,
    /// `status.phase`: Pending, Running, Succeeded, Failed, Unknown, or empty.
    pub phase: ArcStr,
    /// `status.reason`.
    pub reason: ArcStr,
    /// `status.message`.
    pub message: ArcStr,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    pub conditions: Vec<PodCondition>,
    /// `status.initContainerStatuses`.
    pub init_statuses: Vec<ContainerStatus>,
    /// `status.containerStatuses`.
    pub statuses: Vec<ContainerStatus>,
    /// What was left out because the pod is too large.
    pub omitted: Omitted,
    /// Observations of earlier versions of the pod. Not part of the API object: the index fills it in.
    pub history: History,
}

/// The containers that a pod has beside those that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Omitted {
    pub init_containers: u32,
    pub containers: u32,
    /// How many of the app containers are ready.
    pub ready: u32,
    pub restarts: i64,
}

impl Omitted {
    pub(crate) fn count(self) -> u32 {
        self.init_containers.saturating_add(self.containers)
    }
}

/// Observations of earlier versions of a pod. They are lost when the operator restarts, so a verdict must not depend on
/// them, except in the pod's favour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// When the last scheduling gate was first seen to be removed.
    pub gate_removed: Option<Timestamp>,
    /// How far the clocks that wrote the pod's status were ahead of ours, in seconds.
    pub node_ahead: u32,
    /// How far the API server's clock was ahead of ours, in seconds.
    pub server_ahead: u32,
    /// Why containers were restarted; the latest start of each.
    pub(super) starts: Vec<Start>,
    /// How long containers ran until they ended.
    pub(super) runs: Vec<Runs>,
}

/// The last lives of a container, if they all ended in the same way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Runs {
    pub(super) container: ArcStr,
    pub(super) exit_code: i32,
    pub(super) reason: ArcStr,
    pub(super) lives: Vec<Life>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Life {
    /// In seconds since 1970.
    pub(super) started: i64,
    /// How long it lasted.
    pub(super) seconds: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Start {
    pub(super) container: ArcStr,
    pub(super) restarts: i32,
    pub(super) cause: StartCause,
}

/// Why a container instance was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartCause {
    /// After a CrashLoopBackOff.
    BackOff,
    /// After a resize of a resource whose resize policy asks for a restart.
    Resize,
}

/// How many names [`FirstNames`] keeps.
pub(super) const FIRST_NAMES: usize = 8;

/// The first elements of a list, and how many follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct First<T> {
    pub first: Vec<T>,
    pub more: u32,
}

/// The first names of a list.
pub type FirstNames = First<ArcStr>;
/// Terms that a node must match all.
pub type NodeTerms = First<NodeTerm>;
/// Which taints of nodes a pod tolerates.
pub type Tolerations = First<Toleration>;

impl<T> First<T> {
    /// The first `most` elements.
    pub(super) fn of(elements: impl IntoIterator<Item = T>, most: usize) -> Self {
        let mut elements = elements.into_iter();
        let mut first: Vec<T> = elements.by_ref().take(most).collect();
        first.shrink_to_fit();
        Self { first, more: elements.count().try_into().unwrap_or(u32::MAX) }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// The number of elements.
    #[must_use]
    pub fn count(&self) -> usize {
        self.first.len() + self.more as usize
    }

    /// The elements that are kept.
    #[must_use]
    pub fn first(&self) -> &[T] {
        &self.first
    }
}

impl<T: Into<ArcStr>> FromIterator<T> for FirstNames {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        Self::of(names.into_iter().map(Into::into), FIRST_NAMES)
    }
}

/// For example `a, b`, or `a, b, c, d, e, f, g, h and 248 more`.
impl fmt::Display for FirstNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.first.iter().enumerate() {
            write!(f, "{}{name}", if index == 0 { "" } else { ", " })?;
        }
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}

/// What a pod requires of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// `spec.nodeSelector`.
    pub selector: NodeTerms,
    /// The alternatives of the required node affinity. A node must match one of them, if there are any.
    pub affinity: Vec<NodeTerms>,
    /// The requests of the pod as the scheduler counts them, by the resource's name.
    pub requests: Vec<(ArcStr, Quantity)>,
    /// The names of its PersistentVolumeClaims.
    pub claims: FirstNames,
    pub tolerations: Tolerations,
}

/// A toleration of a node's taints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toleration {
    /// Empty for all keys.
    pub key: ArcStr,
    /// Equal, which is the default, or Exists. Newer servers have others.
    pub operator: ArcStr,
    pub value: ArcStr,
    /// Empty for all effects.
    pub effect: ArcStr,
}

/// A requirement of a node's label, or of its field `metadata.name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeTerm {
    pub key: ArcStr,
    /// In, NotIn, Exists, DoesNotExist, Gt or Lt.
    pub operator: ArcStr,
    pub values: FirstNames,
}

/// A port of the node that a container uses, on all addresses of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    pub port: u16,
    pub protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

/// As a container declares it: `9100`, or `53/UDP`.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.protocol {
            Protocol::Tcp => "",
            Protocol::Udp => "/UDP",
            Protocol::Sctp => "/SCTP",
        };
        write!(f, "{}{suffix}", self.port)
    }
}

/// As kubectl writes a label selector: `disk=ssd`, `zone in (a, b)`, `!spot`.
impl fmt::Display for NodeTerm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values } = self;
        match (operator.as_str(), values.count()) {
            ("Exists", _) => write!(f, "{key}"),
            ("DoesNotExist", _) => write!(f, "!{key}"),
            ("Gt", _) => write!(f, "{key}>{values}"),
            ("Lt", _) => write!(f, "{key}<{values}"),
            ("NotIn", 1) => write!(f, "{key}!={values}"),
            ("NotIn", _) => write!(f, "{key} notin ({values})"),
            (_, 1) => write!(f, "{key}={values}"),
            _ => write!(f, "{key} in ({values})"),
        }
    }
}

/// A controller, as named by an owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// For example `apps/v1`.
    pub api_version: ArcStr,
    pub kind: ArcStr,
    pub name: ArcStr,
    pub uid: ArcStr,
}

/// An entry of `spec.containers` or `spec.initContainers`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSpec {
    pub name: ArcStr,
    /// The container's own `restartPolicy`. Always makes an init container a native sidecar.
    pub restart_policy: Option<RestartPolicy>,
    /// The exit codes after which `restartPolicyRules` ask for a restart.
    pub restart_rules: Vec<ExitCodes>,
    /// Whether `resizePolicy` asks for a restart when a resource is resized.
    pub restarts_on_resize: bool,
    /// Whether it has a preStop hook.
    pub has_pre_stop: bool,
    pub image: ArcStr,
    /// The first word of `command`, or else of `args`; empty if the image decides. Further words may contain secrets.
    pub command: ArcStr,
    pub liveness_probe: Option<Box<Probe>>,
    pub readiness_probe: Option<Box<Probe>>,
    pub startup_probe: Option<Box<Probe>>,
    /// `resources.limits.memory` as written; empty without a limit.
    pub memory_limit: ArcStr,
    /// Whether a LimitRange has set the memory limit, as its annotation says.
    pub has_limit_of_range: bool,
}

/// A probe of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// What is probed, for example `GET :8080/healthz`, `GET https://:8443/healthz`, `TCP :5432`, `gRPC :9000` or
    /// `exec pg_isready`. Only the first word of a command and no query of a URL, because they may contain secrets.
    pub action: ArcStr,
    /// Its port, if no container of the pod declares it.
    pub undeclared_port: Option<Box<UndeclaredPort>>,
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

/// A port of the pod that a probe asks for and no container declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndeclaredPort {
    /// A number, or a name that the probe's container gives to none of its ports.
    pub port: ArcStr,
    /// The numbers of the TCP ports that the container declares.
    pub declared: FirstNames,
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

/// When a container is restarted after it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestartPolicy {
    /// The API's default.
    #[default]
    Always,
    OnFailure,
    Never,
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
    pub kind: ArcStr,
    /// True, False or Unknown.
    pub status: ArcStr,
    pub reason: ArcStr,
    pub message: ArcStr,
    /// `lastTransitionTime`.
    pub since: Option<Timestamp>,
}

/// The kubelet's status of a container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerStatus {
    pub name: ArcStr,
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
    pub reason: ArcStr,
    pub message: ArcStr,
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
    pub reason: ArcStr,
    /// The termination message.
    pub message: ArcStr,
    /// `startedAt`; absent if the container never ran.
    pub started: Option<Timestamp>,
    /// `finishedAt`.
    pub finished: Option<Timestamp>,
    /// `containerID`, which differs for each instance of a container; may be empty.
    pub container_id: ArcStr,
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
