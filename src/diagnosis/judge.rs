//! The judgement: which of the things that may be wrong with a pod is the problem.

use std::{cmp::Reverse, time::Duration};

use jiff::Timestamp;

use crate::{api::ProblemKind, pods::Pod};

use super::{
    clock::{Clock, after},
    container::{Container, Trouble, containers},
    finding::{ContainerFinding, Finding, Health, Verdict},
    lasting::Lasting,
    node,
    owner::owner,
    printed::printed_status,
    text::{MESSAGE_LIMIT, REASON_LIMIT, one_line},
    thresholds::Thresholds,
    words,
};

/// What a judgement takes into account that the pod itself doesn't tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether the Job that [`needs_job`](super::needs_job) names has the condition Complete.
    pub job_complete: bool,
}

/// Judges a pod.
///
/// Of several troubles the one that explains most is the problem, in this order:
///
/// 1. pods annotated as ignored and Succeeded pods are healthy, whatever else they show;
/// 2. a pod being deleted is only ever StuckTerminating;
/// 3. a Failed pod has failed, for its own reason or else its container's, unless its Job is complete;
/// 4. containers that fail now, the first of the pod first, then those that failed and run again, the
///    most recent failure first;
/// 5. a pod of phase Unknown;
/// 6. states that have lasted too long: not scheduled, an init container that runs on, containers being
///    created, not ready.
///
/// In 4, sidecars don't count once all app containers have ended: the kubelet stops them then. A pod
/// without any believable time at all is taken to be in its state for long.
#[must_use]
pub fn judge(pod: &Pod, facts: Facts, thresholds: &Thresholds, now: Timestamp) -> Verdict {
    let mut clock = Clock::new(now);
    let health = health(pod, facts, thresholds, &mut clock);
    Verdict { health, recheck: clock.changes() }
}

/// Whether the pod is healthy and will stay so until it changes, under all thresholds that forget a
/// restart after `horizon` or sooner: of such a pod, nothing need be kept.
#[must_use]
pub fn is_plain(pod: &Pod, horizon: Duration, now: Timestamp) -> bool {
    let strictest = Thresholds {
        pending: Duration::ZERO,
        initializing: Duration::ZERO,
        not_ready: Duration::ZERO,
        terminating: Duration::ZERO,
        restarted: horizon,
        failed: Duration::MAX,
    };
    let verdict = judge(pod, Facts::default(), &strictest, now);
    verdict.health == Health::Healthy && verdict.recheck.is_none()
}

fn health(pod: &Pod, facts: Facts, thresholds: &Thresholds, clock: &mut Clock) -> Health {
    if pod.ignored || pod.phase == "Succeeded" {
        return Health::Healthy;
    }
    if let Some(deletion) = pod.deletion {
        if !clock.reached(after(deletion, thresholds.terminating)) {
            return Health::Settling;
        }
        let cause =
            Cause { since: Some(deletion), ..Cause::of_pod(ProblemKind::Terminating, "StuckTerminating", stuck(pod)) };
        return cause.found_in(pod, clock);
    }
    if pod.phase == "Failed" {
        return if facts.job_complete { Health::Healthy } else { failed(pod, clock).found_in(pod, clock) };
    }
    let troubles = troubles(pod, thresholds.restarted, clock);
    if let Some(first) = troubles.first() {
        return Cause::of_container(first, &troubles).found_in(pod, clock);
    }
    if pod.phase == "Unknown" {
        let since = unready(pod, clock);
        return Cause { since, ..Cause::of_pod(ProblemKind::NodeLost, "Unknown", unknown(pod)) }.found_in(pod, clock);
    }
    let Some(state) = Lasting::of(pod, thresholds, clock) else { return Health::Healthy };
    match state.since {
        Some(since) if !clock.reached(after(since, state.limit)) => Health::Settling,
        since => Cause {
            since,
            container: state.container(),
            containers: state.findings(),
            ..Cause::of_pod(state.kind, state.reason, state.message(pod))
        }
        .found_in(pod, clock),
    }
}

/// What a finding is made from.
struct Cause<'a> {
    kind: ProblemKind,
    reason: String,
    container: &'a str,
    message: String,
    since: Option<Timestamp>,
    containers: Vec<ContainerFinding>,
}

impl<'a> Cause<'a> {
    fn of_pod(kind: ProblemKind, reason: &str, message: String) -> Self {
        Self { kind, reason: reason.to_owned(), container: "", message, since: None, containers: Vec::new() }
    }

    fn of_container(first: &Troubled<'a>, all: &[Troubled<'a>]) -> Self {
        Self {
            kind: first.container.kind_of(first.trouble),
            reason: first.container.reason(first.trouble),
            container: &first.container.status.name,
            message: words::of_container(first.container, first.trouble),
            since: first.since,
            containers: findings(all),
        }
    }

    fn found_in(self, pod: &Pod, clock: &Clock) -> Health {
        Health::Problem(Box::new(Finding {
            status: one_line(&printed_status(pod), REASON_LIMIT),
            kind: self.kind,
            reason: self.reason,
            container: self.container.to_owned(),
            message: one_line(&self.message, MESSAGE_LIMIT),
            since: self.since.unwrap_or(clock.now()),
            owner: owner(pod),
            containers: self.containers,
        }))
    }
}

/// A container in trouble.
struct Troubled<'a> {
    container: Container<'a>,
    trouble: Trouble<'a>,
    since: Option<Timestamp>,
}

/// The containers in trouble, that which explains most first.
fn troubles<'a>(pod: &'a Pod, forget: Duration, clock: &mut Clock) -> Vec<Troubled<'a>> {
    let over = apps_are_over(pod);
    let mut troubles: Vec<_> = containers(pod)
        .filter(|container| !(over && pod.is_sidecar(&container.status.name)))
        .filter_map(|container| {
            let (trouble, since) = container.trouble(pod, forget, clock)?;
            Some(Troubled { container, trouble, since })
        })
        .collect();
    // Stable: those that fail now stay in the pod's order.
    troubles.sort_by_key(|troubled| match troubled.trouble {
        Trouble::Restarted(_) => (1, Reverse(troubled.since)),
        _ => (0, Reverse(None)),
    });
    troubles
}

fn findings(troubles: &[Troubled<'_>]) -> Vec<ContainerFinding> {
    troubles.iter().map(|troubled| troubled.container.finding(Some(troubled.trouble))).collect()
}

fn apps_are_over(pod: &Pod) -> bool {
    !pod.statuses.is_empty()
        && pod.statuses.len() >= pod.containers.len()
        && pod.statuses.iter().all(|status| status.state.terminated.is_some())
}

fn failed<'a>(pod: &'a Pod, clock: &mut Clock) -> Cause<'a> {
    // Nothing is started again, so earlier failures explain nothing.
    let troubles = troubles(pod, Duration::ZERO, clock);
    let reason = one_line(&pod.reason, REASON_LIMIT);
    match troubles.first() {
        Some(first) if reason.is_empty() => Cause::of_container(first, &troubles),
        first => Cause {
            since: first.and_then(|first| first.since).or_else(|| unready(pod, clock)),
            containers: findings(&troubles),
            ..Cause::of_pod(
                ProblemKind::Failed,
                if reason.is_empty() { "Failed" } else { &reason },
                if pod.message.is_empty() { "the pod has failed".to_owned() } else { pod.message.clone() },
            )
        },
    }
}

/// Since when the pod hasn't been ready, else since when it exists.
fn unready(pod: &Pod, clock: &mut Clock) -> Option<Timestamp> {
    let ready = pod.condition("Ready").filter(|ready| ready.status != "True");
    clock.began([ready.and_then(|ready| ready.since), pod.started, pod.created])
}

fn unknown(pod: &Pod) -> String {
    if !pod.message.is_empty() {
        return pod.message.clone();
    }
    node::trouble(pod).unwrap_or_else(|| format!("{} does not report the pod's state", words::node(pod)))
}

/// What keeps a pod from going away, in words.
fn stuck(pod: &Pod) -> String {
    let mut causes = Vec::new();
    match pod.finalizers.as_slice() {
        [] => {}
        [one] => causes.push(format!("finalizer left: {one}")),
        several => causes.push(format!("finalizers left: {}", several.join(", "))),
    }
    causes.extend(node::trouble(pod));
    let running: Vec<_> = containers(pod).filter(|container| container.runs()).collect();
    if causes.is_empty() && !running.is_empty() {
        let names = words::names(&running, ["was not stopped by", "were not stopped by"]);
        causes.push(format!("{names} {}", words::node(pod)));
    }
    if causes.is_empty() {
        causes.push(format!("{} has not confirmed that it ended", words::node(pod)));
    }
    causes.join("; ")
}
