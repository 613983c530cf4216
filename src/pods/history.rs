//! Observations of earlier versions of a pod that its present version no longer shows.

use jiff::Timestamp;

use crate::clock::MAX_SKEW;

use super::{ContainerStatus, Pod};

/// Observations of earlier versions of a pod. They are lost when the operator restarts, so a verdict must not depend on
/// them, except in the pod's favour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// When the last scheduling gate was first seen to be removed.
    pub gate_removed: Option<Timestamp>,
    /// How far the clocks that wrote the pod's status were ahead of ours, in seconds.
    pub node_ahead: u32,
    /// How far the API server's clock was ahead of ours, in seconds.
    pub server_ahead: u32,
    /// Why containers were restarted; the latest start of each.
    starts: Vec<Start>,
}

#[derive(Clone, Debug, PartialEq)]
struct Start {
    container: String,
    restarts: i32,
    cause: StartCause,
}

/// Why a container instance was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartCause {
    /// After a CrashLoopBackOff.
    BackOff,
    /// After a resize of a resource whose resize policy asks for a restart.
    Resize,
}

impl History {
    /// Why the present instance of a container was started, if that was observed.
    #[must_use]
    pub(crate) fn start_cause(&self, container: &ContainerStatus) -> Option<StartCause> {
        let is_present = |start: &&Start| start.container == container.name && start.restarts == container.restarts;
        self.starts.iter().find(is_present).map(|start| start.cause)
    }
}

impl Pod {
    /// Whether the kubelet is resizing the pod.
    #[must_use]
    pub(crate) fn is_resizing(&self) -> bool {
        self.is_true("PodResizeInProgress")
    }

    fn is_gated(&self) -> bool {
        self.condition("PodScheduled").is_some_and(|condition| condition.reason == "SchedulingGated")
    }

    /// Fills in the history of a version that was received at `now`, from the version before it.
    pub fn update_history(&mut self, previous: Option<&Self>, now: Timestamp) {
        let mut history = previous.map(|previous| previous.history.clone()).unwrap_or_default();
        if previous.is_some_and(Self::is_gated) && !self.is_gated() {
            history.gate_removed = Some(now);
        }
        history.server_ahead = history.server_ahead.max(seconds_ahead([self.created], now));
        history.node_ahead = history.node_ahead.max(seconds_ahead(self.kubelet_times(), now));
        let is_resizing = self.is_resizing() || previous.is_some_and(Self::is_resizing);
        let mut starts = Vec::new();
        for status in self.init_statuses.iter().chain(&self.statuses) {
            let earlier = previous.and_then(|previous| previous.status_of(&status.name));
            let cause = earlier.and_then(|earlier| {
                let was_in_back_off =
                    earlier.state.waiting.as_ref().is_some_and(|waiting| waiting.reason == "CrashLoopBackOff");
                let started = status.state.running.is_some() || status.state.terminated.is_some();
                let restarted = status.restarts > earlier.restarts;
                match () {
                    () if was_in_back_off && started => Some(StartCause::BackOff),
                    () if is_resizing && restarted => Some(StartCause::Resize),
                    () => None,
                }
            });
            let known = history.starts.iter().find(|start| start.container == status.name);
            let start = match cause {
                Some(cause) => Some(Start { container: status.name.clone(), restarts: status.restarts, cause }),
                None => known.filter(|start| start.restarts == status.restarts).cloned(),
            };
            starts.extend(start);
        }
        history.starts = starts;
        self.history = history;
    }

    fn status_of(&self, container: &str) -> Option<&ContainerStatus> {
        self.init_statuses.iter().chain(&self.statuses).find(|status| status.name == container)
    }

    /// The times in the status that the kubelet writes.
    fn kubelet_times(&self) -> impl Iterator<Item = Option<Timestamp>> {
        const CONDITIONS: [&str; 4] = ["Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers"];
        let own = self.conditions.iter().filter(|condition| CONDITIONS.contains(&condition.kind.as_str()));
        let conditions = own.map(|condition| condition.since);
        let containers = self.init_statuses.iter().chain(&self.statuses).flat_map(|status| {
            let running = status.state.running.as_ref().and_then(|running| running.started);
            let ended = status.state.terminated.as_ref().and_then(|terminated| terminated.finished);
            [running, ended]
        });
        conditions.chain(containers).chain([self.started])
    }
}

/// How far the latest of these times is ahead of `now`. A time further ahead than [`MAX_SKEW`] is ignored.
fn seconds_ahead(times: impl IntoIterator<Item = Option<Timestamp>>, now: Timestamp) -> u32 {
    let ahead = times.into_iter().flatten().map(|time| time.duration_since(now)).filter(|ahead| *ahead <= MAX_SKEW);
    ahead.max().and_then(|ahead| u32::try_from(ahead.as_secs()).ok()).unwrap_or_default()
}
