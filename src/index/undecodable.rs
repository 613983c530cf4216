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
    /// Returns the namespaces for which this is a change.
    pub(super) fn insert(&mut self, pod: UndecodablePod, list: u32) -> Vec<String> {
        let namespace = pod.namespace.clone();
        let is_known = self.pods.get(&pod.uid).is_some_and(|(known, _)| *known == pod);
        let before = self.pods.insert(pod.uid, (pod, list));
        if is_known {
            return Vec::new();
        }
        self.changes += 1;
        before.map(|(before, _)| before.namespace).into_iter().chain([namespace]).collect()
    }

    /// Returns the pod if it was there.
    pub(super) fn remove(&mut self, uid: Uid) -> Option<UndecodablePod> {
        let (pod, _) = self.pods.remove(&uid)?;
        self.changes += 1;
        Some(pod)
    }

    /// Removes the pods of one namespace, or of all, that were last seen before list number `started`. Returns their
    /// namespaces.
    pub(super) fn end_list(&mut self, namespace: Option<&str>, started: u32) -> HashSet<String> {
        let mut gone = HashSet::new();
        self.pods.retain(|_, (pod, list)| {
            let is_kept = *list >= started || namespace.is_some_and(|own| own != pod.namespace);
            if !is_kept && !gone.contains(&pod.namespace) {
                gone.insert(pod.namespace.clone());
            }
            is_kept
        });
        self.changes += u64::from(!gone.is_empty());
        gone
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
