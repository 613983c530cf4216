//! Shares equal texts, and other values that are counted references.

use std::{collections::HashSet, hash::Hash, sync::Arc};

use arcstr::ArcStr;

/// How many values there are at least before those that nobody shares are removed.
const SWEEP_AT: usize = 1 << 10;

/// A value that is shared when it is cloned.
pub(crate) trait Shared: Clone + Eq + Hash {
    /// How many clones there are.
    fn count(&self) -> usize;
}

impl Shared for ArcStr {
    fn count(&self) -> usize {
        // A literal takes no memory.
        ArcStr::strong_count(self).unwrap_or(usize::MAX)
    }
}

impl<T: Eq + Hash> Shared for Arc<T> {
    fn count(&self) -> usize {
        Arc::strong_count(self)
    }
}

/// Values of which equal ones are kept once, up to a number.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    known: HashSet<T>,
    most: usize,
    /// How many values found no room since the last sweep.
    left_out: usize,
    sweep_at: usize,
}

impl<T: Shared> Interner<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { known: HashSet::new(), most, left_out: 0, sweep_at: SWEEP_AT }
    }

    /// Replaces a value by an equal one that is known, or remembers it. Returns whether it is shared: not if there are too many.
    pub(crate) fn intern(&mut self, value: &mut T) -> bool {
        if let Some(known) = self.known.get(value) {
            *value = known.clone();
            return true;
        }
        if self.known.len() + self.left_out >= self.sweep_at {
            self.sweep();
        }
        let has_room = self.known.len() < self.most;
        if has_room {
            self.known.insert(value.clone());
        } else {
            self.left_out += 1;
        }
        has_room
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Removes the values that nobody has, and if there are many, those that only one has.
    pub(crate) fn sweep(&mut self) {
        self.known.retain(|value| value.count() > 1);
        if self.known.len() > self.most / 2 {
            self.known.retain(|value| value.count() > 2);
        }
        if self.known.capacity() > 4 * self.known.len().max(SWEEP_AT) {
            self.known.shrink_to_fit();
        }
        self.left_out = 0;
        self.sweep_at = (2 * self.known.len()).max(SWEEP_AT);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Values stay what they are, equal ones are shared while there is room, and there are never more than the bound.
        #[test]
        fn shares_equal_values_within_its_bound(numbers in prop::collection::vec(0..50_u32, 0..300), most in 1..60_usize) {
            let mut interner = Interner::new(most);
            let mut kept: Vec<ArcStr> = Vec::new();
            for number in numbers {
                let mut text = ArcStr::from(number.to_string());
                let is_shared = interner.intern(&mut text);
                prop_assert_eq!(&*text, number.to_string());
                prop_assert!(interner.known.len() <= most);
                let first = kept.iter().find(|own| **own == text);
                prop_assert_eq!(first.is_some_and(|first| ArcStr::ptr_eq(first, &text)), is_shared && first.is_some());
                kept.push(text);
            }
        }
    }

    #[test]
    fn has_room_again_after_what_filled_it_is_gone() {
        let mut interner = Interner::new(SWEEP_AT);
        let text = |number: usize| ArcStr::from(number.to_string());
        let mut shared: Vec<_> = (0..2 * SWEEP_AT).map(|number| text(number % SWEEP_AT)).collect();
        shared.iter_mut().for_each(|text| assert!(interner.intern(text)));
        assert!(!interner.intern(&mut text(SWEEP_AT)), "it is full of values that are shared");
        drop(shared);
        let is_shared = (0..2 * SWEEP_AT).any(|number| interner.intern(&mut text(9_000_000 + number)));
        assert!(is_shared, "what nobody has any more is removed in time");
    }

    #[test]
    fn values_that_are_not_shared_make_room_for_others() {
        let mut interner = Interner::new(2 * SWEEP_AT);
        let text = |number: usize| ArcStr::from(number.to_string());
        let mut kept: Vec<_> = (0..4 * SWEEP_AT).map(text).collect();
        kept.iter_mut().for_each(|text| _ = interner.intern(text));
        assert!(interner.known.len() <= 2 * SWEEP_AT);
        let [mut one, mut other] = [text(9_999_999), text(9_999_999)];
        interner.sweep();
        assert!(interner.intern(&mut one) && interner.intern(&mut other));
        assert!(ArcStr::ptr_eq(&one, &other));
        drop((one, other, kept));
        interner.sweep();
        assert_eq!(interner.known.len(), 0);
    }
}
