//! Accounts for the bytes that namespaces have stored, and decides which entry goes when they exceed the bound.
//!
//! An entry counts for one of the namespaces that use it. When the bound is exceeded, the namespace with the most bytes
//! loses the contents that it has not used for longest, and then bare entries. If others use it as well, it counts for one of them from then on. So
//! a namespace whose bytes are at most the bound, divided by the number of namespaces, loses none.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    sync::Arc,
};

/// How many namespaces are remembered that use one entry.
const MAX_USERS: usize = 16;

#[derive(Debug)]
pub(super) struct Ledger<K> {
    limit: usize,
    bare: usize,
    total: usize,
    namespaces: HashMap<Arc<str>, Account<K>>,
    entries: HashMap<K, Entry>,
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
struct Entry {
    size: usize,
    used: u64,
    /// The namespaces that use it, each with the epoch of its last use. It counts for the first.
    users: Vec<(Arc<str>, u32)>,
}

impl<K: Clone + Eq + Hash> Ledger<K> {
    /// `bare` is the size of an entry without contents.
    pub(super) fn new(limit: usize, bare: usize) -> Self {
        Self { limit, bare, total: 0, namespaces: HashMap::new(), entries: HashMap::new(), clock: 0, epoch: 0 }
    }

    /// Whether the namespace may store this many bytes more. They displace only what others have beyond their share.
    pub(super) fn has_room(&self, namespace: &Arc<str>, bytes: usize) -> bool {
        let own = self.namespaces.get(namespace).map(|account| account.bytes);
        let sharing = self.namespaces.len() + usize::from(own.is_none());
        self.total + bytes <= self.limit || own.unwrap_or(0) + bytes <= self.limit / sharing
    }

    /// Whether the namespace may add an entry. At most half of the bound is for the bare entries of all namespaces together,
    /// and as much again for those of namespaces within their share, so entries never displace each other by turns: only
    /// their contents do.
    pub(super) fn has_place(&self, namespace: &Arc<str>) -> bool {
        let own = self.namespaces.get(namespace).map_or(0, |account| account.order.len());
        let sharing = self.namespaces.len() + usize::from(own == 0);
        let most = self.limit / 2 / self.bare.max(1);
        self.entries.len() < most || own < most / sharing
    }

    /// Adds an entry that counts for this namespace.
    pub(super) fn insert(&mut self, key: K, size: usize, namespace: &Arc<str>) {
        self.remove(&key);
        self.clock += 1;
        self.entries
            .insert(key.clone(), Entry { size, used: self.clock, users: vec![(Arc::clone(namespace), self.epoch)] });
        self.credit(&key, namespace, self.clock, size);
    }

    /// Records that a namespace uses an entry.
    pub(super) fn touch(&mut self, key: &K, namespace: &Arc<str>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if let Some((_, epoch)) = entry.users.iter_mut().find(|(user, _)| user == namespace) {
            *epoch = self.epoch;
        } else if entry.users.len() < MAX_USERS {
            entry.users.push((Arc::clone(namespace), self.epoch));
        }
        self.renew(key);
    }

    /// Records that an entry is used.
    fn renew(&mut self, key: &K) {
        let Some(entry) = self.entries.get_mut(key) else { return };
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
    pub(super) fn resize(&mut self, key: &K, size: usize) {
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

    pub(super) fn size(&self, key: &K) -> usize {
        self.entries.get(key).map_or(0, |entry| entry.size)
    }

    pub(super) fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key)
            && let Some((payer, _)) = entry.users.first()
        {
            self.debit(payer, entry.used, entry.size);
        }
    }

    /// The entry to shrink or to remove, while the bound is exceeded.
    pub(super) fn excess(&mut self) -> Option<K> {
        while self.total > self.limit {
            let (namespace, account) =
                self.namespaces.iter().max_by(|(one, a), (other, b)| (a.bytes, one).cmp(&(b.bytes, other)))?;
            let (namespace, key) = (Arc::clone(namespace), account.order.first_key_value()?.1.clone());
            let entry = self.entries.get_mut(&key)?;
            if entry.users.len() < 2 {
                return Some(key);
            }
            // The other with the fewest bytes takes it over.
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
    pub(super) fn sweep(&mut self) {
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
    pub(super) fn total(&self) -> usize {
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

    fn evict(ledger: &mut Ledger<u32>) -> Vec<u32> {
        std::iter::from_fn(|| {
            let key = ledger.excess()?;
            ledger.remove(&key);
            Some(key)
        })
        .collect()
    }

    #[test]
    fn the_namespace_with_the_most_loses_what_it_has_not_used_for_longest() {
        let (a, b) = (namespace("a"), namespace("b"));
        let mut ledger = Ledger::new(100, 1);
        ledger.insert(1, 30, &b);
        for key in 2..5 {
            ledger.insert(key, 20, &a);
        }
        ledger.touch(&2, &a);
        ledger.insert(5, 20, &a);
        assert_eq!(evict(&mut ledger), [3]);
        ledger.check();
        assert!(!ledger.has_room(&a, 20) && ledger.has_room(&b, 20), "its share is 50");
        assert!(ledger.has_room(&namespace("c"), 33) && !ledger.has_room(&namespace("c"), 34), "a third");
    }

    #[test]
    fn what_another_uses_as_well_counts_for_that_one_instead() {
        let (a, b, c) = (namespace("a"), namespace("b"), namespace("c"));
        let mut ledger = Ledger::new(100, 1);
        ledger.insert(1, 40, &a);
        ledger.touch(&1, &b);
        ledger.insert(2, 40, &a);
        ledger.insert(3, 30, &a);
        assert_eq!(evict(&mut ledger), [2], "the first one counts for b by then");
        assert!(ledger.namespaces[&b].bytes == 40 && ledger.namespaces[&a].bytes == 30);
        // A namespace that stopped using an entry does not keep it.
        ledger.touch(&3, &c);
        ledger.sweep();
        ledger.sweep();
        ledger.touch(&3, &c);
        ledger.sweep();
        assert!(ledger.namespaces[&c].bytes == 30 && !ledger.namespaces.contains_key(&a));
        ledger.check();
    }

    #[test]
    fn entries_without_contents_go_last_and_are_limited() {
        let (a, b) = (namespace("a"), namespace("b"));
        let mut ledger = Ledger::new(100, 5);
        for key in 0..10 {
            assert!(ledger.has_place(&a));
            ledger.insert(key, 5, &a);
        }
        assert!(!ledger.has_place(&a) && ledger.has_place(&b));
        ledger.resize(&9, 60);
        assert_eq!(ledger.excess(), Some(9));
        ledger.resize(&9, 5);
        assert_eq!(ledger.excess(), None);
        for key in 10..15 {
            assert!(ledger.has_place(&b));
            ledger.insert(key, 5, &b);
        }
        assert!(!ledger.has_place(&b), "its share");
        assert_eq!(ledger.excess(), None);
        ledger.check();
    }

    proptest! {
        #[test]
        fn keeps_its_books_and_every_namespace_its_share(
            steps in prop::collection::vec((0..4_usize, 0..12_u32, 1..40_usize, 0..6_u8), 0..200),
        ) {
            const LIMIT: usize = 120;
            let names = ["a", "b", "c", "d"].map(namespace);
            let mut ledger = Ledger::new(LIMIT, 10);
            for (user, key, size, action) in steps {
                match action {
                    0 | 1 => ledger.insert(key, size, &names[user]),
                    2 => ledger.resize(&key, size),
                    3 => ledger.sweep(),
                    4 => ledger.remove(&key),
                    _ => ledger.touch(&key, &names[user]),
                }
                // No one loses what a namespace uses that uses no more than its share in all.
                let uses = |user: &Arc<str>, entry: &Entry| entry.users.iter().any(|(own, _)| own == user);
                let is_entitled = |user: &&Arc<str>| {
                    let used = ledger.entries.values().filter(|entry| uses(user, entry));
                    used.map(|entry| entry.size).sum::<usize>() <= LIMIT / 4
                };
                let entitled: Vec<_> = names.iter().filter(is_entitled).collect();
                let safe: Vec<_> = ledger
                    .entries
                    .iter()
                    .filter(|(_, entry)| entitled.iter().any(|user| uses(user, entry)))
                    .map(|(key, _)| *key)
                    .collect();
                let evicted = evict(&mut ledger);
                prop_assert!(ledger.total() <= LIMIT);
                prop_assert!(evicted.iter().all(|key| !safe.contains(key)), "{evicted:?} of {safe:?}");
                ledger.check();
            }
        }
    }
}
