//! Whether the kubelet killed a container because of its liveness or startup probe.
//!
//! The pod does not show it: the exit code is that of SIGTERM or SIGKILL, or whatever the process returns when it is asked
//! to stop. The kubelet's event about the kill proves it, or events about failed probes that fit to the end of the
//! instance. While a container is killed by the OOM killer or by a user, its probe may have failed once, too.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::Cause,
    events::Event,
    pods::{Pod, Probe, Terminated},
};

use super::{
    super::container::{Container, run_time},
    Case,
    parse::parts,
};

/// `terminationGracePeriodSeconds` if the pod does not give it.
const DEFAULT_GRACE: u32 = 30;
/// The kubelet grants at least this, in seconds.
const LEAST_GRACE: u32 = 2;
/// Times have whole seconds, and come from the kubelet and from the runtime.
pub(super) const ROUNDING: SignedDuration = SignedDuration::from_secs(2);
/// How much later than planned the kubelet may kill a container, and a container end.
pub(super) const DELAY: SignedDuration = SignedDuration::from_secs(5);

/// How long a kubelet waits at most before it starts a crashed container again, with the time for the start itself.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(330);

/// The kill of a container's instance by a probe.
pub(super) struct ProbeKill<'a> {
    pub(super) cause: Cause,
    pub(super) probe: &'a Probe,
    /// What the probe reported, for example `HTTP probe failed with statuscode: 503`.
    pub(super) answer: &'a str,
    /// How long the container had to end after SIGTERM.
    pub(super) grace: SignedDuration,
    /// Whether the probe failed without a success in between, and the instance ended just when its grace period was over.
    pub(super) is_exact: bool,
}

/// A probe whose failures make the kubelet kill the container.
#[derive(Clone, Copy)]
pub(super) struct KillingProbe<'a> {
    pub(super) cause: Cause,
    /// As events about failures begin: `Liveness` or `Startup`.
    pub(super) name: &'static str,
    pub(super) probe: &'a Probe,
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
pub(super) fn by_probe<'a>(case: &Case<'a>, container: Container<'a>, run: &Terminated) -> Option<ProbeKill<'a>> {
    let candidates = killing_probes(container).filter_map(|of| of_instance(case, container, of, run));
    // The liveness probe runs only after the startup probe has passed.
    candidates.max_by_key(|(last, _)| *last).map(|(_, kill)| kill)
}

pub(super) fn killing_probes<'a>(container: Container<'a>) -> impl Iterator<Item = KillingProbe<'a>> {
    let startup = container.spec.and_then(|spec| spec.startup_probe.as_deref());
    let liveness = container.spec.and_then(|spec| spec.liveness_probe.as_deref());
    let of = |cause, name| move |probe| KillingProbe { cause, name, probe };
    startup
        .map(of(Cause::StartupProbe, "Startup"))
        .into_iter()
        .chain(liveness.map(of(Cause::LivenessProbe, "Liveness")))
}

/// The kill of an instance by this probe, and when the probe last failed or the kubelet killed it.
fn of_instance<'a>(
    case: &Case<'a>,
    container: Container<'a>,
    of: KillingProbe<'a>,
    run: &Terminated,
) -> Option<(Timestamp, ProbeKill<'a>)> {
    let KillingProbe { cause, name, probe } = of;
    let kill = |answer, is_exact| ProbeKill { cause, probe, answer, grace: grace(probe, case.pod), is_exact };
    let failures = failures(case, container, name, run);
    if let Some(failures) = &failures
        && let Some(end) = End::of(failures, probe, case.pod, run)
        && end.proves_kill(failures, probe, container, run, cause == Cause::StartupProbe)
    {
        return Some((failures.last, kill(failures.answer, end.is_in_a_row && end.is_after_grace)));
    }
    let killed = kills(case, container, of).filter(|at| is_during(*at, run)).max()?;
    let answer = failures.map_or("", |failures| failures.answer);
    Some((killed, kill(answer, is_grace(run.finished?.duration_since(killed), grace(probe, case.pod)))))
}

/// Whether an instance ran at this time.
pub(super) fn is_during(at: Timestamp, run: &Terminated) -> bool {
    let after = |from: Option<Timestamp>| from.map(|from| at.duration_since(from));
    after(run.started).is_some_and(|after| after >= -ROUNDING)
        && after(run.finished).is_some_and(|after| after <= ROUNDING)
}

/// When the kubelet last reported that it kills the container because of this probe: `Container app failed liveness probe,
/// will be restarted`.
pub(super) fn kills<'a>(
    case: &Case<'a>,
    container: Container<'a>,
    of: KillingProbe<'a>,
) -> impl Iterator<Item = Timestamp> + 'a {
    let (name, probe) = (container.status.name.as_str(), if of.name == "Startup" { "startup" } else { "liveness" });
    case.events.iter().filter_map(move |event| {
        let [named, failed, _] = parts("Container {w} failed {w} probe{}", event.text())?;
        let is_own = event.reason == "Killing" && event.involved.container == name && named == name;
        if is_own && failed == probe { event.last.or(event.first) } else { None }
    })
}

/// How long the kubelet waits after SIGTERM before it sends SIGKILL.
pub(super) fn grace(probe: &Probe, pod: &Pod) -> SignedDuration {
    probe.termination_grace.map_or_else(|| pod_grace(pod), |grace| seconds(grace.max(LEAST_GRACE)))
}

/// The same if no probe is the reason.
pub(super) fn pod_grace(pod: &Pod) -> SignedDuration {
    seconds(pod.termination_grace.unwrap_or(DEFAULT_GRACE).max(LEAST_GRACE))
}

/// Whether a delay is the grace period, after which the kubelet sends SIGKILL.
fn is_grace(delay: SignedDuration, grace: SignedDuration) -> bool {
    delay >= grace.saturating_sub(ROUNDING) && delay <= grace.saturating_add(DELAY)
}

/// Whether the probe can have killed an instance that ended like this, as soon as it failed often enough after the start.
pub(super) fn fits(of: KillingProbe<'_>, container: Container<'_>, pod: &Pod, run: &Terminated) -> bool {
    let Some(ran) = run_time(run) else { return false };
    let grace = grace(of.probe, pod);
    let least = least(of.probe);
    let is_killed = run.exit_code == 137 || run.signal == 9;
    let least = if is_killed && has_grace(of.probe, pod) { least.saturating_add(grace) } else { least };
    // The liveness probe begins when the startup probe has passed.
    let startup = container.spec.and_then(|spec| spec.startup_probe.as_deref()).filter(|_| of.name != "Startup");
    let begins = startup.map_or(SignedDuration::ZERO, latest);
    let latest = begins.saturating_add(latest(of.probe)).saturating_add(grace).saturating_add(DELAY);
    ran.saturating_add(ROUNDING) >= least && ran <= latest
}

/// How long after the start a probe can fail often enough, at the earliest.
fn least(probe: &Probe) -> SignedDuration {
    seconds(probe.initial_delay).saturating_add(times(seconds(probe.period.max(1)), probe.failure_threshold.max(1) - 1))
}

/// The same at the latest, if it never passes.
fn latest(probe: &Probe) -> SignedDuration {
    seconds(probe.initial_delay).saturating_add(series(probe))
}

/// How long it takes to fail as often as the threshold.
fn series(probe: &Probe) -> SignedDuration {
    let attempt = seconds(probe.period.max(1)).saturating_add(seconds(probe.timeout.max(1)));
    times(attempt, probe.failure_threshold.max(1))
}

fn has_grace(probe: &Probe, pod: &Pod) -> bool {
    probe.termination_grace.or(pod.termination_grace).is_some()
}

/// The failures of a probe that were reported during an instance.
fn failures<'a>(case: &Case<'a>, container: Container<'a>, name: &str, run: &Terminated) -> Option<Failures<'a>> {
    let mut found: Option<Failures<'a>> = None;
    for event in case.events.iter().filter(|event| event.reason == "Unhealthy") {
        if event.involved.container != container.status.name {
            continue;
        }
        let Some(answer) = failure(event, name) else { continue };
        let (Some(first), Some(last)) = (event.first.or(event.last), event.last.or(event.first)) else { continue };
        if !is_during(last, run) {
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
    let rest = event.text().strip_prefix(probe)?.strip_prefix(" probe failed")?;
    Some(rest.trim_start_matches(':').trim())
}

/// How the end of an instance relates to the failures of a probe.
struct End {
    ran: SignedDuration,
    grace: SignedDuration,
    /// From the last failure to the end.
    delay: SignedDuration,
    /// Whether the grace period was over. Also true if its length is not known.
    is_late: bool,
    /// Whether all failures belong to this instance.
    is_own: bool,
    /// Whether they do, and the probe did not succeed in between.
    is_in_a_row: bool,
    /// Whether the delay is the grace period, after which the kubelet sends SIGKILL.
    is_after_grace: bool,
}

impl End {
    fn of(failures: &Failures<'_>, probe: &Probe, pod: &Pod, run: &Terminated) -> Option<Self> {
        let (started, finished, ran) = (run.started?, run.finished?, run_time(run)?);
        let grace = grace(probe, pod);
        let delay = finished.duration_since(failures.last);
        let is_own = failures.first.duration_since(started) >= -ROUNDING;
        let interval = seconds(probe.period.max(probe.timeout).max(1)).saturating_add(ROUNDING);
        let span = failures.last.duration_since(failures.first);
        let is_in_a_row = is_own && span <= times(interval, failures.count.saturating_sub(1));
        let is_after_grace = is_grace(delay, grace);
        let is_late = !has_grace(probe, pod) || delay >= grace.saturating_sub(ROUNDING);
        Some(Self { ran, grace, delay, is_late, is_own, is_in_a_row, is_after_grace })
    }

    fn proves_kill(
        &self,
        failures: &Failures<'_>,
        probe: &Probe,
        container: Container<'_>,
        run: &Terminated,
        is_startup: bool,
    ) -> bool {
        let threshold = probe.failure_threshold.max(1);
        // The kubelet kills the container immediately after the last failure. An event may be about an earlier one.
        let series = series(probe);
        let latest = self.grace.saturating_add(series).saturating_add(DELAY);
        let is_in_time = self.ran.saturating_add(ROUNDING) >= least(probe) && self.delay <= latest;
        // A startup probe that did not fail often enough in this time has passed.
        let slowest = seconds(probe.initial_delay).saturating_add(times(series, 2)).saturating_add(latest);
        if !is_in_time || failures.count < threshold || is_startup && self.ran > slowest {
            return false;
        }
        // An event that also counts the failures of earlier instances may count only one of this instance. It shows that
        // the probe failed often enough if it did so in each instance, or if this one ran no longer than until its first
        // possible kill.
        let instances = u32::try_from(container.status.restarts).unwrap_or_default().max(1);
        let in_each = !self.is_own && failures.count >= threshold.saturating_mul(instances);
        let is_earliest = self.ran <= seconds(probe.initial_delay).saturating_add(latest);
        let is_repeated = in_each || !self.is_own && is_earliest;
        if run.exit_code == 137 || run.signal == 9 {
            // The kubelet does not send SIGKILL before the grace period is over. If the probe succeeded in between, the
            // last failure must be the one before the kill.
            return self.is_late && (self.is_in_a_row || self.is_after_grace || is_repeated);
        }
        if run.exit_code == 143 || run.signal == 15 {
            return self.is_in_a_row || self.is_own && self.delay <= DELAY || is_repeated;
        }
        // Any other code may be the process's own. Then only failures without a success in between prove the kill: as many
        // as the threshold in a row, or in each instance.
        let is_prompt = self.delay <= self.grace.saturating_add(DELAY);
        is_prompt && (self.is_in_a_row || in_each)
    }
}

// What a container declares where a probe finds no port. A process may listen on ports that its container does not declare, so
// the sentence only names them, and only if nothing shows that the probe has ever passed.

/// For example `; app declares port 80, not 8080`, about a probe that keeps the pod from becoming ready.
pub(super) fn undeclared_by_unready(pod: &Pod, name: &str, probe: &Probe, answer: &str) -> Option<String> {
    let (since, started) = (pod.condition("ContainersReady")?.since?, pod.started?);
    let was_never_ready = since.duration_since(started) <= ROUNDING;
    if was_never_ready { undeclared(name, probe, answer) } else { None }
}

/// The same about a probe because of which the kubelet killed an instance.
pub(super) fn undeclared_by_killed(
    pod: &Pod,
    container: Container<'_>,
    name: &str,
    kill: &ProbeKill<'_>,
    run: &Terminated,
) -> Option<String> {
    let of = killing_probes(container).find(|of| of.cause == kill.cause)?;
    let shown = container.status.state.terminated.iter().chain(&container.status.last);
    let has_looped = shown.chain([run]).all(|other| fits(of, container, pod, other)) && has_looped(pod, container, run);
    // The liveness probe begins when the startup probe has passed, which may be of the same port.
    let startup = killing_probes(container).find(|other| other.cause == Cause::StartupProbe);
    let has_passed = of.cause == Cause::LivenessProbe
        && startup.is_some_and(|startup| startup.probe.undeclared_port == kill.probe.undeclared_port);
    if has_looped && !has_passed { undeclared(name, kill.probe, kill.answer) } else { None }
}

/// Whether no instance can have run much longer than this one, as many as there were since the pod was started.
fn has_looped(pod: &Pod, container: Container<'_>, run: &Terminated) -> bool {
    let longest = || {
        let instances = container.status.restarts.max(0).saturating_add(1);
        let each = run_time(run)?.saturating_add(DELAY).saturating_add(BACK_OFF);
        Some(run.finished?.duration_since(pod.started?) <= each.saturating_mul(instances))
    };
    longest().unwrap_or(false)
}

fn undeclared(name: &str, probe: &Probe, answer: &str) -> Option<String> {
    let asked = probe.undeclared_port.as_deref()?;
    let is_refused = || answer.ends_with(&format!(":{}: connect: connection refused", asked.port));
    if asked.declared.is_empty() || !is_number(&asked.port) || !is_refused() {
        return None;
    }
    let plural = if asked.declared.count() == 1 { "" } else { "s" };
    Some(format!("; {name} declares port{plural} {}, not {}", asked.declared, asked.port))
}

/// Whether the probe can never pass, because its container declares no port of the name that it asks for: the kubelet cannot
/// resolve the name. For example `; app declares no port named web`.
pub(super) fn unnamed_port(name: &str, probe: &Probe) -> Option<String> {
    let asked = probe.undeclared_port.as_deref().filter(|asked| !is_number(&asked.port))?;
    Some(format!("; {name} declares no port named {}", asked.port))
}

fn is_number(port: &str) -> bool {
    port.parse::<u16>().is_ok()
}

fn seconds(seconds: u32) -> SignedDuration {
    SignedDuration::from_secs(seconds.into())
}

fn times(duration: SignedDuration, factor: u32) -> SignedDuration {
    duration.saturating_mul(i32::try_from(factor).unwrap_or(i32::MAX))
}
