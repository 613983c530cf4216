//! One test's part of a cluster: a namespace of its own, and the pods and objects in it.

use std::{fmt::Debug, ops::Deref, time::Duration};

use k8s_openapi::api::{batch::v1::Job, core::v1::Pod, events::v1::Event};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use orchestr::api::{Orchestr, OrchestrStatus};
use orchestr_testbed::{ControlPlane, Options, until};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};

use crate::{
    pod_statuses::{self, ago, controlled_by, merged, stored},
    proxy::Proxy,
    running_operator::{EventsWatch, OperatorBuilder, RunningOperator},
    support::{TIMEOUT, install_crd},
};

/// A namespace of a control plane, which is shared with other tests or this test's own.
pub struct TestEnv {
    pub plane: Plane,
    pub client: Client,
    pub namespace: String,
    pub events_watch: EventsWatch,
}

/// Objects in namespaces whose type is known.
pub trait Namespaced:
    Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug
{
}

impl<K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Serialize + DeserializeOwned + Debug>
    Namespaced for K
{
}

pub enum Plane {
    Shared(&'static ControlPlane),
    Own { plane: Box<ControlPlane>, _permit: SemaphorePermit<'static> },
}

impl Plane {
    /// Starts a control plane for one test. At most three of them run concurrently, because each needs half a gigabyte.
    pub async fn start(options: Options) -> Self {
        static PLANES: Semaphore = Semaphore::const_new(3);
        orchestr_testbed::build_all().await;
        let permit = PLANES.acquire().await.unwrap();
        Self::Own { plane: Box::new(ControlPlane::start(options).await.unwrap()), _permit: permit }
    }
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

/// The control plane of all tests, with the CRD installed once.
pub async fn shared_with_crd() -> &'static ControlPlane {
    static INSTALLED: OnceCell<()> = OnceCell::const_new();
    let plane = orchestr_testbed::shared().await;
    INSTALLED.get_or_init(|| install_crd(plane)).await;
    plane
}

impl TestEnv {
    /// A namespace on the shared control plane.
    pub async fn new(name: &str) -> Self {
        Self::on(Plane::Shared(shared_with_crd().await), name).await
    }

    /// A namespace on a control plane of its own, for tests that restart the API server or watch the whole cluster.
    pub async fn with_own_plane(name: &str, options: Options) -> Self {
        let plane = Plane::start(options).await;
        install_crd(&plane).await;
        Self::on(plane, name).await
    }

    async fn on(plane: Plane, name: &str) -> Self {
        // Shows the operator's own log, to debug a failing test.
        if let Ok(filter) = std::env::var("ORCHESTR_LOG") {
            let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).try_init();
        }
        let (client, namespace) = (plane.admin().unwrap(), plane.namespace(name).await.unwrap());
        Self { plane, client, namespace, events_watch: EventsWatch::default() }
    }

    /// An operator confined to this test's namespace, with the administrator's rights.
    pub fn operator(&self) -> OperatorBuilder {
        OperatorBuilder::new(self.client.clone(), &self.namespace, self.events_watch.clone())
    }

    /// The same behind a proxy that forwards all requests at first.
    pub async fn proxied_operator(&self) -> (Proxy, RunningOperator) {
        let proxy = Proxy::start(self.client.clone()).await;
        let operator = self.operator().through(&proxy).start();
        (proxy, operator)
    }

    pub fn pods(&self) -> Api<Pod> {
        self.api()
    }

    pub fn objects(&self) -> Api<Orchestr> {
        self.api()
    }

    /// `Orchestr` objects as JSON, including those that do not match their schema.
    pub fn raw_objects(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &orchestr::api::api_resource())
    }

    /// Creates a pod with one container, `app`, and this status.
    pub async fn pod(&self, name: &str, status: Value) {
        self.pod_with(name, json!({}), status).await;
    }

    /// Creates a pod from a minimal one with `changes` merged into its metadata and spec.
    ///
    /// The pod is written to etcd directly, because the API server would set `creationTimestamp` to now, later than
    /// the times in the status.
    pub async fn pod_with(&self, name: &str, changes: Value, status: Value) {
        let uid = format!("00000000-0000-4000-9000-{:012x}", fastrand::u64(..1 << 48));
        let pod = json!({"metadata": {"creationTimestamp": ago(24 * 3600), "uid": uid}, "status": status});
        let (key, pod) = stored("pods", &pod_statuses::pod(&self.namespace, name, merged(pod, &changes)));
        self.plane.put(&key, pod).await.unwrap();
    }

    pub async fn set_status(&self, name: &str, status: Value) {
        self.set_status_of::<Pod>(name, status).await;
    }

    pub async fn set_status_of<K: Namespaced>(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub fn api<K: Namespaced>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Creates an object of another kind.
    pub async fn create<K: Namespaced>(&self, object: Value) -> K {
        self.api().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    /// Creates a Job with this status. Returns the changes of a pod that make it one of the Job's.
    pub async fn job(&self, name: &str, status: Value) -> Value {
        let app = json!({"name": "app", "image": "example.com/app:1"});
        let template = json!({"spec": {"restartPolicy": "Never", "containers": [app]}});
        let job: Job = self.create(json!({"metadata": {"name": name}, "spec": {"template": template}})).await;
        self.set_status_of::<Job>(name, status).await;
        json!({"metadata": {"ownerReferences": controlled_by("Job", name, job.metadata.uid)}})
    }

    pub async fn patch_pod(&self, name: &str, patch: Value) {
        self.pods().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    pub async fn delete_pod(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }

    pub async fn object(&self, name: &str, spec: Value) -> Orchestr {
        let object = json!({"apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": name}, "spec": spec});
        self.objects().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    pub async fn patch_object(&self, name: &str, patch: Value) {
        self.raw_objects().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Writes an object to etcd without validation, like one that is older than the schema.
    pub async fn old_object(&self, name: &str, metadata: Value, spec: Value, status: Value) {
        let object = json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
            "metadata": {
                "name": name, "namespace": self.namespace, "uid": format!("00000000-0000-4000-8000-{:012x}", fastrand::u32(..)),
                "generation": 1, "creationTimestamp": ago(3600),
            },
            "spec": spec, "status": status,
        });
        let (key, object) = stored("kopf.dev/orchestrs", &merged(object, &json!({"metadata": metadata})));
        self.plane.put(&key, object).await.unwrap();
    }

    /// The object's status; empty if it cannot be decoded.
    pub async fn status(&self, name: &str) -> OrchestrStatus {
        decode_status(&self.raw_objects().get(name).await.unwrap())
    }

    /// Waits until the object's status fulfils `wanted`, and returns it.
    pub async fn wait_for_status(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&OrchestrStatus) -> bool,
    ) -> OrchestrStatus {
        self.wait_for_status_within(TIMEOUT, name, what, wanted).await
    }

    /// The same for the object `cluster`.
    pub async fn until(&self, what: &str, wanted: impl Fn(&OrchestrStatus) -> bool) -> OrchestrStatus {
        self.wait_for_status("cluster", what, wanted).await
    }

    pub async fn wait_for_status_within(
        &self,
        timeout: Duration,
        name: &str,
        what: &str,
        wanted: impl Fn(&OrchestrStatus) -> bool,
    ) -> OrchestrStatus {
        let is_wanted = |object: Option<&DynamicObject>| object.is_some_and(|object| wanted(&decode_status(object)));
        match until(self.raw_objects(), name, timeout, is_wanted).await {
            Ok(object) => decode_status(&object.unwrap()),
            Err(error) => panic!("{what}: {error}"),
        }
    }

    /// Waits until the condition Ready has this reason.
    pub async fn wait_for_ready(&self, name: &str, reason: &str) -> OrchestrStatus {
        self.wait_for_status(name, &format!("Ready is {reason}"), |status| condition(status, "Ready").1 == reason).await
    }

    /// Creates an object and waits until the operator has written its status. Watches are ordered, so the operator
    /// has then processed every change of an object made before.
    pub async fn wait_until_caught_up(&self) {
        self.wait_until_watching(watch_all()).await;
    }

    /// The same with `--own-namespace-only`.
    pub async fn wait_until_caught_up_in_own_namespace(&self) {
        self.wait_until_watching(watch_with(json!({"pods": {"namespaces": [self.namespace]}}))).await;
    }

    async fn wait_until_watching(&self, spec: Value) {
        let name = format!("caught-up-{}", fastrand::u32(..));
        self.object(&name, spec).await;
        self.wait_for_ready(&name, "Watching").await;
        self.objects().delete(&name, &DeleteParams::default()).await.unwrap();
    }

    /// The events about an object, oldest first.
    pub async fn events(&self, name: &str) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut events = events.list(&ListParams::default()).await.unwrap().items;
        events.retain(|event| event.regarding.as_ref().is_some_and(|own| own.name.as_deref() == Some(name)));
        events.sort_by_key(|event| event.event_time.as_ref().map(|time| time.0));
        events
    }
}

fn decode_status(object: &DynamicObject) -> OrchestrStatus {
    object.data.get("status").and_then(|status| serde_json::from_value(status.clone()).ok()).unwrap_or_default()
}

/// The minimal spec.
pub fn watch_all() -> Value {
    json!({"alerts": {"checkRunningPods": true}})
}

/// The minimal spec with `changes` merged into it.
pub fn watch_with(changes: Value) -> Value {
    merged(watch_all(), &changes)
}

/// The status, reason and message of a condition.
pub fn condition<'a>(status: &'a OrchestrStatus, kind: &str) -> (&'a str, &'a str, &'a str) {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind)
        .map_or(("", "", ""), |condition| (&condition.status, &condition.reason, &condition.message))
}

/// The names of the pods in `status.problematicPods`, sorted.
pub fn listed(status: &OrchestrStatus) -> Vec<&str> {
    let mut names: Vec<_> = status.problematic_pods.iter().map(|pod| pod.name.as_str()).collect();
    names.sort_unstable();
    names
}
