//! Labels of requests to the API server. All come from closed sets.

use http::{Method, StatusCode, Uri};

use crate::metrics::Metrics;

/// The resources that the operator requests.
const RESOURCES: [&str; 17] = [
    "controllerrevisions",
    "cronjobs",
    "customresourcedefinitions",
    "daemonsets",
    "events",
    "jobs",
    "leases",
    "namespaces",
    "orchestrs",
    "orchestrs/status",
    "pods",
    "pods/log",
    "replicasets",
    "replicationcontrollers",
    "secrets",
    "selfsubjectaccessreviews",
    "statefulsets",
];

/// Counts a request. Without a status code, there was no answer.
pub(crate) fn count(metrics: &Metrics, method: &Method, uri: &Uri, status: Option<StatusCode>) {
    let (verb, resource) = labels(method, uri.path(), uri.query().unwrap_or_default());
    metrics.api_request(verb, resource, code(status));
}

/// Codes that HTTP does not define count together.
fn code(status: Option<StatusCode>) -> String {
    match status {
        None => "none".to_owned(),
        Some(status) if status.canonical_reason().is_some() => status.as_str().to_owned(),
        Some(_) => "other".to_owned(),
    }
}

fn labels(method: &Method, path: &str, query: &str) -> (&'static str, &'static str) {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    match parts.next() {
        Some("api") => _ = parts.next(),
        Some("apis") => _ = (parts.next(), parts.next()),
        _ => return (verb(method, false, ""), "other"),
    }
    let rest: Vec<&str> = parts.take(5).collect();
    let (resource, name, subresource) = match rest.as_slice() {
        ["namespaces", _, resource, rest @ ..] => (*resource, rest.first(), rest.get(1)),
        [resource, rest @ ..] => (*resource, rest.first(), rest.get(1)),
        [] => return (verb(method, false, ""), "other"),
    };
    let full = subresource.map_or_else(|| resource.to_owned(), |sub| format!("{resource}/{sub}"));
    let known = RESOURCES.into_iter().find(|known| *known == full);
    (verb(method, name.is_some(), query), known.unwrap_or("other"))
}

fn verb(method: &Method, has_name: bool, query: &str) -> &'static str {
    let is_watch = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
    match *method {
        Method::GET if is_watch => "watch",
        Method::GET if has_name => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_verb_and_resource_from_a_request() {
        for (method, path, query, expected) in [
            (Method::GET, "/api/v1/pods", "limit=500", ("list", "pods")),
            (Method::GET, "/api/v1/pods", "&watch=true&timeoutSeconds=290", ("watch", "pods")),
            (Method::GET, "/api/v1/namespaces/shop/pods", "", ("list", "pods")),
            (Method::GET, "/api/v1/namespaces/shop/pods/cart/log", "container=app", ("get", "pods/log")),
            (Method::GET, "/apis/batch/v1/namespaces/shop/jobs/sums", "", ("get", "jobs")),
            (Method::GET, "/api/v1/namespaces/shop", "", ("get", "namespaces")),
            (
                Method::PATCH,
                "/apis/kopf.dev/v1/namespaces/shop/orchestrs/a/status",
                "force=true",
                ("patch", "orchestrs/status"),
            ),
            (Method::POST, "/apis/events.k8s.io/v1/namespaces/shop/events", "", ("create", "events")),
            (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/a/leases/orchestr", "", ("update", "leases")),
            (Method::GET, "/version", "", ("list", "other")),
            (Method::GET, "/apis/a/v1/namespaces/b/secret-name/c/d/e/f", "", ("get", "other")),
            (Method::TRACE, "/", "", ("other", "other")),
            (Method::GET, "/api/v1", "", ("list", "other")),
        ] {
            assert_eq!(labels(&method, path, query), expected, "{method} {path}");
        }
    }

    #[test]
    fn codes_come_from_a_closed_set() {
        assert_eq!([code(None), code(Some(StatusCode::NOT_FOUND))], ["none", "404"]);
        assert_eq!(code(StatusCode::from_u16(299).ok()), "other");
    }
}
