//! Where the controller hands over what it found, and never waits.

use std::{collections::HashMap, sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    sync::{Semaphore, watch},
    task::{AbortHandle, JoinSet},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Access, DeliveryMetrics, HttpClient, Lookup,
    courier::{Courier, Feed, Office},
    persist::ObjectId,
    secrets::Vault,
};
use crate::{
    alerts::{Incident, Subscriber},
    api::{OrchestrStatus, condition},
    clock::ClusterClock,
};

/// Requests to the API server that delivery may have under way at once.
const API_REQUESTS: usize = 16;

/// Has a task for each object with webhooks.
pub struct Dispatcher {
    office: Arc<Office>,
    couriers: HashMap<(String, String), Handle>,
    tasks: JoinSet<()>,
}

struct Handle {
    feed: watch::Sender<Feed>,
    task: AbortHandle,
}

/// What there is to say of an object.
pub struct Offer<'a> {
    /// The object's UID.
    pub uid: &'a str,
    /// The generation that `subscribers` come from.
    pub generation: i64,
    /// Its webhooks.
    pub subscribers: &'a Arc<[Subscriber]>,
    /// Its status as it stands in the API: the memory of an earlier run.
    pub status: Option<&'a OrchestrStatus>,
    /// All incidents; absent while the object is paused or the pods aren't known.
    pub incidents: Option<Vec<Incident>>,
}

impl Dispatcher {
    /// A dispatcher that serves nobody yet.
    #[must_use]
    pub fn new(
        client: Client,
        clock: ClusterClock,
        access: Access,
        lookup: Lookup,
        metrics: Arc<DeliveryMetrics>,
    ) -> Self {
        let http = Arc::new(HttpClient::new(access, lookup));
        let office = Office {
            vault: Vault { client: client.clone(), urls: access.urls, http: Arc::clone(&http) },
            client,
            clock,
            http,
            metrics,
            permits: Arc::new(Semaphore::new(API_REQUESTS)),
            shutdown: CancellationToken::new(),
        };
        Self { office: Arc::new(office), couriers: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Takes over what there is to tell of an object; the latest offer is the one that counts.
    pub fn offer(&mut self, key: &(String, String), offer: Offer<'_>) {
        let feed = Feed {
            generation: offer.generation,
            subscribers: Arc::clone(offer.subscribers),
            incidents: offer.incidents.map(Into::into),
        };
        if let Some(handle) = self.couriers.get(key) {
            handle.feed.send_replace(feed);
            return;
        }
        let memory = offer.status.map(|status| status.webhooks.clone()).unwrap_or_default();
        if feed.subscribers.is_empty() && memory.is_empty() {
            return;
        }
        while self.tasks.try_join_next().is_some() {}
        let delivered = offer.status.and_then(|status| {
            status.conditions.iter().find(|condition| condition.type_ == condition::ALERTS_DELIVERED).cloned()
        });
        let object = ObjectId { namespace: key.0.clone(), name: key.1.clone(), uid: offer.uid.to_owned() };
        let (sender, receiver) = watch::channel(feed);
        let courier = Courier::new(Arc::clone(&self.office), object, memory, delivered);
        let task = self.tasks.spawn(courier.run(receiver));
        self.couriers.insert(key.clone(), Handle { feed: sender, task });
    }

    /// Decides nothing more for an object until the next offer: its spec can't be used at present.
    pub fn pause(&self, key: &(String, String)) {
        if let Some(handle) = self.couriers.get(key) {
            handle.feed.send_if_modified(|feed| feed.incidents.take().is_some());
        }
    }

    /// Lets go of an object that is no more. Nobody is told that its incidents are over: nobody knows.
    pub fn forget(&mut self, key: &(String, String)) {
        if let Some(handle) = self.couriers.remove(key) {
            handle.task.abort();
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
