//! Which receiver a webhook has: the same one after a change that does not concern its URL, and what one that it leaves is
//! sent.

use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use orchestr::{alerts::delivery::DeliveryTimings, config::Timings};
use orchestr_testbed::{Received, Receiver, Reply, eventually};
use serde_json::{Value, json};
use std::time::Duration;

use super::support::{delivery, spec, webhook};
use crate::{
    pod_statuses::crash_looping,
    running_operator::RunningOperator,
    support::TIMEOUT,
    test_env::{TestEnv, condition},
};

const OLD: &str = "/?routing_key=a1";
const NEW: &str = "/?routing_key=b2";

/// An object with one webhook that was sent an alert about one failing pod.
struct Story {
    env: TestEnv,
    receiver: Receiver,
    operator: Option<RunningOperator>,
}

impl Story {
    async fn begin(name: &str, format: &str) -> Self {
        let env = TestEnv::new(name).await;
        let receiver = Receiver::start().await.unwrap();
        env.secret("ops", &[("url", &receiver.url(OLD))]).await;
        env.pod("cart-0", crash_looping(7)).await;
        env.object("cluster", spec(&[webhook("ops", format, json!({}))])).await;
        let mut story = Self { env, receiver, operator: None };
        story.start();
        story
            .env
            .until("the alert is sent", |status| {
                let is_recorded = |ops: &_| -> bool {
                    let ops: &orchestr::api::WebhookStatus = ops;
                    ops.last_success.is_some() && ops.pending.is_none()
                };
                delivery(status, "ops").is_some_and(is_recorded) && condition(status, "AlertsDelivered").0 == "True"
            })
            .await;
        // Alertmanager is sent its alerts again and again.
        assert!(story.receiver.received().len() == 1 || format == "Alertmanager");
        story
    }

    fn start(&mut self) {
        // The Secrets of open alerts are read every half a minute in production.
        let alerts = DeliveryTimings {
            secrets_max_age: Duration::from_millis(500),
            pacing_divisor: 15,
            ..DeliveryTimings::default()
        };
        let timings = Timings { status_write_interval: Duration::from_millis(200), alerts, ..Timings::default() };
        self.operator = Some(self.env.operator().timings(timings).start());
    }

    async fn stop(&mut self) {
        self.operator.take().unwrap().stop().await;
    }

    async fn update_webhooks(&self, webhooks: &[Value]) {
        self.env.update_spec("cluster", json!({ "webhooks": webhooks })).await;
    }

    /// Ends the incident. When its end has arrived, nothing else is under way.
    async fn end(&self) {
        self.env.delete_pod("cart-0").await;
    }

    /// Waits until this many requests have arrived.
    async fn received(&self, count: usize) -> Vec<Received> {
        self.receiver.wait_for(count, TIMEOUT).await.unwrap()
    }

    async fn not_ended(&self) -> String {
        let event = eventually("an event says what was not ended", TIMEOUT, async || {
            let events = self.env.events("cluster").await;
            let event = events.into_iter().find(|event| event.reason.as_deref() == Some("AlertsNotEnded"));
            event.and_then(|event| event.note).ok_or_else(|| "there is none".to_owned())
        });
        event.await.unwrap()
    }
}

/// What each PagerDuty event does, and with which key.
fn actions(received: &[Received]) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    received
        .iter()
        .map(Received::json)
        .map(|event| (text(&event["event_action"]), text(&event["routing_key"])))
        .collect()
}

fn action(action: &str, key: &str) -> (String, String) {
    (action.to_owned(), key.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotated_secret_is_the_same_receiver() {
    let mut story = Story::begin("annotated", "Generic").await;
    story.stop().await;
    let config = delivery(&story.env.status("cluster").await, "ops").unwrap().config.clone();
    let secrets: Api<Secret> = Api::namespaced(story.env.client.clone(), &story.env.namespace);
    let patch = json!({"metadata": {"annotations": {"example.com/rotated": "never"}}});
    secrets.patch("ops-webhook", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    story.start();
    story
        .env
        .until("the change is noticed", |status| delivery(status, "ops").is_some_and(|ops| ops.config != config))
        .await;
    story.end().await;
    let received = story.received(2).await;
    let statuses: Vec<_> = received.iter().map(|message| message.json()["status"].clone()).collect();
    assert_eq!(statuses, ["firing", "resolved"], "nothing is sent again");
    story.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_secret_with_the_same_url_is_the_same_receiver() {
    let mut story = Story::begin("same-url", "PagerDuty").await;
    story.env.secret("other", &[("url", &story.receiver.url(OLD))]).await;
    let reference = json!({"urlFrom": {"secretKeyRef": {"name": "other-webhook", "key": "url"}}});
    let config = delivery(&story.env.status("cluster").await, "ops").unwrap().config.clone();
    story.update_webhooks(&[webhook("ops", "PagerDuty", reference)]).await;
    story
        .env
        .until("the change is noticed", |status| delivery(status, "ops").is_some_and(|ops| ops.config != config))
        .await;
    story.end().await;
    let received = story.received(2).await;
    assert_eq!(actions(&received), [action("trigger", "a1"), action("resolve", "a1")]);
    story.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_webhook_ends_its_alerts() {
    let mut story = Story::begin("removed", "PagerDuty").await;
    story.update_webhooks(&[]).await;
    let received = story.received(2).await;
    assert_eq!(actions(&received), [action("trigger", "a1"), action("resolve", "a1")]);
    assert_eq!(received[0].json()["dedup_key"], received[1].json()["dedup_key"]);
    assert!(String::from_utf8_lossy(&received[1].body).contains("NO LONGER SENT HERE"));
    story.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_keeps_the_receiver_keeps_its_alerts() {
    let mut story = Story::begin("renamed", "PagerDuty").await;
    let reference = json!({"urlFrom": {"secretKeyRef": {"name": "ops-webhook", "key": "url"}}});
    story.update_webhooks(&[webhook("pager", "PagerDuty", reference)]).await;
    let received = story.received(2).await;
    assert_eq!(received[0].json()["dedup_key"], received[1].json()["dedup_key"]);
    story.end().await;
    let received = story.received(3).await;
    // For PagerDuty, the second event is the same incident.
    assert_eq!(actions(&received), [action("trigger", "a1"), action("trigger", "a1"), action("resolve", "a1")]);
    story.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_routing_key_ends_the_alerts_of_the_old_one() {
    let mut story = Story::begin("rekeyed", "PagerDuty").await;
    story.env.secret("ops", &[("url", &story.receiver.url(NEW))]).await;
    let received = story.received(3).await;
    let mut later = actions(&received[1..]);
    later.sort_unstable();
    assert_eq!(later, [action("resolve", "a1"), action("trigger", "b2")]);
    story.end().await;
    let received = story.received(4).await;
    assert_eq!(actions(&received[3..]), [action("resolve", "b2")]);
    story.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_says_which_alerts_could_not_be_ended() {
    let mut story = Story::begin("not-ended", "PagerDuty").await;
    story.stop().await;
    story.env.secret("ops", &[("url", &story.receiver.url(NEW))]).await;
    story.start();
    assert_eq!(
        story.not_ended().await,
        "1 alert stays open at the receiver that webhook ops has left, because the operator was restarted since, and does \
         not know its URL: resolve it there"
    );
    let received = story.received(2).await;
    assert_eq!(actions(&received), [action("trigger", "a1"), action("trigger", "b2")]);
    story.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_says_what_a_webhook_left_while_nothing_ran() {
    let mut story = Story::begin("removed-early", "PagerDuty").await;
    story.stop().await;
    story.update_webhooks(&[]).await;
    story.start();
    assert_eq!(
        story.not_ended().await,
        "1 alert stays open at the receiver that webhook ops has left, because the operator was not running when the webhook \
         was removed: resolve it there"
    );
    assert_eq!(story.receiver.received().len(), 1);
    story.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_webhook_that_is_silenced_ends_its_alerts() {
    let mut story = Story::begin("renamed-silenced", "PagerDuty").await;
    let reference = json!({"urlFrom": {"secretKeyRef": {"name": "ops-webhook", "key": "url"}}});
    let silence =
        json!({"name": "all", "until": "2999-01-01T00:00:00Z", "match": {"namespaces": [story.env.namespace]}});
    let webhooks = [webhook("pager", "PagerDuty", reference)];
    story.env.update_spec("cluster", json!({"webhooks": webhooks, "silences": [silence]})).await;
    let received = story.received(2).await;
    assert_eq!(actions(&received), [action("trigger", "a1"), action("resolve", "a1")]);
    story.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_added_again_is_sent_what_lasts() {
    let mut story = Story::begin("added-again", "PagerDuty").await;
    story.update_webhooks(&[]).await;
    story.received(2).await;
    story.update_webhooks(&[webhook("ops", "PagerDuty", json!({}))]).await;
    let received = story.received(3).await;
    assert_eq!(actions(&received), [action("trigger", "a1"), action("resolve", "a1"), action("trigger", "a1")]);
    story.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_says_which_ends_it_interrupts() {
    let mut story = Story::begin("interrupted", "PagerDuty").await;
    story.receiver.then([Reply::Hang]);
    story.update_webhooks(&[]).await;
    story.received(2).await;
    story.stop().await;
    assert_eq!(
        story.not_ended().await,
        "1 alert stays open at the receiver that webhook ops has left, because the operator was stopped before it accepted the \
         messages: resolve it there"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_webhook_keeps_its_alerts_alive_after_a_restart() {
    let mut story = Story::begin("wrong-restarted", "Alertmanager").await;
    story.stop().await;
    story.update_webhooks(&[webhook("ops", "Alertmanager", json!({"match": {"namespaces": ["[z-a]"]}}))]).await;
    let before = story.receiver.received().len();
    story.start();
    let received = story.received(before + 2).await;
    assert!(received.iter().all(|request| String::from_utf8_lossy(&request.body).contains("cart-0")));
    let status = story.env.status("cluster").await;
    assert_eq!(condition(&status, "AlertsDelivered").1, "WebhookUnusable");
    story.stop().await;
}
