//! A cache whose entries have a size, and count for the namespaces that use them.
//!
//! When the bound is exceeded, the namespace with the most bytes loses the contents that it has not used for longest,
//! and then bare entries. So a namespace whose bytes are at most the bound, divided by the number of namespaces, loses
//! none. An entry that several namespaces use counts for one of them; if that one would lose it, it counts for another
//! one from then on.
//!
//! The cache does not remove anything by itself: [`WeightedCache::excess`] names an entry, which the caller shrinks or
//! removes.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::Arc,
};

/// How many namespaces are remembered that use one entry.
const MAX_USERS: usize = 16;

#[derive(Debug)]
pub(crate) struct WeightedCache<K, V = ()> {
    limit: usize,
    bare: usize,
    total: usize,
    namespaces: HashMap<Arc<str>, Account<K>>,
    entries: HashMap<K, Entry<V>>,
    /// The time of the last use, as a number of uses.
    clock: u64,
    /// The number of sweeps.
    epoch: u32,
}

/// Whether an entry is bare, and when it was last used.
type Rank = (bool, u64);

#[derive(Debug)]
struct Account<K> {
    bytes: usize,
    /// Its entries in the order in which they go: first those with contents, by their last use.
    order: BTreeMap<Rank, K>,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    size: usize,
    used: u64,
    /// The namespaces that use it, each with the epoch of its last use. It counts for the first.
    users: Vec<(Arc<str>, u32)>,
}

impl<K: Clone + Eq + Hash, V> WeightedCache<K, V> {
    /// `bare` is the size of an entry without contents.
    pub(crate) fn new(limit: usize, bare: usize) -> Self {
        Self { limit, bare, total: 0, namespaces: HashMap::new(), entries: HashMap::new(), clock: 0, epoch: 0 }
    }

    /// Whether the namespace may store this many bytes more. They displace only what others have beyond their share.
    pub(crate) fn has_room(&self, namespace: &str, bytes: usize) -> bool {
        let own = self.namespaces.get(namespace).map(|account| account.bytes);
        let sharing = self.namespaces.len() + usize::from(own.is_none());
        self.total + bytes <= self.limit || own.unwrap_or(0) + bytes <= self.limit / sharing
    }

    /// Whether the namespace may add an entry. At most half of the bound is for the bare entries of all namespaces together,
    /// and as much again for those of namespaces within their share. So two entries cannot evict each other repeatedly: only
    /// their contents can.
    pub(crate) fn has_place(&self, namespace: &str) -> bool {
        let own = self.namespaces.get(namespace).map_or(0, |account| account.order.len());
        let sharing = self.namespaces.len() + usize::from(own == 0);
        let most = self.limit / 2 / self.bare.max(1);
        self.entries.len() < most || own < most / sharing
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|entry| &mut entry.value)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|entry| &entry.value)
    }

    /// Adds an entry that counts for this namespace.
    pub(crate) fn insert(&mut self, key: K, value: V, size: usize, namespace: &str) {
        self.remove(&key);
        self.clock += 1;
        let namespace = self.shared(namespace);
        let users = vec![(Arc::clone(&namespace), self.epoch)];
        self.entries.insert(key.clone(), Entry { value, size, used: self.clock, users });
        self.credit(&key, &namespace, self.clock, size);
    }

    /// The name of a namespace, which all of its entries share.
    fn shared(&self, namespace: &str) -> Arc<str> {
        self.namespaces.get_key_value(namespace).map_or_else(|| namespace.into(), |(known, _)| Arc::clone(known))
    }

    /// Records that a namespace uses an entry.
    pub(crate) fn touch(&mut self, key: &K, namespace: &str) {
        let namespace = self.shared(namespace);
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let Some((_, epoch)) = entry.users.iter_mut().find(|(user, _)| *user == namespace) {
            *epoch = self.epoch;
        } else if entry.users.len() < MAX_USERS {
            entry.users.push((namespace, self.epoch));
        }
        self.clock += 1;
        let before = (entry.size <= self.bare, std::mem::replace(&mut entry.used, self.clock));
        if let Some((payer, _)) = entry.users.first()
            && let Some(account) = self.namespaces.get_mut(payer)
            && let Some(key) = account.order.remove(&before)
        {
            account.order.insert((before.0, self.clock), key);
        }
    }

    /// Changes the size of an entry.
    pub(crate) fn resize(&mut self, key: &K, size: usize) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let before = std::mem::replace(&mut entry.size, size);
        self.total = self.total - before + size;
        if let Some((payer, _)) = entry.users.first()
            && let Some(account) = self.namespaces.get_mut(payer)
        {
            account.bytes = account.bytes - before + size;
            if let Some(key) = account.order.remove(&(before <= self.bare, entry.used)) {
                account.order.insert((size <= self.bare, entry.used), key);
            }
        }
    }

    pub(crate) fn size(&self, key: &K) -> usize {
        self.entries.get(key).map_or(0, |entry| entry.size)
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        if let Some((payer, _)) = entry.users.first() {
            self.debit(payer, entry.used, entry.size);
        }
        Some(entry.value)
    }

    /// Removes the entries for which `keep` returns false. It may change their values and sizes.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V, &mut usize) -> bool) {
        let mut changed = Vec::new();
        for (key, entry) in &mut self.entries {
            let mut size = entry.size;
            let is_kept = keep(key, &mut entry.value, &mut size);
            if !is_kept || size != entry.size {
                changed.push((key.clone(), is_kept, size));
            }
        }
        for (key, is_kept, size) in changed {
            if is_kept {
                self.resize(&key, size);
            } else {
                self.remove(&key);
            }
        }
        if self.entries.capacity() > 4 * self.entries.len().max(16) {
            self.entries.shrink_to_fit();
        }
    }

    /// The entry to shrink or to remove, while the bound is exceeded.
    pub(crate) fn excess(&mut self) -> Option<K> {
        while self.total > self.limit {
            let (namespace, account) =
                self.namespaces.iter().max_by(|(one, a), (other, b)| (a.bytes, one).cmp(&(b.bytes, other)))?;
            let (namespace, key) = (Arc::clone(namespace), account.order.first_key_value()?.1.clone());
            let entry = self.entries.get_mut(&key)?;
            if entry.users.len() < 2 {
                return Some(key);
            }
            // Of the others that use it, the one with the fewest bytes pays for it from now on.
            let bytes = |user: &Arc<str>| self.namespaces.get(user).map_or(0, |account| account.bytes);
            let next = (1..entry.users.len()).min_by_key(|&at| entry.users.get(at).map(|(user, _)| bytes(user)))?;
            entry.users.swap(0, next);
            entry.users.swap_remove(next);
            let (payer, used, size) = (Arc::clone(&entry.users.first()?.0), entry.used, entry.size);
            self.debit(&namespace, used, size);
            self.credit(&key, &payer, used, size);
        }
        None
    }

    /// Forgets namespaces that have not used an entry since the sweep before the last one. An entry counts for a namespace
    /// that still uses it.
    pub(crate) fn sweep(&mut self) {
        let epoch = self.epoch;
        self.epoch += 1;
        let mut moved = Vec::new();
        for (key, entry) in &mut self.entries {
            let Some((payer, _)) = entry.users.first().cloned() else { continue };
            let is_recent = |used: u32| used + 1 >= epoch;
            if entry.users.iter().any(|(_, used)| is_recent(*used)) {
                entry.users.retain(|(_, used)| is_recent(*used));
            }
            if let Some((next, _)) = entry.users.first().filter(|(next, _)| *next != payer) {
                moved.push((key.clone(), payer, Arc::clone(next), entry.used, entry.size));
            }
        }
        for (key, payer, next, used, size) in moved {
            self.debit(&payer, used, size);
            self.credit(&key, &next, used, size);
        }
    }

    fn credit(&mut self, key: &K, namespace: &Arc<str>, used: u64, size: usize) {
        self.total += size;
        let account = self
            .namespaces
            .entry(Arc::clone(namespace))
            .or_insert_with(|| Account { bytes: 0, order: BTreeMap::new() });
        account.bytes += size;
        account.order.insert((size <= self.bare, used), key.clone());
    }

    fn debit(&mut self, namespace: &Arc<str>, used: u64, size: usize) {
        self.total -= size;
        let Some(account) = self.namespaces.get_mut(namespace) else { return };
        account.bytes -= size;
        account.order.remove(&(size <= self.bare, used));
        if account.order.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    #[cfg(test)]
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    #[cfg(test)]
    fn check(&self) {
        assert_eq!(self.total, self.entries.values().map(|entry| entry.size).sum::<usize>());
        assert_eq!(self.total, self.namespaces.values().map(|account| account.bytes).sum::<usize>());
        assert_eq!(self.entries.len(), self.namespaces.values().map(|account| account.order.len()).sum::<usize>());
        for (namespace, account) in &self.namespaces {
            for ((is_bare, used), key) in &account.order {
                let entry = &self.entries[key];
                assert!(entry.used == *used && entry.users[0].0 == *namespace && *is_bare == (entry.size <= self.bare));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn namespace(name: &str) -> Arc<str> {
        name.into()
    }

    fn evict(cache: &mut WeightedCache<u32>) -> Vec<u32> {
        std::iter::from_fn(|| {
            let key = cache.excess()?;
            cache.remove(&key);
            Some(key)
        })
        .collect()
    }

    #[test]
    fn the_largest_namespace_loses_what_it_used_least_recently() {
        let (a, b) = (namespace("a"), namespace("b"));
        let mut cache = WeightedCache::new(100, 1);
        cache.insert(1, (), 30, &b);
        for key in 2..5 {
            cache.insert(key, (), 20, &a);
        }
        cache.touch(&2, &a);
        cache.insert(5, (), 20, &a);
        assert_eq!(evict(&mut cache), [3]);
        cache.check();
        assert!(!cache.has_room(&a, 20) && cache.has_room(&b, 20), "its share is 50");
        assert!(cache.has_room(&namespace("c"), 33) && !cache.has_room(&namespace("c"), 34), "a third");
    }

    #[test]
    fn what_another_uses_as_well_counts_for_that_one_instead() {
        let (a, b, c) = (namespace("a"), namespace("b"), namespace("c"));
        let mut cache = WeightedCache::new(100, 1);
        cache.insert(1, (), 40, &a);
        cache.touch(&1, &b);
        cache.insert(2, (), 40, &a);
        cache.insert(3, (), 30, &a);
        assert_eq!(evict(&mut cache), [2], "the first one counts for b by then");
        assert!(cache.namespaces[&b].bytes == 40 && cache.namespaces[&a].bytes == 30);
        // A namespace that stopped using an entry does not keep it.
        cache.touch(&3, &c);
        cache.sweep();
        cache.sweep();
        cache.touch(&3, &c);
        cache.sweep();
        assert!(cache.namespaces[&c].bytes == 30 && !cache.namespaces.contains_key(&a));
        cache.check();
    }

    #[test]
    fn entries_without_contents_go_last_and_are_limited() {
        let (a, b) = (namespace("a"), namespace("b"));
        let mut cache = WeightedCache::new(100, 5);
        for key in 0..10 {
            assert!(cache.has_place(&a));
            cache.insert(key, (), 5, &a);
        }
        assert!(!cache.has_place(&a) && cache.has_place(&b));
        cache.resize(&9, 60);
        assert_eq!(cache.excess(), Some(9));
        cache.resize(&9, 5);
        assert_eq!(cache.excess(), None);
        for key in 10..15 {
            assert!(cache.has_place(&b));
            cache.insert(key, (), 5, &b);
        }
        assert!(!cache.has_place(&b), "its share");
        assert_eq!(cache.excess(), None);
        cache.check();
    }

    #[test]
    fn returns_memory_once_most_entries_are_gone() {
        let mut cache = WeightedCache::new(usize::MAX, 0);
        (0..1_000).for_each(|key| cache.insert(key, (), 1, "a"));
        cache.retain(|key, (), size| {
            *size = 3;
            *key < 10
        });
        assert!(cache.total() == 30 && cache.entries.capacity() < 100);
        cache.check();
    }

    proptest! {
        #[test]
        fn keeps_its_books_and_every_namespace_its_share(
            steps in prop::collection::vec((0..4_usize, 0..12_u32, 1..40_usize, 0..6_u8), 0..200),
        ) {
            const LIMIT: usize = 120;
            let names = ["a", "b", "c", "d"].map(namespace);
            let mut cache = WeightedCache::new(LIMIT, 10);
            for (user, key, size, action) in steps {
                match action {
                    0 | 1 => cache.insert(key, (), size, &names[user]),
                    2 => cache.resize(&key, size),
                    3 => cache.sweep(),
                    4 => _ = cache.remove(&key),
                    _ => cache.touch(&key, &names[user]),
                }
                // No one loses what a namespace uses that uses no more than its share in all.
                let uses = |user: &Arc<str>, entry: &Entry<()>| entry.users.iter().any(|(own, _)| own == user);
                let is_entitled = |user: &&Arc<str>| {
                    let used = cache.entries.values().filter(|entry| uses(user, entry));
                    used.map(|entry| entry.size).sum::<usize>() <= LIMIT / 4
                };
                let entitled: Vec<_> = names.iter().filter(is_entitled).collect();
                let safe: Vec<_> = cache
                    .entries
                    .iter()
                    .filter(|(_, entry)| entitled.iter().any(|user| uses(user, entry)))
                    .map(|(key, _)| *key)
                    .collect();
                let evicted = evict(&mut cache);
                prop_assert!(cache.total() <= LIMIT);
                prop_assert!(evicted.iter().all(|key| !safe.contains(key)), "{evicted:?} of {safe:?}");
                cache.check();
            }
        }
    }
}
