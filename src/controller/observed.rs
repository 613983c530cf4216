//! An `Orchestr` object as the API server returned it.

use kube::api::DynamicObject;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    api::{NamespacedName, OrchestrSpec, OrchestrStatus},
    settings::{Settings, only_namespace},
    spec_error::SpecError,
};

/// The finalizer of the tutorial's operator, which was built with Kopf. Only that operator would remove it, so without it
/// the object could never be deleted.
pub(super) const KOPF_FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";
/// The annotation of the tutorial's operator, a copy of the spec.
pub(super) const KOPF_ANNOTATION: &str = "kopf.zalando.org/last-handled-configuration";

/// An `Orchestr` as the API server returned it. Spec and status are decoded separately and only when needed: the object may
/// be older than the schema, and a status that another writer has spoiled must not hide the spec.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) key: NamespacedName,
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) resource_version: String,
    pub(super) is_deleting: bool,
    /// Whether the finalizer or the annotation of the tutorial's operator is on it.
    pub(super) has_kopf_leftovers: bool,
    spec: Value,
    status: Value,
}

impl Observed {
    pub(super) fn new(object: DynamicObject) -> Self {
        let DynamicObject { metadata, mut data, .. } = object;
        let finalizers = metadata.finalizers.unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        Self {
            key: NamespacedName::new(metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default()),
            uid: metadata.uid.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
            has_kopf_leftovers: finalizers.iter().any(|finalizer| finalizer == KOPF_FINALIZER)
                || annotations.contains_key(KOPF_ANNOTATION),
            spec: data.get_mut("spec").map(Value::take).unwrap_or_default(),
            status: data.get_mut("status").map(Value::take).unwrap_or_default(),
        }
    }

    /// The settings in the spec, or why the spec cannot be used. With `own_namespace_only`, a spec that also selects other
    /// namespaces cannot be used. The patterns are not checked.
    pub(super) fn settings(&self, own_namespace_only: bool) -> Result<Settings, SpecError> {
        if self.spec.is_null() {
            return Err(SpecError::AlertsNotSet);
        }
        let spec: OrchestrSpec = serde_path_to_error::deserialize(&self.spec).map_err(|error| SpecError::Invalid {
            field: format!("spec.{}", error.path()),
            problem: error.inner().to_string(),
        })?;
        let settings = Settings::unchecked(&spec)?;
        if own_namespace_only && settings.enabled {
            only_namespace(&spec, &self.key.namespace)?;
        }
        Ok(settings)
    }

    /// The status, if it exists and can be decoded.
    pub(super) fn status(&self) -> Option<OrchestrStatus> {
        if self.status.is_null() { None } else { OrchestrStatus::deserialize(&self.status).ok() }
    }
}
