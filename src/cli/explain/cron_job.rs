//! A CronJob is explained by its newest run.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::{Api, ResourceExt, api::ListParams};
use tokio::time::timeout;

use crate::cli::{Failure, connect::Cluster, get};

use super::TIMEOUT;

/// How many Jobs of the namespace a page has.
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
    let denied = |error| get::denied(cluster, namespace, "list", "jobs.batch", &error);
    let mut newest: Option<Job> = None;
    let mut page = ListParams::default().limit(JOBS);
    let read_all = async {
        loop {
            let listed = jobs.list(&page).await.map_err(denied)?;
            let runs = newest.take().into_iter().chain(listed.items.into_iter().filter(is_run));
            newest = runs.max_by_key(ResourceExt::creation_timestamp);
            match listed.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page.continue_token = Some(token),
                None => return Ok(()),
            }
        }
    };
    timeout(TIMEOUT, read_all).await.map_err(late)??;
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
