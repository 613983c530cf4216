//! Facts besides the pod that a verdict depends on.

use std::sync::Arc;

use arcstr::ArcStr;
use jiff::Timestamp;
use k8s_openapi::{
    api::batch::v1::{CronJob, Job},
    apimachinery::pkg::apis::meta::v1::Time,
};

use crate::events::Event;

use super::{claims::ClaimFacts, cluster_nodes::ClusterNodes, port_holders::PortHolder, rollout::TemplateChanges};

/// Facts besides the pod that a verdict or its explanation depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The Job named by `needs_job`, if it could be read.
    pub job: Option<Arc<JobFacts>>,
    /// Whether the pod's controller runs a younger, healthy pod.
    pub replaced: bool,
    /// The events about the pod, the most recent last. They explain a problem but do not decide whether there is
    /// one.
    pub events: Arc<[Event]>,
    /// A pod that uses a host port of the pod.
    pub port_holder: Option<PortHolder>,
    /// The pod template of the pod's revision, and what changed in it, if they were read.
    pub revision: Option<Arc<TemplateChanges>>,
    /// The nodes of the cluster, if they were read.
    pub nodes: Option<Arc<ClusterNodes>>,
    /// The claims of the pod that were read, by name.
    pub claims: Vec<(ArcStr, Arc<ClaimFacts>)>,
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
    pub(crate) fn belongs_to(job: &Job, cron_job: &CronJob) -> bool {
        let owner = job.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        owner.is_some_and(|owner| cron_job.metadata.uid.as_ref() == Some(&owner.uid))
    }

    /// Adds whether a later run of the Job's CronJob has succeeded. Another CronJob of the same name does not count.
    pub(crate) fn add_cron_job(&mut self, job: &Job, cron_job: &CronJob) {
        let status = cron_job.status.as_ref().filter(|_| Self::belongs_to(job, cron_job));
        let succeeded = status.and_then(|status| status.last_successful_time.as_ref()).map(|time| time.0);
        self.superseded = self.failed.is_some_and(|failed| succeeded > Some(failed));
    }

    #[must_use]
    pub(crate) fn of(job: &Job) -> Self {
        let status = job.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let is_true = |kind: &str| conditions.iter().find(|own| own.type_ == kind && own.status == "True");
        let time = |time: Option<&Time>| time.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let limit = job.spec.as_ref().and_then(|spec| spec.backoff_limit);
        let count = status.and_then(|status| status.failed);
        let cron_job = job.metadata.owner_references.iter().flatten().find(|owner| {
            owner.controller == Some(true) && owner.kind == "CronJob" && owner.api_version.starts_with("batch/")
        });
        Self {
            complete: is_true("Complete").is_some(),
            failed: is_true("Failed").map(|failed| time(failed.last_transition_time.as_ref())),
            attempts: count.and_then(|count| count.try_into().ok()).zip(limit.and_then(|limit| limit.try_into().ok())),
            cron_job: cron_job.map(|owner| owner.name.clone()),
            superseded: false,
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
        let job = |status: serde_json::Value, group: &str| -> Job {
            serde_json::from_value(json!({
                "metadata": {"name": "nightly-1", "ownerReferences": [
                    {"apiVersion": group, "kind": "CronJob", "name": "nightly", "uid": "c", "controller": true},
                ]},
                "spec": {"backoffLimit": 6, "template": {}},
                "status": status,
            }))
            .unwrap()
        };
        let facts = JobFacts::of(&job(json!({"failed": 2}), "batch/v1"));
        assert_eq!((facts.attempts, facts.cron_job.as_deref(), facts.failed), (Some((2, 6)), Some("nightly"), None));
        assert!(!facts.complete);
        let failed = json!({"failed": 7, "conditions": [
            {"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let facts = JobFacts::of(&job(failed, "example.com/v1"));
        assert_eq!((facts.failed, facts.cron_job), ("2026-01-01T00:00:00Z".parse().ok(), None));
        assert!(!facts.complete);
        for (status, complete) in [("True", true), ("False", false), ("Unknown", false)] {
            let conditions = json!({"conditions": [
                {"type": "Suspended", "status": "True"}, {"type": "Complete", "status": status}]});
            let facts = JobFacts::of(&job(conditions, "batch/v1"));
            assert_eq!((facts.complete, facts.failed), (complete, None), "{status}");
        }
        assert_eq!(JobFacts::of(&Job::default()), JobFacts::default());
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
            let job: Job = serde_json::from_value(json!({"metadata": {"ownerReferences": owners}})).unwrap();
            assert_eq!(JobFacts::of(&job).cron_job.as_deref(), name, "{owners:?}");
            let belongs = ["c", "d"].into_iter().find(|uid| JobFacts::belongs_to(&job, &cron_job(uid)));
            assert_eq!(belongs, uid, "{owners:?}");
            assert!(!JobFacts::belongs_to(&job, &CronJob::default()), "it has no UID");
        }
    }
}
