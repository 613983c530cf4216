//! A wait passes only what stays healthy, and a single check fails what has failed for long.

use std::time::{Duration, Instant};

use serde_json::json;

use super::support::{Rollout, Wait, creating, waits};
use crate::{
    pod_statuses::{ago, healthy},
    test_env::TestEnv,
};

/// `sh -c "sleep 1; exit 1"` without a readiness probe: it is ready for a second after each start.
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_that_crashes_after_a_second_does_not_pass() {
    let env = TestEnv::new("wait-brief").await;
    let rollout = Rollout::new(&env, "cart", 1).await;
    let pod = rollout.pod(&env, "a", creating()).await;
    let mut wait = Wait::start_with_defaults(&env, &["deploy/cart", "--timeout", "8s"]);
    wait.says("cart-new-a ContainerCreating").await;
    let running = |restarts: i32, last: serde_json::Value| {
        let mut status = healthy();
        let app = &mut status["containerStatuses"][0];
        (app["restartCount"], app["lastState"]) = (json!(restarts), last);
        app["state"] = json!({"running": {"startedAt": ago(0)}});
        status
    };
    env.set_status(&pod, running(0, json!({}))).await;
    rollout.is_done(&env).await;
    wait.says("1 replica, ready for less than 10s").await;
    let ended = json!({"terminated": {"exitCode": 1, "reason": "Error", "startedAt": ago(1), "finishedAt": ago(0),
        "containerID": format!("containerd://{:064}", 1)}});
    env.set_status(&pod, running(1, ended)).await;
    wait.says("1 replica, but not all are healthy; cart-new-a Running").await;
    assert!(!wait.has_ended());
    let ended = wait.ends().await;
    assert_eq!(ended.code, 3, "{ended:#?}");
    assert!(ended.out.contains("app exited with code 1"), "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_passes_at_the_end_of_its_window() {
    let env = TestEnv::new("wait-stable").await;
    let rollout = Rollout::new(&env, "cart", 1).await;
    let pod = rollout.pod(&env, "a", creating()).await;
    let wait = Wait::start_with_defaults(&env, &["deploy/cart", "--stable", "3s"]);
    wait.says("cart-new-a ContainerCreating").await;
    let ready = Instant::now();
    env.set_status(&pod, healthy()).await;
    rollout.is_done(&env).await;
    let ended = wait.ends().await;
    assert_eq!(ended.code, 0, "{ended:#?}");
    assert!(ended.out.contains(": 1 replica, without a readiness probe\n"), "{ended:#?}");
    assert!(ended.at.duration_since(ready) >= Duration::from_secs(3), "{ended:#?}");
    // It has been ready for long enough already.
    let once = ["deploy/cart", "--stable", "3s", "--timeout", "0"];
    let ended = Wait::start_with_defaults(&env, &once).ends().await;
    assert_eq!(ended.code, 0, "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_check_fails_what_has_failed_for_long() {
    let env = TestEnv::new("wait-once").await;
    let rollout = Rollout::new(&env, "cart", 1).await;
    let pod = rollout.pod(&env, "a", waits("CreateContainerConfigError", "secret \"db\" not found")).await;
    let check =
        async |grace: &str| Wait::start(&env, &["deploy/cart", "--timeout", "0", "--grace", grace]).ends().await;
    let ended = check("10m").await;
    assert_eq!(ended.code, 3, "{ended:#?}");
    let ended = check("2s").await;
    assert_eq!(ended.code, 1, "{ended:#?}");
    let sentence = "app needs the Secret db, which does not exist";
    assert!(ended.out.contains(sentence) && ended.out.contains(&pod), "{ended:#?}");
}
