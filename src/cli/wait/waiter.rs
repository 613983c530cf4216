//! Watches the targets, and decides again after each change, until all are done, one has failed, or the time is over.

use std::time::Duration;

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
    outlook::{Begun, Limits},
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
        let failing = vec![None; states.len()];
        let mut run = Run {
            waiter: self,
            begun_at: Begun { at: self.clock.now(), is_single_check: limit.is_zero() },
            states,
            failing,
            took: Vec::new(),
            view: ClusterView::of(client.clone(), READ_JOB, READ_JOBS_AGAIN).of_workload(),
            are_events_denied: false,
            progress: Progress::new(self.begun),
            outage: Outage::default(),
        };
        let (verdict, decisions) = run.until_verdict(&mut updates, limit).await?;
        let denied = run.are_events_denied.then_some(Note::EventsDenied);
        if let Some(note) = denied.or(run.view.missing_events()).filter(|_| verdict != Verdict::AllDone) {
            run.progress.note(&format!("orchestr: {}", note.as_str()));
        }
        let took = std::mem::take(&mut run.took);
        drop(run);
        let logs = Logs::new(client.clone(), self.log_lines, Instant::now() + LOG_TIME);
        let mut near = NearNames::new(client.clone());
        let mut outcomes = Vec::new();
        for ((target, decision, is_confirmed), took) in decisions.into_iter().zip(took) {
            outcomes.push(self.outcome(target, decision, is_confirmed, took, verdict, (&logs, &mut near)).await);
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
        (logs, near): (&Logs, &mut NearNames),
    ) -> Outcome {
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
                let Some(shown) = shown(trouble, alike, hint, log.as_ref()) else { continue };
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
    view: ClusterView,
    are_events_denied: bool,
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
            if let Some((resource, message)) = self.states.iter().find_map(TargetState::denial) {
                let Waiter { cluster, namespace, .. } = self.waiter;
                return Err(live::denied(&cluster.target, resource, Some(namespace), message));
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
            self.view.read(is_synced.then_some(self.waiter.namespace).into_iter(), now);
            // A single check ends when nothing is left that may still change its result.
            let is_settled = self.failing.iter().all(Option::is_none) && !self.view.is_reading();
            if limit.is_zero() && is_synced && is_settled {
                deadline = now;
            }
            if now >= deadline {
                return Ok((Verdict::TimedOut, decisions));
            }
            self.note_outage(now);
            let confirmed = self.failing.iter().flatten().map(|since| *since + CONFIRMATION);
            let recheck = decisions.iter().filter_map(|(_, decision, _)| decision.recheck);
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

    fn decide(&mut self, now: Instant) -> Result<Decisions, Failure> {
        let wall = self.waiter.clock.now();
        self.states.iter().for_each(|state| state.show_to(&mut self.view, wall));
        let mut decisions = Vec::new();
        for (state, failing) in self.states.iter().zip(&mut self.failing) {
            let target = printable(&state.target.to_string());
            if !state.is_synced() {
                decisions.push((target, Decision::waiting("it is not read yet"), false));
                continue;
            }
            let mut decision = state.decide(&self.view, self.begun_at, self.waiter.limits, wall);
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
        let failure = self.states.iter().find_map(TargetState::failure);
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
