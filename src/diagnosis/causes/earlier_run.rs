//! What killed a container in a loop, as an event about an earlier run shows.
//!
//! A kubelet writes 25 events about a pod and then one in five minutes, so after some minutes the events about a loop are
//! about its first runs. They prove the cause of the present run if it ended like those: with the same exit code if the pod
//! shows another run, otherwise by a signal that the kubelet sends, and after a time in which the probe can have failed.

use jiff::{SignedDuration, Timestamp};

use crate::pods::Terminated;

use super::{
    super::container::{Container, run_time},
    Case,
    kill::{
        DELAY, KillingProbe, ProbeKill, ROUNDING, by_probe, failure, fits, grace, is_during, killing_probes, kills,
        pod_grace,
    },
};

/// How long a postStart hook of a loop takes at most. Events do not show it, and one that hangs is killed with its pod.
const HOOK: SignedDuration = SignedDuration::from_secs(60);

/// What made the kubelet kill the runs of a loop.
pub(super) enum Killer<'a> {
    Probe(ProbeKill<'a>),
    Hook,
}

/// What killed this instance, if an earlier one of the same loop was killed by it.
pub(super) fn killer<'a>(case: &Case<'a>, container: Container<'a>, run: &Terminated) -> Option<Killer<'a>> {
    let others: Vec<&Terminated> = others(container, run).collect();
    let alike = |other: &&Terminated| (other.exit_code, &other.reason) == (run.exit_code, &run.reason);
    if !others.iter().all(alike) {
        return None;
    }
    let is_killed = matches!(run.exit_code, 137 | 143) || matches!(run.signal, 9 | 15);
    let earlier = |at: &Timestamp| is_killed && run.started.is_some_and(|started| *at < started);
    let probes = killing_probes(container).filter(|of| fits(*of, container, case.pod, run)).filter_map(|of| {
        let shown =
            others.iter().find(|other| by_probe(case, container, other).is_some_and(|kill| kill.cause == of.cause));
        let last =
            shown.and_then(|other| other.finished).or_else(|| kills(case, container, of).filter(earlier).max())?;
        Some((last, Killer::Probe(kill(case, container, of))))
    });
    let hook = fits_hook(case, run).then(|| {
        let shown = others.iter().find(|other| hook_failed(case, container, other));
        shown.and_then(|other| other.finished).or_else(|| hook_failures(case, container).filter(earlier).max())
    });
    let hook = hook.flatten().map(|last| (last, Killer::Hook));
    probes.chain(hook).max_by_key(|(last, _)| *last).map(|(_, killer)| killer)
}

/// The other instances that the pod shows.
fn others<'a>(container: Container<'a>, run: &Terminated) -> impl Iterator<Item = &'a Terminated> {
    let shown = container.status.state.terminated.iter().chain(&container.status.last);
    shown.filter(move |other| (other.started, other.finished) != (run.started, run.finished))
}

/// With what the probe last reported in any run.
fn kill<'a>(case: &Case<'a>, container: Container<'a>, of: KillingProbe<'a>) -> ProbeKill<'a> {
    let events = case.events.iter().rev().filter(|event| event.involved.container == container.status.name);
    let answer = events.filter(|event| event.reason == "Unhealthy").find_map(|event| failure(event, of.name));
    let grace = grace(of.probe, case.pod);
    ProbeKill { cause: of.cause, probe: of.probe, answer: answer.unwrap_or_default(), grace, is_exact: false }
}

/// Whether an event says that the postStart hook failed during this instance.
pub(super) fn hook_failed(case: &Case<'_>, container: Container<'_>, run: &Terminated) -> bool {
    hook_failures(case, container).any(|last| is_during(last, run))
}

/// When the postStart hook last failed. The event about the kill has the same words as its reason.
fn hook_failures<'a>(case: &Case<'a>, container: Container<'a>) -> impl Iterator<Item = Timestamp> + 'a {
    const REASON: &str = "FailedPostStartHook";
    let name = &container.status.name;
    let events = case.events.iter().filter(move |event| event.involved.container == *name);
    let failed = events.filter(|event| event.reason == REASON || event.reason == "Killing" && event.text() == REASON);
    failed.filter_map(|event| event.last.or(event.first))
}

/// Whether a failed postStart hook can have ended an instance like this. It runs as soon as the container has started.
fn fits_hook(case: &Case<'_>, run: &Terminated) -> bool {
    let Some(ran) = run_time(run) else { return false };
    let grace = pod_grace(case.pod);
    let is_killed = (run.exit_code == 137 || run.signal == 9) && case.pod.termination_grace.is_some();
    let is_late = !is_killed || ran.saturating_add(ROUNDING) >= grace;
    is_late && ran <= HOOK.saturating_add(grace).saturating_add(DELAY)
}
