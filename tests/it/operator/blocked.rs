//! Writes that hang or fail do not delay other objects.

use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;

use crate::{
    pod_statuses::{crash_looping, healthy},
    proxy::{BlackHole, ProxiedRequest, Proxy, ProxyAction},
    test_env::{TestEnv, listed, watch_all, watch_with},
};

/// More objects than may write concurrently.
const HANGING: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn hanging_writes_do_not_delay_another_namespace() {
    let (stuck, fine) = (TestEnv::new("stuck").await, TestEnv::new("fine").await);
    let hole = BlackHole::open().await;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(stuck.client.clone());
    let webhook = json!({
        "metadata": {"name": stuck.namespace},
        "webhooks": [{
            "name": "hangs.example.com",
            "clientConfig": {"url": format!("https://127.0.0.1:{}/", hole.port)},
            "rules": [{"apiGroups": ["kopf.dev"], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["orchestrs/status"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stuck.namespace}},
            "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
        }],
    });
    webhooks.create(&PostParams::default(), &serde_json::from_value(webhook).unwrap()).await.unwrap();
    let stuck_ones = (0..HANGING).map(async |number| stuck.object(&format!("hangs-{number}"), watch_all()).await);
    join_all(stuck_ones).await;
    fine.pod("cart", healthy()).await;
    for number in 0..5 {
        fine.object(&format!("works-{number}"), watch_all()).await;
    }
    let proxy = Proxy::start(stuck.client.clone()).await;
    let operator = stuck.operator().through(&proxy).namespaces(&[&stuck.namespace, &fine.namespace]).start();
    let hanging = stuck.namespace.clone();
    proxy
        .wait_for_requests("writes hang", 1, move |request| {
            request.is_status_write() && request.path.contains(&hanging)
        })
        .await;
    // Each write hangs for ten seconds, and so does each retry.
    for restarts in 1..6 {
        let begun = Instant::now();
        fine.set_status("cart", crash_looping(restarts)).await;
        for number in 0..5 {
            let is_reported = |status: &orchestr::api::OrchestrStatus| {
                status.problematic_pods.first().is_some_and(|pod| pod.container_issues[0].restarts == restarts)
            };
            fine.wait_for_status(&format!("works-{number}"), "it is reported", is_reported).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "round {restarts}: {:?}", begun.elapsed());
    }
    let of = |namespace: &str| {
        let path = format!("/namespaces/{namespace}/");
        proxy.count(move |request: &ProxiedRequest| request.is_status_write() && request.path.contains(&path))
    };
    assert!(of(&stuck.namespace) >= 5, "{} of {}", of(&stuck.namespace), of(&fine.namespace));
    webhooks.delete(&stuck.namespace, &DeleteParams::default()).await.unwrap();
    // The API server may call the deleted webhook for a while, and the retries have backed off.
    stuck
        .wait_for_status_within(Duration::from_secs(90), "hangs-0", "it recovers without a restart", |status| {
            !status.conditions.is_empty()
        })
        .await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn backs_off_failed_writes_of_one_object() {
    let env = TestEnv::new("failing").await;
    env.pod("cart", crash_looping(1)).await;
    env.object("bad", watch_all()).await;
    env.object("good", watch_with(json!({"logs": {"enabled": false}}))).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let is_bad = |request: &ProxiedRequest| request.is_status_write() && request.path.ends_with("/bad/status");
    proxy.on(is_bad, ProxyAction::Refuse(503, "no"));
    let _operator = env.operator().through(&proxy).start();
    let begun = Instant::now();
    let mut restarts = 1;
    while begun.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        restarts += 1;
        env.set_status("cart", crash_looping(restarts)).await;
    }
    env.wait_for_status("good", "the other object is still updated", |status| {
        status.problematic_pods.first().is_some_and(|pod| pod.container_issues[0].restarts == restarts)
    })
    .await;
    let tries = proxy.count(is_bad);
    // With backoff, the earliest attempts are after 0, 1, 2, 3, 5 and 9 s; without it, there is one every second.
    assert!((2..=7).contains(&tries), "{tries} tries in {:?}", begun.elapsed());
    proxy.rule(|_| ProxyAction::Forward);
    let status = env.wait_for_status("bad", "it is reported in the end", |status| listed(status) == ["cart"]).await;
    assert_eq!(status.problematic_pods[0].container_issues[0].restarts, restarts);
}
