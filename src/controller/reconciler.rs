//! Reconciles one object with the pods that it selects: judges the pods and builds the object's status. No I/O: the caller
//! starts the reads that are asked for, and writes the status.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    alerts::{self, Incident},
    api::{NamespacedName, OrchestrStatus, ProblemKind},
    diagnosis::{needs_job, owner_names, revision_name},
    events::{Event, WatchedEvent},
    index::{Index, ViewId},
    logs::{LogRequest, ReadResult},
    pods::{Pod, WatchedPod},
    report::{self, Comparison, FailingRevision, NotWatching, PodFinding, Report, UpdateContext, Workload},
    settings::Settings,
    watch::WatchUpdate,
};

use super::{
    event_lists::EventListQuery,
    evidence::{Evidence, NewEvidence},
    jobs::{JobKey, JobReading, Jobs},
    log_requests::LogRequests,
    lookback::{self, Lookback},
    object::Object,
    rollouts::{RolloutKey, RolloutQuery, RolloutReading, Rollouts},
    schedule::REFRESH_INTERVAL,
    verdicts::{JudgeContext, Verdicts, WARNINGS, judge_pods},
    watch_health::{Scope, SyncState, WatchHealth},
    workloads::{Reported, WorkloadKey, WorkloadQuery, WorkloadReading, Workloads, is_failed_creation},
};

/// The known state of the cluster, except for the `Orchestr` objects.
#[derive(Debug)]
pub(super) struct Reconciler {
    index: Index,
    views: HashMap<ViewId, NamespacedName>,
    watch_health: WatchHealth,
    lookback: Lookback,
    jobs: Jobs,
    evidence: Evidence,
    workloads: Workloads,
    log_requests: LogRequests,
    rollouts: Rollouts,
    needs_relist: bool,
}

/// The objects that changes of pods or events concern.
pub(super) enum Concerned {
    /// All objects, because a list or a backlog is complete: nothing more is expected soon.
    AllWithoutDebounce,
    All,
    These(Vec<NamespacedName>),
}

/// The result of a reconcile, and the reads to start.
pub(super) struct Reconciled {
    pub(super) outcome: Outcome,
    pub(super) jobs: Vec<JobKey>,
    pub(super) event_lists: Vec<EventListQuery>,
    pub(super) logs: Vec<LogRequest>,
    pub(super) rollouts: Vec<RolloutQuery>,
}

pub(super) enum Outcome {
    /// Information is missing that is expected soon. Reconcile again at this time, unless an event marks the object
    /// dirty before.
    Postponed(Instant),
    Status(Box<NewStatus>),
}

pub(super) struct NewStatus {
    pub(super) status: OrchestrStatus,
    /// Whether logs that the status should show are still being read.
    pub(super) lacks_logs: bool,
    /// When time alone may change the status.
    pub(super) recheck: Option<Timestamp>,
    /// All incidents, for alerts; absent while the pods are not known.
    pub(super) incidents: Option<Vec<Incident>>,
    /// The keys of alerts whose incidents cannot return: their pods are deleted, and their owners have no others.
    pub(super) ended: Vec<String>,
}

impl Reconciler {
    pub(super) fn new(scopes: Vec<Scope>, now: Instant) -> Self {
        Self {
            index: Index::new(lookback::SHORTEST),
            views: HashMap::new(),
            evidence: Evidence::new(scopes.iter().cloned(), now),
            watch_health: WatchHealth::new(scopes, now),
            lookback: Lookback::default(),
            jobs: Jobs::default(),
            workloads: Workloads::default(),
            log_requests: LogRequests::default(),
            rollouts: Rollouts::default(),
            needs_relist: false,
        }
    }

    /// Adds an object's view of the pods.
    pub(super) fn add_view(&mut self, key: &NamespacedName, settings: &Settings) -> ViewId {
        let view = self.index.add_view(settings.scope.clone());
        self.views.insert(view, key.clone());
        let needed = settings.thresholds.restarted;
        if needed > self.index.restart_lookback() {
            self.index.widen(lookback::step(needed));
            self.needs_relist = true;
        }
        view
    }

    pub(super) fn remove_view(&mut self, view: ViewId) {
        self.index.remove_view(view);
        self.views.remove(&view);
    }

    /// Whether all pods must be listed again, because older failures matter now than were kept. Resets the flag.
    pub(super) fn take_needs_relist(&mut self) -> bool {
        std::mem::take(&mut self.needs_relist)
    }

    /// The watches of pods were closed and opened again.
    pub(super) fn watches_reopened(&mut self, now: Instant) {
        self.watch_health.reopened(now);
    }

    pub(super) fn apply_pods(
        &mut self,
        updates: Vec<(Scope, WatchUpdate<WatchedPod>)>,
        now: Instant,
        wall: Timestamp,
    ) -> Concerned {
        let mut views = Vec::new();
        let mut is_newly_denied = false;
        let mut is_complete = false;
        let undecodable_changes = self.index.undecodable_changes();
        for (scope, update) in updates {
            match update {
                WatchUpdate::Relisting => {
                    self.index.begin_list(scope.as_deref());
                    self.watch_health.relisting(&scope, self.index.restart_lookback(), now);
                }
                WatchUpdate::Listed(pod) | WatchUpdate::Applied(pod) => views.extend(self.apply_pod(pod, now, wall)),
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
                    is_complete |= self.watch_health.synced(&scope);
                    tracing::debug!(pods = self.index.len(), "listed all pods");
                }
                WatchUpdate::Behind => self.watch_health.behind(&scope, now),
                WatchUpdate::CaughtUp => is_complete |= self.watch_health.caught_up(&scope),
                WatchUpdate::Denied(refusal) => {
                    if self.watch_health.denied(&scope, refusal.clone()) {
                        tracing::error!(refusal, "not allowed to watch pods");
                        is_newly_denied = true;
                    }
                }
                WatchUpdate::Failed(error) => {
                    tracing::warn!(error, "the watch of pods is interrupted");
                    self.watch_health.failed(&scope, error, now);
                }
            }
        }
        if is_complete {
            Concerned::AllWithoutDebounce
        } else if is_newly_denied || self.index.undecodable_changes() != undecodable_changes {
            Concerned::All
        } else {
            Concerned::These(self.viewers(views))
        }
    }

    fn apply_pod(&mut self, pod: WatchedPod, now: Instant, wall: Timestamp) -> Vec<ViewId> {
        match pod.pod {
            Ok(pod) => {
                let mut views = Vec::new();
                if matches!(pod.phase.as_str(), "Succeeded" | "Failed")
                    && let Some(job) = needs_job(&pod)
                {
                    for job in self.jobs.pod_ended(&JobKey::new(&pod, job), now) {
                        views.extend(self.index.views_of_job(&job.uid));
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
    pub(super) fn apply_events(
        &mut self,
        updates: Vec<(Scope, WatchUpdate<WatchedEvent>)>,
        now: Instant,
        wall: Timestamp,
    ) -> (Concerned, Vec<Event>) {
        let (mut views, mut about_controllers, mut concerns_all) = (Vec::new(), Vec::new(), false);
        for (scope, update) in updates {
            match self.evidence.apply(&scope, update, now, wall) {
                NewEvidence::Nothing => {}
                NewEvidence::AboutPod(uid) => views.extend(self.index.views_of_suspect(uid)),
                NewEvidence::AboutController(event) => about_controllers.push(*event),
                NewEvidence::ConcernsAll => concerns_all = true,
            }
        }
        let concerned = if concerns_all { Concerned::All } else { Concerned::These(self.viewers(views)) };
        (concerned, about_controllers)
    }

    /// Stores listed events about a pod. Returns the affected objects.
    pub(super) fn events_listed(
        &mut self,
        query: &EventListQuery,
        events: Vec<WatchedEvent>,
        now: Instant,
    ) -> Concerned {
        let is_new = self.evidence.listed(query, events, now);
        let views = if is_new { self.index.views_of_suspect(query.pod) } else { Vec::new() };
        Concerned::These(self.viewers(views))
    }

    /// Takes an event about a workload that could not create a pod. Returns the affected objects.
    pub(super) fn on_workload_event(&mut self, event: &Event, now: Instant, wall: Timestamp) -> Vec<NamespacedName> {
        let namespace = &event.involved.namespace;
        let is_selected = || self.index.views_of_namespace(namespace).next().is_some();
        if is_failed_creation(event) && is_selected() && self.workloads.on_event(event, now, wall) {
            self.viewers(self.index.views_of_namespace(namespace).collect())
        } else {
            Vec::new()
        }
    }

    /// When the next read of a workload is due.
    pub(super) fn workloads_due(&self) -> Option<Instant> {
        self.workloads.next_due()
    }

    /// The workloads to read now.
    pub(super) fn take_due_workloads(&mut self, now: Instant) -> Vec<WorkloadQuery> {
        self.workloads.take_due(now)
    }

    /// Stores the result of a read of a workload. Returns the affected objects.
    pub(super) fn workload_read(
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

    /// Stores the result of a read of a Job. Returns the affected objects.
    pub(super) fn job_read(&mut self, key: &JobKey, reading: JobReading, now: Instant) -> Vec<NamespacedName> {
        if self.jobs.answered(key, reading, now) { self.viewers(self.index.views_of_job(&key.uid)) } else { Vec::new() }
    }

    /// Stores the result of a comparison of revisions. Returns the objects that wait for it.
    pub(super) fn rollout_read(
        &mut self,
        key: &RolloutKey,
        reading: RolloutReading,
        now: Instant,
    ) -> HashSet<NamespacedName> {
        self.rollouts.answered(key, reading, now)
    }

    /// Stores the result of a read of a log. Returns the objects that wait for it.
    pub(super) fn log_read(
        &mut self,
        request: &LogRequest,
        result: ReadResult,
        now: Instant,
    ) -> HashSet<NamespacedName> {
        self.log_requests.answered(request, result, now)
    }

    /// Reconciles an object. Of the object, it changes only the tracker of problems and the time since which it waits
    /// for a Job.
    pub(super) fn reconcile(
        &mut self,
        key: &NamespacedName,
        object: &mut Object,
        now: Instant,
        wall: Timestamp,
    ) -> Reconciled {
        let not_watching = |state: &NotWatching, object: &Object| {
            let status = report::not_watching(state, object.generation, object.status.as_ref(), wall);
            let new = NewStatus { status, lacks_logs: false, recheck: None, incidents: None, ended: Vec::new() };
            Reconciled::with(Outcome::Status(Box::new(new)))
        };
        let settings = match &object.settings {
            Err(error) => return not_watching(&error.clone().into(), object),
            Ok(settings) if !settings.enabled => return not_watching(&NotWatching::Paused, object),
            Ok(settings) => Arc::clone(settings),
        };
        match self.watch_health.sync_state(now, settings.thresholds.restarted, |scope| concerns(&settings, scope)) {
            SyncState::Complete => self.watching(key, object, &settings, now, wall),
            SyncState::Denied(message) => not_watching(&NotWatching::PodAccessDenied { message }, object),
            SyncState::Interrupted(message) => not_watching(&NotWatching::Interrupted { message }, object),
            SyncState::Syncing => not_watching(&NotWatching::Syncing, object),
            SyncState::Settling { until, unanswered_until } => {
                let answered = object.status.as_ref().and_then(|status| status.observed_generation);
                let until = if answered == Some(object.generation) { until } else { unanswered_until };
                if now < until { Reconciled::postponed(until) } else { not_watching(&NotWatching::Syncing, object) }
            }
        }
    }

    fn watching(
        &mut self,
        key: &NamespacedName,
        object: &mut Object,
        settings: &Settings,
        now: Instant,
        wall: Timestamp,
    ) -> Reconciled {
        // An object that is enabled has a view.
        let Some(view) = object.view else { return Reconciled::postponed(now + REFRESH_INTERVAL) };
        let context = JudgeContext {
            thresholds: &settings.thresholds,
            tracker: &object.tracker,
            is_replaced: &|pod| self.index.is_replaced(pod),
            events: &|pod| self.evidence.about(pod),
            now,
            wall,
        };
        let suspects = self.index.suspects(view);
        let verdicts = judge_pods(suspects, &mut self.jobs, &mut object.jobs_awaited, &context);
        let Verdicts { mut found, ignored, warnings: unread_jobs, mut recheck, queries: jobs, wait_until } = verdicts;
        if let Some(until) = wait_until {
            return Reconciled { jobs, ..Reconciled::postponed(until) };
        }
        let previous = object.status.as_ref();
        if let Some(status) = previous.filter(|_| !object.tracker.is_resumed()) {
            self.workloads.resume(key, status, now);
        }
        let Reported { mut missing, ignored: mut ignored_missing, recheck: missing_at } =
            self.workloads.report(key, &|namespace, labels| self.index.selects(view, namespace, labels), wall);
        recheck = recheck.into_iter().chain(missing_at).min();
        missing.retain(|own| {
            let is_ignored = settings.ignores(ProblemKind::Missing, own.reason);
            ignored_missing = ignored_missing.saturating_add(if is_ignored { own.missing } else { 0 });
            !is_ignored
        });
        let mut warnings = settings.warnings.clone();
        let unread_events = self.evidence.warning(|scope| concerns(settings, scope));
        let unchecked = self.workloads.warnings(|namespace| settings.scope.selects_namespace(namespace));
        let unread = unread_events.into_iter().chain(unread_jobs).chain(unchecked).chain(self.rollouts.warning(key));
        warnings.extend(unread.take(WARNINGS.saturating_sub(settings.warnings.len())));
        let ignored_by_spec = object.tracker.update(
            &mut found,
            &UpdateContext {
                previous,
                generation: object.generation,
                ignores: &|kind, reason| settings.ignores(kind, reason),
                remains: &|uid| self.index.remains(uid),
            },
        );
        let (event_lists, due) = self.evidence.ask(found.iter().map(|(pod, finding)| (*pod, &**finding)), now);
        if let Some(due) = due {
            let due = wall.saturating_add(due.saturating_duration_since(now)).unwrap_or(wall);
            recheck = recheck.into_iter().chain([due]).min();
        }

        let rollouts =
            RefCell::new(RolloutRequests { rollouts: &mut self.rollouts, queries: Vec::new(), lacks: false });
        let policy = settings.logs.as_ref();
        let undecodable = self.index.undecodable(view);
        let input = report::Input {
            generation: object.generation,
            max_pods: settings.max_pods,
            watched_pods: self.index.watched(view),
            missing: &missing,
            findings: found.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect(),
            find_workload: &|pod, revision| {
                workload(&self.index, pod, revision, |query| rollouts.borrow_mut().ask(query, key, now))
            },
            unreadable: undecodable.map(|(count, first)| (count, format!("{first} ({})", first.error))),
            outside: self.watch_health.namespaces().and_then(|watched| settings.scope.outside(&watched)),
            logs: policy.is_some(),
            masking: policy.map(Arc::as_ref),
            pods_on_node: &|node| u64::from(self.index.pods_on_node(node).pods),
            tracker: &object.tracker,
            ignored_pods: ((ignored + ignored_by_spec) as u64).saturating_add(ignored_missing),
            warnings,
            has_webhooks: !settings.webhooks.is_empty(),
            previous,
            now: wall,
        };
        let Report { status, incidents, shown } =
            report::watching(&input, &|pod, container| self.log_requests.get(pod, container, policy?));

        let mut logs = Vec::new();
        let (rollouts, mut lacks_logs) = rollouts.borrow_mut().take();
        if let Some(policy) = policy {
            for (pod, container) in shown {
                let answer = self.log_requests.ask(pod, container, policy, key, now);
                lacks_logs |= answer.is_lacking;
                logs.extend(answer.request);
                if let Some(due) = answer.due {
                    let due = wall.saturating_add(due.saturating_duration_since(now)).unwrap_or(wall);
                    recheck = recheck.into_iter().chain([due]).min();
                }
            }
        }
        let ended = self.ended_alerts(object, &incidents);
        let new = NewStatus { status, lacks_logs, recheck, incidents: Some(incidents), ended };
        Reconciled { outcome: Outcome::Status(Box::new(new)), jobs, event_lists, logs, rollouts }
    }

    /// The keys of alerts whose incidents cannot return.
    fn ended_alerts(&self, object: &Object, incidents: &[Incident]) -> Vec<String> {
        let gone = self.workloads.gone().map(|(namespace, owner)| report::key_of_missing(namespace, owner));
        let deleted: HashSet<String> = object.tracker.deleted().chain(gone).collect();
        let webhooks = object.status.as_ref().map_or(&[][..], |status| &status.webhooks);
        alerts::gone_alerts(webhooks, incidents)
            .filter(|alert| deleted.contains(&alert.key))
            // The next run of a CronJob has its own pod, and may fail as well.
            .filter(|alert| alert.owner.kind != "CronJob")
            .filter(|alert| !self.index.has_pods_of(&alert.namespace, &alert.owner.kind, &alert.owner.name))
            .map(|alert| alert.key.clone())
            .collect()
    }

    /// Drops what is no longer needed. `needed` is the longest `restarted` threshold of all objects.
    pub(super) fn compact(&mut self, needed: Duration, now: Instant, wall: Timestamp) {
        if let Some(lookback) = self.lookback.shortened(self.index.restart_lookback(), needed, now) {
            self.index.narrow(lookback);
            self.watch_health.shorten_lookback(lookback);
        }
        self.index.compact(wall);
        self.log_requests.sweep();
        self.rollouts.sweep(now);
        self.evidence.sweep(now, |uid| self.index.contains(uid));
        let needed: HashSet<JobKey> = self.index.suspect_jobs().map(|(pod, job)| JobKey::new(pod, job)).collect();
        self.jobs.retain(|key| needed.contains(key));
        self.workloads.compact(|namespace| self.index.views_of_namespace(namespace).next().is_some(), wall);
    }

    fn viewers(&self, mut views: Vec<ViewId>) -> Vec<NamespacedName> {
        views.sort_unstable();
        views.dedup();
        views.iter().filter_map(|view| self.views.get(view).cloned()).collect()
    }
}

/// Whether an object may select pods of a watch.
fn concerns(settings: &Settings, scope: &Scope) -> bool {
    scope.as_ref().is_none_or(|namespace| settings.scope.selects_namespace(namespace))
}

/// The comparisons that one reconcile asks for.
struct RolloutRequests<'a> {
    rollouts: &'a mut Rollouts,
    queries: Vec<RolloutQuery>,
    /// Whether a comparison is being made.
    lacks: bool,
}

impl RolloutRequests<'_> {
    fn ask(&mut self, query: RolloutQuery, object: &NamespacedName, now: Instant) -> Option<Comparison> {
        let answer = self.rollouts.ask(query, object, now);
        self.queries.extend(answer.query);
        self.lacks |= answer.is_lacking;
        answer.comparison
    }

    fn take(&mut self) -> (Vec<RolloutQuery>, bool) {
        (std::mem::take(&mut self.queries), self.lacks)
    }
}

/// The owner of a pod with a problem, and this revision of it if it is the one that fails. `compare` returns how it differs
/// from an earlier revision, or none if the other one is not earlier.
fn workload(
    index: &Index,
    pod: &Pod,
    revision: Option<&str>,
    compare: impl FnOnce(RolloutQuery) -> Option<Comparison>,
) -> Workload {
    // A pod without a controller is its own owner.
    let Some((kind, name)) = owner_names(pod) else { return Workload { of: 1, revision: None } };
    let revision = revision.and_then(|hash| {
        let before = index.healthy_before(&pod.namespace, kind, name, hash)?;
        let comparison = match RolloutQuery::new(pod, hash, &before) {
            Some(query) => compare(query)?,
            None => Comparison::Unknown,
        };
        let name = revision_name(kind, name, hash);
        Some(FailingRevision { name, healthy_before: before.pods.into(), comparison })
    });
    Workload { of: index.pods_of(&pod.namespace, kind, name).pods.into(), revision }
}

impl Reconciled {
    fn postponed(until: Instant) -> Self {
        Self::with(Outcome::Postponed(until))
    }

    fn with(outcome: Outcome) -> Self {
        Self { outcome, jobs: Vec::new(), event_lists: Vec::new(), logs: Vec::new(), rollouts: Vec::new() }
    }
}
