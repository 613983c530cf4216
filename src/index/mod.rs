//! Indexes all watched pods in little memory, and returns the objects that a pod's change affects.
//!
//! A pod that is healthy under any thresholds takes about 60 bytes: its UID, its label set, its node, and the number of the list
//! in which it was last seen. Only the other pods, the suspects, are kept whole, to be judged with each object's own
//! thresholds.

mod label_set;
mod memory;
mod nodes;
mod room;
mod stored_labels;
mod undecodable;
mod view;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::{
    bounded::Interner,
    diagnosis::{
        PortHolder, PortHolders, is_healthy_under_any_thresholds, is_revision_label, needs_job, replaces_older_than,
    },
    pods::{Controller, DecodeError, Pod, PodSelection, Uid, UndecodablePod},
};

use self::{
    label_set::{LabelSetId, LabelSets, PodCount},
    memory::SuspectMemory,
    nodes::Nodes,
    undecodable::UndecodablePods,
    view::{View, Views},
};

pub use self::view::ViewId;
pub(crate) use self::{label_set::HealthyBefore, view::HiddenSuspects};

/// The most texts that suspects share.
const TEXTS: usize = 1 << 15;

/// The index. Every method is synchronous. Those that change a pod return the affected views.
#[derive(Debug)]
pub struct Index {
    /// Compared with a hash map, it takes no additional memory while it grows: at a million pods, that would be 30 MiB.
    pods: BTreeMap<Uid, Entry>,
    suspects: BTreeMap<Uid, Suspect>,
    memory: SuspectMemory,
    /// The texts that suspects share.
    texts: Interner<ArcStr>,
    label_sets: LabelSets,
    nodes: Nodes,
    views: Views,
    undecodable: UndecodablePods,
    port_holders: PortHolders,
    /// The number of lists so far.
    list: u32,
    /// Pods that were last seen in an earlier list than this one were seen in another state of the cluster, to which its
    /// present state does not follow.
    first_list: u32,
    /// The number of the list under way, for a namespace or for all.
    open_lists: HashMap<Option<String>, u32>,
    /// Restarts longer ago than this are ignored.
    restart_lookback: Duration,
}

#[derive(Clone, Debug)]
struct Entry {
    label_set: LabelSetId,
    /// Empty if it is on no node.
    node: ArcStr,
    /// The number of the list in which it was last seen.
    list: u32,
}

#[derive(Debug)]
struct Suspect {
    label_set: LabelSetId,
    node: ArcStr,
    /// In bytes, as it was counted.
    size: u32,
    pod: Box<Pod>,
}

impl Index {
    /// An empty index for objects whose `restarted` threshold is at most `restart_lookback`.
    #[must_use]
    pub fn new(restart_lookback: Duration) -> Self {
        Self {
            pods: BTreeMap::new(),
            suspects: BTreeMap::new(),
            memory: SuspectMemory::default(),
            texts: Interner::new(TEXTS),
            label_sets: LabelSets::default(),
            nodes: Nodes::default(),
            views: Views::default(),
            undecodable: UndecodablePods::default(),
            port_holders: PortHolders::default(),
            list: 0,
            first_list: 0,
            open_lists: HashMap::new(),
            restart_lookback,
        }
    }

    /// The same for a command, whose suspects may take so many bytes.
    #[must_use]
    pub(crate) fn with_memory(restart_lookback: Duration, bytes: usize) -> Self {
        let mut index = Self::new(restart_lookback);
        (index.memory.full, index.memory.all) = (bytes, bytes);
        index
    }

    /// Keeps which ports of its node a pod uses that is in no view.
    pub(crate) fn see_outside(&mut self, pod: &Pod) {
        self.port_holders.see(pod);
    }

    /// How long ago a restart may be that is still considered.
    #[must_use]
    pub(crate) fn restart_lookback(&self) -> Duration {
        self.restart_lookback
    }

    /// Extends the lookback. The details of pods that restarted before the old one may have been dropped, so the caller
    /// must list the pods again, for [`Index::backfill`].
    pub(crate) fn widen(&mut self, restart_lookback: Duration) {
        self.restart_lookback = self.restart_lookback.max(restart_lookback);
    }

    /// Shortens the lookback. The next [`Index::compact`] drops the details of pods that restarted before it.
    pub(crate) fn narrow(&mut self, restart_lookback: Duration) {
        self.restart_lookback = self.restart_lookback.min(restart_lookback);
    }

    pub fn add_view(&mut self, scope: PodSelection) -> ViewId {
        self.views.add(scope, &self.label_sets)
    }

    pub(crate) fn remove_view(&mut self, id: ViewId) {
        self.views.remove(id);
    }

    /// Adds or updates a pod. Returns the affected views: none if the pod was healthy and still is.
    pub fn apply(&mut self, mut pod: Box<Pod>, now: Timestamp) -> Vec<ViewId> {
        let uid = pod.uid;
        let entry = self.pods.get(&uid).cloned();
        let before = entry.as_ref().map(|entry| entry.label_set);
        let label_set = match before {
            Some(label_set) if self.label_sets.is(label_set, &pod) => label_set,
            _ => match self.join(&pod) {
                Some(label_set) => label_set,
                None => return self.insert_undecodable(UndecodablePod::without_room(&pod, DecodeError::LongLabels)),
            },
        };
        // The others are part of the label set, and no verdict depends on them.
        pod.labels.retain(|(key, _)| is_revision_label(key));
        pod.labels.shrink_to_fit();
        let node = self.nodes.update(entry.as_ref().map(|entry| &entry.node), &pod);
        self.port_holders.see(&pod);
        self.pods.insert(uid, Entry { label_set, node: node.clone(), list: self.list });

        if self.memory.is_reduced(&pod.namespace) {
            pod.reduce();
        }
        let (mut more_affected, mut is_judged) = (Vec::new(), true);
        let follows = entry.is_some_and(|entry| entry.list >= self.first_list);
        let previous = self.suspects.get(&uid).filter(|_| follows);
        pod.update_history(previous.map(|suspect| &*suspect.pod), now);
        let changed = if is_healthy_under_any_thresholds(&pod, self.restart_lookback, now) {
            self.label_sets.record_healthy(label_set, replaces_older_than(&pod));
            self.remove_suspect(uid)
        } else if self.suspects.get(&uid).is_some_and(|suspect| suspect.label_set == label_set && suspect.pod == pod) {
            false
        } else {
            let was_suspect = self.remove_suspect(uid);
            match self.make_room(&mut pod) {
                Some((size, evicted)) => {
                    self.label_sets.set_suspect(label_set, true);
                    self.nodes.set_suspect(&node, true);
                    self.memory.add(&pod.namespace, size as usize);
                    self.suspects.insert(uid, Suspect { label_set, node, size, pod });
                    more_affected = evicted;
                    true
                }
                None => {
                    more_affected = self.insert_undecodable(UndecodablePod::without_room(&pod, DecodeError::NoRoom));
                    is_judged = false;
                    was_suspect
                }
            }
        };
        if is_judged && let Some(undecodable) = self.undecodable.remove(uid) {
            more_affected.extend(self.views_of_namespace(&undecodable.namespace));
        }
        let moved_from = before.filter(|&before| before != label_set);
        let mut affected = if changed { self.views_of(label_set, moved_from) } else { Vec::new() };
        if !more_affected.is_empty() {
            affected.append(&mut more_affected);
            affected.sort_unstable();
            affected.dedup();
        }
        if let Some(before) = moved_from {
            self.label_sets.leave(before);
        }
        affected
    }

    /// Adds the details of a known pod whose failures have become recent enough to matter. It changes nothing if the pod
    /// has details already, or is not known: then it was deleted, or the watch has yet to report it. Returns the affected
    /// views.
    pub(crate) fn backfill(&mut self, pod: Box<Pod>, now: Timestamp) -> Vec<ViewId> {
        let (uid, number) = (pod.uid, self.list);
        let Some(Entry { list, .. }) = self.pods.get(&uid).cloned() else { return Vec::new() };
        if self.suspects.contains_key(&uid) || is_healthy_under_any_thresholds(&pod, self.restart_lookback, now) {
            return Vec::new();
        }
        // A list of the watch that is under way has not contained the pod yet.
        self.list = list;
        let affected = self.apply(pod, now);
        self.list = number;
        affected
    }

    /// Replaces a pod by one that could not be decoded. Returns the affected views.
    pub(crate) fn insert_undecodable(&mut self, undecodable: UndecodablePod) -> Vec<ViewId> {
        let mut affected = self.remove_decoded(undecodable.uid);
        for namespace in self.undecodable.insert(undecodable, self.list) {
            affected.extend(self.views_of_namespace(&namespace));
        }
        affected.sort_unstable();
        affected.dedup();
        affected
    }

    /// Removes a pod. Returns the affected views.
    pub(crate) fn remove(&mut self, uid: Uid) -> Vec<ViewId> {
        let mut affected = self.remove_decoded(uid);
        if let Some(undecodable) = self.undecodable.remove(uid) {
            affected.extend(self.views_of_namespace(&undecodable.namespace));
            affected.sort_unstable();
            affected.dedup();
        }
        affected
    }

    fn remove_decoded(&mut self, uid: Uid) -> Vec<ViewId> {
        self.port_holders.remove(uid);
        let Some(Entry { label_set, node, .. }) = self.pods.remove(&uid) else { return Vec::new() };
        let affected = if self.remove_suspect(uid) { self.views_of(label_set, None) } else { Vec::new() };
        self.label_sets.leave(label_set);
        self.nodes.leave(&node);
        affected
    }

    /// Returns whether the pod was a suspect.
    fn remove_suspect(&mut self, uid: Uid) -> bool {
        let Some(Suspect { label_set, node, size, pod }) = self.suspects.remove(&uid) else { return false };
        self.memory.remove(&pod.namespace, size as usize);
        self.label_sets.set_suspect(label_set, false);
        self.nodes.set_suspect(&node, false);
        true
    }

    /// The cluster was put back to an earlier state. The pods of the next list do not follow those that are known, even if
    /// they have the same UIDs.
    pub(crate) fn went_back(&mut self) {
        self.first_list = self.list + 1;
        self.label_sets.forget_healthy();
    }

    /// Starts a list of one namespace, or of all.
    pub(crate) fn begin_list(&mut self, namespace: Option<&str>) {
        self.list += 1;
        self.open_lists.insert(namespace.map(str::to_owned), self.list);
    }

    /// Completes a list: removes the pods that it did not contain. Returns the affected views.
    pub(crate) fn end_list(&mut self, namespace: Option<&str>) -> Vec<ViewId> {
        let Some(started) = self.open_lists.remove(&namespace.map(str::to_owned)) else { return Vec::new() };
        let gone: Vec<Uid> = self
            .pods
            .iter()
            .filter(|(_, entry)| entry.list < started)
            .filter(|(_, entry)| {
                namespace.is_none_or(|namespace| self.label_sets.namespace(entry.label_set) == namespace)
            })
            .map(|(uid, _)| *uid)
            .collect();
        let mut affected: Vec<ViewId> = gone.into_iter().flat_map(|uid| self.remove_decoded(uid)).collect();
        for namespace in self.undecodable.end_list(namespace, started) {
            affected.extend(self.views_of_namespace(&namespace));
        }
        affected.sort_unstable();
        affected.dedup();
        affected
    }

    /// Drops the details of pods that became healthy with the passing of time.
    pub(crate) fn compact(&mut self, now: Timestamp) {
        let (label_sets, nodes, memory) = (&mut self.label_sets, &mut self.nodes, &mut self.memory);
        self.suspects.retain(|_, suspect| {
            let is_healthy = is_healthy_under_any_thresholds(&suspect.pod, self.restart_lookback, now);
            if is_healthy {
                label_sets.record_healthy(suspect.label_set, replaces_older_than(&suspect.pod));
                label_sets.set_suspect(suspect.label_set, false);
                nodes.set_suspect(&suspect.node, false);
                memory.remove(&suspect.pod.namespace, suspect.size as usize);
            }
            !is_healthy
        });
        self.texts.sweep();
    }

    /// The number of pods in a view.
    #[must_use]
    pub fn watched(&self, id: ViewId) -> u64 {
        let Some(view) = self.views.get(id) else { return 0 };
        view.label_sets().map(|label_set| u64::from(self.label_sets.members(label_set))).sum()
    }

    /// The pods in a view that may not be healthy, in the order of their UIDs.
    pub fn suspects(&self, id: ViewId) -> impl Iterator<Item = &Pod> {
        let view = self.views.get(id);
        let suspects =
            self.suspects.values().filter(move |suspect| view.is_some_and(|view| view.contains(suspect.label_set)));
        suspects.map(|suspect| &*suspect.pod)
    }

    /// The pods that may not be healthy, in the namespaces that a view selects, and that the view does not select or an
    /// annotation excludes.
    #[must_use]
    pub(crate) fn hidden_suspects(&self, id: ViewId) -> HiddenSuspects<'_> {
        let mut hidden = HiddenSuspects::default();
        let Some(view) = self.views.get(id) else { return hidden };
        let suspects = self.suspects.values().filter(|suspect| self.hides(id, suspect));
        suspects.filter(|own| view.selects_namespace(&own.pod.namespace)).for_each(|own| hidden.add(&own.pod));
        hidden
    }

    /// Whether a pod may not be healthy, and the view does not select it or an annotation excludes it.
    #[must_use]
    pub(crate) fn is_hidden(&self, id: ViewId, uid: Uid) -> bool {
        self.suspects.get(&uid).is_some_and(|suspect| self.hides(id, suspect))
    }

    fn hides(&self, id: ViewId, suspect: &Suspect) -> bool {
        suspect.pod.ignored || self.views.get(id).is_none_or(|view| !view.contains(suspect.label_set))
    }

    /// The number of undecodable pods in a view, and the first of them by namespace and name. Their labels are unknown, so
    /// all undecodable pods in the selected namespaces count.
    #[must_use]
    pub(crate) fn undecodable(&self, id: ViewId) -> Option<(u64, &UndecodablePod)> {
        let view = self.views.get(id)?;
        self.undecodable.of(|namespace| view.selects_namespace(namespace))
    }

    /// The namespaces that have undecodable pods.
    #[must_use]
    pub(crate) fn undecodable_namespaces(&self) -> HashSet<&str> {
        self.undecodable.namespaces()
    }

    /// A counter that grows with every change of the undecodable pods.
    #[must_use]
    pub(crate) fn undecodable_changes(&self) -> u64 {
        self.undecodable.changes()
    }

    /// Whether a view selects pods of this namespace with these labels, if there are any.
    #[must_use]
    pub(crate) fn selects(&self, id: ViewId, namespace: &str, labels: &[(String, String)]) -> bool {
        self.views.get(id).is_some_and(|view| view.selects(namespace, labels))
    }

    /// The views that select pods of a namespace.
    pub(crate) fn views_of_namespace(&self, namespace: &str) -> impl Iterator<Item = ViewId> {
        self.views.find(move |view| view.selects_namespace(namespace))
    }

    /// Whether a pod exists, and is not being deleted.
    #[must_use]
    pub fn remains(&self, uid: Uid) -> bool {
        self.pods.contains_key(&uid) && self.suspects.get(&uid).is_none_or(|suspect| suspect.pod.deletion.is_none())
    }

    /// Whether the pod's owner has, or had, a healthy pod that was created later.
    #[must_use]
    pub fn is_replaced(&self, pod: &Pod) -> bool {
        self.label_sets.is_replaced(pod)
    }

    /// Another pod that uses a host port of this one. It is named if the view selects it.
    #[must_use]
    pub fn port_holder(&self, id: ViewId, pod: &Pod) -> Option<PortHolder> {
        self.port_holders.holder(pod, |uid| self.selects_pod(id, uid))
    }

    /// Whether a pod exists, and a view selects it.
    #[must_use]
    pub fn selects_pod(&self, id: ViewId, uid: Uid) -> bool {
        let view = self.views.get(id);
        view.is_some_and(|view| self.pods.get(&uid).is_some_and(|entry| view.contains(entry.label_set)))
    }

    /// The same, if the pod is in this namespace.
    #[must_use]
    pub fn selects_pod_in(&self, id: ViewId, namespace: &str, uid: Uid) -> bool {
        let is_in = |entry: &Entry| self.label_sets.namespace(entry.label_set) == namespace;
        self.pods.get(&uid).is_some_and(is_in) && self.selects_pod(id, uid)
    }

    /// Whether an owner has any pod.
    #[must_use]
    pub(crate) fn has_pods_of(&self, namespace: &str, kind: &str, name: &str) -> bool {
        self.label_sets.has_pods_of(namespace, kind, name)
    }

    /// The pods of an owner, as [`owner_names`](crate::diagnosis::owner_names) names it, in whichever views they are.
    #[must_use]
    pub(crate) fn pods_of(&self, namespace: &str, kind: &str, name: &str) -> PodCount {
        self.label_sets.count_of(namespace, kind, name)
    }

    /// See [`LabelSets::healthy_before`].
    #[must_use]
    pub(crate) fn healthy_before(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
        hash: &str,
    ) -> Option<HealthyBefore<'_>> {
        self.label_sets.healthy_before([namespace, kind, name], hash)
    }

    /// The pods on a node, except those that have succeeded.
    #[must_use]
    pub(crate) fn pods_on_node(&self, node: &str) -> PodCount {
        self.nodes.count(node)
    }

    /// The suspects that belong to Jobs, each with its Job.
    pub(crate) fn suspect_jobs(&self) -> impl Iterator<Item = (&Pod, &Controller)> {
        self.suspects.values().filter_map(|suspect| Some((&*suspect.pod, needs_job(&suspect.pod)?)))
    }

    /// The views that contain suspects to which this applies.
    #[must_use]
    pub(crate) fn views_of_suspects(&self, applies: impl Fn(&Pod) -> bool) -> Vec<ViewId> {
        let suspects = self.suspects.values().filter(|suspect| applies(&suspect.pod));
        let mut views: Vec<_> = suspects.flat_map(|suspect| self.views_of(suspect.label_set, None)).collect();
        views.sort_unstable();
        views.dedup();
        views
    }

    /// The views that contain a pod, if it may not be healthy.
    #[must_use]
    pub(crate) fn views_of_suspect(&self, uid: Uid) -> Vec<ViewId> {
        self.suspects.get(&uid).map_or_else(Vec::new, |suspect| self.views_of(suspect.label_set, None))
    }

    /// Whether a pod exists.
    #[must_use]
    pub(crate) fn contains(&self, uid: Uid) -> bool {
        self.pods.contains_key(&uid)
    }

    /// The last version of a pod, if it may not be healthy.
    #[must_use]
    pub(crate) fn suspect(&self, uid: Uid) -> Option<&Pod> {
        self.suspects.get(&uid).map(|suspect| &*suspect.pod)
    }

    /// The number of pods.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }

    fn join(&mut self, pod: &Pod) -> Option<LabelSetId> {
        let (label_set, new) = self.label_sets.join(pod)?;
        if new {
            self.views.add_label_set(label_set, pod);
        }
        Some(label_set)
    }

    fn views_of(&self, label_set: LabelSetId, other: Option<LabelSetId>) -> Vec<ViewId> {
        let sees = |view: &View| view.contains(label_set) || other.is_some_and(|other| view.contains(other));
        self.views.find(sees).collect()
    }
}

#[cfg(test)]
mod tests;
