//! The objects of one list and watch. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use crate::watch::{WENT_BACK, WatchUpdate};

/// The objects of one list and watch, by name. All are in one namespace.
#[derive(Debug)]
pub(super) struct Listing<K> {
    objects: BTreeMap<String, K>,
    /// The names in the list that is under way.
    listed: Option<BTreeSet<String>>,
    is_synced: bool,
    /// Why the last request failed. What is known may be outdated then.
    failure: Option<String>,
    /// The message of the API server if it forbids the list or watch.
    denial: Option<String>,
    /// Whether missed events may follow.
    is_behind: bool,
}

impl<K> Default for Listing<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listed: None, is_synced: false, failure: None, denial: None, is_behind: false }
    }
}

impl<K> Listing<K> {
    /// Applies an update. `merge` makes the new version of an object from the one before.
    pub(super) fn apply(
        &mut self,
        update: WatchUpdate<K>,
        name: impl Fn(&K) -> String,
        merge: impl FnOnce(Option<&K>, K) -> K,
    ) {
        match &update {
            WatchUpdate::Failed(_) | WatchUpdate::Denied(_) | WatchUpdate::WentBack => {}
            _ => (self.failure, self.denial) = (None, None),
        }
        match update {
            WatchUpdate::Relisting => self.listed = Some(BTreeSet::new()),
            WatchUpdate::Listed(object) => {
                let name = name(&object);
                if let Some(listed) = &mut self.listed {
                    listed.insert(name.clone());
                }
                self.insert(name, object, merge);
            }
            WatchUpdate::Synced => {
                if let Some(listed) = self.listed.take() {
                    self.objects.retain(|name, _| listed.contains(name));
                }
                (self.is_synced, self.is_behind) = (true, false);
            }
            WatchUpdate::Applied(object) => self.insert(name(&object), object, merge),
            WatchUpdate::Deleted(object) => {
                let name = name(&object);
                if let Some(listed) = &mut self.listed {
                    listed.remove(&name);
                }
                self.objects.remove(&name);
            }
            WatchUpdate::Behind => self.is_behind = true,
            WatchUpdate::CaughtUp => self.is_behind = false,
            WatchUpdate::Denied(message) => self.denial = Some(message),
            WatchUpdate::Failed(message) => self.failure = Some(message),
            WatchUpdate::WentBack => self.failure = Some(WENT_BACK.to_owned()),
        }
    }

    fn insert(&mut self, name: String, object: K, merge: impl FnOnce(Option<&K>, K) -> K) {
        let before = self.objects.remove(&name);
        self.objects.insert(name, merge(before.as_ref(), object));
    }

    pub(super) fn get(&self, name: &str) -> Option<&K> {
        self.objects.get(name)
    }

    pub(super) fn objects(&self) -> impl Iterator<Item = &K> {
        self.objects.values()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// Whether the objects are those of the present, as far as anyone can know.
    pub(super) fn is_current(&self) -> bool {
        self.is_synced && !self.is_behind && self.listed.is_none() && self.failure.is_none() && self.denial.is_none()
    }

    /// Why the API server cannot be asked.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref().or(self.denial.as_deref())
    }

    pub(super) fn take_denial(&mut self) -> Option<String> {
        mem::take(&mut self.denial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(listing: &Listing<&'static str>) -> String {
        listing.objects().copied().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn follows_lists_and_changes() {
        let mut listing = Listing::default();
        let mut apply = |update, expected: &str, is_current: bool| {
            listing.apply(update, |name: &&str| (*name).to_owned(), |_, object| object);
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
        assert_eq!(listing.failure(), Some("no"));
        assert_eq!(listing.take_denial().as_deref(), Some("no"));
    }

    #[test]
    fn merges_each_version_with_the_one_before() {
        let mut listing = Listing::default();
        for object in [1, 2, 3] {
            let update = WatchUpdate::Applied((object, 0));
            let merge = |before: Option<&(i32, i32)>, now: (i32, i32)| (now.0, before.map_or(0, |before| before.0));
            listing.apply(update, |_| "same".to_owned(), merge);
        }
        assert_eq!(listing.get("same"), Some(&(3, 2)));
    }
}
