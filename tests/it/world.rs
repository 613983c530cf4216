//! A namespace of its own for each test, pods in it, and the operator at work on it.

use std::{
    ops::Deref,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use orchestr::{
    alerts::{address::AddressPolicy, delivery::DeliveryOptions, destination::UrlPolicy},
    api::{Orchestr, OrchestrStatus},
    app,
    config::{CHECK_INTERVAL, LogFormat, Logging, RunConfig, StreamingLists},
};
use orchestr_testbed::{ControlPlane, Options, eventually};
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::AbortHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::{PATIENCE, install_crd};

/// One test's part of a cluster, or a cluster of its own.
pub struct World {
    pub plane: Plane,
    pub client: Client,
    pub namespace: String,
}

/// A control plane.
pub enum Plane {
    Shared(&'static ControlPlane),
    Own { plane: Box<ControlPlane>, _permit: SemaphorePermit<'static> },
}

impl Deref for Plane {
    type Target = ControlPlane;

    fn deref(&self) -> &ControlPlane {
        match self {
            Self::Shared(plane) => plane,
            Self::Own { plane, .. } => plane,
        }
    }
}

/// The operator at work, until it is dropped or stopped.
pub struct Operator {
    shutdown: DropGuard,
    task: tokio::task::JoinHandle<()>,
}

impl World {
    pub async fn new(name: &str) -> Self {
        Self::on(Plane::Shared(orchestr_testbed::shared().await), name).await
    }

    /// A cluster of its own, for what others must not see. Few at a time: machines that test are small.
    pub async fn alone(name: &str, options: Options) -> Self {
        static PLANES: Semaphore = Semaphore::const_new(2);
        let permit = PLANES.acquire().await.unwrap();
        let plane = Box::new(ControlPlane::start(options).await.unwrap());
        Self::on(Plane::Own { plane, _permit: permit }, name).await
    }

    async fn on(plane: Plane, name: &str) -> Self {
        // What the operator says of itself, for whoever looks for a mistake.
        if let Ok(filter) = std::env::var("ORCHESTR_LOG") {
            let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).try_init();
        }
        install_crd(&plane).await;
        let (client, namespace) = (plane.admin().unwrap(), plane.namespace(name).await.unwrap());
        Self { plane, client, namespace }
    }

    /// The operator's own code path, confined to this test's namespace.
    pub fn operate(&self) -> Operator {
        self.operate_as(self.client.clone())
    }

    /// The same, with another way to the cluster.
    pub fn operate_as(&self, client: Client) -> Operator {
        operate(client, config(&[&self.namespace]))
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub fn objects(&self) -> Api<Orchestr> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// `Orchestr` objects as they stand there, also where they are not what they should be.
    pub fn raw_objects(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &orchestr::api::api_resource())
    }

    /// Makes a pod with one container, `app`, and this status.
    pub async fn pod(&self, name: &str, status: Value) {
        self.pod_with(name, json!({}), status).await;
    }

    /// Makes a pod whose metadata and spec are `changes` laid over a plain one's; a null takes away.
    ///
    /// It goes into etcd directly, because the API server sets the time of creation, and a pod whose status is older
    /// than itself does not exist.
    pub async fn pod_with(&self, name: &str, changes: Value, status: Value) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": self.namespace, "creationTimestamp": ago(24 * 3600),
                "uid": format!("00000000-0000-4000-9000-{:012x}", fastrand::u64(..1 << 48)),
            },
            "spec": {"containers": [{"name": "app", "image": "example.com/app:1"}], "nodeName": "node-1"},
        });
        lay_over(&mut pod, &changes);
        pod["status"] = status;
        self.plane.put(&orchestr_testbed::pods::key(&self.namespace, name), pod.to_string()).await.unwrap();
    }

    pub async fn set_status(&self, name: &str, status: Value) {
        let patch = json!({"status": status});
        self.pods().patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub async fn patch_pod(&self, name: &str, patch: Value) {
        self.pods().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub async fn delete_pod(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    /// Makes an `Orchestr`.
    pub async fn object(&self, name: &str, spec: Value) -> Orchestr {
        let object = json!({"apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": name}, "spec": spec});
        self.objects().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    pub async fn patch_object(&self, name: &str, patch: Value) {
        self.raw_objects().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Writes an object into etcd as it is, past the schema: as if it were older.
    pub async fn old_object(&self, name: &str, metadata: Value, spec: Value, status: Value) {
        let mut object = json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
            "metadata": {
                "name": name, "namespace": self.namespace, "uid": format!("00000000-0000-4000-8000-{:012x}", fastrand::u32(..)),
                "generation": 1, "creationTimestamp": ago(3600),
            },
            "spec": spec, "status": status,
        });
        lay_over(&mut object["metadata"], &metadata);
        let key = format!("/registry/kopf.dev/orchestrs/{}/{name}", self.namespace);
        self.plane.put(&key, object.to_string()).await.unwrap();
    }

    /// The object's status; empty where it can't be read, as one that is older than its schema.
    pub async fn status(&self, name: &str) -> OrchestrStatus {
        let object = self.raw_objects().get(name).await.unwrap();
        object.data.get("status").and_then(|status| serde_json::from_value(status.clone()).ok()).unwrap_or_default()
    }

    /// Waits until the object's status is as wanted, and returns it.
    pub async fn status_where(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&OrchestrStatus) -> bool,
    ) -> OrchestrStatus {
        self.status_within(PATIENCE, name, what, wanted).await
    }

    /// The same, no later than that.
    pub async fn status_within(
        &self,
        patience: Duration,
        name: &str,
        what: &str,
        wanted: impl Fn(&OrchestrStatus) -> bool,
    ) -> OrchestrStatus {
        eventually(what, patience, async || {
            let status = self.status(name).await;
            if wanted(&status) { Ok(status) } else { Err(serde_json::to_string_pretty(&status).unwrap_or_default()) }
        })
        .await
        .unwrap()
    }

    /// Waits until the condition Ready has this reason.
    pub async fn ready(&self, name: &str, reason: &str) -> OrchestrStatus {
        self.status_where(name, &format!("Ready is {reason}"), |status| condition(status, "Ready").1 == reason).await
    }

    /// Waits until the operator has answered something that was asked of it only now: whatever happened
    /// before, it has seen.
    pub async fn until_caught_up(&self) {
        let name = format!("caught-up-{}", fastrand::u32(..));
        self.object(&name, watch_all()).await;
        self.ready(&name, "Watching").await;
        self.objects().delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// The events on an object, oldest first: type, reason, note.
    pub async fn events(&self, name: &str) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut events = events.list(&ListParams::default()).await.unwrap().items;
        events.retain(|event| event.regarding.as_ref().is_some_and(|own| own.name.as_deref() == Some(name)));
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        events
    }

    /// Notes each state of an object from now on.
    pub async fn record(&self, name: &str) -> Record {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = watcher::watcher(self.objects(), config).boxed();
        let states: Arc<Mutex<Vec<(Instant, Orchestr)>>> = Arc::default();
        let noted = Arc::clone(&states);
        let task = tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if let Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) = event {
                    noted.lock().unwrap().push((Instant::now(), object));
                }
            }
        });
        let record = Record { states, task: task.abort_handle() };
        eventually("the object is watched", PATIENCE, async || {
            if record.states().is_empty() { Err("there is nothing yet".to_owned()) } else { Ok(()) }
        })
        .await
        .unwrap();
        record
    }
}

/// The states of an object, each with when it was seen.
pub struct Record {
    states: Arc<Mutex<Vec<(Instant, Orchestr)>>>,
    task: AbortHandle,
}

impl Record {
    pub fn states(&self) -> Vec<(Instant, Orchestr)> {
        self.states.lock().unwrap().clone()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An operator for these namespaces; for none: for all of the cluster.
pub fn config(namespaces: &[&str]) -> RunConfig {
    RunConfig {
        namespaces: RunConfig::namespaces(namespaces.iter().map(|&name| name.to_owned()).collect()).unwrap(),
        cluster_name: None,
        streaming_lists: StreamingLists::Auto,
        pod_log_reads: 8,
        check_interval: CHECK_INTERVAL,
        webhooks: DeliveryOptions {
            urls: UrlPolicy { plain_http: true, addresses: AddressPolicy { private: true, loopback: true } },
            proxy_from_env: false,
        },
        logging: Logging { format: LogFormat::Text, filter: "info".to_owned() },
    }
}

/// Starts the operator.
pub fn operate(client: Client, config: RunConfig) -> Operator {
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    let task = tokio::spawn(async move { app::run(client, &config, token).await });
    Operator { shutdown: shutdown.drop_guard(), task }
}

impl Operator {
    /// Stops the operator, and waits until it has.
    pub async fn stop(self) {
        drop(self.shutdown);
        tokio::time::timeout(PATIENCE, self.task).await.expect("the operator stops").unwrap();
    }
}

/// The shortest spec.
pub fn watch_all() -> Value {
    json!({"alerts": {"checkRunningPods": true}})
}

/// The shortest spec, with more.
pub fn watch_with(changes: Value) -> Value {
    let mut spec = watch_all();
    lay_over(&mut spec, &changes);
    spec
}

/// The status, reason and message of a condition.
pub fn condition<'a>(status: &'a OrchestrStatus, kind: &str) -> (&'a str, &'a str, &'a str) {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind)
        .map_or(("", "", ""), |condition| (&condition.status, &condition.reason, &condition.message))
}

/// The names of the pods that a status lists, sorted.
pub fn listed(status: &OrchestrStatus) -> Vec<&str> {
    let mut names: Vec<_> = status.problematic_pods.iter().map(|pod| pod.name.as_str()).collect();
    names.sort_unstable();
    names
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
            "state": {"running": {"startedAt": ago(3600)}}, "lastState": {},
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

/// The status of a pod that runs and isn't ready, since so many seconds.
pub fn not_ready(seconds: i64) -> Value {
    json!({
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(seconds)},
        ],
        "containerStatuses": [{
            "name": "app", "ready": false, "started": true, "restartCount": 0, "image": "", "imageID": "",
            "state": {"running": {"startedAt": ago(seconds)}}, "lastState": {},
        }],
    })
}

/// As a JSON merge patch does, except that a null is laid over, too.
fn lay_over(target: &mut Value, changes: &Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, change) in changes {
                lay_over(target.entry(key.clone()).or_insert(Value::Null), change);
            }
        }
        (target, changes) => *target = changes.clone(),
    }
}
