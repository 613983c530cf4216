//! What the controller is given, what its event loop waits for, and how it lets other tasks run in between.

use std::time::Duration;

use futures::{StreamExt, stream::BoxStream};
use kube::Client;
use tokio::{
    task::yield_now,
    time::{Instant, sleep_until},
};

use crate::{
    api::StoredObject,
    clock::ClusterClock,
    controller::{
        tasks::{TaskResult, Tasks},
        watch_health::Scope,
    },
    events::WatchedEvent,
    leader::Leadership,
    metrics::Metrics,
    namespaces::WatchedNamespace,
    pods::WatchedPod,
    watch::WatchUpdate,
};

/// How often other tasks run before the next turn. Each of these rounds takes some microseconds if they have nothing to do.
const ROUNDS: usize = 64;
/// After this time there is no further round.
const LONGEST: Duration = Duration::from_millis(10);

/// Updates of pods, in batches of those that are ready.
pub(crate) type PodUpdates = BoxStream<'static, Vec<(Scope, WatchUpdate<WatchedPod>)>>;

/// Updates of events, in batches of those that are ready.
pub(crate) type EventUpdates = BoxStream<'static, Vec<(Scope, WatchUpdate<WatchedEvent>)>>;

/// Updates of namespaces, in batches of those that are ready.
pub(crate) type NamespaceUpdates = BoxStream<'static, Vec<WatchUpdate<WatchedNamespace>>>;

/// Updates of `Orchestr` objects.
pub(crate) type ObjectUpdates = BoxStream<'static, (Scope, WatchUpdate<StoredObject>)>;

/// The watches, each update with the scope of its watch.
pub(crate) struct Sources {
    /// Opens the watches of `Orchestr` objects. It is called again when this replica begins to lead.
    pub(crate) open_objects: Box<dyn Fn() -> ObjectUpdates + Send>,
    /// Opens the watches of pods. It is called when all objects are known, and again when an object's thresholds reach
    /// further back than the failures that were kept: then only for a list.
    pub(crate) open_pods: Box<dyn Fn() -> PodUpdates + Send>,
    /// Warning events. They are received from the time on at which pods are first watched.
    pub(crate) events: EventUpdates,
    /// Namespaces; empty if only some are watched, because then there is no permission for it.
    pub(crate) namespaces: NamespaceUpdates,
}

/// What all parts of the operator share.
pub(crate) struct Shared {
    /// Its writes are [fenced](Leadership::fence).
    pub(crate) client: Client,
    pub(crate) clock: ClusterClock,
    pub(crate) metrics: Metrics,
    pub(crate) leadership: Leadership,
}

/// What the event loop waits for.
pub(super) struct Inputs {
    pub(super) objects: ObjectUpdates,
    pub(super) pods: PodUpdates,
    /// The list of older failures, while it is under way.
    pub(super) backfill: Option<PodUpdates>,
    pub(super) events: EventUpdates,
    pub(super) namespaces: NamespaceUpdates,
    pub(super) are_pods_open: bool,
}

pub(super) enum Input {
    Object(Box<(Scope, WatchUpdate<StoredObject>)>),
    Pods(Vec<(Scope, WatchUpdate<WatchedPod>)>),
    Backfill(Vec<(Scope, WatchUpdate<WatchedPod>)>),
    Events(Vec<(Scope, WatchUpdate<WatchedEvent>)>),
    Namespaces(Vec<WatchUpdate<WatchedNamespace>>),
    Answer(Box<TaskResult>),
}

impl Inputs {
    /// The next input. Dropping the future loses none.
    pub(super) async fn next(&mut self, tasks: &mut Tasks) -> Input {
        tokio::select! {
            Some(object) = self.objects.next() => Input::Object(Box::new(object)),
            Some(updates) = self.pods.next() => Input::Pods(updates),
            Some(updates) = next_of(&mut self.backfill) => Input::Backfill(updates),
            Some(updates) = self.events.next(), if self.are_pods_open => Input::Events(updates),
            Some(updates) = self.namespaces.next() => Input::Namespaces(updates),
            result = tasks.next() => Input::Answer(Box::new(result)),
        }
    }
}

async fn next_of(updates: &mut Option<PodUpdates>) -> Option<Vec<(Scope, WatchUpdate<WatchedPod>)>> {
    updates.as_mut()?.next().await
}

/// Lets the runtime receive what has arrived, and the tasks run that make inputs of it. A large pod passes through several.
pub(super) async fn let_others_run() {
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        yield_now().await;
        if begun.elapsed() >= LONGEST {
            break;
        }
    }
}

/// Waits until then, or for ever. If it is past, other tasks run first: a timer that is past is ready immediately, and while
/// objects are always due, the loop would receive nothing for a hundred turns.
pub(super) async fn until(at: Option<Instant>) {
    match at {
        Some(at) if at <= Instant::now() => let_others_run().await,
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[tokio::test]
    async fn what_arrives_is_received_although_objects_are_always_due() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut sender, (mut receiver, _)) = (sender.unwrap(), accepted.unwrap());
        let due = Instant::now();
        // The runtime's own clock is then past it as well, so that its timer would be ready immediately.
        sleep_until(due).await;
        for round in 0..100_u8 {
            // Only the runtime can then tell that something has arrived.
            assert!(receiver.read_u8().now_or_never().is_none(), "round {round}: nothing was sent yet");
            sender.write_all(&[round]).await.unwrap();
            let mut turns = 0;
            let received = loop {
                turns += 1;
                tokio::select! {
                    biased;
                    received = receiver.read_u8() => break received.unwrap(),
                    () = until(Some(due)) => {}
                }
            };
            assert_eq!(received, round);
            assert!(turns < 10, "round {round}: received after {turns} turns");
        }
    }
}
