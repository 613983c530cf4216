//! One look at one object: judge what it sees, make its status, and write it if it says something new.

use std::{collections::HashSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    alerts::{self, Incident, delivery::ObjectUpdate},
    api::{NamespacedName, OrchestrStatus},
    report::{self, Change, NotWatching, Report, Troubled, UpdateContext},
    settings::Settings,
};

use super::{
    Controller, Scope, jobs,
    jobs::JobKey,
    outcomes::{Outcome, ReadOutcome},
    status,
    verdicts::{Context, Verdicts, WARNINGS, judge_pods},
    watch_health::SyncState,
};

/// How often an object is looked at where no event asks for it: the count of its pods may have changed,
/// and the wall clock, by which thresholds are judged, may have been set.
const INTERVAL: Duration = Duration::from_secs(60);

/// What a look has found.
struct Reconciled {
    status: OrchestrStatus,
    /// Whether the status should show logs that are still being read.
    lacks_logs: bool,
    /// When time alone may change it.
    recheck: Option<Timestamp>,
    /// All that the webhooks' receivers may be told of; absent while nothing is known.
    incidents: Option<Vec<Incident>>,
    /// The keys of alerts whose incidents are over for certain: their pods are deleted, and their owners have no others.
    ended: Vec<String>,
}

impl Controller {
    pub(super) fn reconcile(&mut self, key: &NamespacedName, now: Instant) {
        let Some(object) = self.objects.get(key).filter(|object| !object.writing) else { return };
        let wall = self.clock.now();
        let sight = match &object.settings {
            Err(error) => self.idle(key, &error.clone().into(), wall),
            Ok(settings) if !settings.enabled => self.idle(key, &NotWatching::Paused, wall),
            Ok(settings) => {
                let settings = Arc::clone(settings);
                let concerns = |scope: &Scope| match scope {
                    Some(namespace) => settings.scope.selects_namespace(namespace),
                    None => true,
                };
                match self.watch_health.knowledge(now, settings.thresholds.restarted, concerns) {
                    SyncState::Complete => self.watching(key, &settings, now, wall),
                    SyncState::Denied(message) => self.idle(key, &NotWatching::PodAccessDenied { message }, wall),
                    SyncState::Interrupted(message) => self.idle(key, &NotWatching::Interrupted { message }, wall),
                    SyncState::Syncing => self.idle(key, &NotWatching::Syncing, wall),
                    SyncState::Settling { until, unanswered_until } => {
                        let answered = object.status.as_ref().and_then(|status| status.observed_generation);
                        let until = if answered == Some(object.generation) { until } else { unanswered_until };
                        if now < until {
                            self.rest(key, until);
                            return;
                        }
                        self.idle(key, &NotWatching::Syncing, wall)
                    }
                }
            }
        };
        let Some(mut sight) = sight else { return };
        let Some(object) = self.objects.get_mut(key) else { return };
        match &object.settings {
            Ok(settings) => self.dispatcher.update(
                key,
                ObjectUpdate {
                    uid: &object.uid,
                    generation: object.generation,
                    webhooks: &settings.webhooks,
                    status: object.status.as_ref(),
                    resource_version: &object.resource_version,
                    ended: std::mem::take(&mut sight.ended),
                    incidents: sight.incidents.take(),
                },
            ),
            Err(_) => self.dispatcher.pause(key),
        }
        let recheck = sight.recheck.map_or(INTERVAL, |at| until(at, wall).min(INTERVAL));
        let interval = self.check_interval.mul_f64(object.check_share);
        let check_due = check_due(object.status.as_ref(), interval, wall);
        let recheck = now + recheck.min(check_due.unwrap_or(interval));
        object.schedule.recheck_at(Some(recheck));
        // A first status is awaited by somebody, and there is nothing yet whose logs it would take away.
        let is_first = object.status.is_none();
        if sight.lacks_logs && !is_first && object.schedule.wait_for_logs(now) {
            return;
        }
        match report::differs(object.status.as_ref(), &sight.status) {
            _ if check_due.is_none() => self.write(key, sight.status, now),
            Change::None => object.schedule.clear(),
            Change::CountOnly if object.schedule.written().is_some_and(|written| now < written + INTERVAL) => {
                object.schedule.clear();
                let worth_it = object.schedule.written().map(|written| written + INTERVAL);
                object.schedule.recheck_at(worth_it.into_iter().chain([recheck]).min());
            }
            Change::CountOnly | Change::Substantial => self.write(key, sight.status, now),
        }
    }

    /// Leaves an object alone until `at`, unless something happens.
    fn rest(&mut self, key: &NamespacedName, at: Instant) {
        if let Some(object) = self.objects.get_mut(key) {
            object.schedule.clear();
            object.schedule.recheck_at(Some(at));
        }
    }

    fn idle(&self, key: &NamespacedName, state: &NotWatching, wall: Timestamp) -> Option<Reconciled> {
        let object = self.objects.get(key)?;
        let status = report::not_watching(state, object.generation, object.status.as_ref(), wall);
        Some(Reconciled { status, lacks_logs: false, recheck: None, incidents: None, ended: Vec::new() })
    }

    fn watching(
        &mut self,
        key: &NamespacedName,
        settings: &Settings,
        now: Instant,
        wall: Timestamp,
    ) -> Option<Reconciled> {
        let object = self.objects.get_mut(key)?;
        let view = object.view?;
        let mut tracker = std::mem::take(&mut object.tracker);
        let context = Context {
            thresholds: &settings.thresholds,
            tracker: &tracker,
            is_replaced: &|pod| self.index.is_replaced(pod),
            now,
            wall,
        };
        let suspects = self.index.suspects(view);
        let verdicts = judge_pods(suspects, &mut self.jobs, &mut object.jobs_awaited, &context);
        let Verdicts { mut found, mut ignored, warnings: unread_jobs, mut recheck, queries, wait_until } = verdicts;
        if let Some(until) = wait_until {
            object.tracker = tracker;
            queries.into_iter().for_each(|query| self.read_job(query));
            self.rest(key, until);
            return None;
        }
        let mut warnings = settings.warnings.clone();
        warnings.extend(unread_jobs.into_iter().take(WARNINGS.saturating_sub(settings.warnings.len())));
        ignored += tracker.update(
            &mut found,
            &UpdateContext {
                previous: object.status.as_ref(),
                generation: object.generation,
                ignores: &|kind, reason| settings.ignores(kind, reason),
                remains: &|uid| self.index.remains(uid),
            },
        );

        let policy = settings.logs.as_ref();
        let input = report::Input {
            generation: object.generation,
            max_pods: settings.max_pods,
            watched_pods: self.index.watched(view),
            troubled: found.iter().map(|(pod, finding)| Troubled { pod, finding }).collect(),
            unreadable: self
                .index
                .undecodable(view)
                .map(|(count, first)| (count, format!("{first} ({})", first.error))),
            outside: self.watch_health.namespaces().and_then(|watched| settings.scope.outside(&watched)),
            logs: policy.is_some(),
            masking: policy.map(Arc::as_ref),
            tracker: &tracker,
            ignored_pods: ignored as u64,
            warnings,
            has_webhooks: !settings.webhooks.is_empty(),
            previous: object.status.as_ref(),
            now: wall,
        };
        let Report { status, incidents, shown } =
            report::watching(&input, &|pod, container| self.log_requests.get(pod, container, policy?));
        let deleted: HashSet<String> = tracker.deleted().collect();
        let webhooks = object.status.as_ref().map_or(&[][..], |status| &status.webhooks);
        let ended = alerts::gone_alerts(webhooks, &incidents)
            .filter(|alert| deleted.contains(&alert.key))
            // The next run of a CronJob is a pod of its own, of which nothing is known yet.
            .filter(|alert| alert.owner.kind != "CronJob")
            .filter(|alert| !self.index.has_pods_of(&alert.namespace, &alert.owner.kind, &alert.owner.name))
            .map(|alert| alert.key.clone())
            .collect();
        let incidents = Some(incidents);
        let mut lacks_logs = false;
        if let Some(policy) = policy {
            for (pod, container) in shown {
                let answer = self.log_requests.ask(pod, container, policy, key, now);
                lacks_logs |= answer.is_lacking;
                if let Some(due) = answer.due {
                    let due = wall.saturating_add(due.saturating_duration_since(now)).unwrap_or(wall);
                    recheck = recheck.into_iter().chain([due]).min();
                }
                if let Some(request) = answer.request {
                    let reader = self.reader.clone();
                    self.reads.spawn(async move {
                        let outcome = reader.read(&request).await;
                        ReadOutcome::Log { request: Box::new(request), outcome }
                    });
                }
            }
        }
        if let Some(object) = self.objects.get_mut(key) {
            object.tracker = tracker;
        }
        queries.into_iter().for_each(|query| self.read_job(query));
        Some(Reconciled { status, lacks_logs, recheck, incidents, ended })
    }

    fn read_job(&mut self, query: JobKey) {
        let (client, permits) = (self.client.clone(), self.side_requests.clone());
        self.reads.spawn(async move {
            let _permit = permits.acquire_owned().await;
            let reading = jobs::read(&client, &query).await;
            ReadOutcome::Job { key: query, reading }
        });
    }

    fn write(&mut self, key: &NamespacedName, status: OrchestrStatus, now: Instant) {
        let Some(object) = self.objects.get_mut(key) else { return };
        let failing = object.backoff.failures() > 0;
        if !self.write_limiter.are_free(key, failing) {
            // What it says by then is found when there is one.
            object.schedule.clear();
            if !std::mem::replace(&mut object.waiting, true) {
                self.write_limiter.wait(key.clone(), failing);
            }
            return;
        }
        object.schedule.writing(now);
        object.writing = true;
        let slot = self.write_limiter.take(key, failing);
        let (client, key, uid) = (self.client.clone(), key.clone(), object.uid.clone());
        self.tasks.spawn(async move {
            let result = status::write(&client, &key, &uid, &status).await.map(Box::new);
            Outcome::Written { slot, key, uid, sent: Box::new(status), result }
        });
    }
}

/// How long it is until `lastCheckTime` is to be refreshed, if it isn't yet.
fn check_due(status: Option<&OrchestrStatus>, interval: Duration, wall: Timestamp) -> Option<Duration> {
    let checked = status?.last_check_time.as_ref()?.0;
    let age = wall.duration_since(checked);
    // A time that lies ahead was written by a clock that was wrong.
    let ahead = Duration::try_from(-age).unwrap_or_default();
    let left = interval.checked_sub(Duration::try_from(age).unwrap_or_default())?;
    (ahead <= interval && !left.is_zero()).then_some(left)
}

fn until(at: Timestamp, wall: Timestamp) -> Duration {
    at.duration_since(wall).try_into().unwrap_or(Duration::ZERO)
}
