//! What changed in the pod template from one revision of a workload to the next.
//!
//! Values of environment variables are kept only as hashes, because they may be secrets.

mod limit_changes;

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

use crate::pods::Probe;

pub use limit_changes::{LimitChange, LimitChanges, ManagedWorkload, limit_changes};

/// The most changes that are kept.
const CHANGES: usize = 8;
/// The longest value that is kept, in bytes. Of a longer one, only the fact that it changed is kept: a part of it might
/// begin in the middle of a secret, which would not be recognized.
const VALUE_LIMIT: usize = 2048;
/// The longest name that is kept, in bytes, and the most names of a kind.
const NAME_LIMIT: usize = 253;
const NAMES: usize = 6;
/// Of how many containers the memory limits are kept, and the longest limit, in bytes.
const CONTAINERS: usize = 32;
const QUANTITY_LIMIT: usize = 32;

/// The differences between two pod templates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateChanges {
    pub changes: Vec<TemplateChange>,
    /// How many others there are.
    pub more: usize,
    /// When the revision was created. Absent after a rollback, when it is older than the revision that it replaced.
    pub created: Option<Timestamp>,
    /// By container; also those that are equal.
    pub memory_limits: BTreeMap<String, MemoryLimits>,
}

/// The memory limit of a container in the pod templates of two revisions; empty if the container has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Absent if no revision before is known, or it has no such container.
    pub before: Option<String>,
    pub after: String,
}

/// A difference between two pod templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateChange {
    /// For example `image of app`.
    pub subject: String,
    pub detail: ChangeDetail,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeDetail {
    /// The values before and after; empty if unset. A command line may contain secrets.
    Values {
        before: String,
        after: String,
    },
    /// What was added, removed or changed, by name only.
    Names {
        added: NameList,
        removed: NameList,
        changed: NameList,
    },
    Added,
    Removed,
    /// In fields that are not compared one by one, or in a value that is too long.
    Changed,
}

/// The first of some names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameList {
    pub names: Vec<String>,
    /// How many others there are.
    pub more: usize,
}

impl NameList {
    fn of<'a>(names: impl Iterator<Item = &'a String>) -> Self {
        let mut list = Self::default();
        for name in names {
            if list.names.len() < NAMES {
                list.names.push(cut(name));
            } else {
                list.more += 1;
            }
        }
        list
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

fn cut(name: &str) -> String {
    name[..name.floor_char_boundary(NAME_LIMIT)].to_owned()
}

/// The fields of a ReplicaSet or ControllerRevision that are needed to compare revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionObject {
    pub name: String,
    pub uid: String,
    /// The UID of the owner reference with `controller: true`; empty without one.
    pub owner_uid: String,
    /// The number of the revision, if the object has one.
    pub number: Option<i64>,
    pub template: Template,
}

/// A pod template. It has no bound of its own: the caller limits the size of the object that it decodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Template {
    /// When its revision was created.
    #[serde(skip)]
    created: Option<Timestamp>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<ContainerTemplate>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<ContainerTemplate>,
}

impl Template {
    /// The app containers, then the init containers.
    fn all(&self) -> impl Iterator<Item = &ContainerTemplate> {
        self.containers.iter().chain(&self.init_containers)
    }

    fn find(&self, name: &str) -> Option<&ContainerTemplate> {
        self.all().find(|container| container.name == name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerTemplate {
    name: String,
    #[serde(deserialize_with = "or_default")]
    image: String,
    #[serde(deserialize_with = "or_default")]
    command: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    args: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
    /// The variables by name, each with a hash of its value or source.
    #[serde(deserialize_with = "env")]
    env: BTreeMap<String, u64>,
    /// The ConfigMaps and Secrets.
    #[serde(deserialize_with = "env_from")]
    env_from: BTreeMap<String, u64>,
    /// Each with a hash of all its fields.
    #[serde(deserialize_with = "probe")]
    liveness_probe: Option<(Probe, u64)>,
    #[serde(deserialize_with = "probe")]
    readiness_probe: Option<(Probe, u64)>,
    #[serde(deserialize_with = "probe")]
    startup_probe: Option<(Probe, u64)>,
}

impl ContainerTemplate {
    /// Empty if it has none.
    fn memory_limit(&self) -> String {
        self.resources.limits.get("memory").cloned().unwrap_or_default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Resources {
    #[serde(deserialize_with = "or_default")]
    limits: BTreeMap<String, String>,
}

/// The annotations that hold the number of a ReplicaSet's revision.
const NUMBER_ANNOTATIONS: [&str; 2] = ["deployment.kubernetes.io/revision", "rollout.argoproj.io/revision"];

impl RevisionObject {
    /// Decodes a ReplicaSet (`spec.template`) or ControllerRevision (`data.spec.template`).
    ///
    /// # Errors
    /// When the bytes are not JSON, or a field that is used has another type than the API defines. The error does not
    /// quote the content.
    pub fn from_json(json: &[u8]) -> Result<Self, &'static str> {
        #[derive(Deserialize)]
        struct Object {
            #[serde(default)]
            metadata: ObjectMeta,
            spec: Option<Spec>,
            data: Option<Data>,
            revision: Option<i64>,
        }
        #[derive(Deserialize)]
        struct Data {
            spec: Option<Spec>,
        }
        #[derive(Deserialize)]
        struct Spec {
            template: Option<PodTemplate>,
        }
        #[derive(Deserialize)]
        struct PodTemplate {
            spec: Option<Template>,
        }
        let object: Object = serde_json::from_slice(json).map_err(|_| "it cannot be decoded")?;
        let Object { metadata, spec, data, revision } = object;
        let annotation = |name: &&str| metadata.annotations.as_ref()?.get(*name)?.parse().ok();
        let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let spec = spec.or(data.and_then(|data| data.spec));
        let template = spec.and_then(|spec| spec.template).and_then(|template| template.spec).unwrap_or_default();
        Ok(Self {
            number: revision.or_else(|| NUMBER_ANNOTATIONS.iter().find_map(annotation)),
            owner_uid: owner.map(|owner| owner.uid.clone()).unwrap_or_default(),
            template: Template { created: metadata.creation_timestamp.map(|created| created.0), ..template },
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
        })
    }
}

/// The default in place of `null`.
fn or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn env<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, u64>, D::Error> {
    let variables: Vec<Value> = or_default(deserializer)?;
    Ok(variables.iter().map(|variable| (text(&variable["name"]).to_owned(), hash(variable))).collect())
}

fn env_from<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, u64>, D::Error> {
    let sources: Vec<Value> = or_default(deserializer)?;
    let name = |source: &Value| match (&source["configMapRef"]["name"], &source["secretRef"]["name"]) {
        (Value::String(config_map), _) => format!("ConfigMap {config_map}"),
        (_, secret) => format!("Secret {}", text(secret)),
    };
    Ok(sources.iter().map(|source| (name(source), hash(&source["prefix"]))).collect())
}

fn probe<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<(Probe, u64)>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let hash = hash(&value);
    let probe: Option<Probe> = serde_json::from_value(value).map_err(D::Error::custom)?;
    Ok(probe.map(|probe| (probe, hash)))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Equal within one process only.
fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

impl TemplateChanges {
    /// What is known if only one revision was read.
    #[must_use]
    pub fn of_one(template: &Template) -> Self {
        Self { memory_limits: memory_limits(None, template), ..Self::default() }
    }
}

/// By container. Values that are too long are no quantities.
fn memory_limits(before: Option<&Template>, after: &Template) -> BTreeMap<String, MemoryLimits> {
    let find = |name: &str| before?.find(name).map(ContainerTemplate::memory_limit);
    let containers = after.all().take(CONTAINERS).filter(|container| container.name.len() <= NAME_LIMIT);
    containers
        .map(|container| {
            let limits = MemoryLimits { before: find(&container.name), after: container.memory_limit() };
            (container.name.clone(), limits)
        })
        .filter(|(_, limits)| limits.after.len().max(limits.before.as_ref().map_or(0, String::len)) <= QUANTITY_LIMIT)
        .collect()
}

/// Compares images, commands, arguments, limits and probes by value, and environment variables by name. In the order of
/// the containers, those of the app first.
#[must_use]
pub fn template_changes(before: &Template, after: &Template) -> TemplateChanges {
    let mut changes = Changes::default();
    changes.lists("container", &before.containers, &after.containers);
    changes.lists("init container", &before.init_containers, &after.init_containers);
    let created = after.created.filter(|created| before.created.is_some_and(|before| before < *created));
    TemplateChanges { created, memory_limits: memory_limits(Some(before), after), ..changes.0 }
}

#[derive(Default)]
struct Changes(TemplateChanges);

impl Changes {
    fn push(&mut self, subject: String, detail: ChangeDetail) {
        if self.0.changes.len() < CHANGES {
            self.0.changes.push(TemplateChange { subject, detail });
        } else {
            self.0.more += 1;
        }
    }

    fn values(&mut self, subject: String, before: &str, after: &str) {
        if before.len().max(after.len()) > VALUE_LIMIT {
            if before != after {
                self.push(subject, ChangeDetail::Changed);
            }
        } else if before != after {
            let [before, after] = [before, after].map(str::to_owned);
            self.push(subject, ChangeDetail::Values { before, after });
        }
    }

    fn lists(&mut self, kind: &str, before: &[ContainerTemplate], after: &[ContainerTemplate]) {
        for container in after {
            match before.iter().find(|earlier| earlier.name == container.name) {
                Some(earlier) => self.container(earlier, container),
                None => self.push(format!("{kind} {}", cut(&container.name)), ChangeDetail::Added),
            }
        }
        for gone in before.iter().filter(|earlier| after.iter().all(|container| container.name != earlier.name)) {
            self.push(format!("{kind} {}", cut(&gone.name)), ChangeDetail::Removed);
        }
    }

    fn container(&mut self, before: &ContainerTemplate, after: &ContainerTemplate) {
        let name = cut(&after.name);
        self.values(format!("image of {name}"), &before.image, &after.image);
        self.values(format!("command of {name}"), &before.command.join(" "), &after.command.join(" "));
        self.values(format!("args of {name}"), &before.args.join(" "), &after.args.join(" "));
        let resources: BTreeMap<_, _> = before.resources.limits.iter().chain(&after.resources.limits).collect();
        for resource in resources.into_keys() {
            let [before, after] = [before, after]
                .map(|template| template.resources.limits.get(resource).map(String::as_str).unwrap_or_default());
            self.values(format!("{} limit of {name}", cut(resource)), before, after);
        }
        for (probe, before, after) in [
            ("liveness", &before.liveness_probe, &after.liveness_probe),
            ("readiness", &before.readiness_probe, &after.readiness_probe),
            ("startup", &before.startup_probe, &after.startup_probe),
        ] {
            self.probe(&format!("{probe} probe of {name}"), before.as_ref(), after.as_ref());
        }
        self.names(format!("env of {name}"), &before.env, &after.env);
        self.names(format!("envFrom of {name}"), &before.env_from, &after.env_from);
    }

    fn probe(&mut self, subject: &str, before: Option<&(Probe, u64)>, after: Option<&(Probe, u64)>) {
        let ((before, before_hash), (after, after_hash)) = match (before, after) {
            (Some(before), Some(after)) => (before, after),
            (None, None) => return,
            (before, after) => {
                let action = |probe: Option<&(Probe, u64)>| probe.map(|(probe, _)| probe.action.to_string());
                let [before, after] = [before, after].map(|probe| action(probe).unwrap_or_default());
                return self.push(subject.to_owned(), ChangeDetail::Values { before, after });
            }
        };
        let count = |changes: &Self| changes.0.changes.len() + changes.0.more;
        let known = count(self);
        self.values(subject.to_owned(), &before.action, &after.action);
        let numbers = |probe: &Probe| {
            let grace = probe.termination_grace.map(|grace| grace.to_string()).unwrap_or_default();
            [
                ("initialDelaySeconds", probe.initial_delay.to_string()),
                ("periodSeconds", probe.period.to_string()),
                ("timeoutSeconds", probe.timeout.to_string()),
                ("failureThreshold", probe.failure_threshold.to_string()),
                ("terminationGracePeriodSeconds", grace),
            ]
        };
        for ((field, before), (_, after)) in numbers(before).into_iter().zip(numbers(after)) {
            self.values(format!("{field} of the {subject}"), &before, &after);
        }
        if count(self) == known && before_hash != after_hash {
            self.push(subject.to_owned(), ChangeDetail::Changed);
        }
    }

    fn names(&mut self, subject: String, before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) {
        let added = NameList::of(after.keys().filter(|name| !before.contains_key(*name)));
        let removed = NameList::of(before.keys().filter(|name| !after.contains_key(*name)));
        let is_changed = |(name, value): &(&String, &u64)| before.get(*name).is_some_and(|before| before != *value);
        let changed = NameList::of(after.iter().filter(is_changed).map(|(name, _)| name));
        if !(added.is_empty() && removed.is_empty() && changed.is_empty()) {
            self.push(subject, ChangeDetail::Names { added, removed, changed });
        }
    }
}

#[cfg(test)]
mod tests;
