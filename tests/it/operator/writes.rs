//! When a status is written, and how changes by other writers are reverted.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use orchestr::config::Timings;
use serde_json::json;

use crate::{
    pod_statuses::{crash_looping, healthy},
    proxy::{ProxiedRequest, Proxy, ProxyAction, SETTLE_TIME},
    test_env::{TestEnv, condition, listed, watch_all, watch_with},
};

#[tokio::test(flavor = "multi_thread")]
async fn writes_nothing_while_healthy_pods_change() {
    let env = TestEnv::new("churn").await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let (proxy, _operator) = env.proxied_operator().await;
    env.until("the log was asked for", |status| {
        status.problematic_pods.first().is_some_and(|pod| pod.container_issues[0].log_source.is_some())
    })
    .await;
    let before = env.objects().get("cluster").await.unwrap();
    let writes = proxy.count(ProxiedRequest::is_status_write);
    let begun = std::time::Instant::now();
    for number in 0..20 {
        let name = format!("web-{number}");
        env.pod(&name, healthy()).await;
        env.patch_pod(&name, json!({"metadata": {"labels": {"app": "web"}}})).await;
        env.delete_pod(&name).await;
    }
    // A change that the status does not show is not written either.
    env.patch_pod("cart", json!({"metadata": {"annotations": {"note": "seen"}}})).await;
    tokio::time::sleep(SETTLE_TIME).await;
    assert!(begun.elapsed() < Duration::from_secs(50), "this machine is too slow: the count is written once a minute");
    let after = env.objects().get("cluster").await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version, "{:#?}", after.status);
    assert_eq!(proxy.count(ProxiedRequest::is_status_write), writes, "not even one that changes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_once_per_burst_and_at_most_once_per_second() {
    let env = TestEnv::new("burst").await;
    for number in 0..20 {
        env.pod(&format!("cart-{number}"), healthy()).await;
    }
    // Logs are disabled, because each log that arrives may change the status.
    env.object("cluster", json!({"alerts": {"checkRunningPods": true}, "logs": {"enabled": false}})).await;
    let _operator = env.operator().timings(Timings::default()).start();
    env.wait_for_ready("cluster", "Watching").await;
    let record = env.record("cluster").await;

    let broken: Vec<_> = (0..20).map(|number| format!("cart-{number}")).collect();
    let all = broken.iter().map(|name| env.set_status(name, crash_looping(3)));
    futures::future::join_all(all).await;
    env.until("all are reported", |status| status.problematic_pod_count == 20).await;
    // One write before the burst, and up to three on a slow machine.
    assert!(record.status_writes().await.len() <= 4, "{} writes", record.status_writes().await.len());

    let before = record.status_writes().await.len();
    let begun = std::time::Instant::now();
    let mut restarts = 3;
    while begun.elapsed() < Duration::from_secs(5) {
        restarts += 1;
        env.set_status(&format!("cart-{}", restarts % 20), crash_looping(restarts)).await;
    }
    env.until("the last is reported", |status| {
        status.problematic_pods.iter().any(|pod| pod.container_issues[0].restarts == restarts)
    })
    .await;
    let seconds = begun.elapsed().as_secs_f64();
    let during = record.status_writes().await.len() - before;
    assert!(during >= 2 && during as f64 <= seconds + 2.0, "{during} writes in {seconds:.1} s, {restarts} changes");
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_a_first_change_immediately() {
    let env = TestEnv::new("at-once").await;
    env.pod("cart", healthy()).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    tokio::time::sleep(SETTLE_TIME).await;
    let record = env.record("cluster").await;
    let begun = std::time::Instant::now();
    env.set_status("cart", crash_looping(3)).await;
    env.until("it is reported", |status| status.problematic_pod_count == 1).await;
    let (at, _) = record
        .states()
        .await
        .into_iter()
        .find(|(_, object)| object.status.as_ref().is_some_and(|status| status.problematic_pod_count == 1))
        .unwrap();
    // It usually takes 30 ms, but longer on a busy machine.
    assert!(at.duration_since(begun) < Duration::from_secs(5), "{:?}", at.duration_since(begun));
}

#[tokio::test(flavor = "multi_thread")]
async fn reverts_changes_of_other_writers() {
    let env = TestEnv::new("repair").await;
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    let good = env
        .until("the log was asked for", |status| {
            status.problematic_pods.first().is_some_and(|pod| pod.container_issues[0].log_source.is_some())
        })
        .await;
    let nothing = json!([{"op": "remove", "path": "/status"}]);
    let wiped = Patch::<()>::Json(serde_json::from_value(nothing).unwrap());
    let params = PatchParams { field_manager: Some("kubectl-edit".to_owned()), ..PatchParams::default() };
    env.raw_objects().patch_status("cluster", &params, &wiped).await.unwrap();
    let status = env.until("it is restored", |status| status.problematic_pod_count == 1).await;
    assert_eq!(status.problematic_pods, good.problematic_pods);

    for lie in [
        json!({"problematicPodCount": 0, "problematicPods": []}),
        json!({"watchedPods": 1000}),
        json!({"incidents": null}),
        json!({"conditions": [{
            "type": "Ready", "status": "False", "reason": "Nonsense", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z",
        }]}),
        json!({"conditions": [
            {"type": "Stalled", "status": "True", "reason": "Nonsense", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"},
            {"type": "Mine", "status": "True", "reason": "Mine", "message": "", "lastTransitionTime": "2024-01-01T00:00:00Z"},
        ]}),
    ] {
        env.raw_objects().patch_status("cluster", &params, &Patch::Merge(&json!({"status": lie}))).await.unwrap();
        let status = env
            .until(&format!("{lie} is put right"), |status| {
                status.problematic_pod_count == 1
                    && listed(status) == ["cart"]
                    && status.watched_pods == 1
                    && status.incidents.len() == 1
                    && condition(status, "Ready").1 == "Watching"
                    && condition(status, "PodsHealthy").0 == "False"
                    && condition(status, "Stalled").0.is_empty()
            })
            .await;
        let theirs = lie["conditions"].as_array().is_some_and(|conditions| conditions.len() == 2);
        assert_eq!(condition(&status, "Mine").0, if theirs { "True" } else { "" }, "others' conditions are theirs");
    }
}

/// Another client changes the status while the operator's write is in progress, and the watch reports that change
/// before the API server answers the write.
#[tokio::test(flavor = "multi_thread")]
async fn reverts_a_change_made_during_a_write() {
    let env = TestEnv::new("meanwhile").await;
    env.pod("cart", healthy()).await;
    // Logs are disabled, because their arrival would cause another write.
    env.object("cluster", watch_with(json!({"logs": {"enabled": false}}))).await;
    let slow = Proxy::start(env.client.clone()).await;
    let _operator = env.operator().through(&slow).start();
    env.wait_for_ready("cluster", "Watching").await;
    // The proxy delays the answers to writes, but not the events of the watch.
    slow.on(ProxiedRequest::is_status_write, ProxyAction::AnswerLate(Duration::from_secs(2)));
    env.set_status("cart", crash_looping(3)).await;
    env.until("it is written", |status| status.problematic_pod_count == 1).await;
    let lie = json!({"status": {"problematicPodCount": 7}});
    env.raw_objects().patch_status("cluster", &PatchParams::default(), &Patch::Merge(&lie)).await.unwrap();
    env.until("it is put right", |status| status.problematic_pod_count == 1).await;
}

/// An object as the tutorial's Kopf operator stored it under a schema without restrictions: with the result of its handler
/// as status, and with a field that has another meaning now.
#[tokio::test(flavor = "multi_thread")]
async fn replaces_the_status_of_an_earlier_operator() {
    let env = TestEnv::new("replaced-status").await;
    env.pod("cart", crash_looping(3)).await;
    let metadata = json!({"managedFields": [{
        "manager": "kopf", "operation": "Update", "apiVersion": "kopf.dev/v1", "time": "2024-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {".": {}, "f:create_fn": {}, "f:problematicPods": {}, "f:conditions": {}}},
    }]});
    let status = json!({
        "create_fn": {"problematicPods": ["cart"], "log": "Traceback (most recent call last)"},
        "kopf": {"progress": {}},
        "problematicPods": "cart",
        "conditions": "none",
    });
    env.old_object("old", metadata, watch_all(), status).await;
    let _operator = env.operator().start();
    let status = env.wait_for_status("old", "it is reported", |status| status.problematic_pod_count == 1).await;
    assert_eq!(listed(&status), ["cart"]);
    let object = env.raw_objects().get("old").await.unwrap();
    let mut fields: Vec<_> = object.data["status"].as_object().unwrap().keys().collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "conditions",
            "historySince",
            "ignoredPods",
            "incidents",
            "lastCheckTime",
            "observedGeneration",
            "omittedIncidents",
            "omittedPods",
            "problematicPodCount",
            "problematicPods",
            "topCause",
            "topReason",
            "watchedPods",
        ]
    );
}
