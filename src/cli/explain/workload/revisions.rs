//! The revisions of a workload.

use std::sync::Arc;

use crate::{
    cli::{explain::explanation::RevisionPart, kind::Kind, printable::clean},
    diagnosis::{RevisionObject, revision_hash, revision_name, template_changes},
    pods::Pod,
    report::Comparison,
};

use super::Gathered;

/// A ReplicaSet or ControllerRevision.
pub(super) struct Revision {
    pub(super) name: String,
    pub(super) object: RevisionObject,
}

impl Gathered {
    /// The revisions that the workload controls.
    pub(super) fn own_revisions(&self) -> impl Iterator<Item = &Revision> {
        self.revisions.iter().filter(|own| own.object.owner_uid == self.workload.uid())
    }

    /// The newest revision, or that of a pod, and what changed in its pod template.
    pub(in crate::cli::explain) fn revision(&self, pod: Option<&Pod>) -> Option<RevisionPart> {
        let own = match pod {
            Some(pod) => self.own_revisions().find(|own| self.is_of(own, pod))?,
            None => self.own_revisions().max_by_key(|own| own.object.number)?,
        };
        let before = self.own_revisions().filter(|other| other.object.number < own.object.number);
        let before = before.max_by_key(|other| other.object.number)?;
        let changes = template_changes(&before.object.template, &own.object.template);
        let lines = Comparison::Compared(Arc::new(changes)).lines(None);
        Some(RevisionPart {
            name: clean(&own.name),
            before: clean(&before.name),
            changes: lines.iter().map(|line| clean(line)).collect(),
        })
    }

    fn is_of(&self, revision: &Revision, pod: &Pod) -> bool {
        if self.workload.kind() == Kind::Deployment {
            return pod.controller.as_ref().is_some_and(|own| own.uid == revision.object.uid.as_str());
        }
        let name = self.workload.metadata().name.as_deref().unwrap_or_default();
        let hash = revision_hash(pod).map(|hash| revision_name(self.workload.kind().api_kind(), name, hash));
        hash.is_some_and(|hash| hash == revision.name)
    }
}
