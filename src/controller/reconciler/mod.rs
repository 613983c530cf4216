//! Reconciles one object with the pods that it selects: judges the pods and builds the object's status. No I/O: the caller
//! starts the reads that are asked for, and writes the status.

mod updates;

use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    alerts::{self, GoneAlerts, Incident},
    api::{self, NamespacedName, OrchestrStatus, ProblemKind},
    diagnosis::{owner_names, revision_name},
    facts::{JobKey, Judge, Known, Limits, Question, Reads, RevisionFact},
    index::{Index, ViewId},
    metrics::Metrics,
    pods::Pod,
    report::{
        self, Comparison, FailingRevision, Gap, KnownStatus, NotWatching, OmittedIncidents, PodFinding, Report,
        SharedProblems, Tracker, UpdateContext, Workload,
    },
    settings::Settings,
};

use super::{
    evidence::Evidence,
    log_requests::LogRequests,
    lookback::{self, Backfill, Lookback},
    masked_texts::{MaskRequest, MaskedTexts},
    namespaces::Namespaces,
    object::Object,
    schedule::REFRESH_INTERVAL,
    terminations::Terminations,
    unread_jobs::{StoredProblems, UnreadJobs},
    verdicts::{JudgeContext, Verdicts, WARNINGS, judge_pods},
    watch_health::{Scope, SyncState, WatchHealth},
    workloads::{Reported, Workloads},
};

pub(super) use self::updates::Concerned;

/// A warning.
const CUT_TEXTS: &str = "some messages are masked whole, because spec.logs.redactPatterns take too long on them";

/// The known state of the cluster, except for the `Orchestr` objects.
#[derive(Debug)]
pub(super) struct Reconciler {
    index: Index,
    views: HashMap<ViewId, NamespacedName>,
    pub(super) watch_health: WatchHealth,
    lookback: Lookback,
    reads: RefCell<Reads>,
    evidence: Evidence,
    namespaces: Namespaces,
    pub(super) workloads: Workloads,
    pub(super) log_requests: LogRequests,
    pub(super) masked_texts: MaskedTexts,
    terminations: Terminations,
    problems: SharedProblems,
    needs_backfill: bool,
    backfill: Option<Backfill>,
    metrics: Metrics,
}

/// The result of a reconcile, and the reads to start.
pub(super) struct Reconciled {
    pub(super) outcome: Outcome,
    pub(super) reads: Vec<Question>,
    pub(super) texts: Option<MaskRequest>,
}

pub(super) enum Outcome {
    /// Information is missing that is expected soon. Reconcile again at this time, unless an event marks the object
    /// dirty before.
    Postponed(Instant),
    Status(Box<NewStatus>),
}

pub(super) struct NewStatus {
    pub(super) status: OrchestrStatus,
    /// The incidents that the status does not list.
    pub(super) omitted: OmittedIncidents,
    /// Whether the lists in the API stay.
    pub(super) keeps_lists: bool,
    /// Since when and why the pods are not watched; absent if they are.
    pub(super) gap: Option<Gap>,
    /// Whether logs that the status should show are still being read.
    pub(super) lacks_logs: bool,
    /// When time alone may change the status.
    pub(super) recheck: Option<Timestamp>,
    /// All incidents, for alerts; absent while the pods are not known.
    pub(super) incidents: Option<Vec<Incident>>,
    /// What is known about the alerts whose incidents are gone.
    pub(super) gone: GoneAlerts,
}

/// What may be out of sight of an object. It serves all incidents of a status.
pub(super) struct OutOfSight<'a> {
    reconciler: &'a Reconciler,
    view: Option<ViewId>,
    tracker: &'a Tracker,
    unread_jobs: &'a UnreadJobs,
    undecodable: OnceCell<HashSet<&'a str>>,
}

impl OutOfSight<'_> {
    /// Whether it cannot be known if an incident that the object listed has ended.
    pub(super) fn may_have(&self, incident: &api::Incident) -> bool {
        let namespace = &incident.namespace;
        let Reconciler { index, watch_health, .. } = self.reconciler;
        self.undecodable.get_or_init(|| index.undecodable_namespaces()).contains(namespace.as_str())
            || !watch_health.is_watched(namespace)
            || self.view.is_none()
            || self.tracker.is_hidden(&incident.key)
            || self.unread_jobs.may_be_of(namespace, &incident.owner)
    }
}

impl Reconciler {
    /// `log_reads` is how many logs are read concurrently.
    pub(super) fn new(scopes: Vec<Scope>, log_reads: usize, metrics: Metrics, now: Instant) -> Self {
        Self {
            index: Index::new(lookback::SHORTEST),
            views: HashMap::new(),
            evidence: Evidence::new(scopes.iter().cloned(), now),
            namespaces: Namespaces::new(scopes.contains(&None)),
            watch_health: WatchHealth::new(scopes, now),
            lookback: Lookback::default(),
            reads: RefCell::new(Reads::new(Limits::OPERATOR)),
            workloads: Workloads::default(),
            log_requests: LogRequests::new(log_reads),
            masked_texts: MaskedTexts::default(),
            terminations: Terminations::default(),
            problems: SharedProblems::default(),
            needs_backfill: false,
            backfill: None,
            metrics,
        }
    }

    /// This replica begins to lead, perhaps again. What it has read in an earlier term may have changed since, because a
    /// follower reads nothing, so it is read again as after a start, unless it cannot have changed.
    pub(super) fn begin_term(&mut self, now: Instant, wall: Timestamp) {
        self.reads.get_mut().begin_term();
        self.evidence.begin_term(now, wall);
        self.workloads.forget_readings(now);
    }

    /// The cluster was put back to an earlier state. Jobs and workloads are read again as after a start.
    pub(super) fn forget_readings(&mut self, now: Instant) {
        *self.reads.get_mut() = Reads::new(Limits::OPERATOR);
        self.workloads.forget_readings(now);
    }

    /// Adds an object's view of the pods.
    pub(super) fn add_view(&mut self, key: &NamespacedName, settings: &Settings) -> ViewId {
        let view = self.index.add_view(settings.scope.clone());
        self.views.insert(view, key.clone());
        let (present, needed) = (self.index.restart_lookback(), settings.thresholds.restarted);
        if let Some(extended) = self.lookback.extended(present, needed) {
            self.index.widen(extended);
            self.needs_backfill = true;
        }
        view
    }

    pub(super) fn remove_view(&mut self, view: ViewId) {
        self.index.remove_view(view);
        self.views.remove(&view);
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&mut self, key: &NamespacedName) {
        self.reads.get_mut().forget(key);
    }

    /// Whether all pods must be listed once more, because older failures matter now than were kept. Resets the flag.
    pub(super) fn take_needs_backfill(&mut self) -> bool {
        std::mem::take(&mut self.needs_backfill)
    }

    /// All pods are being listed once more, beside the watches.
    pub(super) fn begin_backfill(&mut self, now: Instant) {
        self.watch_health.backfilling(now);
        self.backfill = Some(Backfill::new(self.watch_health.scopes()));
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
        let not_watching_for = |lasted: Duration, state: &NotWatching, object: &Object| {
            let status = report::not_watching(state, object.generation, object.status_head(), wall);
            let keeps_lists = state.keeps_lists();
            // While the pods are not known, the incidents stay: an outage is no recovery.
            if !keeps_lists {
                self.metrics.object_withdrawn(key);
            }
            let gap = Some(Gap { from: wall.checked_sub(lasted).unwrap_or(wall), reason: state.reason() });
            let (lacks_logs, recheck, incidents, gone) = (false, None, None, GoneAlerts::default());
            let omitted = OmittedIncidents::default();
            let new = NewStatus { status, omitted, keeps_lists, gap, lacks_logs, recheck, incidents, gone };
            Reconciled::with(Outcome::Status(Box::new(new)))
        };
        let not_watching = |state: &NotWatching, object: &Object| not_watching_for(Duration::ZERO, state, object);
        let settings = match &object.settings {
            Err(error) => return not_watching(&error.clone().into(), object),
            Ok(settings) if !settings.enabled => return not_watching(&NotWatching::Paused, object),
            Ok(settings) => Arc::clone(settings),
        };
        match self.watch_health.sync_state(now, settings.thresholds.restarted, |scope| concerns(&settings, scope)) {
            SyncState::Complete => self.watching(key, object, &settings, now, wall),
            SyncState::Denied(message) => not_watching(&NotWatching::PodAccessDenied { message }, object),
            SyncState::Interrupted { error: message, lasted } => {
                not_watching_for(lasted, &NotWatching::Interrupted { message }, object)
            }
            SyncState::Syncing => not_watching(&NotWatching::Syncing, object),
            SyncState::Settling { until, unanswered_until } => {
                let answered = object.status_head().and_then(|status| status.observed_generation);
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
        let known = Known::new(&self.index, view, self.evidence.store(), &self.reads, Judge::Object(key), now);
        let resumable = object.status.as_ref().filter(|_| !object.tracker.is_resumed()).map(KnownStatus::with_lists);
        let context = JudgeContext {
            thresholds: &settings.thresholds,
            tracker: &object.tracker,
            stored: &resumable.as_ref().map(StoredProblems::of).unwrap_or_default(),
            now,
            wall,
        };
        let verdicts = judge_pods(self.index.suspects(view), &known, &mut object.jobs_awaited, &context);
        let Verdicts { mut found, ignored, warnings: denied_cron_jobs, mut recheck, unread, wait_until } = verdicts;
        if let Some(until) = wait_until {
            return Reconciled { reads: self.reads.borrow_mut().take_due(), ..Reconciled::postponed(until) };
        }
        object.unread_jobs = unread;
        if let Some(status) = &resumable {
            self.workloads.resume(key, status, now);
        }
        let previous = object.status.as_ref().map(KnownStatus::head);
        let Reported { mut missing, ignored: mut ignored_missing, recheck: missing_at } = self.workloads.report(
            key,
            &|namespace, labels| self.index.selects(view, namespace, labels),
            &|namespace, job| self.index.pods_of(namespace, "Job", job).pods > 0,
            wall,
        );
        recheck = recheck.into_iter().chain(missing_at).min();
        missing.retain(|own| {
            let is_ignored = settings.ignores(ProblemKind::Missing, own.reason);
            ignored_missing = ignored_missing.saturating_add(if is_ignored { own.missing } else { 0 });
            !is_ignored
        });
        let mut warnings = settings.warnings.clone();
        let unread_events = self.evidence.warning(|scope| concerns(settings, scope));
        let unchecked = self.workloads.warnings(|namespace| settings.scope.selects_namespace(namespace), now);
        // If a pattern is wrong, Ready says so.
        let cut_texts = (object.has_cut_texts && settings.wrong.is_empty()).then(|| CUT_TEXTS.to_owned());
        let unreadable = self.watch_health.unreadable(|scope| concerns(settings, scope));
        let unread = unreadable
            .clone()
            .into_iter()
            .chain(cut_texts)
            .chain(unread_events)
            .chain(self.namespaces.warning())
            .chain(denied_cron_jobs)
            .chain(self.reads.borrow().denials(key, now))
            .chain(unchecked);
        warnings.extend(unread.take(WARNINGS.saturating_sub(settings.warnings.len())));
        let ignored_by_spec = object.tracker.update(
            &mut found,
            &UpdateContext {
                previous: resumable.as_ref().or(previous),
                generation: object.generation,
                ignores: &|kind, reason| settings.ignores(kind, reason),
                remains: &|uid| self.index.remains(uid),
                is_hidden: &|uid| self.index.is_hidden(view, uid),
            },
            &mut self.problems,
        );
        if let Some(status) = &resumable {
            // It is not known which pods these incidents had.
            let incidents = status.incidents.iter().filter(|incident| incident.kind != ProblemKind::Missing);
            let suspects = self.index.hidden_suspects(view);
            let is_hidden = |own: &&api::Incident| suspects.has(&own.namespace, &own.owner);
            object.tracker.add_hidden(incidents.filter(is_hidden).map(|incident| incident.key.clone()).collect());
        }
        if settings.webhooks.is_empty() && previous.is_none_or(|status| status.webhooks.is_empty()) {
            object.tracker.forget_deleted();
        }
        let awaited = self.namespaces.awaited_until(now);
        let policy = settings.logs.as_ref();
        let asker = object.asker.clone();
        let masking = self.masked_texts.masking(&key.namespace, policy.map(Arc::as_ref));
        let undecodable = self.index.undecodable(view);
        let input = report::Input {
            generation: object.generation,
            max_pods: settings.max_pods,
            watched_pods: self.index.watched(view),
            missing: &missing,
            findings: found.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect(),
            find_workload: &|pod, revision| workload(&self.index, pod, revision, &known),
            find_ownership: &|namespace| self.namespaces.ownership(namespace),
            unread_jobs: object.unread_jobs.pods(),
            unreadable: undecodable.map(|(count, first)| (count, format!("{first} ({})", first.error))),
            outside: self.watch_health.namespaces().and_then(|watched| settings.scope.outside(&watched)),
            denied: unreadable,
            logs: policy.is_some(),
            masking: Some(&masking),
            pods_on_node: &|node| u64::from(self.index.pods_on_node(node).pods),
            tracker: &object.tracker,
            ignored_pods: ((ignored + ignored_by_spec) as u64).saturating_add(ignored_missing),
            wrong: settings.wrong_parts(),
            warnings,
            has_webhooks: !settings.webhooks.is_empty(),
            previous,
            now: wall,
        };
        let report = report::watching(&input, &|pod, container| self.log_requests.get(pod, container, policy?, &asker));
        if self.metrics.wants_state() {
            self.metrics.object_reported(key, &(&report).into(), &report.incidents);
        }
        let Report { mut status, omitted, mut incidents, shown, .. } = report;
        if settings.webhooks.is_empty() {
            incidents = Vec::new();
        }
        if let Some(wrong) = settings.wrong_parts() {
            incidents.push(report::of_spec(key, wrong, &status));
        }
        if let Some(known) = &object.status {
            known.keep_most_pods(&mut status.incidents);
        }

        let (mut lacks_logs, mut due) = (known.is_lacking(), awaited);
        if let Some(policy) = policy {
            for (pod, container) in shown {
                let answer = self.log_requests.ask(pod, container, policy, &asker, now);
                lacks_logs |= answer.is_lacking;
                due = due.into_iter().chain(answer.due).min();
            }
        }
        let mut reads = self.reads.borrow_mut().take_due();
        let (event_lists, lists_due) = self.evidence.ask(found.iter().map(|(pod, finding)| (*pod, &**finding)), now);
        reads.extend(event_lists);
        let due = due.into_iter().chain(lists_due).min();
        let due = due.map(|at| wall.saturating_add(at.saturating_duration_since(now)).unwrap_or(wall));
        recheck = recheck.into_iter().chain(due).min();
        let wanted = masking.take_wanted();
        let lacks_texts = !wanted.texts.is_empty();
        if std::mem::replace(&mut object.has_cut_texts, wanted.is_cut) != wanted.is_cut {
            // The warning is in the next status.
            recheck = Some(wall);
        }
        let texts = policy.and_then(|policy| self.masked_texts.ask(key, policy, wanted));
        if let Some(until) = object.wait_for_texts(lacks_texts, now) {
            return Reconciled { reads, texts, ..Reconciled::postponed(until) };
        }
        let gone = self.gone_alerts(object, &incidents);
        // Until then, alerts stay as they are.
        let incidents = awaited.is_none().then_some(incidents);
        if let Some(status) = &mut object.status {
            status.resumed();
        }
        let new = NewStatus { status, omitted, keeps_lists: false, gap: None, lacks_logs, recheck, incidents, gone };
        Reconciled { outcome: Outcome::Status(Box::new(new)), reads, texts }
    }

    /// What is known about the alerts whose incidents are gone.
    fn gone_alerts(&self, object: &Object, incidents: &[Incident]) -> GoneAlerts {
        let unjudged = self.index.undecodable_namespaces();
        let gone = self.workloads.gone().map(|(namespace, owner)| report::key_of_missing(namespace, owner));
        let deleted: HashSet<String> = object.tracker.deleted().chain(gone).collect();
        let webhooks = object.status_head().map_or(&[][..], |status| &status.webhooks);
        let is_unread = |alert: &api::AlertStatus| {
            let is_missing = alert.kind == ProblemKind::Missing;
            is_missing && self.workloads.is_unread(&alert.namespace, &alert.owner)
                || object.unread_jobs.may_concern(alert)
        };
        let (unclear, others): (Vec<_>, Vec<_>) = alerts::gone_alerts(webhooks, incidents).partition(|alert| {
            let namespace = alert.namespace.as_str();
            unjudged.contains(namespace) || !self.watch_health.is_watched(namespace) || is_unread(alert)
        });
        let ended = others
            .into_iter()
            .filter(|alert| deleted.contains(&alert.key))
            // The next run of a CronJob has its own pod, and may fail as well.
            .filter(|alert| alert.owner.kind != "CronJob")
            .filter(|alert| !self.index.has_pods_of(&alert.namespace, &alert.owner.kind, &alert.owner.name))
            .map(|alert| alert.key.clone())
            .collect();
        let unclear = unclear.into_iter().map(|alert| alert.key.clone()).collect();
        GoneAlerts { ended, unclear, is_incomplete: !object.unread_jobs.is_empty() }
    }

    /// What decides whether incidents that an object with this view listed may only be out of sight.
    pub(super) fn out_of_sight<'a>(
        &'a self,
        view: Option<ViewId>,
        tracker: &'a Tracker,
        unread_jobs: &'a UnreadJobs,
    ) -> OutOfSight<'a> {
        OutOfSight { reconciler: self, view, tracker, unread_jobs, undecodable: OnceCell::new() }
    }

    /// Drops what is no longer needed. `needed` is the longest `restarted` threshold of all objects.
    pub(super) fn compact(&mut self, needed: Duration, now: Instant, wall: Timestamp) {
        if let Some(lookback) = self.lookback.shortened(self.index.restart_lookback(), needed, now) {
            self.index.narrow(lookback);
            self.watch_health.shorten_lookback(lookback);
        }
        self.index.compact(wall);
        self.log_requests.sweep();
        self.masked_texts.sweep();
        self.problems.sweep();
        self.evidence.sweep(now, |uid| self.index.contains(uid));
        let needed: BTreeSet<JobKey> = self.index.suspect_jobs().map(|(pod, job)| JobKey::new(pod, job)).collect();
        self.reads.get_mut().sweep(|key| needed.contains(key), now);
        self.workloads.compact(|namespace| self.index.views_of_namespace(namespace).next().is_some(), wall);
    }
}

/// Whether an object may select pods of a watch.
fn concerns(settings: &Settings, scope: &Scope) -> bool {
    scope.as_ref().is_none_or(|namespace| settings.scope.selects_namespace(namespace))
}

/// The owner of a pod with a problem, and this revision of it if it is the one that fails.
fn workload(index: &Index, pod: &Pod, revision: Option<&str>, known: &Known<'_>) -> Workload {
    // A pod without a controller is its own owner.
    let Some((kind, name)) = owner_names(pod) else { return Workload { of: 1, revision: None } };
    let revision = revision.and_then(|hash| {
        let before = index.healthy_before(&pod.namespace, kind, name, hash)?;
        let comparison = match known.revision_fact(pod, hash, Some(before.hash)) {
            Some(RevisionFact::Compared(changes)) => Comparison::Compared(changes),
            Some(RevisionFact::TooLarge) => Comparison::TooLarge,
            // It does not follow the other one.
            Some(RevisionFact::NotNewer(_)) => return None,
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
        Self { outcome, reads: Vec::new(), texts: None }
    }
}

#[cfg(test)]
mod tests;
