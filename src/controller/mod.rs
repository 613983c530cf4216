//! The loop: what the watches tell goes into the index, what is due is judged and written. One task owns
//! all state; everything that waits for somebody else is a task of its own, bounded in number and time.

mod events;
mod jobs;
mod look;
mod object;
mod pods_state;
mod schedule;
mod status;
mod tails;
mod takeover;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use futures::{StreamExt, stream::BoxStream};
use jiff::Timestamp;
use kube::{
    Client,
    api::DynamicObject,
    runtime::events::{Event, Recorder, Reporter},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    api::OrchestrStatus,
    logs::{LogReader, LogRequest, Outcome},
    pods::{Index, SeenPod, ViewId},
    watch::Change,
};

use self::{
    jobs::Jobs,
    object::{Object, ObjectKey, Observed},
    pods_state::PodsState,
    status::WriteError,
    tails::Tails,
};

pub use self::{pods_state::Scope, status::resource};

/// Writes that may be under way at once; each is also bounded in time.
const WRITES: usize = 32;
/// How often what has become plain with time alone is dropped.
const COMPACTION: Duration = Duration::from_secs(60);
/// How long a shutdown waits for what is under way.
const DRAIN: Duration = Duration::from_secs(4);

/// Changes of pods, as many at a time as there are.
pub type PodChanges = BoxStream<'static, Vec<(Scope, Change<SeenPod>)>>;

/// The watches that the controller lives on: each event with the scope of its watch.
pub struct Sources {
    /// `Orchestr` objects.
    pub objects: BoxStream<'static, (Scope, Change<DynamicObject>)>,
    /// Opens the watches of pods. Called once the objects are known, and again where an object's
    /// thresholds reach further back than what was kept.
    pub open_pods: Box<dyn Fn() -> PodChanges + Send>,
    /// What is watched: each namespace, or all of them.
    pub scopes: Vec<Scope>,
}

/// The controller's state.
pub struct Controller {
    client: Client,
    recorder: Recorder,
    reader: LogReader,
    index: Index,
    pods_state: PodsState,
    jobs: Jobs,
    tails: Tails,
    objects: HashMap<ObjectKey, Object>,
    viewers: HashMap<ViewId, ObjectKey>,
    /// When to look at which object; `queued` in the object is its place here.
    due: BTreeSet<(Instant, ObjectKey)>,
    /// Objects that are due while [`WRITES`] are under way.
    writes: usize,
    tasks: JoinSet<Done>,
    /// Namespaces whose objects' first list is complete.
    objects_listed: HashSet<Scope>,
    /// Objects that the list under way has named.
    seen: HashSet<ObjectKey>,
    /// Whether the pods must be listed anew.
    reopen_pods: bool,
    started: Instant,
}

/// What a task of the controller's has come to.
enum Done {
    Written { key: ObjectKey, uid: String, sent: Box<OrchestrStatus>, result: Result<Box<Observed>, WriteError> },
    CleanedUp { key: ObjectKey, result: Result<(), WriteError> },
    Read { request: Box<LogRequest>, outcome: Outcome },
    Job { uid: String, complete: bool },
    Told,
}

impl Controller {
    /// A controller that has seen nothing yet.
    #[must_use]
    pub fn new(client: Client, reader: LogReader, scopes: Vec<Scope>) -> Self {
        let reporter = Reporter { controller: "orchestr".to_owned(), instance: None };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            reader,
            index: Index::new(Duration::ZERO),
            pods_state: PodsState::new(scopes),
            jobs: Jobs::default(),
            tails: Tails::default(),
            objects: HashMap::new(),
            viewers: HashMap::new(),
            due: BTreeSet::new(),
            writes: 0,
            tasks: JoinSet::new(),
            objects_listed: HashSet::new(),
            seen: HashSet::new(),
            reopen_pods: false,
            started: Instant::now(),
        }
    }

    /// Runs until `shutdown`, and then until what is under way has ended, for at most four seconds.
    pub async fn run(mut self, sources: Sources, shutdown: CancellationToken) {
        let Sources { mut objects, open_pods, scopes } = sources;
        let mut pods = futures::stream::pending().boxed();
        let mut pods_open = false;
        let mut compaction = tokio::time::interval(COMPACTION);
        loop {
            self.look_at_what_is_due();
            let all_objects_known = self.objects_listed.len() == scopes.len();
            if all_objects_known && (!pods_open || std::mem::take(&mut self.reopen_pods)) {
                pods = open_pods();
                pods_open = true;
            }
            let wake = self.wake();
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some((scope, change)) = objects.next() => self.on_object(scope, change),
                Some(changes) = pods.next() => self.on_pods(changes),
                Some(done) = self.tasks.join_next() => match done {
                    Ok(done) => self.on_done(done),
                    Err(error) => tracing::error!(%error, "a task failed"),
                },
                () = until(wake) => {}
                _ = compaction.tick() => self.compact(),
            }
        }
        let drained = timeout(DRAIN, async { while self.tasks.join_next().await.is_some() {} }).await;
        tracing::info!(complete = drained.is_ok(), "stopped");
    }

    /// When something is due, if ever. While as many writes are under way as may be, their ends wake it.
    fn wake(&self) -> Option<Instant> {
        if self.writes >= WRITES { None } else { self.due.first().map(|(at, _)| *at) }
    }

    fn look_at_what_is_due(&mut self) {
        let now = Instant::now();
        while self.writes < WRITES {
            let Some((at, key)) = self.due.first() else { break };
            if *at > now {
                break;
            }
            let key = key.clone();
            self.due.pop_first();
            if let Some(object) = self.objects.get_mut(&key) {
                object.queued = None;
            }
            self.look(&key, now);
            self.queue(&key);
        }
    }

    /// Puts an object where its schedule wants it.
    fn queue(&mut self, key: &ObjectKey) {
        let Some(object) = self.objects.get_mut(key) else { return };
        // What happens during a write is looked at when it has ended.
        let due = if object.writing { None } else { object.schedule.due() };
        if object.queued == due {
            return;
        }
        if let Some(queued) = object.queued.take() {
            self.due.remove(&(queued, key.clone()));
        }
        if let Some(due) = due {
            object.queued = Some(due);
            self.due.insert((due, key.clone()));
        }
    }

    fn touch(&mut self, key: &ObjectKey) {
        if let Some(object) = self.objects.get_mut(key) {
            object.schedule.touch(Instant::now());
            self.queue(key);
        }
    }

    fn touch_views(&mut self, views: Vec<ViewId>) {
        for view in views {
            if let Some(key) = self.viewers.get(&view).cloned() {
                self.touch(&key);
            }
        }
    }

    fn touch_all(&mut self) {
        let keys: Vec<_> = self.objects.keys().cloned().collect();
        for key in keys {
            self.touch(&key);
        }
    }

    fn on_object(&mut self, scope: Scope, change: Change<DynamicObject>) {
        match change {
            Change::Relisting => {
                self.seen.retain(|(namespace, _)| scope.as_ref().is_some_and(|scope| scope != namespace));
            }
            Change::Listed(object) => {
                let observed = Observed::new(object);
                self.seen.insert(observed.key.clone());
                self.observe(observed);
            }
            Change::Synced => {
                let within = |(namespace, _): &&ObjectKey| scope.as_ref().is_none_or(|scope| scope == namespace);
                let gone: Vec<_> =
                    self.objects.keys().filter(within).filter(|key| !self.seen.contains(*key)).cloned().collect();
                for key in gone {
                    self.forget(&key);
                }
                self.seen.retain(|key| !within(&key));
                self.objects_listed.insert(scope);
            }
            Change::Applied(object) => self.observe(Observed::new(object)),
            Change::Deleted(object) => self.forget(&Observed::new(object).key),
            Change::Denied(refusal) => tracing::error!(refusal, "may not watch Orchestr objects"),
            Change::Failed(error) => tracing::warn!(error, "the watch of Orchestr objects is interrupted"),
        }
    }

    fn observe(&mut self, observed: Observed) {
        let now = Instant::now();
        let key = observed.key.clone();
        if self.objects.get(&key).is_some_and(|object| object.uid != observed.uid) {
            self.forget(&key);
        }
        if observed.kopf_leftovers {
            self.clean_up(&key, observed.deleting);
        }
        if observed.deleting {
            self.forget(&key);
            return;
        }
        let is_new = !self.objects.contains_key(&key);
        let object = self.objects.entry(key.clone()).or_insert_with(|| {
            tracing::info!(namespace = key.0, name = key.1, generation = observed.generation, "taken up");
            Object::new(&observed, now)
        });
        let spec_changed = is_new || object.generation != observed.generation;
        let status_changed = object.adopt(&observed);
        if spec_changed {
            self.respec(&key, observed);
        }
        if spec_changed || status_changed {
            self.touch(&key);
        }
    }

    /// Takes up a spec: what the object looks at changes with it.
    fn respec(&mut self, key: &ObjectKey, observed: Observed) {
        let Some(object) = self.objects.get_mut(key) else { return };
        object.generation = observed.generation;
        object.settings = observed.settings;
        object.backoff.reset();
        if let Some(view) = object.view.take() {
            self.index.remove_view(view);
            self.viewers.remove(&view);
        }
        if let Ok(settings) = &object.settings
            && settings.enabled
        {
            let view = self.index.add_view(settings.scope.clone());
            object.view = Some(view);
            self.viewers.insert(view, key.clone());
            if settings.thresholds.restarted > self.index.horizon() {
                self.index.widen(settings.thresholds.restarted);
                self.reopen_pods = !self.index.is_empty();
            }
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        let Some(object) = self.objects.remove(key) else { return };
        tracing::info!(namespace = key.0, name = key.1, "let go");
        if let Some(view) = object.view {
            self.index.remove_view(view);
            self.viewers.remove(&view);
        }
        if let Some(queued) = object.queued {
            self.due.remove(&(queued, key.clone()));
        }
    }

    fn clean_up(&mut self, key: &ObjectKey, deleting: bool) {
        tracing::info!(namespace = key.0, name = key.1, deleting, "removing what the Kopf operator left");
        let (client, key) = (self.client.clone(), key.clone());
        self.tasks.spawn(async move {
            let result = takeover::remove_leftovers(&client, &key).await;
            Done::CleanedUp { key, result }
        });
    }

    fn on_pods(&mut self, changes: Vec<(Scope, Change<SeenPod>)>) {
        let now = Timestamp::now();
        for (scope, change) in changes {
            let concerned = match change {
                Change::Relisting => {
                    self.index.begin_list(scope.as_deref());
                    continue;
                }
                Change::Listed(seen) | Change::Applied(seen) => {
                    if self.pods_state.heard(&scope) {
                        self.touch_all();
                    }
                    self.apply(seen, now)
                }
                Change::Deleted(seen) => match seen.pod {
                    Ok(pod) => self.index.remove(pod.uid),
                    Err(unreadable) => self.index.remove(unreadable.uid),
                },
                Change::Synced => {
                    let concerned = self.index.end_list(scope.as_deref());
                    tracing::debug!(pods = self.index.len(), "the list of pods is complete");
                    if self.pods_state.listed(&scope) {
                        self.touch_all();
                    }
                    concerned
                }
                Change::Denied(refusal) => {
                    if self.pods_state.denied(&scope, refusal.clone()) {
                        tracing::error!(refusal, "may not watch pods");
                        self.touch_all();
                    }
                    continue;
                }
                Change::Failed(error) => {
                    tracing::warn!(error, "the watch of pods is interrupted");
                    continue;
                }
            };
            self.touch_views(concerned);
        }
    }

    fn apply(&mut self, seen: SeenPod, now: Timestamp) -> Vec<ViewId> {
        match seen.pod {
            Ok(pod) => {
                if pod.phase == "Succeeded"
                    && let Some(job) = pod.controller.as_ref().filter(|owner| owner.kind == "Job")
                    && self.jobs.pod_succeeded(&job.uid, Instant::now())
                {
                    self.touch_all();
                }
                self.index.apply(pod, now)
            }
            Err(unreadable) => {
                if self.index.is_news(&unreadable) {
                    tracing::warn!(pod = unreadable.name, error = %unreadable.error, "passed over a pod that can't be read");
                    self.touch_all();
                }
                self.index.pass_over(unreadable)
            }
        }
    }

    fn on_done(&mut self, done: Done) {
        let now = Instant::now();
        match done {
            Done::Written { key, uid, sent, result } => {
                self.writes = self.writes.saturating_sub(1);
                self.on_written(&key, &uid, *sent, result, now);
                self.queue(&key);
            }
            Done::CleanedUp { key: (namespace, name), result } => match result {
                // Whatever is left is seen in the object's next event.
                Ok(()) | Err(WriteError::Gone) => {}
                Err(error) => tracing::warn!(namespace, name, %error, "could not remove what the Kopf operator left"),
            },
            Done::Read { request, outcome } => {
                for waiting in self.tails.answered(&request, outcome, now) {
                    if let Some(object) = self.objects.get_mut(&waiting) {
                        object.schedule.log_arrived(now);
                    }
                    self.queue(&waiting);
                }
            }
            Done::Job { uid, complete } => {
                self.jobs.answered(&uid, complete, now);
                let views = self.index.viewers_of_job(&uid);
                self.touch_views(views);
            }
            Done::Told => {}
        }
    }

    fn on_written(
        &mut self,
        key: &ObjectKey,
        uid: &str,
        sent: OrchestrStatus,
        result: Result<Box<Observed>, WriteError>,
        now: Instant,
    ) {
        let Some(object) = self.objects.get_mut(key).filter(|object| object.uid == uid) else { return };
        object.writing = false;
        match result {
            Ok(observed) => {
                object.backoff.reset();
                let events = object.events_of(&sent, now);
                object.resource_version = observed.resource_version;
                object.status = observed.status.or(Some(sent));
                self.tell(key, events);
            }
            Err(WriteError::Gone) => {}
            Err(error) => {
                let delay = object.backoff.next_delay();
                tracing::warn!(namespace = key.0, name = key.1, %error, retry_seconds = delay.as_secs_f32(), "could not write the status");
                object.schedule.failed(now, delay);
            }
        }
    }

    /// Publishes events, one after the other. Losing one is not worth a retry: the status is the record.
    fn tell(&mut self, key: &ObjectKey, events: Vec<Event>) {
        let Some(object) = self.objects.get(key).filter(|_| !events.is_empty()) else { return };
        let reference = events::reference(key, &object.uid);
        let recorder = self.recorder.clone();
        self.tasks.spawn(async move {
            for event in events {
                match timeout(DRAIN, recorder.publish(&event, &reference)).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => {
                        let error = WriteError::from(error);
                        tracing::warn!(namespace = reference.namespace, name = reference.name, %error, "could not record an event");
                    }
                    Err(_) => tracing::warn!(namespace = reference.namespace, name = reference.name, "could not record an event in time"),
                }
            }
            Done::Told
        });
    }

    fn compact(&mut self) {
        self.index.compact(Timestamp::now());
        self.tails.sweep();
        let needed: HashSet<String> = self.index.failed_jobs().map(|job| job.uid.clone()).collect();
        self.jobs.retain(|uid| needed.contains(uid));
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
