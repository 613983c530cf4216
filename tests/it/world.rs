//! A namespace of its own for each test, pods in it, and the operator at work on it.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use orchestr::{
    alerts::{address::AddressPolicy, delivery::Access, destination::UrlPolicy},
    api::{Orchestr, OrchestrStatus},
    app,
    config::{LogFormat, Logging, RunConfig, StreamingLists},
};
use orchestr_testbed::{ControlPlane, eventually};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::{PATIENCE, install_crd};

/// One test's part of a cluster.
pub struct World {
    pub plane: &'static ControlPlane,
    pub client: Client,
    pub namespace: String,
}

/// The operator at work, until it is dropped or stopped.
pub struct Operator {
    shutdown: DropGuard,
    task: tokio::task::JoinHandle<()>,
}

impl World {
    pub async fn new(name: &str) -> Self {
        let plane = orchestr_testbed::shared().await;
        install_crd(plane).await;
        Self { plane, client: plane.admin().unwrap(), namespace: plane.namespace(name).await.unwrap() }
    }

    /// The operator's own code path, confined to this test's namespace.
    pub fn operate(&self) -> Operator {
        operate(self.client.clone(), Some(vec![self.namespace.clone()]))
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn objects(&self) -> Api<Orchestr> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Makes a pod with one container, `app`, and this status.
    pub async fn pod(&self, name: &str, status: Value) {
        self.pod_with(name, json!({}), status).await;
    }

    /// Makes a pod whose metadata and spec are `changes` laid over a plain one's.
    pub async fn pod_with(&self, name: &str, changes: Value, status: Value) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "app", "image": "example.com/app:1"}], "nodeName": "node-1"},
        });
        json_patch_merge(&mut pod, &changes);
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        self.set_status(name, status).await;
    }

    pub async fn set_status(&self, name: &str, status: Value) {
        let patch = json!({"status": status});
        self.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub async fn delete_pod(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    /// Makes an `Orchestr`.
    pub async fn object(&self, name: &str, spec: Value) -> Orchestr {
        let object = json!({"apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": name}, "spec": spec});
        self.objects().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    pub async fn status(&self, name: &str) -> OrchestrStatus {
        self.objects().get(name).await.unwrap().status.unwrap_or_default()
    }

    /// Waits until the object's status is as wanted, and returns it.
    pub async fn status_where(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&OrchestrStatus) -> bool,
    ) -> OrchestrStatus {
        eventually(what, PATIENCE, async || {
            let status = self.status(name).await;
            if wanted(&status) { Ok(status) } else { Err(serde_json::to_string_pretty(&status).unwrap_or_default()) }
        })
        .await
        .unwrap()
    }

    /// How many `Orchestr` objects there are in this test's namespace.
    pub async fn count_objects(&self) -> usize {
        self.objects().list(&ListParams::default()).await.unwrap().items.len()
    }
}

/// Starts the operator.
pub fn operate(client: Client, namespaces: Option<Vec<String>>) -> Operator {
    let config = RunConfig {
        namespaces,
        streaming_lists: StreamingLists::Auto,
        pod_log_reads: 8,
        webhooks: Access {
            urls: UrlPolicy { plain_http: true, addresses: AddressPolicy { private: true, loopback: true } },
            proxy_from_env: false,
        },
        logging: Logging { format: LogFormat::Text, filter: "info".to_owned() },
    };
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    let task = tokio::spawn(async move { app::run(client, &config, token).await });
    Operator { shutdown: shutdown.drop_guard(), task }
}

impl Operator {
    /// Stops the operator, and waits until it has.
    pub async fn stop(self) {
        drop(self.shutdown);
        self.task.await.unwrap();
    }
}

/// The status of a condition.
pub fn condition<'a>(status: &'a OrchestrStatus, kind: &str) -> (&'a str, &'a str, &'a str) {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind)
        .map_or(("", "", ""), |condition| (&condition.status, &condition.reason, &condition.message))
}

/// The time `seconds` ago, as the API writes it.
pub fn ago(seconds: i64) -> String {
    let time = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A running, ready pod's status.
pub fn healthy() -> Value {
    json!({
        "phase": "Running",
        "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
        "containerStatuses": [{
            "name": "app", "ready": true, "started": true, "restartCount": 0, "image": "", "imageID": "",
            "state": {"running": {"startedAt": ago(3600)}},
        }],
    })
}

/// The status of a pod whose container `app` is out of memory again and again.
pub fn crash_looping(restarts: i32) -> Value {
    json!({
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(30)},
        ],
        "containerStatuses": [{
            "name": "app", "ready": false, "started": false, "restartCount": restarts, "image": "", "imageID": "",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container=app"}},
            "lastState": {"terminated": {
                "exitCode": 137, "reason": "OOMKilled", "startedAt": ago(90), "finishedAt": ago(30),
                "containerID": format!("containerd://{restarts:064}"),
            }},
        }],
    })
}

fn json_patch_merge(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, change) in changes {
                json_patch_merge(target.entry(key.clone()).or_insert(Value::Null), change);
            }
        }
        (target, changes) => *target = changes.clone(),
    }
}

/// Makes sure that a namespace is there.
pub async fn ensure_namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    namespaces.patch(name, &PatchParams::apply("tests").force(), &Patch::Apply(&namespace)).await.unwrap();
}
