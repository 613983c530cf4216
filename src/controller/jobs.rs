//! Whether a failed pod's Job came to a good end. A Job is read when one of its pods fails, and again
//! only while it is not finished.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::api::batch::v1::Job;
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

use crate::pods::{Controller, Pod};

/// How long one read may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How soon an unfinished Job is read again after one of its pods succeeded; twice as long after each
/// further read, up to [`SLOWEST`].
const SOONEST: Duration = Duration::from_secs(1);
const SLOWEST: Duration = Duration::from_secs(60);

/// What is known of Jobs.
#[derive(Debug, Default)]
pub struct Jobs {
    known: HashMap<JobKey, State>,
}

/// A Job as an owner reference names it. All of it: what one pod claims of its owner must say nothing of
/// another pod's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobKey {
    /// The Job's namespace, which is its pod's.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

#[derive(Debug)]
struct State {
    /// Absent until the first read has ended.
    end: Option<JobEnd>,
    asked: bool,
    ask_at: Instant,
    delay: Duration,
}

/// How a Job has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// Well: its failed pods are no problem.
    Complete,
    /// Badly; that is final.
    Failed,
    /// Not yet, or not so that it could be read.
    Open,
}

/// What is known of one Job.
#[derive(Debug, PartialEq, Eq)]
pub struct JobFact {
    /// Whether it is complete; absent until it was read once, and the pod can't be judged.
    pub complete: Option<bool>,
    /// A read that is due now, which the caller starts.
    pub query: Option<JobKey>,
    /// When the next one will be.
    pub ask_at: Option<Instant>,
}

impl JobKey {
    /// The key of the Job that controls a pod.
    #[must_use]
    pub fn new(pod: &Pod, job: &Controller) -> Self {
        Self { namespace: pod.namespace.clone(), name: job.name.clone(), uid: job.uid.clone() }
    }
}

impl Jobs {
    /// What is known of the Job that controls a failed pod.
    pub fn fact(&mut self, key: JobKey, now: Instant) -> JobFact {
        let state =
            self.known.entry(key.clone()).or_insert(State { end: None, asked: false, ask_at: now, delay: SLOWEST });
        let open = matches!(state.end, None | Some(JobEnd::Open)) && !state.asked;
        let due = open && state.ask_at <= now;
        state.asked |= due;
        JobFact {
            complete: state.end.map(|end| end == JobEnd::Complete),
            query: due.then_some(key),
            ask_at: (open && !due).then_some(state.ask_at),
        }
    }

    /// What a read has shown. Returns whether that changes the judgement of the Job's pods.
    pub fn answered(&mut self, key: &JobKey, end: JobEnd, now: Instant) -> bool {
        let Some(state) = self.known.get_mut(key) else { return false };
        let complete = |end: Option<JobEnd>| end.map(|end| end == JobEnd::Complete);
        let changes = complete(state.end) != complete(Some(end));
        state.end = Some(end);
        state.asked = false;
        state.ask_at = now + state.delay;
        state.delay = (2 * state.delay).min(SLOWEST);
        changes
    }

    /// A pod of this Job succeeded, which may complete it: the Job controller says so a moment later.
    /// Returns whether failures of it stand that are worth another look.
    pub fn pod_succeeded(&mut self, key: &JobKey, now: Instant) -> bool {
        let Some(state) = self.known.get_mut(key).filter(|state| state.end == Some(JobEnd::Open)) else { return false };
        state.delay = SOONEST;
        state.ask_at = now;
        true
    }

    /// Forgets Jobs of which no failed pod is left.
    pub fn retain(&mut self, is_needed: impl Fn(&JobKey) -> bool) {
        self.known.retain(|key, state| state.asked || is_needed(key));
    }
}

/// Reads how a Job has ended; one that is gone, has another UID or can't be read in time counts as open.
pub async fn read(client: &Client, query: &JobKey) -> JobEnd {
    let api: Api<Job> = Api::namespaced(client.clone(), &query.namespace);
    let Ok(Ok(job)) = timeout(TIMEOUT, api.get_opt(&query.name)).await else {
        tracing::debug!(namespace = query.namespace, job = query.name, "could not read the Job of a failed pod");
        return JobEnd::Open;
    };
    let conditions = job
        .filter(|job| job.metadata.uid.as_deref() == Some(&query.uid))
        .and_then(|job| job.status?.conditions)
        .unwrap_or_default();
    let is_true = |kind: &str| conditions.iter().any(|own| own.type_ == kind && own.status == "True");
    match () {
        () if is_true("Complete") => JobEnd::Complete,
        () if is_true("Failed") => JobEnd::Failed,
        () => JobEnd::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(uid: &str) -> JobKey {
        JobKey { namespace: "shop".to_owned(), name: "nightly".to_owned(), uid: uid.to_owned() }
    }

    #[test]
    fn a_job_is_read_once_and_again_only_while_it_has_not_ended() {
        let mut jobs = Jobs::default();
        let start = Instant::now();

        let fact = jobs.fact(key("u"), start);
        assert_eq!((fact.complete, fact.query), (None, Some(key("u"))));
        assert_eq!(jobs.fact(key("u"), start), JobFact { complete: None, query: None, ask_at: None }, "under way");

        assert!(jobs.answered(&key("u"), JobEnd::Open, start));
        let fact = jobs.fact(key("u"), start);
        assert_eq!((fact.complete, fact.query, fact.ask_at), (Some(false), None, Some(start + SLOWEST)));

        assert!(jobs.pod_succeeded(&key("u"), start));
        let fact = jobs.fact(key("u"), start);
        assert!(fact.complete == Some(false) && fact.query.is_some(), "{fact:?}");
        assert!(!jobs.answered(&key("u"), JobEnd::Open, start), "no news");
        assert_eq!(jobs.fact(key("u"), start).ask_at, Some(start + SOONEST));
        assert!(jobs.fact(key("u"), start + SOONEST).query.is_some());

        let later = start + 10 * SLOWEST;
        for (end, complete) in [(JobEnd::Complete, true), (JobEnd::Failed, false)] {
            jobs.answered(&key("u"), end, start);
            let fact = JobFact { complete: Some(complete), query: None, ask_at: None };
            assert_eq!(jobs.fact(key("u"), later), fact);
            assert!(!jobs.pod_succeeded(&key("u"), later), "it has ended");
        }
        assert!(jobs.fact(key("v"), start).query.is_some(), "another Job of this name");
        jobs.retain(|_| false);
        assert_eq!(jobs.known.len(), 1, "the answer of the one that is being read is awaited");
    }
}
