//! The `Orchestr` object as users write it and read it: `kopf.dev/v1`.
//!
//! These are the raw types of the wire. What a spec means, with defaults applied and patterns
//! compiled, is [`crate::settings::Settings`].

pub mod crd;
mod duration;
mod kind;
pub mod limits;
mod namespaced_name;
mod schema;
mod spec;
mod status;

pub(crate) use duration::whole as whole_duration;
pub use duration::{GoDuration, ParseDurationError};
pub use kind::{ProblemKind, matches_reason};
pub use namespaced_name::NamespacedName;
pub use spec::{
    Alerts, Logs, Match, Orchestr, OrchestrSpec, PodScope, Report, SecretKeyRef, SecretKeySource, SecretRef,
    SecretSource, Thresholds, Webhook, WebhookFormat,
};
pub use status::{
    AlertPhase, AlertStatus, ContainerIssue, ContainerKind, ContainerStateName, DeliveryError, Detail, Incident,
    LastTermination, LogSource, MessageKind, OrchestrStatus, Owner, PendingMessage, PodProblem, StormStatus,
    WebhookStatus,
};

/// `Orchestr` objects without a schema: an object may have been stored under an older CRD.
#[must_use]
pub fn api_resource() -> kube::core::ApiResource {
    kube::core::ApiResource::erase::<Orchestr>(&())
}

/// The API group of [`Orchestr`].
pub const GROUP: &str = "kopf.dev";
/// The annotation by which a pod (or its workload's pod template) asks never to be reported.
pub const IGNORE_ANNOTATION: &str = "kopf.dev/ignore";

/// Types of the conditions in an `Orchestr`'s status.
pub mod condition {
    /// Whether the operator does what the spec asks.
    pub const READY: &str = "Ready";
    /// Whether every selected pod is healthy.
    pub const PODS_HEALTHY: &str = "PodsHealthy";
    /// True while the object can make no progress until its spec changes (kstatus' convention).
    pub const STALLED: &str = "Stalled";
    /// Whether the webhooks' receivers have taken what they were due.
    pub const ALERTS_DELIVERED: &str = "AlertsDelivered";
}

/// Reasons of the conditions in an `Orchestr`'s status. Users match on them: they never change.
pub mod reason {
    /// Ready=True: the pods are watched.
    pub const WATCHING: &str = "Watching";
    /// Ready=False: `spec.alerts.checkRunningPods` is false.
    pub const PAUSED: &str = "Paused";
    /// Ready=False: `spec.alerts.checkRunningPods` is not set; permanent until the spec changes.
    pub const ALERTS_NOT_SET: &str = "AlertsNotSet";
    /// Ready=False: a value of the spec can't be used; permanent until the spec changes.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// Ready=Unknown: the first list of pods is not complete yet, or they can't be read at present.
    pub const SYNCING: &str = "Syncing";
    /// Ready=False: RBAC refuses what the operator needs.
    pub const POD_ACCESS_DENIED: &str = "PodAccessDenied";
    /// PodsHealthy=True.
    pub const PODS_HEALTHY: &str = "PodsHealthy";
    /// PodsHealthy=Unknown: the object selects no pod that exists.
    pub const NO_PODS_SELECTED: &str = "NoPodsSelected";
    /// PodsHealthy=Unknown: a selected pod can't be decoded.
    pub const PODS_UNREADABLE: &str = "PodsUnreadable";
    /// PodsHealthy=Unknown: the object selects only namespaces outside `--namespaces`.
    pub const OUTSIDE_NAMESPACES: &str = "OutsideNamespaces";
    /// PodsHealthy=False.
    pub const PODS_UNHEALTHY: &str = "PodsUnhealthy";
    /// AlertsDelivered=True.
    pub const DELIVERED: &str = "Delivered";
    /// AlertsDelivered=False: a webhook's last attempt failed.
    pub const DELIVERY_FAILING: &str = "DeliveryFailing";
    /// AlertsDelivered=False: a receiver is gone for good, until its webhook or Secret changes.
    pub const RECEIVER_GONE: &str = "ReceiverGone";
    /// AlertsDelivered=False: what a webhook needs is missing, such as its Secret.
    pub const WEBHOOK_UNUSABLE: &str = "WebhookUnusable";
    /// AlertsDelivered=Unknown: no receiver was due anything yet.
    pub const NOTHING_SENT: &str = "NothingSent";
}
