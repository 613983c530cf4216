use std::{collections::BTreeSet, time::Duration};

use orchestr_testbed::objects::{self, controlled_by, merged};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{super::outlook::Begun, *};
use crate::{
    cli::live::ClusterView,
    diagnosis::{Health, JobFacts},
    events::{Event, InvolvedObject, WatchedEvent},
    facts::JobKey,
    pods::Controller,
};

const LIMITS: Limits = Limits {
    grace: Duration::from_secs(30),
    crash_grace: Duration::from_secs(120),
    restarts: 3,
    stable: Duration::from_secs(10),
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_772_366_400 + second).unwrap()
}

fn text(second: i64) -> String {
    at(second).to_string()
}

fn workload(kind: Kind, object: Value) -> Workload {
    Workload::new(kind, serde_json::from_value(object).unwrap())
}

/// A Deployment of three replicas, as its controller sees it.
fn deployment(status: Value) -> Workload {
    let mut full = json!({"observedGeneration": 2});
    full.as_object_mut().unwrap().extend(status.as_object().unwrap().clone());
    let object = json!({
        "metadata": {"name": "cart", "uid": "d", "generation": 2, "annotations": {"deployment.kubernetes.io/revision": "2"}},
        "spec": {"replicas": 3, "selector": {}, "template": {}},
        "status": full,
    });
    workload(Kind::Deployment, object)
}

fn rolled_out() -> Workload {
    deployment(json!({"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}))
}

fn replica_set(hash: &str, number: &str) -> Revision {
    Revision::of_replica_set(
        serde_json::from_value(json!({
            "metadata": {"name": format!("cart-{hash}"), "uid": format!("rs-{hash}"),
                "annotations": {"deployment.kubernetes.io/revision": number},
                "ownerReferences": controlled_by("Deployment", "cart", "d")},
        }))
        .unwrap(),
    )
}

fn revisions() -> [Revision; 2] {
    [replica_set("old", "1"), replica_set("new", "2")]
}

/// A pod of the ReplicaSet with this hash.
fn pod(hash: &str, name: &str, status: Value) -> Pod {
    let node = if status["phase"] == "Pending" && status.get("startTime").is_none() { "" } else { "node-1" };
    let owners = controlled_by("ReplicaSet", &format!("cart-{hash}"), format!("rs-{hash}"));
    let app = json!({"name": "app", "image": "registry.example/cart:2",
        "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
        "startupProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1, "failureThreshold": 30}});
    let metadata = json!({"creationTimestamp": text(0), "ownerReferences": owners});
    let spec = json!({"nodeName": node, "containers": [app]});
    crate::pods::testing::pod(name, json!({"metadata": metadata, "spec": spec, "status": status}))
}

fn status(phase: &str, is_ready: bool, container: Value) -> Value {
    let app = objects::container("app", merged(json!({"ready": is_ready, "started": is_ready}), &container));
    objects::status(phase, is_ready, &text(0), [app])
}

fn ready() -> Value {
    status("Running", true, json!({"state": {"running": {"startedAt": text(0)}}}))
}

fn waits(reason: &str, message: &str) -> Value {
    status("Pending", false, json!({"state": {"waiting": {"reason": reason, "message": message}}}))
}

fn bad_image() -> Value {
    waits("InvalidImageName", "couldn't parse image name \"?\"")
}

/// What is known in a test.
struct Known<'a> {
    target: Target,
    workload: Option<Workload>,
    gone: Option<Gone>,
    job: Option<JobFacts>,
    pods: Vec<Observed>,
    unreadable: Vec<&'a str>,
    refusals: Vec<Event>,
    progressed: Option<Timestamp>,
}

impl Default for Known<'_> {
    fn default() -> Self {
        Self {
            target: Target::Named(Kind::Deployment, "cart".to_owned()),
            workload: Some(rolled_out()),
            gone: None,
            job: None,
            pods: Vec::new(),
            unreadable: Vec::new(),
            refusals: Vec::new(),
            progressed: None,
        }
    }
}

impl Known<'_> {
    fn decide(&self, now: i64) -> Decision {
        let revisions = revisions();
        let mut view = ClusterView::default();
        view.see_pods(self.pods.iter().map(|observed| &observed.pod), at(now));
        for (id, event) in (0..).zip(self.refusals.clone()) {
            view.add_event(WatchedEvent { id, event: Some(Box::new(event)) });
        }
        let job = JobKey { namespace: "shop".to_owned(), name: "sums-1".to_owned(), uid: "sums-1".to_owned() };
        self.job.iter().for_each(|facts| view.show_job(job.clone(), facts.clone().into()));
        let facts = Facts {
            target: &self.target,
            workload: self.workload.as_ref(),
            gone: self.gone,
            revisions: &revisions.iter().collect::<Vec<_>>(),
            pods: &self.pods.iter().collect::<Vec<_>>(),
            unreadable: &self.unreadable,
            view: &view,
            begun: Begun { at: at(0), is_single_check: false },
            progressed: self.progressed,
        };
        decide(&facts, LIMITS, at(now))
    }
}

fn seen(pods: Vec<Pod>) -> Vec<Observed> {
    pods.into_iter().map(|pod| Observed::new(pod, None, at(0))).collect()
}

fn code(decision: &Decision) -> &str {
    match &decision.state {
        State::Failed(failure) => &failure.code,
        State::Done => "done",
        State::Waiting => "waiting",
        State::Unknowable => "unknowable",
    }
}

#[test]
fn is_done_when_rolled_out_and_all_new_pods_are_healthy() {
    let pods = |last: Value| seen(vec![pod("new", "a", ready()), pod("new", "b", ready()), pod("new", "c", last)]);
    let decision = Known { pods: pods(ready()), ..Known::default() }.decide(600);
    assert_eq!((code(&decision), decision.what.as_str()), ("done", "3 replicas"));
    let decision = Known { pods: pods(status("Running", false, json!({}))), ..Known::default() }.decide(600);
    assert_eq!((code(&decision), decision.what.as_str()), ("waiting", "3 replicas, but not all are healthy"));
    let decision = Known { pods: pods(ready()), unreadable: vec!["cart-x"], ..Known::default() }.decide(600);
    assert_eq!(decision.what, "3 replicas, but the pod cart-x cannot be decoded");
    assert_eq!(code(&decision), "waiting");
}

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

/// For example twice before its database was up. The wait ends, but what it says about the pod is what the operator says.
#[test]
fn a_pod_that_crashed_before_is_done_but_named() {
    let last = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": text(5), "finishedAt": text(8)}});
    let mut status = status(
        "Running",
        true,
        json!({"restartCount": 2, "state": {"running": {"startedAt": text(30)}}, "lastState": last}),
    );
    status["conditions"][1]["lastTransitionTime"] = json!(text(30));
    let crashed = pod("new", "c", status);
    let pods = || vec![pod("new", "a", ready()), pod("new", "b", ready()), crashed.clone()];
    let known = Known { pods: seen(pods()), ..Known::default() };
    let decision = known.decide(60);
    let facts = crate::diagnosis::Facts::default();
    let verdict = crate::diagnosis::assess(&crashed, &facts, &Thresholds::default(), at(60));
    let Health::Problem(reported) = verdict.health else { panic!("{verdict:?}") };
    assert_eq!(decision.troubles.iter().map(|trouble| &trouble.finding).collect::<Vec<_>>(), [&*reported]);
    let what = "3 replicas; c failed before (ExitCode: app exited with code 1, 3 s after its start), and is reported until it has run for 10m";
    assert_eq!((code(&decision), decision.what.as_str()), ("done", what));
    let later = known.decide(30 + 600);
    assert_eq!((code(&later), later.what.as_str(), later.troubles.len()), ("done", "3 replicas", 0));
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

#[test]
fn all_new_pods_must_be_ready_through_the_window() {
    let since = |ready: i64, started: i64, restarts: i32| {
        let container = json!({"restartCount": restarts, "state": {"running": {"startedAt": text(started)}}});
        let mut full = status("Running", true, container);
        full["conditions"][1]["lastTransitionTime"] = json!(text(ready));
        full
    };
    let pods = |last: Observed| {
        let mut pods = seen(vec![pod("new", "a", ready()), pod("new", "b", ready())]);
        pods.push(last);
        pods
    };
    let decided = |last: &Observed, now: i64| Known { pods: pods(last.clone()), ..Known::default() }.decide(now);
    let first = |status: Value, now: i64| Observed::new(pod("new", "c", status), None, at(now));
    let then =
        |before: &Observed, status: Value, now: i64| Observed::new(pod("new", "c", status), Some(before), at(now));
    let done_at = |last: &Observed, time: i64| {
        let early = decided(last, time - 1);
        assert_eq!((code(&early), early.recheck), ("waiting", Some(at(time))), "{early:?}");
        assert_eq!(early.what, "3 replicas, ready for less than 10s");
        assert_eq!(code(&decided(last, time)), "done");
    };
    done_at(&first(since(30, 25, 0), 31), 40);
    done_at(&first(since(30, 35, 0), 36), 45);
    done_at(&first(since(990, 990, 0), 31), 41);
    let starting = first(waits("ContainerCreating", ""), 100);
    // The clock of the node is five minutes behind: what was seen counts.
    let ready = then(&starting, since(-200, -200, 0), 101);
    done_at(&ready, 111);
    done_at(&then(&ready, since(-200, -200, 0), 105), 111);
    done_at(&then(&ready, since(-195, -195, 1), 106), 116);
    done_at(&then(&ready, since(-195, -200, 0), 107), 117);
    let broken = then(&ready, status("Running", false, json!({"state": {"running": {"startedAt": text(-200)}}})), 106);
    done_at(&then(&broken, since(-190, -200, 0), 108), 118);

    let mut known = Known { pods: pods(first(since(30, 30, 0), 31)), ..Known::default() };
    if let Some(Workload { object, .. }) = &mut known.workload {
        object.spec.as_mut().unwrap().min_ready_seconds = Some(25);
    }
    assert_eq!(known.decide(54).what, "3 replicas, ready for less than 25s");
    assert_eq!(code(&known.decide(55)), "done");
    known.target = Target::Selected("app=cart".to_owned());
    assert_eq!(known.decide(39).what, "3 pods ready or succeeded, ready for less than 10s");
    assert_eq!(code(&known.decide(40)), "done");
}

#[test]
fn a_workload_without_a_readiness_probe_is_said_to_have_none() {
    let unprobed = |name: &str| {
        let mut pod = pod("new", name, ready());
        pod.containers[0].readiness_probe = None;
        pod
    };
    let what = |pods: Vec<Pod>| Known { pods: seen(pods), ..Known::default() }.decide(600).what;
    assert_eq!(what(vec![unprobed("a"), unprobed("b"), unprobed("c")]), "3 replicas, without a readiness probe");
    assert_eq!(what(vec![unprobed("a"), unprobed("b"), pod("new", "c", ready())]), "3 replicas");
}

#[test]
fn only_pods_of_the_newest_revision_count() {
    let mut deleted = pod("new", "c", bad_image());
    deleted.deletion = Some(at(1));
    let mut ignored = pod("new", "d", bad_image());
    ignored.ignored = true;
    let mut others = vec![pod("old", "a", bad_image()), pod("other", "b", bad_image()), deleted, ignored];
    others.extend(["x", "y", "z"].map(|name| pod("new", name, ready())));
    assert_eq!(code(&Known { pods: seen(others.clone()), ..Known::default() }.decide(600)), "done");
    let waiting = deployment(json!({"replicas": 3, "updatedReplicas": 1}));
    let mut known = Known { pods: seen(others), workload: Some(waiting), ..Known::default() };
    assert_eq!(known.decide(600).what, "1 of 3 replicas updated");
    assert_eq!(code(&known.decide(600)), "waiting");
    known.pods.extend(seen(vec![pod("new", "e", bad_image())]));
    let decision = known.decide(3);
    assert_eq!((code(&decision), decision.what.as_str()), ("ImageNameInvalid", "1 of 3 replicas updated"));
    assert_eq!(decision.troubles[0].pod.name, "e");
    // The controller has not seen the spec that belongs to this generation, so the newest revision is not known yet.
    known.workload =
        Some(deployment(json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3})));
    assert_eq!(code(&known.decide(600)), "waiting");
}

#[test]
fn a_failed_pod_that_is_replaced_does_not_count() {
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."});
    let mut pods: Vec<_> = (0..9).map(|index| pod("new", &format!("p{index}"), evicted.clone())).collect();
    pods.extend(["x", "y", "z"].map(|name| pod("new", name, ready())));
    let mut known = Known { pods: seen(pods), ..Known::default() };
    assert_eq!(code(&known.decide(600)), "done");
    known.pods.extend(seen(vec![pod("new", "b", waits("ContainerCreating", ""))]));
    assert_eq!(code(&known.decide(600)), "waiting");
}

#[test]
fn says_why_a_controller_has_given_up() {
    let exceeded = json!({"replicas": 3, "updatedReplicas": 1, "conditions": [{"type": "Progressing", "status": "False",
        "reason": "ProgressDeadlineExceeded", "message": "timed out"}]});
    let not_ready = status("Running", false, json!({"state": {"running": {"startedAt": text(0)}}}));
    let pods = seen(vec![pod("new", "a", not_ready)]);
    let decision = Known { workload: Some(deployment(exceeded)), pods, ..Known::default() }.decide(600);
    assert_eq!(code(&decision), "ProgressDeadlineExceeded");
    let State::Failed(failure) = &decision.state else { panic!() };
    assert!(failure.message.starts_with("it exceeded its progress deadline: timed out; "), "{}", failure.message);
    assert_eq!(decision.troubles.len(), 1);
}

#[test]
fn an_object_that_was_deleted_has_failed() {
    let decided = |gone: Gone| Known { gone: Some(gone), workload: None, ..Known::default() }.decide(3);
    let decision = decided(Gone::Deleted("it was deleted"));
    assert_eq!((code(&decision), decision.what.as_str()), ("Deleted", "it was deleted"));
    let decision = decided(Gone::Unseen("it was not watched"));
    assert_eq!((code(&decision), decision.what.as_str()), ("unknowable", "it was not watched"));
}

const QUOTA: &str =
    "pods \"cart-new-x\" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=4, limited: pods=4";

#[test]
fn a_refusing_quota_is_hopeless_after_a_grace() {
    let refused = |message: &str| {
        Some(deployment(
            json!({"replicas": 3, "updatedReplicas": 0, "conditions": [{"type": "ReplicaFailure", "status": "True",
            "reason": "FailedCreate", "message": message, "lastTransitionTime": text(10)}]}),
        ))
    };
    let decided = |progressed: Option<i64>, refusals: Vec<Event>, now: i64| {
        let workload = refused(QUOTA);
        Known { workload, refusals, progressed: progressed.map(at), ..Known::default() }.decide(now)
    };
    let decision = decided(None, vec![], 30);
    assert_eq!((code(&decision), decision.recheck), ("waiting", Some(at(70))));
    assert!(
        decision
            .what
            .starts_with("0 of 3 replicas updated; pods cannot be created: the ResourceQuota pods is exceeded")
    );
    assert_eq!(code(&decided(None, vec![], 70)), "QuotaExceeded");
    // An old pod has ended since, which makes room.
    assert_eq!(code(&decided(Some(50), vec![], 70)), "waiting");
    // The controller doubles its pauses: the next attempt is at most as late after this as the first refusal was before it.
    assert_eq!(code(&decided(Some(50), vec![], 119)), "waiting");
    assert_eq!(code(&decided(Some(50), vec![], 120)), "QuotaExceeded");
    assert_eq!(code(&decided(Some(50), vec![event("rs-new", QUOTA, 15, 81)], 82)), "QuotaExceeded");
    assert_eq!(
        code(&decided(None, vec![event("rs-new", QUOTA, 15, 41)], 42)),
        "QuotaExceeded",
        "another attempt failed"
    );
    assert_eq!(code(&decided(None, vec![event("rs-new", QUOTA, 15, 36)], 42)), "waiting");
    let webhook =
        "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: connection refused";
    let known = Known { workload: refused(webhook), ..Known::default() };
    assert_eq!(code(&known.decide(9000)), "waiting", "the webhook may come back");
    let denied = "admission webhook \"w.example.com\" denied the request: not signed";
    assert_eq!(code(&Known { workload: refused(denied), ..Known::default() }.decide(9000)), "WebhookRefused");
}

/// A pod that terminates, such as one whose preStop hook takes 70 s, leaves the quota at its end.
#[test]
fn a_full_quota_is_waited_for_while_a_pod_terminates() {
    let decided = |message: &str, is_terminating: bool, now: i64| {
        let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message,
            "lastTransitionTime": text(10)});
        let workload = deployment(json!({"replicas": 2, "updatedReplicas": 0, "conditions": [condition]}));
        let mut old = pod("old", "a", ready());
        old.deletion = is_terminating.then(|| at(80));
        let refusals = vec![event("rs-new", message, 10, 79)];
        code(&Known { workload: Some(workload), pods: seen(vec![old]), refusals, ..Known::default() }.decide(now))
            .to_owned()
    };
    assert_eq!(decided(QUOTA, true, 79), "waiting");
    assert_eq!(decided(QUOTA, false, 79), "QuotaExceeded");
    // No pod that ends helps these.
    assert_eq!(
        decided("admission webhook \"w.example.com\" denied the request: not signed", true, 79),
        "WebhookRefused"
    );
    let too_small = "pods \"cart-x\" is forbidden: exceeded quota: cpu, requested: cpu=4, used: cpu=0, limited: cpu=2";
    assert_eq!(decided(too_small, true, 79), "QuotaExceeded");
}

#[test]
fn refusals_that_change_are_waited_for() {
    let used = |count: &str| QUOTA.replace("used: pods=4", &format!("used: pods={count}"));
    let stateful_set = || {
        let set = json!({"metadata": {"name": "db", "uid": "s", "generation": 1}, "spec": {"replicas": 2, "serviceName": "db",
            "selector": {}, "template": {}}, "status": {"observedGeneration": 1, "replicas": 0, "updateRevision": "db-2"}});
        workload(Kind::StatefulSet, set)
    };
    let decided = |before: &str, now: i64| {
        let refusals = vec![event("s", &used(before), 2, 30), event("s", &used("4"), 2, 40)];
        let target = Target::Named(Kind::StatefulSet, "db".to_owned());
        Known { target, workload: Some(stateful_set()), refusals, ..Known::default() }.decide(now)
    };
    assert_eq!(code(&decided("4", 41)), "QuotaExceeded");
    assert_eq!(code(&decided("6", 41)), "waiting");
}

fn event(uid: &str, message: &str, first: i64, last: i64) -> Event {
    Event {
        involved: InvolvedObject { kind: "X".to_owned(), uid: uid.to_owned(), ..InvolvedObject::default() },
        reason: "FailedCreate".to_owned(),
        message: message.to_owned(),
        count: 2,
        first: Some(at(first)),
        last: Some(at(last)),
    }
}

#[test]
fn events_say_why_other_workloads_lack_pods() {
    let job = || {
        let job = json!({"metadata": {"name": "sums", "uid": "j"}, "spec": {"template": {}}});
        workload(Kind::Job, job)
    };
    let decided = |message: &str, first: i64, last: i64, now: i64| {
        let refusals = vec![event("j", &format!("Error creating: {message}"), first, last)];
        let target = Target::Named(Kind::Job, "sums".to_owned());
        Known { target, workload: Some(job()), refusals, ..Known::default() }.decide(now)
    };
    let policy = "pods \"sums-x\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true";
    assert_eq!(code(&decided(policy, 2, 20, 25)), "waiting");
    assert_eq!(code(&decided(policy, 2, 33, 34)), "PolicyRefused");
    assert_eq!(code(&decided(policy, 2, 20, 900)), "waiting", "perhaps there was no other attempt");
    assert_eq!(code(&decided(policy, -900, -5, 900)), "waiting", "it is older than the wait");
    // A Job queues until others leave the quota, unless it is larger than the quota.
    let queues = decided(QUOTA, 2, 890, 900);
    assert_eq!(code(&queues), "waiting");
    assert!(
        queues.what.ends_with(
            "; pods cannot be created: the ResourceQuota pods is exceeded: 1 of pods requested, 4 of 4 used"
        )
    );
    assert_eq!(code(&decided(&QUOTA.replace("pods=4", "pods=0"), 2, 33, 34)), "QuotaExceeded");
}

/// Two Jobs have the labels. The pods alone do not show whether the one that failed will try again.
#[test]
fn the_job_of_a_failed_pod_decides_about_selected_pods() {
    let of_job = |job: &str, phase: &str, created: i64| {
        let mut pod = pod("new", &format!("{job}-x"), json!({"phase": phase}));
        pod.created = Some(at(created));
        let controller = pod.controller.as_mut().unwrap();
        *controller =
            Controller { api_version: "batch/v1".into(), kind: "Job".into(), name: job.into(), uid: job.into() };
        pod
    };
    let decided = |job: Option<JobFacts>, more: Option<Pod>| {
        let mut pods = vec![of_job("sums-1", "Failed", 10), of_job("other", "Succeeded", 20)];
        pods.extend(more);
        let target = Target::Selected("app=cart".to_owned());
        let decision = Known { target, workload: None, pods: seen(pods), job, ..Known::default() }.decide(600);
        (code(&decision).to_owned(), decision.what)
    };
    let expected = |code: &str, what: &str| (code.to_owned(), what.to_owned());
    let failed = || JobFacts { failed: Some(at(60)), ..JobFacts::default() };
    assert_eq!(decided(Some(failed()), None), expected("Failed", "1 of 2 pods ready"));
    assert_eq!(decided(None, None), expected("waiting", "1 of 2 pods ready"), "it is not read yet");
    assert_eq!(
        decided(Some(JobFacts::default()), None),
        expected("waiting", "1 of 2 pods ready"),
        "between two attempts"
    );
    let complete = JobFacts { complete: true, ..JobFacts::default() };
    assert_eq!(decided(Some(complete), None), expected("done", "1 pod ready or succeeded"));
    let retry = of_job("sums-1", "Pending", 40);
    assert_eq!(decided(Some(JobFacts::default()), Some(retry)), expected("waiting", "1 of 2 pods ready"));
    // A later run of its CronJob succeeded.
    let superseded = JobFacts { superseded: true, ..failed() };
    assert_eq!(decided(Some(superseded), None), expected("done", "1 pod ready or succeeded"));
}

#[test]
fn selected_pods_are_done_when_all_are_ready_or_succeeded() {
    let target = || Target::Selected("app=cart".to_owned());
    let decided =
        |pods: Vec<Pod>| Known { target: target(), workload: None, pods: seen(pods), ..Known::default() }.decide(600);
    let mut lonely = pod("new", "a", json!({"phase": "Failed"}));
    lonely.controller = None;
    let mut leaving = pod("new", "b", bad_image());
    leaving.deletion = Some(at(1));
    let mut ignored = pod("new", "c", bad_image());
    ignored.ignored = true;
    let none_counts = |pods: &str| {
        format!("{pods} with these labels, but none that counts: they are being deleted, are ignored, or have failed")
    };
    for (pods, expected, what) in [
        (vec![], "waiting", "no pod has these labels"),
        (vec![leaving.clone()], "waiting", &none_counts("1 pod")),
        (vec![ignored.clone(), leaving.clone()], "waiting", &none_counts("2 pods")),
        (vec![pod("new", "a", ready()), ignored], "done", "1 pod ready or succeeded"),
        (vec![pod("new", "a", ready()), leaving], "done", "1 pod ready or succeeded"),
        (
            vec![pod("new", "a", ready()), pod("new", "b", json!({"phase": "Succeeded"}))],
            "done",
            "2 pods ready or succeeded",
        ),
        (
            vec![pod("new", "a", ready()), pod("new", "b", waits("ContainerCreating", ""))],
            "waiting",
            "1 of 2 pods ready",
        ),
        (
            vec![pod("new", "a", ready()), pod("new", "b", json!({"phase": "Failed"}))],
            "done",
            "1 pod ready or succeeded",
        ),
        (vec![pod("new", "a", json!({"phase": "Failed"}))], "waiting", &none_counts("1 pod")),
        (vec![pod("new", "a", ready()), lonely], "Failed", "1 of 2 pods ready"),
        (vec![pod("new", "a", bad_image())], "ImageNameInvalid", "0 of 1 pod ready"),
    ] {
        let decision = decided(pods);
        assert_eq!((code(&decision), decision.what.as_str()), (expected, what));
    }
}

#[test]
fn selected_pods_of_an_earlier_revision_do_not_end_a_wait() {
    let created = |hash: &str, name: &str, second: i64, status: Value| {
        let mut pod = pod(hash, name, status);
        (pod.created, pod.labels) = (Some(at(second)), vec![("pod-template-hash".into(), hash.into())]);
        pod
    };
    let decided = |pods: Vec<Pod>| {
        let target = Target::Selected("app=cart".to_owned());
        let decision = Known { target, workload: None, pods: seen(pods), ..Known::default() }.decide(600);
        (code(&decision).to_owned(), decision.what)
    };
    let old = |second: i64| created("old", "a", second, bad_image());
    let waiting = |what: &str| ("waiting".to_owned(), what.to_owned());
    let failed = |what: &str| ("ImageNameInvalid".to_owned(), what.to_owned());
    assert_eq!(decided(vec![old(0), created("new", "b", 10, ready())]), waiting("1 of 2 pods ready"));
    assert_eq!(decided(vec![created("new", "b", 10, bad_image()), old(0)]), failed("0 of 2 pods ready"));
    // Within the second, their order is unknown.
    assert_eq!(decided(vec![old(10), created("new", "b", 10, ready())]), failed("1 of 2 pods ready"));
    assert_eq!(decided(vec![old(0), created("old", "b", 10, ready())]), failed("1 of 2 pods ready"));
    let mut other = created("new", "b", 10, ready());
    if let Some(controller) = &mut other.controller {
        controller.name = "stock-new".into();
    }
    assert_eq!(decided(vec![old(0), other]), failed("1 of 2 pods ready"), "of another owner");
}

#[test]
fn keeps_the_worst_troubles_and_counts_the_others() {
    let mut pods: Vec<_> =
        (0..9).map(|index| pod("new", &format!("p{index}"), waits("ContainerCreating", ""))).collect();
    pods.push(pod("new", "worst", bad_image()));
    let decision = Known { pods: seen(pods), ..Known::default() }.decide(9);
    assert_eq!(
        (decision.troubles.len(), decision.more, decision.troubles[0].pod.name.as_str()),
        (TROUBLES, 5, "worst")
    );
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

#[test]
fn waits_for_pods_that_only_the_status_counts() {
    let mut known = Known { pods: seen(vec![pod("new", "a", ready())]), ..Known::default() };
    let decision = known.decide(600);
    assert_eq!(code(&decision), "waiting");
    assert_eq!(decision.what, "3 replicas, but only 1 of the pods of its newest revision exist");
    let mut deleted = pod("new", "b", ready());
    deleted.deletion = Some(at(1));
    known.pods.extend(seen(vec![deleted, pod("new", "c", json!({"phase": "Failed"})), pod("old", "d", ready())]));
    assert_eq!(known.decide(600).what, "3 replicas, but only 1 of the pods of its newest revision exist");
    known.pods.extend(seen(vec![pod("new", "e", ready()), pod("new", "f", ready())]));
    assert_eq!(code(&known.decide(600)), "done");
}

/// A Deployment that is rolled back keeps the condition of the revision that failed, until its pods make progress.
#[test]
fn the_deadline_of_another_revision_fails_no_rollback() {
    let exceeded = |set: &str| {
        deployment(
            json!({"replicas": 3, "updatedReplicas": 1, "conditions": [{"type": "Progressing", "status": "False",
            "reason": "ProgressDeadlineExceeded", "message": format!("ReplicaSet \"{set}\" has timed out progressing.")}]}),
        )
    };
    assert_eq!(
        code(&Known { workload: Some(exceeded("cart-new")), ..Known::default() }.decide(3)),
        "ProgressDeadlineExceeded"
    );
    let mut known = Known { workload: Some(exceeded("cart-old")), ..Known::default() };
    let decision = known.decide(3);
    assert_eq!((code(&decision), decision.recheck), ("waiting", Some(at(600))));
    assert_eq!(code(&known.decide(600)), "ProgressDeadlineExceeded", "it has made no progress since");
    known.progressed = Some(at(500));
    assert_eq!(code(&known.decide(600)), "waiting");
    // The number of the newest ReplicaSet is not on the Deployment yet.
    if let Some(Workload { object, .. }) = &mut known.workload {
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert("deployment.kubernetes.io/revision".to_owned(), "1".to_owned());
    }
    known.pods = seen(vec![pod("old", "a", bad_image())]);
    let decision = known.decide(9000);
    assert_eq!((code(&decision), decision.what.as_str()), ("waiting", "its newest ReplicaSet is not listed yet"));
}

#[test]
fn shows_the_earlier_pod_that_holds_up_a_stateful_set() {
    let set = json!({"metadata": {"name": "db", "uid": "s", "generation": 1}, "spec": {"replicas": 2, "serviceName": "db",
        "selector": {}, "template": {}}, "status": {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1,
        "updateRevision": "db-2"}});
    let mut broken = pod("old", "db-0", bad_image());
    broken.controller.as_mut().unwrap().uid = "s".into();
    let known = Known {
        target: Target::Named(Kind::StatefulSet, "db".to_owned()),
        workload: Some(workload(Kind::StatefulSet, set)),
        pods: seen(vec![broken]),
        ..Known::default()
    };
    let decision = known.decide(9);
    let what = "1 of 2 pods ready; db-0 of an earlier revision is not ready, and its controller replaces no pod before it is: \
                delete db-0 if it cannot become ready";
    assert_eq!((code(&decision), decision.what.as_str()), ("waiting", what));
    assert_eq!((decision.troubles[0].pod.name.as_str(), decision.troubles[0].outlook), ("db-0", Outlook::MayMend));
}
