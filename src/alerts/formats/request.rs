//! What is sent to a receiver, and why it could not be rendered.

use std::fmt;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use url::Url;

/// An HTTP request to the URL of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: Method,
    /// Appended to the path of the URL; percent-encoded, without segments such as `..`.
    pub path: String,
    /// Appended to its query; percent-encoded.
    pub query: String,
    pub headers: HeaderMap,
    pub content_type: HeaderValue,
    pub body: Vec<u8>,
}

impl Request {
    /// JSON that is posted to the URL itself.
    pub(super) fn json(body: &Value) -> Self {
        Self {
            method: Method::POST,
            path: String::new(),
            query: String::new(),
            headers: HeaderMap::new(),
            content_type: HeaderValue::from_static("application/json"),
            body: body.to_string().into_bytes(),
        }
    }

    /// The URL of the request, on the same host as `base`.
    #[must_use]
    pub fn url(&self, base: &Url) -> Url {
        let mut url = base.clone();
        if !self.path.is_empty() {
            let (before, after) = (base.path().trim_end_matches('/'), self.path.trim_start_matches('/'));
            url.set_path(&format!("{before}/{after}"));
        }
        if !self.query.is_empty() {
            let query: Vec<&str> = base.query().into_iter().chain([self.query.as_str()]).collect();
            url.set_query(Some(&query.join("&")));
        }
        url
    }
}

/// Why a template of a custom request cannot be used, or could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderError {
    /// Such as `body` or `resolved.path`.
    pub field: String,
    /// Line and column in the template, from 1.
    pub at: Option<(usize, usize)>,
    /// Contains no values of an alert, so that it can be logged.
    pub problem: String,
    /// What more there is to say about it; may contain values.
    pub detail: String,
    /// Whether a message with less in it may be rendered.
    pub is_too_much: bool,
}

impl RenderError {
    pub(super) fn new(field: &str, at: Option<(usize, usize)>, problem: impl Into<String>) -> Self {
        Self { field: field.to_owned(), at, problem: problem.into(), detail: String::new(), is_too_much: false }
    }

    pub(super) fn too_much(field: &str, problem: impl Into<String>) -> Self {
        Self { is_too_much: true, ..Self::new(field, None, problem) }
    }

    /// The problem and where it is, without the field.
    #[must_use]
    pub fn place_and_problem(&self) -> String {
        let detail = if self.detail.is_empty() { String::new() } else { format!(": {}", self.detail) };
        match self.at {
            Some((line, column)) => format!("line {line}, column {column}: {}{detail}", self.problem),
            None => format!("{}{detail}", self.problem),
        }
    }
}

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without_detail = Self { detail: String::new(), ..self.clone() };
        write!(f, "custom.{}: {}", self.field, without_detail.place_and_problem())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_path_and_query_to_those_of_the_url() {
        for (base, path, query, expected) in [
            ("https://h.example", "", "", "https://h.example/"),
            ("https://h.example/a?k=1", "", "", "https://h.example/a?k=1"),
            ("https://h.example/a/?k=1", "/b/c", "x=y", "https://h.example/a/b/c?k=1&x=y"),
            ("https://h.example", "b", "x=y", "https://h.example/b?x=y"),
            ("https://h.example", "//evil.example/x", "", "https://h.example/evil.example/x"),
            ("https://h.example", "@evil.example/", "", "https://h.example/@evil.example/"),
            ("https://h.example/v1", "alerts/a%2Fb", "", "https://h.example/v1/alerts/a%2Fb"),
        ] {
            let request = Request { path: path.to_owned(), query: query.to_owned(), ..Request::json(&Value::Null) };
            assert_eq!(request.url(&Url::parse(base).unwrap()).as_str(), expected);
        }
    }
}
