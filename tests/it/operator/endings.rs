//! How problems end, and how their waits restart.

use serde_json::{Value, json};

use crate::{
    pod_statuses::{ago, controlled_by, healthy},
    test_env::{TestEnv, condition, listed, watch_with},
};

fn owned(created: i64) -> Value {
    json!({"metadata": {
        "creationTimestamp": ago(created),
        "labels": {"app": "web", "pod-template-hash": "5d9f"},
        "ownerReferences": controlled_by("ReplicaSet", "web-5d9f", "r"),
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn clears_a_failed_pod_after_its_replacement() {
    let env = TestEnv::new("replaced").await;
    let evicted = json!({
        "phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory.",
        "startTime": ago(600), "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": ago(300)}],
    });
    env.pod_with("web-a", owned(3600), evicted).await;
    env.pod_with("web-b", owned(7200), healthy()).await;
    env.object("patient", watch_with(json!({}))).await;
    env.object("short", watch_with(json!({"thresholds": {"failed": "1m"}}))).await;
    let _operator = env.operator().start();
    for name in ["patient", "short"] {
        let status = env.wait_for_status(name, "it is reported", |status| listed(status) == ["web-a"]).await;
        assert_eq!(status.incidents[0].owner.kind, "Deployment", "web-b is older: it replaces nothing");
    }
    env.pod_with("web-c", owned(0), json!({"phase": "Pending"})).await;
    env.set_status("web-c", healthy()).await;
    let status = env.wait_for_status("short", "it was replaced", |status| listed(status).is_empty()).await;
    assert_eq!(condition(&status, "PodsHealthy").0, "True");
    assert_eq!(listed(&env.status("patient").await), ["web-a"], "for an hour");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_removed_starts_the_wait_again() {
    let env = TestEnv::new("gates").await;
    let unscheduled = |reason: &str| {
        json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": reason, "message": reason, "lastTransitionTime": ago(3600)},
        ]})
    };
    env.pod_with("queued", json!({"spec": {"nodeName": null}}), unscheduled("SchedulingGated")).await;
    env.object("cluster", watch_with(json!({"thresholds": {"pending": "4s"}}))).await;
    let _operator = env.operator().start();
    let gated = env.until("the gate", |status| listed(status) == ["queued"]).await;
    assert_eq!(gated.problematic_pods[0].reason, "SchedulingGated");
    env.set_status("queued", unscheduled("Unschedulable")).await;
    env.until("it has just become schedulable", |status| listed(status).is_empty()).await;
    let waited = env.until("it waits for too long", |status| listed(status) == ["queued"]).await;
    assert_eq!(waited.problematic_pods[0].reason, "Unschedulable");
    assert!(waited.problematic_pods[0].since > gated.problematic_pods[0].since);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_finished_pod_kept_by_a_finalizer() {
    let env = TestEnv::new("held").await;
    for (name, phase) in [("done", "Succeeded"), ("ill", "Failed"), ("going", "Running")] {
        let metadata = json!({"metadata": {
            "deletionTimestamp": ago(3600), "deletionGracePeriodSeconds": 30, "finalizers": ["example.com/hold"],
        }});
        env.pod_with(name, metadata, json!({"phase": phase})).await;
    }
    env.object("cluster", watch_with(json!({}))).await;
    let _operator = env.operator().start();
    let status = env.until("all are found", |status| listed(status) == ["done", "going", "ill"]).await;
    for pod in &status.problematic_pods {
        assert_eq!(
            (pod.reason.as_str(), pod.message.as_str()),
            ("StuckTerminating", "finalizer left: example.com/hold")
        );
    }
}
