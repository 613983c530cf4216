//! Keeps the proven cause of a problem for as long as the problem lasts.
//!
//! Events are evidence that may be lost or too old, and a pod shows only its present state. So a container that its
//! liveness probe kills again and again shows at times only that it was killed. Then the cause that was proven before is
//! still valid.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    num::NonZeroU32,
};

use crate::{
    api::Cause,
    diagnosis::{Basis, Explanation, Subject, continues, is_proven},
};

use super::tracker::IncidentPlace;

/// The proven causes of the last update. Pods of an incident with the same cause share the explanation, which is not
/// specific to a pod.
#[derive(Debug, Default)]
pub(super) struct Explanations(Box<[Explanation]>);

/// The place of an explanation in [`Explanations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExplanationId(NonZeroU32);

/// The causes found during an update.
#[derive(Default)]
pub(super) struct Collected {
    explanations: Vec<Explanation>,
    ids: HashMap<(IncidentPlace, Cause, Basis, Option<Subject>), ExplanationId>,
    /// How many pods of an incident have each cause, and its explanation.
    counts: HashMap<IncidentPlace, BTreeMap<Cause, (u32, ExplanationId)>>,
    /// The incidents without a proof now whose state does not contradict the earlier one.
    lasting: HashSet<IncidentPlace>,
}

/// Replaces an explanation by an earlier one that is still valid.
pub(super) fn keep(earlier: &Explanation, present: &mut Explanation) {
    if continues(earlier.cause, earlier.basis, present) {
        let evidence = std::mem::take(&mut present.evidence);
        *present = Explanation { evidence, ..earlier.clone() };
    }
}

impl Explanations {
    pub(super) fn get(&self, id: ExplanationId) -> Option<&Explanation> {
        self.0.get(id.index())
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let texts = |own: &Explanation| {
            own.message.capacity() + own.subject.as_ref().map_or(0, |own| own.namespace.len() + own.name.len())
        };
        self.0.iter().map(|own| size_of_val(own) + texts(own)).sum()
    }
}

impl ExplanationId {
    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl Collected {
    /// Adds the explanation of a pod. `earlier` is that of its incident. Returns which explanation the pod has, if it is
    /// proven.
    pub(super) fn add(
        &mut self,
        incident: IncidentPlace,
        explanation: &Explanation,
        earlier: Option<&Explanation>,
    ) -> Option<ExplanationId> {
        if !is_proven(explanation.cause) {
            if earlier.is_some_and(|earlier| continues(earlier.cause, earlier.basis, explanation)) {
                self.lasting.insert(incident);
            }
            return None;
        }
        let id = self.id(incident, explanation)?;
        let (count, shared) =
            self.counts.entry(incident).or_default().entry(explanation.cause).or_insert_with(|| (0, id));
        *count += 1;
        // The result must not depend on the order of the pods.
        let message = |id: ExplanationId| self.explanations.get(id.index()).map(|own| &own.message);
        if message(id) < message(*shared) {
            *shared = id;
        }
        Some(id)
    }

    /// The explanation of the incident's pods with this cause. Of several messages, it has the first.
    fn id(&mut self, incident: IncidentPlace, explanation: &Explanation) -> Option<ExplanationId> {
        let key = (incident, explanation.cause, explanation.basis, explanation.subject.clone());
        if let Some(id) = self.ids.get(&key) {
            let own = self.explanations.get_mut(id.index())?;
            if explanation.message < own.message {
                own.message.clone_from(&explanation.message);
            }
            return Some(*id);
        }
        let id = self.push(explanation)?;
        self.ids.insert(key, id);
        Some(id)
    }

    fn push(&mut self, explanation: &Explanation) -> Option<ExplanationId> {
        self.explanations.push(Explanation { evidence: Vec::new(), ..explanation.clone() });
        u32::try_from(self.explanations.len()).ok().and_then(NonZeroU32::new).map(ExplanationId)
    }

    /// The explanations of the pods, and those of the incidents: the earlier cause as long as it explains any pod, otherwise
    /// that of most pods.
    pub(super) fn finish<'a>(
        mut self,
        earlier: impl Fn(IncidentPlace) -> Option<&'a Explanation>,
    ) -> (Explanations, Vec<(IncidentPlace, ExplanationId)>) {
        let mut incidents = Vec::new();
        for incident in std::mem::take(&mut self.lasting) {
            if !self.counts.contains_key(&incident)
                && let Some(known) = earlier(incident)
            {
                incidents.extend(self.push(known).map(|id| (incident, id)));
            }
        }
        for (incident, causes) in &self.counts {
            let known = earlier(*incident).and_then(|known| causes.get(&known.cause));
            // Of equally frequent causes, the first one in the order of the codes.
            let most = || causes.values().rev().max_by_key(|(count, _)| *count);
            incidents.extend(known.or_else(most).map(|(_, chosen)| (*incident, *chosen)));
        }
        (Explanations(self.explanations.into()), incidents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(cause: Cause, message: &str) -> Explanation {
        Explanation { cause, message: message.to_owned(), basis: Basis::Exit(137), ..Explanation::default() }
    }

    /// The messages that remain of the causes of an incident's pods, and that of the incident.
    fn collect<'a>(
        pods: impl IntoIterator<Item = &'a Explanation>,
        earlier: Option<&Explanation>,
    ) -> (Vec<Option<String>>, Option<String>) {
        let (mut collected, incident) = (Collected::default(), IncidentPlace::default());
        let ids: Vec<_> = pods.into_iter().map(|own| collected.add(incident, own, earlier)).collect();
        let (explanations, incidents) = collected.finish(|_| earlier);
        let message = |id| explanations.get(id).map(|own| own.message.clone());
        let of_incident = incidents.first().and_then(|(_, id)| message(*id));
        (ids.into_iter().map(|id| id.and_then(message)).collect(), of_incident)
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
    fn an_incident_without_a_proof_keeps_its_cause_while_nothing_contradicts_it() {
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
        assert_eq!(messages, [&one, &one, &elsewhere].map(|own| Some(own.message.clone())));
    }
}
