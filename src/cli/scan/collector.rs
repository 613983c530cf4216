//! What a scan has seen so far. Of healthy pods only the number is kept.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;

use crate::{
    diagnosis::{Facts, Finding, Health, JobFacts, Thresholds, judge, needs_job},
    pods::Pod,
};

use super::{namespaces::Namespaces, selector::LabelSelector};

/// How many pods that can't be decoded are named.
const NAMED: usize = 3;

/// Which pods count.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    /// Those of these namespaces.
    pub(super) namespaces: Namespaces,
    /// Those with these labels.
    pub(super) selector: LabelSelector,
}

/// What a scan has seen so far.
pub(super) struct Tally {
    thresholds: Thresholds,
    now: Timestamp,
    filter: Filter,
    /// How many pods were seen that don't count.
    passed_over: u64,
    /// How many pods count.
    pub(super) pods: u64,
    /// Those with a problem.
    pub(super) troubled: Vec<(Pod, Finding)>,
    /// How many pods could not be decoded.
    pub(super) unreadable: u64,
    /// Some of them.
    pub(super) unreadable_names: Vec<String>,
    /// How many objects were no pods.
    pub(super) strangers: u64,
    /// What the first of them was.
    pub(super) stranger_kind: Option<String>,
    jobs: HashMap<String, Arc<JobFacts>>,
}

impl Tally {
    pub(super) fn new(thresholds: Thresholds, now: Timestamp, filter: Filter) -> Self {
        Self {
            thresholds,
            now,
            filter,
            passed_over: 0,
            pods: 0,
            troubled: Vec::new(),
            unreadable: 0,
            unreadable_names: Vec::new(),
            strangers: 0,
            stranger_kind: None,
            jobs: HashMap::new(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Judges by this time from now on.
    pub(super) fn judge_as_of(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// How many objects were seen, of whatever kind.
    pub(super) fn objects(&self) -> u64 {
        self.pods + self.passed_over + self.unreadable + self.strangers
    }

    pub(super) fn pod(&mut self, mut pod: Pod) {
        let labels = pod.labels.iter().map(|(key, value)| (key, value));
        if !(self.filter.namespaces.selects(&pod.namespace) && self.filter.selector.matches(labels)) {
            self.passed_over += 1;
            return;
        }
        self.pods += 1;
        if pod.ignored {
            return;
        }
        pod.remember(None, self.now);
        if let Health::Problem(finding) = judge(&pod, &Facts::default(), &self.thresholds, self.now).health {
            self.troubled.push((pod, *finding));
        }
    }

    /// A pod that can't be decoded. It counts unless its namespace or its labels, if these are known, exclude it.
    pub(super) fn unreadable(
        &mut self,
        namespace: Option<&str>,
        name: &str,
        labels: Option<&BTreeMap<String, String>>,
    ) {
        if !namespace.is_none_or(|namespace| self.filter.namespaces.selects(namespace))
            || !labels.is_none_or(|labels| self.filter.selector.matches(labels))
        {
            self.passed_over += 1;
            return;
        }
        self.unreadable += 1;
        if self.unreadable_names.len() < NAMED {
            self.unreadable_names.push(format!("{}/{name}", namespace.unwrap_or_default()));
        }
    }

    /// Where was looked.
    pub(super) fn namespaces(&self) -> &Namespaces {
        &self.filter.namespaces
    }

    /// An object that is no pod.
    pub(super) fn stranger(&mut self, kind: String) {
        self.strangers += 1;
        self.stranger_kind.get_or_insert(kind);
    }

    /// A Job, which may decide about failed pods.
    pub(super) fn job(&mut self, job: &Job) {
        if let Some(uid) = &job.metadata.uid {
            self.jobs.insert(uid.clone(), Arc::new(JobFacts::of(job)));
        }
    }

    /// The Jobs whose state decides about failed pods: namespace and name, each once.
    pub(super) fn jobs(&self) -> Vec<(String, String)> {
        let jobs = self.troubled.iter().filter_map(|(pod, _)| {
            let job = needs_job(pod)?;
            Some((pod.namespace.clone(), job.name.clone()))
        });
        let mut jobs: Vec<_> = jobs.collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Judges the pods of Jobs again, now that these are known.
    pub(super) fn settle_jobs(&mut self) {
        let (thresholds, now, jobs) = (&self.thresholds, self.now, &self.jobs);
        self.troubled.retain_mut(|(pod, finding)| {
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
