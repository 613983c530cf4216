//! Which log explains a container's trouble, and whose life it tells of.

use std::sync::Arc;

use jiff::Timestamp;

use super::{LogPolicy, Tail};
use crate::{
    api::{ContainerStateName, LogSource},
    diagnosis::{ContainerFinding, LogChoice},
    pods::{Pod, Uid},
};

/// A container's life, from one start to its end. A log is read once for each, not for each event: the
/// key is the same from the end of a life until the end of the next, whatever the container's state does
/// in between.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life {
    /// The pod.
    pub uid: Uid,
    /// The container's name.
    pub container: Arc<str>,
    /// Which of its lives.
    pub which: Which,
}

/// Which of a container's lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Which {
    /// The one that goes on, after so many restarts.
    Running(i32),
    /// One that is over, with the runtime's identity.
    Ended(Arc<str>),
    /// One that is over and has no identity: the runtime lost it, or never made it.
    Lost {
        /// When it ended.
        finished: Option<Timestamp>,
        /// The restarts at that time.
        restarts: i32,
    },
}

/// A log to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRequest {
    /// Whose log it is.
    pub life: Life,
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub pod: Arc<str>,
    /// The pod's node, whose kubelet answers; empty where there is none.
    pub node: Arc<str>,
    /// Whether it is the log of the life before the present one.
    pub previous: bool,
    /// Whether the next life runs already.
    pub started_again: bool,
    /// The termination message of that life, as the kubelet tells it; empty where there is none.
    pub termination_message: Arc<str>,
    /// How much is kept.
    pub policy: Arc<LogPolicy>,
}

/// What is to be done for a container's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// To read it.
    Read(LogRequest),
    /// Nothing: there is none, and no kubelet needs to be asked.
    Known(Tail),
}

impl LogRequest {
    /// Chooses the log that explains what was found.
    #[must_use]
    pub fn choose(pod: &Pod, finding: &ContainerFinding, policy: &Arc<LogPolicy>) -> Choice {
        if finding.log == LogChoice::NeverStarted {
            return Choice::Known(Tail::unavailable("the container never started"));
        }
        if pod.node.is_empty() {
            return Choice::Known(Tail::unavailable("the pod is on no node"));
        }
        let previous = finding.log == LogChoice::Previous;
        // What is known of an end is of the life that is asked for, unless that life goes on.
        let end = (previous || finding.state != ContainerStateName::Running)
            .then_some(finding.last_termination.as_ref())
            .flatten();
        let which = match end {
            Some(end) if !end.container_id.is_empty() => Which::Ended(end.container_id.as_str().into()),
            Some(end) => Which::Lost { finished: end.finished, restarts: finding.restarts },
            None if previous => Which::Lost { finished: None, restarts: finding.restarts },
            None => Which::Running(finding.restarts),
        };
        Choice::Read(Self {
            life: Life { uid: pod.uid, container: finding.name.as_str().into(), which },
            namespace: pod.namespace.as_str().into(),
            pod: pod.name.as_str().into(),
            node: pod.node.as_str().into(),
            previous,
            started_again: previous && finding.state == ContainerStateName::Running,
            termination_message: end.map_or("", |end| end.message.as_str()).into(),
            policy: Arc::clone(policy),
        })
    }

    /// Where a log that was read for this request comes from.
    #[must_use]
    pub fn source(&self) -> LogSource {
        if self.previous { LogSource::Previous } else { LogSource::Current }
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
            reason: String::new(),
            message: String::new(),
            ready: false,
            restarts,
            last_termination: end,
            log,
        }
    }

    fn end(id: &str) -> Option<Terminated> {
        Some(Terminated { container_id: id.into(), message: "out of cheese".into(), ..Terminated::default() })
    }

    fn choose(finding: &ContainerFinding) -> Choice {
        let pod = Pod {
            uid: Uid::from(7),
            namespace: "shop".into(),
            name: "cart".into(),
            node: "n".into(),
            ..Pod::default()
        };
        let policy = LogPolicy { tail_lines: 20, max_bytes: 4096, redact: true, redact_patterns: Vec::new() };
        LogRequest::choose(&pod, finding, &Arc::new(policy))
    }

    fn read(finding: &ContainerFinding) -> LogRequest {
        match choose(finding) {
            Choice::Read(request) => request,
            Choice::Known(tail) => panic!("{tail:?}"),
        }
    }

    use ContainerStateName::{Running, Terminated as Ended, Waiting};

    #[test]
    fn a_life_has_one_key_from_its_end_to_the_next() {
        let ended = read(&finding(LogChoice::Current, Ended, 3, end("containerd://a")));
        let waiting = read(&finding(LogChoice::Previous, Waiting, 3, end("containerd://a")));
        let again = read(&finding(LogChoice::Previous, Running, 4, end("containerd://a")));
        assert!(ended.life == waiting.life && waiting.life == again.life);
        assert_eq!((ended.previous, waiting.previous, again.previous), (false, true, true));
        assert_eq!(ended.source(), LogSource::Current);
        assert_eq!(again.source(), LogSource::Previous);

        let next = read(&finding(LogChoice::Previous, Waiting, 4, end("containerd://b")));
        assert_ne!(next.life, again.life);
    }

    #[test]
    fn a_life_without_identity_is_known_by_its_end() {
        let at = |second| {
            let finished = Timestamp::from_second(second).ok();
            read(&finding(LogChoice::Previous, Waiting, 3, Some(Terminated { finished, ..Terminated::default() }))).life
        };
        assert!(at(1) == at(1) && at(1) != at(2));
        assert_ne!(read(&finding(LogChoice::Previous, Waiting, 3, None)).life, at(1));
    }

    #[test]
    fn a_life_that_goes_on_is_not_explained_by_the_end_of_another() {
        let running = read(&finding(LogChoice::Current, Running, 3, end("containerd://a")));
        assert_eq!(running.life.which, Which::Running(3));
        assert_eq!(&*running.termination_message, "");
        let ended = read(&finding(LogChoice::Current, Ended, 3, end("containerd://a")));
        assert_eq!(&*ended.termination_message, "out of cheese");
    }

    #[test]
    fn where_there_is_no_log_no_kubelet_is_asked() {
        let never = choose(&finding(LogChoice::NeverStarted, Waiting, 0, None));
        assert_eq!(never, Choice::Known(Tail::unavailable("the container never started")));
        let policy = LogPolicy { tail_lines: 20, max_bytes: 4096, redact: true, redact_patterns: Vec::new() };
        let nowhere =
            LogRequest::choose(&Pod::default(), &finding(LogChoice::Current, Running, 0, None), &Arc::new(policy));
        assert_eq!(nowhere, Choice::Known(Tail::unavailable("the pod is on no node")));
    }
}
