//! What a judgement says.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    api::{ContainerKind, ContainerStateName, Owner, ProblemKind},
    pods::Terminated,
};

/// A judgement, and how long it stands by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What the pod is now.
    pub health: Health,
    /// When time alone may change that: a threshold is reached, or a failure is old enough to be
    /// forgotten. Always after the time of judgement. Absent where only a change of the pod can.
    pub recheck: Option<Timestamp>,
}

/// What a pod is.
#[derive(Clone, Debug, PartialEq)]
pub enum Health {
    /// Nothing is wrong, or nothing will be said of it.
    Healthy,
    /// In a state that is no problem before the verdict's `recheck`.
    Settling,
    /// Something is wrong.
    Problem(Box<Finding>),
}

/// What is wrong with a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What `kubectl get pods` prints as its STATUS.
    pub status: String,
    /// What kind of problem it is, whatever the kubelet shows at the moment.
    pub kind: ProblemKind,
    /// The cause.
    pub reason: String,
    /// The container that causes it; empty where the pod as a whole does.
    pub container: String,
    /// The cause in words; one line.
    pub message: String,
    /// When it began, as far as the pod tells.
    pub since: Timestamp,
    /// For how long after that it was no problem yet, by the thresholds.
    pub tolerated: Duration,
    /// The top controller as far as names tell.
    pub owner: Option<Owner>,
    /// Each troubled container: those that cause the problem first, then in the pod's order.
    pub containers: Vec<ContainerFinding>,
    /// What else is wrong with the pod, one for each further troubled container.
    pub others: Vec<Cause>,
}

/// One of several things that are wrong with a pod at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// What kind of problem it is.
    pub kind: ProblemKind,
    /// The reason.
    pub reason: String,
    /// The container.
    pub container: String,
    /// In words; one line.
    pub message: String,
    /// When it began, as far as the pod shows.
    pub since: Timestamp,
}

impl Finding {
    /// Makes the cause at `index` of `others` the one that the finding is about.
    pub fn promote(&mut self, index: usize) {
        let Some(other) = self.others.get_mut(index) else { return };
        std::mem::swap(&mut self.kind, &mut other.kind);
        std::mem::swap(&mut self.reason, &mut other.reason);
        std::mem::swap(&mut self.container, &mut other.container);
        std::mem::swap(&mut self.message, &mut other.message);
        std::mem::swap(&mut self.since, &mut other.since);
        if let Some(place) = self.containers.iter().position(|container| container.name == self.container) {
            self.containers[..=place].rotate_right(1);
        }
    }
}

/// What is wrong with a container.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerFinding {
    /// The container's name.
    pub name: String,
    /// What it is to its pod.
    pub kind: ContainerKind,
    /// Its present state.
    pub state: ContainerStateName,
    /// The state's reason.
    pub reason: String,
    /// The state's message.
    pub message: String,
    /// Whether it passes its readiness probe.
    pub ready: bool,
    /// How often it was restarted.
    pub restarts: i32,
    /// How its present life ended, or else its previous one.
    pub last_termination: Option<Terminated>,
    /// Which log explains it.
    pub log: LogChoice,
}

/// Which log explains a container's trouble. Decided with the pod in hand; read later, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogChoice {
    /// The life before the present one: it failed, and the container was started again or is about to be.
    Previous,
    /// The present life: it runs but isn't ready, or it has ended and isn't started again.
    Current,
    /// No life ever started: there is no log, and the kubelet isn't asked.
    NeverStarted,
}
