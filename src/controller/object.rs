//! One `Orchestr` as the controller knows it.

use std::{sync::Arc, time::Duration};

use kube::{api::DynamicObject, runtime::events::Event};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    api::{NamespacedName, OrchestrSpec, OrchestrStatus},
    backoff::Backoff,
    index::ViewId,
    report::{Tracker, transitions},
    settings::Settings,
    spec_error::SpecError,
};

use super::{
    events::{EventLimiter, spec_event},
    schedule::Schedule,
};

/// Left on objects by the tutorial's operator, which was built with Kopf. Nobody else would ever take it
/// off, and the object could never be deleted.
pub const KOPF_FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";
/// Left there as well; it repeats the spec.
pub const KOPF_ANNOTATION: &str = "kopf.zalando.org/last-handled-configuration";

/// What an event says of an `Orchestr`. Its parts are read each on its own, and only where they are
/// needed: an object may be older than the schema, and a status that was written by something else must
/// not hide the spec.
#[derive(Debug)]
pub struct Observed {
    /// Namespace and name.
    pub key: NamespacedName,
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
    spec: Value,
    status: Value,
}

impl Observed {
    /// Takes an object apart.
    #[must_use]
    pub fn new(object: DynamicObject) -> Self {
        let DynamicObject { metadata, mut data, .. } = object;
        let finalizers = metadata.finalizers.unwrap_or_default();
        let annotations = metadata.annotations.unwrap_or_default();
        Self {
            key: NamespacedName::new(metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default()),
            uid: metadata.uid.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            kopf_leftovers: finalizers.iter().any(|finalizer| finalizer == KOPF_FINALIZER)
                || annotations.contains_key(KOPF_ANNOTATION),
            spec: data.get_mut("spec").map(Value::take).unwrap_or_default(),
            status: data.get_mut("status").map(Value::take).unwrap_or_default(),
        }
    }

    /// What it asks for.
    ///
    /// # Errors
    /// When that can't be done.
    pub fn settings(&self) -> Result<Settings, SpecError> {
        if self.spec.is_null() {
            return Err(SpecError::AlertsNotSet);
        }
        let spec: OrchestrSpec = serde_path_to_error::deserialize(&self.spec).map_err(|error| SpecError::Invalid {
            field: format!("spec.{}", error.path()),
            problem: error.inner().to_string(),
        })?;
        Settings::new(&spec)
    }

    /// Its status, if there is one that can be read.
    #[must_use]
    pub fn status(&self) -> Option<OrchestrStatus> {
        if self.status.is_null() { None } else { OrchestrStatus::deserialize(&self.status).ok() }
    }
}

/// What the controller keeps of an object.
#[derive(Debug)]
pub struct Object {
    /// `metadata.uid`.
    pub uid: String,
    /// The generation that `settings` come from.
    pub generation: i64,
    /// What it asks for.
    pub settings: Result<Arc<Settings>, SpecError>,
    /// Its view of the pods, while it watches.
    pub view: Option<ViewId>,
    /// The status as it stands in the API, as far as known.
    pub status: Option<OrchestrStatus>,
    /// The resource version of that status.
    pub resource_version: String,
    /// The last event that came while a write was under way: the write's answer may be older.
    meanwhile: Option<Observed>,
    /// When it is next looked at.
    pub schedule: Schedule,
    /// Its place in the controller's queue.
    pub queued: Option<Instant>,
    /// Whether it waits for a slot to write.
    pub waiting: bool,
    /// Whether a write of its status is under way.
    pub writing: bool,
    /// Delays between failed writes.
    pub backoff: Backoff,
    /// How many events it may still have.
    pub event_limiter: EventLimiter,
    /// What is remembered of its problems.
    pub tracker: Tracker,
    /// Since when its status waits for Jobs that decide about pods.
    pub jobs_awaited: Option<Instant>,
    /// The share of the check interval after which its status is refreshed: objects that were written together are not
    /// for ever.
    pub check_share: f64,
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
            status: observed.status(),
            resource_version: observed.resource_version.clone(),
            meanwhile: None,
            schedule: Schedule::default(),
            queued: None,
            waiting: false,
            writing: false,
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(60)),
            event_limiter: EventLimiter::new(now),
            tracker: Tracker::default(),
            jobs_awaited: None,
            check_share: 0.8 + 0.2 * fastrand::f64(),
        }
    }

    /// Takes up the status of an event, unless it is older than what is known. Returns whether somebody
    /// else has changed it.
    pub fn adopt(&mut self, observed: Observed) -> bool {
        if !is_newer(&observed.resource_version, &self.resource_version) {
            return false;
        }
        if self.writing {
            self.meanwhile = Some(observed);
            return false;
        }
        let status = observed.status();
        self.resource_version = observed.resource_version;
        let changed = self.status != status;
        self.status = status;
        changed
    }

    /// A write has ended; `answer` is the object as the write left it. Returns whether somebody else has
    /// changed the status since.
    pub fn written(&mut self, answer: Option<Observed>) -> bool {
        self.writing = false;
        if let Some(answer) = answer {
            self.status = answer.status();
            self.resource_version = answer.resource_version;
        }
        self.meanwhile.take().is_some_and(|observed| self.adopt(observed))
    }

    /// The events that tell what a status that has just been written changes.
    pub fn events_of(&mut self, written: &OrchestrStatus, now: Instant) -> Vec<Event> {
        let old = self.status.as_ref();
        match &self.settings {
            Err(error) => {
                let answered = old.and_then(|status| status.observed_generation);
                let is_news = answered != written.observed_generation;
                is_news.then(|| spec_event(error)).into_iter().collect()
            }
            Ok(_) => self.event_limiter.events(&transitions(old, written), written, now),
        }
    }
}

/// Whether one resource version is later than another. They are ordered numbers (KEP-5504); were they
/// not, an event would be taken as news.
fn is_newer(version: &str, known: &str) -> bool {
    match (version.parse::<u128>(), known.parse::<u128>()) {
        (Ok(version), Ok(known)) => version > known,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn observed(version: u32, problems: i64) -> Observed {
        let object = json!({
            "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
            "metadata": {"name": "cluster", "namespace": "shop", "resourceVersion": version.to_string()},
            "status": {"problematicPodCount": problems},
        });
        Observed::new(serde_json::from_value(object).unwrap())
    }

    fn problems(object: &Object) -> Option<i64> {
        object.status.as_ref().map(|status| status.problematic_pod_count)
    }

    #[test]
    fn an_event_that_is_older_than_what_is_known_is_no_news() {
        let mut object = Object::new(&observed(9, 1), Instant::now());
        assert!(!object.adopt(observed(9, 2)) && !object.adopt(observed(8, 2)));
        assert!(!object.adopt(observed(10, 1)), "another resource version, but the same status");
        assert!(object.adopt(observed(11, 3)));
        assert_eq!(problems(&object), Some(3));
    }

    #[test]
    fn what_is_changed_while_a_write_is_under_way_is_seen_after_it() {
        let mut object = Object::new(&observed(9, 1), Instant::now());
        for (event, answer, changed) in [
            (observed(10, 2), Some(observed(10, 2)), false),
            (observed(12, 7), Some(observed(11, 3)), true),
            (observed(13, 4), Some(observed(14, 4)), false),
            (observed(15, 8), None, true),
        ] {
            object.writing = true;
            let (seen, last) = (event.resource_version.clone(), event.status().unwrap().problematic_pod_count);
            assert!(!object.adopt(event));
            assert_eq!(object.written(answer), changed, "{seen}");
            assert_eq!(problems(&object), Some(last), "{seen}");
        }
    }
}
