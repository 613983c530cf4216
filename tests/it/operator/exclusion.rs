//! Pods that ask not to be reported, and reasons that nobody wants to hear of.

use serde_json::json;

use crate::world::{World, crash_looping, healthy, listed, not_ready, watch_all, watch_with};

#[tokio::test(flavor = "multi_thread")]
async fn an_annotated_pod_is_never_reported() {
    let world = World::new("ignore").await;
    let annotated = |value: &str| json!({"metadata": {"annotations": {"kopf.dev/ignore": value}}});
    world.pod_with("quiet", annotated("true"), crash_looping(3)).await;
    world.pod_with("loud", annotated("false"), crash_looping(3)).await;
    world.object("cluster", watch_all()).await;
    let operator = world.operate();
    let status = world.status_where("cluster", "one is told", |status| status.problematic_pod_count == 1).await;
    assert_eq!((listed(&status), status.watched_pods), (vec!["loud"], 2));

    world.patch_pod("quiet", json!({"metadata": {"annotations": {"kopf.dev/ignore": null}}})).await;
    world.status_where("cluster", "it asks no more", |status| listed(status) == ["loud", "quiet"]).await;
    world.patch_pod("loud", json!({"metadata": {"annotations": {"kopf.dev/ignore": "true"}}})).await;
    world.status_where("cluster", "the other asks", |status| listed(status) == ["quiet"]).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_reasons_and_namespaces_are_left_out_of_every_count() {
    let world = World::new("leave-out").await;
    world.pod("cart", crash_looping(3)).await;
    world.pod("slow", not_ready(600)).await;
    world.pod("fine", healthy()).await;
    let not = |reasons: &[&str]| watch_with(json!({"pods": {"ignoreReasons": reasons}}));
    world.object("all", watch_all()).await;
    world.object("no-oom", not(&["OOMKilled"])).await;
    world.object("neither", not(&["OOMKilled", "NotReady"])).await;
    world.object("elsewhere", watch_with(json!({"pods": {"excludeNamespaces": ["leave-*"]}}))).await;
    let operator = world.operate();
    for (name, watched, problems) in
        [("all", 3, &["cart", "slow"][..]), ("no-oom", 3, &["slow"]), ("neither", 3, &[]), ("elsewhere", 0, &[])]
    {
        let ignored = if watched == 0 { 0 } else { 2 - problems.len() as i64 };
        let status = world.ready(name, "Watching").await;
        assert_eq!((listed(&status), status.watched_pods), (problems.to_vec(), watched), "{name}");
        assert_eq!(status.incidents.len(), problems.len(), "{name}");
        assert_eq!(status.ignored_pods, ignored, "{name}");
        assert_eq!(status.problematic_pod_count, problems.len() as i64, "{name}");
    }
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_that_is_ignored_is_counted_when_it_begins() {
    let world = World::new("ignored").await;
    world.pod("cart", healthy()).await;
    world.object("cluster", watch_with(json!({"pods": {"ignoreReasons": ["OOMKilled"]}}))).await;
    let operator = world.operate();
    world.ready("cluster", "Watching").await;
    world.set_status("cart", crash_looping(3)).await;
    let status = world.status_where("cluster", "it is counted", |status| status.ignored_pods == 1).await;
    assert_eq!((status.problematic_pod_count, listed(&status).len()), (0, 0));
    operator.stop().await;
}
