//! Every pod of the cluster, in as little memory as will do, and who looks at which.
//!
//! A pod that is healthy under any thresholds is 24 bytes: its identity, its cohort, and the list it was
//! last seen in. Only the others are kept whole, to be judged with each viewer's own thresholds.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;

use crate::{
    diagnosis::{is_plain, needs_job},
    settings::Scope,
};

use super::{
    Controller, Pod, Uid, Unreadable,
    cohort::{CohortId, Cohorts},
    unreadable::UnreadablePods,
};

/// Somebody who looks at some of the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewId(pub usize);

/// The index. Synchronous: changes in, who is concerned out.
#[derive(Debug)]
pub struct Index {
    pods: HashMap<Uid, Entry>,
    kept: HashMap<Uid, Kept>,
    cohorts: Cohorts,
    views: Vec<Option<View>>,
    unreadable: UnreadablePods,
    /// Counts the lists that were begun; an entry bears the count of when it was last seen.
    list: u32,
    /// The count when the list of a namespace, or of all, was begun.
    begun: HashMap<Option<String>, u32>,
    /// Failures older than this concern nobody.
    horizon: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    cohort: CohortId,
    /// When it was last seen: [`Index::list`] of then.
    list: u32,
}

#[derive(Debug)]
struct Kept {
    cohort: CohortId,
    pod: Box<Pod>,
}

#[derive(Debug)]
struct View {
    scope: Scope,
    cohorts: BitSet,
}

impl Index {
    /// An empty index for viewers whose `restarted` threshold is at most `horizon`.
    #[must_use]
    pub fn new(horizon: Duration) -> Self {
        Self {
            pods: HashMap::new(),
            kept: HashMap::new(),
            cohorts: Cohorts::default(),
            views: Vec::new(),
            unreadable: UnreadablePods::default(),
            list: 0,
            begun: HashMap::new(),
            horizon,
        }
    }

    /// How old a failure may be and still concern somebody.
    #[must_use]
    pub fn horizon(&self) -> Duration {
        self.horizon
    }

    /// Widens the horizon. Pods that failed before the old one may have been dropped: the caller must
    /// list the pods anew.
    pub fn widen(&mut self, horizon: Duration) {
        self.horizon = self.horizon.max(horizon);
    }

    /// Narrows the horizon. Pods that failed before it are dropped by the next [`Index::compact`].
    pub fn narrow(&mut self, horizon: Duration) {
        self.horizon = self.horizon.min(horizon);
    }

    /// Adds a viewer.
    pub fn add_view(&mut self, scope: Scope) -> ViewId {
        let mut cohorts = BitSet::default();
        for (id, namespace, labels) in self.cohorts.iter() {
            cohorts.set(id, scope.selects(namespace, &labels));
        }
        let view = Some(View { scope, cohorts });
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
        self.unreadable.remove(uid);
        let before = self.pods.get(&uid).map(|entry| entry.cohort);
        let cohort = match before {
            Some(cohort) if self.cohorts.is(cohort, &pod) => cohort,
            _ => self.join(&pod),
        };
        self.pods.insert(uid, Entry { cohort, list: self.list });

        pod.remember(self.kept.get(&uid).map(|kept| &*kept.pod), now);
        let changed = if is_plain(&pod, self.horizon, now) {
            if pod.phase == "Running" {
                self.cohorts.saw_healthy(cohort, pod.created);
            }
            self.kept.remove(&uid).is_some()
        } else if self.kept.get(&uid).is_some_and(|kept| kept.cohort == cohort && kept.pod == pod) {
            false
        } else {
            self.kept.insert(uid, Kept { cohort, pod });
            true
        };
        let moved_from = before.filter(|&before| before != cohort);
        let concerned = if changed { self.viewers(cohort, moved_from) } else { Vec::new() };
        if let Some(before) = moved_from {
            self.cohorts.leave(before);
        }
        concerned
    }

    /// A pod could not be decoded: what was known of it no longer holds. Returns the viewers concerned.
    pub fn pass_over(&mut self, unreadable: Unreadable) -> Vec<ViewId> {
        let concerned = self.remove_readable(unreadable.uid);
        self.unreadable.insert(unreadable, self.list);
        concerned
    }

    /// A pod is gone. Returns the viewers for whom that may matter.
    pub fn remove(&mut self, uid: Uid) -> Vec<ViewId> {
        self.unreadable.remove(uid);
        self.remove_readable(uid)
    }

    fn remove_readable(&mut self, uid: Uid) -> Vec<ViewId> {
        let Some(Entry { cohort, .. }) = self.pods.remove(&uid) else { return Vec::new() };
        let concerned = if self.kept.remove(&uid).is_some() { self.viewers(cohort, None) } else { Vec::new() };
        self.cohorts.leave(cohort);
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
            .filter(|(_, entry)| namespace.is_none_or(|namespace| self.cohorts.namespace(entry.cohort) == namespace))
            .map(|(uid, _)| *uid)
            .collect();
        self.unreadable.end_list(namespace, begun);
        let mut concerned: Vec<ViewId> = gone.into_iter().flat_map(|uid| self.remove_readable(uid)).collect();
        concerned.sort_unstable();
        concerned.dedup();
        concerned
    }

    /// Drops the details of pods that have become plain with time alone.
    pub fn compact(&mut self, now: Timestamp) {
        let cohorts = &mut self.cohorts;
        self.kept.retain(|_, kept| {
            let is_plain = is_plain(&kept.pod, self.horizon, now);
            if is_plain {
                cohorts.saw_healthy(kept.cohort, kept.pod.created.filter(|_| kept.pod.phase == "Running"));
            }
            !is_plain
        });
        if self.kept.capacity() > 4 * self.kept.len().max(64) {
            self.kept.shrink_to_fit();
        }
    }

    /// How many pods a viewer looks at.
    #[must_use]
    pub fn watched(&self, id: ViewId) -> u64 {
        let Some(view) = self.view(id) else { return 0 };
        view.cohorts.iter().map(|cohort| u64::from(self.cohorts.members(cohort))).sum()
    }

    /// The pods a viewer looks at that may not be healthy, in no order.
    pub fn kept(&self, id: ViewId) -> impl Iterator<Item = &Pod> {
        let view = self.view(id);
        let kept = self.kept.values().filter(move |kept| view.is_some_and(|view| view.cohorts.contains(kept.cohort)));
        kept.map(|kept| &*kept.pod)
    }

    /// How many pods could not be decoded of those that a viewer may look at, and the first of them by
    /// namespace and name. Their labels are not known: it is their namespaces that count.
    #[must_use]
    pub fn unreadable(&self, id: ViewId) -> Option<(u64, &Unreadable)> {
        let view = self.view(id)?;
        self.unreadable.of(|namespace| view.scope.selects_namespace(namespace))
    }

    /// Counts the changes among the pods that could not be decoded.
    #[must_use]
    pub fn unreadable_changes(&self) -> u64 {
        self.unreadable.changes()
    }

    /// Whether a pod exists, and is not being deleted.
    #[must_use]
    pub fn remains(&self, uid: Uid) -> bool {
        self.pods.contains_key(&uid) && self.kept.get(&uid).is_none_or(|kept| kept.pod.deletion.is_none())
    }

    /// Whether the pod's owner has, or had, a healthy pod that was created after it.
    #[must_use]
    pub fn is_replaced(&self, pod: &Pod) -> bool {
        self.cohorts.is_replaced(pod)
    }

    /// Whether an owner has any pod.
    #[must_use]
    pub fn has_pods_of(&self, namespace: &str, kind: &str, name: &str) -> bool {
        self.cohorts.has_pods_of(namespace, kind, name)
    }

    /// The pods of Jobs that may not be healthy, each with its Job.
    pub fn suspect_jobs(&self) -> impl Iterator<Item = (&Pod, &Controller)> {
        self.kept.values().filter_map(|kept| Some((&*kept.pod, needs_job(&kept.pod)?)))
    }

    /// Who looks at pods of this Job that may not be healthy.
    #[must_use]
    pub fn viewers_of_job(&self, uid: &str) -> Vec<ViewId> {
        let failed = self.kept.values().filter(|kept| needs_job(&kept.pod).is_some_and(|job| job.uid == uid));
        let mut viewers: Vec<_> = failed.flat_map(|kept| self.viewers(kept.cohort, None)).collect();
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

    fn join(&mut self, pod: &Pod) -> CohortId {
        let (cohort, new) = self.cohorts.join(pod);
        if new {
            for view in self.views.iter_mut().flatten() {
                view.cohorts.set(cohort, view.scope.selects(&pod.namespace, &pod.labels));
            }
        }
        cohort
    }

    fn viewers(&self, cohort: CohortId, other: Option<CohortId>) -> Vec<ViewId> {
        let sees =
            |view: &View| view.cohorts.contains(cohort) || other.is_some_and(|other| view.cohorts.contains(other));
        let views = self.views.iter().enumerate();
        views.filter(|(_, view)| view.as_ref().is_some_and(sees)).map(|(index, _)| ViewId(index)).collect()
    }
}

#[derive(Debug, Default)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn set(&mut self, CohortId(index): CohortId, value: bool) {
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

    fn contains(&self, CohortId(index): CohortId) -> bool {
        self.0.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn iter(&self) -> impl Iterator<Item = CohortId> {
        self.0.iter().enumerate().flat_map(|(word, &bits)| {
            (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| CohortId((word * 64 + bit) as u32))
        })
    }
}

#[cfg(test)]
mod tests;
