//! Keeps the proven cause of a problem for as long as the problem lasts.
//!
//! Events are evidence that may be lost or too old, and a pod shows only its present state. So a container that its
//! liveness probe kills again and again shows at times only that it was killed. Then the cause that was proven before is
//! still valid.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use crate::{
    api::Cause,
    diagnosis::{Explanation, continues, is_proven},
    pods::Uid,
};

use super::{identity::IncidentId, sorted_map::SortedMap};

/// The proven causes of the last update. Pods with the same explanation share it.
#[derive(Debug, Default)]
pub(super) struct KnownCauses {
    pods: SortedMap<Uid, Arc<Explanation>>,
    incidents: HashMap<IncidentId, Arc<Explanation>>,
}

/// The causes found during an update.
#[derive(Default)]
pub(super) struct Collected {
    pods: Vec<(Uid, Arc<Explanation>)>,
    /// How many pods of an incident have each cause.
    counts: HashMap<IncidentId, BTreeMap<Cause, (u32, Arc<Explanation>)>>,
    /// The incidents without a proof now whose state does not contradict the earlier one.
    lasting: HashSet<IncidentId>,
}

/// Replaces an explanation by an earlier one that is still valid.
pub(super) fn keep(earlier: &Explanation, present: &mut Explanation) {
    if continues(earlier.cause, earlier.basis, present) {
        let evidence = std::mem::take(&mut present.evidence);
        *present = Explanation { evidence, ..earlier.clone() };
    }
}

impl KnownCauses {
    pub(super) fn of_pod(&self, uid: Uid) -> Option<&Explanation> {
        self.pods.get(uid).map(Arc::as_ref)
    }

    pub(super) fn of_incident(&self, incident: IncidentId) -> Option<&Explanation> {
        self.incidents.get(&incident).map(Arc::as_ref)
    }
}

impl Collected {
    /// Adds the explanation of a pod. `earlier` is that of its incident.
    pub(super) fn add(
        &mut self,
        uid: Uid,
        incident: IncidentId,
        explanation: &Explanation,
        earlier: Option<&Explanation>,
    ) {
        if !is_proven(explanation.cause) {
            if earlier.is_some_and(|earlier| continues(earlier.cause, earlier.basis, explanation)) {
                self.lasting.insert(incident);
            }
            return;
        }
        let causes = self.counts.entry(incident).or_default();
        let (count, shared) =
            causes.entry(explanation.cause).or_insert_with(|| (0, Arc::new(without_evidence(explanation))));
        *count += 1;
        let own = if **shared == without_evidence(explanation) {
            Arc::clone(shared)
        } else {
            let own = Arc::new(without_evidence(explanation));
            // The result must not depend on the order of the pods.
            if own.message < shared.message {
                *shared = Arc::clone(&own);
            }
            own
        };
        self.pods.push((uid, own));
    }

    /// The causes of the incidents: the earlier one as long as it explains any pod, otherwise that of most pods.
    pub(super) fn finish<'a>(self, earlier: impl Fn(IncidentId) -> Option<&'a Explanation>) -> KnownCauses {
        let mut incidents = HashMap::new();
        for incident in self.lasting {
            if !self.counts.contains_key(&incident)
                && let Some(known) = earlier(incident)
            {
                incidents.insert(incident, Arc::new(known.clone()));
            }
        }
        for (incident, causes) in self.counts {
            let known = earlier(incident).and_then(|known| causes.get(&known.cause));
            // Of equally frequent causes, the first one in the order of the codes.
            let most = || causes.values().rev().max_by_key(|(count, _)| *count);
            if let Some((_, chosen)) = known.or_else(most) {
                incidents.insert(incident, Arc::clone(chosen));
            }
        }
        KnownCauses { pods: self.pods.into_iter().collect(), incidents }
    }
}

fn without_evidence(explanation: &Explanation) -> Explanation {
    Explanation { evidence: Vec::new(), ..explanation.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::Basis;

    fn seven() -> IncidentId {
        crate::report::identity::id(&["7"])
    }

    fn explained(cause: Cause, message: &str) -> Explanation {
        Explanation { cause, message: message.to_owned(), basis: Basis::Exit(137), ..Explanation::default() }
    }

    fn collect(pods: &[(u128, Cause, &str)], earlier: Option<&Explanation>) -> KnownCauses {
        let mut collected = Collected::default();
        for (uid, cause, message) in pods {
            collected.add(Uid::from(*uid), seven(), &explained(*cause, message), earlier);
        }
        collected.finish(|_| earlier)
    }

    #[test]
    fn an_incident_keeps_its_cause_while_a_pod_has_it() {
        use Cause::{LivenessProbe, OutOfMemory, Signal};
        let pods = [(1, OutOfMemory, "b"), (2, OutOfMemory, "a"), (3, LivenessProbe, "c"), (4, Signal, "d")];
        let mut reversed = pods;
        reversed.reverse();
        for pods in [pods, reversed] {
            let known = collect(&pods, None);
            assert_eq!(known.of_incident(seven()).unwrap().message, "a", "most pods have it");
            assert_eq!(known.of_pod(Uid::from(3)).unwrap().message, "c");
            assert!(known.of_pod(Uid::from(4)).is_none());
            let known = collect(&pods, Some(&explained(LivenessProbe, "e")));
            assert_eq!(known.of_incident(seven()).unwrap().message, "c");
        }
    }

    #[test]
    fn an_incident_without_a_proof_keeps_its_cause_while_nothing_contradicts_it() {
        let earlier = explained(Cause::LivenessProbe, "killed");
        let known = collect(&[(1, Cause::Signal, "exit 137")], Some(&earlier));
        assert_eq!(known.of_incident(seven()), Some(&earlier));
        assert!(known.of_pod(Uid::from(1)).is_none(), "that this pod was killed by its probe is not proven");
        let other = Explanation { basis: Basis::Exit(1), ..explained(Cause::ExitCode, "exit 1") };
        let mut collected = Collected::default();
        collected.add(Uid::from(1), seven(), &other, Some(&earlier));
        assert_eq!(collected.finish(|_| Some(&earlier)).of_incident(seven()), None);
    }
}
