//! Install, upgrade, rollback and uninstall with Helm, and what is left behind.

use std::{collections::BTreeSet, fs, path::Path};

use k8s_openapi::{
    api::apps::v1::Deployment, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
    discovery::{Discovery, verbs},
};
use orchestr_testbed::{ControlPlane, Options, eventually};
use serde_json::{Value, json};

use super::{Ended, Helm, SYSTEM, chart, repository};
use crate::{install::apply, support::TIMEOUT, test_env::Plane};

const CRD: &str = "orchestrs.kopf.dev";

impl Helm {
    /// Installs or upgrades the release `orchestr`.
    async fn release(&self, command: &str, chart: &str, flags: &[&str]) -> Ended {
        self.run(&[&[command, "orchestr", chart, "--namespace", SYSTEM][..], flags].concat()).await
    }
}

async fn deployment(plane: &ControlPlane) -> Deployment {
    Api::namespaced(plane.admin().unwrap(), SYSTEM).get("orchestr").await.unwrap()
}

/// The name of the cluster, as the operator gets it.
async fn cluster_name(plane: &ControlPlane) -> String {
    let container = deployment(plane).await.spec.unwrap().template.spec.unwrap().containers.remove(0);
    let variable = container.env.unwrap().into_iter().find(|variable| variable.name == "ORCHESTR_CLUSTER_NAME");
    variable.unwrap().value.unwrap_or_default()
}

/// The properties of the CRD's `spec.pods`.
async fn pods_schema(plane: &ControlPlane) -> Value {
    let crds = Api::<CustomResourceDefinition>::all(plane.admin().unwrap());
    let crd = serde_json::to_value(crds.get(CRD).await.unwrap()).unwrap();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["pods"]["properties"]
        .clone()
}

async fn kubectl(plane: &ControlPlane, args: &[&str]) -> String {
    let output = plane.kubectl(args, None).await.unwrap();
    assert!(output.status.success(), "{args:?}: {}", output.stderr);
    output.stdout
}

/// Creates the object of `samples/minimal.yaml`, as soon as the API server serves its kind.
async fn sample(plane: &ControlPlane) {
    let path = repository("samples/minimal.yaml");
    eventually("the object is created", TIMEOUT, async || {
        let output = plane.kubectl(&["apply", "-f", &path], None).await.map_err(|error| error.to_string())?;
        if output.status.success() { Ok(()) } else { Err(output.stderr) }
    })
    .await
    .unwrap();
}

/// Kinds that the API server itself maintains, some of them a while after it is ready.
const MAINTAINED: [&str; 3] = ["APIService", "ComponentStatus", "IPAddress"];

/// All objects of the cluster, except those that the API server itself maintains.
pub(super) async fn inventory(plane: &ControlPlane) -> BTreeSet<String> {
    let client = plane.admin().unwrap();
    // It fails while a CRD is being deleted.
    let discovery = eventually("the kinds of objects are listed", TIMEOUT, async || {
        Discovery::new(client.clone()).run().await.map_err(|error| error.to_string())
    });
    let discovery = discovery.await.unwrap();
    let mut found = BTreeSet::new();
    for (resource, capabilities) in discovery.groups().flat_map(|group| group.recommended_resources()) {
        let is_of_api_server = MAINTAINED.contains(&&*resource.kind);
        if !capabilities.supports_operation(verbs::LIST) || is_of_api_server {
            continue;
        }
        let objects = Api::<DynamicObject>::all_with(client.clone(), &resource);
        let listed = match objects.list_metadata(&ListParams::default()).await {
            // A CRD that was deleted since.
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            listed => listed.unwrap(),
        };
        for object in listed.items {
            let name = object.metadata.name.unwrap();
            let namespace = object.metadata.namespace.unwrap_or_default();
            found.insert(format!("{} {namespace}/{name}", resource.kind));
        }
    }
    found
}

/// A copy of the chart of an earlier version, whose CRD lacks `spec.pods.ignoreReasons`.
fn older_chart(folder: &Path) -> String {
    copy(Path::new(&chart()), folder);
    let edit = |file: &str, change: &dyn Fn(&mut Value)| {
        let path = folder.join(file);
        let mut value: Value = serde_yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        change(&mut value);
        fs::write(path, serde_yaml::to_string(&value).unwrap()).unwrap();
    };
    edit("Chart.yaml", &|chart| chart["version"] = json!("0.0.9"));
    edit("files/crd.yaml", &|crd| {
        let spec = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let pods = spec["properties"]["pods"]["properties"].as_object_mut().unwrap();
        pods.remove("ignoreReasons").unwrap();
    });
    folder.to_str().unwrap().to_owned()
}

pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (source, target) = (entry.as_ref().unwrap().path(), to.join(entry.as_ref().unwrap().file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else {
            fs::copy(&source, &target).unwrap();
        }
    }
}

#[tokio::test]
async fn installs_upgrades_rolls_back_and_uninstalls() {
    let plane = Plane::start(Options::default()).await;
    let helm = Helm::of(&plane).await;
    let before = inventory(&plane).await;
    let older = tempfile::tempdir().unwrap();
    let older = older_chart(older.path());

    // Install an earlier version.
    let notes = helm.release("install", &older, &["--create-namespace"]).await.ok();
    assert!(notes.contains("STATUS: deployed"), "{notes}");
    assert!(notes.contains("`helm uninstall` keeps the CustomResourceDefinition orchestrs.kopf.dev"), "{notes}");
    assert_eq!(pods_schema(&plane).await.get("ignoreReasons"), None);
    assert_eq!(cluster_name(&plane).await, "");
    sample(&plane).await;

    // Upgrade it, and change a value.
    let upgraded = helm.release("upgrade", &chart(), &["--set", "operator.clusterName=prod"]).await.ok();
    assert!(upgraded.contains("REVISION: 2"), "{upgraded}");
    assert_eq!(pods_schema(&plane).await["ignoreReasons"]["type"], "array", "the CRD is upgraded");
    assert_eq!(cluster_name(&plane).await, "prod");

    // Go back. The CRD goes back as well, and the object stays, without what only the newer version has.
    let ignore = r#"{"spec": {"pods": {"ignoreReasons": ["Image"], "namespaces": ["shop"]}}}"#;
    let patch = ["patch", "orchestr", "cluster", "-n", SYSTEM, "--type=merge", "-p", ignore];
    let pods = ["get", "orchestr", "cluster", "-n", SYSTEM, "-o", "jsonpath={.spec.pods}"];
    eventually("the new field is served", TIMEOUT, async || {
        kubectl(&plane, &patch).await;
        let pods = kubectl(&plane, &pods).await;
        if pods.contains("ignoreReasons") { Ok(()) } else { Err(pods) }
    })
    .await
    .unwrap();
    helm.run(&["rollback", "orchestr", "1", "--namespace", SYSTEM]).await.ok();
    assert_eq!(pods_schema(&plane).await.get("ignoreReasons"), None, "the CRD is that of the release");
    eventually("the new field is no longer served, and others are", TIMEOUT, async || {
        let pods = kubectl(&plane, &pods).await;
        if pods == r#"{"namespaces":["shop"]}"# { Ok(()) } else { Err(pods) }
    })
    .await
    .unwrap();
    assert_eq!(cluster_name(&plane).await, "");

    // Uninstall.
    let uninstalled = helm.run(&["uninstall", "orchestr", "--namespace", SYSTEM]).await.ok();
    assert!(uninstalled.contains("These resources were kept due to the resource policy"), "{uninstalled}");
    let left: BTreeSet<_> = inventory(&plane).await.difference(&before).cloned().collect();
    let expected = [
        "CustomResourceDefinition /orchestrs.kopf.dev",
        "Namespace /orchestr-system",
        "Orchestr orchestr-system/cluster",
    ];
    assert_eq!(left.iter().map(String::as_str).collect::<Vec<_>>(), expected);

    // A release of the same name adopts the CRD. Another one does so only with --take-ownership.
    helm.release("install", &chart(), &[]).await.ok();
    helm.run(&["uninstall", "orchestr", "--namespace", SYSTEM]).await.ok();
    let other = ["install", "orchestr-2", &chart(), "--namespace", SYSTEM];
    let refusal = helm.run(&other).await.failed();
    assert!(
        refusal
            .contains(r#"CustomResourceDefinition "orchestrs.kopf.dev" in namespace "" exists and cannot be imported"#),
        "{refusal}"
    );
    helm.run(&[&other[..], &["--take-ownership"]].concat()).await.ok();
    assert_eq!(kubectl(&plane, &["get", "orchestrs", "-A", "-o", "name"]).await, "orchestr.kopf.dev/cluster\n");
}

#[tokio::test]
async fn changes_nothing_if_a_kind_is_not_installed() {
    let plane = Plane::start(Options::default()).await;
    plane.ensure_namespace(SYSTEM).await.unwrap();
    let before = inventory(&plane).await;
    let helm = Helm::of(&plane).await;
    let refusal = helm.release("install", &chart(), &["--set", "metrics.podMonitor.enabled=true"]).await.failed();
    assert!(refusal.contains(r#"no matches for kind "PodMonitor" in version "monitoring.coreos.com/v1""#), "{refusal}");
    let left: BTreeSet<_> = inventory(&plane).await.difference(&before).cloned().collect();
    assert_eq!(left, BTreeSet::new());
}

#[tokio::test]
async fn overwrites_changes_of_others_only_if_asked() {
    let plane = Plane::start(Options::default()).await;
    let helm = Helm::of(&plane).await;
    // What kubectl has installed is adopted only if asked.
    apply(&plane, "deploy").await;
    // Its selector is another one, and cannot be changed.
    kubectl(&plane, &["delete", "deployment", "-n", SYSTEM, "orchestr"]).await;
    let refusal = helm.release("install", &chart(), &[]).await.failed();
    assert!(refusal.contains("invalid ownership metadata"), "{refusal}");
    helm.release("install", &chart(), &["--take-ownership", "--force-conflicts"]).await.ok();

    kubectl(&plane, &["set", "env", "-n", SYSTEM, "deployment/orchestr", "ORCHESTR_CLUSTER_NAME=by-hand"]).await;
    let change = ["--set", "operator.clusterName=prod"];
    let conflict = helm.release("upgrade", &chart(), &change).await.failed();
    assert!(conflict.contains("conflict") && conflict.contains("kubectl-set"), "{conflict}");
    assert!(conflict.contains("ORCHESTR_CLUSTER_NAME"), "{conflict}");
    assert_eq!(cluster_name(&plane).await, "by-hand", "nothing is overwritten");
    helm.release("upgrade", &chart(), &[&change[..], &["--force-conflicts"]].concat()).await.ok();
    assert_eq!(cluster_name(&plane).await, "prod");
}

#[tokio::test]
async fn uninstalling_deletes_the_crd_unless_it_is_kept() {
    let plane = Plane::start(Options::default()).await;
    let helm = Helm::of(&plane).await;
    let before = inventory(&plane).await;
    let notes = helm.release("install", &chart(), &["--create-namespace", "--set", "crds.keep=false"]).await.ok();
    assert!(notes.contains("`helm uninstall` deletes the CustomResourceDefinition"), "{notes}");
    sample(&plane).await;
    helm.run(&["uninstall", "orchestr", "--namespace", SYSTEM]).await.ok();
    eventually("the CRD is deleted", TIMEOUT, async || {
        let left: BTreeSet<_> = inventory(&plane).await.difference(&before).cloned().collect();
        if left.iter().eq(["Namespace /orchestr-system"]) { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await
    .unwrap();
}
