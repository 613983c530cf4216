//! Namespaces with more objects than are watched.

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use orchestr::api::Orchestr;
use orchestr_testbed::{Receiver, eventually};
use serde_json::json;

use crate::{
    alerts::support::{delivery, spec, webhook},
    pod_statuses::{crash_looping, healthy},
    proxy::Proxy,
    support::TIMEOUT,
    test_env::{TestEnv, condition, watch_all},
};

const TOO_MANY: &str = "the namespace has more than 2 Orchestr objects, and only the 2 oldest are watched; delete others, or raise \
                        the operator's --max-objects-per-namespace";

#[tokio::test(flavor = "multi_thread")]
async fn watches_the_oldest_objects_and_says_so_in_the_status_of_others() {
    let env = TestEnv::new("limit").await;
    env.pod("cart", healthy()).await;
    // Their order is the same whether they are created in the same second or not.
    for name in ["a", "b", "c", "d"] {
        env.object(name, watch_all()).await;
    }
    let proxy = Proxy::start(env.client.clone()).await;
    let operator = env.operator().through(&proxy).max_objects_per_namespace(2).start();
    for name in ["a", "b"] {
        env.wait_for_ready(name, "Watching").await;
    }
    for name in ["c", "d"] {
        let status = env.wait_for_ready(name, "TooManyObjects").await;
        assert_eq!(condition(&status, "Ready"), ("False", "TooManyObjects", TOO_MANY));
        assert_eq!(condition(&status, "PodsHealthy"), ("Unknown", "TooManyObjects", "pods are not checked"));
        assert!(!status.conditions.iter().any(|condition| condition.type_ == "Stalled"));
    }

    env.objects().delete("a", &DeleteParams::default()).await.unwrap();
    let status = env.wait_for_ready("c", "Watching").await;
    assert_eq!(status.watched_pods, 1);
    assert_eq!(condition(&env.status("d").await, "Ready").1, "TooManyObjects");
    operator.stop().await;

    // The choice survives a restart, and nothing is written about the others again.
    let writes_of_d = || proxy.count(|own| own.is_status_write() && own.path.contains("/orchestrs/d/"));
    let before = writes_of_d();
    let operator = env.operator().through(&proxy).max_objects_per_namespace(2).start();
    env.patch_object("b", json!({"spec": {"report": {"maxPods": 7}}})).await;
    env.wait_for_status("b", "the new spec is answered", |status| status.observed_generation == Some(2)).await;
    env.patch_object("d", json!({"spec": {"report": {"maxPods": 7}}})).await;
    let status =
        env.wait_for_status("d", "its new spec is answered", |status| status.observed_generation == Some(2)).await;
    assert_eq!(condition(&status, "Ready"), ("False", "TooManyObjects", TOO_MANY));
    assert_eq!(writes_of_d() - before, 1, "only its new spec was answered");
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alert_of_an_object_that_is_no_longer_watched_is_not_resolved() {
    let env = TestEnv::new("limit-alert").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/hook"))]).await;
    env.pod("cart-0", crash_looping(7)).await;
    env.object("a", watch_all()).await;
    env.object("b", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let operator = env.operator().start();
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    let is_firing = |status: &orchestr::api::OrchestrStatus| {
        delivery(status, "ops").is_some_and(|own| own.alerts.len() == 1 && own.pending.is_none())
    };
    env.wait_for_status("b", "the alert is stored", is_firing).await;
    operator.stop().await;

    let operator = env.operator().max_objects_per_namespace(1).start();
    let status = env.wait_for_ready("b", "TooManyObjects").await;
    assert!(is_firing(&status), "{status:?}");
    operator.stop().await;

    let operator = env.operator().max_objects_per_namespace(1).start();
    env.wait_for_ready("a", "Watching").await;
    env.objects().delete("a", &DeleteParams::default()).await.unwrap();
    env.wait_for_ready("b", "Watching").await;
    // The first message since is the one about the end, so nothing was sent in between.
    env.delete_pod("cart-0").await;
    let received = receiver.wait_for(2, TIMEOUT).await.unwrap();
    let states: Vec<_> = received.iter().map(|request| request.json()["status"].clone()).collect();
    assert_eq!(states, ["firing", "resolved"]);
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_quota_refuses_the_21st_object() {
    let env = TestEnv::new("quota").await;
    let quota: ResourceQuota = serde_yaml::from_str(include_str!("../../../deploy/tenancy/quota.yaml")).unwrap();
    let hard = quota.spec.as_ref().unwrap().hard.clone();
    let quotas: Api<ResourceQuota> = Api::namespaced(env.client.clone(), &env.namespace);
    let name = quota.metadata.name.clone().unwrap();
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    // The quota controller does this in a cluster.
    let status = json!({"status": {"hard": hard, "used": {"count/orchestrs.kopf.dev": "0"}}});
    quotas.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    eventually("the quota is in force", TIMEOUT, async || {
        env.object("probe", watch_all()).await;
        env.objects().delete("probe", &DeleteParams::default()).await.unwrap();
        let used = quotas.get_status(&name).await.unwrap().status.and_then(|status| status.used).unwrap_or_default();
        let used = used["count/orchestrs.kopf.dev"].0.clone();
        if used == "0" { Err("nothing is counted yet".to_owned()) } else { Ok(()) }
    })
    .await
    .unwrap();
    let status = json!({"status": {"used": {"count/orchestrs.kopf.dev": "0"}}});
    quotas.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let mut created = 0;
    let refusal = loop {
        let object: Orchestr = serde_json::from_value(json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": format!("o{created}")}, "spec": watch_all(),
        }))
        .unwrap();
        match env.objects().create(&PostParams::default(), &object).await {
            Ok(_) => created += 1,
            Err(error) => break error.to_string(),
        }
        assert!(created < 50);
    };
    assert_eq!(created, 20, "{refusal}");
    assert!(refusal.contains("exceeded quota") && refusal.contains("count/orchestrs.kopf.dev"), "{refusal}");
}
