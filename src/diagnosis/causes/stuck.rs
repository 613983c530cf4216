//! Explains states that last too long: containers that are not created, init containers that do not end, and pods whose
//! deletion does not complete.

use jiff::SignedDuration;

use crate::{api::Cause, events::Event, pods::Pod};

use super::{
    super::{
        container::{Container, SANDBOX, containers},
        messages::first_of,
    },
    Case, Found,
    case::time_of_day,
    failed,
    kill::failure,
    name_of,
    parse::without_grpc,
    volumes,
};

/// How many containers are named that wait for an init container.
const WAITING: usize = 3;

pub(super) fn creating<'a>(case: &Case<'a>, container: Option<Container<'a>>) -> Found {
    let pod = case.pod;
    if pod.is_true(SANDBOX) {
        return match container {
            Some(container) => Found::silent(format!(
                "{} is not created yet although the pod's network and volumes are set up: its image may still be being pulled",
                name_of(container)
            )),
            None => Found::silent("the containers are not created yet"),
        };
    }
    let not_set_up = pod.condition(SANDBOX).is_some_and(|condition| condition.status == "False");
    // The volumes are mounted before the sandbox is created.
    let (volume, sandbox) = (volumes::explain(case), sandbox(case));
    let latest = match (volume, sandbox) {
        (Some(volume), Some(sandbox)) => Some(if sandbox.0.last >= volume.0.last { sandbox } else { volume }),
        (volume, sandbox) => volume.or(sandbox),
    };
    // A single error at the start of a pod is often over. Without the condition, nothing shows that it is not.
    if let Some((_, found)) = latest.filter(|(event, _)| not_set_up || event.count > 1) {
        return found.detailed();
    }
    let claims = case.events(&["FailedPrepareDynamicResources", "FailedCreatePodContainer"], "").next();
    if let Some(event) = claims.filter(|_| not_set_up) {
        return Found::unknown(event.text()).detailed();
    }
    if pod.init_statuses.is_empty() && pod.statuses.is_empty() {
        return Found::silent("the node has not reported on the pod yet");
    }
    Found::silent("the containers are not created: the pod's network or a volume is not set up yet")
}

/// Why the pod's sandbox or its network cannot be set up, with the event about the last attempt.
fn sandbox<'a>(case: &Case<'a>) -> Option<(&'a Event, Found)> {
    let event = case.events(&["FailedCreatePodSandBox", "NetworkNotReady"], "").next()?;
    let message = event.text();
    let sentence = match message.strip_prefix("network is not ready: ") {
        Some(error) => format!("the network of the node is not ready: {error}"),
        None => {
            let error = message.strip_prefix("Failed to create pod sandbox: ").unwrap_or(message);
            format!("the pod's sandbox cannot be created: {}", without_ids(without_grpc(error)))
        }
    };
    (!message.trim().is_empty()).then(|| (event, Found::new(Cause::SandboxFailed, sentence)))
}

/// The text without the quoted identifiers of sandboxes, which differ at each attempt.
fn without_ids(error: &str) -> String {
    let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let ids = error.split('"').filter(is_id);
    ids.take(4).fold(error.to_owned(), |text, id| text.replace(&format!(" \"{id}\""), ""))
}

pub(super) fn initializing<'a>(case: &Case<'a>, container: Container<'a>) -> Found {
    let name = name_of(container);
    if container.status.started == Some(false)
        && container.spec.is_some_and(|spec| spec.is_sidecar() && spec.startup_probe.is_some())
    {
        let events = case.events(&["Unhealthy"], &container.status.name);
        let started = container.started();
        let answer = events
            .filter(|event| started.is_none_or(|started| event.last.is_some_and(|last| last >= started)))
            .find_map(|event| failure(event, "Startup"));
        return match answer {
            Some(answer) => {
                Found::new(Cause::StartupProbe, format!("the startup probe of {name} fails: {answer}")).detailed()
            }
            None => Found::silent(format!("{name} has not passed its startup probe yet")),
        };
    }
    let started = container.started();
    let since = started.map(|started| format!(" since {}", time_of_day(started))).unwrap_or_default();
    let (waiting, verb) = waiting_after(case.pod, container);
    Found::unknown(format!("{name} has been running{since}, and {waiting} {verb} for its end: its log may show why"))
}

/// The containers that are started after an init container, and the verb that fits.
fn waiting_after(pod: &Pod, container: Container<'_>) -> (String, &'static str) {
    let is_later = |other: &Container<'_>| other.status.name != container.status.name;
    let later = containers(pod).skip_while(is_later).skip(1);
    let names: Vec<String> = later.filter(|other| !other.completed() && !other.is_running()).map(name_of).collect();
    match names.len() {
        0 => ("the other containers".to_owned(), "wait"),
        1 => (names.concat(), "waits"),
        _ => (first_of(names, WAITING, 0), "wait"),
    }
}

pub(super) fn terminating(case: &Case<'_>, message: &str) -> Found {
    let pod = case.pod;
    // A node that is gone cannot report that the containers have ended.
    let has_ended =
        !pod.statuses.is_empty() && containers(pod).all(|container| container.status.state.terminated.is_some());
    if let Some(found) = failed::lost_node(pod)
        && (pod.finalizers.is_empty() || !has_ended)
    {
        return found;
    }
    let runs = containers(pod).any(|container| container.is_running());
    match pod.finalizers.count() {
        // Until the kubelet has confirmed the end, it may itself be what does not complete, for instance an unmount.
        count if count == 0 || runs || pod.deletion_grace != Some(0) => {
            pre_stop(case, message).unwrap_or_else(|| Found::unknown(format!("the pod does not terminate: {message}")))
        }
        1 => Found::new(Cause::Finalizer, format!("the finalizer {} holds the deleted pod", pod.finalizers)),
        _ => Found::new(Cause::Finalizer, format!("the finalizers {} hold the deleted pod", pod.finalizers)),
    }
}

/// What is known about the preStop hook of a container that runs on after the grace period. The kubelet stops waiting for
/// the hook then, and kills the container. Only its event about the hook proves that something is wrong with it; a container
/// that the runtime cannot kill runs on whatever its hook does.
fn pre_stop(case: &Case<'_>, message: &str) -> Option<Found> {
    let pod = case.pod;
    let grace = SignedDuration::from_secs(pod.deletion_grace.unwrap_or_default().max(0));
    let requested = pod.deletion?.checked_sub(grace).ok()?;
    let is_own = |event: &&Event| event.last.or(event.first).is_some_and(|last| last >= requested);
    if case.events(&["FailedKillPod", "ExceededGracePeriod"], "").any(|event| is_own(&event)) {
        return None;
    }
    let mut hooked = containers(pod)
        .filter(|container| container.is_running() && container.spec.is_some_and(|spec| spec.has_pre_stop))
        .peekable();
    let first = name_of(*hooked.peek()?);
    let failed = hooked.find(|container| {
        let mut events = case.events(&["FailedPreStopHook"], &container.status.name);
        events.any(|event| event.involved.container == container.status.name && is_own(&event))
    });
    Some(match failed.map(name_of) {
        Some(name) => Found::new(
            Cause::PreStopHook,
            format!(
                "the preStop hook of {name} failed, and {name} still runs after its grace period of {} s",
                grace.as_secs()
            ),
        )
        .detailed(),
        None => Found::unknown(format!(
            "the pod does not terminate: {message}; {first} has a preStop hook, which may still run"
        )),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_the_identifiers_of_sandboxes() {
        let id = "0123456789abcdef".repeat(4);
        let error =
            format!("failed to setup network for sandbox \"{id}\": plugin type=\"x\" failed (add): no IP addresses");
        assert_eq!(
            without_ids(&error),
            "failed to setup network for sandbox: plugin type=\"x\" failed (add): no IP addresses"
        );
        assert_eq!(without_ids("plugin type=\"calico\" failed"), "plugin type=\"calico\" failed");
    }
}
