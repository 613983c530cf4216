//! What a watch or a write returns about an `Orchestr` object.

use serde_json::Value;

use crate::{
    api::{OrchestrSpec, OrchestrStatus, StoredObject},
    report::KnownStatus,
    settings::{Settings, only_namespace},
    spec_error::SpecError,
};

/// The settings in the spec, or why the spec cannot be used. With `own_namespace_only`, a spec that also selects other
/// namespaces cannot be used. The patterns are not checked.
pub(super) fn settings(object: &StoredObject, own_namespace_only: bool) -> Result<Settings, SpecError> {
    // Not decoded from the text directly, because errors would name positions in it.
    let spec = object.spec.as_ref().and_then(|spec| serde_json::from_str(spec.get()).ok()).unwrap_or(Value::Null);
    if spec.is_null() {
        return Err(SpecError::AlertsNotSet);
    }
    let spec: OrchestrSpec = serde_path_to_error::deserialize(&spec).map_err(|error| SpecError::Invalid {
        field: format!("spec.{}", error.path()),
        problem: error.inner().to_string(),
    })?;
    let settings = Settings::unchecked(&spec)?;
    if own_namespace_only && settings.enabled {
        only_namespace(&spec, &object.key.namespace)?;
    }
    Ok(settings)
}

/// The status in a version of an object.
#[derive(Debug)]
pub(super) struct ObservedStatus {
    pub(super) resource_version: String,
    pub(super) status: Option<KnownStatus>,
    /// About how many bytes the whole object takes.
    pub(super) bytes: usize,
}

impl ObservedStatus {
    /// `is_resumed` is whether the object's tracker has resumed from a status.
    pub(super) fn new(object: &StoredObject, is_resumed: bool) -> Self {
        Self::with(object, object.status(), is_resumed)
    }

    /// The same with the status that was decoded from the object.
    pub(super) fn with(object: &StoredObject, status: Option<OrchestrStatus>, is_resumed: bool) -> Self {
        Self {
            resource_version: object.resource_version().to_owned(),
            status: status.map(|status| KnownStatus::new(status, is_resumed)),
            bytes: object.bytes,
        }
    }
}
