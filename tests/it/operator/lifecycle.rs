//! Create, update, delete, resume.

use std::sync::Arc;

use kube::api::DeleteParams;
use orchestr::config::Timings;
use orchestr_testbed::eventually;
use serde_json::json;

use crate::{
    pod_statuses::{crash_looping, healthy, not_ready},
    proxy::{Proxy, ProxyAction},
    support::TIMEOUT,
    test_env::{TestEnv, condition, listed, watch_all, watch_with},
};

#[tokio::test(flavor = "multi_thread")]
async fn applies_each_change_of_the_spec() {
    let env = TestEnv::new("update").await;
    let labelled = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    env.pod_with("cart", labelled("cart"), crash_looping(3)).await;
    env.pod_with("web", labelled("web"), crash_looping(5)).await;
    env.pod_with("slow", labelled("web"), not_ready(600)).await;
    env.pod_with("fine", labelled("web"), healthy()).await;
    let _operator = env.operator().start();
    env.object("cluster", watch_with(json!({"thresholds": {"notReady": "168h"}}))).await;
    let status = env.until("two crash", |status| status.problematic_pod_count == 2).await;
    assert_eq!((listed(&status), status.watched_pods), (vec!["cart", "web"], 4));

    // The patch, the number of problems, the number of watched pods, and the listed pods.
    let changes = [
        (json!({"thresholds": {"notReady": "1m"}}), 3, 4, 3),
        (json!({"report": {"maxPods": 1}}), 3, 4, 1),
        (json!({"report": null, "pods": {"selector": {"matchLabels": {"app": "web"}}}}), 2, 3, 2),
        (json!({"pods": {"ignoreReasons": ["NotReady"]}}), 1, 3, 1),
        (json!({"pods": {"selector": {"matchLabels": {"app": "nobody"}}}}), 0, 0, 0),
        (json!({"pods": {"selector": null, "excludeNamespaces": [env.namespace]}}), 0, 0, 0),
        (json!({"pods": {"excludeNamespaces": null, "namespaces": ["up*"]}}), 2, 4, 2),
        (json!({"pods": null, "thresholds": null}), 3, 4, 3),
    ];
    for (generation, (spec, problems, watched, shown)) in (2..).zip(changes) {
        env.patch_object("cluster", json!({"spec": spec})).await;
        let status =
            env.until(&format!("the answer to {spec}"), |status| status.observed_generation == Some(generation)).await;
        assert_eq!((status.problematic_pod_count, status.watched_pods), (problems, watched), "{spec}");
        assert_eq!(status.problematic_pods.len(), shown, "{spec}");
        assert_eq!(status.omitted_pods, problems - shown as i64, "{spec}");
        for condition in &status.conditions {
            assert_eq!(condition.observed_generation, Some(generation), "{spec}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_over_for_a_recreated_object() {
    let env = TestEnv::new("again").await;
    env.pod("cart", crash_looping(3)).await;
    let _operator = env.operator().start();
    let first = env.object("cluster", watch_all()).await;
    env.until("it is reported", |status| status.problematic_pod_count == 1).await;
    env.objects().delete("cluster", &DeleteParams::default()).await.unwrap();
    let second = env.object("cluster", json!({"alerts": {"checkRunningPods": false}})).await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    let status = env.wait_for_ready("cluster", "Paused").await;
    assert_eq!((status.problematic_pod_count, status.observed_generation), (0, Some(1)));
}

/// The delete event is lost, and the next event is about another object of the same name.
#[tokio::test(flavor = "multi_thread")]
async fn detects_a_recreated_object_without_its_delete_event() {
    let env = TestEnv::new("namesake").await;
    env.pod("cart", crash_looping(3)).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let deaf = |line: &str| if line.contains(r#""type":"DELETED""#) { String::new() } else { line.to_owned() };
    let deaf = Arc::new(deaf);
    proxy.rule(move |request| {
        let is_it = request.is_watch() && request.path.ends_with("/orchestrs");
        if is_it { ProxyAction::Mangle(deaf.clone()) } else { ProxyAction::Forward }
    });
    let _operator = env.operator().through(&proxy).start();
    env.object("cluster", watch_all()).await;
    env.until("it is reported", |status| status.problematic_pod_count == 1).await;
    env.objects().delete("cluster", &DeleteParams::default()).await.unwrap();
    let second = env.object("cluster", watch_with(json!({"report": {"maxPods": 1}}))).await;
    env.until("it is reported", |status| status.problematic_pod_count == 1).await;
    eventually("an event is the second one's", TIMEOUT, async || {
        let uids: Vec<_> = env.events("cluster").await.into_iter().map(|event| event.regarding.unwrap().uid).collect();
        if uids.contains(&second.metadata.uid) { Ok(()) } else { Err(format!("{uids:?}")) }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn leaves_an_object_alone_while_it_is_being_deleted() {
    let env = TestEnv::new("deleting").await;
    env.pod("cart", crash_looping(3)).await;
    let _operator = env.operator().start();
    env.object("cluster", watch_with(json!({"logs": {"enabled": false}}))).await;
    env.patch_object("cluster", json!({"metadata": {"finalizers": ["example.com/ours"]}})).await;
    env.until("it is reported", |status| status.problematic_pod_count == 1).await;
    env.objects().delete("cluster", &DeleteParams::default()).await.unwrap();
    let deleting = env.objects().get("cluster").await.unwrap();
    assert!(deleting.metadata.deletion_timestamp.is_some());
    env.wait_until_caught_up().await;
    env.set_status("cart", crash_looping(4)).await;
    env.pod("web", crash_looping(1)).await;
    env.wait_until_caught_up().await;
    let left = env.objects().get("cluster").await.unwrap();
    assert_eq!(left.metadata.resource_version, deleting.metadata.resource_version, "{:#?}", left.status);
    env.patch_object("cluster", json!({"metadata": {"finalizers": null}})).await;
    assert!(env.objects().get_opt("cluster").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_nothing_after_a_restart() {
    let env = TestEnv::new("resume").await;
    env.pod("cart", crash_looping(3)).await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_all()).await;
    let operator = env.operator().start();
    let before = env.until("it is reported", |status| status.problematic_pod_count == 1).await;
    // Including the log.
    env.until("its log was asked for", |status| status.problematic_pods[0].container_issues[0].log_source.is_some())
        .await;
    operator.stop().await;

    let old = env.objects().get("cluster").await.unwrap();
    // On a busy machine, the log takes longer to read than a status waits for it.
    let patient = Timings { log_wait: TIMEOUT, ..Timings::default() };
    let proxy = Proxy::start(env.client.clone()).await;
    let operator = env.operator().through(&proxy).timings(patient).start();
    env.wait_until_caught_up().await;
    env.wait_until_caught_up().await;
    let new = env.objects().get("cluster").await.unwrap();
    assert_eq!(new.metadata.resource_version, old.metadata.resource_version, "{:#?}\n{:#?}", old.status, new.status);
    let writes = proxy.count(|request| request.is_status_write() && request.path.ends_with("/cluster/status"));
    assert_eq!(writes, 0, "not even one that changes nothing");
    assert_eq!(env.events("cluster").await.len(), 1, "an event is published once");
    operator.stop().await;

    // While the operator is stopped, one container is restarted again, and another pod recovers.
    env.set_status("cart", crash_looping(4)).await;
    env.delete_pod("web").await;
    let operator = env.operator().start();
    let after = env
        .until("the changes are reported", |status| {
            status.problematic_pods.first().is_some_and(|pod| pod.container_issues[0].restarts == 4)
        })
        .await;
    assert_eq!(after.watched_pods, 1);
    assert_eq!(after.problematic_pods[0].since, before.problematic_pods[0].since);
    assert_eq!(after.incidents[0].since, before.incidents[0].since);
    for (old, new) in before.conditions.iter().zip(&after.conditions) {
        assert_eq!((&old.type_, &old.last_transition_time), (&new.type_, &new.last_transition_time));
    }
    assert_eq!(condition(&after, "PodsHealthy").0, "False");
    operator.stop().await;
}
