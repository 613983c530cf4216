//! What the operator can't do without: looked for before it starts, so that what is missing is one
//! sentence rather than a loop of errors. Rights on pods are not among them: they may come and go, and
//! each object's conditions tell of them.

use std::time::Duration;

use kube::{
    api::ListParams,
    core::{Request, Resource},
};

use crate::api::Orchestr;

use super::{
    Failure,
    connect::Cluster,
    explain::{Access, Grant},
};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Makes sure that the cluster knows Orchestr objects, and that they may be listed: everywhere, or in
/// each of these namespaces.
///
/// # Errors
/// When it doesn't, they may not, or the cluster can't be asked.
pub async fn preflight(cluster: &Cluster, namespaces: Option<&[String]>) -> Result<(), Failure> {
    let version = Orchestr::api_version(&());
    let resources = match within(cluster, cluster.client.list_api_group_resources(&version)).await? {
        Ok(list) => list.resources,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(cluster.target.explain(&error)),
    };
    if !resources.iter().any(|resource| resource.kind == Orchestr::kind(&())) {
        return Err(Failure::new(
            "the cluster does not know Orchestr objects: define them with `orchestr crd | kubectl apply --server-side -f -`",
        ));
    }
    let everywhere = [None];
    let places: Vec<_> =
        namespaces.map_or(everywhere.to_vec(), |names| names.iter().map(|n| Some(n.as_str())).collect());
    for namespace in places {
        let access = Access { verb: "list", resource: "orchestrs.kopf.dev", namespace, grant: Grant::Install };
        let request = Request::new(Orchestr::url_path(&(), namespace))
            .list(&ListParams::default().limit(1))
            .map_err(Failure::new)?;
        within(cluster, cluster.client.request_text(request))
            .await?
            .map_err(|error| cluster.target.explain_access(&error, &access))?;
    }
    Ok(())
}

async fn within<T>(cluster: &Cluster, answer: impl Future<Output = T>) -> Result<T, Failure> {
    tokio::time::timeout(TIMEOUT, answer).await.map_err(|_| cluster.target.silent(TIMEOUT.as_secs()))
}
