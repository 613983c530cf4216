//! Lists the Warning events of the namespaces with problems, each namespace once.

use std::{collections::HashSet, sync::Arc};

use futures::{StreamExt, future::BoxFuture, stream::FuturesUnordered};
use kube::Client;
use tokio::sync::Semaphore;

use crate::events::{EventStore, WatchedEvent, list_namespace_events};

/// Concurrent lists.
const CONCURRENCY: usize = 4;
/// How much the events that a command keeps may take, in bytes.
const EVENT_BYTES: usize = 32 << 20;

/// An empty memory of events for a command.
pub(super) fn event_store() -> EventStore {
    EventStore::with_limit(EVENT_BYTES)
}

/// A namespace with its events, or none if they cannot be read: without them, less is explained.
pub(super) type Listed = (String, Option<Vec<WatchedEvent>>);

pub(super) struct EventLists {
    client: Client,
    permits: Arc<Semaphore>,
    asked: HashSet<String>,
    reads: FuturesUnordered<BoxFuture<'static, Listed>>,
}

impl EventLists {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            permits: Semaphore::new(CONCURRENCY).into(),
            asked: HashSet::new(),
            reads: FuturesUnordered::new(),
        }
    }

    /// Starts the list of a namespace, once.
    pub(super) fn ask(&mut self, namespace: &str) {
        if !self.asked.insert(namespace.to_owned()) {
            return;
        }
        let (client, permits, namespace) = (self.client.clone(), Arc::clone(&self.permits), namespace.to_owned());
        self.reads.push(Box::pin(async move {
            let _permit = permits.acquire().await;
            let events = list_namespace_events(&client, &namespace).await;
            (namespace, events.ok())
        }));
    }

    pub(super) fn is_reading(&self) -> bool {
        !self.reads.is_empty()
    }

    /// The next result. Waits forever if no list is under way.
    pub(super) async fn next(&mut self) -> Listed {
        match self.reads.next().await {
            Some(listed) => listed,
            None => std::future::pending().await,
        }
    }
}
