//! Reads the Jobs that decide whether failed pods are problems, several at a time.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use kube::Client;
use tokio::time::Instant;

use crate::{
    diagnosis::JobFacts,
    jobs::{JobKey, JobReading, read},
};

/// Concurrent reads.
const CONCURRENCY: usize = 8;
/// When a Job is read again after an error.
const RETRY: Duration = Duration::from_secs(5);
/// When a run of a CronJob that has failed is read again, because a later one may have succeeded.
const LATER_RUN: Duration = Duration::from_secs(60);

/// Unlike the last note, the first two stay true.
pub(super) const DENIED: &str = "you may not read Jobs: failed pods are reported even if a retry has completed the Job";
pub(super) const CRON_JOBS_DENIED: &str =
    "you may not read CronJobs: failed runs are reported even if a later one has succeeded";
pub(super) const FAILED: &str = "cannot read Jobs: their failed pods are judged as soon as that works";

type Read = Box<dyn Fn(JobKey) -> BoxFuture<'static, (JobKey, JobReading)>>;

pub(super) struct Jobs {
    read: Read,
    /// After what time a Job that has not ended is read again.
    read_again: Duration,
    known: HashMap<JobKey, JobReading>,
    /// When each may be read again. Absent while it is being read.
    next: HashMap<JobKey, Instant>,
    waiting: VecDeque<JobKey>,
    reading: HashSet<JobKey>,
    reads: FuturesUnordered<BoxFuture<'static, (JobKey, JobReading)>>,
    noted: HashSet<&'static str>,
}

impl Jobs {
    /// Jobs that are read within `limit` each, and read again after `read_again` until they have ended.
    pub(super) fn new(client: Client, limit: Duration, read_again: Duration) -> Self {
        let read_one = move |job: JobKey| {
            let client = client.clone();
            async move {
                let reading = read(&client, &job, limit).await;
                (job, reading)
            }
        };
        Self::read_by(Box::new(move |job| read_one(job).boxed()), read_again)
    }

    fn read_by(read: Read, read_again: Duration) -> Self {
        Self {
            read,
            read_again,
            known: HashMap::new(),
            next: HashMap::new(),
            waiting: VecDeque::new(),
            reading: HashSet::new(),
            reads: FuturesUnordered::new(),
            noted: HashSet::new(),
        }
    }

    /// What a Job says, if it was read: nothing if it is gone or may not be read.
    pub(super) fn facts(&self, job: &JobKey) -> Option<Arc<JobFacts>> {
        self.known.get(job).map(JobReading::facts)
    }

    /// The Jobs that were read, and those that are gone.
    pub(super) fn answered(&self) -> impl Iterator<Item = (&JobKey, Arc<JobFacts>)> {
        let is_answer = |reading: &JobReading| !matches!(reading, JobReading::Denied(_) | JobReading::Unavailable);
        self.known.iter().filter(move |(_, reading)| is_answer(reading)).map(|(job, reading)| (job, reading.facts()))
    }

    /// Reads those of the needed Jobs that are not known, or may have changed, and forgets all others.
    pub(super) fn read(&mut self, needed: HashSet<JobKey>, now: Instant) {
        self.known.retain(|job, _| needed.contains(job));
        self.next.retain(|job, _| needed.contains(job));
        let is_due = |job: &JobKey| {
            let is_waiting = self.next.get(job).is_some_and(|next| now < *next);
            !is_waiting && !self.reading.contains(job) && !self.is_final(job)
        };
        let due = needed.into_iter().filter(is_due);
        let (again, first): (Vec<_>, Vec<_>) = due.partition(|job| self.known.contains_key(job));
        self.waiting = first.into_iter().chain(again).collect();
        self.start();
    }

    /// Whether reads are under way.
    pub(super) fn is_reading(&self) -> bool {
        !self.reads.is_empty()
    }

    fn is_final(&self, job: &JobKey) -> bool {
        self.known.get(job).is_some_and(JobReading::is_final)
    }

    fn start(&mut self) {
        while self.reads.len() < CONCURRENCY
            && let Some(job) = self.waiting.pop_front()
        {
            self.next.remove(&job);
            self.reading.insert(job.clone());
            self.reads.push((self.read)(job));
        }
    }

    /// Waits for the next result, forever if no read is under way. Returns the note to print, if any.
    pub(super) async fn next(&mut self) -> Option<&'static str> {
        let Some((job, reading)) = self.reads.next().await else { return std::future::pending().await };
        let is_known = self.known.contains_key(&job);
        let (pause, note) = match &reading {
            JobReading::Unavailable => (RETRY, Some(FAILED).filter(|_| !is_known)),
            JobReading::Denied(_) => (self.read_again, Some(DENIED)),
            JobReading::Gone => (self.read_again, None),
            JobReading::Read { facts, denial, .. } => {
                let pause = if facts.failed.is_some() { LATER_RUN } else { self.read_again };
                (pause, Some(CRON_JOBS_DENIED).filter(|_| !denial.is_empty()))
            }
        };
        self.reading.remove(&job);
        self.next.insert(job.clone(), Instant::now() + pause);
        // After an error, what was known stays valid.
        if reading != JobReading::Unavailable {
            self.known.insert(job, reading);
        }
        self.start();
        note.filter(|note| self.noted.insert(note))
    }

    /// When a Job is to be read again.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let next = self.next.iter().filter(|(job, _)| !self.is_final(job)).map(|(_, next)| *next).min();
        next.map(|next| next.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: usize) -> JobKey {
        JobKey { namespace: "shop".to_owned(), name: format!("sums-{index}"), uid: format!("{index}") }
    }

    fn needed(count: usize) -> HashSet<JobKey> {
        (0..count).map(key).collect()
    }

    const READ_AGAIN: Duration = Duration::from_secs(15);

    fn read_job(facts: JobFacts) -> JobReading {
        JobReading::Read { facts: Arc::new(facts), denial: String::new(), is_orphan: false }
    }

    fn jobs(answer: fn(&str) -> JobReading) -> Jobs {
        Jobs::read_by(
            Box::new(move |job| {
                let reading = answer(&job.uid);
                async move { (job, reading) }.boxed()
            }),
            READ_AGAIN,
        )
    }

    /// The notes about all answers that arrive without a pause.
    fn answers(jobs: &mut Jobs) -> Vec<&'static str> {
        std::iter::from_fn(|| jobs.next().now_or_never()).flatten().collect()
    }

    #[tokio::test]
    async fn reads_all_jobs_without_a_pause_and_forgets_what_is_not_needed() {
        let mut jobs = jobs(|_| read_job(JobFacts { complete: true, ..JobFacts::default() }));
        jobs.read(needed(30), Instant::now());
        assert_eq!(jobs.reads.len(), CONCURRENCY);
        assert_eq!(answers(&mut jobs), [""; 0]);
        assert_eq!((jobs.known.len(), jobs.due(Instant::now())), (30, None));
        jobs.read(needed(1), Instant::now());
        assert_eq!((jobs.known.len(), jobs.next.len(), jobs.reads.len()), (1, 1, 0));
    }

    #[tokio::test]
    async fn notes_once_that_jobs_may_not_be_read() {
        let mut jobs = jobs(|_| JobReading::Denied("no".to_owned()));
        jobs.read(needed(20), Instant::now());
        assert_eq!(answers(&mut jobs), [DENIED]);
        assert!(needed(20).iter().all(|job| jobs.facts(job) == Some(Arc::default())));
        assert_eq!(jobs.answered().count(), 0);
        // They are read again in case they may be read later.
        assert!(jobs.due(Instant::now()).is_some());
        jobs.read(needed(20), Instant::now() + READ_AGAIN);
        assert_eq!((jobs.reads.len(), answers(&mut jobs)), (CONCURRENCY, Vec::new()));
    }

    #[tokio::test]
    async fn reads_a_failed_run_again_in_case_a_later_one_succeeds() {
        let mut jobs = jobs(|uid| {
            let cron_job = (uid == "0").then(|| "nightly".to_owned());
            read_job(JobFacts { failed: Some(jiff::Timestamp::UNIX_EPOCH), cron_job, ..JobFacts::default() })
        });
        jobs.read(needed(2), Instant::now());
        assert_eq!((answers(&mut jobs).len(), jobs.is_final(&key(0)), jobs.is_final(&key(1))), (0, false, true));
        jobs.read(needed(2), Instant::now() + READ_AGAIN);
        assert!(!jobs.is_reading());
        jobs.read(needed(2), Instant::now() + LATER_RUN);
        assert_eq!(jobs.reads.len(), 1);
    }

    #[tokio::test]
    async fn keeps_what_is_known_after_an_error() {
        let mut jobs = jobs(|_| JobReading::Unavailable);
        jobs.known.insert(key(0), read_job(JobFacts::default()));
        jobs.read(needed(1), Instant::now());
        assert_eq!((answers(&mut jobs), jobs.known.len()), (Vec::new(), 1));
    }

    #[tokio::test]
    async fn retries_after_an_error() {
        let mut jobs = jobs(|uid| if uid == "0" { JobReading::Unavailable } else { JobReading::Gone });
        jobs.read(needed(2), Instant::now());
        assert_eq!(answers(&mut jobs), [FAILED]);
        assert_eq!(jobs.known.keys().collect::<Vec<_>>(), [&key(1)]);
        jobs.read(needed(2), Instant::now());
        assert!(jobs.reads.is_empty());
        jobs.read(needed(2), Instant::now() + RETRY);
        assert_eq!((jobs.reads.len(), jobs.reading.contains(&key(0))), (1, true));
    }
}
