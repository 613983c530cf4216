//! Pods that could not be decoded, so that they can be reported.

use std::collections::{HashMap, HashSet};

use crate::pods::{Uid, UndecodablePod};

#[derive(Debug, Default)]
pub(super) struct UndecodablePods {
    /// Each pod, with the number of the list in which it was last seen.
    pods: HashMap<Uid, (UndecodablePod, u32)>,
    changes: u64,
}

impl UndecodablePods {
    pub(super) fn insert(&mut self, pod: UndecodablePod, list: u32) {
        let known = self.pods.get(&pod.uid).is_some_and(|(known, _)| *known == pod);
        self.pods.insert(pod.uid, (pod, list));
        self.changes += u64::from(!known);
    }

    pub(super) fn remove(&mut self, uid: Uid) {
        self.changes += u64::from(self.pods.remove(&uid).is_some());
    }

    /// Removes the pods of one namespace, or of all, that were last seen before list number `started`.
    pub(super) fn end_list(&mut self, namespace: Option<&str>, started: u32) {
        let before = self.pods.len();
        self.pods.retain(|_, (pod, list)| *list >= started || namespace.is_some_and(|own| own != pod.namespace));
        self.changes += u64::from(self.pods.len() != before);
    }

    /// The number of pods in the selected namespaces, and the first of them by namespace and name.
    pub(super) fn of(&self, selects: impl Fn(&str) -> bool) -> Option<(u64, &UndecodablePod)> {
        let selected = || self.pods.values().map(|(pod, _)| pod).filter(|pod| selects(&pod.namespace));
        let first = selected().min_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))?;
        Some((selected().count() as u64, first))
    }

    pub(super) fn namespaces(&self) -> HashSet<&str> {
        self.pods.values().map(|(pod, _)| &*pod.namespace).collect()
    }

    /// A counter that grows with every change.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }
}
