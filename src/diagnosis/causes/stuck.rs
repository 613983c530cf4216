//! Explains states that last too long: containers that are not created, init containers that do not end, and pods whose
//! deletion does not complete.

use jiff::SignedDuration;

use crate::{api::Cause, events::Event, pods::Pod};

use super::{
    super::{
        container::{Container, containers},
        node,
    },
    Found, View,
    evidence::{text, time_of_day},
    failed,
    kill::failure,
    name_of, sandbox, volumes,
};

/// The condition that the pod's sandbox runs. Its volumes are mounted before.
const SANDBOX: &str = "PodReadyToStartContainers";

/// How many containers are named that wait for an init container.
const WAITING: usize = 3;

pub(super) fn creating<'a>(view: &View<'a>, container: Option<Container<'a>>) -> Found {
    let pod = view.pod;
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
    let (volume, sandbox) = (volumes::explain(view), sandbox::explain(view));
    let latest = match (volume, sandbox) {
        (Some(volume), Some(sandbox)) => Some(if sandbox.0.last >= volume.0.last { sandbox } else { volume }),
        (volume, sandbox) => volume.or(sandbox),
    };
    // A single error at the start of a pod is often over. Without the condition, nothing shows that it is not.
    if let Some((_, found)) = latest.filter(|(event, _)| not_set_up || event.count > 1) {
        return found.detailed();
    }
    let claims = view.events(&["FailedPrepareDynamicResources", "FailedCreatePodContainer"], "").next();
    if let Some(event) = claims.filter(|_| not_set_up) {
        return Found::unknown(text(event)).detailed();
    }
    if pod.init_statuses.is_empty() && pod.statuses.is_empty() {
        return Found::silent("the node has not reported on the pod yet");
    }
    Found::silent("the containers are not created: the pod's network or a volume is not set up yet")
}

pub(super) fn initializing<'a>(view: &View<'a>, container: Container<'a>) -> Found {
    let name = name_of(container);
    if container.status.started == Some(false)
        && container.spec.is_some_and(|spec| spec.is_sidecar() && spec.startup_probe.is_some())
    {
        let events = view.events(&["Unhealthy"], &container.status.name);
        let started = container.status.state.running.as_ref().and_then(|running| running.started);
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
    let started = container.status.state.running.as_ref().and_then(|running| running.started);
    let since = started.map(|started| format!(" since {}", time_of_day(started))).unwrap_or_default();
    let (waiting, verb) = waiting_after(view.pod, container);
    Found::unknown(format!("{name} has been running{since}, and {waiting} {verb} for its end: its log may show why"))
}

/// The containers that are started after an init container, and the verb that fits.
fn waiting_after(pod: &Pod, container: Container<'_>) -> (String, &'static str) {
    let is_later = |other: &Container<'_>| other.status.name != container.status.name;
    let later = containers(pod).skip_while(is_later).skip(1);
    let names: Vec<String> = later.filter(|other| !other.completed() && !other.is_running()).map(name_of).collect();
    let shown = names.get(..WAITING).unwrap_or(&names).join(", ");
    match names.len() {
        0 => ("the other containers".to_owned(), "wait"),
        1 => (shown, "waits"),
        2..=WAITING => (shown, "wait"),
        all => (format!("{shown} and {} more", all - WAITING), "wait"),
    }
}

pub(super) fn terminating(view: &View<'_>, message: &str) -> Found {
    let pod = view.pod;
    // A node that is gone cannot report that the containers have ended.
    let has_ended =
        !pod.statuses.is_empty() && containers(pod).all(|container| container.status.state.terminated.is_some());
    if let Some(trouble) = node::trouble(pod)
        && (pod.finalizers.is_empty() || !has_ended)
    {
        return failed::node_not_ready(pod, trouble);
    }
    let runs = containers(pod).any(|container| container.is_running());
    match pod.finalizers.count() {
        // Until the kubelet has confirmed the end, it may itself be what does not complete, for instance an unmount.
        count if count == 0 || runs || pod.deletion_grace != Some(0) => {
            pre_stop(view, message).unwrap_or_else(|| Found::unknown(format!("the pod does not terminate: {message}")))
        }
        1 => Found::new(Cause::Finalizer, format!("the finalizer {} holds the deleted pod", pod.finalizers)),
        _ => Found::new(Cause::Finalizer, format!("the finalizers {} hold the deleted pod", pod.finalizers)),
    }
}

/// What is known about the preStop hook of a container that runs on after the grace period. The kubelet stops waiting for
/// the hook then, and kills the container. Only its event about the hook proves that something is wrong with it; a container
/// that the runtime cannot kill runs on whatever its hook does.
fn pre_stop(view: &View<'_>, message: &str) -> Option<Found> {
    let pod = view.pod;
    let grace = SignedDuration::from_secs(pod.deletion_grace.unwrap_or_default().max(0));
    let requested = pod.deletion?.checked_sub(grace).ok()?;
    let is_own = |event: &&Event| event.last.or(event.first).is_some_and(|last| last >= requested);
    if view.events(&["FailedKillPod", "ExceededGracePeriod"], "").any(|event| is_own(&event)) {
        return None;
    }
    let mut hooked = containers(pod)
        .filter(|container| container.is_running() && container.spec.is_some_and(|spec| spec.has_pre_stop))
        .peekable();
    let first = name_of(*hooked.peek()?);
    let failed = hooked.find(|container| {
        let mut events = view.events(&["FailedPreStopHook"], &container.status.name);
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

pub(super) fn node_lost(view: &View<'_>) -> Found {
    match node::trouble(view.pod) {
        Some(trouble) => failed::node_not_ready(view.pod, trouble),
        None => Found::default(),
    }
}
