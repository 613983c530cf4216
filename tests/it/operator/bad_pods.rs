//! Malformed pods: each is reported correctly, and none affects other pods.

use serde_json::{Value, json};

use crate::{
    pod_statuses::{ago, crash_looping, healthy},
    test_env::{TestEnv, condition, listed, watch_with},
};

/// A pod that the API server would not accept, and its expected reason, STATUS and number of container issues; `None`
/// if it is healthy.
struct Case {
    name: &'static str,
    pod: Value,
    expected: Option<(&'static str, &'static str, usize)>,
}

fn case(name: &'static str, pod: Value, expected: Option<(&'static str, &'static str, usize)>) -> Case {
    Case { name, pod, expected }
}

fn app() -> Value {
    json!({"containers": [{"name": "app", "image": "example.com/app:1"}], "nodeName": "node-1"})
}

fn failing(name: &str, reason: &str, message: &str) -> Value {
    json!({
        "name": name, "ready": false, "restartCount": 1, "image": "", "imageID": "",
        "state": {"waiting": {"reason": reason, "message": message}},
    })
}

fn cases() -> Vec<Case> {
    let many = |count: usize| {
        let containers = |each: &dyn Fn(&str) -> Value| -> Vec<Value> {
            (0..count).map(|index| each(&format!("app-{index:02}"))).collect()
        };
        json!({
            "spec": {"containers": containers(&|name| json!({"name": name, "image": "x"})), "nodeName": "node-1"},
            "status": {"phase": "Running", "containerStatuses": containers(&|name| failing(name, "CrashLoopBackOff", "back-off"))},
        })
    };
    let future = |seconds: i64| ago(-seconds);
    vec![
        case("no-status", json!({"spec": app()}), Some(("ContainerCreating", "", 0))),
        case("empty-status", json!({"spec": app(), "status": {}}), Some(("ContainerCreating", "", 0))),
        case("no-spec", json!({}), Some(("Pending", "", 0))),
        case(
            "no-containers",
            json!({"spec": {"containers": [], "nodeName": "node-1"}, "status": {"phase": "Running"}}),
            Some(("NotReady", "Running", 0)),
        ),
        case("many-containers", many(60), Some(("CrashLoopBackOff", "CrashLoopBackOff", 60))),
        case(
            "not-in-spec",
            json!({"spec": app(), "status": {"phase": "Running", "containerStatuses": [failing("ghost", "ErrImagePull", "?")]}}),
            Some(("ImagePullBackOff", "ErrImagePull", 1)),
        ),
        case(
            "strange-phase",
            json!({"spec": app(), "status": {"phase": "Confused"}}),
            Some(("NotReady", "Confused", 0)),
        ),
        case(
            "hostile-words",
            json!({"spec": app(), "status": {"phase": "Running", "containerStatuses": [failing(
                "app", "Evil\u{1b}[31m\u{202e}\nReason", "\u{0}\u{7}<script>\u{202e}",
            )]}}),
            Some(("Evil\u{fffd}[31m\u{fffd} Reason", "Evil\u{fffd}[31m\u{fffd} Reason", 1)),
        ),
        case(
            "huge-message",
            json!({"spec": app(), "status": {"phase": "Failed", "reason": "Evicted", "message": "é".repeat(500_000)}}),
            Some(("Evicted", "Evicted", 0)),
        ),
        case(
            "huge-container-message",
            json!({"spec": app(), "status": {"phase": "Running", "containerStatuses": [
                failing("app", "CreateContainerError", &"x".repeat(1_000_000)),
            ]}}),
            Some(("CreateContainerError", "CreateContainerError", 1)),
        ),
        case(
            "from-the-future",
            json!({"metadata": {"creationTimestamp": future(86_400)}, "spec": app(), "status": {
                "phase": "Running", "startTime": future(86_400),
                "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": future(86_400)}],
            }}),
            Some(("NotReady", "Running", 0)),
        ),
        case(
            "exit-in-the-future",
            json!({"spec": app(), "status": {
                "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{
                    "name": "app", "ready": true, "restartCount": 1, "image": "", "imageID": "",
                    "state": {"running": {"startedAt": ago(60)}},
                    "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": ago(90), "finishedAt": future(86_400)}},
                }],
            }}),
            Some(("Error", "Running", 1)),
        ),
        case(
            "hostile-labels",
            json!({
                "metadata": {
                    "labels": {"app\u{0}x": "a\u{0}b", "é": "\u{202e}", "": ""},
                    "annotations": {"kopf.dev/ignore": "TRUE", "\u{0}": "\u{1}", "big": "x".repeat(200_000)},
                },
                "spec": app(), "status": crash_looping(1),
            }),
            Some(("OOMKilled", "CrashLoopBackOff", 1)),
        ),
        case(
            "strange-owner",
            json!({
                "metadata": {"ownerReferences": [
                    {"apiVersion": "v1", "kind": "", "name": "", "uid": "", "controller": true},
                    {"apiVersion": "v1", "kind": "K".repeat(100_000), "name": "n".repeat(100_000), "uid": "x", "controller": true},
                ]},
                "spec": app(), "status": crash_looping(1),
            }),
            Some(("OOMKilled", "CrashLoopBackOff", 1)),
        ),
        case(
            "many-restarts",
            json!({"spec": app(), "status": {"phase": "Running", "containerStatuses": [{
                "name": "app", "ready": false, "restartCount": i32::MAX, "image": "", "imageID": "",
                "state": {"terminated": {"exitCode": i32::MIN, "signal": -1, "reason": "Error", "finishedAt": ago(5)}},
            }]}}),
            Some(("CrashLoopBackOff", "Error", 1)),
        ),
        case("healthy", json!({"spec": app(), "status": healthy()}), None),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_each_malformed_pod_correctly() {
    let env = TestEnv::new("bad-pods").await;
    let mut keyed = Vec::new();
    for (index, Case { name, pod, .. }) in cases().iter().enumerate() {
        let mut pod = pod.clone();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        let metadata = &mut pod["metadata"];
        metadata["name"] = json!(name);
        metadata["namespace"] = json!(env.namespace);
        metadata["uid"] = json!(format!("bad00000-0000-4000-8000-{index:012x}"));
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = json!(ago(3600));
        }
        keyed.push((orchestr_testbed::pods::key(&env.namespace, name), pod.to_string()));
    }
    let count = keyed.len();
    assert_eq!(env.plane.load(keyed).await.unwrap(), count as u64);
    env.object("cluster", watch_with(json!({"report": {"maxPods": 500}, "logs": {"enabled": false}}))).await;
    let _operator = env.operator().start();
    let expected = cases().iter().filter(|case| case.expected.is_some()).count();
    let status = env.until("each is reported", |status| status.problematic_pod_count == expected as i64).await;
    assert_eq!((status.watched_pods, status.omitted_pods), (count as i64, 0));
    assert_eq!(condition(&status, "Ready").2, format!("watching {count} pods"), "none could not be read");
    let found = |name: &str| {
        let pod = status.problematic_pods.iter().find(|pod| pod.name == name)?;
        Some((pod.reason.as_str(), pod.status.as_str(), pod.container_issues.len()))
    };
    let found: Vec<_> = cases().iter().map(|case| (case.name, found(case.name))).collect();
    let expected: Vec<_> = cases().iter().map(|case| (case.name, case.expected)).collect();
    assert_eq!(found, expected);
    let bytes = serde_json::to_vec(&status).unwrap().len();
    assert!(bytes < 256 * 1024, "{bytes} bytes");

    // Nothing else is disturbed.
    env.pod("cart", crash_looping(1)).await;
    env.until("a common pod", |status| listed(status).contains(&"cart")).await;
}
