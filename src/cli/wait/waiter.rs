//! Watches the targets, and decides again after each change, until all are done, one has failed, or the time is over.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use kube::core::Status;
use tokio::time::{Instant, sleep_until};

use crate::{
    api::Cause,
    cli::{
        Failure,
        api_error::{Grant, Permission},
        event_lists::EventLists,
        jobs::{self, Jobs},
        printable::printable,
    },
    clock::ClusterClock,
    watch::WatchUpdate,
};

use super::{
    Cluster,
    decide::{self, Begun, Decision, State},
    evidence::Logs,
    lookup::look_up,
    outcome::{Detail, End, Outcome, clean, groups},
    outlook::Limits,
    progress::{Line, Progress},
    target::Target,
    watches::{Events, TargetState, Update, Updates, watch_namespace_events},
};

/// How long a failure must last before it ends the wait. The watches are independent, so for a moment the pods may seem to
/// belong to another revision than they do.
const CONFIRMATION: Duration = Duration::from_millis(500);
/// Shorter outages are not mentioned.
const OUTAGE: Duration = Duration::from_secs(2);
/// How long the first lists may take if everything is to be checked once.
const FIRST_LISTS: Duration = Duration::from_secs(30);
/// How long one read of a Job may take.
const READ_JOB: Duration = Duration::from_secs(30);
/// When the Job of a failed pod is read again, until it has ended.
const READ_JOBS_AGAIN: Duration = Duration::from_secs(2);
/// The most updates that are applied before the next decision.
const BATCH: usize = 1000;
/// For how many groups of pods that are troubled alike a log is read.
const LOGS: usize = 3;
/// How long all logs may take: a kubelet that hangs must not delay the result of many targets.
const LOG_TIME: Duration = Duration::from_secs(15);

pub(super) struct Waiter<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) namespace: &'a str,
    pub(super) clock: ClusterClock,
    pub(super) limits: Limits,
    pub(super) begun: Instant,
    pub(super) log_lines: u32,
}

/// Why a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    AllDone,
    OneFailed,
    TimedOut,
}

impl Waiter<'_> {
    pub(super) async fn wait_for(&self, targets: Vec<Target>, limit: Duration) -> Result<Vec<Outcome>, Failure> {
        let client = &self.cluster.client;
        let mut updates = Updates::new();
        let mut states = Vec::new();
        for (index, target) in targets.into_iter().enumerate() {
            let watched = look_up(self.cluster, self.namespace, target).await?;
            states.push(TargetState::start(index, watched, client, self.namespace, &mut updates));
        }
        watch_namespace_events(client, self.namespace, &mut updates);
        let lists = EventLists::new(client.clone());
        let failing = vec![None; states.len()];
        let mut run = Run {
            waiter: self,
            begun_at: Begun { at: self.clock.now(), is_single_check: limit.is_zero() },
            states,
            failing,
            took: Vec::new(),
            events: Events::default(),
            lists,
            jobs: Jobs::new(client.clone(), READ_JOB, READ_JOBS_AGAIN),
            progress: Progress::new(self.begun),
            outage: Outage::default(),
        };
        let (verdict, decisions) = run.until_verdict(&mut updates, limit).await?;
        if verdict != Verdict::AllDone && run.events.denied {
            run.progress.note("orchestr: you may not read events: causes that only events prove are missing");
        }
        let took = std::mem::take(&mut run.took);
        drop(run);
        let logs = Logs::new(client.clone(), self.log_lines, Instant::now() + LOG_TIME);
        let mut outcomes = Vec::new();
        for ((target, decision, is_confirmed), took) in decisions.into_iter().zip(took) {
            outcomes.push(self.outcome(target, decision, is_confirmed, took, verdict, &logs).await);
        }
        Ok(outcomes)
    }

    async fn outcome(
        &self,
        target: String,
        decision: Decision,
        is_confirmed: bool,
        took: Duration,
        verdict: Verdict,
        logs: &Logs,
    ) -> Outcome {
        let end = match decision.state {
            State::Done => End::Done,
            State::Failed(failure) if is_confirmed => {
                End::Failed(decide::Failure { code: printable(&failure.code), message: clean(&failure.message) })
            }
            _ if verdict == Verdict::TimedOut => End::TimedOut,
            _ => End::Unfinished,
        };
        let mut details = Vec::new();
        if matches!(end, End::Failed(_) | End::TimedOut) {
            for (index, (trouble, alike)) in groups(&decision.troubles).into_iter().enumerate() {
                let log = if index < LOGS { logs.read(trouble).await } else { None };
                details.push(Detail::new(trouble, alike, log));
            }
        }
        let more = if details.is_empty() { 0 } else { decision.more };
        Outcome { target, end, what: clean(&decision.what), took, details, more }
    }

    /// The error for a list or watch that is forbidden from the beginning.
    fn denied(&self, resource: &'static str, message: &str) -> Failure {
        let verb = if message.contains(" cannot watch ") { "watch" } else { "list" };
        let permission = Permission { verb, resource, namespace: Some(self.namespace), grant: Grant::View };
        let error = kube::Error::Api(Status::failure(message, "Forbidden").with_code(403).boxed());
        self.cluster.target.describe_denied(&error, &permission)
    }
}

/// A wait under way.
struct Run<'a> {
    waiter: &'a Waiter<'a>,
    /// When it began, by the cluster's clock.
    begun_at: Begun,
    states: Vec<TargetState>,
    /// Since when each target has failed.
    failing: Vec<Option<Instant>>,
    /// How long each target took until it was done, or until now.
    took: Vec<Duration>,
    events: Events,
    lists: EventLists,
    jobs: Jobs,
    progress: Progress,
    outage: Outage,
}

/// The last decision about each target, by its name, and whether its failure is confirmed.
type Decisions = Vec<(String, Decision, bool)>;

impl Run<'_> {
    async fn until_verdict(&mut self, updates: &mut Updates, limit: Duration) -> Result<(Verdict, Decisions), Failure> {
        let begun = self.waiter.begun;
        let mut deadline = begun + if limit.is_zero() { FIRST_LISTS } else { limit };
        let mut done_after: Vec<Option<Duration>> = vec![None; self.states.len()];
        loop {
            let now = Instant::now();
            let is_synced = self.states.iter().all(TargetState::is_synced);
            for state in &mut self.states {
                if !state.is_synced()
                    && let Some((resource, message)) = state.denial()
                {
                    return Err(self.waiter.denied(resource, &message));
                }
            }
            let decisions = self.decide(now)?;
            for (done_after, (_, decision, _)) in done_after.iter_mut().zip(&decisions) {
                let took = now.saturating_duration_since(begun);
                *done_after = if decision.state == State::Done { Some(done_after.unwrap_or(took)) } else { None };
            }
            self.took =
                done_after.iter().map(|done| done.unwrap_or_else(|| now.saturating_duration_since(begun))).collect();
            let lines = self.states.iter().zip(&decisions);
            let lines: Vec<Line> =
                lines.map(|(state, (target, decision, _))| line(target, decision, state.is_synced())).collect();
            let show_again = self.progress.show(&lines, now);
            if decisions.iter().any(|(_, _, is_confirmed)| *is_confirmed) {
                return Ok((Verdict::OneFailed, decisions));
            }
            if decisions.iter().all(|(_, decision, _)| decision.state == State::Done) {
                return Ok((Verdict::AllDone, decisions));
            }
            // The watch shows the events from now on.
            if is_synced {
                self.lists.ask(self.waiter.namespace);
            }
            self.jobs.read(self.states.iter().flat_map(TargetState::needed_jobs).collect(), now);
            // A single check ends when nothing is left that may still change its result.
            let is_reading = self.lists.is_reading() || self.jobs.is_reading();
            let is_settled = self.failing.iter().all(Option::is_none) && !is_reading;
            if limit.is_zero() && is_synced && is_settled {
                deadline = now;
            }
            if now >= deadline {
                return Ok((Verdict::TimedOut, decisions));
            }
            self.note_outage(now);
            let confirmed = self.failing.iter().flatten().map(|since| *since + CONFIRMATION);
            let recheck = decisions.iter().filter_map(|(_, decision, _)| decision.recheck);
            let recheck = recheck.map(|time| now + self.until(time));
            let wakes = confirmed.chain(recheck).chain(show_again).chain(self.outage.due()).chain(self.jobs.due(now));
            let wake = wakes.fold(deadline, Instant::min);
            tokio::select! {
                Some(update) = updates.next() => self.apply_all(update, updates),
                (_, events) = self.lists.next() => {
                    events.into_iter().flatten().for_each(|event| self.events.add(event));
                }
                note = self.jobs.next() => self.note_about_jobs(note),
                () = sleep_until(wake) => {}
            }
        }
    }

    /// How long until a time of the cluster.
    fn until(&self, time: Timestamp) -> Duration {
        // The estimate of the cluster's clock moves, so a wake-up must not be too early.
        const MARGIN: Duration = Duration::from_millis(20);
        let left = time.duration_since(self.waiter.clock.now());
        // A wake-up that finds nothing to do is cheap, but not in a loop.
        Duration::try_from(left).unwrap_or_default().saturating_add(MARGIN)
    }

    fn decide(&mut self, now: Instant) -> Result<Decisions, Failure> {
        let wall = self.waiter.clock.now();
        let mut decisions = Vec::new();
        for (state, failing) in self.states.iter().zip(&mut self.failing) {
            let target = printable(&state.target.to_string());
            if !state.is_synced() {
                decisions.push((target, Decision::waiting("it is not read yet"), false));
                continue;
            }
            let mut decision = state.decide(&self.events, &self.jobs, self.begun_at, self.waiter.limits, wall);
            if !state.is_current() {
                // What is known may be outdated, so neither success nor failure is certain.
                *failing = None;
                if decision.state != State::Unknowable {
                    decision.state = State::Waiting;
                }
            }
            let is_confirmed = match &decision.state {
                State::Failed(_) => now >= *failing.get_or_insert(now) + CONFIRMATION,
                State::Unknowable => return Err(Failure::new(format!("{target}: {}", decision.what))),
                State::Waiting | State::Done => {
                    *failing = None;
                    false
                }
            };
            decisions.push((target, decision, is_confirmed));
        }
        Ok(decisions)
    }

    /// Applies an update and all others that have arrived.
    fn apply_all(&mut self, first: Update, updates: &mut Updates) {
        self.apply(first);
        for _ in 0..BATCH {
            match updates.next().now_or_never() {
                Some(Some(update)) => self.apply(update),
                _ => return,
            }
        }
    }

    fn apply(&mut self, update: Update) {
        let now = self.waiter.clock.now();
        match update {
            Update::Workload(index, update) => {
                if let Some(state) = self.states.get_mut(index) {
                    state.apply_workload(update, now);
                }
            }
            Update::Revision(index, update) => {
                if let Some(state) = self.states.get_mut(index) {
                    state.apply_revision(update);
                }
            }
            Update::Pod(index, update) => {
                if let Some(state) = self.states.get_mut(index) {
                    state.apply_pod(update, now);
                }
            }
            Update::Event(WatchUpdate::Applied(event)) => self.events.add(event),
            Update::Event(WatchUpdate::Denied(_)) => self.events.denied = true,
            Update::Event(_) => {}
        }
    }

    fn note_about_jobs(&mut self, note: Option<&str>) {
        match note {
            Some(jobs::DENIED) => self
                .progress
                .note("orchestr: you may not read Jobs: their failed pods are waited for until they are gone"),
            Some(jobs::CRON_JOBS_DENIED) => self.progress.note(&format!("orchestr: {}", jobs::CRON_JOBS_DENIED)),
            _ => {}
        }
    }

    fn note_outage(&mut self, now: Instant) {
        let failure = self.states.iter().find_map(TargetState::failure).map(clean);
        match self.outage.update(failure, now) {
            OutageNote::None => {}
            OutageNote::Began(why) => {
                self.progress.note(&format!("orchestr: the API server cannot be asked; still waiting: {why}"));
            }
            OutageNote::Ended => self.progress.note("orchestr: the API server answers again"),
        }
    }
}

/// The note to print about an outage.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OutageNote {
    None,
    Began(String),
    Ended,
}

/// Whether the API server can be asked.
#[derive(Debug, Default)]
struct Outage {
    since: Option<Instant>,
    is_noted: bool,
}

impl Outage {
    fn update(&mut self, failure: Option<String>, now: Instant) -> OutageNote {
        let Some(failure) = failure else {
            self.since = None;
            return if std::mem::take(&mut self.is_noted) { OutageNote::Ended } else { OutageNote::None };
        };
        let since = *self.since.get_or_insert(now);
        if self.is_noted || now < since + OUTAGE {
            return OutageNote::None;
        }
        self.is_noted = true;
        OutageNote::Began(failure)
    }

    /// When the next note will be due.
    fn due(&self) -> Option<Instant> {
        self.since.filter(|_| !self.is_noted).map(|since| since + OUTAGE)
    }
}

/// What the progress shows of a target.
fn line(target: &str, decision: &Decision, is_read: bool) -> Line {
    let is_done = decision.state == State::Done;
    let mut what = clean(&decision.what);
    if let Some(worst) = decision.troubles.first().filter(|worst| !is_done && worst.is_open()) {
        let cause = match worst.finding.explanation.cause {
            Cause::Unknown => String::new(),
            cause => format!(" ({cause})"),
        };
        what.push_str(&format!("; {} {}{cause}", printable(&worst.pod.name), printable(&worst.finding.status)));
        match decision.troubles.len() + decision.more {
            1 => {}
            all => what.push_str(&format!(" and {} more", all - 1)),
        }
    }
    Line { target: target.to_owned(), what, is_done, is_read }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_an_outage_once_and_not_if_it_is_short() {
        let (now, mut outage) = (Instant::now(), Outage::default());
        let failure = || Some("connection refused".to_owned());
        assert_eq!(outage.update(failure(), now), OutageNote::None);
        assert_eq!(outage.due(), Some(now + OUTAGE));
        assert_eq!(outage.update(None, now), OutageNote::None);
        assert_eq!(outage.update(failure(), now), OutageNote::None);
        assert_eq!(outage.update(failure(), now + OUTAGE), OutageNote::Began("connection refused".to_owned()));
        assert_eq!((outage.update(failure(), now + 2 * OUTAGE), outage.due()), (OutageNote::None, None));
        assert_eq!(outage.update(None, now + 2 * OUTAGE), OutageNote::Ended);
    }
}
