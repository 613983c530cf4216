//! What the Jobs of broken pods show: whether the work succeeded after all, and which CronJob owns it. A Job is read
//! when one of its pods has a problem, and again only while the answer may change.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

use crate::{
    diagnosis::JobFacts,
    pods::{Controller, Pod},
};

/// How long one read may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How soon a Job is read again after one of its pods ended; twice as long after each further read, up to [`SLOWEST`].
const SOONEST: Duration = Duration::from_secs(1);
/// How soon a Job is read again if nothing suggests that it has changed.
const USUAL: Duration = Duration::from_secs(60);
const SLOWEST: Duration = Duration::from_secs(15 * 60);
/// The longest time until a Job is read again that could not be read even once: a status may wait for it.
const UNREAD: Duration = Duration::from_secs(15);
/// The longest refusal that is kept, in bytes.
const REFUSAL_LIMIT: usize = 512;

/// What is known of Jobs.
#[derive(Debug, Default)]
pub struct Jobs {
    known: HashMap<JobKey, State>,
}

/// A Job as an owner reference names it. All of it: what one pod claims of its owner must say nothing of another pod's.
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
    /// Absent until it was read, or is known not to be readable.
    reading: Option<JobReading>,
    /// Whether the Job is gone since it was read.
    gone: bool,
    asked: bool,
    asked_since: Instant,
    ask_at: Instant,
    delay: Duration,
}

/// What reading a Job has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobReading {
    /// What matters of it.
    Read {
        /// The facts.
        facts: Arc<JobFacts>,
        /// Why its CronJob could not be read, in the API server's words; empty if it could, or if there was no need.
        refusal: String,
    },
    /// It is gone, or another object has its name. That is final.
    Gone,
    /// The right to get Jobs is missing; in the API server's words.
    Refused(String),
    /// It could not be read now.
    Unavailable,
}

/// What is known of one Job.
#[derive(Debug, PartialEq, Eq)]
pub struct JobAnswer {
    /// The facts; absent until it was read once, and problems of its pods can't be reported.
    pub facts: Option<Arc<JobFacts>>,
    /// When it was first asked for.
    pub asked_since: Instant,
    /// What could not be read for want of a right; empty if nothing.
    pub refusal: String,
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

impl JobReading {
    /// Whether reading it again would show the same.
    fn is_final(&self) -> bool {
        match self {
            Self::Read { facts, .. } => {
                facts.complete || facts.superseded || facts.failed.is_some() && facts.cron_job.is_none()
            }
            Self::Gone => true,
            Self::Refused(_) | Self::Unavailable => false,
        }
    }

    fn facts(&self) -> Arc<JobFacts> {
        match self {
            Self::Read { facts, .. } => Arc::clone(facts),
            Self::Gone | Self::Refused(_) | Self::Unavailable => Arc::default(),
        }
    }

    fn refusal(&self) -> &str {
        match self {
            Self::Read { refusal, .. } | Self::Refused(refusal) => refusal,
            Self::Gone | Self::Unavailable => "",
        }
    }
}

impl Jobs {
    /// What is known of the Job that controls a pod with a problem.
    pub fn ask(&mut self, key: JobKey, now: Instant) -> JobAnswer {
        let state = self.known.entry(key.clone()).or_insert(State {
            reading: None,
            gone: false,
            asked: false,
            asked_since: now,
            ask_at: now,
            delay: SOONEST,
        });
        let open = !state.gone && !state.reading.as_ref().is_some_and(JobReading::is_final) && !state.asked;
        let due = open && state.ask_at <= now;
        state.asked |= due;
        JobAnswer {
            facts: state.reading.as_ref().map(JobReading::facts),
            asked_since: state.asked_since,
            refusal: state.reading.as_ref().map(JobReading::refusal).unwrap_or_default().to_owned(),
            query: due.then_some(key),
            ask_at: (open && !due).then_some(state.ask_at),
        }
    }

    /// What a read has shown. Returns whether that changes what is known, or when to ask again.
    pub fn answered(&mut self, key: &JobKey, reading: JobReading, now: Instant) -> bool {
        let Some(state) = self.known.get_mut(key) else { return false };
        state.asked = false;
        if state.reading.is_none() {
            if reading == JobReading::Unavailable {
                state.ask_at = now + state.delay;
                state.delay = (2 * state.delay).min(UNREAD);
                return true;
            }
            state.delay = USUAL;
        }
        state.ask_at = now + state.delay;
        state.delay = (2 * state.delay).min(SLOWEST);
        // What was read before still says more than that it can't be read now: a Job never changes its owner, nor does
        // it become incomplete.
        let reading = match (&state.reading, reading) {
            (_, JobReading::Unavailable) => return false,
            (Some(JobReading::Read { facts, .. }), JobReading::Refused(refusal)) => {
                JobReading::Read { facts: Arc::clone(facts), refusal }
            }
            (Some(JobReading::Read { .. }), JobReading::Gone) => {
                state.gone = true;
                return false;
            }
            (_, reading) => reading,
        };
        let changes = state.reading.as_ref() != Some(&reading);
        state.reading = Some(reading);
        changes
    }

    /// A pod of this Job ended, which may end the Job, or a run of a CronJob: the controllers say so a moment later.
    /// Returns the Jobs that are worth another look.
    pub fn pod_ended(&mut self, key: &JobKey, now: Instant) -> Vec<JobKey> {
        let mut worth_it = Vec::new();
        for (known, state) in &mut self.known {
            let Some(reading) = state.reading.as_ref().filter(|reading| !reading.is_final()) else { continue };
            let is_other_run = || {
                let cron_job = reading.facts().cron_job.clone().unwrap_or_default();
                let rest = key.name.strip_prefix(&cron_job).filter(|_| !cron_job.is_empty());
                known.namespace == key.namespace && rest.is_some_and(|rest| rest.starts_with('-'))
            };
            if known == key || is_other_run() {
                state.delay = SOONEST;
                state.ask_at = now;
                worth_it.push(known.clone());
            }
        }
        worth_it
    }

    /// Forgets Jobs without a pod that may have a problem.
    pub fn retain(&mut self, is_needed: impl Fn(&JobKey) -> bool) {
        self.known.retain(|key, state| state.asked || is_needed(key));
    }
}

/// Reads a Job, and the CronJob of one that failed.
pub async fn read(client: &Client, query: &JobKey) -> JobReading {
    let api: Api<Job> = Api::namespaced(client.clone(), &query.namespace);
    let job = match timeout(TIMEOUT, api.get(&query.name)).await {
        Ok(Ok(job)) if job.metadata.uid.as_deref() == Some(&query.uid) => job,
        Ok(Ok(_)) => return JobReading::Gone,
        Ok(Err(error)) => return unread(error),
        Err(_) => return JobReading::Unavailable,
    };
    let mut facts = JobFacts::of(&job);
    let mut refusal = String::new();
    if let (Some(name), Some(failed_at)) = (&facts.cron_job, facts.failed) {
        let api: Api<CronJob> = Api::namespaced(client.clone(), &query.namespace);
        match timeout(TIMEOUT, api.get(name)).await {
            Ok(Ok(cron_job)) if JobFacts::belongs_to(&job, &cron_job) => {
                let succeeded = cron_job.status.and_then(|status| status.last_successful_time);
                facts.superseded = succeeded.is_some_and(|succeeded| succeeded.0 > failed_at);
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => match unread(error) {
                JobReading::Refused(message) => refusal = message,
                JobReading::Unavailable => return JobReading::Unavailable,
                JobReading::Gone | JobReading::Read { .. } => {}
            },
            Err(_) => return JobReading::Unavailable,
        }
    }
    JobReading::Read { facts: Arc::new(facts), refusal }
}

fn unread(error: kube::Error) -> JobReading {
    match error {
        kube::Error::Api(status) if status.is_not_found() => JobReading::Gone,
        kube::Error::Api(status) if status.is_forbidden() => {
            JobReading::Refused(status.message[..status.message.floor_char_boundary(REFUSAL_LIMIT)].to_owned())
        }
        _ => JobReading::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn key(name: &str) -> JobKey {
        JobKey { namespace: "shop".to_owned(), name: name.to_owned(), uid: "u".to_owned() }
    }

    fn read(facts: JobFacts) -> JobReading {
        JobReading::Read { facts: Arc::new(facts), refusal: String::new() }
    }

    #[test]
    fn a_job_is_read_once_and_again_only_while_it_may_change() {
        let mut jobs = Jobs::default();
        let start = Instant::now();

        let answer = jobs.ask(key("u"), start);
        assert_eq!((answer.facts, answer.query), (None, Some(key("u"))));
        let under_way = jobs.ask(key("u"), start);
        assert_eq!((under_way.facts, under_way.query, under_way.ask_at), (None, None, None));

        assert!(jobs.answered(&key("u"), read(JobFacts::default()), start));
        let answer = jobs.ask(key("u"), start);
        assert_eq!((answer.facts, answer.query, answer.ask_at), (Some(Arc::default()), None, Some(start + USUAL)));

        assert_eq!(jobs.pod_ended(&key("u"), start), [key("u")]);
        assert!(jobs.ask(key("u"), start).query.is_some());
        assert!(!jobs.answered(&key("u"), read(JobFacts::default()), start), "nothing new");
        assert_eq!(jobs.ask(key("u"), start).ask_at, Some(start + SOONEST));
        assert!(jobs.ask(key("u"), start + SOONEST).query.is_some());
        jobs.retain(|_| false);
        assert_eq!(jobs.known.len(), 1, "an answer is awaited");

        let later = start + 10 * SLOWEST;
        for end in [
            read(JobFacts { complete: true, ..JobFacts::default() }),
            read(JobFacts { failed: Some(Timestamp::UNIX_EPOCH), ..JobFacts::default() }),
            read(JobFacts {
                superseded: true,
                failed: Some(Timestamp::UNIX_EPOCH),
                cron_job: Some("c".into()),
                ..JobFacts::default()
            }),
            JobReading::Gone,
        ] {
            jobs.answered(&key("u"), end.clone(), start);
            let answer = jobs.ask(key("u"), later);
            assert_eq!((answer.query, answer.ask_at), (None, None), "{end:?}");
            assert!(jobs.pod_ended(&key("u"), later).is_empty(), "{end:?}");
            jobs.known.get_mut(&key("u")).unwrap().reading = None;
        }
    }

    #[test]
    fn a_job_that_cannot_be_read_is_asked_for_less_and_less() {
        for (reading, most) in [(JobReading::Refused("no".to_owned()), 8), (JobReading::Unavailable, 250)] {
            let mut jobs = Jobs::default();
            let mut now = Instant::now();
            let mut asked = 0;
            for _ in 0..3600 {
                if jobs.ask(key("u"), now).query.is_some() {
                    asked += 1;
                    jobs.answered(&key("u"), reading.clone(), now);
                }
                now += Duration::from_secs(1);
            }
            assert!((2..=most).contains(&asked), "{asked} reads in an hour of {reading:?}");
        }
    }

    #[test]
    fn neither_an_outage_nor_a_lost_right_takes_back_what_was_read() {
        let mut jobs = Jobs::default();
        let now = Instant::now();
        jobs.ask(key("u"), now);
        let facts =
            JobFacts { failed: Some(Timestamp::UNIX_EPOCH), cron_job: Some("nightly".into()), ..JobFacts::default() };
        jobs.answered(&key("u"), read(facts.clone()), now);
        for lost in [JobReading::Unavailable, JobReading::Refused("no".to_owned()), JobReading::Gone] {
            jobs.answered(&key("u"), lost.clone(), now);
            assert_eq!(jobs.ask(key("u"), now).facts.as_deref(), Some(&facts), "{lost:?}");
        }
        assert_eq!(jobs.ask(key("u"), now).refusal, "no");

        jobs.ask(key("v"), now);
        jobs.answered(&key("v"), JobReading::Unavailable, now);
        let answer = jobs.ask(key("v"), now);
        assert_eq!(
            (answer.facts, answer.ask_at),
            (None, Some(now + SOONEST)),
            "nothing is known, and it is soon tried"
        );
    }

    #[test]
    fn the_end_of_another_run_of_the_cron_job_is_worth_another_look() {
        let mut jobs = Jobs::default();
        let now = Instant::now();
        jobs.ask(key("nightly-1"), now);
        let facts =
            JobFacts { failed: Some(Timestamp::UNIX_EPOCH), cron_job: Some("nightly".into()), ..JobFacts::default() };
        jobs.answered(&key("nightly-1"), read(facts), now);
        assert!(jobs.pod_ended(&key("nightly2-5"), now).is_empty(), "another CronJob's");
        assert!(jobs.pod_ended(&JobKey { namespace: "ml".into(), ..key("nightly-2") }, now).is_empty());
        assert_eq!(jobs.pod_ended(&key("nightly-2"), now), [key("nightly-1")]);
        assert!(jobs.ask(key("nightly-1"), now).query.is_some());
    }
}
