//! Checks before the operator starts that the CRD is installed and that Orchestr objects may be listed. If not, the
//! operator prints one message and exits, instead of logging errors in a loop. Of several namespaces, one that may be read
//! is enough: the others may be gone, and the permission with them. Permissions for pods are not checked
//! here: they may change while the operator is running, and each object's conditions report them.

use std::time::Duration;

use kube::{
    api::ListParams,
    core::{Request, Resource},
};
use tokio::time::{Instant, sleep};

use crate::api::Orchestr;

use super::{
    Failure,
    api_error::{Grant, Permission},
    connect::Cluster,
};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait for the CRD, which is usually applied together with the operator: the API server needs a moment to
/// establish it.
const CRD_TIMEOUT: Duration = Duration::from_secs(30);
const CRD_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until Orchestr objects can be listed in the whole cluster, or in each of these namespaces.
///
/// # Errors
/// When the CRD is still missing after half a minute, the list is forbidden, or a request fails.
pub(super) async fn preflight(cluster: &Cluster, namespaces: Option<&[String]>) -> Result<(), Failure> {
    let deadline = Instant::now() + CRD_TIMEOUT;
    let mut logged = false;
    while !serves_objects(cluster, namespaces).await? {
        if Instant::now() >= deadline {
            return Err(Failure::new(
                "the CustomResourceDefinition of Orchestr is not installed: apply it with `orchestr crd | kubectl apply \
                 --server-side -f -`",
            ));
        }
        if !std::mem::replace(&mut logged, true) {
            tracing::info!("waiting for the CustomResourceDefinition of Orchestr");
        }
        sleep(CRD_POLL_INTERVAL).await;
    }
    Ok(())
}

/// Whether the API server serves Orchestr objects. Discovery may name them before they can be listed, so both are
/// checked.
async fn serves_objects(cluster: &Cluster, namespaces: Option<&[String]>) -> Result<bool, Failure> {
    let version = Orchestr::api_version(&());
    let resources = match within(cluster, cluster.client.list_api_group_resources(&version)).await? {
        Ok(list) => list.resources,
        Err(error) if is_not_found(&error) => return Ok(false),
        Err(error) => return Err(cluster.target.describe(&error)),
    };
    if !resources.iter().any(|resource| resource.kind == Orchestr::kind(&())) {
        return Ok(false);
    }
    let everywhere = [None];
    let places: Vec<_> =
        namespaces.map_or(everywhere.to_vec(), |names| names.iter().map(|n| Some(n.as_str())).collect());
    let (mut is_any_readable, mut denied) = (false, None);
    for namespace in places {
        let permission = Permission { verb: "list", resource: "orchestrs.kopf.dev", namespace, grant: Grant::Install };
        let request = Request::new(Orchestr::url_path(&(), namespace))
            .list(&ListParams::default().limit(1))
            .map_err(Failure::new)?;
        match within(cluster, cluster.client.request_text(request)).await? {
            Ok(_) => is_any_readable = true,
            Err(error) if is_not_found(&error) => return Ok(false),
            Err(error) => {
                let is_denied = matches!(&error, kube::Error::Api(status) if status.code == 403);
                let failure = cluster.target.describe_denied(&error, &permission);
                if !is_denied {
                    return Err(failure);
                }
                denied.get_or_insert(failure);
            }
        }
    }
    denied.filter(|_| !is_any_readable).map_or(Ok(true), Err)
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

async fn within<T>(cluster: &Cluster, response: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(TIMEOUT, response).await.map_err(|_| cluster.target.timed_out(TIMEOUT.as_secs()))
}
