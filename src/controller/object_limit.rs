//! Limits how many `Orchestr` objects of a namespace are watched, so that one namespace cannot exhaust the operator. The
//! oldest objects come first, and of equally old ones those whose names sort first: the choice survives restarts. The others
//! cost only their names, and a status that says so. No I/O: the caller writes these statuses, and reads the objects that
//! come in when others are deleted.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::api::NamespacedName;

/// The time between two statuses that say that an object is not watched, in one namespace.
const NOTICE_INTERVAL: Duration = Duration::from_millis(500);
/// The delay before such a write, or the read of an object that comes in, is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// The most concurrent writes of such statuses, of as many namespaces: a write may take long if the API server delays it.
const NOTICES: usize = 4;
/// The most concurrent reads of objects that come in.
const READS: usize = 8;

/// Creation time in seconds, as the API has it, and name: the order of the objects of a namespace.
type Place = (i64, Arc<str>);

/// Which objects are watched.
#[derive(Debug, Default)]
pub(super) struct ObjectLimit {
    /// The most watched objects of a namespace; 0: all are watched.
    max: usize,
    namespaces: HashMap<String, Namespace>,
    /// The objects whose status is being written or that are being read.
    writing: HashSet<NamespacedName>,
    reading: HashSet<NamespacedName>,
    /// The objects that come in, and when to read them.
    incoming: HashMap<NamespacedName, Instant>,
}

#[derive(Debug, Default)]
struct Namespace {
    created: HashMap<Arc<str>, i64>,
    watched: BTreeSet<Place>,
    waiting: BTreeSet<Place>,
    /// The waiting objects whose status does not say so yet.
    uninformed: BTreeSet<Place>,
    next_notice: Option<Instant>,
    /// Whether such a status is being written.
    is_writing: bool,
}

/// Whether an object is watched.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is, and possibly instead of a younger one.
    Watched {
        displaced: Option<NamespacedName>,
    },
    Waiting,
}

impl ObjectLimit {
    pub(super) fn new(max: usize) -> Self {
        Self { max, ..Self::default() }
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    /// An event showed an object. An object without a creation time counts as the oldest.
    pub(super) fn observe(&mut self, key: &NamespacedName, created: Option<Timestamp>) -> Admission {
        let namespace = self.namespaces.entry(key.namespace.clone()).or_default();
        let created = created.map(Timestamp::as_second);
        // A waiting object that was recreated during an outage is as young as the new one.
        if let Some(known) = namespace.place(&key.name).filter(|known| created.is_some_and(|at| at != known.0))
            && namespace.waiting.remove(&known)
        {
            namespace.uninformed.remove(&known);
            namespace.created.remove(key.name.as_str());
        }
        let place = namespace.place(&key.name).unwrap_or_else(|| {
            let place: Place = (created.unwrap_or(0), key.name.as_str().into());
            namespace.created.insert(Arc::clone(&place.1), place.0);
            place
        });
        self.incoming.remove(key);
        if namespace.watched.contains(&place) {
            return Admission::Watched { displaced: None };
        }
        if namespace.waiting.contains(&place) {
            return Admission::Waiting;
        }
        if self.max == 0 || namespace.watched.len() < self.max {
            namespace.watched.insert(place);
            return Admission::Watched { displaced: None };
        }
        if namespace.watched.last().is_none_or(|youngest| *youngest < place) {
            namespace.waiting.insert(place);
            return Admission::Waiting;
        }
        let displaced = namespace.watched.pop_last().map(|youngest| {
            namespace.waiting.insert(youngest.clone());
            namespace.uninformed.insert(youngest.clone());
            NamespacedName::new(&*key.namespace, &*youngest.1)
        });
        namespace.watched.insert(place);
        if let Some(displaced) = &displaced {
            self.incoming.remove(displaced);
        }
        Admission::Watched { displaced }
    }

    /// Whether the status of a waiting object says that it is not watched.
    pub(super) fn set_informed(&mut self, key: &NamespacedName, is_informed: bool) {
        let Some(namespace) = self.namespaces.get_mut(&key.namespace) else { return };
        let Some(place) = namespace.place(&key.name).filter(|place| namespace.waiting.contains(place)) else { return };
        if is_informed {
            namespace.uninformed.remove(&place);
        } else {
            namespace.uninformed.insert(place);
        }
    }

    /// An object was deleted. If it was watched, the first waiting one comes in.
    pub(super) fn remove(&mut self, key: &NamespacedName, now: Instant) {
        self.incoming.remove(key);
        let Some(namespace) = self.namespaces.get_mut(&key.namespace) else { return };
        let Some(place) = namespace.place(&key.name) else { return };
        namespace.created.remove(key.name.as_str());
        namespace.uninformed.remove(&place);
        namespace.waiting.remove(&place);
        if namespace.watched.remove(&place)
            && let Some(first) = namespace.waiting.pop_first()
        {
            namespace.uninformed.remove(&first);
            namespace.watched.insert(first.clone());
            self.incoming.insert(NamespacedName::new(&*key.namespace, &*first.1), now);
        }
        if namespace.created.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
    }

    /// All objects, watched or not.
    pub(super) fn keys(&self) -> impl Iterator<Item = NamespacedName> {
        self.namespaces.iter().flat_map(|(namespace, objects)| {
            objects.created.keys().map(move |name| NamespacedName::new(&**namespace, &**name))
        })
    }

    /// The waiting objects whose status to write now.
    pub(super) fn take_notices(&mut self, now: Instant) -> Vec<NamespacedName> {
        let mut due: Vec<_> = self
            .namespaces
            .iter_mut()
            .filter(|(_, own)| own.lacks_notice() && own.next_notice.is_none_or(|at| at <= now))
            .collect();
        // The namespace that has waited longest comes first.
        due.sort_unstable_by_key(|(_, own)| own.next_notice);
        let mut notices = Vec::new();
        for (namespace, own) in due {
            if self.writing.len() >= NOTICES {
                break;
            }
            let Some((_, name)) = own.uninformed.pop_first() else { continue };
            own.next_notice = Some(now + NOTICE_INTERVAL);
            let key = NamespacedName::new(&**namespace, &*name);
            if self.writing.insert(key.clone()) {
                own.is_writing = true;
                notices.push(key);
            }
        }
        notices
    }

    /// The write of a waiting object's status has ended.
    pub(super) fn notice_ended(&mut self, key: &NamespacedName, is_written: bool, now: Instant) {
        self.writing.remove(key);
        if !is_written {
            self.set_informed(key, false);
        }
        if let Some(namespace) = self.namespaces.get_mut(&key.namespace) {
            namespace.is_writing = self.writing.iter().any(|other| other.namespace == key.namespace);
            if !is_written {
                namespace.next_notice = Some(now + RETRY);
            }
        }
    }

    /// The objects that have come in, to read now: only their names are known.
    pub(super) fn take_reads(&mut self, now: Instant) -> Vec<NamespacedName> {
        let room = READS.saturating_sub(self.reading.len());
        let due = self.incoming.iter().filter(|(key, at)| **at <= now && !self.reading.contains(*key));
        let keys: Vec<_> = due.map(|(key, _)| key.clone()).take(room).collect();
        self.reading.extend(keys.iter().cloned());
        keys
    }

    /// A read has ended. Unless the object was observed since, it is read again later.
    pub(super) fn read_ended(&mut self, key: &NamespacedName, now: Instant) {
        self.reading.remove(key);
        if let Some(at) = self.incoming.get_mut(key) {
            *at = now + RETRY;
        }
    }

    /// When [`take_notices`](Self::take_notices) or [`take_reads`](Self::take_reads) will return something, unless a task
    /// ends before.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let may_write = self.writing.len() < NOTICES;
        let notices = self.namespaces.values().filter(|own| may_write && own.lacks_notice());
        let notices = notices.map(|own| own.next_notice.unwrap_or(now));
        let may_read = self.reading.len() < READS;
        let reads = self.incoming.iter().filter(|(key, _)| may_read && !self.reading.contains(*key));
        notices.chain(reads.map(|(_, at)| *at)).min()
    }
}

impl Namespace {
    fn lacks_notice(&self) -> bool {
        !self.is_writing && !self.uninformed.is_empty()
    }

    fn place(&self, name: &str) -> Option<Place> {
        self.created.get_key_value(name).map(|(name, created)| (*created, Arc::clone(name)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> NamespacedName {
        NamespacedName::new("shop", name)
    }

    fn at(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(second).ok()
    }

    fn watched(displaced: Option<&str>) -> Admission {
        Admission::Watched { displaced: displaced.map(key) }
    }

    #[test]
    fn a_waiting_object_that_was_recreated_unnoticed_takes_its_new_place() {
        let mut limit = ObjectLimit::new(1);
        assert_eq!(limit.observe(&key("a"), at(10)), watched(None));
        assert_eq!(limit.observe(&key("b"), at(20)), Admission::Waiting);
        assert_eq!(limit.observe(&key("c"), at(30)), Admission::Waiting);
        assert_eq!(limit.observe(&key("b"), at(40)), Admission::Waiting);
        limit.remove(&key("a"), Instant::now());
        assert_eq!(limit.observe(&key("c"), at(30)), watched(None));
        assert_eq!(limit.observe(&key("b"), at(40)), Admission::Waiting);
    }

    #[test]
    fn the_oldest_objects_are_watched_in_whatever_order_they_are_listed() {
        let mut limit = ObjectLimit::new(2);
        assert_eq!(limit.observe(&key("c"), at(30)), watched(None));
        assert_eq!(limit.observe(&key("b"), at(20)), watched(None));
        assert_eq!(limit.observe(&key("d"), at(40)), Admission::Waiting);
        assert_eq!(limit.observe(&key("a"), at(20)), watched(Some("c")), "of equally old ones, the names decide");
        for (name, expected) in
            [("a", watched(None)), ("b", watched(None)), ("c", Admission::Waiting), ("d", Admission::Waiting)]
        {
            assert_eq!(limit.observe(&key(name), None), expected, "{name} again");
        }
        assert_eq!(limit.observe(&NamespacedName::new("other", "a"), at(50)), watched(None), "another namespace");
    }

    #[test]
    fn the_oldest_waiting_object_comes_in_when_a_watched_one_is_deleted() {
        let (mut limit, now) = (ObjectLimit::new(1), Instant::now());
        for (name, second) in [("a", 1), ("c", 3), ("b", 2)] {
            limit.observe(&key(name), at(second));
        }
        limit.remove(&key("c"), now);
        assert!(limit.take_reads(now).is_empty());
        limit.remove(&key("a"), now);
        assert_eq!((limit.next_due(now), limit.take_reads(now)), (Some(now), vec![key("b")]));
        assert!(limit.take_reads(now).is_empty(), "it is being read");
        limit.read_ended(&key("b"), now);
        assert_eq!(limit.next_due(now), Some(now + RETRY), "until it is observed, the read is repeated");
        assert_eq!(limit.take_reads(now + RETRY), [key("b")]);
        assert_eq!(limit.observe(&key("b"), at(2)), watched(None));
        limit.read_ended(&key("b"), now);
        assert_eq!(limit.next_due(now), None);
    }

    #[test]
    fn statuses_of_waiting_objects_are_written_slowly_and_once() {
        let (mut limit, now) = (ObjectLimit::new(1), Instant::now());
        for namespace in 0..10 {
            for name in 0..100 {
                let key = NamespacedName::new(format!("n{namespace}"), format!("{name:03}"));
                if limit.observe(&key, at(name)) == Admission::Waiting {
                    limit.set_informed(&key, name == 99);
                }
            }
        }
        let first = limit.take_notices(now);
        assert_eq!(first.len(), NOTICES);
        assert!(limit.take_notices(now).is_empty() && limit.next_due(now).is_none());
        let (mut now, mut written) = (now, first.len());
        let mut under_way = first;
        while written < 10 * 98 {
            under_way.iter().for_each(|key| limit.notice_ended(key, true, now));
            under_way = limit.take_notices(now);
            let namespaces: HashSet<_> = under_way.iter().map(|key| key.namespace.clone()).collect();
            assert_eq!(namespaces.len(), under_way.len(), "one of each namespace");
            written += under_way.len();
            now += Duration::from_millis(100);
        }
        under_way.iter().for_each(|key| limit.notice_ended(key, true, now));
        assert_eq!((limit.take_notices(now + RETRY), limit.next_due(now)), (vec![], None), "each is informed");
        limit.notice_ended(&under_way[0], false, now);
        assert!(limit.take_notices(now).is_empty());
        assert_eq!(limit.take_notices(now + RETRY).len(), 1, "a failed write is repeated later");
    }

    #[test]
    fn slow_writes_of_one_namespace_leave_room_to_others() {
        let (mut limit, mut now) = (ObjectLimit::new(1), Instant::now());
        let observe = |limit: &mut ObjectLimit, namespace: &str| {
            for name in 0..10 {
                let key = NamespacedName::new(namespace, name.to_string());
                if limit.observe(&key, at(name)) == Admission::Waiting {
                    limit.set_informed(&key, false);
                }
            }
        };
        observe(&mut limit, "slow");
        let mut under_way = Vec::new();
        for _ in 0..10 {
            under_way.extend(limit.take_notices(now));
            now += NOTICE_INTERVAL;
        }
        assert_eq!((under_way.len(), limit.next_due(now)), (1, None));
        for namespace in ["a", "b", "c"] {
            observe(&mut limit, namespace);
        }
        assert_eq!(limit.take_notices(now).len(), 3);
        limit.notice_ended(&under_way[0], true, now);
        assert_eq!(limit.take_notices(now).len(), 1);
    }

    #[test]
    fn no_limit_admits_all() {
        let mut limit = ObjectLimit::new(0);
        for name in 0..1_000 {
            assert_eq!(limit.observe(&key(&name.to_string()), at(name)), watched(None));
        }
    }

    #[test]
    fn keeps_nothing_of_deleted_objects() {
        let (mut limit, now) = (ObjectLimit::new(3), Instant::now());
        for round in 0..10_000 {
            let keys: Vec<_> =
                (0..5).map(|name| NamespacedName::new(format!("n{}", round % 7), format!("{round}-{name}"))).collect();
            for key in &keys {
                limit.observe(key, at(round));
                limit.set_informed(key, false);
            }
            let notices = limit.take_notices(now);
            keys.iter().for_each(|key| limit.remove(key, now));
            let reads = limit.take_reads(now);
            notices.iter().for_each(|key| limit.notice_ended(key, false, now));
            reads.iter().for_each(|key| limit.read_ended(key, now));
        }
        assert!(limit.namespaces.is_empty() && limit.incoming.is_empty());
        assert!(limit.reading.is_empty() && limit.writing.is_empty() && limit.next_due(now).is_none());
    }

    proptest! {
        #[test]
        fn any_order_of_events_watches_the_oldest(
            events in prop::collection::vec((0_i64..12, prop::bool::weighted(0.3)), 0..80),
            max in 1_usize..5,
        ) {
            let (mut limit, now) = (ObjectLimit::new(max), Instant::now());
            let mut present = BTreeSet::new();
            for (object, is_deleted) in events {
                let own = NamespacedName::new("shop", format!("o{object}"));
                let place = (object / 3, own.name.as_str().into());
                if is_deleted {
                    limit.remove(&own, now);
                    present.remove(&place);
                } else {
                    limit.observe(&own, at(object / 3));
                    present.insert(place);
                }
                let expected: BTreeSet<_> = present.iter().take(max).cloned().collect();
                let namespace = limit.namespaces.get("shop");
                prop_assert_eq!(namespace.map(|own| own.watched.clone()).unwrap_or_default(), expected);
                prop_assert_eq!(limit.keys().count(), present.len());
            }
        }
    }
}
