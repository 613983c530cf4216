//! The order in which due objects are reconciled: the namespace that has taken the least time comes next. So a namespace
//! with many objects, or with expensive ones, has no larger share than others. A namespace that becomes busy takes its turn
//! after one reconcile of another one and those that became busy before it, unless it has taken more time than others
//! already.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use crate::api::NamespacedName;

/// The places of this many idle namespaces are remembered.
const IDLE: usize = 64;

/// The due objects of each namespace.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The names of the due objects, those that have waited longest first. No queue is empty.
    due: HashMap<String, VecDeque<String>>,
    /// The namespaces with due objects.
    order: BTreeSet<(Place, String)>,
    /// The places of those namespaces in `order` that have had a turn since they became busy.
    served: BTreeSet<Place>,
    /// The place of each namespace, and of some that are idle, so that one that often becomes idle gets no more turns.
    places: HashMap<String, Place>,
    arrivals: u64,
}

/// A place in the order. No two are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// How much time the namespace has taken.
    time: Duration,
    arrival: u64,
    /// Of a namespace that became busy behind another one, its own arrival; 0 once it has had a turn. With the place behind
    /// the first one that has had a turn, and not before it, an endless stream of new namespaces does not hold up others.
    behind: u64,
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
            self.places.clear();
        }
        self.arrivals += 1;
        let first = self.served.first().copied().or_else(|| self.order.first().map(|(first, _)| *first));
        let first = first.unwrap_or_default();
        let own = self.places.get(&namespace).map(|own| own.time).filter(|own| *own > first.time);
        let place = match own {
            Some(time) => Place { time, arrival: self.arrivals, behind: 0 },
            None => Place { behind: self.arrivals, ..first },
        };
        self.insert(&namespace, place);
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
        let Some(before) = self.places.get(namespace).copied() else { return };
        let arrival = if before.behind > 0 { before.behind } else { before.arrival };
        let place = Place { time: before.time + took, arrival, behind: 0 };
        if self.order.remove(&(before, namespace.to_owned())) {
            self.served.remove(&before);
            self.insert(namespace, place);
        } else {
            self.places.insert(namespace.to_owned(), place);
        }
        if self.places.len() > self.due.len() + IDLE {
            self.places.retain(|namespace, _| self.due.contains_key(namespace));
        }
    }

    fn insert(&mut self, namespace: &str, place: Place) {
        if place.behind == 0 {
            self.served.insert(place);
        }
        self.order.insert((place, namespace.to_owned()));
        self.places.insert(namespace.to_owned(), place);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    fn drop_if_idle(&mut self, namespace: &str) {
        if self.due.get(namespace).is_some_and(VecDeque::is_empty) {
            self.due.remove(namespace);
            let place = self.places.get(namespace).copied().unwrap_or_default();
            self.served.remove(&place);
            self.order.remove(&(place, namespace.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
    fn a_namespace_that_becomes_busy_often_has_no_larger_share() {
        let mut turns = Turns::default();
        let busy = |namespace: usize| format!("busy{namespace}");
        for namespace in 0..4 {
            (0..1_000).for_each(|name| turns.add(key(&busy(namespace), name)));
        }
        let mut own = 0;
        for _ in 0..500 {
            if !turns.due.contains_key("often") {
                turns.add(key("often", 0));
            }
            own += take(&mut turns, 1, COST).iter().filter(|next| *next == "often").count();
        }
        assert!((99..=102).contains(&own), "{own} of 500");
    }

    proptest! {
        /// Whatever reconciles cost, a namespace that becomes busy waits for one of them, and for those that came before it.
        #[test]
        fn waits_for_one_reconcile_however_many_namespaces_are_busy(
            costs in prop::collection::vec(1_u64..50_000, 10),
            arrivals in prop::collection::vec(0_usize..8, 1..40),
        ) {
            let mut turns = Turns::default();
            for namespace in 0..costs.len() {
                (0..1_000).for_each(|name| turns.add(key(&format!("busy{namespace}"), name)));
            }
            let next = |turns: &mut Turns| {
                let key = turns.next().unwrap();
                let number = key.namespace.strip_prefix("busy").and_then(|number| number.parse::<usize>().ok());
                let cost = number.map_or(1_000, |number| costs[number]);
                turns.reconciled(&key.namespace, Duration::from_micros(cost));
                key.namespace
            };
            (0..20).for_each(|_| _ = next(&mut turns));
            for (round, pause) in arrivals.into_iter().enumerate() {
                (0..pause).for_each(|_| _ = next(&mut turns));
                turns.add(key(&format!("new{round}"), 0));
                let order = [next(&mut turns), next(&mut turns)];
                prop_assert!(order.contains(&format!("new{round}")), "{:?}", order);
            }
        }

        /// Each namespace that is busy has as many turns as new ones have that wait as long, and equal shares of time.
        #[test]
        fn a_stream_of_new_namespaces_starves_none(costs in prop::collection::vec(1_000_u64..20_000, 2..6)) {
            let mut turns = Turns::default();
            for namespace in 0..costs.len() {
                (0..5_000).for_each(|name| turns.add(key(&format!("busy{namespace}"), name)));
            }
            let mut taken = vec![0; costs.len()];
            for round in 0..4_000 {
                turns.add(key(&format!("new{round}"), 0));
                let key = turns.next().unwrap();
                let number = key.namespace.strip_prefix("busy").and_then(|number| number.parse::<usize>().ok());
                let cost = number.map_or(1_000, |number| costs[number]);
                number.into_iter().for_each(|number| taken[number] += cost);
                turns.reconciled(&key.namespace, Duration::from_micros(cost));
            }
            let (least, most) = (taken.iter().min().unwrap(), taken.iter().max().unwrap());
            prop_assert!(taken.iter().zip(&costs).map(|(taken, cost)| taken / cost).sum::<u64>() >= 30, "{:?}", taken);
            prop_assert!(most - least <= 2 * costs.iter().max().unwrap(), "{:?}", taken);
        }
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
        assert!(turns.places.len() <= 1, "{}", turns.places.len());

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
        let (places, due) = (turns.places.len(), turns.due.len());
        assert!(places <= due + IDLE + 1, "{places} of {due}");
    }
}
