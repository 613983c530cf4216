//! Changes of the status that happen because time passes, without an event.

use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::json;

use crate::{
    pod_statuses::{ago, container, healthy, not_ready, restarted},
    test_env::{TestEnv, condition, listed, watch_with},
};

/// Less than a minute, after which every object is reconciled without any timer.
const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn reports_silent_pods_at_their_thresholds() {
    let env = TestEnv::new("silent").await;
    let thresholds = json!({"pending": "3s", "notReady": "3s", "initializing": "3s", "terminating": "1s"});
    env.object("cluster", watch_with(json!({"thresholds": thresholds}))).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    let record = env.record("cluster").await;

    env.pod_with("unscheduled", json!({"spec": {"nodeName": null}}), json!({"phase": "Pending"})).await;
    env.pod_with("creating", json!({}), json!({"phase": "Pending", "startTime": ago(0)})).await;
    env.pod("slow", not_ready(0)).await;
    let init = container("init", json!({"state": {"running": {"startedAt": ago(0)}}}));
    let init = json!({"phase": "Pending", "initContainerStatuses": [init]});
    let init_container = json!({"spec": {"initContainers": [{"name": "init", "image": "example.com/init:1"}]}});
    env.pod_with("starting", init_container, init).await;
    // No kubelet terminates the pod, so it still exists after its grace period of one second.
    env.pod("leaving", healthy()).await;
    env.pods().delete("leaving", &DeleteParams::default().grace_period(1)).await.unwrap();

    let status = env
        .wait_for_status_within(SOON, "cluster", "all five are reported", |status| status.problematic_pod_count == 5)
        .await;
    let mut reasons: Vec<_> =
        status.problematic_pods.iter().map(|pod| (pod.name.as_str(), pod.reason.as_str())).collect();
    reasons.sort_unstable();
    assert_eq!(
        reasons,
        [
            ("creating", "ContainerCreating"),
            ("leaving", "StuckTerminating"),
            ("slow", "NotReady"),
            ("starting", "Initializing"),
            ("unscheduled", "Pending"),
        ]
    );
    for (_, object) in record.states().await {
        let at = jiff::Timestamp::now();
        for pod in object.status.unwrap_or_default().problematic_pods {
            assert!(at.duration_since(pod.since.0).as_secs() >= 1, "{} was reported too early", pod.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clears_a_restart_after_its_threshold() {
    let env = TestEnv::new("restarted").await;
    env.object("short", watch_with(json!({"thresholds": {"restarted": "4s"}}))).await;
    env.object("long", watch_with(json!({"thresholds": {"restarted": "1h"}}))).await;
    let _operator = env.operator().start();
    env.wait_for_ready("short", "Watching").await;
    env.pod("cart", restarted(0)).await;
    env.wait_for_status_within(SOON, "short", "the restart is reported", |status| listed(status) == ["cart"]).await;
    let status =
        env.wait_for_status_within(SOON, "short", "the restart is forgotten", |status| listed(status).is_empty()).await;
    assert_eq!(condition(&status, "PodsHealthy").0, "True");
    assert_eq!(listed(&env.status("long").await), ["cart"], "others have a longer memory");
}

/// Restarts older than every threshold are not kept, so a longer threshold needs a new list.
#[tokio::test(flavor = "multi_thread")]
async fn finds_older_restarts_when_the_threshold_is_raised() {
    let env = TestEnv::new("memory").await;
    env.pod("cart", restarted(1200)).await;
    env.object("cluster", watch_with(json!({}))).await;
    let _operator = env.operator().start();
    let status = env.wait_for_ready("cluster", "Watching").await;
    assert_eq!((status.watched_pods, listed(&status)), (1, vec![]));
    env.patch_object("cluster", json!({"spec": {"thresholds": {"restarted": "1h"}}})).await;
    let status = env
        .wait_for_status_within(SOON, "cluster", "the old restart is reported", |status| listed(status) == ["cart"])
        .await;
    assert_eq!(status.watched_pods, 1);
}
