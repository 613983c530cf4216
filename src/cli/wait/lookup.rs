//! Reads the targets once before they are watched, so that a wrong name or a missing permission is an error and no wait.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
    core::v1::Namespace,
};
use kube::{
    Resource,
    api::GetParams,
    core::{Request, Selector},
};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{
    cli::{Failure, connect::Cluster, get::get_text},
    pods::JsonPod,
};

use super::{
    target::{Kind, Target},
    watches::Watched,
    workload::Workload,
};

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
    let get = Get { cluster, namespace, kind: *kind, name };
    let workload = match kind {
        Kind::Deployment => Workload::Deployment(Box::new(get.read::<Deployment>().await?)),
        Kind::StatefulSet => Workload::StatefulSet(Box::new(get.read::<StatefulSet>().await?)),
        Kind::DaemonSet => Workload::DaemonSet(Box::new(get.read::<DaemonSet>().await?)),
        Kind::Job => Workload::Job(Box::new(get.read::<Job>().await?)),
        Kind::Pod => {
            let pod: JsonPod = get.read().await?;
            let uid = match pod.pod.pod {
                Ok(pod) => pod.uid,
                Err(pod) => pod.uid,
            };
            return Ok(Watched { target, workload: None, pod_uid: uid.to_string() });
        }
    };
    let labels = match workload.selector() {
        Some(selector) => Selector::try_from(selector.clone())
            .map(|selector| selector.to_string())
            .map_err(|error| Failure::new(format!("cannot read the selector of {target}: {error}")))?,
        // The API server sets that of a Job.
        None => format!("job-name={name}"),
    };
    let workload = Some((workload.uid().to_owned(), labels));
    Ok(Watched { target, workload, pod_uid: String::new() })
}

struct Get<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    kind: Kind,
    name: &'a str,
}

impl Get<'_> {
    async fn read<K: DeserializeOwned>(&self) -> Result<K, Failure> {
        let Self { cluster, namespace, kind, name } = *self;
        let text = get_text(cluster, namespace, kind, name, TIMEOUT).await?;
        serde_json::from_str(&text).map_err(|error| cluster.target.describe(&kube::Error::SerdeError(error)))
    }
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
