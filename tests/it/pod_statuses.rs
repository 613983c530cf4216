//! Pod statuses as a kubelet writes them.

use serde_json::{Value, json};

/// The time `seconds` ago, in the format of the API.
pub fn ago(seconds: i64) -> String {
    let time = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A running, ready pod.
pub fn healthy() -> Value {
    json!({
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": [{
            "name": "app", "ready": true, "started": true, "restartCount": 0, "image": "", "imageID": "",
            "state": {"running": {"startedAt": ago(3600)}}, "lastState": {},
        }],
    })
}

/// A pod whose container `app` is in CrashLoopBackOff after being OOM-killed.
pub fn crash_looping(restarts: i32) -> Value {
    json!({
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(30)},
        ],
        "containerStatuses": [{
            "name": "app", "ready": false, "started": false, "restartCount": restarts, "image": "", "imageID": "",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=app"}},
            "lastState": {"terminated": {
                "exitCode": 137, "reason": "OOMKilled", "startedAt": ago(90), "finishedAt": ago(30),
                "containerID": format!("containerd://{restarts:064}"),
            }},
        }],
    })
}

/// A running pod that has not been ready for this many seconds.
pub fn not_ready(seconds: i64) -> Value {
    json!({
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(seconds)},
        ],
        "containerStatuses": [{
            "name": "app", "ready": false, "started": true, "restartCount": 0, "image": "", "imageID": "",
            "state": {"running": {"startedAt": ago(seconds)}}, "lastState": {},
        }],
    })
}

/// A ready pod whose container failed this many seconds ago, was restarted and has been running since.
pub fn restarted(seconds: i64) -> Value {
    json!({
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": [{
            "name": "app", "ready": true, "started": true, "restartCount": 1, "image": "", "imageID": "",
            "state": {"running": {"startedAt": ago(seconds)}},
            "lastState": {"terminated": {
                "exitCode": 2, "reason": "Error", "startedAt": ago(seconds + 100), "finishedAt": ago(seconds),
                "containerID": format!("containerd://{:064}", 1),
            }},
        }],
    })
}
