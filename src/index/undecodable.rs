//! Pods that could not be decoded, so that users are told of what is not looked at.

use std::collections::HashMap;

use super::{Uid, UndecodablePod};

/// The pods that could not be decoded. One takes less room than a failing pod does.
#[derive(Debug, Default)]
pub struct UndecodablePods {
    /// Each with the count of lists when it was last seen.
    pods: HashMap<Uid, (UndecodablePod, u32)>,
    changes: u64,
}

impl UndecodablePods {
    /// A pod could not be decoded, when so many lists had been begun.
    pub fn insert(&mut self, pod: UndecodablePod, list: u32) {
        let known = self.pods.get(&pod.uid).is_some_and(|(known, _)| *known == pod);
        self.pods.insert(pod.uid, (pod, list));
        self.changes += u64::from(!known);
    }

    /// A pod can be decoded, or is gone.
    pub fn remove(&mut self, uid: Uid) {
        self.changes += u64::from(self.pods.remove(&uid).is_some());
    }

    /// A list of one namespace, or of all, is complete: those that were last seen before it was begun, as
    /// list number `begun`, are gone.
    pub fn end_list(&mut self, namespace: Option<&str>, begun: u32) {
        let before = self.pods.len();
        self.pods.retain(|_, (pod, list)| *list >= begun || namespace.is_some_and(|own| own != pod.namespace));
        self.changes += u64::from(self.pods.len() != before);
    }

    /// How many there are in these namespaces, and the first of them by namespace and name.
    pub fn of(&self, selects: impl Fn(&str) -> bool) -> Option<(u64, &UndecodablePod)> {
        let within = || self.pods.values().map(|(pod, _)| pod).filter(|pod| selects(&pod.namespace));
        let first = within().min_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)))?;
        Some((within().count() as u64, first))
    }

    /// Counts the changes, so that a change can be told from none.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}
