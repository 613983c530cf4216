//! A real API server accepts what the chart renders.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, api::PostParams};
use orchestr_testbed::Options;

use super::{Helm, SYSTEM, documents, same_objects::CASES};
use crate::{install::apply_file, test_env::Plane};

/// Values that no overlay corresponds to.
const MORE: [(&str, &str); 4] = [
    (
        "everything about pods",
        "{priorityClassName: system-cluster-critical, tolerations: [{operator: Exists}], podLabels: {team: sre}, \
      podAnnotations: {note: a}, imagePullSecrets: [{name: registry}], env: [{name: HTTPS_PROXY, value: 'http://proxy:3128'}], \
      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: \
      [{key: zone, operator: In, values: [a]}]}]}}}, operator: {podLogReads: 16, log: 'orchestr=debug'}}",
    ),
    (
        "names of its own",
        "{fullnameOverride: watcher, serviceAccount: {name: watcher-account, annotations: {team: sre}}, \
      metrics: {enabled: false}, crds: {keep: false}}",
    ),
    (
        "nothing but the Deployment",
        "{crds: {install: false}, rbac: {create: false, userRoles: false}, serviceAccount: {create: false, name: orchestr}, \
      podDisruptionBudget: {enabled: false}, topologySpread: {enabled: false}, resources: null, nodeSelector: null, \
      operator: {namespaces: null}}",
    ),
    (
        "options of the options",
        "{networkPolicy: {enabled: true, metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}], \
      extraEgress: [{ports: [{port: 9093}]}]}, metrics: {port: 9090, dashboard: {enabled: true, labels: {team: sre}}}, \
      tenancy: {quota: {namespaces: [shop], objects: 1000000}}}",
    ),
];

#[tokio::test]
async fn all_objects_are_accepted_and_pods_are_restricted() {
    let plane = Plane::start(Options::default()).await;
    plane.ensure_namespace("shop").await.unwrap();
    // It enforces the restricted Pod Security Standard.
    apply_file(&plane, "deploy/base/namespace.yaml").await;
    for account in ["default", "orchestr", "watcher-account"] {
        plane.ensure_service_account(SYSTEM, account).await.unwrap();
    }
    let helm = Helm::offline().await;
    let cases = CASES.iter().map(|case| (case.name, case.values)).chain(MORE);
    for (name, values) in cases {
        let rendered = helm.template(values).await.ok();
        // The CRDs of the Prometheus Operator are not installed.
        let is_ours = |document: &&str| !document.contains("apiVersion: monitoring.coreos.com/");
        let rendered = rendered.split("\n---\n").filter(is_ours).collect::<Vec<_>>().join("\n---\n");
        let apply = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
        let applied = plane.kubectl(&apply, Some(&rendered)).await.unwrap();
        assert!(applied.status.success(), "{name}: {}", applied.stderr);
        // Such as one about a deprecated field.
        assert_eq!(applied.stderr, "", "{name}");

        let deployment = documents(&rendered).into_iter().find(|object| object["kind"] == "Deployment").unwrap();
        let deployment: Deployment = serde_json::from_value(deployment).unwrap();
        let template = deployment.spec.unwrap().template;
        let mut pod = Pod { metadata: template.metadata.unwrap(), spec: template.spec, ..Pod::default() };
        pod.metadata.name = Some("as-the-deployment-makes-it".to_owned());
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        let pods = Api::<Pod>::namespaced(plane.admin().unwrap(), SYSTEM);
        pods.create(&dry_run, &pod).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        pod.spec.as_mut().unwrap().containers[0].security_context = None;
        let refusal = pods.create(&dry_run, &pod).await.unwrap_err().to_string();
        assert!(refusal.contains(r#"violates PodSecurity "restricted"#), "{name}: {refusal}");
    }
}
