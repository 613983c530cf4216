//! The cluster: its pods, the object with its webhooks, and the rights of the operator.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use orchestr::api::{Orchestr, OrchestrStatus, crd::crd};
use orchestr_testbed::{
    ControlPlane, Receiver, eventually,
    objects::{ago, crash_looping, healthy, merged, not_ready, pod, stored, waiting},
};
use serde_json::{Value, json};

use super::{
    Result,
    schedule::{FORMATS, PodChange},
};

pub const SYSTEM: &str = "orchestr-system";
pub const LEASE: &str = "orchestr";
const SHOP: &str = "shop";
const OBJECT: &str = "cluster";
const ROUTING_KEY: &str = "0123456789abcdef0123456789abcdef";
/// The format that the earlier version does not know. It would find the whole spec invalid.
const NEWEST: &str = "Custom";
/// The files with the rights of the operator, which are withdrawn together.
const RIGHTS: [&str; 2] = ["deploy/cluster/role.yaml", "deploy/base/lease.yaml"];
/// How long a request may be repeated while an API server or etcd recovers.
const LIMIT: Duration = Duration::from_secs(120);

pub struct Cluster {
    pub plane: ControlPlane,
    pub client: Client,
    pub webhooks: Vec<Webhook>,
    /// The pods that have a problem now.
    pub broken: BTreeSet<usize>,
    /// Changed to make the operator try again whatever a receiver has refused.
    timeout: u32,
}

pub struct Webhook {
    name: String,
    pub format: &'static str,
    pub receiver: Receiver,
    /// Each URL that it ever had is a page of the book.
    generation: usize,
    is_present: bool,
}

impl Webhook {
    /// The page of the book: the beginning of the path of the URL.
    pub fn page(&self) -> String {
        format!("/{}/{}", self.name, self.generation)
    }

    fn url(&self) -> String {
        let query = if self.format == "PagerDuty" { format!("?routing_key={ROUTING_KEY}") } else { String::new() };
        self.receiver.url(&(self.page() + &query))
    }

    fn spec(&self, timeout: u32) -> Value {
        let spec = json!({
            "name": self.name, "format": self.format, "after": "0s", "timeout": format!("{timeout}s"),
            "urlFrom": {"secretKeyRef": {"name": self.name, "key": "url"}},
        });
        let body = r#"{"status": {{ status }}, "title": {{ title }}, "text": {{ text }}}"#;
        let custom = json!({"custom": {"body": body, "per": "Incident", "maxBytes": 65_536}});
        if self.format == "Custom" { merged(spec, &custom) } else { spec }
    }
}

impl Cluster {
    /// With replicas of an earlier version, all formats are those that it knows.
    pub async fn start(plane: ControlPlane, with_earlier: bool) -> Result<Self> {
        let client = plane.admin()?;
        plane.install(&crd()).await?;
        plane.ensure_namespace(SHOP).await?;
        plane.ensure_namespace(SYSTEM).await?;
        plane.ensure_service_account(SYSTEM, "orchestr").await?;
        let mut webhooks = Vec::new();
        for format in FORMATS {
            let (name, receiver) = (format.to_lowercase(), Receiver::start().await?);
            let format = if format == NEWEST && with_earlier { "PagerDuty" } else { format };
            webhooks.push(Webhook { name, format, receiver, generation: 0, is_present: true });
        }
        let cluster = Self { plane, client, webhooks, broken: BTreeSet::new(), timeout: 10 };
        let secrets = json!({
            "apiVersion": "v1", "kind": "List", "items": [
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                 "metadata": {"name": "webhooks", "namespace": SYSTEM},
                 "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]},
                {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                 "metadata": {"name": "webhooks", "namespace": SYSTEM},
                 "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "webhooks"},
                 "subjects": [{"kind": "ServiceAccount", "name": "orchestr", "namespace": SYSTEM}]},
            ],
        });
        cluster.kubectl(&["apply", "-f", "-"], Some(&secrets.to_string())).await?;
        cluster.grant_rights().await?;
        for index in 0..cluster.webhooks.len() {
            cluster.write_secret(index, json!({})).await?;
        }
        for index in 0..20 {
            cluster.plane.load([written(1000 + index, healthy())]).await?;
        }
        cluster.write_object().await?;
        Ok(cluster)
    }

    /// Runs kubectl until it succeeds.
    async fn kubectl(&self, args: &[&str], stdin: Option<&str>) -> Result<()> {
        eventually(&format!("kubectl {}", args.join(" ")), LIMIT, async || {
            let output = self.plane.kubectl(args, stdin).await.map_err(|error| error.to_string())?;
            if output.status.success() { Ok(()) } else { Err(output.stderr) }
        })
        .await?;
        Ok(())
    }

    pub async fn grant_rights(&self) -> Result<()> {
        self.kubectl(&["apply", "-f", RIGHTS[0], "-f", RIGHTS[1]], None).await
    }

    pub async fn withdraw_rights(&self) -> Result<()> {
        self.kubectl(&["delete", "--ignore-not-found", "-f", RIGHTS[0], "-f", RIGHTS[1]], None).await
    }

    /// Writes the Secret of a webhook with its URL and these changes.
    pub async fn write_secret(&self, index: usize, changes: Value) -> Result<()> {
        let webhook = &self.webhooks[index];
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": webhook.name},
            "stringData": {"url": webhook.url()},
        });
        let secret = Patch::Apply(merged(secret, &changes));
        let secrets = Api::<Secret>::namespaced(self.client.clone(), SYSTEM);
        eventually("the Secret is written", LIMIT, async || {
            let options = PatchParams::apply("faults").force();
            let written = secrets.patch(&webhook.name, &options, &secret).await;
            written.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        Ok(())
    }

    /// Gives a webhook another URL, in memory only.
    pub fn renew(&mut self, index: usize) {
        self.webhooks[index].generation += 1;
    }

    /// Adds a webhook to the spec or removes it.
    pub async fn set_present(&mut self, index: usize, is_present: bool) -> Result<()> {
        self.webhooks[index].is_present = is_present;
        self.write_object().await
    }

    /// Changes the spec so that the operator tries again what receivers have refused.
    pub async fn touch_spec(&mut self) -> Result<()> {
        self.timeout -= 1;
        self.write_object().await
    }

    pub async fn write_object(&self) -> Result<()> {
        let webhooks = self.webhooks.iter().filter(|webhook| webhook.is_present);
        let webhooks: Vec<Value> = webhooks.map(|webhook| webhook.spec(self.timeout)).collect();
        let object = json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": OBJECT},
            "spec": {"alerts": {"checkRunningPods": true}, "pods": {"namespaces": [SHOP]}, "webhooks": webhooks},
        });
        let objects = self.objects();
        eventually("the object is written", LIMIT, async || {
            let options = PatchParams::apply("faults").force();
            let written = objects.patch(OBJECT, &options, &Patch::Apply(&object)).await;
            written.map(drop).map_err(|error| error.to_string())
        })
        .await?;
        Ok(())
    }

    fn objects(&self) -> Api<Orchestr> {
        Api::namespaced(self.client.clone(), SYSTEM)
    }

    /// The object's status; empty if it cannot be read.
    pub async fn status(&self) -> OrchestrStatus {
        let object = self.objects().get(OBJECT).await.ok();
        object.and_then(|object| object.status).unwrap_or_default()
    }

    pub async fn delete_crd(&self) -> Result<()> {
        let crds = Api::<CustomResourceDefinition>::all(self.client.clone());
        let name = crd().metadata.name.unwrap_or_default();
        eventually("the CRD is deleted", LIMIT, async || match crds.delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(_) => Err("it is being deleted".to_owned()),
        })
        .await?;
        Ok(())
    }

    /// Changes a pod in etcd, which works without an API server.
    pub async fn change(&mut self, change: PodChange) -> Result<()> {
        match change {
            PodChange::Breaks(number) => {
                self.broken.insert(number);
                self.plane.load([written(number, problem(number))]).await?;
            }
            PodChange::Mends(number) => {
                self.broken.remove(&number);
                self.plane.load([written(number, healthy())]).await?;
            }
            PodChange::Goes(number) => {
                self.broken.remove(&number);
                self.plane.delete_prefix(&format!("/registry/pods/{SHOP}/{}", pod_name(number))).await?;
            }
        }
        Ok(())
    }
}

pub fn pod_name(number: usize) -> String {
    format!("work{number:04}")
}

/// The pod as it is stored in etcd. No two pods have anything in common that could be a common cause.
fn written(number: usize, status: Value) -> (String, String) {
    let changes = json!({
        "metadata": {"creationTimestamp": ago(3600)},
        "spec": {
            "nodeName": format!("node-{number}"),
            "containers": [{"name": "app", "image": format!("registry-{number}.example/app:1")}],
        },
        "status": status,
    });
    stored("pods", &pod(SHOP, &pod_name(number), changes))
}

fn problem(number: usize) -> Value {
    match number % 4 {
        0 => crash_looping(3),
        1 => waiting("ImagePullBackOff", &format!("Back-off pulling image \"registry-{number}.example/app:1\""), 5),
        2 => waiting("CreateContainerConfigError", &format!("secret \"password-{number}\" not found"), 5),
        _ => not_ready(150),
    }
}
