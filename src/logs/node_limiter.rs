//! Limits concurrent log reads: in total, per node, and of unresponsive nodes to half of the total, so that dead nodes
//! never take all permits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// How long a node counts as unresponsive after a read without a response.
pub(super) const UNRESPONSIVE_FOR: Duration = Duration::from_secs(60);

/// How many nodes are remembered before idle ones are removed.
const MAX_NODES: usize = 256;

#[derive(Debug)]
pub(super) struct NodeLimiter {
    total: Arc<Semaphore>,
    unresponsive: Arc<Semaphore>,
    per_node: usize,
    unresponsive_for: Duration,
    nodes: Mutex<HashMap<Arc<str>, Node>>,
}

#[derive(Debug)]
struct Node {
    semaphore: Arc<Semaphore>,
    /// Reads that hold a permit or wait for one.
    users: usize,
    unresponsive_until: Option<Instant>,
}

/// Allows one read; released when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    node_limiter: Arc<NodeLimiter>,
    node: Arc<str>,
    permits: Vec<OwnedSemaphorePermit>,
}

impl NodeLimiter {
    pub(super) fn new(concurrency: usize, per_node: usize, unresponsive_for: Duration) -> Self {
        Self {
            total: Arc::new(Semaphore::new(concurrency.max(1))),
            unresponsive: Arc::new(Semaphore::new((concurrency / 2).max(1))),
            per_node: per_node.max(1),
            unresponsive_for,
            nodes: Mutex::default(),
        }
    }

    /// Waits for a permit. The node's own semaphore comes first, so that a read that waits for a slow node holds no permit
    /// that others need.
    pub(super) async fn acquire(self: &Arc<Self>, node: &Arc<str>) -> Permit {
        let (mut permit, semaphore) = self.join(node);
        permit.permits.extend(semaphore.acquire_owned().await);
        if self.is_unresponsive(node) {
            permit.permits.extend(Arc::clone(&self.unresponsive).acquire_owned().await);
        }
        permit.permits.extend(Arc::clone(&self.total).acquire_owned().await);
        permit
    }

    /// Returns a permit if there is one now.
    pub(super) fn try_acquire(self: &Arc<Self>, node: &Arc<str>) -> Option<Permit> {
        let (mut permit, semaphore) = self.join(node);
        permit.permits.push(semaphore.try_acquire_owned().ok()?);
        if self.is_unresponsive(node) {
            permit.permits.push(Arc::clone(&self.unresponsive).try_acquire_owned().ok()?);
        }
        permit.permits.push(Arc::clone(&self.total).try_acquire_owned().ok()?);
        Some(permit)
    }

    /// A permit that does not hold a place yet, and the node's own semaphore.
    fn join(self: &Arc<Self>, node: &Arc<str>) -> (Permit, Arc<Semaphore>) {
        let semaphore = {
            let mut nodes = self.nodes();
            if nodes.len() >= MAX_NODES {
                let now = Instant::now();
                nodes.retain(|_, node| node.users > 0 || node.unresponsive_until.is_some_and(|until| until > now));
            }
            let node = nodes.entry(Arc::clone(node)).or_insert_with(|| Node {
                semaphore: Arc::new(Semaphore::new(self.per_node)),
                users: 0,
                unresponsive_until: None,
            });
            node.users += 1;
            Arc::clone(&node.semaphore)
        };
        let permit = Permit { node_limiter: Arc::clone(self), node: Arc::clone(node), permits: Vec::with_capacity(3) };
        (permit, semaphore)
    }

    fn is_unresponsive(&self, node: &str) -> bool {
        let now = Instant::now();
        self.nodes().get(node).and_then(|node| node.unresponsive_until).is_some_and(|until| until > now)
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<Arc<str>, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Records whether the node sent a response, successful or not.
    pub(super) fn record(&self, has_responded: bool) {
        if let Some(node) = self.node_limiter.nodes().get_mut(&self.node) {
            let until = || Instant::now().checked_add(self.node_limiter.unresponsive_for);
            node.unresponsive_until = if has_responded { None } else { until() };
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.clear();
        let mut nodes = self.node_limiter.nodes();
        let Some(node) = nodes.get_mut(&self.node) else { return };
        node.users -= 1;
        if node.users == 0 && node.unresponsive_until.is_none() {
            nodes.remove(&self.node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn node(name: &str) -> Arc<str> {
        name.into()
    }

    #[tokio::test]
    async fn limits_reads_per_node_and_in_total() {
        let node_limiter = Arc::new(NodeLimiter::new(3, 2, UNRESPONSIVE_FOR));
        let first = node_limiter.acquire(&node("a")).await;
        let _second = node_limiter.acquire(&node("a")).await;
        assert!(node_limiter.acquire(&node("a")).now_or_never().is_none(), "two per node");
        let _third = node_limiter.acquire(&node("b")).now_or_never().expect("another node has a permit");
        assert!(node_limiter.acquire(&node("c")).now_or_never().is_none(), "three in total");
        assert!(["a", "b", "c"].iter().all(|name| node_limiter.try_acquire(&node(name)).is_none()));
        drop(first);
        assert!(node_limiter.acquire(&node("c")).now_or_never().is_some());
        assert!(node_limiter.try_acquire(&node("c")).is_some());
    }

    #[tokio::test]
    async fn unresponsive_nodes_get_half_of_the_permits() {
        let node_limiter = Arc::new(NodeLimiter::new(4, 2, UNRESPONSIVE_FOR));
        for name in ["a", "b", "c"] {
            node_limiter.acquire(&node(name)).await.record(false);
        }
        let _a = node_limiter.acquire(&node("a")).await;
        let b = node_limiter.acquire(&node("b")).await;
        assert!(node_limiter.acquire(&node("c")).now_or_never().is_none(), "half of the permits at most");
        assert!(node_limiter.try_acquire(&node("c")).is_none());
        let _d = node_limiter.acquire(&node("d")).now_or_never().expect("the others are for responsive nodes");
        b.record(true);
        drop(b);
        assert!(node_limiter.acquire(&node("c")).now_or_never().is_some());

        let forgetful = Arc::new(NodeLimiter::new(4, 2, Duration::ZERO));
        let mut permits = Vec::new();
        for name in ["a", "b", "c"] {
            forgetful.acquire(&node(name)).await.record(false);
            permits.push(forgetful.acquire(&node(name)).now_or_never().expect("the node counts as responsive again"));
        }
    }

    #[tokio::test]
    async fn forgets_idle_nodes() {
        let node_limiter = Arc::new(NodeLimiter::new(4, 2, UNRESPONSIVE_FOR));
        let first = node_limiter.acquire(&node("a")).await;
        let second = node_limiter.acquire(&node("a")).await;
        assert!(node_limiter.acquire(&node("a")).now_or_never().is_none());
        assert_eq!(node_limiter.nodes().len(), 1);
        drop((first, second));
        assert_eq!(node_limiter.nodes().len(), 0, "a cancelled wait counts as well");
    }
}
