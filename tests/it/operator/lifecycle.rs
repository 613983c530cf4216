//! Create, update, delete, resume.

use std::sync::Arc;

use kube::api::DeleteParams;
use orchestr_testbed::eventually;
use serde_json::json;

use crate::{
    proxy::{Fate, Proxy},
    support::PATIENCE,
    world::{World, condition, crash_looping, healthy, listed, not_ready, watch_all, watch_with},
};

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_the_spec_takes_effect() {
    let world = World::new("update").await;
    let labelled = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    world.pod_with("cart", labelled("cart"), crash_looping(3)).await;
    world.pod_with("web", labelled("web"), crash_looping(5)).await;
    world.pod_with("slow", labelled("web"), not_ready(600)).await;
    world.pod_with("fine", labelled("web"), healthy()).await;
    let operator = world.operate();
    world.object("cluster", watch_with(json!({"thresholds": {"notReady": "168h"}}))).await;
    let status = world.status_where("cluster", "two crash", |status| status.problematic_pod_count == 2).await;
    assert_eq!((listed(&status), status.watched_pods), (vec!["cart", "web"], 4));

    // The patch, the problems, the pods that are watched, those that are listed.
    let changes = [
        (json!({"thresholds": {"notReady": "1m"}}), 3, 4, 3),
        (json!({"report": {"maxPods": 1}}), 3, 4, 1),
        (json!({"report": null, "pods": {"selector": {"matchLabels": {"app": "web"}}}}), 2, 3, 2),
        (json!({"pods": {"ignoreReasons": ["NotReady"]}}), 1, 3, 1),
        (json!({"pods": {"selector": {"matchLabels": {"app": "nobody"}}}}), 0, 0, 0),
        (json!({"pods": {"selector": null, "excludeNamespaces": [world.namespace]}}), 0, 0, 0),
        (json!({"pods": {"excludeNamespaces": null, "namespaces": ["up*"]}}), 2, 4, 2),
        (json!({"pods": null, "thresholds": null}), 3, 4, 3),
    ];
    for (generation, (spec, problems, watched, shown)) in (2..).zip(changes) {
        world.patch_object("cluster", json!({"spec": spec})).await;
        let status = world
            .status_where("cluster", &format!("the answer to {spec}"), |status| {
                status.observed_generation == Some(generation)
            })
            .await;
        assert_eq!((status.problematic_pod_count, status.watched_pods), (problems, watched), "{spec}");
        assert_eq!(status.problematic_pods.len(), shown, "{spec}");
        assert_eq!(status.omitted_pods, problems - shown as i64, "{spec}");
        for condition in &status.conditions {
            assert_eq!(condition.observed_generation, Some(generation), "{spec}");
        }
    }
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_made_again_begins_anew() {
    let world = World::new("again").await;
    world.pod("cart", crash_looping(3)).await;
    let operator = world.operate();
    let first = world.object("cluster", watch_all()).await;
    world.status_where("cluster", "it is told", |status| status.problematic_pod_count == 1).await;
    world.objects().delete("cluster", &DeleteParams::default()).await.unwrap();
    let second = world.object("cluster", json!({"alerts": {"checkRunningPods": false}})).await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    let status = world.ready("cluster", "Paused").await;
    assert_eq!((status.problematic_pod_count, status.observed_generation), (0, Some(1)));
    operator.stop().await;
}

/// Its deletion happens while nobody watches: the next list shows another object of the same name.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_took_anothers_name_unseen_begins_anew() {
    let world = World::new("namesake").await;
    world.pod("cart", crash_looping(3)).await;
    let proxy = Proxy::start(world.client.clone()).await;
    let deaf = |line: &str| if line.contains(r#""type":"DELETED""#) { String::new() } else { line.to_owned() };
    let deaf = Arc::new(deaf);
    proxy.rule(move |seen| {
        let is_it = seen.is_watch() && seen.path.ends_with("/orchestrs");
        if is_it { Fate::Mangle(deaf.clone()) } else { Fate::Forward }
    });
    let operator = world.operate_as(proxy.client());
    world.object("cluster", watch_all()).await;
    world.status_where("cluster", "it is told", |status| status.problematic_pod_count == 1).await;
    world.objects().delete("cluster", &DeleteParams::default()).await.unwrap();
    let second = world.object("cluster", watch_with(json!({"report": {"maxPods": 1}}))).await;
    world.status_where("cluster", "it is told", |status| status.problematic_pod_count == 1).await;
    eventually("an event is the second one's", PATIENCE, async || {
        let uids: Vec<_> =
            world.events("cluster").await.into_iter().map(|event| event.regarding.unwrap().uid).collect();
        if uids.contains(&second.metadata.uid) { Ok(()) } else { Err(format!("{uids:?}")) }
    })
    .await
    .unwrap();
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_being_deleted_is_left_alone() {
    let world = World::new("deleting").await;
    world.pod("cart", crash_looping(3)).await;
    let operator = world.operate();
    world.object("cluster", watch_with(json!({"logs": {"enabled": false}}))).await;
    world.patch_object("cluster", json!({"metadata": {"finalizers": ["example.com/ours"]}})).await;
    world.status_where("cluster", "it is told", |status| status.problematic_pod_count == 1).await;
    world.objects().delete("cluster", &DeleteParams::default()).await.unwrap();
    let deleting = world.objects().get("cluster").await.unwrap();
    assert!(deleting.metadata.deletion_timestamp.is_some());
    world.until_caught_up().await;
    world.set_status("cart", crash_looping(4)).await;
    world.pod("web", crash_looping(1)).await;
    world.until_caught_up().await;
    let left = world.objects().get("cluster").await.unwrap();
    assert_eq!(left.metadata.resource_version, deleting.metadata.resource_version, "{:#?}", left.status);
    world.patch_object("cluster", json!({"metadata": {"finalizers": null}})).await;
    assert!(world.objects().get_opt("cluster").await.unwrap().is_none());
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_operator_is_nothing_that_anybody_sees() {
    let world = World::new("resume").await;
    world.pod("cart", crash_looping(3)).await;
    world.pod("web", healthy()).await;
    world.object("cluster", watch_all()).await;
    let operator = world.operate();
    let before = world.status_where("cluster", "it is told", |status| status.problematic_pod_count == 1).await;
    // With the log that it also shows.
    world
        .status_where("cluster", "its log was asked for", |status| {
            status.problematic_pods[0].container_issues[0].log_source.is_some()
        })
        .await;
    operator.stop().await;

    let old = world.objects().get("cluster").await.unwrap();
    let proxy = Proxy::start(world.client.clone()).await;
    let operator = world.operate_as(proxy.client());
    world.until_caught_up().await;
    world.until_caught_up().await;
    let new = world.objects().get("cluster").await.unwrap();
    assert_eq!(new.metadata.resource_version, old.metadata.resource_version, "{:#?}\n{:#?}", old.status, new.status);
    let writes = proxy.count(|seen| seen.is_status_write() && seen.path.ends_with("/cluster/status"));
    assert_eq!(writes, 0, "not even one that changes nothing");
    assert_eq!(world.events("cluster").await.len(), 1, "what was told is not told again");
    operator.stop().await;

    // While it is away, one more restart, and a pod that recovers.
    world.set_status("cart", crash_looping(4)).await;
    world.delete_pod("web").await;
    let operator = world.operate();
    let after = world
        .status_where("cluster", "what happened meanwhile is told", |status| {
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
