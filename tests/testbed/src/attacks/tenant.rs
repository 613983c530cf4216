//! The attacker's account: its rights, and its requests.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{control_plane::ControlPlane, error::Result, wait::eventually};

/// The tenant's user. It is bound to Roles in its own namespaces only.
const USER: &str = "mallory";
/// What the administrator of a shared cluster gives to a team.
const ROLES: [&str; 2] = ["admin", "orchestr-editor"];

/// How many requests of a tenant were answered, and how many of them were refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    /// Requests that succeeded.
    pub accepted: u64,
    /// Requests that failed, for instance because of the schema or of the admission policy.
    pub refused: u64,
}

/// A tenant with one namespace.
pub struct Tenant {
    client: Client,
    pub(super) namespace: String,
    accepted: AtomicU64,
    refused: AtomicU64,
}

impl Tenant {
    /// Creates the namespace and binds the tenant's roles in it.
    pub async fn new(plane: &ControlPlane, namespace: &str) -> Result<Self> {
        plane.ensure_namespace(namespace).await?;
        let bindings = Api::<RoleBinding>::namespaced(plane.admin()?, namespace);
        for role in ROLES {
            let binding = json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": role},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
            });
            bindings.patch(role, &PatchParams::apply("testbed").force(), &Patch::Apply(&binding)).await?;
        }
        let client = Client::try_from(plane.user(USER, &[]))?;
        let namespace = namespace.to_owned();
        Ok(Self { client, namespace, accepted: AtomicU64::new(0), refused: AtomicU64::new(0) })
    }

    /// Waits until the admission policy refuses an object that would show other namespaces.
    pub async fn until_confined(&self, limit: Duration) -> Result<()> {
        let api = self.api("kopf.dev", "v1", "Orchestr");
        let object = json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": "too-wide"},
            "spec": {"alerts": {"checkRunningPods": true}},
        });
        let object = serde_json::from_value(object)?;
        let dry_run = PostParams { dry_run: true, ..PostParams::default() };
        eventually("the policy is in effect", limit, async || match api.create(&dry_run, &object).await {
            Err(kube::Error::Api(status)) if status.message.contains("list pods in all namespaces") => Ok(()),
            other => Err(format!("{:?}", other.map(drop))),
        })
        .await
    }

    pub(super) fn requests(&self) -> Requests {
        Requests { accepted: self.accepted.load(Ordering::Relaxed), refused: self.refused.load(Ordering::Relaxed) }
    }

    /// Creates an Orchestr object.
    pub(super) async fn create_orchestr(&self, name: &str, spec: &Value) -> bool {
        let object = json!({"apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": name}, "spec": spec});
        self.create("kopf.dev", "v1", "Orchestr", object).await
    }

    pub(super) async fn patch_orchestr(&self, name: &str, patch: &Value) -> bool {
        let api = self.api("kopf.dev", "v1", "Orchestr");
        self.count(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await)
    }

    pub(super) async fn delete_orchestr(&self, name: &str) -> bool {
        let api = self.api("kopf.dev", "v1", "Orchestr");
        self.count(api.delete(name, &DeleteParams::default()).await)
    }

    pub(super) async fn patch_pod(&self, name: &str, patch: &Value) -> bool {
        let api = self.api("", "v1", "Pod");
        self.count(api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await)
    }

    pub(super) async fn create(&self, group: &str, version: &str, kind: &str, object: Value) -> bool {
        let Ok(object) = serde_json::from_value(object) else { return false };
        let api = self.api(group, version, kind);
        self.count(api.create(&PostParams::default(), &object).await)
    }

    fn api(&self, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    fn count<T>(&self, result: kube::Result<T>) -> bool {
        let counter = if result.is_ok() { &self.accepted } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
        result.is_ok()
    }
}
