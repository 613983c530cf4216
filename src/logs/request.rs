//! Which log explains a container's trouble, and which instance of the container it belongs to.

use std::sync::Arc;

use jiff::Timestamp;

use super::{LogPolicy, Need, Tail};
use crate::{
    api::{ContainerStateName, LogSource, NamespacedName},
    diagnosis::{ContainerFinding, LogChoice},
    pods::{Pod, Uid},
};

/// An object that asks for a log, and its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    pub object: Arc<NamespacedName>,
    pub namespace: Arc<str>,
}

/// One instance of a container, from its start to its end. A log is read once per instance, not once per event: the key
/// stays the same from the end of an instance to the end of the next, whatever state the container is in meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContainerInstance {
    /// The pod.
    pub uid: Uid,
    /// The container's name.
    pub container: Arc<str>,
    pub id: InstanceId,
}

/// Identifies an instance among those of one container.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum InstanceId {
    /// The running instance, by the number of restarts before it.
    Running(i32),
    /// An instance that has ended, by the runtime's container ID.
    Ended(Arc<str>),
    /// An instance that has ended without a container ID: the runtime lost or never created the container.
    Lost {
        finished: Option<Timestamp>,
        /// The number of restarts when it was observed.
        restarts: i32,
    },
}

/// A log that a policy shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    pub read: LogRead,
    /// Whether the next instance is already running.
    pub started_again: bool,
    /// The instance's termination message from the pod's status; may be empty.
    pub termination_message: Arc<str>,
    pub policy: Arc<LogPolicy>,
}

/// A log to read from a kubelet, for all policies that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRead {
    pub instance: ContainerInstance,
    pub namespace: Arc<str>,
    pub pod: Arc<str>,
    /// The node whose kubelet serves the log.
    pub node: Arc<str>,
    /// Whether to read the log of the instance before the present one.
    pub previous: bool,
    pub need: Need,
}

impl LogRequest {
    /// The log that explains a finding.
    ///
    /// # Errors
    /// If no log exists, so that the kubelet is not asked. The tail contains the reason.
    pub fn plan(pod: &Pod, finding: &ContainerFinding, policy: &Arc<LogPolicy>) -> Result<Self, Tail> {
        if finding.log == LogChoice::NeverStarted {
            return Err(Tail::unavailable("the container never started"));
        }
        if pod.node.is_empty() {
            return Err(Tail::unavailable("the pod is not scheduled to a node"));
        }
        let previous = finding.log == LogChoice::Previous;
        // `last_termination` describes the requested instance, unless that instance is still running.
        let end = (previous || finding.state != ContainerStateName::Running)
            .then_some(finding.last_termination.as_ref())
            .flatten();
        let id = match end {
            Some(end) if !end.container_id.is_empty() => InstanceId::Ended(end.container_id.as_str().into()),
            Some(end) => InstanceId::Lost { finished: end.finished, restarts: finding.restarts },
            None if previous => InstanceId::Lost { finished: None, restarts: finding.restarts },
            None => InstanceId::Running(finding.restarts),
        };
        let read = LogRead {
            instance: ContainerInstance { uid: pod.uid, container: finding.name.as_str().into(), id },
            namespace: pod.namespace.as_str().into(),
            pod: pod.name.as_str().into(),
            node: pod.node.as_str().into(),
            previous,
            need: Need::of(policy),
        };
        Ok(Self {
            read,
            started_again: previous && finding.state == ContainerStateName::Running,
            termination_message: end.map_or("", |end| end.message.as_str()).into(),
            policy: Arc::clone(policy),
        })
    }

    /// The `logSource` of a log that was read for this request.
    #[must_use]
    pub(crate) fn source(&self) -> LogSource {
        if self.read.previous { LogSource::Previous } else { LogSource::Current }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::ContainerKind, pods::Terminated};

    fn finding(log: LogChoice, state: ContainerStateName, restarts: i32, end: Option<Terminated>) -> ContainerFinding {
        ContainerFinding {
            name: "app".into(),
            kind: ContainerKind::App,
            state,
            reason: "".into(),
            message: String::new().into(),
            ready: false,
            restarts,
            last_termination: end,
            log,
        }
    }

    fn end(id: &str) -> Option<Terminated> {
        Some(Terminated { container_id: id.into(), message: "out of cheese".into(), ..Terminated::default() })
    }

    fn plan(finding: &ContainerFinding) -> Result<LogRequest, Tail> {
        let pod = Pod {
            uid: Uid::from(7),
            namespace: "shop".into(),
            name: "cart".into(),
            node: "n".into(),
            ..Pod::default()
        };
        let policy = LogPolicy { tail_lines: 20, max_bytes: 4096, redact: true, redact_patterns: Vec::new() };
        LogRequest::plan(&pod, finding, &Arc::new(policy))
    }

    fn read(finding: &ContainerFinding) -> LogRequest {
        plan(finding).unwrap()
    }

    use ContainerStateName::{Running, Terminated as Ended, Waiting};

    #[test]
    fn an_instance_has_one_key_from_its_end_to_the_end_of_the_next() {
        let ended = read(&finding(LogChoice::Current, Ended, 3, end("containerd://a")));
        let waiting = read(&finding(LogChoice::Previous, Waiting, 3, end("containerd://a")));
        let again = read(&finding(LogChoice::Previous, Running, 4, end("containerd://a")));
        assert!(ended.read.instance == waiting.read.instance && waiting.read.instance == again.read.instance);
        assert_eq!((ended.read.previous, waiting.read.previous, again.read.previous), (false, true, true));
        assert_eq!(ended.source(), LogSource::Current);
        assert_eq!(again.source(), LogSource::Previous);

        let next = read(&finding(LogChoice::Previous, Waiting, 4, end("containerd://b")));
        assert_ne!(next.read.instance, again.read.instance);
    }

    #[test]
    fn an_instance_without_id_is_identified_by_its_end() {
        let at = |second| {
            let finished = Timestamp::from_second(second).ok();
            read(&finding(LogChoice::Previous, Waiting, 3, Some(Terminated { finished, ..Terminated::default() })))
                .read
                .instance
        };
        assert!(at(1) == at(1) && at(1) != at(2));
        assert_ne!(read(&finding(LogChoice::Previous, Waiting, 3, None)).read.instance, at(1));
    }

    #[test]
    fn a_running_instance_ignores_the_end_of_the_previous_one() {
        let running = read(&finding(LogChoice::Current, Running, 3, end("containerd://a")));
        assert_eq!(running.read.instance.id, InstanceId::Running(3));
        assert_eq!(&*running.termination_message, "");
        let ended = read(&finding(LogChoice::Current, Ended, 3, end("containerd://a")));
        assert_eq!(&*ended.termination_message, "out of cheese");
    }

    #[test]
    fn asks_no_kubelet_when_no_log_exists() {
        let never = plan(&finding(LogChoice::NeverStarted, Waiting, 0, None));
        assert_eq!(never, Err(Tail::unavailable("the container never started")));
        let policy = LogPolicy { tail_lines: 20, max_bytes: 4096, redact: true, redact_patterns: Vec::new() };
        let nowhere =
            LogRequest::plan(&Pod::default(), &finding(LogChoice::Current, Running, 0, None), &Arc::new(policy));
        assert_eq!(nowhere, Err(Tail::unavailable("the pod is not scheduled to a node")));
    }
}
