//! Makes room for a suspect at the cost of the namespaces that take the most.

use arcstr::ArcStr;

use crate::pods::{DecodeError, Pod, UndecodablePod};

use super::{Index, ViewId, memory::share_texts};

impl Index {
    /// Makes room for a suspect, at the cost of the namespaces that take the most. Returns its size, and the views of pods
    /// that are not judged any more; or nothing if there is no room for it.
    pub(super) fn make_room(&mut self, pod: &mut Pod) -> Option<(u32, Vec<ViewId>)> {
        let mut size = share_texts(&mut self.texts, pod);
        let full = self.memory.full;
        while self.memory.exceeds(full, size) {
            if self.memory.exceeds_share(full, &pod.namespace, size) {
                if !self.memory.is_reduced(&pod.namespace) {
                    self.reduce_pods_of(pod.namespace.clone());
                }
                pod.reduce();
                size = share_texts(&mut self.texts, pod);
                break;
            }
            let largest = self.memory.largest(true);
            let Some(largest) = largest.filter(|own| self.memory.exceeds_share(full, own, 0)) else { break };
            self.reduce_pods_of(largest);
        }
        let mut affected = Vec::new();
        while self.memory.exceeds(self.memory.all, size) {
            let largest = self.memory.largest(false);
            let own_share = self.memory.exceeds_share(self.memory.all, &pod.namespace, size);
            let largest = largest.filter(|_| !own_share)?;
            let before = self.suspects.len();
            affected.extend(self.evict_pods_of(&largest));
            if self.suspects.len() == before {
                return None;
            }
        }
        Some((u32::try_from(size).unwrap_or(u32::MAX), affected))
    }

    fn reduce_pods_of(&mut self, namespace: ArcStr) {
        for suspect in self.suspects.values_mut().filter(|suspect| suspect.pod.namespace == namespace) {
            suspect.pod.reduce();
            let size = share_texts(&mut self.texts, &mut suspect.pod);
            self.memory.remove(&namespace, suspect.size as usize);
            self.memory.add(&namespace, size);
            suspect.size = u32::try_from(size).unwrap_or(u32::MAX);
        }
        self.memory.set_reduced(namespace);
    }

    /// Stops judging some of a namespace's pods. Returns the affected views.
    fn evict_pods_of(&mut self, namespace: &ArcStr) -> Vec<ViewId> {
        // Some more than necessary, because all suspects are searched.
        let mut wanted = self.memory.all / 16;
        let own = self.suspects.values().filter(|suspect| suspect.pod.namespace == *namespace);
        let evicted = own.take_while(|suspect| {
            let is_wanted = wanted > 0;
            wanted = wanted.saturating_sub(suspect.size as usize);
            is_wanted
        });
        let evicted: Vec<_> =
            evicted.map(|suspect| UndecodablePod::without_room(&suspect.pod, DecodeError::NoRoom)).collect();
        evicted.into_iter().flat_map(|pod| self.insert_undecodable(pod)).collect()
    }
}
