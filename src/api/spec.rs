//! The spec of an `Orchestr` object.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{GoDuration, OrchestrStatus, Webhook, limits, schema};

/// Which pods to watch, what counts as a problem, and where to send alerts. Only `alerts` is required.
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
    doc = "Watches pods and reports in its status which of them are broken, and why.",
    printcolumn(
        name = "Checking",
        type_ = "boolean",
        json_path = ".spec.alerts.checkRunningPods",
        description = "Whether pods are watched. false: paused."
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
        description = "How many of these pods have a problem."
    ),
    printcolumn(
        name = "Top",
        type_ = "string",
        json_path = ".status.topReason",
        description = "The most frequent reason of the problems."
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
        description = "When the operator last checked the pods. More than 10 minutes ago: it is not running."
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
        name = "Cause",
        type_ = "string",
        json_path = ".status.topCause",
        description = "The most frequent proven cause of the problems.",
        priority = 1
    ),
    printcolumn(
        name = "Delivered",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="AlertsDelivered")].status"#,
        description = "Whether the receivers of the webhooks accepted all messages that were due.",
        priority = 1
    )
)]
#[serde(default, rename_all = "camelCase")]
pub struct OrchestrSpec {
    /// Whether pods are checked. Required.
    pub alerts: Option<Alerts>,
    /// Which pods to watch: those that match every field given here. All pods of the cluster by default.
    pub pods: Option<PodScope>,
    /// How long a state may last before it is a problem. Durations such as 90s, 5m or 1h30m, up to 168h.
    pub thresholds: Option<Thresholds>,
    /// How much of the logs of failed containers the status shows, and what is masked.
    pub logs: Option<Logs>,
    /// The size of the status.
    pub report: Option<Report>,
    /// Links in the messages about a problem, for example to its logs: at most 5 with unique names.
    #[schemars(
        length(max = limits::LINKS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub links: Option<Vec<Link>>,
    /// Where to send alerts: at most 10 webhooks with unique names. None by default.
    #[schemars(
        length(max = limits::WEBHOOKS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub webhooks: Option<Vec<Webhook>>,
    /// Problems whose alerts are held back until a given time: at most 20 silences with unique names. None by default.
    #[schemars(
        length(max = limits::SILENCES),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub silences: Option<Vec<Silence>>,
    /// Hours in which alerts are held back every week, except critical ones: at most 7 with unique names. None by default.
    #[schemars(
        length(max = limits::QUIET_HOURS),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub quiet_hours: Option<Vec<QuietHours>>,
}

/// Whether pods are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Alerts {
    /// true: the pods are watched. false: paused, and the status is empty. Absent: an error in the condition Ready until
    /// the spec changes.
    pub check_running_pods: Option<bool>,
}

/// Which pods to watch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PodScope {
    /// Names or glob patterns of namespaces, such as team-* or {shop,bank}-prod; at most 64. Absent or empty: all
    /// namespaces.
    #[schemars(schema_with = "schema::namespace_patterns")]
    pub namespaces: Option<Vec<String>>,
    /// Names or glob patterns of namespaces to exclude, such as kube-*; at most 64. They take precedence over
    /// `namespaces`.
    #[schemars(schema_with = "schema::namespace_patterns")]
    pub exclude_namespaces: Option<Vec<String>>,
    /// Labels that a pod must have. Absent or empty: all pods match.
    #[schemars(schema_with = "schema::label_selector")]
    pub selector: Option<LabelSelector>,
    /// Kinds or reasons of problems not to report, such as Image or ImagePullBackOff; at most 64. The status shows them as
    /// `kind` and `reason`, and counts such pods in `ignoredPods`.
    #[schemars(schema_with = "schema::reasons")]
    pub ignore_reasons: Option<Vec<String>>,
}

/// How long a state may last before it is a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Thresholds {
    /// A pod is not scheduled, or its containers are being created. 1m by default.
    #[schemars(schema_with = "schema::threshold")]
    pub pending: Option<GoDuration>,
    /// An init container is still running. 5m by default.
    #[schemars(schema_with = "schema::threshold")]
    pub initializing: Option<GoDuration>,
    /// A pod is running but not ready. 2m by default.
    #[schemars(schema_with = "schema::threshold")]
    pub not_ready: Option<GoDuration>,
    /// A pod still exists after its deletion grace period. 1m by default.
    #[schemars(schema_with = "schema::threshold")]
    pub terminating: Option<GoDuration>,
    /// How long a container must run without failing before its problem is over. 10m by default; 0s: immediately.
    #[schemars(schema_with = "schema::threshold")]
    pub restarted: Option<GoDuration>,
    /// How long to report a Failed pod after its controller started a healthy replacement. 1h by default.
    #[schemars(schema_with = "schema::threshold")]
    pub failed: Option<GoDuration>,
}

/// How much of the logs the status shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Logs {
    /// Whether to read logs; true by default. If false, the other fields of `logs` have no effect.
    pub enabled: Option<bool>,
    /// How many lines to show from the end of a container's log: 1 to 1000, 20 by default.
    #[schemars(schema_with = "schema::tail_lines")]
    pub tail_lines: Option<i32>,
    /// How many bytes to show from the end of a container's log, even if a line is longer: 256 to 65536, 4096 by default.
    #[schemars(schema_with = "schema::max_bytes")]
    pub max_bytes: Option<i32>,
    /// Whether to mask credentials such as passwords, tokens and keys; true by default.
    pub redact: Option<bool>,
    /// Additional regular expressions (RE2 syntax) whose matches are masked, in logs and in messages; at most 16 of up to
    /// 256 characters each, one up to 128 KiB and all up to 256 KiB once compiled. A text on which they take too long is
    /// masked to its end.
    #[schemars(schema_with = "schema::redact_patterns")]
    pub redact_patterns: Option<Vec<String>>,
}

/// The size of the status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Report {
    /// How many pods the status lists: 1 to 500, 50 by default. The counts include all pods.
    #[schemars(schema_with = "schema::max_pods")]
    pub max_pods: Option<i32>,
}

/// A link in messages about a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// Unique within the object: up to 32 letters, digits, spaces, - and .
    #[schemars(schema_with = "schema::link_name")]
    pub name: String,
    /// An http or https URL of up to 256 characters. {namespace}, {owner}, {ownerKind}, {container}, {pod}, {cluster} and
    /// {incident} are replaced by the names of the problem, percent-encoded.
    #[schemars(schema_with = "schema::link_url")]
    pub url: String,
}

/// Holds back alerts until a given time, critical ones as well.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.from) || self.from < self.until", "message": "from must be before until"},
]))]
pub struct Silence {
    /// Unique within `silences`: up to 63 lower-case letters, digits and -.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// When it begins, such as 2026-12-01T06:00:00Z. Immediately by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub from: Option<String>,
    /// When it ends, such as 2026-12-01T08:00:00Z. Required, so that no silence is forgotten.
    #[schemars(schema_with = "schema::time")]
    pub until: String,
    /// Which problems are held back: those that match every field given here. At least one field must not be empty.
    #[serde(rename = "match")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "rule": "(has(self.namespaces) && size(self.namespaces) > 0) || (has(self.reasons) && size(self.reasons) > 0) \
                 || (has(self.owners) && size(self.owners) > 0)",
        "message": "must name namespaces, reasons or owners",
    }]))]
    pub match_: MuteMatch,
    /// Why, for people: up to 256 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::comment")]
    pub comment: Option<String>,
}

/// Hours in which alerts are held back every week, except critical ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {"rule": "self.start != self.end", "message": "start and end must differ; a whole day is 00:00 to 24:00"},
]))]
pub struct QuietHours {
    /// Unique within `quietHours`: up to 63 lower-case letters, digits and -.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// The days on which they begin. Absent or empty: every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::weekdays")]
    pub days: Option<Vec<Weekday>>,
    /// The local time at which they begin, such as 22:00. If the clocks are set forward past it, they begin at that moment;
    /// if the clocks show it twice, at the first.
    #[schemars(schema_with = "schema::start_of_day")]
    pub start: String,
    /// The local time at which they end, such as 07:00, on the next day if it is before `start`; up to 24:00. If the clocks
    /// are set forward past it, they end at that moment; if the clocks show it twice, at the second.
    #[schemars(schema_with = "schema::end_of_day")]
    pub end: String,
    /// A time zone of the IANA database, such as Europe/Berlin.
    #[schemars(schema_with = "schema::time_zone")]
    pub time_zone: String,
    /// Which problems are held back: those that match every field given here. All by default.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub match_: Option<MuteMatch>,
}

/// Which problems are held back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MuteMatch {
    /// Names or glob patterns of namespaces; at most 16. Absent or empty: all namespaces.
    #[schemars(schema_with = "schema::muted_namespaces")]
    pub namespaces: Option<Vec<String>>,
    /// Kinds or reasons of problems, such as Crash or OOMKilled; at most 16. Absent or empty: all problems.
    #[schemars(schema_with = "schema::muted_reasons")]
    pub reasons: Option<Vec<String>>,
    /// Names of owners, such as cart, or with one * in place of any text, such as cart-*; at most 16. Absent or empty: all
    /// owners.
    #[schemars(schema_with = "schema::muted_owners")]
    pub owners: Option<Vec<String>>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Weekday {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}
