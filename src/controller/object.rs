//! One `Orchestr` as the controller knows it.

use kube::core::DynamicObject;
use serde_json::Value;

use crate::{
    api::{OrchestrSpec, OrchestrStatus},
    backoff::Backoff,
    pods::ViewId,
    settings::{Settings, SpecError},
};

use super::schedule::Schedule;

/// Left on objects by the tutorial's operator, which was built with Kopf. Nobody else would ever take it
/// off, and the object could never be deleted.
pub const KOPF_FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";
/// Left there as well; it repeats the spec.
pub const KOPF_ANNOTATION: &str = "kopf.zalando.org/last-handled-configuration";

/// Namespace and name.
pub type ObjectKey = (String, String);

/// What an event says of an `Orchestr`. Its parts are decoded each on its own: an object may be older
/// than the schema, and a status that was written by something else must not hide the spec.
#[derive(Debug)]
pub struct Observed {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether the tutorial's operator left something on it.
    pub kopf_leftovers: bool,
    /// What it asks for.
    pub settings: Result<Settings, SpecError>,
    /// Its status, if there is one that can be read.
    pub status: Option<OrchestrStatus>,
    /// Whether it holds a status at all.
    pub has_status: bool,
}

impl Observed {
    /// Reads an object.
    #[must_use]
    pub fn new(object: DynamicObject) -> Self {
        let DynamicObject { metadata, mut data, .. } = object;
        let status = data.get_mut("status").map(Value::take).filter(|status| !status.is_null());
        let finalizers = metadata.finalizers.unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        Self {
            key: (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default()),
            uid: metadata.uid.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            kopf_leftovers: finalizers.iter().any(|finalizer| finalizer == KOPF_FINALIZER)
                || annotations.contains_key(KOPF_ANNOTATION),
            settings: settings(data.get_mut("spec").map(Value::take).unwrap_or_default()),
            has_status: status.is_some(),
            status: status.and_then(|status| serde_json::from_value(status).ok()),
        }
    }
}

fn settings(spec: Value) -> Result<Settings, SpecError> {
    if spec.is_null() {
        return Err(SpecError::AlertsNotSet);
    }
    let spec: OrchestrSpec = serde_path_to_error::deserialize(spec).map_err(|error| SpecError::Invalid {
        field: format!("spec.{}", error.path()),
        problem: error.inner().to_string(),
    })?;
    Settings::new(&spec)
}

/// What the controller keeps of an object.
#[derive(Debug)]
pub struct Object {
    /// `metadata.uid`.
    pub uid: String,
    /// The generation that `settings` come from.
    pub generation: i64,
    /// What it asks for.
    pub settings: Result<Settings, SpecError>,
    /// Its view of the pods, while it watches.
    pub view: Option<ViewId>,
    /// The status as it stands in the API, as far as known.
    pub status: Option<OrchestrStatus>,
    /// The resource version of that status.
    pub resource_version: String,
    /// When it is next looked at.
    pub schedule: Schedule,
    /// Whether a write of its status is under way.
    pub writing: bool,
    /// Whether its leftovers are being removed.
    pub cleaning: bool,
    /// Delays between failed writes.
    pub backoff: Backoff,
    /// Whether its spec's error was told by an event since it appeared.
    pub told_generation: Option<i64>,
}

impl Object {
    /// An object that has just appeared.
    #[must_use]
    pub fn new(observed: &Observed, now: Instant) -> Self {
        Self {
            uid: observed.uid.clone(),
            generation: observed.generation,
            settings: Err(SpecError::AlertsNotSet),
            view: None,
            status: observed.status.clone(),
            resource_version: observed.resource_version.clone(),
            schedule: Schedule::default(),
            queued: None,
            writing: false,
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(60)),
            ration: Ration::new(now),
        }
    }

    /// Takes up the status of an event, unless it is older than what is known. Returns whether somebody
    /// else has changed it.
    pub fn adopt(&mut self, observed: &Observed) -> bool {
        // While a write is under way its answer will tell. Resource versions are ordered numbers
        // (KEP-5504); were they not, the event is taken as news.
        let version = |text: &str| text.parse::<u128>().ok();
        let is_old = version(&observed.resource_version) <= version(&self.resource_version);
        if self.writing || is_old && version(&self.resource_version).is_some() {
            return false;
        }
        self.resource_version.clone_from(&observed.resource_version);
        let changed = self.status != observed.status;
        self.status.clone_from(&observed.status);
        changed
    }
}
