//! Rollouts that are only slow, and crash loops, observed from their beginning.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A container that ends this many seconds after each start, as the kubelet shows it. It is ready as soon as it runs.
fn crashes_after(run: i64, until: i64) -> Vec<(i64, Value)> {
    let (mut now, mut restarts, mut last) = (0, 0, json!({}));
    let mut versions = Vec::new();
    while now < until {
        let version = |is_ready: bool, since: i64, state: Value| {
            let container = json!({"restartCount": restarts, "state": state, "lastState": last});
            let mut full = status("Running", is_ready, container);
            full["conditions"][1]["lastTransitionTime"] = json!(text(since));
            full
        };
        versions.push((now, version(true, now, json!({"running": {"startedAt": text(now)}}))));
        let end = now + run;
        let ended =
            json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": text(now), "finishedAt": text(end)}});
        versions.push((end, version(false, end, ended.clone())));
        // The first restart is immediate.
        now = end + 1;
        if restarts > 0 {
            let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
            versions.push((now, version(false, end, waiting)));
            now += 300.min(10 << (restarts - 1).min(5));
        }
        (restarts, last) = (restarts + 1, ended);
    }
    versions
}

/// `sh -c "sleep 1; exit 1"` is ready for a second again and again. A container that is OOM-killed every minute is so for
/// longer than the window, but after the first time, that has been seen.
#[test]
fn a_crash_loop_without_a_readiness_probe_is_never_done() {
    for (run, first_seen) in [(1, 0), (9, 0), (12, 12), (60, 60), (300, 300), (500, 500)] {
        let versions = crashes_after(run, 3000);
        let mut observed: Option<Observed> = None;
        let mut seen = None;
        for now in first_seen..3000 {
            let (from, version) = versions.iter().rev().find(|(from, _)| *from <= now).unwrap();
            if seen != Some(from) {
                let pod = pod("new", "a", version.clone());
                (observed, seen) = (Some(Observed::new(pod, observed.as_ref(), at(now))), Some(from));
            }
            let observed = observed.clone().unwrap();
            let available = if observed.ready_since().is_some() { 3 } else { 0 };
            let workload =
                Some(deployment(json!({"replicas": 3, "updatedReplicas": 3, "availableReplicas": available})));
            let decision = Known { workload, pods: vec![observed; 3], ..Known::default() }.decide(now);
            assert_ne!(decision.state, State::Done, "it runs for {run} s, and passes after {now} s");
            if is_failed(&decision) {
                break;
            }
        }
    }
}

/// How a pod starts that is slow but fine. In seconds.
#[derive(Clone, Debug)]
struct SlowPod {
    created: i64,
    unscheduled: i64,
    creating: i64,
    /// Its registry cannot be reached.
    unreachable: i64,
    /// Its ConfigMap is missing, for less than the grace.
    missing: i64,
    /// It exits again and again, for less than the grace, because its database is not up.
    crashes: usize,
    runs: i64,
    /// Its startup probe kills it so often.
    kills: usize,
    /// It runs but is not ready.
    warming: i64,
}

fn slow_pod() -> impl Strategy<Value = SlowPod> {
    let early = (0..300_i64, 0..300_i64, 0..300_i64, prop_oneof![Just(0), 1..900_i64], prop_oneof![Just(0), 1..30_i64]);
    let late = (0..7_usize, 1..9_i64, 0..5_usize, 0..900_i64);
    (early, late).prop_map(
        |((created, unscheduled, creating, unreachable, missing), (crashes, runs, kills, warming))| SlowPod {
            created,
            unscheduled,
            creating,
            unreachable,
            missing,
            crashes,
            runs,
            kills,
            warming,
        },
    )
}

impl SlowPod {
    /// The versions of the pod's status, and when each begins. The last one is ready.
    fn versions(&self) -> Vec<(i64, Value)> {
        let mut now = self.created;
        let mut versions = vec![(now, json!({"phase": "Pending"}))];
        now += self.unscheduled;
        versions.push((now, waits("ContainerCreating", "")));
        now += self.creating;
        if self.unreachable > 0 {
            versions.push((now, waits("ErrImagePull", "dial tcp: lookup registry.example: no such host")));
            versions.push((now + self.unreachable / 2, waits("ImagePullBackOff", "Back-off pulling image \"a\"")));
            now += self.unreachable;
        }
        if self.missing > 0 {
            versions.push((now, waits("CreateContainerConfigError", "configmap \"app\" not found")));
            now += self.missing;
        }
        let (first, mut restarts, mut last) = (now, 0, json!({}));
        let mut end = |now: &mut i64, runs: i64, code: i32, versions: &mut Vec<(i64, Value)>| {
            let running =
                json!({"restartCount": restarts, "state": {"running": {"startedAt": text(*now)}}, "lastState": last});
            versions.push((*now, status("Running", false, running)));
            let terminated = json!({"terminated": {"exitCode": code, "reason": "Error", "startedAt": text(*now), "finishedAt": text(*now + runs)}});
            *now += runs;
            let ended = json!({"restartCount": restarts, "state": terminated, "lastState": last});
            versions.push((*now, status("Running", false, ended)));
            last = terminated;
            let waiting = json!({"restartCount": restarts, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, "lastState": last});
            versions.push((*now + 1, status("Running", false, waiting)));
            *now += 1 + 10 * (1 << restarts.min(5));
            restarts += 1;
        };
        for crash in 0..self.crashes {
            // When it is started again, it must be within the grace: then its database is up.
            if now + self.runs + 1 + 10 * (1 << crash.min(5)) - first >= 120 {
                break;
            }
            end(&mut now, self.runs, 1, &mut versions);
        }
        for _ in 0..self.kills {
            end(&mut now, 30, 137, &mut versions);
        }
        let running = |is_ready: bool| {
            let running =
                json!({"restartCount": restarts, "state": {"running": {"startedAt": text(now)}}, "lastState": last});
            status("Running", is_ready, running)
        };
        versions.push((now, running(false)));
        versions.push((now + self.warming, running(true)));
        versions
    }
}

/// A rollout of these pods beside an old revision that crashes, observed whenever something changes or a decision is due.
fn observe(pods: &[SlowPod], refused: i64) -> Vec<(i64, Decision)> {
    let lives: Vec<Vec<(i64, Value)>> = pods.iter().map(SlowPod::versions).collect();
    let changes: BTreeSet<i64> = lives.iter().flatten().map(|(from, _)| *from).chain([0, refused]).collect();
    let crashing = json!({"restartCount": 50, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": text(-400), "finishedAt": text(-399)}}});
    let old = Observed::new(pod("old", "old", status("Running", false, crashing)), None, at(0));
    let mut observed: Vec<Option<Observed>> = vec![None; pods.len()];
    let mut versions: Vec<Option<i64>> = vec![None; pods.len()];
    let (mut counts, mut progressed) = (None, None);
    let mut decisions = Vec::new();
    let (mut due, last) = (changes, lives.iter().flatten().map(|(from, _)| *from).max().unwrap_or_default() + 60);
    due.insert(last);
    while let Some(now) = due.pop_first() {
        for (index, (life, observed)) in lives.iter().zip(&mut observed).enumerate() {
            let version = life.iter().rev().find(|(from, _)| *from <= now);
            if let Some((from, status)) = version.filter(|(from, _)| versions[index] != Some(*from)) {
                versions[index] = Some(*from);
                let pod = pod("new", &format!("new-{index}"), status.clone());
                *observed = Some(Observed::new(pod, observed.as_ref(), at(now)));
            }
        }
        let new: Vec<&Observed> = observed.iter().flatten().collect();
        let ready = new.iter().filter(|observed| observed.pod.is_true("Ready")).count();
        let is_over = ready == pods.len();
        let mut status = json!({"replicas": new.len() + usize::from(!is_over), "updatedReplicas": new.len(), "availableReplicas": ready});
        if now < refused {
            status["conditions"] = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                "message": QUOTA, "lastTransitionTime": text(0)}]);
        }
        let mut workload = deployment(status);
        workload.object.spec.as_mut().unwrap().replicas = Some(pods.len().try_into().unwrap());
        if counts.is_some_and(|counts| counts != workload.counts()) {
            progressed = Some(at(now));
        }
        counts = Some(workload.counts());
        let mut pods: Vec<Observed> = new.into_iter().cloned().collect();
        if !is_over {
            pods.push(old.clone());
        }
        let decision = Known { workload: Some(workload), pods, progressed, ..Known::default() }.decide(now);
        if let Some(recheck) = decision.recheck {
            let seconds = recheck.as_second() - at(0).as_second();
            if seconds > now && seconds < last {
                due.insert(seconds);
            }
        }
        decisions.push((now, decision));
    }
    decisions
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_rollout_that_is_only_slow_never_fails(pods in prop::collection::vec(slow_pod(), 1..5), refused in 0..30_i64) {
        let decisions = observe(&pods, refused);
        for (now, decision) in &decisions {
            prop_assert!(!matches!(decision.state, State::Failed(_)), "after {now} s: {decision:?}");
        }
        prop_assert_eq!(&decisions.last().unwrap().1.state, &State::Done, "{:?}", decisions.last());
    }
}

#[test]
fn a_crash_loop_that_does_not_end_fails_within_minutes() {
    let (mut observed, mut started) = (None, 0);
    for restarts in 0.. {
        let ended = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": text(started), "finishedAt": text(started + 2)}});
        let crashing = json!({"restartCount": restarts, "lastState": ended,
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}});
        let pod = pod("new", "a", status("Running", false, crashing));
        let seen = Observed::new(pod, observed.as_ref(), at(started + 3));
        let workload = Some(deployment(json!({"replicas": 3, "updatedReplicas": 1})));
        let known = Known { workload, pods: vec![seen.clone()], ..Known::default() };
        observed = Some(seen);
        let decision = known.decide(started + 3);
        match restarts {
            ..=2 => assert_eq!((code(&decision), decision.recheck), ("waiting", None), "{restarts}"),
            // In the back-off after the third restart, two minutes have passed since the first start.
            _ => {
                assert_eq!((code(&decision), decision.recheck), ("waiting", Some(at(120))));
                assert_eq!(code(&known.decide(120)), "ExitCode");
                return;
            }
        }
        started += 3 + 10 * (1 << restarts);
    }
}
