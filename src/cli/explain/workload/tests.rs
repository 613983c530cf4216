use jiff::Timestamp;
use k8s_openapi::api::batch::v1::CronJob;
use orchestr_testbed::objects::controlled_by;
use serde_json::{Value, json};

use crate::{diagnosis::WorkloadObject, facts::JobKey, pods::Controller};

use super::*;

fn event(reason: &str, message: &str, last: &str) -> ApiEvent {
    let event =
        json!({"metadata": {}, "involvedObject": {}, "reason": reason, "message": message, "lastTimestamp": last});
    serde_json::from_value(event).unwrap()
}

/// The condition of a ReplicaSet keeps the message of the first refusal.
#[test]
fn the_latest_refusal_says_why_pods_are_missing() {
    let class = event("FailedCreate", "no PriorityClass with name high was found", "2026-03-01T11:00:00Z");
    let quota = event("FailedCreate", "exceeded quota: pods", "2026-03-01T11:30:00Z");
    let created = event("SuccessfulCreate", "Created pod: cart-x", "2026-03-01T11:40:00Z");
    assert_eq!(latest_refusal(&[quota, class, created]), Some("exceeded quota: pods"));
    assert_eq!(latest_refusal(&[]), None);
}

#[test]
fn pods_are_refused_until_one_is_created() {
    let failed = || event("FailedCreate", "exceeded quota", "2026-03-01T10:00:00Z");
    let other = event("Killing", "x", "2026-03-01T12:00:00Z");
    assert_eq!(refused(&[failed(), other]), Some("exceeded quota"));
    assert_eq!(refused(&[failed(), event("SuccessfulCreate", "ok", "2026-03-01T11:00:00Z")]), None);
    assert_eq!(refused(&[event("SuccessfulCreate", "ok", "2026-03-01T09:00:00Z"), failed()]), Some("exceeded quota"));
    assert_eq!(refused(&[]), None);
}

fn replica_set(hash: &str, number: &str, image: &str) -> RevisionObject {
    let set = json!({
        "metadata": {
            "name": format!("cart-{hash}"), "uid": hash, "annotations": {"deployment.kubernetes.io/revision": number},
            "ownerReferences": controlled_by("Deployment", "cart", "d"),
        },
        "spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}},
    });
    RevisionObject::from_json(set.to_string().as_bytes()).unwrap()
}

fn pod(hash: &str, status: Value) -> Pod {
    let owners = controlled_by("ReplicaSet", &format!("cart-{hash}"), hash);
    let metadata = json!({"labels": {"pod-template-hash": hash}, "ownerReferences": owners});
    crate::pods::testing::pod(&format!("cart-{hash}-x"), json!({"metadata": metadata, "status": status}))
}

fn cart(pods: Vec<Pod>) -> Gathered {
    let object = json!({"metadata": {"name": "cart", "uid": "d", "generation": 1},
        "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": {"observedGeneration": 1}});
    Gathered {
        workload: Workload::decode(Kind::Deployment, &object.to_string()).unwrap().unwrap(),
        revisions: vec![replica_set("old", "1", "cart:1"), replica_set("new", "2", "cart:2")],
        pods: Some(Pods { pods, unreadable: 0, more: false }),
        job: None,
        view: ClusterView::default(),
    }
}

#[test]
fn compares_a_revision_with_the_one_before() {
    let changes = ["image of app: cart:1 → cart:2".to_owned()].to_vec();
    let part = RevisionPart { name: "cart-new".to_owned(), before: "cart-old".to_owned(), changes };
    assert_eq!(cart(Vec::new()).revision(None).as_ref(), Some(&part));
    assert_eq!(cart(Vec::new()).revision(Some(&pod("new", Value::Null))), Some(part));
    assert_eq!(cart(Vec::new()).revision(Some(&pod("old", Value::Null))), None, "nothing is before the first");
    assert_eq!(cart(Vec::new()).revision(Some(&pod("gone", Value::Null))), None);
}

#[test]
fn a_failed_pod_that_was_replaced_is_no_problem_for_long() {
    let created = |name: &str, time: &str, status: Value| {
        let mut pod = pod("new", status);
        (pod.name, pod.created) = (name.into(), Some(time.parse().unwrap()));
        pod
    };
    let evicted = json!({"phase": "Failed", "reason": "Evicted", "startTime": "2026-03-01T08:00:00Z"});
    let ready = || {
        json!({"phase": "Running", "conditions": [
        {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]})
    };
    let starting = json!({"phase": "Pending"});
    let problems = |other: Pod, now: &str| {
        let old = created("cart-new-a", "2026-03-01T08:00:00Z", evicted.clone());
        let mut gathered = cart(vec![old.clone(), other.clone()]);
        let now = now.parse().unwrap();
        gathered.view.see_pods([&old, &other], now);
        gathered.verdicts(now).unwrap().problems.len()
    };
    assert_eq!(problems(created("cart-new-b", "2026-03-01T09:00:00Z", ready()), "2026-03-01T12:00:00Z"), 0);
    assert_eq!(problems(created("cart-new-b", "2026-03-01T07:00:00Z", ready()), "2026-03-01T12:00:00Z"), 1, "older");
    assert_eq!(problems(created("cart-new-b", "2026-03-01T11:59:59Z", starting), "2026-03-01T12:00:00Z"), 1);
}

#[test]
fn a_job_whose_pods_are_healthy_is_running() {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let state = |spec: Value, status: Value, pods: &[Value]| {
        let object = json!({"metadata": {"name": "export", "uid": "j"}, "spec": spec, "status": status});
        let pods = pods.iter().map(|status| pod("j", status.clone())).collect();
        let workload = Workload::decode(Kind::Job, &object.to_string()).unwrap().unwrap();
        let pods = Some(Pods { pods, unreadable: 0, more: false });
        let job = Gathered { workload, revisions: Vec::new(), pods, job: None, view: ClusterView::default() };
        (job.state(job.verdicts(now).as_ref(), false), job.progress().0)
    };
    let running = json!({"phase": "Running", "conditions": [
        {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]});
    let starting = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T11:59:50Z"}]});
    let spec = json!({"template": {}, "completions": 2});
    let progress = "it is not complete: 0 of 2 pods succeeded".to_owned();
    assert_eq!(state(spec.clone(), json!({}), std::slice::from_ref(&running)), (State::Running, progress));
    assert_eq!(state(spec.clone(), json!({}), &[running.clone(), starting]).0, State::Settling);
    assert_eq!(state(spec.clone(), json!({}), &[]).0, State::Settling);
    let suspended = json!({"template": {}, "suspend": true});
    assert_eq!(state(suspended, json!({}), std::slice::from_ref(&running)).0, State::Settling);
    let complete = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    assert_eq!(state(spec.clone(), complete, &[]).0, State::Healthy);

    let message = "webhook refused: password=hunter2";
    let failed = json!({"conditions": [{"type": "Failed", "status": "True", "message": message}]});
    let (state, progress) = state(spec, failed, &[running]);
    assert_eq!(
        (state, progress.as_str()),
        (State::Problem, "the Job has failed: webhook refused: password=[REDACTED]")
    );
}

#[test]
fn counts_pods_by_their_state() {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let ready = json!({"phase": "Running", "conditions": [
        {"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]});
    let failed = json!({"phase": "Failed", "reason": "Evicted"});
    let starting = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T11:59:50Z"}]});
    let pods = vec![pod("new", ready), pod("new", failed), pod("old", starting)];
    let Verdicts { counts, problems } = cart(pods).verdicts(now).unwrap();
    assert_eq!((counts.total, counts.healthy, counts.settling, counts.problems), (3, 1, 1, 1), "{counts:?}");
    assert_eq!(problems.len(), 1);
    assert!(cart(Vec::new()).owns(&pod("new", Value::Null)) && !cart(Vec::new()).owns(&Pod::default()));
}

#[test]
fn a_failed_run_is_no_problem_after_a_later_run_has_succeeded() {
    let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    let object = json!({
        "metadata": {"name": "export-1", "uid": "j",
            "ownerReferences": controlled_by("CronJob", "export", "c")},
        "spec": {"template": {}},
        "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too many",
            "lastTransitionTime": "2026-03-01T10:00:00Z"}]},
    });
    let run: WorkloadObject = serde_json::from_value(object.clone()).unwrap();
    let state = |uid: &str, succeeded: &str| {
        let cron_job: CronJob = serde_json::from_value(json!({
            "metadata": {"name": "export", "uid": uid}, "status": {"lastSuccessfulTime": succeeded}}))
        .unwrap();
        let facts = JobFact::of(&run, Some(&cron_job));
        let workload = Workload::decode(Kind::Job, &object.to_string()).unwrap().unwrap();
        let failed = json!({"phase": "Failed", "startTime": "2026-03-01T09:00:00Z"});
        let mut pod = pod("j", failed);
        let (kind, name) = ("Job".into(), "export-1".into());
        pod.controller = Some(Controller { api_version: "batch/v1".into(), kind, name, uid: "j".into() });
        let mut view = ClusterView::default();
        view.show_job(JobKey::new(&pod, pod.controller.as_ref().unwrap()), facts.clone());
        let pods = Some(Pods { pods: vec![pod], unreadable: 0, more: false });
        let job = Gathered { workload, revisions: Vec::new(), pods, job: Some(facts), view };
        (job.state(job.verdicts(now).as_ref(), false), job.progress().0)
    };
    let later = "the Job has failed: too many; a later run of the CronJob export has succeeded";
    assert_eq!(state("c", "2026-03-01T11:00:00Z"), (State::Healthy, later.to_owned()));
    let failed = (State::Problem, "the Job has failed: too many".to_owned());
    assert_eq!(state("c", "2026-03-01T09:00:00Z"), failed, "an earlier run");
    assert_eq!(state("other", "2026-03-01T11:00:00Z"), failed, "another CronJob of this name");
}
