//! The `Orchestr` custom resource, `kopf.dev/v1`: its types, its schema and the limits of its fields.
//!
//! The documentation of the types in `spec` and `status` is what `kubectl explain` shows. The operator does not use a spec
//! directly but validates it first, see [`crate::settings`].

mod cause;
pub mod crd;
mod duration;
mod kind;
mod lenient;
pub(crate) mod limits;
mod names;
mod open_enum;
mod ownership;
mod schema;
mod spec;
mod status;
mod stored_object;
mod webhook;
mod webhook_status;

pub use cause::Cause;
pub(crate) use duration::whole as whole_duration;
pub use duration::{GoDuration, ParseDurationError};
pub use kind::{ProblemKind, Severity, matches_reason, reason_names};
pub use lenient::LenientList;
pub(crate) use lenient::serialize_shared;
pub(crate) use names::is_object_name;
pub use names::{NamespacedName, Owner};
pub use ownership::Ownership;
pub(crate) use ownership::{TEAM_LENGTH, is_link};
pub(crate) use schema::{NAMESPACE_PATTERN, NAMESPACE_PATTERN_SYNTAX};
pub use spec::{
    Alerts, Link, Logs, MuteMatch, Orchestr, OrchestrSpec, PodScope, QuietHours, Report, Silence, Thresholds, Weekday,
};
pub use status::{
    CommonCause, ContainerIssue, ContainerKind, ContainerStateName, EndedIncident, Incident, LastTermination,
    LogSource, OrchestrStatus, PodProblem, Revision, UnwatchedSpan,
};
pub(crate) use stored_object::StoredObject;
pub use webhook::{
    CustomContentType, CustomPer, CustomRequest, HttpMethod, Match, Mentions, ResolvedRequest, SecretKeyRef,
    SecretKeySource, SecretRef, SecretSource, Webhook, WebhookFormat,
};
pub(crate) use webhook_status::ALERT_BYTES;
pub use webhook_status::{
    AlertPhase, AlertStatus, DeliveryError, Detail, Mention, MessageKind, MutedIncident, MutedStatus, Overflow,
    PendingMessage, WebhookStatus,
};

/// For reading `Orchestr` objects without a schema, because an object may have been stored under an older CRD.
#[must_use]
pub fn api_resource() -> kube::core::ApiResource {
    kube::core::ApiResource::erase::<Orchestr>(&())
}

/// The annotation of a pod, usually from its pod template, that excludes it from reports.
pub const IGNORE_ANNOTATION: &str = "kopf.dev/ignore";

/// Types of conditions.
pub mod condition {
    /// Whether the operator does what the spec asks.
    pub const READY: &str = "Ready";
    /// Whether every selected pod is healthy.
    pub const PODS_HEALTHY: &str = "PodsHealthy";
    /// True while the operator can do nothing until the spec changes (kstatus' convention).
    pub const STALLED: &str = "Stalled";
    /// Whether the receivers accepted all messages that were due.
    pub const ALERTS_DELIVERED: &str = "AlertsDelivered";
}

/// Reasons of conditions. They never change, because users match on them.
pub mod reason {
    /// Ready=True: the pods are watched.
    pub const WATCHING: &str = "Watching";
    /// Ready=False: `spec.alerts.checkRunningPods` is false.
    pub const PAUSED: &str = "Paused";
    /// Ready=False: `spec.alerts.checkRunningPods` is not set; permanent until the spec changes.
    pub const ALERTS_NOT_SET: &str = "AlertsNotSet";
    /// Ready=False: a value of the spec is invalid; permanent until the spec changes.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// Ready=Unknown: the list of pods is not complete yet, or pods cannot be read at present.
    pub const SYNCING: &str = "Syncing";
    /// Ready=False: RBAC does not allow what the operator needs.
    pub const POD_ACCESS_DENIED: &str = "PodAccessDenied";
    /// PodsHealthy=True.
    pub const PODS_HEALTHY: &str = "PodsHealthy";
    /// PodsHealthy=Unknown: the object selects no pod that exists.
    pub const NO_PODS_SELECTED: &str = "NoPodsSelected";
    /// PodsHealthy=Unknown: a selected pod cannot be decoded, or the Job of a failed pod was not read yet.
    pub const PODS_UNREADABLE: &str = "PodsUnreadable";
    /// PodsHealthy=Unknown: the object selects only namespaces outside `--namespaces`.
    pub const OUTSIDE_NAMESPACES: &str = "OutsideNamespaces";
    /// PodsHealthy=False.
    pub const PODS_UNHEALTHY: &str = "PodsUnhealthy";
    /// AlertsDelivered=True.
    pub const DELIVERED: &str = "Delivered";
    /// AlertsDelivered=False: a webhook's last attempt failed.
    pub const DELIVERY_FAILING: &str = "DeliveryFailing";
    /// AlertsDelivered=False: a receiver refuses messages about some incidents for their content, and accepts others.
    pub const INCIDENTS_REFUSED: &str = "IncidentsRefused";
    /// AlertsDelivered=False: a receiver answered 410 Gone; permanent until its webhook or Secret changes.
    pub const RECEIVER_GONE: &str = "ReceiverGone";
    /// AlertsDelivered=False: something that a webhook needs is missing, such as its Secret.
    pub const WEBHOOK_UNUSABLE: &str = "WebhookUnusable";
    /// AlertsDelivered=False: the API server does not answer requests for a webhook's Secrets.
    pub const SECRETS_UNREADABLE: &str = "SecretsUnreadable";
    /// Of an event: alerts are sent although the status cannot be written.
    pub const ALERTS_NOT_STORED: &str = "AlertsNotStored";
    /// Of an event: alerts stay open at a receiver that a webhook has left.
    pub const ALERTS_NOT_ENDED: &str = "AlertsNotEnded";
    /// AlertsDelivered=Unknown: no message was due yet.
    pub const NOTHING_SENT: &str = "NothingSent";
    /// Of a span in `status.unwatched`: the operator was not running, or could not write the status.
    pub const NOT_RUNNING: &str = "NotRunning";
}
