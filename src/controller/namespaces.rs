//! The annotations of namespaces, which apply to the pods in them. Without them, only the pods' own annotations apply, and
//! everything else is the same.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    api::Ownership,
    namespaces::WatchedNamespace,
    watch::{WENT_BACK, WatchUpdate},
};

use super::watch_health::LoggedInterruption;

/// The most namespaces whose annotations are kept. Each takes at most 1.2 KB.
const NAMESPACES: usize = 2_000;
/// How long alerts wait for the first list of namespaces once the pods are known: the severity and the team are labels,
/// which stay as they are when an alert is first sent.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Namespaces {
    known: Known,
    /// The list that is being received.
    listing: Option<Known>,
    /// Whether the first list is not complete.
    is_awaited: bool,
    /// Until when alerts wait for it. Set when they would first be sent.
    awaited_until: Option<Instant>,
    denied: Option<String>,
    interruption: LoggedInterruption,
}

#[derive(Debug, Default)]
struct Known {
    namespaces: HashMap<String, Box<Ownership>>,
    /// Namespaces with annotations that are not kept.
    omitted: HashSet<String>,
}

/// What an update changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NewAnnotations {
    Nothing,
    /// Statuses with pods of these namespaces.
    OfNamespaces(BTreeSet<String>),
    /// All statuses, for instance because it has changed whether namespaces may be read.
    ConcernsAll,
}

impl Namespaces {
    /// `is_watched` is whether namespaces are watched at all.
    pub(super) fn new(is_watched: bool) -> Self {
        Self {
            known: Known::default(),
            listing: None,
            is_awaited: is_watched,
            awaited_until: None,
            denied: None,
            interruption: LoggedInterruption::default(),
        }
    }

    pub(super) fn apply(&mut self, update: WatchUpdate<WatchedNamespace>, now: Instant) -> NewAnnotations {
        match update {
            WatchUpdate::Relisting => {
                self.listing = Some(Known::default());
                NewAnnotations::Nothing
            }
            WatchUpdate::Listed(namespace) => {
                self.listing.get_or_insert_default().set(namespace);
                NewAnnotations::Nothing
            }
            WatchUpdate::Synced => {
                self.interruption = LoggedInterruption::default();
                let new = self.listing.take().unwrap_or_default();
                let old = std::mem::replace(&mut self.known, new);
                let was_awaited = std::mem::take(&mut self.is_awaited);
                let was_denied = self.denied.take().is_some();
                if was_denied {
                    tracing::info!("the annotations of namespaces are updated again");
                }
                if was_awaited || was_denied || old.omitted.len() != self.known.omitted.len() {
                    return NewAnnotations::ConcernsAll;
                }
                of_namespaces(old.changed(&self.known))
            }
            WatchUpdate::Applied(namespace) => {
                let name = namespace.name.clone();
                let omitted = self.known.omitted.len();
                let is_changed = self.known.set(namespace);
                if self.known.omitted.len() != omitted {
                    return NewAnnotations::ConcernsAll;
                }
                of_namespaces(is_changed.then_some(name).into_iter().collect())
            }
            WatchUpdate::Deleted(namespace) => {
                // Its pods are gone.
                self.known.set(WatchedNamespace { ownership: None, ..namespace });
                NewAnnotations::Nothing
            }
            WatchUpdate::Behind | WatchUpdate::CaughtUp => {
                self.interruption = LoggedInterruption::default();
                if self.denied.take().is_some() { NewAnnotations::ConcernsAll } else { NewAnnotations::Nothing }
            }
            WatchUpdate::WentBack => {
                tracing::debug!("{WENT_BACK}: namespaces are listed again");
                self.interruption.begin(now);
                NewAnnotations::Nothing
            }
            WatchUpdate::Denied(refusal) => {
                let was_awaited = std::mem::take(&mut self.is_awaited);
                if self.denied.as_ref() == Some(&refusal) && !was_awaited {
                    return NewAnnotations::Nothing;
                }
                tracing::warn!(refusal, "not allowed to watch namespaces: their annotations are not updated");
                self.denied = Some(refusal);
                NewAnnotations::ConcernsAll
            }
            WatchUpdate::Failed(error) => {
                tracing::debug!(error, "the watch of namespaces has ended");
                self.interruption.begin(now);
                if self.denied.is_none() && self.interruption.must_be_logged(now) {
                    tracing::warn!(error, "the watch of namespaces is interrupted");
                }
                NewAnnotations::Nothing
            }
        }
    }

    /// The annotations of a namespace, if it has any.
    pub(super) fn ownership(&self, namespace: &str) -> Option<Ownership> {
        self.known.namespaces.get(namespace).map(|ownership| (**ownership).clone())
    }

    /// Until when alerts wait for the first list; absent if they need not wait.
    pub(super) fn awaited_until(&mut self, now: Instant) -> Option<Instant> {
        if !self.is_awaited {
            return None;
        }
        let until = *self.awaited_until.get_or_insert(now + GRACE);
        (until > now).then_some(until)
    }

    /// A sentence for the statuses, if annotations of namespaces do not apply, or if changes of them do not.
    pub(super) fn warning(&self) -> Option<String> {
        match (&self.denied, self.known.omitted.len()) {
            (Some(refusal), _) => Some(format!("annotations of namespaces are not updated: {refusal}")),
            (None, 0) => None,
            (None, omitted) => Some(format!(
                "the annotations of {omitted} namespaces do not apply, because more than {NAMESPACES} have some"
            )),
        }
    }
}

fn of_namespaces(changed: BTreeSet<String>) -> NewAnnotations {
    if changed.is_empty() { NewAnnotations::Nothing } else { NewAnnotations::OfNamespaces(changed) }
}

impl Known {
    /// Returns whether the annotations that apply have changed.
    fn set(&mut self, namespace: WatchedNamespace) -> bool {
        let WatchedNamespace { name, ownership } = namespace;
        let Some(ownership) = ownership else {
            self.omitted.remove(&name);
            return self.namespaces.remove(&name).is_some();
        };
        if self.namespaces.len() >= NAMESPACES && !self.namespaces.contains_key(&name) {
            self.omitted.insert(name);
            return false;
        }
        self.omitted.remove(&name);
        let before = self.namespaces.insert(name.clone(), ownership);
        before.as_ref() != self.namespaces.get(&name)
    }

    /// The namespaces that have other annotations in `new`.
    fn changed(&self, new: &Self) -> BTreeSet<String> {
        let names = self.namespaces.keys().chain(new.namespaces.keys());
        names.filter(|name| self.namespaces.get(*name) != new.namespaces.get(*name)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str, team: &str) -> WatchedNamespace {
        let mut ownership = Ownership::default();
        ownership.set("kopf.dev/team", Some(team));
        WatchedNamespace { name: name.to_owned(), ownership: ownership.non_empty() }
    }

    fn of(names: &[&str]) -> NewAnnotations {
        NewAnnotations::OfNamespaces(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn team(namespaces: &Namespaces, name: &str) -> String {
        namespaces.ownership(name).map(|ownership| ownership.team.to_string()).unwrap_or_default()
    }

    /// With a first list.
    fn listed(list: &[(&str, &str)]) -> (Namespaces, Instant) {
        let now = Instant::now();
        let mut namespaces = Namespaces::new(true);
        assert_eq!(relist(&mut namespaces, list, now), NewAnnotations::ConcernsAll);
        (namespaces, now)
    }

    fn relist(namespaces: &mut Namespaces, list: &[(&str, &str)], now: Instant) -> NewAnnotations {
        assert_eq!(namespaces.apply(WatchUpdate::Relisting, now), NewAnnotations::Nothing);
        for (name, team) in list {
            let update = WatchUpdate::Listed(namespace(name, team));
            assert_eq!(namespaces.apply(update, now), NewAnnotations::Nothing);
        }
        namespaces.apply(WatchUpdate::Synced, now)
    }

    #[test]
    fn keeps_the_annotations_of_namespaces_that_have_some() {
        let (mut namespaces, now) = listed(&[("shop", "checkout"), ("bank", "")]);
        assert_eq!([team(&namespaces, "shop"), team(&namespaces, "bank")], ["checkout", ""]);
        assert_eq!(namespaces.known.namespaces.len(), 1);
        let mut apply = |update| namespaces.apply(update, now);
        assert_eq!(apply(WatchUpdate::Applied(namespace("shop", "checkout"))), NewAnnotations::Nothing);
        assert_eq!(apply(WatchUpdate::Applied(namespace("shop", "web"))), of(&["shop"]));
        assert_eq!(apply(WatchUpdate::Applied(namespace("bank", "money"))), of(&["bank"]));
        assert_eq!(apply(WatchUpdate::Applied(namespace("bank", ""))), of(&["bank"]));
        assert_eq!(apply(WatchUpdate::Deleted(namespace("shop", "web"))), NewAnnotations::Nothing);
        assert!(namespaces.known.namespaces.is_empty());
    }

    #[test]
    fn a_new_list_replaces_the_one_before_when_it_is_complete() {
        let (mut namespaces, now) = listed(&[("a", "one"), ("b", "one"), ("c", "one")]);
        namespaces.apply(WatchUpdate::Relisting, now);
        namespaces.apply(WatchUpdate::Listed(namespace("b", "two")), now);
        assert_eq!(team(&namespaces, "b"), "one");
        namespaces.apply(WatchUpdate::Failed("HTTP 500".to_owned()), now);
        assert_eq!(relist(&mut namespaces, &[("a", "one"), ("b", "two")], now), of(&["b", "c"]));
        assert_eq!(["a", "b", "c"].map(|name| team(&namespaces, name)), ["one", "two", ""]);
    }

    #[test]
    fn alerts_wait_for_the_first_list_but_not_long() {
        let now = Instant::now();
        let mut namespaces = Namespaces::new(true);
        // It takes a while until the pods are known.
        let now = now + 10 * GRACE;
        assert_eq!(namespaces.awaited_until(now), Some(now + GRACE));
        namespaces.apply(WatchUpdate::Failed("HTTP 500".to_owned()), now);
        assert_eq!(namespaces.awaited_until(now + GRACE / 2), Some(now + GRACE));
        assert_eq!(namespaces.awaited_until(now + GRACE), None);
        relist(&mut namespaces, &[], now);
        assert_eq!(namespaces.awaited_until(now), None);
        let mut denied = Namespaces::new(true);
        denied.apply(WatchUpdate::Denied("no".to_owned()), now);
        assert_eq!(denied.awaited_until(now), None);
        assert_eq!(Namespaces::new(false).awaited_until(now), None);
    }

    #[test]
    fn warns_until_namespaces_may_be_read() {
        let (mut namespaces, now) = listed(&[("shop", "checkout")]);
        assert_eq!(namespaces.warning(), None);
        let denied = || WatchUpdate::Denied("namespaces is forbidden".to_owned());
        assert_eq!(namespaces.apply(denied(), now), NewAnnotations::ConcernsAll);
        assert_eq!(namespaces.apply(denied(), now), NewAnnotations::Nothing);
        let warning = "annotations of namespaces are not updated: namespaces is forbidden";
        assert_eq!(namespaces.warning().as_deref(), Some(warning));
        assert_eq!(team(&namespaces, "shop"), "checkout", "what was read stays");
        assert_eq!(relist(&mut namespaces, &[("shop", "checkout")], now), NewAnnotations::ConcernsAll);
        assert_eq!(namespaces.warning(), None);
    }

    #[test]
    fn counts_the_namespaces_beyond_the_limit() {
        let (mut namespaces, now) = listed(&[]);
        for number in 0..NAMESPACES {
            namespaces.apply(WatchUpdate::Applied(namespace(&format!("n{number}"), "t")), now);
        }
        assert_eq!(namespaces.warning(), None);
        for _ in 0..2 {
            for name in ["x", "y"] {
                namespaces.apply(WatchUpdate::Applied(namespace(name, "t")), now);
            }
        }
        assert_eq!(namespaces.known.namespaces.len(), NAMESPACES);
        let warning = "the annotations of 2 namespaces do not apply, because more than 2000 have some";
        assert_eq!(namespaces.warning().as_deref(), Some(warning));
        assert_eq!(namespaces.apply(WatchUpdate::Applied(namespace("n0", "u")), now), of(&["n0"]));
        assert_eq!(namespaces.apply(WatchUpdate::Applied(namespace("x", "")), now), NewAnnotations::ConcernsAll);
    }
}
