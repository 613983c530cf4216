//! The state of one list and watch, and since when the API server cannot be asked. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use tokio::time::Instant;

use crate::watch::{WENT_BACK, WatchUpdate};

/// Shorter outages are not mentioned.
const MENTIONED: Duration = Duration::from_secs(2);

/// Whether what one list and watch has shown is current.
#[derive(Debug, Default)]
pub(in crate::cli) struct WatchState {
    is_synced: bool,
    /// Whether a list is under way.
    is_listing: bool,
    /// Why the last request failed. What is known may be outdated then.
    failure: Option<String>,
    /// The message of the API server if it forbids the list or watch.
    denial: Option<String>,
    /// Whether missed events may follow.
    is_behind: bool,
}

impl WatchState {
    pub(in crate::cli) fn apply<O>(&mut self, update: &WatchUpdate<O>) {
        match update {
            WatchUpdate::Denied(message) => return self.denial = Some(message.clone()),
            WatchUpdate::Failed(message) => return self.failure = Some(message.clone()),
            WatchUpdate::WentBack => return self.failure = Some(WENT_BACK.to_owned()),
            WatchUpdate::Relisting => self.is_listing = true,
            WatchUpdate::Synced => (self.is_synced, self.is_listing, self.is_behind) = (true, false, false),
            WatchUpdate::Behind => self.is_behind = true,
            WatchUpdate::CaughtUp => self.is_behind = false,
            WatchUpdate::Listed(_) | WatchUpdate::Applied(_) | WatchUpdate::Deleted(_) => {}
        }
        (self.failure, self.denial) = (None, None);
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
        let is_outdated = self.is_synced && (self.is_behind || self.is_listing);
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

/// What one list and watch has shown of its objects, by name or UID.
#[derive(Debug)]
pub(in crate::cli) struct Listing<I, V> {
    objects: BTreeMap<I, V>,
    /// The objects in the list that is under way.
    listed: BTreeSet<I>,
    pub(in crate::cli) watch: WatchState,
}

impl<I, V> Default for Listing<I, V> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listed: BTreeSet::new(), watch: WatchState::default() }
    }
}

impl<I: Ord + Clone, V> Listing<I, V> {
    /// Applies an update, and returns what was kept of the objects that are gone. `merge` makes what is kept of an object from
    /// what was kept before and its new version.
    pub(in crate::cli) fn apply<O>(
        &mut self,
        update: WatchUpdate<O>,
        id: impl Fn(&O) -> I,
        merge: impl FnOnce(Option<V>, O) -> V,
    ) -> Vec<V> {
        let was_listing = self.watch.is_listing;
        self.watch.apply(&update);
        match update {
            WatchUpdate::Relisting => self.listed.clear(),
            WatchUpdate::Listed(object) | WatchUpdate::Applied(object) => {
                let id = id(&object);
                let before = self.objects.remove(&id);
                self.objects.insert(id.clone(), merge(before, object));
                if was_listing {
                    self.listed.insert(id);
                }
            }
            WatchUpdate::Synced if was_listing => {
                let listed = std::mem::take(&mut self.listed);
                let gone: Vec<I> = self.objects.keys().filter(|id| !listed.contains(id)).cloned().collect();
                return gone.iter().filter_map(|id| self.objects.remove(id)).collect();
            }
            WatchUpdate::Deleted(object) => {
                let id = id(&object);
                self.listed.remove(&id);
                return self.objects.remove(&id).into_iter().collect();
            }
            _ => {}
        }
        Vec::new()
    }

    pub(in crate::cli) fn get(&self, id: &I) -> Option<&V> {
        self.objects.get(id)
    }

    pub(in crate::cli) fn objects(&self) -> impl Iterator<Item = &V> {
        self.objects.values()
    }
}

/// An outage of the API server, if there is one.
#[derive(Debug, Default)]
pub(in crate::cli) struct Outage {
    since: Option<(Instant, Timestamp)>,
    is_mentioned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum OutageNews {
    Began,
    Ended,
}

impl Outage {
    /// Returns what is to be mentioned now, given whether the API server can be asked.
    pub(in crate::cli) fn update(&mut self, is_failing: bool, now: Instant, time: Timestamp) -> Option<OutageNews> {
        if !is_failing {
            self.since = None;
            return std::mem::take(&mut self.is_mentioned).then_some(OutageNews::Ended);
        }
        let (since, _) = *self.since.get_or_insert((now, time));
        let begins = !self.is_mentioned && now >= since + MENTIONED;
        self.is_mentioned |= begins;
        begins.then_some(OutageNews::Began)
    }

    /// Since when the outage lasts, if it is mentioned.
    pub(in crate::cli) fn began(&self) -> Option<Timestamp> {
        self.since.filter(|_| self.is_mentioned).map(|(_, began)| began)
    }

    /// When it will be mentioned.
    pub(in crate::cli) fn due(&self) -> Option<Instant> {
        self.since.filter(|_| !self.is_mentioned).map(|(since, _)| since + MENTIONED)
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
            listing.apply(update, |name: &&str| (*name).to_owned(), |_, object| object);
            assert_eq!((names(&listing).as_str(), listing.watch.is_current()), (expected, is_current));
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
        assert_eq!((listing.watch.failure(), listing.watch.denial()), (Some("no"), None));
    }

    #[test]
    fn merges_each_version_with_the_one_before() {
        let mut listing = Listing::default();
        for object in [1, 2, 3] {
            let update = WatchUpdate::Applied((object, 0));
            let merge = |before: Option<(i32, i32)>, now: (i32, i32)| (now.0, before.map_or(0, |before| before.0));
            listing.apply(update, |_| "same".to_owned(), merge);
        }
        assert_eq!(listing.get(&"same".to_owned()), Some(&(3, 2)));
    }

    #[test]
    fn mentions_an_outage_once_and_not_if_it_is_short() {
        let (now, mut outage) = (Instant::now(), Outage::default());
        let time = Timestamp::UNIX_EPOCH;
        assert_eq!(outage.update(true, now, time), None);
        assert_eq!((outage.due(), outage.began()), (Some(now + MENTIONED), None));
        assert_eq!(outage.update(false, now, time), None);
        assert_eq!(outage.update(true, now, time), None);
        assert_eq!(outage.update(true, now + MENTIONED, time), Some(OutageNews::Began));
        assert_eq!((outage.due(), outage.began()), (None, Some(time)));
        assert_eq!(outage.update(true, now + 2 * MENTIONED, time), None);
        assert_eq!(outage.update(false, now + 2 * MENTIONED, time), Some(OutageNews::Ended));
    }
}
