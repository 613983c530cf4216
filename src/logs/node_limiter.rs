//! Limits concurrent log reads: in total, per node, and of unresponsive nodes to half of the total, so that dead nodes
//! never take all permits.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// How long a node counts as unresponsive after a read without a response.
pub(super) const UNRESPONSIVE_FOR: Duration = Duration::from_secs(60);

/// How many nodes are remembered before idle ones are removed.
const MAX_NODES: usize = 256;

#[derive(Debug)]
pub(super) struct NodeLimiter {
    concurrency: usize,
    per_node: usize,
    unresponsive_for: Duration,
    reads: Mutex<Reads>,
    ended: Notify,
}

/// The reads under way.
#[derive(Debug, Default)]
struct Reads {
    all: usize,
    /// From nodes that were unresponsive when they began.
    unresponsive: usize,
    nodes: HashMap<Arc<str>, Node>,
}

#[derive(Debug, Default)]
struct Node {
    reads: usize,
    unresponsive_until: Option<Instant>,
}

impl Node {
    fn is_unresponsive(&self, now: Instant) -> bool {
        self.unresponsive_until.is_some_and(|until| until > now)
    }
}

/// Allows one read; released when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    node_limiter: Arc<NodeLimiter>,
    node: Arc<str>,
    is_unresponsive: bool,
}

impl NodeLimiter {
    pub(super) fn new(concurrency: usize, per_node: usize, unresponsive_for: Duration) -> Self {
        let (concurrency, per_node) = (concurrency.max(1), per_node.max(1));
        Self { concurrency, per_node, unresponsive_for, reads: Mutex::default(), ended: Notify::new() }
    }

    /// Waits for a permit.
    pub(super) async fn acquire(self: &Arc<Self>, node: &Arc<str>) -> Permit {
        loop {
            let ended = self.ended.notified();
            if let Some(permit) = self.try_acquire(node) {
                return permit;
            }
            ended.await;
        }
    }

    /// Returns a permit if there is one now.
    pub(super) fn try_acquire(self: &Arc<Self>, node: &Arc<str>) -> Option<Permit> {
        let mut reads = self.reads();
        let now = Instant::now();
        if reads.nodes.len() >= MAX_NODES {
            reads.nodes.retain(|_, node| node.reads > 0 || node.is_unresponsive(now));
        }
        let known = reads.nodes.get(node);
        let is_unresponsive = known.is_some_and(|node| node.is_unresponsive(now));
        let is_full = reads.all >= self.concurrency || known.is_some_and(|node| node.reads >= self.per_node);
        if is_full || is_unresponsive && reads.unresponsive >= (self.concurrency / 2).max(1) {
            return None;
        }
        reads.all += 1;
        reads.unresponsive += usize::from(is_unresponsive);
        reads.nodes.entry(Arc::clone(node)).or_default().reads += 1;
        Some(Permit { node_limiter: Arc::clone(self), node: Arc::clone(node), is_unresponsive })
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Records whether the node sent a response, successful or not.
    pub(super) fn record(&self, has_responded: bool) {
        if let Some(node) = self.node_limiter.reads().nodes.get_mut(&self.node) {
            let until = || Instant::now().checked_add(self.node_limiter.unresponsive_for);
            node.unresponsive_until = if has_responded { None } else { until() };
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut reads = self.node_limiter.reads();
        reads.all -= 1;
        reads.unresponsive -= usize::from(self.is_unresponsive);
        if let Some(node) = reads.nodes.get_mut(&self.node) {
            node.reads -= 1;
            if node.reads == 0 && node.unresponsive_until.is_none() {
                reads.nodes.remove(&self.node);
            }
        }
        drop(reads);
        self.node_limiter.ended.notify_waiters();
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
        assert_eq!(node_limiter.reads().nodes.len(), 1);
        drop((first, second));
        assert_eq!(node_limiter.reads().nodes.len(), 0, "a cancelled wait counts as well");
    }
}
