mod refusals;
mod rollouts;

use std::time::Duration;

use orchestr_testbed::objects::{self, controlled_by, merged};
use serde_json::{Value, json};

use super::*;
use crate::{
    cli::live::ClusterView,
    diagnosis::{Health, JobFacts},
    events::{Event, WatchedEvent},
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
            check: Check { limits: LIMITS, begun: at(0), is_single: false, now: at(now) },
            progressed: self.progressed,
        };
        decide(&facts)
    }
}

const QUOTA: &str =
    "pods \"cart-new-x\" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=4, limited: pods=4";

/// What is known if pods with a label are waited for.
fn selected() -> Known<'static> {
    Known { target: Target::Selected("app=cart".to_owned()), workload: None, ..Known::default() }
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

#[test]
fn selected_pods_are_done_when_all_are_ready_or_succeeded() {
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
        let decision = Known { pods: seen(pods), ..selected() }.decide(600);
        assert_eq!((code(&decision), decision.what.as_str()), (expected, what));
    }
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

#[test]
fn is_done_when_rolled_out_and_all_new_pods_are_healthy() {
    for (last, unreadable, expected, what) in [
        (ready(), vec![], "done", "3 replicas"),
        (status("Running", false, json!({})), vec![], "waiting", "3 replicas, but not all are healthy"),
        (ready(), vec!["cart-x"], "waiting", "3 replicas, but the pod cart-x cannot be decoded"),
    ] {
        let pods = seen(vec![pod("new", "a", ready()), pod("new", "b", ready()), pod("new", "c", last)]);
        let decision = Known { pods, unreadable, ..Known::default() }.decide(600);
        assert_eq!((code(&decision), decision.what.as_str()), (expected, what));
    }
}

/// Two Jobs have the labels. The pods alone do not show whether the one that failed will try again.
#[test]
fn the_job_of_a_failed_pod_decides_about_selected_pods() {
    let of_job = |job: &str, phase: &str, created: i64| {
        let mut pod = pod("new", &format!("{job}-x"), json!({"phase": phase}));
        let controller =
            Controller { api_version: "batch/v1".into(), kind: "Job".into(), name: job.into(), uid: job.into() };
        (pod.created, pod.controller) = (Some(at(created)), Some(controller));
        pod
    };
    let failed = JobFacts { failed: Some(at(60)), ..JobFacts::default() };
    let complete = JobFacts { complete: true, ..JobFacts::default() };
    let superseded = JobFacts { superseded: true, ..failed.clone() };
    let (unready, ready) = ("1 of 2 pods ready", "1 pod ready or succeeded");
    for (job, is_retried, expected, what) in [
        (Some(failed), false, "Failed", unready),
        // It is not read yet.
        (None, false, "waiting", unready),
        // Between two attempts.
        (Some(JobFacts::default()), false, "waiting", unready),
        (Some(complete), false, "done", ready),
        (Some(JobFacts::default()), true, "waiting", unready),
        // A later run of its CronJob succeeded.
        (Some(superseded), false, "done", ready),
    ] {
        let mut pods = vec![of_job("sums-1", "Failed", 10), of_job("other", "Succeeded", 20)];
        pods.extend(is_retried.then(|| of_job("sums-1", "Pending", 40)));
        let decision = Known { pods: seen(pods), job: job.clone(), ..selected() }.decide(600);
        assert_eq!((code(&decision), decision.what.as_str()), (expected, what), "{job:?} {is_retried}");
    }
}

#[test]
fn selected_pods_of_an_earlier_revision_do_not_end_a_wait() {
    let created = |hash: &str, name: &str, second: i64, status: Value| {
        let mut pod = pod(hash, name, status);
        (pod.created, pod.labels) = (Some(at(second)), vec![("pod-template-hash".into(), hash.into())]);
        pod
    };
    let old = |second: i64| created("old", "a", second, bad_image());
    let mut other = created("new", "b", 10, ready());
    other.controller.as_mut().unwrap().name = "stock-new".into();
    for (pods, expected, what) in [
        (vec![old(0), created("new", "b", 10, ready())], "waiting", "1 of 2 pods ready"),
        (vec![created("new", "b", 10, bad_image()), old(0)], "ImageNameInvalid", "0 of 2 pods ready"),
        // Within the second, their order is unknown.
        (vec![old(10), created("new", "b", 10, ready())], "ImageNameInvalid", "1 of 2 pods ready"),
        (vec![old(0), created("old", "b", 10, ready())], "ImageNameInvalid", "1 of 2 pods ready"),
        // Another owner has the younger one.
        (vec![old(0), other], "ImageNameInvalid", "1 of 2 pods ready"),
    ] {
        let decision = Known { pods: seen(pods), ..selected() }.decide(600);
        assert_eq!((code(&decision), decision.what.as_str()), (expected, what));
    }
}
