//! The events about pods, and whether they can be read. Without them, fewer causes are found, but the verdicts are
//! the same.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    diagnosis::Finding,
    events::{CLAIM, Event, EventStore, InvolvedObject, Recorded, WatchedEvent},
    facts::Question,
    pods::{Pod, Uid},
    watch::{WENT_BACK, WatchUpdate},
};

use super::{
    event_lists::EventLists,
    watch_health::{LoggedInterruption, Scope},
};

/// By how much the times of pods may be ahead of ours.
const SKEW: Duration = Duration::from_secs(5);

/// The controllers whose events tell why pods do not exist.
const CONTROLLERS: [&str; 5] = ["ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"];

#[derive(Debug)]
pub(super) struct Evidence {
    store: EventStore,
    scopes: BTreeMap<Scope, ScopeState>,
    lists: EventLists,
    /// How many dropped events were logged.
    logged_drops: u64,
}

#[derive(Debug, Default)]
struct ScopeState {
    /// When the watch started in the present, without the events before.
    started: Option<Timestamp>,
    denied: Option<String>,
    /// Without a cache in the API server, a watch of events ends now and then, because its resource version has been compacted.
    interruption: LoggedInterruption,
}

/// What an update of the watch of events changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NewEvidence {
    Nothing,
    /// A status may show this pod's events.
    AboutPod(Uid),
    /// The same for the pods that are not scheduled and have this claim, by namespace and name.
    AboutClaim(String, String),
    /// An event about a controller of pods, such as a ReplicaSet.
    AboutController(Box<Event>),
    /// Whether events can be read has changed.
    ConcernsAll,
}

impl Evidence {
    pub(super) fn new(scopes: impl IntoIterator<Item = Scope>, now: Instant) -> Self {
        let scopes = scopes.into_iter().map(|scope| (scope, ScopeState::default())).collect();
        Self { store: EventStore::default(), scopes, lists: EventLists::new(now), logged_drops: 0 }
    }

    pub(super) fn apply(
        &mut self,
        scope: &Scope,
        update: WatchUpdate<WatchedEvent>,
        now: Instant,
        wall: Timestamp,
    ) -> NewEvidence {
        let Some(state) = self.scopes.get_mut(scope) else { return NewEvidence::Nothing };
        match update {
            WatchUpdate::Listed(event) | WatchUpdate::Applied(event) => {
                let WatchedEvent { id, event: Some(event), .. } = event else { return NewEvidence::Nothing };
                match &*event.involved.kind {
                    "Pod" => {
                        let pod = Uid::from_text(&event.involved.uid);
                        self.record(id, *event, now, NewEvidence::AboutPod(pod))
                    }
                    CLAIM => {
                        let InvolvedObject { namespace, name, .. } = event.involved.clone();
                        self.record(id, *event, now, NewEvidence::AboutClaim(namespace, name))
                    }
                    kind if CONTROLLERS.contains(&kind) => NewEvidence::AboutController(event),
                    // For instance the events of Orchestr objects, which this operator publishes.
                    _ => NewEvidence::Nothing,
                }
            }
            // An event is deleted when it has become too old. It stays true.
            WatchUpdate::Deleted(_) | WatchUpdate::Relisting => NewEvidence::Nothing,
            WatchUpdate::Synced => {
                if state.started.is_some() && !state.interruption.is_long(now) {
                    // Hardly any events were missed.
                    return NewEvidence::Nothing;
                }
                state.started = Some(wall);
                self.lists.watch_started(now);
                NewEvidence::ConcernsAll
            }
            WatchUpdate::Behind | WatchUpdate::CaughtUp => {
                state.interruption = LoggedInterruption::default();
                if state.denied.take().is_some() {
                    tracing::info!("events are read again");
                    return NewEvidence::ConcernsAll;
                }
                NewEvidence::Nothing
            }
            WatchUpdate::Denied(refusal) => {
                if state.denied.as_ref() == Some(&refusal) {
                    return NewEvidence::Nothing;
                }
                tracing::warn!(refusal, "not allowed to watch events: causes that only events show are not found");
                state.denied = Some(refusal);
                NewEvidence::ConcernsAll
            }
            WatchUpdate::WentBack => {
                tracing::debug!("{WENT_BACK}: the watch of events starts in the present again");
                state.interruption.begin(now);
                NewEvidence::Nothing
            }
            WatchUpdate::Failed(error) => {
                tracing::debug!(error, "the watch of events has ended");
                state.interruption.begin(now);
                if state.denied.is_none() && state.interruption.must_be_logged(now) {
                    tracing::warn!(error, "the watch of events is interrupted");
                }
                NewEvidence::Nothing
            }
        }
    }

    fn record(&mut self, id: u64, event: Event, now: Instant, new: NewEvidence) -> NewEvidence {
        match self.store.record(id, event, now) {
            Recorded::New => new,
            // A status is refreshed once a minute. If each repetition changed it, a failing probe would cause a write
            // every few seconds.
            Recorded::Repeated | Recorded::Ignored => NewEvidence::Nothing,
        }
    }

    /// This replica begins to lead. It has watched events before, but listed none.
    pub(super) fn begin_term(&mut self, now: Instant, wall: Timestamp) {
        let started = self.scopes.values_mut().filter_map(|state| state.started.as_mut());
        if self.lists.watch_started(now) {
            started.for_each(|started| *started = wall);
        }
    }

    pub(super) fn store(&self) -> &EventStore {
        &self.store
    }

    /// Stores listed events about a pod. Returns whether a status may show them.
    pub(super) fn listed(&mut self, pod: Uid, events: Vec<WatchedEvent>, now: Instant) -> bool {
        let mut is_new = false;
        for event in events {
            let WatchedEvent { id, event: Some(event), .. } = event else { continue };
            if event.involved.kind == "Pod" && Uid::from_text(&event.involved.uid) == pod {
                is_new |= self.store.record(id, *event, now) != Recorded::Ignored;
            }
        }
        is_new
    }

    /// Given pods with a problem, returns the events to list now, and when to ask again.
    pub(super) fn ask<'a>(
        &mut self,
        found: impl Iterator<Item = (&'a Pod, &'a Finding)>,
        now: Instant,
    ) -> (Vec<Question>, Option<Instant>) {
        if !self.lists.is_open(now) {
            return (Vec::new(), None);
        }
        let Self { store, scopes, lists, .. } = self;
        let lacks_events = |(pod, finding): &(&Pod, &Finding)| {
            let state = scopes.get(&None).or_else(|| scopes.get(&Some(pod.namespace.to_string())));
            let started = state.and_then(|state| state.started);
            // The watch has received the events about later problems.
            let is_older =
                started.and_then(|started| started.checked_add(SKEW).ok()).is_some_and(|by| finding.since <= by);
            // The watch of Warnings does not show an event about a kill.
            is_older && finding.needs_events() && (finding.needs_kills() || !store.has_events_about(pod))
        };
        lists.ask(found.filter(lacks_events), now)
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
    use orchestr_testbed::objects::container;
    use serde_json::json;

    use super::*;
    use crate::{api::Cause, events::InvolvedObject};

    fn evidence<const N: usize>(scopes: [Scope; N]) -> (Evidence, Instant) {
        let now = Instant::now();
        (Evidence::new(scopes, now), now)
    }

    fn wall() -> Timestamp {
        Timestamp::from_second(1_000_000).unwrap()
    }

    fn event(kind: &str, reason: &str, count: u32) -> WatchUpdate<WatchedEvent> {
        let involved = InvolvedObject {
            kind: kind.to_owned(),
            namespace: "shop".to_owned(),
            uid: "5".to_owned(),
            ..InvolvedObject::default()
        };
        let event = Event { involved, reason: reason.to_owned(), count, ..Event::default() };
        WatchUpdate::Applied(WatchedEvent { id: 1, event: Some(Box::new(event)) })
    }

    #[test]
    fn a_repetition_changes_a_status_when_its_count_doubles() {
        let (mut evidence, now) = evidence([None]);
        let pod = NewEvidence::AboutPod(Uid::from_text("5"));
        let mut changes = 0;
        for count in 1..=1000 {
            let new = evidence.apply(&None, event("Pod", "Unhealthy", count), now, wall());
            assert!(new == pod || new == NewEvidence::Nothing);
            changes += usize::from(new == pod);
        }
        assert_eq!(changes, 10);
    }

    #[test]
    fn passes_on_events_about_controllers() {
        let (mut evidence, now) = evidence([None]);
        let WatchUpdate::Applied(WatchedEvent { event: Some(expected), .. }) = event("ReplicaSet", "FailedCreate", 3)
        else {
            panic!("no event")
        };
        let new = evidence.apply(&None, event("ReplicaSet", "FailedCreate", 3), now, wall());
        assert_eq!(new, NewEvidence::AboutController(expected));
        for kind in ["Orchestr", "Node", "Service"] {
            assert_eq!(evidence.apply(&None, event(kind, "Failed", 3), now, wall()), NewEvidence::Nothing, "{kind}");
        }
    }

    #[test]
    fn warns_once_until_events_can_be_read() {
        let scope = Some("shop".to_owned());
        let (mut evidence, now) = evidence([scope.clone(), None]);
        let denied = || WatchUpdate::Denied("events is forbidden".to_owned());
        assert_eq!(
            evidence.apply(&scope, WatchUpdate::Failed("events is forbidden".to_owned()), now, wall()),
            NewEvidence::Nothing
        );
        assert_eq!(evidence.warning(|_| true), None);
        assert_eq!(evidence.apply(&scope, denied(), now, wall()), NewEvidence::ConcernsAll);
        assert_eq!(evidence.apply(&scope, denied(), now, wall()), NewEvidence::Nothing);
        assert_eq!(evidence.apply(&scope, WatchUpdate::Relisting, now, wall()), NewEvidence::Nothing);
        assert_eq!(evidence.apply(&scope, WatchUpdate::Synced, now, wall()), NewEvidence::ConcernsAll);
        assert_eq!(evidence.warning(|_| true).as_deref(), Some("events are not read: events is forbidden"));
        assert_eq!(evidence.warning(Option::is_none), None, "another namespace");
        assert_eq!(evidence.apply(&scope, WatchUpdate::Behind, now, wall()), NewEvidence::ConcernsAll);
        assert_eq!(evidence.warning(|_| true), None);
    }

    #[test]
    fn lists_the_events_of_problems_that_began_before_the_watch() {
        let (mut evidence, now) = evidence([None]);
        let pod = |uid: &str, since: i64, is_killed: bool| {
            let finished = Timestamp::from_second(since).unwrap().to_string();
            let app = container("app", json!({"state": {"terminated": {"exitCode": 137, "finishedAt": finished}}}));
            let status = json!({"phase": "Running", "containerStatuses": [app]});
            let pod = crate::pods::testing::pod(uid, json!({"metadata": {"uid": uid}, "status": status}));
            let thresholds = crate::diagnosis::Thresholds::default();
            let verdict = crate::diagnosis::assess(&pod, &crate::diagnosis::Facts::default(), &thresholds, wall());
            let crate::diagnosis::Health::Problem(mut finding) = verdict.health else { panic!("{verdict:?}") };
            assert_eq!(finding.explanation.cause, Cause::Signal);
            finding.explanation.cause = if is_killed { Cause::Signal } else { Cause::Unknown };
            (pod, finding)
        };
        let pods = [pod("5", 999_000, false), pod("6", 999_000, false), pod("7", 1_000_060, false)];
        let killed = [pod("5", 999_000, true)];
        let ask_for = |evidence: &mut Evidence, pods: &[(Pod, Box<Finding>)], now| {
            let (queries, _) = evidence.ask(pods.iter().map(|(pod, finding)| (pod, &**finding)), now);
            let pod = |question| match question {
                Question::EventsOf { pod, .. } => pod,
                other => panic!("{other:?}"),
            };
            let mut asked: Vec<Uid> = queries.into_iter().map(pod).collect();
            asked.sort_unstable();
            asked
        };
        let ask = |evidence: &mut Evidence, now| ask_for(evidence, &pods, now);
        evidence.apply(&None, event("Pod", "Unhealthy", 1), now, wall());
        assert_eq!(ask(&mut evidence, now), [], "the watch has not started");
        assert_eq!(evidence.apply(&None, WatchUpdate::Synced, now, wall()), NewEvidence::ConcernsAll);
        assert_eq!(ask(&mut evidence, now), [Uid::from_text("6")], "5 has an event, and 7 failed later");
        assert_eq!(
            ask_for(&mut evidence, &killed, now),
            [Uid::from_text("5")],
            "the watch shows no event about a kill"
        );

        // A short interruption loses hardly any events, a long one does.
        let mut later = now + Duration::from_secs(1000);
        for (seconds, new) in [(1, NewEvidence::Nothing), (60, NewEvidence::ConcernsAll)] {
            evidence.apply(&None, WatchUpdate::Failed("too old resource version".to_owned()), later, wall());
            later += Duration::from_secs(seconds);
            assert_eq!(evidence.apply(&None, WatchUpdate::Synced, later, wall()), new);
            evidence.apply(&None, WatchUpdate::CaughtUp, later, wall());
        }
        assert_eq!(ask(&mut evidence, later), [Uid::from_text("6")]);
    }

    #[test]
    fn uses_only_listed_events_about_the_pod() {
        let (mut evidence, now) = evidence([None]);
        let pod = Uid::from_text("5");
        let listed = |kind: &str, uid: &str| {
            let WatchUpdate::Applied(mut listed) = event(kind, "Unhealthy", 1) else { panic!("no event") };
            let event = listed.event.as_mut().unwrap();
            event.involved.uid = uid.to_owned();
            vec![listed]
        };
        assert!(!evidence.listed(pod, listed("Pod", "6"), now));
        assert!(!evidence.listed(pod, listed("Node", "5"), now));
        assert!(evidence.listed(pod, listed("Pod", "5"), now));
    }
}
