//! The Jobs that decide whether failed pods are problems.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use k8s_openapi::api::batch::v1::Job;
use kube::{Api, Client};
use tokio::time::{Instant, timeout};

use crate::diagnosis::JobFacts;

/// Concurrent reads.
const CONCURRENCY: usize = 8;
/// When a Job is read again after an error.
const RETRY: Duration = Duration::from_secs(5);

/// Unlike the other note, it stays true.
pub(super) const DENIED: &str = "you may not read Jobs: failed pods are reported even if a retry has completed the Job";
const FAILED: &str = "cannot read Jobs: their failed pods are judged as soon as that works";

/// What is known about a Job.
#[derive(Clone, Debug)]
pub(super) enum KnownJob {
    /// It does not exist or may not be read: its failed pods are problems.
    Unread,
    Read(Arc<JobFacts>),
}

/// A Job that a failed pod belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NeededJob {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The result of a read.
#[derive(Debug)]
enum Answer {
    Read(Box<JobFacts>),
    /// It does not exist, or another Job has its name.
    Gone,
    Denied,
    /// A timeout, or another error that may pass.
    Failed,
}

type Read = Box<dyn Fn(NeededJob) -> BoxFuture<'static, Answer>>;

pub(super) struct Jobs {
    read: Read,
    /// After what time a Job that has not ended is read again.
    read_again: Duration,
    /// By UID.
    known: HashMap<String, KnownJob>,
    /// When each may be read again, by UID. Absent while it is being read.
    next: HashMap<String, Instant>,
    waiting: VecDeque<NeededJob>,
    reading: HashSet<String>,
    reads: FuturesUnordered<BoxFuture<'static, (String, Answer)>>,
    is_denial_noted: bool,
    is_failure_noted: bool,
}

impl Jobs {
    /// Jobs that are read within `limit` each, and read again after `read_again` until they have ended.
    pub(super) fn new(client: Client, limit: Duration, read_again: Duration) -> Self {
        Self::read_by(Box::new(move |job| ask(client.clone(), limit, job).boxed()), read_again)
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
            is_denial_noted: false,
            is_failure_noted: false,
        }
    }

    /// By UID.
    pub(super) fn known(&self) -> &HashMap<String, KnownJob> {
        &self.known
    }

    /// Reads those of the needed Jobs that are not known, or may have changed, and forgets all others.
    pub(super) fn read(&mut self, needed: Vec<NeededJob>, now: Instant) {
        // Many pods may need the same Job.
        let mut uids = HashSet::new();
        let needed: Vec<NeededJob> = needed.into_iter().filter(|job| uids.insert(job.uid.clone())).collect();
        self.known.retain(|uid, _| uids.contains(uid));
        self.next.retain(|uid, _| uids.contains(uid));
        let is_due = |job: &NeededJob| {
            let is_waiting = self.next.get(&job.uid).is_some_and(|next| now < *next);
            !is_waiting && !self.reading.contains(&job.uid) && !self.has_ended(&job.uid)
        };
        let due = needed.into_iter().filter(is_due);
        let (again, first): (Vec<_>, Vec<_>) = due.partition(|job| self.known.contains_key(&job.uid));
        self.waiting = first.into_iter().chain(again).collect();
        self.start();
    }

    /// Whether reads are under way.
    pub(super) fn is_reading(&self) -> bool {
        !self.reads.is_empty()
    }

    fn has_ended(&self, uid: &str) -> bool {
        matches!(self.known.get(uid), Some(KnownJob::Read(job)) if job.complete || job.failed.is_some())
    }

    fn start(&mut self) {
        while self.reads.len() < CONCURRENCY
            && let Some(job) = self.waiting.pop_front()
        {
            let uid = job.uid.clone();
            self.next.remove(&uid);
            self.reading.insert(uid.clone());
            self.reads.push((self.read)(job).map(|answer| (uid, answer)).boxed());
        }
    }

    /// Waits for the next result, forever if no read is under way. Returns the note to print, if any.
    pub(super) async fn next(&mut self) -> Option<&'static str> {
        let Some((uid, answer)) = self.reads.next().await else { return std::future::pending().await };
        let (pause, note) = match answer {
            Answer::Read(job) => {
                self.known.insert(uid.clone(), KnownJob::Read(Arc::new(*job)));
                (self.read_again, None)
            }
            Answer::Gone => {
                self.known.insert(uid.clone(), KnownJob::Unread);
                (self.read_again, None)
            }
            Answer::Denied => {
                self.known.insert(uid.clone(), KnownJob::Unread);
                let is_new = !std::mem::replace(&mut self.is_denial_noted, true);
                (self.read_again, is_new.then_some(DENIED))
            }
            // What was known of it stays valid.
            Answer::Failed => {
                let is_new = !self.known.contains_key(&uid) && !std::mem::replace(&mut self.is_failure_noted, true);
                (RETRY, is_new.then_some(FAILED))
            }
        };
        self.reading.remove(&uid);
        self.next.insert(uid, Instant::now() + pause);
        self.start();
        note
    }

    /// When a Job is to be read again.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        let next = self.next.iter().filter(|(uid, _)| !self.has_ended(uid)).map(|(_, next)| *next).min();
        next.map(|next| next.max(now))
    }
}

async fn ask(client: Client, limit: Duration, NeededJob { namespace, name, uid }: NeededJob) -> Answer {
    let jobs: Api<Job> = Api::namespaced(client, &namespace);
    match timeout(limit, jobs.get_opt(&name)).await {
        Ok(Ok(Some(job))) if job.metadata.uid.as_ref() == Some(&uid) => Answer::Read(Box::new(JobFacts::of(&job))),
        Ok(Ok(_)) => Answer::Gone,
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => Answer::Denied,
        Ok(Err(_)) | Err(_) => Answer::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(count: usize) -> Vec<NeededJob> {
        let job = |index: usize| NeededJob {
            namespace: "shop".to_owned(),
            name: format!("sums-{index}"),
            uid: format!("{index}"),
        };
        (0..count).map(job).collect()
    }

    const READ_AGAIN: Duration = Duration::from_secs(15);

    fn jobs(answer: fn(&str) -> Answer) -> Jobs {
        Jobs::read_by(Box::new(move |job| async move { answer(&job.uid) }.boxed()), READ_AGAIN)
    }

    /// The notes about all answers that arrive without a pause.
    fn answers(jobs: &mut Jobs) -> Vec<&'static str> {
        std::iter::from_fn(|| jobs.next().now_or_never()).flatten().collect()
    }

    #[tokio::test]
    async fn reads_all_jobs_without_a_pause_and_forgets_what_is_not_needed() {
        let mut jobs = jobs(|_| Answer::Read(Box::new(JobFacts { complete: true, ..JobFacts::default() })));
        let twice = [needed(30), needed(30)].concat();
        jobs.read(twice, Instant::now());
        assert_eq!(jobs.reads.len(), CONCURRENCY);
        assert_eq!(answers(&mut jobs), [""; 0]);
        assert_eq!((jobs.known.len(), jobs.due(Instant::now())), (30, None));
        // One that many pods need.
        let same = std::iter::repeat_with(|| needed(1)).take(40).flatten().collect();
        jobs.read(same, Instant::now());
        assert_eq!((jobs.known.len(), jobs.next.len(), jobs.reads.len()), (1, 1, 0));
    }

    #[tokio::test]
    async fn notes_once_that_jobs_may_not_be_read() {
        let mut jobs = jobs(|_| Answer::Denied);
        jobs.read(needed(20), Instant::now());
        assert_eq!(answers(&mut jobs), [DENIED]);
        assert!(jobs.known.len() == 20 && jobs.known.values().all(|job| matches!(job, KnownJob::Unread)));
        // They are read again in case they may be read later.
        assert!(jobs.due(Instant::now()).is_some());
        jobs.read(needed(20), Instant::now() + READ_AGAIN);
        assert_eq!((jobs.reads.len(), answers(&mut jobs)), (CONCURRENCY, Vec::new()));
    }

    #[tokio::test]
    async fn keeps_what_is_known_after_an_error() {
        let mut jobs = jobs(|_| Answer::Failed);
        jobs.known.insert("0".to_owned(), KnownJob::Read(Arc::default()));
        jobs.read(needed(1), Instant::now());
        assert_eq!((answers(&mut jobs), jobs.known.len()), (Vec::new(), 1));
    }

    #[tokio::test]
    async fn retries_after_an_error() {
        let mut jobs = jobs(|uid| if uid == "0" { Answer::Failed } else { Answer::Gone });
        jobs.read(needed(2), Instant::now());
        assert_eq!(answers(&mut jobs), [FAILED]);
        assert_eq!(jobs.known.keys().collect::<Vec<_>>(), ["1"]);
        jobs.read(needed(2), Instant::now());
        assert!(jobs.reads.is_empty());
        jobs.read(needed(2), Instant::now() + RETRY);
        assert_eq!((jobs.reads.len(), jobs.reading.contains("0")), (1, true));
    }
}
