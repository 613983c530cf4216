//! Pods and what belongs to them as JSON, as a kubelet and the controllers write them. All tests build their pods from
//! these functions, and merge into them only what they are about.
//!
//! ```
//! use orchestr_testbed::objects::{ago, container, controlled_by, pod, status};
//! use serde_json::json;
//!
//! let metadata = json!({"ownerReferences": controlled_by("ReplicaSet", "cart-5d9f", "r")});
//! let app = container("app", json!({"state": {"waiting": {"reason": "ContainerCreating"}}}));
//! let pod = pod("shop", "cart-5d9f-a", json!({"metadata": metadata, "status": status("Pending", false, &ago(5), [app])}));
//! assert_eq!(pod["status"]["containerStatuses"][0]["ready"], false);
//! ```

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};

use crate::binaries::kubernetes_minor;

/// The time `seconds` ago, in the format of the API.
pub fn ago(seconds: i64) -> String {
    let time = Timestamp::now() - SignedDuration::from_secs(seconds);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Like a JSON merge patch, but a null replaces the value instead of removing it.
pub fn merge(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(target.entry(key.clone()).or_insert(Value::Null), change);
            }
        }
        (target, changes) => *target = changes.clone(),
    }
}

/// The object with these changes merged into it.
#[must_use]
pub fn merged(mut object: Value, changes: &Value) -> Value {
    merge(&mut object, changes);
    object
}

/// A UID that follows from a text.
pub fn uid_of(text: &str) -> String {
    // FNV-1a with 128 bits.
    let hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    let hex = format!("{hash:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// The API version of the kinds that run pods.
pub fn api_version(kind: &str) -> &'static str {
    match kind {
        "Pod" | "ReplicationController" => "v1",
        "Job" | "CronJob" => "batch/v1",
        _ => "apps/v1",
    }
}

/// The `ownerReferences` of an object with this controller.
pub fn controlled_by(kind: &str, name: &str, uid: impl Serialize) -> Value {
    json!([{"apiVersion": api_version(kind), "kind": kind, "name": name, "uid": uid, "controller": true}])
}

/// A pod on `node-1` with one container, `app`, and these changes, usually of its status.
pub fn pod(namespace: &str, name: &str, changes: Value) -> Value {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": uid_of(&format!("{namespace}/{name}"))},
        "spec": {"containers": [{"name": "app", "image": "example.com/app:1"}], "nodeName": "node-1"},
    });
    merged(pod, &changes)
}

/// The key in etcd and the JSON of an object of this resource, such as `pods`.
pub fn stored(resource: &str, object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (format!("/registry/{resource}/{}/{}", text("namespace"), text("name")), object.to_string())
}

/// The status of a container that is not ready, with these changes.
pub fn container(name: &str, changes: Value) -> Value {
    let container = json!({
        "name": name, "ready": false, "started": false, "restartCount": 0, "image": "", "imageID": "", "state": {},
        "lastState": {},
    });
    merged(container, &changes)
}

/// A pod's status. It was scheduled at this time, and is ready or not since then.
pub fn status(phase: &str, is_ready: bool, since: &str, containers: impl Into<Vec<Value>>) -> Value {
    let mut ready =
        json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }, "lastTransitionTime": since});
    if !is_ready {
        ready["reason"] = "ContainersNotReady".into();
    }
    json!({
        "phase": phase, "startTime": since, "containerStatuses": containers.into(),
        "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": since}, ready],
    })
}

/// The end of a container's instance.
pub fn terminated(exit_code: i32, started: &str, finished: &str) -> Value {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": finished}})
}

/// A pod that has failed: its container exited with this code half a minute ago.
pub fn failed(exit_code: i32) -> Value {
    let app = container("app", json!({"state": terminated(exit_code, &ago(60), &ago(30))}));
    json!({"phase": "Failed", "containerStatuses": [app]})
}

/// A pod whose container `app` has been waiting for this many seconds.
pub fn waiting(reason: &str, message: &str, seconds: i64) -> Value {
    let app = container("app", json!({"state": {"waiting": {"reason": reason, "message": message}}}));
    status("Pending", false, &ago(seconds), [app])
}

/// A running, ready pod.
pub fn healthy() -> Value {
    let running = json!({"ready": true, "started": true, "state": {"running": {"startedAt": ago(3600)}}});
    json!({
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": [container("app", running)],
    })
}

/// A pod whose container `app` is in CrashLoopBackOff after being OOM-killed.
pub fn crash_looping(restarts: i32) -> Value {
    let app = json!({
        "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=app"}},
        "lastState": {"terminated": {
            "exitCode": 137, "reason": "OOMKilled", "startedAt": ago(90), "finishedAt": ago(30),
            "containerID": format!("containerd://{restarts:064}"),
        }},
    });
    let mut status = status("Running", false, &ago(30), [container("app", app)]);
    status["startTime"].take();
    status
}

/// A running pod that has not been ready for this many seconds.
pub fn not_ready(seconds: i64) -> Value {
    let mut status = healthy();
    status["containerStatuses"][0]["ready"] = false.into();
    status["containerStatuses"][0]["state"]["running"]["startedAt"] = ago(seconds).into();
    status["conditions"][1] =
        json!({"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(seconds)});
    status
}

/// A ready pod whose container failed this many seconds ago, was restarted and has been running since.
pub fn restarted(seconds: i64) -> Value {
    let mut status = healthy();
    let app = json!({
        "restartCount": 1, "state": {"running": {"startedAt": ago(seconds)}},
        "lastState": {"terminated": {
            "exitCode": 2, "reason": "Error", "startedAt": ago(seconds + 100), "finishedAt": ago(seconds),
            "containerID": format!("containerd://{:064}", 1),
        }},
    });
    merge(&mut status["containerStatuses"][0], &app);
    status
}

/// The status of a Job that completed this many seconds ago. A Job without a success policy has the first of these conditions since
/// Kubernetes 1.31.
pub fn completed(seconds: i64) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "CompletionsReached", "lastTransitionTime": ago(seconds)});
    let kinds = ["SuccessCriteriaMet", "Complete"].into_iter().skip(usize::from(kubernetes_minor() < 31));
    let conditions: Vec<_> = kinds.map(condition).collect();
    json!({
        "startTime": ago(2 * seconds + 60), "completionTime": ago(seconds), "active": 0, "succeeded": 1, "failed": 1,
        "uncountedTerminatedPods": {}, "conditions": conditions,
    })
}

/// The status of a Job that failed for good this many seconds ago.
pub fn failed_for_good(seconds: i64) -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": ago(seconds)});
    json!({
        "startTime": ago(2 * seconds + 60), "failed": 1, "uncountedTerminatedPods": {},
        "conditions": [condition("FailureTarget"), condition("Failed")],
    })
}
