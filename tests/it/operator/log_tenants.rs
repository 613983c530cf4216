//! Logs of several tenants: one cannot take the reads or the room of another.

use std::time::Duration;

use orchestr::api::OrchestrStatus;
use orchestr_testbed::{Answer, Kubelet};
use serde_json::json;

use crate::{
    pod_statuses::crash_looping,
    support::TIMEOUT,
    test_env::{TestEnv, watch_with},
};

async fn kubelet(env: &TestEnv) -> Kubelet {
    Kubelet::start(&env.plane, &format!("node-{}", env.namespace)).await.unwrap()
}

fn log<'a>(status: &'a OrchestrStatus, pod: &str) -> &'a str {
    let pod = status.problematic_pods.iter().find(|own| own.name == pod);
    pod.and_then(|pod| pod.container_issues.first()).map_or("", |issue| &issue.logs)
}

/// A log without credentials whose end of any length is easy to check.
fn lines(count: usize) -> String {
    (0..count).map(|line| format!("line {line:04} {}\n", "x".repeat(80))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_a_log_at_most_twice_for_any_number_of_policies() {
    let env = TestEnv::new("policies").await;
    let kubelet = kubelet(&env).await;
    kubelet.script(&env.namespace, "cart", "app", true, Answer::text(lines(1000)));
    let node = json!({"spec": {"nodeName": kubelet.node_name()}});
    env.pod_with("cart", node, crash_looping(3)).await;
    let policy = |index: usize| json!({"tailLines": 1 + 20 * index, "maxBytes": 256 + 4096 * index});
    for index in 0..12 {
        env.object(&format!("object-{index}"), watch_with(json!({"logs": policy(index)}))).await;
    }
    let _operator = env.operator().start();
    for index in 0..12 {
        let shown = (1 + 20 * index).min((256 + 4096 * index) / 91 + 1);
        let name = format!("object-{index}");
        let status = env.wait_for_status(&name, "the log is there", |status| !log(status, "cart").is_empty()).await;
        let text = log(&status, "cart");
        assert!(text.contains("line 0999") && text.lines().count() == shown, "{index}: {}", text.lines().count());
    }
    // A policy that needs more than the first read causes a second one, and later ones none.
    for lines in [3, 4, 5] {
        let logs = json!({"spec": {"logs": {"tailLines": lines, "maxBytes": 65536}}});
        env.patch_object("object-0", logs).await;
        env.wait_for_status("object-0", "its lines", |status| log(status, "cart").lines().count() == lines).await;
    }
    let reads = kubelet.requests_for(&env.namespace, "cart").len();
    assert!(reads <= 2, "{reads} reads");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_the_log_of_another_tenant_in_its_turn() {
    const PODS: usize = 60;
    let (hostile, other) = (TestEnv::new("hostile").await, TestEnv::new("other").await);
    let slow = kubelet(&hostile).await;
    slow.script_default(Answer::Slow { text: lines(40).into_bytes(), chunk: 1 << 20, every: Duration::from_secs(1) });
    let fast = kubelet(&other).await;
    fast.script(&other.namespace, "cart", "app", true, Answer::text("out of memory\n"));
    for pod in 0..PODS {
        // Each on a node of its own, so that only the limit of all reads applies.
        let node = format!("slow-{pod}-{}", hostile.namespace);
        slow.register(&hostile.plane, &node).await.unwrap();
        hostile.pod_with(&format!("pod-{pod:02}"), json!({"spec": {"nodeName": node}}), crash_looping(3)).await;
    }
    let scope = |env: &TestEnv| json!({"namespaces": [env.namespace]});
    for index in 0..10 {
        let logs = json!({"tailLines": 20 - index, "maxBytes": 4096 + index});
        let spec = watch_with(json!({"pods": scope(&hostile), "report": {"maxPods": PODS}, "logs": logs}));
        hostile.object(&format!("object-{index}"), spec).await;
    }
    other.object("cluster", watch_with(json!({"pods": scope(&other)}))).await;
    let _operator = hostile.operator().namespaces(&[&hostile.namespace, &other.namespace]).start();
    let before = slow.wait_for_requests(6, TIMEOUT).await.unwrap().len();
    let node = json!({"spec": {"nodeName": fast.node_name()}});
    other.pod_with("cart", node, crash_looping(3)).await;
    other.until("its log is there", |status| log(status, "cart") == "out of memory").await;
    // Six reads of the hostile tenant take a second.
    let meanwhile = slow.requests().len() - before;
    assert!(meanwhile <= 24, "{meanwhile} logs of the other tenant were read before");
}

/// The hostile tenant's logs take more room than there is. Before, the text that was read first was evicted.
#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_log_of_another_tenant() {
    const PODS: usize = 300;
    let (hostile, other) = (TestEnv::new("hoarder").await, TestEnv::new("kept").await);
    let kubelet = kubelet(&hostile).await;
    let large = format!("{}\n", "x".repeat(65)).repeat(1000);
    kubelet.script_default(Answer::text(large));
    kubelet.script(&other.namespace, "cart", "app", true, Answer::text("out of memory\n"));
    let scope = |env: &TestEnv| json!({"namespaces": [env.namespace]});
    other.pod_with("cart", json!({"spec": {"nodeName": kubelet.node_name()}}), crash_looping(3)).await;
    other.object("cluster", watch_with(json!({"pods": scope(&other)}))).await;
    let _operator = hostile.operator().namespaces(&[&hostile.namespace, &other.namespace]).start();
    other.until("its log is there", |status| log(status, "cart") == "out of memory").await;

    for node in 0..8 {
        kubelet.register(&hostile.plane, &format!("hoard-{node}-{}", hostile.namespace)).await.unwrap();
    }
    for pod in 0..PODS {
        let node = format!("hoard-{}-{}", pod % 8, hostile.namespace);
        let changes = json!({"metadata": {"labels": {"part": format!("p{}", pod % 3)}}, "spec": {"nodeName": node}});
        hostile.pod_with(&format!("pod-{pod:03}"), changes, crash_looping(3)).await;
    }
    // A status has room for the containers of a hundred pods.
    for part in ["p0", "p1", "p2"] {
        let pods = json!({"namespaces": [hostile.namespace], "selector": {"matchLabels": {"part": part}}});
        let logs = json!({"tailLines": 1000, "maxBytes": 65536, "redact": false});
        let spec = watch_with(json!({"pods": pods, "report": {"maxPods": 100}, "logs": logs}));
        hostile.object(part, spec).await;
    }
    let left_out = |status: &OrchestrStatus| {
        let issues = status.problematic_pods.iter().filter_map(|pod| pod.container_issues.first());
        issues.filter(|issue| issue.log_note.contains("too much room")).count()
    };
    kubelet.wait_for_requests(1 + PODS, TIMEOUT).await.unwrap();
    let has_all = |status: &OrchestrStatus| {
        let mut issues = status.problematic_pods.iter().filter_map(|pod| pod.container_issues.first());
        status.problematic_pods.len() == 100 && issues.all(|issue| issue.log_source.is_some())
    };
    for part in ["p0", "p1", "p2"] {
        hostile.wait_for_status(part, "every log or a note", has_all).await;
    }
    // What was evicted shows with the next change. Each change leaves the container's instance, and so its log, the same.
    let restarted = async |part: usize, restarts: i32| {
        let mut status = crash_looping(3);
        status["containerStatuses"][0]["restartCount"] = restarts.into();
        let pod = format!("pod-{part:03}");
        hostile.set_status(&pod, status).await;
        let shows = |status: &OrchestrStatus| {
            let own = status.problematic_pods.iter().find(|own| own.name == pod);
            own.is_some_and(|own| own.container_issues[0].restarts == restarts)
        };
        hostile.wait_for_status(&format!("p{part}"), "the number of restarts", shows).await;
    };
    for part in 0..3 {
        restarted(part, 4).await;
    }
    let mut omitted = 0;
    for part in ["p0", "p1", "p2"] {
        omitted += left_out(&hostile.status(part).await);
    }
    assert!(omitted > PODS / 3, "{omitted} of {PODS} have no room");

    // Another object of the tenant shows its log without a further read.
    other.object("later", watch_with(json!({"pods": scope(&other)}))).await;
    let later = other.wait_for_status("later", "a log or a note", |status| {
        status.problematic_pods.iter().any(|pod| pod.container_issues[0].log_source.is_some())
    });
    assert_eq!(log(&later.await, "cart"), "out of memory");
    assert_eq!(kubelet.requests_for(&other.namespace, "cart").len(), 1);
    // The hostile tenant's logs do not evict each other in a loop.
    let reads = kubelet.requests().len();
    for round in 5..10 {
        restarted(0, round).await;
    }
    assert_eq!(kubelet.requests().len(), reads);
}
