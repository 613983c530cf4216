//! Rollouts that are only slow, with injected delays. The unit tests of the decision have a hundred of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Rollout, Wait, assert_ended, creating, waits};
use crate::{
    pod_statuses::{ago, container, healthy, status, terminated},
    test_env::TestEnv,
};

/// How many rollouts there are, of a seed each.
const ROLLOUTS: u64 = 8;
const LONGEST_DELAY: u64 = 600;

/// The states that a slow pod goes through, before it is healthy.
fn states() -> Vec<Value> {
    let crashed = |restarts: i32| {
        let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}});
        let app = json!({"restartCount": restarts, "state": waiting, "lastState": terminated(1, &ago(3), &ago(1))});
        status("Running", false, &ago(5), [container("app", app)])
    };
    vec![
        json!({"phase": "Pending"}),
        creating(),
        waits("ErrImagePull", "dial tcp: lookup registry.example: no such host"),
        waits("ImagePullBackOff", "Back-off pulling image \"shop/cart:1\""),
        waits("CreateContainerConfigError", "configmap \"cart-config\" not found"),
        crashed(1),
        crashed(4),
        crate::pod_statuses::not_ready(3000),
    ]
}

async fn is_slow(env: &TestEnv, seed: u64) {
    let name = format!("slow-{seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut delay = async || tokio::time::sleep(Duration::from_millis(random.u64(..LONGEST_DELAY))).await;
    let rollout = Rollout::new(env, &name, 2).await;
    let mut wait = Wait::start(env, &[&format!("deploy/{name}")]);
    wait.says("0 of 2 replicas updated").await;
    for (index, suffix) in ["a", "b"].into_iter().enumerate() {
        delay().await;
        let pod = rollout.pod(env, suffix, json!({"phase": "Pending"})).await;
        for state in states() {
            delay().await;
            env.set_status(&pod, state).await;
            assert!(!wait.has_ended(), "{:#?}", wait.ends().await);
        }
        delay().await;
        env.set_status(&pod, healthy()).await;
        let ready = i32::try_from(index).unwrap() + 1;
        rollout.counts(env, 3 - ready.min(1), ready, ready).await;
    }
    let appeared = Instant::now();
    assert_ended(&format!("slow but fine, seed {seed}"), appeared, &wait.ends().await, 0, &["is healthy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn never_fails_what_is_only_slow() {
    let env = TestEnv::new("wait-slow").await;
    futures::future::join_all((0..ROLLOUTS).map(|seed| is_slow(&env, seed))).await;
}
