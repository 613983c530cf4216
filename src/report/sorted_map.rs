//! A map that is built once. Unlike a `HashMap`, which is half empty on average, it takes no more memory than its entries.

#[derive(Clone, Debug)]
pub(super) struct SortedMap<K, V>(Box<[(K, V)]>);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<K: Ord + Copy, V> SortedMap<K, V> {
    pub(super) fn get(&self, key: K) -> Option<&V> {
        let index = self.0.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        self.0.get(index).map(|(_, value)| value)
    }

    pub(super) fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.0.iter().map(|(key, value)| (*key, value))
    }
}

/// Of equal keys, the last one counts.
impl<K: Ord + Copy, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.reverse();
        entries.sort_by_key(|(key, _)| *key);
        entries.dedup_by_key(|(key, _)| *key);
        Self(entries.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_last_value_of_each_key() {
        let map: SortedMap<_, _> = [(3, 'c'), (1, 'a'), (2, 'b'), (1, 'x')].into_iter().collect();
        assert_eq!([0, 1, 2, 3, 4].map(|key| map.get(key).copied()), [None, Some('x'), Some('b'), Some('c'), None]);
        assert!(map.contains(2) && !map.contains(4));
        assert_eq!(map.iter().map(|(key, _)| key).collect::<Vec<_>>(), [1, 2, 3]);
    }
}
