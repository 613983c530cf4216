//! Recognises the same problem from one reconcile to the next.
//!
//! A pod only shows the present state of its containers, and a container in a crash loop runs, exits and waits in turn.
//! For each pod with a problem, the tracker remembers the container, the most specific reason so far and the start time.
//! So an incident keeps its identity and start time while the problem lasts. After a restart of the operator, the tracker
//! resumes from the status in the API.

use std::{collections::HashMap, num::NonZeroU32};

use jiff::Timestamp;

use crate::{
    api::{Cause, ContainerIssue, Incident, OrchestrStatus, Owner, ProblemKind},
    diagnosis::{Basis, Explanation, Finding, is_known_reason, is_proven, needs_job, specificity},
    pods::{Pod, Uid},
};

use super::{
    identity::{Identity, IncidentId},
    known_causes::{Collected, KnownCauses, keep},
    sorted_map::SortedMap,
    truncate,
    wire::seconds,
};

const CRON_JOB: &str = "CronJob";

/// The most incidents that are remembered as ended by the deletion of their pods.
const DELETED: usize = 1024;

/// The memory of one object's problems: a few dozen bytes for each pod with a problem.
#[derive(Debug, Default)]
pub struct Tracker {
    pods: SortedMap<Uid, KnownPod>,
    incidents: HashMap<IncidentId, KnownIncident>,
    causes: KnownCauses,
    names: Names,
    /// Whether it was ever updated, and so has read the status in the API.
    resumed: bool,
    /// The generation of the spec that decided which problems are ignored.
    generation: i64,
    deleted: Vec<IncidentId>,
}

/// The inputs of an update beside the findings.
pub struct UpdateContext<'a> {
    /// The status in the API.
    pub previous: Option<&'a OrchestrStatus>,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether the spec ignores problems of this kind and reason.
    pub ignores: &'a dyn Fn(ProblemKind, &str) -> bool,
    /// Whether a pod exists and is not being deleted.
    pub remains: &'a dyn Fn(Uid) -> bool,
}

#[derive(Clone, Copy, Debug)]
struct KnownPod {
    since: i64,
    incident: IncidentId,
    container: NameId,
    reason: NameId,
    kind: ProblemKind,
    /// The CronJob that owns the pod's Job.
    cron_job: Option<NameId>,
    ignored: bool,
}

#[derive(Clone, Copy, Debug)]
struct KnownIncident {
    since: i64,
    reason: NameId,
    /// Whether the reason comes from an earlier update.
    is_known: bool,
}

/// The memory of an incident.
pub(super) struct Known<'a> {
    pub(super) since: Timestamp,
    pub(super) reason: &'a str,
    /// The proven cause.
    pub(super) explanation: Option<&'a Explanation>,
}

/// The problems in a status.
#[derive(Default)]
struct Resumed<'a> {
    pods: HashMap<(&'a str, &'a str), ResumedPod<'a>>,
    /// By their keys. Incidents with the same key may have different identities.
    incidents: HashMap<&'a str, Vec<ResumedIncident<'a>>>,
    /// The kind and the container of incidents, by namespace and name of their example pods.
    examples: HashMap<(&'a str, &'a str), (ProblemKind, &'a str)>,
    /// The CronJobs that own the Jobs of pods, by namespace and name of the pods.
    cron_jobs: HashMap<(&'a str, &'a str), &'a str>,
}

struct ResumedIncident<'a> {
    listed: &'a Incident,
    /// The proven cause.
    cause: Option<Explanation>,
}

struct ResumedPod<'a> {
    kind: ProblemKind,
    reason: &'a str,
    since: i64,
    cause: Cause,
    containers: &'a [ContainerIssue],
}

impl Tracker {
    /// Matches each finding with the problem that it continues, and sets its container, reason and start time
    /// accordingly. Removes the findings that are ignored, and returns their number. Whether a problem is ignored is
    /// decided once, until it ends or the spec changes.
    pub fn update(&mut self, found: &mut Vec<(&Pod, Box<Finding>)>, context: &UpdateContext<'_>) -> usize {
        let resumed = if self.resumed { Resumed::default() } else { Resumed::from(context.previous) };
        let same_spec = self.generation == context.generation;
        let mut next = Self { resumed: true, generation: context.generation, ..Self::default() };
        let mut pods = Vec::with_capacity(found.len());
        let mut ignored = 0;
        let mut causes = Collected::default();
        let mut earlier_causes: HashMap<IncidentId, &Explanation> = HashMap::new();
        found.retain_mut(|(pod, finding)| {
            let known = self.pods.get(pod.uid).copied();
            let continues = match known {
                Some(known) => {
                    let cron_job = known.cron_job.map(|name| self.names.name(name));
                    keep_cron_job(pod, finding, cron_job);
                    self.attribute(pod, finding, &known)
                }
                None => resumed.attribute(pod, finding),
            };
            let identity = Identity::of(pod, finding);
            let incident = identity.id();
            // Truncated as in the status, because after a restart it is compared with the status.
            let shown_reason = truncate::name(&finding.reason);
            let (reason, container) = (next.names.id(shown_reason), next.names.id(truncate::name(&finding.container)));
            let since = finding.since.as_second();
            let is_ignored = match known.filter(|_| continues && same_spec) {
                Some(known) => known.ignored,
                // A status lists only problems that are not ignored.
                None if known.is_none() && continues && context.answers_spec() => false,
                None => (context.ignores)(finding.kind, &finding.reason),
            };
            let cron_job = finding.owner.as_ref().filter(|owner| owner.kind == CRON_JOB);
            let cron_job = cron_job.map(|owner| next.names.id(&owner.name));
            let kind = finding.kind;
            let pod_now = KnownPod { since, incident, container, reason, kind, cron_job, ignored: is_ignored };
            pods.push((pod.uid, pod_now));
            if is_ignored {
                ignored += 1;
                return false;
            }
            let earlier_cause = self.causes.of_incident(incident).or_else(|| resumed.find(&identity)?.cause.as_ref());
            earlier_causes.extend(earlier_cause.map(|cause| (incident, cause)));
            causes.add(pod.uid, incident, &finding.explanation, earlier_cause);
            let known = self.incident_before(incident, &identity, &resumed);
            let group = next.incidents.entry(incident).or_insert_with(|| match known {
                Some((since, name)) => KnownIncident { since, reason: next.names.id(name), is_known: true },
                None => KnownIncident { since, reason, is_known: false },
            });
            group.since = group.since.min(since);
            let present = next.names.name(group.reason);
            let more = specificity(shown_reason).cmp(&specificity(present));
            // The result must not depend on the order of the pods.
            let decides = !group.is_known && *shown_reason < *present;
            if more.is_gt() || more.is_eq() && decides {
                group.reason = reason;
                group.is_known = false;
            }
            true
        });
        next.pods = pods.into_iter().collect();
        next.incidents.shrink_to_fit();
        next.causes = causes.finish(|incident| earlier_causes.get(&incident).copied());
        next.deleted = self.deleted_since(&next, context.remains);
        *self = next;
        ignored
    }

    /// Whether it was ever updated: until then, the status may list problems that the tracker lacks.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Whether the pod had a problem at the last update.
    #[must_use]
    pub fn had_problem(&self, uid: Uid) -> bool {
        self.pods.contains(uid)
    }

    /// The memory of an incident that the last update found.
    pub(super) fn incident(&self, identity: &Identity<'_>) -> Option<Known<'_>> {
        let id = identity.id();
        let known = self.incidents.get(&id)?;
        let explanation = self.causes.of_incident(id);
        Some(Known { since: instant(known.since), reason: self.names.name(known.reason), explanation })
    }

    /// The keys of incidents that ended because all their pods were deleted; at most 1,024, the most recent last.
    pub fn deleted(&self) -> impl Iterator<Item = String> {
        self.deleted.iter().map(|incident| incident.key())
    }

    /// Continues the remembered problem of the pod. Returns false if this is another problem.
    fn attribute(&self, pod: &Pod, finding: &mut Finding, known: &KnownPod) -> bool {
        let container = self.names.name(known.container);
        if !choose(finding, known.kind, container) {
            return false;
        }
        let was_in_container = finding.container == container;
        if !has_completed(pod, container) {
            container.clone_into(&mut finding.container);
        }
        finding.since = finding.since.min(instant(known.since));
        if was_in_container {
            keep_reason(finding, self.names.name(known.reason));
            if let Some(earlier) = self.causes.of_pod(pod.uid) {
                keep(earlier, &mut finding.explanation);
            }
        }
        true
    }

    fn incident_before<'a>(
        &'a self,
        id: IncidentId,
        identity: &Identity<'_>,
        resumed: &Resumed<'a>,
    ) -> Option<(i64, &'a str)> {
        match self.incidents.get(&id) {
            Some(known) => Some((known.since, self.names.name(known.reason))),
            None => resumed.find(identity).map(|own| (own.listed.since.0.as_second(), own.listed.reason.as_str())),
        }
    }

    /// The incidents that have ended now because all their pods were deleted, after those known before.
    fn deleted_since(&mut self, next: &Self, remains: &dyn Fn(Uid) -> bool) -> Vec<IncidentId> {
        let mut ended: HashMap<IncidentId, bool> = HashMap::new();
        for (uid, pod) in self.pods.iter() {
            if !next.incidents.contains_key(&pod.incident) {
                *ended.entry(pod.incident).or_insert(true) &= !remains(uid);
            }
        }
        let mut deleted = std::mem::take(&mut self.deleted);
        deleted.retain(|id| !next.incidents.contains_key(id) && !ended.contains_key(id));
        let mut fresh: Vec<IncidentId> = ended.into_iter().filter(|(_, deleted)| *deleted).map(|(id, _)| id).collect();
        fresh.sort_unstable();
        deleted.extend(fresh);
        let excess = deleted.len().saturating_sub(DELETED);
        deleted.drain(..excess);
        deleted
    }
}

/// Promotes the finding's cause of this kind, preferably that of the known container. The kinds Crash, Image and Start
/// of one container count as the same, and the first of them stays. Returns false if no cause of this kind is left.
fn choose(finding: &mut Finding, kind: ProblemKind, container: &str) -> bool {
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
fn has_completed(pod: &Pod, container: &str) -> bool {
    pod.init_statuses.iter().any(|status| {
        status.name == container && status.state.terminated.as_ref().is_some_and(|life| life.exit_code == 0)
    })
}

/// Keeps the known reason unless the new one is more specific. Applies to the kinds whose reason differs from attempt to
/// attempt; others always show the present reason.
fn keep_reason(finding: &mut Finding, known: &str) {
    if is_of_container(finding.kind) && !known.is_empty() && specificity(&finding.reason) <= specificity(known) {
        known.clone_into(&mut finding.reason);
    }
}

/// Keeps the CronJob that a Job was once found to belong to: the owner is part of an incident's identity, and must not
/// change because the Job cannot be read at the moment.
fn keep_cron_job(pod: &Pod, finding: &mut Finding, known: Option<&str>) {
    let (Some(known), Some(job)) = (known, needs_job(pod)) else { return };
    let is_run = job.name.strip_prefix(known).is_some_and(|run| run.starts_with('-'));
    if let Some(owner) = &mut finding.owner
        && is_run
        && owner.kind == job.kind
    {
        *owner = Owner { kind: CRON_JOB.to_owned(), name: known.to_owned() };
    }
}

impl UpdateContext<'_> {
    /// Whether the status in the API was made for the present spec.
    fn answers_spec(&self) -> bool {
        self.previous.is_some_and(|status| status.observed_generation == Some(self.generation))
    }
}

impl<'a> Resumed<'a> {
    fn from(status: Option<&'a OrchestrStatus>) -> Self {
        let Some(status) = status else { return Self::default() };
        let pods = status.problematic_pods.iter().map(|pod| {
            let resumed = ResumedPod {
                kind: pod.kind,
                reason: &pod.reason,
                since: pod.since.0.as_second(),
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
                let basis = example.map_or(Basis::State, |pod| basis_of(pod.containers, &listed.container));
                let (cause, message) = (listed.cause, listed.message.clone());
                Explanation { cause, message, basis, ..Explanation::default() }
            });
            incidents.entry(&listed.key).or_default().push(ResumedIncident { listed, cause });
        }
        Self { pods, incidents, examples: examples.collect(), cron_jobs: listed.chain(grouped).collect() }
    }

    /// The incident with this identity.
    fn find(&self, identity: &Identity<'_>) -> Option<&ResumedIncident<'a>> {
        if self.incidents.is_empty() {
            return None;
        }
        let keys = identity.id().keys();
        let with_key = keys.iter().filter_map(|key| self.incidents.get(key.as_str())).flatten();
        with_key.into_iter().find(|own| identity.is_of(own.listed))
    }

    /// Continues the problem that the status lists for the pod, or an incident that the pod may belong to. Returns
    /// whether the status lists either.
    fn attribute(&self, pod: &Pod, finding: &mut Finding) -> bool {
        let name = (truncate::name(&pod.namespace), truncate::name(&pod.name));
        keep_cron_job(pod, finding, self.cron_jobs.get(&name).copied());
        let mut is_same_container = true;
        if let Some((kind, container)) = self.examples.get(&name)
            && choose(finding, *kind, container)
        {
            is_same_container = truncate::name(&finding.container) == *container;
            if !is_same_container && !has_completed(pod, container) {
                (*container).clone_into(&mut finding.container);
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
            let since = instant(known.since).max(pod.created.unwrap_or(Timestamp::UNIX_EPOCH));
            finding.since = finding.since.min(since);
            if is_same_container && is_known_reason(known.reason) {
                keep_reason(finding, known.reason);
            }
            if is_same_container && is_proven(known.cause) {
                let incident = self.find(&Identity::of(pod, finding)).and_then(|own| own.cause.as_ref());
                let basis = basis_of(known.containers, truncate::name(&finding.container));
                let message = match incident.filter(|incident| incident.cause == known.cause) {
                    Some(incident) => incident.message.clone(),
                    None => finding.message.clone(),
                };
                let earlier = Explanation { cause: known.cause, message, basis, ..Explanation::default() };
                keep(&earlier, &mut finding.explanation);
            }
        }
        is_listed.is_some() || self.find(&Identity::of(pod, finding)).is_some()
    }
}

/// The basis of an explanation in a status.
fn basis_of(containers: &[ContainerIssue], container: &str) -> Basis {
    let own = containers.iter().find(|own| own.name == container);
    let last = own.and_then(|own| own.last_termination.as_ref());
    last.map_or(Basis::State, |last| Basis::Exit(last.exit_code))
}

/// The number of a name in [`Names`], from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameId(NonZeroU32);

/// Interned names, since most of them occur many times.
#[derive(Debug, Default)]
struct Names {
    ids: HashMap<Box<str>, NameId>,
    names: Vec<Box<str>>,
}

impl Names {
    fn id(&mut self, name: &str) -> NameId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        self.names.push(name.into());
        let id = NameId(u32::try_from(self.names.len()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MAX));
        self.ids.insert(name.into(), id);
        id
    }

    fn name(&self, NameId(index): NameId) -> &str {
        self.names.get(index.get() as usize - 1).map_or("", |name| name)
    }
}

fn instant(second: i64) -> Timestamp {
    Timestamp::from_second(second).map_or(Timestamp::UNIX_EPOCH, seconds)
}
