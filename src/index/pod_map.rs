//! A hash map of all pods, in shards.
//!
//! While a hash map grows, it takes half as much again as its new size. Only one shard grows at a time, which at a million
//! pods saves 30 MiB of peak memory.

use std::collections::HashMap;

use crate::pods::Uid;

const SHARDS: usize = 64;

#[derive(Debug)]
pub(super) struct PodMap<V> {
    shards: [HashMap<Uid, V>; SHARDS],
}

impl<V> Default for PodMap<V> {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| HashMap::new()) }
    }
}

impl<V> PodMap<V> {
    pub(super) fn get(&self, uid: Uid) -> Option<&V> {
        self.shards[shard(uid)].get(&uid)
    }

    pub(super) fn contains(&self, uid: Uid) -> bool {
        self.shards[shard(uid)].contains_key(&uid)
    }

    pub(super) fn insert(&mut self, uid: Uid, value: V) {
        self.shards[shard(uid)].insert(uid, value);
    }

    pub(super) fn remove(&mut self, uid: Uid) -> Option<V> {
        self.shards[shard(uid)].remove(&uid)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Uid, &V)> {
        self.shards.iter().flatten()
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(HashMap::len).sum()
    }
}

/// UIDs are random, or differ in their last digits.
fn shard(uid: Uid) -> usize {
    let bits = u128::from(uid);
    ((bits ^ bits >> 64) as usize) % SHARDS
}
