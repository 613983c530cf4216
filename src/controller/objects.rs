//! The `Orchestr` objects that the watch has reported, and whether the list of them is complete.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use crate::api::NamespacedName;

use super::{object::Object, watch_health::Scope};

#[derive(Debug)]
pub(super) struct Objects {
    by_key: HashMap<NamespacedName, Object>,
    /// The objects in the list that is being received.
    listed: HashSet<NamespacedName>,
    /// The scopes whose objects are known, or are known to be inaccessible.
    answered: HashSet<Scope>,
    /// The scopes whose objects may not be watched.
    denied: HashSet<Scope>,
    /// The number of all scopes.
    scopes: usize,
}

impl Objects {
    /// `scopes` is the number of scopes.
    pub(super) fn new(scopes: usize) -> Self {
        Self {
            by_key: HashMap::new(),
            listed: HashSet::new(),
            answered: HashSet::new(),
            denied: HashSet::new(),
            scopes,
        }
    }

    pub(super) fn get(&self, key: &NamespacedName) -> Option<&Object> {
        self.by_key.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &NamespacedName) -> Option<&mut Object> {
        self.by_key.get_mut(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &NamespacedName> {
        self.by_key.keys()
    }

    pub(super) fn insert(&mut self, key: NamespacedName, object: Object) {
        self.by_key.insert(key, object);
    }

    pub(super) fn remove(&mut self, key: &NamespacedName) -> Option<Object> {
        self.by_key.remove(key)
    }

    /// The cluster was put back to an earlier state.
    pub(super) fn went_back(&mut self, scope: &Scope) {
        let objects = self.by_key.iter_mut().filter(|(key, _)| is_within(key, scope));
        objects.for_each(|(_, object)| object.went_back());
    }

    pub(super) fn begin_list(&mut self, scope: &Scope) {
        self.listed.retain(|key| !is_within(key, scope));
    }

    pub(super) fn add_listed(&mut self, key: NamespacedName) {
        self.listed.insert(key);
    }

    /// Returns the objects that the list did not contain. The caller removes them.
    pub(super) fn end_list(&mut self, scope: Scope) -> Vec<NamespacedName> {
        let known = self.by_key.keys().filter(|key| is_within(key, &scope));
        let gone = known.filter(|key| !self.listed.contains(key)).cloned().collect();
        self.listed.retain(|key| !is_within(key, &scope));
        self.answered.insert(scope);
        gone
    }

    /// The objects are listed again.
    pub(super) fn watches_reopened(&mut self) {
        self.answered.clear();
    }

    /// The operator may not list this scope. The objects of other scopes do not wait for it.
    pub(super) fn access_denied(&mut self, scope: Scope) {
        self.denied.insert(scope.clone());
        self.answered.insert(scope);
    }

    /// The watch of this scope works.
    pub(super) fn access_granted(&mut self, scope: &Scope) {
        self.denied.remove(scope);
    }

    /// Whether the objects of any scope may be watched. A namespace that may not be read may be gone for ever.
    pub(super) fn are_accessible(&self) -> bool {
        self.denied.len() < self.scopes
    }

    /// Whether the objects of all scopes are known or inaccessible.
    pub(super) fn are_known(&self) -> bool {
        self.answered.len() == self.scopes
    }

    /// The longest `restarted` threshold of the objects that watch pods.
    pub(super) fn longest_restarted(&self) -> Duration {
        let settings = self.by_key.values().filter_map(|object| object.settings.as_ref().ok());
        let enabled = settings.filter(|settings| settings.enabled);
        enabled.map(|settings| settings.thresholds.restarted).max().unwrap_or_default()
    }
}

fn is_within(key: &NamespacedName, scope: &Scope) -> bool {
    scope.as_ref().is_none_or(|namespace| *namespace == key.namespace)
}
