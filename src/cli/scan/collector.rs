//! Collects the objects that a scan reads: checks each pod immediately, keeps those with a problem, and counts the
//! others.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use tokio::time::Instant;

use crate::{
    diagnosis::{Facts, Finding, Health, JobFacts, Thresholds, explain, judge, needs_events, needs_job},
    events::{EventStore, WatchedEvent},
    pods::{Pod, Uid},
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
    /// By UID.
    jobs: HashMap<String, Arc<JobFacts>>,
    events: EventStore,
}

impl Collector {
    pub(super) fn new(thresholds: Thresholds, now: Timestamp, filter: Filter) -> Self {
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
            jobs: HashMap::new(),
            events: EventStore::default(),
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
        let labels = pod.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        if !(self.filter.namespaces.selects(&pod.namespace) && self.filter.selector.matches(labels)) {
            self.excluded += 1;
            return;
        }
        self.pods += 1;
        if !pod.node.is_empty() {
            *self.nodes.entry(Box::from(&*pod.node)).or_default() += 1;
        }
        if pod.ignored {
            return;
        }
        if let Health::Problem(finding) = self.judge(&mut pod) {
            self.problems.push((pod, *finding));
        }
    }

    /// The health of a pod, whether or not it was added.
    pub(super) fn judge(&self, pod: &mut Pod) -> Health {
        pod.update_history(None, self.now);
        judge(pod, &Facts::default(), &self.thresholds, self.now).health
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

    /// Keeps a Job for [`apply_jobs`](Self::apply_jobs).
    pub(super) fn add_job(&mut self, job: &Job) {
        if let Some(uid) = &job.metadata.uid {
            self.jobs.insert(uid.clone(), Arc::new(JobFacts::of(job)));
        }
    }

    /// Keeps a Warning event as evidence for [`explain_problems`](Self::explain_problems).
    pub(super) fn add_event(&mut self, event: WatchedEvent) {
        if let WatchedEvent { id, event: Some(event), .. } = event {
            self.events.record(id, *event, Instant::now());
        }
    }

    /// The Jobs that decide whether a failed pod is a problem, as unique pairs of namespace and name.
    pub(super) fn needed_jobs(&self) -> Vec<(String, String)> {
        let jobs = self.problems.iter().filter_map(|(pod, _)| {
            let job = needs_job(pod)?;
            Some((pod.namespace.to_string(), job.name.to_string()))
        });
        let mut jobs: Vec<_> = jobs.collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// The namespaces and UIDs of pods whose events may explain more than the pods: one pod of each owner, those with the
    /// most recent problems, at most `limit`.
    pub(super) fn needed_events(&self, limit: usize) -> Vec<(String, Uid)> {
        let needs_events = |(pod, finding): &&(Pod, Finding)| {
            let mut finding = finding.clone();
            self.explain(pod, &mut finding);
            needs_events(&finding)
        };
        let mut pods: Vec<_> = self.problems.iter().filter(needs_events).collect();
        pods.sort_by_key(|(pod, finding)| (Reverse(finding.since), pod.uid));
        let mut owners = HashSet::new();
        pods.retain(|(pod, finding)| match &finding.owner {
            Some(owner) => owners.insert((&pod.namespace, owner, &finding.container)),
            None => true,
        });
        pods.into_iter().take(limit).map(|(pod, _)| (pod.namespace.to_string(), pod.uid)).collect()
    }

    /// Explains each problem with the Jobs and events that are known. To be called once, when all of them are.
    pub(super) fn explain_problems(&mut self) {
        let mut problems = std::mem::take(&mut self.problems);
        problems.iter_mut().for_each(|(pod, finding)| self.explain(pod, finding));
        self.problems = problems;
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

    fn explain(&self, pod: &Pod, finding: &mut Finding) {
        let job = needs_job(pod).and_then(|job| self.jobs.get(job.uid.as_str())).map(Arc::clone);
        explain(pod, finding, &Facts { job, events: self.events.about(pod), ..Facts::default() }, self.now);
    }

    /// Checks the pods of Jobs again with the state of their Jobs. A pod whose Job is not known stays a problem.
    pub(super) fn apply_jobs(&mut self) {
        let (thresholds, now, jobs) = (&self.thresholds, self.now, &self.jobs);
        self.problems.retain_mut(|(pod, finding)| {
            let Some(job) = needs_job(pod).and_then(|job| jobs.get(job.uid.as_str())) else { return true };
            let facts = Facts { job: Some(Arc::clone(job)), ..Facts::default() };
            match judge(pod, &facts, thresholds, now).health {
                Health::Problem(found) => {
                    *finding = *found;
                    true
                }
                Health::Healthy | Health::Settling => false,
            }
        });
    }
}
