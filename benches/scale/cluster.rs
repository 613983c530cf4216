//! A control plane with many pods, and the operator's requests to it.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use http_body_util::BodyExt;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, PostParams},
    client::Body,
};
use orchestr::api::{Orchestr, crd::crd};
use orchestr_testbed::{
    Answer, ControlPlane, Kubelet, Options, eventually,
    pods::{Shape, filler},
};
use serde_json::json;

use crate::Outcome;

/// The namespace of the `Orchestr` objects.
pub const NAMESPACE: &str = "orchestr-bench";
/// The operator's account, which identifies its requests in the audit log.
const ACCOUNT: &str = "operator";
pub const JSON: &str = "application/json";
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Cluster {
    pub plane: ControlPlane,
    pub kubelet: Kubelet,
    pub client: Client,
    /// The operator's.
    pub kubeconfig: PathBuf,
    pub shape: Shape,
    pub pods: usize,
}

impl Cluster {
    /// Starts a control plane with this number of pods.
    pub async fn start(pods: usize, shape: Shape) -> Outcome<Self> {
        let began = Instant::now();
        let plane = ControlPlane::start(Options { audit_log: true, ..Options::default() }).await?;
        if pods > 0 {
            plane.load_at_rest((0..pods).map(|index| filler(index, &shape))).await?;
        }
        let client = plane.admin()?;
        plane.ensure_namespace(NAMESPACE).await?;
        plane.ensure_service_account(NAMESPACE, ACCOUNT).await?;
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": {"name": "bench-operator"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": ACCOUNT}],
        }))?;
        Api::<ClusterRoleBinding>::all(client.clone()).create(&PostParams::default(), &binding).await?;
        let kubeconfig = plane.service_account(NAMESPACE, ACCOUNT).await?.kubeconfig().to_owned();
        plane.install(&crd()).await?;

        let kubelet = Kubelet::start(&plane, "node-0").await?;
        kubelet.script_default(Answer::text(log_of(80)));
        let (kubelet_ref, plane_ref) = (&kubelet, &plane);
        stream::iter(1..shape.nodes)
            .map(|node| async move { kubelet_ref.register(plane_ref, &format!("node-{node}")).await })
            .buffer_unordered(8)
            .try_collect::<Vec<()>>()
            .await?;
        let cluster = Self { plane, kubelet, client, kubeconfig, shape, pods };
        // The first list fills the API server's own caches.
        cluster.raw_list(JSON).await?;
        println!("  {pods} pods loaded in {:.0?}", began.elapsed());
        Ok(cluster)
    }

    /// One LIST of all pods: the time from the request to the last byte, without decoding, and the number of bytes.
    pub async fn raw_list(&self, accept: &str) -> Outcome<(Duration, usize)> {
        let request = http::Request::get("/api/v1/pods").header(http::header::ACCEPT, accept).body(Body::empty())?;
        let began = Instant::now();
        let response = self.client.send(request).await?;
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame?.data_ref().map_or(0, bytes::Bytes::len);
        }
        Ok((began.elapsed(), bytes))
    }

    pub fn objects(&self) -> Api<Orchestr> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates an `Orchestr` that selects these pods.
    pub async fn object(&self, name: &str, pods: serde_json::Value) -> Outcome {
        let object = json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": name},
            "spec": {"alerts": {"checkRunningPods": true}, "pods": pods},
        });
        self.objects().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Deletes every `Orchestr`.
    pub async fn clear_objects(&self) -> Outcome {
        self.objects().delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        eventually("the objects are gone", TIMEOUT, async || match self.objects().list(&ListParams::default()).await {
            Ok(list) if list.items.is_empty() => Ok(()),
            Ok(list) => Err(format!("{} are left", list.items.len())),
            Err(error) => Err(error.to_string()),
        })
        .await?;
        Ok(())
    }

    /// Deletes every `Orchestr` in these namespaces.
    pub async fn clear_objects_of(&self, namespaces: &[String]) -> Outcome {
        for namespace in namespaces {
            let objects: Api<Orchestr> = Api::namespaced(self.client.clone(), namespace);
            objects.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        }
        Ok(())
    }

    /// The operator's requests so far.
    pub fn requests(&self) -> Outcome<Requests> {
        let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
        let mut requests = Requests::default();
        for event in self.plane.audit_log()? {
            if event["user"]["username"] != user.as_str() {
                continue;
            }
            // A watch has two events: when it starts and when it ends.
            let text = |pointer: &str| event.pointer(pointer).and_then(|value| value.as_str()).unwrap_or_default();
            let (verb, stage) = (text("/verb"), text("/stage"));
            if stage != if verb == "watch" { "ResponseStarted" } else { "ResponseComplete" } {
                continue;
            }
            let resource = match (text("/objectRef/resource"), text("/objectRef/subresource")) {
                ("", _) => "(discovery)".to_owned(),
                (resource, "") => resource.to_owned(),
                (resource, subresource) => format!("{resource}/{subresource}"),
            };
            if verb == "patch" && resource == "orchestrs/status" {
                let at: jiff::Timestamp = text("/requestReceivedTimestamp").parse()?;
                requests.writes.entry(text("/objectRef/name").to_owned()).or_default().push(at);
            }
            *requests.counts.entry(format!("{verb} {resource}")).or_default() += 1;
        }
        Ok(requests)
    }

    /// The bytes of pods that the API server has sent so far, in lists and in watches.
    pub async fn pod_bytes(&self) -> Outcome<f64> {
        let metrics = self.plane.metrics().await?;
        let sum = |metric: &str| -> f64 {
            let lines = metrics.lines().filter(|line| line.starts_with(metric) && line.contains(r#"resource="pods""#));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        Ok(sum("apiserver_response_sizes_sum") + sum("apiserver_watch_events_sizes_sum"))
    }
}

/// The operator's requests.
#[derive(Clone, Default)]
pub struct Requests {
    /// By verb and resource.
    pub counts: BTreeMap<String, u64>,
    /// When each object's status was written.
    pub writes: BTreeMap<String, Vec<jiff::Timestamp>>,
}

impl Requests {
    /// The requests since `earlier`.
    pub fn since(&self, earlier: &Self) -> BTreeMap<String, u64> {
        let before = |key: &String| earlier.counts.get(key).copied().unwrap_or_default();
        let counts = self.counts.iter().map(|(key, count)| (key.clone(), count - before(key)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// The shortest time between two writes of one object's status since `start`, in seconds.
    pub fn least_interval(&self, start: jiff::Timestamp) -> Option<f64> {
        let gaps = self.writes.values().flat_map(|times| {
            times.windows(2).filter(move |pair| pair[0] >= start).map(|pair| pair[1].duration_since(pair[0]))
        });
        gaps.min().map(|gap| gap.as_secs_f64())
    }
}

/// A log with this number of typical lines.
pub fn log_of(lines: usize) -> String {
    (0..lines)
        .map(|line| {
            format!(
                "2025-11-03T08:40:{:02}Z INFO handled request id={line:08} path=/api/v1/items status=200\n",
                line % 60
            )
        })
        .collect()
}
