//! Limits the requests to the API server that objects, pods and events in a namespace cause: in number, in rate, and fairly
//! between namespaces. Who may write into one namespace can then delay only the requests about that namespace.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::{Instant, sleep_until},
};

use crate::token_bucket::TokenBucket;

/// The limits of a [`RequestLimiter`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLimits {
    /// How many requests may run concurrently.
    pub(crate) concurrency: usize,
    /// How many may begin per second, on average.
    pub(crate) per_second: u32,
    /// How many may begin at once after a time without requests.
    pub(crate) burst: u32,
}

/// Grants permits to requests. Clones share the limits.
#[derive(Clone, Debug)]
pub(crate) struct RequestLimiter {
    requests: mpsc::UnboundedSender<Request>,
}

/// The permit of a request. It ends when it is dropped.
pub(crate) type RequestPermit = OwnedSemaphorePermit;

#[derive(Debug)]
struct Request {
    namespace: String,
    granted: oneshot::Sender<RequestPermit>,
}

impl RequestLimiter {
    /// Starts the task that grants permits. It ends with the last clone.
    pub(crate) fn new(limits: RequestLimits) -> Self {
        let (requests, queued) = mpsc::unbounded_channel();
        tokio::spawn(grant(queued, limits));
        Self { requests }
    }

    /// Waits for the permit of a request about this namespace. Namespaces take turns. Absent only during a shutdown.
    pub(crate) async fn acquire(&self, namespace: &str) -> Option<RequestPermit> {
        let (granted, permit) = oneshot::channel();
        self.requests.send(Request { namespace: namespace.to_owned(), granted }).ok()?;
        permit.await.ok()
    }
}

async fn grant(mut requests: mpsc::UnboundedReceiver<Request>, limits: RequestLimits) {
    let running = Arc::new(Semaphore::new(limits.concurrency));
    let interval = Duration::from_secs(1) / limits.per_second;
    let burst = interval * limits.burst.saturating_sub(1);
    let mut rate = TokenBucket::default();
    let mut queue = FairQueue::default();
    while let Some(first) = requests.recv().await {
        queue.push(first);
        while !queue.is_empty() {
            let Ok(mut permit) = Arc::clone(&running).acquire_owned().await else { return };
            if let Some(at) = rate.wait_until(burst, Instant::now()) {
                sleep_until(at).await;
            }
            // Those that arrived meanwhile may belong to a namespace whose turn it is.
            while let Ok(request) = requests.try_recv() {
                queue.push(request);
            }
            while let Some(request) = queue.pop() {
                match request.granted.send(permit) {
                    Ok(()) => {
                        rate.take(interval, Instant::now());
                        break;
                    }
                    // Nobody waits for it any more.
                    Err(unused) => permit = unused,
                }
            }
        }
    }
}

/// A queue in which namespaces take turns, each with its oldest request.
#[derive(Debug)]
struct FairQueue<T> {
    waiting: HashMap<String, VecDeque<T>>,
    /// The namespaces that wait, the next one first.
    turns: VecDeque<String>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), turns: VecDeque::new() }
    }
}

impl FairQueue<Request> {
    fn push(&mut self, request: Request) {
        self.insert(request.namespace.clone(), request);
    }
}

impl<T> FairQueue<T> {
    fn insert(&mut self, namespace: String, item: T) {
        let waiting = self.waiting.entry(namespace).or_insert_with_key(|namespace| {
            self.turns.push_back(namespace.clone());
            VecDeque::new()
        });
        waiting.push_back(item);
    }

    fn pop(&mut self) -> Option<T> {
        let namespace = self.turns.pop_front()?;
        let waiting = self.waiting.get_mut(&namespace)?;
        let item = waiting.pop_front();
        if waiting.is_empty() {
            self.waiting.remove(&namespace);
        } else {
            self.turns.push_back(namespace);
        }
        item
    }

    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn namespaces_take_turns() {
        let mut queue = FairQueue::default();
        for number in 0..1000 {
            queue.insert("attacker".to_owned(), ("attacker", number));
        }
        queue.insert("shop".to_owned(), ("shop", 0));
        queue.insert("ml".to_owned(), ("ml", 0));
        queue.insert("shop".to_owned(), ("shop", 1));
        let first: Vec<_> = (0..7).filter_map(|_| queue.pop()).collect();
        let expected =
            [("attacker", 0), ("shop", 0), ("ml", 0), ("attacker", 1), ("shop", 1), ("attacker", 2), ("attacker", 3)];
        assert_eq!(first, expected);
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 996);
        assert!(queue.is_empty() && queue.waiting.is_empty(), "nothing of a namespace remains");
    }

    #[tokio::test]
    async fn a_flood_delays_no_other_namespace() {
        let limiter = RequestLimiter::new(RequestLimits { concurrency: 4, per_second: 1000, burst: 1 });
        // How many requests run, how many did at most, and whose they were in this order.
        let state = Arc::new(Mutex::new((0, 0, Vec::new())));
        let request = |namespace: &'static str| {
            let (limiter, state) = (limiter.clone(), Arc::clone(&state));
            async move {
                let _permit = limiter.acquire(namespace).await.unwrap();
                {
                    let mut state = state.lock().unwrap();
                    state.0 += 1;
                    state.1 = state.1.max(state.0);
                    state.2.push(namespace);
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
                state.lock().unwrap().0 -= 1;
            }
        };
        let flood: Vec<_> = (0..200).map(|_| tokio::spawn(request("attacker"))).collect();
        tokio::task::yield_now().await;
        let before = state.lock().unwrap().2.len();
        tokio::spawn(request("shop")).await.unwrap();
        for task in flood {
            task.await.unwrap();
        }
        let (running, most, order) = &*state.lock().unwrap();
        let place = order.iter().position(|namespace| *namespace == "shop").unwrap();
        assert!(place - before <= 2, "{place} began before it, {before} of them before it was asked for");
        assert_eq!((*running, order.len()), (0, 201));
        assert!(*most <= 4, "{most} at the same time");
    }

    #[tokio::test]
    async fn requests_that_nobody_waits_for_take_no_part_of_the_rate() {
        let limiter = RequestLimiter::new(RequestLimits { concurrency: 1, per_second: 1, burst: 2 });
        let permit = limiter.acquire("shop").await;
        for _ in 0..100 {
            let mut waiting = Box::pin(limiter.acquire("shop"));
            assert!(futures::poll!(&mut waiting).is_pending());
        }
        drop(permit);
        // At one request a second, the others would take more than a minute.
        let next = limiter.acquire("shop");
        assert!(tokio::time::timeout(Duration::from_secs(30), next).await.unwrap().is_some());
    }
}
