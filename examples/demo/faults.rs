//! Faults of more than one pod: a bad rollout, a quota that refuses pods, a node that stops reporting. No controllers run
//! in the demo's cluster, so this also writes what they would: ReplicaSets and events.

use orchestr_testbed::objects::{ago, container, controlled_by, pod, stored, uid_of};
use serde_json::{Value, json};

use super::scenario::{NODE, Problem};

/// The node that stops reporting.
pub const SICK_NODE: &str = "node-rack-b7";
/// The quota that refuses pods.
pub const QUOTA: &str = "mem-cap";

const OLD: &str = "checkout-6c8d5b9f74";
const NEW: &str = "checkout-7f9b4d6c58";
/// How many pods of the old revision serve.
pub const SERVING: usize = 7;

pub const ROLLOUT: [Problem; 3] = [
    ("shop/checkout-7f9b4d6c58-4kq8n", "CrashLoopBackOff", "CrashLoopBackOff"),
    ("shop/checkout-7f9b4d6c58-d2rtx", "CrashLoopBackOff", "CrashLoopBackOff"),
    ("shop/checkout-7f9b4d6c58-zw6hm", "CrashLoopBackOff", "CrashLoopBackOff"),
];

/// The log of each of these pods.
pub const ROLLOUT_LOG: &str = "INFO  checkout 1.5.0 starting\nERROR PAYMENT_TIMEOUT: '5s' is not a number of seconds\n";

pub const ON_SICK_NODE: [Problem; 9] = [
    ("shop/basket-84c5d7b9f6-2hx9k", "Running", "NotReady"),
    ("shop/basket-84c5d7b9f6-m7ncq", "Running", "NotReady"),
    ("shop/basket-84c5d7b9f6-vt4zb", "Running", "NotReady"),
    ("shop/images-5b7f6c9d8f-6lw2p", "Running", "NotReady"),
    ("shop/images-5b7f6c9d8f-x9fdr", "Running", "NotReady"),
    ("bank/rates-1", "Running", "NotReady"),
    ("bank/rates-4", "Running", "NotReady"),
    ("ml/serving-7d6b8f5c4d-8gkst", "Running", "NotReady"),
    ("ml/serving-7d6b8f5c4d-qz5vj", "Running", "NotReady"),
];

/// An object as it is stored in etcd: its key and its JSON.
pub type Stored = (String, String);

/// A Deployment whose new revision crashes while the old one serves.
pub fn rollout() -> Vec<Stored> {
    let revision = |name: &str, number: u32, replicas: usize, ready: usize, image: &str, env: Value| {
        let hash = hash(name);
        let labels = json!({"app": "checkout", "pod-template-hash": hash});
        stored(
            "replicasets",
            &json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {
                    "name": name, "namespace": "shop", "uid": uid_of(name), "creationTimestamp": ago(900), "labels": labels,
                    "annotations": {"deployment.kubernetes.io/revision": number.to_string()},
                    "ownerReferences": controlled_by("Deployment", "checkout", uid_of("checkout")),
                },
                "spec": {
                    "replicas": replicas, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [{
                        "name": "app", "image": image, "env": env,
                        "resources": {"limits": {"memory": "512Mi"}},
                    }]}},
                },
                "status": {"replicas": replicas, "readyReplicas": ready, "observedGeneration": 1},
            }),
        )
    };
    let mut objects = vec![
        revision(
            OLD,
            41,
            SERVING,
            SERVING,
            "registry.example/checkout:1.4.2",
            json!([{"name": "LOG_LEVEL", "value": "info"}]),
        ),
        revision(
            NEW,
            42,
            ROLLOUT.len(),
            0,
            "registry.example/checkout:1.5.0",
            json!([{"name": "LOG_LEVEL", "value": "info"}, {"name": "PAYMENT_TIMEOUT", "value": "5s"}]),
        ),
    ];
    let checkout = |name: &str, set: &str, image: &str, age, status| {
        let spec = json!({"nodeName": NODE, "containers": [{"name": "app", "image": image, "resources": {"limits": {"memory": "512Mi"}}}]});
        stored_pod(
            "shop",
            name,
            json!({"app": "checkout", "pod-template-hash": hash(set)}),
            ("ReplicaSet", set),
            spec,
            age,
            status,
        )
    };
    for index in 0..SERVING {
        let name = format!("{OLD}-{index}tq7n");
        objects.push(checkout(&name, OLD, "registry.example/checkout:1.4.2", 4_000, super::cluster::running("app")));
    }
    for (name, ..) in ROLLOUT {
        let name = name.split_once('/').map_or(name, |(_, name)| name);
        let last = json!({
            "exitCode": 1, "reason": "Error", "startedAt": ago(45), "finishedAt": ago(44),
            "containerID": format!("containerd://{:064}", 5),
        });
        let message = format!("back-off 40s restarting failed container=app pod={name}_shop");
        let app = json!({
            "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": message}},
            "lastState": {"terminated": last},
        });
        let status = json!({
            "phase": "Running", "startTime": ago(120),
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(110)},
            ],
            "containerStatuses": [container("app", app)],
        });
        objects.push(checkout(name, NEW, "registry.example/checkout:1.5.0", 120, status));
    }
    objects
}

/// A ReplicaSet whose pods a ResourceQuota refuses.
pub fn refused_by_quota() -> Vec<Stored> {
    let name = "reports-5d8c6b7f49";
    let labels = json!({"app": "reports", "pod-template-hash": hash(name)});
    let refusal = format!(
        "pods \"{name}-x8k2p\" is forbidden: exceeded quota: {QUOTA}, requested: limits.memory=256Mi, \
         used: limits.memory=8Gi, limited: limits.memory=8Gi"
    );
    vec![
        stored(
            "replicasets",
            &json!({
                "apiVersion": "apps/v1", "kind": "ReplicaSet",
                "metadata": {
                    "name": name, "namespace": "bank", "uid": uid_of(name), "creationTimestamp": ago(320), "labels": labels,
                    "ownerReferences": controlled_by("Deployment", "reports", uid_of("reports")),
                },
                "spec": {
                    "replicas": 3, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": "registry.example/reports:2"}]}},
                },
                "status": {
                    "replicas": 0, "observedGeneration": 1,
                    "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "lastTransitionTime": ago(300), "message": refusal}],
                },
            }),
        ),
        event(
            &json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "namespace": "bank", "name": name, "uid": uid_of(name)}),
            "FailedCreate",
            &format!("Error creating: {refusal}"),
            14,
        ),
    ]
}

/// The pods of a node, which reports or does not.
fn on_node(reports: bool) -> Vec<Stored> {
    let pods = ON_SICK_NODE.iter().map(|(full, ..)| {
        let (namespace, name) = full.split_once('/').unwrap_or(("default", full));
        let owner = name.rsplit_once('-').map_or(name, |(owner, _)| owner);
        let (kind, labels) = match name.split('-').count() {
            2 => ("StatefulSet", json!({})),
            _ => ("ReplicaSet", json!({"pod-template-hash": hash(owner)})),
        };
        let mut status = super::cluster::running("app");
        if let Some(conditions) = status["conditions"].as_array_mut() {
            if !reports {
                // The node lifecycle controller sets Ready to False and changes nothing else.
                conditions.retain(|condition| condition["type"] != "Ready");
                conditions.push(json!({"type": "Ready", "status": "False", "lastTransitionTime": ago(200)}));
            }
            conditions.push(json!({"type": "ContainersReady", "status": "True", "lastTransitionTime": ago(8_000)}));
        }
        let spec = json!({"nodeName": SICK_NODE, "containers": [{"name": "app", "image": "registry.example/demo:1"}]});
        stored_pod(namespace, name, labels, (kind, owner), spec, 9_000, status)
    });
    pods.collect()
}

pub fn node_stops_reporting() -> Vec<Stored> {
    on_node(false)
}

pub fn node_returns() -> Vec<Stored> {
    on_node(true)
}

/// The events of the pod that is not ready.
pub fn failed_readiness_probe() -> Vec<Stored> {
    let message = "Readiness probe failed: HTTP probe failed with statuscode: 503";
    let name = super::scenario::NOT_READY_POD;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": name, "uid": uid_of(&format!("shop/{name}")),
        "fieldPath": "spec.containers{app}",
    });
    vec![event(&pod, "Unhealthy", message, 41)]
}

/// A Warning event about this object.
fn event(involved: &Value, reason: &str, message: &str, count: u32) -> Stored {
    let text = |field: &str| involved[field].as_str().unwrap_or_default();
    stored(
        "events",
        &json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {
                "name": format!("{}.{:016x}", text("name"), message.len()), "namespace": involved["namespace"],
                "uid": uid_of(&format!("{}.event", text("name"))), "creationTimestamp": ago(300),
            },
            "involvedObject": involved, "type": "Warning", "reason": reason, "message": message, "count": count,
            "firstTimestamp": ago(300), "lastTimestamp": ago(3), "source": {"component": "demo"},
        }),
    )
}

/// A pod of this controller, with this age.
fn stored_pod(
    namespace: &str,
    name: &str,
    labels: Value,
    (kind, owner): (&str, &str),
    spec: Value,
    age: i64,
    status: Value,
) -> Stored {
    let owner = controlled_by(kind, owner, uid_of(owner));
    let metadata = json!({"creationTimestamp": ago(age), "labels": labels, "ownerReferences": owner});
    stored("pods", &pod(namespace, name, json!({"metadata": metadata, "spec": spec, "status": status})))
}

fn hash(name: &str) -> &str {
    name.rsplit_once('-').map_or("", |(_, hash)| hash)
}
