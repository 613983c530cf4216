//! Reads the targets once before they are watched, so that a wrong name or a missing permission is an error and no wait.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, api::GetParams, core::Request};
use tokio::time::timeout;

use crate::{
    cli::{Failure, connect::Cluster, get::get_text},
    pods::WatchedPod,
};

use super::{target::Target, watches::Watched, workload::Workload};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads a target.
///
/// # Errors
/// If it does not exist, or may not be read.
pub(super) async fn look_up(cluster: &Cluster, namespace: &str, target: Target) -> Result<Watched, Failure> {
    let Target::Named(kind, name) = &target else {
        namespace_exists(cluster, namespace).await?;
        return Ok(Watched { target, workload: None, pod_uid: String::new() });
    };
    let json = get_text(cluster, namespace, *kind, name, TIMEOUT).await?;
    let undecodable = |error| cluster.target.describe(&kube::Error::SerdeError(error));
    let Some(workload) = Workload::decode(*kind, &json).map_err(undecodable)? else {
        let watched: WatchedPod = serde_json::from_str(&json).map_err(undecodable)?;
        return Ok(Watched { target, workload: None, pod_uid: watched.uid().to_string() });
    };
    let labels = workload.selector().ok_or_else(|| Failure::new(format!("cannot read the selector of {target}")))?;
    let workload = Some((workload.uid().to_owned(), labels));
    Ok(Watched { target, workload, pod_uid: String::new() })
}

/// Fails if the namespace does not exist: without pods, one could wait for them for ever. If this may not be checked, the
/// wait goes on.
async fn namespace_exists(cluster: &Cluster, namespace: &str) -> Result<(), Failure> {
    let request = Request::new(Namespace::url_path(&(), None));
    let request = request.get(namespace, &GetParams::default()).map_err(Failure::new)?;
    let response = timeout(TIMEOUT, cluster.client.request_text(request)).await;
    match response.map_err(|_| cluster.target.timed_out(TIMEOUT.as_secs()))? {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Err(Failure::new(format!("there is no namespace {namespace:?}")))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(cluster.target.describe(&error)),
    }
}
