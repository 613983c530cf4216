//! Decides when to read what shows why no node takes a pod: once for all objects, and again after some minutes, while one of
//! them has such a pod.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use arcstr::ArcStr;
use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    diagnosis::{ClaimFacts, ClusterNodes},
    placement::{FRESH, PlacementFacts, PlacementKey, PlacementReading},
    pods::Pod,
};

/// When a read is tried again that was denied. The right is optional: who does not grant it should not see many refusals.
const DENIED: Duration = Duration::from_secs(10 * 60);
/// When it is tried again after another error.
const RETRY: Duration = Duration::from_secs(60);
/// How long facts are kept after they were last asked for.
const UNUSED: Duration = Duration::from_secs(10 * 60);

/// How much is known at a time, in all and about one namespace. Beyond that, the scheduler's words remain.
const KNOWN: usize = 512;
const IN_NAMESPACE: usize = 64;

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Placement {
    known: HashMap<PlacementKey, State>,
    /// By namespace, until when nothing is read that was not known, because access was denied.
    denied: HashMap<String, Instant>,
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

    fn has_room(&self, namespace: &str) -> bool {
        let in_namespace = || self.known.keys().filter(|key| key.namespace() == namespace).count();
        self.known.len() < KNOWN && in_namespace() < IN_NAMESPACE
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
                self.denied.insert(key.namespace().to_owned(), now + DENIED);
                return self.known.remove(key).map(|state| state.waiting).unwrap_or_default();
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
        self.denied.retain(|_, until| now < *until);
    }
}

impl PlacementRequests<'_> {
    pub(super) fn nodes(&mut self) -> Option<Arc<ClusterNodes>> {
        match self.ask(PlacementKey::Nodes)? {
            PlacementFacts::Nodes(nodes) => Some(nodes),
            PlacementFacts::Claim(_) => None,
        }
    }

    /// What is known of the claims of a pod.
    pub(super) fn claims(&mut self, pod: &Pod) -> Vec<(ArcStr, Arc<ClaimFacts>)> {
        let mut known = Vec::new();
        for (name, key) in PlacementKey::claims(pod) {
            if let Some(PlacementFacts::Claim(claim)) = self.ask(key) {
                known.push((name, claim));
            }
        }
        known
    }

    fn ask(&mut self, key: PlacementKey) -> Option<PlacementFacts> {
        let Self { placement, object, now, .. } = self;
        // The claims of one tenant must not keep the nodes from being read.
        let has_room = key == PlacementKey::Nodes || placement.has_room(key.namespace());
        let is_denied = placement.denied.get(key.namespace()).is_some_and(|until| *now < *until);
        if !placement.known.contains_key(&key) && (is_denied || !has_room) {
            return None;
        }
        let new = || State { facts: None, next: Some(*now), last_asked: *now, waiting: HashSet::new() };
        let state = placement.known.entry(key.clone()).or_insert_with(new);
        state.last_asked = *now;
        if !is_denied && state.next.is_some_and(|next| *now >= next) {
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

    #[test]
    fn keeps_a_bounded_number_of_claims() {
        let (mut placement, now, mine) = (Placement::default(), Instant::now(), object("a"));
        let mut started = |namespace: &str| {
            let mut count = 0;
            for number in 0..2 * KNOWN {
                let mut requests = placement.requests(&mine, now);
                let name = arcstr::format!("data-{number}");
                requests.ask(PlacementKey::Claim { namespace: namespace.to_owned(), name });
                count += requests.take().0.len();
            }
            count
        };
        assert_eq!((started("attacker"), started("shop")), (IN_NAMESPACE, IN_NAMESPACE));
        let others: usize = (0..KNOWN / IN_NAMESPACE).map(|number| started(&number.to_string())).sum();
        assert_eq!(others, KNOWN - 2 * IN_NAMESPACE);
    }

    #[test]
    fn a_denial_concerns_all_claims_of_a_namespace() {
        let (mut placement, now, mine) = (Placement::default(), Instant::now(), object("a"));
        let claim =
            |namespace: &str, name: &str| PlacementKey::Claim { namespace: namespace.to_owned(), name: name.into() };
        let started = |placement: &mut Placement, key: PlacementKey, now: Instant| {
            let mut requests = placement.requests(&mine, now);
            requests.ask(key);
            requests.take().0.len()
        };
        assert_eq!(started(&mut placement, claim("shop", "a"), now), 1);
        placement.answered(&claim("shop", "a"), PlacementReading::Denied, now);
        for (key, at, expected) in [
            (claim("shop", "a"), now, 0),
            (claim("shop", "b"), now, 0),
            (claim("bank", "b"), now, 1),
            (claim("shop", "b"), now + DENIED, 1),
        ] {
            assert_eq!(started(&mut placement, key.clone(), at), expected, "{key:?}");
        }
    }
}
