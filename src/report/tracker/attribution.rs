//! Decides which of a pod's problems continues a remembered one.

use arcstr::literal;

use crate::{
    api::ProblemKind,
    diagnosis::{Finding, PodOwner, needs_job, specificity},
    pods::Pod,
};

pub(super) const CRON_JOB: &str = "CronJob";

/// Promotes the finding's cause of this kind, preferably that of the known container. The kinds Crash, Image and Start
/// of one container count as the same, and the first of them stays. Returns false if no cause of this kind is left.
pub(super) fn choose(finding: &mut Finding, kind: ProblemKind, container: &str) -> bool {
    let position = |finding: &Finding, wanted: &dyn Fn(ProblemKind, &str) -> bool| {
        if wanted(finding.kind, &finding.container) {
            return Some(None);
        }
        finding.others.iter().position(|cause| wanted(cause.kind, &cause.container)).map(Some)
    };
    let same = position(finding, &|own, name| own == kind && name == container)
        .or_else(|| position(finding, &|own, name| is_of_container(own) && is_of_container(kind) && name == container))
        .or_else(|| position(finding, &|own, _| own == kind));
    let Some(place) = same else { return false };
    if let Some(index) = place {
        finding.promote(index);
    }
    finding.kind = kind;
    true
}

/// The kinds between which a single problem of a container may alternate.
pub(super) fn is_of_container(kind: ProblemKind) -> bool {
    matches!(kind, ProblemKind::Crash | ProblemKind::Image | ProblemKind::Start)
}

/// Whether an init container has completed, so that it cannot be the cause of the pod's problem.
pub(super) fn has_completed(pod: &Pod, container: &str) -> bool {
    pod.init_statuses.iter().any(|status| {
        status.name == container && status.state.terminated.as_ref().is_some_and(|life| life.exit_code == 0)
    })
}

/// Keeps the known reason unless the new one is more specific. Applies to the kinds whose reason differs from attempt to
/// attempt; others always show the present reason.
pub(super) fn keep_reason(finding: &mut Finding, known: &str) {
    let is_other = is_of_container(finding.kind) && !known.is_empty() && finding.reason != known;
    if is_other && specificity(&finding.reason) <= specificity(known) {
        finding.reason = known.into();
    }
}

/// Keeps the CronJob that a Job was once found to belong to: the owner is part of an incident's identity, and must not
/// change because the Job cannot be read at the moment.
pub(super) fn keep_cron_job(pod: &Pod, finding: &mut Finding, known: Option<&str>) {
    let (Some(known), Some(job)) = (known, needs_job(pod)) else { return };
    let is_run = job.name.strip_prefix(known).is_some_and(|run| run.starts_with('-'));
    if let Some(owner) = &mut finding.owner
        && is_run
        && owner.kind == job.kind
    {
        *owner = PodOwner { kind: literal!(CRON_JOB), name: known.into() };
    }
}
