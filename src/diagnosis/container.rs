//! A container's trouble: whether it has one, what it is called, since when, and which log explains it.

use std::{borrow::Cow, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{ContainerKind, ContainerStateName, ProblemKind},
    pods::{ContainerSpec, ContainerStatus, Pod, RestartPolicy, StartCause, Terminated, Waiting},
};

use super::{
    finding::{ContainerFinding, LogChoice},
    kubectl_columns::termination_reason,
    one_line::{REASON_LIMIT, one_line},
    pod_clock::{PodClock, after},
    reasons::specificity,
};

/// A container that the pod's status tells of; its spec may lack it.
#[derive(Clone, Copy)]
pub(super) struct Container<'a> {
    pod: &'a Pod,
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
    /// It failed, or ended too often, and was started again or is about to be.
    Restarted(&'a Terminated),
}

/// The kubelet's delay before it starts a container for the third time within ten minutes is ten seconds. Times are in
/// whole seconds, so one second less may be seen.
const BACK_OFF_DELAY: SignedDuration = SignedDuration::from_secs(9);
/// A container that has run for this long is not held back.
const BACK_OFF_RESET: SignedDuration = SignedDuration::from_mins(10);

/// The pod's containers: init containers and sidecars, then the others, each in the spec's order. The status is in
/// another order: the kubelet sorts it by name.
pub(super) fn containers(pod: &Pod) -> impl Iterator<Item = Container<'_>> {
    let init = in_order(&pod.init_containers, &pod.init_statuses).map(move |(spec, status)| {
        let kind =
            if spec.is_some_and(ContainerSpec::is_sidecar) { ContainerKind::Sidecar } else { ContainerKind::Init };
        Container { pod, kind, status, spec }
    });
    let app = in_order(&pod.containers, &pod.statuses).map(move |(spec, status)| Container {
        pod,
        kind: ContainerKind::App,
        status,
        spec,
    });
    init.chain(app)
}

fn in_order<'a>(
    specs: &'a [ContainerSpec],
    statuses: &'a [ContainerStatus],
) -> impl Iterator<Item = (Option<&'a ContainerSpec>, &'a ContainerStatus)> {
    let known = specs
        .iter()
        .filter_map(|spec| statuses.iter().find(|status| status.name == spec.name).map(|status| (Some(spec), status)));
    let unknown = statuses.iter().filter(|status| specs.iter().all(|spec| spec.name != status.name));
    known.chain(unknown.map(|status| (None, status)))
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

    /// Whether its life is over, and it is not started again.
    pub(super) fn is_final(&self) -> bool {
        let Some(life) = self.life().filter(|_| self.state() == ContainerStateName::Terminated) else { return false };
        if self.has_rule_for(life) {
            return false;
        }
        match self.restart_policy() {
            RestartPolicy::Always => self.kind == ContainerKind::Init && succeeded(life),
            RestartPolicy::OnFailure => succeeded(life),
            RestartPolicy::Never => true,
        }
    }

    /// Whether its life is over, and it did what it should.
    pub(super) fn completed(&self) -> bool {
        self.is_final() && self.life().is_some_and(succeeded)
    }

    fn life(&self) -> Option<&'a Terminated> {
        self.status.state.terminated.as_ref()
    }

    fn restart_policy(&self) -> RestartPolicy {
        self.spec.and_then(|spec| spec.restart_policy).unwrap_or(self.pod.restart_policy)
    }

    /// Whether the spec asks for a restart after this exit code.
    fn has_rule_for(&self, life: &Terminated) -> bool {
        self.spec.is_some_and(|spec| spec.restart_rules.iter().any(|codes| codes.contains(life.exit_code)))
    }

    /// Whether the kubelet ended a life because a resource was resized, and the spec asks for a restart then.
    fn was_resized(&self) -> bool {
        self.spec.is_some_and(|spec| spec.restarts_on_resize)
            && match self.state() {
                ContainerStateName::Terminated => self.pod.is_resizing(),
                _ => self.pod.history.start_cause(self.status) == Some(StartCause::Resize),
            }
    }

    fn failed(&self, life: &Terminated) -> bool {
        !succeeded(life) && !self.has_rule_for(life)
    }

    /// What is wrong with it now. A failure after which it was restarted isn't considered.
    pub(super) fn failing(&self) -> Option<Trouble<'a>> {
        let state = &self.status.state;
        match self.state() {
            ContainerStateName::Waiting => {
                let waiting = state.waiting.as_ref()?;
                let is_asked_for =
                    waiting.reason == BACK_OFF && self.status.last.as_ref().is_some_and(|life| self.has_rule_for(life));
                let is_normal = matches!(waiting.reason.as_str(), "" | "ContainerCreating" | "PodInitializing");
                (!is_normal && !is_asked_for).then_some(Trouble::Waits(waiting))
            }
            ContainerStateName::Terminated => {
                state.terminated.as_ref().filter(|life| self.failed(life) && !self.was_resized()).map(Trouble::Ended)
            }
            ContainerStateName::Running => None,
        }
    }

    /// The life after which it was restarted, or is about to be, if that is a trouble: the life failed, or the kubelet
    /// holds the container back because it ends too often, with whatever exit code.
    pub(super) fn restarted(&self) -> Option<&'a Terminated> {
        let last = self.status.last.as_ref()?;
        let again = self.failing().is_none() && !self.is_final() && !self.was_resized();
        (again && (self.failed(last) || self.was_held_back(last))).then_some(last)
    }

    /// Whether the kubelet waited before it began the present life.
    fn was_held_back(&self, last: &Terminated) -> bool {
        if self.restart_policy() != RestartPolicy::Always || self.has_rule_for(last) {
            return false;
        }
        if self.pod.history.start_cause(self.status) == Some(StartCause::BackOff) {
            return true;
        }
        let running = self.status.state.running.as_ref().and_then(|running| running.started);
        let began = running.or_else(|| self.life().and_then(|life| life.started));
        let (Some(began), Some(started), Some(finished)) = (began, last.started, last.finished) else { return false };
        self.status.restarts > 1
            && finished.duration_since(started) < BACK_OFF_RESET
            && began.duration_since(finished) >= BACK_OFF_DELAY
    }

    /// What is wrong with it and since when. A container that runs again is in trouble until it has run for `restarted`
    /// and is ready, if it has a readiness probe.
    pub(super) fn trouble(
        &self,
        restarted: Duration,
        clock: &mut PodClock,
    ) -> Option<(Trouble<'a>, Option<Timestamp>)> {
        if let Some(trouble) = self.failing() {
            return Some((trouble, self.began(trouble, clock)));
        }
        let last = self.restarted()?;
        let trouble = Trouble::Restarted(last);
        if let Some(running) = self.status.state.running.as_ref().filter(|_| self.runs()) {
            let since = clock.began([running.started, last.finished]);
            let has_run = since.is_some_and(|since| clock.reached(after(since, restarted)));
            let is_ready = self.status.ready || !self.spec.is_some_and(|spec| spec.readiness_probe);
            // A startup probe that has not passed yet may still kill it.
            if has_run && is_ready && self.status.started != Some(false) {
                return None;
            }
        }
        Some((trouble, self.began(trouble, clock)))
    }

    /// When the trouble began, as far as the pod shows: with the earlier of the two lives that it tells of, if both
    /// belong to the trouble.
    fn began(&self, trouble: Trouble<'_>, clock: &mut PodClock) -> Option<Timestamp> {
        let last = self.status.last.as_ref();
        let evidence = match trouble {
            Trouble::Ended(life) => match last.filter(|last| self.failed(last)) {
                Some(last) => [last.finished, life.finished, life.started],
                None => [life.finished, life.started, None],
            },
            Trouble::Restarted(life) => {
                [life.finished, self.status.state.running.as_ref().and_then(|life| life.started), None]
            }
            Trouble::Waits(_) => match last {
                Some(life) => [life.finished, life.started, None],
                None => [unready_since(self.pod), None, None],
            },
        };
        clock.began(evidence.into_iter().chain([self.pod.started]))
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
        if let Trouble::Waits(waiting) = trouble {
            match waiting.reason.as_str() {
                BACK_OFF => {}
                POST_START => return ProblemKind::Crash,
                reason if IMAGE_REASONS.contains(&reason) => return ProblemKind::Image,
                _ => return ProblemKind::Start,
            }
        }
        if self.failed_life(trouble).is_some_and(never_started) { ProblemKind::Start } else { ProblemKind::Crash }
    }

    /// The reason of the trouble, which does not depend on what the kubelet is doing this second.
    pub(super) fn reason(&self, trouble: Trouble<'a>) -> String {
        let reason = match (self.kind_of(trouble), trouble) {
            (ProblemKind::Crash, _) => self.crash_reason(trouble),
            (ProblemKind::Image, Trouble::Waits(waiting)) if waiting.reason == "ErrImagePull" => PULL_BACK_OFF,
            (_, Trouble::Waits(waiting)) => {
                let last =
                    self.status.last.as_ref().filter(|life| never_started(life)).map(|life| life.reason.as_str());
                last.filter(|last| specificity(last) > specificity(&waiting.reason)).unwrap_or(&waiting.reason)
            }
            (_, Trouble::Ended(life) | Trouble::Restarted(life)) => &life.reason,
        };
        match one_line(reason, REASON_LIMIT) {
            line if line.is_empty() => "Unknown".to_owned(),
            line => line,
        }
    }

    fn crash_reason(&self, trouble: Trouble<'a>) -> &'a str {
        let life = self.failed_life(trouble).or(self.status.last.as_ref());
        let life_reason = life.map_or("", |life| life.reason.as_str());
        // A container that ends well, and is in trouble all the same, ends too often.
        let is_loop = self.status.restarts > 1 || life.is_none_or(succeeded);
        match life_reason {
            "" | "Error" | "Completed" if is_loop => BACK_OFF,
            "" | "Error" | "Completed" => "Error",
            reason => reason,
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
const PULL_BACK_OFF: &str = "ImagePullBackOff";
const POST_START: &str = "PostStartHookError";

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
