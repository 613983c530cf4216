//! The request of a webhook with the format Custom.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema;

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
