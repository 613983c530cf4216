//! What is known about a target when a decision about it is made.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    cli::live::{ClusterView, KnownWorld},
    diagnosis::{JobFacts, World, needs_job},
    pods::Pod,
};

use super::{newest::Revision, observed::Observed, outlook::Begun, target::Target, workload::Workload};

/// What is known about a target.
pub(super) struct Facts<'a> {
    pub(super) target: &'a Target,
    /// Absent if pods are waited for.
    pub(super) workload: Option<&'a Workload>,
    /// Why the object is no longer the one that is waited for, for example because it was deleted.
    pub(super) gone: Option<Gone>,
    pub(super) revisions: &'a [&'a Revision],
    pub(super) pods: &'a [&'a Observed],
    /// The names of pods that could not be decoded.
    pub(super) unreadable: &'a [&'a str],
    /// What verdicts about the pods depend on besides them.
    pub(super) view: &'a ClusterView,
    pub(super) begun: Begun,
    /// When the numbers in the workload's status last changed, or a pod was gone, as far as this was seen.
    pub(super) progressed: Option<Timestamp>,
}

impl Facts<'_> {
    /// The Job of a named pod does not matter: it is the pod that is waited for. That of a named Job is known.
    pub(super) fn world(&self) -> KnownWorld<'_> {
        match self.target {
            Target::Selected(_) => self.view.awaiting_jobs(),
            Target::Named(..) => self.view.as_known(),
        }
    }

    pub(super) fn job_of(&self, pod: &Pod) -> Option<Arc<JobFacts>> {
        self.world().job(pod, needs_job(pod)?)
    }
}

/// How an object came to be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// That is a failure, for this reason.
    Deleted(&'static str),
    /// It may have been deleted because it had completed.
    Unseen(&'static str),
}
