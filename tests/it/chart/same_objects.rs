//! The chart and the kustomize overlays contain the same objects.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};
use tokio::process::Command;

use super::{Helm, SYSTEM, documents, repository, run};

/// Values of the chart, and what they correspond to.
pub(super) struct Case {
    pub name: &'static str,
    pub values: &'static str,
    /// Folders of `deploy/` and, with a leading `components/`, components.
    overlays: &'static [&'static str],
    /// Files that are applied with `-n NAMESPACE`.
    files: &'static [(&'static str, &'static str)],
}

pub(super) const CASES: [Case; 14] = [
    Case { name: "defaults", values: "", overlays: &["."], files: &[] },
    Case { name: "some namespaces", values: "operator: {namespaces: [shop]}", overlays: &["namespaced"], files: &[] },
    Case {
        name: "a shared cluster",
        values: "{tenancy: {policy: {enabled: true}}, operator: {webhookRefusePrivate: true, ownNamespaceOnly: false}}",
        overlays: &["shared"],
        files: &[],
    },
    Case {
        name: "the admission policy",
        values: "tenancy: {policy: {enabled: true}}",
        overlays: &[".", "tenancy", "components/shared-metrics"],
        files: &[],
    },
    Case {
        name: "a quota",
        values: "tenancy: {quota: {namespaces: [shop]}}",
        overlays: &["."],
        files: &[("tenancy/quota.yaml", "shop")],
    },
    Case {
        name: "Secrets of webhooks",
        values: "rbac: {webhookSecrets: {shop: [ops-webhook]}}",
        overlays: &["."],
        files: &[("webhooks/secret-reader.yaml", "shop")],
    },
    Case {
        name: "a heartbeat of a shared cluster",
        values: "{heartbeat: {secretName: orchestr-heartbeat}, tenancy: {policy: {enabled: true}}}",
        overlays: &[".", "tenancy", "components/heartbeat", "components/shared-metrics"],
        files: &[],
    },
    Case {
        name: "a network policy",
        values: "networkPolicy: {enabled: true}",
        overlays: &[".", "network-policy"],
        files: &[],
    },
    Case {
        name: "a single replica",
        values: "{replicas: 1, leaderElection: {enabled: false}}",
        overlays: &[".", "components/single-replica"],
        files: &[],
    },
    Case {
        name: "what shows why no node takes a pod",
        values: "rbac: {nodesAndVolumes: true}",
        overlays: &[".", "components/nodes-and-volumes"],
        files: &[],
    },
    Case {
        name: "who changed a limit",
        values: "rbac: {workloadHistory: true}",
        overlays: &[".", "components/workload-history"],
        files: &[],
    },
    Case {
        name: "who changed a limit, in some namespaces",
        values: "{rbac: {workloadHistory: true}, operator: {namespaces: [shop]}}",
        overlays: &["namespaced", "components/workload-history"],
        files: &[],
    },
    Case {
        name: "monitoring",
        values: "metrics: {podMonitor: {enabled: true}, rules: {enabled: true}, dashboard: {enabled: true}}",
        overlays: &[".", "monitoring"],
        files: &[],
    },
    Case {
        name: "a ServiceMonitor",
        values: "metrics: {serviceMonitor: {enabled: true}}",
        overlays: &[".", "monitoring/service"],
        files: &[],
    },
];

/// Labels and annotations that only Helm uses.
const OF_HELM: [&str; 5] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
    "helm.sh/resource-policy",
];

/// The objects by kind and name, without what is known to differ.
fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let mut named = BTreeMap::new();
    for mut object in objects {
        // Helm creates the namespace of a release with --create-namespace.
        if object["kind"] == "Namespace" {
            continue;
        }
        normalize(&mut object);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let name = format!("{} {}/{}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
        assert!(named.insert(name.clone(), object).is_none(), "{name} occurs twice");
    }
    named
}

fn normalize(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OF_HELM.contains(&name.as_str()));
            fields.values_mut().for_each(normalize);
            fields.retain(|name, value| name != "annotations" || *value != json!({}));
            if let Some(Value::Array(variables)) = fields.get_mut("env") {
                // They do not refer to each other, so their order has no meaning.
                variables.sort_by_key(|variable| variable["name"].to_string());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        // 8080 and 8080.0 are the same number.
        Value::Number(number) => *value = json!(number.as_f64()),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The objects of these overlays together, and of these files.
async fn kustomized(case: &Case) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    // kustomize accepts only relative paths.
    let up = "../".repeat(folder.path().components().count() - 1);
    let path = |overlay: &&str| format!("{up}{}", repository(&format!("deploy/{overlay}")).trim_start_matches('/'));
    let (components, resources): (Vec<_>, Vec<_>) =
        case.overlays.iter().partition(|overlay| overlay.starts_with("components/"));
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
        "resources": resources.into_iter().map(path).collect::<Vec<_>>(),
        "components": components.into_iter().map(path).collect::<Vec<_>>(),
    });
    fs::write(folder.path().join("kustomization.yaml"), kustomization.to_string()).unwrap();
    let mut objects = documents(&kustomize(folder.path()).await);
    for (file, namespace) in case.files {
        let text = fs::read_to_string(repository(&format!("deploy/{file}"))).unwrap();
        for mut object in documents(&text) {
            object["metadata"]["namespace"] = json!(namespace);
            objects.push(object);
        }
    }
    objects
}

async fn kustomize(folder: &Path) -> String {
    let kubectl = orchestr_testbed::kubectl().await.unwrap();
    let output = run(Command::new(kubectl).arg("kustomize").arg(folder)).await;
    assert_eq!(output.stderr, "");
    output.ok()
}

#[tokio::test]
async fn the_chart_and_the_overlays_contain_the_same_objects() {
    let helm = Helm::offline().await;
    for case in &CASES {
        let expected = by_name(kustomized(case).await);
        let rendered = by_name(documents(&helm.template(case.values).await.ok()));
        let names = |objects: &BTreeMap<String, Value>| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&rendered), names(&expected), "{}", case.name);
        for (name, object) in &expected {
            let text = |object: &Value| serde_yaml::to_string(object).unwrap();
            assert_eq!(text(&rendered[name]), text(object), "{}: {name}", case.name);
        }
    }
}

#[tokio::test]
async fn a_difference_is_noticed() {
    let helm = Helm::offline().await;
    let render = async |values: &str| by_name(documents(&helm.template(values).await.ok()));
    let defaults = render("").await;
    assert!(defaults.contains_key(&format!("Deployment {SYSTEM}/orchestr")), "{:?}", defaults.keys());
    for values in ["operator: {clusterName: prod}", "resources: null", "podLabels: {team: sre}"] {
        assert_ne!(render(values).await, defaults, "{values}");
    }
}
