//! Reads a workload, its revisions and its pods.

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::Pod as ApiPod,
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::value::RawValue;
use tokio::time::timeout;

use crate::{
    cli::{
        Failure,
        connect::Cluster,
        explain::reader::{Page, Reader, TIMEOUT},
        kind::Kind,
        live::ClusterView,
        workload::Workload,
    },
    diagnosis::{RevisionObject, WorkloadObject, World, owner_names, replacing_owner},
    facts::{JobFact, JobKey},
    pods::{Pod, WatchedPod},
};

use super::{Gathered, Pods};

/// The most pods and revisions of a workload that are read.
const PODS: u32 = 1000;
const REVISIONS: u32 = 100;
/// How many Jobs of the namespace a page has.
const JOBS: u32 = 500;
/// Among how many pages of pods a replacement is searched.
const PAGES: usize = 10;

/// Reads the workload that a pod belongs to; absent if the pod names none, or one of a kind that is not explained.
pub(in crate::cli::explain) async fn of_pod(reader: &Reader<'_>, pod: &Pod) -> Option<Gathered> {
    let controller = pod.controller.as_ref()?;
    let (kind, name) = owner_names(pod)?;
    let kind = match (Kind::of_api(&controller.api_version, &controller.kind), kind) {
        (Some(kind), _) => kind,
        (None, "Deployment") if controller.api_version.starts_with("apps/") => Kind::Deployment,
        _ => return None,
    };
    let object = match kind {
        Kind::Deployment => reader.get::<Deployment, WorkloadObject>(name).await,
        Kind::StatefulSet => reader.get::<StatefulSet, WorkloadObject>(name).await,
        Kind::DaemonSet => reader.get::<DaemonSet, WorkloadObject>(name).await,
        Kind::Job => reader.get::<Job, WorkloadObject>(name).await,
        Kind::CronJob | Kind::Pod => return None,
    };
    let workload = Workload::new(kind, object.found()?);
    // Another object may have taken the name of a deleted one.
    let is_controller = kind == Kind::Deployment || workload.uid() == controller.uid.as_str();
    if is_controller { Some(gather(reader, workload).await) } else { None }
}

/// Reads the revisions and the pods of a workload.
pub(in crate::cli::explain) async fn gather(reader: &Reader<'_>, workload: Workload) -> Gathered {
    let name = workload.metadata().name.clone().unwrap_or_default();
    let (what, view) = (format!("the pods of {name}"), ClusterView::default().of_workload());
    let Some(labels) = workload.selector().ok().filter(|labels| !labels.is_empty()) else {
        reader.not_read(&what, "its selector cannot be read");
        return Gathered { workload, revisions: Vec::new(), pods: None, job: None, view };
    };
    let (revisions, page, job) = futures::join!(
        revisions(reader, &workload, &labels),
        pods(reader, &what, &labels, None),
        job(reader, &workload)
    );
    let mut gathered = Gathered { workload, revisions, pods: None, job, view };
    if let Some((mut pods, _)) = page {
        pods.pods.retain(|pod| gathered.owns(pod));
        gathered.view.see_pods(&pods.pods, reader.now);
        for (pod, template) in gathered.templates(&pods.pods) {
            gathered.view.show_template(pod, template);
        }
        gathered.pods = Some(pods);
    }
    if let (Some(job), Some(facts)) = (gathered.workload.job(), &gathered.job) {
        gathered.view.show_job(JobKey::of(job), facts.clone());
    }
    gathered
}

/// What is known of the pods on which depends whether a pod was replaced whose workload is not read, for example a
/// Rollout.
pub(in crate::cli::explain) async fn siblings(reader: &Reader<'_>, pod: &Pod) -> ClusterView {
    let mut view = ClusterView::default().of_workload();
    if pod.phase != "Failed" || replacing_owner(pod).is_none() {
        return view;
    }
    let what = format!("the other pods of {}", reader.namespace);
    let mut next = None;
    for _ in 0..PAGES {
        let Some((pods, token)) = self::pods(reader, &what, "", next).await else { return view };
        view.see_pods(&pods.pods, reader.now);
        if token.is_none() || view.as_known().is_replaced(pod) {
            return view;
        }
        next = token;
    }
    reader.not_read(&what, &format!("at most {} are read", PAGES * PODS as usize));
    view
}

/// A page of pods, and the token of the next one.
async fn pods(reader: &Reader<'_>, what: &str, labels: &str, token: Option<String>) -> Option<(Pods, Option<String>)> {
    let params = ListParams {
        label_selector: Some(labels.to_owned()).filter(|labels| !labels.is_empty()),
        continue_token: token,
        ..ListParams::default().limit(PODS)
    };
    let page = reader.list::<ApiPod, WatchedPod>(what, &params).await?;
    let next = page.next();
    let (mut pods, mut unreadable) = (Vec::new(), 0);
    for watched in page.into_items() {
        match watched.pod {
            Ok(mut pod) => {
                pod.update_history(None, reader.now);
                pods.push(*pod);
            }
            Err(_) => unreadable += 1,
        }
    }
    Some((Pods { pods, unreadable, more: next.is_some() }, next))
}

async fn revisions(reader: &Reader<'_>, workload: &Workload, labels: &str) -> Vec<RevisionObject> {
    let params = ListParams::default().labels(labels).limit(REVISIONS);
    let page: Option<Page<Box<RawValue>>> = match workload.kind() {
        Kind::Deployment => reader.list::<ReplicaSet, _>("the ReplicaSets", &params).await,
        Kind::StatefulSet | Kind::DaemonSet => {
            reader.list::<ControllerRevision, _>("the ControllerRevisions", &params).await
        }
        Kind::Job | Kind::CronJob | Kind::Pod => None,
    };
    let objects = page.map(Page::into_items).unwrap_or_default();
    objects.iter().filter_map(|json| RevisionObject::from_json(json.get().as_bytes()).ok()).collect()
}

/// The facts about a Job that decide about its failed pods, and if it has failed, whether a later run of its CronJob
/// has succeeded.
async fn job(reader: &Reader<'_>, workload: &Workload) -> Option<JobFact> {
    let job = workload.job()?;
    let fact = JobFact::of(job, None);
    let Some(name) = fact.facts.cron_job.as_deref().filter(|_| fact.facts.failed.is_some()) else { return Some(fact) };
    let cron_job = reader.get::<CronJob, CronJob>(name).await.found();
    Some(JobFact::of(job, cron_job.as_ref()))
}

/// What is known about a CronJob without its runs.
pub(in crate::cli::explain) struct FoundCronJob {
    /// The name of the Job that was created last.
    pub(in crate::cli::explain) newest: Option<String>,
    /// When it last succeeded, or why it has not run; continues a sentence about the CronJob.
    pub(in crate::cli::explain) what: String,
}

/// Reads a CronJob and finds its newest run.
///
/// # Errors
/// If it does not exist, or may not be read.
pub(in crate::cli::explain) async fn read_cron_job(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> Result<FoundCronJob, Failure> {
    let late = |_| cluster.target.timed_out(TIMEOUT.as_secs());
    let json = cluster.get(Kind::CronJob, namespace, name, TIMEOUT).await?;
    let undecodable = |error| cluster.target.describe(&kube::Error::SerdeError(error));
    let cron_job: CronJob = serde_json::from_str(&json).map_err(undecodable)?;
    let jobs: Api<Job> = Api::namespaced(cluster.client.clone(), namespace);
    let uid = cron_job.metadata.uid.as_deref().unwrap_or_default();
    let is_run = |job: &Job| job.owner_references().iter().any(|own| own.controller == Some(true) && own.uid == uid);
    let denied = |error| cluster.denied("list", Kind::Job, namespace, &error);
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
    Ok(FoundCronJob { newest: newest.map(|job| job.name_any()), what })
}
