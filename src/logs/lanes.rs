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
const SILENCE: Duration = Duration::from_secs(60);

/// How many nodes are remembered before those that are silent no more are looked for.
const NODES: usize = 256;

#[derive(Debug)]
pub(super) struct Lanes {
    all: Arc<Semaphore>,
    silent: Arc<Semaphore>,
    per_node: usize,
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
    lanes: &'a Lanes,
    node: Arc<str>,
    permits: Vec<OwnedSemaphorePermit>,
}

impl Lanes {
    pub fn new(at_once: usize, per_node: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(at_once.max(1))),
            silent: Arc::new(Semaphore::new((at_once / 2).max(1))),
            per_node: per_node.max(1),
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
        let mut place = Place { lanes: self, node: Arc::clone(node), permits: Vec::with_capacity(3) };
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
        if let Some(node) = self.lanes.nodes().get_mut(&self.node) {
            node.silent_until = if answered { None } else { Instant::now().checked_add(SILENCE) };
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.permits.clear();
        let mut nodes = self.lanes.nodes();
        let Some(node) = nodes.get_mut(&self.node) else { return };
        node.users -= 1;
        if node.users == 0 && node.silent_until.is_none() {
            nodes.remove(&self.node);
        }
    }
}
