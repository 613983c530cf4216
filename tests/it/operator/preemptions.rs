//! Pods that were created in place of others, which the scheduler has preempted.

use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use orchestr_testbed::Options;
use serde_json::json;

use crate::{
    pod_statuses::{ago, controlled_by, healthy},
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    test_env::{TestEnv, condition, watch_all, watch_with},
};

use super::nodes::pending;

fn is_of_preemptions(request: &ProxiedRequest) -> bool {
    request.query.get("fieldSelector").is_some_and(|fields| fields.contains("reason=Preempted"))
}

/// Says that a pod, which is gone, was preempted so that `tenant-batch` can run.
async fn preempted(env: &TestEnv, victim: &str, seconds: i64) {
    let batch = env.pods().get("tenant-batch").await.unwrap();
    let event = json!({
        "metadata": {"name": format!("{victim}.{seconds}")},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": env.namespace, "name": victim, "uid": "gone"},
        "related": {"apiVersion": "v1", "kind": "Pod", "namespace": env.namespace, "name": "tenant-batch", "uid": batch.uid()},
        "type": "Normal", "reason": "Preempted", "message": format!("Preempted by pod {} on node rig-node", batch.uid().unwrap()),
        "firstTimestamp": ago(seconds), "lastTimestamp": ago(seconds), "count": 1,
    });
    env.create::<Event>(event).await;
}

/// Two pods that lack memory, and the one for which the earlier `kafka-0` was preempted.
async fn env_with_victim() -> TestEnv {
    // Nodes of other tests would add what the largest of them offers.
    let env = TestEnv::with_own_plane("preempted", Options::default()).await;
    env.pod("tenant-batch", healthy()).await;
    let app = json!({"name": "app", "image": "app:1", "resources": {"requests": {"memory": "6Gi"}}});
    for owner in ["kafka", "redis"] {
        let owners = controlled_by("StatefulSet", owner, "00000000-0000-4000-8000-000000000001");
        let metadata = json!({"labels": {"tier": "data"}, "ownerReferences": owners});
        pending(&env, &format!("{owner}-0"), metadata, json!({"containers": [app]}), "Insufficient memory").await;
    }
    preempted(&env, "kafka-0", 610).await;
    // Of an earlier instance of the other one, which was scheduled again.
    preempted(&env, "redis-0", 3000).await;
    env
}

/// Waits until the object says this about the pods.
async fn assert_says(env: &TestEnv, object: &str, expected: [&str; 2]) {
    env.wait_for_status(object, &format!("it says {expected:?}"), |status| {
        let mut incidents: Vec<_> = status.incidents.iter().collect();
        incidents.sort_by_key(|incident| &incident.owner.name);
        let detail = |message: &str| message.split_once("the pod requests ").map(|(_, detail)| detail.to_owned());
        incidents.iter().filter_map(|incident| detail(&incident.message)).eq(expected)
    })
    .await;
}

const ALONE: &str = "6Gi memory (1 Insufficient memory)";

#[tokio::test(flavor = "multi_thread")]
async fn names_who_preempted_a_pod_after_one_list() {
    let env = env_with_victim().await;
    let proxy = Proxy::start(env.client.clone()).await;
    env.object("mine", watch_all()).await;
    // It does not select the other pod, and must not name it.
    let selector = json!({"matchLabels": {"tier": "data"}});
    env.object("data", watch_with(json!({"pods": {"selector": selector}}))).await;
    let _operator = env.operator().through(&proxy).start();
    let named = "6Gi memory, and kafka-0 was preempted by tenant-batch of a higher priority (1 Insufficient memory)";
    assert_says(&env, "mine", [named, ALONE]).await;
    let hidden = "6Gi memory, and kafka-0 was preempted by a pod of a higher priority that is not shown here (1 Insufficient memory)";
    assert_says(&env, "data", [hidden, ALONE]).await;
    assert_eq!(proxy.count(is_of_preemptions), 1, "{:?}", proxy.requests(is_of_preemptions));
}

#[tokio::test(flavor = "multi_thread")]
async fn says_only_what_a_pod_lacks_if_events_may_not_be_listed() {
    let env = env_with_victim().await;
    let proxy = Proxy::start(env.client.clone()).await;
    proxy.on(is_of_preemptions, ProxyAction::Refuse(403, "no"));
    env.object("mine", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    proxy.wait_for_requests("the events are asked for", 1, is_of_preemptions).await;
    assert_says(&env, "mine", [ALONE; 2]).await;
    env.patch_object("mine", json!({"spec": {"report": {"maxPods": 7}}})).await;
    let is_current = |status: &orchestr::api::OrchestrStatus| status.observed_generation == Some(2);
    let status = env.wait_for_status("mine", "it follows the spec", is_current).await;
    assert_eq!(condition(&status, "Ready").1, "Watching");
    assert_says(&env, "mine", [ALONE; 2]).await;
    assert_eq!(proxy.count(is_of_preemptions), 1, "it is not asked for again and again");
}
