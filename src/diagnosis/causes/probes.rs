//! Explains why a running pod is not ready: its probes, its readiness gates or its node.

use std::fmt::Write as _;

use jiff::SignedDuration;

use crate::{
    api::{Cause, ContainerKind},
    pods::{Pod, Probe},
};

use super::{
    super::{
        container::{Container, containers},
        messages::first_of,
        owner::needs_job,
    },
    Case, Found, failed,
    kill::{failure, undeclared_by_unready, unnamed_port},
    name_of,
};

/// How long a failure of a probe remains the latest news: the kubelet reports a repeated one at least this often.
const RECENT: SignedDuration = SignedDuration::from_mins(10);
/// How many running containers are named for which a Job waits.
const HELPERS: usize = 3;

pub(super) fn explain<'a>(case: &Case<'a>, container: Option<Container<'a>>) -> Found {
    let pod = case.pod;
    if let Some(found) = failed::lost_node(pod) {
        return found;
    }
    let ready = pod.condition("Ready");
    if ready.is_some_and(|ready| ready.reason == "ReadinessGatesNotReady")
        && let Some(found) = gate(pod)
    {
        return found;
    }
    match container {
        Some(container) => of_container(case, container),
        None => Found::unknown("the pod is not ready, and its status gives no reason"),
    }
}

/// The first readiness gate that is not True.
fn gate(pod: &Pod) -> Option<Found> {
    let gate = pod.readiness_gates.iter().find(|gate| !pod.is_true(gate))?;
    let mut sentence = format!("the readiness gate {gate} is not True");
    match pod.condition(gate) {
        None => sentence.push_str(": no controller has set its condition"),
        Some(condition) => {
            let words = [condition.reason.as_str(), condition.message.as_str()];
            let words: Vec<&str> = words.into_iter().filter(|words| !words.is_empty()).collect();
            if !words.is_empty() {
                _ = write!(sentence, ": {}", words.join(": "));
            }
        }
    }
    Some(Found::new(Cause::ReadinessGate, sentence).detailed())
}

fn of_container<'a>(case: &Case<'a>, container: Container<'a>) -> Found {
    let name = name_of(container);
    if let Some(found) = waits_for_helper(case.pod, container, &name) {
        return found;
    }
    if !container.is_running() {
        return match &container.status.state.terminated {
            Some(terminated) => {
                Found::unknown(format!("{name} has ended with code {}, so the pod is not ready", terminated.exit_code))
            }
            None => Found::unknown(format!("{name} does not run, so the pod is not ready")),
        };
    }
    let spec = container.spec;
    if let Some(probe) = spec.and_then(|spec| spec.startup_probe.as_deref())
        && container.status.started == Some(false)
    {
        return match answer(case, container, "Startup") {
            Some(answer) => fails(case, Cause::StartupProbe, "startup", &name, probe, answer),
            None => match unnamed_port(&name, probe) {
                Some(unnamed) => never_passes(Cause::StartupProbe, "startup", &name, probe, &unnamed),
                None => Found::silent(format!("{name} has not passed its startup probe{} yet", action(probe))),
            },
        };
    }
    let Some(probe) = spec.and_then(|spec| spec.readiness_probe.as_deref()) else {
        return Found::unknown(format!("{name} is not ready although it runs and has no readiness probe"));
    };
    if let Some(answer) = answer(case, container, "Readiness") {
        return fails(case, Cause::ReadinessProbe, "readiness", &name, probe, answer);
    }
    if let Some(unnamed) = unnamed_port(&name, probe) {
        return never_passes(Cause::ReadinessProbe, "readiness", &name, probe, &unnamed);
    }
    // A container that runs and has a readiness probe is ready if and only if the last result of the probe was a success.
    let sentence = format!("the readiness probe of {name}{} does not pass", action(probe));
    if has_been_probed(case, container, probe) {
        Found::new(Cause::ReadinessProbe, sentence)
    } else {
        Found::silent(sentence)
    }
}

/// A container of a Job's pod that has ended well while others run on. Usually they only serve it and never end, so
/// that the Job does not end either. That is not certain: they may still work for the Job.
fn waits_for_helper(pod: &Pod, container: Container<'_>, name: &str) -> Option<Found> {
    if !container.completed() || needs_job(pod).is_none() {
        return None;
    }
    let others: Vec<_> =
        containers(pod).filter(|other| other.kind == ContainerKind::App && other.is_running()).collect();
    let names = first_of(others.iter().map(|other| &other.status.name), HELPERS, 0);
    let (runs, advice) = match others.len() {
        0 => return None,
        1 => ("runs", "if it only serves the others, make it a native sidecar"),
        _ => ("run", "make those that only serve the others native sidecars"),
    };
    let waits = format!("the Job waits for {names}, which still {runs}: {advice}");
    Some(Found::new(Cause::Completed, format!("{name} has ended with code 0, and {waits}")).detailed())
}

fn fails(case: &Case<'_>, cause: Cause, kind: &str, name: &str, probe: &Probe, answer: &str) -> Found {
    let declared = undeclared_by_unready(case.pod, name, probe, answer).unwrap_or_default();
    let answer = if answer.is_empty() { String::new() } else { format!(": {answer}") };
    Found::new(cause, format!("the {kind} probe of {name}{} fails{answer}{declared}", action(probe))).detailed()
}

fn never_passes(cause: Cause, kind: &str, name: &str, probe: &Probe, why: &str) -> Found {
    Found::new(cause, format!("the {kind} probe of {name}{} cannot pass{why}", action(probe))).detailed()
}

/// For example ` (GET :8080/healthz)`.
fn action(probe: &Probe) -> String {
    if probe.action.is_empty() { String::new() } else { format!(" ({})", probe.action) }
}

/// The latest answer of a probe during the present instance.
fn answer<'a>(case: &Case<'a>, container: Container<'a>, probe: &str) -> Option<&'a str> {
    let slack = SignedDuration::from_secs(2);
    let started = container.started()?;
    let now = case.now;
    let events = case.events(&["Unhealthy"], &container.status.name);
    // An event that names no container may be about another one.
    events.filter(|event| event.involved.container == container.status.name).find_map(|event| {
        let last = event.last.or(event.first)?;
        let is_present = last.duration_since(started) >= -slack && now.duration_since(last) <= RECENT;
        if is_present { failure(event, probe) } else { None }
    })
}

/// Whether the probe has had time for a result.
fn has_been_probed(case: &Case<'_>, container: Container<'_>, probe: &Probe) -> bool {
    let Some(started) = container.started() else {
        return false;
    };
    let seconds = |seconds: u32| SignedDuration::from_secs(seconds.into());
    let first = seconds(probe.initial_delay)
        .saturating_add(seconds(probe.period.max(1)))
        .saturating_add(seconds(probe.timeout.max(1)));
    case.now.duration_since(started) > first.saturating_add(SignedDuration::from_secs(10))
}
