//! Reads workloads from the API.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::{batch::v1::CronJob, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, Client, api::ListParams, core::PartialObjectMeta};
use tokio::time::timeout;

use crate::api::is_object_name;

use super::{
    key::{WorkloadKey, WorkloadKind},
    object::{Existence, Workload, WorkloadJson},
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

/// Reads a workload; for a StatefulSet, whether the pod exists that could not be created; and for a Job that its deadline
/// ended, its CronJob.
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
    let mut read = Workload::new(*kind, &workload, named_pod_exists);
    if let (Existence::Ended { .. }, Some((Some(failed), _))) = (read.existence, &read.failure) {
        match has_succeeded_since(client, &workload, *failed).await {
            Ok(true) => read.existence = Existence::Complete,
            Ok(false) => {}
            Err(reading) => return reading,
        }
    }
    WorkloadReading::Read(Box::new(read))
}

/// Whether a later run of a failed Job's CronJob has succeeded.
async fn has_succeeded_since(client: &Client, job: &WorkloadJson, failed: Timestamp) -> Result<bool, WorkloadReading> {
    let mut owners = job.metadata.owner_references.iter().flatten();
    let is_cron_job = |own: &&OwnerReference| {
        own.controller == Some(true) && own.kind == "CronJob" && own.api_version.starts_with("batch/")
    };
    let Some(owner) = owners.find(is_cron_job).filter(|owner| is_object_name(&owner.name)) else { return Ok(false) };
    let api: Api<CronJob> = Api::namespaced(client.clone(), job.metadata.namespace.as_deref().unwrap_or_default());
    let cron_job = match timeout(TIMEOUT, api.get(&owner.name)).await {
        Ok(Ok(cron_job)) if cron_job.metadata.uid.as_ref() == Some(&owner.uid) => cron_job,
        Ok(Ok(_)) => return Ok(false),
        Ok(Err(error)) => {
            return match unread(error) {
                WorkloadReading::Gone => Ok(false),
                reading => Err(reading),
            };
        }
        Err(_) => return Err(WorkloadReading::Unavailable),
    };
    let succeeded = cron_job.status.and_then(|status| status.last_successful_time);
    Ok(succeeded.is_some_and(|time| time.0 > failed))
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
