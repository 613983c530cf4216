//! Explains why a container crashes.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};

use crate::{api::Cause, pods::Terminated, quantity::Quantity};

use super::{
    super::{
        container::{Container, Failure, run_time},
        finding::Basis,
        kubectl_columns::human_duration,
        messages::{OOM_KILLED, restarts, signal_name},
        owner::owner_names,
    },
    Case, Found,
    case::time_of_day,
    earlier_run::{Killer, hook_failed, killer},
    failed,
    kill::{DELAY, ProbeKill, by_probe, killing_probes, undeclared_by_killed},
    name_of,
};

pub(super) fn explain<'a>(case: &Case<'a>, container: Container<'a>) -> Found {
    let name = name_of(container);
    let failure = container.last_failure();
    let run = failure.and_then(|failure| container.termination(failure)).or(container.status.last.as_ref());
    let basis = run.map_or(Basis::Silent, |run| Basis::Exit(run.exit_code));
    if let Some(Failure::Waiting(waiting)) = failure
        && waiting.reason == "PostStartHookError"
    {
        let error = hook_error(&waiting.message);
        let why = if error.is_empty() { String::new() } else { format!(": {error}") };
        return Found::new(Cause::PostStartHook, format!("the postStart hook of {name} failed{why}")).based_on(basis);
    }
    let Some(run) = run else {
        return Found::silent(format!("{name} crashes again and again; the pod does not show how it ended"));
    };
    if let Some(disruption) = failed::disruption(case.pod) {
        return disruption;
    }
    let found = end_of(case, container, run, &name);
    // What is in doubt replaces what seemed to be proven.
    if found.cause == Cause::Unknown { found } else { found.based_on(basis) }
}

fn end_of<'a>(case: &Case<'a>, container: Container<'a>, run: &Terminated, name: &str) -> Found {
    // The exit code of an instance that the runtime lost is made up, so it does not show a kill.
    let is_lost = matches!(run.reason.as_str(), "Unknown" | "ContainerStatusUnknown");
    let kill = if is_lost { None } else { by_probe(case, container, run) };
    // The OOM killer sends SIGKILL itself.
    if run.reason == OOM_KILLED && (run.exit_code == 137 || run.signal == 9) {
        return match kill {
            // The reason may be about a process that was killed earlier.
            Some(kill) if kill.is_exact => Found::unknown(format!(
                "{name} ended by SIGKILL: the runtime reports OOMKilled, but its {} had failed before, and its grace period \
                 was over",
                probe_name(&kill)
            )),
            _ => out_of_memory(case, container, run, name),
        };
    }
    if let Some(kill) = kill {
        return killed(case, container, &kill, run, name);
    }
    if run.reason == OOM_KILLED {
        return out_of_memory(case, container, run, name);
    }
    if hook_failed(case, container, run) {
        return hook(name);
    }
    if !matches!(run.reason.as_str(), "" | "Error" | "Completed") {
        return Found::unknown(lost(run, name));
    }
    match killer(case, container, run) {
        Some(Killer::Probe(kill)) => return killed(case, container, &kill, run, name),
        Some(Killer::Hook) => return hook(name),
        None => {}
    }
    let (cause, what) = end(run);
    let mut sentence = format!("{name} {what}");
    if let Some(when) = when(case, container, run) {
        _ = write!(sentence, ", {when}");
    }
    if cause == Cause::Completed {
        sentence.push_str(", but the kubelet restarts it because it should keep running");
    }
    if may_be_killed_by_probe(container, cause, run) {
        sentence.push_str("; no event shows whether one of its probes is the cause");
    }
    Found::new(cause, sentence)
}

fn hook(name: &str) -> Found {
    Found::new(Cause::PostStartHook, format!("the postStart hook of {name} failed, so the kubelet killed it"))
}

fn killed<'a>(case: &Case<'a>, container: Container<'a>, kill: &ProbeKill<'a>, run: &Terminated, name: &str) -> Found {
    let mut sentence = format!("the {} of {name}", probe_name(kill));
    if !kill.probe.action.is_empty() {
        _ = write!(sentence, " ({})", kill.probe.action);
    }
    sentence.push_str(" failed, so the kubelet killed it");
    if let Some(when) = when(case, container, run) {
        _ = write!(sentence, " {when}");
    }
    if !kill.answer.is_empty() {
        _ = write!(sentence, ": {}", kill.answer);
    }
    if has_no_patience(container, kill, run) {
        match kill.probe.initial_delay {
            0 => sentence.push_str("; one failure is enough, from the start on"),
            seconds => _ = write!(sentence, "; one failure is enough, {seconds} s after the start"),
        }
        sentence.push_str(", and it has no startup probe");
    } else if let Some(declared) = undeclared_by_killed(case.pod, container, name, kill, run) {
        sentence.push_str(&declared);
    }
    Found::new(kill.cause, sentence)
}

/// Whether a single failure soon after the start was enough, so that no program that takes a moment to start can pass.
fn has_no_patience(container: Container<'_>, kill: &ProbeKill<'_>, run: &Terminated) -> bool {
    const SOON: u32 = 5;
    let has_startup_probe = container.spec.is_some_and(|spec| spec.startup_probe.is_some());
    let probe = kill.probe;
    let is_first = run_time(run).is_some_and(|ran| {
        let first = probe.initial_delay.saturating_add(probe.period).saturating_add(probe.timeout);
        ran <= SignedDuration::from_secs(first.into()).saturating_add(kill.grace).saturating_add(DELAY)
    });
    !has_startup_probe && probe.failure_threshold <= 1 && probe.initial_delay <= SOON && is_first
}

fn probe_name(kill: &ProbeKill<'_>) -> &'static str {
    if kill.cause == Cause::StartupProbe { "startup probe" } else { "liveness probe" }
}

fn out_of_memory<'a>(case: &Case<'a>, container: Container<'a>, run: &Terminated, name: &str) -> Found {
    let mut limit = match container.memory_limit() {
        Some(limit) => format!("; limit {limit}"),
        None => "; it has no memory limit of its own".to_owned(),
    };
    limit.push_str(&other_limit(case, container).unwrap_or_default());
    if run.exit_code != 137 && run.signal != 9 {
        // The runtime reports OOMKilled if any process of the container was ever killed by the OOM killer. That killer
        // sends SIGKILL, so the main process ended in another way.
        let (_, what) = end(run);
        let what = what.replacen("exits with", "exited with", 1);
        let sentence = format!("a process of {name} was OOM-killed; its main process {what}{limit}");
        return Found::new(Cause::ChildOutOfMemory, sentence);
    }
    let mut sentence = format!("{name} was OOM-killed");
    if let Some(when) = when(case, container, run) {
        _ = write!(sentence, " {when}");
    }
    sentence.push_str(&restarts(container));
    sentence.push_str(&limit);
    Found::new(Cause::OutOfMemory, sentence)
}

/// The memory limit that the container should have, or had in the revision before, if it has less.
fn other_limit(case: &Case<'_>, container: Container<'_>) -> Option<String> {
    let revision = case.world.revision(case.pod)?;
    let limits = revision.memory_limits.get(container.status.name.as_str())?;
    let limit = container.spec?.memory_limit.as_str();
    let (kind, _) = owner_names(case.pod)?;
    if !is_equal(&limits.after, limit) {
        let says = match limits.after.as_str() {
            "" => format!("its {kind} sets none"),
            template => format!("its {kind} says {template}"),
        };
        // A resize in place, which changes the spec later, adds to the generation.
        let is_as_created = matches!(case.pod.generation, None | Some(1)) && !case.pod.is_resizing();
        return Some(if container.spec?.has_limit_of_range {
            format!("; {says}, so a LimitRange gave it this limit")
        } else if is_as_created {
            format!("; {says}: something changed the pod at admission")
        } else {
            format!("; {says}")
        });
    }
    let is_lowered =
        |before: &str| before.is_empty() || quantity(before).is_some_and(|before| Some(before) > quantity(limit));
    if limit.is_empty() || limits.before.as_deref().is_some_and(|before| !is_lowered(before)) {
        return None;
    }
    let changes = case.world.limit_changes(case.pod);
    let change = changes.as_ref().and_then(|changes| changes.get(container.status.name.as_str()));
    // The healthy revision before is known without the right to read what has changed.
    let (before, at) = match (&limits.before, change) {
        (Some(before), Some(change)) if change.before.as_ref() == Some(before) => (before, change.at),
        (Some(before), _) => (before, revision.created),
        (None, Some(change)) => (change.before.as_ref()?, change.at),
        (None, None) => return None,
    };
    let is_older = at.zip(revision.created).is_some_and(|(changed, created)| changed < created);
    let which = if is_older { "an earlier revision" } else { "the revision before" };
    let was = match before.as_str() {
        "" => format!("; {which} set none"),
        before if is_lowered(before) => format!("; the limit was {before} in {which}"),
        _ => return None,
    };
    let until = at.map(|at| until(at, case.now)).unwrap_or_default();
    let manager = change.and_then(|change| change.by.as_ref());
    let by = manager.map(|manager| format!(", and the field manager {manager} has set this one")).unwrap_or_default();
    Some(format!("{was}{until}{by}"))
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
fn when(case: &Case<'_>, container: Container<'_>, run: &Terminated) -> Option<String> {
    let present = container.status.state.terminated.as_ref();
    let alike = |other: &&Terminated| other.reason == run.reason && other.exit_code == run.exit_code;
    let lives = present.into_iter().chain(&container.status.last).filter(alike);
    let seen =
        case.pod.history.run_times(&container.status.name).map(|seconds| SignedDuration::from_secs(seconds.into()));
    let times: Vec<_> = lives.filter_map(run_time).chain(seen).collect();
    after_start(&times)
}

/// The error in the kubelet's message about a lifecycle hook, which names the pod before it.
fn hook_error(message: &str) -> &str {
    let error = message.split_once(" failed - error: ").map_or("", |(_, error)| error);
    let error = error.strip_suffix(", message: \"\"").unwrap_or(error);
    error.trim_end_matches([':', ',', ' '])
}

/// The runtime lost the instance, so its exit code means nothing.
fn lost(run: &Terminated, name: &str) -> String {
    match run.reason.as_str() {
        // The kubelet writes the message.
        "ContainerStatusUnknown" if !run.message.is_empty() => {
            format!("the node lost the state of {name}, so its exit code is not known: {}", run.message)
        }
        "ContainerStatusUnknown" => format!("the node lost the state of {name}, so its exit code is not known"),
        "Unknown" => format!("the container runtime lost track of {name}, for example in a restart of its node"),
        reason => format!("{name} ended with {reason} (exit {})", run.exit_code),
    }
}

/// Whether the failure of a probe may have made the kubelet stop it. Many programs exit with 0 then.
fn may_be_killed_by_probe(container: Container<'_>, cause: Cause, run: &Terminated) -> bool {
    killing_probes(container).next().is_some() && (cause == Cause::Completed || matches!(run.exit_code, 137 | 143))
}

/// The cause that the exit code and signal prove, and what happened, for example `exited with code 143 (SIGTERM)`.
fn end(terminated: &Terminated) -> (Cause, String) {
    let Terminated { exit_code, signal, .. } = terminated;
    if *signal != 0 {
        return (Cause::Signal, format!("was killed by signal {signal}{}", signal_name(*signal)));
    }
    let signal = signal_name(exit_code.saturating_sub(128));
    match exit_code {
        0 => (Cause::Completed, "exits with code 0".to_owned()),
        // These are conventions of shells, so they prove nothing.
        126 => {
            (Cause::ExitCode, "exited with code 126, which usually means that a command may not be executed".to_owned())
        }
        127 => (Cause::ExitCode, "exited with code 127, which usually means that a command was not found".to_owned()),
        code if !signal.is_empty() => (Cause::Signal, format!("exited with code {code}{signal}")),
        code => (Cause::ExitCode, format!("exited with code {code}")),
    }
}

/// For example `31–34 s after its start`.
fn after_start(times: &[SignedDuration]) -> Option<String> {
    let (least, most) = (times.iter().min()?, times.iter().max()?);
    let shown = |time: &SignedDuration| match time.as_secs() {
        0..120 => format!("{} s", time.as_secs()),
        _ => human_duration(*time),
    };
    let text = match (least.as_secs(), most.as_secs()) {
        (_, 0) => "within a second of its start".to_owned(),
        (least, most) if least == most => format!("{} after its start", shown(&SignedDuration::from_secs(least))),
        (low, 0..120) => format!("{low}–{} after its start", shown(most)),
        _ => format!("{}–{} after its start", shown(least), shown(most)),
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_prove_only_signals_and_codes() {
        for (exit_code, signal, cause, text) in [
            (0, 0, Cause::Completed, "exits with code 0"),
            (1, 0, Cause::ExitCode, "exited with code 1"),
            (3, 9, Cause::Signal, "was killed by signal 9 (SIGKILL)"),
            (126, 0, Cause::ExitCode, "exited with code 126, which usually means that a command may not be executed"),
            (127, 0, Cause::ExitCode, "exited with code 127, which usually means that a command was not found"),
            (137, 0, Cause::Signal, "exited with code 137 (SIGKILL)"),
            (139, 0, Cause::Signal, "exited with code 139 (SIGSEGV)"),
            (143, 0, Cause::Signal, "exited with code 143 (SIGTERM)"),
            (255, 0, Cause::ExitCode, "exited with code 255"),
            (i32::MIN, 0, Cause::ExitCode, "exited with code -2147483648"),
        ] {
            let terminated = Terminated { exit_code, signal, ..Terminated::default() };
            assert_eq!(end(&terminated), (cause, text.to_owned()), "{exit_code} {signal}");
        }
    }

    #[test]
    fn shows_the_range_of_run_times() {
        let times = |seconds: &[i64]| -> Option<String> {
            after_start(&seconds.iter().map(|seconds| SignedDuration::from_secs(*seconds)).collect::<Vec<_>>())
        };
        assert_eq!(times(&[]), None);
        assert_eq!(times(&[0, 0]).as_deref(), Some("within a second of its start"));
        assert_eq!(times(&[31]).as_deref(), Some("31 s after its start"));
        assert_eq!(times(&[34, 31, 33]).as_deref(), Some("31–34 s after its start"));
        assert_eq!(times(&[90, 400]).as_deref(), Some("90 s–6m40s after its start"));
        assert_eq!(times(&[7200, 7200]).as_deref(), Some("120m after its start"));
    }
}
