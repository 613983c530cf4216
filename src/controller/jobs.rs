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

/// What is known of Jobs, by UID.
#[derive(Debug, Default)]
pub struct Jobs {
    known: HashMap<String, State>,
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

/// A Job to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobQuery {
    /// The Job's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: another Job of the same name says nothing of it.
    pub uid: String,
}

/// What is known of one Job.
#[derive(Debug, PartialEq, Eq)]
pub struct JobFact {
    /// Whether it is complete; absent until it was read once, and the pod can't be judged.
    pub complete: Option<bool>,
    /// A read that is due now, which the caller starts.
    pub query: Option<JobQuery>,
    /// When the next one will be.
    pub ask_at: Option<Instant>,
}

impl Jobs {
    /// What is known of the Job that controls a failed pod.
    pub fn fact(&mut self, pod: &Pod, job: &Controller, now: Instant) -> JobFact {
        let state =
            self.known.entry(job.uid.clone()).or_insert(State { end: None, asked: false, ask_at: now, delay: SLOWEST });
        let open = matches!(state.end, None | Some(JobEnd::Open)) && !state.asked;
        let query = (open && state.ask_at <= now).then(|| {
            state.asked = true;
            JobQuery { namespace: pod.namespace.clone(), name: job.name.clone(), uid: job.uid.clone() }
        });
        JobFact {
            complete: state.end.map(|end| end == JobEnd::Complete),
            ask_at: (open && query.is_none()).then_some(state.ask_at),
            query,
        }
    }

    /// What a read has shown. Returns whether that changes the judgement of the Job's pods.
    pub fn answered(&mut self, uid: &str, end: JobEnd, now: Instant) -> bool {
        let Some(state) = self.known.get_mut(uid) else { return false };
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
    pub fn pod_succeeded(&mut self, uid: &str, now: Instant) -> bool {
        let Some(state) = self.known.get_mut(uid).filter(|state| state.end == Some(JobEnd::Open)) else { return false };
        state.delay = SOONEST;
        state.ask_at = now;
        true
    }

    /// Forgets Jobs of which no failed pod is left.
    pub fn retain(&mut self, is_needed: impl Fn(&str) -> bool) {
        self.known.retain(|uid, state| state.asked || is_needed(uid));
    }
}

/// Reads how a Job has ended; one that is gone, has another UID or can't be read in time counts as open.
pub async fn read(client: &Client, query: &JobQuery) -> JobEnd {
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

    #[test]
    fn a_job_is_read_once_and_again_only_while_it_has_not_ended() {
        let mut jobs = Jobs::default();
        let pod = Pod { namespace: "shop".to_owned(), ..Pod::default() };
        let job = Controller { kind: "Job".to_owned(), name: "nightly".to_owned(), uid: "u".to_owned() };
        let start = Instant::now();

        let fact = jobs.fact(&pod, &job, start);
        assert_eq!((fact.complete, fact.query.as_ref().map(|query| query.name.as_str())), (None, Some("nightly")));
        assert_eq!(jobs.fact(&pod, &job, start), JobFact { complete: None, query: None, ask_at: None }, "under way");

        assert!(jobs.answered("u", JobEnd::Open, start));
        let fact = jobs.fact(&pod, &job, start);
        assert_eq!((fact.complete, fact.query, fact.ask_at), (Some(false), None, Some(start + SLOWEST)));

        assert!(jobs.pod_succeeded("u", start));
        let fact = jobs.fact(&pod, &job, start);
        assert!(fact.complete == Some(false) && fact.query.is_some(), "{fact:?}");
        assert!(!jobs.answered("u", JobEnd::Open, start), "no news");
        assert_eq!(jobs.fact(&pod, &job, start).ask_at, Some(start + SOONEST));
        assert!(jobs.fact(&pod, &job, start + SOONEST).query.is_some());

        let later = start + 10 * SLOWEST;
        for (end, complete) in [(JobEnd::Complete, true), (JobEnd::Failed, false)] {
            jobs.answered("u", end, start);
            let fact = JobFact { complete: Some(complete), query: None, ask_at: None };
            assert_eq!(jobs.fact(&pod, &job, later), fact);
            assert!(!jobs.pod_succeeded("u", later), "it has ended");
        }
    }
}
