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
