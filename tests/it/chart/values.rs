//! The schema of the values: what it refuses, and that each flag of `orchestr run` has a value.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;

use super::{Helm, documents};
use crate::command::{ends, orchestr};

/// Values that contradict each other or are wrong, and what the message contains.
const REFUSED: [(&str, &str); 32] = [
    ("heartbeat: {namespaces: [shop]}", "at '/heartbeat/secretName': minLength: got 0, want 1"),
    ("leaderElection: {enabled: false}", "at '/leaderElection/enabled': value must be true"),
    ("{replicas: 3, leaderElection: {enabled: false}}", "at '/leaderElection/enabled': value must be true"),
    (
        "{operator: {namespaces: [shop]}, tenancy: {policy: {enabled: true}}}",
        "at '/tenancy/policy/enabled': value must be false",
    ),
    ("metrics: {enabled: false, podMonitor: {enabled: true}}", "at '/metrics/enabled': value must be true"),
    ("metrics: {enabled: false, serviceMonitor: {enabled: true}}", "at '/metrics/enabled': value must be true"),
    ("metrics: {enabled: false, rules: {enabled: true}}", "at '/metrics/enabled': value must be true"),
    (
        "metrics: {podMonitor: {enabled: true}, serviceMonitor: {enabled: true}}",
        "at '/metrics/serviceMonitor/enabled': value must be false",
    ),
    ("serviceAccount: {create: false}", "at '/serviceAccount/name': minLength: got 0, want 1"),
    ("rbac: {create: false, webhookSecrets: {shop: [ops]}}", "at '/rbac/webhookSecrets': maxProperties: got 1, want 0"),
    ("rbac: {webhookSecrets: {shop: []}}", "at '/rbac/webhookSecrets/shop': minItems: got 0, want 1"),
    ("rbac: {webhookSecrets: {Shop: [ops]}}", "at '/rbac/webhookSecrets': additional properties 'Shop' not allowed"),
    (
        "{operator: {namespaces: [bank]}, rbac: {webhookSecrets: {shop: [ops]}}}",
        "rbac.webhookSecrets: the operator does not watch the namespace \"shop\": add it to operator.namespaces",
    ),
    ("image: {repository: ''}", "at '/image/repository': minLength: got 0, want 1"),
    ("image: {repository: 'registry.example/orchestr:1.0'}", "at '/image/repository'"),
    ("image: {digest: latest}", "at '/image/digest'"),
    ("image: {tag: 1.0}", "at '/image/tag': got number, want string"),
    ("image: {pullPolicy: Sometimes}", "at '/image/pullPolicy': value must be one of"),
    ("image: null", "missing property 'image'"),
    ("replicas: two", "at '/replicas': got string, want integer"),
    ("replicas: -1", "at '/replicas': minimum: got -1, want 0"),
    ("replicaCount: 2", "additional properties 'replicaCount' not allowed"),
    ("operator: {namespace: shop}", "at '/operator': additional properties 'namespace' not allowed"),
    ("operator: {namespaces: shop}", "at '/operator/namespaces'"),
    ("operator: {namespaces: [Shop]}", "at '/operator/namespaces/0'"),
    ("operator: {namespaces: [shop, shop]}", "at '/operator/namespaces'"),
    ("operator: {podLogReads: 0}", "at '/operator/podLogReads': minimum: got 0, want 1"),
    ("operator: {alertLog: /var/log/alerts.log}", "at '/operator/alertLog': value must be one of"),
    ("operator: {webhookAllowHttp: \"yes\"}", "at '/operator/webhookAllowHttp'"),
    ("env: [{name: ORCHESTR_LOG, value: debug}]", "at '/env/0/name'"),
    ("metrics: {port: 80}", "at '/metrics/port': minimum: got 80, want 1,024"),
    ("podLabels: {app.kubernetes.io/name: other}", "at '/podLabels/app.kubernetes.io~1name'"),
];

#[tokio::test]
async fn names_wrong_and_contradictory_values() {
    let helm = Helm::offline().await;
    let mut wrong = vec![];
    for (values, part) in REFUSED {
        let output = helm.template(values).await;
        if output.succeeded {
            wrong.push(format!("{values} is accepted"));
        } else if !output.stderr.contains(part) {
            wrong.push(format!("{values}\n  {}\n  does not contain {part}", output.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All values of `operator`, with values that differ from the defaults, and those that set other flags.
const ALL_FLAGS: &str = "
operator:
  clusterName: prod
  namespaces: [shop, bank]
  ownNamespaceOnly: true
  streamingLists: never
  podLogReads: 16
  metricsWithoutIncidents: true
  webhookAllowHttp: true
  webhookRefusePrivate: true
  webhookAllowLoopback: true
  webhookProxyFromEnv: true
  alertLog: '-'
  logFormat: json
  log: orchestr=debug
heartbeat: {secretName: ping, namespaces: [shop]}
fullnameOverride: watcher
env: [{name: HTTPS_PROXY, value: http://proxy:3128}]
";

/// Flags of `orchestr run` that the chart does not set.
const OTHER_FLAGS: [&str; 3] = ["ORCHESTR_KUBECONFIG", "ORCHESTR_CONTEXT", "ORCHESTR_LEASE_NAMESPACE"];

fn container(rendered: &str) -> Value {
    let deployment = documents(rendered).into_iter().find(|object| object["kind"] == "Deployment").unwrap();
    deployment["spec"]["template"]["spec"]["containers"][0].clone()
}

#[tokio::test]
async fn sets_each_flag_of_the_operator() {
    let helm = Helm::offline().await;
    let container = container(&helm.template(ALL_FLAGS).await.ok());
    let env = container["env"].as_array().unwrap();
    let set: BTreeSet<&str> = env.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
    assert_eq!(set.len(), env.len(), "each variable is set once");

    let (_, help, _) = ends(&mut orchestr(&["run", "--help"]));
    let variables = Regex::new(r"\[env: (ORCHESTR_\w+)").unwrap();
    let flags: BTreeSet<&str> = variables.captures_iter(&help).map(|found| found.extract::<1>().1[0]).collect();
    assert!(flags.len() > 10, "{help}");
    let flags: BTreeSet<&str> = flags.into_iter().filter(|flag| !OTHER_FLAGS.contains(flag)).collect();
    let ours: BTreeSet<&str> = set.into_iter().filter(|name| *name != "HTTPS_PROXY").collect();
    assert_eq!(ours, flags);

    // The operator understands each value.
    let mut run = orchestr(&["run", "--kubeconfig", "/nonexistent"]);
    for variable in env {
        run.env(variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap());
    }
    // What the Secret contains, and a port that is free.
    let url = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&url, "https://example.com/ping").unwrap();
    run.env("ORCHESTR_HEARTBEAT_URL_FILE", url.path()).env("ORCHESTR_METRICS_ADDRESS", "127.0.0.1:0");
    let (_, _, errors) = ends(&mut run);
    assert!(errors.ends_with("orchestr: there is no kubeconfig at /nonexistent\n"), "{errors}");
}

/// Names that YAML reads as something else if they are not quoted.
const ODD_NAMES: &str = "
fullnameOverride: '123'
serviceAccount: {name: 'null'}
priorityClassName: '123'
operator: {namespaces: ['123'], clusterName: '123'}
rbac: {webhookSecrets: {'123': ['456']}}
tenancy: {quota: {namespaces: ['123']}}
heartbeat: {secretName: '123', key: 'null', namespaces: ['123']}
networkPolicy: {enabled: true}
metrics: {podMonitor: {enabled: true}, rules: {enabled: true}, dashboard: {enabled: true}}
";

/// The paths of names, namespaces, labels and the like that are no strings.
fn no_strings(path: &str, value: &Value, found: &mut Vec<String>) {
    const STRINGS: [&str; 8] =
        ["name", "namespace", "key", "value", "secretName", "serviceAccountName", "priorityClassName", "resourceNames"];
    let is_name = path.rsplit('/').nth(usize::from(path.ends_with(|char: char| char.is_ascii_digit())));
    let is_label = path.contains("/labels/") || path.contains("/matchLabels/");
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            // In the CRD and in expressions, these are names of fields.
            no_strings(&format!("{path}/{key}"), value, found);
        }),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| no_strings(&format!("{path}/{index}"), item, found));
        }
        Value::String(_) => {}
        _ if is_label || is_name.is_some_and(|name| STRINGS.contains(&name)) => found.push(format!("{path}: {value}")),
        _ => {}
    }
}

#[tokio::test]
async fn names_that_look_like_numbers_stay_strings() {
    let helm = Helm::offline().await;
    let file = helm.values_file(ODD_NAMES);
    let rendered = helm.run(&["template", "123", &super::chart(), "--namespace", "456", "--values", &file]).await.ok();
    let mut found = Vec::new();
    for object in documents(&rendered).iter().filter(|object| object["kind"] != "CustomResourceDefinition") {
        no_strings(object["kind"].as_str().unwrap(), object, &mut found);
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(rendered.contains("name: ORCHESTR_HEARTBEAT_NAMESPACES\n          value: \"123\""), "{rendered}");
}

#[tokio::test]
async fn webhooks_of_tenants_leave_a_shared_heartbeat_alone() {
    let helm = Helm::offline().await;
    let shared = "tenancy: {policy: {enabled: true}}";
    for (values, expected) in [
        (format!("{{heartbeat: {{secretName: ping}}, {shared}}}"), Some("metadata.namespace")),
        (format!("{{heartbeat: {{secretName: ping, namespaces: [shop]}}, {shared}}}"), Some("shop")),
        ("heartbeat: {secretName: ping}".to_owned(), None),
    ] {
        let env = container(&helm.template(&values).await.ok())["env"].clone();
        let own = env.as_array().unwrap().iter().find(|own| own["name"] == "ORCHESTR_HEARTBEAT_NAMESPACES").cloned();
        let of = |own: &Value| {
            own["valueFrom"]["fieldRef"]["fieldPath"].as_str().or(own["value"].as_str()).map(str::to_owned)
        };
        assert_eq!(own.as_ref().and_then(of).as_deref(), expected, "{values}");
    }
}

#[tokio::test]
async fn chooses_the_image_by_tag_or_digest() {
    let helm = Helm::offline().await;
    let digest = format!("sha256:{}", "0".repeat(64));
    for (values, image) in [
        (String::new(), format!("orchestr:{}", env!("CARGO_PKG_VERSION"))),
        (
            "image: {repository: registry.example:5000/orchestr, tag: '2.0'}".to_owned(),
            "registry.example:5000/orchestr:2.0".to_owned(),
        ),
        (format!("image: {{tag: '2.0', digest: '{digest}'}}"), format!("orchestr@{digest}")),
    ] {
        assert_eq!(container(&helm.template(&values).await.ok())["image"], image, "{values}");
    }
}

#[tokio::test]
async fn names_are_short_enough_for_their_suffixes() {
    let helm = Helm::offline().await;
    let values = helm.values_file("metrics: {enabled: true, serviceMonitor: {enabled: true}}");
    for (release, name) in [
        ("r".repeat(53), format!("{}-orchestr", "r".repeat(43))),
        (format!("orchestr-{}", "r".repeat(44)), format!("orchestr-{}", "r".repeat(43))),
        ("orchestr".to_owned(), "orchestr".to_owned()),
    ] {
        let rendered = helm.run(&["template", &release, &super::chart(), "--values", &values]).await.ok();
        let names =
            documents(&rendered).into_iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned());
        let names: Vec<String> = names.filter(|name| name != "orchestrs.kopf.dev").collect();
        assert!(names.iter().all(|own| own.starts_with(&name) && own.len() <= 63), "{names:?}");
    }
}

#[tokio::test]
async fn each_release_has_a_lease_of_its_own_and_may_write_it() {
    let helm = Helm::offline().await;
    for (release, name) in [("orchestr", "orchestr"), ("prod", "prod-orchestr")] {
        let rendered = helm.run(&["template", release, &super::chart()]).await.ok();
        let env = container(&rendered)["env"].clone();
        let variable = env.as_array().unwrap().iter().find(|variable| variable["name"] == "ORCHESTR_LEASE_NAME");
        // The default of the flag.
        assert_eq!(variable.map_or("orchestr", |variable| variable["value"].as_str().unwrap()), name);
        let role = format!("{name}-lease");
        let is_role = |object: &Value| object["kind"] == "Role" && object["metadata"]["name"] == role;
        let role = documents(&rendered).into_iter().find(is_role).unwrap();
        assert_eq!(role["rules"][1]["resourceNames"], serde_json::json!([name]));
    }
}

#[tokio::test]
async fn refuses_older_kubernetes() {
    let helm = Helm::offline().await;
    for (version, accepted) in [("1.29.9", false), ("1.30.0", true), ("1.31.2-eks-1", true)] {
        let output = helm.run(&["template", "orchestr", &super::chart(), "--kube-version", version]).await;
        assert_eq!(output.succeeded, accepted, "{version}: {}", output.stderr);
        assert!(accepted || output.stderr.contains("chart requires kubeVersion: >=1.30.0-0"), "{}", output.stderr);
    }
}

#[tokio::test]
async fn helm_lint_finds_nothing() {
    let helm = Helm::offline().await;
    let output = helm.run(&["lint", "--strict", &super::chart()]).await.ok();
    assert!(output.contains("1 chart(s) linted, 0 chart(s) failed"), "{output}");
}
