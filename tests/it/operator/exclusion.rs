//! The ignore annotation, and ignored reasons and namespaces.

use serde_json::json;

use crate::{
    pod_statuses::{crash_looping, healthy, not_ready},
    test_env::{TestEnv, listed, watch_all, watch_with},
};

#[tokio::test(flavor = "multi_thread")]
async fn ignores_pods_with_the_ignore_annotation() {
    let env = TestEnv::new("ignore").await;
    let annotated = |value: &str| json!({"metadata": {"annotations": {"kopf.dev/ignore": value}}});
    env.pod_with("quiet", annotated("true"), crash_looping(3)).await;
    env.pod_with("loud", annotated("false"), crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    let status = env.until("one is reported", |status| status.problematic_pod_count == 1).await;
    assert_eq!((listed(&status), status.watched_pods), (vec!["loud"], 2));

    env.patch_pod("quiet", json!({"metadata": {"annotations": {"kopf.dev/ignore": null}}})).await;
    env.until("it asks no more", |status| listed(status) == ["loud", "quiet"]).await;
    env.patch_pod("loud", json!({"metadata": {"annotations": {"kopf.dev/ignore": "true"}}})).await;
    env.until("the other asks", |status| listed(status) == ["quiet"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn leaves_ignored_reasons_and_namespaces_out_of_every_count() {
    let env = TestEnv::new("leave-out").await;
    env.pod("cart", crash_looping(3)).await;
    env.pod("slow", not_ready(600)).await;
    env.pod("fine", healthy()).await;
    let not = |reasons: &[&str]| watch_with(json!({"pods": {"ignoreReasons": reasons}}));
    env.object("all", watch_all()).await;
    env.object("no-oom", not(&["OOMKilled"])).await;
    env.object("neither", not(&["OOMKilled", "NotReady"])).await;
    env.object("elsewhere", watch_with(json!({"pods": {"excludeNamespaces": ["leave-*"]}}))).await;
    let _operator = env.operator().start();
    for (name, watched, problems) in
        [("all", 3, &["cart", "slow"][..]), ("no-oom", 3, &["slow"]), ("neither", 3, &[]), ("elsewhere", 0, &[])]
    {
        let ignored = if watched == 0 { 0 } else { 2 - problems.len() as i64 };
        let status = env.wait_for_ready(name, "Watching").await;
        assert_eq!((listed(&status), status.watched_pods), (problems.to_vec(), watched), "{name}");
        assert_eq!(status.incidents.len(), problems.len(), "{name}");
        assert_eq!(status.ignored_pods, ignored, "{name}");
        assert_eq!(status.problematic_pod_count, problems.len() as i64, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_a_new_problem_that_is_ignored() {
    let env = TestEnv::new("ignored").await;
    env.pod("cart", healthy()).await;
    env.object("cluster", watch_with(json!({"pods": {"ignoreReasons": ["OOMKilled"]}}))).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    env.set_status("cart", crash_looping(3)).await;
    let status = env.until("it is counted", |status| status.ignored_pods == 1).await;
    assert_eq!((status.problematic_pod_count, listed(&status).len()), (0, 0));
}
