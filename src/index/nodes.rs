//! The nodes of the watched pods, and how many pods each has.

use std::collections::HashMap;

use arcstr::ArcStr;

use crate::pods::Pod;

use super::label_set::PodCount;

/// All nodes that have pods.
#[derive(Debug, Default)]
pub(super) struct Nodes(HashMap<ArcStr, PodCount>);

impl Nodes {
    /// Moves a pod from the node of its previous version, if any, to its present one, and returns that: empty if it has none. A
    /// pod that has succeeded no longer uses the node, and is not counted.
    pub(super) fn update(&mut self, before: Option<&ArcStr>, pod: &Pod) -> ArcStr {
        let none = ArcStr::new();
        let node = if pod.phase == "Succeeded" { &none } else { &pod.node };
        if let Some(before) = before {
            if before == node {
                return before.clone();
            }
            self.leave(before);
        }
        if node.is_empty() {
            return none;
        }
        // All its pods share the name.
        let node = self.0.get_key_value(node).map_or(node, |(known, _)| known).clone();
        self.0.entry(node.clone()).or_default().pods += 1;
        node
    }

    /// Removes a pod, and with the last one the node.
    pub(super) fn leave(&mut self, node: &str) {
        let Some(count) = self.0.get_mut(node) else { return };
        count.pods = count.pods.saturating_sub(1);
        if count.pods == 0 {
            self.0.remove(node);
        }
    }

    /// Counts a pod that became a suspect, or stopped being one.
    pub(super) fn set_suspect(&mut self, node: &str, is_suspect: bool) {
        if let Some(count) = self.0.get_mut(node) {
            count.set_suspect(is_suspect);
        }
    }

    pub(super) fn count(&self, node: &str) -> PodCount {
        self.0.get(node).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(node: &str, phase: &str) -> Pod {
        Pod { node: node.into(), phase: phase.into(), ..Pod::default() }
    }

    #[test]
    fn counts_the_pods_of_each_node_until_they_succeed_or_go() {
        let mut nodes = Nodes::default();
        let pending = nodes.update(None, &pod("", "Pending"));
        assert_eq!((pending.as_str(), nodes.count("")), ("", PodCount::default()));
        let scheduled = nodes.update(Some(&pending), &pod("a", "Pending"));
        let other = nodes.update(None, &pod("a", "Running"));
        assert!(ArcStr::ptr_eq(&scheduled, &other));
        assert_eq!(nodes.update(Some(&scheduled), &pod("a", "Running")), "a");
        nodes.set_suspect(&other, true);
        assert_eq!(nodes.count("a"), PodCount { pods: 2, suspects: 1 });
        assert_eq!(nodes.update(Some(&scheduled), &pod("a", "Succeeded")), "");
        nodes.leave("");
        assert_eq!(nodes.count("a"), PodCount { pods: 1, suspects: 1 });
        nodes.leave(&other);
        assert_eq!(nodes.count("a"), PodCount::default());
        nodes.update(None, &pod("a", "Running"));
        assert_eq!(nodes.count("a"), PodCount { pods: 1, suspects: 0 });
    }
}
