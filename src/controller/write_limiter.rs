//! Limits concurrent writes of statuses. A write can hang, for instance in an admission webhook, so neither one namespace
//! nor the objects whose writes failed may use up all permits.
//!
//! They are also limited in bytes: a large status and the answer to its write take several times their size in memory.

use std::collections::{HashMap, VecDeque};

use crate::api::NamespacedName;

/// The most concurrent writes. Each is also limited in time.
const ALL: usize = 64;
/// The most of them in one namespace.
const PER_NAMESPACE: usize = 8;
/// The most of them for objects whose last write failed.
const RETRIES: usize = 16;
/// No further write begins while this many bytes are being written, so that a write waits only for others.
const ALL_BYTES: usize = 2 << 20;
/// The same in one namespace.
const NAMESPACE_BYTES: usize = 512 << 10;

/// The permits in use, and the objects that wait for one.
#[derive(Debug, Default)]
pub(super) struct WriteLimiter {
    in_use: InUse,
    retries: usize,
    by_namespace: HashMap<String, InUse>,
    waiting: VecDeque<(NamespacedName, bool)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct InUse {
    permits: usize,
    bytes: usize,
}

impl InUse {
    fn add(&mut self, bytes: usize) {
        self.permits += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn remove(&mut self, bytes: usize) {
        self.permits = self.permits.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Permission for one write. It must be returned to [`WriteLimiter::release`].
#[derive(Debug)]
#[must_use]
pub(super) struct WritePermit {
    namespace: String,
    is_retry: bool,
    bytes: usize,
}

impl WriteLimiter {
    /// Returns a permit if the limits allow another write. `is_retry` is whether the object's last write failed, and `bytes`
    /// the size of the object with its new status.
    pub(super) fn acquire(&mut self, key: &NamespacedName, is_retry: bool, bytes: usize) -> Option<WritePermit> {
        if !self.allows(key, is_retry) {
            return None;
        }
        self.in_use.add(bytes);
        self.retries += usize::from(is_retry);
        self.by_namespace.entry(key.namespace.clone()).or_default().add(bytes);
        Some(WritePermit { namespace: key.namespace.clone(), is_retry, bytes })
    }

    pub(super) fn release(&mut self, WritePermit { namespace, is_retry, bytes }: WritePermit) {
        self.in_use.remove(bytes);
        self.retries = self.retries.saturating_sub(usize::from(is_retry));
        if let Some(in_use) = self.by_namespace.get_mut(&namespace) {
            in_use.remove(bytes);
            if in_use.permits == 0 {
                self.by_namespace.remove(&namespace);
            }
        }
    }

    /// Remembers an object that waits for a permit. It must not be waiting already.
    pub(super) fn enqueue(&mut self, key: NamespacedName, is_retry: bool) {
        self.waiting.push_back((key, is_retry));
    }

    /// Removes and returns the object that has waited longest of those that may write now.
    pub(super) fn next_waiting(&mut self) -> Option<NamespacedName> {
        if !self.has_room() {
            return None;
        }
        let place = self.waiting.iter().position(|(key, is_retry)| self.allows(key, *is_retry))?;
        self.waiting.remove(place).map(|(key, _)| key)
    }

    /// Forgets an object that waits.
    pub(super) fn forget(&mut self, key: &NamespacedName) {
        self.waiting.retain(|(waiting, _)| waiting != key);
    }

    fn allows(&self, NamespacedName { namespace, .. }: &NamespacedName, is_retry: bool) -> bool {
        self.has_room()
            && !(is_retry && self.retries >= RETRIES)
            && self
                .by_namespace
                .get(namespace)
                .is_none_or(|in_use| in_use.permits < PER_NAMESPACE && in_use.bytes < NAMESPACE_BYTES)
    }

    fn has_room(&self) -> bool {
        self.in_use.permits < ALL && self.in_use.bytes < ALL_BYTES
    }
}

#[cfg(test)]
impl WriteLimiter {
    /// Whether nothing is written and nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.in_use == InUse::default() && self.by_namespace.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: usize) -> NamespacedName {
        NamespacedName::new(namespace, name.to_string())
    }

    /// Takes as many permits as one namespace may have.
    fn fill(limiter: &mut WriteLimiter, namespace: &str, is_retry: bool) -> Vec<WritePermit> {
        std::iter::from_fn(|| limiter.acquire(&key(namespace, 0), is_retry, 0)).collect()
    }

    #[test]
    fn a_namespace_whose_writes_hang_leaves_permits_for_others() {
        let mut limiter = WriteLimiter::default();
        let mut hanging = fill(&mut limiter, "stuck", false);
        assert_eq!(hanging.len(), PER_NAMESPACE);
        limiter.enqueue(key("stuck", 100), false);
        assert!(limiter.allows(&key("fine", 0), false));
        assert_eq!(limiter.next_waiting(), None);
        limiter.release(hanging.pop().unwrap());
        assert_eq!(limiter.next_waiting(), Some(key("stuck", 100)));
        assert_eq!(limiter.next_waiting(), None, "each object waits once");
        hanging.into_iter().for_each(|permit| limiter.release(permit));
        assert!(limiter.by_namespace.is_empty() && limiter.in_use == InUse::default());
    }

    #[test]
    fn retries_leave_permits_for_first_writes() {
        let mut limiter = WriteLimiter::default();
        let retries: usize = (0..100).map(|namespace| fill(&mut limiter, &format!("n{namespace}"), true).len()).sum();
        assert_eq!(retries, RETRIES);
        limiter.enqueue(key("other", 1), true);
        limiter.enqueue(key("other", 2), false);
        assert_eq!(limiter.next_waiting(), Some(key("other", 2)), "it overtakes a retry that may not write yet");
        let first: usize = (100..200).map(|namespace| fill(&mut limiter, &format!("n{namespace}"), false).len()).sum();
        assert_eq!(retries + first, ALL);
        assert!(!limiter.allows(&key("other", 3), false));
    }

    #[test]
    fn large_writes_are_limited_in_bytes_for_each_namespace_and_in_all() {
        const LARGE: usize = 200 << 10;
        let mut limiter = WriteLimiter::default();
        let mut permits = Vec::new();
        for namespace in 0..100 {
            let key = key(&format!("n{namespace}"), 0);
            permits.extend(std::iter::from_fn(|| limiter.acquire(&key, false, LARGE)));
        }
        assert_eq!(limiter.by_namespace["n0"], InUse { permits: 3, bytes: 3 * LARGE });
        assert_eq!(limiter.in_use, InUse { permits: 11, bytes: 11 * LARGE });
        limiter.enqueue(key("n99", 1), false);
        assert_eq!(limiter.next_waiting(), None);
        limiter.release(permits.remove(0));
        assert_eq!(limiter.next_waiting(), Some(key("n99", 1)));

        let mut limiter = WriteLimiter::default();
        assert!(limiter.acquire(&key("a", 0), false, usize::MAX).is_some(), "a single write is always allowed");
        assert!(limiter.acquire(&key("b", 0), false, 1).is_none());
    }

    #[test]
    fn deleted_objects_do_not_wait() {
        let mut limiter = WriteLimiter::default();
        for name in 0..1_000 {
            limiter.enqueue(key("shop", name), false);
            limiter.forget(&key("shop", name));
        }
        assert!(limiter.waiting.is_empty());
    }
}
