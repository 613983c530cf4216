//! Explains why a container crashes.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};

use crate::{api::Cause, pods::Terminated, quantity::Quantity};

use super::{
    super::{
        container::{Container, Trouble},
        finding::Basis,
        messages::OOM_KILLED,
        owner::owner_names,
    },
    Found, View,
    earlier_run::{Killer, hook_failed, killer},
    evidence::time_of_day,
    exit_codes::{after_start, end, run_time},
    failed,
    kill::{DELAY, ProbeKill, by_probe, killing_probes},
    name_of,
    parse::after_all,
    ports,
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
        return hook(name);
    }
    if !matches!(life.reason.as_str(), "" | "Error" | "Completed") {
        return Found::unknown(lost(life, name));
    }
    match killer(view, container, life) {
        Some(Killer::Probe(kill)) => return killed(view, container, &kill, life, name),
        Some(Killer::Hook) => return hook(name),
        None => {}
    }
    let (cause, what) = end(life);
    let mut sentence = format!("{name} {what}");
    if let Some(when) = when(view, container, life) {
        _ = write!(sentence, ", {when}");
    }
    if cause == Cause::Completed {
        sentence.push_str(", but the kubelet restarts it because it should keep running");
    }
    if may_be_killed_by_probe(container, cause, life) {
        sentence.push_str("; no event shows whether one of its probes is the cause");
    }
    Found::new(cause, sentence)
}

fn hook(name: &str) -> Found {
    Found::new(Cause::PostStartHook, format!("the postStart hook of {name} failed, so the kubelet killed it"))
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
    if has_no_patience(container, kill, life) {
        match kill.probe.initial_delay {
            0 => sentence.push_str("; one failure is enough, from the start on"),
            seconds => _ = write!(sentence, "; one failure is enough, {seconds} s after the start"),
        }
        sentence.push_str(", and it has no startup probe");
    } else if let Some(declared) = ports::of_killed(view.pod, container, name, kill, life) {
        sentence.push_str(&declared);
    }
    Found::new(kill.cause, sentence)
}

/// Whether a single failure soon after the start was enough, so that no program that takes a moment to start can pass.
fn has_no_patience(container: Container<'_>, kill: &ProbeKill<'_>, life: &Terminated) -> bool {
    const SOON: u32 = 5;
    let has_startup_probe = container.spec.is_some_and(|spec| spec.startup_probe.is_some());
    let probe = kill.probe;
    let is_first = run_time(life).is_some_and(|ran| {
        let first = probe.initial_delay.saturating_add(probe.period).saturating_add(probe.timeout);
        ran <= SignedDuration::from_secs(first.into()).saturating_add(kill.grace).saturating_add(DELAY)
    });
    !has_startup_probe && probe.failure_threshold <= 1 && probe.initial_delay <= SOON && is_first
}

fn probe_name(kill: &ProbeKill<'_>) -> &'static str {
    if kill.cause == Cause::StartupProbe { "startup probe" } else { "liveness probe" }
}

fn out_of_memory<'a>(view: &View<'a>, container: Container<'a>, life: &Terminated, name: &str) -> Found {
    let limit = container.spec.map(|spec| spec.memory_limit.as_str()).filter(|limit| !limit.is_empty());
    let mut limit =
        limit.map_or_else(|| "; it has no memory limit of its own".to_owned(), |limit| format!("; limit {limit}"));
    limit.push_str(&other_limit(view, container).unwrap_or_default());
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

/// The memory limit that the container should have, or had in the revision before, if it has less.
fn other_limit(view: &View<'_>, container: Container<'_>) -> Option<String> {
    let revision = view.facts.revision.as_ref()?;
    let limits = revision.memory_limits.get(container.status.name.as_str())?;
    let limit = container.spec?.memory_limit.as_str();
    let (kind, _) = owner_names(view.pod)?;
    if !is_equal(&limits.after, limit) {
        let says = match limits.after.as_str() {
            "" => format!("its {kind} sets none"),
            template => format!("its {kind} says {template}"),
        };
        // A resize in place, which changes the spec later, adds to the generation.
        let is_as_created = matches!(view.pod.generation, None | Some(1)) && !view.pod.is_resizing();
        return Some(if container.spec?.has_limit_of_range {
            format!("; {says}, so a LimitRange gave it this limit")
        } else if is_as_created {
            format!("; {says}: something changed the pod at admission")
        } else {
            format!("; {says}")
        });
    }
    let until = || revision.created.map(|created| until(created, view.now)).unwrap_or_default();
    match limits.before.as_deref()? {
        "" if !limit.is_empty() => Some(format!("; the revision before set none{}", until())),
        before if quantity(before)? > quantity(limit)? => {
            Some(format!("; the limit was {before} in the revision before{}", until()))
        }
        _ => None,
    }
}

/// For example `, until 14:02:10Z`. No duration, which would change the sentence again and again.
fn until(created: Timestamp, now: Timestamp) -> String {
    let is_of_today = now.duration_since(created) < SignedDuration::from_hours(24);
    let day = if is_of_today { String::new() } else { created.strftime("%Y-%m-%d ").to_string() };
    format!(", until {day}{}", time_of_day(created))
}

fn quantity(limit: &str) -> Option<i128> {
    Quantity::parse(limit).map(Quantity::milli)
}

/// Whether two limits are the same. Of what is no quantity, nothing is said.
fn is_equal(one: &str, other: &str) -> bool {
    let known = |text: &str| text.is_empty() || quantity(text).is_some();
    one == other || !known(one) || !known(other) || quantity(one).is_some() && quantity(one) == quantity(other)
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

/// Whether the failure of a probe may have made the kubelet stop it. Many programs exit with 0 then.
fn may_be_killed_by_probe(container: Container<'_>, cause: Cause, life: &Terminated) -> bool {
    killing_probes(container).next().is_some() && (cause == Cause::Completed || matches!(life.exit_code, 137 | 143))
}
