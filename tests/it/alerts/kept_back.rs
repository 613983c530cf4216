//! What keeps messages from being sent inside the cluster: Secrets that cannot be read, and a status that cannot be written.

use std::time::Duration;

use orchestr::{alerts::delivery::DeliveryTimings, config::Timings, metrics::Unhealthy};
use orchestr_testbed::{Receiver, eventually};
use serde_json::json;
use tokio::time::Instant;

use super::support::{delivery, ids, spec, webhook};
use crate::{
    pod_statuses::crash_looping,
    proxy::{ProxiedRequest, Proxy, ProxyAction, SETTLE_TIME},
    support::TIMEOUT,
    telemetry::MetricsPage,
    test_env::{TestEnv, condition},
};

/// After how long messages are sent unstored.
const UNSTORED_AFTER: Duration = Duration::from_secs(3);

fn timings() -> Timings {
    let alerts = DeliveryTimings {
        secrets_retry_interval: Duration::from_secs(2),
        secrets_max_age: Duration::from_millis(500),
        unstored_after: UNSTORED_AFTER,
        pacing_divisor: 15,
    };
    Timings { status_write_interval: Duration::from_millis(200), alerts, ..Timings::default() }
}

fn is_read_of_secret(request: &ProxiedRequest) -> bool {
    request.method == "GET" && request.path.contains("/secrets/")
}

/// A receiver, an operator's metrics and a proxy, for an object with one webhook and a failing pod.
struct Story {
    env: TestEnv,
    receiver: Receiver,
    page: MetricsPage,
    proxy: Proxy,
}

impl Story {
    async fn begin(name: &str) -> Self {
        let env = TestEnv::new(name).await;
        let receiver = Receiver::start().await.unwrap();
        env.secret("ops", &[("url", &receiver.url("/hook"))]).await;
        env.pod("cart-0", crash_looping(7)).await;
        env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
        let proxy = Proxy::start(env.client.clone()).await;
        Self { env, receiver, page: MetricsPage::start(), proxy }
    }

    fn operator(&self) -> crate::running_operator::RunningOperator {
        self.env.operator().through(&self.proxy).metrics(&self.page.metrics).timings(timings()).start()
    }

    fn refuse(&self, code: u16, wanted: fn(&ProxiedRequest) -> bool) {
        self.proxy.rule(move |request| match wanted(request) {
            true => ProxyAction::Refuse(code, "refused by a test"),
            false => ProxyAction::Forward,
        });
    }

    /// Waits until the metric counts this many failing webhooks, and checks that the heartbeat follows it.
    async fn wait_for_failing(&self, count: usize) {
        let series = format!("orchestr_failing_webhooks{{object=\"{}/cluster\"}}", self.env.namespace);
        self.page.wait_for(&format!("{count} webhooks fail"), |page| page.value(&series) == count as f64).await;
        let later = Instant::now() + Duration::from_secs(11 * 60);
        let expected = if count == 0 { Ok(()) } else { Err(Unhealthy::NotDelivering) };
        assert_eq!(self.page.metrics.is_delivering(None, later), expected);
    }

    async fn wait_until_recorded(&self) {
        self.env
            .until("all is delivered", |status| {
                let is_recorded =
                    delivery(status, "ops").is_some_and(|ops| ops.last_success.is_some() && ops.pending.is_none());
                is_recorded && condition(status, "AlertsDelivered").0 == "True"
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_was_read_is_used_while_it_cannot_be_read() {
    let story = Story::begin("secret-memory").await;
    let operator = story.operator();
    story.wait_until_recorded().await;
    story.refuse(500, is_read_of_secret);
    let reads = story.proxy.count(is_read_of_secret);
    // A change of the spec that does not concern the Secret.
    let changed = webhook("ops", "Generic", json!({"timeout": "11s"}));
    story.env.update_spec("cluster", json!({"webhooks": [changed]})).await;
    story.proxy.wait_for_requests("the Secret is read again", reads + 1, is_read_of_secret).await;
    story.env.pod("web-0", crash_looping(3)).await;
    let sent = story.receiver.wait_for(2, TIMEOUT).await.unwrap();
    assert!(String::from_utf8_lossy(&sent[1].body).contains("web-0"));
    story.wait_for_failing(1).await;
    let status =
        story.env.until("the condition says so", |status| condition(status, "AlertsDelivered").0 == "False").await;
    assert_eq!(
        condition(&status, "AlertsDelivered"),
        (
            "False",
            "SecretsUnreadable",
            "1 of 1 webhooks: ops: the API server answers 500 to requests for its Secrets; until it is restarted, the \
             operator sends to the receiver that it read before"
        )
    );
    story.proxy.rule(|_| ProxyAction::Forward);
    story.wait_until_recorded().await;
    story.wait_for_failing(0).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_that_were_never_readable_are_reported() {
    let story = Story::begin("secret-never").await;
    story.refuse(500, is_read_of_secret);
    let _operator = story.operator();
    story.wait_for_failing(1).await;
    let status =
        story.env.until("the condition says so", |status| condition(status, "AlertsDelivered").0 == "False").await;
    let (_, reason, message) = condition(&status, "AlertsDelivered");
    assert_eq!(reason, "SecretsUnreadable");
    assert_eq!(message, "1 of 1 webhooks: ops: the API server answers 500 to requests for its Secrets");
    let reads = story.proxy.count(is_read_of_secret);
    assert!(reads <= 6, "{reads} reads, which double their distance from 5 s on");
    story.proxy.rule(|_| ProxyAction::Forward);
    story.receiver.wait_for(1, TIMEOUT).await.unwrap();
    story.wait_for_failing(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_stored_is_reported_and_sent_later() {
    let story = Story::begin("unstored").await;
    story.refuse(403, ProxiedRequest::is_status_write);
    let operator = story.operator();
    story.proxy.wait_for_requests("it is to be stored", 1, ProxiedRequest::is_delivery_state_write).await;
    let begun = Instant::now();
    story.wait_for_failing(1).await;
    let sent = story.receiver.wait_for(1, TIMEOUT).await.unwrap();
    // The first write fails before this test sees it.
    assert!(begun.elapsed() + Duration::from_millis(500) >= UNSTORED_AFTER, "{:?}", begun.elapsed());
    assert_eq!(sent[0].json()["status"], "firing");
    let event = eventually("an event says so", TIMEOUT, async || {
        let events = story.env.events("cluster").await;
        let event = events.into_iter().find(|event| event.reason.as_deref() == Some("AlertsNotStored"));
        event.ok_or_else(|| "there is none".to_owned())
    });
    let note = event.await.unwrap().note.unwrap();
    assert_eq!(
        note,
        "alerts are sent although their state cannot be stored (Forbidden (403)): after a restart, what lasts is sent again, \
         possibly in other messages with other IDs, and what has ended stays open at receivers that track alerts"
    );
    // The next operator does not know what this one has sent.
    operator.stop().await;
    let next = story.operator();
    let sent = story.receiver.wait_for(2, TIMEOUT).await.unwrap();
    assert_eq!(ids(&sent)[0], ids(&sent)[1], "it is the same message");
    assert_eq!(delivery(&story.env.status("cluster").await, "ops"), None);
    story.wait_for_failing(1).await;
    story.proxy.rule(|_| ProxyAction::Forward);
    story.wait_until_recorded().await;
    story.wait_for_failing(0).await;
    story.env.delete_pod("cart-0").await;
    let sent = story.receiver.wait_for(3, TIMEOUT).await.unwrap();
    assert_eq!(sent[2].json()["status"], "resolved");
    assert_eq!(sent.len(), 3, "what was sent unstored is not sent again");
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_sent_unstored_for_what_another_may_own() {
    for code in [404, 409] {
        let story = Story::begin("owned").await;
        story.refuse(code, ProxiedRequest::is_delivery_state_write);
        let _operator = story.operator();
        story.wait_for_failing(1).await;
        tokio::time::sleep(UNSTORED_AFTER + SETTLE_TIME).await;
        assert_eq!(story.receiver.received().len(), 0, "{code}");
    }
}
