//! The Warning events about pods, and whether they can be read. Without them, fewer causes are found, but the verdicts are
//! the same.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    events::{Event, EventStore, Recorded, WatchedEvent},
    pods::{Pod, Uid},
    watch::WatchUpdate,
};

use super::watch_health::Scope;

/// How long the watch may be interrupted before this is logged. Without a cache in the API server, a watch of events ends
/// now and then, because its resource version has been compacted.
const TOLERATED: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Evidence {
    store: EventStore,
    scopes: BTreeMap<Scope, ScopeState>,
    /// How many dropped events were logged.
    logged_drops: u64,
}

#[derive(Debug, Default)]
struct ScopeState {
    denied: Option<String>,
    interrupted_since: Option<Instant>,
    is_interruption_logged: bool,
}

/// What an update of the watch of events changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NewEvidence {
    Nothing,
    /// A status may show this pod's events.
    AboutPod(Uid),
    /// An event about an object that is not a pod.
    AboutOther(Box<Event>),
    /// Whether events may be read has changed.
    Access,
}

impl Evidence {
    pub(super) fn new(scopes: impl IntoIterator<Item = Scope>) -> Self {
        let scopes = scopes.into_iter().map(|scope| (scope, ScopeState::default())).collect();
        Self { store: EventStore::default(), scopes, logged_drops: 0 }
    }

    pub(super) fn apply(&mut self, scope: &Scope, update: WatchUpdate<WatchedEvent>, now: Instant) -> NewEvidence {
        let Some(state) = self.scopes.get_mut(scope) else { return NewEvidence::Nothing };
        match update {
            WatchUpdate::Listed(event) | WatchUpdate::Applied(event) => {
                let WatchedEvent { id, event: Some(event), .. } = event else { return NewEvidence::Nothing };
                if event.involved.kind == "Pod" { self.record(id, *event, now) } else { NewEvidence::AboutOther(event) }
            }
            // An event is deleted when it has become too old. It stays true.
            WatchUpdate::Deleted(_) | WatchUpdate::Relisting | WatchUpdate::Synced => NewEvidence::Nothing,
            WatchUpdate::Behind | WatchUpdate::CaughtUp => {
                state.interrupted_since = None;
                state.is_interruption_logged = false;
                if state.denied.take().is_some() {
                    tracing::info!("events are read again");
                    return NewEvidence::Access;
                }
                NewEvidence::Nothing
            }
            WatchUpdate::Denied(refusal) => {
                if state.denied.as_ref() == Some(&refusal) {
                    return NewEvidence::Nothing;
                }
                tracing::warn!(refusal, "not allowed to watch events: causes that only events show are not found");
                state.denied = Some(refusal);
                NewEvidence::Access
            }
            WatchUpdate::Failed(error) => {
                tracing::debug!(error, "the watch of events has ended");
                let since = *state.interrupted_since.get_or_insert(now);
                let is_long = now.saturating_duration_since(since) >= TOLERATED && state.denied.is_none();
                if is_long && !std::mem::replace(&mut state.is_interruption_logged, true) {
                    tracing::warn!(error, "the watch of events is interrupted");
                }
                NewEvidence::Nothing
            }
        }
    }

    fn record(&mut self, id: u64, event: Event, now: Instant) -> NewEvidence {
        let uid = Uid::from_text(&event.involved.uid);
        match self.store.record(id, event, now) {
            Recorded::New => NewEvidence::AboutPod(uid),
            // A status is refreshed once a minute. If each repetition changed it, a failing probe would cause a write
            // every few seconds.
            Recorded::Repeated | Recorded::Ignored => NewEvidence::Nothing,
        }
    }

    /// The events about a pod, the most recent last.
    pub(super) fn about(&self, pod: &Pod) -> Arc<[Event]> {
        self.store.about(pod)
    }

    /// A sentence for the status of an object that is concerned with these scopes, if events may not be read.
    pub(super) fn warning(&self, concerns: impl Fn(&Scope) -> bool) -> Option<String> {
        let denied =
            self.scopes.iter().filter(|(scope, _)| concerns(scope)).find_map(|(_, state)| state.denied.as_ref());
        denied.map(|refusal| format!("events are not read: {refusal}"))
    }

    /// Drops the events that are no longer needed.
    pub(super) fn sweep(&mut self, now: Instant, exists: impl Fn(Uid) -> bool) {
        self.store.sweep(now, exists);
        let dropped = self.store.dropped();
        if dropped > self.logged_drops {
            tracing::debug!(dropped = dropped - self.logged_drops, "dropped events because there are too many");
            self.logged_drops = dropped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::InvolvedObject;

    fn event(kind: &str, reason: &str, count: u32) -> WatchUpdate<WatchedEvent> {
        let involved = InvolvedObject { kind: kind.to_owned(), uid: "5".to_owned(), ..InvolvedObject::default() };
        let event = Event { involved, reason: reason.to_owned(), count, ..Event::default() };
        WatchUpdate::Applied(WatchedEvent { id: 1, event: Some(Box::new(event)), resource_version: String::new() })
    }

    #[test]
    fn a_repetition_changes_a_status_only_when_the_count_has_doubled() {
        let (mut evidence, now) = (Evidence::new([None]), Instant::now());
        let pod = NewEvidence::AboutPod(Uid::from_text("5"));
        let mut changes = 0;
        for count in 1..=1000 {
            let new = evidence.apply(&None, event("Pod", "Unhealthy", count), now);
            assert!(new == pod || new == NewEvidence::Nothing);
            changes += usize::from(new == pod);
        }
        assert_eq!(changes, 10);
    }

    #[test]
    fn passes_on_events_about_other_objects() {
        let (mut evidence, now) = (Evidence::new([None]), Instant::now());
        let WatchUpdate::Applied(WatchedEvent { event: Some(expected), .. }) = event("ReplicaSet", "FailedCreate", 3)
        else {
            panic!("no event")
        };
        let new = evidence.apply(&None, event("ReplicaSet", "FailedCreate", 3), now);
        assert_eq!(new, NewEvidence::AboutOther(expected));
    }

    #[test]
    fn warns_once_until_events_can_be_read() {
        let scope = Some("shop".to_owned());
        let (mut evidence, now) = (Evidence::new([scope.clone(), None]), Instant::now());
        let denied = || WatchUpdate::Denied("events is forbidden".to_owned());
        assert_eq!(
            evidence.apply(&scope, WatchUpdate::Failed("events is forbidden".to_owned()), now),
            NewEvidence::Nothing
        );
        assert_eq!(evidence.warning(|_| true), None);
        assert_eq!(evidence.apply(&scope, denied(), now), NewEvidence::Access);
        assert_eq!(evidence.apply(&scope, denied(), now), NewEvidence::Nothing);
        assert_eq!(evidence.apply(&scope, WatchUpdate::Relisting, now), NewEvidence::Nothing);
        assert_eq!(evidence.apply(&scope, WatchUpdate::Synced, now), NewEvidence::Nothing);
        assert_eq!(evidence.warning(|_| true).as_deref(), Some("events are not read: events is forbidden"));
        assert_eq!(evidence.warning(Option::is_none), None, "another namespace");
        assert_eq!(evidence.apply(&scope, WatchUpdate::Behind, now), NewEvidence::Access);
        assert_eq!(evidence.warning(|_| true), None);
    }
}
