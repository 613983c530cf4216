//! What users write.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{GoDuration, OrchestrStatus, limits, schema};

/// What is watched, what counts as a problem, and who is told. Only `alerts` must be given.
#[expect(clippy::duplicated_attributes, reason = "each column has a type")]
#[derive(CustomResource, JsonSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kopf.dev",
    version = "v1",
    kind = "Orchestr",
    namespaced,
    status = "OrchestrStatus",
    shortname = "orc",
    derive = "PartialEq",
    doc = "Watches pods, and tells in its status which of them are broken, and why.",
    printcolumn(
        name = "Checking",
        type_ = "boolean",
        json_path = ".spec.alerts.checkRunningPods",
        description = "Whether pods are watched; false: paused."
    ),
    printcolumn(
        name = "Pods",
        type_ = "integer",
        json_path = ".status.watchedPods",
        description = "How many pods the object selects."
    ),
    printcolumn(
        name = "Problems",
        type_ = "integer",
        json_path = ".status.problematicPodCount",
        description = "How many of them have a problem."
    ),
    printcolumn(
        name = "Top",
        type_ = "string",
        json_path = ".status.topReason",
        description = "The reason that most of the problematic pods share."
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#,
        description = "Whether the operator does what the spec asks."
    ),
    printcolumn(
        name = "Checked",
        type_ = "date",
        json_path = ".status.lastCheckTime",
        description = "How long ago the operator last checked the pods; more than 10 minutes: it is not running."
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="PodsHealthy")].message"#,
        description = "The problems in one line.",
        priority = 1
    ),
    printcolumn(
        name = "Delivered",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="AlertsDelivered")].status"#,
        description = "Whether the webhooks' receivers have taken what they were due.",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct OrchestrSpec {
    /// Whether pods are checked at all. Must be given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alerts: Option<Alerts>,
    /// Which pods are watched: those that meet every field given here; all of the cluster's by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodScope>,
    /// How long a state may last before it is a problem. Durations in Go's syntax, such as 90s, 5m or 1h30m, up to 168h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// How much of the failed containers' logs the status shows, and what is masked in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<Logs>,
    /// How much the status holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Who is told of problems: at most 10 receivers, by unique names; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = limits::WEBHOOKS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub webhooks: Option<Vec<Webhook>>,
}

/// Whether pods are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alerts {
    /// true: the pods are watched. false: paused, and the status lists nothing. Absent: an error in the condition
    /// Ready, until the spec changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_running_pods: Option<bool>,
}

/// Which pods an object looks at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodScope {
    /// Namespaces, by name or glob pattern (team-*, {shop,bank}-prod); at most 64. Absent or empty: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace_patterns")]
    pub namespaces: Option<Vec<String>>,
    /// Namespaces that are left out, by name or glob pattern (kube-*), also where `namespaces` names them; at most 64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace_patterns")]
    pub exclude_namespaces: Option<Vec<String>>,
    /// Labels that a pod must have; absent or empty: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// Kinds or reasons that are never reported, such as Image or ImagePullBackOff, as the status gives them in `kind`
    /// and `reason`; at most 64. Pods that are left out are counted in `ignoredPods`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::reasons")]
    pub ignore_reasons: Option<Vec<String>>,
}

/// How long a state may last before it is a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Thresholds {
    /// Not scheduled, or its containers are being created. 1m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::threshold")]
    pub pending: Option<GoDuration>,
    /// An init container is still running. 5m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::threshold")]
    pub initializing: Option<GoDuration>,
    /// Running, but not Ready. 2m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::threshold")]
    pub not_ready: Option<GoDuration>,
    /// Still there when its deletion and grace period are over. 1m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::threshold")]
    pub terminating: Option<GoDuration>,
    /// How long a container must run without failing before its trouble is over. 10m by default; 0s: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::threshold")]
    pub restarted: Option<GoDuration>,
    /// How long a Failed pod stays reported once its controller runs a healthy replacement. 1h by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::threshold")]
    pub failed: Option<GoDuration>,
}

/// How much of which logs the status shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Logs {
    /// Whether logs are read at all; they are by default. false: the fields beside it have no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How many lines from the end of a container's log: 1 to 1000, 20 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::tail_lines")]
    pub tail_lines: Option<i32>,
    /// How many bytes from the end of a container's log, however long its lines: 256 to 65536, 4096 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::max_bytes")]
    pub max_bytes: Option<i32>,
    /// Whether credentials are masked: passwords, tokens, keys. They are by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redact: Option<bool>,
    /// Further regular expressions (RE2 syntax) whose matches are masked; at most 16 of up to 256 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::redact_patterns")]
    pub redact_patterns: Option<Vec<String>>,
}

/// How much the status holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How many pods the status details: 1 to 500, 50 by default. Counts stay exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::max_pods")]
    pub max_pods: Option<i32>,
}

/// A receiver of alerts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Unique among the object's webhooks: up to 63 lower-case letters, digits and -.
    #[schemars(schema_with = "schema::webhook_name")]
    pub name: String,
    /// What the receiver reads.
    pub format: WebhookFormat,
    /// Where the receiver's URL is kept.
    pub url_from: SecretKeySource,
    /// Where the key that signs each request is kept (Standard Webhooks, `whsec_…`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key_from: Option<SecretKeySource>,
    /// A Secret whose every key is sent as a header, such as Authorization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<SecretSource>,
    /// Where the certificates of a private CA are kept, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_from: Option<SecretKeySource>,
    /// How old a problem must be before it is sent, so that one that ends by itself is not: 0s to 168h, 30s by default.
    /// It does not delay the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::after")]
    pub after: Option<GoDuration>,
    /// How often a problem that lasts is sent again: 1m to 168h, 4h by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::repeat_every")]
    pub repeat_every: Option<GoDuration>,
    /// Whether the end of a problem is sent; it is by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_resolved: Option<bool>,
    /// Which problems; all of them by default.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub match_: Option<Match>,
    /// How long one request may take: 1s to 60s, 10s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::timeout")]
    pub timeout: Option<GoDuration>,
}

/// What a receiver reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum WebhookFormat {
    /// Alertmanager's webhook body, version 4.
    Generic,
    /// Alertmanager's API v2.
    Alertmanager,
    /// A Slack incoming webhook.
    Slack,
    /// A Discord webhook.
    Discord,
    /// An Adaptive Card through a Teams workflow.
    Teams,
    /// PagerDuty Events API v2.
    PagerDuty,
    /// CloudEvents 1.0, structured mode.
    CloudEvents,
}

/// A value in a Secret of the object's own namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeySource {
    /// Which key of which Secret.
    pub secret_key_ref: SecretKeyRef,
}

/// One key of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretKeyRef {
    /// The Secret's name.
    #[schemars(schema_with = "schema::secret_name")]
    pub name: String,
    /// The key in it.
    #[schemars(schema_with = "schema::secret_key")]
    pub key: String,
}

/// All of a Secret of the object's own namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretSource {
    /// Which Secret.
    pub secret_ref: SecretRef,
}

/// A Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// The Secret's name.
    #[schemars(schema_with = "schema::secret_name")]
    pub name: String,
}

/// Which problems go to a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Namespaces, by name or glob pattern; at most 64. Absent or empty: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace_patterns")]
    pub namespaces: Option<Vec<String>>,
    /// Kinds or reasons such as Crash or OOMKilled; at most 64. Absent or empty: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::reasons")]
    pub reasons: Option<Vec<String>>,
}
