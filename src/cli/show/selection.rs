//! Chooses the incidents and pods of a status that are printed.

use crate::api::{Incident, NamespacedName, OrchestrStatus, PodProblem};

/// The fewest digits of an incident's key that select it.
const KEY_DIGITS: usize = 4;

pub(super) struct Selection<'a> {
    pub incidents: Vec<&'a Incident>,
    pub pods: Vec<&'a PodProblem>,
    pub is_everything: bool,
}

impl<'a> Selection<'a> {
    pub(super) fn all(status: &'a OrchestrStatus) -> Self {
        Self {
            incidents: status.incidents.iter().collect(),
            pods: status.problematic_pods.iter().collect(),
            is_everything: true,
        }
    }

    /// What `wanted` names: a pod, the owner of pods (each with or without its namespace), or the key of an incident or
    /// its beginning. The incidents of a pod are selected with it, as the pods of an incident are.
    pub(super) fn find(status: &'a OrchestrStatus, wanted: &str) -> Option<Self> {
        let by_pod: Vec<_> =
            status.problematic_pods.iter().filter(|pod| names(wanted, &pod.namespace, &pod.name)).collect();
        if !by_pod.is_empty() {
            let is_of_a_pod = |incident: &&Incident| by_pod.iter().any(|pod| belongs(pod, incident));
            return Some(Self {
                incidents: status.incidents.iter().filter(is_of_a_pod).collect(),
                pods: by_pod,
                is_everything: false,
            });
        }
        let has_key = |incident: &Incident| wanted.len() >= KEY_DIGITS && incident.key.starts_with(wanted);
        let is_wanted = |incident: &&Incident| {
            has_key(incident)
                || names(wanted, &incident.namespace, &incident.owner.name)
                // A pod that the list of pods omits.
                || incident.example_pods.iter().any(|pod| names(wanted, &incident.namespace, pod))
        };
        let incidents: Vec<_> = status.incidents.iter().filter(is_wanted).collect();
        let is_of_an_incident = |pod: &&PodProblem| incidents.iter().any(|incident| belongs(pod, incident));
        let pods = status.problematic_pods.iter().filter(is_of_an_incident).collect();
        (!incidents.is_empty()).then_some(Self { incidents, pods, is_everything: false })
    }
}

/// Whether `wanted` is this name, or the namespace and the name.
fn names(wanted: &str, namespace: &str, name: &str) -> bool {
    match wanted.split_once('/') {
        Some((wanted_namespace, wanted)) => wanted_namespace == namespace && wanted == name,
        None => wanted == name,
    }
}

/// Whether a pod is one of an incident. A pod without an owner is its own owner.
fn belongs(pod: &PodProblem, incident: &Incident) -> bool {
    let is_owner = match &pod.owner {
        Some(owner) => *owner == incident.owner,
        None => incident.owner.name == pod.name,
    };
    let has_container = || pod.container_issues.iter().any(|issue| issue.name == incident.container);
    is_owner
        && pod.namespace == incident.namespace
        && pod.kind == incident.kind
        && (incident.container.is_empty() || pod.container_issues.is_empty() || has_container())
}

/// Why nothing was selected. A name that is not in the status is not healthy for that reason: it may be misspelt.
pub(super) fn not_found(object: &NamespacedName, status: &OrchestrStatus, wanted: &str) -> String {
    let NamespacedName { namespace, name } = object;
    let omitted = match status.omitted_pods {
        ..=0 => String::new(),
        omitted => format!(", but omits {omitted} pods with problems"),
    };
    format!("the status of {namespace}/{name} names no pod, owner or incident {wanted:?}{omitted}")
}
