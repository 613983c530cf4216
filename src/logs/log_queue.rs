//! The reads and redactions of logs that wait, in a [`FairQueue`]. The tasks of one namespace take turns by node, so that a
//! node that does not respond delays only its own pods, and those of one node by the pods' namespace. No I/O and no clock.

use std::sync::Arc;

use crate::bounded::{FairQueue, Lane, Turn};

/// Bounds of a [`LogQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Tasks that run concurrently. One namespace gets at most three quarters of them.
    pub running: usize,
    /// Tasks that wait.
    pub waiting: usize,
    /// Of those, the tasks of one namespace.
    pub waiting_per_namespace: usize,
}

#[derive(Debug)]
pub(super) struct LogQueue<T> {
    limits: QueueLimits,
    tasks: FairQueue<T, OnNode>,
}

/// Where a task waits within the namespace of the object that asks: the node and the namespace of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct OnNode {
    pub(super) node: Arc<str>,
    pub(super) pod_namespace: Arc<str>,
}

impl Lane for OnNode {
    fn is_beside(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

impl<T> LogQueue<T> {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self { limits, tasks: FairQueue::default() }
    }

    /// Adds a task. If the queue is full, it returns a task that gets no place: one of the namespace with the most tasks,
    /// or this one.
    pub(super) fn push(&mut self, namespace: &Arc<str>, lane: OnNode, task: T) -> Option<(Arc<str>, T)> {
        let own = self.waiting_of(namespace);
        if own >= self.limits.waiting_per_namespace {
            return Some((Arc::clone(namespace), task));
        }
        let mut displaced = None;
        if self.tasks.len() >= self.limits.waiting {
            let Some(longest) = self.tasks.longest().filter(|longest| self.waiting_of(longest) > own + 1) else {
                return Some((Arc::clone(namespace), task));
            };
            displaced = self.tasks.pop_last(&longest).map(|task| (longest, task));
        }
        self.tasks.push(namespace, lane, task);
        displaced
    }

    /// The next task that may run, with its namespace and what `allow` returned for its node. `is_eligible` is whether
    /// tasks of a namespace may start.
    pub(super) fn pop<P>(
        &mut self,
        is_eligible: impl Fn(&Arc<str>) -> bool,
        mut allow: impl FnMut(&Arc<str>) -> Option<P>,
    ) -> Option<(Arc<str>, T, P, Turn)> {
        if self.tasks.running() >= self.limits.running {
            return None;
        }
        let most = (self.limits.running * 3 / 4).max(1);
        let admits = |namespace: &Arc<str>, running| running < most && is_eligible(namespace);
        let (namespace, task, permit) = self.tasks.pop_if(admits, |lane, _| allow(&lane.node))?;
        self.tasks.charge(&namespace, 1);
        let turn = self.tasks.begin(&namespace);
        Some((namespace, task, permit, turn))
    }

    /// How many tasks of a namespace wait.
    pub(super) fn waiting_of(&self, namespace: &Arc<str>) -> usize {
        self.tasks.waiting_of(namespace)
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.tasks.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(running: usize, waiting: usize, waiting_per_namespace: usize) -> QueueLimits {
        QueueLimits { running, waiting, waiting_per_namespace }
    }

    /// Adds a task of a namespace that is about a pod on a node, in a namespace.
    fn push(queue: &mut LogQueue<u32>, [namespace, node, pods]: [&str; 3], task: u32) -> Option<(Arc<str>, u32)> {
        queue.push(&namespace.into(), OnNode { node: node.into(), pod_namespace: pods.into() }, task)
    }

    fn pop(queue: &mut LogQueue<u32>) -> Option<(u32, Turn)> {
        queue.pop(|_| true, |_| Some(())).map(|(_, task, (), turn)| (task, turn))
    }

    /// The order in which tasks are started if they run one after another.
    fn order(queue: &mut LogQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| pop(queue).map(|(task, _)| task)).collect()
    }

    #[test]
    fn namespaces_nodes_and_pod_namespaces_take_turns() {
        let mut queue = LogQueue::new(limits(8, 100, 100));
        let places =
            [["a", "n", "x"], ["a", "n", "x"], ["a", "n", "y"], ["a", "m", "x"], ["b", "n", "x"], ["b", "n", "x"]];
        for (task, place) in (0..).zip(places) {
            assert!(push(&mut queue, place, task).is_none());
        }
        assert_eq!(order(&mut queue), [0, 4, 3, 5, 2, 1]);
        assert_eq!(queue.waiting(), 0);
    }

    #[test]
    fn one_namespace_leaves_a_quarter_to_others() {
        let mut queue = LogQueue::new(limits(8, 100, 100));
        for task in 0..20 {
            push(&mut queue, ["a", "n", "x"], task);
        }
        let running: Vec<_> = std::iter::from_fn(|| pop(&mut queue)).collect();
        assert_eq!(running.len(), 6);
        for task in 20..40 {
            push(&mut queue, ["b", "n", "x"], task);
        }
        let others: Vec<_> = std::iter::from_fn(|| pop(&mut queue)).collect();
        assert_eq!(others.len(), 2, "eight in all");
        drop(running);
        let tasks: Vec<_> = std::iter::from_fn(|| pop(&mut queue)).collect();
        let own = tasks.iter().filter(|(task, _)| *task < 20).count();
        assert_eq!((own, tasks.len()), (4, 6), "half each");
    }

    #[test]
    fn skips_nodes_without_a_permit() {
        let mut queue = LogQueue::new(limits(8, 100, 100));
        for (task, node) in (0..).zip(["dead", "dead", "alive"]) {
            push(&mut queue, ["a", node, "x"], task);
        }
        let alive = queue.pop(|_| true, |node| (&**node == "alive").then_some(())).map(|(_, task, ..)| task);
        assert_eq!(alive, Some(2));
        assert!(queue.pop(|_| true, |node| (&**node == "alive").then_some(())).is_none());
        assert_eq!(order(&mut queue), [0, 1]);
    }

    #[test]
    fn a_full_queue_drops_tasks_of_the_namespace_with_the_most() {
        let mut queue = LogQueue::new(limits(8, 6, 5));
        for task in 0..5 {
            assert!(push(&mut queue, ["a", "n", "x"], task).is_none());
        }
        let full = |dropped: Option<(Arc<str>, u32)>| dropped.map(|(namespace, task)| (namespace.to_string(), task));
        assert_eq!(full(push(&mut queue, ["a", "n", "x"], 5)), Some(("a".to_owned(), 5)), "its own bound");
        assert!(push(&mut queue, ["b", "n", "x"], 6).is_none());
        assert_eq!(full(push(&mut queue, ["b", "n", "x"], 7)), Some(("a".to_owned(), 4)));
        assert_eq!(full(push(&mut queue, ["c", "n", "x"], 8)), Some(("a".to_owned(), 3)));
        assert_eq!(full(push(&mut queue, ["b", "n", "x"], 9)), Some(("b".to_owned(), 9)), "no one has more");
        assert_eq!(queue.waiting(), 6);
    }

    proptest! {
        /// However many tasks a tenant adds, on however many nodes, another's are started after at most one of the tenant's
        /// each, and the bounds hold.
        #[test]
        fn a_tenant_delays_each_task_of_another_by_one(
            hostile in prop::collection::vec((0..5_u8, 0..4_u8), 0..300),
            own in 1..20_u32,
        ) {
            let mut queue = LogQueue::new(limits(1, 200, 150));
            for (node, pods) in hostile {
                push(&mut queue, ["hostile", &node.to_string(), &pods.to_string()], u32::MAX);
                prop_assert!(queue.waiting() <= 150);
            }
            for task in 0..own {
                let dropped = push(&mut queue, ["other", "n", "x"], task);
                prop_assert!(dropped.is_none_or(|(namespace, _)| &*namespace == "hostile"));
                prop_assert!(queue.waiting() <= 200);
            }
            let order = order(&mut queue);
            for task in 0..own {
                let at = order.iter().position(|own| *own == task);
                prop_assert!(at.is_some_and(|at| at <= 2 * task as usize + 1), "{at:?} of {order:?}");
            }
        }
    }
}
