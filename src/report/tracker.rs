//! Recognises the same problem from one reconcile to the next.
//!
//! A pod only shows the present state of its containers, and a container in a crash loop runs, exits and waits in turn.
//! For each pod with a problem, the tracker remembers the container, the most specific reason so far and the start time.
//! So an incident keeps its identity and start time while the problem lasts. After a restart of the operator, the tracker
//! resumes from the status in the API.

mod attribution;
mod memory;
mod names;
mod resumed;

use std::collections::{HashMap, HashSet};

use crate::{
    api::{OrchestrStatus, ProblemKind},
    diagnosis::{Explanation, Finding},
    pods::{Pod, Uid},
};

use super::{
    identity::{Identity, IncidentId},
    known_causes::{Collected, IncidentPlace, keep},
    truncate,
};

use self::{
    attribution::{choose, has_completed, keep_cron_job, keep_reason},
    memory::{Known, KnownPod, Memory, NewMemory},
    resumed::Resumed,
};

/// The most incidents that are remembered as ended by the deletion of their pods.
const DELETED: usize = 1024;
/// The most incidents that are remembered as ended because pods have left view: several times as many as a status lists.
const HIDDEN: usize = 1024;

/// The memory of one object's problems: 32 bytes for each pod with a problem, about 70 for each incident, and what
/// these have in common.
#[derive(Debug, Default)]
pub struct Tracker {
    memory: Memory,
    /// Whether it was ever updated, and so has read the status in the API.
    resumed: bool,
    /// The generation of the spec that decided which problems are ignored.
    generation: i64,
    deleted: Vec<IncidentId>,
    /// The keys of the incidents some of whose last pods have left view, so that they may go on; the most recent last.
    hidden: Vec<String>,
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
    /// Whether a pod may have a problem, but is not selected any more, or is excluded by an annotation.
    pub is_hidden: &'a dyn Fn(Uid) -> bool,
}

impl Tracker {
    /// Matches each finding with the problem that it continues, and sets its container, reason and start time
    /// accordingly. Removes the findings that are ignored, and returns their number. Whether a problem is ignored is
    /// decided once, until it ends or the spec changes.
    pub fn update(&mut self, found: &mut Vec<(&Pod, Box<Finding>)>, context: &UpdateContext<'_>) -> usize {
        let resumed = if self.resumed { Resumed::default() } else { Resumed::from(context.previous) };
        let same_spec = self.generation == context.generation;
        let mut next = NewMemory::default();
        let mut ignored = 0;
        let mut causes = Collected::default();
        let mut earlier_causes: HashMap<IncidentPlace, &Explanation> = HashMap::new();
        found.retain_mut(|(pod, finding)| {
            let known = self.memory.pod(pod.uid);
            let continues = match &known {
                Some(known) => {
                    keep_cron_job(pod, finding, known.cron_job);
                    attribute(pod, finding, known)
                }
                None => resumed.attribute(pod, finding),
            };
            let identity = Identity::of(pod, finding);
            let id = identity.id();
            let incident = next.incident(id, &identity);
            // Truncated as in the status, because after a restart it is compared with the status.
            let shown_reason = truncate::name(&finding.reason);
            let is_ignored = match known.filter(|_| continues && same_spec) {
                Some(known) => known.is_ignored,
                // A status lists only problems that are not ignored.
                None if known.is_none() && continues && context.answers_spec() => false,
                None => (context.ignores)(finding.kind, &finding.reason),
            };
            if is_ignored {
                next.add_pod(pod.uid, finding, shown_reason, incident, None, true);
                ignored += 1;
                return false;
            }
            let mut before = None;
            if !next.is_reported(incident) {
                before = self.incident_before(id, &identity, &resumed);
                let known = self.memory.incident(id).and_then(|known| known.explanation);
                let earlier = known.or_else(|| resumed.find(&identity)?.cause.as_ref());
                earlier_causes.extend(earlier.map(|cause| (incident, cause)));
            }
            next.report(incident, finding, shown_reason, before);
            let explanation = causes.add(incident, &finding.explanation, earlier_causes.get(&incident).copied());
            next.add_pod(pod.uid, finding, shown_reason, incident, explanation, false);
            true
        });
        let memory = next.finish(causes, |incident| earlier_causes.get(&incident).copied());
        let ended: Vec<_> = self.memory.pods().filter(|(_, incident)| !memory.is_reported(*incident)).collect();
        self.deleted = self.deleted_since(&ended, &memory, context.remains);
        let hidden = ended.into_iter().filter(|(uid, _)| (context.is_hidden)(*uid)).map(|(_, incident)| incident.key());
        let hidden: Vec<String> = hidden.collect();
        (self.memory, self.resumed, self.generation) = (memory, true, context.generation);
        self.add_hidden(hidden);
        ignored
    }

    /// Remembers incidents by their keys as ended because pods have left view, and forgets those that are reported again.
    pub(crate) fn add_hidden(&mut self, keys: Vec<String>) {
        self.hidden.extend(keys);
        if self.hidden.is_empty() {
            return;
        }
        let reported: HashSet<String> = self.memory.reported().flat_map(IncidentId::keys).collect();
        let mut seen = HashSet::new();
        self.hidden.retain(|key| !reported.contains(key) && seen.insert(key.clone()));
        let excess = self.hidden.len().saturating_sub(HIDDEN);
        self.hidden.drain(..excess);
    }

    /// Whether an incident that is not reported any more may go on, because some of its last pods have left view.
    pub(crate) fn is_hidden(&self, key: &str) -> bool {
        self.hidden.iter().any(|hidden| hidden == key)
    }

    /// Whether it was ever updated: until then, the status may list problems that the tracker lacks.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Whether the pod had a problem at the last update.
    #[must_use]
    pub fn had_problem(&self, uid: Uid) -> bool {
        self.memory.has_pod(uid)
    }

    /// The memory of an incident that the last update found.
    pub(super) fn incident(&self, identity: &Identity<'_>) -> Option<Known<'_>> {
        self.memory.incident(identity.id())
    }

    /// The keys of incidents that ended because all their pods were deleted; at most 1,024, the most recent last.
    pub fn deleted(&self) -> impl Iterator<Item = String> {
        self.deleted.iter().map(|incident| incident.key())
    }

    /// Forgets the incidents that ended by the deletion of their pods, for an object without alerts.
    pub(crate) fn forget_deleted(&mut self) {
        self.deleted = Vec::new();
    }

    fn incident_before<'a>(
        &'a self,
        id: IncidentId,
        identity: &Identity<'_>,
        resumed: &Resumed<'a>,
    ) -> Option<(i64, &'a str)> {
        match self.memory.incident(id) {
            Some(known) => Some((known.since.as_second(), known.reason)),
            None => resumed.find(identity).map(|own| (own.listed.since.0.as_second(), own.listed.reason.as_str())),
        }
    }

    /// The incidents that have ended now because all their pods were deleted, after those known before. `pods` are those of
    /// the incidents that have ended.
    fn deleted_since(
        &mut self,
        pods: &[(Uid, IncidentId)],
        next: &Memory,
        remains: &dyn Fn(Uid) -> bool,
    ) -> Vec<IncidentId> {
        let mut ended: HashMap<IncidentId, bool> = HashMap::new();
        for (uid, incident) in pods {
            *ended.entry(*incident).or_insert(true) &= !remains(*uid);
        }
        let mut deleted = std::mem::take(&mut self.deleted);
        deleted.retain(|id| !next.is_reported(*id) && !ended.contains_key(id));
        let mut fresh: Vec<IncidentId> = ended.into_iter().filter(|(_, deleted)| *deleted).map(|(id, _)| id).collect();
        fresh.sort_unstable();
        deleted.extend(fresh);
        let excess = deleted.len().saturating_sub(DELETED);
        deleted.drain(..excess);
        deleted
    }
}

/// Continues the remembered problem of the pod. Returns false if this is another problem.
fn attribute(pod: &Pod, finding: &mut Finding, known: &KnownPod<'_>) -> bool {
    if !choose(finding, known.kind, known.container) {
        return false;
    }
    let was_in_container = finding.container == known.container;
    if finding.container != known.container && !has_completed(pod, known.container) {
        finding.container = known.container.into();
    }
    finding.since = finding.since.min(known.since);
    if was_in_container {
        keep_reason(finding, known.reason);
        if let Some(earlier) = known.explanation {
            keep(earlier, &mut finding.explanation);
        }
    }
    true
}

impl UpdateContext<'_> {
    /// Whether the status in the API was made for the present spec.
    fn answers_spec(&self) -> bool {
        self.previous.is_some_and(|status| status.observed_generation == Some(self.generation))
    }
}

#[cfg(test)]
mod tests;
