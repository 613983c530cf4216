//! Groups incidents and pods by the owner of the pods.

use std::collections::HashMap;

use crate::api::{Incident, Owner, PodProblem, ProblemKind};

/// The owner of pods, such as a Deployment. A pod without a controller is its own owner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload<'a> {
    pub(super) namespace: &'a str,
    pub(super) owner: Owner,
    pub(super) incidents: Vec<&'a Incident>,
    pub(super) pods: Vec<&'a PodProblem>,
    /// How many pods have a problem, including those that are not among `pods`.
    pub(super) problematic_pods: usize,
}

/// The workloads in the order of their first incidents, and then those of which only pods are given.
pub(super) fn of<'a>(incidents: &[&'a Incident], pods: &[&'a PodProblem]) -> Vec<Workload<'a>> {
    let mut workloads: Vec<Workload<'a>> = Vec::new();
    let mut positions = HashMap::new();
    let mut position = |workloads: &mut Vec<Workload<'a>>, namespace: &'a str, owner: &Owner| {
        *positions.entry((namespace, owner.clone())).or_insert_with(|| {
            let owner = owner.clone();
            workloads.push(Workload { namespace, owner, incidents: Vec::new(), pods: Vec::new(), problematic_pods: 0 });
            workloads.len() - 1
        })
    };
    for &incident in incidents {
        let position = position(&mut workloads, &incident.namespace, &incident.owner);
        if let Some(workload) = workloads.get_mut(position) {
            workload.incidents.push(incident);
        }
    }
    for &pod in pods {
        let own = || Owner { kind: "Pod".to_owned(), name: pod.name.clone() };
        let position = position(&mut workloads, &pod.namespace, &pod.owner.clone().unwrap_or_else(own));
        if let Some(workload) = workloads.get_mut(position) {
            workload.pods.push(pod);
        }
    }
    for workload in &mut workloads {
        let existing = workload.incidents.iter().filter(|incident| incident.kind != ProblemKind::Missing);
        let counted = existing.map(|incident| incident.pods).fold(0, i64::saturating_add);
        workload.problematic_pods = usize::try_from(counted).unwrap_or(0).max(workload.pods.len());
    }
    workloads
}
