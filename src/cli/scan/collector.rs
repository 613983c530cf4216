//! Collects the objects that a scan reads: checks each pod immediately, keeps those with a problem, and counts the
//! others.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;

use crate::{
    diagnosis::{Facts, Finding, Health, JobFacts, Thresholds, explain, judge, needs_job},
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

pub(super) struct Collector {
    thresholds: Thresholds,
    now: Timestamp,
    filter: Filter,
    /// Pods that the filter excludes.
    excluded: u64,
    /// Pods that were checked.
    pub(super) pods: u64,
    pub(super) problems: Vec<(Pod, Finding)>,
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
}

impl Collector {
    pub(super) fn new(thresholds: Thresholds, now: Timestamp, filter: Filter) -> Self {
        Self {
            thresholds,
            now,
            filter,
            excluded: 0,
            pods: 0,
            problems: Vec::new(),
            undecodable: 0,
            undecodable_names: Vec::new(),
            other_objects: 0,
            other_kind: None,
            jobs: HashMap::new(),
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

    /// How many objects of any kind were read.
    pub(super) fn objects(&self) -> u64 {
        self.pods + self.excluded + self.undecodable + self.other_objects
    }

    /// Checks a pod.
    pub(super) fn add_pod(&mut self, mut pod: Pod) {
        let labels = pod.labels.iter().map(|(key, value)| (key, value));
        if !(self.filter.namespaces.selects(&pod.namespace) && self.filter.selector.matches(labels)) {
            self.excluded += 1;
            return;
        }
        self.pods += 1;
        if pod.ignored {
            return;
        }
        pod.update_history(None, self.now);
        if let Health::Problem(finding) = judge(&pod, &Facts::default(), &self.thresholds, self.now).health {
            self.problems.push((pod, *finding));
        }
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
            || !labels.is_none_or(|labels| self.filter.selector.matches(labels))
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

    /// Keeps a Job for [`finish`](Self::finish).
    pub(super) fn add_job(&mut self, job: &Job) {
        if let Some(uid) = &job.metadata.uid {
            self.jobs.insert(uid.clone(), Arc::new(JobFacts::of(job)));
        }
    }

    /// The Jobs that decide whether a failed pod is a problem, as unique pairs of namespace and name.
    pub(super) fn needed_jobs(&self) -> Vec<(String, String)> {
        let jobs = self.problems.iter().filter_map(|(pod, _)| {
            let job = needs_job(pod)?;
            Some((pod.namespace.clone(), job.name.clone()))
        });
        let mut jobs: Vec<_> = jobs.collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Completes the problems: checks the pods of Jobs again with the state of their Jobs, and explains each problem.
    pub(super) fn finish(&mut self) {
        self.apply_jobs();
        for (pod, finding) in &mut self.problems {
            let job = needs_job(pod).and_then(|job| self.jobs.get(&job.uid)).map(Arc::clone);
            explain(pod, finding, &Facts { job, ..Facts::default() }, self.now);
        }
    }

    /// Checks the pods of Jobs again with the state of their Jobs. A pod whose Job is not known stays a problem.
    fn apply_jobs(&mut self) {
        let (thresholds, now, jobs) = (&self.thresholds, self.now, &self.jobs);
        self.problems.retain_mut(|(pod, finding)| {
            let Some(job) = needs_job(pod).and_then(|job| jobs.get(&job.uid)) else { return true };
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
