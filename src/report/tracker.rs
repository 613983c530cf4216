//! Recognises the same problem from one reconcile to the next.
//!
//! A pod only shows the present state of its containers, and a container in a crash loop runs, exits and waits in turn.
//! For each pod with a problem, the tracker remembers the container, the most specific reason so far and the start time.
//! So an incident keeps its identity and start time while the problem lasts. After a restart of the operator, the tracker
//! resumes from the status in the API.

mod attribution;
mod causes;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::{
    api::{OrchestrStatus, ProblemKind},
    bounded::Interner,
    diagnosis::{Explanation, Finding, specificity},
    pods::{Pod, Uid},
};

use super::{
    identity::{Identity, IncidentId},
    truncate,
    wire::seconds,
};

use self::{
    attribution::{CRON_JOB, Resumed, choose, has_completed, keep_cron_job, keep_reason},
    causes::{Causes, keep},
};

/// The most incidents that are remembered as ended by the deletion of their pods.
const DELETED: usize = 1024;
/// The most incidents that are remembered as ended because pods have left view: several times as many as a status lists.
const HIDDEN: usize = 1024;

/// The memory of one object's problems.
#[derive(Debug, Default)]
pub struct Tracker {
    pods: BTreeMap<Uid, KnownPod>,
    /// Those with pods that are not ignored.
    incidents: BTreeMap<IncidentId, KnownIncident>,
    /// Whether it was ever updated, and so has read the status in the API.
    resumed: bool,
    /// The generation of the spec that decided which problems are ignored.
    generation: i64,
    deleted: Vec<IncidentId>,
    /// The keys of incidents that may continue, because some of their last pods can no longer be seen; the most recent last.
    hidden: Vec<String>,
}

#[derive(Debug)]
struct KnownPod {
    since: Timestamp,
    problem: Arc<KnownProblem>,
}

/// What pods have in common.
#[derive(Debug, PartialEq, Eq, Hash)]
struct KnownProblem {
    incident: IncidentId,
    kind: ProblemKind,
    container: ArcStr,
    reason: ArcStr,
    /// The CronJob that owns the Job of the pod.
    cron_job: Option<ArcStr>,
    /// The proven cause.
    explanation: Option<Arc<Explanation>>,
    is_ignored: bool,
}

#[derive(Clone, Debug)]
pub(super) struct KnownIncident {
    pub(super) since: Timestamp,
    /// The most specific reason so far.
    pub(super) reason: ArcStr,
    /// Whether the reason comes from an earlier update.
    is_known: bool,
    /// The proven cause.
    pub(super) explanation: Option<Arc<Explanation>>,
}

/// What the memories of all objects have in common: a thousand objects may select the same hundreds of failing pods.
#[derive(Debug)]
pub struct SharedProblems {
    problems: Interner<Arc<KnownProblem>>,
    explanations: Interner<Arc<Explanation>>,
}

impl Default for SharedProblems {
    fn default() -> Self {
        // What no object remembers any more is removed.
        Self { problems: Interner::new(usize::MAX), explanations: Interner::new(usize::MAX) }
    }
}

impl SharedProblems {
    /// Removes what no object remembers any more.
    pub(crate) fn sweep(&mut self) {
        self.problems.sweep();
        self.explanations.sweep();
    }
}

/// The inputs of an update beside the findings. By default, nothing is ignored, and all pods exist and are selected.
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
    pub fn update(
        &mut self,
        found: &mut Vec<(&Pod, Box<Finding>)>,
        context: &UpdateContext<'_>,
        shared: &mut SharedProblems,
    ) -> usize {
        let resumed = if self.resumed { Resumed::default() } else { Resumed::from(context.previous) };
        let same_spec = self.generation == context.generation;
        let mut pods = Vec::with_capacity(found.len());
        let mut incidents = BTreeMap::new();
        let mut causes = Causes::default();
        found.retain_mut(|(pod, finding)| {
            let known = self.pods.get(&pod.uid);
            let continues = match known {
                Some(known) => known.attribute(pod, finding),
                None => resumed.attribute(pod, finding),
            };
            let is_ignored = match known.filter(|_| continues && same_spec) {
                Some(known) => known.problem.is_ignored,
                // A status lists only problems that are not ignored.
                None if known.is_none() && continues && context.answers_spec() => false,
                None => (context.ignores)(finding.kind, &finding.reason),
            };
            let identity = Identity::of(pod, finding);
            let problem = KnownProblem::new(&identity, finding, is_ignored);
            if !is_ignored {
                let incident = incidents.entry(problem.incident).or_insert_with(|| {
                    self.incident_before(&identity, &resumed).unwrap_or_else(|| problem.begin(finding))
                });
                incident.add(&problem, finding);
                causes.add(problem.incident, &finding.explanation, || {
                    let known = self.incidents.get(&problem.incident).and_then(|own| own.explanation.as_deref());
                    known.or_else(|| resumed.find(&identity)?.cause.as_ref())
                });
            }
            pods.push((pod.uid, seconds(finding.since), problem));
            !is_ignored
        });
        causes.share(&mut shared.explanations);
        let mut findings = found.iter().map(|(_, finding)| finding);
        for (.., problem) in pods.iter_mut().filter(|(.., problem)| !problem.is_ignored) {
            problem.explanation =
                findings.next().and_then(|finding| causes.of_pod(problem.incident, &finding.explanation));
        }
        for (id, incident) in &mut incidents {
            incident.explanation = causes.of_incident(*id);
        }
        drop(causes);
        let ignored = pods.len() - found.len();
        self.remember(pods, incidents, context, &mut shared.problems);
        (self.resumed, self.generation) = (true, context.generation);
        ignored
    }

    fn remember(
        &mut self,
        pods: Vec<(Uid, Timestamp, KnownProblem)>,
        incidents: BTreeMap<IncidentId, KnownIncident>,
        context: &UpdateContext<'_>,
        shared: &mut Interner<Arc<KnownProblem>>,
    ) {
        let before = self.pods.iter().map(|(uid, known)| (*uid, known.problem.incident));
        let ended: Vec<_> = before.filter(|(_, incident)| !incidents.contains_key(incident)).collect();
        self.deleted = self.deleted_since(&ended, &incidents, context.remains);
        let hidden = ended.into_iter().filter(|(uid, _)| (context.is_hidden)(*uid)).map(|(_, incident)| incident.key());
        let hidden: Vec<String> = hidden.collect();
        let pods = pods.into_iter().map(|(uid, since, problem)| {
            let mut problem = Arc::new(problem);
            shared.intern(&mut problem);
            (uid, KnownPod { since, problem })
        });
        // A tree that is collected takes less memory than one into which entries were inserted.
        (self.pods, self.incidents) = (pods.collect(), incidents.into_iter().collect());
        self.add_hidden(hidden);
    }

    /// Remembers incidents by their keys as ended because their pods can no longer be seen, and forgets those that are reported
    /// again.
    pub(crate) fn add_hidden(&mut self, keys: Vec<String>) {
        self.hidden.extend(keys);
        if self.hidden.is_empty() {
            return;
        }
        let reported: HashSet<String> = self.incidents.keys().flat_map(|id| id.keys()).collect();
        let mut seen = HashSet::new();
        self.hidden.retain(|key| !reported.contains(key) && seen.insert(key.clone()));
        let excess = self.hidden.len().saturating_sub(HIDDEN);
        self.hidden.drain(..excess);
    }

    /// Whether an incident that is not reported any more may continue, because some of its last pods can no longer be seen.
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
        self.pods.contains_key(&uid)
    }

    /// The memory of an incident that the last update found.
    pub(super) fn incident(&self, identity: &Identity<'_>) -> Option<&KnownIncident> {
        self.incidents.get(&identity.id())
    }

    /// The keys of incidents that ended because all their pods were deleted; at most 1,024, the most recent last.
    pub fn deleted(&self) -> impl Iterator<Item = String> {
        self.deleted.iter().map(|incident| incident.key())
    }

    /// Forgets the incidents that ended by the deletion of their pods, for an object without alerts.
    pub(crate) fn forget_deleted(&mut self) {
        self.deleted = Vec::new();
    }

    /// What is known of an incident from before the update, without its cause.
    fn incident_before(&self, identity: &Identity<'_>, resumed: &Resumed<'_>) -> Option<KnownIncident> {
        let (since, reason) = match self.incident(identity) {
            Some(known) => (known.since, known.reason.clone()),
            None => {
                let listed = resumed.find(identity)?.listed;
                (seconds(listed.since.0), listed.reason.as_str().into())
            }
        };
        Some(KnownIncident { since, reason, is_known: true, explanation: None })
    }

    /// The incidents that have ended now because all their pods were deleted, after those known before. `pods` are those of
    /// the incidents that have ended.
    fn deleted_since(
        &mut self,
        pods: &[(Uid, IncidentId)],
        next: &BTreeMap<IncidentId, KnownIncident>,
        remains: &dyn Fn(Uid) -> bool,
    ) -> Vec<IncidentId> {
        let mut ended: HashMap<IncidentId, bool> = HashMap::new();
        for (uid, incident) in pods {
            *ended.entry(*incident).or_insert(true) &= !remains(*uid);
        }
        let mut deleted = std::mem::take(&mut self.deleted);
        deleted.retain(|id| !next.contains_key(id) && !ended.contains_key(id));
        let mut fresh: Vec<IncidentId> = ended.into_iter().filter(|(_, deleted)| *deleted).map(|(id, _)| id).collect();
        fresh.sort_unstable();
        deleted.extend(fresh);
        let excess = deleted.len().saturating_sub(DELETED);
        deleted.drain(..excess);
        deleted
    }
}

impl KnownPod {
    /// Continues the problem. Returns false if the pod has another problem now.
    fn attribute(&self, pod: &Pod, finding: &mut Finding) -> bool {
        let Self { since, problem } = self;
        let KnownProblem { kind, container, reason, cron_job, explanation, .. } = &**problem;
        keep_cron_job(pod, finding, cron_job.as_deref());
        if !choose(finding, *kind, container) {
            return false;
        }
        let was_in_container = finding.container == *container;
        if !was_in_container && !has_completed(pod, container) {
            finding.container = container.clone();
        }
        finding.since = finding.since.min(*since);
        if was_in_container {
            keep_reason(finding, reason);
            if let Some(earlier) = explanation {
                keep(earlier, &mut finding.explanation);
            }
        }
        true
    }
}

impl KnownProblem {
    /// Names are cut as in the status, because after a restart they are compared with those of the status.
    fn new(identity: &Identity<'_>, finding: &Finding, is_ignored: bool) -> Self {
        let owner = finding.owner.as_ref().filter(|owner| owner.kind == CRON_JOB);
        Self {
            incident: identity.id(),
            kind: finding.kind,
            container: truncate::shared_name(&finding.container),
            reason: truncate::shared_name(&finding.reason),
            cron_job: owner.map(|owner| owner.name.clone()),
            explanation: None,
            is_ignored,
        }
    }

    /// An incident that begins with this problem of a pod.
    fn begin(&self, finding: &Finding) -> KnownIncident {
        KnownIncident { since: seconds(finding.since), reason: self.reason.clone(), is_known: false, explanation: None }
    }
}

impl KnownIncident {
    /// Adds the problem of a pod. The result does not depend on the order of the pods.
    fn add(&mut self, problem: &KnownProblem, finding: &Finding) {
        self.since = self.since.min(seconds(finding.since));
        let more = specificity(&problem.reason).cmp(&specificity(&self.reason));
        if more.is_gt() || more.is_eq() && !self.is_known && problem.reason < self.reason {
            self.reason = problem.reason.clone();
            self.is_known = false;
        }
    }
}

impl Default for UpdateContext<'_> {
    fn default() -> Self {
        let (ignores, remains, is_hidden) = (&|_, _: &str| false, &|_| true, &|_| false);
        Self { previous: None, generation: 1, ignores, remains, is_hidden }
    }
}

impl UpdateContext<'_> {
    /// Whether the status in the API was made for the present spec.
    fn answers_spec(&self) -> bool {
        self.previous.is_some_and(|status| status.observed_generation == Some(self.generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::Cause, diagnosis::Basis, report::tests::crashing};

    fn update(tracker: &mut Tracker, pods: &[(Pod, Finding)]) {
        update_with(tracker, pods, &[]);
    }

    /// The pods with the UIDs `hidden` have left view.
    fn update_with(tracker: &mut Tracker, pods: &[(Pod, Finding)], hidden: &[u128]) {
        let mut found: Vec<_> = pods.iter().map(|(pod, finding)| (pod, Box::new(finding.clone()))).collect();
        let is_hidden = |uid| hidden.iter().any(|hidden| uid == Uid::from(*hidden));
        let context = UpdateContext { is_hidden: &is_hidden, ..UpdateContext::default() };
        tracker.update(&mut found, &context, &mut SharedProblems::default());
    }

    #[test]
    fn objects_share_what_they_know_of_the_same_pods() {
        let pods = || {
            let (pod, mut finding) = crashing("shop", "cart", "OOMKilled", 50);
            finding.explanation.cause = Cause::OutOfMemory;
            (pod, finding)
        };
        let mut shared = SharedProblems::default();
        let [mut one, mut other] = [Tracker::default(), Tracker::default()];
        for tracker in [&mut one, &mut other] {
            let (pod, finding) = pods();
            tracker.update(&mut vec![(&pod, Box::new(finding))], &UpdateContext::default(), &mut shared);
        }
        let problem = |tracker: &Tracker| Arc::clone(&tracker.pods.values().next().unwrap().problem);
        assert!(Arc::ptr_eq(&problem(&one), &problem(&other)) && problem(&one).explanation.is_some());
        drop((one, other));
        shared.sweep();
        shared.sweep();
        assert!(shared.problems.is_empty() && shared.explanations.is_empty());
    }

    #[test]
    fn an_incident_is_hidden_if_some_pods_have_left_view() {
        let pod = |uid: u128, owner: &str| {
            let (pod, finding) = crashing("shop", owner, "Error", 50);
            (Pod { uid: Uid::from(uid), name: format!("{owner}-{uid}").into(), ..pod }, finding)
        };
        let (one, two, pay) = (pod(1, "cart"), pod(2, "cart"), pod(3, "pay"));
        let key = |(pod, finding): &(Pod, Finding)| Identity::of(pod, finding).id().key();
        let mut tracker = Tracker::default();
        // Step by step: the pods with a problem, those that have left view, and whether the incident of cart is hidden.
        for (found, hidden, expected) in [
            (vec![&one, &two, &pay], &[][..], false),
            // The incident goes on with the other pod, and ends with it.
            (vec![&two, &pay], &[1], false),
            (vec![&pay], &[1], false),
            (vec![&one, &two, &pay], &[], false),
            // One recovers, and the other leaves view at the same time.
            (vec![&pay], &[1], true),
            (vec![&pay], &[], true),
            // It is reported again, and recovers.
            (vec![&two], &[1], false),
            (vec![], &[1], false),
        ] {
            let found: Vec<_> = found.into_iter().cloned().collect();
            update_with(&mut tracker, &found, hidden);
            assert_eq!(tracker.is_hidden(&key(&one)), expected, "{} pods, {hidden:?}", found.len());
            assert!(!tracker.is_hidden(&key(&pay)), "it is an incident of another owner");
        }
        tracker.add_hidden(vec![key(&pay)]);
        assert!(tracker.is_hidden(&key(&pay)), "as after a restart of the operator");
        update(&mut tracker, std::slice::from_ref(&pay));
        assert!(!tracker.is_hidden(&key(&pay)));
    }

    #[test]
    fn equal_explanations_stay_with_their_own_pods() {
        let pod = |uid: u128, message: &str| {
            let (pod, finding) = crashing("shop", &format!("service-{uid}"), "OOMKilled", 50);
            let explanation = Explanation {
                cause: Cause::OutOfMemory,
                message: message.into(),
                basis: Basis::Exit(137),
                ..Explanation::default()
            };
            (Pod { uid: Uid::from(uid), ..pod }, Finding { explanation, ..finding })
        };
        let pods = [pod(1, "a"), pod(2, "b"), pod(3, "a"), pod(4, "b")];
        let mut tracker = Tracker::default();
        update(&mut tracker, &pods);
        for (pod, finding) in &pods {
            let of_pod = tracker.pods.get(&pod.uid).and_then(|known| known.problem.explanation.as_deref());
            let of_incident =
                tracker.incident(&Identity::of(pod, finding)).and_then(|known| known.explanation.as_deref());
            assert_eq!([of_pod, of_incident], [Some(&finding.explanation); 2]);
        }
    }
}
