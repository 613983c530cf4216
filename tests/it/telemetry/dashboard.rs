//! A real Prometheus scrapes an operator with sick pods.

use std::{collections::BTreeSet, fs};

use orchestr_testbed::{Prometheus, eventually, promtool};
use regex::Regex;
use serde_json::{Value, json};

use super::{
    documents::{repository, rules},
    support::Scenario,
};
use crate::support::TIMEOUT;

/// The queries of all panels, with Grafana's variables replaced.
fn queries() -> Vec<String> {
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(repository("deploy/monitoring/dashboard.json")).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets
        .map(|target| target["expr"].as_str().unwrap().replace("$object", ".*").replace("$__rate_interval", "30s"));
    queries.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_query_of_dashboard_and_rules_returns_data() {
    let scenario = Scenario::start("dashboard").await;
    let prometheus = Prometheus::start(scenario.page.port).await.unwrap();
    let name = Regex::new("orchestr_[a-z_]+").unwrap();
    let expressions: Vec<String> = rules().iter().map(|rule| rule["expr"].as_str().unwrap().to_owned()).collect();
    let metrics: BTreeSet<String> =
        expressions.iter().flat_map(|text| name.find_iter(text).map(|found| found.as_str().to_owned())).collect();
    assert_eq!(metrics.len(), 6, "{metrics:?}");
    let queries = queries();
    assert!(queries.len() > 25, "{}", queries.len());
    assert!(queries.iter().all(|query| !query.contains('$')), "{queries:#?}");
    for query in queries.iter().chain(&metrics) {
        eventually(query, TIMEOUT, async || match prometheus.query(query).await {
            Ok(samples) if !samples.is_empty() => Ok(()),
            Ok(_) => Err(format!("no data; {}", prometheus.targets().await.unwrap_or_default())),
            Err(error) => Err(error.to_string()),
        })
        .await
        .unwrap();
    }
    let incidents = prometheus.query("orchestr_incident_pods{kind=\"Crash\"}").await.unwrap();
    let namespace = scenario.env.namespace.as_str();
    assert_eq!(incidents[0]["metric"]["namespace"], namespace, "the label is that of the broken pods");
    let down = prometheus.query(&expressions[0]).await.unwrap();
    assert_eq!(down, [Value::Null; 0], "it is not down");
    let common = prometheus.query(expressions.last().unwrap()).await.unwrap();
    assert_eq!(common[0]["metric"]["cause_name"], scenario.node);
}

#[tokio::test]
async fn failures_that_two_replicas_count_are_shown_once() {
    let query = queries().into_iter().find(|query| query.contains("orchestr_container_terminations_total")).unwrap();
    let series = ["a", "b"].map(|instance| {
        let labels = format!("instance=\"{instance}\", namespace=\"shop\", reason=\"Error\"");
        json!({"series": format!("orchestr_container_terminations_total{{{labels}}}"), "values": "0+1x40"})
    });
    let test = json!({
        "rule_files": [],
        "tests": [{
            "interval": "15s",
            "input_series": series,
            "promql_expr_test": [{
                "expr": query,
                "eval_time": "5m",
                "exp_samples": [{"labels": "{namespace=\"shop\", reason=\"Error\"}", "value": 4}],
            }],
        }],
    });
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    fs::write(file.path(), test.to_string()).unwrap();
    let tested = promtool(&["test", "rules", &file.path().display().to_string()], "").await.unwrap();
    assert!(tested.success, "{}", tested.text);
}
