//! The labels of a label set: as text if they are short, as they usually are, and otherwise as hashes, which answer every
//! question that a selector asks. So a tenant cannot fill the memory with long labels, and a selector of an object that is
//! created later needs no new list.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use arcstr::ArcStr;

use crate::{
    diagnosis::is_revision_label,
    pods::{Labels, Pod},
};

/// The longest labels of a pod that are kept as text, in bytes. Longer ones take 16 bytes for each label.
const TEXT_LIMIT: usize = 1024;
/// The most bytes of hashed labels, of all pods and of those of one namespace. Pods with unique labels that are that long
/// and for which there is no room are not judged, which is reported.
const HASHED_LIMIT: usize = 8 << 20;
const NAMESPACE_LIMIT: usize = 1 << 20;

/// Precedes the hashes. No label key starts with it.
const HASHED: u8 = 1;
/// Two hashes: of the key, and of the value.
const PAIR: usize = 16;

/// Encodes labels. The hashes are keyed with random numbers, so nobody can construct labels whose hashes are the same.
#[derive(Debug, Default)]
pub(super) struct LabelHasher(RandomState);

impl LabelHasher {
    /// Appends labels, which are sorted by key: key and value of each, terminated by a NUL; or, if that is too long, of
    /// those that tell revisions apart, and then the hashes of all labels.
    pub(super) fn encode(&self, encoded: &mut Vec<u8>, labels: &[(ArcStr, ArcStr)]) {
        let is_odd = |text: &str| text.bytes().any(|byte| byte <= HASHED);
        let length: usize = labels.iter().map(|(key, value)| key.len() + value.len() + 2).sum();
        if length <= TEXT_LIMIT && !labels.iter().any(|(key, value)| is_odd(key) || is_odd(value)) {
            push(encoded, labels.iter().flat_map(|(key, value)| [&**key, &**value]));
            return;
        }
        let named = labels.iter().filter(|(key, value)| is_revision_label(key) && !is_odd(value));
        push(encoded, named.flat_map(|(key, value)| [&**key, &**value]));
        encoded.push(HASHED);
        let mut hashes: Vec<_> = labels.iter().map(|(key, value)| self.pair(key, value)).collect();
        hashes.sort_unstable();
        hashes.iter().for_each(|pair| encoded.extend_from_slice(pair));
    }

    /// Labels that [`encode`](Self::encode) has encoded.
    pub(super) fn stored<'a>(&'a self, encoded: &'a [u8]) -> StoredLabels<'a> {
        let mut text = encoded;
        while !text.is_empty() && text[0] != HASHED {
            let Some(end) = text.iter().position(|byte| *byte == 0) else { break };
            text = &text[end + 1..];
            let end = text.iter().position(|byte| *byte == 0).map_or(text.len(), |end| end + 1);
            text = &text[end..];
        }
        let (text, hashes) = encoded.split_at(encoded.len() - text.len());
        StoredLabels { encoded, text, hashes: hashes.get(1..), hasher: self }
    }

    fn hash(&self, text: &str) -> [u8; PAIR / 2] {
        self.0.hash_one(text).to_be_bytes()
    }

    fn pair(&self, key: &str, value: &str) -> [u8; PAIR] {
        let mut pair = [0; PAIR];
        pair[..PAIR / 2].copy_from_slice(&self.hash(key));
        pair[PAIR / 2..].copy_from_slice(&self.hash(value));
        pair
    }
}

/// The labels of a label set.
pub(super) struct StoredLabels<'a> {
    encoded: &'a [u8],
    text: &'a [u8],
    /// The hashes of all labels; absent if the text has all labels.
    hashes: Option<&'a [u8]>,
    hasher: &'a LabelHasher,
}

impl<'a> StoredLabels<'a> {
    /// The value of a label that is kept as text; otherwise empty.
    pub(super) fn value(&self, key: &str) -> &'a str {
        let value = self.pairs().find(|(own, _)| *own == key.as_bytes()).map(|(_, value)| value);
        str::from_utf8(value.unwrap_or_default()).unwrap_or_default()
    }

    /// Whether a pod has exactly these labels.
    pub(super) fn are_those_of(&self, pod: &Pod) -> bool {
        if self.hashes.is_some() {
            let mut encoded = Vec::new();
            self.hasher.encode(&mut encoded, &pod.labels);
            return encoded == self.encoded;
        }
        let mut pairs = self.pairs();
        pod.labels.iter().all(|(key, value)| pairs.next() == Some((key.as_bytes(), value.as_bytes())))
            && pairs.next().is_none()
    }

    fn pairs(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let text = self.text.strip_suffix(&[0]).unwrap_or_default();
        let mut parts = text.split(|byte| *byte == 0);
        let is_empty = self.text.is_empty();
        std::iter::from_fn(move || if is_empty { None } else { Some((parts.next()?, parts.next()?)) })
    }
}

impl Labels for StoredLabels<'_> {
    fn has(&self, key: &str) -> bool {
        match self.hashes {
            None => self.pairs().any(|(own, _)| own == key.as_bytes()),
            Some(hashes) => {
                let wanted = self.hasher.hash(key);
                hashes.chunks_exact(PAIR).any(|pair| pair[..PAIR / 2] == wanted)
            }
        }
    }

    fn is(&self, key: &str, value: &str) -> bool {
        match self.hashes {
            None => self.pairs().any(|own| own == (key.as_bytes(), value.as_bytes())),
            Some(hashes) => {
                let wanted = self.hasher.pair(key, value);
                hashes.chunks_exact(PAIR).any(|pair| *pair == wanted)
            }
        }
    }
}

/// How many bytes of hashed labels there are, for each namespace.
#[derive(Debug, Default)]
pub(super) struct LongLabels {
    namespaces: HashMap<Box<[u8]>, usize>,
    total: usize,
}

impl LongLabels {
    /// Counts the key of a new label set. Returns false, and counts nothing, if there is no room for it.
    pub(super) fn add(&mut self, key: &[u8]) -> bool {
        let Some(namespace) = long(key) else { return true };
        let own = self.namespaces.get(namespace).copied().unwrap_or_default() + key.len();
        if own > NAMESPACE_LIMIT || self.total + key.len() > HASHED_LIMIT {
            return false;
        }
        self.namespaces.insert(namespace.into(), own);
        self.total += key.len();
        true
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        let Some(namespace) = long(key) else { return };
        self.total = self.total.saturating_sub(key.len());
        if let Some(own) = self.namespaces.get_mut(namespace) {
            *own = own.saturating_sub(key.len());
            if *own == 0 {
                self.namespaces.remove(namespace);
            }
        }
    }
}

/// The namespace in the key of a label set, if that is longer than the names and labels of usual pods.
fn long(key: &[u8]) -> Option<&[u8]> {
    const NAMES: usize = 512;
    (key.len() > TEXT_LIMIT + NAMES).then(|| key.split(|byte| *byte == 0).next()).flatten()
}

pub(super) fn push<'a>(encoded: &mut Vec<u8>, parts: impl IntoIterator<Item = &'a str>) {
    for part in parts {
        encoded.extend_from_slice(part.as_bytes());
        encoded.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(count: usize, value: &str) -> Vec<(ArcStr, ArcStr)> {
        let mut labels: Vec<_> = (0..count).map(|n| (format!("example.com/{n:03}").into(), value.into())).collect();
        labels.push(("pod-template-hash".into(), "5d9f".into()));
        labels
    }

    #[test]
    fn answers_the_same_whether_labels_are_long_or_short() {
        let hasher = LabelHasher::default();
        for (count, value, is_long) in
            [(0, "", false), (3, "", false), (3, "x", false), (40, "", false), (256, "x", true)]
        {
            let labels = labels(count, value);
            let mut encoded = Vec::new();
            hasher.encode(&mut encoded, &labels);
            let stored = hasher.stored(&encoded);
            assert_eq!((stored.hashes.is_some(), stored.value("pod-template-hash")), (is_long, "5d9f"), "{count}");
            let keys = labels.iter().map(|(key, _)| key.as_str());
            for key in keys.chain(["", "example.com", "example.com/000", "example.com/0", "x"]) {
                assert_eq!(stored.has(key), labels.has(key), "{key}");
                for wanted in [value, "", "y", "5d9f"] {
                    assert_eq!(stored.is(key, wanted), labels.is(key, wanted), "{key}={wanted}");
                }
            }
            let same = Pod { labels: labels.clone(), ..Pod::default() };
            assert!(stored.are_those_of(&same));
            for index in [0, labels.len() - 1] {
                let [mut other, mut fewer] = [same.clone(), same.clone()];
                other.labels[index].1 = "other".into();
                fewer.labels.remove(index);
                assert!(!stored.are_those_of(&other) && !stored.are_those_of(&fewer), "{count}");
            }
        }
    }

    #[test]
    fn long_labels_take_a_fraction_of_their_text() {
        let long: Vec<_> =
            (0..256).map(|n| (format!("{}{n}", "k".repeat(300)).into(), "v".repeat(63).into())).collect();
        let mut encoded = Vec::new();
        LabelHasher::default().encode(&mut encoded, &long);
        assert!(encoded.len() < 256 * 30, "{} bytes", encoded.len());
    }

    #[test]
    fn a_namespace_leaves_room_for_the_long_labels_of_others() {
        let mut long = LongLabels::default();
        let key = |namespace: &str, length: usize| [namespace.as_bytes(), &[0], &vec![2; length]].concat();
        let mut count = 0;
        while long.add(&key("a", 4096)) {
            count += 1;
        }
        assert!(count <= NAMESPACE_LIMIT / 4096 && count > NAMESPACE_LIMIT / 4096 - 5, "{count}");
        assert!(long.add(&key("b", 4096)));
        assert!((0..100_000).all(|_| long.add(&key("a", 1024))), "usual labels always have room");
        long.remove(&key("a", 4096));
        assert!(long.add(&key("a", 4096)) && !long.add(&key("a", 4096)));
    }
}
