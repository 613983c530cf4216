//! The one assessment of a pod: its verdict with the explanation. The operator and all commands call [`assess`], and differ
//! only in the [`World`] that they know.

use std::time::Duration;

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::{
    api::{ContainerKind, ContainerStateName, ProblemKind},
    pods::Pod,
};

use super::{
    causes::explain,
    container::{Container, FailingContainer, Failure, SANDBOX, containers, unready_since},
    finding::{ContainerFinding, Explanation, Finding, Health, OtherProblem, Verdict},
    kubectl_columns::kubectl_status,
    messages,
    one_line::{MESSAGE_LIMIT, one_line, reason_line},
    owner::{needs_job, owner_with},
    pod_clock::{PodClock, after},
    world::{JobFacts, Thresholds, World},
};

/// Assesses a pod. The caller must check [`Pod::ignored`].
#[must_use]
pub fn assess(pod: &Pod, world: &dyn World, thresholds: &Thresholds, now: Timestamp) -> Verdict {
    let is_replaced = pod.phase == "Failed" && world.is_replaced(pod);
    let mut verdict = judge(pod, None, is_replaced, thresholds, now);
    if let (Health::Problem(_), Some(job)) = (&verdict.health, needs_job(pod)) {
        match world.job(pod, job) {
            Some(job) => verdict = judge(pod, Some(&job), is_replaced, thresholds, now),
            None => verdict.lacks_job = true,
        }
    }
    if let Health::Problem(finding) = &mut verdict.health {
        explain(pod, finding, world, now);
        if finding.needs_kills() {
            world.lacks_kills(pod);
        }
    }
    verdict
}

/// Whether the pod is healthy until its next change, whatever the thresholds are, as long as `restarted` is at most
/// `lookback`. The index keeps no details of such a pod.
#[must_use]
pub fn is_healthy_under_any_thresholds(pod: &Pod, lookback: Duration, now: Timestamp) -> bool {
    let strictest = Thresholds {
        pending: Duration::ZERO,
        initializing: Duration::ZERO,
        not_ready: Duration::ZERO,
        terminating: Duration::ZERO,
        restarted: lookback,
        failed: Duration::MAX,
    };
    // The version after a resize is judged with the help of this one.
    if pod.is_resizing() {
        return false;
    }
    let verdict = judge(pod, None, false, &strictest, now);
    verdict.health == Health::Healthy && verdict.recheck.is_none()
}

/// Judges a pod, without an explanation.
///
/// Of several problems, the first of this order is reported:
///
/// 1. A pod being deleted can only be StuckTerminating. Any other Succeeded pod is healthy.
/// 2. A Failed pod has failed, for its own reason or else its container's, unless its Job is complete, a later run of
///    its CronJob succeeded, or its controller replaced it long enough ago.
/// 3. Containers that are failing, then restarted containers that failed before, each in the order of the pod. Sidecars
///    do not count once all app containers have ended, because the kubelet stops them then.
/// 4. A pod of phase Unknown.
/// 5. A state that has lasted too long: not scheduled, an init container running, containers being created, not ready.
///
/// A state without any credible start time has lasted too long.
fn judge(pod: &Pod, job: Option<&JobFacts>, is_replaced: bool, thresholds: &Thresholds, now: Timestamp) -> Verdict {
    let mut judge = Judge { pod, job, is_replaced, thresholds, clock: PodClock::new(pod, now) };
    let health = judge.health();
    Verdict { health, recheck: judge.clock.recheck(), lacks_job: false }
}

struct Judge<'a> {
    pod: &'a Pod,
    /// The pod's Job, if it has one that was read.
    job: Option<&'a JobFacts>,
    is_replaced: bool,
    thresholds: &'a Thresholds,
    clock: PodClock,
}

impl<'a> Judge<'a> {
    fn health(&mut self) -> Health {
        let (pod, thresholds) = (self.pod, self.thresholds);
        if let Some(deletion) = pod.deletion {
            let finding =
                self.finding(ProblemKind::Terminating, "StuckTerminating", &stuck_message(pod), Some(deletion));
            return self.once_overdue(Finding { tolerated: thresholds.terminating, ..finding });
        }
        match pod.phase.as_str() {
            "Succeeded" => return Health::Healthy,
            "Failed" => return self.failed(),
            _ => {}
        }
        let failing = self.failing_containers();
        if let Some(finding) = self.of_containers(&failing) {
            return problem(finding);
        }
        match pod.phase.as_str() {
            "Unknown" => {
                let since = self.unready_since();
                problem(self.finding(ProblemKind::NodeLost, "Unknown", &unknown_message(pod), since))
            }
            "Pending" | "" if pod.node.is_empty() && !pod.is_true("PodScheduled") => {
                let finding = self.unscheduled();
                self.once_overdue(Finding { tolerated: thresholds.pending, ..finding })
            }
            "Pending" | "" => {
                let finding = self.starting();
                self.once_overdue(finding)
            }
            _ if pod.is_true("Ready") => Health::Healthy,
            _ => {
                let finding = self.not_ready();
                self.once_overdue(Finding { tolerated: thresholds.not_ready, ..finding })
            }
        }
    }

    /// A state that every pod passes through, and that becomes a problem when it lasts too long.
    fn once_overdue(&mut self, finding: Finding) -> Health {
        let is_settling = !finding.since_at_latest && !self.clock.has_passed(after(finding.since, finding.tolerated));
        if is_settling { Health::Settling } else { problem(finding) }
    }

    /// A finding about the pod as a whole.
    fn finding(&self, kind: ProblemKind, reason: &str, message: &str, since: Option<Timestamp>) -> Finding {
        Finding {
            status: reason_line(&kubectl_status(self.pod)).into(),
            kind,
            reason: reason.into(),
            container: ArcStr::new(),
            message: messages::with_omitted(one_line(message, MESSAGE_LIMIT), self.pod).into(),
            since: since.unwrap_or(self.clock.now()),
            since_at_latest: since.is_none(),
            tolerated: Duration::ZERO,
            owner: owner_with(self.pod, self.job),
            containers: Vec::new(),
            others: Vec::new(),
            explanation: Explanation::default(),
        }
    }

    /// A finding about failing containers; none if there are none.
    fn of_containers(&self, failing: &[FailingContainer<'a>]) -> Option<Finding> {
        let mut problems = failing.iter().map(|failing| {
            let FailingContainer { container, failure, since, since_at_latest } = *failing;
            let message = messages::container(container, failure) + &messages::job_attempts(self.job);
            OtherProblem {
                kind: container.kind_of(failure),
                reason: container.reason(failure).into(),
                container: container.status.name.clone(),
                message: one_line(&message, MESSAGE_LIMIT).into(),
                since: since.unwrap_or(self.clock.now()),
                since_at_latest,
                explanation: Explanation::default(),
            }
        });
        let first = problems.next()?;
        Some(Finding {
            container: first.container,
            since_at_latest: first.since_at_latest,
            containers: findings(failing),
            others: problems.collect(),
            ..self.finding(first.kind, &first.reason, &first.message, Some(first.since))
        })
    }

    /// The failing containers: those that fail at present, then those that were restarted.
    fn failing_containers(&mut self) -> Vec<FailingContainer<'a>> {
        let apps_have_ended = apps_have_ended(self.pod);
        let mut failing: Vec<_> = containers(self.pod)
            .filter(|container| !(apps_have_ended && container.kind == ContainerKind::Sidecar))
            .filter_map(|container| container.failing(self.thresholds.restarted, &mut self.clock))
            .collect();
        // The sort is stable, so each half keeps the order of the pod.
        failing.sort_by_key(|failing| matches!(failing.failure, Failure::Restarted(_)));
        failing
    }

    fn failed(&mut self) -> Health {
        let pod = self.pod;
        if self.job.is_some_and(|job| job.complete || job.superseded) {
            return Health::Healthy;
        }
        // Nothing is restarted any more, so earlier failures are not the cause.
        let mut failing = self.failing_containers();
        failing.retain(|failing| !matches!(failing.failure, Failure::Restarted(_)));
        let since = failing.iter().filter_map(|failing| failing.since).min().or_else(|| self.unready_since());
        if self.is_replaced && since.is_some_and(|since| self.clock.has_passed(after(since, self.thresholds.failed))) {
            return Health::Healthy;
        }
        let reason = match reason_line(&pod.reason) {
            none if none.is_empty() => match self.of_containers(&failing) {
                Some(finding) => return problem(finding),
                None => "Failed".to_owned(),
            },
            reason => reason,
        };
        let message = if pod.message.is_empty() { "the pod has failed" } else { &pod.message };
        let message = message.to_owned() + &messages::job_attempts(self.job);
        let finding = self.finding(ProblemKind::Failed, &reason, &message, since);
        problem(Finding { containers: findings(&failing), ..finding })
    }

    fn unscheduled(&mut self) -> Finding {
        let pod = self.pod;
        let condition = pod.condition("PodScheduled");
        // A pod is unscheduled from its creation, but its condition may be younger.
        let created = self.clock.start_time([]);
        let created = created.or_else(|| self.clock.start_time([condition.and_then(|condition| condition.since)]));
        let reason = condition.map(|condition| condition.reason.as_str());
        let reason =
            reason.filter(|reason| matches!(*reason, "Unschedulable" | "SchedulingGated")).unwrap_or("Pending");
        self.finding(ProblemKind::Unschedulable, reason, pending_message(pod), created.max(pod.history.gate_removed))
    }

    fn starting(&mut self) -> Finding {
        let pod = self.pod;
        let scheduled = pod.condition("PodScheduled").filter(|condition| condition.status == "True");
        let mut since = self.clock.start_time([scheduled.and_then(|condition| condition.since), pod.started]);
        for init in containers(pod).take(pod.init_statuses.len()) {
            let state = &init.status.state;
            if init.completed() {
                since = self.clock.later(since, state.terminated.as_ref().and_then(|terminated| terminated.finished));
                continue;
            }
            if pod.is_sidecar(&init.status.name) && init.status.started == Some(true) {
                since = self.clock.later(since, init.started());
                continue;
            }
            if init.is_running() {
                let since = self.clock.later(since, init.started());
                let message = format!("{} is still running", messages::title(init));
                return Finding {
                    container: init.status.name.clone(),
                    tolerated: self.thresholds.initializing,
                    containers: vec![init.finding(None)],
                    ..self.finding(ProblemKind::Initializing, "Initializing", &message, since)
                };
            }
            break;
        }
        let waiting: Vec<_> =
            containers(pod).filter(|container| container.state() == ContainerStateName::Waiting).collect();
        let reported = pod.init_statuses.len() + pod.statuses.len();
        let is_creating = !waiting.is_empty() || reported < pod.init_containers.len() + pod.containers.len();
        let names = |verbs| messages::names(&waiting, verbs);
        let message = match pod.condition(SANDBOX) {
            _ if !is_creating => pending_message(pod).to_owned(),
            _ if waiting.is_empty() => format!("{} has not reported on it yet", messages::node(pod)),
            Some(sandbox) if sandbox.status == "False" => {
                names(["waits for the pod's network and volumes", "wait for the pod's network and volumes"])
            }
            _ => names(["is not created yet", "are not created yet"]),
        };
        let reason = if is_creating { "ContainerCreating" } else { "Pending" };
        // Once the sandbox is ready, only the container itself, for example its image, can take so long.
        let culprit = waiting.first().filter(|_| pod.is_true(SANDBOX));
        Finding {
            container: culprit.map(|container| container.status.name.clone()).unwrap_or_default(),
            tolerated: self.thresholds.pending,
            containers: waiting.iter().map(|container| container.finding(None)).collect(),
            ..self.finding(ProblemKind::Creating, reason, &message, since)
        }
    }

    fn not_ready(&mut self) -> Finding {
        let pod = self.pod;
        let ready = pod.condition("Ready").and_then(|condition| condition.since);
        let mut since = self.clock.start_time([ready, pod.started]);
        // Ready is False from the creation on, but the state begins when the last container was first started. Until then,
        // containers were being created.
        for container in containers(pod).filter(|container| container.status.restarts == 0) {
            since = self.clock.later(since, container.started());
        }
        let unready: Vec<_> = containers(pod)
            .filter(|container| !container.status.ready)
            // Init containers that are not running do not affect Ready.
            .filter(|container| container.kind != ContainerKind::Init || container.is_running())
            .collect();
        let message = match (messages::lost_node(pod), messages::condition(pod, "Ready")) {
            (Some((_, node)), _) => format!("not ready: {node}"),
            (None, Some(condition)) => format!("not ready: {condition}"),
            (None, None) if unready.is_empty() => "not ready".to_owned(),
            (None, None) => messages::names(&unready, ["is not ready", "are not ready"]),
        };
        Finding {
            container: unready.first().map(|container| container.status.name.clone()).unwrap_or_default(),
            containers: unready.iter().map(|container| container.finding(None)).collect(),
            ..self.finding(ProblemKind::NotReady, "NotReady", &message, since)
        }
    }

    /// Since when the pod has not been ready, or else when it started.
    fn unready_since(&mut self) -> Option<Timestamp> {
        self.clock.start_time([unready_since(self.pod), self.pod.started])
    }
}

fn problem(finding: Finding) -> Health {
    Health::Problem(Box::new(finding))
}

fn findings(failing: &[FailingContainer<'_>]) -> Vec<ContainerFinding> {
    failing.iter().map(|failing| failing.container.finding(Some(failing.failure))).collect()
}

/// Whether every app container has ended and none will be restarted.
fn apps_have_ended(pod: &Pod) -> bool {
    let ended = |container: Container<'_>| {
        if pod.phase == "Failed" { container.state() == ContainerStateName::Terminated } else { container.is_final() }
    };
    // Containers that run are the first to be left out.
    let is_complete = pod.omitted.containers == 0 || pod.phase == "Failed";
    is_complete
        && !pod.statuses.is_empty()
        && pod.statuses.len() >= pod.containers.len()
        && containers(pod).filter(|container| container.kind == ContainerKind::App).all(ended)
}

fn pending_message(pod: &Pod) -> &str {
    match pod.condition("PodScheduled") {
        Some(condition) if !condition.message.is_empty() => &condition.message,
        _ if pod.node.is_empty() => "not scheduled to a node yet",
        _ => "its containers run, but its phase is Pending",
    }
}

fn unknown_message(pod: &Pod) -> String {
    if !pod.message.is_empty() {
        return pod.message.to_string();
    }
    let lost = messages::lost_node(pod).map(|(_, message)| message);
    lost.unwrap_or_else(|| format!("{} does not report the pod's state", messages::node(pod)))
}

/// What prevents the pod from terminating.
fn stuck_message(pod: &Pod) -> String {
    let mut causes = Vec::new();
    match pod.finalizers.count() {
        0 => {}
        1 => causes.push(format!("finalizer left: {}", pod.finalizers)),
        _ => causes.push(format!("finalizers left: {}", pod.finalizers)),
    }
    causes.extend(messages::lost_node(pod).map(|(_, message)| message));
    let running: Vec<_> = containers(pod).filter(|container| container.is_running()).collect();
    if causes.is_empty() && !running.is_empty() {
        let names = messages::names(&running, ["was not stopped by", "were not stopped by"]);
        causes.push(format!("{names} {}", messages::node(pod)));
    }
    if causes.is_empty() {
        causes.push(format!("{} has not confirmed that it ended", messages::node(pod)));
    }
    causes.join("; ")
}
