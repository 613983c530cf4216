//! The case that is to be explained, the events that explain it, and how an event is shown.

use jiff::Timestamp;

use crate::{
    api::{Cause, ContainerKind, ProblemKind},
    events::Event,
    pods::Pod,
};

use super::super::{
    container::{Container, containers},
    finding::{Basis, Subject},
    one_line::one_line,
    world::World,
};

/// The most lines of evidence.
const LINES: usize = 4;
/// The longest line, in bytes.
const LINE_LIMIT: usize = 512;
/// At most this many of the most recent events are read.
const EVENTS: usize = 256;

/// The reasons of the events that explain a kind of problem.
const REASONS: [(ProblemKind, &[&str]); 10] = [
    (ProblemKind::Crash, &["Unhealthy", "Killing", "FailedPostStartHook", "FailedPreStopHook", "Failed"]),
    (ProblemKind::Image, &["Failed", "InspectFailed", "ErrImageNeverPull", "FailedToRetrieveImagePullSecret"]),
    (ProblemKind::Start, &["Failed", "FailedMount", "FailedCreatePodContainer", "FailedPrepareDynamicResources"]),
    (ProblemKind::Creating, &CREATION),
    (ProblemKind::Initializing, &["Unhealthy", "Failed"]),
    (ProblemKind::NotReady, &["Unhealthy", "ProbeWarning", "NodeNotReady"]),
    (ProblemKind::Unschedulable, &["FailedScheduling", "ProvisioningFailed", "FailedCreate"]),
    (ProblemKind::Failed, &["Evicted", "Preempting", "ExceededGracePeriod", "FailedMount", "Unhealthy"]),
    (
        ProblemKind::Terminating,
        &["FailedKillPod", "ExceededGracePeriod", "FailedPreStopHook", "NodeNotReady", "FailedUnmount"],
    ),
    (ProblemKind::NodeLost, &["NodeNotReady"]),
];

/// The reasons of the events that explain why containers are not created.
pub(super) const CREATION: [&str; 9] = [
    "FailedMount",
    "FailedAttachVolume",
    "FailedMapVolume",
    "FailedCreatePodSandBox",
    "FailedPodSandBoxStatus",
    "NetworkNotReady",
    "FailedCreatePodContainer",
    "FailedPrepareDynamicResources",
    "Failed",
];

/// A pod with a problem, and what explains it.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) pod: &'a Pod,
    /// All events about the pod, the most recent last.
    pub(super) events: &'a [Event],
    pub(super) world: &'a dyn World,
    pub(super) now: Timestamp,
}

impl<'a> Case<'a> {
    /// The container of this name.
    pub(super) fn container(&self, name: &str) -> Option<Container<'a>> {
        containers(self.pod).find(|container| container.status.name == name)
    }

    /// The events with one of these reasons about the pod or this container, the most recent first. An empty name means
    /// any container.
    pub(super) fn events(&self, reasons: &'a [&'a str], container: &'a str) -> impl Iterator<Item = &'a Event> + 'a {
        self.events.iter().rev().take(EVENTS).filter(move |event| {
            let named = &event.involved.container;
            reasons.contains(&event.reason.as_str()) && (container.is_empty() || named.is_empty() || named == container)
        })
    }
}

/// The result of one of the explanations.
#[derive(Default)]
pub(super) struct Found {
    pub(super) cause: Cause,
    /// One sentence; empty if it is the pod's message.
    pub(super) sentence: String,
    /// Whether the pod's message should say it as well.
    pub(super) is_detail: bool,
    pub(super) subject: Option<Subject>,
    pub(super) basis: Basis,
}

impl Found {
    pub(super) fn new(cause: Cause, sentence: impl Into<String>) -> Self {
        Self { cause, sentence: sentence.into(), ..Self::default() }
    }

    /// What is known although the cause is not.
    pub(super) fn unknown(sentence: impl Into<String>) -> Self {
        Self::new(Cause::Unknown, sentence)
    }

    /// The present state shows nothing about the cause.
    pub(super) fn silent(sentence: impl Into<String>) -> Self {
        Self { basis: Basis::Silent, ..Self::unknown(sentence) }
    }

    pub(super) fn about(self, subject: Subject) -> Self {
        Self { subject: Some(subject), ..self }
    }

    pub(super) fn based_on(self, basis: Basis) -> Self {
        Self { basis, ..self }
    }

    /// Adds the sentence to the pod's message.
    pub(super) fn detailed(self) -> Self {
        Self { is_detail: !self.sentence.is_empty(), ..self }
    }
}

/// A container in a sentence, for example `app` or `init container migrate`.
pub(super) fn name_of(container: Container<'_>) -> String {
    let name = &container.status.name;
    match container.kind {
        ContainerKind::App => name.to_string(),
        ContainerKind::Init => format!("init container {name}"),
        ContainerKind::Sidecar => format!("sidecar {name}"),
    }
}

/// The events that explain the problem, one line each.
pub(super) fn lines(case: &Case<'_>, kind: ProblemKind, container: &str) -> Vec<String> {
    let reasons =
        REASONS.iter().find(|(explained, _)| *explained == kind).map_or(&[] as &[&str], |(_, reasons)| reasons);
    let events = case.events(reasons, container);
    let mut lines: Vec<String> = events.filter(|event| !repeats_the_state(event)).take(LINES).map(line).collect();
    let resize = case.pod.condition("PodResizePending").filter(|pending| pending.status == "True");
    if let Some(pending) = resize.filter(|pending| pending.reason == "Infeasible") {
        lines.truncate(LINES - 1);
        lines.push(one_line(&format!("PodResizePending: {}: {}", pending.reason, pending.message), LINE_LIMIT));
    }
    lines
}

/// Whether an event only repeats the container's waiting reason, as `Error: ImagePullBackOff` does.
fn repeats_the_state(event: &Event) -> bool {
    let words = event.text().strip_prefix("Error: ");
    event.reason == "Failed" && words.is_some_and(|words| !words.contains(' '))
}

/// For example `Unhealthy ×41, last 14:02:10Z: Readiness probe failed: HTTP probe failed with statuscode: 503`.
fn line(event: &Event) -> String {
    let count = event.count.max(1);
    let last = event.last.or(event.first).map(|last| format!(", last {}", time_of_day(last))).unwrap_or_default();
    one_line(&format!("{} ×{count}{last}: {}", event.reason, cut(event.text())), LINE_LIMIT)
}

/// No more of a message is copied than is shown.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(2 * LINE_LIMIT)).unwrap_or_default()
}

/// For example `14:02:10Z`.
pub(super) fn time_of_day(time: Timestamp) -> String {
    jiff::tz::TimeZone::UTC.to_datetime(time).strftime("%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: &str, message: &str, count: u32, last: &str) -> Event {
        let last = last.parse().ok();
        Event { reason: reason.into(), message: message.into(), count, last, ..Event::default() }
    }

    #[test]
    fn shows_count_time_and_message_of_an_event() {
        let message = "Readiness probe failed: HTTP probe failed with statuscode: 503";
        assert_eq!(
            line(&event("Unhealthy", message, 41, "2026-11-21T14:02:10Z")),
            "Unhealthy ×41, last 14:02:10Z: Readiness probe failed: HTTP probe failed with statuscode: 503",
        );
        assert_eq!(line(&event("Unhealthy", "a\nb\u{1b}[0m", 0, "")), "Unhealthy ×1: a b");
        assert!(line(&event("Failed", &"é".repeat(1 << 20), 1, "")).len() <= LINE_LIMIT);
        let combined = event("Unhealthy", "(combined from similar events): Liveness probe failed: x", 2, "");
        assert_eq!(line(&combined), "Unhealthy ×2: Liveness probe failed: x");
    }

    #[test]
    fn the_events_that_explain_a_problem_are_kept() {
        for reason in REASONS.iter().flat_map(|(_, reasons)| *reasons).filter(|reason| **reason != "FailedCreate") {
            assert!(crate::events::known_reason(reason).is_some(), "{reason}");
        }
    }

    #[test]
    fn events_that_repeat_the_state_are_no_evidence() {
        assert!(repeats_the_state(&event("Failed", "Error: ImagePullBackOff", 9, "")));
        assert!(!repeats_the_state(&event("Failed", "Error: configmap \"app\" not found", 9, "")));
        assert!(!repeats_the_state(&event("Failed", "Failed to pull image \"a\": not found", 9, "")));
    }
}
