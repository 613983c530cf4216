//! Tests of what the tracker keeps from one reconcile to the next, and after a restart.

use super::*;
use crate::{
    api::Cause,
    diagnosis::{Basis, Explanation, OtherProblem},
    pods::{ContainerState, ContainerStatus, Controller},
    report::identity::Identity,
};

/// A crash of a container of one pod.
fn crash_in(container: &str, reason: &str, since: i64) -> (Pod, Box<Finding>) {
    let (pod, finding) = crashing("shop", "cart", reason, since);
    (Pod { uid: Uid::from(7), ..pod }, Box::new(Finding { container: container.into(), ..finding }))
}

/// Adds an init container `migrate` that ended with this exit code.
fn after_migration(exit_code: i32, pod: Pod) -> Pod {
    let terminated = Some(Terminated { exit_code, ..Terminated::default() });
    let state = ContainerState { terminated, ..ContainerState::default() };
    Pod { init_statuses: vec![ContainerStatus { name: "migrate".into(), state, ..ContainerStatus::default() }], ..pod }
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
    let context = UpdateContext { previous, generation, ignores, ..UpdateContext::default() };
    let ignored = tracker.update(&mut found, &context, &mut SharedProblems::default());
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
fn a_problem_keeps_its_init_container_until_that_completes() {
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
fn a_pod_without_room_in_the_status_keeps_its_cause() {
    use Cause::{LivenessProbe, PostStartHook, Signal};
    let explained = |cause, exit_code| {
        let (pod, finding) = crash_in("app", "Error", 50);
        let basis = Basis::Exit(exit_code);
        let explanation = Explanation { cause, message: cause.as_str().into(), basis, ..Explanation::default() };
        (pod, Box::new(Finding { explanation, ..*finding }))
    };
    for (cause, exit_code, kept) in [
        (LivenessProbe, 137, LivenessProbe),
        (LivenessProbe, 143, LivenessProbe),
        (PostStartHook, 137, PostStartHook),
        (LivenessProbe, 139, Signal),
    ] {
        let known = explained(cause, 137);
        for max_pods in [0, 50] {
            let pods = vec![(known.0.clone(), *known.1.clone())];
            let status = Scenario { pods, max_pods, ..Scenario::default() }.status(None);
            assert_eq!((status.incidents[0].cause, status.problematic_pods.is_empty()), (cause, max_pods == 0));
            let mut tracker = Tracker::default();
            let found = update(&mut tracker, &explained(Signal, exit_code), Some(&status), 3, &|_, _| false).unwrap();
            assert_eq!(found.explanation.cause, kept, "{cause}, then exit code {exit_code}, {max_pods} pods");
            let again = update(&mut tracker, &explained(Signal, exit_code), None, 3, &|_, _| false).unwrap();
            assert_eq!(again.explanation.cause, kept, "{cause}, then exit code {exit_code}, {max_pods} pods");
        }
    }
}

#[test]
fn an_incident_keeps_its_start_while_pods_are_replaced() {
    let mut tracker = Tracker::default();
    for (uid, began, since) in [(1, 50, 50), (2, 70, 50), (3, 90, 50), (3, 40, 40)] {
        let (pod, finding) = crash_in("app", "Error", began);
        let pod = Pod { uid: Uid::from(uid), ..pod };
        update(&mut tracker, &(pod.clone(), finding.clone()), None, 3, &|_, _| false);
        let known = tracker.incident(&Identity::of(&pod, &finding)).unwrap();
        assert_eq!(known.since, at(since), "pod {uid}");
    }
    let context = UpdateContext { generation: 3, ..UpdateContext::default() };
    tracker.update(&mut Vec::new(), &context, &mut SharedProblems::default());
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
        assert_eq!(scenario.alert_incidents()[0].texts.log_note, note, "{lines} lines");
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
    let owner = Some(PodOwner { kind: kind.into(), name: owner.into() });
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
fn a_new_reason_is_independent_of_the_order_of_pods() {
    let first = crash_in("app", "OOMKilled", 50);
    let (pod, finding) = crash_in("app", "ContainerCannotRun", 50);
    let second = (Pod { uid: Uid::from(8), name: "cart-2".into(), ..pod }, finding);
    for pods in [[&first, &second], [&second, &first]] {
        let mut found: Vec<_> = pods.iter().map(|(pod, finding)| (pod, finding.clone())).collect();
        let mut tracker = Tracker::default();
        tracker.update(&mut found, &UpdateContext::default(), &mut SharedProblems::default());
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
        reason: "ImagePullBackOff".into(),
        container: "proxy".into(),
        message: "".into(),
        since: at(60),
        since_at_latest: false,
    };
    let further = Pod { uid: Uid::from(8), name: "cart-2".into(), ..pod };
    let finding = Box::new(Finding { others: vec![image], ..*finding });
    let found = update(&mut Tracker::default(), &(further, finding), Some(&status), 3, &|_, _| false).unwrap();
    assert_eq!((found.kind, found.container.as_str()), (ProblemKind::Image, "proxy"));
}

/// The finding with these causes, the first of which is the main one.
fn finding_of(causes: &[(ProblemKind, &str)], reason: &str, since: i64) -> (Pod, Box<Finding>) {
    let (pod, finding) = crash_in(causes[0].1, reason, since);
    let other = |(kind, container): (ProblemKind, &str)| OtherProblem {
        kind,
        reason: "Other".into(),
        container: container.into(),
        message: "".into(),
        since: at(since),
        since_at_latest: false,
        explanation: Explanation::default(),
    };
    let others = causes[1..].iter().copied().map(other).collect();
    (pod, Box::new(Finding { kind: causes[0].0, others, ..*finding }))
}

#[test]
fn a_pods_problem_continues_with_the_cause_that_is_most_alike() {
    use ProblemKind::{Crash, Failed, Image, NotReady, Start};
    // The known cause, the present causes, and the kind, container and start time that are reported.
    type Row = ((ProblemKind, &'static str), &'static [(ProblemKind, &'static str)], (ProblemKind, &'static str, i64));
    const ROWS: [Row; 11] = [
        ((Crash, "app"), &[(Crash, "app")], (Crash, "app", 50)),
        // The same kind and container, whatever comes first.
        ((Crash, "app"), &[(Image, "app"), (Crash, "app")], (Crash, "app", 50)),
        ((Crash, "app"), &[(Crash, "web"), (Crash, "app")], (Crash, "app", 50)),
        // Another kind of the same container, before the same kind of another.
        ((Crash, "app"), &[(Crash, "web"), (Start, "app")], (Crash, "app", 50)),
        ((Image, "app"), &[(Start, "app")], (Image, "app", 50)),
        // The same kind of another container: the incident stays where it began.
        ((Crash, "app"), &[(Image, "web"), (Crash, "web")], (Crash, "app", 50)),
        ((NotReady, "app"), &[(NotReady, "web")], (NotReady, "app", 50)),
        // Another problem.
        ((Crash, "app"), &[(Image, "web")], (Image, "web", 70)),
        ((Crash, "app"), &[(NotReady, "app")], (NotReady, "app", 70)),
        ((NotReady, "app"), &[(Crash, "app")], (Crash, "app", 70)),
        ((NotReady, ""), &[(Failed, "")], (Failed, "", 70)),
    ];
    for (known, present, expected) in ROWS {
        let mut tracker = Tracker::default();
        update(&mut tracker, &finding_of(&[known], "Error", 50), None, 3, &|_, _| false);
        let found = update(&mut tracker, &finding_of(present, "Error", 70), None, 3, &|_, _| false).unwrap();
        let shown = (found.kind, found.container.as_str(), found.since.as_second());
        assert_eq!(shown, expected, "{known:?}, then {present:?}");
    }
}

#[test]
fn the_message_and_reason_belong_to_the_cause_that_continues() {
    let mut tracker = Tracker::default();
    update(&mut tracker, &finding_of(&[(ProblemKind::Crash, "app")], "Error", 50), None, 3, &|_, _| false);
    let present = [(ProblemKind::Crash, "web"), (ProblemKind::Image, "web"), (ProblemKind::Crash, "app")];
    let found = update(&mut tracker, &finding_of(&present, "OOMKilled", 70), None, 3, &|_, _| false).unwrap();
    assert_eq!((found.reason.as_str(), found.message.as_str()), ("Other", ""));
    let others: Vec<_> = found.others.iter().map(|other| (other.kind, other.reason.as_str())).collect();
    assert_eq!(others, [(ProblemKind::Image, "Other"), (ProblemKind::Crash, "OOMKilled")]);
}

/// The reason of an incident after the operator has run on, and after it was restarted.
fn reasons_of(known: &(Pod, Box<Finding>), present: &(Pod, Box<Finding>), edit: impl Fn(&mut String)) -> [ArcStr; 2] {
    let mut status = Scenario { pods: vec![(known.0.clone(), *known.1.clone())], ..Scenario::default() }.status(None);
    edit(&mut status.problematic_pods[0].reason);
    let mut running = Tracker::default();
    update(&mut running, known, None, 3, &|_, _| false);
    let reason = |mut tracker: Tracker| update(&mut tracker, present, Some(&status), 3, &|_, _| false).unwrap().reason;
    [reason(running), reason(Tracker::default())]
}

#[test]
fn a_pods_reason_becomes_only_more_specific() {
    use ProblemKind::{Crash, Failed, Unschedulable};
    for (kind, known, present, shown) in [
        (Crash, "Error", "CrashLoopBackOff", "CrashLoopBackOff"),
        (Crash, "CrashLoopBackOff", "Error", "CrashLoopBackOff"),
        (Crash, "OOMKilled", "Error", "OOMKilled"),
        (Crash, "OOMKilled", "ContainerCannotRun", "OOMKilled"),
        (Crash, "ContainerCannotRun", "OOMKilled", "ContainerCannotRun"),
        // These do not change from attempt to attempt.
        (Unschedulable, "Unschedulable", "Pending", "Pending"),
        (Failed, "Evicted", "DeadlineExceeded", "DeadlineExceeded"),
    ] {
        let [known_pod, present_pod] =
            [(known, 50), (present, 60)].map(|(reason, since)| finding_of(&[(kind, "app")], reason, since));
        assert_eq!(reasons_of(&known_pod, &present_pod, |_| ()), [shown; 2], "{known}, then {present}");
    }
    let [known, present] = ["OOMKilled", "Error"].map(|reason| finding_of(&[(ProblemKind::Crash, "app")], reason, 50));
    let edited = reasons_of(&known, &present, |reason| "Fine".clone_into(reason));
    assert_eq!(edited, ["OOMKilled", "Error"], "another writer changed the status");
    let elsewhere = finding_of(&[(ProblemKind::Crash, "web")], "Error", 50);
    assert_eq!(reasons_of(&known, &elsewhere, |_| ()), ["Error"; 2], "the present reason is another container's");
}

#[test]
fn an_incidents_reason_becomes_only_more_specific() {
    let mut tracker = Tracker::default();
    for (uid, present, shown) in [
        (1, "Error", "Error"),
        (2, "CrashLoopBackOff", "CrashLoopBackOff"),
        (3, "Error", "CrashLoopBackOff"),
        (4, "OOMKilled", "OOMKilled"),
        (5, "ContainerCannotRun", "OOMKilled"),
    ] {
        let (pod, finding) = crash_in("app", present, 50);
        let pod = Pod { uid: Uid::from(uid), ..pod };
        update(&mut tracker, &(pod.clone(), finding.clone()), None, 3, &|_, _| false);
        assert_eq!(tracker.incident(&Identity::of(&pod, &finding)).unwrap().reason, shown, "pod {uid}: {present}");
    }
}

#[test]
fn another_init_container_that_completed_is_not_the_cause() {
    let mut tracker = Tracker::default();
    update(&mut tracker, &crash_in("migrate", "Error", 50), None, 3, &|_, _| false);
    let (pod, finding) = crash_in("app", "Error", 60);
    let mut pod = after_migration(0, pod);
    pod.init_statuses[0].name = "prepare".into();
    let found = update(&mut tracker, &(pod, finding), None, 3, &|_, _| false).unwrap();
    assert_eq!(found.container, "migrate");
}

#[test]
fn a_restart_decides_again_about_unlisted_problems() {
    let crash = crash_in("app", "OOMKilled", 50);
    let status = Scenario { pods: vec![(crash.0.clone(), *crash.1.clone())], ..Scenario::default() }.status(None);
    let without_rows = OrchestrStatus { problematic_pods: Vec::new(), ..status.clone() };
    let without_incidents = OrchestrStatus { incidents: Vec::new(), ..status.clone() };
    let empty = OrchestrStatus { problematic_pods: Vec::new(), ..without_incidents.clone() };
    let other = finding_of(&[(ProblemKind::NotReady, "app")], "OOMKilled", 60);
    let ignores = |_: ProblemKind, reason: &str| reason == "OOMKilled";
    for (what, present, previous, generation, is_reported) in [
        ("no status", &crash, None, 3, false),
        ("listed", &crash, Some(&status), 3, true),
        ("only its incident is listed", &crash, Some(&without_rows), 3, true),
        ("only the pod is listed", &crash, Some(&without_incidents), 3, true),
        ("not listed", &crash, Some(&empty), 3, false),
        ("the spec changed", &crash, Some(&status), 4, false),
        ("another problem", &other, Some(&status), 3, false),
    ] {
        let found = update(&mut Tracker::default(), present, previous, generation, &ignores);
        assert_eq!(found.is_some(), is_reported, "{what}");
    }
}

#[test]
fn the_next_problem_of_an_ignored_pod_is_reported() {
    let mut tracker = Tracker::default();
    let ignores = |kind: ProblemKind, _: &str| kind == ProblemKind::Crash;
    let not_ready = finding_of(&[(ProblemKind::NotReady, "app")], "NotReady", 70);
    let crash = crash_in("app", "Error", 50);
    for (present, is_reported) in [(&crash, false), (&not_ready, true), (&crash, false)] {
        assert_eq!(update(&mut tracker, present, None, 3, &ignores).is_some(), is_reported);
        assert!(tracker.had_problem(present.0.uid) && !tracker.had_problem(Uid::from(8)));
    }
}

#[test]
fn a_run_keeps_a_cron_job_that_only_one_list_shows() {
    let (known, unread) = (failed_run("nightly", "CronJob"), failed_run("nightly-29384756", "Job"));
    let status = Scenario { pods: vec![(known.0.clone(), *known.1.clone())], ..Scenario::default() }.status(None);
    let rows = OrchestrStatus { incidents: Vec::new(), ..status.clone() };
    let incidents = OrchestrStatus { problematic_pods: Vec::new(), ..status };
    for previous in [rows, incidents] {
        let found = update(&mut Tracker::default(), &unread, Some(&previous), 3, &|_, _| false).unwrap();
        assert_eq!(found.owner, known.1.owner);
    }
}

#[test]
fn an_open_incident_is_continued_before_any_other_cause() {
    let open = finding_of(&[(ProblemKind::Crash, "app")], "Error", 50);
    let also_open = finding_of(&[(ProblemKind::Image, "proxy")], "Error", 50);
    let named = |(pod, finding): &(Pod, Box<Finding>), uid: u8| {
        (
            Pod { uid: Uid::from(u128::from(uid)), name: format!("cart-{uid}").into(), ..pod.clone() },
            (**finding).clone(),
        )
    };
    let pods = vec![named(&open, 1), named(&also_open, 2)];
    let status = Scenario { pods, ..Scenario::default() }.status(None);
    use ProblemKind::{Crash, Image, Start};
    for (present, shown) in [
        ([(Crash, "app"), (Image, "proxy")], (Crash, "app")),
        ([(Image, "proxy"), (Crash, "app")], (Image, "proxy")),
        ([(Start, "main"), (Image, "proxy")], (Image, "proxy")),
        ([(Start, "main"), (Image, "main")], (Start, "main")),
    ] {
        let (pod, finding) = finding_of(&present, "Error", 60);
        let further = Pod { uid: Uid::from(9), name: "cart-9".into(), ..pod };
        let found = update(&mut Tracker::default(), &(further, finding), Some(&status), 3, &|_, _| false).unwrap();
        assert_eq!((found.kind, found.container.as_str()), shown, "{present:?}");
    }
}

#[test]
fn names_incidents_that_ended_by_deletions() {
    /// What becomes of the pods of one owner: they still have a problem, an ignored one, recovered, or were deleted.
    #[derive(Clone, Copy, PartialEq)]
    enum Fate {
        Failing,
        Ignored,
        Recovered,
        Deleted,
    }
    use Fate::{Deleted, Failing, Ignored, Recovered};
    let mut tracker = Tracker::default();
    for (step, cart, pay, expected) in [
        (1, [Failing, Failing], [Failing, Failing], ""),
        (2, [Failing, Deleted], [Failing, Deleted], ""),
        (3, [Deleted, Deleted], [Recovered, Deleted], "cart"),
        (4, [Deleted, Deleted], [Failing, Recovered], "cart"),
        (5, [Deleted, Deleted], [Deleted, Deleted], "cart pay"),
        (6, [Failing, Deleted], [Deleted, Deleted], "pay"),
        (7, [Recovered, Deleted], [Deleted, Deleted], "pay"),
        (8, [Deleted, Deleted], [Ignored, Deleted], "pay"),
        (9, [Failing, Failing], [Ignored, Deleted], ""),
        (10, [Deleted, Recovered], [Ignored, Deleted], ""),
    ] {
        let owners = [("cart", cart), ("pay", pay)];
        let pods: Vec<_> = (0_u128..4)
            .zip(owners.into_iter().flat_map(|(owner, fates)| fates.map(|fate| (owner, fate))))
            .map(|(uid, (owner, fate))| {
                let reason = if fate == Ignored { "Ignored" } else { "Error" };
                let (pod, finding) = crashing("shop", owner, reason, 50);
                (Pod { uid: Uid::from(uid), name: format!("{owner}-{uid}").into(), ..pod }, finding, fate)
            })
            .collect();
        let failing = pods.iter().filter(|(.., fate)| matches!(fate, Failing | Ignored));
        let mut found: Vec<_> = failing.map(|(pod, finding, _)| (pod, Box::new(finding.clone()))).collect();
        let remains = |uid| pods.iter().any(|(pod, _, fate)| pod.uid == uid && *fate != Deleted);
        let ignores = |_: ProblemKind, reason: &str| reason == "Ignored";
        let context = UpdateContext { ignores: &ignores, remains: &remains, ..UpdateContext::default() };
        tracker.update(&mut found, &context, &mut SharedProblems::default());
        let key_of = |owner| {
            let (pod, finding) = crashing("shop", owner, "Error", 50);
            Identity::of(&pod, &finding).id().key()
        };
        let expected: Vec<_> = expected.split_whitespace().map(key_of).collect();
        assert_eq!(tracker.deleted().collect::<Vec<_>>(), expected, "step {step}");
    }
}

#[test]
fn an_alert_shows_the_log_of_the_container_that_failed() {
    let (pod, finding) = crashing("shop", "cart", "Error", 50);
    let containers = ["app", "proxy", "mesh"].map(container).to_vec();
    for (culprit, log) in [("app", "of app"), ("proxy", "of proxy"), ("", "of app"), ("gone", "of app")] {
        let finding = Finding { container: culprit.into(), containers: containers.clone(), ..finding.clone() };
        let mut scenario = Scenario { webhooks: true, ..Scenario::of([(pod.clone(), finding)]) };
        for name in ["app", "proxy", "mesh"] {
            scenario.tails.insert((scenario.pods[0].0.uid, name.to_owned()), tail(&format!("of {name}")));
        }
        assert_eq!(&*scenario.alert_incidents()[0].texts.logs, log, "{culprit:?}");
    }
}
