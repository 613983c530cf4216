//! Whether the index holds what the cluster holds.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// A namespace that is watched, or all of them.
pub type Scope = Option<String>;

/// How long a watch may be interrupted before that is reported: an API server that restarts is no news.
const TOLERATED: Duration = Duration::from_secs(60);
/// How long a list may take before that is reported: a restart of the operator is nothing that its users need to see,
/// and a status that is about to be complete is not worth two writes.
const GRACE: Duration = Duration::from_secs(10);

/// The state of every watch of pods.
#[derive(Debug)]
pub struct WatchHealth {
    scopes: BTreeMap<Scope, ScopeState>,
    /// Since when a list is awaited that nothing has interrupted.
    awaited: Instant,
}

#[derive(Debug, Default)]
struct ScopeState {
    /// How far back the last complete list kept failures.
    listed: Option<Duration>,
    /// The same of the list under way.
    listing: Duration,
    denied: Option<String>,
    interrupted: Option<Interruption>,
}

#[derive(Debug)]
struct Interruption {
    since: Instant,
    error: Option<String>,
}

/// What may be said of the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SyncState {
    /// All of them are known.
    Complete,
    /// They are not known at present, and that is no news until then.
    Settling {
        /// For an object whose status answers its spec.
        until: Instant,
        /// For any other.
        unanswered_until: Instant,
    },
    /// A list is not complete.
    Syncing,
    /// They can't be read at present, and why.
    Interrupted(String),
    /// A right is missing; in the API server's words.
    Denied(String),
}

impl WatchHealth {
    /// Nothing is known yet of these.
    #[must_use]
    pub fn new(scopes: impl IntoIterator<Item = Scope>, now: Instant) -> Self {
        Self { scopes: scopes.into_iter().map(|scope| (scope, ScopeState::default())).collect(), awaited: now }
    }

    /// The namespaces that are watched, unless all are.
    #[must_use]
    pub fn namespaces(&self) -> Option<Vec<&str>> {
        self.scopes.keys().map(Option::as_deref).collect()
    }

    /// All watches are opened again, so that failures are kept from further back.
    pub fn reopened(&mut self, now: Instant) {
        self.awaited = now;
        self.scopes.values_mut().for_each(|state| state.interrupted_at(now));
    }

    /// A list begins that keeps failures of at most that age.
    pub fn relisting(&mut self, scope: &Scope, lookback: Duration, now: Instant) {
        let Some(state) = self.scopes.get_mut(scope) else { return };
        state.listing = lookback;
        if state.listed.is_some() {
            state.interrupted_at(now);
        }
    }

    /// Failures of a greater age are dropped from now on.
    pub fn shorten_lookback(&mut self, lookback: Duration) {
        for state in self.scopes.values_mut() {
            state.listing = state.listing.min(lookback);
            state.listed = state.listed.map(|listed| listed.min(lookback));
        }
    }

    /// A list is complete. Returns whether that changes what may be said.
    pub fn synced(&mut self, scope: &Scope) -> bool {
        let Some(state) = self.scopes.get_mut(scope) else { return false };
        let grew = state.listed.replace(state.listing).is_none_or(|listed| listed < state.listing);
        state.caught_up() || grew
    }

    /// A watch resumes with a backlog.
    pub fn behind(&mut self, scope: &Scope, now: Instant) {
        if let Some(state) = self.scopes.get_mut(scope) {
            state.interrupted_at(now);
        }
    }

    /// The backlog is complete. Returns whether that changes what may be said.
    pub fn caught_up(&mut self, scope: &Scope) -> bool {
        self.scopes.get_mut(scope).is_some_and(ScopeState::caught_up)
    }

    /// The server has refused. Returns whether that changes what may be said.
    pub fn denied(&mut self, scope: &Scope, refusal: String) -> bool {
        let Some(state) = self.scopes.get_mut(scope) else { return false };
        state.denied.replace(refusal.clone()) != Some(refusal)
    }

    /// The watch has failed otherwise. Whether that is reported is decided when objects are reconciled.
    pub fn failed(&mut self, scope: &Scope, error: String, now: Instant) {
        let Some(state) = self.scopes.get_mut(scope) else { return };
        state.interrupted_at(now);
        if let Some(interruption) = &mut state.interrupted {
            interruption.error = Some(error);
        }
    }

    /// What may be said now of the pods in those scopes that concern somebody who needs failures of at most that age.
    #[must_use]
    pub fn knowledge(&self, now: Instant, needed: Duration, concerns: impl Fn(&Scope) -> bool) -> SyncState {
        let states = || self.scopes.iter().filter(|(scope, _)| concerns(scope)).map(|(_, state)| state);
        if let Some(refusal) = states().find_map(|state| state.denied.as_ref()) {
            return SyncState::Denied(refusal.clone());
        }
        let longest = states().filter_map(|state| state.interrupted.as_ref()).min_by_key(|own| own.since);
        if let Some(interruption) = longest
            && now.saturating_duration_since(interruption.since) >= TOLERATED
        {
            let error = interruption.error.as_deref().unwrap_or("they are being listed again");
            return SyncState::Interrupted(error.to_owned());
        }
        let is_listed = states().all(|state| state.listed.is_some_and(|lookback| lookback >= needed));
        match longest {
            _ if !is_listed => {
                let until = self.awaited + GRACE;
                if now < until { SyncState::Settling { until, unanswered_until: until } } else { SyncState::Syncing }
            }
            Some(Interruption { since, .. }) => {
                SyncState::Settling { until: *since + TOLERATED, unanswered_until: *since + GRACE }
            }
            None => SyncState::Complete,
        }
    }
}

impl ScopeState {
    fn interrupted_at(&mut self, now: Instant) {
        self.interrupted.get_or_insert(Interruption { since: now, error: None });
    }

    fn caught_up(&mut self) -> bool {
        let was_interrupted = self.interrupted.take().is_some();
        self.denied.take().is_some() || was_interrupted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKBACK: Duration = Duration::from_secs(600);

    fn scopes() -> [Scope; 2] {
        [Some("a".to_owned()), Some("b".to_owned())]
    }

    fn listed(start: Instant) -> (WatchHealth, Scope) {
        let [a, _] = scopes();
        let mut state = WatchHealth::new([a.clone()], start);
        state.relisting(&a, LOOKBACK, start);
        assert!(state.synced(&a));
        (state, a)
    }

    #[test]
    fn one_refused_namespace_concerns_those_who_select_it() {
        let [a, b] = scopes();
        let start = Instant::now();
        let now = start + GRACE;
        let mut state = WatchHealth::new([a.clone(), b.clone()], start);
        let all = |state: &WatchHealth| state.knowledge(now, LOOKBACK, |_| true);
        assert_eq!(all(&state), SyncState::Syncing);
        state.relisting(&a, LOOKBACK, start);
        assert!(state.synced(&a));
        assert!(state.denied(&b, "no".to_owned()));
        assert!(!state.denied(&b, "no".to_owned()), "the same refusal again is no news");
        assert_eq!(all(&state), SyncState::Denied("no".to_owned()));
        assert_eq!(state.knowledge(now, LOOKBACK, |scope| *scope == a), SyncState::Complete);
        state.relisting(&b, LOOKBACK, start);
        assert_eq!(all(&state), SyncState::Denied("no".to_owned()), "a list that begins restores nothing");
        assert!(state.synced(&b));
        assert!(!state.synced(&b));
        assert_eq!(all(&state), SyncState::Complete);
    }

    #[test]
    fn an_interruption_is_reported_after_a_minute_and_until_everything_missed_has_come() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut state, a) = listed(start);
        for seconds in [0, 10, 59] {
            state.failed(&a, "HTTP 500".to_owned(), after(seconds));
            let settling = SyncState::Settling { until: after(60), unanswered_until: after(10) };
            assert_eq!(state.knowledge(after(seconds), LOOKBACK, |_| true), settling, "{seconds}");
        }
        let interrupted = SyncState::Interrupted("HTTP 500".to_owned());
        assert_eq!(state.knowledge(after(60), LOOKBACK, |_| true), interrupted);
        state.behind(&a, after(70));
        assert_eq!(state.knowledge(after(70), LOOKBACK, |_| true), interrupted, "an open watch is not enough");
        assert!(state.caught_up(&a));
        assert!(!state.caught_up(&a));
        assert_eq!(state.knowledge(after(70), LOOKBACK, |_| true), SyncState::Complete);
    }

    #[test]
    fn two_short_outages_are_no_news() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut state, a) = listed(start);
        for begins in [0, 100, 130] {
            for seconds in 0..25 {
                state.failed(&a, "refused".to_owned(), after(begins + seconds));
                let knowledge = state.knowledge(after(begins + seconds), LOOKBACK, |_| true);
                assert!(matches!(knowledge, SyncState::Settling { .. }), "{knowledge:?}");
            }
            state.behind(&a, after(begins + 25));
            assert!(state.caught_up(&a));
            assert_eq!(state.knowledge(after(begins + 26), LOOKBACK, |_| true), SyncState::Complete);
        }
    }

    #[test]
    fn who_needs_more_history_waits_for_a_list_with_it() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut state, a) = listed(start);
        let long = 6 * LOOKBACK;
        state.reopened(after(100));
        let settling = SyncState::Settling { until: after(110), unanswered_until: after(110) };
        assert_eq!(state.knowledge(after(100), long, |_| true), settling);
        assert_eq!(state.knowledge(after(110), long, |_| true), SyncState::Syncing);
        let settling = SyncState::Settling { until: after(160), unanswered_until: after(110) };
        assert_eq!(state.knowledge(after(110), LOOKBACK, |_| true), settling, "whoever needs no more sees less now");
        state.relisting(&a, long, after(100));
        assert_eq!(state.knowledge(after(110), long, |_| true), SyncState::Syncing);
        assert!(state.synced(&a));
        assert_eq!(state.knowledge(after(110), long, |_| true), SyncState::Complete);
        state.shorten_lookback(LOOKBACK);
        assert_eq!(state.knowledge(after(110), LOOKBACK, |_| true), SyncState::Complete);
        assert_eq!(state.knowledge(after(110), long, |_| true), SyncState::Syncing);
    }
}
