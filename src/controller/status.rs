//! Writes the controller's part of an object's status; see [`status_apply`](crate::status_apply) for the other part.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    api::{NamespacedName, OrchestrStatus, api_resource},
    report::{Change, differs, is_own},
    status_apply::{FieldManager, apply_status},
};

use super::{observed::Observed, write_error::WriteError};

/// How long one write may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Writes a status, and returns the object as it is afterwards. Takes at most 10 seconds.
pub(super) async fn write_status(
    client: &Client,
    key: &NamespacedName,
    uid: &str,
    status: &OrchestrStatus,
) -> Result<Observed, WriteError> {
    let NamespacedName { namespace, name } = key;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &api_resource());
    let work = async {
        match apply_status(client, key, FieldManager::Controller, status)
            .await
            .map(Observed::new)
            .map_err(WriteError::from)
        {
            // Another object has the name now. It gets its own status after the watch has reported it.
            Ok(object) if object.uid != uid => Err(WriteError::Conflict),
            // Server-side apply does not remove fields that another writer owns as well, such as a part of a condition.
            // It fails with HTTP 500 if the stored object is older than the schema and violates it.
            Ok(object) if differs(object.status().as_ref(), status) == Change::None => Ok(object),
            Ok(_) | Err(WriteError::Invalid(_) | WriteError::Failed(_)) => replace(&api, name, uid, status).await,
            Err(error) => Err(error),
        }
    };
    let in_time = timeout(TIMEOUT, work).await;
    in_time.map_err(|_| WriteError::Unavailable(format!("no answer within {} s", TIMEOUT.as_secs())))?
}

/// Replaces the status except for the parts of other writers: conditions of other types, and webhooks. Uses a patch, so
/// that it needs no other right than server-side apply.
async fn replace(
    api: &Api<DynamicObject>,
    name: &str,
    uid: &str,
    status: &OrchestrStatus,
) -> Result<Observed, WriteError> {
    let object = api.get(name).await?;
    if object.metadata.uid.as_deref() != Some(uid) {
        return Err(WriteError::Conflict);
    }
    let old = object.data.get("status").and_then(|status| OrchestrStatus::deserialize(status).ok());
    let mut status = status.clone();
    if let Some(old) = old {
        status.conditions.extend(old.conditions.into_iter().filter(|condition| !is_own(&condition.type_)));
        status.webhooks = old.webhooks;
    }
    let patch = json!([
        // Fails with a conflict if the object has changed since it was read.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": object.metadata.resource_version},
        {"op": "add", "path": "/status", "value": status},
    ]);
    let patch = Patch::<()>::Json(serde_json::from_value(patch).map_err(kube::Error::SerdeError)?);
    let params =
        PatchParams { field_manager: Some(FieldManager::Controller.as_str().to_owned()), ..PatchParams::default() };
    Ok(Observed::new(api.patch_status(name, &params, &patch).await?))
}
