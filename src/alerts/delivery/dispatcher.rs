//! Hands the incidents of each object to its [`Worker`]. The controller calls it and never waits.

use std::{collections::HashMap, sync::Arc, time::Duration};

use arcstr::ArcStr;
use kube::Client;
use tokio::{
    sync::{Semaphore, mpsc, watch},
    task::{AbortHandle, JoinSet},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    AlertLog, DeliveryNotice, DeliveryTimings, NOTICES,
    http_client::HttpClient,
    persist::{ObjectRef, StoredStatus},
    secrets::SecretReader,
    shared_texts::SharedTexts,
    status_writer::{API_REQUESTS, WritePace},
    worker::{Context, Input, Worker},
};
use crate::{
    alerts::{GoneAlerts, Incident, MuteRules, ValidatedWebhook},
    api::{NamespacedName, OrchestrStatus, Owner, WebhookStatus},
    bounded::Interner,
    clock::ClusterClock,
    metrics::{FailingWebhook, Metrics},
    status_apply::ObjectVersion,
};

/// The maximum number of deleted objects whose receivers are notified concurrently.
const DELETIONS: usize = 8;
/// The most workers of deleted objects, in one namespace and of all.
const ENDING_IN_NAMESPACE: usize = 16;
const ENDING: usize = 128;

/// The most names that are shared, and the most owners.
const NAMES: usize = 1 << 16;

/// Runs a task for each object with webhooks.
pub(crate) struct Dispatcher {
    context: Arc<Context>,
    workers: HashMap<NamespacedName, RunningWorker>,
    /// The names of incidents, which the objects that select the same failing pods share: the name of an owner alone takes up
    /// to 253 bytes.
    names: Interner<ArcStr>,
    owners: Interner<Arc<Owner>>,
    texts: SharedTexts,
    tasks: JoinSet<()>,
    notices: mpsc::Receiver<DeliveryNotice>,
    /// The workers of deleted objects, with their namespaces.
    ending: Vec<(String, AbortHandle)>,
}

struct RunningWorker {
    /// A worker needs only the latest input.
    input: watch::Sender<Input>,
    task: AbortHandle,
}

/// The latest state of an object.
pub(crate) struct ObjectUpdate<'a> {
    pub uid: &'a str,
    /// The generation that `webhooks` come from.
    pub generation: i64,
    pub webhooks: &'a Arc<[ValidatedWebhook]>,
    /// When the spec before was last known to be the present one.
    pub changed_after: Instant,
    pub mute_rules: &'a Arc<MuteRules>,
    /// The status in the API, with the delivery state that an earlier run has stored.
    pub status: Option<&'a OrchestrStatus>,
    /// The resource version of `status`.
    pub resource_version: &'a str,
    /// The last state of the webhooks, if the cluster was put back to an earlier state that lacks it.
    pub lost_webhooks: &'a [Arc<WebhookStatus>],
    /// About how many bytes the object takes.
    pub bytes: usize,
    /// The version that the next write of the status follows.
    pub version: &'a ObjectVersion,
    /// All incidents. Absent while the object is paused or the pods are not known.
    pub incidents: Option<Vec<Incident>>,
    /// What is known about the [`gone_alerts`](crate::alerts::gone_alerts).
    pub gone: GoneAlerts,
}

impl Dispatcher {
    #[must_use]
    pub fn new(
        client: Client,
        clock: ClusterClock,
        http: HttpClient,
        cluster: Option<String>,
        timings: DeliveryTimings,
        metrics: Metrics,
        alert_log: AlertLog,
    ) -> Self {
        let http = Arc::new(http);
        let (sender, notices) = mpsc::channel(NOTICES);
        let context = Context {
            secrets: SecretReader::new(client.clone(), http.urls(), Arc::clone(&http)),
            client,
            clock,
            http,
            api_permits: Arc::new(Semaphore::new(API_REQUESTS as usize)),
            write_pace: WritePace::default(),
            deletion_permits: Arc::new(Semaphore::new(DELETIONS)),
            planning: Semaphore::new(1),
            cluster: cluster.unwrap_or_default(),
            timings,
            metrics,
            alert_log,
            notices: sender,
            shutdown: CancellationToken::new(),
        };
        Self {
            context: Arc::new(context),
            workers: HashMap::new(),
            names: Interner::new(NAMES),
            owners: Interner::new(NAMES),
            texts: SharedTexts::default(),
            tasks: JoinSet::new(),
            notices,
            ending: Vec::new(),
        }
    }

    /// The next notice of a worker. Dropping the future loses none.
    pub async fn next_notice(&mut self) -> DeliveryNotice {
        match self.notices.recv().await {
            Some(notice) => notice,
            // The context keeps a sender, so this does not happen.
            None => std::future::pending().await,
        }
    }

    /// The notices that wait, after [`stop`](Self::stop).
    pub fn last_notices(&mut self) -> impl Iterator<Item = DeliveryNotice> {
        std::iter::from_fn(|| self.notices.try_recv().ok())
    }

    /// Replaces the input of an object's worker, which is woken if anything has changed. Starts a worker if the object has
    /// webhooks, or a stored state of them.
    pub fn update(&mut self, key: &NamespacedName, update: ObjectUpdate<'_>) {
        let known = self.workers.get(key).map(|worker| worker.input.borrow().clone());
        let known = known.unwrap_or_default();
        let observed = Some(known.observed)
            .filter(|observed| observed.resource_version == update.resource_version)
            .unwrap_or_else(|| Arc::new(StoredStatus::new(update.resource_version, update.status)));
        let incidents_known = update.incidents.is_some();
        let incidents = update.incidents.and_then(|incidents| self.changed(key, incidents, &known.incidents));
        let incidents_version = known.incidents_version + u64::from(incidents.is_some());
        let input = Input {
            generation: update.generation,
            webhooks: Arc::clone(update.webhooks),
            changed_after: Some(update.changed_after),
            mute_rules: Arc::clone(update.mute_rules),
            incidents: incidents.unwrap_or(known.incidents),
            incidents_version,
            incidents_known,
            gone: update.gone.into(),
            observed,
            bytes: update.bytes,
            deleted: false,
        };
        match self.workers.get(key) {
            // The worker has panicked. Another one continues from the stored state.
            Some(worker) if worker.input.is_closed() => self.worker_failed(key, update.uid, update.webhooks),
            Some(worker) => {
                worker.input.send_if_modified(|current| {
                    let is_changed = !current.is_same(&input);
                    *current = input;
                    is_changed
                });
                return;
            }
            None => {}
        }
        if input.webhooks.is_empty() && input.observed.status.webhooks.is_empty() {
            return;
        }
        self.join_ended();
        let object = ObjectRef { key: key.clone(), uid: update.uid.to_owned(), version: update.version.clone() };
        let (input, inputs) = watch::channel(input);
        let worker = Worker::new(Arc::clone(&self.context), object, inputs, update.lost_webhooks);
        let task = self.tasks.spawn(worker.run());
        self.workers.insert(key.clone(), RunningWorker { input, task });
    }

    /// The incidents, unless they are equal to those that are known: then the worker is not woken.
    fn changed(
        &mut self,
        key: &NamespacedName,
        mut incidents: Vec<Incident>,
        known: &[Incident],
    ) -> Option<Arc<[Incident]>> {
        if *known == *incidents {
            return None;
        }
        for incident in &mut incidents {
            self.owners.intern(&mut incident.owner);
            let Incident { key, namespace, container, reason, .. } = incident;
            [key, namespace, container, reason].into_iter().for_each(|name| _ = self.names.intern(name));
        }
        self.texts.share(&key.namespace, &mut incidents, known);
        // The same texts may have been left out before.
        (*known != *incidents).then(|| incidents.into())
    }

    /// Counts the webhooks of an object as failing, until its next worker reports otherwise.
    fn worker_failed(&self, key: &NamespacedName, uid: &str, webhooks: &[ValidatedWebhook]) {
        let NamespacedName { namespace, name } = key;
        tracing::error!(namespace, name, "the task that sends an object's alerts has failed, and is started again");
        let names = webhooks.iter().map(|webhook| webhook.policy.name.as_str());
        let failing: Vec<_> = names.map(|name| FailingWebhook { name, only_refuses: false }).collect();
        self.context.metrics.set_failing_webhooks(key, uid, &failing, Instant::now());
    }

    /// Makes no new decisions for an object until its next update, because its spec is invalid.
    pub fn pause(&self, key: &NamespacedName) {
        if let Some(worker) = self.workers.get(key) {
            worker.input.send_if_modified(|input| std::mem::take(&mut input.incidents_known));
        }
    }

    /// Ends the worker of a deleted object. For up to half a minute, the worker tries to notify the receivers of open
    /// alerts that the object is no longer watched.
    pub fn forget(&mut self, key: &NamespacedName) {
        let Some(worker) = self.workers.remove(key) else { return };
        self.join_ended();
        let NamespacedName { namespace, name } = key;
        let of_namespace = self.ending.iter().filter(|(other, _)| other == namespace).count();
        if of_namespace < ENDING_IN_NAMESPACE && self.ending.len() < ENDING {
            worker.input.send_modify(|input| input.deleted = true);
            self.ending.push((namespace.clone(), worker.task));
        } else {
            // Without its input, the worker ends.
            tracing::warn!(
                namespace,
                name,
                "too many objects were deleted at the same time: receivers are not notified"
            );
        }
    }

    fn join_ended(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        self.ending.retain(|(_, task)| !task.is_finished());
    }

    /// Ends all workers, because this replica leads no longer. What they know is in the statuses, as far as it was stored;
    /// the next leader continues from there.
    pub fn stand_down(&mut self) {
        self.workers.clear();
        self.ending.clear();
        // Dropping the tasks aborts them. All tasks share one thread, so none of them runs at this moment and reports later.
        self.tasks = JoinSet::new();
        self.context.metrics.end_delivery();
    }

    /// Starts nothing new, and waits for at most `limit` until the outcomes of all running requests are stored. If an
    /// outcome is not stored by then, the next run sends the message again with the same ID. Returns whether all are stored.
    pub fn stop(&mut self, limit: Duration) -> impl Future<Output = bool> + use<> {
        self.context.shutdown.cancel();
        let mut tasks = std::mem::take(&mut self.tasks);
        let deadline = Instant::now() + limit;
        async move { timeout_at(deadline, async { while tasks.join_next().await.is_some() {} }).await.is_ok() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use serde_json::json;

    use super::{
        super::{DeliveryOptions, system_lookup},
        *,
    };
    use crate::{alerts::Texts, api::Owner, metrics::Unhealthy};

    const NAMESPACE: &str = "shop";

    /// Without an API server: requests fail.
    fn dispatcher() -> Dispatcher {
        dispatcher_with(&Metrics::default())
    }

    fn dispatcher_with(metrics: &Metrics) -> Dispatcher {
        let client = Client::try_from(kube::Config::new("http://127.0.0.1:9".parse().unwrap())).unwrap();
        let (options, timings) = (DeliveryOptions::default(), DeliveryTimings::default());
        let clock = ClusterClock::default();
        let http = HttpClient::new(options, system_lookup());
        Dispatcher::new(client, clock, http, None, timings, metrics.clone(), AlertLog::default())
    }

    /// Updates an object with stored delivery state, which starts its worker.
    fn update(dispatcher: &mut Dispatcher, key: &NamespacedName, incidents: Option<Vec<Incident>>) {
        static SPEC: LazyLock<(Arc<[ValidatedWebhook]>, Arc<MuteRules>)> = LazyLock::new(Default::default);
        let status = json!({"watchedPods": 0, "problematicPodCount": 0, "webhooks": [{"name": "ops"}]});
        let status: OrchestrStatus = serde_json::from_str(&status.to_string()).unwrap();
        let update = ObjectUpdate {
            uid: &key.name,
            generation: 1,
            webhooks: &SPEC.0,
            changed_after: Instant::now(),
            mute_rules: &SPEC.1,
            status: Some(&status),
            resource_version: "1",
            lost_webhooks: &[],
            bytes: 0,
            version: &ObjectVersion::new("1"),
            incidents,
            gone: GoneAlerts::default(),
        };
        dispatcher.update(key, update);
    }

    fn object(name: &str) -> NamespacedName {
        NamespacedName::new(NAMESPACE, name)
    }

    async fn join_all(dispatcher: &mut Dispatcher) {
        let joined = async {
            while !dispatcher.tasks.is_empty() {
                dispatcher.join_ended();
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), joined).await.unwrap();
    }

    #[tokio::test]
    async fn a_bounded_number_of_deleted_objects_notifies_receivers() {
        let mut dispatcher = dispatcher();
        let delete = |dispatcher: &mut Dispatcher, namespace: &str| {
            let before = dispatcher.ending.len();
            for number in 0..2 * ENDING_IN_NAMESPACE {
                let key = NamespacedName::new(namespace, number.to_string());
                update(dispatcher, &key, None);
                dispatcher.forget(&key);
            }
            dispatcher.ending.len() - before
        };
        // No worker runs before this test waits.
        assert_eq!(delete(&mut dispatcher, "attacker"), ENDING_IN_NAMESPACE);
        assert_eq!(delete(&mut dispatcher, NAMESPACE), ENDING_IN_NAMESPACE, "another namespace has its own");
        let others: usize = (0..10).map(|number| delete(&mut dispatcher, &number.to_string())).sum();
        assert_eq!(others, ENDING - 2 * ENDING_IN_NAMESPACE);
        join_all(&mut dispatcher).await;
        assert!(dispatcher.ending.is_empty(), "those that have ended make room");
        assert_eq!(delete(&mut dispatcher, NAMESPACE), ENDING_IN_NAMESPACE);
    }

    #[tokio::test]
    async fn the_webhooks_that_fail_are_those_of_the_present_term() {
        let metrics = Metrics::with_state();
        metrics.set_synced(true);
        metrics.set_leader(true);
        let mut dispatcher = dispatcher_with(&metrics);
        let begun = Instant::now();
        let later = begun + Duration::from_secs(11 * 60);
        metrics.set_failing_webhooks(
            &object("cluster"),
            "1",
            &[FailingWebhook { name: "ops", only_refuses: false }],
            begun,
        );
        assert_eq!(metrics.is_delivering(None, later), Err(Unhealthy::NotDelivering));
        dispatcher.stand_down();
        assert_eq!(metrics.is_delivering(None, later), Ok(()), "the next leader reports what fails");
    }

    #[tokio::test]
    async fn another_worker_continues_after_one_has_panicked() {
        let (mut dispatcher, key) = (dispatcher(), object("cluster"));
        update(&mut dispatcher, &key, None);
        // As after a panic: the task is gone, and with it the receiver of its input.
        dispatcher.tasks.abort_all();
        while dispatcher.tasks.join_next().await.is_some() {}
        assert!(dispatcher.workers[&key].input.is_closed());
        update(&mut dispatcher, &key, None);
        assert!(!dispatcher.workers[&key].input.is_closed());
        assert_eq!(dispatcher.tasks.len(), 1);
    }

    fn incident(number: usize, message: &str) -> Incident {
        let owner = Owner { kind: "Pod".to_owned(), name: format!("pod-{number}") };
        Incident {
            key: number.to_string().into(),
            namespace: NAMESPACE.into(),
            owner: owner.into(),
            reason: "Unschedulable".into(),
            texts: Texts { message: message.to_owned(), ..Texts::default() }.into(),
            ..Incident::default()
        }
    }

    #[tokio::test]
    async fn an_update_that_changes_nothing_wakes_no_worker() {
        let (mut dispatcher, key) = (dispatcher(), object("cluster"));
        let all = |message: &str| Some((0..100).map(|number| incident(number, message)).collect());
        update(&mut dispatcher, &key, all("a"));
        let mut input = dispatcher.workers[&key].input.subscribe();
        let first = Arc::clone(&input.borrow_and_update().incidents);
        for (incidents, is_changed) in
            [(all("a"), false), (all("b"), true), (all("b"), false), (None, true), (None, false), (all("b"), true)]
        {
            update(&mut dispatcher, &key, incidents);
            assert_eq!(input.has_changed().unwrap(), is_changed);
            input.borrow_and_update();
        }
        update(&mut dispatcher, &key, all("a"));
        assert!(!Arc::ptr_eq(&first, &input.borrow_and_update().incidents));
        assert_eq!(first.len(), 100);
    }

    #[tokio::test]
    async fn workers_of_many_objects_share_the_names_of_their_incidents() {
        let mut dispatcher = dispatcher();
        let mut incidents_of = |key: NamespacedName| {
            let incidents = (0..100).map(|number| incident(number, &format!("seen by {key}"))).collect();
            update(&mut dispatcher, &key, Some(incidents));
            Arc::clone(&dispatcher.workers[&key].input.borrow().incidents)
        };
        let known: Vec<_> = (0..20).map(|number| incidents_of(object(&number.to_string()))).collect();
        let (first, others) = known.split_first().unwrap();
        for (own, other) in others.iter().flat_map(|incidents| first.iter().zip(incidents.iter())) {
            assert!(Arc::ptr_eq(&own.owner, &other.owner) && ArcStr::ptr_eq(&own.key, &other.key));
            assert!(ArcStr::ptr_eq(&own.namespace, &other.namespace) && ArcStr::ptr_eq(&own.reason, &other.reason));
        }
    }
}
