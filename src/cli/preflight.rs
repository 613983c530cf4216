//! What the operator can't do without: looked for before it starts, so that what is missing is one
//! sentence rather than a loop of errors. Rights on pods are not among them: they may come and go, and
//! each object's conditions tell of them.

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
/// How long the definition of the objects is waited for: whoever installs applies it together with the operator, and
/// the API server takes a moment to establish it.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);
/// How often is looked for it.
const POLL: Duration = Duration::from_millis(500);

/// Makes sure that the cluster knows Orchestr objects, and that they may be listed: everywhere, or in
/// each of these namespaces.
///
/// # Errors
/// When it doesn't within half a minute, they may not, or the cluster can't be asked.
pub async fn preflight(cluster: &Cluster, namespaces: Option<&[String]>) -> Result<(), Failure> {
    let deadline = Instant::now() + ESTABLISHED_WITHIN;
    let mut waits = false;
    while !serves_objects(cluster, namespaces).await? {
        if Instant::now() >= deadline {
            return Err(Failure::new(
                "the cluster does not know Orchestr objects: define them with `orchestr crd | kubectl apply --server-side \
                 -f -`",
            ));
        }
        if !std::mem::replace(&mut waits, true) {
            tracing::info!("waiting for the CustomResourceDefinition of Orchestr objects");
        }
        sleep(POLL).await;
    }
    Ok(())
}

/// Whether the cluster serves Orchestr objects. Discovery names them before they can be listed, so both count.
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
    for namespace in places {
        let permission = Permission { verb: "list", resource: "orchestrs.kopf.dev", namespace, grant: Grant::Install };
        let request = Request::new(Orchestr::url_path(&(), namespace))
            .list(&ListParams::default().limit(1))
            .map_err(Failure::new)?;
        match within(cluster, cluster.client.request_text(request)).await? {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => return Ok(false),
            Err(error) => return Err(cluster.target.describe_denied(&error, &permission)),
        }
    }
    Ok(true)
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

async fn within<T>(cluster: &Cluster, answer: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(TIMEOUT, answer).await.map_err(|_| cluster.target.timed_out(TIMEOUT.as_secs()))
}
