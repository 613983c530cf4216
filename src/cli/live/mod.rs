//! The live view of a cluster that all commands share.
//!
//! [`ClusterView`] keeps what verdicts about pods depend on besides the pods: which were replaced, the Jobs, and the
//! events. It is the [`World`] of `scan`, `scan -f`, `scan --watch`, `wait` and `explain`, which feed it from lists,
//! watches and files, and it reads what these do not show. [`Listing`] is the state of one list and watch, and
//! [`Outage`] that of the API server.

mod listing;
mod outage;
mod placement;
mod reads;
mod revisions;

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use arcstr::ArcStr;
use futures::{FutureExt, Stream, StreamExt};
use jiff::Timestamp;
use kube::{Client, core::Status};
use tokio::time::Instant;

pub(super) use listing::Listing;
pub(super) use outage::{Outage, OutageNews};
use placement::Placement;
pub(super) use reads::Note;
use reads::{Answer, Question, Reads};
use revisions::Revisions;

use crate::{
    diagnosis::{
        ClaimFacts, ClusterNodes, JobFacts, PortHolder, PortHolders, Replacements, RevisionObject, TemplateChanges,
        Thresholds, World, is_healthy_under_any_thresholds,
    },
    events::{Event, EventStore, WatchedEvent},
    jobs::{JobKey, JobReading},
    placement::{PlacementKey, PlacementReading},
    pods::{Controller, Pod, Uid},
    revisions::RevisionReading,
};

use super::{
    Failure,
    api_error::{Grant, Permission, Target},
};

/// How much the events that a command keeps may take, in bytes.
const EVENT_BYTES: usize = 32 << 20;
/// How many events about workloads are kept: those of the last pods that could not be created.
const REFUSALS: usize = 200;
/// What the recorder of events puts before a message if similar events are frequent.
const COMBINED: &str = "(combined from similar events): ";
/// The most updates that are applied before the next judgement.
const BATCH: usize = 1000;

/// What is known of a cluster besides its pods.
pub(super) struct ClusterView {
    replacements: Replacements,
    port_holders: PortHolders,
    /// Those that were read, if only the pods of a workload are shown.
    read_holders: Option<PortHolders>,
    /// The namespaces whose pods may have a port that a pod of a verdict requires.
    needed_holders: RefCell<BTreeSet<String>>,
    events: EventStore,
    /// FailedCreate events, the most recent last.
    refusals: Vec<(u64, Event)>,
    /// The Jobs that a list, a watch or a file has shown.
    shown_jobs: HashMap<JobKey, Arc<JobFacts>>,
    /// The Jobs that were read.
    read_jobs: HashMap<JobKey, JobReading>,
    /// The Jobs that verdicts have depended on since reads were last started.
    needed_jobs: RefCell<HashSet<JobKey>>,
    revisions: Revisions,
    placement: Placement,
    /// The namespaces of which an event about a kill might explain a problem, likewise.
    needed_kills: RefCell<HashSet<String>>,
    /// Absent if nothing else can be read.
    reads: Option<Reads>,
}

impl Default for ClusterView {
    fn default() -> Self {
        Self {
            replacements: Replacements::default(),
            port_holders: PortHolders::default(),
            read_holders: None,
            needed_holders: RefCell::default(),
            events: EventStore::with_limit(EVENT_BYTES),
            refusals: Vec::new(),
            shown_jobs: HashMap::new(),
            read_jobs: HashMap::new(),
            needed_jobs: RefCell::default(),
            revisions: Revisions::default(),
            placement: Placement::default(),
            needed_kills: RefCell::default(),
            reads: None,
        }
    }
}

impl ClusterView {
    /// A view that reads Jobs and earlier events: each Job within `limit`, and again after `read_again` until it has
    /// ended.
    pub(super) fn of(client: Client, limit: Duration, read_again: Duration) -> Self {
        Self { reads: Some(Reads::new(client, limit, read_again)), ..Self::default() }
    }

    /// The same, if only the pods of a workload are shown: others may use a port that one of them requires.
    #[must_use]
    pub(super) fn of_workload(self) -> Self {
        Self { read_holders: Some(PortHolders::default()), ..self }
    }

    /// Keeps which of these pods use ports of their nodes.
    pub(super) fn add_port_holders<'p>(&mut self, pods: impl IntoIterator<Item = &'p Pod>) {
        pods.into_iter().for_each(|pod| self.port_holders.see(pod));
    }

    /// Returns whether a pod is healthy under any thresholds. Then it replaces the older failed pods of its controller.
    pub(super) fn see_pod(&mut self, pod: &Pod, restarted: Duration, now: Timestamp) -> bool {
        self.port_holders.see(pod);
        let is_healthy = is_healthy_under_any_thresholds(pod, restarted, now);
        if is_healthy {
            self.replacements.add(pod);
        }
        self.revisions.see_pod(pod, is_healthy);
        is_healthy
    }

    /// The same for all pods that there are, and the default thresholds.
    pub(super) fn see_pods<'p>(&mut self, pods: impl IntoIterator<Item = &'p Pod>, now: Timestamp) {
        self.port_holders = PortHolders::default();
        pods.into_iter().for_each(|pod| _ = self.see_pod(pod, Thresholds::default().restarted, now));
    }

    /// A pod was deleted.
    pub(super) fn forget_pod(&mut self, uid: Uid) {
        self.port_holders.remove(uid);
    }

    /// Keeps what a Job says about its pods.
    pub(super) fn show_job(&mut self, job: JobKey, facts: JobFacts) {
        self.shown_jobs.insert(job, Arc::new(facts));
    }

    /// Keeps what the pod template of the revision says that this pod belongs to.
    pub(super) fn show_template(&mut self, pod: &Pod, template: TemplateChanges) {
        self.revisions.show(pod, template);
    }

    /// Keeps the ReplicaSet or ControllerRevision of a file.
    pub(super) fn give_revision(&mut self, namespace: String, name: String, object: RevisionObject) {
        self.revisions.give(namespace, name, object);
    }

    /// Where to keep the nodes, claims, StorageClasses and volumes of a file.
    pub(super) fn placement(&mut self) -> &mut Placement {
        &mut self.placement
    }

    /// Keeps an event as evidence.
    pub(super) fn add_event(&mut self, watched: WatchedEvent) {
        let WatchedEvent { id, event: Some(event), .. } = watched else { return };
        if event.reason == "FailedCreate" && event.involved.kind != "Pod" {
            // What an event said before shows whether the refusals change.
            self.refusals.retain(|(known, earlier)| *known != id || text(earlier) != text(&event));
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
    pub(super) fn as_known(&self) -> KnownWorld<'_> {
        KnownWorld { view: self, awaits_jobs: false }
    }

    /// The world in which the Jobs that are not known are still to be read.
    pub(super) fn awaiting_jobs(&self) -> KnownWorld<'_> {
        KnownWorld { view: self, awaits_jobs: true }
    }

    /// Starts the reads of the Jobs, the revisions and the events about kills that verdicts have needed since the last call,
    /// and of the earlier events of these namespaces. Forgets the Jobs that are no longer needed.
    pub(super) fn read<'n>(&mut self, namespaces: impl Iterator<Item = &'n str>, now: Instant) {
        let jobs = self.needed_jobs.take();
        let kills = self.needed_kills();
        let holders = self.needed_holders.take().into_iter().map(Question::PortHolders);
        let revisions = self.revisions.take_needed().into_iter().map(Question::Revision);
        let placement = self.placement.take_needed().into_iter().map(Question::Placement);
        self.read_jobs.retain(|job, _| jobs.contains(job));
        let Some(reads) = &mut self.reads else { return };
        let is_final = |job: &JobKey| self.read_jobs.get(job).is_some_and(JobReading::is_final);
        let jobs = jobs.into_iter().filter(|job| !is_final(job));
        // The Jobs of which nothing is known come first: without them, pods are not judged.
        let (again, first): (Vec<_>, Vec<_>) = jobs.partition(|job| self.read_jobs.contains_key(job));
        let events = namespaces.map(|namespace| Question::Events(namespace.to_owned()));
        let events = events.chain(kills);
        reads.start(
            first
                .into_iter()
                .map(Question::Job)
                .chain(revisions)
                .chain(placement)
                .chain(events)
                .chain(holders)
                .chain(again.into_iter().map(Question::Job))
                .collect(),
            now,
        );
    }

    /// Gives up all other reads, and lists the earlier events of these namespaces.
    pub(super) fn read_only_events<'n>(&mut self, namespaces: impl Iterator<Item = &'n str>) {
        let questions = namespaces.map(|namespace| Question::Events(namespace.to_owned()));
        if let Some(reads) = &mut self.reads {
            reads.start_only(questions.collect());
        }
    }

    /// Gives up all other reads, and lists the events about kills that verdicts have needed since the last call.
    pub(super) fn read_only_kills(&mut self) {
        let kills = self.needed_kills();
        if let Some(reads) = &mut self.reads {
            reads.start_only(kills.into());
        }
    }

    /// Only of namespaces whose Warning events are known: most kills are explained by them.
    fn needed_kills(&self) -> Vec<Question> {
        let needed = self.needed_kills.take().into_iter().filter(|namespace| self.has_listed(namespace));
        needed.map(Question::Kills).collect()
    }

    /// What verdicts have needed since the last call to see why no node takes a pod, and what is not known.
    pub(super) fn needed_placement(&self) -> Vec<PlacementKey> {
        self.placement.take_needed().into_iter().filter(|key| !self.placement.is_known(key)).collect()
    }

    /// Keeps what was read of it.
    pub(super) fn placement_read(&mut self, key: PlacementKey, reading: PlacementReading) {
        self.placement.answered(key, reading);
    }

    /// Whether reads are under way.
    pub(super) fn is_reading(&self) -> bool {
        self.reads.as_ref().is_some_and(Reads::is_reading)
    }

    /// Waits for the end of the next read, forever if none is under way. Returns the note to print, if any.
    pub(super) async fn next(&mut self) -> Option<Note> {
        let Some(reads) = &mut self.reads else { return std::future::pending().await };
        let (question, answer) = reads.next().await;
        let is_known = matches!(&question, Question::Job(job) if self.read_jobs.contains_key(job));
        let note = reads.note_about(&answer, is_known);
        match (question, answer) {
            // After an error, what was known stays valid.
            (_, Answer::Job(JobReading::Unavailable)) => {}
            (Question::Job(job), Answer::Job(reading)) => _ = self.read_jobs.insert(job, reading),
            (_, Answer::Revision(RevisionReading::Unavailable)) => {}
            (Question::Revision(key), Answer::Revision(reading)) => self.revisions.answered(key, reading),
            (Question::Placement(key), Answer::Placement(reading)) => self.placement.answered(key, reading),
            (_, Answer::Events(Ok(listed))) => listed.events.into_iter().for_each(|event| self.add_event(event)),
            (_, Answer::PortHolders(Some(holders))) => self.read_holders = Some(holders),
            (_, Answer::PortHolders(None) | Answer::Events(Err(_))) => {}
            (_, Answer::Job(_) | Answer::Revision(_) | Answer::Placement(_)) => {}
        }
        note
    }

    /// Returns the note the first time.
    pub(super) fn note(&mut self, note: Note) -> Option<Note> {
        self.reads.as_mut()?.note(note)
    }

    /// When something is to be read again.
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        Some(self.reads.as_ref()?.due()?.max(now))
    }

    /// Whether a Job was read, or is gone.
    pub(super) fn has_answer(&self, job: &JobKey) -> bool {
        let reading = self.read_jobs.get(job);
        reading.is_some_and(|reading| !matches!(reading, JobReading::Denied(_) | JobReading::Unavailable))
    }

    /// Whether the events of a namespace were listed, if perhaps not all of them.
    pub(super) fn has_listed(&self, namespace: &str) -> bool {
        self.reads.as_ref().is_some_and(|reads| reads.has_listed(namespace))
    }

    /// A sentence about the events that are missing now, if any are.
    pub(super) fn missing_events(&self) -> Option<Note> {
        self.reads.as_ref().and_then(Reads::missing_events)
    }
}

/// What is known in an assessment.
#[derive(Clone, Copy)]
pub(super) struct KnownWorld<'a> {
    view: &'a ClusterView,
    awaits_jobs: bool,
}

impl World for KnownWorld<'_> {
    fn is_replaced(&self, pod: &Pod) -> bool {
        self.view.replacements.has_replaced(pod)
    }

    fn job(&self, pod: &Pod, job: &Controller) -> Option<Arc<JobFacts>> {
        let Self { view, awaits_jobs } = *self;
        let key = JobKey::new(pod, job);
        if let Some(facts) = view.shown_jobs.get(&key) {
            return Some(Arc::clone(facts));
        }
        let facts = view.read_jobs.get(&key).map(JobReading::facts);
        if !awaits_jobs {
            return Some(facts.unwrap_or_default());
        }
        view.needed_jobs.borrow_mut().insert(key);
        facts
    }

    fn events(&self, pod: &Pod) -> Arc<[Event]> {
        self.view.events.about(pod)
    }

    fn port_holder(&self, pod: &Pod) -> Option<PortHolder> {
        let Some(read) = &self.view.read_holders else { return self.view.port_holders.holder(pod, |_| true) };
        self.view.needed_holders.borrow_mut().insert(pod.namespace.to_string());
        read.holder(pod, |_| true)
    }

    fn revision(&self, pod: &Pod) -> Option<Arc<TemplateChanges>> {
        self.view.revisions.template(pod)
    }

    fn nodes(&self, _: &Pod) -> Option<Arc<ClusterNodes>> {
        self.view.placement.nodes()
    }

    fn claims(&self, pod: &Pod) -> Vec<(ArcStr, Arc<ClaimFacts>)> {
        self.view.placement.claims(pod)
    }

    fn lacks_kills(&self, pod: &Pod) {
        let mut namespaces = self.view.needed_kills.borrow_mut();
        if !namespaces.contains(&*pod.namespace) {
            namespaces.insert(pod.namespace.to_string());
        }
    }
}

/// The message of an event.
pub(super) fn text(event: &Event) -> &str {
    event.message.strip_prefix(COMBINED).unwrap_or(&event.message)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn keeps_what_is_known_of_a_job_after_an_error() {
        let read = |question| async move { (question, Answer::Job(JobReading::Unavailable)) }.boxed();
        let reads = Reads::by(Box::new(read), Duration::ZERO);
        let mut view = ClusterView { reads: Some(reads), ..ClusterView::default() };
        let job = JobKey { namespace: "shop".to_owned(), name: "sums".to_owned(), uid: "j".to_owned() };
        let known = JobReading::Read { facts: Arc::default(), denial: String::new(), is_orphan: false };
        view.read_jobs.insert(job.clone(), known.clone());
        view.needed_jobs.borrow_mut().insert(job.clone());
        view.read(std::iter::empty(), Instant::now());
        assert!(view.is_reading());
        assert_eq!((view.next().await, view.read_jobs.get(&job)), (None, Some(&known)));
        view.read(std::iter::empty(), Instant::now());
        assert!(view.read_jobs.is_empty());
    }
}
