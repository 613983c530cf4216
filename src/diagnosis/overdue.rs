//! States that are part of a pod's normal life, and a problem once they last too long.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    api::{ContainerKind, ContainerStateName, ProblemKind},
    pods::Pod,
};

use super::{
    container::{Container, containers},
    finding::ContainerFinding,
    messages, node,
    pod_clock::PodClock,
    thresholds::Thresholds,
};

/// A state that may last for a while.
pub(super) struct Overdue<'a> {
    /// What kind of problem it then is.
    pub(super) kind: ProblemKind,
    /// Its reason, once it is a problem.
    pub(super) reason: &'static str,
    /// When it began, as far as the pod tells.
    pub(super) since: Option<Timestamp>,
    /// How long it may last.
    pub(super) limit: Duration,
    /// The containers that keep the pod in it.
    containers: Vec<Container<'a>>,
    /// Whether the first of them causes it, rather than the pod as a whole.
    by_container: bool,
}

impl<'a> Overdue<'a> {
    /// The state that this pod is in; absent where it runs and is ready.
    pub(super) fn of(pod: &'a Pod, thresholds: &Thresholds, clock: &mut PodClock) -> Option<Self> {
        match pod.phase.as_str() {
            "Pending" | "" if pod.node.is_empty() && !pod.is_true("PodScheduled") => {
                Some(Self::unscheduled(pod, thresholds, clock))
            }
            "Pending" | "" => Some(Self::starting(pod, thresholds, clock)),
            _ if pod.is_true("Ready") => None,
            _ => Some(Self::not_ready(pod, thresholds, clock)),
        }
    }

    fn unscheduled(pod: &'a Pod, thresholds: &Thresholds, clock: &mut PodClock) -> Self {
        let scheduled = pod.condition("PodScheduled");
        // It has not been scheduled since it exists, whatever scheduler said so when.
        let began = clock.began([]).or_else(|| clock.began([scheduled.and_then(|condition| condition.since)]));
        Self {
            kind: ProblemKind::Unschedulable,
            reason: match scheduled.map(|condition| condition.reason.as_str()) {
                Some("Unschedulable") => "Unschedulable",
                Some("SchedulingGated") => "SchedulingGated",
                _ => "Pending",
            },
            since: began.max(pod.history.gate_removed),
            limit: thresholds.pending,
            containers: Vec::new(),
            by_container: false,
        }
    }

    fn starting(pod: &'a Pod, thresholds: &Thresholds, clock: &mut PodClock) -> Self {
        let scheduled = pod.condition("PodScheduled").filter(|condition| condition.status == "True");
        let mut since = clock.began([scheduled.and_then(|condition| condition.since), pod.started]);
        for init in containers(pod).take(pod.init_statuses.len()) {
            let life = &init.status.state;
            if init.completed() {
                since = clock.later(since, life.terminated.as_ref().and_then(|life| life.finished));
                continue;
            }
            let began = life.running.as_ref().and_then(|life| life.started);
            if pod.is_sidecar(&init.status.name) && init.status.started == Some(true) {
                since = clock.later(since, began);
                continue;
            }
            if init.runs() {
                return Self {
                    kind: ProblemKind::Initializing,
                    reason: "Initializing",
                    since: clock.later(since, began),
                    limit: thresholds.initializing,
                    containers: vec![init],
                    by_container: true,
                };
            }
            break;
        }
        let waiting: Vec<_> =
            containers(pod).filter(|container| container.state() == ContainerStateName::Waiting).collect();
        let known = pod.init_statuses.len() + pod.statuses.len();
        let creating = !waiting.is_empty() || known < pod.init_containers.len() + pod.containers.len();
        Self {
            kind: ProblemKind::Creating,
            reason: if creating { "ContainerCreating" } else { "Pending" },
            since,
            limit: thresholds.pending,
            // With the sandbox up, only the container itself, such as its image, can be what takes so long.
            by_container: pod.is_true(SANDBOX) && !waiting.is_empty(),
            containers: waiting,
        }
    }

    fn not_ready(pod: &'a Pod, thresholds: &Thresholds, clock: &mut PodClock) -> Self {
        let ready = pod.condition("Ready").and_then(|condition| condition.since);
        let mut since = clock.began([ready, pod.started]);
        // Ready is False from the beginning, but the pod runs only since its last container was started
        // for the first time: until then it was being created.
        for container in containers(pod).filter(|container| container.status.restarts == 0) {
            since = clock.later(since, container.status.state.running.as_ref().and_then(|life| life.started));
        }
        let unready: Vec<_> = containers(pod)
            .filter(|container| !container.status.ready)
            // An init container that isn't done isn't what Ready tells of.
            .filter(|container| container.kind != ContainerKind::Init || container.runs())
            .collect();
        Self {
            kind: ProblemKind::NotReady,
            reason: "NotReady",
            since,
            limit: thresholds.not_ready,
            by_container: !unready.is_empty(),
            containers: unready,
        }
    }

    /// The container that causes it; empty where the pod as a whole does.
    pub(super) fn container(&self) -> &'a str {
        self.containers.first().filter(|_| self.by_container).map_or("", |container| &container.status.name)
    }

    pub(super) fn findings(&self) -> Vec<ContainerFinding> {
        self.containers.iter().map(|container| container.finding(None)).collect()
    }

    /// The state in words.
    pub(super) fn message(&self, pod: &Pod) -> String {
        let names = |verbs| messages::names(&self.containers, verbs);
        match self.reason {
            "NotReady" => match (node::trouble(pod), messages::of_condition(pod, "Ready")) {
                (Some(node), _) => format!("not ready: {node}"),
                (None, Some(condition)) => format!("not ready: {condition}"),
                (None, None) if self.containers.is_empty() => "not ready".to_owned(),
                (None, None) => names(["is not ready", "are not ready"]),
            },
            "Initializing" => match self.containers.first() {
                Some(container) => format!("{} is still running", messages::title(*container)),
                None => String::new(),
            },
            "ContainerCreating" if pod.init_statuses.is_empty() && pod.statuses.is_empty() => {
                format!("{} has not reported on it yet", messages::node(pod))
            }
            "ContainerCreating" if pod.condition(SANDBOX).is_some_and(|condition| condition.status == "False") => {
                names(["waits for the pod's network and volumes", "wait for the pod's network and volumes"])
            }
            "ContainerCreating" => names(["is not created yet", "are not created yet"]),
            _ => match pod.condition("PodScheduled") {
                Some(condition) if !condition.message.is_empty() => condition.message.clone(),
                _ if pod.node.is_empty() => "not scheduled to a node yet".to_owned(),
                _ => "its containers run, but its phase is Pending".to_owned(),
            },
        }
    }
}

const SANDBOX: &str = "PodReadyToStartContainers";
