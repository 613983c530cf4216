//! The `Orchestr` objects that the watch has reported, and whether the list of them is complete.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    watch::{READ_TIMEOUT, WatchUpdate},
};

use super::{object::Object, watch_health::Scope};

#[derive(Debug)]
pub(super) struct Objects {
    by_key: HashMap<NamespacedName, Object>,
    scopes: HashMap<Scope, ScopeState>,
}

/// What is known of the objects of a scope.
#[derive(Debug, Default)]
struct ScopeState {
    /// Whether they are known, or are known to be inaccessible.
    is_answered: bool,
    /// Whether they may not be watched.
    is_denied: bool,
    /// Those in the list that is being received.
    listed: HashSet<NamespacedName>,
    /// When the watch last reported anything.
    heard_at: Option<Instant>,
    /// While the watch is interrupted, when it was last known to work.
    interrupted_at: Option<Instant>,
}

impl Objects {
    pub(super) fn new(scopes: impl IntoIterator<Item = Scope>) -> Self {
        let scopes = scopes.into_iter().map(|scope| (scope, ScopeState::default())).collect();
        Self { by_key: HashMap::new(), scopes }
    }

    /// Notes whether the watch of a scope works, and whether its objects are known. The objects of other scopes do not wait
    /// for one that may not be watched.
    pub(super) fn note_watch<K>(&mut self, scope: &Scope, update: &WatchUpdate<K>, now: Instant) {
        let state = self.scopes.entry(scope.clone()).or_default();
        match update {
            WatchUpdate::Failed(_) | WatchUpdate::Denied(_) | WatchUpdate::WentBack => {
                // A connection may have been lost this long before it is noticed.
                let silent_since = now.checked_sub(READ_TIMEOUT);
                state.interrupted_at.get_or_insert_with(|| state.heard_at.max(silent_since).unwrap_or(now));
            }
            WatchUpdate::Synced | WatchUpdate::CaughtUp => state.interrupted_at = None,
            WatchUpdate::Relisting => state.listed.clear(),
            WatchUpdate::Listed(_) | WatchUpdate::Applied(_) | WatchUpdate::Deleted(_) | WatchUpdate::Behind => {}
        }
        match update {
            WatchUpdate::Denied(_) => (state.is_denied, state.is_answered) = (true, true),
            WatchUpdate::Synced => (state.is_denied, state.is_answered) = (false, true),
            update if update.is_of_object() || matches!(update, WatchUpdate::CaughtUp) => state.is_denied = false,
            _ => {}
        }
        state.heard_at = Some(now);
    }

    /// When what was known of an object before an update was last known to be current.
    pub(super) fn current_at(&self, key: &NamespacedName, now: Instant) -> Instant {
        let of_object = self.scopes.iter().filter(|(scope, _)| is_within(key, scope));
        of_object.filter_map(|(_, state)| state.interrupted_at).min().unwrap_or(now)
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

    pub(super) fn add_listed(&mut self, scope: &Scope, key: NamespacedName) {
        self.scopes.entry(scope.clone()).or_default().listed.insert(key);
    }

    /// Returns the objects that the list did not contain. The caller removes them.
    pub(super) fn end_list(&mut self, scope: &Scope) -> Vec<NamespacedName> {
        let listed = self.scopes.get_mut(scope).map(|state| std::mem::take(&mut state.listed)).unwrap_or_default();
        let known = self.by_key.keys().filter(|key| is_within(key, scope));
        known.filter(|key| !listed.contains(key)).cloned().collect()
    }

    /// The objects are listed again.
    pub(super) fn watches_reopened(&mut self) {
        self.scopes.values_mut().for_each(|state| state.is_answered = false);
    }

    /// Whether the objects of any scope may be watched. A namespace that may not be read may be gone for ever.
    pub(super) fn are_accessible(&self) -> bool {
        self.scopes.values().any(|state| !state.is_denied)
    }

    /// Whether the objects of all scopes are known or inaccessible.
    pub(super) fn are_known(&self) -> bool {
        self.scopes.values().all(|state| state.is_answered)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_since_when_a_spec_may_have_been_different() {
        let (key, scope) = (NamespacedName::new("shop", "cluster"), Scope::default());
        let (mut objects, start) = (Objects::new([Scope::default()]), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let failed = || WatchUpdate::<()>::Failed("the connection was reset".to_owned());
        objects.note_watch(&scope, &WatchUpdate::<()>::Synced, at(0));
        assert_eq!(objects.current_at(&key, at(1_000)), at(1_000), "a working watch may be silent");
        objects.note_watch(&scope, &WatchUpdate::Applied(()), at(1_000));
        objects.note_watch(&scope, &failed(), at(1_010));
        objects.note_watch(&scope, &failed(), at(2_200));
        objects.note_watch(&scope, &WatchUpdate::<()>::Behind, at(2_210));
        objects.note_watch(&scope, &WatchUpdate::Applied(()), at(2_211));
        assert_eq!(objects.current_at(&key, at(2_211)), at(1_000), "changes of twenty minutes follow");
        objects.note_watch(&scope, &WatchUpdate::<()>::CaughtUp, at(2_212));
        assert_eq!(objects.current_at(&key, at(2_213)), at(2_213));
        // A connection that was lost in silence.
        objects.note_watch(&scope, &failed(), at(9_000));
        assert_eq!(objects.current_at(&key, at(9_001)), at(9_000) - READ_TIMEOUT);
    }
}
