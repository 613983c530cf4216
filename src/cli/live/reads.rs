//! Reads what no watch shows, several at a time: the Jobs of failed pods, the revisions whose pods are OOM-killed, what
//! shows why no node takes a pod, and the earlier events of namespaces.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use kube::Client;
use tokio::time::{Instant, timeout};

use crate::{
    diagnosis::PortHolders,
    events::{NamespaceEvents, list_kills, list_namespace_events},
    jobs::{self, JobKey, JobReading},
    placement::{self, FRESH, PlacementKey, PlacementReading},
    pods::pods,
    revisions::{self, RevisionKey, RevisionReading},
    watch::collection::PAGE_SIZE,
};

/// Concurrent reads, and how many of them list events: those take longer, and must not delay the Jobs.
const CONCURRENCY: usize = 8;
const EVENT_LISTS: usize = 4;
/// How many of a namespace's pods are listed to find who uses a port, and how long that may take.
const PODS: usize = 5000;
const TIMEOUT: Duration = Duration::from_secs(30);
/// When something is read again after an error.
const RETRY: Duration = Duration::from_secs(5);
/// When a run of a CronJob that has failed is read again, because a later one may have succeeded.
const LATER_RUN: Duration = Duration::from_secs(60);
/// When the events of a namespace that could not be listed are listed again.
const EVENTS_AGAIN: Duration = Duration::from_secs(15);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Question {
    Job(JobKey),
    Revision(RevisionKey),
    Placement(PlacementKey),
    /// The earlier Warning events of a namespace. They are listed once.
    Events(String),
    /// The events about kills in a namespace, which are no Warnings. They are listed once.
    Kills(String),
    /// The pods of a namespace that use ports of their nodes.
    PortHolders(String),
}

pub(super) enum Answer {
    Job(JobReading),
    Revision(RevisionReading),
    Placement(PlacementReading),
    Events(kube::Result<NamespaceEvents>),
    /// Absent if the pods may not or cannot be listed.
    PortHolders(Option<PortHolders>),
}

/// What could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::cli) enum Note {
    JobsDenied,
    CronJobsDenied,
    /// Unlike the others, this may soon be over.
    JobsFailed,
    EventsDenied,
    EventsFailed,
    EventsCut,
}

impl Note {
    pub(in crate::cli) const fn as_str(self) -> &'static str {
        match self {
            Self::JobsDenied => "you may not read Jobs: failed pods are reported even if a retry has completed the Job",
            Self::CronJobsDenied => {
                "you may not read CronJobs: failed runs are reported even if a later one has succeeded"
            }
            Self::JobsFailed => "cannot read Jobs: their failed pods are judged as soon as that works",
            Self::EventsDenied => "you may not read events: causes that only events prove are missing",
            Self::EventsFailed => "cannot list events yet: causes that only earlier events prove are missing",
            Self::EventsCut => {
                "a namespace has too many Warning events to read all: causes that only the others prove are missing"
            }
        }
    }
}

type Read = Box<dyn Fn(Question) -> BoxFuture<'static, (Question, Answer)> + Send>;

pub(super) struct Reads {
    read: Read,
    /// After what time a Job that has not ended is read again.
    read_again: Duration,
    /// When each may be read again. Absent while it is being read.
    next: HashMap<Question, Instant>,
    waiting: VecDeque<Question>,
    reading: HashSet<Question>,
    reads: FuturesUnordered<BoxFuture<'static, (Question, Answer)>>,
    /// The lists of events that were read, and what is missing of them.
    listed: HashMap<Question, Option<Note>>,
    noted: HashSet<Note>,
}

impl Reads {
    pub(super) fn new(client: Client, limit: Duration, read_again: Duration) -> Self {
        let read = move |question: Question| {
            let client = client.clone();
            async move {
                let answer = match &question {
                    Question::Job(job) => Answer::Job(jobs::read(&client, job, limit).await),
                    Question::Revision(key) => Answer::Revision(revisions::read(&client, key).await),
                    Question::Placement(key) => Answer::Placement(placement::read(&client, key).await),
                    Question::Events(namespace) => Answer::Events(list_namespace_events(&client, namespace).await),
                    Question::PortHolders(namespace) => Answer::PortHolders(port_holders(&client, namespace).await),
                    Question::Kills(namespace) => Answer::Events(list_kills(&client, namespace).await),
                };
                (question, answer)
            }
            .boxed()
        };
        Self::by(Box::new(read), read_again)
    }

    pub(super) fn by(read: Read, read_again: Duration) -> Self {
        Self {
            read,
            read_again,
            next: HashMap::new(),
            waiting: VecDeque::new(),
            reading: HashSet::new(),
            reads: FuturesUnordered::new(),
            listed: HashMap::new(),
            noted: HashSet::new(),
        }
    }

    /// Starts those of these reads that are due, in this order, and forgets all that are not needed any more.
    pub(super) fn start(&mut self, mut needed: Vec<Question>, now: Instant) {
        let known: HashSet<&Question> = needed.iter().collect();
        self.next.retain(|question, _| known.contains(question));
        let is_failed = |missing: &Option<Note>| *missing == Some(Note::EventsFailed);
        self.listed.retain(|list, missing| !is_failed(missing) || known.contains(list));
        let is_over = |list: &Question| self.listed.get(list).is_some_and(|missing| !is_failed(missing));
        needed.retain(|question| !is_over(question));
        needed.retain(|question| {
            let is_waiting = self.next.get(question).is_some_and(|next| now < *next);
            !is_waiting && !self.reading.contains(question)
        });
        self.waiting = needed.into();
        // They start when others have ended. If they counted as due until then, the caller would wait for nothing.
        for question in &self.waiting {
            self.next.remove(question);
        }
        self.fill();
    }

    /// Gives up all reads, and starts these.
    pub(super) fn start_only(&mut self, needed: VecDeque<Question>) {
        self.reads.clear();
        self.reading.clear();
        self.waiting = needed;
        self.fill();
    }

    fn fill(&mut self) {
        while self.reads.len() < CONCURRENCY {
            let is_list = |question: &Question| matches!(question, Question::Events(_) | Question::Kills(_));
            let lists = self.reading.iter().filter(|question| is_list(question)).count();
            let may_start = |question: &Question| lists < EVENT_LISTS || !is_list(question);
            let next = self.waiting.iter().position(may_start).and_then(|index| self.waiting.remove(index));
            let Some(question) = next else { return };
            self.reading.insert(question.clone());
            self.reads.push((self.read)(question));
        }
    }

    pub(super) fn is_reading(&self) -> bool {
        !self.reads.is_empty()
    }

    /// The next answer. Waits forever if no read is under way.
    pub(super) async fn next(&mut self) -> (Question, Answer) {
        let Some((question, answer)) = self.reads.next().await else { return std::future::pending().await };
        self.reading.remove(&question);
        let pause = match &answer {
            Answer::Job(JobReading::Unavailable) | Answer::Revision(RevisionReading::Unavailable) => Some(RETRY),
            Answer::Revision(_) => None,
            Answer::Placement(PlacementReading::Unavailable) => Some(RETRY),
            Answer::Placement(_) => Some(FRESH),
            Answer::Job(reading) if reading.is_final() => None,
            Answer::Job(JobReading::Read { facts, .. }) if facts.failed.is_some() => Some(LATER_RUN),
            Answer::Job(_) => Some(self.read_again),
            Answer::Events(Err(error)) if !is_denied(error) => Some(EVENTS_AGAIN),
            Answer::PortHolders(_) => Some(EVENTS_AGAIN),
            Answer::Events(_) => None,
        };
        if let Some(pause) = pause {
            self.next.insert(question.clone(), Instant::now() + pause);
        }
        if let Answer::Events(result) = &answer {
            self.listed.insert(question.clone(), missing(result));
        }
        self.fill();
        (question, answer)
    }

    /// The note about an answer, once. `is_known` is whether an earlier answer remains valid.
    pub(super) fn note_about(&mut self, answer: &Answer, is_known: bool) -> Option<Note> {
        let note = match answer {
            Answer::Job(JobReading::Unavailable) if is_known => None,
            Answer::Job(JobReading::Unavailable) => Some(Note::JobsFailed),
            Answer::Job(JobReading::Denied(_)) => Some(Note::JobsDenied),
            Answer::Job(reading) if !reading.denial().is_empty() => Some(Note::CronJobsDenied),
            Answer::Job(_) | Answer::PortHolders(_) | Answer::Revision(_) | Answer::Placement(_) => None,
            Answer::Events(result) => missing(result),
        };
        self.note(note?)
    }

    /// Returns the note the first time.
    pub(super) fn note(&mut self, note: Note) -> Option<Note> {
        self.noted.insert(note).then_some(note)
    }

    /// When something is to be read again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next.values().copied().min()
    }

    /// Whether the events of a namespace were listed, if perhaps not all of them.
    pub(super) fn has_listed(&self, namespace: &str) -> bool {
        let listed = self.listed.get(&Question::Events(namespace.to_owned()));
        matches!(listed, Some(None | Some(Note::EventsCut)))
    }

    /// What is missing of the events that were asked for, if anything is.
    pub(super) fn missing_events(&self) -> Option<Note> {
        self.listed.values().copied().flatten().next()
    }
}

/// The pods of a namespace that use ports of their nodes. Of more pods than are read, the others are not named.
async fn port_holders(client: &Client, namespace: &str) -> Option<PortHolders> {
    let mut holders = PortHolders::default();
    let pods = pods(client.clone(), Some(namespace), PAGE_SIZE);
    let list = pods.for_each(PODS, |own| own.pod.iter().for_each(|pod| holders.see(pod)));
    timeout(TIMEOUT, list).await.ok()?.ok()?;
    Some(holders)
}

/// What is missing of the events of a namespace.
fn missing(result: &kube::Result<NamespaceEvents>) -> Option<Note> {
    match result {
        Ok(listed) => (!listed.is_complete).then_some(Note::EventsCut),
        Err(error) if is_denied(error) => Some(Note::EventsDenied),
        Err(_) => Some(Note::EventsFailed),
    }
}

fn is_denied(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_forbidden())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::diagnosis::JobFacts;

    const READ_AGAIN: Duration = Duration::from_secs(15);

    fn job(index: usize) -> Question {
        Question::Job(JobKey { namespace: "shop".to_owned(), name: format!("sums-{index}"), uid: format!("{index}") })
    }

    fn reads(answer: fn(&Question) -> Answer) -> Reads {
        let read = move |question: Question| {
            let answer = answer(&question);
            async move { (question, answer) }.boxed()
        };
        Reads::by(Box::new(read), READ_AGAIN)
    }

    fn read_job(facts: JobFacts) -> Answer {
        Answer::Job(JobReading::Read { facts: Arc::new(facts), denial: String::new(), is_orphan: false })
    }

    /// How many answers arrive without a pause, and the notes about them.
    fn answers(reads: &mut Reads) -> (usize, Vec<Note>) {
        let (mut count, mut notes) = (0, Vec::new());
        while let Some((_, answer)) = reads.next().now_or_never() {
            count += 1;
            notes.extend(reads.note_about(&answer, false));
        }
        (count, notes)
    }

    #[tokio::test]
    async fn reads_all_without_a_pause_and_notes_denials_once() {
        let mut reads = reads(|_| Answer::Job(JobReading::Denied("no".to_owned())));
        let (now, needed) = (Instant::now(), || (0..30).map(job).collect::<Vec<_>>());
        reads.start(needed(), now);
        assert_eq!(reads.reads.len(), CONCURRENCY);
        assert_eq!(answers(&mut reads), (30, vec![Note::JobsDenied]));
        // They are read again in case they may be read later.
        reads.start(needed(), now + READ_AGAIN / 2);
        assert!(!reads.is_reading() && reads.due().is_some());
        reads.start(needed(), now + 2 * READ_AGAIN);
        assert_eq!(reads.due(), None, "those that wait for others are not due");
        assert_eq!(answers(&mut reads), (30, vec![]));
        reads.start(Vec::new(), now);
        assert_eq!(reads.due(), None, "what is not needed is forgotten");
    }

    #[tokio::test]
    async fn lists_of_events_do_not_delay_jobs() {
        let mut reads = reads(|_| Answer::Job(JobReading::Gone));
        let lists = (0..20).map(|index| Question::Events(format!("team-{index}")));
        reads.start(lists.chain([job(0)]).collect(), Instant::now());
        assert_eq!((reads.reads.len(), reads.reading.contains(&job(0))), (EVENT_LISTS + 1, true));
    }

    #[tokio::test]
    async fn reads_again_what_may_change() {
        let failed = |is_run: bool| JobFacts {
            failed: Some(jiff::Timestamp::UNIX_EPOCH),
            cron_job: is_run.then(|| "nightly".to_owned()),
            ..JobFacts::default()
        };
        for (index, answer, again) in [
            (0, read_job(failed(true)), Some(LATER_RUN)),
            (1, read_job(failed(false)), None),
            (2, read_job(JobFacts::default()), Some(READ_AGAIN)),
            (3, Answer::Job(JobReading::Unavailable), Some(RETRY)),
        ] {
            let mut reads = reads(|_| Answer::Job(JobReading::Gone));
            let answer = std::cell::Cell::new(Some(answer));
            reads.reads.push(async move { (job(0), answer.take().unwrap()) }.boxed());
            let before = Instant::now();
            assert_eq!(answers(&mut reads).0, 1);
            let due = reads.due().map(|due| (due - before).as_secs());
            assert_eq!(due, again.map(|again| again.as_secs()), "{index}");
        }
    }

    #[tokio::test]
    async fn lists_events_once_and_again_after_an_error() {
        let ask = || vec![Question::Events("shop".to_owned())];
        let denied = || {
            let status = kube::core::Status::failure("no", "Forbidden").with_code(403);
            kube::Error::Api(status.boxed())
        };
        let failed = || kube::Error::ReadEvents(std::io::ErrorKind::TimedOut.into());
        let listed = |is_complete| Ok(NamespaceEvents { events: Vec::new(), is_complete });
        for (result, missing, again) in [
            (listed(true), None, false),
            (listed(false), Some(Note::EventsCut), false),
            (Err(denied()), Some(Note::EventsDenied), false),
            (Err(failed()), Some(Note::EventsFailed), true),
        ] {
            let mut reads = reads(|_| Answer::Events(Ok(NamespaceEvents { events: Vec::new(), is_complete: true })));
            reads.reads.push(async move { (Question::Events("shop".to_owned()), Answer::Events(result)) }.boxed());
            assert_eq!(answers(&mut reads), (1, missing.into_iter().collect()));
            let has_listed = matches!(missing, None | Some(Note::EventsCut));
            assert_eq!((reads.missing_events(), reads.has_listed("shop")), (missing, has_listed));
            reads.start(ask(), Instant::now());
            assert!(!reads.is_reading(), "{missing:?}");
            reads.start(ask(), Instant::now() + 2 * EVENTS_AGAIN);
            assert_eq!(reads.is_reading(), again, "{missing:?}");
            assert_eq!(answers(&mut reads), (usize::from(again), Vec::new()));
            assert_eq!(reads.missing_events(), missing.filter(|_| !again), "{missing:?}");
        }
    }
}
