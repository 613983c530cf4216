//! The webhooks in the spec of an `Orchestr` object.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GoDuration, Severity, schema};

/// Whom Slack messages mention when a problem starts, by its severity. @here, @channel, the ID of a user (U… or W…) or of a
/// user group (S…); at most 5 for each severity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Mentions {
    /// For critical problems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::mentions")]
    pub critical: Option<Vec<String>>,
    /// For problems with the severity warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::mentions")]
    pub warning: Option<Vec<String>>,
    /// For problems with the severity info.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::mentions")]
    pub info: Option<Vec<String>>,
}

/// A webhook to which alerts are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::webhook_rules()))]
pub struct Webhook {
    /// Unique within the object: up to 63 lower-case letters, digits and -.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// The message format of the receiver.
    pub format: WebhookFormat,
    /// The Secret with the receiver's URL.
    pub url_from: SecretKeySource,
    /// The Secret with the key that signs each request (Standard Webhooks, `whsec_…`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key_from: Option<SecretKeySource>,
    /// A Secret whose keys and values are sent as headers, such as Authorization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers_from: Option<SecretSource>,
    /// The Secret with the certificates of a private CA, as PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_from: Option<SecretKeySource>,
    /// How long a problem must last before it is sent, so that short problems are not: 0s to 168h, 30s by default. It does
    /// not delay the resolved message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::after")]
    pub after: Option<GoDuration>,
    /// How often an ongoing problem is sent again: 1m to 168h, 4h by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::repeat_every")]
    pub repeat_every: Option<GoDuration>,
    /// Whether to send a message when a problem is resolved; true by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_resolved: Option<bool>,
    /// Which problems to send; all by default.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub match_: Option<Match>,
    /// Whom the message that announces a problem mentions; only for the format Slack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mentions: Option<Mentions>,
    /// The request; required by the format Custom, and only for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<CustomRequest>,
    /// How long one request may take: 1s to 60s, 10s by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::timeout")]
    pub timeout: Option<GoDuration>,
}

/// Defines the message formats, each by one line with its description in the schema.
macro_rules! formats {
    ($($(#[$meta:meta])* $Format:ident,)*) => {
        /// A message format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum WebhookFormat {
            $($(#[$meta])* $Format,)*
        }

        impl WebhookFormat {
            pub const ALL: [Self; [$(stringify!($Format)),*].len()] = [$(Self::$Format),*];

            #[must_use]
            pub(crate) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$Format => stringify!($Format),)*
                }
            }
        }
    };
}

formats! {
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
    /// A request of your own, in `custom`.
    Custom,
}

/// A value from a Secret in the object's own namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretKeySource {
    /// The name of the Secret and the key in it.
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

/// All values of a Secret in the object's own namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretSource {
    /// The Secret.
    pub secret_ref: SecretRef,
}

/// The name of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// The Secret's name.
    #[schemars(schema_with = "schema::secret_name")]
    pub name: String,
}

/// Which problems are sent to a receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Match {
    /// Names or glob patterns of namespaces; at most 64. Absent or empty: all namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::namespace_patterns")]
    pub namespaces: Option<Vec<String>>,
    /// Kinds or reasons of problems, such as Crash or OOMKilled; at most 64. Absent or empty: all problems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::reasons")]
    pub reasons: Option<Vec<String>>,
    /// Severities of problems: critical, warning or info. Absent or empty: all severities. A problem that had one of them
    /// while it lasts continues to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::severities")]
    pub severities: Option<Vec<Severity>>,
    /// Teams, as the annotation kopf.dev/team of pods or namespaces names them, such as checkout, or with one * in place of
    /// any text, such as shop-*; at most 64. Absent or empty: all problems, also those without a team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::teams")]
    pub teams: Option<Vec<String>>,
}

/// The request of a webhook with the format Custom. Path, query, headers and body are templates: {{ title }} is replaced by
/// the title of the alert, encoded for the place where it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomRequest {
    /// POST or PUT; POST by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<HttpMethod>,
    /// Appended to the path of the URL. Values are percent-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::custom_path")]
    pub path: Option<String>,
    /// Appended to the query of the URL. Values are percent-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::custom_path")]
    pub query: Option<String>,
    /// Headers with their values; at most 10. Secret ones belong into headersFrom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::custom_headers")]
    pub headers: Option<BTreeMap<String, String>>,
    /// JSON: values are quoted and escaped. Form: values are percent-encoded. Text: values stay as they are. JSON by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<CustomContentType>,
    /// The body, up to 8192 characters.
    #[schemars(schema_with = "schema::custom_body")]
    pub body: String,
    /// What differs in the request about the end of a problem. If absent, it is made from the same templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<ResolvedRequest>,
    /// Message: several problems in a request, as for people. Incident: one request for each start and each end, as for
    /// pagers. Message by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<CustomPer>,
    /// The longest body that the receiver accepts, in bytes: 1000 to 65536, 4000 by default. To stay below it, logs are cut
    /// first, then messages, then details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::custom_max_bytes")]
    pub max_bytes: Option<i32>,
}

/// What differs in the request about the end of a problem.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedRequest {
    /// POST or PUT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<HttpMethod>,
    /// The path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::custom_path")]
    pub path: Option<String>,
    /// The query.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::custom_path")]
    pub query: Option<String>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_custom_body")]
    pub body: Option<String>,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HttpMethod {
    /// POST.
    #[default]
    Post,
    /// PUT.
    Put,
}

/// What the body of a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CustomContentType {
    /// application/json.
    #[default]
    #[serde(rename = "JSON")]
    Json,
    /// application/x-www-form-urlencoded.
    Form,
    /// text/plain.
    Text,
}

/// What one request is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CustomPer {
    /// Everything that has changed, in one message.
    #[default]
    Message,
    /// One problem.
    Incident,
}
