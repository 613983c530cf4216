//! Replays the versions of pods that a real kubelet wrote, and checks that each problem is one incident.
//!
//! The sequences were recorded on a kubelet 1.36; fields that nothing reads were left out.

use orchestr::api::ProblemKind;
use serde_json::json;

use crate::{
    pod_statuses::controlled_by,
    replay::{recorded, replay, spec},
};

/// The recorded problems: the kind, the container, the reasons in order with the times at which they are reported, and
/// the time at which the problem ends, if it ends within the recording.
type Row = (&'static str, ProblemKind, &'static str, &'static [(i64, &'static str)], Option<i64>);

const TROUBLES: [Row; 11] = [
    ("bad-command", ProblemKind::Start, "app", &[(0, "StartError")], None),
    ("crash-exit1", ProblemKind::Crash, "app", &[(0, "Error"), (13, "CrashLoopBackOff")], None),
    ("crash-then-runs", ProblemKind::Crash, "app", &[(0, "Error")], Some(601)),
    ("init-fails", ProblemKind::Crash, "prep", &[(0, "Error"), (11, "CrashLoopBackOff")], None),
    ("liveness-fails", ProblemKind::Crash, "app", &[(3, "Error"), (7, "CrashLoopBackOff")], None),
    ("oom", ProblemKind::Crash, "app", &[(0, "OOMKilled")], None),
    ("poststart-fails", ProblemKind::Crash, "app", &[(2, "Error"), (21, "CrashLoopBackOff")], None),
    ("pull-bad", ProblemKind::Image, "app", &[(0, "ImagePullBackOff")], None),
    ("sidecar-crash", ProblemKind::Crash, "side", &[(1, "Error"), (17, "CrashLoopBackOff")], None),
    ("silent-exit0", ProblemKind::Crash, "app", &[(13, "CrashLoopBackOff")], None),
    ("startup-fails", ProblemKind::Crash, "app", &[(4, "Error"), (8, "CrashLoopBackOff")], None),
];

/// How long the last version of each pod is replayed.
const END: i64 = 700;

#[test]
fn each_recorded_trouble_is_one_incident() {
    let sequences = recorded();
    assert_eq!(sequences.len(), TROUBLES.len());
    for (name, kind, container, reasons, end) in TROUBLES {
        for restarting in [false, true] {
            let replayed = replay(&sequences[name], spec(json!({})), END, |replayed, pod| {
                if restarting {
                    replayed.restart([pod.clone()]);
                }
            });
            let keys: Vec<_> = replayed.shown.iter().flatten().map(|shown| (&shown.key, shown.kind)).collect();
            assert!(
                keys.iter().all(|key| *key == keys[0]) && keys[0].1 == kind,
                "{name} {restarting}: {:#?}",
                replayed.shown
            );
            let times: Vec<_> = replayed.shown.iter().flatten().map(|shown| (shown.t, shown.reason.as_str())).collect();
            assert_eq!(times, reasons, "{name}, restarting: {restarting}");
            assert!(
                replayed.shown.iter().flatten().all(|shown| shown.container == container),
                "{name}: {:#?}",
                replayed.shown
            );
            let first = replayed.shown.iter().flatten().next().unwrap().since;
            assert!(replayed.shown.iter().flatten().all(|shown| shown.since == first), "{name}: {:#?}", replayed.shown);
            let mut expected = vec![format!("{} {kind} began", reasons[0].0)];
            // The kubelet writes whole seconds.
            let late = replayed.transitions.last().is_some_and(|last| last.starts_with("602"));
            expected.extend(end.map(|end| format!("{} {kind} ended", end + i64::from(late))));
            assert_eq!(replayed.transitions, expected, "{name}, restarting: {restarting}");
            assert_eq!(replayed.shown.last().unwrap().is_none(), end.is_some(), "{name}");
        }
    }
}

#[test]
fn ignoring_a_kind_or_reason_holds_for_the_whole_problem() {
    let sequences = recorded();
    for (name, kind, _, reasons, ..) in TROUBLES {
        let last = reasons.last().unwrap().1;
        let mut names = vec![kind.as_str(), last, reasons[0].1];
        if name == "pull-bad" {
            names.push("ErrImagePull");
        }
        for ignored in names {
            let replayed =
                replay(&sequences[name], spec(json!({"pods": {"ignoreReasons": [ignored]}})), END, |_, _| {});
            let shown: Vec<_> = replayed.shown.iter().flatten().collect();
            assert!(shown.is_empty(), "{name} ignoring {ignored}: {shown:?}");
        }
    }
}

#[test]
fn the_status_lists_a_problem_until_it_ends() {
    for (name, steps) in recorded() {
        let mut seen = false;
        let replayed = replay(&steps, spec(json!({})), 690, |replayed, _| {
            let status = replayed.status.as_ref().unwrap();
            seen |= status.problematic_pod_count > 0;
            let ended = name == "crash-then-runs" && replayed.now.duration_since(replayed.start).as_secs() >= 601;
            assert!(!seen || status.problematic_pod_count == 1 || ended, "{name} at {}", replayed.now);
        });
        assert!(seen, "{name}: {:?}", replayed.shown);
    }
}

#[test]
fn the_list_is_stable_while_pods_crash() {
    let sequences = recorded();
    let owner = controlled_by("StatefulSet", "web", "w");
    let mut steps: Vec<_> = ["oom", "crash-exit1"].into_iter().flat_map(|name| sequences[name].clone()).collect();
    steps.sort_by(|a, b| a.t.total_cmp(&b.t));
    steps.iter_mut().for_each(|step| step.pod["metadata"]["ownerReferences"] = owner.clone());
    let mut shown: Vec<Vec<String>> = Vec::new();
    let replayed = replay(&steps, spec(json!({"report": {"maxPods": 1}})), END, |replayed, _| {
        let pods = replayed.status.iter().flat_map(|status| &status.problematic_pods);
        let names: Vec<_> = pods.map(|pod| pod.name.clone()).collect();
        // Both have failed by then.
        if replayed.now.duration_since(replayed.start).as_secs() >= 5 && shown.last() != Some(&names) {
            shown.push(names);
        }
    });
    let status = replayed.status.unwrap();
    assert_eq!((status.problematic_pod_count, status.omitted_pods, status.incidents.len()), (2, 1, 1));
    assert_eq!(shown.len(), 1, "{shown:?}");
}
