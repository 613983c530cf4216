//! The objects that a pod refers to and that may explain its problem, and whether they exist. The values of ConfigMaps and
//! Secrets are never kept.

use std::collections::BTreeSet;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, KeyToPath, PersistentVolumeClaim, PodSpec, ResourceQuota, Secret, ServiceAccount, Volume,
};
use kube::api::ListParams;

use crate::{
    api::ProblemKind,
    cli::near::Keys,
    render::{
        explanation::{Events, ObjectPart, ReferenceKind},
        safe::clean,
    },
};

use super::{
    events,
    reader::{Page, Read, Reader},
};

/// The most ways in which a pod uses an object that are named.
const USES: usize = 4;
/// The most objects of a pod that are read.
const OBJECTS: usize = 10;
/// The most keys of an object that are named.
const KEYS: usize = 10;
/// The most events of a claim that are shown.
const EVENTS: usize = 5;
/// The most resources of quotas that are shown.
const QUOTAS: usize = 20;

/// An object that a pod refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    kind: ReferenceKind,
    name: String,
    /// The keys that it must have.
    keys: BTreeSet<String>,
    /// Whether the pod can do without it.
    optional: bool,
    /// How the pod uses it, such as `env of app`.
    used_by: Vec<String>,
}

/// For what a pod refers to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Environment,
    Volume,
    Claim,
    PullSecret,
    Account,
}

/// The uses that a problem of this kind may be about; all, if the pod has no problem yet.
fn uses(kind: Option<ProblemKind>) -> &'static [Use] {
    match kind {
        None => &[Use::Environment, Use::Volume, Use::Claim, Use::PullSecret, Use::Account],
        Some(ProblemKind::Start) => &[Use::Environment, Use::Volume],
        Some(ProblemKind::Creating) => &[Use::Volume, Use::Claim, Use::Account],
        Some(ProblemKind::Image) => &[Use::PullSecret],
        Some(ProblemKind::Unschedulable) => &[Use::Claim],
        Some(_) => &[],
    }
}

/// The references of a pod that a problem of this kind may be about, each object once.
pub(super) fn references(pod: &str, spec: &PodSpec, kind: Option<ProblemKind>) -> Vec<Reference> {
    let mut found = References { uses: uses(kind), found: Vec::new() };
    for secret in spec.image_pull_secrets.iter().flatten() {
        found.add(Use::PullSecret, ReferenceKind::Secret, &secret.name, [], None, "image pull secret");
    }
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.for_each(|container| found.environment(container));
    spec.volumes.iter().flatten().for_each(|volume| found.volume(pod, volume));
    let account = spec.service_account_name.as_deref().unwrap_or_default();
    found.add(Use::Account, ReferenceKind::ServiceAccount, account, [], None, "service account of the pod");
    found.found
}

struct References {
    uses: &'static [Use],
    found: Vec<Reference>,
}

impl References {
    fn add<'k>(
        &mut self,
        of: Use,
        kind: ReferenceKind,
        name: &str,
        keys: impl IntoIterator<Item = &'k String>,
        optional: Option<bool>,
        used_by: &str,
    ) {
        if name.is_empty() || !self.uses.contains(&of) {
            return;
        }
        let (optional, used_by) = (optional == Some(true), clean(used_by));
        let keys = keys.into_iter().filter(|_| !optional).cloned();
        match self.found.iter_mut().find(|own| own.kind == kind && own.name == name) {
            Some(own) => {
                own.keys.extend(keys);
                own.optional &= optional;
                if own.used_by.len() < USES && !own.used_by.contains(&used_by) {
                    own.used_by.push(used_by);
                }
            }
            None => {
                let (name, keys) = (name.to_owned(), keys.collect());
                self.found.push(Reference { kind, name, keys, optional, used_by: vec![used_by] });
            }
        }
    }

    fn environment(&mut self, container: &Container) {
        let (env, env_from) = (format!("env of {}", container.name), format!("envFrom of {}", container.name));
        let (of, map, secret) = (Use::Environment, ReferenceKind::ConfigMap, ReferenceKind::Secret);
        for source in container.env_from.iter().flatten() {
            if let Some(own) = &source.config_map_ref {
                self.add(of, map, &own.name, [], own.optional, &env_from);
            }
            if let Some(own) = &source.secret_ref {
                self.add(of, secret, &own.name, [], own.optional, &env_from);
            }
        }
        for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            if let Some(own) = &source.config_map_key_ref {
                self.add(of, map, &own.name, [&own.key], own.optional, &env);
            }
            if let Some(own) = &source.secret_key_ref {
                self.add(of, secret, &own.name, [&own.key], own.optional, &env);
            }
        }
    }

    fn volume(&mut self, pod: &str, volume: &Volume) {
        let used_by = format!("volume {}", volume.name);
        let (of, map, secret) = (Use::Volume, ReferenceKind::ConfigMap, ReferenceKind::Secret);
        if let Some(own) = &volume.config_map {
            self.add(of, map, &own.name, keys(&own.items), own.optional, &used_by);
        }
        if let Some(own) = &volume.secret {
            let name = own.secret_name.as_deref().unwrap_or_default();
            self.add(of, secret, name, keys(&own.items), own.optional, &used_by);
        }
        for source in volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten()) {
            if let Some(own) = &source.config_map {
                self.add(of, map, &own.name, keys(&own.items), own.optional, &used_by);
            }
            if let Some(own) = &source.secret {
                self.add(of, secret, &own.name, keys(&own.items), own.optional, &used_by);
            }
        }
        let claim = volume.persistent_volume_claim.as_ref().map(|own| own.claim_name.clone());
        // The controller names the claim after the pod and the volume.
        let ephemeral = volume.ephemeral.as_ref().map(|_| format!("{pod}-{}", volume.name));
        for name in claim.into_iter().chain(ephemeral) {
            self.add(Use::Claim, ReferenceKind::PersistentVolumeClaim, &name, [], None, &used_by);
        }
    }
}

fn keys(items: &Option<Vec<KeyToPath>>) -> impl Iterator<Item = &String> {
    items.iter().flatten().map(|item| &item.key)
}

/// Reads the objects concurrently, in the order of the references. One that the pod can do without explains nothing if it does not
/// exist, and is left out.
pub(super) async fn read(reader: &Reader<'_>, references: Vec<Reference>) -> Vec<ObjectPart> {
    if let Some(more @ 1..) = references.len().checked_sub(OBJECTS) {
        reader.not_read(&format!("{more} more objects that the pod refers to"), &format!("at most {OBJECTS} are read"));
    }
    let mut parts = join_all(references.iter().take(OBJECTS).map(|reference| object(reader, reference))).await;
    parts.retain(|object| object.exists != Some(false) || !object.optional);
    parts
}

async fn object(reader: &Reader<'_>, reference: &Reference) -> ObjectPart {
    let Reference { kind, name, keys, optional, used_by } = reference;
    let named = |is_wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
        keys.iter().filter(|key| is_wanted(key)).take(KEYS).map(|key| clean(key)).collect()
    };
    let mut part = ObjectPart {
        kind: *kind,
        name: clean(name),
        exists: None,
        optional: *optional,
        missing_keys: Vec::new(),
        unchecked_keys: Vec::new(),
        used_by: used_by.clone(),
        detail: String::new(),
        events: Events::default(),
    };
    part.exists = match kind {
        ReferenceKind::ConfigMap => {
            let found = reader.get::<ConfigMap, Keys>(name).await;
            if let Read::Found(object) = &found {
                part.missing_keys = named(&|key| !object.iter().any(|own| own == key));
            }
            found.exists()
        }
        ReferenceKind::Secret => {
            let found = reader.metadata::<Secret>(name).await.exists();
            if found == Some(true) {
                part.unchecked_keys = named(&|_| true);
            }
            found
        }
        ReferenceKind::ServiceAccount => reader.metadata::<ServiceAccount>(name).await.exists(),
        ReferenceKind::PersistentVolumeClaim => {
            let found = reader.get::<PersistentVolumeClaim, PersistentVolumeClaim>(name).await;
            if let Read::Found(claim) = &found {
                part.detail = claim_state(claim);
                part.events = if is_bound(claim) { Events::default() } else { claim_events(reader, name, claim).await };
            }
            found.exists()
        }
    };
    part
}

async fn claim_events(reader: &Reader<'_>, name: &str, claim: &PersistentVolumeClaim) -> Events {
    let uid = claim.metadata.uid.as_deref().unwrap_or_default();
    let found = events::read(reader, &format!("PersistentVolumeClaim {name}"), uid).await;
    let (found, more) = found.unwrap_or_default();
    events::newest(&found, more, EVENTS)
}

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

/// For example `Pending, StorageClass fast, 10Gi, ReadWriteOnce`.
fn claim_state(claim: &PersistentVolumeClaim) -> String {
    let phase = claim.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_else(|| "Pending".to_owned());
    let mut parts = vec![phase];
    if let Some(spec) = &claim.spec {
        parts.push(match spec.storage_class_name.as_deref() {
            None | Some("") => "without a StorageClass".to_owned(),
            Some(class) => format!("StorageClass {class}"),
        });
        let requests = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        parts.extend(requests.and_then(|requests| requests.get("storage")).map(|size| size.0.clone()));
        parts.extend(spec.access_modes.iter().flatten().take(4).cloned());
    }
    clean(&parts.join(", "))
}

/// The use of the quotas in the namespace, such as `ResourceQuota pods: pods 10 of 10`.
pub(super) async fn quotas(reader: &Reader<'_>) -> Vec<String> {
    let params = ListParams::default().limit(50);
    let page = reader.list::<ResourceQuota, ResourceQuota>("the quotas of the namespace", &params).await;
    let quotas = page.map(Page::into_items).unwrap_or_default();
    let lines = quotas.iter().flat_map(|quota| {
        let name = quota.metadata.name.as_deref().unwrap_or_default();
        let status = quota.status.as_ref();
        let used = status.and_then(|status| status.used.as_ref());
        let hard = status.and_then(|status| status.hard.as_ref()).into_iter().flatten();
        hard.map(move |(resource, hard)| {
            let used = used.and_then(|used| used.get(resource)).map_or("?", |used| used.0.as_str());
            clean(&format!("ResourceQuota {name}: {resource} {used} of {}", hard.0))
        })
    });
    lines.take(QUOTAS).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(spec: Value, kind: Option<ProblemKind>) -> Vec<String> {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let shown = |own: Reference| {
            let keys: Vec<_> = own.keys.iter().map(String::as_str).collect();
            let optional = if own.optional { " optional" } else { "" };
            format!("{:?} {}[{}]{optional}: {}", own.kind, own.name, keys.join(","), own.used_by.join(", "))
        };
        references("cart", &spec, kind).into_iter().map(shown).collect()
    }

    fn spec() -> Value {
        json!({
            "serviceAccountName": "cart",
            "imagePullSecrets": [{"name": "registry"}, {}],
            "initContainers": [{"name": "init", "env": [
                {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}]}],
            "containers": [{
                "name": "app",
                "env": [
                    {"name": "PLAIN", "value": "hunter2"},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "b", "optional": true}}},
                    {"name": "C", "valueFrom": {"secretKeyRef": {"name": "db", "key": "url"}}},
                ],
                "envFrom": [{"configMapRef": {"name": "extra", "optional": true}}, {"secretRef": {"name": "db"}}],
            }],
            "volumes": [
                {"name": "config", "configMap": {"name": "settings", "items": [{"key": "app.yaml", "path": "app.yaml"}]}},
                {"name": "tls", "secret": {"secretName": "tls"}},
                {"name": "all", "projected": {"sources": [
                    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                    {"secret": {"name": "token", "optional": true}},
                    {"serviceAccountToken": {"path": "token"}},
                ]}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
                {"name": "scratch", "ephemeral": {}},
                {"name": "empty", "emptyDir": {}},
            ],
        })
    }

    #[test]
    fn finds_each_object_once_with_its_keys() {
        assert_eq!(
            found(spec(), None),
            [
                "Secret registry[]: image pull secret",
                "ConfigMap settings[a,app.yaml]: env of init, env of app, volume config",
                "ConfigMap extra[] optional: envFrom of app",
                "Secret db[url]: envFrom of app, env of app",
                "Secret tls[]: volume tls",
                "ConfigMap kube-root-ca.crt[ca.crt]: volume all",
                "Secret token[] optional: volume all",
                "PersistentVolumeClaim data-0[]: volume data",
                "PersistentVolumeClaim cart-scratch[]: volume scratch",
                "ServiceAccount cart[]: service account of the pod",
            ]
        );
    }

    #[test]
    fn the_kind_of_problem_limits_what_is_checked() {
        let kinds = |kind: ProblemKind| found(spec(), Some(kind)).len();
        assert_eq!(found(spec(), Some(ProblemKind::Image)), ["Secret registry[]: image pull secret"]);
        assert_eq!(kinds(ProblemKind::Unschedulable), 2);
        assert_eq!(kinds(ProblemKind::Crash), 0);
        assert!(kinds(ProblemKind::Start) > 4 && kinds(ProblemKind::Creating) > 4);
        assert!(found(json!({"containers": []}), None).is_empty());
    }

    #[test]
    fn describes_a_claim() {
        let claim = |spec, status| -> PersistentVolumeClaim {
            serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": status})).unwrap()
        };
        let pending = claim(
            json!({"storageClassName": "fast", "resources": {"requests": {"storage": "10Gi"}}, "accessModes": ["ReadWriteOnce"]}),
            json!({"phase": "Pending"}),
        );
        assert_eq!(claim_state(&pending), "Pending, StorageClass fast, 10Gi, ReadWriteOnce");
        assert!(!is_bound(&pending) && is_bound(&claim(json!({}), json!({"phase": "Bound"}))));
        assert_eq!(claim_state(&claim(json!({}), json!({"phase": "Bound"}))), "Bound, without a StorageClass");
    }
}
