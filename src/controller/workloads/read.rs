//! Reads workloads from the API.

use std::time::Duration;

use k8s_openapi::api::{batch::v1::CronJob, core::v1::Pod};
use kube::{Api, Client, Resource, api::ListParams, core::PartialObjectMeta};
use tokio::time::timeout;

use crate::{
    diagnosis::{JobFacts, WorkloadObject},
    facts::{Answer, get, get_at},
};

use super::{
    key::{WorkloadKey, WorkloadKind},
    object::{Existence, Workload},
};

/// How long the requests of one read may take, of which there are two at most.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A read to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct WorkloadQuery {
    pub(in crate::controller) key: WorkloadKey,
    /// The pod that a StatefulSet could not create.
    pub(super) pod: Option<String>,
}

/// The result of a read.
pub(in crate::controller) type WorkloadReading = Answer<Box<Workload>>;

/// Reads a workload; for a StatefulSet, whether the pod exists that could not be created; and for a Job that its deadline
/// ended, its CronJob.
pub(in crate::controller) async fn read(client: &Client, query: &WorkloadQuery) -> WorkloadReading {
    match timeout(TIMEOUT, read_workload(client, query)).await {
        Ok(Ok(Some(workload))) => Answer::Read(Box::new(workload)),
        Ok(Ok(None)) => Answer::Gone,
        Ok(Err(error)) => Answer::of_error(&error),
        Err(_) => Answer::Unavailable,
    }
}

async fn read_workload(client: &Client, query: &WorkloadQuery) -> kube::Result<Option<Workload>> {
    let WorkloadKey { namespace, kind, name, uid } = &query.key;
    let path = WorkloadObject::url_path(&kind.resource(), Some(namespace));
    let object = get_at::<WorkloadObject>(client, &path, name).await?;
    let is_same = |object: &WorkloadObject| uid.is_empty() || object.metadata.uid.as_ref() == Some(uid);
    let Some(object) = object.filter(is_same) else { return Ok(None) };
    let named_pod_exists = match &query.pod {
        Some(pod) if *kind == WorkloadKind::StatefulSet => Some(pod_exists(client, namespace, pod).await?),
        _ => None,
    };
    let mut workload = Workload::new(*kind, &object, named_pod_exists);
    let cron_job = JobFacts::of(&object, None).cron_job;
    if let (Existence::Ended { .. }, Some(name)) = (workload.existence, cron_job) {
        let cron_job = get::<CronJob, CronJob>(client, Some(namespace), &name).await?;
        if JobFacts::of(&object, cron_job.as_ref()).superseded {
            workload.existence = Existence::Complete;
        }
    }
    Ok(Some(workload))
}

/// Lists the pod, because the operator has no right to get pods.
async fn pod_exists(client: &Client, namespace: &str, name: &str) -> kube::Result<bool> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().fields(&format!("metadata.name={name}")).limit(1);
    let pods = api.list_metadata(&params).await?;
    Ok(pods.items.iter().any(|pod: &PartialObjectMeta<Pod>| pod.metadata.name.is_some()))
}
