//! `spec.logs.redactPatterns`, also those of a tenant who means harm.

use std::time::{Duration, Instant};

use orchestr::{api::OrchestrStatus, logs::MASK};
use orchestr_testbed::{Answer, Kubelet};
use serde_json::{Value, json};

use crate::{
    pod_statuses::{crash_looping, failed, healthy, merge},
    test_env::{TestEnv, condition, listed, watch_all, watch_with},
};

/// A pod that has failed and left this termination message.
fn failed_with(message: &str) -> Value {
    let id = format!("containerd://{}", fastrand::u64(..));
    let mut status = failed(1);
    let ended = json!({"state": {"terminated": {"message": message, "containerID": id}}});
    merge(&mut status["containerStatuses"][0], &ended);
    status
}

fn message<'a>(status: &'a OrchestrStatus, pod: &str) -> &'a str {
    let pod = status.problematic_pods.iter().find(|own| own.name == pod);
    pod.and_then(|pod| pod.container_issues.first()).map_or("", |issue| &issue.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn masks_messages_by_the_patterns_of_the_spec() {
    let env = TestEnv::new("masked-messages").await;
    env.pod("cart", failed_with("refused card 4711 of acct-7, password=hunter2")).await;
    let _operator = env.operator().start();
    env.object("cluster", watch_with(json!({"logs": {"redactPatterns": ["card [0-9]+"]}}))).await;
    let status = env.until("it is reported", |status| listed(status) == ["cart"]).await;
    assert_eq!(message(&status, "cart"), format!("refused {MASK} of acct-7, password={MASK}"));

    let patterns = json!(["card [0-9]+", r"acct-\d+"]);
    env.patch_object("cluster", json!({"spec": {"logs": {"redactPatterns": patterns}}})).await;
    let masked = format!("refused {MASK} of {MASK}, password={MASK}");
    env.until("both are masked", |status| message(status, "cart") == masked).await;

    env.patch_object("cluster", json!({"spec": {"logs": {"redactPatterns": ["card", r"\pL{1000}"]}}})).await;
    let status = env.wait_for_ready("cluster", "InvalidSpec").await;
    let problem = "spec.logs.redactPatterns[1]: is too large once compiled";
    let (ready, _, text) = condition(&status, "Ready");
    assert_eq!(ready, "False");
    assert!(text.starts_with(problem) && text.contains("the rest of the spec is in force"), "{text}");
    // It is not known what the pattern would mask.
    assert_eq!((listed(&status), message(&status, "cart")), (vec!["cart"], MASK));
    env.patch_object("cluster", json!({"spec": {"logs": {"redactPatterns": patterns}}})).await;
    env.until("both are masked again", |status| message(status, "cart") == masked).await;
}

/// Before these patterns were bounded, one status of the attacker took minutes, in which no other object had one.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_patterns_do_not_delay_other_objects() {
    let (attacker, victim) = (TestEnv::new("attacker").await, TestEnv::new("victim").await);
    let kubelet = Kubelet::start(&attacker.plane, &format!("node-{}", attacker.namespace)).await.unwrap();
    kubelet.script_default(Answer::text("x ".repeat(128 * 1024)));
    for index in 0..20 {
        let on = json!({"spec": {"nodeName": kubelet.node_name()}});
        attacker.pod_with(&format!("pod-{index}"), on, failed_with(&format!("{index} {}", "x ".repeat(2000)))).await;
    }
    victim.pod("cart", healthy()).await;
    victim.object("cluster", watch_all()).await;
    let _operator = attacker.operator().namespaces(&[&attacker.namespace, &victim.namespace]).start();
    victim.wait_for_ready("cluster", "Watching").await;

    for object in 0..3 {
        // Each match of such a pattern reads the text to its end.
        let patterns: Vec<_> = (0..16).map(|index| format!("x[^z]*z{object}-{index}|x")).collect();
        let logs = json!({"maxBytes": 65536, "tailLines": 1000, "redactPatterns": patterns});
        attacker.object(&format!("hostile-{object}"), watch_with(json!({"logs": logs}))).await;
    }
    let mut slowest = Duration::ZERO;
    for round in 1..=10 {
        let start = Instant::now();
        victim.set_status("cart", crash_looping(round)).await;
        let restarts = |status: &OrchestrStatus| {
            let containers = status.problematic_pods.iter().flat_map(|pod| &pod.container_issues);
            containers.map(|container| container.restarts).max()
        };
        victim.until("it follows the pod", |status| restarts(status) == Some(round)).await;
        slowest = slowest.max(start.elapsed());
        // So that there is something to mask in every round.
        attacker.set_status("pod-0", failed_with(&format!("round {round} {}", "x ".repeat(2000)))).await;
    }
    println!("the slowest status of the other object took {slowest:?}");

    for object in 0..3 {
        let name = format!("hostile-{object}");
        let status = attacker
            .wait_for_status(&name, "its texts are masked", |status| {
                status.problematic_pod_count >= 20 && condition(status, "Ready").2.contains("masked whole")
            })
            .await;
        let containers = status.problematic_pods.iter().flat_map(|pod| &pod.container_issues);
        for container in containers {
            assert!(!container.message.contains('x') && !container.logs.contains('x'), "{container:?}");
        }
    }
}
