//! What users write.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{GoDuration, OrchestrStatus};

/// Watches the cluster's pods and tells in its status which are broken, and why.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "kopf.dev",
    version = "v1",
    kind = "Orchestr",
    namespaced,
    status = "OrchestrStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct OrchestrSpec {
    /// Whether pods are checked at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alerts: Option<Alerts>,
    /// Which pods; all of them by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodScope>,
    /// How long a state may last before it is a problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Thresholds>,
    /// How much of which logs the status shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<Logs>,
    /// How much the status holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Report>,
    /// Who is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhooks: Option<Vec<Webhook>>,
}

/// Whether pods are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alerts {
    /// true: the pods are watched; false: paused, and the status is emptied. It must be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check_running_pods: Option<bool>,
}

/// Which pods an object looks at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodScope {
    /// Glob patterns of namespaces; ["*"] by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Glob patterns of namespaces that are left out; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_namespaces: Option<Vec<String>>,
    /// Only pods with these labels; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Reasons that are never reported, such as ImagePullBackOff; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore_reasons: Option<Vec<String>>,
}

/// How long a state may last before it is a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Thresholds {
    /// Not scheduled, or its containers are being created; 1m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<GoDuration>,
    /// An init container is still running; 5m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initializing: Option<GoDuration>,
    /// Running, but not Ready; 2m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<GoDuration>,
    /// Being deleted, beyond its own grace period; 1m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminating: Option<GoDuration>,
    /// How long a container that failed and runs again stays reported; 10m by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarted: Option<GoDuration>,
}

/// How much of which logs the status shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Logs {
    /// Whether logs are read at all; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Lines from the end of the log; 20 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub tail_lines: Option<i32>,
    /// Bytes from the end of the log, per container; 4096 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 256, max = 65536))]
    pub max_bytes: Option<i32>,
    /// Whether credentials are masked; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redact: Option<bool>,
    /// Further regular expressions whose matches are masked; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redact_patterns: Option<Vec<String>>,
}

/// How much the status holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// How many pods the status details; 50 by default. Counts stay exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 500))]
    pub max_pods: Option<i32>,
}

/// A receiver of alerts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Unique among the object's webhooks.
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
    /// A problem younger than this is not sent; 30s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<GoDuration>,
    /// How often a problem that lasts is sent again; 4h by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat_every: Option<GoDuration>,
    /// Whether the end of a problem is sent; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_resolved: Option<bool>,
    /// Which problems; all of them by default.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub match_: Option<Match>,
    /// How long one request may take; 10s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    pub name: String,
    /// The key in it.
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
    pub name: String,
}

/// Which problems go to a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Glob patterns of namespaces; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Reasons; all by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<String>>,
}
