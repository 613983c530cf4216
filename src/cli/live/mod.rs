//! The live view of a cluster that all commands share.
//!
//! [`ClusterView`] keeps the pods in an [`Index`], as the operator does, and what else verdicts about them depend on: the events,
//! and [what was read](crate::facts). `scan`, `scan -f`, `scan --watch`, `wait` and `explain` feed it from lists, watches and
//! files. [`Listing`] is the state of one list and watch, and [`Outage`] that of the API server.

mod listing;
mod requests;

use std::{cell::RefCell, collections::BTreeSet, time::Duration};

use futures::{FutureExt, Stream, StreamExt};
use jiff::Timestamp;
use kube::{Client, core::Status};
use tokio::time::Instant;

pub(super) use listing::{Listing, Outage, OutageNews, WatchState};
pub(super) use requests::Note;
use requests::Requests;

use crate::{
    diagnosis::{TemplateChanges, Thresholds, is_revision_label, owner_names, revision_hash},
    events::{Event, EventStore, WatchedEvent},
    facts::{Answer, Fact, JobFact, JobKey, Judge, Known, Limits, Question, Reads, RevisionFact, RevisionKey},
    index::{Index, ViewId},
    pods::{Pod, PodSelection, Uid},
};

use super::{
    Failure,
    api_error::{Grant, Permission, Target},
};

/// How much the pods that may have a problem may take, in bytes. Those beyond are counted.
const POD_BYTES: usize = 512 << 20;
/// How much the events that a command keeps may take, in bytes.
const EVENT_BYTES: usize = 32 << 20;
/// How many events about workloads are kept: those of the last pods that could not be created.
const REFUSALS: usize = 200;
/// The most updates that are applied before the next judgement.
const BATCH: usize = 1000;

/// What is known of a cluster.
pub(super) struct ClusterView {
    pub(super) index: Index,
    /// All pods of the index.
    pub(super) all: ViewId,
    events: EventStore,
    /// FailedCreate events, the most recent last.
    refusals: Vec<(u64, Event)>,
    reads: RefCell<Reads>,
    /// Whether the index lacks pods that may use a port.
    is_of_workload: bool,
    /// Absent if nothing else can be read.
    requests: Option<Requests>,
}

impl Default for ClusterView {
    fn default() -> Self {
        Self::new(Thresholds::default().restarted)
    }
}

impl ClusterView {
    /// A view without requests, for pods that are judged with this threshold.
    pub(super) fn new(restarted: Duration) -> Self {
        let mut index = Index::with_memory(restarted, POD_BYTES);
        let selection = PodSelection { namespaces: Vec::new(), exclude_namespaces: Vec::new(), labels: Vec::new() };
        Self {
            all: index.add_view(selection),
            index,
            events: EventStore::with_limit(EVENT_BYTES),
            refusals: Vec::new(),
            reads: RefCell::new(Reads::new(Limits::of_command(Duration::MAX))),
            is_of_workload: false,
            requests: None,
        }
    }

    /// A view that reads what verdicts depend on: each Job within `limit`, and again after `read_again` at the latest until it
    /// has ended.
    pub(super) fn of(client: Client, restarted: Duration, limit: Duration, read_again: Duration) -> Self {
        let (requests, reads) = (Requests::new(client, limit), Reads::new(Limits::of_command(read_again)));
        Self { requests: Some(requests), reads: RefCell::new(reads), ..Self::new(restarted) }
    }

    /// The same, if only the pods of a workload are shown: others may use a port that one of them requires.
    #[must_use]
    pub(super) fn of_workload(self) -> Self {
        Self { is_of_workload: true, ..self }
    }

    /// Keeps a pod, or its new version.
    pub(super) fn see_pod(&mut self, mut pod: Pod, now: Timestamp) {
        // No verdict depends on the others.
        pod.labels.retain(|(key, _)| is_revision_label(key));
        self.index.apply(Box::new(pod), now);
    }

    /// Keeps these pods.
    pub(super) fn see_pods<'p>(&mut self, pods: impl IntoIterator<Item = &'p Pod>, now: Timestamp) {
        pods.into_iter().for_each(|pod| self.see_pod(pod.clone(), now));
    }

    /// A pod is gone.
    pub(super) fn forget_pod(&mut self, uid: Uid) {
        self.index.remove(uid);
    }

    /// Keeps what a Job says about its pods.
    pub(super) fn show_job(&mut self, job: JobKey, fact: JobFact) {
        self.give(Question::Job(job), Fact::Job(fact));
    }

    /// Keeps what the pod template of the revision says that this pod belongs to. The pods of the workload must be known.
    pub(super) fn show_template(&mut self, pod: &Pod, template: TemplateChanges) {
        let (Some((kind, name)), Some(hash)) = (owner_names(pod), revision_hash(pod)) else { return };
        let before = self.index.healthy_before(&pod.namespace, kind, name, hash).map(|before| before.hash);
        if let Some(key) = RevisionKey::new(pod, hash, before) {
            self.give(Question::Revision(key), Fact::Revision(RevisionFact::Compared(template.into())));
        }
    }

    fn give(&mut self, question: Question, fact: Fact) {
        self.reads.get_mut().give(question, fact, Instant::now());
    }

    /// Keeps an event as evidence.
    pub(super) fn add_event(&mut self, watched: WatchedEvent) {
        let WatchedEvent { id, event: Some(event), .. } = watched else { return };
        if event.reason == "FailedCreate" && event.involved.kind != "Pod" {
            // What an event said before shows whether the refusals change.
            self.refusals.retain(|(known, earlier)| *known != id || earlier.text() != event.text());
            if self.refusals.len() >= REFUSALS {
                self.refusals.remove(0);
            }
            self.refusals.push((id, *event));
        } else {
            self.events.record(id, *event, Instant::now());
        }
    }

    /// The FailedCreate events about the object with this UID.
    pub(super) fn refusals(&self, uid: &str) -> Vec<Event> {
        self.refusals.iter().filter(|(_, event)| event.involved.uid == uid).map(|(_, event)| event.clone()).collect()
    }

    /// The world as far as it is known. A Job that is not known stays so.
    pub(super) fn as_known(&self) -> Known<'_> {
        self.world(false)
    }

    /// The world in which the Jobs that are not known are still to be read.
    pub(super) fn awaiting_jobs(&self) -> Known<'_> {
        self.world(true)
    }

    fn world(&self, reads_jobs: bool) -> Known<'_> {
        let judge = Judge::Command { reads_jobs, reads_port_holders: self.is_of_workload };
        Known::new(&self.index, self.all, &self.events, &self.reads, judge, Instant::now())
    }

    /// Starts the reads that verdicts have asked for, and those of the earlier events of these namespaces.
    pub(super) fn read<'n>(&mut self, namespaces: impl Iterator<Item = &'n str>, now: Instant) {
        let reads = self.reads.get_mut();
        namespaces.for_each(|namespace| _ = reads.ask(Question::Events(namespace.to_owned()), None, now));
        if let Some(requests) = &mut self.requests {
            requests.forget_unasked(|question| reads.is_asked(question, now));
            requests.start(reads);
        }
    }

    /// The same, but gives up all reads that are no lists of events.
    pub(super) fn read_only_events<'n>(&mut self, namespaces: impl Iterator<Item = &'n str>) {
        if let Some(requests) = &mut self.requests {
            requests.restrict_to_lists(self.reads.get_mut());
        }
        self.read(namespaces, Instant::now());
    }

    /// Answers what verdicts have asked for by other means than requests. Returns whether more is known now.
    pub(super) fn answer(&mut self, answer: impl Fn(&Question) -> Answer) -> bool {
        let mut is_news = false;
        for question in self.reads.get_mut().take_due() {
            let answer = answer(&question);
            is_news |= answer != Answer::Unavailable;
            self.answered(&question, answer);
        }
        is_news
    }

    /// The next question of these kinds that verdicts have asked.
    pub(super) fn next_question(&mut self, is_allowed: impl Fn(&Question) -> bool) -> Option<Question> {
        self.reads.get_mut().next(is_allowed)
    }

    pub(super) fn answered(&mut self, question: &Question, answer: Answer) {
        self.reads.get_mut().answered(question, answer, Instant::now());
    }

    /// Whether reads are under way.
    pub(super) fn is_reading(&self) -> bool {
        self.requests.as_ref().is_some_and(Requests::is_reading)
    }

    /// Waits for the end of the next read, forever if none is under way. Returns the note to print, if any.
    pub(super) async fn next(&mut self) -> Option<Note> {
        let Some(requests) = &mut self.requests else { return std::future::pending().await };
        let (question, answer, events) = requests.next().await;
        events.into_iter().for_each(|event| self.add_event(event));
        let is_known = self.reads.get_mut().get(&question).is_some();
        self.reads.get_mut().answered(&question, answer.clone(), Instant::now());
        let requests = self.requests.as_mut()?;
        requests.start(self.reads.get_mut());
        requests.note_about(question, &answer, is_known)
    }

    /// Returns the note the first time.
    pub(super) fn note(&mut self, note: Note) -> Option<Note> {
        self.requests.as_mut()?.note(note)
    }

    /// When something is to be read again of what verdicts have asked for since then.
    pub(super) fn due(&self, since: Instant) -> Option<Instant> {
        self.reads.borrow().due(since)
    }

    /// Whether a Job was read, or is gone.
    pub(super) fn has_answer(&self, job: &JobKey) -> bool {
        self.reads.borrow().is_answered(&Question::Job(job.clone()))
    }

    /// Whether the events of a namespace were listed, if perhaps not all of them.
    pub(super) fn has_listed(&self, namespace: &str) -> bool {
        self.reads.borrow().get(&Question::Events(namespace.to_owned())).is_some()
    }

    /// A sentence about the events that are missing now, if any are.
    pub(super) fn missing_events(&self) -> Option<Note> {
        self.requests.as_ref().and_then(Requests::missing_events)
    }

    /// Forgets what is no longer needed.
    pub(super) fn compact(&mut self, wall: Timestamp, now: Instant) {
        self.index.compact(wall);
        let jobs: BTreeSet<JobKey> = self.index.suspect_jobs().map(|(pod, job)| JobKey::new(pod, job)).collect();
        self.reads.get_mut().sweep(|job| jobs.contains(job), now);
    }
}

/// An update and all others that have arrived.
pub(super) fn arrived<S: Stream + Unpin>(first: S::Item, updates: &mut S) -> Vec<S::Item> {
    let others = std::iter::from_fn(|| updates.next().now_or_never().flatten());
    std::iter::once(first).chain(others.take(BATCH)).collect()
}

/// How long until a time of the cluster.
pub(super) fn until(time: Timestamp, now: Timestamp) -> Duration {
    // The estimate of the cluster's clock moves, so a wake-up must not be too early. One that finds nothing to do is
    // cheap, but not in a loop.
    const MARGIN: Duration = Duration::from_millis(20);
    Duration::try_from(time.duration_since(now)).unwrap_or_default().saturating_add(MARGIN)
}

/// The error for a list or watch that is forbidden from the beginning, with the message of the API server.
pub(super) fn denied(target: &Target, resource: &'static str, namespace: Option<&str>, message: &str) -> Failure {
    let verb = if message.contains(" cannot watch ") { "watch" } else { "list" };
    let permission = Permission { verb, resource, namespace, grant: Grant::View };
    let error = kube::Error::Api(Status::failure(message, "Forbidden").with_code(403).boxed());
    target.describe_denied(&error, &permission)
}
