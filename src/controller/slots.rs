//! Who may write now. Writes can hang, where an admission webhook does, and those of one namespace or of
//! objects that failed before must not take every place. Pure.

use std::collections::{HashMap, VecDeque};

use super::object::ObjectKey;

/// Writes that may be under way at once; each is also bounded in time.
const ALL: usize = 64;
/// Of these, in one namespace.
const PER_NAMESPACE: usize = 8;
/// Of these, of objects whose last write failed.
const FAILING: usize = 16;

/// The places, and who waits for one.
#[derive(Debug, Default)]
pub struct Slots {
    taken: usize,
    failing: usize,
    by_namespace: HashMap<String, usize>,
    waiting: VecDeque<(ObjectKey, bool)>,
}

/// A place that was taken; to be given back.
#[derive(Debug)]
#[must_use]
pub struct Slot {
    namespace: String,
    failing: bool,
}

impl Slots {
    /// Whether an object may write now; `failing` tells whether its last write failed.
    #[must_use]
    pub fn are_free(&self, (namespace, _): &ObjectKey, failing: bool) -> bool {
        self.taken < ALL
            && !(failing && self.failing >= FAILING)
            && self.by_namespace.get(namespace).is_none_or(|taken| *taken < PER_NAMESPACE)
    }

    /// Takes a place.
    pub fn take(&mut self, (namespace, _): &ObjectKey, failing: bool) -> Slot {
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
    pub fn wait(&mut self, key: ObjectKey, failing: bool) {
        self.waiting.push_back((key, failing));
    }

    /// Of those who wait and may write now, the one who waits longest; it waits no more.
    pub fn next_waiting(&mut self) -> Option<ObjectKey> {
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

    fn key(namespace: &str, name: usize) -> ObjectKey {
        (namespace.to_owned(), name.to_string())
    }

    /// Takes as many places as there are for this namespace.
    fn fill(slots: &mut Slots, namespace: &str, failing: bool) -> Vec<Slot> {
        let mut taken = Vec::new();
        while slots.are_free(&key(namespace, 0), failing) {
            taken.push(slots.take(&key(namespace, taken.len()), failing));
        }
        taken
    }

    #[test]
    fn a_namespace_that_hangs_leaves_places_for_others() {
        let mut slots = Slots::default();
        let mut hanging = fill(&mut slots, "stuck", false);
        assert_eq!(hanging.len(), PER_NAMESPACE);
        slots.wait(key("stuck", 100), false);
        assert!(slots.are_free(&key("fine", 0), false));
        assert_eq!(slots.next_waiting(), None);
        slots.give_back(hanging.pop().unwrap());
        assert_eq!(slots.next_waiting(), Some(key("stuck", 100)));
        assert_eq!(slots.next_waiting(), None, "each waits once");
        hanging.into_iter().for_each(|slot| slots.give_back(slot));
        assert!(slots.by_namespace.is_empty() && slots.taken == 0);
    }

    #[test]
    fn those_who_failed_leave_places_for_those_who_did_not() {
        let mut slots = Slots::default();
        let failing: usize = (0..100).map(|namespace| fill(&mut slots, &format!("n{namespace}"), true).len()).sum();
        assert_eq!(failing, FAILING);
        slots.wait(key("other", 1), true);
        slots.wait(key("other", 2), false);
        assert_eq!(slots.next_waiting(), Some(key("other", 2)), "overtakes who can't write anyway");
        let all: usize = (100..200).map(|namespace| fill(&mut slots, &format!("n{namespace}"), false).len()).sum();
        assert_eq!(failing + all, ALL);
        assert!(!slots.are_free(&key("other", 3), false));
    }
}
