//! The operator's own log.

use std::{fs::File, path::Path, time::Duration};

use orchestr::api::OrchestrStatus;
use orchestr_testbed::{Answer, Kubelet, Options, Receiver, eventually};
use serde_json::{Value, json};
use tokio::process::Child;

use crate::{
    command::run,
    pod_statuses::{crash_looping, failed},
    support::TIMEOUT,
    test_env::{Plane, TestEnv},
};

/// Starts the binary with its log redirected to this file.
fn program(kubeconfig: &Path, log: &Path, more: &[&str]) -> Child {
    run(kubeconfig, more).stderr(File::create(log).unwrap()).spawn().unwrap()
}

/// The lines that were written so far, each a JSON object; the last may be incomplete.
fn lines(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

async fn until_logged(log: &Path, message: &str) -> Value {
    eventually(&format!("the line {message:?}"), TIMEOUT, async || {
        let lines = lines(log);
        lines.iter().find(|line| line["message"] == message).cloned().ok_or(format!("{lines:?}"))
    })
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_its_configuration_with_numbers_as_numbers() {
    let env = TestEnv::new("own-log").await;
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/token-hunter2"))]).await;
    env.pod("cart", crash_looping(7)).await;
    let webhook = json!({
        "name": "ops", "format": "Generic", "after": "0s",
        "urlFrom": {"secretKeyRef": {"name": "ops-webhook", "key": "url"}},
    });
    env.object("cluster", json!({"alerts": {"checkRunningPods": true}, "webhooks": [webhook]})).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let more = ["--namespaces", &env.namespace, "--webhook-allow-http", "--webhook-allow-loopback"];
    let mut operator = program(env.plane.admin_kubeconfig(), &log, &more);
    let delivered = until_logged(&log, "delivered").await;
    assert!(delivered["milliseconds"].is_u64() && delivered["status"] == 200, "{delivered}");
    operator.kill().await.unwrap();

    let lines = lines(&log);
    let expected = json!({
        "level": "INFO", "target": "orchestr::cli::run", "message": "started", "version": env!("CARGO_PKG_VERSION"),
        "namespaces": env.namespace, "streaming_lists": "auto", "pod_log_reads": 8,
        "own_namespace_only": false,
        "webhook_allow_http": true, "webhook_refuse_private": false, "webhook_allow_loopback": true,
        "webhook_proxy_from_env": false, "metrics_without_incidents": false, "leader_elect": false, "heartbeat": false, "log": "info",
    });
    let mut first = lines[0].clone();
    first.as_object_mut().unwrap().remove("timestamp");
    assert_eq!(first, expected);
    assert_eq!(lines.iter().filter(|line| line["message"] == "started").count(), 1);
    for line in &lines {
        for (field, value) in line.as_object().unwrap() {
            let number = value.as_str().is_some_and(|text| text.parse::<f64>().is_ok());
            assert!(!number, "{field} is a number in quotes: {line}");
            assert!(!value.to_string().contains("hunter2"), "{line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn contains_no_line_of_a_containers_log() {
    let env = TestEnv::new("own-log-line").await;
    let kubelet = Kubelet::start(&env.plane, &format!("node-{}", env.namespace)).await.unwrap();
    kubelet.script_default(Answer::text("panic: no such table: orders\n"));
    let receiver = Receiver::start().await.unwrap();
    env.secret("ops", &[("url", &receiver.url("/"))]).await;
    env.pod_with("cart", json!({"spec": {"nodeName": kubelet.node_name()}}), failed(1)).await;
    let webhook = json!({
        "name": "ops", "format": "Generic", "after": "0s",
        "urlFrom": {"secretKeyRef": {"name": "ops-webhook", "key": "url"}},
    });
    env.object("cluster", json!({"alerts": {"checkRunningPods": true}, "webhooks": [webhook]})).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let more = ["--namespaces", &env.namespace, "--webhook-allow-http", "--webhook-allow-loopback", "--log", "trace"];
    let mut operator = program(env.plane.admin_kubeconfig(), &log, &more);
    let quotes = |status: &OrchestrStatus| status.incidents.iter().any(|own| own.log_line.contains("no such table"));
    env.until("the log is quoted", quotes).await;
    until_logged(&log, "delivered").await;
    operator.kill().await.unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(!text.contains("no such table"), "{text}");
}

/// As if the CRD and the operator were applied together.
#[tokio::test(flavor = "multi_thread")]
async fn waits_until_the_crd_is_established() {
    let plane = Plane::start(Options::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut operator = program(plane.admin_kubeconfig(), &log, &[]);
    until_logged(&log, "waiting for the CustomResourceDefinition of Orchestr").await;
    crate::support::install_crd(&plane).await;
    until_logged(&log, "started").await;
    assert!(operator.try_wait().unwrap().is_none(), "it runs on");
    operator.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn gives_up_after_half_a_minute_without_the_crd() {
    let plane = Plane::start(Options::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let begun = std::time::Instant::now();
    let mut operator = program(plane.admin_kubeconfig(), &log, &[]);
    let status = tokio::time::timeout(TIMEOUT, operator.wait()).await.expect("it gives up").unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(begun.elapsed() >= Duration::from_secs(30), "{:?}", begun.elapsed());
    let text = std::fs::read_to_string(&log).unwrap();
    assert_eq!(
        text.lines().last(),
        Some(
            "orchestr: the CustomResourceDefinition of Orchestr is not installed: apply it with `orchestr crd | kubectl \
             apply --server-side -f -`"
        )
    );
    assert_eq!(text.lines().count(), 2, "{text}");
}
