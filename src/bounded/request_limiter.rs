//! Limits the requests to the API server that objects, pods and events in a namespace cause: in number, in rate, and fairly
//! between namespaces. Who may write into one namespace can then delay only the requests about that namespace.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::{Instant, sleep_until},
};

use super::{FairQueue, TokenBucket};

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
pub(crate) struct RequestLimiter(mpsc::UnboundedSender<Request>);

/// The permit of a request. It ends when it is dropped.
pub(crate) type RequestPermit = OwnedSemaphorePermit;

/// A namespace, and who waits.
type Request = (String, oneshot::Sender<RequestPermit>);

impl RequestLimiter {
    /// Starts the task that grants permits. It ends with the last clone.
    pub(crate) fn new(limits: RequestLimits) -> Self {
        let (requests, queued) = mpsc::unbounded_channel();
        tokio::spawn(grant(queued, limits));
        Self(requests)
    }

    /// Waits for the permit of a request about this namespace. Namespaces take turns. Absent only during a shutdown.
    pub(crate) async fn acquire(&self, namespace: &str) -> Option<RequestPermit> {
        let (granted, permit) = oneshot::channel();
        self.0.send((namespace.to_owned(), granted)).ok()?;
        permit.await.ok()
    }
}

async fn grant(mut requests: mpsc::UnboundedReceiver<Request>, limits: RequestLimits) {
    let running = Arc::new(Semaphore::new(limits.concurrency));
    let interval = Duration::from_secs(1) / limits.per_second;
    let burst = interval * limits.burst.saturating_sub(1);
    let mut rate = TokenBucket::default();
    let mut queue = FairQueue::default();
    while let Some((namespace, waiting)) = requests.recv().await {
        queue.push(&namespace, (), waiting);
        while !queue.is_empty() {
            let Ok(mut permit) = Arc::clone(&running).acquire_owned().await else { return };
            if let Some(at) = rate.wait_until(burst, Instant::now()) {
                sleep_until(at).await;
            }
            // Those that arrived meanwhile may belong to a namespace whose turn it is.
            while let Ok((namespace, waiting)) = requests.try_recv() {
                queue.push(&namespace, (), waiting);
            }
            while let Some((namespace, waiting)) = queue.pop() {
                match waiting.send(permit) {
                    Ok(()) => {
                        rate.take(interval, burst, Instant::now());
                        queue.charge(&namespace, 1);
                        break;
                    }
                    // Nobody waits for it any more.
                    Err(unused) => permit = unused,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

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
