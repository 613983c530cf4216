//! Every pod of the cluster, in as little memory as will do, and who looks at which.
//!
//! A pod that is healthy under any thresholds is 24 bytes: its identity, its cohort, and the list it was
//! last seen in. Only the others are kept whole, to be judged with each viewer's own thresholds.

mod label_set;
mod undecodable;

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;

use crate::{
    diagnosis::{is_healthy_under_any_thresholds, needs_job},
    pods::{Controller, Pod, PodSelection, Uid, UndecodablePod},
};

use self::{
    label_set::{LabelSetId, LabelSets},
    undecodable::UndecodablePods,
};

/// Somebody who looks at some of the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewId(pub usize);

/// The index. Synchronous: changes in, who is concerned out.
#[derive(Debug)]
pub struct Index {
    pods: HashMap<Uid, Entry>,
    suspects: HashMap<Uid, Suspect>,
    label_sets: LabelSets,
    views: Vec<Option<View>>,
    undecodable: UndecodablePods,
    /// Counts the lists that were begun; an entry bears the count of when it was last seen.
    list: u32,
    /// The count when the list of a namespace, or of all, was begun.
    begun: HashMap<Option<String>, u32>,
    /// Failures older than this concern nobody.
    restart_lookback: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    label_set: LabelSetId,
    /// When it was last seen: [`Index::list`] of then.
    list: u32,
}

#[derive(Debug)]
struct Suspect {
    label_set: LabelSetId,
    pod: Box<Pod>,
}

#[derive(Debug)]
struct View {
    scope: PodSelection,
    label_sets: BitSet,
}

impl Index {
    /// An empty index for viewers whose `restarted` threshold is at most `restart_lookback`.
    #[must_use]
    pub fn new(restart_lookback: Duration) -> Self {
        Self {
            pods: HashMap::new(),
            suspects: HashMap::new(),
            label_sets: LabelSets::default(),
            views: Vec::new(),
            undecodable: UndecodablePods::default(),
            list: 0,
            begun: HashMap::new(),
            restart_lookback,
        }
    }

    /// How old a failure may be and still concern somebody.
    #[must_use]
    pub fn restart_lookback(&self) -> Duration {
        self.restart_lookback
    }

    /// Widens the horizon. Pods that failed before the old one may have been dropped: the caller must
    /// list the pods anew.
    pub fn widen(&mut self, restart_lookback: Duration) {
        self.restart_lookback = self.restart_lookback.max(restart_lookback);
    }

    /// Narrows the horizon. Pods that failed before it are dropped by the next [`Index::compact`].
    pub fn narrow(&mut self, restart_lookback: Duration) {
        self.restart_lookback = self.restart_lookback.min(restart_lookback);
    }

    /// Adds a viewer.
    pub fn add_view(&mut self, scope: PodSelection) -> ViewId {
        let mut label_sets = BitSet::default();
        for (id, namespace, labels) in self.label_sets.iter() {
            label_sets.set(id, scope.selects(namespace, &labels));
        }
        let view = Some(View { scope, label_sets });
        match self.views.iter().position(Option::is_none) {
            Some(free) => {
                self.views[free] = view;
                ViewId(free)
            }
            None => {
                self.views.push(view);
                ViewId(self.views.len() - 1)
            }
        }
    }

    /// Takes a viewer out.
    pub fn remove_view(&mut self, id: ViewId) {
        if let Some(view) = self.views.get_mut(id.0) {
            *view = None;
        }
    }

    /// A pod was made, changed, or named by a list. Returns the viewers for whom that may matter: a pod
    /// that was healthy and still is matters to nobody.
    pub fn apply(&mut self, mut pod: Box<Pod>, now: Timestamp) -> Vec<ViewId> {
        let uid = pod.uid;
        self.undecodable.remove(uid);
        let before = self.pods.get(&uid).map(|entry| entry.label_set);
        let label_set = match before {
            Some(label_set) if self.label_sets.is(label_set, &pod) => label_set,
            _ => self.join(&pod),
        };
        self.pods.insert(uid, Entry { label_set, list: self.list });

        pod.update_history(self.suspects.get(&uid).map(|suspects| &*suspects.pod), now);
        let changed = if is_healthy_under_any_thresholds(&pod, self.restart_lookback, now) {
            if pod.phase == "Running" {
                self.label_sets.saw_healthy(label_set, pod.created);
            }
            self.suspects.remove(&uid).is_some()
        } else if self.suspects.get(&uid).is_some_and(|suspects| suspects.label_set == label_set && suspects.pod == pod)
        {
            false
        } else {
            self.suspects.insert(uid, Suspect { label_set, pod });
            true
        };
        let moved_from = before.filter(|&before| before != label_set);
        let concerned = if changed { self.viewers(label_set, moved_from) } else { Vec::new() };
        if let Some(before) = moved_from {
            self.label_sets.leave(before);
        }
        concerned
    }

    /// A pod could not be decoded: what was known of it no longer holds. Returns the viewers concerned.
    pub fn insert_undecodable(&mut self, undecodable: UndecodablePod) -> Vec<ViewId> {
        let concerned = self.remove_readable(undecodable.uid);
        self.undecodable.insert(undecodable, self.list);
        concerned
    }

    /// A pod is gone. Returns the viewers for whom that may matter.
    pub fn remove(&mut self, uid: Uid) -> Vec<ViewId> {
        self.undecodable.remove(uid);
        self.remove_readable(uid)
    }

    fn remove_readable(&mut self, uid: Uid) -> Vec<ViewId> {
        let Some(Entry { label_set, .. }) = self.pods.remove(&uid) else { return Vec::new() };
        let concerned = if self.suspects.remove(&uid).is_some() { self.viewers(label_set, None) } else { Vec::new() };
        self.label_sets.leave(label_set);
        concerned
    }

    /// A list of one namespace, or of all, begins.
    pub fn begin_list(&mut self, namespace: Option<&str>) {
        self.list += 1;
        self.begun.insert(namespace.map(str::to_owned), self.list);
    }

    /// That list is complete: pods that it did not name are gone. Returns the viewers concerned.
    pub fn end_list(&mut self, namespace: Option<&str>) -> Vec<ViewId> {
        let Some(begun) = self.begun.remove(&namespace.map(str::to_owned)) else { return Vec::new() };
        let gone: Vec<Uid> = self
            .pods
            .iter()
            .filter(|(_, entry)| entry.list < begun)
            .filter(|(_, entry)| {
                namespace.is_none_or(|namespace| self.label_sets.namespace(entry.label_set) == namespace)
            })
            .map(|(uid, _)| *uid)
            .collect();
        self.undecodable.end_list(namespace, begun);
        let mut concerned: Vec<ViewId> = gone.into_iter().flat_map(|uid| self.remove_readable(uid)).collect();
        concerned.sort_unstable();
        concerned.dedup();
        concerned
    }

    /// Drops the details of pods that have become plain with time alone.
    pub fn compact(&mut self, now: Timestamp) {
        let label_sets = &mut self.label_sets;
        self.suspects.retain(|_, suspects| {
            let is_healthy_under_any_thresholds =
                is_healthy_under_any_thresholds(&suspects.pod, self.restart_lookback, now);
            if is_healthy_under_any_thresholds {
                label_sets
                    .saw_healthy(suspects.label_set, suspects.pod.created.filter(|_| suspects.pod.phase == "Running"));
            }
            !is_healthy_under_any_thresholds
        });
        if self.suspects.capacity() > 4 * self.suspects.len().max(64) {
            self.suspects.shrink_to_fit();
        }
    }

    /// How many pods a viewer looks at.
    #[must_use]
    pub fn watched(&self, id: ViewId) -> u64 {
        let Some(view) = self.view(id) else { return 0 };
        view.label_sets.iter().map(|label_set| u64::from(self.label_sets.members(label_set))).sum()
    }

    /// The pods a viewer looks at that may not be healthy, in no order.
    pub fn suspects(&self, id: ViewId) -> impl Iterator<Item = &Pod> {
        let view = self.view(id);
        let suspects = self
            .suspects
            .values()
            .filter(move |suspects| view.is_some_and(|view| view.label_sets.contains(suspects.label_set)));
        suspects.map(|suspects| &*suspects.pod)
    }

    /// How many pods could not be decoded of those that a viewer may look at, and the first of them by
    /// namespace and name. Their labels are not known: it is their namespaces that count.
    #[must_use]
    pub fn undecodable(&self, id: ViewId) -> Option<(u64, &UndecodablePod)> {
        let view = self.view(id)?;
        self.undecodable.of(|namespace| view.scope.selects_namespace(namespace))
    }

    /// Counts the changes among the pods that could not be decoded.
    #[must_use]
    pub fn undecodable_changes(&self) -> u64 {
        self.undecodable.changes()
    }

    /// Whether a pod exists, and is not being deleted.
    #[must_use]
    pub fn remains(&self, uid: Uid) -> bool {
        self.pods.contains_key(&uid) && self.suspects.get(&uid).is_none_or(|suspects| suspects.pod.deletion.is_none())
    }

    /// Whether the pod's owner has, or had, a healthy pod that was created after it.
    #[must_use]
    pub fn is_replaced(&self, pod: &Pod) -> bool {
        self.label_sets.is_replaced(pod)
    }

    /// Whether an owner has any pod.
    #[must_use]
    pub fn has_pods_of(&self, namespace: &str, kind: &str, name: &str) -> bool {
        self.label_sets.has_pods_of(namespace, kind, name)
    }

    /// The pods of Jobs that may not be healthy, each with its Job.
    pub fn suspect_jobs(&self) -> impl Iterator<Item = (&Pod, &Controller)> {
        self.suspects.values().filter_map(|suspects| Some((&*suspects.pod, needs_job(&suspects.pod)?)))
    }

    /// Who looks at pods of this Job that may not be healthy.
    #[must_use]
    pub fn viewers_of_job(&self, uid: &str) -> Vec<ViewId> {
        let failed =
            self.suspects.values().filter(|suspects| needs_job(&suspects.pod).is_some_and(|job| job.uid == uid));
        let mut viewers: Vec<_> = failed.flat_map(|suspects| self.viewers(suspects.label_set, None)).collect();
        viewers.sort_unstable();
        viewers.dedup();
        viewers
    }

    /// How many pods there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    fn view(&self, id: ViewId) -> Option<&View> {
        self.views.get(id.0)?.as_ref()
    }

    fn join(&mut self, pod: &Pod) -> LabelSetId {
        let (label_set, new) = self.label_sets.join(pod);
        if new {
            for view in self.views.iter_mut().flatten() {
                view.label_sets.set(label_set, view.scope.selects(&pod.namespace, &pod.labels));
            }
        }
        label_set
    }

    fn viewers(&self, label_set: LabelSetId, other: Option<LabelSetId>) -> Vec<ViewId> {
        let sees = |view: &View| {
            view.label_sets.contains(label_set) || other.is_some_and(|other| view.label_sets.contains(other))
        };
        let views = self.views.iter().enumerate();
        views.filter(|(_, view)| view.as_ref().is_some_and(sees)).map(|(index, _)| ViewId(index)).collect()
    }
}

#[derive(Debug, Default)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn set(&mut self, LabelSetId(index): LabelSetId, value: bool) {
        let (word, bit) = (index as usize / 64, index % 64);
        if word >= self.0.len() {
            if !value {
                return;
            }
            self.0.resize(word + 1, 0);
        }
        if value {
            self.0[word] |= 1 << bit;
        } else {
            self.0[word] &= !(1 << bit);
        }
    }

    fn contains(&self, LabelSetId(index): LabelSetId) -> bool {
        self.0.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn iter(&self) -> impl Iterator<Item = LabelSetId> {
        self.0.iter().enumerate().flat_map(|(word, &bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| LabelSetId((word * 64 + bit) as u32))
        })
    }
}

#[cfg(test)]
mod tests;
