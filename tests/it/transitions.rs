//! Random sequences of states through which a kubelet may take the containers of a pod. As long as any of them is in
//! trouble, there is one incident with one start time.

use std::collections::BTreeSet;

use orchestr::api::ProblemKind;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use crate::{
    cases::{Case, after, at, case, condition, ended, failed_start, running, termination, waiting},
    replay::{Step, replay, spec},
};

/// One instance of a container.
#[derive(Clone, Debug)]
struct Instance {
    /// How long it runs, in seconds.
    runs: i64,
    exit_code: i32,
    reason: &'static str,
    /// For how many seconds the kubelet then reports it as terminated, and as waiting in back-off.
    shown: [i64; 2],
}

fn an_instance() -> impl Strategy<Value = Instance> {
    let end = select(vec![(1, "Error"), (137, "OOMKilled"), (137, "Error"), (0, "Completed"), (2, "")]);
    // Less than `restarted`: the trouble lasts.
    (0..500_i64, end, 0..30_i64, prop_oneof![Just(0), 10..300_i64])
        .prop_map(|(runs, (exit_code, reason), ended, held)| Instance { runs, exit_code, reason, shown: [ended, held] })
}

/// The versions of one container's status, each with when it begins.
fn statuses(name: &str, instances: &[Instance]) -> Vec<(i64, Value)> {
    let mut now = 5;
    let mut versions = vec![(0, waiting(name, "ContainerCreating", ""))];
    let mut last: Option<Value> = None;
    for (restarts, own) in (0..).zip(instances) {
        let with_last = |status: Value| match &last {
            Some(last) => after(last.clone(), restarts, status),
            None => status,
        };
        versions.push((now, with_last(running(name, now))));
        let mut over = termination(own.exit_code, own.reason, now + own.runs);
        over["startedAt"] = crate::cases::t(now).into();
        now += own.runs;
        versions.push((now, with_last(ended(name, over.clone()))));
        now += own.shown[0];
        // The kubelet restarts a container without delay the first time, and after it has killed it. Later, it waits
        // for at least ten seconds.
        let held = match restarts {
            0 => 0,
            _ if own.exit_code == 137 => own.shown[1],
            _ => own.shown[1].max(10),
        };
        if held > 0 {
            let status = waiting(name, "CrashLoopBackOff", "back-off restarting failed container");
            versions.push((now, after(over.clone(), restarts, status)));
            now += held;
        }
        now += 1;
        last = Some(over);
    }
    versions
}

/// The versions of a pod whose containers go through these states.
fn steps(containers: &[Vec<(i64, Value)>]) -> Vec<Step> {
    let times: BTreeSet<i64> = containers.iter().flatten().map(|(time, _)| *time).collect();
    let version = |time: i64| {
        let present = containers.iter().filter_map(|versions| versions.iter().rev().find(|(begun, _)| *begun <= time));
        let pod = present.fold(case("shuffled"), |pod: Case, (_, status)| pod.app(status.clone()));
        let ready = pod.0["status"]["containerStatuses"].as_array().unwrap().iter().all(|own| own["ready"] == true);
        let ready = if ready { "True" } else { "False" };
        Step::new(time as f64, pod.condition(condition("Ready", ready, "", "", time)))
    };
    times.into_iter().map(version).collect()
}

fn is_failure(instances: &[Instance]) -> bool {
    instances.iter().any(|instance| instance.exit_code != 0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_problem_keeps_its_key_and_start_time(
        containers in vec(vec(an_instance(), 1..6), 1..4),
        restarts in vec(any::<bool>(), 16),
    ) {
        let versions: Vec<_> =
            containers.iter().zip(["main", "aux", "proxy"]).map(|(instances, name)| statuses(name, instances)).collect();
        let steps = steps(&versions);
        let end = steps.last().unwrap().t as i64 + 5;
        let mut turn = 0;
        let mut open: Option<(String, i64)> = None;
        let patient = spec(json!({"thresholds": {"notReady": "168h"}}));
        let replayed = replay(&steps, patient, end, |replayed, pod| {
            turn += 1;
            if restarts[turn % restarts.len()] {
                replayed.restart([pod.clone()]);
            }
        });
        for shown in replayed.shown.iter().flatten() {
            let seen = (shown.key.clone(), shown.since);
            prop_assert_eq!(open.get_or_insert(seen.clone()), &seen, "{:#?}", replayed.shown);
            prop_assert_eq!(shown.kind, ProblemKind::Crash);
        }
        // The incident must not end once it is reported, because no container ran for long enough.
        prop_assert!(replayed.transitions.len() <= 1, "{:?}", replayed.transitions);
        let failed = containers.iter().any(|instances| is_failure(instances));
        prop_assert!(!failed || replayed.shown.last().is_some_and(Option::is_some), "{:#?}", replayed.shown);
    }

    #[test]
    fn reports_a_container_that_cannot_start_as_one_incident(tries in vec((0..60_i64, 10..300_i64, any::<bool>()), 1..8)) {
        let mut now = 1;
        let mut versions = vec![(0, waiting("app", "ContainerCreating", ""))];
        for (restarts, (failing, held, shows_last)) in (0..).zip(tries) {
            let failed = failed_start("StartError", "exec: no such file", now);
            let error = waiting("app", "RunContainerError", "exec: no such file");
            let first = if restarts == 0 && !shows_last { error } else { after(failed.clone(), restarts, error) };
            versions.push((now, first));
            now += failing;
            versions.push((now, after(failed, restarts, waiting("app", "CrashLoopBackOff", "back-off"))));
            now += held;
        }
        let replayed = replay(&steps(&[versions]), spec(json!({})), now, |_, _| {});
        let keys: BTreeSet<_> = replayed.shown.iter().flatten().map(|shown| (&shown.key, shown.kind, shown.since)).collect();
        prop_assert_eq!(keys.len(), 1, "{:#?}", replayed.shown);
        prop_assert!(keys.iter().all(|(_, kind, _)| *kind == ProblemKind::Start));
        prop_assert_eq!(replayed.transitions.len(), 1, "{:?}", replayed.transitions);
    }
}

#[test]
fn keeps_the_incident_on_the_container_that_crashed_first() {
    let instances = |runs: &[i64]| -> Vec<Instance> {
        runs.iter().map(|&runs| Instance { runs, exit_code: 1, reason: "Error", shown: [1, 20] }).collect()
    };
    // The second container of the pod fails first, and the first container fails later.
    let (late, early) = (instances(&[100, 50, 50]), instances(&[20, 70, 30, 60]));
    let replayed = replay(&steps(&[statuses("main", &late), statuses("aux", &early)]), spec(json!({})), 290, |_, _| {});
    let seen: Vec<_> = replayed.shown.iter().flatten().map(|shown| (shown.container.as_str(), shown.since)).collect();
    assert!(seen.iter().all(|seen| *seen == ("aux", 25)), "{seen:?}");
    assert_eq!(replayed.transitions, ["25 Crash began"]);
    assert_eq!(at(25), replayed.start + jiff::SignedDuration::from_secs(25));
}

#[test]
fn alternating_crashes_and_start_errors_are_one_incident() {
    let loop_of = |failures: &[Value]| -> Vec<(i64, Value)> {
        let mut versions = vec![(0, waiting("app", "ContainerCreating", ""))];
        for (restarts, failure) in (0..).zip(failures) {
            let now = 30 * (i64::from(restarts) + 1);
            let mut failure = failure.clone();
            failure["finishedAt"] = crate::cases::t(now).into();
            let held = waiting("app", "CrashLoopBackOff", "back-off");
            versions.push((now, after(failure, restarts, held)));
        }
        versions.push((400, after(termination(137, "OOMKilled", 380), 9, waiting("app", "ErrImagePull", "429"))));
        versions.push((430, after(termination(137, "OOMKilled", 380), 9, running("app", 430))));
        versions
    };
    let (oom, start) =
        (termination(137, "OOMKilled", 0), failed_start("StartError", "container init was OOM-killed", 0));
    for restarting in [false, true] {
        let versions = loop_of(&[oom.clone(), start.clone(), oom.clone(), oom.clone(), start.clone(), oom.clone()]);
        let replayed = replay(&steps(&[versions]), spec(json!({})), 600, |replayed, pod| {
            if restarting {
                replayed.restart([pod.clone()]);
            }
        });
        let keys: BTreeSet<_> =
            replayed.shown.iter().flatten().map(|shown| (&shown.key, shown.kind, shown.since)).collect();
        assert_eq!(keys.len(), 1, "restarting: {restarting}, {:#?}", replayed.shown);
        assert_eq!(replayed.transitions, ["30 Crash began"], "restarting: {restarting}");
    }
}

#[test]
fn ends_an_incident_when_its_pods_are_being_deleted() {
    let crashing = case("gone").app(ended("app", termination(1, "Error", 10))).not_ready("app", 10);
    let deleted = crashing.clone().deleted(60, &[]);
    let replayed = replay(&[Step::new(10.0, crashing), Step::new(20.0, deleted)], spec(json!({})), 30, |_, _| {});
    assert_eq!(replayed.transitions, ["10 Crash began", "20 Crash ended"]);
    assert_eq!(replayed.deleted().len(), 1);
}
