//! Finds the cause of a problem in the pod itself and in events about it. Pure.
//!
//! A cause is given only if the pod or an event proves it. Otherwise it is Unknown, and the message says what is known.
//! The formats of the texts are those of the Kubernetes components and of the container runtimes.

mod admission;
mod config;
mod crash;
mod earlier_run;
mod evidence;
mod exclusions;
mod exit_codes;
mod failed;
mod image;
mod image_error;
mod kill;
mod nodes;
mod parse;
mod ports;
mod probes;
mod sandbox;
mod scheduler;
mod start;
mod stuck;
#[cfg(test)]
mod tests;
mod view;
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
    facts::Facts,
    finding::{Basis, Explanation, Finding},
    one_line::{MESSAGE_LIMIT, one_line},
};
use view::{Found, View, name_of};

/// Fills in the explanations of a finding about a pod, and adds to its message what only events show.
pub(super) fn explain(pod: &Pod, finding: &mut Finding, facts: &Facts, now: Timestamp) {
    let view = View { pod, facts, now };
    let found = view.explain(finding.kind, &finding.container, &finding.message);
    add_detail(&mut finding.message, &found.detail);
    finding.explanation = view.finish(finding.kind, &finding.container, found, &finding.message);
    for other in &mut finding.others {
        let found = view.explain(other.kind, &other.container, &other.message);
        add_detail(&mut other.message, &found.detail);
        other.explanation = view.finish(other.kind, &other.container, found, &other.message);
    }
}

/// The cause why a pod is not scheduled. The facts that its sentence names are still to be asked for.
pub(super) fn unschedulable_cause(pod: &Pod, facts: &Facts) -> Cause {
    scheduler::explain(&View { pod, facts, now: Timestamp::UNIX_EPOCH }).cause
}

/// Whether the nodes may show why a pod is not scheduled, if the scheduler's words do not.
pub(super) fn needs_nodes(pod: &Pod, facts: &Facts) -> bool {
    scheduler::needs_nodes(&View { pod, facts, now: Timestamp::UNIX_EPOCH })
}

/// Whether the pod's claims may show why they are not bound, if no event does.
pub(super) fn needs_claims(pod: &Pod, facts: &Facts, now: Timestamp) -> bool {
    scheduler::needs_claims(&View { pod, facts, now })
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

impl<'a> View<'a> {
    fn explain(&self, kind: ProblemKind, container: &str, message: &str) -> Found {
        let named = self.container(container);
        match (kind, named) {
            (ProblemKind::Crash, Some(container)) => crash::explain(self, container),
            (ProblemKind::Image, Some(container)) => image::explain(self, container),
            (ProblemKind::Start, Some(container)) => start::explain(self, container),
            (ProblemKind::NotReady, container) => probes::explain(self, container),
            (ProblemKind::Unschedulable, _) => scheduler::explain(self),
            (ProblemKind::Creating, container) => stuck::creating(self, container),
            (ProblemKind::Initializing, Some(container)) => stuck::initializing(self, container),
            (ProblemKind::Failed, _) => failed::explain(self),
            (ProblemKind::Terminating, _) => stuck::terminating(self, message),
            (ProblemKind::NodeLost, _) => stuck::node_lost(self),
            _ => Found::default(),
        }
    }

    fn finish(&self, kind: ProblemKind, container: &str, found: Found, message: &str) -> Explanation {
        let sentence = if found.sentence.is_empty() { message } else { &found.sentence };
        Explanation {
            cause: found.cause,
            message: one_line(sentence, MESSAGE_LIMIT).into(),
            evidence: evidence::lines(self, kind, container),
            subject: found.subject.map(Arc::new),
            basis: found.basis,
        }
    }
}

fn add_detail(message: &mut ArcStr, detail: &str) {
    if !detail.is_empty() {
        *message = one_line(&format!("{message}; {detail}"), MESSAGE_LIMIT).into();
    }
}
