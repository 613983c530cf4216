//! The causes of the problems that were recorded with a real kubelet, and that they do not change while a problem lasts.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use orchestr::{
    api::Cause,
    diagnosis::{Facts, Health, Thresholds, assess},
    events::{Event, InvolvedObject, WatchedEvent},
    pods::{Pod, from_json},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    arbitrary::{any_pod, real},
    cases::{Case, after, at, case, ended, failed_start, running, termination, waiting},
    exam::scenario::move_times,
    replay::{Replay, Step, recorded, replay, spec, start_of},
};

/// The cause of each problem among the recorded pods: without any event, and with the events that the kubelet wrote.
const REAL: [(&str, Cause, Cause); 19] = [
    ("api", Cause::Signal, Cause::LivenessProbe),
    ("batch-import", Cause::ExitCode, Cause::ExitCode),
    ("catalog", Cause::RegistryUnreachable, Cause::RegistryUnreachable),
    ("entry", Cause::CommandNotFound, Cause::CommandNotFound),
    ("gateway", Cause::ExitCode, Cause::ExitCode),
    ("ledger", Cause::VolumeNotFound, Cause::VolumeNotFound),
    ("mailer", Cause::Unknown, Cause::ConfigMapMissing),
    ("migrate", Cause::ExitCode, Cause::ExitCode),
    ("nightly-x27wz", Cause::ExitCode, Cause::ExitCode),
    ("old-cache", Cause::Finalizer, Cause::Finalizer),
    ("payments", Cause::ConfigMapMissing, Cause::ConfigMapMissing),
    ("queued", Cause::SchedulingGate, Cause::SchedulingGate),
    ("report-builder", Cause::OutOfMemory, Cause::OutOfMemory),
    ("scratch", Cause::EphemeralStorageLimit, Cause::EphemeralStorageLimit),
    ("search", Cause::ReadinessProbe, Cause::ReadinessProbe),
    ("slow-export", Cause::DeadlineExceeded, Cause::DeadlineExceeded),
    ("train-gpu", Cause::NodeSelector, Cause::NodeSelector),
    ("typo", Cause::ImageNameInvalid, Cause::ImageNameInvalid),
    ("wait-for-db", Cause::Unknown, Cause::Unknown),
];

/// Long after the pods were recorded.
fn later() -> Timestamp {
    "2026-11-21T02:00:00Z".parse().unwrap()
}

fn event(container: &str, reason: &str, message: &str, count: u32, first: Timestamp, last: Timestamp) -> Event {
    Event {
        involved: InvolvedObject { kind: "Pod".into(), container: container.into(), ..InvolvedObject::default() },
        related: None,
        reason: reason.into(),
        message: message.into(),
        count,
        first: Some(first),
        last: Some(last),
    }
}

fn cause(pod: &Pod, events: Vec<Event>, now: Timestamp) -> Option<Cause> {
    let facts = Facts { events: events.into(), ..Facts::default() };
    match assess(pod, &facts, &Thresholds::default(), now).health {
        Health::Problem(finding) => Some(finding.explanation.cause),
        Health::Healthy | Health::Settling => None,
    }
}

#[test]
fn each_recorded_problem_has_its_cause() {
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let mut found = BTreeMap::new();
    for case in real() {
        let pod = case.decode();
        let events = match pod.name.as_str() {
            "api" => vec![event(
                "app",
                "Unhealthy",
                "Liveness probe failed: ",
                8,
                time("2026-11-21T00:39:55Z"),
                time("2026-11-21T00:40:47Z"),
            )],
            "mailer" => vec![event(
                "",
                "FailedMount",
                "MountVolume.SetUp failed for volume \"v\" : configmap \"nope\" not found",
                8,
                time("2026-11-21T00:39:54Z"),
                time("2026-11-21T01:59:00Z"),
            )],
            _ => vec![],
        };
        if let Some(without) = cause(&pod, vec![], later()) {
            found.insert(pod.name.to_string(), (without, cause(&pod, events, later()).unwrap()));
        }
    }
    let expected: BTreeMap<_, _> =
        REAL.iter().map(|(name, without, with)| ((*name).to_owned(), (*without, *with))).collect();
    assert_eq!(found, expected);
}

/// The cause of each pod after eight minutes on a real kubelet, which has dropped most events about the last runs.
const LATE: [(&str, Cause); 5] = [
    ("liveness-fails", Cause::LivenessProbe),
    ("not-ready", Cause::ReadinessProbe),
    ("oom", Cause::OutOfMemory),
    ("poststart-fails", Cause::PostStartHook),
    ("startup-fails", Cause::StartupProbe),
];

#[test]
fn a_loop_has_its_cause_although_late_events_are_lost() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/late-events.json");
    let list: Value = serde_json::from_str(&fs::read_to_string(fixture).unwrap()).unwrap();
    let (pods, events): (Vec<_>, Vec<_>) =
        list["items"].as_array().unwrap().iter().partition(|own| own["kind"] == "Pod");
    let events: Vec<Event> = events
        .into_iter()
        .filter_map(|event| serde_json::from_value::<WatchedEvent>(event.clone()).unwrap().event)
        .map(|event| *event)
        .collect();
    let about = |pod: &Pod, events: &[Event]| -> Vec<Event> {
        let mut events: Vec<_> =
            events.iter().filter(|event| event.involved.uid == pod.uid.to_string()).cloned().collect();
        events.sort_by_key(|event| event.last);
        events
    };
    // In the next run, and when only the events about the kills are left.
    for (minutes, reasons) in [(0, None), (6, None), (6, Some(["Killing", "FailedPostStartHook"]))] {
        let shift = SignedDuration::from_mins(minutes);
        let mut found = Vec::new();
        for pod in &pods {
            let mut pod = (*pod).clone();
            move_times(&mut pod["status"]["containerStatuses"], shift);
            let pod = from_json(&pod.to_string()).unwrap();
            let left = |event: &&Event| reasons.is_none_or(|reasons| reasons.contains(&event.reason.as_str()));
            let events: Vec<Event> = events.iter().filter(left).cloned().collect();
            let now = "2026-11-23T03:31:30Z".parse::<Timestamp>().unwrap() + shift;
            found.extend(cause(&pod, about(&pod, &events), now).map(|cause| (pod.name.to_string(), cause)));
        }
        let expected = LATE.map(|(name, cause)| (name.to_owned(), cause));
        assert_eq!(found, expected, "{minutes} minutes later, {reasons:?}");
    }
}

/// The cause that each recorded sequence shows from its first to its last incident.
const SEQUENCES: [(&str, Cause); 10] = [
    ("bad-command", Cause::CommandNotFound),
    ("crash-exit1", Cause::ExitCode),
    ("crash-then-runs", Cause::ExitCode),
    ("init-fails", Cause::ExitCode),
    ("liveness-fails", Cause::LivenessProbe),
    ("oom", Cause::OutOfMemory),
    ("poststart-fails", Cause::PostStartHook),
    ("pull-bad", Cause::RegistryUnreachable),
    ("sidecar-crash", Cause::ExitCode),
    ("startup-fails", Cause::StartupProbe),
];

/// The failures of a probe as the kubelet reports them: two before each kill, in one event.
fn failures(steps: &[Step], probe: &str, until: Timestamp) -> Arc<[Event]> {
    let start = start_of(steps);
    let mut kills: Vec<Timestamp> = Vec::new();
    for step in steps {
        let status = &step.pod["status"]["containerStatuses"][0];
        let finished = status["lastState"]["terminated"]["finishedAt"].as_str().map(|time| time.parse().unwrap());
        // The kubelet writes whole seconds.
        kills.extend(
            finished.filter(|time| *time <= until + SignedDuration::from_secs(3) && kills.last() != Some(time)),
        );
    }
    let Some(last) = kills.last() else { return Arc::default() };
    let count = u32::try_from(2 * kills.len()).unwrap();
    let last = *last - SignedDuration::from_secs(2);
    Arc::from([event("app", "Unhealthy", &format!("{probe} probe failed: "), count, start, last)])
}

#[test]
fn the_cause_is_the_same_for_as_long_as_the_problem_lasts() {
    for (name, expected) in SEQUENCES {
        for restarting in [false, true] {
            for lost_after in [i64::MAX, 30] {
                let steps = &recorded()[name];
                let mut shown = Vec::new();
                replay(steps, spec(json!({})), 700, |run, pod| {
                    // The next reconcile sees these events.
                    let probe = if name == "startup-fails" { "Startup" } else { "Liveness" };
                    let lost = run.now.duration_since(run.start) > SignedDuration::from_secs(lost_after);
                    let has_probe = matches!(name, "startup-fails" | "liveness-fails");
                    run.events = if has_probe && !lost { failures(steps, probe, run.now) } else { Arc::default() };
                    run.reconcile();
                    let incident = run.status.as_ref().and_then(|status| status.incidents.first());
                    shown
                        .extend(incident.map(|incident| (run.now.duration_since(run.start).as_secs(), incident.cause)));
                    if restarting {
                        run.restart([pod.clone()]);
                    }
                });
                assert!(!shown.is_empty(), "{name}");
                let other: Vec<_> = shown.iter().filter(|(_, cause)| *cause != expected).collect();
                assert!(other.is_empty(), "{name}, restarting: {restarting}, events until {lost_after}: {other:?}");
            }
        }
    }
}

/// The causes of the incident of a pod that goes through these states.
fn causes(states: Vec<Case>) -> Vec<Cause> {
    let mut run = Replay::new(at(0), spec(json!({})));
    let mut causes = Vec::new();
    for (index, state) in states.into_iter().enumerate() {
        run.now = at(1000 + 10 * i64::try_from(index).unwrap());
        run.apply(state.decode());
        run.reconcile();
        causes.extend(run.status.as_ref().unwrap().incidents.iter().map(|incident| incident.cause));
    }
    causes
}

#[test]
fn the_cause_follows_when_the_trouble_changes() {
    let crash = |code, reason: &str| {
        case("web").not_ready("app", 0).app(after(
            termination(code, reason, 990),
            3,
            waiting("app", "CrashLoopBackOff", "back-off 40s restarting failed container"),
        ))
    };
    let config = case("web").phase("Pending").not_ready("app", 0).app(after(
        termination(137, "OOMKilled", 990),
        3,
        waiting("app", "CreateContainerConfigError", "configmap \"nope\" not found"),
    ));
    let runs = case("web").ready(995).app(after(termination(137, "OOMKilled", 990), 3, running("app", 995)));
    assert_eq!(
        causes(vec![crash(137, "OOMKilled"), runs, crash(137, "Error"), config, crash(1, "Error")]),
        [Cause::OutOfMemory, Cause::OutOfMemory, Cause::OutOfMemory, Cause::ConfigMapMissing, Cause::ExitCode],
        "containerd sometimes reports Error for an OOM kill",
    );
    let start = case("web")
        .not_ready("app", 0)
        .app(ended("app", failed_start("StartError", "exec: \"no\": executable file not found in $PATH", 990)));
    assert_eq!(causes(vec![start, crash(2, "Error")]), [Cause::CommandNotFound, Cause::ExitCode]);
    let pull = |message: &str| {
        case("web").phase("Pending").not_ready("app", 0).app(waiting("app", "ImagePullBackOff", message))
    };
    assert_eq!(
        causes(vec![
            pull("Back-off pulling image \"a:1\": ErrImagePull: reading manifest 1 in docker.io/a: manifest unknown"),
            pull("Back-off pulling image \"a:1\""),
            pull("Back-off pulling image \"a:1\": ErrImagePull: unexpected EOF"),
        ]),
        [Cause::ImageNotFound, Cause::ImageNotFound, Cause::Unknown],
    );
}

/// Texts of the kubelet, the runtimes and the scheduler, and parts of them.
fn text() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "",
        "Liveness probe failed: HTTP probe failed with statuscode: 500",
        "MountVolume.SetUp failed for volume \"cfg\" : configmap \"app\" not found",
        "Unable to attach or mount volumes: unmounted volumes=[a], unattached volumes=[], failed to process volumes=[]: x",
        "Failed to pull image \"a\": rpc error: code = NotFound desc = a: not found",
        "Failed to create pod sandbox: rpc error: code = Unknown desc = no IP",
        "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint {a: }. preemption: none",
        "Error: couldn't find key a in Secret shop/db",
        "exec: \"/x\": stat /x: no such file or directory",
        "(combined from similar events): Readiness probe failed: é",
    ]);
    (known, any::<prop::sample::Index>(), "\\PC{0,8}").prop_map(|(known, cut, more)| {
        let end = known.floor_char_boundary(cut.index(known.len() + 1));
        format!("{}{more}", &known[..end])
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    let reasons = vec![
        "Unhealthy",
        "Failed",
        "FailedMount",
        "FailedAttachVolume",
        "FailedCreatePodSandBox",
        "FailedScheduling",
        "FailedPostStartHook",
        "NetworkNotReady",
        "Evicted",
    ];
    let time = || {
        prop::option::of(prop_oneof![
            -10_000_i64..20_000,
            Just(-377_705_023_201 - 1_772_366_400),
            Just(251_630_000_000)
        ])
    };
    let container = prop::sample::select(vec!["", "app", "prep"]);
    (prop::sample::select(reasons), text(), container, any::<u32>(), time(), time()).prop_map(
        |(reason, message, container, count, first, last)| {
            let instant = |second: Option<i64>| {
                second.and_then(|second| at(0).checked_add(SignedDuration::from_secs(second)).ok())
            };
            Event {
                involved: InvolvedObject { container: container.into(), ..InvolvedObject::default() },
                related: None,
                reason: reason.into(),
                message,
                count,
                first: instant(first),
                last: instant(last),
            }
        },
    )
}

proptest! {
    #[test]
    fn any_pod_and_events_are_explained_within_bounds(
        case in any_pod(),
        events in prop::collection::vec(any_event(), 0..12),
        now in -1000_i64..100_000,
    ) {
        let pod = case.decode();
        let facts = Facts { events: events.into(), ..Facts::default() };
        if let Health::Problem(finding) = assess(&pod, &facts, &Thresholds::default(), at(now)).health {
            let others = finding.others.iter().map(|other| &other.explanation);
            for explanation in others.chain([&finding.explanation]) {
                prop_assert!(explanation.message.len() <= 1024 && !explanation.message.contains('\n'));
                prop_assert!(explanation.evidence.len() <= 4);
                prop_assert!(explanation.evidence.iter().all(|line| line.len() <= 512 && !line.contains('\n')));
            }
            prop_assert!(finding.message.len() <= 1024);
        }
    }
}
