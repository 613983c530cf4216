//! A failing pod, told and taken back.

use serde_json::json;

use crate::world::{World, ago, condition, crash_looping, healthy, watch_all};

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_pod_is_explained_and_its_recovery_seen() {
    let world = World::new("e2e").await;
    world.pod("web-0", healthy()).await;
    world.pod("cart-0", crash_looping(7)).await;
    world.object("cluster", watch_all()).await;
    let operator = world.operate();

    let status =
        world.status_where("cluster", "the crash loop is told", |status| status.problematic_pod_count == 1).await;
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

    world.set_status("cart-0", healthy()).await;
    let running_again = json!({"containerStatuses": [{
        "name": "app", "ready": true, "started": true, "restartCount": 7, "image": "", "imageID": "",
        "state": {"running": {"startedAt": ago(1)}}, "lastState": {},
    }]});
    world.set_status("cart-0", running_again).await;
    let status =
        world.status_where("cluster", "the recovery is told", |status| status.problematic_pod_count == 0).await;
    assert_eq!(condition(&status, "PodsHealthy").0, "True");
    assert!(status.problematic_pods.is_empty() && status.incidents.is_empty());
    operator.stop().await;
}
