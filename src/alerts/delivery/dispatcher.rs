//! Where the controller hands over what it found, and never waits.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    sync::{Semaphore, watch},
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    DeliveryOptions, HttpClient, Lookup,
    courier::{Courier, Feed, Office},
    persist::{ObjectId, Stored},
    secrets::SecretReader,
};
use crate::{
    alerts::{Incident, ValidatedWebhook},
    api::NamespacedName,
    api::OrchestrStatus,
    clock::ClusterClock,
};

/// Requests to the API server that delivery may have under way at once.
const API_REQUESTS: usize = 16;

/// Has a task for each object with webhooks.
pub struct Dispatcher {
    office: Arc<Office>,
    couriers: HashMap<NamespacedName, Handle>,
    tasks: JoinSet<()>,
}

struct Handle {
    feed: watch::Sender<Feed>,
}

/// Deleted objects whose receivers may be sent their last messages at once.
const FAREWELLS: usize = 8;

/// What there is to say of an object.
pub struct ObjectUpdate<'a> {
    /// The object's UID.
    pub uid: &'a str,
    /// The generation that `subscribers` come from.
    pub generation: i64,
    /// Its webhooks.
    pub subscribers: &'a Arc<[ValidatedWebhook]>,
    /// Its status as it stands in the API: the memory of an earlier run.
    pub status: Option<&'a OrchestrStatus>,
    /// The resource version of that status.
    pub resource_version: &'a str,
    /// All incidents; absent while the object is paused or the pods aren't known.
    pub incidents: Option<Vec<Incident>>,
    /// The keys of those of [`gone_alerts`](crate::alerts::gone_alerts) that cannot come back: their owners have no pod left.
    pub ended: Vec<String>,
}

impl Dispatcher {
    /// A dispatcher that serves nobody yet.
    #[must_use]
    pub fn new(
        client: Client,
        clock: ClusterClock,
        options: DeliveryOptions,
        lookup: Lookup,
        cluster: Option<String>,
    ) -> Self {
        let http = Arc::new(HttpClient::new(options, lookup));
        let office = Office {
            secrets: SecretReader { client: client.clone(), urls: options.urls, http: Arc::clone(&http) },
            client,
            clock,
            http,
            permits: Arc::new(Semaphore::new(API_REQUESTS)),
            farewells: Arc::new(Semaphore::new(FAREWELLS)),
            cluster: cluster.unwrap_or_default(),
            shutdown: CancellationToken::new(),
        };
        Self { office: Arc::new(office), couriers: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Takes over what there is to tell of an object; only the latest update counts.
    pub fn update(&mut self, key: &NamespacedName, update: ObjectUpdate<'_>) {
        let known = self.couriers.get(key).map(|handle| Arc::clone(&handle.feed.borrow().stored));
        let stored = match known.filter(|stored| stored.version == update.resource_version) {
            Some(stored) => stored,
            None => Arc::new(Stored::new(update.resource_version, update.status)),
        };
        let feed = Feed {
            generation: update.generation,
            subscribers: Arc::clone(update.subscribers),
            incidents: update.incidents.map(Into::into),
            ended: update.ended.into(),
            stored,
            deleted: false,
        };
        if let Some(handle) = self.couriers.get(key) {
            handle.feed.send_replace(feed);
            return;
        }
        if feed.subscribers.is_empty() && feed.stored.record.webhooks.is_empty() {
            return;
        }
        while self.tasks.try_join_next().is_some() {}
        let object = ObjectId { key: key.clone(), uid: update.uid.to_owned() };
        let courier = Courier::new(Arc::clone(&self.office), object, Arc::clone(&feed.stored));
        let (sender, receiver) = watch::channel(feed);
        self.tasks.spawn(courier.run(receiver));
        self.couriers.insert(key.clone(), Handle { feed: sender });
    }

    /// Decides nothing more for an object until the next update: its spec can't be used at present.
    pub fn pause(&self, key: &NamespacedName) {
        if let Some(handle) = self.couriers.get(key) {
            handle.feed.send_if_modified(|feed| feed.incidents.take().is_some());
        }
    }

    /// Serves an object no longer that was deleted. Its receivers are sent, within half a minute, that nobody watches any
    /// more what they take for firing.
    pub fn forget(&mut self, key: &NamespacedName) {
        if let Some(handle) = self.couriers.remove(key) {
            handle.feed.send_modify(|feed| feed.deleted = true);
        }
    }

    /// Begins nothing more, and waits until what is under way has been recorded; at most for `limit`. What
    /// isn't recorded by then is sent again, under the same id, by the next run.
    pub fn stop(&mut self, limit: Duration) -> impl Future<Output = ()> + use<> {
        self.office.shutdown.cancel();
        let mut tasks = std::mem::take(&mut self.tasks);
        let deadline = Instant::now() + limit;
        async move {
            let _ = timeout_at(deadline, async { while tasks.join_next().await.is_some() {} }).await;
        }
    }
}
