//! The nodes of the watched pods, by number, and how many pods each has.

use std::{collections::HashMap, sync::Arc};

use crate::pods::Pod;

use super::label_set::PodCount;

/// The index of a node in [`Nodes`]. The indexes of removed nodes are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeId(u32);

/// Of a pod that is on no node.
const NONE: NodeId = NodeId(u32::MAX);

/// All nodes that have pods.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    ids: HashMap<Arc<str>, NodeId>,
    slots: Vec<Node>,
    free: Vec<NodeId>,
}

#[derive(Debug)]
struct Node {
    name: Arc<str>,
    count: PodCount,
}

impl Nodes {
    /// Moves a pod from the node of its previous version, if any, to its present one. A pod that has succeeded no
    /// longer uses the node, and is not counted.
    pub(super) fn update(&mut self, before: Option<NodeId>, pod: &Pod) -> NodeId {
        let name = if pod.phase == "Succeeded" { "" } else { pod.node.as_str() };
        match before {
            Some(id) if self.name(id) == name => return id,
            Some(id) => self.leave(id),
            None => {}
        }
        self.join(name)
    }

    fn join(&mut self, name: &str) -> NodeId {
        if name.is_empty() {
            return NONE;
        }
        if let Some(&id) = self.ids.get(name) {
            self.slots[id.0 as usize].count.pods += 1;
            return id;
        }
        let name: Arc<str> = name.into();
        let node = Node { name: Arc::clone(&name), count: PodCount { pods: 1, suspects: 0 } };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = node;
                id
            }
            None => {
                self.slots.push(node);
                NodeId(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.ids.insert(name, id);
        id
    }

    /// Removes a pod, and with the last one the node.
    pub(super) fn leave(&mut self, id: NodeId) {
        let Some(node) = self.slots.get_mut(id.0 as usize) else { return };
        node.count.pods = node.count.pods.saturating_sub(1);
        if node.count.pods == 0 {
            self.ids.remove(&node.name);
            node.name = Arc::from("");
            node.count.suspects = 0;
            self.free.push(id);
        }
    }

    /// Counts a pod that became a suspect, or stopped being one.
    pub(super) fn set_suspect(&mut self, id: NodeId, is_suspect: bool) {
        let Some(node) = self.slots.get_mut(id.0 as usize) else { return };
        node.count.suspects = match is_suspect {
            true => node.count.suspects + 1,
            false => node.count.suspects.saturating_sub(1),
        };
    }

    pub(super) fn count(&self, name: &str) -> PodCount {
        let node = self.ids.get(name).and_then(|id| self.slots.get(id.0 as usize));
        node.map(|node| node.count).unwrap_or_default()
    }

    fn name(&self, id: NodeId) -> &str {
        self.slots.get(id.0 as usize).map_or("", |node| &node.name)
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
        assert_eq!((pending, nodes.count("")), (NONE, PodCount::default()));
        let scheduled = nodes.update(Some(pending), &pod("a", "Pending"));
        let other = nodes.update(None, &pod("a", "Running"));
        assert_eq!(scheduled, other);
        assert_eq!(nodes.update(Some(scheduled), &pod("a", "Running")), scheduled);
        nodes.set_suspect(other, true);
        assert_eq!(nodes.count("a"), PodCount { pods: 2, suspects: 1 });
        assert_eq!(nodes.update(Some(scheduled), &pod("a", "Succeeded")), NONE);
        nodes.leave(NONE);
        assert_eq!(nodes.count("a"), PodCount { pods: 1, suspects: 1 });
        nodes.leave(other);
        assert_eq!(nodes.count("a"), PodCount::default());
        let reused = nodes.update(None, &pod("b", "Running"));
        assert_eq!((reused, nodes.slots.len(), nodes.count("b")), (other, 1, PodCount { pods: 1, suspects: 0 }));
    }
}
