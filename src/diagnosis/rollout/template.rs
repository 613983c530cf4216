//! The pod template of a revision, reduced to what is compared between revisions.
//!
//! Values of environment variables are kept only as hashes, because they may be secrets.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::pods::Probe;

/// A pod template. It has no bound of its own: the caller limits the size of the object that it decodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    /// When its revision was created.
    pub(super) created: Option<Timestamp>,
    pub(super) containers: Vec<ContainerTemplate>,
    pub(super) init_containers: Vec<ContainerTemplate>,
}

impl Template {
    /// The app containers, then the init containers.
    pub(super) fn all(&self) -> impl Iterator<Item = &ContainerTemplate> {
        self.containers.iter().chain(&self.init_containers)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ContainerTemplate {
    pub name: String,
    pub image: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    /// `resources.limits`.
    pub limits: BTreeMap<String, String>,
    /// The variables by name, each with a hash of its value or source.
    pub env: BTreeMap<String, u64>,
    /// The ConfigMaps and Secrets of `envFrom`.
    pub env_from: BTreeMap<String, u64>,
    /// Each with a hash of all its fields.
    pub liveness_probe: Option<(Probe, u64)>,
    pub readiness_probe: Option<(Probe, u64)>,
    pub startup_probe: Option<(Probe, u64)>,
}

/// A ReplicaSet or ControllerRevision, as far as it is needed to compare revisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevisionObject {
    pub uid: String,
    /// The UID of the owner reference with `controller: true`; empty without one.
    pub owner_uid: String,
    /// The number of the revision, if the object has one.
    pub number: Option<i64>,
    pub template: Template,
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
        let object: ObjectJson<'_> = serde_json::from_slice(json).map_err(|_| "it cannot be decoded")?;
        let ObjectJson { metadata, spec, data, revision } = object;
        let annotation = |name: &&str| metadata.annotations.as_ref()?.get(*name)?.parse().ok();
        let owner = metadata.owner_references.into_iter().flatten().find(|owner| owner.controller == Some(true));
        let spec = spec.or(data.and_then(|data| data.spec));
        let template = spec.and_then(|spec| spec.template).and_then(|template| template.spec).unwrap_or_default();
        Ok(Self {
            uid: metadata.uid,
            owner_uid: owner.map(|owner| owner.uid).unwrap_or_default(),
            number: revision.or_else(|| NUMBER_ANNOTATIONS.iter().find_map(annotation)),
            template: Template {
                created: metadata.creation_timestamp,
                containers: containers(template.containers)?,
                init_containers: containers(template.init_containers)?,
            },
        })
    }
}

fn containers(json: Option<Vec<ContainerJson<'_>>>) -> Result<Vec<ContainerTemplate>, &'static str> {
    json.into_iter().flatten().map(TryInto::try_into).collect()
}

impl TryFrom<ContainerJson<'_>> for ContainerTemplate {
    type Error = &'static str;

    fn try_from(json: ContainerJson<'_>) -> Result<Self, Self::Error> {
        let probe = |json: Option<&RawValue>| -> Result<_, &'static str> {
            let Some(json) = json else { return Ok(None) };
            let probe: Option<Probe> = serde_json::from_str(json.get()).map_err(|_| "a probe cannot be decoded")?;
            Ok(probe.map(|probe| (probe, hash(json.get()))))
        };
        let variable = |variable: EnvJson<'_>| {
            let source = [variable.value, variable.value_from].map(|part| part.map(RawValue::get));
            (variable.name, hash(&source))
        };
        let source = |source: EnvFromJson<'_>| {
            let prefix = source.prefix.map_or("", RawValue::get);
            let name = match (source.config_map_ref, source.secret_ref) {
                (Some(config_map), _) => format!("ConfigMap {}", config_map.name),
                (None, Some(secret)) => format!("Secret {}", secret.name),
                (None, None) => String::new(),
            };
            (name, hash(&prefix))
        };
        Ok(Self {
            name: json.name,
            image: json.image.unwrap_or_default(),
            command: json.command.unwrap_or_default(),
            args: json.args.unwrap_or_default(),
            limits: json.resources.and_then(|resources| resources.limits).unwrap_or_default(),
            env: json.env.into_iter().flatten().map(variable).collect(),
            env_from: json.env_from.into_iter().flatten().map(source).collect(),
            liveness_probe: probe(json.liveness_probe)?,
            readiness_probe: probe(json.readiness_probe)?,
            startup_probe: probe(json.startup_probe)?,
        })
    }
}

/// Equal within one process only.
fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[derive(Deserialize)]
struct ObjectJson<'a> {
    #[serde(default)]
    metadata: MetaJson,
    #[serde(borrow)]
    spec: Option<SpecJson<'a>>,
    #[serde(borrow)]
    data: Option<DataJson<'a>>,
    revision: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct MetaJson {
    uid: String,
    creation_timestamp: Option<Timestamp>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerJson>>,
}

#[derive(Deserialize)]
struct OwnerJson {
    #[serde(default)]
    uid: String,
    controller: Option<bool>,
}

#[derive(Deserialize)]
struct DataJson<'a> {
    #[serde(borrow)]
    spec: Option<SpecJson<'a>>,
}

#[derive(Deserialize)]
struct SpecJson<'a> {
    #[serde(borrow)]
    template: Option<TemplateJson<'a>>,
}

#[derive(Deserialize)]
struct TemplateJson<'a> {
    #[serde(borrow)]
    spec: Option<PodSpecJson<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct PodSpecJson<'a> {
    #[serde(borrow)]
    containers: Option<Vec<ContainerJson<'a>>>,
    #[serde(borrow)]
    init_containers: Option<Vec<ContainerJson<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerJson<'a> {
    #[serde(default)]
    name: String,
    image: Option<String>,
    command: Option<Vec<String>>,
    args: Option<Vec<String>>,
    resources: Option<ResourcesJson>,
    #[serde(borrow)]
    env: Option<Vec<EnvJson<'a>>>,
    #[serde(borrow)]
    env_from: Option<Vec<EnvFromJson<'a>>>,
    #[serde(borrow)]
    liveness_probe: Option<&'a RawValue>,
    #[serde(borrow)]
    readiness_probe: Option<&'a RawValue>,
    #[serde(borrow)]
    startup_probe: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResourcesJson {
    limits: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvJson<'a> {
    #[serde(default)]
    name: String,
    #[serde(borrow)]
    value: Option<&'a RawValue>,
    #[serde(borrow)]
    value_from: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvFromJson<'a> {
    #[serde(borrow)]
    prefix: Option<&'a RawValue>,
    config_map_ref: Option<NameJson>,
    secret_ref: Option<NameJson>,
}

#[derive(Deserialize)]
struct NameJson {
    #[serde(default)]
    name: String,
}
