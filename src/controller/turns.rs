//! The order in which due objects are reconciled: the namespace that has taken the least time comes next. So a namespace
//! with many objects, or with expensive ones, delays an object of another namespace by one reconcile at most, unless that
//! one takes as much time itself.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use crate::api::NamespacedName;

/// The times of this many idle namespaces are remembered.
const IDLE: usize = 64;

/// The due objects of each namespace.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The names of the due objects, those that have waited longest first. No queue is empty.
    due: HashMap<String, VecDeque<String>>,
    /// The namespaces with due objects, by the time that they have taken, and then by arrival.
    order: BTreeSet<(Used, String)>,
    /// How much time each namespace has taken. A namespace that becomes busy starts with the time of the one that has taken
    /// most, so that it cannot save turns up, and an endless stream of new namespaces does not hold up others.
    taken: HashMap<String, Used>,
    most: Duration,
    arrivals: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Used {
    time: Duration,
    arrival: u64,
}

impl Turns {
    /// Adds a due object. It must not be due already.
    pub(super) fn add(&mut self, NamespacedName { namespace, name }: NamespacedName) {
        if let Some(due) = self.due.get_mut(&namespace) {
            due.push_back(name);
            return;
        }
        if self.due.is_empty() {
            // Nothing waits, so nothing was delayed.
            self.taken.clear();
            self.most = Duration::ZERO;
        }
        let taken = Used { time: self.most, arrival: self.arrivals };
        self.taken.insert(namespace.clone(), taken);
        self.arrivals += 1;
        self.order.insert((taken, namespace.clone()));
        self.due.insert(namespace, VecDeque::from([name]));
    }

    /// Removes and returns the object whose turn it is.
    pub(super) fn next(&mut self) -> Option<NamespacedName> {
        let (_, namespace) = self.order.first()?.clone();
        let name = self.due.get_mut(&namespace)?.pop_front()?;
        self.drop_if_idle(&namespace);
        Some(NamespacedName { namespace, name })
    }

    /// An object is no longer due, because it was deleted.
    pub(super) fn remove(&mut self, key: &NamespacedName) {
        if let Some(due) = self.due.get_mut(&key.namespace) {
            due.retain(|name| *name != key.name);
            self.drop_if_idle(&key.namespace);
        }
    }

    /// Records a reconcile.
    pub(super) fn reconciled(&mut self, namespace: &str, took: Duration) {
        let Some(taken) = self.taken.get_mut(namespace) else { return };
        let before = *taken;
        taken.time += took;
        self.most = self.most.max(taken.time);
        if self.order.remove(&(before, namespace.to_owned())) {
            self.order.insert((*taken, namespace.to_owned()));
        }
        if self.taken.len() > self.due.len() + IDLE {
            self.taken.retain(|namespace, _| self.due.contains_key(namespace));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    fn drop_if_idle(&mut self, namespace: &str) {
        if self.due.get(namespace).is_some_and(VecDeque::is_empty) {
            self.due.remove(namespace);
            let taken = self.taken.get(namespace).copied().unwrap_or_default();
            self.order.remove(&(taken, namespace.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: Duration = Duration::from_millis(10);

    fn key(namespace: &str, name: usize) -> NamespacedName {
        NamespacedName::new(namespace, name.to_string())
    }

    /// Takes turns that take this long each, and returns the namespaces in their order.
    fn take(turns: &mut Turns, count: usize, cost: Duration) -> Vec<String> {
        let next = || {
            let key = turns.next()?;
            turns.reconciled(&key.namespace, cost);
            Some(key.namespace)
        };
        std::iter::from_fn(next).take(count).collect()
    }

    #[test]
    fn namespaces_take_turns_however_many_objects_they_have() {
        let mut turns = Turns::default();
        (0..1_000).for_each(|name| turns.add(key("many", name)));
        (0..2).for_each(|name| turns.add(key("few", name)));
        let order = take(&mut turns, 6, COST);
        assert_eq!(order, ["many", "few", "many", "few", "many", "many"]);
    }

    #[test]
    fn an_object_of_another_namespace_waits_for_one_reconcile() {
        let mut turns = Turns::default();
        (0..1_000).for_each(|name| turns.add(key("many", name)));
        take(&mut turns, 500, COST);
        for round in 0..10 {
            turns.add(key("other", round));
            let order = take(&mut turns, 2, COST);
            assert!(order.contains(&"other".to_owned()), "{order:?} in round {round}");
            take(&mut turns, 5, COST);
        }
    }

    #[test]
    fn expensive_objects_have_fewer_turns() {
        let mut turns = Turns::default();
        (0..100).for_each(|name| turns.add(key("cheap", name)));
        (0..100).for_each(|name| turns.add(key("expensive", name)));
        let mut counts = HashMap::<String, u32>::new();
        for _ in 0..55 {
            let next = turns.next().unwrap();
            let cost = if next.namespace == "cheap" { COST / 10 } else { COST };
            turns.reconciled(&next.namespace, cost);
            *counts.entry(next.namespace).or_default() += 1;
        }
        assert!((49..=51).contains(&counts["cheap"]), "{counts:?}");
    }

    #[test]
    fn an_idle_namespace_does_not_save_turns_up() {
        let mut turns = Turns::default();
        (0..100).for_each(|name| turns.add(key("busy", name)));
        take(&mut turns, 50, COST);
        (0..100).for_each(|name| turns.add(key("idle", name)));
        let order = take(&mut turns, 20, COST);
        assert_eq!(order.iter().filter(|namespace| *namespace == "idle").count(), 10, "{order:?}");
    }

    #[test]
    fn an_endless_stream_of_new_namespaces_delays_no_other() {
        let mut turns = Turns::default();
        (0..100).for_each(|name| turns.add(key("shop", name)));
        let mut own = 0;
        for namespace in 0..200 {
            turns.add(key(&format!("n{namespace}"), 0));
            own += take(&mut turns, 1, COST).iter().filter(|next| *next == "shop").count();
        }
        assert!(own >= 10, "{own} of 200, although there is one new namespace for each turn");
    }

    #[test]
    fn objects_of_a_namespace_keep_their_order_and_deleted_ones_have_no_turn() {
        let mut turns = Turns::default();
        (0..4).for_each(|name| turns.add(key("shop", name)));
        turns.remove(&key("shop", 1));
        let order: Vec<_> = std::iter::from_fn(|| turns.next()).map(|key| key.name).collect();
        assert_eq!(order, ["0", "2", "3"]);
        assert!(turns.is_empty());
    }

    #[test]
    fn keeps_little_of_namespaces_that_are_gone() {
        let mut turns = Turns::default();
        for namespace in 0..10_000 {
            let key = key(&format!("n{namespace}"), 0);
            turns.add(key.clone());
            if namespace % 2 == 0 {
                turns.remove(&key);
            }
            take(&mut turns, 1, COST);
        }
        assert!(turns.is_empty() && turns.order.is_empty());
        assert!(turns.taken.len() <= 1, "{}", turns.taken.len());

        turns.add(key("always", 0));
        for namespace in 0..10_000 {
            turns.add(key(&format!("n{namespace}"), 0));
            for _ in 0..2 {
                let next = turns.next().unwrap();
                turns.reconciled(&next.namespace, COST);
                if next.namespace == "always" {
                    turns.add(next);
                }
            }
        }
        let (taken, due) = (turns.taken.len(), turns.due.len());
        assert!(taken <= due + IDLE + 1, "{taken} of {due}");
    }
}
