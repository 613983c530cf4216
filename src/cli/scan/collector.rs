//! Collects the objects that a scan reads: checks each pod immediately, keeps those with a problem, and counts the
//! others.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::{CronJob, Job};

use crate::{
    api::Ownership,
    cli::live::ClusterView,
    diagnosis::{Finding, Health, JobFacts, Thresholds, World, assess, needs_job},
    jobs::JobKey,
    pods::Pod,
};

use super::{namespaces::Namespaces, selector::LabelSelector};

/// How many pods that cannot be decoded are named.
const NAMED: usize = 3;

/// Which pods to check.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) namespaces: Namespaces,
    pub(super) selector: LabelSelector,
}

/// The pods that `--since` leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Older {
    pub(super) pods: usize,
    pub(super) since: Duration,
}

pub(super) struct Collector {
    /// The cluster or file that the objects come from, for a page that others read.
    pub(super) source: String,
    thresholds: Thresholds,
    now: Timestamp,
    filter: Filter,
    /// Pods that the filter excludes.
    excluded: u64,
    /// Pods that were checked.
    pub(super) pods: u64,
    pub(super) problems: Vec<(Pod, Finding)>,
    /// Pods that were left out of these because their problems began before `--since`, and how long ago that is.
    pub(super) older: Option<Older>,
    /// How many of the pods are on each node.
    nodes: HashMap<Box<str>, u64>,
    /// Pods that could not be decoded.
    pub(super) undecodable: u64,
    /// `namespace/name` of the first [`NAMED`] of them.
    pub(super) undecodable_names: Vec<String>,
    /// Objects of other kinds.
    pub(super) other_objects: u64,
    /// The kind of the first of them.
    pub(super) other_kind: Option<String>,
    /// The annotations of namespaces that say how severe their problems are and who is responsible.
    pub(super) ownership: HashMap<String, Ownership>,
    /// What verdicts depend on besides the pods.
    pub(super) view: ClusterView,
    /// Of a file: the Jobs that have failed, and the CronJobs by UID.
    failed_runs: Vec<Job>,
    cron_jobs: HashMap<String, CronJob>,
}

impl Collector {
    pub(super) fn new(thresholds: Thresholds, now: Timestamp, filter: Filter) -> Self {
        Self::with(ClusterView::default(), thresholds, now, filter)
    }

    pub(super) fn with(view: ClusterView, thresholds: Thresholds, now: Timestamp, filter: Filter) -> Self {
        Self {
            source: String::new(),
            thresholds,
            now,
            filter,
            excluded: 0,
            pods: 0,
            problems: Vec::new(),
            older: None,
            nodes: HashMap::new(),
            undecodable: 0,
            undecodable_names: Vec::new(),
            other_objects: 0,
            other_kind: None,
            ownership: HashMap::new(),
            view,
            failed_runs: Vec::new(),
            cron_jobs: HashMap::new(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Sets the time as of which the pods that follow are checked.
    pub(super) fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    pub(super) fn namespaces(&self) -> &Namespaces {
        &self.filter.namespaces
    }

    /// How many of the pods that were checked are on a node.
    pub(super) fn pods_on_node(&self, node: &str) -> u64 {
        self.nodes.get(node).copied().unwrap_or_default()
    }

    /// How many objects of any kind were read.
    pub(super) fn objects(&self) -> u64 {
        self.pods + self.excluded + self.undecodable + self.other_objects
    }

    /// Checks a pod.
    pub(super) fn add_pod(&mut self, mut pod: Pod) {
        pod.update_history(None, self.now);
        let is_healthy = self.view.see_pod(&pod, self.thresholds.restarted, self.now);
        let labels = pod.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        if !(self.filter.namespaces.selects(&pod.namespace) && self.filter.selector.matches(labels)) {
            self.excluded += 1;
            return;
        }
        self.pods += 1;
        if !pod.node.is_empty() {
            *self.nodes.entry(Box::from(&*pod.node)).or_default() += 1;
        }
        if !is_healthy
            && !pod.ignored
            && let Health::Problem(finding) = self.assess_by(&pod, &self.view.awaiting_jobs())
        {
            self.problems.push((pod, *finding));
        }
    }

    /// The health of a pod, whether or not it was added, by what has been read so far.
    pub(super) fn assess(&self, pod: &Pod) -> Health {
        self.assess_by(pod, &self.view.as_known())
    }

    fn assess_by(&self, pod: &Pod, world: &impl World) -> Health {
        assess(pod, world, &self.thresholds, self.now).health
    }

    /// Counts a pod that cannot be decoded, unless the filter excludes its namespace or labels. An absent namespace or
    /// absent labels could not be decoded either, and are not excluded.
    pub(super) fn add_undecodable(
        &mut self,
        namespace: Option<&str>,
        name: &str,
        labels: Option<&BTreeMap<String, String>>,
    ) {
        if !namespace.is_none_or(|namespace| self.filter.namespaces.selects(namespace))
            || !labels
                .is_none_or(|labels| self.filter.selector.matches(labels.iter().map(|(key, value)| (&**key, &**value))))
        {
            self.excluded += 1;
            return;
        }
        self.undecodable += 1;
        if self.undecodable_names.len() < NAMED {
            self.undecodable_names.push(format!("{}/{name}", namespace.unwrap_or_default()));
        }
    }

    /// Counts an object that is not a pod.
    pub(super) fn add_other_object(&mut self, kind: String) {
        self.other_objects += 1;
        self.other_kind.get_or_insert(kind);
    }

    /// Keeps the Job of a file.
    pub(super) fn add_job(&mut self, job: Job) {
        let facts = JobFacts::of(&job);
        let is_failed_run = facts.failed.is_some() && facts.cron_job.is_some();
        self.view.show_job(JobKey::of(&job), facts);
        if is_failed_run {
            self.failed_runs.push(Job { spec: None, ..job });
        }
    }

    /// Keeps the CronJob of a file.
    pub(super) fn add_cron_job(&mut self, cron_job: CronJob) {
        self.cron_jobs.insert(cron_job.metadata.uid.clone().unwrap_or_default(), cron_job);
    }

    /// All objects of a file were read: its CronJobs decide about their failed Jobs.
    pub(super) fn apply_cron_jobs(&mut self) {
        for job in std::mem::take(&mut self.failed_runs) {
            let owners = job.metadata.owner_references.iter().flatten();
            let cron_job = owners.filter_map(|owner| self.cron_jobs.get(&owner.uid)).next();
            if let Some(cron_job) = cron_job {
                let mut facts = JobFacts::of(&job);
                facts.add_cron_job(&job, cron_job);
                self.view.show_job(JobKey::of(&job), facts);
            }
        }
    }

    /// The Jobs that decide whether a failed pod is a problem.
    pub(super) fn needed_jobs(&self) -> HashSet<JobKey> {
        self.problems.iter().filter_map(|(pod, _)| Some(JobKey::new(pod, needs_job(pod)?))).collect()
    }

    /// The namespaces with problems, and how many pods with a problem each has.
    pub(super) fn troubled_namespaces(&self) -> BTreeMap<String, usize> {
        let mut namespaces = BTreeMap::new();
        for (pod, _) in &self.problems {
            *namespaces.entry(pod.namespace.to_string()).or_default() += 1;
        }
        namespaces
    }

    /// Checks the pods with a problem again, with what was read since: replacements, Jobs and events.
    pub(super) fn assess_again(&mut self) {
        let problems = std::mem::take(&mut self.problems);
        let again = |(pod, _): (Pod, Finding)| match self.assess(&pod) {
            Health::Problem(finding) => Some((pod, *finding)),
            Health::Healthy | Health::Settling => None,
        };
        self.problems = problems.into_iter().filter_map(again).collect();
    }

    /// Leaves out the pods whose problems have lasted for longer than this, and counts them.
    pub(super) fn leave_out_older(&mut self, since: Duration) {
        let limit = SignedDuration::try_from(since).unwrap_or(SignedDuration::MAX);
        let (all, now) = (self.problems.len(), self.now);
        self.problems.retain(|(_, finding)| now.duration_since(finding.since) <= limit);
        self.older = Some(Older { pods: all - self.problems.len(), since });
    }

    /// How many pods have problems that began before `--since`.
    pub(super) fn older_pods(&self) -> usize {
        self.older.map_or(0, |older| older.pods)
    }
}
