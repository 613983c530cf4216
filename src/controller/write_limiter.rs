//! Limits concurrent writes of statuses. A write can hang, for instance in an admission webhook, so neither one namespace
//! nor the objects whose writes failed may use up all permits.

use std::collections::{HashMap, VecDeque};

use crate::api::NamespacedName;

/// The most concurrent writes. Each is also limited in time.
const ALL: usize = 64;
/// The most of them in one namespace.
const PER_NAMESPACE: usize = 8;
/// The most of them for objects whose last write failed.
const RETRIES: usize = 16;

/// The permits in use, and the objects that wait for one.
#[derive(Debug, Default)]
pub(super) struct WriteLimiter {
    in_use: usize,
    retries: usize,
    by_namespace: HashMap<String, usize>,
    waiting: VecDeque<(NamespacedName, bool)>,
}

/// Permission for one write. It must be returned to [`WriteLimiter::release`].
#[derive(Debug)]
#[must_use]
pub(super) struct WritePermit {
    namespace: String,
    is_retry: bool,
}

impl WriteLimiter {
    /// Returns a permit if the limits allow another write. `is_retry` is whether the object's last write failed.
    pub(super) fn acquire(&mut self, key: &NamespacedName, is_retry: bool) -> Option<WritePermit> {
        if !self.allows(key, is_retry) {
            return None;
        }
        self.in_use += 1;
        self.retries += usize::from(is_retry);
        *self.by_namespace.entry(key.namespace.clone()).or_default() += 1;
        Some(WritePermit { namespace: key.namespace.clone(), is_retry })
    }

    pub(super) fn release(&mut self, WritePermit { namespace, is_retry }: WritePermit) {
        self.in_use = self.in_use.saturating_sub(1);
        self.retries = self.retries.saturating_sub(usize::from(is_retry));
        if let Some(in_use) = self.by_namespace.get_mut(&namespace) {
            *in_use = in_use.saturating_sub(1);
            if *in_use == 0 {
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
        if self.in_use >= ALL {
            return None;
        }
        let place = self.waiting.iter().position(|(key, is_retry)| self.allows(key, *is_retry))?;
        self.waiting.remove(place).map(|(key, _)| key)
    }

    fn allows(&self, NamespacedName { namespace, .. }: &NamespacedName, is_retry: bool) -> bool {
        self.in_use < ALL
            && !(is_retry && self.retries >= RETRIES)
            && self.by_namespace.get(namespace).is_none_or(|in_use| *in_use < PER_NAMESPACE)
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
        std::iter::from_fn(|| limiter.acquire(&key(namespace, 0), is_retry)).collect()
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
        assert!(limiter.by_namespace.is_empty() && limiter.in_use == 0);
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
}
