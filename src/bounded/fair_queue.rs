//! A queue that is fair between namespaces. Next comes the namespace that has the fewest items running, and of these the one
//! that has taken the least. What an item takes is what the caller charges: the time of a reconcile, or one for each
//! request. So a namespace with many items, or with expensive ones, has no larger share than others. A namespace that becomes
//! busy takes its turn after one item of another one, and after those that became busy before it, unless it has taken more
//! than others already.
//!
//! Within a namespace, items wait in lanes, which take turns: for example, reads of logs wait by node.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    hash::Hash,
    sync::Arc,
};

/// How many namespaces there are at least before those that are idle are forgotten. Until then, one that is idle keeps
/// what it has taken, so that one that often becomes idle gets no more turns.
const SWEEP_AT: usize = 64;

/// Where an item waits within its namespace.
pub(crate) trait Lane: Clone + Eq + Hash {
    /// Whether two lanes belong to one group. Groups take turns, and so do the lanes of each group.
    fn is_beside(&self, other: &Self) -> bool;
}

/// The only lane.
impl Lane for () {
    fn is_beside(&self, (): &Self) -> bool {
        true
    }
}

#[derive(Debug)]
pub(crate) struct FairQueue<T, L = ()> {
    shares: HashMap<Arc<str>, Share<T, L>>,
    waiting: usize,
    running: Arc<()>,
    arrivals: u64,
    sweep_at: usize,
}

/// The items of one namespace.
#[derive(Debug)]
struct Share<T, L> {
    /// Those of one lane in the order in which they arrived.
    lanes: HashMap<L, VecDeque<T>>,
    /// The lane whose turn it is comes first.
    turns: VecDeque<L>,
    waiting: usize,
    running: Arc<()>,
    place: Place,
}

/// A place in the order of namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// How much the namespace has taken.
    taken: u64,
    arrival: u64,
    /// For a namespace that started waiting behind another one, its own arrival; 0 once it has had a turn. With the place
    /// behind the first one that has had a turn, and not before it, an endless stream of new namespaces does not hold up
    /// others.
    behind: u64,
}

/// Counts an item as running until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _all: Arc<()>,
    _namespace: Arc<()>,
}

impl<T, L> Default for FairQueue<T, L> {
    fn default() -> Self {
        Self { shares: HashMap::new(), waiting: 0, running: Arc::default(), arrivals: 0, sweep_at: SWEEP_AT }
    }
}

impl<T, L: Lane> FairQueue<T, L> {
    /// Adds an item.
    pub(crate) fn push(&mut self, namespace: &str, lane: L, item: T) {
        if self.waiting_of(namespace) == 0 {
            self.join(namespace);
        }
        if let Some(share) = self.shares.get_mut(namespace) {
            share.push(lane, item);
            self.waiting += 1;
        }
    }

    /// Gives a namespace that becomes busy its place.
    fn join(&mut self, namespace: &str) {
        if self.waiting == 0 {
            // Nothing waits, so nothing was delayed.
            self.shares.retain(|_, share| share.running() > 0);
            self.shares.values_mut().for_each(|share| share.place = Place::default());
        } else if self.shares.len() >= self.sweep_at {
            self.shares.retain(|_, share| share.waiting > 0 || share.running() > 0);
            self.sweep_at = (2 * self.shares.len()).max(SWEEP_AT);
        }
        self.arrivals += 1;
        let busy = self.shares.values().filter(|share| share.waiting > 0).map(|share| share.place);
        let served = busy.clone().filter(|place| place.behind == 0).min();
        let first = served.or_else(|| busy.min()).unwrap_or_default();
        let own = &mut self.shares.entry(namespace.into()).or_insert_with(Share::new).place;
        *own = if own.taken > first.taken {
            Place { taken: own.taken, arrival: self.arrivals, behind: 0 }
        } else {
            Place { behind: self.arrivals, ..first }
        };
    }

    /// Removes and returns the item whose turn it is, with its namespace.
    pub(crate) fn pop(&mut self) -> Option<(Arc<str>, T)> {
        self.pop_if(|_, _| true, |_, _| Some(())).map(|(namespace, item, ())| (namespace, item))
    }

    /// The same for items that may run now. `admits` is whether any item of a namespace may run, of which so many run
    /// already. `allow` decides about the first item of a lane; if it returns none, other lanes and namespaces are tried.
    pub(crate) fn pop_if<P>(
        &mut self,
        admits: impl Fn(&Arc<str>, usize) -> bool,
        mut allow: impl FnMut(&L, &T) -> Option<P>,
    ) -> Option<(Arc<str>, T, P)> {
        let busy = self.shares.iter().filter(|(_, share)| share.waiting > 0);
        let admitted = busy.filter(|(namespace, share)| admits(namespace, share.running()));
        let order = admitted.map(|(namespace, share)| Reverse((share.running(), share.place, Arc::clone(namespace))));
        let mut order: BinaryHeap<_> = order.collect();
        while let Some(Reverse((.., namespace))) = order.pop() {
            let share = self.shares.get_mut(&namespace)?;
            if let Some((item, permit)) = share.take(&mut allow) {
                self.waiting -= 1;
                return Some((namespace, item, permit));
            }
        }
        None
    }

    /// Counts an item of a namespace as running.
    pub(crate) fn begin(&self, namespace: &str) -> Turn {
        let own = self.shares.get(namespace).map(|share| Arc::clone(&share.running));
        Turn { _all: Arc::clone(&self.running), _namespace: own.unwrap_or_default() }
    }

    /// How many items run.
    pub(crate) fn running(&self) -> usize {
        Arc::strong_count(&self.running) - 1
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
        let Some(share) = self.shares.get_mut(namespace) else { return };
        let before = share.waiting;
        share.lanes.values_mut().for_each(|items| items.retain(|item| !is_gone(item)));
        share.lanes.retain(|_, items| !items.is_empty());
        share.turns.retain(|lane| share.lanes.contains_key(lane));
        share.waiting = share.lanes.values().map(VecDeque::len).sum();
        self.waiting -= before - share.waiting;
    }

    /// Removes an item that was added late.
    pub(crate) fn pop_last(&mut self, namespace: &str) -> Option<T> {
        let share = self.shares.get_mut(namespace)?;
        let lane = share.turns.back()?.clone();
        let item = share.lanes.get_mut(&lane)?.pop_back()?;
        share.removed(lane);
        self.waiting -= 1;
        Some(item)
    }

    /// The items of a namespace.
    pub(crate) fn items_mut(&mut self, namespace: &str) -> impl Iterator<Item = &mut T> {
        self.shares.get_mut(namespace).into_iter().flat_map(|share| share.lanes.values_mut().flatten())
    }

    /// The first item of each lane.
    pub(crate) fn heads(&self) -> impl Iterator<Item = &T> {
        self.shares.values().flat_map(|share| share.lanes.values().filter_map(VecDeque::front))
    }

    /// The namespace in which most items wait.
    pub(crate) fn longest(&self) -> Option<Arc<str>> {
        let (namespace, _) = self.shares.iter().max_by_key(|(_, share)| share.waiting)?;
        Some(Arc::clone(namespace))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many items wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// How many items of a namespace wait.
    pub(crate) fn waiting_of(&self, namespace: &str) -> usize {
        self.shares.get(namespace).map_or(0, |share| share.waiting)
    }
}

impl<T, L: Lane> Share<T, L> {
    fn new() -> Self {
        let (lanes, turns) = (HashMap::new(), VecDeque::new());
        Self { lanes, turns, waiting: 0, running: Arc::default(), place: Place::default() }
    }

    fn running(&self) -> usize {
        Arc::strong_count(&self.running) - 1
    }

    fn push(&mut self, lane: L, item: T) {
        let turns = &mut self.turns;
        let items = self.lanes.entry(lane).or_insert_with_key(|lane| {
            turns.push_back(lane.clone());
            VecDeque::new()
        });
        items.push_back(item);
        self.waiting += 1;
    }

    /// Takes an item from the first lane for which `allow` returns something. The other lanes of its group, and then this
    /// lane, come last the next time.
    fn take<P>(&mut self, allow: &mut impl FnMut(&L, &T) -> Option<P>) -> Option<(T, P)> {
        let first = |lane: &L| Some((lane.clone(), allow(lane, self.lanes.get(lane)?.front()?)?));
        let (lane, permit) = self.turns.iter().find_map(first)?;
        let item = self.lanes.get_mut(&lane)?.pop_front()?;
        self.turns.make_contiguous().sort_by_key(|own| (own.is_beside(&lane), *own == lane));
        self.removed(lane);
        Some((item, permit))
    }

    /// An item of this lane, which is the last one, was removed.
    fn removed(&mut self, lane: L) {
        self.waiting -= 1;
        if self.lanes.get(&lane).is_some_and(VecDeque::is_empty) {
            self.lanes.remove(&lane);
            self.turns.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const COST: u64 = 10;

    fn add(queue: &mut FairQueue<usize>, namespace: &str, items: usize) {
        (0..items).for_each(|item| queue.push(namespace, (), item));
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

    /// A lane of the group that its first letter names.
    impl Lane for &'static str {
        fn is_beside(&self, other: &Self) -> bool {
            self[..1] == other[..1]
        }
    }

    #[test]
    fn groups_and_their_lanes_take_turns() {
        let mut queue = FairQueue::default();
        for (item, lane) in ["ax", "ax", "ay", "bx"].into_iter().enumerate() {
            queue.push("shop", lane, item);
        }
        let other = queue.pop_if(|_, _| true, |lane, _| (*lane == "bx").then_some(()));
        assert_eq!(other.map(|(_, item, ())| item), Some(3));
        queue.push("shop", "bx", 3);
        assert!(queue.pop_if(|namespace, _| &**namespace == "bank", |_, _| Some(())).is_none());
        assert!(queue.pop_if(|_, _| true, |_, _| None::<()>).is_none());
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, item)| item).collect();
        assert_eq!(order, [0, 3, 2, 1]);
        assert!(queue.is_empty() && queue.shares["shop"].turns.is_empty() && queue.shares["shop"].lanes.is_empty());
    }

    #[test]
    fn the_namespace_with_the_fewest_running_items_comes_next() {
        let mut queue = FairQueue::default();
        add(&mut queue, "slow", 100);
        let mut start = || {
            let (namespace, _) = queue.pop().unwrap();
            queue.begin(&namespace)
        };
        let running = [start(), start(), start()];
        add(&mut queue, "fast", 100);
        assert_eq!(queue.running(), 3);
        assert_eq!(take(&mut queue, 10), ["fast"; 10], "it charges much, but nothing of it runs");
        drop(running);
        assert!(take(&mut queue, 20).contains(&"slow".to_owned()));
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
        #![proptest_config(ProptestConfig::with_cases(64))]

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
