//! When missing pods begin and end to be a problem.

use std::time::{Duration, Instant};

use orchestr::api::{AlertPhase, Cause, OrchestrStatus};
use orchestr_testbed::{Receiver, eventually};
use serde_json::{Value, json};

use super::causes::{deployment, full_quota, missing};
use crate::{
    alerts::support::{delivery, spec, webhook},
    pod_statuses::{controlled_by, crash_looping, healthy},
    proxy::{ProxiedRequest, Proxy, ProxyAction, SETTLE_TIME},
    support::TIMEOUT,
    test_env::{TestEnv, condition, watch_all, watch_with},
};

/// As the API server writes it.
const QUOTA: &str = r#"pods "api-5d9f-x2x4z" is forbidden: exceeded quota: mem-cap, requested: requests.memory=256Mi, used: requests.memory=1Gi, limited: requests.memory=1Gi"#;

fn error_creating() -> String {
    format!("Error creating: {QUOTA}")
}

fn is_read_of_workload(request: &ProxiedRequest) -> bool {
    request.method == "GET" && request.path.starts_with("/apis/apps/v1/")
}

/// Waits until the object reports missing pods.
async fn until_missing(env: &TestEnv) -> OrchestrStatus {
    env.until("pods are missing", |status| !missing(status).is_empty()).await
}

async fn until_over(env: &TestEnv) -> OrchestrStatus {
    env.until("no pods are missing", |status| missing(status).is_empty()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_lasting_shortages_soon_and_ends_them() {
    let env = TestEnv::new("missing").await;
    let replica_set = deployment(&env, "api", 3).await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_all()).await;
    let (proxy, _operator) = env.proxied_operator().await;
    env.until("it is healthy", |status| condition(status, "PodsHealthy").0 == "True").await;
    let record = env.record("cluster").await;
    replica_set.set_failing(1, 120, QUOTA).await;
    let begun = Instant::now();
    replica_set.failed_create(&error_creating(), 0).await;
    let status = until_missing(&env).await;
    let states = record.states().await;
    let (at, _) = states.iter().find(|(_, object)| !missing(object.status.as_ref().unwrap()).is_empty()).unwrap();
    let took = at.duration_since(begun);
    println!("reported after {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!((status.missing_pods, status.watched_pods, missing(&status)[0].of), (2, 1, 3));
    assert_eq!(missing(&status)[0].team, "checkout", "as the pod template says");
    assert_eq!(proxy.count(is_read_of_workload), 1, "one read for the event");

    // The controller creates the pods. The operator notices their creation, and reads the ReplicaSet soon after.
    replica_set.set_status(json!({"replicas": 3, "conditions": []})).await;
    let begun = Instant::now();
    replica_set.create_pod(None).await.unwrap();
    let status = until_over(&env).await;
    println!("over after {:?}", begun.elapsed());
    assert_eq!((status.missing_pods, condition(&status, "PodsHealthy").0), (0, "True"));
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_new_shortage_when_it_has_lasted_30_seconds() {
    let env = TestEnv::new("missing-30s").await;
    let replica_set = deployment(&env, "api", 3).await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    let began = jiff::Timestamp::now();
    replica_set.set_failing(0, 20, QUOTA).await;
    replica_set.failed_create(&error_creating(), 0).await;
    let status = until_missing(&env).await;
    let age = jiff::Timestamp::now().duration_since(missing(&status)[0].since.0);
    assert!((30..33).contains(&age.as_secs()), "{age:?}");
    assert!(jiff::Timestamp::now().duration_since(began).as_secs() >= 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_proves_nothing_without_its_workload() {
    let env = TestEnv::new("missing-stale").await;
    let fine = deployment(&env, "fine", 3).await;
    fine.set_status(json!({"replicas": 3})).await;
    let other = deployment(&env, "other", 3).await;
    other.set_failing(0, 300, QUOTA).await;
    let deleted = deployment(&env, "deleted", 3).await;
    deleted.delete().await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_all()).await;
    let record = env.record("cluster").await;
    let (proxy, _operator) = env.proxied_operator().await;
    env.wait_for_ready("cluster", "Watching").await;
    fine.failed_create(&error_creating(), 300).await;
    deleted.failed_create(&error_creating(), 300).await;
    // Another ReplicaSet of this name was deleted.
    other.event_of("00000000-0000-4000-a000-000000000000", &error_creating(), 300).await;
    // A name that would change the request.
    let mut odd = deployment(&env, "odd", 3).await;
    odd.name = "../../../../../api/v1/namespaces".to_owned();
    odd.failed_create(&error_creating(), 300).await;
    eventually("each was read once", TIMEOUT, async || match proxy.count(is_read_of_workload) {
        3.. => Ok(()),
        other => Err(format!("{other} reads")),
    })
    .await
    .unwrap();
    env.wait_until_caught_up().await;
    tokio::time::sleep(SETTLE_TIME).await;
    for (_, object) in record.states().await {
        assert!(missing(&object.status.unwrap_or_default()).is_empty());
    }
    assert_eq!(proxy.count(|request| request.path.contains("..")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_that_are_gone_or_circular_are_only_named() {
    let env = TestEnv::new("missing-owners").await;
    let gone = controlled_by("Deployment", "gone", "00000000-0000-4000-b000-000000000000");
    let orphan = env.owned_workload("ReplicaSet", "gone-5d9f", gone, json!({"replicas": 1}), json!({})).await;
    let looped = controlled_by("ReplicaSet", "loop", "00000000-0000-4000-b000-000000000001");
    let looped = env.owned_workload("ReplicaSet", "loop", looped, json!({"replicas": 1}), json!({})).await;
    env.object("cluster", watch_all()).await;
    let (proxy, _operator) = env.proxied_operator().await;
    env.wait_for_ready("cluster", "Watching").await;
    for replica_set in [&orphan, &looped] {
        replica_set.set_failing(0, 120, QUOTA).await;
        replica_set.failed_create(&error_creating(), 0).await;
    }
    let status = env.until("both miss a pod", |status| missing(status).len() == 2).await;
    let mut owners: Vec<_> =
        missing(&status).iter().map(|own| format!("{}/{}", own.owner.kind, own.owner.name)).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["Deployment/gone", "ReplicaSet/loop"]);
    assert_eq!(proxy.count(|request| request.path.contains("/deployments")), 0);

    // One is scaled down, the other deleted.
    orphan.patch(json!({"spec": {"replicas": 0}})).await;
    looped.delete().await;
    for replica_set in [&orphan, &looped] {
        replica_set.failed_create(&error_creating(), 0).await;
    }
    until_over(&env).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stateful_set_that_waits_for_its_first_pod_misses_nothing() {
    let env = TestEnv::new("missing-ordered").await;
    let stateful_set = env.workload("StatefulSet", "db", json!({"replicas": 3})).await;
    stateful_set.set_status(json!({"replicas": 0})).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    let error = format!("create Pod db-0 in StatefulSet db failed error: {QUOTA}");
    stateful_set.failed_create(&error, 120).await;
    assert_eq!(until_missing(&env).await.missing_pods, 3);

    // Its first pod exists and is not ready yet, so the others are not created.
    stateful_set.set_status(json!({"replicas": 1})).await;
    stateful_set.create_pod(Some("db-0")).await.unwrap();
    until_over(&env).await;
    // An event of another failure, while all others are waiting.
    stateful_set.failed_create(&error.replace("db-0", "db-1"), 120).await;
    assert_eq!(until_missing(&env).await.missing_pods, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_one_alert_and_one_resolution_over_a_restart() {
    let env = TestEnv::new("missing-alerts").await;
    full_quota(&env).await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/ops"))]).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let replica_set = deployment(&env, "api", 3).await;
    let refusal = replica_set.create_pod(None).await.unwrap_err();
    replica_set.set_failing(0, 120, &refusal).await;
    let operator = env.operator().fast_alerts().start();
    env.wait_for_ready("cluster", "Watching").await;
    replica_set.failed_create(&format!("Error creating: {refusal}"), 0).await;
    let before = until_missing(&env).await;
    let is_sent = |status: &OrchestrStatus| {
        delivery(status, "ops").is_some_and(|ops| ops.alerts.iter().any(|alert| alert.phase == AlertPhase::Firing))
    };
    env.until("the alert is sent", is_sent).await;
    operator.stop().await;

    // No event is sent again after the restart: the ReplicaSet is read because the status lists the incident.
    let record = env.record("cluster").await;
    let operator = env.operator().fast_alerts().start();
    replica_set.set_failing(1, 110, &refusal).await;
    let after = env.until("the number is up to date", |status| status.missing_pods == 2).await;
    assert_eq!(
        (&missing(&after)[0].since, &missing(&after)[0].key),
        (&missing(&before)[0].since, &missing(&before)[0].key)
    );
    assert_eq!(missing(&after)[0].cause, Cause::QuotaExceeded);
    for (_, object) in record.states().await {
        assert_eq!(missing(&object.status.unwrap()).len(), 1, "it never ended");
    }

    // The Deployment is deleted, so that its pods are not missing any more.
    replica_set.delete().await;
    replica_set.failed_create(&format!("Error creating: {refusal}"), 0).await;
    until_over(&env).await;
    let received = receiver.wait_for(2, TIMEOUT).await.unwrap();
    let states: Vec<Value> = received.iter().map(|request| request.json()["status"].clone()).collect();
    assert_eq!(states, ["firing", "resolved"]);
    let text = received[0].json().to_string();
    assert!(text.contains("FailedCreate") && text.contains("mem-cap"), "{text}");
    tokio::time::sleep(SETTLE_TIME).await;
    assert_eq!(receiver.received().len(), 2);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shortage_omitted_from_the_status_survives_a_restart() {
    let env = TestEnv::new("missing-cut").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    let replica_set = deployment(&env, "api", 3).await;
    replica_set.set_failing(0, 7200, QUOTA).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let operator = env.operator().fast_alerts().start();
    env.wait_for_ready("cluster", "Watching").await;
    replica_set.failed_create(&error_creating(), 7200).await;
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    // A hundred younger incidents take all the places.
    env.load_crashing((0..110).map(|pod| format!("pod-{pod}")), &json!({})).await;
    env.wait_for_status_within(2 * TIMEOUT, "cluster", "the status omits the missing pods", |status| {
        status.incidents.len() == 100 && missing(status).is_empty() && status.missing_pods == 3
    })
    .await;
    operator.stop().await;

    let proxy = Proxy::start(env.client.clone()).await;
    proxy.on(is_read_of_workload, ProxyAction::Hang);
    let operator = env.operator().through(&proxy).fast_alerts().start();
    proxy.wait_for_requests("the ReplicaSet is read", 1, is_read_of_workload).await;
    env.pod("late", crash_looping(3)).await;
    let of = |status: &OrchestrStatus, owner: &str| {
        let alerts = delivery(status, "ops").map(|ops| ops.alerts.clone()).unwrap_or_default();
        alerts.into_iter().find(|alert| alert.owner.name == owner)
    };
    let status = env
        .wait_for_status_within(2 * TIMEOUT, "cluster", "a later problem is counted", |status| {
            status.problematic_pod_count == 111
        })
        .await;
    let alert = of(&status, "api").unwrap();
    assert_eq!((alert.phase, alert.gone_since), (AlertPhase::Firing, None), "it is not known to be over");
    proxy.rule(|_| ProxyAction::Forward);
    env.wait_for_status_within(2 * TIMEOUT, "cluster", "the pods are still missing", |status| status.missing_pods == 3)
        .await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn respects_what_the_objects_select_and_ignore() {
    let env = TestEnv::new("missing-scope").await;
    let replica_set = deployment(&env, "api", 3).await;
    replica_set.set_failing(0, 120, QUOTA).await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_all()).await;
    for (name, pods) in [
        ("same-label", json!({"selector": {"matchLabels": {"app": "api"}}})),
        ("other-label", json!({"selector": {"matchLabels": {"app": "other"}}})),
        ("other-namespace", json!({"excludeNamespaces": [env.namespace]})),
        ("ignores-kind", json!({"ignoreReasons": ["Missing"]})),
        ("ignores-reason", json!({"ignoreReasons": ["FailedCreate"]})),
    ] {
        env.object(name, watch_with(json!({"pods": pods}))).await;
    }
    let _operator = env.operator().start();
    env.wait_for_ready("cluster", "Watching").await;
    replica_set.failed_create(&error_creating(), 0).await;
    until_missing(&env).await;
    for (name, reported, ignored) in [
        ("same-label", 3, 0),
        ("other-label", 0, 0),
        ("other-namespace", 0, 0),
        ("ignores-kind", 0, 3),
        ("ignores-reason", 0, 3),
    ] {
        let what = format!("{name} is up to date");
        env.wait_for_status(name, &what, |status| (status.missing_pods, status.ignored_pods) == (reported, ignored))
            .await;
    }
    env.wait_until_caught_up().await;
    assert_eq!(condition(&env.status("other-label").await, "PodsHealthy").1, "NoPodsSelected");
    assert_eq!(condition(&env.status("ignores-kind").await, "PodsHealthy").0, "True");
    // Without a warning about an unknown reason.
    let ready = env.status("ignores-reason").await;
    assert!(!condition(&ready, "Ready").2.contains("FailedCreate"), "{}", condition(&ready, "Ready").2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_is_reported_and_nothing_is_guessed() {
    let env = TestEnv::new("missing-denied").await;
    let replica_set = deployment(&env, "api", 3).await;
    replica_set.set_failing(0, 120, QUOTA).await;
    env.pod("web", healthy()).await;
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    proxy.on(is_read_of_workload, ProxyAction::Refuse(403, "replicasets.apps \"api-5d9f\" is forbidden"));
    let _operator = env.operator().through(&proxy).start();
    env.wait_for_ready("cluster", "Watching").await;
    replica_set.failed_create(&error_creating(), 0).await;
    let warning = "could not check whether pods are missing: replicasets.apps \"api-5d9f\" is forbidden";
    let status = env.until("the permission is missing", |status| condition(status, "Ready").2.contains(warning)).await;
    assert_eq!((condition(&status, "Ready").1, status.missing_pods), ("Watching", 0));
    assert_eq!(proxy.count(is_read_of_workload), 1);
}
