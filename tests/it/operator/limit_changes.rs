//! Which memory limit an OOM-killed container had before, and who changed it, if no pod with the old limit is left.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::{
    pod_statuses::{ago, controlled_by, crash_looping, merged, stored},
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    test_env::{TestEnv, condition, watch_all},
};

const HASHES: [(&str, &str, i64); 2] = [("one", "256Mi", 7200), ("two", "24Mi", 180)];

/// A pod template whose container `app` has this limit.
fn template(labels: &Value, limit: &str) -> Value {
    let app = json!({"name": "app", "image": "shop/search:1", "resources": {"limits": {"memory": limit}}});
    json!({"metadata": {"labels": labels}, "spec": {"containers": [app]}})
}

/// A Deployment whose memory limit a field manager has lowered three minutes ago, its ReplicaSets, and a pod of the last one.
async fn env_with_lowered_limit() -> TestEnv {
    let env = TestEnv::new("limit-changes").await;
    let (api, labels) = (env.api::<Deployment>(), json!({"app": "search"}));
    let deployment = json!({
        "metadata": {"name": "search"},
        "spec": {"selector": {"matchLabels": labels}, "template": template(&labels, "256Mi")},
    });
    let by = |manager: &str| Some(manager.to_owned());
    let params = PostParams { field_manager: by("helm"), ..PostParams::default() };
    let uid = api.create(&params, &serde_json::from_value(deployment).unwrap()).await.unwrap().metadata.uid.unwrap();
    let app = json!({"name": "app", "resources": {"limits": {"memory": "24Mi"}}});
    let patch = json!({"spec": {"template": {"spec": {"containers": [app]}}}});
    let params = PatchParams { field_manager: by("capacity-rebalancer"), ..PatchParams::default() };
    api.patch("search", &params, &Patch::Strategic(patch)).await.unwrap();

    for (number, (hash, limit, age)) in (1..).zip(HASHES) {
        let labels = json!({"app": "search", "pod-template-hash": hash});
        let replica_set = json!({
            "metadata": {
                "name": format!("search-{hash}"), "labels": labels,
                "ownerReferences": controlled_by("Deployment", "search", uid.as_str()),
                "annotations": {"deployment.kubernetes.io/revision": number.to_string()},
            },
            "spec": {"replicas": number - 1, "selector": {"matchLabels": labels}, "template": template(&labels, limit)},
        });
        let created: ReplicaSet = env.create(replica_set).await;
        let times = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"creationTimestamp": ago(age)}});
        let (key, older) = stored("replicasets", &merged(json!(created), &times));
        env.plane.put(&key, older).await.unwrap();
    }
    let two = env.api::<ReplicaSet>().get("search-two").await.unwrap();
    let owner = controlled_by("ReplicaSet", "search-two", two.metadata.uid);
    let app = json!({"name": "app", "image": "shop/search:1", "resources": {"limits": {"memory": "24Mi"}}});
    let changes = json!({
        "metadata": {"labels": {"app": "search", "pod-template-hash": "two"}, "ownerReferences": owner, "creationTimestamp": ago(180)},
        "spec": {"containers": [app]},
    });
    let mut status = crash_looping(3);
    status["containerStatuses"][0]["lastState"]["terminated"]["reason"] = json!("OOMKilled");
    status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] = json!(137);
    env.pod_with("search-two-x7k2p", changes, status).await;
    env
}

fn is_of_apps(request: &ProxiedRequest) -> bool {
    request.path.starts_with("/apis/apps/")
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_limit_before_and_who_changed_it() {
    let env = env_with_lowered_limit().await;
    env.object("mine", watch_all()).await;
    env.object("other", watch_all()).await;
    let (proxy, _operator) = env.proxied_operator().await;
    for object in ["mine", "other"] {
        env.wait_for_status(object, "it names both", |status| {
            let [incident] = &status.incidents[..] else { return false };
            let (before, until) =
                incident.message.split_once("; the limit was 256Mi in the revision before, until ").unwrap_or_default();
            before.ends_with("limit 24Mi")
                && until.ends_with("Z, and the field manager capacity-rebalancer has set this one")
        })
        .await;
    }
    let requests: Vec<_> = proxy.requests(is_of_apps).into_iter().map(|request| request.path).collect();
    let path = |rest: &str| format!("/apis/apps/v1/namespaces/{}/{rest}", env.namespace);
    assert_eq!(requests.len(), 3, "{requests:?}");
    for rest in ["replicasets/search-two", "deployments/search", "replicasets"] {
        assert!(requests.contains(&path(rest)), "{rest} is not among {requests:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_the_present_limit_without_the_right() {
    let env = env_with_lowered_limit().await;
    let proxy = Proxy::start(env.client.clone()).await;
    let is_optional = |request: &ProxiedRequest| is_of_apps(request) && !request.path.ends_with("/search-two");
    proxy.on(is_optional, ProxyAction::Refuse(403, "deployments.apps is forbidden"));
    env.object("mine", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    proxy.wait_for_requests("the Deployment is asked for", 1, is_optional).await;
    for (generation, restarts) in [(2, 4), (3, 5)] {
        env.patch_object("mine", json!({"spec": {"report": {"maxPods": restarts}}})).await;
        let status = env
            .wait_for_status("mine", "it follows the spec", |status| status.observed_generation == Some(generation))
            .await;
        let message = &status.incidents[0].message;
        assert!(message.ends_with("; limit 24Mi"), "{message}");
        assert_eq!(condition(&status, "Ready").1, "Watching");
        assert!(!condition(&status, "Ready").2.contains("forbidden"), "{:?}", condition(&status, "Ready"));
    }
    assert_eq!(proxy.count(is_optional), 1, "the right is optional, and not asked for again and again");
}
