//! Whether the kubelet killed a container because of its liveness or startup probe.
//!
//! The pod does not show it: the exit code is that of SIGTERM or SIGKILL, or whatever the process returns when it is asked
//! to stop. Only events about failed probes prove it, and only if they fit to the end of the instance. While a container
//! is killed by the OOM killer or by a user, its probe may have failed once, too.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::Cause,
    events::Event,
    pods::{Pod, Probe, Terminated},
};

use super::{
    super::{container::Container, messages::OOM_KILLED},
    View,
    evidence::text,
    exit_codes::run_time,
};

/// `terminationGracePeriodSeconds` if the pod does not give it.
const DEFAULT_GRACE: u32 = 30;
/// Times have whole seconds, and come from the kubelet and from the runtime.
const ROUNDING: SignedDuration = SignedDuration::from_secs(2);
/// How much later than planned the kubelet may kill a container, and a container end.
const DELAY: SignedDuration = SignedDuration::from_secs(5);

/// The kill of a container's instance by a probe.
pub(super) struct ProbeKill<'a> {
    pub(super) cause: Cause,
    pub(super) probe: &'a Probe,
    /// What the probe reported, for example `HTTP probe failed with statuscode: 503`.
    pub(super) answer: &'a str,
}

/// The failures of one probe during an instance.
struct Failures<'a> {
    /// How often it failed, possibly including earlier instances.
    count: u32,
    first: Timestamp,
    last: Timestamp,
    answer: &'a str,
}

/// The probe that made the kubelet kill this instance, if that is proven.
pub(super) fn by_probe<'a>(view: &View<'a>, container: Container<'a>, life: &Terminated) -> Option<ProbeKill<'a>> {
    // The OOM killer sends SIGKILL itself.
    if life.reason == OOM_KILLED && life.exit_code == 137 {
        return None;
    }
    let spec = container.spec?;
    let startup = spec.startup_probe.as_deref().map(|probe| (Cause::StartupProbe, "Startup", probe));
    let liveness = spec.liveness_probe.as_deref().map(|probe| (Cause::LivenessProbe, "Liveness", probe));
    let candidates = startup.into_iter().chain(liveness).filter_map(|(cause, name, probe)| {
        let failures = failures(view, container, name, life)?;
        let is_startup = cause == Cause::StartupProbe;
        proves_kill(&failures, probe, view.pod, container, life, is_startup).then_some((
            failures.last,
            cause,
            probe,
            failures.answer,
        ))
    });
    // The liveness probe runs only after the startup probe has passed.
    let (_, cause, probe, answer) = candidates.max_by_key(|(last, ..)| *last)?;
    Some(ProbeKill { cause, probe, answer })
}

/// The failures of a probe that were reported during an instance.
fn failures<'a>(view: &View<'a>, container: Container<'a>, name: &str, life: &Terminated) -> Option<Failures<'a>> {
    let (started, finished) = (life.started?, life.finished?);
    let mut found: Option<Failures<'a>> = None;
    for event in view.facts.events.iter().filter(|event| event.reason == "Unhealthy") {
        if event.involved.container != container.status.name {
            continue;
        }
        let Some(answer) = failure(event, name) else { continue };
        let (Some(first), Some(last)) = (event.first.or(event.last), event.last.or(event.first)) else { continue };
        if last.duration_since(started) < -ROUNDING || last.duration_since(finished) > ROUNDING {
            continue;
        }
        let count = event.count.max(1);
        found = Some(match found {
            Some(earlier) => Failures {
                count: earlier.count.saturating_add(count),
                first: earlier.first.min(first),
                last: earlier.last.max(last),
                answer: if last >= earlier.last { answer } else { earlier.answer },
            },
            None => Failures { count, first, last, answer },
        });
    }
    found
}

/// The answer in `Liveness probe failed: …`. A probe that `errored` has no result, and the kubelet ignores it.
pub(super) fn failure<'a>(event: &'a Event, probe: &str) -> Option<&'a str> {
    let rest = text(event).strip_prefix(probe)?.strip_prefix(" probe failed")?;
    Some(rest.trim_start_matches(':').trim())
}

fn proves_kill(
    failures: &Failures<'_>,
    probe: &Probe,
    pod: &Pod,
    container: Container<'_>,
    life: &Terminated,
    is_startup: bool,
) -> bool {
    let (Some(started), Some(finished), Some(ran)) = (life.started, life.finished, run_time(life)) else {
        return false;
    };
    let threshold = probe.failure_threshold.max(1);
    let period = seconds(probe.period.max(1));
    let grace = seconds(probe.termination_grace.or(pod.termination_grace).unwrap_or(DEFAULT_GRACE));
    let least = seconds(probe.initial_delay).saturating_add(times(period, threshold - 1));
    // The kubelet kills the container immediately after the last failure. An event may be about an earlier one.
    let series = times(period.saturating_add(seconds(probe.timeout.max(1))), threshold);
    let latest = grace.saturating_add(series).saturating_add(DELAY);
    let is_in_time = ran.saturating_add(ROUNDING) >= least && finished.duration_since(failures.last) <= latest;
    // A startup probe that did not fail often enough in this time has passed.
    let slowest = seconds(probe.initial_delay).saturating_add(times(series, 2)).saturating_add(latest);
    if !is_in_time || failures.count < threshold || is_startup && ran > slowest {
        return false;
    }
    if matches!(life.exit_code, 137 | 143) || matches!(life.signal, 9 | 15) {
        return true;
    }
    // Any other code may be the process's own. Then only failures without a success in between prove the kill: as many as
    // the threshold in a row, or in each instance.
    let is_own = failures.first.duration_since(started) >= -ROUNDING;
    let span = failures.last.duration_since(failures.first);
    let is_in_a_row = is_own && span <= times(period.saturating_add(ROUNDING), failures.count.saturating_sub(1));
    let instances = u32::try_from(container.status.restarts).unwrap_or_default().max(1);
    let in_each = !is_own && failures.count >= threshold.saturating_mul(instances);
    let is_prompt = finished.duration_since(failures.last) <= grace.saturating_add(DELAY);
    is_prompt && (is_in_a_row || in_each)
}

fn seconds(seconds: u32) -> SignedDuration {
    SignedDuration::from_secs(seconds.into())
}

fn times(duration: SignedDuration, factor: u32) -> SignedDuration {
    duration.saturating_mul(i32::try_from(factor).unwrap_or(i32::MAX))
}
