//! The loop: what the watches tell goes into the index, what is due is judged and written. One task owns
//! all state; everything that waits for somebody else is a task of its own, bounded in number and time.

mod events;
mod jobs;
mod kopf_migration;
mod log_requests;
mod lookback;
mod object;
mod objects;
mod outcomes;
mod pace;
mod pods;
mod reconcile;
mod schedule;
mod status;
mod verdicts;
mod watch_health;
mod write_limiter;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures::{StreamExt, stream::BoxStream};
use kube::{Client, api::DynamicObject};
use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    alerts::delivery::Dispatcher,
    api::NamespacedName,
    clock::ClusterClock,
    index::{Index, ViewId},
    logs::LogReader,
    pods::WatchedPod,
    watch::WatchUpdate,
};

use self::{
    events::EventPublisher,
    jobs::{JobKey, Jobs},
    kopf_migration::KopfMigrations,
    log_requests::LogRequests,
    lookback::Lowering,
    object::Object,
    outcomes::{Outcome, ReadOutcome},
    pace::Pace,
    schedule::Schedule,
    watch_health::WatchHealth,
    write_limiter::WriteLimiter,
};

pub use self::watch_health::Scope;

/// How long objects are reconciled before it is seen what else has happened.
const TURN: Duration = Duration::from_millis(20);
/// Jobs that are read at once, and objects that are taken over.
const SIDE_REQUESTS: usize = 8;
/// How often what has become plain with time alone is dropped.
const COMPACTION: Duration = Duration::from_secs(60);
/// How long a shutdown waits for what is under way.
const DRAIN: Duration = Duration::from_secs(4);

/// Changes of pods, as many at a time as there are.
pub type PodChanges = BoxStream<'static, Vec<(Scope, WatchUpdate<WatchedPod>)>>;

/// The watches that the controller lives on: each event with the scope of its watch.
pub struct Sources {
    /// `Orchestr` objects.
    pub objects: BoxStream<'static, (Scope, WatchUpdate<DynamicObject>)>,
    /// Opens the watches of pods. Called once the objects are known, and again where an object's
    /// thresholds reach further back than what was kept.
    pub open_pods: Box<dyn Fn() -> PodChanges + Send>,
    /// What is watched: each namespace, or all of them.
    pub scopes: Vec<Scope>,
}

/// The controller's state.
pub struct Controller {
    client: Client,
    clock: ClusterClock,
    event_publisher: EventPublisher,
    reader: LogReader,
    dispatcher: Dispatcher,
    index: Index,
    watch_health: WatchHealth,
    jobs: Jobs,
    log_requests: LogRequests,
    kopf_migrations: KopfMigrations,
    objects: HashMap<NamespacedName, Object>,
    viewers: HashMap<ViewId, NamespacedName>,
    /// When to look at which object; `queued` in the object is its place here.
    due: BTreeSet<(Instant, NamespacedName)>,
    write_limiter: WriteLimiter,
    /// What changes the cluster: a shutdown waits for it.
    tasks: JoinSet<Outcome>,
    /// What only reads: a shutdown drops it.
    reads: JoinSet<ReadOutcome>,
    side_requests: Arc<Semaphore>,
    /// Scopes whose objects are known, or can't be.
    objects_answered: HashSet<Scope>,
    /// Objects that the list under way has named.
    seen: HashSet<NamespacedName>,
    /// Whether the pods must be listed anew.
    reopen_pods: bool,
    lowering: Lowering,
    /// How often `status.lastCheckTime` is refreshed at least.
    check_interval: Duration,
    pace: Pace,
}

impl Controller {
    /// A controller that has seen nothing yet.
    #[must_use]
    pub fn new(
        client: Client,
        clock: ClusterClock,
        reader: LogReader,
        dispatcher: Dispatcher,
        scopes: Vec<Scope>,
        check_interval: Duration,
    ) -> Self {
        Self {
            event_publisher: EventPublisher::new(client.clone()),
            client,
            clock,
            reader,
            dispatcher,
            index: Index::new(lookback::LEAST),
            watch_health: WatchHealth::new(scopes, Instant::now()),
            jobs: Jobs::default(),
            log_requests: LogRequests::default(),
            kopf_migrations: KopfMigrations::default(),
            objects: HashMap::new(),
            viewers: HashMap::new(),
            due: BTreeSet::new(),
            write_limiter: WriteLimiter::default(),
            tasks: JoinSet::new(),
            reads: JoinSet::new(),
            side_requests: Arc::new(Semaphore::new(SIDE_REQUESTS)),
            objects_answered: HashSet::new(),
            seen: HashSet::new(),
            reopen_pods: false,
            lowering: Lowering::default(),
            check_interval,
            pace: Pace::new(Instant::now()),
        }
    }

    /// Runs until `shutdown`, and then until what is under way has ended, for at most four seconds.
    pub async fn run(mut self, sources: Sources, shutdown: CancellationToken) {
        let Sources { mut objects, open_pods, scopes } = sources;
        let mut pods = futures::stream::pending().boxed();
        let mut pods_open = false;
        let mut compaction = tokio::time::interval(COMPACTION);
        loop {
            self.reconcile_due();
            let all_objects_known = self.objects_answered.len() == scopes.len();
            if all_objects_known && (std::mem::take(&mut self.reopen_pods) || !pods_open) {
                if pods_open {
                    self.watch_health.reopened(Instant::now());
                }
                pods = open_pods();
                pods_open = true;
            }
            let wake = self.wake();
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some((scope, change)) = objects.next() => self.on_object(scope, change),
                Some(changes) = pods.next() => self.on_pods(changes),
                Some(ended) = self.tasks.join_next() => match ended {
                    Ok(outcome) => self.on_outcome(outcome),
                    Err(error) => tracing::error!(%error, "a task failed"),
                },
                Some(ended) = self.reads.join_next() => match ended {
                    Ok(outcome) => self.on_read(outcome),
                    Err(error) => tracing::error!(%error, "a task failed"),
                },
                () = until(wake) => {}
                _ = compaction.tick() => self.compact(),
            }
        }
        self.drain().await;
    }

    async fn drain(mut self) {
        self.reads.abort_all();
        let delivered = self.dispatcher.stop(DRAIN);
        let drained = timeout(DRAIN, async {
            while let Some(ended) = self.tasks.join_next().await {
                ended.into_iter().for_each(|outcome| self.on_outcome(outcome));
            }
            self.event_publisher.finish().await;
        })
        .await;
        delivered.await;
        tracing::info!(complete = drained.is_ok(), "stopped");
    }

    /// When something is due, if ever.
    fn wake(&self) -> Option<Instant> {
        let reconcile = self.due.first().map(|(at, _)| *at);
        reconcile.into_iter().chain(self.kopf_migrations.next_due()).min()
    }

    fn reconcile_due(&mut self) {
        let now = Instant::now();
        for key in self.kopf_migrations.take_due(now) {
            self.clean_up(key);
        }
        // The rest is still due when it has been seen what else there is.
        while now.elapsed() < TURN {
            let Some(key) = self.next_with_a_slot().or_else(|| self.next_due(now)) else { break };
            let begun = Instant::now();
            self.reconcile(&key, now);
            let end = Instant::now();
            self.pace.reconciled(end.saturating_duration_since(begun), end);
            if let Some(object) = self.objects.get_mut(&key).filter(|object| !object.writing) {
                object.schedule.postpone_until(end + self.pace.rest());
            }
            self.queue(&key);
        }
    }

    /// An object that has waited for a slot to write, and now has one.
    fn next_with_a_slot(&mut self) -> Option<NamespacedName> {
        let key = self.write_limiter.next_waiting()?;
        if let Some(object) = self.objects.get_mut(&key) {
            object.waiting = false;
        }
        Some(key)
    }

    fn next_due(&mut self, now: Instant) -> Option<NamespacedName> {
        loop {
            self.due.first().filter(|(at, _)| *at <= now)?;
            let (_, key) = self.due.pop_first()?;
            let Some(object) = self.objects.get_mut(&key) else { return Some(key) };
            object.queued = None;
            // More has happened since it was queued.
            if object.schedule.due().is_some_and(|due| due <= now) {
                return Some(key);
            }
            self.queue(&key);
        }
    }

    /// Puts an object where its schedule wants it.
    fn queue(&mut self, key: &NamespacedName) {
        let Some(object) = self.objects.get_mut(key) else { return };
        // What happens during a write is looked at afterwards.
        let due = if object.writing { None } else { object.schedule.due() };
        // It may be too early by then, which is found then: a burst must not cost a move for each of its events.
        let stays = object.queued.zip(due).is_some_and(|(queued, due)| queued <= due);
        if stays || object.queued == due {
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

    fn mark_dirty(&mut self, key: &NamespacedName) {
        if let Some(object) = self.objects.get_mut(key) {
            object.schedule.mark_dirty(Instant::now());
            self.queue(key);
        }
    }

    /// Touches the objects of these views, each once.
    fn mark_views_dirty(&mut self, mut views: Vec<ViewId>) {
        views.sort_unstable();
        views.dedup();
        for view in views {
            if let Some(key) = self.viewers.get(&view).cloned() {
                self.mark_dirty(&key);
            }
        }
    }

    /// Touches all objects as `mark_dirty` does one.
    fn mark_all_dirty(&mut self, mark_dirty: impl Fn(&mut Schedule, Instant)) {
        let now = Instant::now();
        let keys: Vec<_> = self.objects.keys().cloned().collect();
        for key in keys {
            if let Some(object) = self.objects.get_mut(&key) {
                mark_dirty(&mut object.schedule, now);
            }
            self.queue(&key);
        }
    }

    fn compact(&mut self) {
        let settings = self.objects.values().filter_map(|object| object.settings.as_ref().ok());
        let needed = settings.filter(|settings| settings.enabled).map(|settings| settings.thresholds.restarted).max();
        let needed = needed.unwrap_or_default();
        if let Some(lookback) = self.lowering.lowered(self.index.restart_lookback(), needed, Instant::now()) {
            self.index.narrow(lookback);
            self.watch_health.shorten_lookback(lookback);
        }
        self.index.compact(self.clock.now());
        self.log_requests.sweep();
        self.kopf_migrations.sweep(Instant::now());
        let needed: HashSet<JobKey> = self.index.suspect_jobs().map(|(pod, job)| JobKey::new(pod, job)).collect();
        self.jobs.retain(|key| needed.contains(key));
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
