//! `--own-namespace-only`.

use orchestr_testbed::{Receiver, eventually};
use serde_json::json;

use crate::{
    alerts::support::webhook,
    pod_statuses::{crash_looping, healthy},
    support::TIMEOUT,
    test_env::{TestEnv, condition, watch_all, watch_with},
};

#[tokio::test(flavor = "multi_thread")]
async fn refuses_objects_that_select_other_namespaces() {
    let env = TestEnv::new("own").await;
    env.pod("cart-0", crash_looping(7)).await;
    let own = env.namespace.as_str();
    let refused = [
        ("minimal", watch_all()),
        ("null", watch_with(json!({"pods": {"namespaces": null}}))),
        ("empty", watch_with(json!({"pods": {"namespaces": []}}))),
        ("pattern", watch_with(json!({"pods": {"namespaces": [format!("{own}*")]}}))),
        ("other", watch_with(json!({"pods": {"namespaces": [own, "kube-system"]}}))),
        ("excluding", watch_with(json!({"pods": {"excludeNamespaces": ["kube-*"]}}))),
    ];
    for (name, spec) in &refused {
        // Written to etcd: they may be older than an admission policy.
        env.old_object(name, json!({}), spec.clone(), json!(null)).await;
    }
    env.object("own", watch_with(json!({"pods": {"namespaces": [own]}}))).await;
    env.object("paused", json!({"alerts": {"checkRunningPods": false}})).await;
    let _operator = env.operator().own_namespace_only().start();
    let message = format!("spec.pods.namespaces: must be [{own:?}], because of --own-namespace-only");
    for (name, _) in &refused {
        let status = env.wait_for_ready(name, "InvalidSpec").await;
        assert_eq!(condition(&status, "Ready"), ("False", "InvalidSpec", message.as_str()), "{name}");
        assert_eq!(condition(&status, "PodsHealthy").0, "Unknown", "{name}");
        assert_eq!(condition(&status, "Stalled").0, "True", "{name}");
        assert!(status.problematic_pods.is_empty() && status.incidents.is_empty(), "{name}: {status:?}");
    }
    let status = env.wait_for_ready("own", "Watching").await;
    assert_eq!((status.watched_pods, status.problematic_pod_count), (1, 1));
    env.wait_for_ready("paused", "Paused").await;

    // It recovers when the spec names the namespace.
    env.patch_object("minimal", json!({"spec": {"pods": {"namespaces": [own]}}})).await;
    env.wait_for_ready("minimal", "Watching").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_object_says_nothing_after_a_restart() {
    let env = TestEnv::new("own-alerts").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/hook"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.object("cluster", watch_with(json!({"webhooks": [webhook("ops", "Generic", json!({}))]}))).await;
    let operator = env.operator().fast_alerts().start();
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    env.until("the alert is recorded", |status| {
        status.webhooks.iter().any(|own| own.pending.is_none() && !own.alerts.is_empty())
    })
    .await;
    operator.stop().await;

    let recorder = env.record("cluster").await;
    let operator = env.operator().own_namespace_only().fast_alerts().start();
    let status = env.wait_for_ready("cluster", "InvalidSpec").await;
    assert_eq!(status.problematic_pod_count, 0, "the status shows no pods any more");
    assert_eq!(status.webhooks[0].alerts.len(), 1, "what was sent is remembered");
    // The pod recovers, which nobody may claim to know.
    env.set_status("cart-0", healthy()).await;
    env.wait_until_caught_up_in_own_namespace().await;
    operator.stop().await;
    recorder.assert_never_healthy(0).await;
    assert_eq!(receiver.received().len(), 1, "no alert is resolved");

    // Without the flag, or with a spec that names the namespace, the end is sent.
    env.patch_object("cluster", json!({"spec": {"pods": {"namespaces": [env.namespace]}}})).await;
    let operator = env.operator().own_namespace_only().fast_alerts().start();
    env.delete_pod("cart-0").await;
    eventually("the end is sent", 2 * TIMEOUT, async || match receiver.received().get(1) {
        Some(sent) if sent.json()["status"] == "resolved" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .unwrap();
    operator.stop().await;
}
