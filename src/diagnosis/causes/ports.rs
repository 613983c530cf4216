//! What a container declares where a probe finds no port.
//!
//! A process may listen on ports that its container does not declare. So the sentence only names them, and only if nothing
//! shows that the probe has ever passed.

use jiff::SignedDuration;

use crate::{
    api::Cause,
    pods::{Pod, Probe, Terminated},
};

use super::{
    super::container::Container,
    exit_codes::run_time,
    kill::{DELAY, ProbeKill, ROUNDING, fits, killing_probes},
};

/// How long a kubelet waits at most before it starts a crashed container again, with the time for the start itself.
const BACK_OFF: SignedDuration = SignedDuration::from_secs(330);

/// For example `; app declares port 80, not 8080`, about a probe that keeps the pod from becoming ready.
pub(super) fn of_unready(pod: &Pod, name: &str, probe: &Probe, answer: &str) -> Option<String> {
    let (since, started) = (pod.condition("ContainersReady")?.since?, pod.started?);
    let was_never_ready = since.duration_since(started) <= ROUNDING;
    if was_never_ready { undeclared(name, probe, answer) } else { None }
}

/// The same about a probe because of which the kubelet killed an instance.
pub(super) fn of_killed(
    pod: &Pod,
    container: Container<'_>,
    name: &str,
    kill: &ProbeKill<'_>,
    life: &Terminated,
) -> Option<String> {
    let of = killing_probes(container).find(|of| of.cause == kill.cause)?;
    let shown = container.status.state.terminated.iter().chain(&container.status.last);
    let has_looped =
        shown.chain([life]).all(|other| fits(of, container, pod, other)) && has_looped(pod, container, life);
    // The liveness probe begins when the startup probe has passed, which may be of the same port.
    let startup = killing_probes(container).find(|other| other.cause == Cause::StartupProbe);
    let has_passed = of.cause == Cause::LivenessProbe
        && startup.is_some_and(|startup| startup.probe.undeclared_port == kill.probe.undeclared_port);
    if has_looped && !has_passed { undeclared(name, kill.probe, kill.answer) } else { None }
}

/// Whether no instance can have run much longer than this one, as many as there were since the pod was started.
fn has_looped(pod: &Pod, container: Container<'_>, life: &Terminated) -> bool {
    let longest = || {
        let instances = container.status.restarts.max(0).saturating_add(1);
        let each = run_time(life)?.saturating_add(DELAY).saturating_add(BACK_OFF);
        Some(life.finished?.duration_since(pod.started?) <= each.saturating_mul(instances))
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
pub(super) fn unnamed(name: &str, probe: &Probe) -> Option<String> {
    let asked = probe.undeclared_port.as_deref().filter(|asked| !is_number(&asked.port))?;
    Some(format!("; {name} declares no port named {}", asked.port))
}

fn is_number(port: &str) -> bool {
    port.parse::<u16>().is_ok()
}
