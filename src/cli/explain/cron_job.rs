//! A CronJob is explained by its newest run.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::{Api, ResourceExt, api::ListParams};
use tokio::time::timeout;

use crate::cli::{Failure, connect::Cluster, get};

use super::TIMEOUT;

/// The most Jobs of the namespace among which its runs are looked for.
const JOBS: u32 = 500;

/// What is known about a CronJob without its runs.
pub(super) struct Found {
    /// The name of the Job that was created last.
    pub(super) newest: Option<String>,
    /// When it last succeeded, or why it has not run; continues a sentence about the CronJob.
    pub(super) what: String,
}

/// Reads a CronJob and finds its newest run.
///
/// # Errors
/// If it does not exist, or may not be read.
pub(super) async fn read(cluster: &Cluster, namespace: &str, name: &str) -> Result<Found, Failure> {
    let failed = |error| get::not_read(cluster, namespace, ("cronjob", "cronjobs.batch"), name, &error);
    let late = |_| cluster.target.timed_out(TIMEOUT.as_secs());
    let cron_jobs: Api<CronJob> = Api::namespaced(cluster.client.clone(), namespace);
    let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), namespace);
    let cron_job = timeout(TIMEOUT, cron_jobs.get(name)).await.map_err(late)?.map_err(failed)?;
    let uid = cron_job.metadata.uid.as_deref().unwrap_or_default();
    let is_run = |job: &Job| job.owner_references().iter().any(|own| own.controller == Some(true) && own.uid == uid);
    let listed = timeout(TIMEOUT, jobs.list(&ListParams::default().limit(JOBS))).await.map_err(late)?;
    let listed = listed.map_err(|error| get::denied(cluster, namespace, "list", "jobs.batch", &error))?;
    let newest = listed.items.into_iter().filter(is_run).max_by_key(ResourceExt::creation_timestamp);
    let is_suspended = cron_job.spec.suspend == Some(true);
    let succeeded = cron_job.status.as_ref().and_then(|status| status.last_successful_time.as_ref());
    let mut what = match succeeded {
        Some(time) => format!("last succeeded at {}", time.0.strftime("%Y-%m-%dT%H:%M:%SZ")),
        None => "has not succeeded yet".to_owned(),
    };
    if is_suspended {
        what.push_str(", and is suspended");
    }
    Ok(Found { newest: newest.map(|job| job.name_any()), what })
}
