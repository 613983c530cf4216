//! Computes a pod's verdict: which of its possible problems is reported.

use std::time::Duration;

use arcstr::ArcStr;
use jiff::Timestamp;

use crate::{
    api::{ContainerKind, ContainerStateName, ProblemKind},
    pods::Pod,
};

use super::{
    container::{Beginning, Container, Trouble, containers},
    facts::Facts,
    finding::{ContainerFinding, Explanation, Finding, Health, OtherProblem, Verdict},
    kubectl_columns::kubectl_status,
    messages, node,
    one_line::{MESSAGE_LIMIT, one_line, reason_line},
    overdue::Overdue,
    owner::owner_with,
    pod_clock::{PodClock, after},
    thresholds::Thresholds,
};

/// Judges a pod.
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
pub(super) fn judge(pod: &Pod, facts: &Facts, thresholds: &Thresholds, now: Timestamp) -> Verdict {
    let mut clock = PodClock::new(pod, now);
    let health = health(pod, facts, thresholds, &mut clock);
    Verdict { health, recheck: clock.recheck(), lacks_job: false }
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
    let verdict = judge(pod, &Facts::default(), &strictest, now);
    verdict.health == Health::Healthy && verdict.recheck.is_none()
}

fn health(pod: &Pod, facts: &Facts, thresholds: &Thresholds, clock: &mut PodClock) -> Health {
    if let Some(deletion) = pod.deletion {
        if !clock.has_passed(after(deletion, thresholds.terminating)) {
            return Health::Settling;
        }
        let problem = Problem::of_pod(ProblemKind::Terminating, "StuckTerminating", stuck_message(pod));
        return Problem { since: Some(deletion), tolerated: thresholds.terminating, ..problem }
            .into_health(pod, facts, clock);
    }
    match pod.phase.as_str() {
        "Succeeded" => return Health::Healthy,
        "Failed" => return failed(pod, facts, thresholds, clock),
        _ => {}
    }
    let troubles = troubles(pod, thresholds.restarted, clock);
    if !troubles.is_empty() {
        return Problem::of_containers(&troubles, facts, clock).into_health(pod, facts, clock);
    }
    if pod.phase == "Unknown" {
        let since = unready_since(pod, clock);
        let problem = Problem::of_pod(ProblemKind::NodeLost, "Unknown", unknown_message(pod));
        return Problem { since, ..problem }.into_health(pod, facts, clock);
    }
    let Some(state) = Overdue::of(pod, thresholds, clock) else { return Health::Healthy };
    match state.since {
        Some(since) if !clock.has_passed(after(since, state.limit)) => Health::Settling,
        since => Problem {
            since,
            tolerated: state.limit,
            container: state.container(),
            containers: state.findings(),
            ..Problem::of_pod(state.kind, state.reason, state.message(pod))
        }
        .into_health(pod, facts, clock),
    }
}

/// The parts of a finding that depend on the kind of problem.
struct Problem<'a> {
    kind: ProblemKind,
    reason: ArcStr,
    container: &'a str,
    message: ArcStr,
    since: Option<Timestamp>,
    since_at_latest: bool,
    /// The threshold that has passed.
    tolerated: Duration,
    containers: Vec<ContainerFinding>,
    others: Vec<OtherProblem>,
}

impl<'a> Problem<'a> {
    fn of_pod(kind: ProblemKind, reason: &str, message: impl Into<ArcStr>) -> Self {
        Self {
            kind,
            reason: reason.into(),
            container: "",
            message: message.into(),
            since: None,
            since_at_latest: false,
            tolerated: Duration::ZERO,
            containers: Vec::new(),
            others: Vec::new(),
        }
    }

    fn of_containers(troubles: &[Troubled<'a>], facts: &Facts, clock: &PodClock) -> Self {
        let mut causes = troubles.iter().map(|troubled| {
            let mut message = messages::container(troubled.container, troubled.trouble);
            message.push_str(&messages::job_attempts(facts));
            OtherProblem {
                kind: troubled.container.kind_of(troubled.trouble),
                reason: troubled.container.reason(troubled.trouble).into(),
                container: troubled.container.status.name.clone(),
                message: one_line(&message, MESSAGE_LIMIT).into(),
                since: troubled.beginning.time.unwrap_or(clock.now()),
                since_at_latest: troubled.beginning.at_latest,
                explanation: Explanation::default(),
            }
        });
        let Some((first, container)) = causes.next().zip(troubles.first().map(|first| first.container)) else {
            return Self::of_pod(ProblemKind::Unknown, "Unknown", "");
        };
        Self {
            kind: first.kind,
            reason: first.reason,
            container: &container.status.name,
            message: first.message,
            since: Some(first.since),
            since_at_latest: first.since_at_latest,
            tolerated: Duration::ZERO,
            containers: findings(troubles),
            others: causes.collect(),
        }
    }

    fn into_health(self, pod: &Pod, facts: &Facts, clock: &PodClock) -> Health {
        Health::Problem(Box::new(Finding {
            status: reason_line(&kubectl_status(pod)).into(),
            kind: self.kind,
            reason: self.reason,
            container: self.container.into(),
            message: messages::with_omitted(one_line(&self.message, MESSAGE_LIMIT), pod).into(),
            since: self.since.unwrap_or(clock.now()),
            since_at_latest: self.since_at_latest || self.since.is_none(),
            tolerated: self.tolerated,
            owner: owner_with(pod, facts),
            containers: self.containers,
            others: self.others,
            explanation: Explanation::default(),
        }))
    }
}

/// A container in trouble.
struct Troubled<'a> {
    container: Container<'a>,
    trouble: Trouble<'a>,
    beginning: Beginning,
}

/// The containers in trouble: those that are failing, then those that were restarted.
fn troubles<'a>(pod: &'a Pod, restarted: Duration, clock: &mut PodClock) -> Vec<Troubled<'a>> {
    let apps_have_ended = apps_have_ended(pod);
    let mut troubles: Vec<_> = containers(pod)
        .filter(|container| !(apps_have_ended && container.kind == ContainerKind::Sidecar))
        .filter_map(|container| {
            let (trouble, beginning) = container.trouble(restarted, clock)?;
            Some(Troubled { container, trouble, beginning })
        })
        .collect();
    // The sort is stable, so each half keeps the order of the pod.
    troubles.sort_by_key(|troubled| matches!(troubled.trouble, Trouble::Restarted(_)));
    troubles
}

fn findings(troubles: &[Troubled<'_>]) -> Vec<ContainerFinding> {
    troubles.iter().map(|troubled| troubled.container.finding(Some(troubled.trouble))).collect()
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

fn failed(pod: &Pod, facts: &Facts, thresholds: &Thresholds, clock: &mut PodClock) -> Health {
    if facts.job.as_ref().is_some_and(|job| job.complete || job.superseded) {
        return Health::Healthy;
    }
    // Nothing is restarted any more, so earlier failures are not the cause.
    let mut troubles = troubles(pod, thresholds.restarted, clock);
    troubles.retain(|troubled| !matches!(troubled.trouble, Trouble::Restarted(_)));
    let since =
        troubles.iter().filter_map(|troubled| troubled.beginning.time).min().or_else(|| unready_since(pod, clock));
    if facts.replaced && since.is_some_and(|since| clock.has_passed(after(since, thresholds.failed))) {
        return Health::Healthy;
    }
    let reason = reason_line(&pod.reason);
    if reason.is_empty() && !troubles.is_empty() {
        return Problem::of_containers(&troubles, facts, clock).into_health(pod, facts, clock);
    }
    let mut message = if pod.message.is_empty() { "the pod has failed".to_owned() } else { pod.message.to_string() };
    message.push_str(&messages::job_attempts(facts));
    let problem = Problem::of_pod(ProblemKind::Failed, if reason.is_empty() { "Failed" } else { &reason }, message);
    Problem { since, containers: findings(&troubles), ..problem }.into_health(pod, facts, clock)
}

/// Since when the pod has not been ready, or else when it started.
fn unready_since(pod: &Pod, clock: &mut PodClock) -> Option<Timestamp> {
    let ready = pod.condition("Ready").filter(|ready| ready.status != "True");
    clock.start_time([ready.and_then(|ready| ready.since), pod.started])
}

fn unknown_message(pod: &Pod) -> String {
    if !pod.message.is_empty() {
        return pod.message.to_string();
    }
    node::trouble(pod).unwrap_or_else(|| format!("{} does not report the pod's state", messages::node(pod)))
}

/// What prevents the pod from terminating.
fn stuck_message(pod: &Pod) -> String {
    let mut causes = Vec::new();
    match pod.finalizers.count() {
        0 => {}
        1 => causes.push(format!("finalizer left: {}", pod.finalizers)),
        _ => causes.push(format!("finalizers left: {}", pod.finalizers)),
    }
    causes.extend(node::trouble(pod));
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
