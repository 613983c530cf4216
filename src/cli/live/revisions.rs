//! The revisions of workloads: which have pods, and what the pod templates say of those whose containers were OOM-killed.

use std::{
    cell::RefCell,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::{
    diagnosis::{PodOwner, RevisionObject, TemplateChanges, owner, revision_hash},
    pods::Pod,
    revisions::{RevisionKey, RevisionReading},
};

#[derive(Default)]
pub(super) struct Revisions {
    /// By namespace, owner and the value of the label.
    pods: HashMap<(ArcStr, PodOwner), HashMap<ArcStr, RevisionPods>>,
    /// What a list has shown, by [`of`].
    shown: HashMap<(String, String), Arc<TemplateChanges>>,
    /// The objects of a file, by namespace and name.
    given: HashMap<(String, String), RevisionObject>,
    read: HashMap<RevisionKey, RevisionReading>,
    needed: RefCell<HashSet<RevisionKey>>,
}

struct RevisionPods {
    /// When the first was created.
    oldest: Option<Timestamp>,
    /// Whether any is, or was, healthy.
    has_healthy: bool,
}

/// The UID of a pod's controller, and the value of the label of its revision.
fn of(pod: &Pod) -> Option<(String, String)> {
    Some((pod.controller.as_ref()?.uid.to_string(), revision_hash(pod)?.to_owned()))
}

impl Revisions {
    pub(super) fn see_pod(&mut self, pod: &Pod, is_healthy: bool) {
        let (Some(owner), Some(hash)) = (owner(pod), revision_hash(pod)) else { return };
        let revisions = self.pods.entry((pod.namespace.clone(), owner)).or_default();
        let pods = revisions.entry(hash.into()).or_insert(RevisionPods { oldest: pod.created, has_healthy: false });
        pods.oldest = pods.oldest.min(pod.created);
        pods.has_healthy |= is_healthy;
    }

    /// Keeps what the pod template of the revision says that this pod belongs to.
    pub(super) fn show(&mut self, pod: &Pod, template: TemplateChanges) {
        if let Some(key) = of(pod) {
            self.shown.insert(key, Arc::new(template));
        }
    }

    /// Keeps the ReplicaSet or ControllerRevision of a file.
    pub(super) fn give(&mut self, namespace: String, name: String, object: RevisionObject) {
        self.given.insert((namespace, name), object);
    }

    pub(super) fn answered(&mut self, key: RevisionKey, reading: RevisionReading) {
        self.read.insert(key, reading);
    }

    /// The revisions that verdicts have depended on since the last call, and that were not read.
    pub(super) fn take_needed(&mut self) -> Vec<RevisionKey> {
        self.needed.take().into_iter().filter(|key| !self.read.contains_key(key)).collect()
    }

    /// What is known of the pod template of a pod's revision, compared with an earlier one that is healthy, if there is one.
    pub(super) fn template(&self, pod: &Pod) -> Option<Arc<TemplateChanges>> {
        if let Some(shown) = self.shown.get(&of(pod)?) {
            return Some(Arc::clone(shown));
        }
        let hash = revision_hash(pod)?;
        match self.reading(RevisionKey::new(pod, hash, self.healthy_before(pod, hash))?)? {
            RevisionReading::Read(changes) | RevisionReading::NotNewer(changes) => Some(changes),
            _ => None,
        }
    }

    fn reading(&self, key: RevisionKey) -> Option<RevisionReading> {
        let given = |name: &String| self.given.get(&(key.namespace.clone(), name.clone()));
        if let Some(failing) = given(&key.failing) {
            return Some(match given(&key.before) {
                None if !key.before.is_empty() => RevisionReading::Gone,
                before => key.compare(failing, before),
            });
        }
        let known = self.read.get(&key).cloned();
        if known.is_none() {
            self.needed.borrow_mut().insert(key);
        }
        known
    }

    /// The youngest of the revisions with healthy pods that were created before those of this one, as in the index.
    fn healthy_before(&self, pod: &Pod, hash: &str) -> Option<&str> {
        let revisions = self.pods.get(&(pod.namespace.clone(), owner(pod)?))?;
        let failing = revisions.get(hash)?;
        let before = revisions.iter().filter(|(_, own)| own.has_healthy && own.oldest < failing.oldest);
        before.max_by_key(|(_, own)| own.oldest).map(|(hash, _)| hash.as_str())
    }
}
