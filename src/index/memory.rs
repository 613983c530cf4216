//! Bounds the memory of all suspects, and shares it between namespaces: the large pods of one namespace leave room for those
//! of the others.

use std::collections::{HashMap, HashSet};

use arcstr::ArcStr;

use crate::{
    bounded::Interner,
    pods::{Pod, TextKind, text_size},
};

/// The longest text that pods share, in bytes. Of the texts of a failing pod, most occur in other pods as
/// well: reasons, the names of containers, images and owners, the messages of conditions.
const LENGTH: usize = 128;

/// The memory of suspects in full, in bytes. Beyond it, the namespaces that take the most keep less of each pod.
const FULL: usize = 24 << 20;
/// The memory of suspects in all, in bytes. Beyond it, the namespaces that take the most have pods that are not judged, which
/// is reported.
const ALL: usize = 32 << 20;

#[derive(Debug)]
pub(super) struct SuspectMemory {
    /// [`FULL`] and [`ALL`].
    pub(super) full: usize,
    pub(super) all: usize,
    namespaces: HashMap<ArcStr, usize>,
    /// The namespaces whose pods are reduced.
    reduced: HashSet<ArcStr>,
    total: usize,
}

impl Default for SuspectMemory {
    fn default() -> Self {
        Self { full: FULL, all: ALL, namespaces: HashMap::new(), reduced: HashSet::new(), total: 0 }
    }
}

impl SuspectMemory {
    pub(super) fn add(&mut self, namespace: &ArcStr, size: usize) {
        self.total += size;
        *self.namespaces.entry(namespace.clone()).or_default() += size;
    }

    pub(super) fn remove(&mut self, namespace: &ArcStr, size: usize) {
        self.total = self.total.saturating_sub(size);
        if let Some(own) = self.namespaces.get_mut(namespace) {
            *own = own.saturating_sub(size);
            if *own == 0 {
                self.namespaces.remove(namespace);
            }
        }
        if self.total < self.full / 2 {
            self.reduced.clear();
        }
    }

    /// Whether so many bytes more exceed this limit.
    pub(super) fn exceeds(&self, limit: usize, size: usize) -> bool {
        self.total + size > limit
    }

    /// Whether the namespace has used up its share of the limit: as much as any other.
    pub(super) fn exceeds_share(&self, limit: usize, namespace: &ArcStr, size: usize) -> bool {
        let own = self.namespaces.get(namespace).copied().unwrap_or_default();
        let others = self.namespaces.len() - usize::from(own > 0);
        own + size > limit / (others + 1)
    }

    pub(super) fn is_reduced(&self, namespace: &ArcStr) -> bool {
        self.reduced.contains(namespace)
    }

    pub(super) fn set_reduced(&mut self, namespace: ArcStr) {
        self.reduced.insert(namespace);
    }

    /// The namespace that takes the most. If `in_full`, of those whose pods are not reduced.
    pub(super) fn largest(&self, in_full: bool) -> Option<ArcStr> {
        let namespaces = self.namespaces.iter().filter(|(namespace, _)| !(in_full && self.is_reduced(namespace)));
        namespaces.max_by_key(|(namespace, size)| (**size, *namespace)).map(|(namespace, _)| namespace.clone())
    }

    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        self.total
    }
}

/// Shares the texts of a pod. Returns the bytes of the pod without the texts that are shared.
pub(super) fn share_texts(texts: &mut Interner<ArcStr>, pod: &mut Pod) -> usize {
    let mut size = pod.structure_size();
    pod.for_each_text(&mut |text, kind| {
        let is_own = matches!(kind, TextKind::Id | TextKind::OwnMessage) || text.len() > LENGTH;
        if !text.is_empty() && (is_own || !texts.intern(text)) {
            size += text_size(text);
        }
    });
    size
}

#[cfg(test)]
mod tests {
    use super::{super::TEXTS, *};

    #[test]
    fn pods_share_their_texts() {
        let mut texts = Interner::new(TEXTS);
        let [mut a, mut b] = ["a", "b"].map(|name| {
            let mut pod = Pod { name: name.into(), node: "one".into(), phase: "Running".into(), ..Pod::default() };
            pod.message = "x".repeat(LENGTH + 1).into();
            pod
        });
        share_texts(&mut texts, &mut a);
        share_texts(&mut texts, &mut b);
        assert!(ArcStr::ptr_eq(&a.phase, &b.phase) && ArcStr::ptr_eq(&a.node, &b.node));
        assert!(!ArcStr::ptr_eq(&a.message, &b.message), "it is too long");
    }
}
