//! Who may write now. Writes can hang, where an admission webhook does, and those of one namespace or of
//! objects that failed before must not take every place. Pure.

use std::collections::{HashMap, VecDeque};

use crate::api::NamespacedName;

/// Writes that may be under way at once; each is also bounded in time.
const ALL: usize = 64;
/// Of these, in one namespace.
const PER_NAMESPACE: usize = 8;
/// Of these, of objects whose last write failed.
const FAILING: usize = 16;

/// The places, and who waits for one.
#[derive(Debug, Default)]
pub struct WriteLimiter {
    taken: usize,
    failing: usize,
    by_namespace: HashMap<String, usize>,
    waiting: VecDeque<(NamespacedName, bool)>,
}

/// A place that was taken; to be given back.
#[derive(Debug)]
#[must_use]
pub struct Slot {
    namespace: String,
    failing: bool,
}

impl WriteLimiter {
    /// Whether an object may write now; `failing` tells whether its last write failed.
    #[must_use]
    pub fn are_free(&self, NamespacedName { namespace, .. }: &NamespacedName, failing: bool) -> bool {
        self.taken < ALL
            && !(failing && self.failing >= FAILING)
            && self.by_namespace.get(namespace).is_none_or(|taken| *taken < PER_NAMESPACE)
    }

    /// Takes a place.
    pub fn take(&mut self, NamespacedName { namespace, .. }: &NamespacedName, failing: bool) -> Slot {
        self.taken += 1;
        self.failing += usize::from(failing);
        *self.by_namespace.entry(namespace.clone()).or_default() += 1;
        Slot { namespace: namespace.clone(), failing }
    }

    /// Gives a place back.
    pub fn give_back(&mut self, Slot { namespace, failing }: Slot) {
        self.taken = self.taken.saturating_sub(1);
        self.failing = self.failing.saturating_sub(usize::from(failing));
        if let Some(taken) = self.by_namespace.get_mut(&namespace) {
            *taken = taken.saturating_sub(1);
            if *taken == 0 {
                self.by_namespace.remove(&namespace);
            }
        }
    }

    /// Remembers an object that may not write yet. It must not wait already.
    pub fn wait(&mut self, key: NamespacedName, failing: bool) {
        self.waiting.push_back((key, failing));
    }

    /// Of those who wait and may write now, the one who waits longest; it waits no more.
    pub fn next_waiting(&mut self) -> Option<NamespacedName> {
        if self.taken >= ALL {
            return None;
        }
        let place = self.waiting.iter().position(|(key, failing)| self.are_free(key, *failing))?;
        self.waiting.remove(place).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: &str, name: usize) -> NamespacedName {
        NamespacedName::new(namespace, name.to_string())
    }

    /// Takes as many places as there are for this namespace.
    fn fill(write_limiter: &mut WriteLimiter, namespace: &str, failing: bool) -> Vec<Slot> {
        let mut taken = Vec::new();
        while write_limiter.are_free(&key(namespace, 0), failing) {
            taken.push(write_limiter.take(&key(namespace, taken.len()), failing));
        }
        taken
    }

    #[test]
    fn a_namespace_that_hangs_leaves_places_for_others() {
        let mut write_limiter = WriteLimiter::default();
        let mut hanging = fill(&mut write_limiter, "stuck", false);
        assert_eq!(hanging.len(), PER_NAMESPACE);
        write_limiter.wait(key("stuck", 100), false);
        assert!(write_limiter.are_free(&key("fine", 0), false));
        assert_eq!(write_limiter.next_waiting(), None);
        write_limiter.give_back(hanging.pop().unwrap());
        assert_eq!(write_limiter.next_waiting(), Some(key("stuck", 100)));
        assert_eq!(write_limiter.next_waiting(), None, "each waits once");
        hanging.into_iter().for_each(|slot| write_limiter.give_back(slot));
        assert!(write_limiter.by_namespace.is_empty() && write_limiter.taken == 0);
    }

    #[test]
    fn those_who_failed_leave_places_for_those_who_did_not() {
        let mut write_limiter = WriteLimiter::default();
        let failing: usize =
            (0..100).map(|namespace| fill(&mut write_limiter, &format!("n{namespace}"), true).len()).sum();
        assert_eq!(failing, FAILING);
        write_limiter.wait(key("other", 1), true);
        write_limiter.wait(key("other", 2), false);
        assert_eq!(write_limiter.next_waiting(), Some(key("other", 2)), "overtakes who can't write anyway");
        let all: usize =
            (100..200).map(|namespace| fill(&mut write_limiter, &format!("n{namespace}"), false).len()).sum();
        assert_eq!(failing + all, ALL);
        assert!(!write_limiter.are_free(&key("other", 3), false));
    }
}
