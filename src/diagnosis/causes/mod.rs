//! Finds the cause of a problem in the pod itself and in events about it. Pure.
//!
//! A cause is given only if the pod or an event proves it. Otherwise it is Unknown, and the message says what is known.
//! The formats of the texts are those of the Kubernetes components and of the container runtimes.

mod admission;
mod case;
mod config;
mod crash;
mod earlier_run;
mod exclusions;
mod failed;
mod image;
mod kill;
mod parse;
mod probes;
mod scheduler;
mod start;
mod stuck;
#[cfg(test)]
mod tests;
mod volumes;

pub(crate) use admission::{classify_failed_create, is_full_quota, refusing_quota};

use std::sync::Arc;

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::{
    api::{Cause, ProblemKind},
    pods::Pod,
};

use super::{
    finding::{Basis, Explanation, Finding},
    one_line::{MESSAGE_LIMIT, one_line},
    world::World,
};
use case::{Case, Found, name_of};

/// Fills in the explanations of a finding about a pod, and adds to its message what only events show.
pub(super) fn explain(pod: &Pod, finding: &mut Finding, world: &dyn World, now: Timestamp) {
    let case = Case { pod, events: &world.events(pod), world, now };
    finding.explanation = case.explain(finding.kind, &finding.container, &mut finding.message);
    for other in &mut finding.others {
        other.explanation = case.explain(other.kind, &other.container, &mut other.message);
    }
}

/// How much a cause says: a stronger one takes precedence. Unknown is the weakest; that a container ended or was killed
/// is weaker than the reason why.
const fn strength(cause: Cause) -> u8 {
    match cause {
        Cause::Unknown => 0,
        Cause::ExitCode | Cause::Signal | Cause::Completed => 1,
        _ => 2,
    }
}

/// Whether a cause says why, rather than only how a container ended.
pub(crate) const fn is_proven(cause: Cause) -> bool {
    strength(cause) > 1
}

/// Whether the kubelet kills the container for this cause.
pub(crate) const fn is_by_kubelet(cause: Cause) -> bool {
    matches!(cause, Cause::LivenessProbe | Cause::StartupProbe | Cause::PostStartHook)
}

/// Whether an earlier cause is still valid although the present state, of a problem that has not ended, shows only a
/// weaker one.
pub(crate) fn continues(earlier: Cause, basis: Basis, present: &Explanation) -> bool {
    if strength(earlier) <= strength(present.cause) {
        return false;
    }
    let is_kill = |code: i32| matches!(code, 137 | 143);
    match (present.basis, basis) {
        (Basis::Silent, _) => true,
        (Basis::Exit(now), Basis::Exit(before)) => {
            // The kubelet's kill ends in SIGKILL if the process takes too long to end after SIGTERM.
            now == before || is_by_kubelet(earlier) && is_kill(now) && is_kill(before)
        }
        _ => false,
    }
}

impl Case<'_> {
    fn explain(&self, kind: ProblemKind, container: &str, message: &mut ArcStr) -> Explanation {
        let found = self.find(kind, container, message);
        if found.is_detail {
            *message = one_line(&format!("{message}; {}", found.sentence), MESSAGE_LIMIT).into();
        }
        let sentence = if found.sentence.is_empty() { message } else { found.sentence.as_str() };
        Explanation {
            cause: found.cause,
            message: one_line(sentence, MESSAGE_LIMIT).into(),
            evidence: case::lines(self, kind, container),
            subject: found.subject.map(Arc::new),
            basis: found.basis,
        }
    }

    fn find(&self, kind: ProblemKind, container: &str, message: &str) -> Found {
        match (kind, self.container(container)) {
            (ProblemKind::Crash, Some(container)) => crash::explain(self, container),
            (ProblemKind::Image, Some(container)) => image::explain(self, container),
            (ProblemKind::Start, Some(container)) => start::explain(self, container),
            (ProblemKind::NotReady, container) => probes::explain(self, container),
            (ProblemKind::Unschedulable, _) => scheduler::explain(self),
            (ProblemKind::Creating, container) => stuck::creating(self, container),
            (ProblemKind::Initializing, Some(container)) => stuck::initializing(self, container),
            (ProblemKind::Failed, _) => failed::explain(self),
            (ProblemKind::Terminating, _) => stuck::terminating(self, message),
            (ProblemKind::NodeLost, _) => failed::lost_node(self.pod).unwrap_or_default(),
            _ => Found::default(),
        }
    }
}
