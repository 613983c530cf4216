//! An `Orchestr` object as the API server returned it.

use std::borrow::Cow;

use kube::{
    Resource,
    core::{ApiResource, DynamicResourceScope, ObjectMeta},
};
use serde::{Deserialize, Deserializer, de::Error as _, de::IgnoredAny};
use serde_json::value::RawValue;

use super::{NamespacedName, OrchestrStatus};

/// An `Orchestr` as the API server returned it, without the metadata that are not used: a user may add a megabyte of labels
/// and annotations. Spec and status are decoded separately and only when needed: the object may be older than the schema,
/// and a status that another writer has spoiled must not hide the spec.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    pub(crate) key: NamespacedName,
    pub(crate) uid: String,
    pub(crate) generation: i64,
    pub(crate) is_deleting: bool,
    /// About how many bytes the whole object takes as JSON.
    pub(crate) bytes: usize,
    /// The spec as JSON.
    pub(crate) spec: Option<Box<RawValue>>,
    status: Option<Box<RawValue>>,
    /// For kube's requests. It holds nothing but the resource version.
    metadata: ObjectMeta,
}

impl StoredObject {
    pub(crate) fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    /// The status, if it exists and can be decoded.
    pub(crate) fn status(&self) -> Option<OrchestrStatus> {
        serde_json::from_str::<Option<OrchestrStatus>>(self.status.as_ref()?.get()).ok()?
    }
}

#[derive(Deserialize)]
struct ObjectJson {
    metadata: Box<RawValue>,
    #[serde(default)]
    spec: Option<Box<RawValue>>,
    #[serde(default)]
    status: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetadataJson {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    generation: Option<i64>,
    resource_version: Option<String>,
    deletion_timestamp: Option<IgnoredAny>,
}

impl<'de> Deserialize<'de> for StoredObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ObjectJson { metadata, spec, status } = ObjectJson::deserialize(deserializer)?;
        let length = |raw: &Option<Box<RawValue>>| raw.as_ref().map_or(0, |raw| raw.get().len());
        let bytes = metadata.get().len() + length(&spec) + length(&status);
        let metadata: MetadataJson = serde_json::from_str(metadata.get()).map_err(D::Error::custom)?;
        Ok(Self {
            key: NamespacedName::new(metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default()),
            uid: metadata.uid.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            bytes,
            spec,
            status,
            metadata: ObjectMeta { resource_version: metadata.resource_version, ..ObjectMeta::default() },
        })
    }
}

impl Resource for StoredObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        resource.api_version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_what_is_used_and_counts_the_rest() {
        let labels: serde_json::Map<_, _> =
            (0..1_000).map(|label| (format!("example.com/{label}"), json!("v"))).collect();
        let object = json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
            "metadata": {
                "name": "cluster", "namespace": "shop", "uid": "u-1", "generation": 3, "resourceVersion": "9",
                "creationTimestamp": "2026-11-01T10:00:00Z", "deletionTimestamp": null, "labels": labels,
                "managedFields": [{"manager": "kubectl"}],
            },
            "spec": {"alerts": {}}, "status": {"watchedPods": 4},
        });
        let text = object.to_string();
        let stored: StoredObject = serde_json::from_str(&text).unwrap();
        assert_eq!(stored.key, NamespacedName::new("shop", "cluster"));
        assert_eq!((&*stored.uid, stored.generation, stored.resource_version()), ("u-1", 3, "9"));
        assert!(!stored.is_deleting);
        assert!((text.len() - 80..text.len()).contains(&stored.bytes), "{} of {}", stored.bytes, text.len());
        assert_eq!(stored.metadata, ObjectMeta { resource_version: Some("9".to_owned()), ..ObjectMeta::default() });
        assert_eq!(stored.status().unwrap().watched_pods, 4);
    }

    #[test]
    fn a_status_that_cannot_be_decoded_counts_as_absent() {
        for status in [json!(null), json!({"watchedPods": "many"}), json!("none")] {
            let object = json!({"metadata": {"name": "cluster"}, "spec": {"x": 1}, "status": status}).to_string();
            let stored: StoredObject = serde_json::from_str(&object).unwrap();
            assert_eq!(stored.status(), None, "{status}");
            assert_eq!(stored.spec.unwrap().get(), r#"{"x":1}"#);
        }
        assert!(serde_json::from_str::<StoredObject>(r#"{"spec": {}}"#).is_err(), "metadata is required");
    }
}
