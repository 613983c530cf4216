//! Pods that no node takes, and what the nodes and claims show about why.

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use orchestr_testbed::Options;
use serde_json::{Value, json};

use crate::{
    pod_statuses::{ago, merged},
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    test_env::{TestEnv, condition, watch_all},
};

fn is_of_nodes(request: &ProxiedRequest) -> bool {
    request.path == "/api/v1/nodes"
}

/// Creates the only node of the cluster.
async fn rig_node(env: &TestEnv) {
    let nodes: Api<Node> = Api::all(env.client.clone());
    let taints = json!([{"key": "sre-fault", "value": "blocked", "effect": "NoSchedule"}]);
    let node = json!({"metadata": {"name": "rig-node", "labels": {"disk": "ssd"}}, "spec": {"taints": taints}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let status = json!({"status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}});
    nodes.patch_status("rig-node", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
}

/// Creates a pod about which the scheduler says this.
pub(super) async fn pending(env: &TestEnv, name: &str, metadata: Value, spec: Value, reason: &str) {
    let message = format!(
        "0/1 nodes are available: 1 {reason}. preemption: 0/1 nodes are available: 1 Preemption is not helpful."
    );
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "lastTransitionTime": ago(600)});
    let metadata = merged(json!({"creationTimestamp": ago(600)}), &metadata);
    let changes = json!({"metadata": metadata, "spec": merged(json!({"nodeName": null}), &spec)});
    env.pod_with(name, changes, json!({"phase": "Pending", "conditions": [condition]})).await;
}

async fn pods(env: &TestEnv) {
    let requests = |requests: Value| json!({"containers": [{"name": "app", "image": "app:1", "resources": {"requests": requests}}]});
    pending(env, "blocked", json!({}), json!({}), "node(s) had untolerated taint(s)").await;
    pending(env, "cpus", json!({}), requests(json!({"cpu": "999"})), "Insufficient cpu").await;
    pending(env, "gpus", json!({}), requests(json!({"nvidia.com/gpu": "5"})), "Insufficient nvidia.com/gpu").await;
    let selector = json!({"nodeSelector": {"label": "someLabel"}});
    pending(env, "label", json!({}), selector, "node(s) didn't match Pod's node affinity/selector").await;
}

/// The sentences about the pods, once they are these.
async fn assert_sentences(env: &TestEnv, object: &str, expected: [&str; 4]) {
    env.wait_for_status(object, &format!("it says {expected:?}"), |status| {
        let mut incidents: Vec<_> = status.incidents.iter().collect();
        incidents.sort_by_key(|incident| incident.example_pods.clone());
        incidents.iter().map(|incident| incident.message.as_str()).eq(expected)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_what_no_node_has_after_one_list_of_nodes() {
    let env = TestEnv::with_own_plane("nodes", Options::default()).await;
    rig_node(&env).await;
    pods(&env).await;
    let proxy = Proxy::start(env.client.clone()).await;
    env.object("mine", watch_all()).await;
    env.object("other", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    let expected = [
        "the pod does not tolerate the taints of the nodes: sre-fault=blocked:NoSchedule on rig-node (1 node(s) had untolerated taint(s))",
        "the only node lacks free cpu: the pod requests 999 cpu; the largest node has 2 (1 Insufficient cpu)",
        "the only node lacks free nvidia.com/gpu: the pod requests 5 nvidia.com/gpu; no node offers any (1 Insufficient nvidia.com/gpu)",
        "the only node does not match the pod's node selector label=someLabel: no node has it (1 node(s) didn't match Pod's node \
         affinity/selector)",
    ];
    assert_sentences(&env, "mine", expected).await;
    assert_sentences(&env, "other", expected).await;
    assert_eq!(proxy.count(is_of_nodes), 1, "{:?}", proxy.requests(is_of_nodes));
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_scheduler_s_words_without_the_right() {
    let env = TestEnv::with_own_plane("nodes-denied", Options::default()).await;
    rig_node(&env).await;
    pods(&env).await;
    let proxy = Proxy::start(env.client.clone()).await;
    proxy.on(is_of_nodes, ProxyAction::Refuse(403, "no"));
    env.object("mine", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    let expected = [
        "the pod does not tolerate the taints of the nodes: 1 node(s) had untolerated taint(s)",
        "the only node lacks free cpu: the pod requests 999 cpu (1 Insufficient cpu)",
        "the only node lacks free nvidia.com/gpu: the pod requests 5 nvidia.com/gpu (1 Insufficient nvidia.com/gpu)",
        "the only node does not match the pod's node selector label=someLabel: 1 node(s) didn't match Pod's node affinity/selector",
    ];
    assert_sentences(&env, "mine", expected).await;
    proxy.wait_for_requests("the nodes are asked for", 1, is_of_nodes).await;
    env.patch_object("mine", json!({"spec": {"report": {"maxPods": 7}}})).await;
    let is_current = |status: &orchestr::api::OrchestrStatus| status.observed_generation == Some(2);
    let status = env.wait_for_status("mine", "it follows the spec", is_current).await;
    assert_eq!(condition(&status, "Ready").1, "Watching");
    assert!(!condition(&status, "Ready").2.contains("node"), "{:?}", condition(&status, "Ready"));
    assert_sentences(&env, "mine", expected).await;
    assert_eq!(proxy.count(is_of_nodes), 1, "the right is optional, and not asked for again and again");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_missing_class_of_a_claim_after_three_requests() {
    let env = TestEnv::new("claims").await;
    let claim = json!({"metadata": {"name": "redis-pvc"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "standard-v2", "resources": {"requests": {"storage": "5Gi"}},
    }});
    let _: PersistentVolumeClaim = env.create(claim).await;
    env.set_status_of::<PersistentVolumeClaim>("redis-pvc", json!({"phase": "Pending"})).await;
    let volumes = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "redis-pvc"}}]});
    for pod in ["redis-0", "redis-1"] {
        pending(&env, pod, json!({}), volumes.clone(), "pod has unbound immediate PersistentVolumeClaims").await;
    }
    let proxy = Proxy::start(env.client.clone()).await;
    env.object("mine", watch_all()).await;
    env.object("other", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    for object in ["mine", "other"] {
        let expected = "the PersistentVolumeClaim redis-pvc is not bound: the StorageClass standard-v2 does not exist";
        env.wait_for_status(object, "it names the class", |status| {
            status.incidents.iter().map(|incident| incident.message.as_str()).eq([expected; 2])
        })
        .await;
    }
    let is_of_storage = |request: &ProxiedRequest| {
        ["/persistentvolumeclaims", "/storageclasses", "/persistentvolumes"]
            .iter()
            .any(|own| request.path.contains(own))
    };
    assert_eq!(proxy.count(is_of_storage), 3, "{:?}", proxy.requests(is_of_storage));
}
