//! The state of one list and watch. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::watch::{WENT_BACK, WatchUpdate};

/// What one list and watch has shown of its objects, by name or UID.
#[derive(Debug)]
pub(in crate::cli) struct Listing<I, V> {
    objects: BTreeMap<I, V>,
    /// The objects in the list that is under way.
    listed: Option<BTreeSet<I>>,
    is_synced: bool,
    /// Why the last request failed. What is known may be outdated then.
    failure: Option<String>,
    /// The message of the API server if it forbids the list or watch.
    denial: Option<String>,
    /// Whether missed events may follow.
    is_behind: bool,
}

impl<I, V> Default for Listing<I, V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listed: None, is_synced: false, failure: None, denial: None, is_behind: false }
    }
}

impl<I: Ord + Clone, V> Listing<I, V> {
    /// Applies an update, and returns what was kept of an object that was deleted. `merge` makes what is kept of an object
    /// from what was kept before and its new version. Nothing is kept of an object that does not belong here.
    pub(in crate::cli) fn apply<O>(
        &mut self,
        update: WatchUpdate<O>,
        id: impl Fn(&O) -> I,
        merge: impl FnOnce(Option<V>, O) -> Option<V>,
    ) -> Option<V> {
        match &update {
            WatchUpdate::Failed(_) | WatchUpdate::Denied(_) | WatchUpdate::WentBack => {}
            _ => (self.failure, self.denial) = (None, None),
        }
        match update {
            WatchUpdate::Relisting => self.listed = Some(BTreeSet::new()),
            WatchUpdate::Listed(object) | WatchUpdate::Applied(object) => {
                let id = id(&object);
                self.insert(id, object, merge);
            }
            WatchUpdate::Synced => {
                if let Some(listed) = self.listed.take() {
                    self.objects.retain(|id, _| listed.contains(id));
                }
                (self.is_synced, self.is_behind) = (true, false);
            }
            WatchUpdate::Deleted(object) => {
                let id = id(&object);
                if let Some(listed) = &mut self.listed {
                    listed.remove(&id);
                }
                return self.objects.remove(&id);
            }
            WatchUpdate::Behind => self.is_behind = true,
            WatchUpdate::CaughtUp => self.is_behind = false,
            WatchUpdate::Denied(message) => self.denial = Some(message),
            WatchUpdate::Failed(message) => self.failure = Some(message),
            WatchUpdate::WentBack => self.failure = Some(WENT_BACK.to_owned()),
        }
        None
    }

    /// Adds an object or its new version.
    pub(in crate::cli) fn insert<O>(&mut self, id: I, object: O, merge: impl FnOnce(Option<V>, O) -> Option<V>) {
        let before = self.objects.remove(&id);
        if let Some(value) = merge(before, object) {
            if let Some(listed) = &mut self.listed {
                listed.insert(id.clone());
            }
            self.objects.insert(id, value);
        }
    }

    pub(in crate::cli) fn get(&self, id: &I) -> Option<&V> {
        self.objects.get(id)
    }

    pub(in crate::cli) fn objects(&self) -> impl Iterator<Item = &V> {
        self.objects.values()
    }

    pub(in crate::cli) fn objects_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.objects.values_mut()
    }

    /// Whether all objects have been listed once.
    pub(in crate::cli) fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Whether the objects are those of the present, as far as anyone can know.
    pub(in crate::cli) fn is_current(&self) -> bool {
        self.is_synced && self.failure().is_none()
    }

    /// Why what is known may be outdated.
    pub(in crate::cli) fn failure(&self) -> Option<&str> {
        let is_outdated = self.is_synced && (self.is_behind || self.listed.is_some());
        self.error().or(is_outdated.then_some("missed changes are still being read"))
    }

    /// Why the API server cannot be asked.
    pub(in crate::cli) fn error(&self) -> Option<&str> {
        self.failure.as_deref().or(self.denial.as_deref())
    }

    /// The message of the API server if the list or watch has been forbidden from the beginning.
    pub(in crate::cli) fn denial(&self) -> Option<&str> {
        self.denial.as_deref().filter(|_| !self.is_synced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(listing: &Listing<String, &'static str>) -> String {
        listing.objects().copied().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn follows_lists_and_changes() {
        let mut listing = Listing::default();
        let mut apply = |update, expected: &str, is_current: bool| {
            listing.apply(update, |name: &&str| (*name).to_owned(), |_, object| Some(object));
            assert_eq!((names(&listing).as_str(), listing.is_current()), (expected, is_current));
        };
        apply(WatchUpdate::Relisting, "", false);
        apply(WatchUpdate::Listed("a"), "a", false);
        apply(WatchUpdate::Listed("b"), "a b", false);
        apply(WatchUpdate::Synced, "a b", true);
        apply(WatchUpdate::Applied("c"), "a b c", true);
        apply(WatchUpdate::Deleted("b"), "a c", true);
        apply(WatchUpdate::Failed("gone".to_owned()), "a c", false);
        apply(WatchUpdate::Behind, "a c", false);
        apply(WatchUpdate::CaughtUp, "a c", true);
        // What a later list does not contain was deleted in between.
        apply(WatchUpdate::Relisting, "a c", false);
        apply(WatchUpdate::Listed("c"), "a c", false);
        apply(WatchUpdate::Listed("d"), "a c d", false);
        apply(WatchUpdate::Deleted("d"), "a c", false);
        apply(WatchUpdate::Synced, "c", true);
        apply(WatchUpdate::Denied("no".to_owned()), "c", false);
        // Only what is forbidden from the beginning is an error.
        assert_eq!((listing.failure(), listing.denial()), (Some("no"), None));
    }

    #[test]
    fn merges_each_version_with_the_one_before() {
        let mut listing = Listing::default();
        for object in [1, 2, 3] {
            let update = WatchUpdate::Applied((object, 0));
            let merge =
                |before: Option<(i32, i32)>, now: (i32, i32)| Some((now.0, before.map_or(0, |before| before.0)));
            listing.apply(update, |_| "same".to_owned(), merge);
        }
        assert_eq!(listing.get(&"same".to_owned()), Some(&(3, 2)));
    }
}
