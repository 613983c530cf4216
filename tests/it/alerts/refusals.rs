//! A receiver that refuses messages about one incident for their content.

use std::time::{Duration, Instant};

use orchestr::metrics::Metrics;
use orchestr_testbed::{Receiver, Reply, eventually};
use serde_json::json;

use super::support::{delivery, spec, webhook};
use crate::{
    pod_statuses::crash_looping,
    support::TIMEOUT,
    test_env::{TestEnv, condition},
};

/// Whether the receiver accepted a message that names a pod.
fn accepted(receiver: &Receiver, pod: &str) -> bool {
    let is_accepted = |body: &str| !body.contains("cart-1");
    receiver.received().iter().any(|request| {
        let body = String::from_utf8_lossy(&request.body);
        is_accepted(&body) && body.contains(pod)
    })
}

async fn wait_until_accepted(receiver: &Receiver, pods: &[&str]) {
    eventually("the receiver accepts messages about the others", TIMEOUT, async || {
        let missing: Vec<_> = pods.iter().filter(|pod| !accepted(receiver, pod)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?} of {}", receiver.received().len())) }
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_incident_holds_up_no_other() {
    let env = TestEnv::new("refusals").await;
    let receiver = Receiver::start().await.unwrap();
    let url = receiver.url("/services/S3CR3T-TOKEN");
    env.secret("ops", &[("url", &url)]).await;
    env.secret("headers", &[("authorization", "Bearer h3ader-s3cret")]).await;
    let words = format!("cannot take <cart-1> at {url}\nfor Bearer h3ader-s3cret: h3ader-s3cret");
    receiver.refuse("cart-1", Reply::Body(400, words));
    for pod in ["cart-0", "cart-1", "cart-2"] {
        env.pod(pod, crash_looping(7)).await;
    }
    let headers = json!({"headersFrom": {"secretRef": {"name": "headers-webhook"}}});
    env.object("cluster", spec(&[webhook("ops", "Slack", headers)])).await;
    let begun = Instant::now();
    let _operator = env.operator().metrics(&Metrics::default()).start();

    wait_until_accepted(&receiver, &["cart-0", "cart-2"]).await;
    println!("the others were accepted after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let status = env
        .until("the incident is marked", |status| condition(status, "AlertsDelivered").1 == "IncidentsRefused")
        .await;
    let expected = format!(
        "1 of 1 webhooks: ops: refuses messages about {}/Pod cart-1: the receiver answered 400: “cannot take <cart-1> at *** \
         for ***: ***”",
        env.namespace
    );
    assert_eq!(condition(&status, "AlertsDelivered"), ("False", "IncidentsRefused", expected.as_str()));
    let ops = delivery(&status, "ops").unwrap();
    let refused: Vec<_> = ops.alerts.iter().filter(|alert| alert.refused_at.is_some()).collect();
    assert_eq!((refused.len(), ops.failures, ops.last_error.as_ref()), (1, 0, None), "{ops:?}");

    // A problem that begins later is sent as if nothing had been refused.
    env.pod("cart-3", crash_looping(7)).await;
    wait_until_accepted(&receiver, &["cart-3"]).await;

    // A change of the Secret lets the incident be tried again.
    receiver.accept();
    let tries = receiver.received().len();
    env.secret("headers", &[("authorization", "Bearer other-s3cret")]).await;
    eventually("the incident is sent again", TIMEOUT, async || {
        let later = receiver.received().split_off(tries);
        let is_sent = later.iter().any(|request| String::from_utf8_lossy(&request.body).contains("cart-1"));
        if is_sent { Ok(()) } else { Err(format!("{} requests", later.len())) }
    })
    .await
    .unwrap();
    env.until("everything is delivered", |status| {
        condition(status, "AlertsDelivered").0 == "True"
            && delivery(status, "ops").is_some_and(|ops| ops.alerts.iter().all(|alert| alert.refused_at.is_none()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_refuses_everything_is_failing() {
    let env = TestEnv::new("refuses-all").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/services/T0"))]).await;
    receiver.refuse("", Reply::Body(400, "invalid_payload".to_owned()));
    for pod in ["cart-0", "cart-1"] {
        env.pod(pod, crash_looping(7)).await;
    }
    env.object("cluster", spec(&[webhook("ops", "Slack", json!({}))])).await;
    let _operator = env.operator().start();
    let status = env
        .until("both incidents are marked", |status| {
            delivery(status, "ops")
                .is_some_and(|ops| ops.alerts.iter().filter(|alert| alert.refused_at.is_some()).count() == 2)
        })
        .await;
    let expected = "1 of 1 webhooks: ops: the receiver answered 400: “invalid_payload”";
    assert_eq!(condition(&status, "AlertsDelivered"), ("False", "DeliveryFailing", expected));
    // A new incident is tried without waiting. It is accepted, and so are the others.
    receiver.accept();
    env.pod("cart-2", crash_looping(7)).await;
    env.until("everything is delivered", |status| {
        condition(status, "AlertsDelivered").0 == "True"
            && delivery(status, "ops").is_some_and(|ops| ops.alerts.iter().all(|alert| alert.refused_at.is_none()))
    })
    .await;
}
