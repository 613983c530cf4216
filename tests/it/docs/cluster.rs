//! The cluster on which the commands of the documentation run.

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use orchestr::api::api_resource;
use orchestr_testbed::{
    Answer, ControlPlane, Kubelet, Options, eventually,
    pods::{Shape, filler},
};
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinSet};

use crate::{
    chart::guide::roll_out,
    pod_statuses::{ago, container, status, terminated},
    running_operator::EventsWatch,
    support::TIMEOUT,
    test_env::{Plane, TestEnv},
};

/// The pods of a new cluster, and the two of the operator.
const HEALTHY: usize = 11;
const LOG: &str = "connecting to the database\nDB_URL is not set\n";
/// The namespace of the Orchestr objects.
const SYSTEM: &str = "orchestr-system";

/// A cluster with healthy pods, and with a node on which each new pod crashes.
pub struct Cluster {
    /// The namespace `shop`, which a page creates.
    pub env: TestEnv,
    /// Reports Deployments as rolled out.
    pub controller: AbortHandle,
    /// The node, and the controller.
    _tasks: JoinSet<()>,
}

impl Cluster {
    pub async fn new() -> Self {
        let plane = Plane::start(Options::default()).await;
        load_healthy(&plane).await;
        let client = plane.admin().unwrap();
        let kubelet = Kubelet::start(&plane, "kind-control-plane").await.unwrap();
        let mut tasks = JoinSet::new();
        let controller = tasks.spawn(roll_out(client.clone()));
        tasks.spawn(run_pods(client.clone(), kubelet));
        let env = TestEnv { plane, client, namespace: "shop".to_owned(), events_watch: EventsWatch::default() };
        Self { env, controller, _tasks: tasks }
    }

    /// Without this account, the API server refuses pods.
    pub async fn create_service_accounts(&self) {
        let client = &self.env.client;
        for namespace in Api::<Namespace>::all(client.clone()).list(&ListParams::default()).await.unwrap() {
            let accounts = Api::<ServiceAccount>::namespaced(client.clone(), &namespace.name_any());
            let account = serde_json::from_value(json!({"metadata": {"name": "default"}})).unwrap();
            // It may exist.
            let _ = accounts.create(&PostParams::default(), &account).await;
        }
    }

    /// Creates an object as an example shows it, waits until the operator watches its pods, and deletes it.
    pub async fn accepts(&self, mut example: Value) {
        if example["spec"]["alerts"].is_null() {
            example["spec"]["alerts"] = json!({"checkRunningPods": true});
        }
        let text = example.to_string();
        let mut object = DynamicObject::new("example", &api_resource());
        object.data = json!({"spec": example["spec"]});
        let objects: Api<DynamicObject> = Api::namespaced_with(self.env.client.clone(), SYSTEM, &api_resource());
        objects.create(&PostParams::default(), &object).await.unwrap_or_else(|error| panic!("{text}: {error}"));
        eventually(&format!("the operator accepts {text}"), TIMEOUT, async || {
            let status = objects.get("example").await.unwrap().data["status"].take();
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            if conditions.any(|condition| condition["reason"] == "Watching") { Ok(()) } else { Err(status.to_string()) }
        })
        .await
        .unwrap();
        objects.delete("example", &DeleteParams::default()).await.unwrap();
    }
}

async fn load_healthy(plane: &ControlPlane) {
    let shape = Shape { namespaces: 1, workloads: HEALTHY, crash_looping: 0, ..Shape::default() };
    let system = |text: String| text.replace("team-0", "kube-system");
    let pods = (0..HEALTHY).map(|index| filler(index, &shape)).map(|(key, pod)| (system(key), system(pod)));
    plane.load(pods).await.unwrap();
}

/// Starts new pods, which crash, and ends those that are deleted.
async fn run_pods(client: Client, kubelet: Kubelet) {
    let changes =
        watcher(Api::<Pod>::all(client.clone()), watcher::Config::default()).default_backoff().applied_objects();
    // After an error, the watcher continues.
    let run = changes.filter_map(async |change| change.ok()).for_each(async |pod: Pod| {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let pods = Api::<Pod>::namespaced(client.clone(), &namespace);
        let spec = pod.spec.unwrap_or_default();
        // Each request fails if the pod was changed in the meantime, which is another event.
        if pod.metadata.deletion_timestamp.is_some() {
            let _ = pods.delete(&name, &DeleteParams::default().grace_period(0)).await;
        } else if spec.node_name.is_none() {
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                "target": {"apiVersion": "v1", "kind": "Node", "name": kubelet.node_name()},
            });
            let _ = pods.create_subresource::<Value, Value>("binding", &name, &PostParams::default(), &binding).await;
        } else if pod.status.and_then(|status| status.container_statuses).is_none() {
            let container = &spec.containers[0].name;
            kubelet.script(&namespace, &name, container, true, Answer::text(LOG));
            let status = json!({"status": crashed(container)});
            let _ = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await;
        }
    });
    run.await;
}

/// The status of a pod whose container has failed for the third time.
fn crashed(name: &str) -> Value {
    let time = ago(0);
    let message = format!("back-off 20s restarting failed container={name} pod={name}_shop");
    let mut last = terminated(1, &time, &time);
    last["terminated"]["containerID"] = json!(format!("containerd://{:064}", 2));
    let waiting = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
    let app = container(name, json!({"restartCount": 2, "state": waiting, "lastState": last}));
    let mut status = status("Running", false, &time, [app]);
    let initialized = json!({"type": "Initialized", "status": "True", "lastTransitionTime": time});
    status["conditions"].as_array_mut().unwrap().push(initialized);
    status
}
