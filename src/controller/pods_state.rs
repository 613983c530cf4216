//! Whether the index holds what the cluster holds.

use std::collections::BTreeMap;

/// A namespace that is watched, or all of them.
pub type Scope = Option<String>;

/// The state of every watch of pods.
#[derive(Debug)]
pub struct PodsState {
    scopes: BTreeMap<Scope, ScopeState>,
}

#[derive(Debug, Default)]
struct ScopeState {
    listed: bool,
    denied: Option<String>,
}

/// What may be said of the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// All of them are known.
    Complete,
    /// A first list is not complete.
    Syncing,
    /// A right is missing; in the API server's words.
    Denied(String),
}

impl PodsState {
    /// Nothing is known yet of these.
    #[must_use]
    pub fn new(scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self { scopes: scopes.into_iter().map(|scope| (scope, ScopeState::default())).collect() }
    }

    /// The server has answered with pods. Returns whether that changes what may be said.
    pub fn heard(&mut self, scope: &Scope) -> bool {
        self.scopes.get_mut(scope).is_some_and(|state| state.denied.take().is_some())
    }

    /// A list is complete. Returns whether that changes what may be said.
    pub fn listed(&mut self, scope: &Scope) -> bool {
        let heard = self.heard(scope);
        self.scopes.get_mut(scope).is_some_and(|state| !std::mem::replace(&mut state.listed, true)) || heard
    }

    /// The server has refused. Returns whether that changes what may be said.
    pub fn denied(&mut self, scope: &Scope, refusal: String) -> bool {
        self.scopes.get_mut(scope).is_some_and(|state| state.denied.replace(refusal.clone()) != Some(refusal))
    }

    /// What may be said now.
    #[must_use]
    pub fn knowledge(&self) -> Knowledge {
        if let Some(refusal) = self.scopes.values().find_map(|state| state.denied.as_ref()) {
            return Knowledge::Denied(refusal.clone());
        }
        if self.scopes.values().all(|state| state.listed) { Knowledge::Complete } else { Knowledge::Syncing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refused_namespace_is_told_until_it_answers() {
        let [a, b] = [Some("a".to_owned()), Some("b".to_owned())];
        let mut state = PodsState::new([a.clone(), b.clone()]);
        assert_eq!(state.knowledge(), Knowledge::Syncing);
        assert!(state.listed(&a));
        assert!(state.denied(&b, "no".to_owned()));
        assert!(!state.denied(&b, "no".to_owned()), "the same refusal again is no news");
        assert_eq!(state.knowledge(), Knowledge::Denied("no".to_owned()));
        assert!(state.heard(&b));
        assert_eq!(state.knowledge(), Knowledge::Syncing);
        assert!(state.listed(&b));
        assert!(!state.listed(&b));
        assert_eq!(state.knowledge(), Knowledge::Complete);
    }
}
