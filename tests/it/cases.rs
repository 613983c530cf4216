//! Pods in every state that the diagnosis distinguishes, as a real kubelet writes them.
//!
//! Tests judge them, and compare their columns with those of a real API server.

mod made;

use orchestr::pods::{Pod, from_json};
use serde_json::{Value, json};

use crate::pod_statuses::{self, container, controlled_by, uid_of};

pub use made::{made, named};

/// The times of the cases are given in seconds after this time.
pub const START: &str = "2026-03-01T12:00:00Z";

/// The time this many seconds after `START`, in the format of the API.
pub fn t(seconds: i64) -> String {
    at(seconds).to_string()
}

/// The time this many seconds after `START`.
pub fn at(seconds: i64) -> jiff::Timestamp {
    START.parse::<jiff::Timestamp>().unwrap() + jiff::SignedDuration::from_secs(seconds)
}

/// A pod, as JSON.
#[derive(Clone, Debug)]
pub struct Case(pub Value);

/// A scheduled, initialized pod of phase Running, created at `START`, without any container yet.
pub fn case(name: &str) -> Case {
    let conditions = [condition("PodScheduled", "True", "", "", 0), condition("Initialized", "True", "", "", 0)];
    Case(pod_statuses::pod(
        "shop",
        name,
        json!({
            "metadata": {"creationTimestamp": t(0)},
            "spec": {"nodeName": "node-7", "initContainers": [], "containers": []},
            "status": {
                "phase": "Running", "startTime": t(0), "conditions": conditions,
                "initContainerStatuses": [], "containerStatuses": [],
            },
        }),
    ))
}

impl Case {
    pub fn name(&self) -> &str {
        self.0["metadata"]["name"].as_str().unwrap()
    }

    pub fn decode(&self) -> Pod {
        from_json(&self.0.to_string()).unwrap()
    }

    /// Applies any other change.
    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.0);
        self
    }

    pub fn phase(self, phase: &str) -> Self {
        self.with(|pod| pod["status"]["phase"] = phase.into())
    }

    /// `status.reason` and `status.message`.
    pub fn because(self, reason: &str, message: &str) -> Self {
        self.with(|pod| {
            pod["status"]["reason"] = reason.into();
            pod["status"]["message"] = message.into();
        })
    }

    fn container(self, list: &str, mut spec: Value, status: Value) -> Self {
        self.with(|pod| {
            spec["name"] = status["name"].clone();
            spec["image"] = "example/app:1".into();
            let specs = if list == "containerStatuses" { "containers" } else { "initContainers" };
            pod["spec"][specs].as_array_mut().unwrap().push(spec);
            pod["status"][list].as_array_mut().unwrap().push(status);
        })
    }

    pub fn app(self, status: Value) -> Self {
        self.container("containerStatuses", json!({}), status)
    }

    pub fn app_with_limit(self, limit: &str, status: Value) -> Self {
        self.container("containerStatuses", json!({"resources": {"limits": {"memory": limit}}}), status)
    }

    pub fn init(self, mut status: Value) -> Self {
        // The kubelet reports completed init containers as ready.
        status["ready"] = (status["state"]["terminated"]["exitCode"] == 0).into();
        self.container("initContainerStatuses", json!({}), status)
    }

    pub fn sidecar(self, status: Value) -> Self {
        self.container("initContainerStatuses", json!({"restartPolicy": "Always"}), status)
    }

    /// A container without a status.
    pub fn unreported(self, list: &str, name: &str) -> Self {
        self.with(|pod| {
            pod["spec"][list].as_array_mut().unwrap().push(json!({"name": name, "image": "example/app:1"}));
        })
    }

    /// Adds the condition, or replaces the one of the same type.
    pub fn condition(self, condition: Value) -> Self {
        self.with(|pod| {
            let conditions = pod["status"]["conditions"].as_array_mut().unwrap();
            conditions.retain(|other| other["type"] != condition["type"]);
            conditions.push(condition);
        })
    }

    pub fn ready(self, seconds: i64) -> Self {
        self.condition(condition("Ready", "True", "", "", seconds)).condition(condition(
            "ContainersReady",
            "True",
            "",
            "",
            seconds,
        ))
    }

    pub fn not_ready(self, containers: &str, seconds: i64) -> Self {
        let message = format!("containers with unready status: [{containers}]");
        self.condition(condition("Ready", "False", "ContainersNotReady", &message, seconds)).condition(condition(
            "ContainersReady",
            "False",
            "ContainersNotReady",
            &message,
            seconds,
        ))
    }

    pub fn uninitialized(self, containers: &str) -> Self {
        let message = format!("containers with incomplete status: [{containers}]");
        self.phase("Pending").condition(condition("Initialized", "False", "ContainersNotInitialized", &message, 0))
    }

    pub fn unscheduled(self, reason: &str, message: &str) -> Self {
        self.phase("Pending").with(|pod| {
            pod["spec"].as_object_mut().unwrap().remove("nodeName");
            pod["status"].as_object_mut().unwrap().remove("startTime");
            pod["status"]["conditions"] = json!([condition("PodScheduled", "False", reason, message, 0)]);
        })
    }

    /// Marks the pod as deleted, with a grace period that ends at this time.
    pub fn deleted(self, seconds: i64, finalizers: &[&str]) -> Self {
        self.with(|pod| {
            pod["metadata"]["deletionTimestamp"] = t(seconds).into();
            pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
            pod["metadata"]["finalizers"] = json!(finalizers);
        })
    }

    pub fn owned_by(self, kind: &str, name: &str) -> Self {
        self.with(|pod| {
            pod["metadata"]["ownerReferences"] = controlled_by(kind, name, uid_of(name));
        })
    }

    /// Sets the restart policy Never, as for pods of Jobs.
    pub fn once(self) -> Self {
        self.with(|pod| pod["spec"]["restartPolicy"] = "Never".into())
    }
}

pub fn condition(kind: &str, status: &str, reason: &str, message: &str, seconds: i64) -> Value {
    let mut condition =
        json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": t(seconds)});
    if !reason.is_empty() {
        condition["reason"] = reason.into();
    }
    if !message.is_empty() {
        condition["message"] = message.into();
    }
    condition
}

fn status(name: &str, state: Value) -> Value {
    container(name, json!({"state": state, "image": "example/app:1", "imageID": "sha256:d1d5"}))
}

pub fn running(name: &str, seconds: i64) -> Value {
    let mut status = status(name, json!({"running": {"startedAt": t(seconds)}}));
    status["ready"] = true.into();
    status["started"] = true.into();
    status
}

/// Running, but not ready.
pub fn unready(name: &str, seconds: i64) -> Value {
    let mut status = running(name, seconds);
    status["ready"] = false.into();
    status
}

/// Running, but its startup probe has not succeeded yet.
pub fn unstarted(name: &str, seconds: i64) -> Value {
    let mut status = unready(name, seconds);
    status["started"] = false.into();
    status
}

pub fn waiting(name: &str, reason: &str, message: &str) -> Value {
    let mut state = json!({"waiting": {"reason": reason, "message": message}});
    if message.is_empty() {
        state["waiting"].as_object_mut().unwrap().remove("message");
    }
    status(name, state)
}

pub fn ended(name: &str, termination: Value) -> Value {
    status(name, json!({"terminated": termination}))
}

/// An instance that terminated at this time, ten seconds after its start.
pub fn termination(exit_code: i32, reason: &str, seconds: i64) -> Value {
    let mut termination = json!({
        "exitCode": exit_code, "startedAt": t(seconds - 10), "finishedAt": t(seconds),
        "containerID": format!("containerd://{seconds:064x}"),
    });
    if !reason.is_empty() {
        termination["reason"] = reason.into();
    }
    termination
}

/// An instance that the runtime could not start.
pub fn failed_start(reason: &str, message: &str, seconds: i64) -> Value {
    let mut failed = termination(128, reason, seconds);
    failed["startedAt"] = "1970-01-01T00:00:00Z".into();
    failed["message"] = message.into();
    failed
}

/// The status after this number of restarts, the last one after this termination.
pub fn after(termination: Value, restarts: i32, mut status: Value) -> Value {
    status["restartCount"] = restarts.into();
    status["lastState"] = json!({"terminated": termination});
    status
}
