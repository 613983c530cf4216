//! The task that delivers one object's alerts. It runs one status write at a time, and one request at a time for each
//! webhook.

mod leaving;
mod planning;
mod sending;
mod storing;

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    AlertLog, DeliveryNotice, DeliveryTimings,
    farewells::DELETION_TIMEOUT,
    http_client::HttpClient,
    persist::{NotStored, ObjectRef, StoredStatus},
    secrets::{SecretReader, Unavailable, WebhookSecrets},
    send::Attempt,
    status_writer::{StatusWriter, WritePace},
    webhook_queue::WebhookQueue,
};
use crate::{
    alerts::{
        CurrentMutes, EndpointSpec, GoneAlerts, Incident, IncidentMemory, MuteRules, Notification, ObjectInput, Source,
        ValidatedWebhook, alert_bytes,
    },
    api::{NamespacedName, WebhookStatus},
    clock::ClusterClock,
    metrics::{FailingWebhook, Metrics},
};

/// The maximum time between two steps, because the system clock may be changed in the meantime.
const STEP_INTERVAL_MAX: Duration = Duration::from_secs(60);
/// How long a shutdown waits for receivers: less than the time that the whole of it has, so that the Lease is released even if
/// one does not answer.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(1);
/// The minimum time between two steps, so that a clock with a resolution of one second does not cause a busy loop.
const STEP_INTERVAL_MIN: Duration = Duration::from_millis(20);

/// The resources that all workers share.
pub(super) struct Context {
    pub client: Client,
    pub clock: ClusterClock,
    pub http: Arc<HttpClient>,
    pub secrets: Arc<SecretReader>,
    /// Limits concurrent writes of statuses.
    pub api_permits: Arc<Semaphore>,
    /// Limits how much the objects of a namespace write over time.
    pub write_pace: WritePace,
    /// Limits how many deleted objects' receivers are notified concurrently.
    pub deletion_permits: Arc<Semaphore>,
    /// Has one permit. So the event loop waits for a part of one object's step only, however many objects are to be planned.
    pub planning: Semaphore,
    /// Empty if the cluster has no name.
    pub cluster: String,
    pub timings: DeliveryTimings,
    pub metrics: Metrics,
    pub alert_log: AlertLog,
    pub notices: mpsc::Sender<DeliveryNotice>,
    pub shutdown: CancellationToken,
}

/// The latest state of an object, as the controller reports it.
#[derive(Clone, Default)]
pub(super) struct Input {
    pub generation: i64,
    pub webhooks: Arc<[ValidatedWebhook]>,
    /// When the spec before was last known to be the present one: earlier than now if the watch of objects was interrupted.
    pub changed_after: Option<Instant>,
    pub mute_rules: Arc<MuteRules>,
    /// The incidents that were known last.
    pub incidents: Arc<[Incident]>,
    /// Incremented whenever these change.
    pub incidents_version: u64,
    /// False while the pods are not known, or the object is paused.
    pub incidents_known: bool,
    pub gone: Arc<GoneAlerts>,
    /// The status of the object in the API.
    pub observed: Arc<StoredStatus>,
    /// About how many bytes the object takes. The answer to a write contains it.
    pub bytes: usize,
    pub deleted: bool,
}

impl Input {
    /// Whether a worker would decide the same. What is large is compared by address: the dispatcher keeps it if it is equal.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.incidents_version, self.incidents_known) == (other.incidents_version, other.incidents_known)
            && Arc::ptr_eq(&self.webhooks, &other.webhooks)
            && Arc::ptr_eq(&self.mute_rules, &other.mute_rules)
            && Arc::ptr_eq(&self.observed, &other.observed)
            && self.gone == other.gone
            && (self.generation, self.bytes, self.deleted) == (other.generation, other.bytes, other.deleted)
    }
}

pub(super) struct Worker {
    context: Arc<Context>,
    object: ObjectRef,
    source: Source,
    inputs: watch::Receiver<Input>,
    /// The latest state of the object that was applied. Its incidents are not kept between two steps: many workers that wait for
    /// their turn would keep old ones in memory.
    input: Input,
    queues: Vec<WebhookQueue>,
    /// Those of webhooks that were removed from the spec, until their last messages are sent.
    leaving: Vec<WebhookQueue>,
    /// The webhooks whose earlier receivers are being sent their last messages, and how many alerts these end.
    farewells: Vec<(String, usize)>,
    memory: IncidentMemory,
    /// Of the incidents that `memory` was updated with last.
    incidents_version: Option<u64>,
    mutes: CurrentMutes,
    /// Whether `mutes` are those of the present incidents and rules.
    has_mutes: bool,
    writer: StatusWriter,
    /// The outcome of an attempt is not stored yet.
    has_unstored_outcome: bool,
    /// Whether messages are sent although their state cannot be stored.
    is_unstored: bool,
    /// How many webhooks failed when the metrics were updated last.
    failing: usize,
    tasks: FuturesUnordered<BoxFuture<'static, TaskResult>>,
}

enum TaskResult {
    SecretsRead {
        webhook: String,
        spec: Arc<EndpointSpec>,
        result: Result<WebhookSecrets, Unavailable>,
    },
    Written(Result<StoredStatus, NotStored>),
    Sent {
        webhook: String,
        message: Box<Notification>,
        attempt: Attempt,
    },
    /// A receiver that a webhook has left was sent the end of these alerts, or was not.
    Left {
        webhook: String,
        alerts: usize,
        result: Result<(), &'static str>,
    },
}

impl Worker {
    /// Each webhook continues from its state in `lost`, which is newer than the stored one, or else from that.
    pub fn new(
        context: Arc<Context>,
        object: ObjectRef,
        mut inputs: watch::Receiver<Input>,
        lost: &[Arc<WebhookStatus>],
    ) -> Self {
        // The first input is to be applied as well.
        inputs.mark_changed();
        let input = Input { incidents: Arc::default(), ..inputs.borrow().clone() };
        let observed = Arc::clone(&input.observed);
        let queue = |webhook: &ValidatedWebhook| {
            let mut states = lost.iter().chain(&observed.status.webhooks);
            let stored = states.find(|state| state.name == webhook.policy.name);
            WebhookQueue::new(webhook.clone(), stored.cloned(), context.timings)
        };
        let worker = Self {
            queues: input.webhooks.iter().map(queue).collect(),
            // Nothing is known of what happened before.
            memory: IncidentMemory::restored(&observed.status.webhooks, context.clock.now()),
            source: Source { object: object.key.clone(), uid: object.uid.clone(), cluster: context.cluster.clone() },
            context,
            object,
            inputs,
            input,
            leaving: Vec::new(),
            farewells: Vec::new(),
            incidents_version: None,
            mutes: CurrentMutes::default(),
            has_mutes: false,
            writer: StatusWriter::new(observed),
            has_unstored_outcome: false,
            is_unstored: false,
            // The first report also replaces that of a worker that has panicked.
            failing: usize::MAX,
            tasks: FuturesUnordered::new(),
        };
        worker.report_removed_early();
        worker
    }

    /// Runs until the object is deleted or the dispatcher is dropped. At a shutdown it ends as soon as the outcomes of
    /// all running requests are stored. Receivers that do not answer within a second are left: their messages stay pending,
    /// and are sent again with the same IDs.
    pub async fn run(mut self) {
        let shutdown = self.context.shutdown.clone();
        // Also if it is stopped before it plans: its state contains what is stored.
        self.apply_input(Instant::now());
        let mut patience = None;
        loop {
            if self.inputs.borrow().deleted {
                self.report_failing(&[]);
                return tokio::select! {
                    () = self.notify_deletion() => {}
                    () = after_shutdown(&shutdown) => {}
                };
            }
            let stopping = shutdown.is_cancelled();
            let wake = self.step(stopping).await;
            // The step may have taken the input that says so.
            if self.inputs.borrow().deleted {
                continue;
            }
            if stopping {
                let now = Instant::now();
                let until = *patience.get_or_insert(now + SHUTDOWN_PATIENCE);
                if self.is_stored() && (now >= until || !self.is_sending()) {
                    return self.report_unfinished();
                }
            }
            let give_up_at = patience.filter(|until| *until > Instant::now());
            tokio::select! {
                () = sleep_until(give_up_at.unwrap_or(wake)), if give_up_at.is_some() => {}
                () = shutdown.cancelled(), if !stopping => {}
                changed = self.inputs.changed(), if !stopping => match changed {
                    // It was not applied yet.
                    Ok(()) => self.inputs.mark_changed(),
                    Err(_) => return self.report_failing(&[]),
                },
                Some(result) = self.tasks.next() => self.on_result(result),
                () = sleep_until(wake) => {}
            }
        }
    }

    fn is_stored(&self) -> bool {
        !self.writer.is_writing() && !self.has_unstored_outcome
    }

    fn is_sending(&self) -> bool {
        !self.farewells.is_empty() || self.queues.iter().any(WebhookQueue::is_sending)
    }

    /// Takes the latest input. Returns its incidents.
    fn apply_input(&mut self, now: Instant) -> Arc<[Incident]> {
        let latest = self.inputs.borrow_and_update();
        let (has_changed, mut input) = (latest.has_changed(), latest.clone());
        drop(latest);
        let incidents = std::mem::take(&mut input.incidents);
        if has_changed {
            self.apply(input, &incidents, now);
        }
        incidents
    }

    fn apply(&mut self, input: Input, incidents: &[Incident], now: Instant) {
        if !Arc::ptr_eq(&self.input.webhooks, &input.webhooks) {
            self.update_webhooks(&input.webhooks, input.changed_after.map_or(now, |at| at.min(now)));
        }
        // Before the first incidents are known, the memory is that of the status.
        let has_incidents = input.incidents_known || self.incidents_version.is_some();
        if has_incidents && self.incidents_version.replace(input.incidents_version) != Some(input.incidents_version) {
            self.memory.update(incidents);
            self.has_mutes = false;
        }
        self.has_mutes &= Arc::ptr_eq(&self.input.mute_rules, &input.mute_rules);
        self.writer.observe(Arc::clone(&input.observed));
        self.input = input;
        self.detect_other_writer(now);
        self.share_states();
    }

    /// Keeps the states of the queues that are equal to the stored ones once in memory.
    fn share_states(&mut self) {
        for queue in &mut self.queues {
            queue.share_state(&self.writer.stored().webhooks);
        }
    }

    /// The spec has changed after `changed_after`. A webhook with the name of a removed one is a new one.
    fn update_webhooks(&mut self, webhooks: &[ValidatedWebhook], changed_after: Instant) {
        let mut old = std::mem::take(&mut self.queues);
        for webhook in webhooks {
            let index = old.iter().position(|queue| queue.name() == webhook.policy.name);
            self.queues.push(match index.map(|index| old.swap_remove(index)) {
                Some(mut queue) => {
                    queue.update_spec(webhook.clone(), changed_after);
                    queue
                }
                None => WebhookQueue::new(webhook.clone(), None, self.context.timings),
            });
        }
        self.leave(old, changed_after);
    }

    fn detect_other_writer(&mut self, now: Instant) {
        if self.writer.detect_other_writer(now) {
            let NamespacedName { namespace, name } = &self.object.key;
            tracing::warn!(
                namespace,
                name,
                "another client keeps changing status.webhooks or AlertsDelivered: does a second operator run in this \
                 cluster?"
            );
        }
    }

    fn object_input<'a>(&'a self, incidents: &'a [Incident], now: Timestamp) -> ObjectInput<'a> {
        ObjectInput {
            source: &self.source,
            incidents,
            incidents_known: self.input.incidents_known,
            memory: &self.memory,
            gone: &self.input.gone,
            mute_rules: &self.input.mute_rules,
            mutes: &self.mutes,
            bytes: alert_bytes(self.input.webhooks.len()),
            is_unstored: self.is_unstored,
            now,
        }
    }

    /// Notifies the receivers that the object was deleted and that its open alerts are no longer watched.
    async fn notify_deletion(mut self) {
        let result = timeout(DELETION_TIMEOUT, async {
            while self.is_sending() {
                match self.tasks.next().await {
                    Some(result @ (TaskResult::Sent { .. } | TaskResult::Left { .. })) => self.on_result(result),
                    Some(_) => {}
                    None => break,
                }
            }
            let now = Instant::now();
            let incidents = self.apply_input(now);
            let input = self.object_input(&incidents, self.context.clock.now());
            let notices = self.queues.iter().filter_map(|queue| queue.deletion_notices(&input, now));
            let (http, log) = (&self.context.http, &self.context.alert_log);
            let sent: Vec<_> = notices.map(|messages| messages.send(http, log)).collect();
            let _permit = if sent.is_empty() { None } else { self.context.deletion_permits.acquire().await.ok() };
            futures::future::join_all(sent).await.into_iter().all(|result| result.is_ok())
        })
        .await;
        let NamespacedName { namespace, name } = &self.object.key;
        match result {
            Ok(true) => tracing::debug!(namespace, name, "the deleted object's receivers are notified"),
            _ => tracing::warn!(namespace, name, "could not notify all receivers that the object was deleted"),
        }
    }

    /// Starts everything that can start now, and returns when to call this again.
    async fn step(&mut self, stopping: bool) -> Instant {
        if stopping {
            self.queues.iter_mut().for_each(WebhookQueue::drop_decision);
        } else {
            self.plan().await;
        }
        let (now, wall) = (Instant::now(), self.context.clock.now());
        let write_at = self.write(now, wall);
        self.update_failing();
        let mut wake = now + STEP_INTERVAL_MAX;
        for queue in &self.queues {
            let (time, next_read) = queue.wakes();
            let time = time.map(|at| now + Duration::try_from(at.duration_since(wall)).unwrap_or_default());
            wake = time.into_iter().chain(next_read).fold(wake, Instant::min);
        }
        let unstored_at = self.unstored_at().filter(|_| !self.is_unstored);
        write_at.into_iter().chain(unstored_at).fold(wake, Instant::min).max(now + STEP_INTERVAL_MIN)
    }

    /// Reports which webhooks fail or cannot be used. If their state cannot be stored, it is all of them.
    fn update_failing(&mut self) {
        let is_unwritable = self.writer.is_failing();
        let summaries = self.queues.iter().map(|queue| (queue.name(), queue.summary()));
        let failing: Vec<_> = summaries
            .filter(|(_, summary)| is_unwritable || summary.has_problem())
            .map(|(name, summary)| FailingWebhook { name, only_refuses: !is_unwritable && summary.only_refuses() })
            .collect();
        if self.failing > 0 || !failing.is_empty() {
            self.report_failing(&failing);
        }
        self.failing = failing.len();
    }

    fn report_failing(&self, failing: &[FailingWebhook<'_>]) {
        let ObjectRef { key, uid, .. } = &self.object;
        self.context.metrics.set_failing_webhooks(key, uid, failing, Instant::now());
    }

    /// Records a Warning event about the object. `webhook` is empty if it concerns all of them.
    fn notify(&self, webhook: &str, reason: &'static str, note: String) {
        let ObjectRef { key, uid, .. } = &self.object;
        let NamespacedName { namespace, name } = key;
        tracing::warn!(namespace, name, webhook, "{note}");
        let (object, uid) = (key.clone(), uid.clone());
        // If it does not fit, the log contains it.
        let _ =
            self.context.notices.try_send(DeliveryNotice { object, uid, webhook: webhook.to_owned(), reason, note });
    }

    /// Reads the Secrets of these webhooks, which often have the same ones.
    fn read_secrets(&mut self, webhooks: &[usize]) {
        let (secrets, namespace) = (&self.context.secrets, &self.object.key.namespace);
        let queues = || webhooks.iter().map(|index| &self.queues[*index]);
        let reads = Arc::new(secrets.reads(namespace, queues().map(|queue| &*queue.webhook.endpoint)));
        for queue in queues() {
            let (secrets, namespace, reads) = (Arc::clone(secrets), namespace.clone(), Arc::clone(&reads));
            let (webhook, spec) = (queue.name().to_owned(), Arc::clone(&queue.webhook.endpoint));
            self.tasks.push(
                async move {
                    let result = secrets.read_shared(&namespace, &spec, &reads).await;
                    TaskResult::SecretsRead { webhook, spec, result }
                }
                .boxed(),
            );
        }
    }

    fn on_result(&mut self, result: TaskResult) {
        let now = Instant::now();
        match result {
            TaskResult::SecretsRead { webhook, spec, result } => {
                if let Some(queue) = self.queues.iter_mut().find(|queue| queue.name() == webhook) {
                    queue.on_secrets(&spec, result, now);
                }
            }
            TaskResult::Written(result) => self.on_written(result, now),
            TaskResult::Sent { webhook, message, attempt } => self.on_sent(&webhook, &message, &attempt),
            TaskResult::Left { webhook, alerts, result } => self.on_left(&webhook, alerts, result),
        }
    }
}

/// Ends some time after a shutdown has begun.
async fn after_shutdown(shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    sleep(SHUTDOWN_PATIENCE).await;
}

#[cfg(test)]
mod tests;
