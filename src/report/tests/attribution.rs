//! Tests of what the tracker keeps from one reconcile to the next, and after a restart.

use super::*;
use crate::{
    diagnosis::{Explanation, OtherProblem},
    pods::{ContainerState, ContainerStatus, Controller},
    report::identity::Identity,
};

/// A crash of a container of one pod.
fn crash_in(container: &str, reason: &str, since: i64) -> (Pod, Box<Finding>) {
    let (pod, finding) = crashing("shop", "cart", reason, since);
    (Pod { uid: Uid::from(7), ..pod }, Box::new(Finding { container: container.to_owned(), ..finding }))
}

/// Adds an init container `migrate` that ended with this exit code.
fn after_migration(exit_code: i32, pod: Pod) -> Pod {
    let terminated = Some(Terminated { exit_code, ..Terminated::default() });
    let state = ContainerState { terminated, ..ContainerState::default() };
    Pod {
        init_statuses: vec![ContainerStatus { name: "migrate".to_owned(), state, ..ContainerStatus::default() }],
        ..pod
    }
}

/// Updates the tracker with one pod. Returns the finding that is reported, or `None` if it is ignored.
fn update(
    tracker: &mut Tracker,
    (pod, finding): &(Pod, Box<Finding>),
    previous: Option<&OrchestrStatus>,
    generation: i64,
    ignores: &dyn Fn(ProblemKind, &str) -> bool,
) -> Option<Finding> {
    let mut found = vec![(pod, finding.clone())];
    let ignored = tracker.update(&mut found, &UpdateContext { previous, generation, ignores, remains: &|_| true });
    assert_eq!(ignored, 1 - found.len());
    found.pop().map(|(_, finding)| *finding)
}

#[test]
fn decides_once_per_generation_whether_a_problem_is_ignored() {
    let mut tracker = Tracker::default();
    let ignores = |_: ProblemKind, reason: &str| reason == "OOMKilled";
    assert!(update(&mut tracker, &crash_in("app", "Error", 50), None, 3, &ignores).is_some());
    let more_specific = crash_in("app", "OOMKilled", 60);
    assert!(update(&mut tracker, &more_specific, None, 3, &ignores).is_some(), "the reported problem continues");
    assert!(update(&mut tracker, &more_specific, None, 4, &ignores).is_none(), "a changed spec decides again");
    let less_specific = crash_in("app", "Error", 70);
    assert!(update(&mut tracker, &less_specific, None, 4, &ignores).is_none(), "the ignored problem continues");
}

#[test]
fn a_tracker_is_resumed_by_its_first_update() {
    let mut tracker = Tracker::default();
    assert!(!tracker.is_resumed());
    update(&mut tracker, &crash_in("app", "Error", 50), None, 3, &|_, _| false);
    assert!(tracker.is_resumed());
}

#[test]
fn a_problem_keeps_its_container_until_the_init_container_completes() {
    for (exit_code, attributed) in [(0, "app"), (1, "migrate")] {
        let mut tracker = Tracker::default();
        update(&mut tracker, &crash_in("migrate", "Error", 50), None, 3, &|_, _| false);
        let (pod, finding) = crash_in("app", "Error", 60);
        let found = update(&mut tracker, &(after_migration(exit_code, pod), finding), None, 3, &|_, _| false);
        assert_eq!(found.unwrap().container, attributed, "exit code {exit_code}");
    }
}

#[test]
fn a_problem_keeps_its_container_after_a_restart() {
    let crash = crash_in("migrate", "Error", 50);
    let status = Scenario { pods: vec![(crash.0.clone(), *crash.1)], ..Scenario::default() }.status(None);
    assert_eq!(status.incidents[0].container, "migrate");
    for (exit_code, attributed) in [(0, "app"), (1, "migrate")] {
        let (pod, finding) = crash_in("app", "Error", 60);
        let pod = after_migration(exit_code, pod);
        let found = update(&mut Tracker::default(), &(pod, finding), Some(&status), 3, &|_, _| false);
        assert_eq!(found.unwrap().container, attributed, "exit code {exit_code}");
    }
}

#[test]
fn an_incident_keeps_its_start_time_while_its_pods_are_replaced() {
    let mut tracker = Tracker::default();
    for (uid, began, since) in [(1, 50, 50), (2, 70, 50), (3, 90, 50), (3, 40, 40)] {
        let (pod, finding) = crash_in("app", "Error", began);
        let pod = Pod { uid: Uid::from(uid), ..pod };
        update(&mut tracker, &(pod.clone(), finding.clone()), None, 3, &|_, _| false);
        let known = tracker.incident(&Identity::of(&pod, &finding)).unwrap();
        assert_eq!(known.since, at(since), "pod {uid}");
    }
    let context = UpdateContext { previous: None, generation: 3, ignores: &|_, _| false, remains: &|_| true };
    tracker.update(&mut Vec::new(), &context);
    let (pod, finding) = crash_in("app", "Error", 100);
    update(&mut tracker, &(pod.clone(), finding.clone()), None, 3, &|_, _| false);
    let known = tracker.incident(&Identity::of(&pod, &finding)).unwrap();
    assert_eq!(known.since, at(100), "a new incident");
}

#[test]
fn an_alert_mentions_earlier_lines_only_if_its_log_is_cut() {
    let earlier = "earlier lines are in the object's status";
    for (lines, note) in [(3, ""), (3_000, earlier)] {
        let mut scenario = Scenario { webhooks: true, ..Scenario::of([crashing("shop", "cart", "Error", 50)]) };
        scenario.tails.insert((scenario.pods[0].0.uid, "app".to_owned()), tail(&"a line\n".repeat(lines)));
        assert_eq!(scenario.alert_incidents()[0].log_note, note, "{lines} lines");
    }
}

/// A failed pod of the Job `nightly-29384756`, with this owner.
fn failed_run(owner: &str, kind: &str) -> (Pod, Box<Finding>) {
    let (pod, finding) = crash_in("app", "Error", 50);
    let job = Controller {
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        name: "nightly-29384756".into(),
        uid: "j1".into(),
    };
    let owner = Some(Owner { kind: kind.to_owned(), name: owner.to_owned() });
    (Pod { controller: Some(job), ..pod }, Box::new(Finding { owner, ..*finding }))
}

#[test]
fn a_run_keeps_its_cron_job_while_its_job_cannot_be_read() {
    let (known, unread) = (failed_run("nightly", "CronJob"), failed_run("nightly-29384756", "Job"));
    let status = Scenario { pods: vec![(known.0.clone(), *known.1.clone())], ..Scenario::default() }.status(None);
    let mut running = Tracker::default();
    update(&mut running, &known, None, 3, &|_, _| false);
    for (mut tracker, previous) in [(running, None), (Tracker::default(), Some(&status))] {
        for _ in 0..2 {
            let found = update(&mut tracker, &unread, previous, 3, &|_, _| false).unwrap();
            assert_eq!(found.owner, known.1.owner);
        }
    }
    let other = failed_run("weekly", "CronJob");
    let mut tracker = Tracker::default();
    update(&mut tracker, &other, None, 3, &|_, _| false);
    let found = update(&mut tracker, &unread, None, 3, &|_, _| false).unwrap();
    assert_eq!(found.owner, unread.1.owner, "not a run of weekly");
}

#[test]
fn the_reason_of_a_new_incident_does_not_depend_on_the_order_of_its_pods() {
    let first = crash_in("app", "OOMKilled", 50);
    let (pod, finding) = crash_in("app", "ContainerCannotRun", 50);
    let second = (Pod { uid: Uid::from(8), name: "cart-2".to_owned(), ..pod }, finding);
    for pods in [[&first, &second], [&second, &first]] {
        let mut found: Vec<_> = pods.iter().map(|(pod, finding)| (pod, finding.clone())).collect();
        let mut tracker = Tracker::default();
        let context = UpdateContext { previous: None, generation: 3, ignores: &|_, _| false, remains: &|_| true };
        tracker.update(&mut found, &context);
        let known = tracker.incident(&Identity::of(found[0].0, &found[0].1)).unwrap();
        assert_eq!(known.reason, "ContainerCannotRun");
    }
}

#[test]
fn a_further_pod_joins_the_open_incident_after_a_restart() {
    let (pod, finding) = crash_in("proxy", "ImagePullBackOff", 50);
    let open = Finding { kind: ProblemKind::Image, ..*finding };
    let status = Scenario { pods: vec![(pod, open)], ..Scenario::default() }.status(None);

    let (pod, finding) = crash_in("app", "Error", 60);
    let image = OtherProblem {
        explanation: Explanation::default(),
        kind: ProblemKind::Image,
        reason: "ImagePullBackOff".to_owned(),
        container: "proxy".to_owned(),
        message: String::new(),
        since: at(60),
    };
    let further = Pod { uid: Uid::from(8), name: "cart-2".to_owned(), ..pod };
    let finding = Box::new(Finding { others: vec![image], ..*finding });
    let found = update(&mut Tracker::default(), &(further, finding), Some(&status), 3, &|_, _| false).unwrap();
    assert_eq!((found.kind, found.container.as_str()), (ProblemKind::Image, "proxy"));
}
