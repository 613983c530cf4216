//! Reads workloads from the API.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams, core::PartialObjectMeta};
use tokio::time::timeout;

use super::{
    key::{WorkloadKey, WorkloadKind},
    object::{Workload, WorkloadJson},
};

/// How long one read may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How much of the API server's message is kept when it denies access, in bytes.
const DENIAL_LIMIT: usize = 512;

/// A read to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct WorkloadQuery {
    pub(super) key: WorkloadKey,
    /// The pod that a StatefulSet could not create.
    pub(super) pod: Option<String>,
}

impl WorkloadQuery {
    pub(in crate::controller) fn namespace(&self) -> &str {
        self.key.namespace()
    }

    pub(in crate::controller) fn into_key(self) -> WorkloadKey {
        self.key
    }
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) enum WorkloadReading {
    Read(Box<Workload>),
    /// The workload is gone, or another one has its name. This is final.
    Gone,
    /// RBAC denies access, with the API server's message.
    Denied(String),
    /// It could not be read for another reason.
    Unavailable,
}

/// Reads a workload, and for a StatefulSet whether the pod exists that could not be created.
pub(in crate::controller) async fn read(client: &Client, query: &WorkloadQuery) -> WorkloadReading {
    let WorkloadKey { namespace, kind, name, uid } = &query.key;
    let api: Api<WorkloadJson> = Api::namespaced_with(client.clone(), namespace, &kind.resource());
    let workload = match timeout(TIMEOUT, api.get(name)).await {
        Ok(Ok(workload)) if uid.is_empty() || workload.metadata.uid.as_ref() == Some(uid) => workload,
        Ok(Ok(_)) => return WorkloadReading::Gone,
        Ok(Err(error)) => return unread(error),
        Err(_) => return WorkloadReading::Unavailable,
    };
    let named_pod_exists = match &query.pod {
        Some(pod) if *kind == WorkloadKind::StatefulSet => match pod_exists(client, namespace, pod).await {
            Ok(exists) => Some(exists),
            Err(reading) => return reading,
        },
        _ => None,
    };
    WorkloadReading::Read(Box::new(Workload::new(*kind, &workload, named_pod_exists)))
}

/// Lists the pod, because the operator has no right to get pods.
async fn pod_exists(client: &Client, namespace: &str, name: &str) -> Result<bool, WorkloadReading> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().fields(&format!("metadata.name={name}")).limit(1);
    match timeout(TIMEOUT, api.list_metadata(&params)).await {
        Ok(Ok(pods)) => Ok(pods.items.iter().any(|pod: &PartialObjectMeta<Pod>| pod.metadata.name.is_some())),
        Ok(Err(error)) => Err(unread(error)),
        Err(_) => Err(WorkloadReading::Unavailable),
    }
}

fn unread(error: kube::Error) -> WorkloadReading {
    match error {
        kube::Error::Api(status) if status.is_not_found() => WorkloadReading::Gone,
        kube::Error::Api(status) if status.is_forbidden() => {
            WorkloadReading::Denied(status.message[..status.message.floor_char_boundary(DENIAL_LIMIT)].to_owned())
        }
        _ => WorkloadReading::Unavailable,
    }
}
