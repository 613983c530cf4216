//! Reads what shows why no node takes a pod: the nodes of the cluster, and the claims of the pod.

use std::{sync::Arc, time::Duration};

use arcstr::ArcStr;
use k8s_openapi::api::{
    core::v1::{Node, PersistentVolume, PersistentVolumeClaim},
    storage::v1::StorageClass,
};
use kube::{Client, Resource, api::GetParams, core::Request};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::{
    api::is_object_name,
    diagnosis::{
        ClaimFacts, ClaimObject, ClassObject, ClassReading, ClusterNodes, FreeVolumes, NodeObject, VolumeObject,
    },
    pods::Pod,
    watch::{
        collection::{Collection, PAGE_SIZE, Selection},
        decode::Decoder,
        read_body,
    },
};

/// How long all requests of a read may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many nodes are read. Kubernetes supports clusters of up to 5,000. Of a larger one, nothing is said.
const NODES: usize = 5000;
/// How many claims of a pod are read.
const CLAIMS: usize = 4;
/// The largest claim or StorageClass that is read, in bytes.
const OBJECT_LIMIT: usize = 512 * 1024;
/// How long what was read is used, before it is read again.
pub(crate) const FRESH: Duration = Duration::from_secs(5 * 60);

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PlacementKey {
    Nodes,
    /// A PersistentVolumeClaim, with its StorageClass and the free volumes.
    Claim {
        namespace: String,
        name: ArcStr,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacementFacts {
    Nodes(Arc<ClusterNodes>),
    Claim(Arc<ClaimFacts>),
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PlacementReading {
    Read(PlacementFacts),
    /// RBAC denies access. The right is optional, so nothing reports that.
    Denied,
    /// It could not be read for another reason.
    Unavailable,
}

impl PlacementKey {
    /// The first claims of a pod.
    pub(crate) fn claims(pod: &Pod) -> impl Iterator<Item = (ArcStr, Self)> {
        let names = pod.requirements.as_deref().map(|own| own.claims.first()).unwrap_or_default();
        // The API server does not check all names in a pod.
        let names = names.iter().filter(|name| is_object_name(name)).take(CLAIMS);
        names.map(|name| (name.clone(), Self::Claim { namespace: pod.namespace.to_string(), name: name.clone() }))
    }

    /// The namespace to which the request counts.
    pub(crate) fn namespace(&self) -> &str {
        match self {
            Self::Nodes => "",
            Self::Claim { namespace, .. } => namespace,
        }
    }
}

pub(crate) async fn read(client: &Client, key: &PlacementKey) -> PlacementReading {
    let read = async {
        match key {
            PlacementKey::Nodes => nodes(client).await.map(PlacementFacts::Nodes),
            PlacementKey::Claim { namespace, name } => claim(client, namespace, name).await.map(PlacementFacts::Claim),
        }
    };
    match timeout(TIMEOUT, read).await {
        Ok(Ok(facts)) => PlacementReading::Read(facts),
        Ok(Err(kube::Error::Api(status))) if status.is_forbidden() => PlacementReading::Denied,
        Ok(Err(error)) => {
            tracing::debug!(?key, %error, "could not read what shows why no node takes a pod");
            PlacementReading::Unavailable
        }
        Err(_) => PlacementReading::Unavailable,
    }
}

/// The nodes, of which one at a time is held in memory. None if there are too many.
async fn nodes(client: &Client) -> kube::Result<Arc<ClusterNodes>> {
    let mut nodes = ClusterNodes::default();
    let is_complete = list::<Node, _>(client, NODES, |node: NodeObject| nodes.add(&node)).await?;
    Ok(Arc::new(if is_complete { nodes } else { ClusterNodes::default() }))
}

/// Reads objects of a type of the API, as [`Collection::for_each`].
async fn list<A: Resource<DynamicType = ()>, T: DeserializeOwned + Send + 'static>(
    client: &Client,
    limit: usize,
    see: impl FnMut(T),
) -> kube::Result<bool> {
    let (path, decoder) = (A::url_path(&(), None), Decoder::json(|object: T| object));
    Collection::new(client.clone(), &path, Selection::default(), decoder).for_each(limit, see).await
}

/// A claim, its StorageClass if it has one, and the free volumes if they may show why it is not bound: at most three requests. A
/// claim that does not exist shows nothing.
async fn claim(client: &Client, namespace: &str, name: &str) -> kube::Result<Arc<ClaimFacts>> {
    let path = PersistentVolumeClaim::url_path(&(), Some(namespace));
    let Some(claim) = get::<ClaimObject>(client, &path, name).await? else { return Ok(Arc::default()) };
    let class = match claim.class().filter(|class| is_object_name(class)) {
        // The rights to read classes and volumes are optional as well.
        Some(class) => get::<ClassObject>(client, &StorageClass::url_path(&(), None), class).await.ok(),
        None => None,
    };
    let class = match &class {
        Some(Some(class)) => ClassReading::Read(class),
        Some(None) => ClassReading::Missing,
        None => ClassReading::Unknown,
    };
    let volumes = match ClaimFacts::needs_volumes(&claim, class) {
        true => free_volumes(client).await.ok().flatten(),
        false => None,
    };
    Ok(Arc::new(ClaimFacts::of(&claim, class, volumes.as_ref())))
}

/// The free volumes. Absent if there are more volumes than one page has.
async fn free_volumes(client: &Client) -> kube::Result<Option<FreeVolumes>> {
    let mut volumes = FreeVolumes::default();
    let is_complete =
        list::<PersistentVolume, _>(client, PAGE_SIZE as usize, |volume: VolumeObject| volumes.add(&volume)).await?;
    Ok(is_complete.then_some(volumes))
}

/// An object; absent if it does not exist.
async fn get<T: DeserializeOwned>(client: &Client, path: &str, name: &str) -> kube::Result<Option<T>> {
    let request = Request::new(path).get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
    match read_body(client, request, OBJECT_LIMIT).await {
        // No claim or class is as large, so nothing is said of it.
        Ok(body) => serde_json::from_slice(&body.unwrap_or_default()).map(Some).map_err(kube::Error::SerdeError),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
