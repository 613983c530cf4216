//! Failed pods of Jobs.

use k8s_openapi::api::batch::v1::Job;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    proxy::{Proxy, Seen},
    world::{World, ago, listed, watch_all},
};

async fn job(world: &World, name: &str, status: Value) -> Value {
    let api: Api<Job> = Api::namespaced(world.client.clone(), &world.namespace);
    let job = json!({
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "app", "image": "example.com/app:1"}],
        }}},
    });
    let made = api.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    set_job(world, name, status).await;
    json!({"metadata": {"ownerReferences": [{
        "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made.metadata.uid, "controller": true,
    }]}})
}

async fn set_job(world: &World, name: &str, status: Value) {
    let api: Api<Job> = Api::namespaced(world.client.clone(), &world.namespace);
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

fn complete() -> Value {
    json!({
        "startTime": ago(600), "completionTime": ago(10), "active": 0, "succeeded": 1, "failed": 1,
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached", "lastTransitionTime": ago(10)},
            {"type": "Complete", "status": "True", "reason": "CompletionsReached", "lastTransitionTime": ago(10)},
        ],
    })
}

fn failed_job() -> Value {
    json!({
        "startTime": ago(600), "failed": 1,
        "conditions": [
            {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": ago(10)},
            {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": ago(10)},
        ],
    })
}

fn ended(phase: &str, code: i32) -> Value {
    json!({
        "phase": phase,
        "containerStatuses": [{
            "name": "app", "ready": false, "started": false, "restartCount": 0, "image": "", "imageID": "",
            "state": {"terminated": {
                "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" }, "startedAt": ago(60),
                "finishedAt": ago(30),
            }},
        }],
    })
}

fn is_of_job(seen: &Seen, name: &str) -> bool {
    seen.method == "GET" && seen.path.ends_with(&format!("/jobs/{name}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_failures_that_a_job_did_not_make_good_are_told() {
    let world = World::new("jobs").await;
    let good = job(&world, "good", complete()).await;
    let bad = job(&world, "bad", failed_job()).await;
    world.pod_with("good-1", good.clone(), ended("Failed", 1)).await;
    world.pod_with("good-2", good.clone(), ended("Succeeded", 0)).await;
    world.pod_with("bad-1", bad.clone(), ended("Failed", 1)).await;
    // Its Job is gone, or has never been: it claims to have a UID that is another's.
    let mut gone = good.clone();
    gone["metadata"]["ownerReferences"][0]["name"] = json!("gone");
    world.pod_with("gone-1", gone, ended("Failed", 1)).await;
    // Another Job has the name by now.
    let mut other = bad.clone();
    other["metadata"]["ownerReferences"][0]["name"] = json!("good");
    world.pod_with("other-1", other, ended("Failed", 1)).await;

    let proxy = Proxy::start(world.client.clone()).await;
    world.object("cluster", watch_all()).await;
    let operator = world.operate_as(proxy.client());
    let status = world
        .status_where("cluster", "the failures are told", |status| listed(status) == ["bad-1", "gone-1", "other-1"])
        .await;
    assert_eq!((status.problematic_pods[0].reason.as_str(), status.watched_pods), ("Error", 5));

    // Many events later, what had ended has been read once.
    for round in 0..5 {
        for pod in ["good-1", "bad-1"] {
            world.patch_pod(pod, json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
        }
        world.until_caught_up().await;
    }
    assert_eq!((proxy.count(|seen| is_of_job(seen, "bad")), listed(&world.status("cluster").await).len()), (1, 3));
    // Once each for itself and for the pod of another Job of its name.
    assert_eq!(proxy.count(|seen| is_of_job(seen, "good")), 2);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_completes_later_takes_its_failures_back() {
    let world = World::new("jobs-later").await;
    let owner = job(&world, "sums", json!({"active": 1, "failed": 1})).await;
    world.pod_with("sums-1", owner.clone(), ended("Failed", 1)).await;
    world.object("cluster", watch_all()).await;
    let operator = world.operate();
    world.status_where("cluster", "the failure is told", |status| listed(status) == ["sums-1"]).await;

    world.pod_with("sums-2", owner, ended("Succeeded", 0)).await;
    // The Job controller takes a moment.
    world.until_caught_up().await;
    set_job(&world, "sums", complete()).await;
    let soon = std::time::Duration::from_secs(30);
    world.status_within(soon, "cluster", "the failure is made good", |status| listed(status).is_empty()).await;
    operator.stop().await;
}
