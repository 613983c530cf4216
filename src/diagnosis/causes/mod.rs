//! Finds the cause of a problem in the pod itself and in events about it. Pure.
//!
//! A cause is given only if the pod or an event proves it. Otherwise it is Unknown, and the message says what is known.
//! The formats of the texts are those of the Kubernetes components and of the container runtimes.

mod admission;
mod config;
mod crash;
mod evidence;
mod exit_codes;
mod failed;
mod image;
mod image_error;
mod kill;
mod parse;
mod probes;
mod sandbox;
mod scheduler;
mod start;
mod stuck;
#[cfg(test)]
mod tests;
mod volumes;

pub(crate) use admission::{classify_failed_create, is_full_quota, refusing_quota};
pub(crate) use image::is_image_refused;

use std::sync::Arc;

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::{
    api::{Cause, ContainerKind, ProblemKind},
    pods::Pod,
};

use super::{
    container::{Container, containers},
    facts::Facts,
    finding::{Basis, Explanation, Finding, Subject},
    one_line::{MESSAGE_LIMIT, one_line},
};

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
            // A probe's kill ends in SIGKILL if the process takes too long to end after SIGTERM.
            let by_probe = matches!(earlier, Cause::LivenessProbe | Cause::StartupProbe);
            now == before || by_probe && is_kill(now) && is_kill(before)
        }
        _ => false,
    }
}

/// What the explanations depend on.
#[derive(Clone, Copy)]
struct View<'a> {
    pod: &'a Pod,
    facts: &'a Facts,
    now: Timestamp,
}

/// The result of one of the explanations.
#[derive(Default)]
struct Found {
    cause: Cause,
    /// One sentence; empty if it is the pod's message.
    sentence: String,
    /// What the pod's message should also say.
    detail: String,
    subject: Option<Subject>,
    basis: Basis,
}

impl Found {
    fn new(cause: Cause, sentence: impl Into<String>) -> Self {
        Self { cause, sentence: sentence.into(), ..Self::default() }
    }

    /// What is known although the cause is not.
    fn unknown(sentence: impl Into<String>) -> Self {
        Self::new(Cause::Unknown, sentence)
    }

    /// The present state shows nothing about the cause.
    fn silent(sentence: impl Into<String>) -> Self {
        Self { basis: Basis::Silent, ..Self::unknown(sentence) }
    }

    fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }

    fn based_on(self, basis: Basis) -> Self {
        Self { basis, ..self }
    }

    /// Repeats the sentence in the pod's message.
    fn detailed(self) -> Self {
        Self { detail: self.sentence.clone(), ..self }
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

    fn container(&self, name: &str) -> Option<Container<'a>> {
        containers(self.pod).find(|container| container.status.name == name)
    }
}

fn add_detail(message: &mut ArcStr, detail: &str) {
    if !detail.is_empty() {
        *message = one_line(&format!("{message}; {detail}"), MESSAGE_LIMIT).into();
    }
}

/// A container in a sentence, for example `app` or `init container migrate`.
fn name_of(container: Container<'_>) -> String {
    let name = &container.status.name;
    match container.kind {
        ContainerKind::App => name.to_string(),
        ContainerKind::Init => format!("init container {name}"),
        ContainerKind::Sidecar => format!("sidecar {name}"),
    }
}
