//! Lists all pods once more beside the watch, after the lookback was extended. The index has dropped the details of pods
//! whose failures were too old to matter, and now they matter.
//!
//! The watch goes on meanwhile, so objects that need no older failures do not wait. Each pod of the list may be older than
//! what the watch has received, so the list only adds details to pods of which the watch has received nothing since.

use std::collections::HashSet;

use crate::pods::Uid;

use super::watch_health::Scope;

#[derive(Debug)]
pub(super) struct Backfill {
    /// The scopes whose list is not complete yet.
    remaining: HashSet<Scope>,
    /// The pods that the watch has received since: they were judged with the present lookback.
    received: HashSet<Uid>,
}

impl Backfill {
    pub(super) fn new(scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self { remaining: scopes.into_iter().collect(), received: HashSet::new() }
    }

    /// The watch has received a pod.
    pub(super) fn received(&mut self, pod: Uid) {
        self.received.insert(pod);
    }

    /// Whether the list may add the details of this pod.
    pub(super) fn lacks(&self, scope: &Scope, pod: Uid) -> bool {
        self.remaining.contains(scope) && !self.received.contains(&pod)
    }

    /// The list of a scope is complete.
    pub(super) fn listed(&mut self, scope: &Scope) {
        self.remaining.remove(scope);
    }

    pub(super) fn is_complete(&self) -> bool {
        self.remaining.is_empty()
    }
}
