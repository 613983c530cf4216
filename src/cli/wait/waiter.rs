//! Watches the targets, and decides again after each change, until all are done, one has failed, or the time is over.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use tokio::time::{Instant, sleep_until};

use crate::{
    api::Cause,
    cli::{
        Failure,
        live::{self, ClusterView, Note, Outage, OutageNews},
        near::NearNames,
    },
    clock::ClusterClock,
    diagnosis::Thresholds,
    logs::LogPolicy,
    render::{
        document::{End, Fault, Outcome, message},
        safe::{clean, printable},
    },
    report::with_hint,
    watch::WatchUpdate,
};

use super::{
    Cluster,
    decide::{Decision, State},
    evidence::{Logs, groups, shown},
    outlook::{Check, Limits},
    progress::{Line, Progress},
    target::{Target, look_up},
    watches::{TargetState, Update, Updates, watch_namespace_events},
};

/// How long a failure must last before it ends the wait. The watches are independent, so for a moment the pods may seem to
/// belong to another revision than they do.
const CONFIRMATION: Duration = Duration::from_millis(500);
/// How long the first lists may take if everything is to be checked once.
const FIRST_LISTS: Duration = Duration::from_secs(30);
/// How long one read of a Job may take.
const READ_JOB: Duration = Duration::from_secs(30);
/// When the Job of a failed pod is read again, until it has ended.
const READ_JOBS_AGAIN: Duration = Duration::from_secs(2);
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
    pub(super) log_policy: Arc<LogPolicy>,
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
        let mut waited = Vec::new();
        for (index, target) in targets.into_iter().enumerate() {
            let watched = look_up(self.cluster, self.namespace, target).await?;
            let name = printable(&watched.target.to_string());
            let state = TargetState::start(index, watched, client, self.namespace, &mut updates);
            let (decision, took) = (Decision::waiting(UNREAD), Duration::ZERO);
            waited.push(Waited { name, state, decision, failing: None, is_confirmed: false, took });
        }
        watch_namespace_events(client, self.namespace, &mut updates);
        let begun = self.clock.now();
        let mut run = Run {
            waiter: self,
            check: Check { limits: self.limits, begun, is_single: limit.is_zero(), now: begun },
            targets: waited,
            view: ClusterView::of(client.clone(), Thresholds::default().restarted, READ_JOB, READ_JOBS_AGAIN)
                .of_workload(),
            are_events_denied: false,
            progress: Progress::new(self.begun),
            outage: Outage::default(),
        };
        let verdict = run.until_verdict(&mut updates, limit).await?;
        let denied = run.are_events_denied.then_some(Note::EventsDenied);
        if let Some(note) = denied.or(run.view.missing_events()).filter(|_| verdict != Verdict::AllDone) {
            run.progress.note(&format!("orchestr: {}", note.as_str()));
        }
        let waited = std::mem::take(&mut run.targets);
        drop(run);
        let logs = Logs::new(client.clone(), Arc::clone(&self.log_policy), Instant::now() + LOG_TIME);
        let mut near = NearNames::new(client.clone());
        let mut outcomes = Vec::new();
        for target in waited {
            outcomes.push(self.outcome(target, verdict, &logs, &mut near).await);
        }
        Ok(outcomes)
    }

    async fn outcome(&self, target: Waited, verdict: Verdict, logs: &Logs, near: &mut NearNames) -> Outcome {
        let Waited { name: target, decision, is_confirmed, took, .. } = target;
        let mut end = match decision.state {
            State::Done => End::Done,
            State::Failed(fault) if is_confirmed => {
                End::Failed(Fault { code: printable(&fault.code), message: clean(&fault.message) })
            }
            _ if verdict == Verdict::TimedOut => End::TimedOut,
            _ => End::Unfinished,
        };
        let mut what = clean(&decision.what);
        let mut troubles = Vec::new();
        if matches!(end, End::Failed(_) | End::TimedOut) {
            for (index, (trouble, alike)) in groups(&decision.troubles).into_iter().enumerate() {
                let log = if index < LOGS { logs.read(trouble).await } else { None };
                let explanation = &trouble.finding.explanation;
                let hint = near.hint(self.namespace, explanation.cause, &explanation.message).await;
                let Some(shown) = shown(trouble, alike, hint, log) else { continue };
                if index == 0
                    && let End::Failed(fault) = &mut end
                {
                    // The heading quotes the log as well.
                    let sentence = clean(&trouble.finding.explanation.message);
                    [&mut fault.message, &mut what].into_iter().for_each(|text| {
                        if let Some(before) = text.strip_suffix(&sentence).filter(|_| !sentence.is_empty()) {
                            *text = format!("{before}{}", message(&shown.0));
                        }
                    });
                }
                troubles.push(shown);
            }
        }
        // Why pods cannot be created is not the trouble of a pod.
        let is_account_missing = |fault: &&mut Fault| fault.code == Cause::ServiceAccountMissing.as_str();
        if let End::Failed(fault) = &mut end
            && troubles.is_empty()
            && let Some(fault) = Some(fault).filter(is_account_missing)
        {
            let hint = near.hint(self.namespace, Cause::ServiceAccountMissing, &fault.message).await;
            fault.message = with_hint(&fault.message, &hint);
        }
        let more = if troubles.is_empty() { 0 } else { decision.more };
        Outcome { target, end, what, took, troubles, more }
    }
}

/// A target, and the last decision about it.
struct Waited {
    name: String,
    state: TargetState,
    decision: Decision,
    /// Since when it has failed.
    failing: Option<Instant>,
    /// Whether it has failed for longer than the watches may disagree.
    is_confirmed: bool,
    /// How long it took until it was done, or until now.
    took: Duration,
}

/// A wait under way.
struct Run<'a> {
    waiter: &'a Waiter<'a>,
    /// The last check, by the cluster's clock.
    check: Check,
    targets: Vec<Waited>,
    view: ClusterView,
    are_events_denied: bool,
    progress: Progress,
    outage: Outage,
}

const UNREAD: &str = "it is not read yet";

impl Run<'_> {
    async fn until_verdict(&mut self, updates: &mut Updates, limit: Duration) -> Result<Verdict, Failure> {
        let mut deadline = self.waiter.begun + if limit.is_zero() { FIRST_LISTS } else { limit };
        loop {
            let now = Instant::now();
            let is_synced = self.targets.iter().all(|own| own.state.is_synced());
            if let Some((resource, message)) = self.targets.iter().find_map(|own| own.state.denial()) {
                let Waiter { cluster, namespace, .. } = self.waiter;
                return Err(live::denied(&cluster.target, resource, Some(namespace), message));
            }
            self.decide(now)?;
            let lines: Vec<Line> = self.targets.iter().map(line).collect();
            let show_again = self.progress.show(&lines, now);
            if self.targets.iter().any(|own| own.is_confirmed) {
                return Ok(Verdict::OneFailed);
            }
            if self.targets.iter().all(|own| own.decision.state == State::Done) {
                return Ok(Verdict::AllDone);
            }
            // The watch shows the events from now on.
            self.view.read(is_synced.then_some(self.waiter.namespace).into_iter(), now);
            // A single check ends when nothing is left that may still change its result.
            let is_settled = self.targets.iter().all(|own| own.failing.is_none()) && !self.view.is_reading();
            if limit.is_zero() && is_synced && is_settled {
                deadline = now;
            }
            if now >= deadline {
                return Ok(Verdict::TimedOut);
            }
            self.note_outage(now);
            let confirmed = self.targets.iter().filter_map(|own| Some(own.failing? + CONFIRMATION));
            let recheck = self.targets.iter().filter_map(|own| own.decision.recheck);
            let wall = self.waiter.clock.now();
            let recheck = recheck.map(|time| now + live::until(time, wall));
            let wakes = confirmed.chain(recheck).chain(show_again).chain(self.outage.due()).chain(self.view.due(now));
            let wake = wakes.fold(deadline, Instant::min);
            tokio::select! {
                Some(update) = updates.next() => {
                    live::arrived(update, updates).into_iter().for_each(|update| self.apply(update));
                }
                note = self.view.next() => self.note_about_jobs(note),
                () = sleep_until(wake) => {}
            }
        }
    }

    fn decide(&mut self, now: Instant) -> Result<(), Failure> {
        let Self { waiter, check, targets, view, .. } = self;
        check.now = waiter.clock.now();
        targets.iter().for_each(|own| own.state.show_to(view));
        for Waited { name, state, decision, failing, is_confirmed, took } in targets {
            let was_done = decision.state == State::Done;
            *decision = match state.is_synced() {
                true => state.decide(view, *check),
                false => Decision::waiting(UNREAD),
            };
            if !state.is_current() && decision.state != State::Unknowable {
                // What is known may be outdated, so neither success nor failure is certain.
                decision.state = State::Waiting;
            }
            match &decision.state {
                State::Failed(_) => _ = failing.get_or_insert(now),
                State::Unknowable => return Err(Failure::new(format!("{name}: {}", decision.what))),
                State::Waiting | State::Done => *failing = None,
            }
            *is_confirmed = failing.is_some_and(|since| now >= since + CONFIRMATION);
            if !was_done || decision.state != State::Done {
                *took = now.saturating_duration_since(waiter.begun);
            }
        }
        Ok(())
    }

    fn apply(&mut self, update: Update) {
        let now = self.waiter.clock.now();
        match update {
            Update::Of(index, update) => {
                if let Some(target) = self.targets.get_mut(index) {
                    target.state.apply(update, &mut self.view, now);
                }
            }
            Update::Event(WatchUpdate::Applied(event)) => self.view.add_event(event),
            Update::Event(WatchUpdate::Denied(_)) => self.are_events_denied = true,
            Update::Event(_) => {}
        }
    }

    fn note_about_jobs(&mut self, note: Option<Note>) {
        if let Some(sentence) = note.and_then(about_jobs) {
            self.progress.note(&format!("orchestr: {sentence}"));
        }
    }

    fn note_outage(&mut self, now: Instant) {
        let failure = self.targets.iter().find_map(|own| own.state.failure());
        match self.outage.update(failure.is_some(), now, self.waiter.clock.now()) {
            Some(OutageNews::Began) => {
                let why = failure.map(clean).unwrap_or_default();
                self.progress.note(&format!("orchestr: the API server cannot be asked; still waiting: {why}"));
            }
            Some(OutageNews::Ended) => self.progress.note("orchestr: the API server answers again"),
            None => {}
        }
    }
}

/// The sentence about Jobs that cannot be read. One about events is printed at the end, if they are still missing.
fn about_jobs(note: Note) -> Option<&'static str> {
    match note {
        Note::JobsDenied => Some("you may not read Jobs: their failed pods are waited for until they are gone"),
        Note::CronJobsDenied | Note::JobsFailed => Some(note.as_str()),
        Note::EventsDenied | Note::EventsFailed | Note::EventsCut => None,
    }
}

/// What the progress shows of a target.
fn line(Waited { name, state, decision, .. }: &Waited) -> Line {
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
    Line { target: name.clone(), what, is_done, is_read: state.is_synced() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_at_once_which_jobs_cannot_be_read() {
        for (note, sentence) in [
            (Note::JobsDenied, Some("you may not read Jobs: their failed pods are waited for until they are gone")),
            (Note::CronJobsDenied, Some(Note::CronJobsDenied.as_str())),
            (Note::JobsFailed, Some(Note::JobsFailed.as_str())),
            (Note::EventsFailed, None),
        ] {
            assert_eq!(about_jobs(note), sentence, "{note:?}");
        }
    }
}
