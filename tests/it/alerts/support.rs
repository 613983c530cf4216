//! Helpers for objects with webhooks and their Secrets.

use k8s_openapi::api::{
    authorization::v1::SubjectAccessReview,
    core::v1::Secret,
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use orchestr::api::{OrchestrStatus, WebhookStatus};
use orchestr_testbed::{Received, eventually};
use serde_json::{Value, json};
use tokio::process::Child;

use crate::{
    command::run,
    pod_statuses::{ago, crash_looping, merged, pod, stored},
    support::TIMEOUT,
    test_env::TestEnv,
};

/// A webhook that sends problems immediately, to the URL in the Secret `NAME-webhook`.
pub fn webhook(name: &str, format: &str, changes: Value) -> Value {
    let url = json!({"secretKeyRef": {"name": format!("{name}-webhook"), "key": "url"}});
    let mut webhook = json!({"name": name, "format": format, "after": "0s", "urlFrom": url});
    webhook.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    webhook
}

pub fn spec(webhooks: &[Value]) -> Value {
    json!({"alerts": {"checkRunningPods": true}, "webhooks": webhooks})
}

pub fn delivery<'a>(status: &'a OrchestrStatus, name: &str) -> Option<&'a WebhookStatus> {
    status.webhooks.iter().map(|webhook| &**webhook).find(|webhook| webhook.name == name)
}

/// The IDs of requests, in order.
pub fn ids(received: &[Received]) -> Vec<&str> {
    received.iter().map(|request| request.header("webhook-id")).collect()
}

impl TestEnv {
    /// Creates or changes the Secret of a webhook.
    pub async fn secret(&self, webhook: &str, values: &[(&str, &str)]) {
        let data: serde_json::Map<String, Value> =
            values.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let name = format!("{webhook}-webhook");
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data});
        let params = PatchParams::apply("tests").force();
        self.secrets().patch(&name, &params, &Patch::Apply(&secret)).await.unwrap();
    }

    /// Allows a service account to get these Secrets, and Orchestr objects, in the test's namespace.
    pub async fn allow_secrets(&self, home: &str, account: &str, secrets: &[&str]) {
        let name = format!("secrets-{account}");
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": secrets, "verbs": ["get"]},
                {"apiGroups": ["kopf.dev"], "resources": ["orchestrs"], "verbs": ["get"]},
            ],
        });
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
        });
        let params = PatchParams::apply("tests").force();
        let roles: Api<Role> = Api::namespaced(self.client.clone(), &self.namespace);
        roles.patch(&name, &params, &Patch::Apply(&role)).await.unwrap();
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), &self.namespace);
        bindings.patch(&name, &params, &Patch::Apply(&binding)).await.unwrap();
        let review: SubjectAccessReview = serde_json::from_value(json!({"spec": {
            "user": format!("system:serviceaccount:{home}:{account}"),
            "resourceAttributes": {
                "verb": "get", "resource": "secrets", "namespace": self.namespace, "name": secrets[0],
            },
        }}))
        .unwrap();
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        eventually("the Role is in effect", TIMEOUT, async || {
            let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
            if answer.status.unwrap().allowed { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await
        .unwrap();
    }

    pub async fn delete_secret(&self, webhook: &str) {
        self.secrets().delete(&format!("{webhook}-webhook"), &DeleteParams::default()).await.unwrap();
    }

    /// Writes crash-looping pods with this metadata directly to etcd, hundreds per second.
    pub async fn load_crashing(&self, names: impl IntoIterator<Item = String>, metadata: &Value) {
        let pods = names.into_iter().map(|name| {
            let created = json!({"metadata": {"creationTimestamp": ago(60)}, "status": crash_looping(3)});
            let pod = pod(&self.namespace, &name, merged(created, &json!({"metadata": metadata})));
            stored("pods", &pod)
        });
        self.plane.load(pods).await.unwrap();
    }

    /// Moves all times in `status.webhooks` back by an hour, as if the operator had been down for that long.
    pub async fn let_an_hour_pass(&self, name: &str) {
        let mut webhooks = json!(self.status(name).await)["webhooks"].take();
        put_back(&mut webhooks);
        let patch = json!({"status": {"webhooks": webhooks}});
        self.objects().patch_status(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Changes an object's spec.
    pub async fn update_spec(&self, name: &str, spec: Value) {
        let patch = json!({"spec": spec});
        self.objects().patch(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// Starts the binary. It is killed when the value is dropped.
    pub fn program(&self, kubeconfig: &std::path::Path) -> Child {
        let flags = ["--webhook-allow-http", "--webhook-allow-loopback", "--namespaces", &self.namespace];
        run(kubeconfig, &flags).spawn().unwrap()
    }
}

/// `kill -9`.
pub async fn kill(mut program: Child) {
    program.kill().await.unwrap();
}

fn put_back(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(put_back),
        Value::Object(fields) => fields.values_mut().for_each(put_back),
        Value::String(text) => {
            if let Ok(time) = text.parse::<jiff::Timestamp>() {
                *text = (time - jiff::SignedDuration::from_hours(1)).to_string();
            }
        }
        _ => {}
    }
}
