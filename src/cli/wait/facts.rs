//! What is known about a target when a decision about it is made, and why the pods of a workload cannot be created. Pure.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::{
    api::Cause,
    cli::live::ClusterView,
    diagnosis::{JobFacts, World, classify_failed_create, is_full_quota, needs_job},
    events::Event,
    facts::Known,
    pods::Pod,
};

use super::{
    newest::{Newest, Revision},
    observed::{Observed, after},
    outlook::{Check, Outlook, persists},
    target::{Kind, Target},
    workload::Workload,
};

/// How often a controller attempts to create a pod at least.
const SLOWEST_ATTEMPT: Duration = Duration::from_secs(1000);

/// What is known about a target.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) target: &'a Target,
    /// Absent if pods are waited for.
    pub(super) workload: Option<&'a Workload>,
    /// Why the object is no longer the one that is waited for, for example because it was deleted.
    pub(super) gone: Option<Gone>,
    pub(super) revisions: &'a [&'a Revision],
    pub(super) pods: &'a [&'a Observed],
    /// The names of pods that could not be decoded.
    pub(super) unreadable: &'a [&'a str],
    /// What verdicts about the pods depend on besides them.
    pub(super) view: &'a ClusterView,
    pub(super) check: Check,
    /// When the numbers in the workload's status last changed, or a pod was gone, as far as this was seen.
    pub(super) progressed: Option<Timestamp>,
}

impl Facts<'_> {
    /// The Job of a named pod does not matter: it is the pod that is waited for. That of a named Job is known.
    pub(super) fn world(&self) -> Known<'_> {
        match self.target {
            Target::Selected(_) => self.view.awaiting_jobs(),
            Target::Named(..) => self.view.as_known(),
        }
    }

    pub(super) fn job_of(&self, pod: &Pod) -> Option<Arc<JobFacts>> {
        self.world().job(pod, needs_job(pod)?)
    }
}

/// How an object came to be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// That is a failure, for this reason.
    Deleted(&'static str),
    /// It may have been deleted because it had completed.
    Unseen(&'static str),
}

/// Why the pods of a workload cannot be created, and whether that can mend itself.
///
/// A quota may refuse the additional pod of a rollout until an old one has ended, so only the time counts in which nothing
/// shows that there may be room: the rollout makes no progress, no pod of it is terminating, and the refusals stay the same.
pub(super) fn refusal(facts: &Facts<'_>, workload: &Workload, newest: &Newest) -> Option<(Outlook, Cause, String)> {
    let (Check { begun, is_single, now, .. }, grace) = (facts.check, facts.check.limits.grace);
    let events = newest.creator().map(|uid| facts.view.refusals(uid)).unwrap_or_default();
    let latest = events.iter().filter(|event| event.last.is_some()).max_by_key(|event| event.last);
    let progressed = facts.progressed;
    let (message, first, last, is_current) = match (workload.replica_failure(), latest) {
        // The condition keeps the message of the first refusal.
        (Some((message, since)), latest) => {
            (latest.map_or(message, Event::text), since, latest.and_then(|event| event.last), true)
        }
        // The status of the others does not show it. An event from before the wait may be about an earlier rollout. A single
        // check sees no further attempt, so it counts the last one.
        (None, Some(event)) if workload.kind() != Kind::Deployment => {
            let earlier = if is_single { SLOWEST_ATTEMPT } else { Duration::ZERO };
            let oldest = begun.saturating_sub(earlier).unwrap_or(Timestamp::MIN);
            let is_repaired = facts.pods.iter().any(|observed| observed.pod.created > event.last);
            let is_new = event.last > progressed && event.last >= Some(oldest) && !is_repaired;
            (event.text(), event.first, event.last.filter(|_| is_new), false)
        }
        _ => return None,
    };
    if !is_current && last.is_none() {
        return None;
    }
    let (cause, sentence) = classify_failed_create(message);
    let is_refused = match cause {
        Cause::QuotaExceeded | Cause::QuotaRequires | Cause::PolicyRefused | Cause::ServiceAccountMissing => true,
        // A webhook that cannot be called may come back.
        Cause::WebhookRefused => !sentence.contains(" cannot be called: "),
        _ => false,
    };
    if !is_refused || is_full_quota(message) && makes_room(facts, workload) {
        return Some((Outlook::MayMend, cause, sentence));
    }
    // What refused them before the wait may have been repaired just before.
    let begun = Some(begun).filter(|_| !is_single);
    let start = first.max(progressed).max(changed(&events, &sentence)).max(begun).unwrap_or(now).min(now);
    let is_older = first.zip(begun).is_some_and(|(first, begun)| after(first, grace) < begun);
    // Controllers double the pause between two attempts, so the next one may be as far away as the first one.
    let pause = first.and_then(|first| start.duration_since(first).try_into().ok()).unwrap_or_default();
    let patience = facts.check.patience(is_older).max(grace.saturating_add(pause));
    let outlook = match persists(start, last, grace, patience, now) {
        // Only another attempt shows that it is still refused.
        Outlook::Hopeless if !is_current && last < Some(after(start, grace)) => Outlook::MayMend,
        outlook => outlook,
    };
    Some((outlook, cause, sentence))
}

/// Whether pods may leave a full quota without a change from outside: a Job queues until others have ended, and a pod that is
/// terminating counts until it is gone, for example for the 70 s of its preStop hook.
fn makes_room(facts: &Facts<'_>, workload: &Workload) -> bool {
    workload.kind() == Kind::Job || facts.pods.iter().any(|observed| observed.pod.deletion.is_some())
}

/// When the refusals last said something else, for example that less of the quota is used.
fn changed(events: &[Event], sentence: &str) -> Option<Timestamp> {
    events
        .iter()
        .filter(|event| classify_failed_create(event.text()).1 != sentence)
        .filter_map(|event| event.last)
        .max()
}
