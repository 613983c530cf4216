//! Explains pods and events in the forms that a kubelet writes them.

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::Cause,
    diagnosis::{Basis, Explanation, Facts, Health, Thresholds, assess},
    events::{Event, InvolvedObject},
    pods::{ContainerSpec, ContainerState, ContainerStatus, Pod, PodCondition, Probe, Running, Terminated, Waiting},
};

use super::continues;

/// The rows of a table, whose columns are separated by tabs. `#` begins a comment.
pub(super) fn rows<const N: usize>(table: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split('\t').collect::<Vec<_>>().try_into().unwrap_or_else(|_| panic!("{line:?}")))
}

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1_800_000_000 + second)
}

fn probe(period: u32, failure_threshold: u32) -> Option<Box<Probe>> {
    let action = "GET :8080/healthz".to_owned();
    Some(Box::new(Probe {
        action: action.into(),
        period,
        failure_threshold,
        timeout: 1,
        initial_delay: 0,
        termination_grace: None,
        undeclared_port: None,
    }))
}

/// An instance that ran from 0 to `finished`.
fn run(exit_code: i32, reason: &str, finished: i64) -> Terminated {
    Terminated {
        exit_code,
        reason: reason.into(),
        started: Some(at(0)),
        finished: Some(at(finished)),
        ..Terminated::default()
    }
}

/// A pod whose container runs again after this instance.
fn restarted(spec: ContainerSpec, run: Terminated) -> Pod {
    let running = Running { started: run.finished };
    let status = ContainerStatus {
        name: spec.name.clone(),
        restarts: 2,
        state: ContainerState { running: Some(running), ..ContainerState::default() },
        last: Some(run),
        ..ContainerStatus::default()
    };
    pod("Running", spec, status)
}

fn waiting(reason: &str, message: &str) -> Pod {
    let waiting = Waiting { reason: reason.into(), message: message.into() };
    let status = ContainerStatus {
        name: "app".into(),
        state: ContainerState { waiting: Some(waiting), ..ContainerState::default() },
        ..ContainerStatus::default()
    };
    pod("Pending", app(), status)
}

fn pod(phase: &str, spec: ContainerSpec, status: ContainerStatus) -> Pod {
    Pod {
        namespace: "shop".into(),
        name: "web-1".into(),
        node: "node-7".into(),
        phase: phase.into(),
        created: Some(at(-10)),
        started: Some(at(-10)),
        containers: vec![spec],
        statuses: vec![status],
        ..Pod::default()
    }
}

fn app() -> ContainerSpec {
    ContainerSpec { name: "app".into(), image: "r.example.com/app:1".into(), ..ContainerSpec::default() }
}

fn event(reason: &str, message: &str, count: u32, first: i64, last: i64) -> Event {
    Event {
        involved: InvolvedObject { kind: "Pod".to_owned(), container: "app".to_owned(), ..InvolvedObject::default() },
        related: None,
        reason: reason.to_owned(),
        message: message.to_owned(),
        count,
        first: Some(at(first)),
        last: Some(at(last)),
    }
}

fn unhealthy(probe: &str, count: u32, first: i64, last: i64) -> Event {
    event("Unhealthy", &format!("{probe} probe failed: HTTP probe failed with statuscode: 503"), count, first, last)
}

fn explained(pod: &Pod, events: Vec<Event>, now: i64) -> Explanation {
    let facts = Facts { events: events.into(), ..Facts::default() };
    match assess(pod, &facts, &Thresholds::default(), at(now)).health {
        Health::Problem(finding) => finding.explanation,
        other => panic!("{other:?}"),
    }
}

/// The cause shortly after the last instance ended, so that its failure is not over.
fn cause(pod: &Pod, events: Vec<Event>) -> Cause {
    let ended = pod.statuses.iter().find_map(|status| status.last.as_ref()?.finished);
    let now = ended.map_or(1000, |ended| ended.duration_since(at(0)).as_secs() + 40);
    explained(pod, events, now).cause
}

#[test]
fn a_kill_is_that_of_a_probe_only_if_its_failures_fit() {
    let spec = |app: ContainerSpec| ContainerSpec { liveness_probe: probe(10, 3), ..app };
    let killed = |exit_code, reason: &str| restarted(spec(app()), run(exit_code, reason, 60));
    let failures = |count, first, last| vec![unhealthy("Liveness", count, first, last)];
    for (name, pod, events, expected) in [
        ("SIGKILL after three failures", killed(137, "Error"), failures(3, 10, 30), Cause::LivenessProbe),
        ("SIGTERM after three failures", killed(143, "Error"), failures(3, 40, 60), Cause::LivenessProbe),
        ("failures of several instances", killed(137, "Error"), failures(9, -300, 30), Cause::LivenessProbe),
        ("without events", killed(137, "Error"), vec![], Cause::Signal),
        ("too few failures", killed(137, "Error"), failures(2, 10, 20), Cause::Signal),
        ("failures before the instance", killed(137, "Error"), failures(9, -300, -10), Cause::Signal),
        ("failures after the instance", killed(137, "Error"), failures(3, 70, 90), Cause::Signal),
        ("of another probe", killed(137, "Error"), vec![unhealthy("Readiness", 9, 10, 60)], Cause::Signal),
        ("OOM in spite of failures", killed(137, "OOMKilled"), failures(2, 10, 20), Cause::OutOfMemory),
        ("OOM of any process", killed(137, "OOMKilled"), failures(3, 10, 30), Cause::Unknown),
        ("an earlier OOM of a child", killed(143, "OOMKilled"), failures(3, 30, 50), Cause::LivenessProbe),
        ("a child's OOM", killed(143, "OOMKilled"), vec![], Cause::ChildOutOfMemory),
        ("its own exit code, three in a row", killed(1, "Error"), failures(3, 35, 55), Cause::LivenessProbe),
        ("its own exit code, too few", killed(1, "Error"), failures(2, 40, 50), Cause::ExitCode),
        (
            "its own exit code, not in a row",
            restarted(spec(app()), run(1, "Error", 3600)),
            failures(3, 10, 3590),
            Cause::ExitCode,
        ),
        ("exit code 0 when asked to stop", killed(0, "Completed"), failures(3, 40, 60), Cause::LivenessProbe),
        (
            "a kill long after the last failure",
            restarted(spec(app()), run(137, "Error", 3600)),
            failures(3, 10, 30),
            Cause::Signal,
        ),
        (
            "shorter than the probe takes",
            restarted(spec(app()), run(137, "Error", 5)),
            failures(3, 0, 5),
            Cause::Signal,
        ),
        ("without the probe", restarted(app(), run(137, "Error", 60)), failures(3, 10, 30), Cause::Signal),
    ] {
        // Only a loop makes an instance that exits with code 0 a problem.
        let pod = if pod.statuses[0].last.as_ref().unwrap().exit_code == 0 { in_loop(pod) } else { pod };
        assert_eq!(cause(&pod, events), expected, "{name}");
    }
    let other = Event { involved: InvolvedObject::default(), ..unhealthy("Liveness", 3, 10, 30) };
    assert_eq!(cause(&killed(137, "Error"), vec![other]), Cause::Signal, "an event about no container");
    let errored = event("Unhealthy", "Liveness probe errored and resulted in unknown state: timeout", 9, 10, 60);
    assert_eq!(
        cause(&killed(137, "Error"), vec![errored]),
        Cause::Signal,
        "the kubelet ignores probes without a result"
    );
    let found = explained(&killed(137, "Error"), failures(3, 10, 30), 100);
    assert_eq!(
        found.message,
        "the liveness probe of app (GET :8080/healthz) failed, so the kubelet killed it 60 s after its start: HTTP probe \
         failed with statuscode: 503",
    );
    assert_eq!(
        found.evidence,
        ["Unhealthy ×3, last 08:00:30Z: Liveness probe failed: HTTP probe failed with statuscode: 503"],
    );
}

fn in_loop(mut pod: Pod) -> Pod {
    let waiting = Waiting { reason: "CrashLoopBackOff".into(), message: "back-off 10s".into() };
    pod.statuses[0].state = ContainerState { waiting: Some(waiting), ..ContainerState::default() };
    pod
}

#[test]
fn the_startup_probe_kills_only_before_it_has_passed() {
    let spec = |app: ContainerSpec| ContainerSpec { startup_probe: probe(5, 4), liveness_probe: probe(10, 3), ..app };
    let startup = |count, first, last| unhealthy("Startup", count, first, last);
    let killed = |finished| restarted(spec(app()), run(137, "Error", finished));
    assert_eq!(cause(&killed(50), vec![startup(4, 5, 20)]), Cause::StartupProbe);
    assert_eq!(cause(&killed(3600), vec![startup(4, 5, 20)]), Cause::Signal, "it had passed");
    let both = vec![startup(4, -200, 20), unhealthy("Liveness", 3, 40, 60)];
    assert_eq!(cause(&killed(90), both), Cause::LivenessProbe, "the later failures decide");
}

/// Each with the first and the last failure in seconds before the end, and their number.
#[test]
fn failures_of_earlier_instances_prove_no_kill() {
    for (exit_code, ran, restarts, probed, [first, last], count, expected) in [
        (137, 7200, 1, "Liveness", [50, 30], 3, Cause::LivenessProbe),
        (143, 7200, 1, "Liveness", [22, 2], 3, Cause::LivenessProbe),
        (137, 60, 1, "Startup", [50, 30], 3, Cause::StartupProbe),
        (137, 7200, 1, "Liveness", [40, 30], 2, Cause::Signal),
        (137, 7200, 1, "Liveness", [3620, 3600], 3, Cause::Signal),
        (137, 7200, 1, "Readiness", [50, 30], 3, Cause::Signal),
        // The probe killed the first instance after three failures, and failed once in the second.
        (143, 7200, 2, "Liveness", [9000, 50], 4, Cause::Signal),
        (143, 7200, 2, "Liveness", [9000, 5], 4, Cause::Signal),
        (137, 7200, 2, "Liveness", [9000, 50], 4, Cause::Signal),
        // It failed often enough to kill both.
        (143, 7200, 2, "Liveness", [9000, 20], 6, Cause::LivenessProbe),
        (137, 7200, 2, "Liveness", [9000, 40], 6, Cause::LivenessProbe),
        // Each instance ends as soon as the probe can kill it, although the kubelet no longer sends all events.
        (137, 62, 14, "Liveness", [1300, 40], 11, Cause::LivenessProbe),
    ] {
        let spec = ContainerSpec { liveness_probe: probe(10, 3), startup_probe: probe(10, 3), ..app() };
        let mut pod = restarted(spec, run(exit_code, "Error", ran));
        pod.statuses[0].restarts = restarts;
        pod.termination_grace = Some(30);
        let events = vec![unhealthy(probed, count, ran - first, ran - last)];
        assert_eq!(cause(&pod, events), expected, "{exit_code} {ran} {restarts} {probed} {first}–{last} {count}");
    }
}

#[test]
fn explains_out_of_memory() {
    let limited = ContainerSpec { memory_limit: "512Mi".into(), ..app() };
    let mut pod = restarted(limited, run(137, "OOMKilled", 34));
    let message = |pod: &Pod| explained(pod, vec![], 100).message;
    assert_eq!(message(&pod), "app was OOM-killed 34 s after its start, 2 restarts; limit 512Mi");
    let terminated = Terminated { finished: Some(at(31)), ..run(137, "OOMKilled", 31) };
    pod.statuses[0].state = ContainerState { terminated: Some(terminated), ..ContainerState::default() };
    assert_eq!(message(&pod), "app was OOM-killed 31–34 s after its start, 2 restarts; limit 512Mi");
    let pod = restarted(app(), run(143, "OOMKilled", 34));
    assert_eq!(
        message(&pod),
        "a process of app was OOM-killed; its main process exited with code 143 (SIGTERM); it has no memory limit of its own",
    );
}

#[test]
fn explains_post_start_hooks() {
    let hook = "Exec lifecycle hook ([/bin/false]) for Container \"app\" in Pod \"web-1_shop(u)\" failed - error: command \
                '/bin/false' exited with 1: , message: \"\"";
    let mut pod = waiting("PostStartHookError", hook);
    let found = explained(&pod, vec![], 1000);
    assert_eq!(found.cause, Cause::PostStartHook);
    assert_eq!(found.message, "the postStart hook of app failed: command '/bin/false' exited with 1");
    pod = in_loop(pod);
    pod.statuses[0].last = Some(run(137, "Error", 2));
    let failed = |last| vec![event("FailedPostStartHook", "PostStartHook failed", 2, 0, last)];
    assert_eq!(cause(&pod, failed(1)), Cause::PostStartHook);
    assert_eq!(cause(&pod, failed(-60)), Cause::PostStartHook, "the hook of an earlier run of the loop");
    pod.statuses[0].last = Some(run(137, "Error", 1200));
    assert_eq!(cause(&pod, failed(-60)), Cause::Signal, "no hook takes so long");
}

#[test]
fn an_empty_message_proves_nothing() {
    for (reason, expected) in [
        ("ErrImagePull", Cause::Unknown),
        ("ImagePullBackOff", Cause::Unknown),
        ("ImageInspectError", Cause::Unknown),
        ("ErrImageNeverPull", Cause::ImageNeverPull),
        ("InvalidImageName", Cause::ImageNameInvalid),
        ("RegistryUnavailable", Cause::RegistryUnreachable),
        ("CreateContainerConfigError", Cause::Unknown),
        ("CreateContainerError", Cause::Unknown),
        ("RunContainerError", Cause::Unknown),
        ("CrashLoopBackOff", Cause::Unknown),
        ("PostStartHookError", Cause::PostStartHook),
    ] {
        let found = explained(&waiting(reason, ""), vec![event("Failed", "", 1, 0, 0)], 1000);
        assert_eq!(found.cause, expected, "{reason}");
        assert!(!found.message.is_empty(), "{reason}");
    }
    let reasons = ["Unhealthy", "FailedMount", "FailedCreatePodSandBox", "FailedScheduling", "FailedPostStartHook"];
    let events: Vec<_> = reasons.iter().map(|reason| event(reason, "", 9, 0, 900)).collect();
    assert_eq!(cause(&waiting("ContainerCreating", ""), events.clone()), Cause::Unknown);
    let unscheduled = Pod { phase: "Pending".into(), created: Some(at(0)), ..Pod::default() };
    assert_eq!(cause(&unscheduled, events), Cause::Unknown);
}

#[test]
fn explains_containers_that_are_not_created() {
    let creating = |sandbox: Option<&str>| {
        let condition = |status: &str| PodCondition {
            kind: "PodReadyToStartContainers".into(),
            status: status.into(),
            ..PodCondition::default()
        };
        Pod { conditions: sandbox.map(condition).into_iter().collect(), ..waiting("ContainerCreating", "") }
    };
    let mount = |count, last| {
        event(
            "FailedMount",
            "MountVolume.SetUp failed for volume \"cfg\" : configmap \"app\" not found",
            count,
            0,
            last,
        )
    };
    let network = |last| {
        event(
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = no IP",
            3,
            0,
            last,
        )
    };
    let not_yet = || creating(Some("False"));
    assert_eq!(cause(&not_yet(), vec![mount(1, 900)]), Cause::ConfigMapMissing);
    assert_eq!(
        cause(&not_yet(), vec![mount(1, 800), network(900)]),
        Cause::SandboxFailed,
        "volumes are mounted before"
    );
    assert_eq!(cause(&creating(None), vec![mount(5, 900)]), Cause::ConfigMapMissing);
    assert_eq!(cause(&creating(None), vec![mount(1, 1)]), Cause::Unknown, "a single error at the start is often over");
    assert_eq!(cause(&creating(Some("True")), vec![mount(5, 900)]), Cause::Unknown, "the volumes are mounted");
    let found = explained(&not_yet(), vec![network(900)], 1000);
    assert_eq!(found.message, "the pod's sandbox cannot be created: no IP");
}

#[test]
fn explains_pods_that_are_not_ready() {
    let status = |started| ContainerStatus {
        name: "app".into(),
        started: Some(started),
        state: ContainerState { running: Some(Running { started: Some(at(0)) }), ..ContainerState::default() },
        ..ContainerStatus::default()
    };
    let probed = || ContainerSpec { readiness_probe: probe(10, 3), startup_probe: probe(10, 100), ..app() };
    let ready = |reason: &str| PodCondition {
        kind: "Ready".into(),
        status: "False".into(),
        reason: reason.into(),
        since: Some(at(0)),
        ..PodCondition::default()
    };
    let unready =
        |spec, started| Pod { conditions: vec![ready("ContainersNotReady")], ..pod("Running", spec, status(started)) };
    let found = explained(&unready(probed(), true), vec![unhealthy("Readiness", 41, 10, 990)], 1000);
    assert_eq!(found.cause, Cause::ReadinessProbe);
    assert_eq!(
        found.message,
        "the readiness probe of app (GET :8080/healthz) fails: HTTP probe failed with statuscode: 503",
    );
    let found = explained(&unready(probed(), true), vec![], 1000);
    assert_eq!(found.cause, Cause::ReadinessProbe, "the kubelet shows the result of the probe as `ready`");
    assert_eq!(found.message, "the readiness probe of app (GET :8080/healthz) does not pass");
    assert_eq!(cause(&unready(probed(), false), vec![]), Cause::Unknown);
    assert_eq!(cause(&unready(probed(), false), vec![unhealthy("Startup", 9, 10, 990)]), Cause::StartupProbe);
    assert_eq!(cause(&unready(app(), true), vec![]), Cause::Unknown);

    let mut gated = unready(app(), true);
    gated.conditions = vec![ready("ReadinessGatesNotReady")];
    gated.readiness_gates = vec!["example.com/lb".into()];
    let found = explained(&gated, vec![], 1000);
    assert_eq!(found.cause, Cause::ReadinessGate);
    assert_eq!(found.message, "the readiness gate example.com/lb is not True: no controller has set its condition");

    let mut silent = unready(probed(), true);
    silent.conditions =
        vec![ready(""), PodCondition { kind: "ContainersReady".into(), status: "True".into(), ..ready("") }];
    let found = explained(&silent, vec![unhealthy("Readiness", 1, 10, 10)], 1000);
    assert_eq!((found.cause, found.message.as_str()), (Cause::NodeNotReady, "node node-7 has stopped reporting"));
    assert_eq!(found.subject.unwrap().name, "node-7");
}

#[test]
fn an_earlier_cause_continues_only_while_the_state_agrees() {
    use Basis::{Exit, Silent, State};
    use Cause::{ConfigMapMissing, ExitCode, ImageNotFound, LivenessProbe, OutOfMemory, Signal, Unknown};
    for (earlier, basis, present, now, expected) in [
        (LivenessProbe, Exit(137), Signal, Exit(137), true),
        (LivenessProbe, Exit(137), Signal, Exit(143), true),
        (LivenessProbe, Exit(1), ExitCode, Exit(1), true),
        (LivenessProbe, Exit(137), ExitCode, Exit(1), false),
        (LivenessProbe, Exit(137), Unknown, State, false),
        (OutOfMemory, Exit(137), Signal, Exit(137), true),
        (OutOfMemory, Exit(137), Signal, Exit(143), false),
        (OutOfMemory, Exit(137), ConfigMapMissing, State, false),
        (OutOfMemory, Exit(137), LivenessProbe, Exit(137), false),
        (ImageNotFound, State, Unknown, Silent, true),
        (ImageNotFound, State, Unknown, State, false),
        (Signal, Exit(137), Unknown, Silent, true),
        (Unknown, State, Unknown, Silent, false),
    ] {
        let present = Explanation { cause: present, basis: now, ..Explanation::default() };
        assert_eq!(continues(earlier, basis, &present), expected, "{earlier} {basis:?} then {present:?}");
    }
}

#[test]
fn ten_thousand_events_and_huge_messages_are_harmless() {
    let huge = "Liveness probe failed: \u{202e}".repeat(40_000);
    let mut events = vec![event("Unhealthy", &huge, u32::MAX, 0, 30)];
    events.extend((0..10_000).map(|second| unhealthy("Liveness", u32::MAX, second, second)));
    let pod = restarted(ContainerSpec { liveness_probe: probe(u32::MAX, u32::MAX), ..app() }, run(137, "Error", 60));
    let found = explained(&pod, events, 100);
    assert!(found.message.len() <= 1024 && found.evidence.len() <= 4);
    assert!(found.evidence.iter().all(|line| line.len() <= 512));
}

#[test]
fn only_finalizers_hold_a_pod_without_running_containers() {
    let mut pod = restarted(app(), run(0, "Completed", 10));
    pod.deletion = Some(at(-1000));
    pod.finalizers = ["example.com/a"].into_iter().collect();
    pod.deletion_grace = Some(0);
    assert_eq!(cause(&pod, vec![]), Cause::Unknown, "its container still runs");
    pod.statuses[0].state = ContainerState { terminated: Some(run(0, "Completed", 20)), ..ContainerState::default() };
    pod.deletion_grace = Some(30);
    assert_eq!(cause(&pod, vec![]), Cause::Unknown, "the kubelet has not confirmed the end");
    pod.deletion_grace = Some(0);
    let found = explained(&pod, vec![], 1000);
    assert_eq!(
        (found.cause, found.message.as_str()),
        (Cause::Finalizer, "the finalizer example.com/a holds the deleted pod")
    );
    pod.reason = "NodeLost".into();
    pod.statuses[0].state = ContainerState { running: Some(Running { started: None }), ..ContainerState::default() };
    assert_eq!(cause(&pod, vec![]), Cause::NodeNotReady);
}
