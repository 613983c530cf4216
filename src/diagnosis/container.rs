//! A container's trouble: whether it has one, what it is called, since when, and which log explains it.

use std::{borrow::Cow, time::Duration};

use jiff::Timestamp;

use crate::{
    api::{ContainerKind, ContainerStateName, ProblemKind},
    pods::{ContainerSpec, ContainerStatus, Pod, Terminated, Waiting},
};

use super::{
    clock::{Clock, after},
    finding::{ContainerFinding, LogChoice},
    printed::termination_reason,
    text::{REASON_LIMIT, one_line},
};

/// A container that the pod's status tells of; its spec may lack it.
#[derive(Clone, Copy)]
pub(super) struct Container<'a> {
    pub(super) kind: ContainerKind,
    pub(super) status: &'a ContainerStatus,
    pub(super) spec: Option<&'a ContainerSpec>,
}

/// What is wrong with a container.
#[derive(Clone, Copy)]
pub(super) enum Trouble<'a> {
    /// It waits, for a reason that is no part of a normal start.
    Waits(&'a Waiting),
    /// Its life is over, and failed.
    Ended(&'a Terminated),
    /// It failed, and was started again.
    Restarted(&'a Terminated),
}

/// The pod's containers: init containers and sidecars, then the others, each in the status' order.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = Container<'_>> {
    fn spec<'a>(specs: &'a [ContainerSpec], status: &ContainerStatus) -> Option<&'a ContainerSpec> {
        specs.iter().find(|spec| spec.name == status.name)
    }
    let init = pod.init_statuses.iter().map(|status| {
        let spec = spec(&pod.init_containers, status);
        let sidecar = spec.is_some_and(|spec| spec.restart_always);
        Container { kind: if sidecar { ContainerKind::Sidecar } else { ContainerKind::Init }, status, spec }
    });
    let app = pod.statuses.iter().map(|status| Container {
        kind: ContainerKind::App,
        status,
        spec: spec(&pod.containers, status),
    });
    init.chain(app)
}

impl<'a> Container<'a> {
    pub(super) fn state(&self) -> ContainerStateName {
        let state = &self.status.state;
        match () {
            () if state.waiting.is_some() => ContainerStateName::Waiting,
            () if state.terminated.is_some() => ContainerStateName::Terminated,
            () if state.running.is_some() => ContainerStateName::Running,
            () => ContainerStateName::Waiting,
        }
    }

    pub(super) fn runs(&self) -> bool {
        self.state() == ContainerStateName::Running
    }

    /// Whether its life is over, and it did what it should.
    pub(super) fn completed(&self) -> bool {
        self.state() == ContainerStateName::Terminated && self.status.state.terminated.as_ref().is_some_and(succeeded)
    }

    /// What is wrong with it now. A failure that it was restarted after isn't considered.
    pub(super) fn failing(&self) -> Option<Trouble<'a>> {
        let state = &self.status.state;
        match self.state() {
            ContainerStateName::Waiting => state
                .waiting
                .as_ref()
                .filter(|waiting| !matches!(waiting.reason.as_str(), "" | "ContainerCreating" | "PodInitializing"))
                .map(Trouble::Waits),
            ContainerStateName::Terminated => {
                state.terminated.as_ref().filter(|terminated| !succeeded(terminated)).map(Trouble::Ended)
            }
            ContainerStateName::Running => None,
        }
    }

    /// How its previous life failed, where it was started again since and hasn't come to a good end.
    pub(super) fn restarted(&self) -> Option<&'a Terminated> {
        let again = self.failing().is_none() && !self.completed();
        self.status.last.as_ref().filter(|last| again && !succeeded(last))
    }

    /// What is wrong with it, a failure that is younger than `forget` included, and since when.
    pub(super) fn trouble(
        &self,
        pod: &Pod,
        forget: Duration,
        clock: &mut Clock,
    ) -> Option<(Trouble<'a>, Option<Timestamp>)> {
        if let Some(trouble) = self.failing() {
            return Some((trouble, self.began(pod, trouble, clock)));
        }
        let trouble = Trouble::Restarted(self.restarted()?);
        let began = self.began(pod, trouble, clock)?;
        (!clock.reached(after(began, forget))).then_some((trouble, Some(began)))
    }

    fn began(&self, pod: &Pod, trouble: Trouble<'_>, clock: &mut Clock) -> Option<Timestamp> {
        let evidence = match trouble {
            Trouble::Ended(life) => [life.finished, life.started],
            Trouble::Restarted(life) => {
                [life.finished, self.status.state.running.as_ref().and_then(|life| life.started)]
            }
            Trouble::Waits(_) => match &self.status.last {
                Some(life) => [life.finished, life.started],
                None => [unready_since(pod), None],
            },
        };
        clock.began(evidence.into_iter().chain([pod.started, pod.created]))
    }

    /// The life whose end is the trouble.
    pub(super) fn failed_life(&self, trouble: Trouble<'a>) -> Option<&'a Terminated> {
        match trouble {
            Trouble::Ended(life) | Trouble::Restarted(life) => Some(life),
            Trouble::Waits(waiting) if waiting.reason == BACK_OFF => self.status.last.as_ref(),
            Trouble::Waits(_) => None,
        }
    }

    /// What kind of problem the trouble is. It stays the same while the kubelet goes on trying.
    pub(super) fn kind_of(&self, trouble: Trouble<'a>) -> ProblemKind {
        let life = match trouble {
            Trouble::Waits(waiting) => match waiting.reason.as_str() {
                BACK_OFF => self.status.last.as_ref(),
                "PostStartHookError" => return ProblemKind::Crash,
                reason if IMAGE_REASONS.contains(&reason) => return ProblemKind::Image,
                _ => return ProblemKind::Start,
            },
            Trouble::Ended(life) | Trouble::Restarted(life) => Some(life),
        };
        if life.is_some_and(never_started) { ProblemKind::Start } else { ProblemKind::Crash }
    }

    /// The trouble's name: kubectl's, but for a crash loop that of the crash, where that says more.
    pub(super) fn reason(&self, trouble: Trouble<'a>) -> String {
        let reason = match trouble {
            Trouble::Ended(life) | Trouble::Restarted(life) => termination_reason(life),
            Trouble::Waits(waiting) => self
                .failed_life(trouble)
                .map(|life| life.reason.as_str())
                .filter(|reason| !matches!(*reason, "" | "Error" | "Completed"))
                .unwrap_or(&waiting.reason)
                .into(),
        };
        match one_line(&reason, REASON_LIMIT) {
            line if line.is_empty() => "Unknown".to_owned(),
            line => line,
        }
    }

    pub(super) fn finding(&self, trouble: Option<Trouble<'_>>) -> ContainerFinding {
        let state = &self.status.state;
        let (reason, message) = match self.state() {
            ContainerStateName::Waiting => state
                .waiting
                .as_ref()
                .map(|waiting| (Cow::Borrowed(waiting.reason.as_str()), waiting.message.as_str()))
                .unwrap_or_default(),
            ContainerStateName::Terminated => state
                .terminated
                .as_ref()
                .map(|life| (termination_reason(life), life.message.as_str()))
                .unwrap_or_default(),
            ContainerStateName::Running => Default::default(),
        };
        ContainerFinding {
            name: self.status.name.clone(),
            kind: self.kind,
            state: self.state(),
            reason: one_line(&reason, REASON_LIMIT),
            message: message.to_owned(),
            ready: self.status.ready,
            restarts: self.status.restarts,
            last_termination: state.terminated.as_ref().or(self.status.last.as_ref()).cloned(),
            log: self.log(trouble),
        }
    }

    /// Which log explains the trouble; without one, why it isn't ready.
    ///
    /// The kubelet's `validateContainerLogStatus` serves, asked for the previous life, that of `lastState`;
    /// else the present one, and where that never started, `lastState`'s again. Asking for the previous
    /// life by name is what stays right if the container is started meanwhile.
    fn log(&self, trouble: Option<Trouble<'_>>) -> LogChoice {
        let previous = match &self.status.last {
            Some(last) if ran(last) => LogChoice::Previous,
            _ => LogChoice::NeverStarted,
        };
        match (self.state(), &self.status.state.terminated) {
            (ContainerStateName::Running, _) if matches!(trouble, Some(Trouble::Restarted(_))) => previous,
            (ContainerStateName::Running, _) => LogChoice::Current,
            (ContainerStateName::Terminated, Some(life)) if ran(life) => {
                let lost = life.container_id.is_empty()
                    && self.status.last.as_ref().is_some_and(|last| !last.container_id.is_empty());
                if lost { previous } else { LogChoice::Current }
            }
            _ => previous,
        }
    }
}

const BACK_OFF: &str = "CrashLoopBackOff";

/// The kubelet's reasons for an image that cannot be had (`pkg/kubelet/images/types.go`).
const IMAGE_REASONS: [&str; 8] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
    "ErrImageInspect",
];

/// Whether the runtime could not start this life of the container.
fn never_started(life: &Terminated) -> bool {
    matches!(life.reason.as_str(), "StartError" | "ContainerCannotRun") || !ran(life)
}

fn succeeded(life: &Terminated) -> bool {
    life.exit_code == 0 && life.signal == 0
}

/// Whether a life began: the kubelet writes the epoch where the runtime could not start it.
fn ran(life: &Terminated) -> bool {
    life.started != Some(Timestamp::UNIX_EPOCH)
}

/// Since when the pod isn't ready: containers that never ran have no time of their own.
fn unready_since(pod: &Pod) -> Option<Timestamp> {
    pod.condition("Ready").filter(|ready| ready.status != "True").and_then(|ready| ready.since)
}
