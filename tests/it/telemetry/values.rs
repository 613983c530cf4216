//! What the page of metrics shows of a real operator.

use std::collections::BTreeSet;

use orchestr_testbed::promtool;
use regex::Regex;
use serde_json::json;

use super::support::{MetricsPage, Page, Scenario};
use crate::{
    pod_statuses::crash_looping,
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    test_env::{TestEnv, watch_all},
};

async fn assert_valid(page: &Page) {
    let checked = promtool(&["check", "metrics"], &page.text).await.unwrap();
    assert!(checked.success && checked.text.is_empty(), "{}\n{}", checked.text, page.text);
}

/// The metrics in the tables of docs/metrics.md.
fn documented() -> BTreeSet<String> {
    let name = Regex::new("`((?:orchestr|process)_[a-z_]+)`").unwrap();
    let document = include_str!("../../../docs/metrics.md");
    let (tables, _) = document.split_once("## Bounds").unwrap();
    let cells = tables.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.flat_map(|cell| name.captures_iter(cell).map(|found| found[1].to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn shows_incidents_deliveries_and_its_own_health() {
    let scenario = Scenario::start("metrics").await;
    let page = scenario.page.read().await;
    println!("{}", page.text);
    assert_valid(&page).await;
    let namespace = format!("namespace=\"{}\"", scenario.env.namespace);
    let object = format!("object=\"{}/cluster\"", scenario.env.namespace);
    let crash = [&namespace, "owner_name=\"cart-1\"", "container=\"app\"", "kind=\"Crash\"", "reason=\"OOMKilled\""];
    let node = format!("cause_name=\"{}\"", scenario.node);
    for (name, labels, value) in [
        ("orchestr_pods", &[object.as_str()][..], 7.0),
        ("orchestr_problem_pods", &[&object, &namespace, "reason=\"NotReady\""], 6.0),
        ("orchestr_problem_pods", &[&object, &namespace, "reason=\"OOMKilled\""], 1.0),
        ("orchestr_incident_pods", &crash, 1.0),
        ("orchestr_incident_pods", &["kind=\"NotReady\"", "owner_kind=\"StatefulSet\"", "owner_name=\"a\""], 2.0),
        ("orchestr_incident_series_omitted", &[], 0.0),
        ("orchestr_common_cause_pods", &[&object, "cause_kind=\"Node\"", &node], 6.0),
        ("orchestr_failing_webhooks", &[&object], 1.0),
        ("orchestr_container_terminations_total", &[&namespace, "reason=\"OOMKilled\""], 2.0),
        ("orchestr_incidents_opened_total", &["kind=\"Crash\""], 2.0),
        ("orchestr_incidents_opened_total", &["kind=\"NotReady\""], 3.0),
        ("orchestr_incidents_resolved_total", &["kind=\"Crash\""], 1.0),
        ("orchestr_incidents_resolved_total", &["kind=\"NotReady\""], 0.0),
        ("orchestr_synced", &[], 1.0),
        ("orchestr_leader", &[], 1.0),
    ] {
        assert_eq!(page.sum(name, labels), value, "{name} {labels:?}");
    }
    for (name, labels) in [
        ("orchestr_notifications_total", &["format=\"Generic\"", "result=\"delivered\""][..]),
        ("orchestr_notifications_total", &["format=\"Slack\"", "result=\"connection_refused\""]),
        ("orchestr_status_writes_total", &["result=\"written\""]),
        ("orchestr_api_requests_total", &["verb=\"watch\"", "resource=\"pods\"", "code=\"200\""]),
        ("orchestr_api_requests_total", &["verb=\"patch\"", "resource=\"orchestrs/status\"", "code=\"200\""]),
        ("orchestr_api_requests_total", &["verb=\"watch\"", "resource=\"events\"", "code=\"500\""]),
        ("orchestr_detection_latency_seconds_count", &[]),
        ("process_resident_memory_bytes", &[]),
    ] {
        assert!(page.sum(name, labels) >= 1.0, "{name} {labels:?}");
    }
    let now = jiff::Timestamp::now().as_second() as f64;
    let start = page.sum("orchestr_incident_start_time_seconds", &crash);
    assert!(now - 600.0 < start && start < now, "{start} {now}");
    assert!((now - page.value("orchestr_last_pod_event_timestamp_seconds")).abs() < 120.0);
    assert!(!page.text.contains("hunter2"), "the path of a Secret's URL");

    let present: BTreeSet<String> = page.types().keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(present, documented(), "docs/metrics.md lists the metrics");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_removes_incidents_without_resolving_them() {
    let env = TestEnv::new("metrics-pause").await;
    let page = MetricsPage::start();
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().metrics(&page.metrics).start();
    page.wait_for("it is shown", |page| page.sum("orchestr_incident_pods", &[]) == 1.0).await;
    env.patch_object("cluster", json!({"spec": {"alerts": {"checkRunningPods": false}}})).await;
    let paused = page.wait_for("it is withdrawn", |page| page.sum("orchestr_incident_pods", &[]) == 0.0).await;
    assert_eq!(paused.sum("orchestr_incidents_resolved_total", &[]), 0.0, "a pause is no recovery");
    assert_eq!(paused.sum("orchestr_pods", &[]), 0.0);
    env.patch_object("cluster", json!({"spec": {"alerts": {"checkRunningPods": true}}})).await;
    page.wait_for("it is shown again", |page| page.sum("orchestr_incident_pods", &[]) == 1.0).await;
    env.delete_pod("cart").await;
    let over = page.wait_for("it is over", |page| page.sum("orchestr_incident_pods", &[]) == 0.0).await;
    assert_eq!(over.sum("orchestr_incidents_resolved_total", &["Crash"]), 1.0);
    assert_eq!(over.sum("orchestr_incidents_opened_total", &[]), 0.0, "it began before it was watched");
}

#[tokio::test(flavor = "multi_thread")]
async fn incidents_stay_while_the_pods_are_not_known() {
    let env = TestEnv::new("metrics-denied").await;
    let page = MetricsPage::start();
    env.pod("cart", crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let _operator = env.operator().through(&proxy).metrics(&page.metrics).start();
    let shown = page.wait_for("it is shown", |page| page.sum("orchestr_incident_pods", &[]) == 1.0).await;
    proxy.on(ProxiedRequest::is_of_pods, ProxyAction::Refuse(403, "pods is forbidden"));
    proxy.end_watches();
    env.wait_for_ready("cluster", "PodAccessDenied").await;
    let denied = page.wait_for("it is not synced", |page| page.value("orchestr_synced") == 0.0).await;
    assert_eq!(denied.sum("orchestr_incident_pods", &[]), 1.0);
    let last_event = "orchestr_last_pod_event_timestamp_seconds";
    assert_eq!(denied.value(last_event), shown.value(last_event), "a refusal is no change of a pod");
    proxy.rule(|_| ProxyAction::Forward);
    let restored = page.wait_for("it is synced", |page| page.value("orchestr_synced") == 1.0).await;
    assert_eq!(restored.sum("orchestr_incidents_resolved_total", &[]), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_cannot_break_the_page() {
    let env = TestEnv::new("metrics-names").await;
    let page = MetricsPage::start();
    let hostile = "x\"} 1\n# TYPE orchestr_pods counter\norchestr_pods{a=\"\\\u{202e}";
    let owner = json!([{"apiVersion": "a/v1", "kind": hostile, "name": hostile, "uid": "u", "controller": true}]);
    let mut status = crash_looping(3);
    status["containerStatuses"][0]["lastState"]["terminated"]["reason"] = json!(hostile);
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().metrics(&page.metrics).start();
    env.wait_for_ready("cluster", "Watching").await;
    env.pod_with("evil", json!({"metadata": {"ownerReferences": owner}}), status).await;
    let shown = page.wait_for("it is shown", |page| page.sum("orchestr_incident_pods", &[]) == 1.0).await;
    assert_valid(&shown).await;
    assert_eq!(shown.sum("orchestr_container_terminations_total", &[]), 1.0);
    assert_eq!(shown.types()["orchestr_pods"], "gauge");
    assert!(!shown.text.contains('\u{202e}'), "{}", shown.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_watch_of_the_objects_is_not_synced() {
    let env = TestEnv::new("metrics-objects").await;
    let page = MetricsPage::start();
    env.object("cluster", watch_all()).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let _operator = env.operator().through(&proxy).metrics(&page.metrics).start();
    page.wait_for("it is synced", |page| page.value("orchestr_synced") == 1.0).await;
    proxy.rule(|request| match request.method == "GET" && request.path.ends_with("/orchestrs") {
        true => ProxyAction::Refuse(403, "orchestrs is forbidden"),
        false => ProxyAction::Forward,
    });
    proxy.end_watches();
    let denied = page.wait_for("it is not synced", |page| page.value("orchestr_synced") == 0.0).await;
    assert!(denied.sum("orchestr_watch_restarts_total", &["orchestrs"]) >= 1.0);
    proxy.rule(|_| ProxyAction::Forward);
    page.wait_for("it is synced again", |page| page.value("orchestr_synced") == 1.0).await;
}
