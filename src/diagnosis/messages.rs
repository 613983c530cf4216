//! Causes in words.

use std::fmt::Write as _;

use crate::{
    api::ContainerKind,
    pods::{Pod, Terminated},
};

use super::{
    container::{Container, Trouble},
    facts::{Facts, JobFacts},
};

/// Such as "container app was OOM-killed (exit 137), 7 restarts, limit 512Mi".
///
/// A termination message that the container itself may have written is left out: it can hold secrets.
pub(super) fn of_container(container: Container<'_>, trouble: Trouble<'_>) -> String {
    let mut words = title(container);
    match (container.failed_life(trouble), trouble) {
        (Some(life), _) => how_it_ended(&mut words, life),
        (None, Trouble::Waits(waiting)) => {
            words.push_str(" is waiting to start: ");
            words.push_str(if waiting.message.is_empty() { &waiting.reason } else { &waiting.message });
        }
        (None, _) => {}
    }
    match container.status.restarts {
        1 => words.push_str(", 1 restart"),
        restarts if restarts > 1 => _ = write!(words, ", {restarts} restarts"),
        _ => {}
    }
    if let Some(Terminated { reason, .. }) = container.failed_life(trouble)
        && reason == OOM_KILLED
        && let Some(limit) = container.spec.map(|spec| &spec.memory_limit).filter(|limit| !limit.is_empty())
    {
        _ = write!(words, ", limit {limit}");
    }
    if matches!(trouble, Trouble::Restarted(_)) {
        words.push_str(if container.runs() { "; it runs again" } else { "; it is being started again" });
    }
    words
}

/// Such as "; its Job retries: 2 of at most 7 attempts failed", while the Job retries.
pub(super) fn of_attempts(facts: &Facts) -> String {
    match facts.job.as_deref() {
        Some(JobFacts { complete: false, failed: None, attempts: Some((failed, limit)), .. }) if *failed > 0 => {
            format!("; its Job retries: {failed} of at most {} attempts failed", limit.saturating_add(1))
        }
        _ => String::new(),
    }
}

fn how_it_ended(words: &mut String, life: &Terminated) {
    let Terminated { exit_code, signal, reason, message, .. } = life;
    _ = match reason.as_str() {
        OOM_KILLED => write!(words, " was OOM-killed (exit {exit_code})"),
        // The runtime's words: the container never ran to write any.
        "StartError" | "ContainerCannotRun" if !message.is_empty() => {
            write!(words, " could not be started (exit {exit_code}): {message}")
        }
        "StartError" | "ContainerCannotRun" => write!(words, " could not be started (exit {exit_code})"),
        "" | "Error" | "Completed" => match (signal, exit_code) {
            (0, 0) => write!(words, " ended without an error (exit 0)"),
            (0, code) => write!(words, " exited with code {code}{}", signal_name(code.saturating_sub(128))),
            (signal, _) => write!(words, " was killed by signal {signal}{}", signal_name(*signal)),
        },
        reason => write!(words, " ended with {reason} (exit {exit_code})"),
    };
}

/// Such as "init container migrate".
pub(super) fn title(container: Container<'_>) -> String {
    let kind = match container.kind {
        ContainerKind::App => "container",
        ContainerKind::Init => "init container",
        ContainerKind::Sidecar => "sidecar",
    };
    format!("{kind} {}", container.status.name)
}

/// Such as "containers app, proxy are …": a verb in the singular and in the plural follows the names.
pub(super) fn names(containers: &[Container<'_>], [one, several]: [&str; 2]) -> String {
    match containers {
        [] => format!("no container {one}"),
        [container] => format!("{} {one}", title(*container)),
        _ => {
            let names: Vec<&str> = containers.iter().map(|container| container.status.name.as_str()).collect();
            format!("containers {} {several}", names.join(", "))
        }
    }
}

/// What a condition says: its reason and its message, as far as it has them.
pub(super) fn of_condition(pod: &Pod, kind: &str) -> Option<String> {
    let condition = pod.condition(kind)?;
    match (condition.reason.as_str(), condition.message.as_str()) {
        ("", "") => None,
        ("", text) | (text, "") => Some(text.to_owned()),
        (reason, message) => Some(format!("{reason}: {message}")),
    }
}

/// The pod's node in words.
pub(super) fn node(pod: &Pod) -> String {
    if pod.node.is_empty() { "its node".to_owned() } else { format!("node {}", pod.node) }
}

const OOM_KILLED: &str = "OOMKilled";

/// The signals that end containers, as numbered on Linux.
fn signal_name(number: i32) -> &'static str {
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
