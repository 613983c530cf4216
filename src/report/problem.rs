//! Orders the pods with a problem, and converts them into the rows of `status.problematicPods`.

use std::cmp::Reverse;

use jiff::Timestamp;

use crate::{
    api::{ContainerIssue, LastTermination, PodProblem},
    diagnosis::{ContainerFinding, Explanation, Finding},
    logs::{Masking, Tail, clean_text},
    pods::{Pod, TEXT_LIMIT, Terminated},
};

use super::{
    identity::Identity,
    truncate,
    wire::{seconds, wire_time},
};

/// The most lines of evidence for a pod, and the longest, in bytes.
const EVIDENCE: usize = 4;
const EVIDENCE_LIMIT: usize = 512;

/// A pod and its problem.
#[derive(Clone, Copy, Debug)]
pub struct PodFinding<'a> {
    pub pod: &'a Pod,
    pub finding: &'a Finding,
}

/// Looks up a container's log; absent until it was read.
pub type FindTail<'a> = &'a dyn Fn(&Pod, &ContainerFinding) -> Option<Tail>;

/// A pod with a problem. Its names are truncated to their limits.
pub(super) struct Problem<'a> {
    pub(super) pod: &'a Pod,
    pub(super) finding: &'a Finding,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) since: Timestamp,
    pub(super) masking: Option<&'a Masking<'a>>,
}

/// How much of a pod is shown. Messages are limited in bytes.
pub(super) struct Detail {
    pub(super) message: usize,
    pub(super) container_message: usize,
    /// How many containers.
    pub(super) containers: usize,
}

impl Detail {
    /// Everything that is kept of a pod.
    pub(super) const FULL: Self = Self { message: TEXT_LIMIT, container_message: TEXT_LIMIT, containers: usize::MAX };
}

/// The pods with a problem: the most recent first, then by namespace and name.
pub(super) fn ordered<'a>(findings: &[PodFinding<'a>], masking: Option<&'a Masking<'a>>) -> Vec<Problem<'a>> {
    let mut problems: Vec<_> = findings
        .iter()
        .map(|PodFinding { pod, finding }| Problem {
            pod,
            finding,
            namespace: truncate::name(&pod.namespace),
            name: truncate::name(&pod.name),
            since: seconds(finding.since),
            masking,
        })
        .collect();
    // Equal keys are those of the same pod.
    problems.sort_unstable_by_key(Problem::order);
    problems
}

impl<'a> Problem<'a> {
    /// The sort key. The UID distinguishes a pod from a deleted one of the same name that is still in the index.
    pub(super) fn order(&self) -> impl Ord + use<'a> {
        (Reverse(self.since), self.namespace, self.name, self.pod.uid)
    }

    pub(super) fn identity(&self) -> Identity<'a> {
        Identity::of(self.pod, self.finding)
    }

    /// The row of the status, without logs. Text that is cut ends with an ellipsis, and the message counts the containers
    /// that are left out.
    pub(super) fn show(&self, detail: &Detail) -> PodProblem {
        let containers = &self.finding.containers;
        let shown = &containers[..containers.len().min(detail.containers)];
        let mut message = clean_text(&self.finding.message, self.masking, detail.message);
        match containers.len() - shown.len() {
            0 => {}
            omitted => {
                let separator = if message.is_empty() { "" } else { "; " };
                let more = if shown.is_empty() { "" } else { " more" };
                let plural = if omitted == 1 { "" } else { "s" };
                message += &format!("{separator}{omitted}{more} troubled container{plural} left out to fit the status");
            }
        }
        PodProblem {
            name: self.name.to_owned(),
            namespace: self.namespace.to_owned(),
            status: truncate::name(&self.finding.status).to_owned(),
            kind: self.finding.kind,
            reason: truncate::name(&self.finding.reason).to_owned(),
            message,
            cause: self.finding.explanation.cause,
            evidence: evidence(&self.finding.explanation, self.masking),
            phase: truncate::name(&self.pod.phase).to_owned(),
            node: truncate::name(&self.pod.node).to_owned(),
            owner: self.finding.owner.as_ref().map(|owner| truncate::shown_owner(&owner.kind, &owner.name)),
            since: wire_time(self.since),
            since_at_latest: false,
            container_issues: shown.iter().map(|container| issue(container, detail, self.masking)).collect(),
        }
    }
}

/// The evidence of an explanation, without credentials.
pub(super) fn evidence(explanation: &Explanation, masking: Option<&Masking<'_>>) -> Vec<String> {
    let lines = explanation.evidence.iter().take(EVIDENCE);
    lines.map(|line| clean_text(line, masking, EVIDENCE_LIMIT)).collect()
}

fn issue(container: &ContainerFinding, detail: &Detail, masking: Option<&Masking<'_>>) -> ContainerIssue {
    ContainerIssue {
        name: truncate::name(&container.name).to_owned(),
        kind: container.kind,
        state: container.state,
        reason: truncate::name(&container.reason).to_owned(),
        message: clean_text(&container.message, masking, detail.container_message),
        ready: container.ready,
        restarts: container.restarts,
        last_termination: container.last_termination.as_ref().map(|last| last_termination(last, detail, masking)),
        logs: String::new(),
        log_source: None,
        log_note: String::new(),
    }
}

fn last_termination(last: &Terminated, detail: &Detail, masking: Option<&Masking<'_>>) -> LastTermination {
    LastTermination {
        reason: truncate::name(&last.reason).to_owned(),
        exit_code: last.exit_code,
        signal: last.signal,
        finished_at: last.finished.map(wire_time),
        message: clean_text(&last.message, masking, detail.container_message),
    }
}
