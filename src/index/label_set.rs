//! Label sets: groups of pods with the same namespace, top controller and labels. A selection is evaluated once per label
//! set instead of once per pod, and a healthy pod is stored as nothing but a member of its label set.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use jiff::Timestamp;

use crate::{
    diagnosis::{owner_names, replacing_owner, revision_label},
    pods::Pod,
};

use super::stored_labels::{LabelHasher, LongLabels, StoredLabels, push};

/// A number of pods, and how many of them are suspects: those that may not be healthy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodCount {
    pub(crate) pods: u32,
    pub(crate) suspects: u32,
}

impl PodCount {
    /// Counts one of the pods that became a suspect, or stopped being one.
    pub(super) fn set_suspect(&mut self, is_suspect: bool) {
        self.suspects = if is_suspect { self.suspects + 1 } else { self.suspects.saturating_sub(1) };
    }

    fn add(&mut self, other: Self) {
        self.pods += other.pods;
        self.suspects += other.suspects;
    }
}

/// The pods of one revision of a Deployment, Argo Rollout, StatefulSet or DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RevisionPods<'a> {
    /// The value of the label that tells the revisions apart.
    pub(crate) hash: &'a str,
    pub(crate) count: PodCount,
    /// When the first of its pods that was observed was created, in seconds since 1970.
    pub(crate) oldest: u32,
}

/// The revisions of an owner that are older than another one and have healthy pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HealthyBefore<'a> {
    /// The hash of the youngest of them.
    pub(crate) hash: &'a str,
    /// How many healthy pods they have.
    pub(crate) pods: u32,
}

/// The index of a label set in [`LabelSets`]. The indexes of removed label sets are reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LabelSetId(pub(super) u32);

/// All label sets that have members.
#[derive(Debug, Default)]
pub(super) struct LabelSets {
    /// By key. The keys are sorted, so the label sets of an owner are adjacent.
    ids: BTreeMap<Arc<[u8]>, LabelSetId>,
    slots: Vec<LabelSet>,
    free: Vec<LabelSetId>,
    hasher: LabelHasher,
    long: LongLabels,
}

#[derive(Debug)]
struct LabelSet {
    /// The namespace, the kind and name of the owner, each terminated by a NUL, then the labels as [`LabelHasher`] encodes
    /// them. Shared with the map: one allocation.
    key: Arc<[u8]>,
    /// Its members.
    count: PodCount,
    /// The creation time of the youngest pod that was ever a healthy member, in seconds since 1970; 0 if none was.
    youngest_healthy: u32,
    /// The creation time of the oldest pod that was ever a member, in seconds since 1970.
    oldest: u32,
}

impl LabelSets {
    /// Adds a pod to its label set, and returns whether that label set is new. Returns nothing if the labels are so long
    /// that there is no room for them.
    pub(super) fn join(&mut self, pod: &Pod) -> Option<(LabelSetId, bool)> {
        let key = self.encode(pod);
        if let Some(&id) = self.ids.get(&*key) {
            let label_set = &mut self.slots[id.0 as usize];
            label_set.count.pods += 1;
            label_set.oldest = label_set.oldest.min(created(pod));
            return Some((id, false));
        }
        if !self.long.add(&key) {
            return None;
        }
        let key: Arc<[u8]> = key.into();
        let oldest = created(pod);
        let label_set =
            LabelSet { key: Arc::clone(&key), count: PodCount { pods: 1, suspects: 0 }, youngest_healthy: 0, oldest };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id.0 as usize] = label_set;
                id
            }
            None => {
                self.slots.push(label_set);
                LabelSetId(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
            }
        };
        self.ids.insert(key, id);
        Some((id, true))
    }

    /// Records the creation time of a healthy member.
    pub(super) fn record_healthy(&mut self, id: LabelSetId, created: Option<Timestamp>) {
        if let (Some(label_set), Some(created)) = (self.slots.get_mut(id.0 as usize), created) {
            label_set.youngest_healthy = label_set.youngest_healthy.max(seconds(created));
        }
    }

    /// Forgets the healthy pods that were recorded.
    pub(super) fn forget_healthy(&mut self) {
        self.slots.iter_mut().for_each(|label_set| label_set.youngest_healthy = 0);
    }

    /// Whether the pod's owner has, or had, a healthy pod that was created later. It counts even if it became unready since.
    pub(super) fn is_replaced(&self, pod: &Pod) -> bool {
        let Some(((kind, name), created)) = replacing_owner(pod).zip(pod.created) else { return false };
        self.of_owner(&pod.namespace, kind, name).any(|label_set| label_set.youngest_healthy > seconds(created))
    }

    /// Whether an owner has any pod.
    pub(super) fn has_pods_of(&self, namespace: &str, kind: &str, name: &str) -> bool {
        self.of_owner(namespace, kind, name).next().is_some()
    }

    /// Counts a member that became a suspect, or stopped being one.
    pub(super) fn set_suspect(&mut self, id: LabelSetId, is_suspect: bool) {
        if let Some(label_set) = self.slots.get_mut(id.0 as usize) {
            label_set.count.set_suspect(is_suspect);
        }
    }

    /// The pods of an owner.
    pub(super) fn count_of(&self, namespace: &str, kind: &str, name: &str) -> PodCount {
        let mut count = PodCount::default();
        self.of_owner(namespace, kind, name).for_each(|label_set| count.add(label_set.count));
        count
    }

    /// The pods of an owner by revision, in the order of the hashes. Pods without the label are left out.
    pub(super) fn revisions_of(&self, namespace: &str, kind: &str, name: &str) -> Vec<RevisionPods<'_>> {
        let Some(label) = revision_label(kind) else { return Vec::new() };
        let mut revisions = BTreeMap::<&str, RevisionPods<'_>>::new();
        for label_set in self.of_owner(namespace, kind, name) {
            let hash = self.split(label_set).1.value(label);
            if hash.is_empty() {
                continue;
            }
            let empty = RevisionPods { hash, count: PodCount::default(), oldest: u32::MAX };
            let revision = revisions.entry(hash).or_insert(empty);
            revision.count.add(label_set.count);
            revision.oldest = revision.oldest.min(label_set.oldest);
        }
        revisions.into_values().collect()
    }

    /// The healthy revisions of an owner whose pods were first created before those of this revision; absent if there is none.
    /// The order of creation is not proof that one revision replaces the other, because a revision can return.
    pub(super) fn healthy_before(&self, [namespace, kind, name]: [&str; 3], hash: &str) -> Option<HealthyBefore<'_>> {
        let revisions = self.revisions_of(namespace, kind, name);
        let failing = revisions.iter().find(|revision| revision.hash == hash)?;
        let is_before = |own: &&RevisionPods<'_>| own.oldest < failing.oldest && own.count.pods > own.count.suspects;
        let before = revisions.iter().filter(is_before);
        let pods = before.clone().map(|revision| revision.count.pods - revision.count.suspects).sum();
        let youngest = before.max_by_key(|revision| revision.oldest)?;
        Some(HealthyBefore { hash: youngest.hash, pods })
    }

    fn of_owner(&self, namespace: &str, kind: &str, name: &str) -> impl Iterator<Item = &LabelSet> {
        let mut prefix = Vec::new();
        push(&mut prefix, [namespace, kind, name]);
        let from = (Bound::Included(&*prefix), Bound::Unbounded);
        let ids: Vec<LabelSetId> = self
            .ids
            .range::<[u8], _>(from)
            .take_while(|(key, _)| key.starts_with(&prefix))
            .map(|(_, id)| *id)
            .collect();
        ids.into_iter().filter_map(|id| self.slots.get(id.0 as usize))
    }

    /// Removes a member, and with the last one the label set.
    pub(super) fn leave(&mut self, id: LabelSetId) {
        let Some(label_set) = self.slots.get_mut(id.0 as usize) else { return };
        label_set.count.pods = label_set.count.pods.saturating_sub(1);
        if label_set.count.pods == 0 {
            self.ids.remove(&label_set.key);
            self.long.remove(&label_set.key);
            label_set.key = Arc::default();
            self.free.push(id);
        }
    }

    /// Whether this is the pod's label set.
    pub(super) fn is(&self, id: LabelSetId, pod: &Pod) -> bool {
        let (kind, name) = owner_names(pod).unwrap_or_default();
        self.slots.get(id.0 as usize).is_some_and(|label_set| {
            let (owner, labels) = self.split(label_set);
            owner == [&*pod.namespace, kind, name] && labels.are_those_of(pod)
        })
    }

    /// The namespace of the members.
    pub(super) fn namespace(&self, id: LabelSetId) -> &str {
        self.slots.get(id.0 as usize).map_or("", |label_set| self.split(label_set).0[0])
    }

    pub(super) fn members(&self, id: LabelSetId) -> u32 {
        self.slots.get(id.0 as usize).map_or(0, |label_set| label_set.count.pods)
    }

    /// The bytes of all label sets.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.ids.keys().map(|key| key.len() + size_of::<LabelSet>() + 2 * size_of::<usize>()).sum()
    }

    /// Every label set with its namespace and labels.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LabelSetId, &str, StoredLabels<'_>)> {
        self.slots.iter().enumerate().filter(|(_, label_set)| label_set.count.pods > 0).map(|(index, label_set)| {
            let ([namespace, ..], labels) = self.split(label_set);
            (LabelSetId(u32::try_from(index).unwrap_or(u32::MAX)), namespace, labels)
        })
    }

    fn encode(&self, pod: &Pod) -> Vec<u8> {
        let (kind, name) = owner_names(pod).unwrap_or_default();
        let mut encoded = Vec::with_capacity(pod.namespace.len() + kind.len() + name.len() + 3);
        push(&mut encoded, [&*pod.namespace, kind, name]);
        self.hasher.encode(&mut encoded, &pod.labels);
        encoded
    }

    /// The namespace, the kind and name of the owner, and the labels.
    fn split<'a>(&'a self, label_set: &'a LabelSet) -> ([&'a str; 3], StoredLabels<'a>) {
        let mut parts = label_set.key.splitn(4, |byte| *byte == 0);
        let owner = [(); 3].map(|()| str::from_utf8(parts.next().unwrap_or_default()).unwrap_or_default());
        (owner, self.hasher.stored(parts.next().unwrap_or_default()))
    }
}

/// In seconds since 1970. A pod without a creation time counts as young.
fn created(pod: &Pod) -> u32 {
    pod.created.map_or(u32::MAX, seconds)
}

fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.as_second().max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::testing::controller;

    fn pod(namespace: &str, owner: &str, hash: &str, created: i64) -> Pod {
        Pod {
            namespace: namespace.into(),
            labels: vec![("app".into(), "web".into()), ("pod-template-hash".into(), hash.into())],
            controller: Some(controller("ReplicaSet", &format!("{owner}-{hash}"), "")),
            created: Timestamp::from_second(created).ok(),
            ..Pod::default()
        }
    }

    #[test]
    fn members_share_a_label_set_until_the_last_leaves() {
        let mut label_sets = LabelSets::default();
        let web = pod("shop", "web", "1", 0);
        let (a, new) = label_sets.join(&web).unwrap();
        assert!(new);
        assert_eq!(label_sets.join(&web), Some((a, false)));
        for other in [pod("bank", "web", "1", 0), pod("shop", "api", "1", 0), pod("shop", "web", "2", 0)] {
            let (b, new) = label_sets.join(&other).unwrap();
            assert!(new && b != a && !label_sets.is(b, &web) && !label_sets.is(a, &other));
            label_sets.leave(b);
        }
        assert_eq!((label_sets.members(a), label_sets.namespace(a)), (2, "shop"));
        assert!(label_sets.is(a, &web));
        let (id, namespace, labels) = label_sets.iter().next().unwrap();
        assert_eq!((id, namespace), (a, "shop"));
        assert!(labels.are_those_of(&web));

        label_sets.leave(a);
        assert_eq!(label_sets.members(a), 1);
        label_sets.leave(a);
        assert_eq!(label_sets.iter().count(), 0);
        assert!(label_sets.join(&Pod::default()).unwrap().1, "a slot is reused");
        assert!(label_sets.slots.len() <= 2);
    }

    #[test]
    fn a_label_set_is_the_pods_only_if_every_label_is_the_same() {
        let labelled = |labels: &[(&str, &str)]| {
            let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            Pod { labels, ..pod("shop", "web", "1", 0) }
        };
        let mut label_sets = LabelSets::default();
        let pods = [
            labelled(&[]),
            labelled(&[("a", "1")]),
            labelled(&[("a", "2")]),
            labelled(&[("b", "1")]),
            labelled(&[("a", "1"), ("b", "1")]),
            labelled(&[("a", "1"), ("b", "2")]),
            labelled(&[("a", "1"), ("b", "1"), ("c", "")]),
        ];
        let ids = pods.each_ref().map(|pod| label_sets.join(pod).unwrap().0);
        for (id, own) in ids.iter().zip(&pods) {
            for other in &pods {
                assert_eq!(
                    label_sets.is(*id, other),
                    own.labels == other.labels,
                    "{:?} {:?}",
                    own.labels,
                    other.labels
                );
            }
        }
    }

    #[test]
    fn an_owner_has_pods_until_its_last_one_leaves() {
        let mut label_sets = LabelSets::default();
        let pods = [pod("shop", "cart", "1", 1), pod("shop", "cart", "2", 2), pod("shop", "cart-two", "3", 3)];
        let ids = pods.each_ref().map(|pod| label_sets.join(pod).unwrap().0);
        let Some((kind, name)) = owner_names(&pods[0]) else { panic!("it has an owner") };
        for id in &ids[..2] {
            assert!(label_sets.has_pods_of("shop", kind, name));
            label_sets.leave(*id);
        }
        assert!(!label_sets.has_pods_of("shop", kind, name), "the other owner's name only begins alike");
    }

    #[test]
    fn counts_the_pods_of_an_owner_by_revision() {
        let mut label_sets = LabelSets::default();
        let ids = [("1", 50), ("1", 40), ("2", 90), ("2", 80)].map(|(hash, created)| {
            let mut pod = pod("shop", "web", hash, created);
            // Like the pods of a StatefulSet, each has its own label set.
            pod.labels.insert(0, ("a".into(), created.to_string().into()));
            label_sets.join(&pod).unwrap().0
        });
        label_sets.join(&pod("shop", "web-2", "1", 1));
        label_sets.set_suspect(ids[2], true);
        label_sets.set_suspect(ids[0], true);
        label_sets.set_suspect(ids[0], false);
        let count = |pods, suspects| PodCount { pods, suspects };
        assert_eq!(label_sets.count_of("shop", "Deployment", "web"), count(4, 1));
        assert_eq!(label_sets.count_of("shop", "Deployment", "we"), count(0, 0));
        let revision = |hash, count, oldest| RevisionPods { hash, count, oldest };
        let revisions = label_sets.revisions_of("shop", "Deployment", "web");
        assert_eq!(revisions, [revision("1", count(2, 0), 40), revision("2", count(2, 1), 80)]);
        assert_eq!(label_sets.revisions_of("shop", "ReplicaSet", "web"), []);
        label_sets.leave(ids[3]);
        let revisions = label_sets.revisions_of("shop", "Deployment", "web");
        assert_eq!(revisions[1], revision("2", count(1, 1), 90));
        let mut older = pod("shop", "web", "2", 70);
        older.labels.insert(0, ("a".into(), "90".into()));
        assert_eq!(label_sets.join(&older).unwrap().0, ids[2]);
        label_sets.leave(ids[2]);
        let revisions = label_sets.revisions_of("shop", "Deployment", "web");
        assert_eq!(revisions[1], revision("2", count(1, 1), 70), "even if it is gone");
    }

    #[test]
    fn a_younger_healthy_pod_of_the_owner_is_a_replacement() {
        let mut label_sets = LabelSets::default();
        let failed = pod("shop", "web", "1", 100);
        let (old, _) = label_sets.join(&failed).unwrap();
        assert!(!label_sets.is_replaced(&failed));

        let other = pod("shop", "web-2", "1", 900);
        let (id, _) = label_sets.join(&other).unwrap();
        label_sets.record_healthy(id, other.created);
        assert!(!label_sets.is_replaced(&failed), "another owner, whose name begins alike");

        let before = pod("shop", "web", "1", 50);
        assert_eq!(label_sets.join(&before).unwrap().0, old);
        label_sets.record_healthy(old, before.created);
        assert!(!label_sets.is_replaced(&failed), "it was there before");
        label_sets.record_healthy(old, failed.created);
        assert!(!label_sets.is_replaced(&failed), "it was healthy itself");

        let next = pod("shop", "web", "2", 200);
        let (new, _) = label_sets.join(&next).unwrap();
        label_sets.record_healthy(new, next.created);
        assert!(label_sets.is_replaced(&failed), "the next revision's pod");
        label_sets.leave(new);
        assert!(!label_sets.is_replaced(&failed), "it is gone");
    }

    #[test]
    fn only_some_owners_replace_a_failed_pod_by_another() {
        for (kind, replaces) in [
            ("ReplicaSet", true),
            ("ReplicationController", true),
            ("StatefulSet", false),
            ("DaemonSet", false),
            ("Job", false),
        ] {
            let owned = |created| {
                let mut pod = pod("shop", "web", "1", created);
                pod.controller.iter_mut().for_each(|controller| controller.kind = kind.into());
                pod
            };
            let mut label_sets = LabelSets::default();
            let (failed, next) = (owned(100), owned(200));
            let (id, _) = label_sets.join(&failed).unwrap();
            label_sets.join(&next);
            label_sets.record_healthy(id, next.created);
            assert_eq!(label_sets.is_replaced(&failed), replaces, "{kind}");
        }
    }
}
