//! A queue that is fair between namespaces: the one that has taken the least comes next. What it takes is what the caller
//! charges: the time of reconciles, or the number of requests. So a namespace with many items, or with expensive ones, has no
//! larger share than others. A namespace that becomes busy takes its turn after one item of another one, and after those that
//! became busy before it, unless it has taken more than others already.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// How many namespaces there are at least before those that are idle are forgotten. Until then, one that is idle keeps
/// what it has taken, so that one that often becomes idle gets no more turns.
const SWEEP_AT: usize = 64;

#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    shares: HashMap<Arc<str>, Share<T>>,
    waiting: usize,
    arrivals: u64,
    sweep_at: usize,
}

/// The items of one namespace, those that have waited longest first.
#[derive(Debug)]
struct Share<T> {
    items: VecDeque<T>,
    place: Place,
}

/// A place in the order of namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// How much the namespace has taken.
    taken: u64,
    arrival: u64,
    /// For a namespace that became busy behind another one, its own arrival; 0 once it has had a turn. With the place behind
    /// the first one that has had a turn, and not before it, an endless stream of new namespaces does not hold up others.
    behind: u64,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { shares: HashMap::new(), waiting: 0, arrivals: 0, sweep_at: SWEEP_AT }
    }
}

impl<T> FairQueue<T> {
    /// Adds an item.
    pub(crate) fn push(&mut self, namespace: &str, item: T) {
        if self.waiting_of(namespace) == 0 {
            self.join(namespace);
        }
        if let Some(share) = self.shares.get_mut(namespace) {
            share.items.push_back(item);
            self.waiting += 1;
        }
    }

    /// Gives a namespace that becomes busy its place.
    fn join(&mut self, namespace: &str) {
        if self.waiting == 0 {
            // Nothing waits, so nothing was delayed.
            self.shares.clear();
        } else if self.shares.len() >= self.sweep_at {
            self.shares.retain(|_, share| !share.items.is_empty());
            self.sweep_at = (2 * self.shares.len()).max(SWEEP_AT);
        }
        self.arrivals += 1;
        let busy = self.shares.values().filter(|share| !share.items.is_empty()).map(|share| share.place);
        let served = busy.clone().filter(|place| place.behind == 0).min();
        let first = served.or_else(|| busy.min()).unwrap_or_default();
        let own = self
            .shares
            .entry(namespace.into())
            .or_insert_with(|| Share { items: VecDeque::new(), place: Place::default() });
        own.place = if own.place.taken > first.taken {
            Place { taken: own.place.taken, arrival: self.arrivals, behind: 0 }
        } else {
            Place { behind: self.arrivals, ..first }
        };
    }

    /// Removes and returns the item whose turn it is, with its namespace.
    pub(crate) fn pop(&mut self) -> Option<(Arc<str>, T)> {
        let busy = self.shares.iter().filter(|(_, share)| !share.items.is_empty());
        let (namespace, _) = busy.min_by_key(|(_, share)| share.place)?;
        let namespace = Arc::clone(namespace);
        let share = self.shares.get_mut(&namespace)?;
        let item = share.items.pop_front()?;
        self.waiting -= 1;
        Some((namespace, item))
    }

    /// Records what an item has taken.
    pub(crate) fn charge(&mut self, namespace: &str, taken: u64) {
        if let Some(Share { place, .. }) = self.shares.get_mut(namespace) {
            let arrival = if place.behind > 0 { place.behind } else { place.arrival };
            *place = Place { taken: place.taken.saturating_add(taken), arrival, behind: 0 };
        }
    }

    /// Removes the items of a namespace for which `is_gone` returns true.
    pub(crate) fn remove(&mut self, namespace: &str, is_gone: impl Fn(&T) -> bool) {
        if let Some(share) = self.shares.get_mut(namespace) {
            let before = share.items.len();
            share.items.retain(|item| !is_gone(item));
            self.waiting -= before - share.items.len();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many items of a namespace wait.
    fn waiting_of(&self, namespace: &str) -> usize {
        self.shares.get(namespace).map_or(0, |share| share.items.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COST: u64 = 10;

    fn add(queue: &mut FairQueue<usize>, namespace: &str, items: usize) {
        (0..items).for_each(|item| queue.push(namespace, item));
    }

    /// Takes items that cost as much as `cost` says, and returns their namespaces.
    fn take_for(queue: &mut FairQueue<usize>, count: usize, cost: impl Fn(&str) -> u64) -> Vec<String> {
        let next = || {
            let (namespace, _) = queue.pop()?;
            queue.charge(&namespace, cost(&namespace));
            Some(namespace.to_string())
        };
        std::iter::from_fn(next).take(count).collect()
    }

    fn take(queue: &mut FairQueue<usize>, count: usize) -> Vec<String> {
        take_for(queue, count, |_| COST)
    }

    #[test]
    fn namespaces_take_turns_however_many_items_they_have() {
        let mut queue = FairQueue::default();
        add(&mut queue, "many", 1_000);
        add(&mut queue, "few", 2);
        assert_eq!(take(&mut queue, 6), ["many", "few", "many", "few", "many", "many"]);
        for _ in 0..10 {
            add(&mut queue, "other", 1);
            assert!(take(&mut queue, 2).contains(&"other".to_owned()), "it waits for one");
        }
        assert_eq!(take(&mut queue, 2_000).len(), 986);
        assert!(queue.is_empty());
    }

    #[test]
    fn expensive_items_have_fewer_turns() {
        let mut queue = FairQueue::default();
        add(&mut queue, "cheap", 100);
        add(&mut queue, "expensive", 100);
        let order = take_for(&mut queue, 55, |namespace| if namespace == "cheap" { COST / 10 } else { COST });
        let cheap = order.iter().filter(|namespace| *namespace == "cheap").count();
        assert!((49..=51).contains(&cheap), "{cheap}");
    }

    #[test]
    fn an_idle_namespace_does_not_save_turns_up() {
        let mut queue = FairQueue::default();
        add(&mut queue, "busy", 100);
        take(&mut queue, 50);
        add(&mut queue, "idle", 100);
        let order = take(&mut queue, 20);
        assert_eq!(order.iter().filter(|namespace| *namespace == "idle").count(), 10, "{order:?}");
    }

    #[test]
    fn a_namespace_that_becomes_busy_often_has_no_larger_share() {
        let mut queue = FairQueue::default();
        (0..4).for_each(|namespace| add(&mut queue, &format!("busy{namespace}"), 1_000));
        let mut own = 0;
        for _ in 0..500 {
            if queue.waiting_of("often") == 0 {
                add(&mut queue, "often", 1);
            }
            own += take(&mut queue, 1).iter().filter(|next| *next == "often").count();
        }
        assert!((99..=102).contains(&own), "{own} of 500");
    }

    #[test]
    fn items_keep_their_order_and_removed_ones_have_no_turn() {
        let mut queue = FairQueue::default();
        add(&mut queue, "shop", 4);
        queue.remove("shop", |item| *item == 1);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, [0, 2, 3]);
    }

    #[test]
    fn keeps_little_of_namespaces_that_are_gone() {
        let mut queue = FairQueue::default();
        add(&mut queue, "always", 20_000);
        for namespace in 0..10_000 {
            let namespace = format!("n{namespace}");
            add(&mut queue, &namespace, 1);
            take(&mut queue, 2);
        }
        assert!(queue.shares.len() <= SWEEP_AT + 1, "{}", queue.shares.len());
    }

    /// The cost of each item of the namespace `busy0` and so on, and of any other.
    fn cost_of(costs: &[u64]) -> impl Fn(&str) -> u64 {
        |namespace| {
            let number = namespace.strip_prefix("busy").and_then(|number| number.parse::<usize>().ok());
            number.map_or(1_000, |number| costs[number])
        }
    }

    proptest! {
        /// Whatever items cost, a namespace that becomes busy waits for one of them, and for those that came before it.
        #[test]
        fn waits_for_one_item_however_many_namespaces_are_busy(
            costs in prop::collection::vec(1_u64..50_000, 10),
            arrivals in prop::collection::vec(0_usize..8, 1..40),
        ) {
            let mut queue = FairQueue::default();
            (0..costs.len()).for_each(|namespace| add(&mut queue, &format!("busy{namespace}"), 1_000));
            take_for(&mut queue, 20, cost_of(&costs));
            for (round, pause) in arrivals.into_iter().enumerate() {
                take_for(&mut queue, pause, cost_of(&costs));
                add(&mut queue, &format!("new{round}"), 1);
                let order = take_for(&mut queue, 2, cost_of(&costs));
                prop_assert!(order.contains(&format!("new{round}")), "{:?}", order);
            }
        }

        /// Each namespace that is busy has as many turns as new ones have that wait as long, and equal shares.
        #[test]
        fn a_stream_of_new_namespaces_starves_none(costs in prop::collection::vec(1_000_u64..20_000, 2..6)) {
            let mut queue = FairQueue::default();
            (0..costs.len()).for_each(|namespace| add(&mut queue, &format!("busy{namespace}"), 5_000));
            let mut turns = vec![0; costs.len()];
            for round in 0..4_000 {
                add(&mut queue, &format!("new{round}"), 1);
                let next = take_for(&mut queue, 1, cost_of(&costs));
                let number = next[0].strip_prefix("busy").and_then(|number| number.parse::<usize>().ok());
                number.into_iter().for_each(|number| turns[number] += 1);
            }
            let taken: Vec<_> = turns.iter().zip(&costs).map(|(turns, cost)| turns * cost).collect();
            let (least, most) = (taken.iter().min().unwrap(), taken.iter().max().unwrap());
            prop_assert!(turns.iter().sum::<u64>() >= 30, "{:?}", turns);
            prop_assert!(most - least <= 2 * costs.iter().max().unwrap(), "{:?}", taken);
        }
    }
}
