//! What shows why no node takes a pod.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arcstr::ArcStr;

use crate::{
    diagnosis::{
        ClaimFacts, ClaimObject, ClassObject, ClassReading, ClusterNodes, FreeVolumes, NodeObject, VolumeObject,
    },
    placement::{PlacementFacts, PlacementKey, PlacementReading},
    pods::Pod,
};

#[derive(Default)]
pub(in crate::cli) struct Placement {
    /// The nodes of a file.
    given: Option<Arc<ClusterNodes>>,
    /// The claims of a file by namespace and name, the StorageClasses by name, and the volumes.
    given_claims: HashMap<(String, String), ClaimObject>,
    given_classes: HashMap<String, ClassObject>,
    given_volumes: Option<FreeVolumes>,
    read: HashMap<PlacementKey, PlacementFacts>,
    needed: RefCell<HashSet<PlacementKey>>,
}

impl Placement {
    /// Keeps a node of a file.
    pub(in crate::cli) fn give_node(&mut self, node: &NodeObject) {
        Arc::make_mut(self.given.get_or_insert_default()).add(node);
    }

    /// Keeps a claim of a file.
    pub(in crate::cli) fn give_claim(&mut self, namespace: String, name: String, claim: ClaimObject) {
        self.given_claims.insert((namespace, name), claim);
    }

    /// Keeps a StorageClass of a file.
    pub(in crate::cli) fn give_class(&mut self, name: String, class: ClassObject) {
        self.given_classes.insert(name, class);
    }

    /// Keeps a volume of a file.
    pub(in crate::cli) fn give_volume(&mut self, volume: &VolumeObject) {
        self.given_volumes.get_or_insert_default().add(volume);
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
            PlacementFacts::Claim(_) => None,
        }
    }

    /// What is known of the claims of a pod.
    pub(super) fn claims(&self, pod: &Pod) -> Vec<(ArcStr, Arc<ClaimFacts>)> {
        let known = PlacementKey::claims(pod).filter_map(|(name, key)| {
            if let Some(claim) = self.given_claims.get(&(pod.namespace.to_string(), name.to_string())) {
                return Some((name, Arc::new(self.of_file(claim))));
            }
            match self.ask(key)? {
                PlacementFacts::Claim(claim) => Some((name, claim)),
                PlacementFacts::Nodes(_) => None,
            }
        });
        known.collect()
    }

    /// A file without any StorageClass does not show that one is missing.
    fn of_file(&self, claim: &ClaimObject) -> ClaimFacts {
        let class = match claim.class().map(|name| self.given_classes.get(name)) {
            Some(Some(class)) => ClassReading::Read(class),
            Some(None) if !self.given_classes.is_empty() => ClassReading::Missing,
            _ => ClassReading::Unknown,
        };
        ClaimFacts::of(claim, class, self.given_volumes.as_ref())
    }

    fn ask(&self, key: PlacementKey) -> Option<PlacementFacts> {
        let known = self.read.get(&key).cloned();
        self.needed.borrow_mut().insert(key);
        known
    }
}
