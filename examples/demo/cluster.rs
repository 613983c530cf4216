//! Sets up the cluster, applies the steps of the scenario to it, and prints its state.

use std::time::Duration;

use clap::Parser;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use orchestr::{
    api::{Orchestr, OrchestrStatus, Owner, PodProblem, crd::crd},
    cli::Cli,
};
use orchestr_testbed::{
    Answer, ControlPlane, Kubelet, eventually,
    objects::{ago, container, stored},
    pods::{Shape, filler},
};
use serde_json::{Value, json};

use super::{
    Result, heading,
    scenario::{Change, FailingPod, Step},
};

pub const NAMESPACE: &str = "orchestr-system";
pub const OBJECT: &str = "cluster";

/// Healthy pods, which are never reported.
const HEALTHY: usize = 300;

pub struct Cluster<'a> {
    plane: &'a ControlPlane,
    kubelet: &'a Kubelet,
    client: Client,
    pub healthy: usize,
    pub namespaces: usize,
}

impl<'a> Cluster<'a> {
    /// Installs the CRD, creates the object and the healthy pods.
    pub async fn new(plane: &'a ControlPlane, kubelet: &'a Kubelet) -> Result<Self> {
        let client = plane.admin()?;
        plane.install(&crd()).await?;
        for namespace in [NAMESPACE, "shop", "bank", "ml"] {
            plane.ensure_namespace(namespace).await?;
        }
        let objects: Api<Orchestr> = Api::namespaced(client.clone(), NAMESPACE);
        let object: Orchestr = serde_json::from_value(json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": OBJECT},
            "spec": {"alerts": {"checkRunningPods": true}},
        }))?;
        objects.create(&PostParams::default(), &object).await?;
        let shape = Shape { namespaces: 12, workloads: 40, crash_looping: 0, ..Shape::default() };
        plane.load((0..HEALTHY).map(|index| filler(index, &shape))).await?;
        Ok(Self { plane, kubelet, client, healthy: HEALTHY, namespaces: shape.namespaces })
    }

    /// Applies the changes of a step.
    pub async fn apply(&self, step: &Step) -> Result<()> {
        for change in step.changes {
            match change {
                Change::Recovers(pod) => {
                    let (pods, name) = self.pods(pod);
                    let patch = json!({"status": running("app")});
                    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await?;
                }
                Change::Deleted(pod) => {
                    let (pods, name) = self.pods(pod);
                    pods.delete(name, &DeleteParams::default().grace_period(0)).await?;
                }
                Change::Log(pod, log) => {
                    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
                    self.kubelet.script(namespace, name, "app", true, Answer::text(*log));
                }
                Change::Objects(objects) => {
                    self.plane.load(objects()).await?;
                }
                Change::Fails((pod, ..)) => {
                    let (namespace, name) = pod.split_once('/').unwrap_or(("default", pod));
                    let FailingPod { pod, log } = FailingPod::new(namespace, name)?;
                    if let Some((container, previous, log)) = log {
                        self.kubelet.script(namespace, name, &container, previous, Answer::text(log));
                    }
                    // Written to etcd directly, because the API server would set `creationTimestamp` to now.
                    self.plane.load([stored("pods", &pod)]).await?;
                }
            }
        }
        Ok(())
    }

    /// The problems that the status must list after a step, in the form of [`super::reported`].
    pub fn expected(&self, step: &Step) -> Vec<(String, String, String)> {
        let mut expected: Vec<_> = step
            .problems
            .iter()
            .flat_map(|problems| problems.iter())
            .map(|(pod, status, reason)| ((*pod).to_owned(), (*status).to_owned(), (*reason).to_owned()))
            .collect();
        expected.sort();
        expected
    }

    pub async fn wait_for_status(
        &self,
        timeout: Duration,
        wanted: impl Fn(&OrchestrStatus) -> bool,
    ) -> Result<OrchestrStatus> {
        let objects: Api<Orchestr> = Api::namespaced(self.client.clone(), NAMESPACE);
        let found = eventually("the status lists the problems", timeout, async || {
            let status = objects.get(OBJECT).await.map_err(|error| error.to_string())?.status.unwrap_or_default();
            let logs_were_read = status
                .problematic_pods
                .iter()
                .flat_map(|pod| &pod.container_issues)
                .all(|issue| issue.log_source.is_some());
            if wanted(&status) && logs_were_read {
                Ok(status)
            } else {
                Err(format!("it lists {:?}", super::reported(&status)))
            }
        });
        Ok(found.await?)
    }

    /// Prints the table of `kubectl get orchestr`.
    pub async fn show_objects(&self) -> Result<()> {
        println!("$ kubectl get orchestr -n {NAMESPACE}");
        print!("{}", self.plane.table(&format!("/apis/kopf.dev/v1/namespaces/{NAMESPACE}/orchestrs")).await?);
        Ok(())
    }

    /// Prints the output of kubectl and of `orchestr scan`.
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
        heading("The same check once, without an object");
        println!("$ orchestr scan");
        let kubeconfig = self.plane.admin_kubeconfig().to_owned();
        let scan = move || {
            let arguments = ["orchestr".into(), "scan".into(), "--kubeconfig".into(), kubeconfig.into_os_string()];
            Cli::try_parse_from(arguments).map(Cli::run)
        };
        // On a blocking thread, because the command starts its own runtime.
        tokio::task::spawn_blocking(scan).await??.map_err(|failure| failure.to_string())?;
        Ok(())
    }

    fn pods<'n>(&self, full: &'n str) -> (Api<Pod>, &'n str) {
        let (namespace, name) = full.split_once('/').unwrap_or(("default", full));
        (Api::namespaced(self.client.clone(), namespace), name)
    }
}

/// Prints the common causes and the incidents, each with what explains it: the sentence, the changes of the revision, and the
/// evidence and the last lines of the log of one pod.
pub fn show_incidents(status: &OrchestrStatus) {
    println!();
    for common in &status.common_causes {
        println!("  {} {}: {}", common.kind, common.name, common.message);
    }
    for incident in &status.incidents {
        let Owner { kind, name } = &incident.owner;
        println!(
            "  {}/{name} ({kind})  {}  {}: {}",
            incident.namespace, incident.reason, incident.cause, incident.message
        );
        if let Some(revision) = &incident.revision {
            println!(
                "      only revision {} fails; {} pods of the one before are healthy",
                revision.name, revision.healthy_before
            );
            revision.changes.iter().for_each(|change| println!("      changed: {change}"));
        }
        let is_example =
            |pod: &&PodProblem| pod.namespace == incident.namespace && incident.example_pods.contains(&pod.name);
        let Some(pod) = status.problematic_pods.iter().find(is_example) else { continue };
        pod.evidence.iter().for_each(|line| println!("      {line}"));
        let logs = pod.container_issues.iter().flat_map(|issue| issue.logs.lines()).collect::<Vec<_>>();
        logs.iter().rev().take(2).rev().for_each(|line| println!("      | {line}"));
    }
}

/// A running, ready pod's status.
pub fn running(name: &str) -> Value {
    // This is a merge patch over the pod's old status: null removes a field.
    let state = json!({"running": {"startedAt": ago(900)}, "waiting": null});
    json!({
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True", "reason": null, "message": null, "lastTransitionTime": ago(1)},
        ],
        "containerStatuses": [container(name, json!({"ready": true, "started": true, "state": state}))],
    })
}
