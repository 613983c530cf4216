//! The objects that a pod refers to, as far as its problem may be about them. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec, ProjectedVolumeSource, Volume};

use crate::{api::ProblemKind, render::safe::clean};

/// The most ways in which a pod uses an object that are named.
const USES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReferenceKind {
    ConfigMap,
    Secret,
    PersistentVolumeClaim,
    ServiceAccount,
}

impl ReferenceKind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
            Self::ServiceAccount => "ServiceAccount",
        }
    }
}

/// An object that a pod refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) kind: ReferenceKind,
    pub(super) name: String,
    /// The keys that it must have.
    pub(super) keys: BTreeSet<String>,
    /// Whether the pod can do without it.
    pub(super) optional: bool,
    /// How the pod uses it, such as `env of app`.
    pub(super) used_by: Vec<String>,
}

/// Which references a problem may be about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Scope {
    environment: bool,
    volumes: bool,
    claims: bool,
    pull_secrets: bool,
    account: bool,
}

impl Scope {
    /// That of a pod that has no problem yet.
    pub(super) const ALL: Self =
        Self { environment: true, volumes: true, claims: true, pull_secrets: true, account: true };

    pub(super) fn of(kind: ProblemKind) -> Self {
        let none = Self::default();
        match kind {
            ProblemKind::Start => Self { environment: true, volumes: true, ..none },
            ProblemKind::Creating => Self { volumes: true, claims: true, account: true, ..none },
            ProblemKind::Image => Self { pull_secrets: true, ..none },
            ProblemKind::Unschedulable => Self { claims: true, ..none },
            _ => none,
        }
    }
}

/// The references of a pod, each object once.
pub(super) fn references(pod: &str, spec: &PodSpec, scope: Scope) -> Vec<Reference> {
    let mut found = References(Vec::new());
    if scope.pull_secrets {
        for secret in spec.image_pull_secrets.iter().flatten() {
            found.add(ReferenceKind::Secret, &secret.name, None, false, "image pull secret");
        }
    }
    if scope.environment {
        let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
        containers.for_each(|container| found.environment(container));
    }
    for volume in spec.volumes.iter().flatten() {
        if scope.volumes {
            found.volume(volume);
        }
        if scope.claims {
            found.claim(pod, volume);
        }
    }
    if scope.account {
        let account = spec.service_account_name.as_deref().unwrap_or_default();
        found.add(ReferenceKind::ServiceAccount, account, None, false, "service account of the pod");
    }
    found.0
}

struct References(Vec<Reference>);

impl References {
    fn add(&mut self, kind: ReferenceKind, name: &str, key: Option<&str>, optional: bool, used_by: &str) {
        if name.is_empty() {
            return;
        }
        let key = key.filter(|_| !optional).map(str::to_owned);
        let used_by = clean(used_by);
        match self.0.iter_mut().find(|own| own.kind == kind && own.name == name) {
            Some(own) => {
                own.keys.extend(key);
                own.optional &= optional;
                if own.used_by.len() < USES && !own.used_by.contains(&used_by) {
                    own.used_by.push(used_by);
                }
            }
            None => {
                let (name, keys) = (name.to_owned(), key.into_iter().collect());
                self.0.push(Reference { kind, name, keys, optional, used_by: vec![used_by] });
            }
        }
    }

    fn environment(&mut self, container: &Container) {
        let (env, env_from) = (format!("env of {}", container.name), format!("envFrom of {}", container.name));
        for source in container.env_from.iter().flatten() {
            if let Some(own) = &source.config_map_ref {
                self.add(ReferenceKind::ConfigMap, &own.name, None, own.optional == Some(true), &env_from);
            }
            if let Some(own) = &source.secret_ref {
                self.add(ReferenceKind::Secret, &own.name, None, own.optional == Some(true), &env_from);
            }
        }
        for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            if let Some(own) = &source.config_map_key_ref {
                let optional = own.optional == Some(true);
                self.add(ReferenceKind::ConfigMap, &own.name, Some(&own.key), optional, &env);
            }
            if let Some(own) = &source.secret_key_ref {
                self.add(ReferenceKind::Secret, &own.name, Some(&own.key), own.optional == Some(true), &env);
            }
        }
    }

    fn volume(&mut self, volume: &Volume) {
        let used_by = format!("volume {}", volume.name);
        if let Some(own) = &volume.config_map {
            let optional = own.optional == Some(true);
            let keys = own.items.iter().flatten().map(|item| item.key.as_str());
            self.add_with_keys(ReferenceKind::ConfigMap, &own.name, keys, optional, &used_by);
        }
        if let Some(own) = &volume.secret {
            let optional = own.optional == Some(true);
            let keys = own.items.iter().flatten().map(|item| item.key.as_str());
            let name = own.secret_name.as_deref().unwrap_or_default();
            self.add_with_keys(ReferenceKind::Secret, name, keys, optional, &used_by);
        }
        if let Some(own) = &volume.projected {
            self.projected(own, &used_by);
        }
    }

    fn projected(&mut self, projected: &ProjectedVolumeSource, used_by: &str) {
        for source in projected.sources.iter().flatten() {
            if let Some(own) = &source.config_map {
                let optional = own.optional == Some(true);
                let keys = own.items.iter().flatten().map(|item| item.key.as_str());
                self.add_with_keys(ReferenceKind::ConfigMap, &own.name, keys, optional, used_by);
            }
            if let Some(own) = &source.secret {
                let optional = own.optional == Some(true);
                let keys = own.items.iter().flatten().map(|item| item.key.as_str());
                self.add_with_keys(ReferenceKind::Secret, &own.name, keys, optional, used_by);
            }
        }
    }

    fn add_with_keys<'k>(
        &mut self,
        kind: ReferenceKind,
        name: &str,
        keys: impl Iterator<Item = &'k str>,
        optional: bool,
        used_by: &str,
    ) {
        self.add(kind, name, None, optional, used_by);
        keys.for_each(|key| self.add(kind, name, Some(key), optional, used_by));
    }

    fn claim(&mut self, pod: &str, volume: &Volume) {
        let used_by = format!("volume {}", volume.name);
        if let Some(own) = &volume.persistent_volume_claim {
            self.add(ReferenceKind::PersistentVolumeClaim, &own.claim_name, None, false, &used_by);
        }
        if volume.ephemeral.is_some() {
            // The controller names the claim after the pod and the volume.
            let name = format!("{pod}-{}", volume.name);
            self.add(ReferenceKind::PersistentVolumeClaim, &name, None, false, &used_by);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(spec: Value, scope: Scope) -> Vec<String> {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let shown = |own: Reference| {
            let keys: Vec<_> = own.keys.iter().map(String::as_str).collect();
            let optional = if own.optional { " optional" } else { "" };
            format!("{} {}[{}]{optional}: {}", own.kind.as_str(), own.name, keys.join(","), own.used_by.join(", "))
        };
        references("cart", &spec, scope).into_iter().map(shown).collect()
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
            found(spec(), Scope::ALL),
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
        let kinds = |kind: ProblemKind| found(spec(), Scope::of(kind)).len();
        assert_eq!(found(spec(), Scope::of(ProblemKind::Image)), ["Secret registry[]: image pull secret"]);
        assert_eq!(kinds(ProblemKind::Unschedulable), 2);
        assert_eq!(kinds(ProblemKind::Crash), 0);
        assert!(kinds(ProblemKind::Start) > 4 && kinds(ProblemKind::Creating) > 4);
        assert!(found(json!({"containers": []}), Scope::ALL).is_empty());
    }
}
