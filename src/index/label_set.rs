//! Pods that neither a selection nor an owner can tell apart: the same namespace, the same top controller and the same
//! labels. A selection is evaluated once per cohort, not per pod, and a healthy pod is no more than a member of one.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use jiff::Timestamp;

use crate::diagnosis::owner_names;

use super::Pod;

/// The owners whose pods stand in for each other. A pod of another kind of owner is replaced by one of its own name, if
/// at all, and then it is gone.
const REPLACES: [&str; 4] = ["Deployment", "ReplicaSet", "Rollout", "ReplicationController"];

/// A cohort's place in [`LabelSets`]. Places of cohorts that are gone are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LabelSetId(pub u32);

/// All cohorts that have members.
#[derive(Debug, Default)]
pub struct LabelSets {
    /// By text: the cohorts of a namespace, or of an owner, are neighbours.
    ids: BTreeMap<Arc<str>, LabelSetId>,
    places: Vec<Place>,
    free: Vec<LabelSetId>,
}

#[derive(Debug)]
struct Place {
    /// Namespace, kind and name of the owner, then key and value of each label, each ended by a NUL: one allocation,
    /// and its own key in the map.
    text: Arc<str>,
    members: u32,
    /// When the youngest pod was created that was a healthy member, in seconds since 1970.
    youngest: i64,
}

impl LabelSets {
    /// Adds a member to a pod's cohort, and returns whether the cohort is new.
    pub fn join(&mut self, pod: &Pod) -> (LabelSetId, bool) {
        let text = encode(pod);
        if let Some(&id) = self.ids.get(text.as_str()) {
            self.places[id.0 as usize].members += 1;
            return (id, false);
        }
        let text: Arc<str> = text.into();
        let place = Place { text: Arc::clone(&text), members: 1, youngest: i64::MIN };
        let id = match self.free.pop() {
            Some(id) => {
                self.places[id.0 as usize] = place;
                id
            }
            None => {
                self.places.push(place);
                LabelSetId(u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.ids.insert(text, id);
        (id, true)
    }

    /// Notes when a healthy member was created.
    pub fn saw_healthy(&mut self, id: LabelSetId, created: Option<Timestamp>) {
        if let (Some(place), Some(created)) = (self.places.get_mut(id.0 as usize), created) {
            place.youngest = place.youngest.max(created.as_second());
        }
    }

    /// Whether the pod's owner has, or had, a healthy pod that was created after it. That it is unready for a moment takes
    /// nothing back.
    #[must_use]
    pub fn is_replaced(&self, pod: &Pod) -> bool {
        let (Some((kind, name)), Some(created)) = (owner_names(pod), pod.created) else { return false };
        REPLACES.contains(&kind)
            && self.of_owner(&pod.namespace, kind, name).any(|place| place.youngest > created.as_second())
    }

    /// Whether an owner has any pod.
    #[must_use]
    pub fn has_pods_of(&self, namespace: &str, kind: &str, name: &str) -> bool {
        self.of_owner(namespace, kind, name).next().is_some()
    }

    fn of_owner(&self, namespace: &str, kind: &str, name: &str) -> impl Iterator<Item = &Place> {
        let mut prefix = String::new();
        push(&mut prefix, [namespace, kind, name]);
        let from = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let label_sets: Vec<LabelSetId> = self
            .ids
            .range::<str, _>(from)
            .take_while(|(text, _)| text.starts_with(&prefix))
            .map(|(_, id)| *id)
            .collect();
        label_sets.into_iter().filter_map(|id| self.places.get(id.0 as usize))
    }

    /// Takes a member out; with the last, the cohort is gone.
    pub fn leave(&mut self, id: LabelSetId) {
        let Some(place) = self.places.get_mut(id.0 as usize) else { return };
        place.members = place.members.saturating_sub(1);
        if place.members == 0 {
            self.ids.remove(&place.text);
            place.text = Arc::from("");
            self.free.push(id);
        }
    }

    /// Whether this is the pod's cohort.
    #[must_use]
    pub fn is(&self, id: LabelSetId, pod: &Pod) -> bool {
        let (kind, name) = owner_names(pod).unwrap_or_default();
        self.places.get(id.0 as usize).is_some_and(|place| {
            let mut parts = place.text.split_terminator('\0');
            [&*pod.namespace, kind, name].into_iter().all(|part| parts.next() == Some(part))
                && pod.labels.iter().all(|(key, value)| parts.next() == Some(key) && parts.next() == Some(value))
                && parts.next().is_none()
        })
    }

    /// The members' namespace.
    #[must_use]
    pub fn namespace(&self, id: LabelSetId) -> &str {
        let text = self.places.get(id.0 as usize).map_or("", |place| &*place.text);
        text.split('\0').next().unwrap_or_default()
    }

    /// How many members a cohort has.
    #[must_use]
    pub fn members(&self, id: LabelSetId) -> u32 {
        self.places.get(id.0 as usize).map_or(0, |place| place.members)
    }

    /// Every cohort with its namespace and labels.
    pub fn iter(&self) -> impl Iterator<Item = (LabelSetId, &str, Vec<(String, String)>)> {
        self.places.iter().enumerate().filter(|(_, place)| place.members > 0).map(|(index, place)| {
            let mut parts = place.text.split_terminator('\0');
            let namespace = parts.next().unwrap_or_default();
            let mut parts = parts.skip(2);
            let mut labels = Vec::new();
            while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
                labels.push((key.to_owned(), value.to_owned()));
            }
            (LabelSetId(u32::try_from(index).unwrap_or(u32::MAX)), namespace, labels)
        })
    }
}

fn encode(pod: &Pod) -> String {
    let (kind, name) = owner_names(pod).unwrap_or_default();
    let labels = pod.labels.iter().map(|(key, value)| key.len() + value.len() + 2).sum::<usize>();
    let mut text = String::with_capacity(pod.namespace.len() + kind.len() + name.len() + 3 + labels);
    push(&mut text, [&pod.namespace, kind, name]);
    push(&mut text, pod.labels.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]));
    text
}

fn push<'a>(text: &mut String, parts: impl IntoIterator<Item = &'a str>) {
    for part in parts {
        text.push_str(part);
        text.push('\0');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::Controller;

    fn pod(namespace: &str, owner: &str, hash: &str, created: i64) -> Pod {
        let controller = Controller {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: format!("{owner}-{hash}"),
            uid: String::new(),
        };
        Pod {
            namespace: namespace.to_owned(),
            labels: vec![("app".to_owned(), "web".to_owned()), ("pod-template-hash".to_owned(), hash.to_owned())],
            controller: Some(controller),
            created: Timestamp::from_second(created).ok(),
            ..Pod::default()
        }
    }

    #[test]
    fn members_share_a_cohort_until_the_last_leaves() {
        let mut label_sets = LabelSets::default();
        let web = pod("shop", "web", "1", 0);
        let (a, new) = label_sets.join(&web);
        assert!(new);
        assert_eq!(label_sets.join(&web), (a, false));
        for other in [pod("bank", "web", "1", 0), pod("shop", "api", "1", 0), pod("shop", "web", "2", 0)] {
            let (b, new) = label_sets.join(&other);
            assert!(new && b != a && !label_sets.is(b, &web) && !label_sets.is(a, &other));
            label_sets.leave(b);
        }
        assert_eq!((label_sets.members(a), label_sets.namespace(a)), (2, "shop"));
        assert!(label_sets.is(a, &web));
        assert_eq!(label_sets.iter().next(), Some((a, "shop", web.labels.clone())));

        label_sets.leave(a);
        assert_eq!(label_sets.members(a), 1);
        label_sets.leave(a);
        assert_eq!(label_sets.iter().count(), 0);
        assert!(label_sets.join(&Pod::default()).1, "a place is used again");
        assert!(label_sets.places.len() <= 2);
    }

    #[test]
    fn an_owner_has_pods_until_its_last_one_leaves() {
        let mut label_sets = LabelSets::default();
        let pods = [pod("shop", "cart", "1", 1), pod("shop", "cart", "2", 2), pod("shop", "cart-two", "3", 3)];
        let ids = pods.each_ref().map(|pod| label_sets.join(pod).0);
        let Some((kind, name)) = owner_names(&pods[0]) else { panic!("it has an owner") };
        for id in &ids[..2] {
            assert!(label_sets.has_pods_of("shop", kind, name));
            label_sets.leave(*id);
        }
        assert!(!label_sets.has_pods_of("shop", kind, name), "the other owner's name only begins alike");
    }

    #[test]
    fn a_younger_healthy_pod_of_the_owner_is_a_replacement() {
        let mut label_sets = LabelSets::default();
        let failed = pod("shop", "web", "1", 100);
        let (old, _) = label_sets.join(&failed);
        assert!(!label_sets.is_replaced(&failed));

        let other = pod("shop", "web-2", "1", 900);
        let (id, _) = label_sets.join(&other);
        label_sets.saw_healthy(id, other.created);
        assert!(!label_sets.is_replaced(&failed), "another owner, whose name begins alike");

        let before = pod("shop", "web", "1", 50);
        assert_eq!(label_sets.join(&before).0, old);
        label_sets.saw_healthy(old, before.created);
        assert!(!label_sets.is_replaced(&failed), "it was there before");

        let next = pod("shop", "web", "2", 200);
        let (new, _) = label_sets.join(&next);
        label_sets.saw_healthy(new, next.created);
        assert!(label_sets.is_replaced(&failed), "the next revision's pod");
        label_sets.leave(new);
        assert!(!label_sets.is_replaced(&failed), "it is gone");
    }
}
