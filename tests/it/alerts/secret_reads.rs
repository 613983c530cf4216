//! How often Secrets are read.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{delivery, spec, webhook};
use crate::{
    proxy::{ProxiedRequest, Proxy},
    test_env::TestEnv,
};

fn is_read_of_secret(request: &ProxiedRequest) -> bool {
    request.method == "GET" && request.path.contains("/secrets/")
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_with_the_same_secret_read_it_together() {
    let env = TestEnv::new("secret-shared").await;
    let proxy = Proxy::start(env.client.clone()).await;
    let shared = json!({"urlFrom": {"secretKeyRef": {"name": "missing", "key": "url"}}});
    let webhooks: Vec<Value> =
        (0..10).map(|number| webhook(&format!("ops-{number}"), "Slack", shared.clone())).collect();
    env.object("cluster", spec(&webhooks)).await;
    let _operator = env.operator().through(&proxy).start();
    env.until("all webhooks are unusable", |status| {
        (0..10).all(|number| delivery(status, &format!("ops-{number}")).is_some())
    })
    .await;
    let reads = proxy.count(is_read_of_secret);
    assert!((1..=5).contains(&reads), "{reads} reads for ten webhooks, which retry once or twice in this time");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_unusable_webhooks_stay_within_the_rate() {
    let env = TestEnv::new("secret-rate").await;
    let proxy = Proxy::start(env.client.clone()).await;
    // 600 different Secrets, so that the rate of the first reads shows it, not only that of the retries.
    for object in 0..15 {
        let webhooks: Vec<Value> = (0..10)
            .map(|number| {
                let reference =
                    |use_: &str, key: &str| json!({"name": format!("{use_}-{object}-{number}"), "key": key});
                webhook(
                    &format!("ops-{number}"),
                    "Slack",
                    json!({
                        "urlFrom": {"secretKeyRef": reference("url", "url")},
                        "signingKeyFrom": {"secretKeyRef": reference("key", "key")},
                        "caFrom": {"secretKeyRef": reference("ca", "ca")},
                        "headersFrom": {"secretRef": {"name": format!("headers-{object}-{number}")}},
                    }),
                )
            })
            .collect();
        env.object(&format!("cluster-{object}"), spec(&webhooks)).await;
    }
    let begun = Instant::now();
    let _operator = env.operator().through(&proxy).start();
    proxy.wait_for_requests("most Secrets are read", 500, is_read_of_secret).await;
    let took = begun.elapsed();
    // 100 immediately, and then 50 a second.
    assert!(took >= Duration::from_secs(8), "500 reads in {took:?}");
}
