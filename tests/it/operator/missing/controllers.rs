//! Plays the controllers that create pods: the control plane of the tests has none.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::{
    pod_statuses::{ago, controlled_by},
    test_env::TestEnv,
};

/// A workload that exists in the API.
pub struct Workload<'e> {
    env: &'e TestEnv,
    api: Api<DynamicObject>,
    pub kind: &'static str,
    pub name: String,
    pub uid: String,
    pub pod: Value,
}

pub fn resource(kind: &str) -> ApiResource {
    let (group, plural) = match kind {
        "Deployment" => ("apps", "deployments"),
        "ReplicaSet" => ("apps", "replicasets"),
        "StatefulSet" => ("apps", "statefulsets"),
        "DaemonSet" => ("apps", "daemonsets"),
        "Job" => ("batch", "jobs"),
        "CronJob" => ("batch", "cronjobs"),
        "ReplicationController" => ("", "replicationcontrollers"),
        other => panic!("{other}"),
    };
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), plural)
}

impl TestEnv {
    /// Creates a workload of pods with the label `app`, with these fields in its spec.
    ///
    /// It is a day old: the API server would set `creationTimestamp` to now, so it is written to etcd directly.
    pub async fn workload(&self, kind: &'static str, name: &str, spec: Value) -> Workload<'_> {
        self.owned_workload(kind, name, json!([]), spec, json!({})).await
    }

    pub async fn owned_workload(
        &self,
        kind: &'static str,
        name: &str,
        owners: Value,
        spec: Value,
        pod: Value,
    ) -> Workload<'_> {
        let labels = json!({"app": "api"});
        let mut pod_spec = json!({
            "containers": [{"name": "app", "image": "example.com/app:1", "resources": {
                "requests": {"memory": "256Mi"}, "limits": {"memory": "256Mi"}}}],
        });
        if kind == "Job" {
            pod_spec["restartPolicy"] = json!("Never");
        }
        for (field, value) in pod.as_object().unwrap() {
            pod_spec[field] = value.clone();
        }
        let annotations = json!({"kopf.dev/team": "checkout"});
        let template = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": pod_spec});
        let mut object = json!({
            "apiVersion": resource(kind).api_version, "kind": kind,
            "metadata": {
                "name": name, "namespace": self.namespace, "ownerReferences": owners, "creationTimestamp": ago(24 * 3600),
                "uid": format!("00000000-0000-4000-a000-{:012x}", fastrand::u64(..1 << 48)), "generation": 1,
            },
            "spec": spec, "status": {},
        });
        object["spec"]["template"] = template.clone();
        match kind {
            "ReplicationController" => object["spec"]["selector"] = labels,
            _ => object["spec"]["selector"] = json!({"matchLabels": labels}),
        }
        if kind == "StatefulSet" {
            object["spec"]["serviceName"] = json!(name);
        }
        let api = Api::namespaced_with(self.client.clone(), &self.namespace, &resource(kind));
        let plural = if kind == "ReplicationController" { "controllers".to_owned() } else { resource(kind).plural };
        let key = format!("/registry/{plural}/{}/{name}", self.namespace);
        self.plane.put(&key, object.to_string()).await.unwrap();
        let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
        Workload { env: self, api, kind, name: name.to_owned(), uid, pod: template }
    }
}

impl Workload<'_> {
    /// Tries to create a pod as the controller does. Returns the error's text if the API server refuses it.
    pub async fn create_pod(&self, name: Option<&str>) -> Result<String, String> {
        let mut pod = self.pod.clone();
        match name {
            Some(name) => pod["metadata"]["name"] = json!(name),
            None => pod["metadata"]["generateName"] = json!(format!("{}-", self.name)),
        }
        pod["metadata"]["ownerReferences"] = controlled_by(self.kind, &self.name, self.uid.as_str());
        match self.env.pods().create(&PostParams::default(), &serde_json::from_value::<Pod>(pod).unwrap()).await {
            Ok(pod) => Ok(pod.metadata.name.unwrap()),
            Err(kube::Error::Api(status)) => Err(status.message.clone()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Writes the event as the controller's recorder does.
    pub async fn failed_create(&self, message: &str, first_seconds_ago: i64) {
        self.event_of(&self.uid, message, first_seconds_ago).await;
    }

    pub async fn event_of(&self, uid: &str, message: &str, first_seconds_ago: i64) {
        // A real controller repeats its event.
        self.env.events_watch.until_watched().await;
        let events: Api<Event> = Api::namespaced(self.env.client.clone(), &self.env.namespace);
        let event = json!({
            "metadata": {"name": format!("failed-create.{:x}", fastrand::u64(..))},
            "involvedObject": {
                "apiVersion": resource(self.kind).api_version, "kind": self.kind, "namespace": self.env.namespace,
                "name": self.name, "uid": uid,
            },
            "type": "Warning", "reason": "FailedCreate", "message": message, "count": 2,
            "firstTimestamp": ago(first_seconds_ago), "lastTimestamp": ago(0),
            "source": {"component": "controller"}, "reportingComponent": "controller",
        });
        events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await.unwrap();
    }

    pub async fn set_status(&self, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api.patch_status(&self.name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// The status of a ReplicaSet that has failed to create pods since a time.
    pub async fn set_failing(&self, replicas: u32, since_seconds_ago: i64, message: &str) {
        self.set_status(json!({"replicas": replicas, "conditions": [{
            "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message,
            "lastTransitionTime": ago(since_seconds_ago),
        }]}))
        .await;
    }

    pub async fn patch(&self, patch: Value) {
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub async fn delete(&self) {
        self.api.delete(&self.name, &DeleteParams::background()).await.unwrap();
    }
}
