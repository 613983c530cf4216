//! Decides when to read what explains incidents of several objects: each thing once for all of them, a bounded number of things,
//! and rarely without the right to.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    mem::take,
    time::Duration,
};

use tokio::time::Instant;

use crate::api::NamespacedName;

/// How much is known at a time, in all and about one namespace. Nothing else is read until some of it is no longer needed.
const KNOWN: usize = 512;
const IN_NAMESPACE: usize = 64;
/// How long nothing else is read in a scope after access was denied. Who does not grant a right should not see many refusals.
pub(super) const DENIED: Duration = Duration::from_secs(10 * 60);
/// How long something is kept after it was last asked for.
pub(super) const UNUSED: Duration = Duration::from_secs(10 * 60);

/// What is read.
pub(super) trait SharedKey: Clone + Eq + Hash {
    /// That for which access is granted or denied.
    type Scope: Clone + Eq + Hash + Ord;

    fn scope(&self) -> Self::Scope;

    /// The namespace to which it counts. What has none is always read: no tenant can keep it out.
    fn namespace(&self) -> &str;
}

#[derive(Debug)]
pub(super) struct SharedReads<K: SharedKey, V> {
    known: HashMap<K, State<V>>,
    denied: HashMap<K::Scope, Denial>,
}

#[derive(Debug)]
struct State<V> {
    /// Absent until the first read that gave an answer.
    value: Option<V>,
    next: Next,
    /// How often it was read since that last gave an answer.
    tries: u32,
    last_asked: Instant,
    /// The objects to reconcile when it has been read.
    waiting: HashSet<NamespacedName>,
}

/// When something is read again.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// It is being read.
    Reading,
    At(Instant),
    Never,
}

#[derive(Debug)]
struct Denial {
    /// Until when nothing else is read.
    until: Instant,
    /// The API server's message.
    message: String,
    /// The objects that asked.
    objects: HashSet<NamespacedName>,
}

/// What to do with the result of a read.
pub(super) enum Answer<V> {
    /// It does not change any more.
    Final(V),
    /// It is read again after this time.
    Fresh(V, Duration),
    /// There was no answer. What is known stays. It is read again after this time, if there is one.
    Failed(Option<Duration>),
    /// RBAC denies access, with the API server's message. What is known is forgotten.
    Denied(String),
}

impl<K: SharedKey, V> Default for SharedReads<K, V> {
    fn default() -> Self {
        Self { known: HashMap::new(), denied: HashMap::new() }
    }
}

/// What one reconcile asks for.
pub(super) struct Requests<'a, K: SharedKey, V> {
    pub(super) reads: &'a mut SharedReads<K, V>,
    object: &'a NamespacedName,
    pub(super) now: Instant,
    due: Vec<K>,
    /// Whether something is being read that is not known.
    is_lacking: bool,
}

impl<K: SharedKey, V: Clone> Requests<'_, K, V> {
    /// What is known. If it is due to be read, that is one of the reads to start.
    pub(super) fn ask(&mut self, key: K) -> Option<V> {
        let Self { reads, object, now, .. } = self;
        let known = reads.known.get_mut(&key);
        let (is_known, mut value) = (known.is_some(), None);
        if let Some(state) = known {
            state.last_asked = *now;
            value.clone_from(&state.value);
            match state.next {
                Next::Reading => {
                    state.waiting.insert(object.clone());
                    self.is_lacking |= value.is_none();
                    return value;
                }
                Next::At(at) if *now >= at => {}
                Next::At(_) | Next::Never => return value,
            }
        }
        if let Some(denial) = reads.denied.get_mut(&key.scope()) {
            denial.objects.insert(object.clone());
            if *now < denial.until {
                return value;
            }
        }
        if !is_known && !reads.has_room(key.namespace()) {
            return None;
        }
        let state = reads.known.entry(key.clone()).or_insert_with(|| State::new(None, Next::Reading, *now));
        state.next = Next::Reading;
        state.tries += 1;
        state.waiting.insert(object.clone());
        self.is_lacking |= value.is_none();
        self.due.push(key);
        value
    }

    /// The reads to start, and whether something is being read that is not known.
    pub(super) fn take(&mut self) -> (Vec<K>, bool) {
        (take(&mut self.due), self.is_lacking)
    }
}

impl<V> State<V> {
    fn new(value: Option<V>, next: Next, now: Instant) -> Self {
        Self { value, next, tries: 0, last_asked: now, waiting: HashSet::new() }
    }
}

impl<K: SharedKey, V> SharedReads<K, V> {
    pub(super) fn requests<'a>(&'a mut self, object: &'a NamespacedName, now: Instant) -> Requests<'a, K, V> {
        Requests { reads: self, object, now, due: Vec::new(), is_lacking: false }
    }

    fn has_room(&self, namespace: &str) -> bool {
        let in_namespace = || self.known.keys().filter(|key| key.namespace() == namespace).count();
        namespace.is_empty() || self.known.len() < KNOWN && in_namespace() < IN_NAMESPACE
    }

    /// How often this was read since that last gave an answer.
    pub(super) fn tries(&self, key: &K) -> u32 {
        self.known.get(key).map_or(0, |state| state.tries)
    }

    /// Stores the result of a read. Returns the objects that wait for it.
    pub(super) fn answered(&mut self, key: &K, answer: Answer<V>, now: Instant) -> HashSet<NamespacedName> {
        let Some(state) = self.known.get_mut(key) else { return HashSet::new() };
        let waiting = take(&mut state.waiting);
        let (value, next) = match answer {
            Answer::Final(value) => (value, Next::Never),
            Answer::Fresh(value, again) => (value, Next::At(now + again)),
            Answer::Failed(again) => {
                state.next = again.map_or(Next::Never, |again| Next::At(now + again));
                return waiting;
            }
            Answer::Denied(message) => {
                self.known.remove(key);
                let mut objects = self.denied.remove(&key.scope()).map(|denial| denial.objects).unwrap_or_default();
                objects.extend(waiting.iter().cloned());
                self.denied.insert(key.scope(), Denial { until: now + DENIED, message, objects });
                return waiting;
            }
        };
        (state.value, state.next, state.tries) = (Some(value), next, 0);
        self.denied.remove(&key.scope());
        waiting
    }

    /// Keeps what is known without a read of its own, and does not change any more.
    pub(super) fn give(&mut self, key: K, value: V, now: Instant) {
        if !self.known.contains_key(&key) && self.has_room(key.namespace()) {
            self.known.insert(key, State::new(Some(value), Next::Never, now));
        }
    }

    pub(super) fn is_known(&self, key: &K) -> bool {
        self.known.contains_key(key)
    }

    /// A value of another key that will do.
    pub(super) fn find(&mut self, will_do: impl Fn(&K, &V) -> bool, now: Instant) -> Option<&V> {
        let is_found =
            |(key, state): &(&K, &mut State<V>)| state.value.as_ref().is_some_and(|value| will_do(key, value));
        let (_, state) = self.known.iter_mut().find(is_found)?;
        state.last_asked = now;
        state.value.as_ref()
    }

    /// The first scope that is denied to this object, with the API server's message.
    pub(super) fn denial(&self, object: &NamespacedName) -> Option<(&K::Scope, &str)> {
        let denied = self.denied.iter().filter(|(_, denial)| denial.objects.contains(object));
        // The same one each time.
        denied.min_by(|(one, _), (other, _)| one.cmp(other)).map(|(scope, denial)| (scope, denial.message.as_str()))
    }

    /// Forgets a deleted object.
    pub(super) fn forget(&mut self, object: &NamespacedName) {
        self.known.values_mut().for_each(|state| _ = state.waiting.remove(object));
        self.denied.values_mut().for_each(|denial| _ = denial.objects.remove(object));
    }

    /// Forgets what no object has asked for in a while, and the denials that have passed.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.known.retain(|_, state| matches!(state.next, Next::Reading) || now < state.last_asked + UNUSED);
        self.denied.retain(|_, denial| now < denial.until + UNUSED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Key(&'static str, usize);

    impl SharedKey for Key {
        type Scope = String;

        fn scope(&self) -> String {
            self.0.to_owned()
        }

        fn namespace(&self) -> &str {
            self.0
        }
    }

    type Reads = SharedReads<Key, u32>;

    fn object(name: &str) -> NamespacedName {
        NamespacedName::new("ops", name)
    }

    /// What is known, whether a read is started, and whether one is awaited.
    fn ask(reads: &mut Reads, key: Key, name: &str, now: Instant) -> (Option<u32>, bool, bool) {
        let object = object(name);
        let mut requests = reads.requests(&object, now);
        let value = requests.ask(key);
        let (due, is_lacking) = requests.take();
        (value, !due.is_empty(), is_lacking)
    }

    #[test]
    fn reads_each_thing_once_for_all_objects() {
        let (mut reads, now, again) = (Reads::default(), Instant::now(), Duration::from_secs(300));
        let key = Key("shop", 1);
        assert_eq!(ask(&mut reads, key.clone(), "a", now), (None, true, true));
        assert_eq!(ask(&mut reads, key.clone(), "b", now), (None, false, true));
        let waiting = reads.answered(&key, Answer::Fresh(7, again), now);
        assert_eq!(waiting, HashSet::from([object("a"), object("b")]));
        assert_eq!(ask(&mut reads, key.clone(), "c", now), (Some(7), false, false));
        // What is known is shown while it is read again.
        assert_eq!(ask(&mut reads, key.clone(), "a", now + again), (Some(7), true, false));
        assert_eq!(ask(&mut reads, key.clone(), "b", now + again), (Some(7), false, false));
        let waiting = reads.answered(&key, Answer::Final(8), now + again);
        assert_eq!(waiting, HashSet::from([object("a"), object("b")]));
        assert_eq!(ask(&mut reads, key.clone(), "a", now + 100 * again), (Some(8), false, false));
        assert!(reads.answered(&Key("shop", 2), Answer::Final(8), now).is_empty());
        reads.sweep(now + 100 * again + UNUSED);
        assert!(reads.known.is_empty());
    }

    #[test]
    fn keeps_what_is_known_after_an_error_but_not_without_the_right() {
        let (mut reads, now, again) = (Reads::default(), Instant::now(), Duration::from_secs(60));
        let key = Key("shop", 1);
        ask(&mut reads, key.clone(), "a", now);
        reads.answered(&key, Answer::Fresh(7, again), now);
        let mut at = now + again;
        for (answer, known, after) in [
            (Answer::Failed(Some(again)), Some(7), again),
            (Answer::Denied("no".to_owned()), None, DENIED),
            (Answer::Failed(None), None, again),
        ] {
            assert!(ask(&mut reads, key.clone(), "a", at).1);
            reads.answered(&key, answer, at);
            assert_eq!(ask(&mut reads, key.clone(), "a", at), (known, false, false));
            at += after;
        }
        assert!(!ask(&mut reads, key, "a", at).1, "it is not read again");
    }

    #[test]
    fn a_denial_concerns_all_of_a_scope_for_ten_minutes() {
        let (mut reads, now) = (Reads::default(), Instant::now());
        ask(&mut reads, Key("shop", 1), "a", now);
        assert_eq!(reads.answered(&Key("shop", 1), Answer::Denied("no".to_owned()), now), HashSet::from([object("a")]));
        for (key, at, is_read) in [
            (Key("shop", 1), now, false),
            (Key("shop", 2), now, false),
            (Key("bank", 2), now, true),
            (Key("shop", 2), now + DENIED, true),
        ] {
            assert_eq!(ask(&mut reads, key.clone(), "b", at).1, is_read, "{key:?}");
        }
        for name in ["a", "b"] {
            assert_eq!(reads.denial(&object(name)), Some((&"shop".to_owned(), "no")), "it may still be denied");
        }
        assert_eq!(reads.denial(&object("c")), None);
        reads.forget(&object("b"));
        assert_eq!(reads.denial(&object("b")), None);
        reads.answered(&Key("shop", 2), Answer::Final(1), now + DENIED);
        assert_eq!(reads.denial(&object("a")), None);
    }

    #[test]
    fn asks_six_times_an_hour_while_access_is_denied() {
        let (mut reads, begun) = (Reads::default(), Instant::now());
        let started = (0..3600).filter(|second| {
            let now = begun + Duration::from_secs(*second);
            let (value, is_started, _) = ask(&mut reads, Key("shop", 1), "a", now);
            assert_eq!(value, None);
            if is_started {
                reads.answered(&Key("shop", 1), Answer::Denied("no".to_owned()), now);
            }
            is_started
        });
        assert_eq!(started.count(), 6);
    }

    #[test]
    fn knows_a_bounded_number_and_what_has_no_namespace() {
        let (mut reads, now) = (Reads::default(), Instant::now());
        let mut started = |namespace: &'static str| {
            (0..2 * KNOWN).filter(|number| ask(&mut reads, Key(namespace, *number), "a", now).1).count()
        };
        assert_eq!((started("attacker"), started("shop")), (IN_NAMESPACE, IN_NAMESPACE));
        let namespaces: Vec<&'static str> =
            (0..KNOWN / IN_NAMESPACE).map(|number| &*number.to_string().leak()).collect();
        let others: usize = namespaces.into_iter().map(&mut started).sum();
        assert_eq!(others, KNOWN - 2 * IN_NAMESPACE);
        assert!(ask(&mut reads, Key("", 1), "a", now).1);
        reads.give(Key("bank", 1), 1, now);
        assert!(!reads.is_known(&Key("bank", 1)));
    }
}
