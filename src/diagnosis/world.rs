//! What a verdict depends on besides the pod.

use std::{sync::Arc, time::Duration};

use arcstr::ArcStr;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::CronJob;

use crate::{
    events::Event,
    pods::{Controller, Pod},
};

use super::{
    claims::ClaimFacts,
    cluster_nodes::ClusterNodes,
    port_holders::PortHolder,
    preemptions::Preempted,
    rollout::{LimitChanges, TemplateChanges},
    workload::WorkloadObject,
};

/// What a verdict and its explanation depend on besides the pod. A question is asked only if its answer matters: the first
/// about failed pods, the others about pods with a problem, and about one that several containers cause perhaps more than once.
pub trait World {
    /// Whether the controller of a failed pod has, or had, a healthy pod that was created later.
    fn is_replaced(&self, pod: &Pod) -> bool;

    /// The Job that controls a pod. `None` if it was not read yet; the default if it is gone or may not be read.
    fn job(&self, pod: &Pod, job: &Controller) -> Option<Arc<JobFacts>>;

    /// The events about a pod, the most recent last. They explain a problem but do not decide whether there is one.
    fn events(&self, pod: &Pod) -> Arc<[Event]>;

    /// Another pod that uses a host port of this one. It is named in the explanation, and decides nothing.
    fn port_holder(&self, pod: &Pod) -> Option<PortHolder>;

    /// The pod template of the pod's revision, and what changed in it, if they were read.
    fn revision(&self, _pod: &Pod) -> Option<Arc<TemplateChanges>> {
        None
    }

    /// How the memory limits of the pod's revision came about, if that was read. It decides nothing.
    fn limit_changes(&self, _pod: &Pod) -> Option<Arc<LimitChanges>> {
        None
    }

    /// The nodes of the cluster, if they were read. They show why none of them takes a pod, and decide nothing.
    fn nodes(&self, _pod: &Pod) -> Option<Arc<ClusterNodes>> {
        None
    }

    /// The claims of a pod that were read. They show why they are not bound, and decide nothing.
    fn claims(&self, _pod: &Pod) -> Vec<(ArcStr, Arc<ClaimFacts>)> {
        Vec::new()
    }

    /// The preempted pod in whose place this one was created, if events say so. It is named in the explanation, and decides
    /// nothing. `may_be_news` is whether there may be such an event that was not there when events were read.
    fn preempted(&self, _pod: &Pod, _may_be_news: bool) -> Option<Preempted> {
        None
    }

    /// An event about a kill might explain the pod's problem better, see [`Finding::needs_kills`](super::Finding::needs_kills).
    fn lacks_kills(&self, _: &Pod) {}
}

/// A world that is known in advance. A Job that is not part of it is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub job: Option<Arc<JobFacts>>,
    pub replaced: bool,
    pub events: Arc<[Event]>,
    pub port_holder: Option<PortHolder>,
    pub preempted: Option<Preempted>,
    pub revision: Option<Arc<TemplateChanges>>,
    pub limit_changes: Option<Arc<LimitChanges>>,
    pub nodes: Option<Arc<ClusterNodes>>,
    pub claims: Vec<(ArcStr, Arc<ClaimFacts>)>,
}

impl World for Facts {
    fn is_replaced(&self, _: &Pod) -> bool {
        self.replaced
    }

    fn job(&self, _: &Pod, _: &Controller) -> Option<Arc<JobFacts>> {
        Some(self.job.clone().unwrap_or_default())
    }

    fn events(&self, _: &Pod) -> Arc<[Event]> {
        Arc::clone(&self.events)
    }

    fn port_holder(&self, _: &Pod) -> Option<PortHolder> {
        self.port_holder.clone()
    }

    fn revision(&self, _: &Pod) -> Option<Arc<TemplateChanges>> {
        self.revision.clone()
    }

    fn limit_changes(&self, _: &Pod) -> Option<Arc<LimitChanges>> {
        self.limit_changes.clone()
    }

    fn nodes(&self, _: &Pod) -> Option<Arc<ClusterNodes>> {
        self.nodes.clone()
    }

    fn claims(&self, _: &Pod) -> Vec<(ArcStr, Arc<ClaimFacts>)> {
        self.claims.clone()
    }

    fn preempted(&self, _: &Pod, _: bool) -> Option<Preempted> {
        self.preempted.clone()
    }
}

/// `spec.thresholds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Not scheduled, or containers being created.
    pub pending: Duration,
    /// An init container running.
    pub initializing: Duration,
    /// Running, but not Ready.
    pub not_ready: Duration,
    /// Being deleted, after the end of the grace period.
    pub terminating: Duration,
    /// How long a restarted container must run without failing before its problem is over.
    pub restarted: Duration,
    /// How long a Failed pod is reported after its controller has replaced it.
    pub failed: Duration,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            pending: Duration::from_secs(60),
            initializing: Duration::from_secs(5 * 60),
            not_ready: Duration::from_secs(2 * 60),
            terminating: Duration::from_secs(60),
            restarted: Duration::from_secs(10 * 60),
            failed: Duration::from_secs(60 * 60),
        }
    }
}

/// The relevant fields of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFacts {
    /// Whether the condition Complete is True. Its failed pods are then no problem.
    pub complete: bool,
    /// When the condition Failed became True. The Job does not retry any more.
    pub failed: Option<Timestamp>,
    /// The number of failed pods, and the back-off limit.
    pub attempts: Option<(u32, u32)>,
    /// The name of the CronJob that controls it.
    pub cron_job: Option<String>,
    /// Whether a later run of that CronJob succeeded.
    pub superseded: bool,
}

impl JobFacts {
    /// Whether this CronJob controls the Job. Another one of the same name may have replaced it.
    #[must_use]
    pub(crate) fn belongs_to(job: &WorkloadObject, cron_job: &CronJob) -> bool {
        let owner = job.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        owner.is_some_and(|owner| cron_job.metadata.uid.as_ref() == Some(&owner.uid))
    }

    /// What a Job says, and the CronJob that it belongs to, if it was read. Another CronJob of the same name does not count.
    #[must_use]
    pub(crate) fn of(job: &WorkloadObject, cron_job: Option<&CronJob>) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let failed = status.true_condition("Failed").map(|failed| failed.since().unwrap_or(Timestamp::UNIX_EPOCH));
        let limit = job.spec.as_ref().and_then(|spec| spec.backoff_limit);
        let owner = job.metadata.owner_references.iter().flatten().find(|owner| {
            owner.controller == Some(true) && owner.kind == "CronJob" && owner.api_version.starts_with("batch/")
        });
        let cron_status = cron_job.filter(|owner| Self::belongs_to(job, owner)).and_then(|owner| owner.status.as_ref());
        let succeeded = cron_status.and_then(|status| status.last_successful_time.as_ref()).map(|time| time.0);
        Self {
            complete: status.true_condition("Complete").is_some(),
            failed,
            attempts: status
                .failed
                .and_then(|count| count.try_into().ok())
                .zip(limit.and_then(|limit| limit.try_into().ok())),
            cron_job: owner.map(|owner| owner.name.clone()),
            superseded: failed.is_some_and(|failed| succeeded > Some(failed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_attempts_conditions_and_cron_job_of_a_job() {
        let job = |status: serde_json::Value, group: &str| -> WorkloadObject {
            serde_json::from_value(json!({
                "metadata": {"name": "nightly-1", "ownerReferences": [
                    {"apiVersion": group, "kind": "CronJob", "name": "nightly", "uid": "c", "controller": true},
                ]},
                "spec": {"backoffLimit": 6, "template": {}},
                "status": status,
            }))
            .unwrap()
        };
        let facts = JobFacts::of(&job(json!({"failed": 2}), "batch/v1"), None);
        assert_eq!((facts.attempts, facts.cron_job.as_deref(), facts.failed), (Some((2, 6)), Some("nightly"), None));
        assert!(!facts.complete);
        let failed = json!({"failed": 7, "conditions": [
            {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let facts = JobFacts::of(&job(failed, "example.com/v1"), None);
        assert_eq!((facts.failed, facts.cron_job), ("2026-01-01T00:00:00Z".parse().ok(), None));
        assert!(!facts.complete);
        for (status, complete) in [("True", true), ("False", false), ("Unknown", false)] {
            let conditions = json!({"conditions": [
                {"type": "Suspended", "status": "True"}, {"type": "Complete", "status": status}]});
            let facts = JobFacts::of(&job(conditions, "batch/v1"), None);
            assert_eq!((facts.complete, facts.failed), (complete, None), "{status}");
        }
        let empty = serde_json::from_value(json!({"metadata": {}})).unwrap();
        assert_eq!(JobFacts::of(&empty, None), JobFacts::default());
    }

    #[test]
    fn only_the_controller_of_a_job_is_its_cron_job() {
        let cron_job = |uid: &str| CronJob {
            metadata: ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() },
            ..CronJob::default()
        };
        for (owners, name, uid) in [
            (json!([]), None, None),
            (json!([{"kind": "CronJob", "controller": true}]), Some("nightly"), Some("c")),
            (json!([{"kind": "CronJob", "controller": false}]), None, None),
            (json!([{"kind": "CronJob"}]), None, None),
            (json!([{"kind": "Workflow", "controller": true}]), None, Some("c")),
            (
                json!([
                    {"kind": "CronJob", "name": "other", "uid": "d"},
                    {"kind": "CronJob", "controller": true},
                ]),
                Some("nightly"),
                Some("c"),
            ),
        ] {
            let mut owners = owners.as_array().unwrap().clone();
            for owner in &mut owners {
                owner["apiVersion"] = "batch/v1".into();
                for (field, value) in [("name", "nightly"), ("uid", "c")] {
                    if owner[field].is_null() {
                        owner[field] = value.into();
                    }
                }
            }
            let job: WorkloadObject = serde_json::from_value(json!({"metadata": {"ownerReferences": owners}})).unwrap();
            assert_eq!(JobFacts::of(&job, None).cron_job.as_deref(), name, "{owners:?}");
            let belongs = ["c", "d"].into_iter().find(|uid| JobFacts::belongs_to(&job, &cron_job(uid)));
            assert_eq!(belongs, uid, "{owners:?}");
            assert!(!JobFacts::belongs_to(&job, &CronJob::default()), "it has no UID");
        }
    }
}
