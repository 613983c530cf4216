//! A failing pod and its recovery.

use serde_json::json;

use crate::{
    pod_statuses::{ago, container, crash_looping, healthy},
    test_env::{TestEnv, condition, watch_all},
};

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_failing_pod_and_its_recovery() {
    let env = TestEnv::new("e2e").await;
    env.pod("web-0", healthy()).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();

    let status = env.until("the crash loop is reported", |status| status.problematic_pod_count == 1).await;
    assert_eq!(status.watched_pods, 2);
    assert_eq!(status.observed_generation, Some(1));
    let pod = &status.problematic_pods[0];
    assert_eq!(
        (pod.name.as_str(), pod.status.as_str(), pod.reason.as_str()),
        ("cart-0", "CrashLoopBackOff", "OOMKilled")
    );
    assert_eq!(status.incidents[0].reason, "OOMKilled");
    assert_eq!(condition(&status, "Ready"), ("True", "Watching", "watching 2 pods"));
    assert_eq!(condition(&status, "PodsHealthy").0, "False");

    env.set_status("cart-0", healthy()).await;
    let app = json!({"ready": true, "started": true, "restartCount": 7, "state": {"running": {"startedAt": ago(1)}}});
    let running_again = json!({"containerStatuses": [container("app", app)]});
    env.set_status("cart-0", running_again).await;
    let status = env.until("the recovery is reported", |status| status.problematic_pod_count == 0).await;
    assert_eq!(condition(&status, "PodsHealthy").0, "True");
    assert!(status.problematic_pods.is_empty() && status.incidents.is_empty());
}
