//! The one assessment of a pod: its verdict with the explanation. The operator and all commands call [`assess`], and differ
//! only in the [`World`] that they know.

use std::sync::Arc;

use jiff::Timestamp;

use crate::{
    events::Event,
    pods::{Controller, Pod},
};

use super::{
    causes::explain,
    facts::{Facts, JobFacts},
    finding::{Health, Verdict},
    judge::judge,
    owner::needs_job,
    thresholds::Thresholds,
};

/// What a verdict and its explanation depend on besides the pod. A question is asked only if its answer matters: the first
/// about failed pods, the others about pods with a problem.
pub trait World {
    /// Whether the controller of a failed pod has, or had, a healthy pod that was created later.
    fn is_replaced(&self, pod: &Pod) -> bool;

    /// The Job that controls a pod. `None` if it was not read yet; the default if it is gone or may not be read.
    fn job(&self, pod: &Pod, job: &Controller) -> Option<Arc<JobFacts>>;

    /// The Warning events about a pod, the most recent last. They explain a problem but do not decide whether there is one.
    fn events(&self, pod: &Pod) -> Arc<[Event]>;
}

/// Assesses a pod. The caller must check [`Pod::ignored`].
#[must_use]
pub fn assess(pod: &Pod, world: &impl World, thresholds: &Thresholds, now: Timestamp) -> Verdict {
    let is_replaced = pod.phase == "Failed" && world.is_replaced(pod);
    let mut facts = Facts { replaced: is_replaced, ..Facts::default() };
    let mut verdict = judge(pod, &facts, thresholds, now);
    if let (Health::Problem(_), Some(job)) = (&verdict.health, needs_job(pod)) {
        facts.job = world.job(pod, job);
        match &facts.job {
            Some(_) => verdict = judge(pod, &facts, thresholds, now),
            None => verdict.lacks_job = true,
        }
    }
    if let Health::Problem(finding) = &mut verdict.health {
        facts.events = world.events(pod);
        explain(pod, finding, &facts, now);
    }
    verdict
}

/// Facts that are known in advance. A Job that is not among them is gone.
impl World for Facts {
    fn is_replaced(&self, _: &Pod) -> bool {
        self.replaced
    }

    fn job(&self, _: &Pod, _: &Controller) -> Option<Arc<JobFacts>> {
        Some(self.job.clone().unwrap_or_default())
    }

    fn events(&self, _: &Pod) -> Arc<[Event]> {
        Arc::clone(&self.events)
    }
}
