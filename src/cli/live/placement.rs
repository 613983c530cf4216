//! What shows why no node takes a pod.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use crate::{
    diagnosis::{ClusterNodes, NodeObject},
    placement::{PlacementFacts, PlacementKey, PlacementReading},
};

#[derive(Default)]
pub(super) struct Placement {
    /// The nodes of a file.
    given: Option<Arc<ClusterNodes>>,
    read: HashMap<PlacementKey, PlacementFacts>,
    needed: RefCell<HashSet<PlacementKey>>,
}

impl Placement {
    /// Keeps a node of a file.
    pub(super) fn give_node(&mut self, node: &NodeObject) {
        Arc::make_mut(self.given.get_or_insert_default()).add(node);
    }

    pub(super) fn answered(&mut self, key: PlacementKey, reading: PlacementReading) {
        match reading {
            PlacementReading::Read(facts) => _ = self.read.insert(key, facts),
            PlacementReading::Denied => _ = self.read.remove(&key),
            // After an error, what was known stays valid.
            PlacementReading::Unavailable => {}
        }
    }

    /// What verdicts have depended on since the last call.
    pub(super) fn take_needed(&self) -> HashSet<PlacementKey> {
        self.needed.take()
    }

    pub(super) fn is_known(&self, key: &PlacementKey) -> bool {
        self.read.contains_key(key)
    }

    pub(super) fn nodes(&self) -> Option<Arc<ClusterNodes>> {
        if let Some(nodes) = &self.given {
            return Some(Arc::clone(nodes));
        }
        match self.ask(PlacementKey::Nodes)? {
            PlacementFacts::Nodes(nodes) => Some(nodes),
        }
    }

    fn ask(&self, key: PlacementKey) -> Option<PlacementFacts> {
        let known = self.read.get(&key).cloned();
        self.needed.borrow_mut().insert(key);
        known
    }
}
