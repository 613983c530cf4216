//! Composes the messages of findings.

use std::fmt::Write as _;

use crate::{
    api::{Cause, ContainerKind},
    pods::{Pod, Terminated},
};

use super::{
    container::{Container, Failure},
    world::JobFacts,
};

/// For example "container app was OOM-killed (exit 137), 7 restarts, limit 512Mi". Termination messages that the
/// container may have written itself are left out, because they may contain secrets.
pub(super) fn container(container: Container<'_>, failure: Failure<'_>) -> String {
    let mut message = title(container);
    match (container.termination(failure), failure) {
        (Some(terminated), _) => push_end(&mut message, terminated),
        (None, Failure::Waiting(waiting)) => {
            message.push_str(" is waiting to start: ");
            message.push_str(if waiting.message.is_empty() { &waiting.reason } else { &waiting.message });
        }
        (None, _) => {}
    }
    message.push_str(&restarts(container));
    if let Some(Terminated { reason, .. }) = container.termination(failure)
        && reason == OOM_KILLED
        && let Some(limit) = container.memory_limit()
    {
        _ = write!(message, ", limit {limit}");
    }
    if matches!(failure, Failure::Restarted(_)) {
        message.push_str(if container.is_running() { "; it runs again" } else { "; it is being started again" });
    }
    message
}

/// For example ", 7 restarts"; empty without one.
pub(super) fn restarts(container: Container<'_>) -> String {
    match container.status.restarts {
        ..=0 => String::new(),
        1 => ", 1 restart".to_owned(),
        restarts => format!(", {restarts} restarts"),
    }
}

/// For example "; its Job retries: 2 of at most 7 attempts failed"; empty unless the Job retries.
pub(super) fn job_attempts(job: Option<&JobFacts>) -> String {
    match job {
        Some(JobFacts { complete: false, failed: None, attempts: Some((failed, limit)), .. }) if *failed > 0 => {
            format!("; its Job retries: {failed} of at most {} attempts failed", limit.saturating_add(1))
        }
        _ => String::new(),
    }
}

fn push_end(message: &mut String, terminated: &Terminated) {
    let Terminated { exit_code, signal, reason, message: text, .. } = terminated;
    _ = match reason.as_str() {
        // The OOM killer sends SIGKILL. With another code, it has killed another process of the container.
        OOM_KILLED if *exit_code == 137 || *signal == 9 => write!(message, " was OOM-killed (exit {exit_code})"),
        // The message is the runtime's: the container never ran.
        "StartError" | "ContainerCannotRun" if !text.is_empty() => {
            write!(message, " could not be started (exit {exit_code}): {text}")
        }
        "StartError" | "ContainerCannotRun" => write!(message, " could not be started (exit {exit_code})"),
        "" | "Error" | "Completed" => match (signal, exit_code) {
            (0, 0) => write!(message, " ended without an error (exit 0)"),
            (0, code) => write!(message, " exited with code {code}{}", signal_name(code.saturating_sub(128))),
            (signal, _) => write!(message, " was killed by signal {signal}{}", signal_name(*signal)),
        },
        reason => write!(message, " ended with {reason} (exit {exit_code})"),
    };
}

/// For example "init container migrate".
pub(super) fn title(container: Container<'_>) -> String {
    let kind = match container.kind {
        ContainerKind::App => "container",
        ContainerKind::Init => "init container",
        ContainerKind::Sidecar => "sidecar",
    };
    format!("{kind} {}", container.status.name)
}

/// For example "containers app, proxy are …", with the verb in the singular or plural.
pub(super) fn names(containers: &[Container<'_>], [one, several]: [&str; 2]) -> String {
    match containers {
        [container] => format!("{} {one}", title(*container)),
        _ => {
            let names: Vec<&str> = containers.iter().map(|container| container.status.name.as_str()).collect();
            format!("containers {} {several}", names.join(", "))
        }
    }
}

/// The first of some items, and how many there are besides them and `more` that are not given: "a, b, c and 7 more".
pub(super) fn first_of<T: ToString>(items: impl IntoIterator<Item = T>, most: usize, more: usize) -> String {
    let mut items = items.into_iter();
    let first: Vec<String> = items.by_ref().take(most).map(|item| item.to_string()).collect();
    match items.count() + more {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// A finding's message, with the number of containers that were left out because the pod is too large.
pub(super) fn with_omitted(mut message: String, pod: &Pod) -> String {
    match pod.omitted.count() {
        0 => return message,
        1 => message.push_str("; 1 more container was not checked: the pod is too large"),
        omitted => _ = write!(message, "; {omitted} more containers were not checked: the pod is too large"),
    }
    message
}

/// The reason and message of a condition.
pub(super) fn condition(pod: &Pod, kind: &str) -> Option<String> {
    let condition = pod.condition(kind)?;
    match (condition.reason.as_str(), condition.message.as_str()) {
        ("", "") => None,
        ("", text) | (text, "") => Some(text.to_owned()),
        (reason, message) => Some(format!("{reason}: {message}")),
    }
}

pub(super) fn node(pod: &Pod) -> String {
    if pod.node.is_empty() { "its node".to_owned() } else { format!("node {}", pod.node) }
}

/// What the pod shows about its node if that is gone or no longer reports, and whether this is the cause of the pod's problem.
/// Node objects are not read.
pub(super) fn lost_node(pod: &Pod) -> Option<(Cause, String)> {
    let node = node(pod);
    // The kubelet always sets a reason when Ready is False. When a node stops reporting, the node lifecycle controller
    // sets Ready to False and changes nothing else.
    let has_stopped = pod.condition("Ready").is_some_and(|ready| ready.status == "False" && ready.reason.is_empty())
        && pod.is_true("ContainersReady");
    let disruption = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True");
    match disruption.map(|condition| condition.reason.as_str()) {
        // Written by the node lifecycle controller of older clusters when it deleted a pod.
        _ if pod.reason == "NodeLost" => Some((Cause::NodeNotReady, format!("{node} is gone (NodeLost)"))),
        Some("DeletionByPodGC") => Some((Cause::NodeNotReady, format!("{node} is gone (DeletionByPodGC)"))),
        Some("DeletionByTaintManager") if has_stopped => {
            Some((Cause::NodeNotReady, format!("{node} is not ready or unreachable (DeletionByTaintManager)")))
        }
        // The taint manager deletes pods because of any NoExecute taint, also one that an administrator has set on a healthy node.
        Some("DeletionByTaintManager") => {
            Some((Cause::Unknown, format!("{node} has a taint that evicts the pod (DeletionByTaintManager)")))
        }
        _ => has_stopped.then(|| (Cause::NodeNotReady, format!("{node} has stopped reporting"))),
    }
}

pub(super) const OOM_KILLED: &str = "OOMKilled";

/// The signals that end containers, as numbered on Linux.
pub(super) fn signal_name(number: i32) -> &'static str {
    match number {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        5 => " (SIGTRAP)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        31 => " (SIGSYS)",
        _ => "",
    }
}
