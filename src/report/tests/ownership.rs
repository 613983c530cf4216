//! Severity, team and links of incidents.

use serde_json::json;

use super::*;
use crate::api::{Incident, Severity};

fn ownership(annotations: &[(&str, &str)]) -> Ownership {
    let mut ownership = Ownership::default();
    annotations.iter().for_each(|(name, value)| ownership.set(&format!("kopf.dev/{name}"), Some(value)));
    ownership
}

/// One failing pod of several with these annotations, in a namespace with those.
fn scenario(pod: &[(&str, &str)], namespace: &[(&str, &str)], of: u64) -> Scenario {
    let mut scenario = Scenario::of([crashing("shop", "cart", "OOMKilled", 50)]);
    scenario.pods[0].0.ownership = ownership(pod).non_empty();
    scenario.ownership = HashMap::from([("shop".to_owned(), ownership(namespace))]);
    scenario.workload = Workload { of, revision: None };
    Scenario { webhooks: true, ..scenario }
}

fn only(scenario: &Scenario) -> Incident {
    scenario.status(None).incidents.remove(0)
}

#[test]
fn is_critical_if_all_pods_of_the_owner_fail() {
    for (of, expected) in [(0, Severity::Warning), (1, Severity::Critical), (2, Severity::Warning)] {
        let scenario = scenario(&[], &[], of);
        assert_eq!(only(&scenario).severity, Some(expected), "1 of {of}");
        assert_eq!(scenario.alert_incidents()[0].severity, expected, "1 of {of}");
    }
}

#[test]
fn an_annotation_of_the_pod_comes_before_that_of_the_namespace() {
    for (pod, namespace, expected) in [
        (&[][..], &[("severity", "info")][..], Severity::Info),
        (&[("severity", "critical")], &[("severity", "info")], Severity::Critical),
        (&[("severity", "Critical")], &[("severity", "info")], Severity::Info),
        (&[("severity", "Critical")], &[], Severity::Warning),
    ] {
        assert_eq!(only(&scenario(pod, namespace, 2)).severity, Some(expected), "{pod:?} {namespace:?}");
    }
}

#[test]
fn shows_team_and_links_in_the_status_and_in_alerts() {
    let pod = [("team", "checkout"), ("runbook", "https://runbooks.example/cart")];
    let namespace = [("team", "shop"), ("dashboard", "https://grafana.example/d/shop")];
    let scenario = scenario(&pod, &namespace, 2);
    let listed = json!(only(&scenario));
    assert_eq!(
        [&listed["team"], &listed["runbook"], &listed["dashboard"], &listed["invalidAnnotations"]],
        [
            &json!("checkout"),
            &json!("https://runbooks.example/cart"),
            &json!("https://grafana.example/d/shop"),
            &json!(null)
        ]
    );
    let alert = scenario.alert_incidents().remove(0);
    assert_eq!(
        [alert.team.as_str(), alert.runbook.as_str(), alert.dashboard.as_str()],
        ["checkout", "https://runbooks.example/cart", "https://grafana.example/d/shop"]
    );
}

#[test]
fn refused_pods_have_the_annotations_of_their_template() {
    let own = ownership(&[("team", "checkout"), ("severity", "page")]);
    let missing = MissingPods { ownership: own.non_empty(), ..super::missing::missing("api", 3, 3) };
    let mut scenario = Scenario { missing: vec![missing], webhooks: true, ..Scenario::default() };
    scenario.ownership = HashMap::from([("shop".to_owned(), ownership(&[("team", "shop"), ("severity", "info")]))]);
    let listed = only(&scenario);
    assert_eq!((listed.severity, listed.team.as_str()), (Some(Severity::Info), "checkout"));
    assert_eq!(listed.invalid_annotations, ["kopf.dev/severity"]);
    let alert = scenario.alert_incidents().remove(0);
    assert_eq!((alert.severity, alert.team.as_str()), (Severity::Info, "checkout"));
}

#[test]
fn names_annotations_that_are_not_valid() {
    let pod = [("team", "<!channel>"), ("severity", "page")];
    let namespace = [("team", "shop"), ("runbook", "javascript:alert(1)")];
    let listed = only(&scenario(&pod, &namespace, 2));
    assert_eq!(listed.invalid_annotations, ["kopf.dev/severity", "kopf.dev/team", "kopf.dev/runbook of the namespace"]);
    assert_eq!([listed.team, listed.runbook], ["shop", ""]);
}

#[test]
fn a_scan_shows_a_severity_only_from_an_annotation() {
    for (pod, expected) in [(&[][..], None), (&[("severity", "info")], Some(Severity::Info))] {
        let scenario = scenario(pod, &[("severity", "critical")], 2);
        let findings: Vec<_> = scenario.pods.iter().map(|(pod, finding)| PodFinding { pod, finding }).collect();
        let (incidents, _) = in_full(&findings, &|_| None, &|_, _| None);
        assert_eq!(incidents[0].severity, expected);
    }
}

#[test]
fn the_longest_annotations_fit_into_the_status() {
    let url = format!("https://r.example/{}", "r".repeat(494));
    let team = "t".repeat(63);
    let annotations = [("team", team.as_str()), ("runbook", &url), ("dashboard", &url), ("severity", "critical")];
    let pods = (0..200).map(|n| crashing("shop", &format!("d{n:03}"), "Error", n));
    let mut scenario = Scenario { webhooks: true, ..Scenario::of(pods) };
    scenario.ownership = HashMap::from([("shop".to_owned(), ownership(&annotations))]);
    let status = scenario.status(None);
    assert!(json!(status).to_string().len() < 256 * 1024);
    assert_eq!(status.incidents.len() as i64 + status.omitted_incidents, 200);
    assert!(status.incidents.len() > 50 && !status.problematic_pods.is_empty(), "{}", status.incidents.len());
}
