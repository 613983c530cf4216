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
//! If the status is wiped, both notice it in the next watch event or in the answer to their next write. The
//! controller rebuilds its part from the pods, and the alerts restore theirs from memory. If the operator is down at that
//! time, the alerts' memory is lost: current problems are sent again as new alerts.

use std::fmt::Debug;

use kube::{
    Api, Client, Error,
    api::{Patch, PatchParams},
};
use serde::Serialize;

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

/// Applies a writer's part of the status, and returns the whole object. The caller must compare the UID: the API server
/// does not, so the answer may be another object of the same name.
pub(crate) async fn apply_status(
    client: &Client,
    NamespacedName { namespace, name }: &NamespacedName,
    manager: FieldManager,
    status: &(impl Serialize + Debug),
) -> Result<StoredObject, Error> {
    let resource = api_resource();
    let api: Api<StoredObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let body = AppliedObject {
        api_version: &resource.api_version,
        kind: &resource.kind,
        metadata: AppliedMetadata { name, namespace },
        status,
    };
    api.patch_status(name, &PatchParams::apply(manager.as_str()).force(), &Patch::Apply(&body)).await
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
struct AppliedMetadata<'a> {
    name: &'a str,
    namespace: &'a str,
}

/// Whether one resource version is newer than another. They are increasing numbers (KEP-5504); if one is not a number,
/// any other version counts as newer.
pub(crate) fn is_newer(version: &str, than: &str) -> bool {
    match (version.parse::<u128>(), than.parse::<u128>()) {
        (Ok(version), Ok(than)) => version > than,
        _ => version != than,
    }
}
