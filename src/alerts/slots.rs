//! Divides the space for the alerts of one webhook between namespaces, so that the incidents of one cannot use all of it.
//!
//! An incident that is tracked keeps its place until it ends. A namespace that fails later therefore finds a place only if
//! others were not given all of them: of the space that other namespaces leave, one namespace is given at most three
//! quarters. Its first alert may use the rest as well.

use std::collections::HashMap;

/// A number of alerts, and their bytes in the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    pub alerts: usize,
    pub bytes: usize,
}

impl Space {
    pub fn of_alert(bytes: usize) -> Self {
        Self { alerts: 1, bytes }
    }

    pub fn add(&mut self, other: Self) {
        self.alerts = self.alerts.saturating_add(other.alerts);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn plus(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    fn minus(self, other: Self) -> Self {
        Self { alerts: self.alerts.saturating_sub(other.alerts), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    fn three_quarters(self) -> Self {
        Self { alerts: self.alerts / 4 * 3 + self.alerts % 4 * 3 / 4, bytes: self.bytes / 4 * 3 }
    }

    fn fits(self, limit: Self) -> bool {
        self.alerts <= limit.alerts && self.bytes <= limit.bytes
    }
}

/// The space for alerts, and how much of it each namespace uses.
#[derive(Debug)]
pub(super) struct Slots {
    limit: Space,
    /// Whether alerts of several namespaces may need the space.
    is_shared: bool,
    used: Space,
    by_namespace: HashMap<String, Space>,
}

impl Slots {
    pub fn new(limit: Space, is_shared: bool) -> Self {
        Self { limit, is_shared, used: Space::default(), by_namespace: HashMap::new() }
    }

    pub fn add(&mut self, namespace: &str, space: Space) {
        self.used.add(space);
        match self.by_namespace.get_mut(namespace) {
            Some(used) => used.add(space),
            None => _ = self.by_namespace.insert(namespace.to_owned(), space),
        }
    }

    /// What the alerts of a namespace use.
    pub fn used_by(&self, namespace: &str) -> Space {
        self.by_namespace.get(namespace).copied().unwrap_or_default()
    }

    /// What the alerts of a namespace may use, while those of others use what they do now.
    fn share(&self, namespace: &str) -> Space {
        let left = self.limit.minus(self.used.minus(self.used_by(namespace)));
        if self.is_shared { left.three_quarters() } else { left }
    }

    /// Whether there is space for another alert of a namespace.
    pub fn has_space(&self, namespace: &str, alert: Space) -> bool {
        let used = self.used_by(namespace);
        self.used.plus(alert).fits(self.limit) && (used.alerts == 0 || used.plus(alert).fits(self.share(namespace)))
    }

    /// How many bytes the alerts of a namespace may grow by.
    pub fn free_bytes(&self, namespace: &str) -> usize {
        self.share(namespace).minus(self.used_by(namespace)).bytes
    }

    /// Whether a namespace is given space during a storm: all of its incidents need at most three quarters of its share, or
    /// it uses little of it. Otherwise each incident that ends would make room for a message about another.
    pub fn is_calm(&self, namespace: &str, due: Space) -> bool {
        let (used, share) = (self.used_by(namespace), self.share(namespace));
        used.plus(due).fits(share.three_quarters())
            || used.alerts == 0
            || self.is_shared && used.alerts <= share.alerts / 4 && used.bytes <= share.bytes / 4
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many alerts each of these namespaces is given, one namespace after the other.
    fn given(max: usize, is_shared: bool, namespaces: &[&str]) -> Vec<usize> {
        let mut slots = Slots::new(Space { alerts: max, bytes: usize::MAX }, is_shared);
        let mut fill = |namespace: &&str| {
            while slots.has_space(namespace, Space::of_alert(1)) {
                slots.add(namespace, Space::of_alert(1));
            }
            slots.used_by(namespace).alerts
        };
        namespaces.iter().map(&mut fill).collect()
    }

    #[test]
    fn leaves_a_quarter_to_namespaces_that_fail_later() {
        let names = ["a", "b", "c", "d", "e"];
        assert_eq!(given(20, true, &names), [15, 3, 1, 1, 0]);
        assert_eq!(given(100, true, &names), [75, 18, 5, 1, 1]);
        assert_eq!(given(250, true, &names), [187, 47, 12, 3, 1]);
        assert_eq!(given(1, true, &names[..2]), [1, 0]);
    }

    #[test]
    fn a_single_namespace_uses_all_of_it() {
        assert_eq!(given(20, false, &["a"]), [20]);
        assert_eq!(given(250, false, &["a"]), [250]);
    }

    #[test]
    fn divides_bytes_like_alerts() {
        let mut slots = Slots::new(Space { alerts: 100, bytes: 6_400 }, true);
        while slots.has_space("a", Space::of_alert(1_000)) {
            slots.add("a", Space::of_alert(1_000));
        }
        assert_eq!((slots.used_by("a").alerts, slots.free_bytes("a")), (4, 800));
        assert!(slots.has_space("b", Space::of_alert(1_000)) && !slots.has_space("b", Space::of_alert(2_401)));
    }

    proptest! {
        #[test]
        fn whoever_came_first_leaves_space_for_another_namespace(
            max in 2_usize..300,
            alerts in prop::collection::vec((0_usize..3, 1_usize..1_000), 0..400),
        ) {
            let limit = Space { alerts: max, bytes: 64 * 1024 };
            let mut slots = Slots::new(limit, true);
            // All alerts of one namespace: it may be the first one.
            for (_, bytes) in &alerts {
                if slots.has_space("a", Space::of_alert(*bytes)) {
                    slots.add("a", Space::of_alert(*bytes));
                }
            }
            prop_assert!(slots.has_space("b", Space::of_alert(1_000)), "{slots:?}");
            for (namespace, bytes) in &alerts {
                let namespace = namespace.to_string();
                if slots.has_space(&namespace, Space::of_alert(*bytes)) {
                    slots.add(&namespace, Space::of_alert(*bytes));
                }
            }
            prop_assert!(slots.used.fits(limit), "{slots:?}");
        }
    }
}
