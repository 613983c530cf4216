//! Reads the object that a command is about, so that a wrong name or a missing permission is an error.

use std::time::Duration;

use kube::{api::GetParams, core::Request};
use tokio::time::timeout;

use super::{
    Failure,
    api_error::{Grant, Permission},
    connect::Cluster,
    kind::Kind,
};

/// Reads an object as JSON.
///
/// # Errors
/// If it does not exist, or may not be read.
pub(super) async fn get_text(
    cluster: &Cluster,
    namespace: &str,
    kind: Kind,
    name: &str,
    limit: Duration,
) -> Result<String, Failure> {
    let request = Request::new(kind.url_path(namespace));
    let request = request.get(name, &GetParams::default()).map_err(Failure::new)?;
    let response = timeout(limit, cluster.client.request_text(request)).await;
    match response.map_err(|_| cluster.target.timed_out(limit.as_secs()))? {
        Ok(text) => Ok(text),
        Err(error) => Err(not_read(cluster, namespace, (kind.singular(), kind.resource()), name, &error)),
    }
}

/// The error for an object of this kind, named as by kubectl and as by RBAC, that does not exist or may not be read.
pub(super) fn not_read(
    cluster: &Cluster,
    namespace: &str,
    (kind, resource): (&str, &'static str),
    name: &str,
    error: &kube::Error,
) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 404 => {
            Failure::new(format!("there is no {kind} {name:?} in namespace {namespace:?}"))
        }
        error => denied(cluster, namespace, "get", resource, error),
    }
}

/// The error for a request that is not allowed, or that failed for another reason.
pub(super) fn denied(
    cluster: &Cluster,
    namespace: &str,
    verb: &'static str,
    resource: &'static str,
    error: &kube::Error,
) -> Failure {
    let permission = Permission { verb, resource, namespace: Some(namespace), grant: Grant::View };
    cluster.target.describe_denied(error, &permission)
}
