//! Writes one of the two parts of an object's status.
//!
//! Two writers share the status of an `Orchestr`. Each uses server-side apply with its own field manager:
//!
//! | Field manager     | Written by                        | Owns                                                      |
//! |-------------------|-----------------------------------|-----------------------------------------------------------|
//! | `orchestr`        | `controller/status.rs`            | all fields and conditions that the other does not own     |
//! | `orchestr-alerts` | `alerts/delivery/persist.rs`      | `status.webhooks` and the condition `AlertsDelivered`     |
//!
//! They are separate because they write at different times: the controller at most once a second, and the alerts before
//! and after every message they send. With server-side apply, each sends only its own part, and the API server keeps the
//! other's: `conditions` is a list map by type, so each condition has its own owner. A field that its owner no longer
//! sends is removed, unless another writer owns it as well. For that case, and for stored objects that violate the
//! schema, the controller falls back to a JSON patch that leaves the alerts' part as it is (`status::replace`). Both
//! writers force conflicts, so a third writer's changes to their fields are overwritten.
//!
//! A write names the resource version that it follows, the newest one that this process knows, so that it fails if
//! another process has written since: an operator that was stopped in the middle of a request, and continues when another
//! replica leads, cannot overwrite the new leader's status. The two writers of one process take turns, so that they do not
//! make each other fail. A write that fails because someone else has changed the object is repeated after a read.
//!
//! If the status is wiped, both notice it in the next watch event or in the answer to their next write. The
//! controller rebuilds its part from the pods, and the alerts restore theirs from memory. If the operator is down at that
//! time, the alerts' memory is lost: current problems are sent again as new alerts.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::{
    Api, Client, Error,
    api::{Patch, PatchParams},
};
use serde::Serialize;
use tokio::{sync::MutexGuard, time::timeout};

use crate::api::{NamespacedName, StoredObject, api_resource};

/// One of the two writers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldManager {
    Controller,
    Alerts,
}

impl FieldManager {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "orchestr",
            Self::Alerts => "orchestr-alerts",
        }
    }
}

/// How often a write is tried, if other clients change the object at the same time.
const TRIES: usize = 4;
/// How long a writer waits for the other one, which may wait for an API server that does not answer.
const PATIENCE: Duration = Duration::from_millis(500);

/// The newest resource version of an object that this process knows. Clones share it: the two writers of a status do.
#[derive(Clone, Debug)]
pub(crate) struct ObjectVersion(Arc<SharedVersion>);

#[derive(Debug)]
struct SharedVersion {
    known: Mutex<String>,
    turn: tokio::sync::Mutex<()>,
}

impl ObjectVersion {
    pub(crate) fn new(version: &str) -> Self {
        Self(Arc::new(SharedVersion { known: Mutex::new(version.to_owned()), turn: tokio::sync::Mutex::default() }))
    }

    /// Notes the version of an object that was received.
    pub(crate) fn advance(&self, version: &str) {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if is_newer(version, &known) {
            version.clone_into(&mut known);
        }
    }

    /// Notes the version that a read has returned; `before` was known before it. A read is never older than what was
    /// known, unless the cluster was put back to an earlier state: then the versions start again from there.
    fn confirm(&self, version: &str, before: &str) {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if *known == before || is_newer(version, &known) {
            version.clone_into(&mut known);
        }
    }

    /// Notes the version of an object in a cluster that was put back to an earlier state.
    pub(crate) fn go_back_to(&self, version: &str) {
        version.clone_into(&mut self.0.known.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn known(&self) -> String {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the other writer has finished, but not for long: without its turn, a write only fails more often.
    async fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        timeout(PATIENCE, self.0.turn.lock()).await.ok()
    }
}

/// An object whose status is written.
pub(crate) struct StatusTarget<'a> {
    client: &'a Client,
    pub(crate) key: &'a NamespacedName,
    pub(crate) uid: &'a str,
    pub(crate) version: &'a ObjectVersion,
}

impl<'a> StatusTarget<'a> {
    pub(crate) fn new(client: &'a Client, key: &'a NamespacedName, uid: &'a str, version: &'a ObjectVersion) -> Self {
        Self { client, key, uid, version }
    }

    /// Applies a writer's part of the status, and returns the whole object. The caller must compare the UID: the answer may
    /// be another object that has the name now, which was not changed.
    pub(crate) async fn apply(
        &self,
        manager: FieldManager,
        status: &(impl Serialize + Debug),
    ) -> Result<StoredObject, Error> {
        let _turn = self.version.turn().await;
        for _ in 1..TRIES {
            match self.apply_once(manager, status).await {
                Err(Error::Api(error)) if error.is_conflict() => {}
                result => return result,
            }
            let object = self.read().await?;
            if object.uid != self.uid {
                return Ok(object);
            }
        }
        self.apply_once(manager, status).await
    }

    /// The same without a repetition.
    pub(crate) async fn apply_once(
        &self,
        manager: FieldManager,
        status: &(impl Serialize + Debug),
    ) -> Result<StoredObject, Error> {
        let resource = api_resource();
        let body = AppliedObject {
            api_version: &resource.api_version,
            kind: &resource.kind,
            metadata: AppliedMetadata {
                name: &self.key.name,
                namespace: &self.key.namespace,
                resource_version: &self.version.known(),
            },
            status,
        };
        let params = PatchParams::apply(manager.as_str()).force();
        let object = self.api().patch_status(&self.key.name, &params, &Patch::Apply(&body)).await?;
        self.version.advance(object.resource_version());
        Ok(object)
    }

    /// Reads the object.
    pub(crate) async fn read(&self) -> Result<StoredObject, Error> {
        let before = self.version.known();
        let object = self.api().get(&self.key.name).await?;
        self.version.confirm(object.resource_version(), &before);
        Ok(object)
    }

    /// Patches the status. The version must be part of the patch.
    pub(crate) async fn patch(&self, patch: &Patch<()>) -> Result<StoredObject, Error> {
        let manager = FieldManager::Controller.as_str().to_owned();
        let params = PatchParams { field_manager: Some(manager), ..PatchParams::default() };
        let object = self.api().patch_status(&self.key.name, &params, patch).await?;
        self.version.advance(object.resource_version());
        Ok(object)
    }

    fn api(&self) -> Api<StoredObject> {
        Api::namespaced_with(self.client.clone(), &self.key.namespace, &api_resource())
    }
}

/// The body of a server-side apply. A `serde_json::Value` of a large status would take several times as much memory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AppliedObject<'a, S> {
    api_version: &'a str,
    kind: &'a str,
    metadata: AppliedMetadata<'a>,
    status: &'a S,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct AppliedMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
    resource_version: &'a str,
}

/// Whether one resource version is newer than another. They are increasing numbers (KEP-5504); if one is not a number,
/// any other version counts as newer.
pub(crate) fn is_newer(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version > than,
        _ => version != than,
    }
}

/// Whether one resource version is older than another; false unless both are numbers.
pub(crate) fn is_older(version: &str, than: &str) -> bool {
    matches!((version.parse::<u128>(), than.parse::<u128>()), (Ok(version), Ok(than)) if version < than)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_writers_know_the_newest_version_and_take_turns() {
        let version = ObjectVersion::new("7");
        let other = version.clone();
        for (received, known) in [("9", "9"), ("8", "9"), ("10", "10"), ("10", "10")] {
            other.advance(received);
            assert_eq!(version.known(), known);
        }
        other.confirm("9", "10");
        assert_eq!(version.known(), "9", "the cluster was put back to an earlier state");
        other.advance("11");
        other.confirm("10", "9");
        assert_eq!(version.known(), "11", "it was written after the read");
        let turn = version.turn().await;
        assert!(turn.is_some());
        assert!(other.turn().await.is_none(), "it does not wait for a writer that hangs");
        drop(turn);
        assert!(other.turn().await.is_some());
    }
}
