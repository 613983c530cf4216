//! The one assessment of a pod: its verdict with the explanation. The operator and all commands call [`assess`], and differ
//! only in the [`World`] that they know.

use std::sync::Arc;

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::{
    api::{Cause, ProblemKind},
    events::Event,
    pods::{Controller, Pod},
};

use super::{
    causes::{explain, needs_claims, needs_nodes, unschedulable_cause},
    claims::ClaimFacts,
    cluster_nodes::ClusterNodes,
    facts::{Facts, JobFacts},
    finding::{ContainerFinding, Finding, Health, Verdict},
    judge::judge,
    messages::OOM_KILLED,
    owner::needs_job,
    port_holders::PortHolder,
    rollout::TemplateChanges,
    thresholds::Thresholds,
};

/// What a verdict and its explanation depend on besides the pod. A question is asked only if its answer matters: the first
/// about failed pods, the others about pods with a problem.
pub trait World {
    /// Whether the controller of a failed pod has, or had, a healthy pod that was created later.
    fn is_replaced(&self, pod: &Pod) -> bool;

    /// The Job that controls a pod. `None` if it was not read yet; the default if it is gone or may not be read.
    fn job(&self, pod: &Pod, job: &Controller) -> Option<Arc<JobFacts>>;

    /// The events about a pod, the most recent last. They explain a problem but do not decide whether there is one.
    fn events(&self, pod: &Pod) -> Arc<[Event]>;

    /// Another pod that uses a host port of this one. It is named in the explanation, and decides nothing.
    fn port_holder(&self, pod: &Pod) -> Option<PortHolder>;

    /// The pod template of the pod's revision, and what changed in it, if they were read.
    fn revision(&self, _pod: &Pod) -> Option<Arc<TemplateChanges>> {
        None
    }

    /// The nodes of the cluster, if they were read. They show why none of them takes a pod, and decide nothing.
    fn nodes(&self, _pod: &Pod) -> Option<Arc<ClusterNodes>> {
        None
    }

    /// The claims of a pod that were read. They show why they are not bound, and decide nothing.
    fn claims(&self, _pod: &Pod) -> Vec<(ArcStr, Arc<ClaimFacts>)> {
        Vec::new()
    }

    /// An event about a kill might explain the pod's problem better, see [`Finding::needs_kills`].
    fn lacks_kills(&self, _: &Pod) {}
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
        if finding.kind == ProblemKind::Unschedulable && unschedulable_cause(pod, &facts) == Cause::PortConflict {
            facts.port_holder = world.port_holder(pod);
        }
        if finding.kind == ProblemKind::Unschedulable && needs_nodes(pod, &facts) {
            facts.nodes = world.nodes(pod);
        }
        if finding.kind == ProblemKind::Unschedulable && needs_claims(pod, &facts, now) {
            facts.claims = world.claims(pod);
        }
        facts.revision = if needs_revision(finding) { world.revision(pod) } else { None };
        explain(pod, finding, &facts, now);
        if finding.needs_kills() {
            world.lacks_kills(pod);
        }
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

    fn port_holder(&self, _: &Pod) -> Option<PortHolder> {
        self.port_holder.clone()
    }

    fn revision(&self, _: &Pod) -> Option<Arc<TemplateChanges>> {
        self.revision.clone()
    }

    fn nodes(&self, _: &Pod) -> Option<Arc<ClusterNodes>> {
        self.nodes.clone()
    }

    fn claims(&self, _: &Pod) -> Vec<(ArcStr, Arc<ClaimFacts>)> {
        self.claims.clone()
    }
}

/// Whether the pod template of the pod's revision may explain a problem: it says which memory limit a container should have.
fn needs_revision(finding: &Finding) -> bool {
    let is_killed = |container: &ContainerFinding| {
        container.last_termination.as_ref().is_some_and(|last| last.reason == OOM_KILLED)
    };
    finding.kind == ProblemKind::Crash && finding.containers.iter().any(is_killed)
}
