//! Judges one container: whether it fails, the reason, since when, and which log explains it.

use std::{borrow::Cow, time::Duration};

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::{ContainerKind, ContainerStateName, ProblemKind},
    pods::{ContainerSpec, ContainerStatus, Pod, RestartPolicy, StartCause, Terminated, Waiting},
};

use super::{
    finding::{ContainerFinding, LogChoice},
    kubectl_columns::termination_reason,
    one_line::reason_line,
    pod_clock::{PodClock, after},
    reasons::specificity,
};

/// A container with a status. The spec may not contain it.
#[derive(Clone, Copy)]
pub(super) struct Container<'a> {
    pub(super) pod: &'a Pod,
    pub(super) kind: ContainerKind,
    pub(super) status: &'a ContainerStatus,
    pub(super) spec: Option<&'a ContainerSpec>,
}

/// How a container fails.
#[derive(Clone, Copy)]
pub(super) enum Failure<'a> {
    /// It is waiting for a reason that is not part of a normal start.
    Waiting(&'a Waiting),
    /// It has terminated with a failure.
    Terminated(&'a Terminated),
    /// It failed, or terminated too often, and was restarted or is about to be restarted.
    Restarted(&'a Terminated),
}

/// A container with a problem.
#[derive(Clone, Copy)]
pub(super) struct FailingContainer<'a> {
    pub(super) container: Container<'a>,
    pub(super) failure: Failure<'a>,
    /// When it began to fail, judged by the times in the pod.
    pub(super) since: Option<Timestamp>,
    /// Whether that may have been earlier.
    pub(super) since_at_latest: bool,
}

/// The condition that the pod's sandbox runs. Its volumes are mounted before.
pub(super) const SANDBOX: &str = "PodReadyToStartContainers";
/// The kubelet's first back-off delay is ten seconds, before the third start within ten minutes. Times are in whole
/// seconds, so the difference may be one less.
const BACK_OFF_DELAY: SignedDuration = SignedDuration::from_secs(9);
/// After a container has run for this long, the kubelet restarts it without a back-off.
const BACK_OFF_RESET: SignedDuration = SignedDuration::from_mins(10);

/// The pod's containers: init containers and sidecars, then app containers, each in the order of the spec. The kubelet
/// sorts the status by name instead.
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
    let listed = specs
        .iter()
        .filter_map(|spec| statuses.iter().find(|status| status.name == spec.name).map(|status| (Some(spec), status)));
    let unlisted = statuses.iter().filter(|status| specs.iter().all(|spec| spec.name != status.name));
    listed.chain(unlisted.map(|status| (None, status)))
}

impl<'a> Container<'a> {
    /// Its present or last failure, however long ago that was.
    pub(super) fn last_failure(&self) -> Option<Failure<'a>> {
        self.present_failure().or_else(|| self.restarted().map(Failure::Restarted))
    }

    pub(super) fn state(&self) -> ContainerStateName {
        let state = &self.status.state;
        match () {
            () if state.waiting.is_some() => ContainerStateName::Waiting,
            () if state.terminated.is_some() => ContainerStateName::Terminated,
            () if state.running.is_some() => ContainerStateName::Running,
            () => ContainerStateName::Waiting,
        }
    }

    pub(super) fn memory_limit(&self) -> Option<&'a str> {
        self.spec.map(|spec| spec.memory_limit.as_str()).filter(|limit| !limit.is_empty())
    }

    /// When the present instance started, if it runs.
    pub(super) fn started(&self) -> Option<Timestamp> {
        self.status.state.running.as_ref()?.started
    }

    pub(super) fn is_running(&self) -> bool {
        self.state() == ContainerStateName::Running
    }

    /// Whether it has terminated and will not be restarted.
    pub(super) fn is_final(&self) -> bool {
        let terminated = self.terminated().filter(|_| self.state() == ContainerStateName::Terminated);
        let Some(terminated) = terminated else { return false };
        if self.has_restart_rule(terminated) {
            return false;
        }
        match self.restart_policy() {
            RestartPolicy::Always => self.kind == ContainerKind::Init && succeeded(terminated),
            RestartPolicy::OnFailure => succeeded(terminated),
            RestartPolicy::Never => true,
        }
    }

    /// Whether it has terminated successfully and will not be restarted.
    pub(super) fn completed(&self) -> bool {
        self.is_final() && self.terminated().is_some_and(succeeded)
    }

    fn terminated(&self) -> Option<&'a Terminated> {
        self.status.state.terminated.as_ref()
    }

    fn restart_policy(&self) -> RestartPolicy {
        self.spec.and_then(|spec| spec.restart_policy).unwrap_or(self.pod.restart_policy)
    }

    /// Whether `restartPolicyRules` ask for a restart after this exit code.
    fn has_restart_rule(&self, terminated: &Terminated) -> bool {
        self.spec.is_some_and(|spec| spec.restart_rules.iter().any(|codes| codes.contains(terminated.exit_code)))
    }

    /// Whether the kubelet restarted the container because of a resize, as its resize policy asks.
    fn was_resized(&self) -> bool {
        self.spec.is_some_and(|spec| spec.restarts_on_resize)
            && match self.state() {
                ContainerStateName::Terminated => self.pod.is_resizing(),
                _ => self.pod.history.start_cause(self.status) == Some(StartCause::Resize),
            }
    }

    fn failed(&self, terminated: &Terminated) -> bool {
        !succeeded(terminated) && !self.has_restart_rule(terminated)
    }

    /// Its failure, without those before its last restart.
    fn present_failure(&self) -> Option<Failure<'a>> {
        let state = &self.status.state;
        match self.state() {
            ContainerStateName::Waiting => {
                let waiting = state.waiting.as_ref()?;
                let is_intended = waiting.reason == BACK_OFF
                    && self.status.last.as_ref().is_some_and(|last| self.has_restart_rule(last));
                let is_normal = matches!(waiting.reason.as_str(), "" | "ContainerCreating" | "PodInitializing");
                (!is_normal && !is_intended).then_some(Failure::Waiting(waiting))
            }
            ContainerStateName::Terminated => {
                let terminated = state.terminated.as_ref();
                terminated.filter(|terminated| self.failed(terminated) && !self.was_resized()).map(Failure::Terminated)
            }
            ContainerStateName::Running => None,
        }
    }

    /// The termination of the previous instance, if it makes the restart a problem: the instance failed, or the kubelet
    /// backed off because the container terminates too often, with any exit code.
    fn restarted(&self) -> Option<&'a Terminated> {
        let last = self.status.last.as_ref()?;
        let is_restart = self.present_failure().is_none() && !self.is_final() && !self.was_resized();
        (is_restart && (self.failed(last) || self.was_backed_off(last))).then_some(last)
    }

    /// Whether the kubelet backed off before it started the present instance.
    fn was_backed_off(&self, last: &Terminated) -> bool {
        if self.restart_policy() != RestartPolicy::Always || self.has_restart_rule(last) {
            return false;
        }
        if self.pod.history.start_cause(self.status) == Some(StartCause::BackOff) {
            return true;
        }
        let restarted = self.started().or_else(|| self.terminated().and_then(|terminated| terminated.started));
        let (Some(restarted), Some(started), Some(finished)) = (restarted, last.started, last.finished) else {
            return false;
        };
        self.status.restarts > 1
            && finished.duration_since(started) < BACK_OFF_RESET
            && restarted.duration_since(finished) >= BACK_OFF_DELAY
    }

    /// Its failure, and when it began. A restarted container counts as failing until it has run for `restarted` and its
    /// readiness probe, if it has one, passes.
    pub(super) fn failing(&self, restarted: Duration, clock: &mut PodClock) -> Option<FailingContainer<'a>> {
        if let Some(failure) = self.present_failure() {
            return Some(self.since(failure, restarted, clock));
        }
        let last = self.restarted()?;
        if self.is_running() {
            let since = clock.start_time([self.started(), last.finished]);
            let has_run = since.is_some_and(|since| clock.has_passed(after(since, restarted)));
            let is_ready = self.status.ready || self.spec.is_none_or(|spec| spec.readiness_probe.is_none());
            // Until the startup probe has passed, it may still kill the container.
            if has_run && is_ready && self.status.started != Some(false) {
                return None;
            }
        }
        Some(self.since(Failure::Restarted(last), restarted, clock))
    }

    /// Since when it fails, judged by the times in the pod: since the end of the previous instance, if that one failed too and
    /// the present one did not run for `restarted`.
    ///
    /// The pod shows two instances at most. Whether an earlier one failed is not known, unless there was none, or one of
    /// these two ran for so long that the earlier problem was over.
    fn since(&self, failure: Failure<'a>, restarted: Duration, clock: &mut PodClock) -> FailingContainer<'a> {
        let last = self.status.last.as_ref();
        let ran_long = |run: &Terminated| run_time(run).is_some_and(|ran| ran.unsigned_abs() >= restarted);
        let restarts = self.status.restarts;
        // The restarts without that of the instance in `last`. While a container waits, that one was not restarted yet.
        let without_last = if last.is_some() { restarts.saturating_sub(1) } else { restarts };
        let (evidence, earlier) = match failure {
            Failure::Terminated(terminated) => match last.filter(|last| self.failed(last)) {
                Some(last) if !ran_long(terminated) => {
                    ([last.finished, terminated.finished, terminated.started], without_last)
                }
                Some(_) => ([terminated.finished, terminated.started, None], restarts),
                None => ([terminated.finished, terminated.started, None], without_last),
            },
            Failure::Restarted(last) => ([last.finished, self.started(), None], without_last),
            Failure::Waiting(_) => match last {
                Some(last) => ([last.finished, last.started, None], restarts),
                None => ([unready_since(self.pod), None, None], restarts),
            },
        };
        // With a probe, it may have run for long without being ready.
        let is_probed = self.spec.is_none_or(|spec| spec.readiness_probe.is_some() || spec.startup_probe.is_some());
        let mut shown = self.status.state.terminated.iter().chain(last);
        let was_over = !is_probed && shown.any(ran_long);
        let since = clock.start_time(evidence.into_iter().chain([self.pod.started]));
        let since_at_latest = since.is_none() || earlier > 0 && !was_over;
        FailingContainer { container: *self, failure, since, since_at_latest }
    }

    /// The end of an instance that is the failure.
    pub(super) fn termination(&self, failure: Failure<'a>) -> Option<&'a Terminated> {
        match failure {
            Failure::Terminated(terminated) | Failure::Restarted(terminated) => Some(terminated),
            Failure::Waiting(waiting) if waiting.reason == BACK_OFF => self.status.last.as_ref(),
            Failure::Waiting(_) => None,
        }
    }

    /// The kind of the problem. It stays the same while the kubelet keeps retrying.
    pub(super) fn kind_of(&self, failure: Failure<'a>) -> ProblemKind {
        if let Failure::Waiting(waiting) = failure {
            match waiting.reason.as_str() {
                BACK_OFF => {}
                POST_START => return ProblemKind::Crash,
                reason if IMAGE_REASONS.contains(&reason) => return ProblemKind::Image,
                _ => return ProblemKind::Start,
            }
        }
        if self.termination(failure).is_some_and(never_started) { ProblemKind::Start } else { ProblemKind::Crash }
    }

    /// The reason of the failure, independent of whether the kubelet is retrying or backing off at the moment.
    pub(super) fn reason(&self, failure: Failure<'a>) -> String {
        let reason = match (self.kind_of(failure), failure) {
            (ProblemKind::Crash, _) => self.crash_reason(failure),
            (ProblemKind::Image, Failure::Waiting(waiting)) if waiting.reason == "ErrImagePull" => PULL_BACK_OFF,
            (_, Failure::Waiting(waiting)) => {
                let last =
                    self.status.last.as_ref().filter(|last| never_started(last)).map(|last| last.reason.as_str());
                last.filter(|last| specificity(last) > specificity(&waiting.reason)).unwrap_or(&waiting.reason)
            }
            (_, Failure::Terminated(terminated) | Failure::Restarted(terminated)) => &terminated.reason,
        };
        match reason_line(reason) {
            line if line.is_empty() => "Unknown".to_owned(),
            line => line,
        }
    }

    fn crash_reason(&self, failure: Failure<'a>) -> &'a str {
        let terminated = self.termination(failure).or(self.status.last.as_ref());
        let reason = terminated.map_or("", |terminated| terminated.reason.as_str());
        // A container that exits successfully is a problem only because it does so too often.
        let is_loop = self.status.restarts > 1 || terminated.is_none_or(succeeded);
        match reason {
            "" | "Error" | "Completed" if is_loop => BACK_OFF,
            "" | "Error" | "Completed" => "Error",
            reason => reason,
        }
    }

    pub(super) fn finding(&self, failure: Option<Failure<'_>>) -> ContainerFinding {
        let state = &self.status.state;
        let (reason, message) = match self.state() {
            ContainerStateName::Waiting => state
                .waiting
                .as_ref()
                .map(|waiting| (Cow::Borrowed(waiting.reason.as_str()), waiting.message.clone()))
                .unwrap_or_default(),
            ContainerStateName::Terminated => state
                .terminated
                .as_ref()
                .map(|terminated| (termination_reason(terminated), terminated.message.clone()))
                .unwrap_or_default(),
            ContainerStateName::Running => Default::default(),
        };
        ContainerFinding {
            name: self.status.name.clone(),
            kind: self.kind,
            state: self.state(),
            reason: reason_line(&reason).into(),
            message,
            ready: self.status.ready,
            restarts: self.status.restarts,
            last_termination: state.terminated.as_ref().or(self.status.last.as_ref()).cloned(),
            log: self.log(failure),
        }
    }

    /// Which log explains the failure or, without one, why the container is not ready.
    ///
    /// The kubelet (`validateContainerLogStatus`) serves the instance of `lastState` for `previous=true`, and otherwise the
    /// present instance, or that of `lastState` if the present one never started. If the container may be restarted before
    /// the log is read, only `previous=true` returns the right log.
    fn log(&self, failure: Option<Failure<'_>>) -> LogChoice {
        let previous = match &self.status.last {
            Some(last) if has_run(last) => LogChoice::Previous,
            _ => LogChoice::NeverStarted,
        };
        match (self.state(), &self.status.state.terminated) {
            (ContainerStateName::Running, _) if matches!(failure, Some(Failure::Restarted(_))) => previous,
            (ContainerStateName::Running, _) => LogChoice::Current,
            (ContainerStateName::Terminated, Some(terminated)) if has_run(terminated) => {
                let is_lost = terminated.container_id.is_empty()
                    && self.status.last.as_ref().is_some_and(|last| !last.container_id.is_empty());
                if is_lost { previous } else { LogChoice::Current }
            }
            _ => previous,
        }
    }
}

const BACK_OFF: &str = "CrashLoopBackOff";
const PULL_BACK_OFF: &str = "ImagePullBackOff";
const POST_START: &str = "PostStartHookError";

/// The kubelet's reasons for image errors (`pkg/kubelet/images/types.go`).
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

/// Whether the runtime could not start the instance.
pub(super) fn never_started(terminated: &Terminated) -> bool {
    matches!(terminated.reason.as_str(), "StartError" | "ContainerCannotRun") || !has_run(terminated)
}

fn succeeded(terminated: &Terminated) -> bool {
    terminated.exit_code == 0 && terminated.signal == 0
}

/// How long an instance ran.
pub(super) fn run_time(terminated: &Terminated) -> Option<SignedDuration> {
    let started = terminated.started.filter(|started| *started > Timestamp::UNIX_EPOCH)?;
    Some(terminated.finished?.duration_since(started)).filter(|time| !time.is_negative())
}

/// The kubelet writes the epoch as the start of an instance that never ran.
fn has_run(terminated: &Terminated) -> bool {
    terminated.started != Some(Timestamp::UNIX_EPOCH)
}

/// Since when the pod has not been ready. Containers that never ran have no times of their own.
pub(super) fn unready_since(pod: &Pod) -> Option<Timestamp> {
    pod.condition("Ready").filter(|ready| ready.status != "True").and_then(|ready| ready.since)
}

#[cfg(test)]
mod tests;
