//! A replica that begins to lead before it has read the Jobs of failed pods.

use std::time::Duration;

use orchestr::api::AlertPhase;
use orchestr_testbed::Receiver;
use serde_json::{Value, json};

use crate::{
    alerts::support::{delivery, spec, webhook},
    pod_statuses::{ago, completed, container, failed_for_good, terminated},
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    support::TIMEOUT,
    test_env::{TestEnv, condition},
};

fn is_of_job(request: &ProxiedRequest) -> bool {
    request.method == "GET" && request.path.contains("/jobs/")
}

/// A Job with a pod that failed an hour ago.
async fn job_with_failed_pod(env: &TestEnv, name: &str, status: Value) {
    let owner = env.job(name, status).await;
    let app = container("app", json!({"state": terminated(1, &ago(3700), &ago(3600))}));
    env.pod_with(&format!("{name}-0"), owner, json!({"phase": "Failed", "containerStatuses": [app]})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_pods_of_unread_jobs_neither_begin_nor_end_alerts() {
    let env = TestEnv::new("unread-jobs").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    for number in 0..5 {
        job_with_failed_pod(&env, &format!("good-{number}"), completed(3600)).await;
    }
    job_with_failed_pod(&env, "bad", failed_for_good(3600)).await;
    env.object("cluster", spec(&[webhook("ops", "Generic", json!({}))])).await;
    let operator = env.operator().fast_alerts().start();
    receiver.wait_for(1, TIMEOUT).await.unwrap();
    let before = env
        .until("the alert is sent", |status| {
            delivery(status, "ops").is_some_and(|ops| ops.pending.is_none() && ops.last_success.is_some())
        })
        .await;
    assert_eq!((before.problematic_pod_count, condition(&before, "PodsHealthy").0), (1, "False"));
    operator.stop().await;

    // The next one cannot read any Job, so its first status takes a minute.
    let proxy = Proxy::start(env.client.clone()).await;
    proxy.on(is_of_job, ProxyAction::Hang);
    let operator = env.operator().through(&proxy).fast_alerts().start();
    let written = env
        .wait_for_status_within(Duration::from_secs(120), "cluster", "it has written the status", |status| {
            status.last_check_time > before.last_check_time
        })
        .await;
    let names: Vec<&str> = written.problematic_pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, ["bad-0"], "what is unknown is no problem, and what was reported is not over");
    env.delete_pod("bad-0").await;
    let status = env.until("no problem is left", |status| status.problematic_pod_count == 0).await;
    let (healthy, reason, message) = condition(&status, "PodsHealthy");
    assert_eq!((healthy, reason), ("Unknown", "PodsUnreadable"), "{message}");
    assert_eq!(message, "the Jobs of 5 failed pods were not read yet");

    proxy.rule(|_| ProxyAction::Forward);
    let status = env
        .wait_for_status_within(2 * TIMEOUT, "cluster", "all Jobs are read", |status| {
            condition(status, "PodsHealthy").0 == "True"
        })
        .await;
    let received = receiver.wait_for(2, 2 * TIMEOUT).await.unwrap();
    let sent: Vec<(Value, Value)> = received
        .iter()
        .map(|request| {
            let message = request.json();
            (message["status"].clone(), message["alerts"][0]["labels"]["owner_name"].clone())
        })
        .collect();
    assert_eq!(sent, [(json!("firing"), json!("bad")), (json!("resolved"), json!("bad"))]);
    let phases: Vec<AlertPhase> = delivery(&status, "ops").unwrap().alerts.iter().map(|alert| alert.phase).collect();
    assert!(phases.len() == 1, "{phases:?}");
    operator.stop().await;
}
