//! Tracks whether the index of pods is complete.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// The scope of a watch: one namespace, or all of them.
pub(crate) type Scope = Option<String>;

/// How long a watch may be interrupted before the status reports it. A restart of the API server takes less time.
const TOLERATED: Duration = Duration::from_secs(60);
/// How long a list may take before the status reports it. Without this delay, a restarted operator would write every
/// status twice: as Syncing, and when the list is complete.
const GRACE: Duration = Duration::from_secs(10);
/// How long a complete list is current although the watch after it has failed. Otherwise the state after the list could be
/// reported only in the moment before the failure, and never if both are received together.
const CURRENT: Duration = Duration::from_secs(1);

/// An interruption of a watch without which the operator goes on, so that it is only logged, and not at once.
#[derive(Debug, Default)]
pub(super) struct LoggedInterruption {
    since: Option<Instant>,
    is_logged: bool,
}

impl LoggedInterruption {
    pub(super) fn begin(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// Whether it has lasted for longer than is tolerated.
    pub(super) fn is_long(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) >= TOLERATED)
    }

    /// Whether to log now that the watch has failed.
    pub(super) fn must_be_logged(&mut self, now: Instant) -> bool {
        self.is_long(now) && !std::mem::replace(&mut self.is_logged, true)
    }
}

/// The state of every watch of pods.
#[derive(Debug)]
pub(super) struct WatchHealth {
    scopes: BTreeMap<Scope, ScopeState>,
    /// When the watches were opened, or older failures began to be listed.
    opened: Instant,
}

#[derive(Debug, Default)]
struct ScopeState {
    /// The last complete list kept failures up to this age.
    listed: Option<Duration>,
    /// When it was complete.
    listed_at: Option<Instant>,
    /// The list that is being received keeps failures up to this age.
    listing: Duration,
    denied: Option<String>,
    interrupted: Option<Interruption>,
}

#[derive(Debug)]
struct Interruption {
    since: Instant,
    error: Option<String>,
}

/// How completely the pods of an object are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SyncState {
    Complete,
    /// The pods are incomplete, but have not been for long. This is reported only after one of these times:
    Settling {
        /// The time if the status was made for the present spec.
        until: Instant,
        /// The time if the status does not answer the present spec yet.
        unanswered_until: Instant,
    },
    /// The list of pods is not complete.
    Syncing,
    /// The watch has failed for longer than is tolerated.
    Interrupted {
        error: String,
        /// For how long it has failed.
        lasted: Duration,
    },
    /// RBAC denies access, with the API server's message.
    Denied(String),
}

impl WatchHealth {
    /// Watches that have not received anything yet.
    pub(super) fn new(scopes: impl IntoIterator<Item = Scope>, now: Instant) -> Self {
        Self { scopes: scopes.into_iter().map(|scope| (scope, ScopeState::default())).collect(), opened: now }
    }

    /// Whether the pods of a namespace are watched; of the whole cluster, which has no name, whether any pods are.
    pub(super) fn is_watched(&self, namespace: &str) -> bool {
        self.scopes.iter().any(|(scope, state)| match scope {
            Some(scope) => (namespace.is_empty() || scope == namespace) && state.denied.is_none(),
            None => true,
        })
    }

    /// The namespaces that are watched or should be, unless all are.
    pub(super) fn namespaces(&self) -> Option<Vec<&str>> {
        self.scopes.keys().map(Option::as_deref).collect()
    }

    /// Older failures are listed beside the watches, which go on.
    pub(super) fn backfilling(&mut self, now: Instant) {
        self.opened = now;
    }

    /// Failures up to this age have been listed beside the watch.
    pub(super) fn backfilled(&mut self, scope: &Scope, lookback: Duration) {
        let Some(state) = self.scopes.get_mut(scope) else { return };
        state.listing = state.listing.max(lookback);
        state.listed = state.listed.map(|listed| listed.max(lookback));
    }

    /// The scopes of all watches.
    pub(super) fn scopes(&self) -> impl Iterator<Item = Scope> {
        self.scopes.keys().cloned()
    }

    /// A list begins that keeps failures up to this age.
    pub(super) fn relisting(&mut self, scope: &Scope, lookback: Duration, now: Instant) {
        let Some(state) = self.scopes.get_mut(scope) else { return };
        state.listing = lookback;
        // From now on, the index may have newer states of some pods than of others.
        state.listed_at = None;
        if state.listed.is_some() {
            state.interrupted_at(now);
        }
    }

    /// Older failures are dropped from now on.
    pub(super) fn shorten_lookback(&mut self, lookback: Duration) {
        for state in self.scopes.values_mut() {
            state.listing = state.listing.min(lookback);
            state.listed = state.listed.map(|listed| listed.min(lookback));
        }
    }

    /// A list is complete. Returns whether the sync state may have changed.
    pub(super) fn synced(&mut self, scope: &Scope, now: Instant) -> bool {
        let Some(state) = self.scopes.get_mut(scope) else { return false };
        state.listed_at = Some(now);
        let grew = state.listed.replace(state.listing).is_none_or(|listed| listed < state.listing);
        state.caught_up() || grew
    }

    /// A watch resumed, and will first receive what was missed.
    pub(super) fn behind(&mut self, scope: &Scope, now: Instant) {
        if let Some(state) = self.scopes.get_mut(scope) {
            state.listed_at = None;
            state.interrupted_at(now);
        }
    }

    /// The missed updates are complete. Returns whether the sync state may have changed.
    pub(super) fn caught_up(&mut self, scope: &Scope) -> bool {
        self.scopes.get_mut(scope).is_some_and(ScopeState::caught_up)
    }

    /// The API server denied access. Returns false if it did so before with the same message.
    pub(super) fn denied(&mut self, scope: &Scope, refusal: String) -> bool {
        let Some(state) = self.scopes.get_mut(scope) else { return false };
        state.denied.replace(refusal.clone()) != Some(refusal)
    }

    /// The watch failed for another reason.
    pub(super) fn failed(&mut self, scope: &Scope, error: String, now: Instant) {
        let Some(state) = self.scopes.get_mut(scope) else { return };
        state.interrupted_at(now);
        if let Some(interruption) = &mut state.interrupted {
            interruption.error = Some(error);
        }
    }

    /// Whether the pods of all scopes are known, apart from interruptions that are tolerated. A namespace that may not be read
    /// may be gone for ever, so it does not count if another one may be read.
    pub(super) fn is_synced(&self, now: Instant) -> bool {
        let mut readable = self.scopes.values().filter(|state| state.denied.is_none()).peekable();
        readable.peek().is_some()
            && readable.all(|state| {
                let is_tolerated = |own: &Interruption| now.saturating_duration_since(own.since) < TOLERATED;
                state.listed.is_some() && state.interrupted.as_ref().is_none_or(is_tolerated)
            })
    }

    /// How many of the watched namespaces may not be read.
    pub(super) fn unreadable_namespaces(&self) -> usize {
        self.scopes.iter().filter(|(scope, state)| scope.is_some() && state.denied.is_some()).count()
    }

    /// The first of these namespaces that may not be read, with the API server's message. It may have been deleted: the right
    /// to read it has usually ended with it.
    pub(super) fn unreadable(&self, concerns: impl Fn(&Scope) -> bool) -> Option<String> {
        self.scopes.iter().filter(|(scope, _)| concerns(scope)).find_map(|(scope, state)| {
            Some(format!("the namespace {} is unreadable or gone: {}", scope.as_ref()?, state.denied.as_ref()?))
        })
    }

    /// The state for an object that is concerned with these scopes and needs failures up to this age.
    pub(super) fn sync_state(&self, now: Instant, needed: Duration, concerns: impl Fn(&Scope) -> bool) -> SyncState {
        let all = || self.scopes.iter().filter(|(scope, _)| concerns(scope)).map(|(_, state)| state);
        let states = || all().filter(|state| state.denied.is_none());
        if states().next().is_none()
            && let Some(refusal) = all().find_map(|state| state.denied.as_ref())
        {
            return SyncState::Denied(self.unreadable(&concerns).unwrap_or_else(|| refusal.clone()));
        }
        let is_current =
            |state: &&ScopeState| state.listed_at.is_some_and(|at| now.saturating_duration_since(at) < CURRENT);
        let interrupted = states().filter(|state| !is_current(state)).filter_map(|state| state.interrupted.as_ref());
        let longest = interrupted.min_by_key(|own| own.since);
        if let Some(interruption) = longest
            && now.saturating_duration_since(interruption.since) >= TOLERATED
        {
            let error = interruption.error.as_deref().unwrap_or("they are being listed again").to_owned();
            return SyncState::Interrupted { error, lasted: now.saturating_duration_since(interruption.since) };
        }
        let is_listed = states().all(|state| state.listed.is_some_and(|lookback| lookback >= needed));
        match longest {
            _ if !is_listed => {
                let until = self.opened + GRACE;
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
        assert!(state.synced(&a, start - CURRENT));
        (state, a)
    }

    #[test]
    fn a_denied_namespace_affects_only_objects_that_select_it() {
        let [a, b] = scopes();
        let start = Instant::now();
        let now = start + GRACE;
        let mut state = WatchHealth::new([a.clone(), b.clone()], start);
        let all = |state: &WatchHealth| state.sync_state(now, LOOKBACK, |_| true);
        assert_eq!(all(&state), SyncState::Syncing);
        state.relisting(&a, LOOKBACK, start);
        assert!(state.synced(&a, start));
        assert!(state.denied(&b, "no".to_owned()));
        assert!(!state.denied(&b, "no".to_owned()), "the same message again");
        let refusal = "the namespace b is unreadable or gone: no".to_owned();
        let only_b = |state: &WatchHealth| state.sync_state(now, LOOKBACK, |scope| *scope == b);
        assert_eq!(only_b(&state), SyncState::Denied(refusal.clone()));
        assert_eq!(all(&state), SyncState::Complete, "the other namespace is watched");
        assert_eq!((state.unreadable(|_| true), state.unreadable(|scope| *scope == a)), (Some(refusal.clone()), None));
        assert!(state.is_synced(now) && state.is_watched("a") && !state.is_watched("b") && state.is_watched(""));
        state.relisting(&b, LOOKBACK, start);
        assert_eq!(only_b(&state), SyncState::Denied(refusal), "a list that begins restores nothing");
        assert!(state.synced(&b, start));
        assert!(!state.synced(&b, start));
        assert_eq!((all(&state), only_b(&state)), (SyncState::Complete, SyncState::Complete));
        state.denied(&a, "no".to_owned());
        state.denied(&b, "no".to_owned());
        assert!(!state.is_synced(now), "nothing can be read");
    }

    #[test]
    fn reports_an_interruption_until_the_watch_catches_up() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut state, a) = listed(start);
        for seconds in [0, 10, 59] {
            state.failed(&a, "HTTP 500".to_owned(), after(seconds));
            let settling = SyncState::Settling { until: after(60), unanswered_until: after(10) };
            assert_eq!(state.sync_state(after(seconds), LOOKBACK, |_| true), settling, "{seconds}");
        }
        let interrupted =
            |seconds| SyncState::Interrupted { error: "HTTP 500".to_owned(), lasted: Duration::from_secs(seconds) };
        assert_eq!(state.sync_state(after(60), LOOKBACK, |_| true), interrupted(60));
        state.behind(&a, after(70));
        let behind = state.sync_state(after(70), LOOKBACK, |_| true);
        assert_eq!(behind, interrupted(70), "an open watch has not caught up yet");
        assert!(state.caught_up(&a));
        assert!(!state.caught_up(&a));
        assert_eq!(state.sync_state(after(70), LOOKBACK, |_| true), SyncState::Complete);
    }

    #[test]
    fn a_list_can_be_reported_although_the_watch_fails_immediately() {
        let start = Instant::now();
        let (mut state, a) = listed(start);
        for round in 0..3 {
            let now = start + Duration::from_secs(10 * round);
            state.relisting(&a, LOOKBACK, now);
            state.synced(&a, now);
            state.failed(&a, "HTTP 410".to_owned(), now);
            assert_eq!(state.sync_state(now, LOOKBACK, |_| true), SyncState::Complete);
            let settling = SyncState::Settling { until: now + TOLERATED, unanswered_until: now + GRACE };
            assert_eq!(state.sync_state(now + CURRENT, LOOKBACK, |_| true), settling);
            state.relisting(&a, LOOKBACK, now);
            assert_eq!(state.sync_state(now, LOOKBACK, |_| true), settling, "the next list is not complete");
        }
    }

    #[test]
    fn does_not_report_two_short_outages() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut state, a) = listed(start);
        for begins in [0, 100, 130] {
            for seconds in 0..25 {
                state.failed(&a, "refused".to_owned(), after(begins + seconds));
                let sync_state = state.sync_state(after(begins + seconds), LOOKBACK, |_| true);
                assert!(matches!(sync_state, SyncState::Settling { .. }), "{sync_state:?}");
            }
            state.behind(&a, after(begins + 25));
            assert!(state.caught_up(&a));
            assert_eq!(state.sync_state(after(begins + 26), LOOKBACK, |_| true), SyncState::Complete);
        }
    }

    #[test]
    fn an_object_waits_for_the_list_with_older_failures() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut state, a) = listed(start);
        let long = 6 * LOOKBACK;
        state.backfilling(after(100));
        let settling = SyncState::Settling { until: after(110), unanswered_until: after(110) };
        assert_eq!(state.sync_state(after(100), long, |_| true), settling);
        assert_eq!(state.sync_state(after(110), long, |_| true), SyncState::Syncing);
        assert_eq!(state.sync_state(after(110), LOOKBACK, |_| true), SyncState::Complete, "others do not wait");
        state.backfilled(&a, long);
        assert_eq!(state.sync_state(after(110), long, |_| true), SyncState::Complete);
        state.shorten_lookback(LOOKBACK);
        assert_eq!(state.sync_state(after(110), LOOKBACK, |_| true), SyncState::Complete);
        assert_eq!(state.sync_state(after(110), long, |_| true), SyncState::Syncing);
    }
}
