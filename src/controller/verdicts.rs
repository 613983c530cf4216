//! Judges the suspect pods of one object, with the Jobs that decide about them. No I/O: the caller starts the reads.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    diagnosis::{Facts, Finding, Health, Thresholds, judge, needs_job},
    pods::Pod,
    report::Tracker,
};

use super::jobs::{JobKey, Jobs};

/// How long a status waits for Jobs that decide about pods, as long as an outage is tolerated.
const FACTS_PATIENCE: Duration = Duration::from_secs(60);
/// How many warnings about Jobs that could not be read are kept.
const WARNINGS: usize = 4;

/// What the verdicts depend on beside the pods and their Jobs.
pub(super) struct Context<'a> {
    pub(super) thresholds: &'a Thresholds,
    pub(super) tracker: &'a Tracker,
    /// Whether the pod's owner has a healthy pod that was created after it.
    pub(super) is_replaced: &'a dyn Fn(&Pod) -> bool,
    pub(super) now: Instant,
    pub(super) wall: Timestamp,
}

/// The verdicts on an object's pods.
#[derive(Default)]
pub(super) struct Verdicts<'p> {
    /// The pods with a problem.
    pub(super) found: Vec<(&'p Pod, Box<Finding>)>,
    /// How many pods have a problem and an annotation that asks not to report it.
    pub(super) ignored: usize,
    /// Which Jobs could not be read, and why.
    pub(super) warnings: Vec<String>,
    /// When time alone may change a verdict, or a Job is due to be read again.
    pub(super) recheck: Option<Timestamp>,
    /// The Jobs to read now.
    pub(super) queries: Vec<JobKey>,
    /// The status must not be written before: it would call pods healthy, or a trouble over, without knowing that.
    pub(super) wait_until: Option<Instant>,
}

/// Judges pods. `waiting_since` is kept from one call to the next: since when the status has lacked a Job.
pub(super) fn judge_pods<'p>(
    pods: impl Iterator<Item = &'p Pod>,
    jobs: &mut Jobs,
    waiting_since: &mut Option<Instant>,
    context: &Context<'_>,
) -> Verdicts<'p> {
    let &Context { thresholds, tracker, is_replaced, now, wall } = context;
    let mut verdicts = Verdicts::default();
    let may_guess = waiting_since.is_some_and(|since| now >= since + FACTS_PATIENCE);
    let (mut lacks_facts, mut must_wait) = (false, !tracker.is_resumed());
    let mut ask_again: Option<Instant> = None;
    for pod in pods {
        let mut facts = Facts { job: None, replaced: pod.phase == "Failed" && is_replaced(pod) };
        let mut verdict = judge(pod, &facts, thresholds, wall);
        if let (Health::Problem(_), false, Some(job)) = (&verdict.health, pod.ignored, needs_job(pod)) {
            let answer = jobs.ask(JobKey::new(pod, job), now);
            verdicts.queries.extend(answer.query);
            if let Some(at) = answer.ask_at {
                ask_again = ask_again.into_iter().chain([at]).min();
                verdicts.recheck_at(wall.saturating_add(at.saturating_duration_since(now)).unwrap_or(wall));
            }
            if !answer.refusal.is_empty() {
                verdicts.warn(format!("could not read the Job of a failed pod: {}", answer.refusal));
            }
            if answer.facts.is_none() {
                lacks_facts = true;
                must_wait |= tracker.knows(pod.uid);
                if !may_guess {
                    continue;
                }
            }
            facts.job = answer.facts;
            verdict = judge(pod, &facts, thresholds, wall);
        }
        verdict.recheck.into_iter().for_each(|at| verdicts.recheck_at(at));
        match verdict.health {
            Health::Problem(_) if pod.ignored => verdicts.ignored += 1,
            Health::Problem(finding) => verdicts.found.push((pod, finding)),
            Health::Healthy | Health::Settling => {}
        }
    }
    if lacks_facts && !may_guess && (must_wait || verdicts.found.is_empty()) {
        let until = *waiting_since.get_or_insert(now) + FACTS_PATIENCE;
        verdicts.wait_until = Some(ask_again.map_or(until, |at| at.min(until)));
    } else if !lacks_facts {
        *waiting_since = None;
    }
    verdicts
}

impl Verdicts<'_> {
    fn recheck_at(&mut self, at: Timestamp) {
        self.recheck = self.recheck.into_iter().chain([at]).min();
    }

    fn warn(&mut self, warning: String) {
        if self.warnings.len() < WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}
