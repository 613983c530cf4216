//! Decides when to read what shows why no node takes a pod: once for all objects, and again after some minutes, while one of
//! them has such a pod.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    diagnosis::ClusterNodes,
    placement::{FRESH, PlacementFacts, PlacementKey, PlacementReading},
};

/// When a read is tried again that was denied. The right is optional: who does not grant it should not see many refusals.
const DENIED: Duration = Duration::from_secs(10 * 60);
/// When it is tried again after another error.
const RETRY: Duration = Duration::from_secs(60);
/// How long facts are kept after they were last asked for.
const UNUSED: Duration = Duration::from_secs(10 * 60);

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Placement {
    known: HashMap<PlacementKey, State>,
}

#[derive(Debug)]
struct State {
    facts: Option<PlacementFacts>,
    /// When it is read again. Absent while it is being read.
    next: Option<Instant>,
    last_asked: Instant,
    /// The objects to reconcile when it has been read.
    waiting: HashSet<NamespacedName>,
}

/// The reads that one reconcile asks for.
pub(super) struct PlacementRequests<'a> {
    placement: &'a mut Placement,
    object: &'a NamespacedName,
    now: Instant,
    queries: Vec<PlacementKey>,
    /// Whether something is being read that was not known.
    lacks: bool,
}

impl Placement {
    pub(super) fn requests<'a>(&'a mut self, object: &'a NamespacedName, now: Instant) -> PlacementRequests<'a> {
        PlacementRequests { placement: self, object, now, queries: Vec::new(), lacks: false }
    }

    /// Stores the result of a read. Returns the objects that wait for it.
    pub(super) fn answered(
        &mut self,
        key: &PlacementKey,
        reading: PlacementReading,
        now: Instant,
    ) -> HashSet<NamespacedName> {
        let Some(state) = self.known.get_mut(key) else { return HashSet::new() };
        let again = match reading {
            PlacementReading::Read(facts) => {
                state.facts = Some(facts);
                FRESH
            }
            PlacementReading::Denied => {
                state.facts = None;
                DENIED
            }
            PlacementReading::Unavailable => RETRY,
        };
        state.next = Some(now + again);
        std::mem::take(&mut state.waiting)
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&mut self, object: &NamespacedName) {
        for state in self.known.values_mut() {
            state.waiting.remove(object);
        }
    }

    /// Forgets what no object has asked for in a while.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.known.retain(|_, state| state.next.is_none() || now < state.last_asked + UNUSED);
    }
}

impl PlacementRequests<'_> {
    pub(super) fn nodes(&mut self) -> Option<Arc<ClusterNodes>> {
        match self.ask(PlacementKey::Nodes)? {
            PlacementFacts::Nodes(nodes) => Some(nodes),
        }
    }

    fn ask(&mut self, key: PlacementKey) -> Option<PlacementFacts> {
        let Self { placement, object, now, .. } = self;
        let new = || State { facts: None, next: Some(*now), last_asked: *now, waiting: HashSet::new() };
        let state = placement.known.entry(key.clone()).or_insert_with(new);
        state.last_asked = *now;
        if state.next.is_some_and(|next| *now >= next) {
            state.next = None;
            self.queries.push(key);
        }
        if state.next.is_none() {
            state.waiting.insert(object.clone());
            self.lacks |= state.facts.is_none();
        }
        state.facts.clone()
    }

    /// The reads to start, and whether one of them is awaited.
    pub(super) fn take(&mut self) -> (Vec<PlacementKey>, bool) {
        (std::mem::take(&mut self.queries), self.lacks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> NamespacedName {
        NamespacedName { namespace: "ops".to_owned(), name: name.to_owned() }
    }

    fn read() -> PlacementReading {
        PlacementReading::Read(PlacementFacts::Nodes(Arc::default()))
    }

    /// Whether the nodes are known, how many reads are started, and whether one is awaited.
    fn ask(placement: &mut Placement, name: &str, now: Instant) -> (bool, usize, bool) {
        let object = object(name);
        let mut requests = placement.requests(&object, now);
        let is_known = requests.nodes().is_some();
        let (queries, lacks) = requests.take();
        (is_known, queries.len(), lacks)
    }

    #[test]
    fn reads_the_nodes_once_for_all_objects() {
        let (mut placement, now) = (Placement::default(), Instant::now());
        assert_eq!(ask(&mut placement, "a", now), (false, 1, true));
        assert_eq!(ask(&mut placement, "b", now), (false, 0, true));
        let waiting = placement.answered(&PlacementKey::Nodes, read(), now);
        assert_eq!(waiting, HashSet::from([object("a"), object("b")]));
        assert_eq!(ask(&mut placement, "c", now), (true, 0, false));
        // What is known is shown while it is read again.
        assert_eq!(ask(&mut placement, "a", now + FRESH), (true, 1, false));
        assert_eq!(placement.answered(&PlacementKey::Nodes, read(), now + FRESH), HashSet::from([object("a")]));
        placement.sweep(now + FRESH + UNUSED);
        assert!(placement.known.is_empty());
    }

    #[test]
    fn asks_rarely_while_access_is_denied() {
        let (mut placement, begun) = (Placement::default(), Instant::now());
        let mut reads = 0;
        for second in 0..3600 {
            let now = begun + Duration::from_secs(second);
            let (is_known, started, _) = ask(&mut placement, "a", now);
            assert!(!is_known);
            reads += started;
            if started > 0 {
                placement.answered(&PlacementKey::Nodes, PlacementReading::Denied, now);
            }
        }
        assert_eq!(reads, 6);
    }

    #[test]
    fn keeps_what_is_known_after_an_error_but_not_without_the_right() {
        let (mut placement, now) = (Placement::default(), Instant::now());
        ask(&mut placement, "a", now);
        placement.answered(&PlacementKey::Nodes, read(), now);
        let mut at = now + FRESH;
        for (reading, is_known, again) in
            [(PlacementReading::Unavailable, true, RETRY), (PlacementReading::Denied, false, DENIED)]
        {
            assert_eq!(ask(&mut placement, "a", at).1, 1);
            placement.answered(&PlacementKey::Nodes, reading, at);
            assert_eq!(ask(&mut placement, "a", at), (is_known, 0, false));
            at += again;
        }
        placement.forget(&object("a"));
    }
}
