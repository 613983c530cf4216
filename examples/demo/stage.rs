//! What the demo does to the cluster, and how it shows what comes of it.

use std::time::Duration;

use clap::Parser;
use k8s_openapi::{
    api::core::v1::{Namespace, Pod, ServiceAccount},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use orchestr::{
    api::{Orchestr, OrchestrStatus, crd::crd},
    cli::Cli,
};
use orchestr_testbed::{
    Answer, ControlPlane, Kubelet, eventually,
    pods::{Shape, filler},
};
use serde_json::{Value, json};

use super::{
    Result,
    cast::{Act, NODE, Played, Role, ago, status_of},
    heading,
};

/// Where the demo's object is.
pub const NAMESPACE: &str = "orchestr-system";
/// Its name.
pub const OBJECT: &str = "cluster";

/// How many pods that nobody needs to hear of.
const HEALTHY: usize = 300;

pub struct Stage<'a> {
    plane: &'a ControlPlane,
    kubelet: &'a Kubelet,
    client: Client,
    pub healthy: usize,
    pub namespaces: usize,
}

impl<'a> Stage<'a> {
    /// Installs the CRD, makes the object of three lines, and loads the healthy pods.
    pub async fn set(plane: &'a ControlPlane, kubelet: &'a Kubelet) -> Result<Self> {
        let client = plane.admin()?;
        let crd = crd();
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        let name = crd.metadata.name.clone().unwrap_or_default();
        crds.patch(&name, &PatchParams::apply("demo").force(), &Patch::Apply(&crd)).await?;
        for namespace in [NAMESPACE, "shop", "bank", "ml"] {
            ensure_namespace(&client, namespace).await?;
        }
        let objects: Api<Orchestr> = Api::namespaced(client.clone(), NAMESPACE);
        let object: Orchestr = serde_json::from_value(json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": OBJECT},
            "spec": {"alerts": {"checkRunningPods": true}},
        }))?;
        eventually("the API server serves Orchestr objects", Duration::from_secs(30), async || {
            objects.create(&PostParams::default(), &object).await.map_err(|error| error.to_string())
        })
        .await?;
        let shape = Shape { namespaces: 12, workloads: 40, crash_looping: 0, ..Shape::default() };
        plane.load((0..HEALTHY).map(|index| filler(index, &shape))).await?;
        Ok(Self { plane, kubelet, client, healthy: HEALTHY, namespaces: shape.namespaces })
    }

    /// Brings on who enters.
    pub async fn change(&self, act: &Act) -> Result<()> {
        for role in act.enter {
            match role {
                Role::Recovers(pod) => {
                    let (pods, name) = self.pods(pod);
                    let patch = json!({"status": running("app")});
                    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
                }
                Role::Deleted(pod) => {
                    let (pods, name) = self.pods(pod);
                    pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
                }
                role => {
                    let Some(played) = role.played() else { continue };
                    if let Some((container, previous, log)) = played.log {
                        self.kubelet.script(played.namespace, played.name, container, previous, Answer::text(log));
                    }
                    let mut pod = json!({
                        "apiVersion": "v1", "kind": "Pod",
                        // The API server sets some of this itself: it is as etcd would hold such a pod.
                        "metadata": {
                            "name": played.name, "namespace": played.namespace, "uid": uid(&played),
                            "creationTimestamp": ago(played.made),
                        },
                        "spec": {"nodeName": NODE, "containers": [{"name": "app", "image": "registry.example/demo:1"}]},
                    });
                    merge(&mut pod, &played.changes);
                    if played.deleted_long_ago {
                        pod["metadata"]["deletionTimestamp"] = json!(ago(400));
                        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
                    }
                    pod["status"] = played.status;
                    let key = orchestr_testbed::pods::key(played.namespace, played.name);
                    self.plane.load([(key, pod.to_string())]).await?;
                }
            }
        }
        Ok(())
    }

    /// What the status must say after an act, as [`super::told`] has it.
    pub fn expected(&self, act: &Act) -> Vec<(String, String, String)> {
        let mut expected: Vec<_> = act
            .problems
            .iter()
            .map(|(pod, status, reason)| ((*pod).to_owned(), (*status).to_owned(), (*reason).to_owned()))
            .collect();
        expected.sort();
        expected
    }

    /// Waits for a status.
    pub async fn status_where(
        &self,
        patience: Duration,
        wanted: impl Fn(&OrchestrStatus) -> bool,
    ) -> Result<OrchestrStatus> {
        let objects: Api<Orchestr> = Api::namespaced(self.client.clone(), NAMESPACE);
        let found = eventually("the status says what was loaded", patience, async || {
            let status = objects.get(OBJECT).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            let logs_are_in = status
                .problematic_pods
                .iter()
                .flat_map(|pod| &pod.container_issues)
                .all(|issue| issue.log_source.is_some());
            if wanted(&status) && logs_are_in { Ok(status) } else { Err(format!("it says {:?}", super::told(&status))) }
        });
        Ok(found.await?)
    }

    /// `kubectl get orchestr`, as the API server draws it.
    pub async fn show_objects(&self) -> Result<()> {
        println!("$ kubectl get orchestr -n {NAMESPACE}");
        print!("{}", self.plane.table(&format!("/apis/kopf.dev/v1/namespaces/{NAMESPACE}/orchestrs")).await?);
        Ok(())
    }

    /// What people see who look at the end: kubectl's own output, and the command's.
    pub async fn show_everything(&self, whole: bool) -> Result<()> {
        heading("What kubectl prints");
        let object = ["get", "orchestr", "-n", NAMESPACE, OBJECT, "-o"];
        for format in ["wide", "yaml"] {
            let arguments: Vec<&str> = object.into_iter().chain([format]).collect();
            println!("$ kubectl {}", arguments.join(" "));
            let output = self.plane.kubectl(&arguments, None).await?;
            let lines = if whole { usize::MAX } else { 60 };
            output.stdout.lines().take(lines).for_each(|line| println!("{line}"));
            println!();
        }
        heading("The same judgement once, without an object");
        println!("$ orchestr scan");
        let kubeconfig = self.plane.admin_kubeconfig().to_owned();
        let scan = move || {
            let arguments = ["orchestr".into(), "scan".into(), "--kubeconfig".into(), kubeconfig.into_os_string()];
            Cli::try_parse_from(arguments).map(Cli::run)
        };
        // A thread of its own: the command brings its own runtime.
        tokio::task::spawn_blocking(scan).await??.map_err(|failure| failure.to_string())?;
        Ok(())
    }

    fn pods<'n>(&self, full: &'n str) -> (Api<Pod>, &'n str) {
        let (namespace, name) = full.split_once('/').unwrap_or(("default", full));
        (Api::namespaced(self.client.clone(), namespace), name)
    }
}

/// The problem list, as a person would want it on one screen.
pub fn show_problems(status: &OrchestrStatus) {
    println!();
    for pod in &status.problematic_pods {
        println!("  {}/{}  {}  {}: {}", pod.namespace, pod.name, pod.status, pod.reason, pod.message);
        let logs = pod.container_issues.iter().flat_map(|issue| issue.logs.lines()).collect::<Vec<_>>();
        for line in logs.iter().rev().take(2).rev() {
            println!("      | {line}");
        }
    }
}

/// A running, ready pod's status.
pub fn running(container: &str) -> Value {
    let mut status = status_of(container, 0, json!({"running": {"startedAt": ago(900)}}), None);
    status["ready"] = json!(true);
    // Null takes away what was there: this is merged over the pod's old status.
    status["state"]["waiting"] = Value::Null;
    json!({
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True", "reason": null, "message": null, "lastTransitionTime": ago(1)},
        ],
        "containerStatuses": [status],
    })
}

/// Makes a namespace, and in it the service account that a controller manager would make.
async fn ensure_namespace(client: &Client, name: &str) -> Result<()> {
    let params = PatchParams::apply("demo");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces
        .patch(
            name,
            &params,
            &Patch::Apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})),
        )
        .await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    accounts
        .patch(
            "default",
            &params,
            &Patch::Apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})),
        )
        .await?;
    Ok(())
}

fn merge(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(target.entry(key.clone()).or_insert(Value::Null), change);
            }
        }
        (target, changes) => *target = changes.clone(),
    }
}

/// A UID for each name.
fn uid(played: &Played) -> String {
    let hash = u128::from(orchestr::pods::Uid::from_text(played.name));
    let hex = format!("{hash:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
