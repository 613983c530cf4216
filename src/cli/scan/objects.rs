//! The objects of a file besides its pods. They answer what a cluster would be asked.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::batch::v1::CronJob;

use crate::{
    diagnosis::{
        ClaimFacts, ClaimObject, ClassObject, ClassReading, ClusterNodes, FreeVolumes, ManagedWorkload, NodeObject,
        Preemptions, RevisionObject, VolumeObject, WorkloadObject,
    },
    events::WatchedEvent,
    facts::{Answer, Fact, JobFact, JobKey, Question},
};

#[derive(Default)]
pub(super) struct FileObjects {
    jobs: HashMap<JobKey, WorkloadObject>,
    /// By UID.
    cron_jobs: HashMap<String, CronJob>,
    /// The ReplicaSets and ControllerRevisions by namespace and name.
    pub(super) revisions: HashMap<(String, String), RevisionObject>,
    /// By resource, namespace and name.
    workloads: HashMap<(&'static str, String, String), ManagedWorkload>,
    nodes: Option<ClusterNodes>,
    /// By namespace and name.
    pub(super) claims: HashMap<(String, String), ClaimObject>,
    /// By name.
    pub(super) classes: HashMap<String, ClassObject>,
    volumes: Option<FreeVolumes>,
    /// By namespace.
    preemptions: HashMap<String, Preemptions>,
}

impl FileObjects {
    pub(super) fn add_job(&mut self, mut job: WorkloadObject) {
        if let Some(spec) = &mut job.spec {
            spec.template = None;
        }
        self.jobs.insert(JobKey::of(&job), job);
    }

    pub(super) fn add_workload(&mut self, resource: &'static str, workload: ManagedWorkload) {
        let [namespace, name] =
            [&workload.metadata.namespace, &workload.metadata.name].map(|text| text.clone().unwrap_or_default());
        self.workloads.insert((resource, namespace, name), workload);
    }

    pub(super) fn add_cron_job(&mut self, cron_job: CronJob) {
        self.cron_jobs.insert(cron_job.metadata.uid.clone().unwrap_or_default(), cron_job);
    }

    pub(super) fn add_node(&mut self, node: &NodeObject) {
        self.nodes.get_or_insert_default().add(node);
    }

    pub(super) fn add_volume(&mut self, volume: &VolumeObject) {
        self.volumes.get_or_insert_default().add(volume);
    }

    pub(super) fn add_event(&mut self, event: &WatchedEvent) {
        if let Some(event) = event.event.as_deref().filter(|event| event.reason == "Preempted") {
            self.preemptions.entry(event.involved.namespace.clone()).or_default().add(event);
        }
    }

    /// What the file says. It need not contain all that the cluster has.
    pub(super) fn answer(&self, question: &Question) -> Answer {
        let fact = match question {
            Question::Job(key) => self.jobs.get(key).map(|job| Fact::Job(self.job(job))),
            Question::Revision(key) => {
                let of = |name: &String| self.revisions.get(&(key.namespace.clone(), name.clone()));
                return match (of(&key.failing), of(&key.before)) {
                    (None, _) => Answer::Unavailable,
                    (Some(_), None) if !key.before.is_empty() => Answer::Gone,
                    (Some(failing), before) => key.compare(failing, before),
                };
            }
            Question::LimitChanges { workload: (resource, name), revision } => {
                let revisions = self.revisions.iter().filter(|((namespace, _), _)| *namespace == revision.namespace);
                let workload = self.workloads.get(&(*resource, revision.namespace.clone(), name.clone()));
                let changes = |own| revision.limit_changes(revisions.map(|(_, revision)| revision), own);
                workload.map(|own| Fact::LimitChanges(Arc::new(changes(own))))
            }
            Question::Nodes => self.nodes.as_ref().map(|nodes| Fact::Nodes(Arc::new(nodes.clone()))),
            Question::Claim { namespace, name } => {
                let claim = self.claims.get(&(namespace.clone(), name.to_string()));
                claim.map(|claim| Fact::Claim(Arc::new(self.claim(claim))))
            }
            Question::Preemptions(namespace) => {
                self.preemptions.get(namespace).map(|own| Fact::Preemptions(Arc::new(own.clone())))
            }
            _ => None,
        };
        fact.map_or(Answer::Unavailable, Answer::Read)
    }

    fn job(&self, job: &WorkloadObject) -> JobFact {
        let owners = job.metadata.owner_references.iter().flatten();
        JobFact::of(job, owners.filter_map(|owner| self.cron_jobs.get(&owner.uid)).next())
    }

    /// A file without any StorageClass does not show that one is missing.
    fn claim(&self, claim: &ClaimObject) -> ClaimFacts {
        let class = match claim.class().map(|name| self.classes.get(name)) {
            Some(Some(class)) => ClassReading::Read(class),
            Some(None) if !self.classes.is_empty() => ClassReading::Missing,
            _ => ClassReading::Unknown,
        };
        ClaimFacts::of(claim, class, self.volumes.as_ref())
    }
}
