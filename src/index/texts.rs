//! Shares equal texts between pods. Of the texts of a failing pod, most occur in other pods as well: reasons, the names of
//! containers, images and owners, the messages of conditions.

use std::collections::HashSet;

use arcstr::ArcStr;

use crate::pods::{Pod, TextKind, text_size};

/// The longest text that is shared, in bytes.
const LENGTH: usize = 128;
/// The most texts. Further ones are not shared.
const TEXTS: usize = 1 << 15;
/// How many texts there are at least before those that are not used any more are removed.
const SWEEP_AT: usize = 1 << 10;

#[derive(Debug)]
pub(super) struct Texts {
    texts: HashSet<ArcStr>,
    sweep_at: usize,
}

impl Default for Texts {
    fn default() -> Self {
        Self { texts: HashSet::new(), sweep_at: SWEEP_AT }
    }
}

impl Texts {
    /// Shares the texts of a pod. Returns the bytes of the pod without the texts that are shared.
    pub(super) fn share(&mut self, pod: &mut Pod) -> usize {
        let mut size = pod.structure_size();
        pod.for_each_text(&mut |text, kind| {
            let is_own = matches!(kind, TextKind::Id | TextKind::OwnMessage) || text.len() > LENGTH;
            if !text.is_empty() && (is_own || !self.share_one(text)) {
                size += text_size(text);
            }
        });
        if self.texts.len() >= self.sweep_at {
            self.sweep();
        }
        size
    }

    /// Returns whether there was room for the text.
    fn share_one(&mut self, text: &mut ArcStr) -> bool {
        if let Some(known) = self.texts.get(&**text) {
            *text = known.clone();
        } else if self.texts.len() < TEXTS {
            self.texts.insert(text.clone());
        } else {
            return false;
        }
        true
    }

    /// Removes the texts that only one pod or none uses.
    pub(super) fn sweep(&mut self) {
        self.texts.retain(|text| ArcStr::strong_count(text).is_none_or(|count| count > 2));
        if self.texts.capacity() > 4 * self.texts.len().max(SWEEP_AT) {
            self.texts.shrink_to_fit();
        }
        self.sweep_at = (2 * self.texts.len()).clamp(SWEEP_AT, TEXTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, node: &str) -> Pod {
        let mut pod = Pod { name: name.into(), node: node.into(), phase: "Running".into(), ..Pod::default() };
        pod.message = "x".repeat(LENGTH + 1).into();
        pod
    }

    #[test]
    fn pods_share_their_texts() {
        let mut texts = Texts::default();
        let [mut a, mut b] = [pod("a", "one"), pod("b", "one")];
        texts.share(&mut a);
        texts.share(&mut b);
        assert!(ArcStr::ptr_eq(&a.phase, &b.phase) && ArcStr::ptr_eq(&a.node, &b.node));
        assert!(!ArcStr::ptr_eq(&a.message, &b.message), "it is too long");
        assert_eq!(texts.texts.len(), 2);
        drop(a);
        texts.sweep();
        assert_eq!(texts.texts.len(), 0, "nothing is shared any more");
    }

    #[test]
    fn keeps_a_bounded_number_of_texts() {
        let mut texts = Texts::default();
        let pods: Vec<_> = (0..2 * TEXTS)
            .map(|index| {
                let mut pod = pod("a", &index.to_string());
                texts.share(&mut pod);
                pod
            })
            .collect();
        assert!(texts.texts.len() <= TEXTS && pods.len() == 2 * TEXTS);
        // Those that only one pod uses make room for others.
        let [mut a, mut b] = [pod("a", "last"), pod("b", "last")];
        texts.sweep();
        texts.share(&mut a);
        texts.share(&mut b);
        assert!(ArcStr::ptr_eq(&a.node, &b.node));
    }
}
