//! What earlier versions of a pod showed that its present version no longer does.

use jiff::{SignedDuration, Timestamp};

use super::{ContainerStatus, Pod};

/// The most by which clocks are expected to differ. A time further in the future means nothing.
const SKEW: SignedDuration = SignedDuration::from_mins(10);

/// What the watch has seen of a pod before its present version. It is lost when the operator restarts, so a verdict
/// must not depend on it alone, except in favour of the pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// When its last scheduling gate was seen to be gone.
    pub gate_removed: Option<Timestamp>,
    /// How far the clocks that wrote its status were ahead of ours, in seconds.
    pub node_ahead: u32,
    /// How far the API server's clock was ahead of ours, in seconds.
    pub server_ahead: u32,
    /// How containers came to be started again; the latest start of each.
    starts: Vec<Start>,
}

#[derive(Clone, Debug, PartialEq)]
struct Start {
    container: String,
    restarts: i32,
    cause: StartCause,
}

/// What a container was started after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartCause {
    /// The kubelet had held it back, which it does with a container that ends too often.
    BackOff,
    /// A resource was resized whose resize policy asks for a restart.
    Resize,
}

impl History {
    /// What the present life of a container was started after, as far as it was seen.
    #[must_use]
    pub fn start_cause(&self, container: &ContainerStatus) -> Option<StartCause> {
        let is_present = |start: &&Start| start.container == container.name && start.restarts == container.restarts;
        self.starts.iter().find(is_present).map(|start| start.cause)
    }
}

impl Pod {
    /// Whether the kubelet is resizing the pod.
    #[must_use]
    pub fn is_resizing(&self) -> bool {
        self.is_true("PodResizeInProgress")
    }

    /// Whether a scheduling gate holds the pod.
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.condition("PodScheduled").is_some_and(|condition| condition.reason == "SchedulingGated")
    }

    /// Fills in the history of a version that has just been read at `now`, from the version before it.
    pub fn remember(&mut self, before: Option<&Self>, now: Timestamp) {
        let mut history = before.map(|before| before.history.clone()).unwrap_or_default();
        if before.is_some_and(Self::is_gated) && !self.is_gated() {
            history.gate_removed = Some(now);
        }
        history.server_ahead = history.server_ahead.max(ahead([self.created], now));
        history.node_ahead = history.node_ahead.max(ahead(self.node_times(), now));
        let resizing = self.is_resizing() || before.is_some_and(Self::is_resizing);
        let mut starts = Vec::new();
        for status in self.init_statuses.iter().chain(&self.statuses) {
            let earlier = before.and_then(|before| before.status_of(&status.name));
            let cause = earlier.and_then(|earlier| {
                let held_back =
                    earlier.state.waiting.as_ref().is_some_and(|waiting| waiting.reason == "CrashLoopBackOff");
                let started = status.state.running.is_some() || status.state.terminated.is_some();
                let restarted = status.restarts > earlier.restarts;
                match () {
                    () if held_back && started => Some(StartCause::BackOff),
                    () if resizing && restarted => Some(StartCause::Resize),
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

    /// The times that the kubelet wrote.
    fn node_times(&self) -> impl Iterator<Item = Option<Timestamp>> {
        const KUBELETS: [&str; 4] = ["Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers"];
        let own = self.conditions.iter().filter(|condition| KUBELETS.contains(&condition.kind.as_str()));
        let conditions = own.map(|condition| condition.since);
        let containers = self.init_statuses.iter().chain(&self.statuses).flat_map(|status| {
            let running = status.state.running.as_ref().and_then(|running| running.started);
            let ended = status.state.terminated.as_ref().and_then(|life| life.finished);
            [running, ended]
        });
        conditions.chain(containers).chain([self.started])
    }
}

/// How far the latest of these times is ahead of `now`, in seconds.
fn ahead(times: impl IntoIterator<Item = Option<Timestamp>>, now: Timestamp) -> u32 {
    let ahead = times.into_iter().flatten().map(|time| time.duration_since(now)).filter(|ahead| *ahead <= SKEW);
    ahead.max().and_then(|ahead| u32::try_from(ahead.as_secs()).ok()).unwrap_or_default()
}
