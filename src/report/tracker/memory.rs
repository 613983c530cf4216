//! What a tracker remembers of the problems at its last update.
//!
//! A thousand objects may select the same hundreds of failing pods, and each has its own memory of them. So what pods and
//! incidents have in common is kept once.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::{
    api::ProblemKind,
    diagnosis::{Explanation, Finding, specificity},
    pods::Uid,
};

use super::{
    super::{
        identity::{Identity, IncidentId},
        known_causes::{Collected, CollectedId, ExplanationId, Explanations, IncidentPlace},
        sorted_map::SortedMap,
        wire::instant,
    },
    attribution::CRON_JOB,
    names::{NameId, Names, NewNames},
};

#[derive(Debug, Default)]
pub(super) struct Memory {
    pods: SortedMap<Uid, StoredPod>,
    problems: Box<[Problem]>,
    incidents: Box<[StoredIncident]>,
    /// The places of `incidents`, in the order of the identities.
    by_id: Box<[u32]>,
    explanations: Explanations,
    names: Names,
}

#[derive(Clone, Copy, Debug)]
struct StoredPod {
    /// In seconds since 1970.
    since: i64,
    /// The place in [`Memory::problems`].
    problem: u32,
}

/// What pods have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem<Id = ExplanationId> {
    incident: IncidentPlace,
    reason: NameId,
    explanation: Option<Id>,
    is_ignored: bool,
}

/// The parts of an incident's identity that are needed again, and what is known if it has pods that are not ignored.
#[derive(Clone, Copy, Debug)]
struct StoredIncident {
    id: IncidentId,
    container: NameId,
    kind: ProblemKind,
    /// The CronJob that owns the Jobs of the pods.
    cron_job: Option<NameId>,
    reported: Option<Reported>,
    explanation: Option<ExplanationId>,
}

#[derive(Clone, Copy, Debug)]
struct Reported {
    since: i64,
    reason: NameId,
    /// Whether the reason comes from an earlier update.
    is_known: bool,
}

/// The memory of a pod.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownPod<'a> {
    pub(super) since: Timestamp,
    pub(super) kind: ProblemKind,
    pub(super) container: &'a str,
    pub(super) reason: &'a str,
    /// The CronJob that owns the pod's Job.
    pub(super) cron_job: Option<&'a str>,
    /// The proven cause.
    pub(super) explanation: Option<&'a Explanation>,
    pub(super) is_ignored: bool,
}

/// The memory of an incident that was reported.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Known<'a> {
    pub(in crate::report) since: Timestamp,
    pub(in crate::report) reason: &'a str,
    /// The proven cause.
    pub(in crate::report) explanation: Option<&'a Explanation>,
}

impl Memory {
    pub(super) fn pod(&self, uid: Uid) -> Option<KnownPod<'_>> {
        let stored = self.pods.get(uid)?;
        let problem = self.problems.get(stored.problem as usize)?;
        let incident = self.incidents.get(problem.incident.0 as usize)?;
        Some(KnownPod {
            since: instant(stored.since),
            kind: incident.kind,
            container: self.names.name(incident.container),
            reason: self.names.name(problem.reason),
            cron_job: incident.cron_job.map(|name| self.names.name(name)),
            explanation: problem.explanation.and_then(|id| self.explanations.get(id)),
            is_ignored: problem.is_ignored,
        })
    }

    pub(super) fn has_pod(&self, uid: Uid) -> bool {
        self.pods.contains(uid)
    }

    /// The pods, each with its incident.
    pub(super) fn pods(&self) -> impl Iterator<Item = (Uid, IncidentId)> {
        self.pods.iter().filter_map(|(uid, stored)| {
            let problem = self.problems.get(stored.problem as usize)?;
            Some((uid, self.incidents.get(problem.incident.0 as usize)?.id))
        })
    }

    pub(super) fn incident(&self, id: IncidentId) -> Option<Known<'_>> {
        let incident = self.stored_incident(id)?;
        let reported = incident.reported?;
        Some(Known {
            since: instant(reported.since),
            reason: self.names.name(reported.reason),
            explanation: incident.explanation.and_then(|id| self.explanations.get(id)),
        })
    }

    /// The incidents that have pods that are not ignored.
    pub(super) fn reported(&self) -> impl Iterator<Item = IncidentId> {
        self.incidents.iter().filter(|incident| incident.reported.is_some()).map(|incident| incident.id)
    }

    /// Whether an incident has pods that are not ignored.
    pub(super) fn is_reported(&self, id: IncidentId) -> bool {
        self.stored_incident(id).is_some_and(|incident| incident.reported.is_some())
    }

    fn stored_incident(&self, id: IncidentId) -> Option<&StoredIncident> {
        let at = |place: &u32| self.incidents.get(*place as usize);
        let found = self.by_id.binary_search_by(|place| at(place).map(|own| own.id).cmp(&Some(id))).ok()?;
        at(self.by_id.get(found)?)
    }
}

/// Collects what to remember during an update.
#[derive(Default)]
pub(super) struct NewMemory {
    pods: Vec<(Uid, StoredPod)>,
    problems: Vec<Problem<CollectedId>>,
    problem_places: HashMap<Problem<CollectedId>, u32>,
    incidents: Vec<StoredIncident>,
    incident_places: HashMap<IncidentId, IncidentPlace>,
    names: NewNames,
}

impl NewMemory {
    /// The place of an incident, which is added if it is new.
    pub(super) fn incident(&mut self, id: IncidentId, identity: &Identity<'_>) -> IncidentPlace {
        let Self { incidents, incident_places, names, .. } = self;
        *incident_places.entry(id).or_insert_with(|| {
            let place = IncidentPlace(place(incidents.len()));
            incidents.push(StoredIncident {
                id,
                container: names.id(identity.container),
                kind: identity.kind,
                cron_job: (identity.owner_kind == CRON_JOB).then(|| names.id(identity.owner_name)),
                reported: None,
                explanation: None,
            });
            place
        })
    }

    pub(super) fn add_pod(
        &mut self,
        uid: Uid,
        finding: &Finding,
        reason: &str,
        incident: IncidentPlace,
        explanation: Option<CollectedId>,
        is_ignored: bool,
    ) {
        let problem = Problem { incident, reason: self.names.id(reason), explanation, is_ignored };
        let problems = &mut self.problems;
        let problem = *self.problem_places.entry(problem).or_insert_with(|| {
            problems.push(problem);
            place(problems.len() - 1)
        });
        self.pods.push((uid, StoredPod { since: finding.since.as_second(), problem }));
    }

    /// Whether the incident has a pod so far that is not ignored.
    pub(super) fn is_reported(&self, incident: IncidentPlace) -> bool {
        self.incidents.get(incident.0 as usize).is_some_and(|own| own.reported.is_some())
    }

    /// Adds a pod's problem to an incident. `known` is the start and the reason of the incident from before, which only
    /// its first pod needs.
    pub(super) fn report(
        &mut self,
        incident: IncidentPlace,
        finding: &Finding,
        reason: &str,
        known: Option<(i64, &str)>,
    ) {
        let (names, since) = (&mut self.names, finding.since.as_second());
        let Some(incident) = self.incidents.get_mut(incident.0 as usize) else { return };
        let own = names.id(reason);
        let reported = incident.reported.get_or_insert_with(|| match known {
            Some((since, name)) => Reported { since, reason: names.id(name), is_known: true },
            None => Reported { since, reason: own, is_known: false },
        });
        reported.since = reported.since.min(since);
        let present = names.name(reported.reason);
        let more = specificity(reason).cmp(&specificity(present));
        // The result must not depend on the order of the pods.
        let decides = !reported.is_known && *reason < *present;
        if more.is_gt() || more.is_eq() && decides {
            reported.reason = own;
            reported.is_known = false;
        }
    }

    pub(super) fn finish<'a>(
        self,
        causes: Collected,
        earlier: impl Fn(IncidentPlace) -> Option<&'a Explanation>,
    ) -> Memory {
        let Self { pods, problems, mut incidents, names, .. } = self;
        let causes = causes.finish(earlier);
        for &(incident, explanation) in &causes.of_incidents {
            if let Some(incident) = incidents.get_mut(incident.0 as usize) {
                incident.explanation = Some(explanation);
            }
        }
        let placed = |Problem { incident, reason, explanation, is_ignored }: Problem<CollectedId>| Problem {
            incident,
            reason,
            explanation: explanation.and_then(|id| causes.place(id)),
            is_ignored,
        };
        let mut by_id: Box<[u32]> = (0..place(incidents.len())).collect();
        by_id.sort_unstable_by_key(|place| incidents.get(*place as usize).map(|own| own.id));
        Memory {
            pods: pods.into_iter().collect(),
            problems: problems.into_iter().map(placed).collect(),
            incidents: incidents.into(),
            by_id,
            explanations: causes.explanations,
            names: names.finish(),
        }
    }
}

/// There are never as many pods.
fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
