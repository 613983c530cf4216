//! Explains why a container crashes.

use std::fmt::Write as _;

use jiff::SignedDuration;

use crate::{api::Cause, pods::Terminated};

use super::{
    super::{
        container::{Container, Trouble},
        finding::Basis,
        messages::OOM_KILLED,
    },
    Found, View,
    exit_codes::{after_start, end, run_time},
    failed,
    kill::{ProbeKill, by_probe},
    name_of,
    parse::after_all,
};

pub(super) fn explain<'a>(view: &View<'a>, container: Container<'a>) -> Found {
    let name = name_of(container);
    let trouble = container.last_trouble();
    let life = trouble.and_then(|trouble| container.failure(trouble)).or(container.status.last.as_ref());
    let basis = life.map_or(Basis::Silent, |life| Basis::Exit(life.exit_code));
    if let Some(Trouble::Waiting(waiting)) = trouble
        && waiting.reason == "PostStartHookError"
    {
        let error = hook_error(&waiting.message);
        let why = if error.is_empty() { String::new() } else { format!(": {error}") };
        return Found::new(Cause::PostStartHook, format!("the postStart hook of {name} failed{why}")).based_on(basis);
    }
    let Some(life) = life else {
        return Found::silent(format!("{name} crashes again and again; the pod does not show how it ended"));
    };
    if let Some(disruption) = failed::disruption(view.pod) {
        return disruption;
    }
    let found = end_of(view, container, life, &name);
    // What is in doubt replaces what seemed to be proven.
    if found.cause == Cause::Unknown { found } else { found.based_on(basis) }
}

fn end_of<'a>(view: &View<'a>, container: Container<'a>, life: &Terminated, name: &str) -> Found {
    // The exit code of an instance that the runtime lost is made up, so it does not show a kill.
    let is_lost = matches!(life.reason.as_str(), "Unknown" | "ContainerStatusUnknown");
    let kill = if is_lost { None } else { by_probe(view, container, life) };
    // The OOM killer sends SIGKILL itself.
    if life.reason == OOM_KILLED && (life.exit_code == 137 || life.signal == 9) {
        return match kill {
            // The reason may be about a process that was killed earlier.
            Some(kill) if kill.is_exact => Found::unknown(format!(
                "{name} ended by SIGKILL: the runtime reports OOMKilled, but its {} had failed before, and its grace period \
                 was over",
                probe_name(&kill)
            )),
            _ => out_of_memory(view, container, life, name),
        };
    }
    if let Some(kill) = kill {
        return killed(view, container, &kill, life, name);
    }
    if life.reason == OOM_KILLED {
        return out_of_memory(view, container, life, name);
    }
    if hook_failed(view, container, life) {
        return Found::new(
            Cause::PostStartHook,
            format!("the postStart hook of {name} failed, so the kubelet killed it"),
        );
    }
    if !matches!(life.reason.as_str(), "" | "Error" | "Completed") {
        return Found::unknown(lost(life, name));
    }
    let (cause, what) = end(life);
    let mut sentence = format!("{name} {what}");
    if let Some(when) = when(view, container, life) {
        _ = write!(sentence, ", {when}");
    }
    match cause {
        Cause::Completed => {
            sentence.push_str(", but the kubelet restarts it because it should keep running");
            if has_killing_probe(container) {
                sentence.push_str("; no event shows whether one of its probes is the cause");
            }
        }
        Cause::Signal if may_be_killed_by_probe(container, life) => {
            sentence.push_str("; no event shows whether one of its probes is the cause");
        }
        _ => {}
    }
    Found::new(cause, sentence)
}

fn killed<'a>(view: &View<'a>, container: Container<'a>, kill: &ProbeKill<'a>, life: &Terminated, name: &str) -> Found {
    let mut sentence = format!("the {} of {name}", probe_name(kill));
    if !kill.probe.action.is_empty() {
        _ = write!(sentence, " ({})", kill.probe.action);
    }
    sentence.push_str(" failed, so the kubelet killed it");
    if let Some(when) = when(view, container, life) {
        _ = write!(sentence, " {when}");
    }
    if !kill.answer.is_empty() {
        _ = write!(sentence, ": {}", kill.answer);
    }
    Found::new(kill.cause, sentence)
}

fn probe_name(kill: &ProbeKill<'_>) -> &'static str {
    if kill.cause == Cause::StartupProbe { "startup probe" } else { "liveness probe" }
}

fn out_of_memory<'a>(view: &View<'a>, container: Container<'a>, life: &Terminated, name: &str) -> Found {
    let limit = container.spec.map(|spec| spec.memory_limit.as_str()).filter(|limit| !limit.is_empty());
    let limit =
        limit.map_or_else(|| "; it has no memory limit of its own".to_owned(), |limit| format!("; limit {limit}"));
    if life.exit_code != 137 && life.signal != 9 {
        // The runtime reports OOMKilled if any process of the container was ever killed by the OOM killer. That killer
        // sends SIGKILL, so the main process ended in another way.
        let (_, what) = end(life);
        let what = what.replacen("exits with", "exited with", 1);
        let sentence = format!("a process of {name} was OOM-killed; its main process {what}{limit}");
        return Found::new(Cause::ChildOutOfMemory, sentence);
    }
    let mut sentence = format!("{name} was OOM-killed");
    if let Some(when) = when(view, container, life) {
        _ = write!(sentence, " {when}");
    }
    match container.status.restarts {
        ..1 => {}
        1 => sentence.push_str(", 1 restart"),
        restarts => _ = write!(sentence, ", {restarts} restarts"),
    }
    sentence.push_str(&limit);
    Found::new(Cause::OutOfMemory, sentence)
}

/// How long the instances ran that ended like this one.
fn when(view: &View<'_>, container: Container<'_>, life: &Terminated) -> Option<String> {
    let present = container.status.state.terminated.as_ref();
    let alike = |other: &&Terminated| other.reason == life.reason && other.exit_code == life.exit_code;
    let lives = present.into_iter().chain(&container.status.last).filter(alike);
    let seen =
        view.pod.history.run_times(&container.status.name).map(|seconds| SignedDuration::from_secs(seconds.into()));
    let times: Vec<_> = lives.filter_map(run_time).chain(seen).collect();
    after_start(&times)
}

/// Whether an event says that the postStart hook failed during this instance.
fn hook_failed(view: &View<'_>, container: Container<'_>, life: &Terminated) -> bool {
    let (Some(started), Some(finished)) = (life.started, life.finished) else { return false };
    let slack = SignedDuration::from_secs(2);
    view.facts.events.iter().any(|event| {
        let is_own = event.involved.container == container.status.name && event.reason == "FailedPostStartHook";
        is_own
            && event
                .last
                .is_some_and(|last| last.duration_since(started) >= -slack && last.duration_since(finished) <= slack)
    })
}

/// The error in the kubelet's message about a lifecycle hook, which names the pod before it.
fn hook_error(message: &str) -> &str {
    let error = after_all(message, &[" failed - error: "]).unwrap_or_default();
    let error = error.strip_suffix(", message: \"\"").unwrap_or(error);
    error.trim_end_matches([':', ',', ' '])
}

/// The runtime lost the instance, so its exit code means nothing.
fn lost(life: &Terminated, name: &str) -> String {
    match life.reason.as_str() {
        // The kubelet writes the message.
        "ContainerStatusUnknown" if !life.message.is_empty() => {
            format!("the node lost the state of {name}, so its exit code is not known: {}", life.message)
        }
        "ContainerStatusUnknown" => format!("the node lost the state of {name}, so its exit code is not known"),
        "Unknown" => format!("the container runtime lost track of {name}, for example in a restart of its node"),
        reason => format!("{name} ended with {reason} (exit {})", life.exit_code),
    }
}

/// Whether it has a probe whose failure makes the kubelet stop it. Many programs exit with 0 then.
fn has_killing_probe(container: Container<'_>) -> bool {
    container.spec.is_some_and(|spec| spec.liveness_probe.is_some() || spec.startup_probe.is_some())
}

fn may_be_killed_by_probe(container: Container<'_>, life: &Terminated) -> bool {
    has_killing_probe(container) && matches!(life.exit_code, 137 | 143)
}
