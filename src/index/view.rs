//! The views: which label sets, and thus which pods, each object selects, and the pods that may not be healthy, but that a view
//! does not show.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::{
    api::Owner,
    diagnosis::owner_names,
    glob::NamespaceCache,
    pods::{Labels, Pod, PodSelection},
};

use super::label_set::{LabelSetId, LabelSets};

/// Identifies a view: the pods that one object selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewId(pub usize);

#[derive(Debug, Default)]
pub(super) struct Views(Vec<Option<View>>);

#[derive(Debug)]
pub(super) struct View {
    scope: PodSelection,
    label_sets: BitSet,
    namespaces: NamespaceCache,
}

impl View {
    pub(super) fn selects_namespace(&self, namespace: &str) -> bool {
        self.namespaces.get(namespace, || self.scope.selects_namespace(namespace))
    }

    pub(super) fn selects(&self, namespace: &str, labels: &(impl Labels + ?Sized)) -> bool {
        self.selects_namespace(namespace) && self.scope.selects_labels(labels)
    }
}

impl Views {
    pub(super) fn add(&mut self, scope: PodSelection, known: &LabelSets) -> ViewId {
        let mut label_sets = BitSet::default();
        let mut namespaces = HashMap::new();
        for (id, namespace, labels) in known.iter() {
            let is_selected = *namespaces.entry(namespace).or_insert_with(|| scope.selects_namespace(namespace));
            label_sets.set(id, is_selected && scope.selects_labels(&labels));
        }
        let view = Some(View { scope, label_sets, namespaces: NamespaceCache::default() });
        match self.0.iter().position(Option::is_none) {
            Some(free) => {
                self.0[free] = view;
                ViewId(free)
            }
            None => {
                self.0.push(view);
                ViewId(self.0.len() - 1)
            }
        }
    }

    pub(super) fn remove(&mut self, id: ViewId) {
        if let Some(view) = self.0.get_mut(id.0) {
            *view = None;
        }
    }

    pub(super) fn get(&self, id: ViewId) -> Option<&View> {
        self.0.get(id.0)?.as_ref()
    }

    /// The views to which this applies.
    pub(super) fn find(&self, applies: impl Fn(&View) -> bool) -> impl Iterator<Item = ViewId> {
        let views = self.0.iter().enumerate();
        views.filter(move |(_, view)| view.as_ref().is_some_and(&applies)).map(|(index, _)| ViewId(index))
    }

    /// A label set is new; this pod has it.
    pub(super) fn add_label_set(&mut self, label_set: LabelSetId, pod: &Pod) {
        for view in self.0.iter_mut().flatten() {
            let is_selected = view.selects(&pod.namespace, &pod.labels);
            view.label_sets.set(label_set, is_selected);
        }
    }
}

impl View {
    pub(super) fn label_sets(&self) -> impl Iterator<Item = LabelSetId> {
        self.label_sets.iter()
    }

    pub(super) fn contains(&self, label_set: LabelSetId) -> bool {
        self.label_sets.contains(label_set)
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

/// The hidden suspects of the namespaces that a view selects, by owner. It is collected once for all incidents of a status,
/// because all suspects of the cluster must be examined for it.
#[derive(Debug, Default)]
pub(crate) struct HiddenSuspects<'a> {
    /// The namespace, kind and name of each owner that a pod names.
    owners: HashSet<(&'a str, &'a str, &'a str)>,
    /// The Jobs among them.
    jobs: BTreeSet<(&'a str, &'a str)>,
    /// The pods that name no owner.
    pods: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> HiddenSuspects<'a> {
    pub(super) fn add(&mut self, pod: &'a Pod) {
        let namespace = &*pod.namespace;
        match owner_names(pod) {
            Some((kind, name)) => {
                self.owners.insert((namespace, kind, name));
                if kind == "Job" {
                    self.jobs.insert((namespace, name));
                }
            }
            None => _ = self.pods.insert((namespace, &pod.name)),
        }
    }

    /// Whether an owner has such pods. It is compared by name if a pod does not name it: a pod that has lost the labels of its
    /// ReplicaSet names no controller any more, and that of a CronJob names the Job.
    #[must_use]
    pub(crate) fn has(&self, namespace: &str, owner: &Owner) -> bool {
        let Owner { kind, name } = owner;
        self.owners.contains(&(namespace, &**kind, &**name))
            || kind == "CronJob" && has_part_of(&self.jobs, namespace, name)
            || if kind == "Pod" {
                self.pods.contains(&(namespace, &**name))
            } else {
                has_part_of(&self.pods, namespace, name)
            }
    }
}

/// Whether one of the names begins with that of the owner and a hyphen.
fn has_part_of(names: &BTreeSet<(&str, &str)>, namespace: &str, owner: &str) -> bool {
    let beginning = format!("{owner}-");
    let next = names.range((namespace, &*beginning)..).next();
    next.is_some_and(|(own, name)| *own == namespace && name.starts_with(&beginning))
}
