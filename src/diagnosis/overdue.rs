//! States that every pod passes through, and that become a problem when they last too long.

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

/// A state that becomes a problem after `limit`.
pub(super) struct Overdue<'a> {
    pub(super) kind: ProblemKind,
    pub(super) reason: &'static str,
    /// When it began, as far as the pod shows it.
    pub(super) since: Option<Timestamp>,
    pub(super) limit: Duration,
    /// The containers that keep the pod in this state.
    containers: Vec<Container<'a>>,
    /// Whether the first of them causes the problem, rather than the pod as a whole.
    by_container: bool,
}

impl<'a> Overdue<'a> {
    /// The pod's state; none if it is running and ready.
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
        // A pod is unscheduled from its creation, but its condition may be younger.
        let created =
            clock.start_time([]).or_else(|| clock.start_time([scheduled.and_then(|condition| condition.since)]));
        Self {
            kind: ProblemKind::Unschedulable,
            reason: match scheduled.map(|condition| condition.reason.as_str()) {
                Some("Unschedulable") => "Unschedulable",
                Some("SchedulingGated") => "SchedulingGated",
                _ => "Pending",
            },
            since: created.max(pod.history.gate_removed),
            limit: thresholds.pending,
            containers: Vec::new(),
            by_container: false,
        }
    }

    fn starting(pod: &'a Pod, thresholds: &Thresholds, clock: &mut PodClock) -> Self {
        let scheduled = pod.condition("PodScheduled").filter(|condition| condition.status == "True");
        let mut since = clock.start_time([scheduled.and_then(|condition| condition.since), pod.started]);
        for init in containers(pod).take(pod.init_statuses.len()) {
            let state = &init.status.state;
            if init.completed() {
                since = clock.later(since, state.terminated.as_ref().and_then(|terminated| terminated.finished));
                continue;
            }
            let started = state.running.as_ref().and_then(|running| running.started);
            if pod.is_sidecar(&init.status.name) && init.status.started == Some(true) {
                since = clock.later(since, started);
                continue;
            }
            if init.is_running() {
                return Self {
                    kind: ProblemKind::Initializing,
                    reason: "Initializing",
                    since: clock.later(since, started),
                    limit: thresholds.initializing,
                    containers: vec![init],
                    by_container: true,
                };
            }
            break;
        }
        let waiting: Vec<_> =
            containers(pod).filter(|container| container.state() == ContainerStateName::Waiting).collect();
        let reported = pod.init_statuses.len() + pod.statuses.len();
        let creating = !waiting.is_empty() || reported < pod.init_containers.len() + pod.containers.len();
        Self {
            kind: ProblemKind::Creating,
            reason: if creating { "ContainerCreating" } else { "Pending" },
            since,
            limit: thresholds.pending,
            // Once the sandbox is ready, only the container itself, for example its image, can take so long.
            by_container: pod.is_true(SANDBOX) && !waiting.is_empty(),
            containers: waiting,
        }
    }

    fn not_ready(pod: &'a Pod, thresholds: &Thresholds, clock: &mut PodClock) -> Self {
        let ready = pod.condition("Ready").and_then(|condition| condition.since);
        let mut since = clock.start_time([ready, pod.started]);
        // Ready is False from the creation on, but the state begins when the last container was first started. Until then,
        // containers were being created.
        for container in containers(pod).filter(|container| container.status.restarts == 0) {
            since = clock.later(since, container.status.state.running.as_ref().and_then(|running| running.started));
        }
        let unready: Vec<_> = containers(pod)
            .filter(|container| !container.status.ready)
            // Init containers that are not running do not affect Ready.
            .filter(|container| container.kind != ContainerKind::Init || container.is_running())
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

    /// The container that causes the problem; empty if the pod as a whole does.
    pub(super) fn container(&self) -> &'a str {
        self.containers.first().filter(|_| self.by_container).map_or("", |container| &container.status.name)
    }

    pub(super) fn findings(&self) -> Vec<ContainerFinding> {
        self.containers.iter().map(|container| container.finding(None)).collect()
    }

    pub(super) fn message(&self, pod: &Pod) -> String {
        let names = |verbs| messages::names(&self.containers, verbs);
        match self.reason {
            "NotReady" => match (node::trouble(pod), messages::condition(pod, "Ready")) {
                (Some(node), _) => format!("not ready: {node}"),
                (None, Some(condition)) => format!("not ready: {condition}"),
                (None, None) if self.containers.is_empty() => "not ready".to_owned(),
                (None, None) => names(["is not ready", "are not ready"]),
            },
            "Initializing" => match self.containers.first() {
                Some(container) => format!("{} is still running", messages::title(*container)),
                None => String::new(),
            },
            "ContainerCreating" if self.containers.is_empty() => {
                format!("{} has not reported on it yet", messages::node(pod))
            }
            "ContainerCreating" if pod.condition(SANDBOX).is_some_and(|condition| condition.status == "False") => {
                names(["waits for the pod's network and volumes", "wait for the pod's network and volumes"])
            }
            "ContainerCreating" => names(["is not created yet", "are not created yet"]),
            _ => match pod.condition("PodScheduled") {
                Some(condition) if !condition.message.is_empty() => condition.message.to_string(),
                _ if pod.node.is_empty() => "not scheduled to a node yet".to_owned(),
                _ => "its containers run, but its phase is Pending".to_owned(),
            },
        }
    }
}

const SANDBOX: &str = "PodReadyToStartContainers";
