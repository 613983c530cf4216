//! The controller's event loop. One task owns all state and handles one event at a time.

use std::time::Duration;

use futures::StreamExt;
use kube::Client;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    alerts::delivery::{Dispatcher, ObjectUpdate},
    api::{NamespacedName, OrchestrStatus, StoredObject},
    clock::ClusterClock,
    config::RunConfig,
    events::{Event, WatchedEvent},
    logs::LogReader,
    pods::WatchedPod,
    report::{self, Change, NotWatching},
    spec_error::SpecError,
    watch::WatchUpdate,
    watchdog::{Heartbeat, Phase},
};

use super::{
    events::{EventPublisher, spec_event},
    kopf_migration::KopfMigrations,
    object::Object,
    object_limit::Admission,
    objects::Objects,
    observed::{ObservedStatus, settings},
    pattern_checks::{PatternCheck, PatternChecks},
    queue::WorkQueue,
    reconciler::{Concerned, NewStatus, Outcome, Reconciled, Reconciler},
    schedule::{REFRESH_INTERVAL, duration_until, until_check},
    sources::Sources,
    status::StatusWrite,
    tasks::{TaskResult, Tasks},
    watch_health::Scope,
    write_error::WriteError,
};

/// The longest time for which objects are reconciled before other events are handled.
const TURN: Duration = Duration::from_millis(20);
/// How often to drop data that is no longer needed because time has passed.
const COMPACTION_INTERVAL: Duration = Duration::from_secs(60);
/// How often the loop runs at least, as a sign of life for the watchdog.
const BEAT_INTERVAL: Duration = Duration::from_secs(5);
/// How long a shutdown waits for writes and alerts.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(4);

/// The controller. Each field owns a part of the state and can be changed only by its methods.
pub(crate) struct Controller {
    clock: ClusterClock,
    /// The longest time until `status.lastCheckTime` is refreshed.
    check_interval: Duration,
    /// Whether an object may select only pods of its own namespace.
    own_namespace_only: bool,
    objects: Objects,
    queue: WorkQueue,
    reconciler: Reconciler,
    tasks: Tasks,
    kopf_migrations: KopfMigrations,
    pattern_checks: PatternChecks,
    event_publisher: EventPublisher,
    dispatcher: Dispatcher,
}

impl Controller {
    pub(crate) fn new(
        client: Client,
        clock: ClusterClock,
        log_reader: LogReader,
        dispatcher: Dispatcher,
        scopes: Vec<Scope>,
        config: &RunConfig,
    ) -> Self {
        let timings = config.timings;
        let now = Instant::now();
        Self {
            clock,
            check_interval: timings.check_interval,
            own_namespace_only: config.own_namespace_only,
            objects: Objects::new(config.max_objects_per_namespace),
            queue: WorkQueue::new(now, timings),
            reconciler: Reconciler::new(scopes, log_reader.concurrency(), now),
            kopf_migrations: KopfMigrations::default(),
            pattern_checks: PatternChecks::default(),
            event_publisher: EventPublisher::new(client.clone()),
            tasks: Tasks::new(client, log_reader),
            dispatcher,
        }
    }

    /// Runs until `shutdown`, and then for at most four more seconds until writes and alerts have ended.
    pub(crate) async fn run(mut self, sources: Sources, heartbeat: Heartbeat, shutdown: CancellationToken) {
        let Sources { mut objects, open_pods, mut events, scopes } = sources;
        let mut pods = futures::stream::pending().boxed();
        let mut are_pods_open = false;
        let mut compaction = tokio::time::interval(COMPACTION_INTERVAL);
        let mut beat = tokio::time::interval(BEAT_INTERVAL);
        loop {
            heartbeat.beat(Phase::Reconciling);
            self.start_due_work();
            if self.objects.are_known(scopes.len()) && (self.reconciler.take_needs_relist() || !are_pods_open) {
                if are_pods_open {
                    self.reconciler.watches_reopened(Instant::now());
                }
                pods = open_pods();
                are_pods_open = true;
            }
            let wake_at = [
                self.queue.next_due(),
                self.kopf_migrations.next_due(),
                self.reconciler.workloads_due(),
                self.objects.limit.next_due(Instant::now()),
            ];
            let wake_at = wake_at.into_iter().flatten().min();
            heartbeat.beat(Phase::Waiting);
            tokio::select! {
                () = shutdown.cancelled() => break,
                Some((scope, update)) = objects.next() => {
                    heartbeat.beat(Phase::Object);
                    self.on_object(scope, update);
                }
                Some(updates) = pods.next() => {
                    heartbeat.beat(Phase::Pods);
                    self.on_pods(updates);
                }
                Some(updates) = events.next(), if are_pods_open => {
                    heartbeat.beat(Phase::Events);
                    self.on_events(updates);
                }
                result = self.tasks.next() => {
                    heartbeat.beat(Phase::Answer);
                    self.on_task_result(result);
                }
                () = sleep_until_if(wake_at) => {}
                _ = beat.tick() => {}
                _ = compaction.tick() => {
                    heartbeat.beat(Phase::Compacting);
                    self.compact();
                }
            }
        }
        self.drain().await;
    }

    async fn drain(mut self) {
        self.tasks.abort_reads();
        let delivered = self.dispatcher.stop(DRAIN_TIMEOUT);
        let drained = timeout(DRAIN_TIMEOUT, async {
            while let Some(result) = self.tasks.next_write().await {
                self.on_task_result(result);
            }
            self.event_publisher.finish().await;
        })
        .await;
        delivered.await;
        tracing::info!(complete = drained.is_ok(), "stopped");
    }

    /// Starts the removal of Kopf's leftovers, due reads and redactions, and reconciles objects, for at most one [`TURN`].
    fn start_due_work(&mut self) {
        let now = Instant::now();
        for key in self.kopf_migrations.take_due(now) {
            tracing::info!(
                namespace = key.namespace,
                name = key.name,
                "removing the finalizer and annotation of the Kopf operator"
            );
            self.tasks.remove_kopf_leftovers(key);
        }
        for key in self.objects.limit.take_reads(now) {
            self.tasks.read_object(key);
        }
        for key in self.objects.limit.take_notices(now) {
            self.tasks.write_notice(key, self.objects.limit.max(), self.clock.now());
        }
        for query in self.reconciler.take_due_workloads(now) {
            self.tasks.read_workload(query);
        }
        while now.elapsed() < TURN {
            let Some(key) = self.queue.next(now) else { break };
            let begun = Instant::now();
            self.reconcile(&key, now);
            let end = Instant::now();
            self.queue.reconciled(&key, end.saturating_duration_since(begun), end);
        }
        let (reads, redactions) = self.reconciler.take_due_logs(now, |node| self.tasks.log_permit(node));
        reads.into_iter().for_each(|read| self.tasks.read_log(read));
        redactions.into_iter().for_each(|redaction| self.tasks.redact(redaction));
    }

    fn on_object(&mut self, scope: Scope, update: WatchUpdate<StoredObject>) {
        match update {
            WatchUpdate::Relisting => self.objects.begin_list(&scope),
            WatchUpdate::Listed(object) => {
                self.objects.add_listed(object.key.clone());
                self.observe(&object);
            }
            WatchUpdate::Synced => {
                for key in self.objects.end_list(scope) {
                    self.removed(&key);
                }
            }
            WatchUpdate::Applied(object) => self.observe(&object),
            WatchUpdate::Deleted(object) => self.removed(&object.key),
            WatchUpdate::Denied(refusal) => {
                tracing::error!(refusal, "not allowed to watch Orchestr objects");
                self.objects.access_denied(scope);
            }
            WatchUpdate::Behind | WatchUpdate::CaughtUp => {}
            WatchUpdate::Failed(error) => tracing::warn!(error, "the watch of Orchestr objects is interrupted"),
        }
    }

    fn observe(&mut self, observed: &StoredObject) {
        let now = Instant::now();
        let key = observed.key.clone();
        if self.objects.get(&key).is_some_and(|object| object.uid != observed.uid) {
            self.forget(&key);
            self.objects.limit.remove(&key, now);
        }
        if observed.has_kopf_leftovers {
            self.kopf_migrations.found_leftovers(&key, now);
        } else {
            self.kopf_migrations.found_clean(&key);
        }
        if observed.is_deleting {
            self.forget(&key);
            self.objects.limit.remove(&key, now);
            return;
        }
        match self.objects.limit.observe(&key, observed.created) {
            Admission::Watched { displaced } => displaced.iter().for_each(|displaced| self.abandon(displaced)),
            Admission::Waiting => {
                let state = NotWatching::TooManyObjects { max: self.objects.limit.max() };
                let is_informed = observed.status().is_some_and(|old| {
                    let new = report::not_watching(&state, observed.generation, Some(&old), self.clock.now());
                    report::differs(Some(&old), &new) == Change::None
                });
                self.objects.limit.set_informed(&key, is_informed);
                return;
            }
        }
        let is_new = self.objects.get(&key).is_none();
        if is_new {
            let generation = observed.generation;
            tracing::info!(namespace = key.namespace, name = key.name, generation, "watching Orchestr");
            self.objects.insert(key.clone(), Object::new(observed, now));
            self.queue.insert(&key);
        }
        let Some(object) = self.objects.get_mut(&key) else { return };
        let is_spec_changed = is_new || object.generation != observed.generation;
        if is_spec_changed {
            object.generation = observed.generation;
            object.settings = settings(observed, self.own_namespace_only).map(Into::into);
            let check = self.pattern_checks.start(&key, object);
            check.into_iter().for_each(|check| self.tasks.check_patterns(check));
            self.queue.forget_failures(&key);
            if let Some(view) = object.view.take() {
                self.reconciler.remove_view(view);
            }
            let settings = object.settings.as_ref().ok().filter(|settings| settings.enabled);
            object.view = settings.map(|settings| self.reconciler.add_view(&key, settings, now));
        }
        let is_status_changed = object.adopt(observed, self.queue.is_writing(&key));
        if is_status_changed || is_spec_changed {
            self.queue.mark_dirty(&key, now);
        }
    }

    /// An object is gone.
    fn removed(&mut self, key: &NamespacedName) {
        self.kopf_migrations.forget(key);
        self.forget(key);
        self.objects.limit.remove(key, Instant::now());
    }

    fn forget(&mut self, key: &NamespacedName) {
        self.dispatcher.forget(key);
        self.stop_watching(key);
    }

    /// An object still exists, but is no longer watched. Its alerts stay as they are, because its problems are not over.
    fn abandon(&mut self, key: &NamespacedName) {
        self.dispatcher.abandon(key);
        self.stop_watching(key);
    }

    fn stop_watching(&mut self, key: &NamespacedName) {
        let Some(object) = self.objects.remove(key) else { return };
        tracing::info!(namespace = key.namespace, name = key.name, "stopped watching Orchestr");
        self.pattern_checks.forget(key);
        if let Some(view) = object.view {
            self.reconciler.remove_view(view);
        }
        self.reconciler.forget(key);
        self.queue.remove(key);
    }

    /// The patterns of a version of an object were compiled. If they are invalid, so is the spec.
    fn on_patterns_checked(&mut self, check: &PatternCheck, result: Result<(), SpecError>, now: Instant) {
        let next = self.pattern_checks.ended(&check.key.namespace);
        next.into_iter().for_each(|check| self.tasks.check_patterns(check));
        let is_same = |object: &&mut Object| object.uid == check.uid && object.generation == check.generation;
        let Some(object) = self.objects.get_mut(&check.key).filter(is_same) else { return };
        object.is_being_checked = false;
        if let Err(error) = result {
            object.settings = Err(error);
            if let Some(view) = object.view.take() {
                self.reconciler.remove_view(view);
            }
        }
        self.queue.mark_dirty(&check.key, now);
    }

    /// An object has come in, because another of its namespace was deleted. Absent: it could not be read, or is gone.
    fn object_read(&mut self, key: &NamespacedName, object: Option<&StoredObject>, now: Instant) {
        if let Some(object) = object {
            self.observe(object);
        }
        self.objects.limit.read_ended(key, now);
    }

    fn on_pods(&mut self, updates: Vec<(Scope, WatchUpdate<WatchedPod>)>) {
        let now = Instant::now();
        let concerned = self.reconciler.apply_pods(updates, now, self.clock.now());
        self.mark_dirty(concerned, now);
    }

    fn on_events(&mut self, updates: Vec<(Scope, WatchUpdate<WatchedEvent>)>) {
        let now = Instant::now();
        let (concerned, about_controllers) = self.reconciler.apply_events(updates, now, self.clock.now());
        self.mark_dirty(concerned, now);
        about_controllers.iter().for_each(|event| self.on_workload_event(event, now));
    }

    /// A Warning event about a controller of pods, for instance FailedCreate of a ReplicaSet.
    fn on_workload_event(&mut self, event: &Event, now: Instant) {
        for key in self.reconciler.on_workload_event(event, now, self.clock.now()) {
            self.queue.mark_dirty(&key, now);
        }
    }

    fn mark_dirty(&mut self, concerned: Concerned, now: Instant) {
        match concerned {
            Concerned::AllWithoutDebounce => self.queue.mark_all_dirty_without_debounce(now),
            Concerned::All => self.queue.mark_all_dirty(now),
            Concerned::These(keys) => keys.iter().for_each(|key| self.queue.mark_dirty(key, now)),
        }
    }

    fn on_task_result(&mut self, result: TaskResult) {
        let now = Instant::now();
        match result {
            TaskResult::StatusWritten { permit, write, result } => {
                self.queue.release(permit);
                self.on_status_written(&write, result, now);
            }
            TaskResult::KopfLeftoversRemoved { key, result } => self.kopf_migrations.removal_ended(&key, &result, now),
            TaskResult::ObjectRead { key, object } => self.object_read(&key, object.as_deref(), now),
            TaskResult::NoticeWritten { key, is_written } => {
                self.objects.limit.notice_ended(&key, is_written, now);
            }
            TaskResult::LogRead { instance, result } => {
                for key in self.reconciler.log_read(&instance, result, now) {
                    self.queue.log_arrived(&key, now);
                }
            }
            TaskResult::LogRedacted(result) => {
                for key in self.reconciler.log_redacted(*result) {
                    self.queue.log_arrived(&key, now);
                }
            }
            TaskResult::EventsListed { query, result } => match result {
                Ok(events) => {
                    let concerned = self.reconciler.events_listed(&query, events, now);
                    self.mark_dirty(concerned, now);
                }
                Err(error) => {
                    tracing::debug!(namespace = query.namespace, %error, "could not list the events about a pod");
                }
            },
            TaskResult::WorkloadRead { key, reading } => {
                for object in self.reconciler.workload_read(&key, reading, now, self.clock.now()) {
                    self.queue.mark_dirty(&object, now);
                }
            }
            TaskResult::RolloutRead { key, reading } => {
                for object in self.reconciler.rollout_read(&key, reading, now) {
                    self.queue.log_arrived(&object, now);
                }
            }
            TaskResult::PatternsChecked(check, result) => self.on_patterns_checked(&check, result, now),
            TaskResult::TextsMasked(answer) => {
                for object in self.reconciler.texts_masked(answer) {
                    self.queue.log_arrived(&object, now);
                }
            }
            TaskResult::JobRead { key, reading } => {
                for object in self.reconciler.job_read(&key, reading, now) {
                    self.queue.mark_dirty(&object, now);
                }
            }
        }
    }

    fn on_status_written(
        &mut self,
        write: &StatusWrite,
        result: Result<Box<ObservedStatus>, WriteError>,
        now: Instant,
    ) {
        let StatusWrite { key, uid, status: written, .. } = write;
        // If another object has the name now, this write is not its own.
        let Some(object) = self.objects.get_mut(key).filter(|object| object.uid == *uid) else { return };
        let (answer, events) = match result {
            Ok(answer) => {
                self.queue.write_succeeded(key);
                (Some(*answer), object.events_after(written, now))
            }
            Err(error) => {
                let (delay, failures) = self.queue.write_failed(key, now);
                let retry_seconds = delay.as_secs_f32();
                // Usually the object was just deleted, and the watch will report that.
                if matches!(error, WriteError::NotFound | WriteError::Conflict) && failures == 1 {
                    tracing::debug!(namespace = key.namespace, name = key.name, %error, retry_seconds, "could not write the status");
                } else {
                    tracing::warn!(namespace = key.namespace, name = key.name, %error, retry_seconds, "could not write the status");
                }
                // If the schema rejects the spec, it may reject every status, so the event is published without it.
                let events = match (&error, &object.settings, failures) {
                    (WriteError::Invalid(_), Err(spec), 1) => vec![spec_event(spec)],
                    _ => Vec::new(),
                };
                (None, events)
            }
        };
        if !events.is_empty() {
            object.event_limiter.add_dropped(self.event_publisher.publish(key, uid, events, now));
        }
        if object.write_ended(answer) {
            self.queue.mark_dirty(key, now);
        }
    }

    fn reconcile(&mut self, key: &NamespacedName, now: Instant) {
        if self.queue.is_writing(key) {
            return;
        }
        let Some(object) = self.objects.get_mut(key) else { return };
        if object.is_being_checked {
            // The end of the check marks it dirty.
            if let Some(schedule) = self.queue.schedule(key) {
                schedule.clear();
                schedule.recheck_at(Some(now + REFRESH_INTERVAL));
            }
            return;
        }
        let wall = self.clock.now();
        let Reconciled { outcome, jobs, event_lists, rollouts, texts } =
            self.reconciler.reconcile(key, object, now, wall);
        texts.into_iter().for_each(|request| self.tasks.mask_texts(request));
        jobs.into_iter().for_each(|job| self.tasks.read_job(job));
        event_lists.into_iter().for_each(|query| self.tasks.list_events(query));
        rollouts.into_iter().for_each(|rollout| self.tasks.read_rollout(rollout));
        let Some(schedule) = self.queue.schedule(key) else { return };
        let NewStatus { status, keeps_lists, lacks_logs, recheck, incidents, ended } = match outcome {
            Outcome::Status(new) => *new,
            Outcome::Postponed(until) => {
                schedule.clear();
                schedule.recheck_at(Some(until));
                return;
            }
        };
        match &object.settings {
            Ok(settings) => self.dispatcher.update(
                key,
                ObjectUpdate {
                    uid: &object.uid,
                    generation: object.generation,
                    webhooks: &settings.webhooks,
                    status: object.status_head(),
                    resource_version: &object.resource_version,
                    ended,
                    incidents,
                },
            ),
            Err(_) => self.dispatcher.pause(key),
        }

        let check_interval = self.check_interval.mul_f64(object.check_share);
        let until_check = until_check(object.status_head(), check_interval, wall);
        let until_recheck = recheck.map_or(REFRESH_INTERVAL, |at| duration_until(at, wall).min(REFRESH_INTERVAL));
        let recheck = now + until_recheck.min(until_check.unwrap_or(check_interval));
        schedule.recheck_at(Some(recheck));
        // A first status is written without waiting for logs: users wait for it, and it replaces no status with logs.
        let is_first = object.status.is_none();
        if lacks_logs && !is_first && schedule.wait_for_logs(now) {
            return;
        }
        let next_count = schedule.written_after(now, REFRESH_INTERVAL);
        let change = object.status.as_ref().map_or(Change::Substantial, |old| old.differs(&status, keeps_lists));
        match (change, until_check, next_count) {
            (Change::None, Some(_), _) => schedule.clear(),
            (Change::CountOnly, Some(_), Some(next_count)) => {
                schedule.clear();
                schedule.recheck_at(Some(next_count.min(recheck)));
            }
            _ => self.write(key, status, keeps_lists, now),
        }
    }

    fn write(&mut self, key: &NamespacedName, status: OrchestrStatus, keeps_lists: bool, now: Instant) {
        let Some(object) = self.objects.get(key) else { return };
        // The answer contains the whole object.
        let bytes = object.bytes + report::json_size(&status);
        if let Some(permit) = self.queue.begin_write(key, bytes, now) {
            let is_resumed = object.tracker.is_resumed();
            let (key, uid) = (key.clone(), object.uid.clone());
            self.tasks.write_status(permit, Box::new(StatusWrite { key, uid, status, keeps_lists, is_resumed }));
        }
    }

    fn compact(&mut self) {
        let now = Instant::now();
        self.reconciler.compact(self.objects.longest_restarted(), now, self.clock.now());
        self.kopf_migrations.sweep(now);
        self.event_publisher.sweep(now);
    }
}

async fn sleep_until_if(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
