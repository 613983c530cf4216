//! The workloads that the documentation shows: a shop, first healthy and then with a new revision that fails.

use k8s_openapi::api::{
    apps::v1::{ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::Node,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use orchestr_testbed::{Answer, Kubelet};
use serde_json::{Value, json};

use crate::{
    explain::event,
    pod_statuses::{ago, completed, controlled_by, crash_looping, healthy},
    test_env::TestEnv,
    wait::support::{Rollout, job, pod_of, stateful_set},
};

const NODE: &str = "node-7";
/// The revisions of cart, the newest last.
const REVISIONS: [&str; 2] = ["5d9f", "7f9b"];
const SUFFIXES: [&str; 3] = ["4kq8n", "d2rtx", "x2x7k"];

/// A Deployment, a StatefulSet and a Job in the namespace of the test.
pub struct Shop {
    cart: Rollout,
    kubelet: Kubelet,
}

impl Shop {
    /// Everything is rolled out.
    pub async fn new(env: &TestEnv) -> Self {
        let kubelet = Kubelet::start(&env.plane, NODE).await.unwrap();
        // No controller removes the taint that the API server has set.
        let untainted = Patch::Merge(json!({"spec": {"taints": null}}));
        Api::<Node>::all(env.client.clone()).patch(NODE, &PatchParams::default(), &untainted).await.unwrap();

        let cart = Rollout::with_hashes(env, "cart", 3, REVISIONS).await;
        for (revision, image) in REVISIONS.into_iter().zip(["shop/cart:1", "shop/cart:1.4.3"]) {
            let app = json!({"name": "app", "image": image, "resources": {"limits": {"memory": "512Mi"}}});
            let template = json!({"spec": {"template": {"spec": {"containers": [app]}}}});
            let set = format!("cart-{revision}");
            env.api::<ReplicaSet>().patch(&set, &PatchParams::default(), &Patch::Merge(&template)).await.unwrap();
        }
        for suffix in SUFFIXES {
            let probe = json!({"httpGet": {"path": "/ready", "port": 8080}});
            let app = json!({"name": "app", "image": "example.com/app:1", "readinessProbe": probe});
            pod_of_cart(env, REVISIONS[1], suffix, json!({"containers": [app]}), healthy()).await;
        }
        cart.is_done(env).await;

        let uid = stateful_set(env, "db", json!({"type": "RollingUpdate"})).await;
        for suffix in ["0", "1"] {
            pod_of(env, "StatefulSet", "db", &uid, "db-1", suffix, healthy()).await;
        }
        let status = json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "availableReplicas": 2,
            "updatedReplicas": 2, "updateRevision": "db-1", "currentRevision": "db-1"});
        env.set_status_of::<StatefulSet>("db", status).await;

        job(env, "migrate").await;
        let mut status = completed(5);
        status["startTime"] = json!(ago(60));
        status["failed"] = json!(0);
        env.set_status_of::<Job>("migrate", status).await;
        Self { cart, kubelet }
    }

    /// The first pod of the newest revision of cart runs out of memory. Those of the revision before are healthy.
    pub async fn break_cart(&self, env: &TestEnv) {
        for suffix in SUFFIXES {
            env.delete_pod(&format!("cart-{}-{suffix}", REVISIONS[1])).await;
        }
        self.cart.counts(env, 3, 1, 2).await;
        for suffix in &SUFFIXES[..2] {
            pod_of_cart(env, REVISIONS[0], suffix, json!({}), healthy()).await;
        }
        let [revision, suffix] = [REVISIONS[1], SUFFIXES[2]];
        let name = format!("cart-{revision}-{suffix}");
        let log = "INFO  connecting to postgres://cart:hunter2@db/cart\nWARN  heap at 511 MiB of 512 MiB\n";
        self.kubelet.script(&env.namespace, &name, "app", true, Answer::text(log));
        let spec = json!({"nodeName": NODE, "containers": [{
            "name": "app", "image": "shop/cart:1.4.3", "resources": {"limits": {"memory": "512Mi"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "initialDelaySeconds": 5},
        }]});
        pod_of_cart(env, revision, suffix, spec, crash_looping(7)).await;

        let uid = env.pods().get(&name).await.unwrap().metadata.uid.unwrap();
        let app = json!({"kind": "Pod", "namespace": env.namespace, "name": name, "uid": uid,
            "fieldPath": "spec.containers{app}"});
        let message = "Back-off restarting failed container app in pod";
        let back_off = json!({"reason": "BackOff", "message": message, "count": 41, "involvedObject": app});
        event(env, "Pod", &name, &uid, back_off).await;
        let pulled = json!({"type": "Normal", "reason": "Pulled", "count": 8, "lastTimestamp": ago(95),
            "message": "Container image \"shop/cart:1.4.3\" already present on machine", "involvedObject": app});
        event(env, "Pod", &name, &uid, pulled).await;
    }
}

/// Creates a pod of a revision of cart from a minimal one with these changes of its spec.
async fn pod_of_cart(env: &TestEnv, revision: &str, suffix: &str, spec: Value, status: Value) {
    let set = format!("cart-{revision}");
    let uid = env.api::<ReplicaSet>().get(&set).await.unwrap().metadata.uid.unwrap();
    let age = if revision == REVISIONS[0] { 24 * 3600 } else { 600 };
    let metadata = json!({
        "labels": {"app": "cart", "pod-template-hash": revision}, "ownerReferences": controlled_by("ReplicaSet", &set, uid),
        "creationTimestamp": ago(age),
    });
    env.pod_with(&format!("{set}-{suffix}"), json!({"metadata": metadata, "spec": spec}), status).await;
}
