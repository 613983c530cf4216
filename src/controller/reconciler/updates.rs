//! Applies updates of pods and events and the results of reads, and finds the objects that they concern.

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    diagnosis::needs_job,
    events::{Event, WatchedEvent},
    facts::{Answer, JobKey, Question},
    index::ViewId,
    namespaces::WatchedNamespace,
    pods::WatchedPod,
    watch::{WENT_BACK, WatchUpdate},
};

use super::{
    super::{
        evidence::NewEvidence,
        namespaces::NewAnnotations,
        watch_health::Scope,
        workloads::{WorkloadKey, WorkloadReading, is_about_missing_pods},
    },
    Reconciler,
};

/// The objects that changes of pods or events concern.
pub(in crate::controller) enum Concerned {
    /// All objects, because a list or a backlog is complete: nothing more is expected soon.
    AllWithoutDebounce,
    All,
    These(Vec<NamespacedName>),
}

impl Reconciler {
    pub(in crate::controller) fn apply_pods(
        &mut self,
        updates: Vec<(Scope, WatchUpdate<WatchedPod>)>,
        now: Instant,
        wall: Timestamp,
    ) -> Concerned {
        let mut views = Vec::new();
        let mut is_newly_denied = false;
        let mut is_complete = false;
        for (scope, update) in updates {
            match update {
                WatchUpdate::Relisting => {
                    self.index.begin_list(scope.as_deref());
                    self.watch_health.relisting(&scope, self.index.restart_lookback(), now);
                }
                WatchUpdate::Listed(pod) => views.extend(self.apply_pod(pod, true, now, wall)),
                WatchUpdate::Applied(pod) => views.extend(self.apply_pod(pod, false, now, wall)),
                WatchUpdate::Deleted(pod) => {
                    let uid = match pod.pod {
                        Ok(pod) => {
                            self.workloads.pods_changed(&pod, now);
                            pod.uid
                        }
                        Err(undecodable) => undecodable.uid,
                    };
                    views.extend(self.index.remove(uid));
                }
                WatchUpdate::Synced => {
                    views.extend(self.index.end_list(scope.as_deref()));
                    is_complete |= self.watch_health.synced(&scope, now);
                    tracing::debug!(pods = self.index.len(), "listed all pods");
                }
                WatchUpdate::Behind => self.watch_health.behind(&scope, now),
                WatchUpdate::CaughtUp => is_complete |= self.watch_health.caught_up(&scope),
                WatchUpdate::WentBack => {
                    tracing::warn!("{WENT_BACK}: pods are listed again");
                    self.metrics.watch_failed("pods");
                    self.watch_health.failed(&scope, WENT_BACK.to_owned(), now);
                    self.index.went_back();
                    self.forget_readings(now);
                }
                WatchUpdate::Denied(refusal) => {
                    if self.watch_health.denied(&scope, refusal.clone()) {
                        tracing::error!(refusal, "not allowed to watch pods");
                        is_newly_denied = true;
                    }
                }
                WatchUpdate::Failed(error) => {
                    self.metrics.watch_failed("pods");
                    tracing::warn!(error, "the watch of pods is interrupted");
                    self.watch_health.failed(&scope, error, now);
                }
            }
        }
        if is_complete {
            Concerned::AllWithoutDebounce
        } else if is_newly_denied {
            Concerned::All
        } else {
            Concerned::These(self.viewers(views))
        }
    }

    /// Takes updates of the list beside the watches. Returns the affected objects, and whether the list is complete.
    pub(in crate::controller) fn apply_backfill(
        &mut self,
        updates: Vec<(Scope, WatchUpdate<WatchedPod>)>,
        wall: Timestamp,
    ) -> (Concerned, bool) {
        let mut views = Vec::new();
        let Some(backfill) = &mut self.backfill else { return (Concerned::These(Vec::new()), true) };
        for (scope, update) in updates {
            match update {
                WatchUpdate::Listed(WatchedPod { pod: Ok(pod), .. }) if backfill.lacks(&scope, pod.uid) => {
                    views.extend(self.index.backfill(pod, wall));
                }
                WatchUpdate::Synced => {
                    self.watch_health.backfilled(&scope, self.index.restart_lookback());
                    backfill.listed(&scope);
                }
                WatchUpdate::Denied(error) | WatchUpdate::Failed(error) => {
                    self.metrics.watch_failed("pods");
                    tracing::warn!(error, "the list of older failures is interrupted");
                }
                // The list begins again, or is complete, and the watches have received or will receive the rest.
                _ => {}
            }
        }
        if backfill.is_complete() {
            self.backfill = None;
            (Concerned::AllWithoutDebounce, true)
        } else {
            (Concerned::These(self.viewers(views)), false)
        }
    }

    fn apply_pod(&mut self, pod: WatchedPod, is_listed: bool, now: Instant, wall: Timestamp) -> Vec<ViewId> {
        match pod.pod {
            Ok(pod) => {
                if let Some(backfill) = &mut self.backfill {
                    backfill.received(pod.uid);
                }
                let mut views = Vec::new();
                // The first time that a pod is listed, it is unknown when its containers failed.
                if !is_listed || self.index.contains(pod.uid) {
                    for reason in self.terminations.record(&pod, self.index.suspect(pod.uid), wall) {
                        self.metrics.container_terminated(&pod.namespace, &reason);
                    }
                }
                if matches!(pod.phase.as_str(), "Succeeded" | "Failed")
                    && let Some(job) = needs_job(&pod)
                {
                    for question in self.reads.get_mut().pod_ended(&JobKey::new(&pod, job), now) {
                        views.extend(self.index.views_of_suspects(|pod| question.concerns(pod)));
                    }
                }
                if self.workloads.is_watched(&pod) && !self.index.remains(pod.uid) {
                    self.workloads.pods_changed(&pod, now);
                }
                views.extend(self.index.apply(pod, wall));
                views
            }
            Err(undecodable) => {
                let changes = self.index.undecodable_changes();
                let (pod, error) = (undecodable.to_string(), undecodable.error.clone());
                let views = self.index.insert_undecodable(undecodable);
                if self.index.undecodable_changes() != changes {
                    tracing::warn!(pod, %error, "skipped a pod that cannot be decoded");
                }
                views
            }
        }
    }

    /// Stores events about pods. Returns the affected objects, and the events about controllers of pods.
    pub(in crate::controller) fn apply_events(
        &mut self,
        updates: Vec<(Scope, WatchUpdate<WatchedEvent>)>,
        now: Instant,
        wall: Timestamp,
    ) -> (Concerned, Vec<Event>) {
        let (mut views, mut about_controllers, mut concerns_all) = (Vec::new(), Vec::new(), false);
        for (scope, update) in updates {
            if matches!(update, WatchUpdate::Failed(_)) {
                self.metrics.watch_failed("events");
            }
            match self.evidence.apply(&scope, update, now, wall) {
                NewEvidence::Nothing => {}
                NewEvidence::AboutPod(uid) => views.extend(self.index.views_of_suspect(uid)),
                NewEvidence::AboutClaim(namespace, name) => {
                    let claim = Question::Claim { namespace, name: name.into() };
                    views.extend(self.index.views_of_suspects(|pod| claim.concerns(pod)));
                }
                NewEvidence::AboutController(event) => about_controllers.push(*event),
                NewEvidence::ConcernsAll => concerns_all = true,
            }
        }
        let concerned = if concerns_all { Concerned::All } else { Concerned::These(self.viewers(views)) };
        (concerned, about_controllers)
    }

    /// Stores the annotations of namespaces. Returns the affected objects.
    pub(in crate::controller) fn apply_namespaces(
        &mut self,
        updates: Vec<WatchUpdate<WatchedNamespace>>,
        now: Instant,
    ) -> Concerned {
        let (mut views, mut concerns_all) = (Vec::new(), false);
        for update in updates {
            if matches!(update, WatchUpdate::Failed(_)) {
                self.metrics.watch_failed("namespaces");
            }
            match self.namespaces.apply(update, now) {
                NewAnnotations::Nothing => {}
                NewAnnotations::OfNamespaces(names) => {
                    for name in &names {
                        views.extend(self.index.views_of_namespace(name));
                    }
                }
                NewAnnotations::ConcernsAll => concerns_all = true,
            }
        }
        if concerns_all { Concerned::All } else { Concerned::These(self.viewers(views)) }
    }

    /// Stores what was read. Returns the affected objects.
    pub(in crate::controller) fn answered(
        &mut self,
        question: &Question,
        answer: Answer,
        events: Vec<WatchedEvent>,
        now: Instant,
    ) -> Vec<NamespacedName> {
        if let Question::EventsOf { pod, .. } = question
            && !self.evidence.listed(*pod, events, now)
        {
            return Vec::new();
        }
        self.reads.get_mut().answered(question, answer, now);
        self.viewers(self.index.views_of_suspects(|pod| question.concerns(pod)))
    }

    /// Takes an event about a workload that could not create a pod. Returns the affected objects.
    pub(in crate::controller) fn on_workload_event(
        &mut self,
        event: &Event,
        now: Instant,
        wall: Timestamp,
    ) -> Vec<NamespacedName> {
        let namespace = &event.involved.namespace;
        let is_selected = || self.index.views_of_namespace(namespace).next().is_some();
        if is_about_missing_pods(event) && is_selected() && self.workloads.on_event(event, now, wall) {
            self.viewers(self.index.views_of_namespace(namespace).collect())
        } else {
            Vec::new()
        }
    }

    /// Stores the result of a read of a workload. Returns the affected objects.
    pub(in crate::controller) fn workload_read(
        &mut self,
        key: &WorkloadKey,
        reading: WorkloadReading,
        now: Instant,
        wall: Timestamp,
    ) -> Vec<NamespacedName> {
        if self.workloads.answered(key, reading, now, wall) {
            self.viewers(self.index.views_of_namespace(key.namespace()).collect())
        } else {
            Vec::new()
        }
    }

    fn viewers(&self, mut views: Vec<ViewId>) -> Vec<NamespacedName> {
        views.sort_unstable();
        views.dedup();
        views.iter().filter_map(|view| self.views.get(view).cloned()).collect()
    }
}
