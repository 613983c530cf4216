//! Whether the index holds what the cluster holds.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// A namespace that is watched, or all of them.
pub type Scope = Option<String>;

/// How long a watch may fail before it is told: an API server that restarts is no news.
const TOLERATED: Duration = Duration::from_secs(60);
/// How long after its last failure a watch counts as failing. One that goes on where nothing happens
/// doesn't tell; one that hangs is noticed after 150 s.
const LAPSE: Duration = Duration::from_secs(180);

/// The state of every watch of pods.
#[derive(Debug)]
pub struct PodsState {
    scopes: BTreeMap<Scope, ScopeState>,
}

#[derive(Debug, Default)]
struct ScopeState {
    listed: bool,
    denied: Option<String>,
    failing: Option<Failing>,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    last: Instant,
    error: String,
}

/// What may be said of the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knowledge {
    /// All of them are known.
    Complete,
    /// A first list is not complete.
    Syncing,
    /// They can't be read at present, and why.
    Interrupted(String),
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
        let Some(state) = self.scopes.get_mut(scope) else { return false };
        let was_told = state.failing.take().is_some_and(|failing| failing.is_worth_telling(failing.last));
        state.denied.take().is_some() || was_told
    }

    /// A list is complete. Returns whether that changes what may be said.
    pub fn listed(&mut self, scope: &Scope) -> bool {
        let heard = self.heard(scope);
        self.scopes.get_mut(scope).is_some_and(|state| !std::mem::replace(&mut state.listed, true)) || heard
    }

    /// The server has refused. Returns whether that changes what may be said.
    pub fn denied(&mut self, scope: &Scope, refusal: String) -> bool {
        let Some(state) = self.scopes.get_mut(scope) else { return false };
        state.failing = None;
        state.denied.replace(refusal.clone()) != Some(refusal)
    }

    /// The watch has failed otherwise. Whether that is to be told is found when objects are looked at.
    pub fn failed(&mut self, scope: &Scope, error: String, now: Instant) {
        let Some(state) = self.scopes.get_mut(scope) else { return };
        let since = state.failing.as_ref().filter(|failing| failing.goes_on(now)).map_or(now, |failing| failing.since);
        state.failing = Some(Failing { since, last: now, error });
    }

    /// What may be said now of the pods in those scopes that concern somebody.
    #[must_use]
    pub fn knowledge(&self, now: Instant, concerns: impl Fn(&Scope) -> bool) -> Knowledge {
        let states = || self.scopes.iter().filter(|(scope, _)| concerns(scope)).map(|(_, state)| state);
        if let Some(refusal) = states().find_map(|state| state.denied.as_ref()) {
            return Knowledge::Denied(refusal.clone());
        }
        let mut failing = states().filter_map(|state| state.failing.as_ref());
        if let Some(failing) = failing.find(|failing| failing.is_worth_telling(now)) {
            return Knowledge::Interrupted(failing.error.clone());
        }
        if states().all(|state| state.listed) { Knowledge::Complete } else { Knowledge::Syncing }
    }
}

impl Failing {
    fn goes_on(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) <= LAPSE
    }

    fn is_worth_telling(&self, now: Instant) -> bool {
        self.goes_on(now) && self.last.saturating_duration_since(self.since) >= TOLERATED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes() -> [Scope; 2] {
        [Some("a".to_owned()), Some("b".to_owned())]
    }

    #[test]
    fn one_refused_namespace_is_told_until_it_answers() {
        let [a, b] = scopes();
        let now = Instant::now();
        let mut state = PodsState::new([a.clone(), b.clone()]);
        let all = |state: &PodsState| state.knowledge(now, |_| true);
        assert_eq!(all(&state), Knowledge::Syncing);
        assert!(state.listed(&a));
        assert!(state.denied(&b, "no".to_owned()));
        assert!(!state.denied(&b, "no".to_owned()), "the same refusal again is no news");
        assert_eq!(all(&state), Knowledge::Denied("no".to_owned()));
        assert_eq!(
            state.knowledge(now, |scope| *scope == a),
            Knowledge::Complete,
            "it concerns only those who look there"
        );
        assert!(state.heard(&b));
        assert_eq!(all(&state), Knowledge::Syncing);
        assert!(state.listed(&b));
        assert!(!state.listed(&b));
        assert_eq!(all(&state), Knowledge::Complete);
    }

    #[test]
    fn a_watch_that_fails_on_is_told_and_one_that_recovers_is_not() {
        let [a, _] = scopes();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut state = PodsState::new([a.clone()]);
        state.listed(&a);
        let fail = |state: &mut PodsState, seconds| {
            state.failed(&a, "HTTP 500".to_owned(), after(seconds));
            state.knowledge(after(seconds), |_| true)
        };
        for seconds in [0, 10, 50] {
            assert_eq!(fail(&mut state, seconds), Knowledge::Complete);
        }
        let interrupted = Knowledge::Interrupted("HTTP 500".to_owned());
        assert_eq!(fail(&mut state, 60), interrupted);
        assert_eq!(state.knowledge(after(240), |_| true), interrupted);
        assert_eq!(state.knowledge(after(241), |_| true), Knowledge::Complete, "it seems to go on");
        assert_eq!(fail(&mut state, 500), Knowledge::Complete, "that is another failure");
        assert_eq!(fail(&mut state, 560), interrupted);
        assert!(state.heard(&a));
        assert!(!state.heard(&a));
        assert_eq!(state.knowledge(after(560), |_| true), Knowledge::Complete);
        assert_eq!(fail(&mut state, 570), Knowledge::Complete);
        assert!(!state.heard(&a), "nobody was told");
    }
}
