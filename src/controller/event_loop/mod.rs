//! The controller's event loop. One task owns all state and handles one event at a time.

mod answers;
mod inputs;
mod objects;

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{
    alerts::delivery::{DeliveryNotice, Dispatcher, ObjectUpdate},
    api::{Incident, NamespacedName, OrchestrStatus},
    clock::ClusterClock,
    config::RunConfig,
    events::{Event, WatchedEvent},
    leader::Leadership,
    logs::LogReader,
    metrics::Metrics,
    namespaces::WatchedNamespace,
    pods::WatchedPod,
    report::{self, Change, OmittedIncidents},
    watch::WatchUpdate,
    watchdog::{Heartbeat, Phase},
};

use super::{
    events::{EventPublisher, notice_event},
    objects::Objects,
    queue::WorkQueue,
    reconciler::{Concerned, NewStatus, Outcome, Reconciled, Reconciler},
    schedule::{REFRESH_INTERVAL, duration_until, until_check},
    status::StatusWrite,
    tasks::Tasks,
    watch_health::Scope,
};
use inputs::{Input, Inputs, let_others_run, until};
pub(crate) use inputs::{Shared, Sources};

/// The longest time for which objects are reconciled before other events are handled, and the other way round. One
/// reconcile or event may exceed it.
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
    event_publisher: EventPublisher,
    dispatcher: Dispatcher,
    metrics: Metrics,
    leadership: Leadership,
    /// The term in which this replica leads; absent if it follows.
    term: Option<u64>,
}

impl Controller {
    pub(crate) fn new(
        shared: Shared,
        log_reader: LogReader,
        dispatcher: Dispatcher,
        scopes: Vec<Scope>,
        config: &RunConfig,
    ) -> Self {
        let Shared { client, clock, metrics, leadership } = shared;
        let timings = config.timings;
        let now = Instant::now();
        Self {
            clock,
            check_interval: timings.check_interval,
            own_namespace_only: config.own_namespace_only,
            objects: Objects::new(scopes.iter().cloned()),
            queue: WorkQueue::new(now, timings),
            reconciler: Reconciler::new(scopes, log_reader.concurrency(), metrics.clone(), now),
            event_publisher: EventPublisher::new(client.clone(), leadership.clone()),
            tasks: Tasks::new(client, log_reader),
            dispatcher,
            metrics,
            leadership,
            term: None,
        }
    }

    /// Runs until `shutdown`, and then for at most four more seconds until writes and alerts have ended. Returns whether all
    /// have.
    pub(crate) async fn run(mut self, sources: Sources, heartbeat: Heartbeat, shutdown: CancellationToken) -> bool {
        let Sources { open_objects, open_pods, events, namespaces } = sources;
        let mut role = self.leadership.subscribe();
        self.set_role(*role.borrow_and_update());
        let objects = open_objects();
        let pods = futures::stream::pending().boxed();
        let mut inputs = Inputs { objects, pods, backfill: None, events, namespaces, are_pods_open: false };
        let mut compaction = tokio::time::interval(COMPACTION_INTERVAL);
        let mut beat = tokio::time::interval(BEAT_INTERVAL);
        loop {
            heartbeat.beat(Phase::Reconciling);
            self.start_due_work();
            if self.objects.are_known() {
                let needs_backfill = self.reconciler.take_needs_backfill();
                if !inputs.are_pods_open {
                    inputs.pods = open_pods();
                    inputs.are_pods_open = true;
                } else if needs_backfill {
                    self.reconciler.begin_backfill(Instant::now());
                    inputs.backfill = Some(open_pods());
                }
            }
            let wake_at = self.work_due();
            heartbeat.beat(Phase::Waiting);
            tokio::select! {
                () = shutdown.cancelled() => break,
                Ok(()) = role.changed() => {
                    if self.set_role(*role.borrow_and_update()) {
                        self.objects.watches_reopened();
                        inputs.objects = open_objects();
                    }
                }
                input = inputs.next(&mut self.tasks) => self.handle_ready(input, &mut inputs, &heartbeat).await,
                notice = self.dispatcher.next_notice() => self.publish_notice(notice),
                () = until(wake_at) => {}
                // A watch that is interrupted for too long is noticed without an event.
                _ = beat.tick() => self.update_synced(),
                _ = compaction.tick() => {
                    heartbeat.beat(Phase::Compacting);
                    self.compact();
                }
            }
        }
        self.drain().await
    }

    /// Handles an input and those that follow immediately, for at most one [`TURN`]. Otherwise each of them would wait for a
    /// turn of reconciles, and a change of which a status needs several, such as a log, for as many turns.
    async fn handle_ready(&mut self, first: Input, inputs: &mut Inputs, heartbeat: &Heartbeat) {
        let begun = Instant::now();
        let mut next = Some(first);
        while let Some(input) = next {
            if self.handle(input, heartbeat) {
                inputs.backfill = None;
            }
            if begun.elapsed() >= TURN {
                break;
            }
            next = tokio::select! {
                biased;
                input = inputs.next(&mut self.tasks) => Some(input),
                () = let_others_run() => None,
            };
        }
    }

    /// Returns whether the list of older failures is complete.
    fn handle(&mut self, input: Input, heartbeat: &Heartbeat) -> bool {
        match input {
            Input::Object(object) => {
                heartbeat.beat(Phase::Object);
                let (scope, update) = *object;
                self.on_object(scope, update);
            }
            Input::Pods(updates) => {
                heartbeat.beat(Phase::Pods);
                self.on_pods(updates);
            }
            Input::Backfill(updates) => {
                heartbeat.beat(Phase::Pods);
                let (concerned, is_complete) = self.reconciler.apply_backfill(updates, self.clock.now());
                self.mark_dirty(concerned, Instant::now());
                return is_complete;
            }
            Input::Events(updates) => {
                heartbeat.beat(Phase::Events);
                self.on_events(updates);
            }
            Input::Namespaces(updates) => {
                heartbeat.beat(Phase::Events);
                self.on_namespaces(updates);
            }
            Input::Answer(result) => {
                heartbeat.beat(Phase::Answer);
                self.on_task_result(*result);
                self.start_due_logs(Instant::now());
            }
        }
        false
    }

    async fn drain(mut self) -> bool {
        self.tasks.abort_reads();
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        let delivered = self.dispatcher.stop(DRAIN_TIMEOUT);
        let written = timeout_at(deadline, async {
            while let Some(result) = self.tasks.next_write().await {
                self.on_task_result(result);
            }
        })
        .await;
        let is_delivered = delivered.await;
        let notices: Vec<_> = self.dispatcher.last_notices().collect();
        notices.into_iter().for_each(|notice| self.publish_notice(notice));
        let published = timeout_at(deadline, self.event_publisher.finish()).await;
        let is_complete = is_delivered && written.is_ok() && published.is_ok();
        tracing::info!(complete = is_complete, "stopped");
        is_complete
    }

    /// When [`start_due_work`](Self::start_due_work) has something to do, unless an event comes before.
    fn work_due(&self) -> Option<Instant> {
        self.term?;
        let due = [self.queue.next_due(Instant::now()), self.reconciler.workloads.next_due()];
        due.into_iter().flatten().min()
    }

    /// Starts due reads and redactions, and reconciles objects, for at most one [`TURN`]. A follower leaves all of it to the
    /// leader.
    fn start_due_work(&mut self) {
        if self.term.is_none() {
            return;
        }
        let now = Instant::now();
        for query in self.reconciler.workloads.take_due(now) {
            self.tasks.read_workload(query);
        }
        while now.elapsed() < TURN {
            let Some(key) = self.queue.next(now) else { break };
            let begun = Instant::now();
            self.reconcile(&key, now);
            let end = Instant::now();
            self.queue.reconciled(&key, end.saturating_duration_since(begun), end);
        }
        self.start_due_logs(now);
    }

    /// Starts reads and redactions of logs. This is done after each answer, because only a few run at the same time.
    fn start_due_logs(&mut self, now: Instant) {
        if self.term.is_none() {
            return;
        }
        let (reads, redactions) = self.reconciler.log_requests.take_due(now, |node| self.tasks.log_permit(node));
        reads.into_iter().for_each(|read| self.tasks.read_log(read));
        redactions.into_iter().for_each(|redaction| self.tasks.redact(redaction));
    }

    fn on_pods(&mut self, updates: Vec<(Scope, WatchUpdate<WatchedPod>)>) {
        let now = Instant::now();
        let wall = self.clock.now();
        // An error or the beginning of a list is no sign of life of the pods.
        let has_pods = updates.iter().any(|(_, update)| update.is_of_object());
        let concerned = self.reconciler.apply_pods(updates, now, wall);
        self.mark_dirty(concerned, now);
        if has_pods {
            self.metrics.pods_received(wall);
        }
        self.update_synced();
    }

    fn update_synced(&self) {
        let is_synced = self.reconciler.watch_health.is_synced(Instant::now()) && self.objects.are_accessible();
        self.metrics.set_synced(is_synced);
        self.metrics.set_unreadable_namespaces(self.reconciler.watch_health.unreadable_namespaces());
    }

    fn on_events(&mut self, updates: Vec<(Scope, WatchUpdate<WatchedEvent>)>) {
        let now = Instant::now();
        let (concerned, about_controllers) = self.reconciler.apply_events(updates, now, self.clock.now());
        self.mark_dirty(concerned, now);
        about_controllers.iter().for_each(|event| self.on_workload_event(event, now));
    }

    fn on_namespaces(&mut self, updates: Vec<WatchUpdate<WatchedNamespace>>) {
        let now = Instant::now();
        let concerned = self.reconciler.apply_namespaces(updates, now);
        self.mark_dirty(concerned, now);
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

    fn reconcile(&mut self, key: &NamespacedName, now: Instant) {
        if self.queue.is_writing(key) {
            return;
        }
        let Some(object) = self.objects.get_mut(key) else { return };
        if object.term != self.term {
            // What the leader before has written is not known yet. The list of objects marks it dirty.
            if let Some(schedule) = self.queue.schedule(key) {
                schedule.clear();
                schedule.recheck_at(None);
            }
            return;
        }
        if object.patterns_awaited.is_some() {
            // The end of the check marks it dirty.
            if let Some(schedule) = self.queue.schedule(key) {
                schedule.pause();
                schedule.recheck_at(Some(now + REFRESH_INTERVAL));
            }
            return;
        }
        let wall = self.clock.now();
        let Reconciled { outcome, reads, texts } = self.reconciler.reconcile(key, object, now, wall);
        texts.into_iter().for_each(|request| self.tasks.mask_texts(request));
        reads.into_iter().for_each(|question| self.tasks.read(question));
        let Some(schedule) = self.queue.schedule(key) else { return };
        let NewStatus { status, omitted, keeps_lists, gap, lacks_logs, recheck, incidents, gone } = match outcome {
            Outcome::Status(new) => *new,
            Outcome::Postponed(until) => {
                schedule.pause();
                schedule.recheck_at(Some(until));
                return;
            }
        };
        object.gap = object.gap.or(gap);
        match &object.settings {
            Ok(settings) => self.dispatcher.update(
                key,
                ObjectUpdate {
                    uid: &object.uid,
                    generation: object.generation,
                    webhooks: &settings.webhooks,
                    changed_after: object.changed_after,
                    mute_rules: &settings.mute_rules,
                    status: object.status_head(),
                    resource_version: &object.resource_version,
                    lost_webhooks: object.lost_webhooks(),
                    bytes: object.bytes,
                    version: &object.version,
                    gone,
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
        // Each leader writes each status once, so that no write of an earlier one can follow.
        let is_first_of_term = self.term != Some(0) && object.written_in != self.term;
        if lacks_logs && !is_first && schedule.wait_for_logs(now) {
            return;
        }
        let next_count = schedule.written_after(now, REFRESH_INTERVAL);
        let change = object.status.as_ref().map_or(Change::Substantial, |old| old.differs(&status, keeps_lists));
        // A span in which the pods were not watched is recorded even if nothing has changed in it.
        let must_write = is_first_of_term || gap.is_none() && object.gap.is_some_and(|gap| gap.is_recorded(wall));
        match (change, until_check, next_count) {
            (Change::None, Some(_), _) if !must_write => {
                schedule.clear();
                object.gap = object.gap.filter(|_| gap.is_some());
            }
            (Change::CountOnly, Some(_), Some(next_count)) if !must_write => {
                schedule.clear();
                schedule.recheck_at(Some(next_count.min(recheck)));
                object.gap = object.gap.filter(|_| gap.is_some());
            }
            _ => self.write(key, status, omitted, keeps_lists, now, wall),
        }
    }

    fn write(
        &mut self,
        key: &NamespacedName,
        mut status: OrchestrStatus,
        omitted: OmittedIncidents,
        keeps_lists: bool,
        now: Instant,
        wall: Timestamp,
    ) {
        let Some(object) = self.objects.get(key) else { return };
        // The answer contains the whole object.
        let bytes = object.bytes + report::json_size(&status);
        let dirty_since = self.queue.dirty_since(key);
        if let Some(permit) = self.queue.begin_write(key, bytes, now) {
            let only = self.own_namespace_only.then_some(&*key.namespace);
            let out_of_sight = self.reconciler.out_of_sight(object.view, &object.tracker, &object.unread_jobs);
            let is_unclear = |incident: &Incident| out_of_sight.may_have(incident);
            object.add_history(&mut status, &omitted, only, &is_unclear, wall);
            let is_resumed = object.tracker.is_resumed();
            let (key, uid, version, term) = (key.clone(), object.uid.clone(), object.version.clone(), object.term);
            let write = StatusWrite { key, uid, version, term, status, omitted, keeps_lists, is_resumed, dirty_since };
            self.tasks.write_status(permit, Box::new(write));
        }
    }

    fn publish_notice(&mut self, notice: DeliveryNotice) {
        let DeliveryNotice { object: key, uid, .. } = &notice;
        let dropped = self.event_publisher.publish(key, uid, vec![notice_event(&notice)], Instant::now());
        if let Some(object) = self.objects.get_mut(key) {
            object.event_limiter.add_dropped(dropped);
        }
    }

    fn compact(&mut self) {
        let now = Instant::now();
        self.reconciler.compact(self.objects.longest_restarted(), now, self.clock.now());
        self.event_publisher.log_dropped();
    }
}
