//! Attacks by pods: their number, their size, their logs and their owners.

use std::time::Instant;

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use super::{Attack, PreparedAttack, objects::ticks};
use crate::{
    error::Result,
    kubelet::Answer,
    objects::{container, controlled_by, merged, pod, stored},
};

/// Concurrent requests of the tenant.
const CONCURRENT: usize = 4;
/// Labels of a pod, each with a key of 317 and a value of 63 characters.
const LABELS: usize = 256;
/// Finalizers of a pod, each as long as a key.
const FINALIZERS: usize = 100;
/// Pods that restart in a second.
const RESTART_RATE: f64 = 20.0;
/// Pods whose severity is changed in a second.
const SEVERITY_RATE: f64 = 10.0;
/// Pods whose labels are changed in a second.
const RELABEL_RATE: f64 = 10.0;
/// The bytes of a log.
const LOG: usize = 256 * 1024;
/// The longest termination message that a kubelet keeps.
const TERMINATION_MESSAGE: usize = 4096;

/// When containers failed.
pub(super) const CRASHED: &str = "2025-11-03T08:40:44Z";

/// A part of a long name.
pub(super) const LONG: &str = "a-part-of-a-name-that-is-much-longer-than-the-names-of-others-";

pub(super) fn name(index: usize) -> String {
    format!("pod-{index}")
}

pub(super) fn uid(namespace: &str, index: usize) -> String {
    format!("{namespace}.{index}")
}

impl PreparedAttack<'_> {
    /// Crash-looping pods, and their logs.
    pub(super) async fn load_failing_pods(&self) -> Result<()> {
        let namespace = &self.tenant.namespace;
        let log = match self.attack {
            // One line: the patterns of this attack stop at its end.
            Attack::Patterns => "A".repeat(LOG),
            _ => (0..LOG / 64).map(|line| format!("{line:063}\n")).collect(),
        };
        for index in 0..self.size.pods {
            self.kubelet.script(namespace, &name(index), "app", true, Answer::text(log.clone()));
        }
        let pods = (0..self.size.pods).map(|index| self.failing_pod(index, 1));
        self.plane.load(pods).await.map(drop)
    }

    /// Restarts pods in turn. Each restart has a log of its own.
    pub(super) async fn restart_pods(&self, end: Instant) -> Result<()> {
        let mut ticks = ticks(RESTART_RATE);
        let mut writer = self.plane.writer().await?;
        for round in 0_usize.. {
            if Instant::now() >= end {
                break;
            }
            ticks.tick().await;
            let (key, pod) = self.failing_pod(round % self.size.pods, 2 + round / self.size.pods);
            writer.put(&key, pod).await?;
        }
        Ok(())
    }

    fn failing_pod(&self, index: usize, restarts: usize) -> (String, String) {
        let message = match self.attack {
            Attack::Patterns => "A".repeat(TERMINATION_MESSAGE),
            _ => String::new(),
        };
        let app = json!({
            "restartCount": restarts, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}},
            "lastState": {"terminated": {
                "exitCode": 1, "reason": "Error", "startedAt": CRASHED, "finishedAt": CRASHED, "message": message,
                "containerID": format!("containerd://{index:032x}{restarts:032x}"),
            }},
        });
        let scheduled = json!([{"type": "PodScheduled", "status": "True"}]);
        let containers = [container("app", app)];
        self.pod(
            index,
            &json!({}),
            &json!({"phase": "Running", "conditions": scheduled, "containerStatuses": containers}),
        )
    }

    fn pod(&self, index: usize, metadata: &Value, status: &Value) -> (String, String) {
        let namespace = &self.tenant.namespace;
        // A pod that waits to be scheduled has no node.
        let node = (status["phase"] != "Pending").then(|| self.kubelet.node_name());
        let metadata = merged(json!({"uid": uid(namespace, index), "creationTimestamp": CRASHED}), metadata);
        let changes = json!({"metadata": metadata, "spec": {"nodeName": node}, "status": status});
        stored("pods", &pod(namespace, &name(index), changes))
    }

    /// Failed pods, each of another Job or ReplicaSet that does not exist.
    pub(super) async fn load_forged_owners(&self) -> Result<()> {
        let pods = (0..10 * self.size.pods).map(|index| {
            let kind = if index % 2 == 0 { "Job" } else { "ReplicaSet" };
            let name = format!("job\u{202e}{index}\u{1b}[2J\u{2066}");
            let owner = controlled_by(kind, &name, format!("forged-{index}"));
            let status = json!({"phase": "Failed", "reason": "Evicted", "message": "\u{202e}\u{1b}[31m evil"});
            self.pod(index, &json!({"ownerReferences": owner}), &status)
        });
        self.plane.load(pods).await.map(drop)
    }

    /// Pods that cannot be scheduled, with names and links as long as possible. Each is an incident of its own.
    pub(super) async fn load_unscheduled_pods(&self) -> Result<()> {
        let pods = (0..self.size.unscheduled_pods).map(|index| self.unscheduled_pod(index, "warning"));
        self.plane.load(pods).await.map(drop)
    }

    /// Changes the severity of one incident after the other.
    pub(super) async fn change_severities(&self, end: Instant) -> Result<()> {
        let mut ticks = ticks(SEVERITY_RATE);
        let mut writer = self.plane.writer().await?;
        for round in 0_usize.. {
            if Instant::now() >= end {
                break;
            }
            ticks.tick().await;
            let severity = if (round / self.size.unscheduled_pods).is_multiple_of(2) { "critical" } else { "info" };
            let (key, pod) = self.unscheduled_pod(round % self.size.unscheduled_pods, severity);
            writer.put(&key, pod).await?;
        }
        Ok(())
    }

    fn unscheduled_pod(&self, index: usize, severity: &str) -> (String, String) {
        let link = |kind: &str| format!("https://example.com/{index:06}/{kind:/<480}");
        let metadata = json!({
            "name": format!("{}{index:06}", LONG.repeat(3)),
            "annotations": {
                "kopf.dev/severity": severity, "kopf.dev/runbook": link("runbook"), "kopf.dev/dashboard": link("dashboard"),
            },
        });
        let status = json!({
            "phase": "Pending",
            "conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": format!("0/10 nodes are available: {}", "10 Insufficient cpu. ".repeat(20)),
                "lastTransitionTime": CRASHED,
            }],
        });
        self.pod(index, &metadata, &status)
    }

    /// Pods that are never scheduled, created by the tenant itself.
    pub(super) async fn create_labelled_pods(&self) -> Result<()> {
        let created = stream::iter(0..self.size.labelled_pods).map(|index| async move {
            let labels: Value =
                (0..LABELS).map(|number| (long_key(number), json!(long_value(index, number)))).collect();
            let finalizers: Vec<String> = (0..FINALIZERS).map(|number| long_key(1000 * index + number)).collect();
            let pod = json!({
                "metadata": {"name": name(index), "labels": labels, "finalizers": finalizers},
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            });
            self.tenant.create("", "v1", "Pod", pod).await;
        });
        created.buffer_unordered(CONCURRENT).collect::<()>().await;
        Ok(())
    }

    pub(super) async fn relabel_pods(&self, end: Instant) -> Result<()> {
        let mut ticks = ticks(RELABEL_RATE);
        for round in 0_usize.. {
            if Instant::now() >= end {
                break;
            }
            ticks.tick().await;
            let patch = json!({"metadata": {"labels": {long_key(0): long_value(round, 1)}}});
            self.tenant.patch_pod(&name(round % self.size.labelled_pods), &patch).await;
        }
        Ok(())
    }
}

/// A key of 317 characters: a prefix of 253, a slash and a name of 63.
fn long_key(number: usize) -> String {
    let label = "p".repeat(61);
    format!("{label}a.{label}b.{label}c.{label}d.e/n{number:062}")
}

fn long_value(pod: usize, number: usize) -> String {
    format!("{pod:031}v{number:031}")
}
