//! Keeps the proven cause of a problem for as long as the problem lasts.
//!
//! Events are evidence that may be lost or too old, and a pod shows only its present state. So a container that its
//! liveness probe kills again and again shows at times only that it was killed. Then the cause that was proven before is
//! still valid.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    api::Cause,
    bounded::Interner,
    diagnosis::{Basis, Explanation, Subject, continues, is_proven},
};

use super::super::identity::IncidentId;

/// Replaces an explanation by an earlier one that is still valid.
pub(super) fn keep(earlier: &Explanation, present: &mut Explanation) {
    if continues(earlier.cause, earlier.basis, present) || has_shown(earlier, present) {
        let evidence = std::mem::take(&mut present.evidence);
        *present = Explanation { evidence, ..earlier.clone() };
    }
}

/// Whether the pod's status has shown earlier what only events show now, of the same subject. Older kubelets write an error
/// only until they back off, so the status alternates between the error of a pull and no error.
fn has_shown(earlier: &Explanation, present: &Explanation) -> bool {
    let (Some(shown), Some(told)) = (&earlier.subject, &present.subject) else { return false };
    let is_same = (earlier.cause, shown.kind, &shown.name) == (present.cause, told.kind, &told.name);
    is_same && shown.namespace.is_empty() && !told.namespace.is_empty()
}

/// The causes that an update finds, by incident.
#[derive(Default)]
pub(super) struct Causes<'a>(HashMap<IncidentId, OfIncident<'a>>);

#[derive(Default)]
struct OfIncident<'a> {
    /// The cause that was proven before.
    earlier: Option<&'a Explanation>,
    /// Whether the present state of a pod does not contradict it.
    lasts: bool,
    /// What is proven now, and for how many pods. An explanation is not specific to a pod, so the pods share it.
    proven: HashMap<Key, (u32, Arc<Explanation>)>,
}

/// What pods of an incident have in common that share an explanation.
type Key = (Cause, Basis, Option<Arc<Subject>>);

impl<'a> Causes<'a> {
    /// Adds the explanation of a pod. `earlier` returns that of its incident.
    pub(super) fn add(
        &mut self,
        id: IncidentId,
        explanation: &Explanation,
        earlier: impl FnOnce() -> Option<&'a Explanation>,
    ) {
        let incident = self.0.entry(id).or_insert_with(|| OfIncident { earlier: earlier(), ..OfIncident::default() });
        if !is_proven(explanation.cause) {
            let earlier = incident.earlier;
            incident.lasts |= earlier.is_some_and(|earlier| continues(earlier.cause, earlier.basis, explanation));
            return;
        }
        let new = || Arc::new(Explanation { evidence: Vec::new(), ..explanation.clone() });
        let (count, shared) = incident.proven.entry(key(explanation)).or_insert_with(|| (0, new()));
        *count += 1;
        // Of several sentences, the first in alphabetical order: the result must not depend on the order of the pods.
        if explanation.message < shared.message {
            *shared = new();
        }
    }

    /// Keeps equal explanations of different incidents and objects once.
    pub(super) fn share(&mut self, known: &mut Interner<Arc<Explanation>>) {
        for (_, own) in self.0.values_mut().flat_map(|incident| incident.proven.values_mut()) {
            known.intern(own);
        }
    }

    /// The shared explanation of a pod, if its cause is proven.
    pub(super) fn of_pod(&self, id: IncidentId, explanation: &Explanation) -> Option<Arc<Explanation>> {
        self.0.get(&id)?.proven.get(&key(explanation)).map(|(_, shared)| Arc::clone(shared))
    }

    /// The explanation of an incident: the earlier cause for as long as it explains any pod, otherwise that of most pods.
    pub(super) fn of_incident(&self, id: IncidentId) -> Option<Arc<Explanation>> {
        let OfIncident { earlier, lasts, proven } = self.0.get(&id)?;
        if proven.is_empty() {
            return earlier.filter(|_| *lasts).cloned().map(Arc::new);
        }
        let mut causes: BTreeMap<Cause, (u32, &Arc<Explanation>)> = BTreeMap::new();
        for (pods, own) in proven.values() {
            let (count, first) = causes.entry(own.cause).or_insert((0, own));
            *count += pods;
            if (&own.message, own.basis) < (&first.message, first.basis) {
                *first = own;
            }
        }
        let known = earlier.and_then(|earlier| causes.get(&earlier.cause));
        // Of equally frequent causes, the first one in the order of the codes.
        let (_, chosen) = known.or_else(|| causes.values().rev().max_by_key(|(count, _)| *count))?;
        Some(Arc::clone(chosen))
    }
}

fn key(explanation: &Explanation) -> Key {
    (explanation.cause, explanation.basis, explanation.subject.clone())
}

#[cfg(test)]
mod tests {
    use super::{super::super::identity::id, *};

    fn explained(cause: Cause, message: &str) -> Explanation {
        Explanation { cause, message: message.into(), basis: Basis::Exit(137), ..Explanation::default() }
    }

    /// The messages that remain of the causes of an incident's pods, and that of the incident.
    fn collect<'a>(
        pods: impl IntoIterator<Item = &'a Explanation> + Clone,
        earlier: Option<&Explanation>,
    ) -> (Vec<Option<String>>, Option<String>) {
        let (mut causes, incident) = (Causes::default(), id(&["shop"]));
        pods.clone().into_iter().for_each(|own| causes.add(incident, own, || earlier));
        causes.share(&mut Interner::new(usize::MAX));
        let message = |own: Option<Arc<Explanation>>| own.map(|own| own.message.to_string());
        let of_pods = pods.into_iter().map(|own| message(causes.of_pod(incident, own))).collect();
        (of_pods, message(causes.of_incident(incident)))
    }

    #[test]
    fn an_incident_keeps_its_cause_while_a_pod_has_it() {
        use Cause::{LivenessProbe, OutOfMemory, Signal};
        let pods = [(OutOfMemory, "b"), (OutOfMemory, "a"), (LivenessProbe, "c"), (Signal, "d")];
        let pods = pods.map(|(cause, message)| explained(cause, message));
        let own = ["a", "a", "c"].map(|message| Some(message.to_owned()));
        let (messages, of_incident) = collect(&pods, None);
        assert_eq!((&messages[..3], &messages[3]), (&own[..], &None));
        assert_eq!(of_incident.as_deref(), Some("a"), "most pods have it");
        assert_eq!(collect(pods.iter().rev(), None).1.as_deref(), Some("a"));
        for pods in [pods.iter().collect::<Vec<_>>(), pods.iter().rev().collect()] {
            assert_eq!(collect(pods, Some(&explained(LivenessProbe, "e"))).1.as_deref(), Some("c"));
        }
    }

    #[test]
    fn an_unproven_cause_stays_until_it_is_contradicted() {
        let earlier = explained(Cause::LivenessProbe, "killed");
        let (messages, of_incident) = collect(&[explained(Cause::Signal, "exit 137")], Some(&earlier));
        assert_eq!(of_incident.as_deref(), Some("killed"));
        assert_eq!(messages, [None], "that this pod was killed by its probe is not proven");
        let other = Explanation { basis: Basis::Exit(1), ..explained(Cause::ExitCode, "exit 1") };
        assert_eq!(collect(&[other], Some(&earlier)).1, None);
    }

    #[test]
    fn pods_share_an_explanation_unless_it_rests_on_something_else() {
        let [one, more] = ["killed 7 times", "killed 8 times"].map(|message| explained(Cause::OutOfMemory, message));
        let elsewhere = Explanation { basis: Basis::Exit(1), ..more.clone() };
        let (messages, _) = collect([&more, &one, &elsewhere], None);
        assert_eq!(messages, [&one, &one, &elsewhere].map(|own| Some(own.message.to_string())));
    }
}
