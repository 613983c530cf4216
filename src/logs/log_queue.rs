//! A queue that is fair between namespaces: it starts the next task of the namespace with the fewest running tasks. The
//! tasks of one namespace take turns by node, so that a node that does not respond delays only its own pods, and those of
//! one node by the pods' namespace. No I/O and no clock.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::Arc,
};

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

/// Where a task waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The namespace of the object that asks.
    pub(super) namespace: Arc<str>,
    pub(super) node: Arc<str>,
    pub(super) pod_namespace: Arc<str>,
}

#[derive(Debug)]
pub(super) struct LogQueue<T> {
    limits: QueueLimits,
    namespaces: HashMap<Arc<str>, Share<T>>,
    waiting: usize,
    /// How many tasks were started.
    started: u64,
    running: Arc<()>,
}

/// The tasks of one namespace.
#[derive(Debug)]
struct Share<T> {
    nodes: Turns<Arc<str>, Turns<Arc<str>, VecDeque<T>>>,
    waiting: usize,
    /// When its last task was started, as a number of tasks.
    served: u64,
    running: Arc<()>,
}

/// Counts a task as running until it is dropped, also if the task fails.
#[derive(Debug)]
pub struct Turn {
    _all: Arc<()>,
    _namespace: Arc<()>,
}

impl<T> LogQueue<T> {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self { limits, namespaces: HashMap::new(), waiting: 0, started: 0, running: Arc::default() }
    }

    /// Adds a task. If the queue is full, it returns a task that gets no place: one of the namespace with the most tasks,
    /// or this one.
    pub(super) fn push(&mut self, place: &Place, task: T) -> Option<(Arc<str>, T)> {
        let own = self.waiting_of(&place.namespace);
        if own >= self.limits.waiting_per_namespace {
            return Some((Arc::clone(&place.namespace), task));
        }
        let mut displaced = None;
        if self.waiting >= self.limits.waiting {
            let longest = self.namespaces.iter().max_by_key(|(_, share)| share.waiting);
            let Some((longest, _)) = longest.filter(|(_, share)| share.waiting > own + 1) else {
                return Some((Arc::clone(&place.namespace), task));
            };
            let longest = Arc::clone(longest);
            let last = self.namespaces.get_mut(&longest).and_then(Share::take_last);
            self.waiting -= usize::from(last.is_some());
            displaced = last.map(|task| (longest, task));
        }
        let share = self.namespaces.entry(Arc::clone(&place.namespace)).or_insert_with(Share::new);
        let tasks = share.nodes.entry(&place.node).entry(&place.pod_namespace);
        tasks.push_back(task);
        share.waiting += 1;
        self.waiting += 1;
        displaced
    }

    /// The next task that may run, with its namespace and what `allow` returned for its node. `is_eligible` is whether
    /// tasks of a namespace may start.
    pub(super) fn pop<P>(
        &mut self,
        is_eligible: impl Fn(&Arc<str>) -> bool,
        mut allow: impl FnMut(&Arc<str>) -> Option<P>,
    ) -> Option<(Arc<str>, T, P, Turn)> {
        if self.waiting == 0 || running(&self.running) >= self.limits.running {
            return None;
        }
        let most = (self.limits.running * 3 / 4).max(1);
        let mut candidates: Vec<_> = self
            .namespaces
            .iter()
            .filter(|(_, share)| share.waiting > 0 && running(&share.running) < most)
            .filter(|(namespace, _)| is_eligible(namespace))
            .map(|(namespace, share)| (running(&share.running), share.served, Arc::clone(namespace)))
            .collect();
        candidates.sort_unstable();
        for (_, _, namespace) in candidates {
            let Some(share) = self.namespaces.get_mut(&namespace) else { continue };
            let Some((task, permit)) = share.take_next(&mut allow) else { continue };
            self.waiting -= 1;
            self.started += 1;
            share.served = self.started;
            let turn = Turn { _all: Arc::clone(&self.running), _namespace: Arc::clone(&share.running) };
            return Some((namespace, task, permit, turn));
        }
        None
    }

    /// Forgets namespaces without tasks.
    pub(super) fn sweep(&mut self) {
        self.namespaces.retain(|_, share| share.waiting > 0 || running(&share.running) > 0);
    }

    /// How many tasks of a namespace wait.
    pub(super) fn waiting_of(&self, namespace: &Arc<str>) -> usize {
        self.namespaces.get(namespace).map_or(0, |share| share.waiting)
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }
}

fn running(token: &Arc<()>) -> usize {
    Arc::strong_count(token) - 1
}

impl<T> Share<T> {
    fn new() -> Self {
        Self { nodes: Turns::default(), waiting: 0, served: 0, running: Arc::default() }
    }

    fn take_next<P>(&mut self, allow: &mut impl FnMut(&Arc<str>) -> Option<P>) -> Option<(T, P)> {
        let mut permit = None;
        let task = self.nodes.take(|node, pods| {
            permit = Some(allow(node)?);
            let task = pods.take(|_, tasks| Some((tasks.pop_front()?, tasks.is_empty())))?;
            Some((task, pods.is_empty()))
        })?;
        self.waiting -= 1;
        Some((task, permit?))
    }

    /// Removes a task that was added late.
    fn take_last(&mut self) -> Option<T> {
        let task = self.nodes.take_back(|pods| {
            let task = pods.take_back(|tasks| Some((tasks.pop_back()?, tasks.is_empty())))?;
            Some((task, pods.is_empty()))
        })?;
        self.waiting -= 1;
        Some(task)
    }
}

/// Queues that take turns.
#[derive(Debug)]
struct Turns<K, Q> {
    order: VecDeque<K>,
    queues: HashMap<K, Q>,
}

impl<K, Q> Default for Turns<K, Q> {
    fn default() -> Self {
        Self { order: VecDeque::new(), queues: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash, Q: Default> Turns<K, Q> {
    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn entry(&mut self, key: &K) -> &mut Q {
        let Self { order, queues } = self;
        queues.entry(key.clone()).or_insert_with(|| {
            order.push_back(key.clone());
            Q::default()
        })
    }

    /// Takes a task from the first queue for which `take` returns one. `take` also returns whether the queue is empty
    /// then. Another queue comes first the next time.
    fn take<T>(&mut self, mut take: impl FnMut(&K, &mut Q) -> Option<(T, bool)>) -> Option<T> {
        for at in 0..self.order.len() {
            let Some(key) = self.order.get(at) else { break };
            let Some((task, is_empty)) = self.queues.get_mut(key).and_then(|queue| take(key, queue)) else { continue };
            if let Some(key) = self.order.remove(at) {
                if is_empty {
                    self.queues.remove(&key);
                } else {
                    self.order.push_back(key);
                }
            }
            return Some(task);
        }
        None
    }

    /// Takes a task from the last queue.
    fn take_back<T>(&mut self, take: impl FnOnce(&mut Q) -> Option<(T, bool)>) -> Option<T> {
        let key = self.order.back()?;
        let (task, is_empty) = self.queues.get_mut(key).and_then(take)?;
        if is_empty && let Some(key) = self.order.pop_back() {
            self.queues.remove(&key);
        }
        Some(task)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(running: usize, waiting: usize, waiting_per_namespace: usize) -> QueueLimits {
        QueueLimits { running, waiting, waiting_per_namespace }
    }

    fn place(namespace: &str, node: &str, pod_namespace: &str) -> Place {
        Place { namespace: namespace.into(), node: node.into(), pod_namespace: pod_namespace.into() }
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
        for (task, (namespace, node, pods)) in (0..).zip([
            ("a", "n", "x"),
            ("a", "n", "x"),
            ("a", "n", "y"),
            ("a", "m", "x"),
            ("b", "n", "x"),
            ("b", "n", "x"),
        ]) {
            assert!(queue.push(&place(namespace, node, pods), task).is_none());
        }
        assert_eq!(order(&mut queue), [0, 4, 3, 5, 2, 1]);
        queue.sweep();
        assert!(queue.namespaces.is_empty() && queue.waiting() == 0);
    }

    #[test]
    fn one_namespace_leaves_a_quarter_to_others() {
        let mut queue = LogQueue::new(limits(8, 100, 100));
        for task in 0..20 {
            queue.push(&place("a", "n", "x"), task);
        }
        let running: Vec<_> = std::iter::from_fn(|| pop(&mut queue)).collect();
        assert_eq!(running.len(), 6);
        for task in 20..40 {
            queue.push(&place("b", "n", "x"), task);
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
            queue.push(&place("a", node, "x"), task);
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
            assert!(queue.push(&place("a", "n", "x"), task).is_none());
        }
        let full = |dropped: Option<(Arc<str>, u32)>| dropped.map(|(namespace, task)| (namespace.to_string(), task));
        assert_eq!(full(queue.push(&place("a", "n", "x"), 5)), Some(("a".to_owned(), 5)), "its own bound");
        assert!(queue.push(&place("b", "n", "x"), 6).is_none());
        assert_eq!(full(queue.push(&place("b", "n", "x"), 7)), Some(("a".to_owned(), 4)));
        assert_eq!(full(queue.push(&place("c", "n", "x"), 8)), Some(("a".to_owned(), 3)));
        assert_eq!(full(queue.push(&place("b", "n", "x"), 9)), Some(("b".to_owned(), 9)), "no one has more");
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
                queue.push(&place("hostile", &node.to_string(), &pods.to_string()), u32::MAX);
                prop_assert!(queue.waiting() <= 150);
            }
            for task in 0..own {
                let dropped = queue.push(&place("other", "n", "x"), task);
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
