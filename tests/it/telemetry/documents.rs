//! Compares the rules, their runbooks and the manifests with each other.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

pub fn read_yaml(path: &str) -> Value {
    serde_yaml::from_str(&fs::read_to_string(repository(path)).unwrap()).unwrap()
}

/// The alerting rules.
pub fn rules() -> Vec<Value> {
    let rules = read_yaml("deploy/monitoring/rules.yaml");
    rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn each_alert_has_a_severity_and_a_runbook_that_exists() {
    let runbooks = fs::read_to_string(repository("docs/runbooks.md")).unwrap();
    let headings = runbooks.lines().filter_map(|line| line.strip_prefix("## "));
    let anchors: BTreeSet<String> =
        headings.map(|heading| format!("docs/runbooks.md#{}", heading.to_lowercase())).collect();
    let mut linked = BTreeSet::new();
    for rule in rules() {
        let name = rule["alert"].as_str().unwrap();
        assert!(matches!(rule["labels"]["severity"].as_str(), Some("critical" | "warning")), "{name}");
        for annotation in ["summary", "description", "runbook_url"] {
            assert!(
                rule["annotations"][annotation].as_str().is_some_and(|text| !text.is_empty()),
                "{name}: {annotation}"
            );
        }
        linked.insert(rule["annotations"]["runbook_url"].as_str().unwrap().to_owned());
    }
    assert_eq!(linked, anchors);
}

#[test]
fn the_prometheus_rule_contains_the_plain_rules() {
    let plain = read_yaml("deploy/monitoring/rules.yaml");
    assert_eq!(read_yaml("deploy/monitoring/prometheus-rule.yaml")["spec"], plain);
}

#[test]
fn the_monitors_scrape_the_port_of_the_deployment() {
    let container = &read_yaml("deploy/base/deployment.yaml")["spec"]["template"]["spec"]["containers"][0];
    let port = &container["ports"][0]["name"];
    let pod_monitor = read_yaml("deploy/monitoring/pod-monitor.yaml");
    assert_eq!(&pod_monitor["spec"]["podMetricsEndpoints"][0]["port"], port);
    let service = read_yaml("deploy/monitoring/service/service.yaml");
    assert_eq!(&service["spec"]["ports"][0]["targetPort"], port);
    let service_monitor = read_yaml("deploy/monitoring/service/service-monitor.yaml");
    assert_eq!(service_monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
    for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        let get = &container[probe]["httpGet"];
        assert_eq!((&get["port"], get["path"].as_str()), (port, Some(path)), "{probe}");
    }
}
