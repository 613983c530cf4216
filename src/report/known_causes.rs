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
    diagnosis::{Basis, Explanation, Subject, continues, is_proven},
};

/// The place of an incident in the tracker's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct IncidentPlace(pub(super) u32);

/// The proven causes of the last update, each of them once. The explanation is not specific to a pod, so pods share it: those
/// of an incident if they have the same cause, those of different incidents if the explanations are equal.
#[derive(Debug, Default)]
pub(super) struct Explanations(Box<[Explanation]>);

/// The place of an explanation in [`Explanations`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ExplanationId(u32);

/// The place of an explanation in [`Collected`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CollectedId(u32);

/// What pods have in common that share an explanation.
type Shared = (IncidentPlace, Cause, Basis, Option<Arc<Subject>>);

/// The causes found during an update.
#[derive(Default)]
pub(super) struct Collected {
    explanations: Vec<Explanation>,
    ids: HashMap<Shared, CollectedId>,
    /// How many pods of an incident have each cause, and its explanation.
    counts: HashMap<IncidentPlace, BTreeMap<Cause, (u32, CollectedId)>>,
    /// The incidents without a proof now whose state does not contradict the earlier one.
    lasting: HashSet<IncidentPlace>,
}

/// The result of an update.
pub(super) struct Finished {
    pub(super) explanations: Explanations,
    /// The explanations of the incidents: the earlier cause as long as it explains any pod, otherwise that of most pods.
    pub(super) of_incidents: Vec<(IncidentPlace, ExplanationId)>,
    /// By the places in [`Collected`].
    places: Vec<ExplanationId>,
}

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

impl Explanations {
    pub(super) fn get(&self, id: ExplanationId) -> Option<&Explanation> {
        self.0.get(id.0 as usize)
    }
}

/// There are never as many explanations.
fn place(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

impl Collected {
    /// Adds the explanation of a pod. `earlier` is that of its incident. Returns which explanation the pod has, if it is
    /// proven.
    pub(super) fn add(
        &mut self,
        incident: IncidentPlace,
        explanation: &Explanation,
        earlier: Option<&Explanation>,
    ) -> Option<CollectedId> {
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
        let message = |id: CollectedId| self.explanations.get(id.0 as usize).map(|own| &own.message);
        if message(id) < message(*shared) {
            *shared = id;
        }
        Some(id)
    }

    /// The explanation of the incident's pods with this cause. Of several messages, it has the first.
    fn id(&mut self, incident: IncidentPlace, explanation: &Explanation) -> Option<CollectedId> {
        let key = (incident, explanation.cause, explanation.basis, explanation.subject.clone());
        if let Some(id) = self.ids.get(&key) {
            let own = self.explanations.get_mut(id.0 as usize)?;
            if explanation.message < own.message {
                own.message.clone_from(&explanation.message);
            }
            return Some(*id);
        }
        let id = self.push(explanation);
        self.ids.insert(key, id);
        Some(id)
    }

    fn push(&mut self, explanation: &Explanation) -> CollectedId {
        let id = CollectedId(place(self.explanations.len()));
        self.explanations.push(Explanation { evidence: Vec::new(), ..explanation.clone() });
        id
    }

    /// `earlier` returns the explanation of an incident from before.
    pub(super) fn finish<'a>(mut self, earlier: impl Fn(IncidentPlace) -> Option<&'a Explanation>) -> Finished {
        let mut incidents = Vec::new();
        for incident in std::mem::take(&mut self.lasting) {
            if !self.counts.contains_key(&incident)
                && let Some(known) = earlier(incident)
            {
                incidents.push((incident, self.push(known)));
            }
        }
        for (incident, causes) in &self.counts {
            let known = earlier(*incident).and_then(|known| causes.get(&known.cause));
            // Of equally frequent causes, the first one in the order of the codes.
            let most = || causes.values().rev().max_by_key(|(count, _)| *count);
            incidents.extend(known.or_else(most).map(|(_, chosen)| (*incident, *chosen)));
        }
        let mut known = HashMap::new();
        let mut explanations = Vec::new();
        let places: Vec<_> = self
            .explanations
            .into_iter()
            .map(|own| {
                *known.entry(own.clone()).or_insert_with(|| {
                    explanations.push(own);
                    ExplanationId(place(explanations.len() - 1))
                })
            })
            .collect();
        let placed = |(incident, id): (_, CollectedId)| Some((incident, *places.get(id.0 as usize)?));
        let of_incidents = incidents.into_iter().filter_map(placed).collect();
        Finished { explanations: Explanations(explanations.into()), of_incidents, places }
    }
}

impl Finished {
    /// Where a collected explanation is now.
    pub(super) fn place(&self, id: CollectedId) -> Option<ExplanationId> {
        self.places.get(id.0 as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(cause: Cause, message: &str) -> Explanation {
        Explanation { cause, message: message.into(), basis: Basis::Exit(137), ..Explanation::default() }
    }

    /// The messages that remain of the causes of an incident's pods, and that of the incident.
    fn collect<'a>(
        pods: impl IntoIterator<Item = &'a Explanation>,
        earlier: Option<&Explanation>,
    ) -> (Vec<Option<String>>, Option<String>) {
        let (mut collected, incident) = (Collected::default(), IncidentPlace::default());
        let ids: Vec<_> = pods.into_iter().map(|own| collected.add(incident, own, earlier)).collect();
        let finished = collected.finish(|_| earlier);
        let message = |id| finished.explanations.get(id).map(|own| own.message.to_string());
        let of_incident = finished.of_incidents.first().and_then(|(_, id)| message(*id));
        let of_pod = |id: Option<CollectedId>| message(finished.place(id?)?);
        (ids.into_iter().map(of_pod).collect(), of_incident)
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
