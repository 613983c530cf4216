//! Decides which of a pod's problems continues a remembered one: of the last update, or after a restart of the operator one
//! in the status in the API.

use std::collections::HashMap;

use arcstr::literal;
use jiff::Timestamp;

use crate::{
    api::{Cause, ContainerIssue, Incident, OrchestrStatus, ProblemKind},
    diagnosis::{
        Basis, Explanation, Finding, PodOwner, is_by_kubelet, is_known_reason, is_proven, needs_job, specificity,
    },
    pods::Pod,
};

use super::{
    super::{identity::Identity, truncate, wire::seconds},
    causes::keep,
};

/// The exit code of a container that was killed. One that ended by SIGTERM is killed likewise, see
/// [`continues`](crate::diagnosis::continues).
const SIGKILL: i32 = 137;

/// The problems in a status.
#[derive(Default)]
pub(super) struct Resumed<'a> {
    pods: HashMap<(&'a str, &'a str), ResumedPod<'a>>,
    /// By their keys. Incidents with the same key may have different identities.
    incidents: HashMap<&'a str, Vec<ResumedIncident<'a>>>,
    /// The kind and the container of incidents, by namespace and name of their example pods.
    examples: HashMap<(&'a str, &'a str), (ProblemKind, &'a str)>,
    /// The CronJobs that own the Jobs of pods, by namespace and name of the pods.
    cron_jobs: HashMap<(&'a str, &'a str), &'a str>,
}

pub(super) struct ResumedIncident<'a> {
    pub(super) listed: &'a Incident,
    /// The proven cause.
    pub(super) cause: Option<Explanation>,
}

struct ResumedPod<'a> {
    kind: ProblemKind,
    reason: &'a str,
    since: Timestamp,
    cause: Cause,
    containers: &'a [ContainerIssue],
}

impl<'a> Resumed<'a> {
    pub(super) fn from(status: Option<&'a OrchestrStatus>) -> Self {
        let Some(status) = status else { return Self::default() };
        let pods = status.problematic_pods.iter().map(|pod| {
            let resumed = ResumedPod {
                kind: pod.kind,
                reason: &pod.reason,
                since: seconds(pod.since.0),
                cause: pod.cause,
                containers: &pod.container_issues,
            };
            ((pod.namespace.as_str(), pod.name.as_str()), resumed)
        });
        let examples = status.incidents.iter().flat_map(|incident| {
            let attributed = (incident.kind, incident.container.as_str());
            incident.example_pods.iter().map(move |pod| ((incident.namespace.as_str(), pod.as_str()), attributed))
        });
        let listed = status.problematic_pods.iter().filter_map(|pod| {
            let owner = pod.owner.as_ref().filter(|owner| owner.kind == CRON_JOB)?;
            Some(((pod.namespace.as_str(), pod.name.as_str()), owner.name.as_str()))
        });
        let grouped = status.incidents.iter().filter(|incident| incident.owner.kind == CRON_JOB).flat_map(|incident| {
            let owner = incident.owner.name.as_str();
            incident.example_pods.iter().map(move |pod| ((incident.namespace.as_str(), pod.as_str()), owner))
        });
        let pods: HashMap<_, _> = pods.collect();
        let mut incidents: HashMap<&str, Vec<ResumedIncident<'_>>> = HashMap::new();
        for listed in &status.incidents {
            let cause = is_proven(listed.cause).then(|| {
                let mut examples = listed.example_pods.iter();
                let example = examples.find_map(|pod| pods.get(&(listed.namespace.as_str(), pod.as_str())));
                let containers = example.map_or(&[] as &[_], |pod| pod.containers);
                let basis = basis_of(listed.cause, containers, &listed.container);
                let (cause, message) = (listed.cause, listed.message.as_str().into());
                Explanation { cause, message, basis, ..Explanation::default() }
            });
            incidents.entry(&listed.key).or_default().push(ResumedIncident { listed, cause });
        }
        Self { pods, incidents, examples: examples.collect(), cron_jobs: listed.chain(grouped).collect() }
    }

    /// The incident with this identity.
    pub(super) fn find(&self, identity: &Identity<'_>) -> Option<&ResumedIncident<'a>> {
        if self.incidents.is_empty() {
            return None;
        }
        let keys = identity.id().keys();
        let with_key = keys.iter().filter_map(|key| self.incidents.get(key.as_str())).flatten();
        with_key.into_iter().find(|own| identity.is_of(own.listed))
    }

    /// Continues the problem that the status lists for the pod, or an incident that the pod may belong to. Returns
    /// whether the status lists either.
    pub(super) fn attribute(&self, pod: &Pod, finding: &mut Finding) -> bool {
        let name = (truncate::name(&pod.namespace), truncate::name(&pod.name));
        keep_cron_job(pod, finding, self.cron_jobs.get(&name).copied());
        let mut is_same_container = true;
        if let Some((kind, container)) = self.examples.get(&name)
            && choose(finding, *kind, container)
        {
            is_same_container = truncate::name(&finding.container) == *container;
            if !is_same_container && !has_completed(pod, container) {
                finding.container = (*container).into();
            }
        } else if !finding.others.is_empty() {
            let is_open = |kind, container: &str| {
                self.find(&Identity { kind, container, ..Identity::of(pod, finding) }).is_some()
            };
            if !is_open(finding.kind, truncate::name(&finding.container)) {
                let open =
                    finding.others.iter().position(|cause| is_open(cause.kind, truncate::name(&cause.container)));
                if let Some(index) = open {
                    finding.promote(index);
                }
            }
        }
        let is_listed = self.pods.get(&name).filter(|known| known.kind == finding.kind);
        if let Some(known) = is_listed {
            // A status that another writer changed must not set the start of a problem to a time before the pod's
            // creation.
            let since = known.since.max(pod.created.unwrap_or(Timestamp::UNIX_EPOCH));
            finding.since = finding.since.min(since);
            if is_same_container && is_known_reason(known.reason) {
                keep_reason(finding, known.reason);
            }
            if is_same_container && is_proven(known.cause) {
                let incident = self.find(&Identity::of(pod, finding)).and_then(|own| own.cause.as_ref());
                let basis = basis_of(known.cause, known.containers, truncate::name(&finding.container));
                let message = match incident.filter(|incident| incident.cause == known.cause) {
                    Some(incident) => incident.message.clone(),
                    None => finding.message.clone(),
                };
                let earlier = Explanation { cause: known.cause, message, basis, ..Explanation::default() };
                keep(&earlier, &mut finding.explanation);
            }
        } else if is_same_container
            && self.examples.contains_key(&name)
            && let Some(earlier) = self.find(&Identity::of(pod, finding)).and_then(|own| own.cause.as_ref())
        {
            // The status had no room for the pod.
            keep(earlier, &mut finding.explanation);
        }
        is_listed.is_some() || self.find(&Identity::of(pod, finding)).is_some()
    }
}

/// The basis of an explanation in a status. If the status has no room for the pod, it is not known how the container ended, but
/// most containers that the kubelet kills end by SIGTERM or SIGKILL.
fn basis_of(cause: Cause, containers: &[ContainerIssue], container: &str) -> Basis {
    let own = containers.iter().find(|own| own.name == container);
    match own.and_then(|own| own.last_termination.as_ref()) {
        Some(last) => Basis::Exit(last.exit_code),
        None if is_by_kubelet(cause) => Basis::Exit(SIGKILL),
        None => Basis::State,
    }
}

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
fn is_of_container(kind: ProblemKind) -> bool {
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
