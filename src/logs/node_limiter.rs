//! Who may read now: so many readings in all, so many of one node, and of nodes that last gave no answer
//! only half of them, so that dead nodes never take every place.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

/// How long a node counts as silent after it last gave no answer.
pub(super) const SILENCE: Duration = Duration::from_secs(60);

/// How many nodes are remembered before those that are silent no more are looked for.
const NODES: usize = 256;

#[derive(Debug)]
pub(super) struct NodeLimiter {
    all: Arc<Semaphore>,
    silent: Arc<Semaphore>,
    per_node: usize,
    silence: Duration,
    nodes: Mutex<HashMap<Arc<str>, Node>>,
}

#[derive(Debug)]
struct Node {
    places: Arc<Semaphore>,
    /// Who reads from it or waits to.
    users: usize,
    silent_until: Option<Instant>,
}

/// A place among those who read; given back when dropped.
#[derive(Debug)]
pub(super) struct Place<'a> {
    node_limiter: &'a NodeLimiter,
    node: Arc<str>,
    permits: Vec<OwnedSemaphorePermit>,
}

impl NodeLimiter {
    pub fn new(concurrency: usize, per_node: usize, silence: Duration) -> Self {
        Self {
            all: Arc::new(Semaphore::new(concurrency.max(1))),
            silent: Arc::new(Semaphore::new((concurrency / 2).max(1))),
            per_node: per_node.max(1),
            silence,
            nodes: Mutex::default(),
        }
    }

    /// Waits for a place. The node's own comes first: who waits for a slow node holds nothing that
    /// others need.
    pub async fn enter(&self, node: &Arc<str>) -> Place<'_> {
        let places = {
            let mut nodes = self.nodes();
            if nodes.len() >= NODES {
                let now = Instant::now();
                nodes.retain(|_, node| node.users > 0 || node.silent_until.is_some_and(|until| until > now));
            }
            let node = nodes.entry(Arc::clone(node)).or_insert_with(|| Node {
                places: Arc::new(Semaphore::new(self.per_node)),
                users: 0,
                silent_until: None,
            });
            node.users += 1;
            Arc::clone(&node.places)
        };
        let mut place = Place { node_limiter: self, node: Arc::clone(node), permits: Vec::with_capacity(3) };
        place.permits.extend(places.acquire_owned().await);
        if self.is_silent(node) {
            place.permits.extend(Arc::clone(&self.silent).acquire_owned().await);
        }
        place.permits.extend(Arc::clone(&self.all).acquire_owned().await);
        place
    }

    fn is_silent(&self, node: &str) -> bool {
        let now = Instant::now();
        self.nodes().get(node).and_then(|node| node.silent_until).is_some_and(|until| until > now)
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<Arc<str>, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place<'_> {
    /// Tells whether the node gave an answer, whatever it was.
    pub fn answered(&self, answered: bool) {
        if let Some(node) = self.node_limiter.nodes().get_mut(&self.node) {
            node.silent_until = if answered { None } else { Instant::now().checked_add(self.node_limiter.silence) };
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.permits.clear();
        let mut nodes = self.node_limiter.nodes();
        let Some(node) = nodes.get_mut(&self.node) else { return };
        node.users -= 1;
        if node.users == 0 && node.silent_until.is_none() {
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
    async fn places_are_bounded_for_each_node_and_in_all() {
        let node_limiter = NodeLimiter::new(3, 2, SILENCE);
        let first = node_limiter.enter(&node("a")).await;
        let _second = node_limiter.enter(&node("a")).await;
        assert!(node_limiter.enter(&node("a")).now_or_never().is_none(), "two of one node");
        let _third = node_limiter.enter(&node("b")).now_or_never().expect("another node has a place");
        assert!(node_limiter.enter(&node("c")).now_or_never().is_none(), "three in all");
        drop(first);
        assert!(node_limiter.enter(&node("c")).now_or_never().is_some());
    }

    #[tokio::test]
    async fn silent_nodes_leave_places_to_others() {
        let node_limiter = NodeLimiter::new(4, 2, SILENCE);
        for name in ["a", "b", "c"] {
            node_limiter.enter(&node(name)).await.answered(false);
        }
        let _a = node_limiter.enter(&node("a")).await;
        let b = node_limiter.enter(&node("b")).await;
        assert!(node_limiter.enter(&node("c")).now_or_never().is_none(), "half of the places at most");
        let _d = node_limiter.enter(&node("d")).now_or_never().expect("the others are for nodes that answer");
        b.answered(true);
        drop(b);
        assert!(node_limiter.enter(&node("c")).now_or_never().is_some());

        let forgetful = NodeLimiter::new(4, 2, Duration::ZERO);
        let mut places = Vec::new();
        for name in ["a", "b", "c"] {
            forgetful.enter(&node(name)).await.answered(false);
            places.push(forgetful.enter(&node(name)).now_or_never().expect("silence is forgotten"));
        }
    }

    #[tokio::test]
    async fn nodes_are_forgotten() {
        let node_limiter = NodeLimiter::new(4, 2, SILENCE);
        let place = node_limiter.enter(&node("a")).await;
        let waiting = node_limiter.enter(&node("a")).await;
        assert!(node_limiter.enter(&node("a")).now_or_never().is_none());
        assert_eq!(node_limiter.nodes().len(), 1);
        drop((place, waiting));
        assert_eq!(node_limiter.nodes().len(), 0, "given up waiting, too");
    }
}
