//! Writing an object's status: server-side apply, bounded in time, its failures told apart.

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
};

use super::object::Observed;

/// The field manager that owns what the controller writes.
pub const FIELD_MANAGER: &str = "orchestr";

/// How long one write may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a write failed. All of it is worth another try: of an object that is gone, the watch tells.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object is gone, or the installed CRD has no subresource `status`.
    #[error("the object is gone, or its CRD has no status")]
    NotFound,
    /// Somebody else wrote at the same time, or another object has the name by now.
    #[error("somebody else has changed the object")]
    Conflict,
    /// RBAC refuses it.
    #[error("refused: {0}")]
    Denied(String),
    /// The schema or an admission policy refuses it; which fields, where that is told.
    #[error("refused as invalid: {0}")]
    Invalid(String),
    /// The API server fails at it.
    #[error("the API server failed (HTTP {0})")]
    Failed(u16),
    /// The API server doesn't answer, or can't.
    #[error("{0}")]
    Unavailable(String),
}

/// Writes a status, and returns the object as it stands then.
///
/// # Errors
/// See [`WriteError`].
pub async fn write(
    client: &Client,
    key: &NamespacedName,
    uid: &str,
    status: &OrchestrStatus,
) -> Result<Observed, WriteError> {
    let NamespacedName { namespace, name } = key;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &api_resource());
    let work = async {
        match apply(&api, key, status).await {
            // Another object has the name by now, and is given its own status when the watch tells of it.
            Ok(object) if object.uid != uid => Err(WriteError::Conflict),
            // Server-side apply takes nothing away that somebody else wrote as well, such as a part of a
            // condition, and fails (HTTP 500) on an object that is older than its schema and violates it.
            Ok(object) if differs(object.status().as_ref(), status) == Change::None => Ok(object),
            Ok(_) | Err(WriteError::Invalid(_) | WriteError::Failed(_)) => replace(&api, name, uid, status).await,
            Err(error) => Err(error),
        }
    };
    let in_time = timeout(TIMEOUT, work).await;
    in_time.map_err(|_| WriteError::Unavailable(format!("no answer within {} s", TIMEOUT.as_secs())))?
}

async fn apply(
    api: &Api<DynamicObject>,
    NamespacedName { namespace, name }: &NamespacedName,
    status: &OrchestrStatus,
) -> Result<Observed, WriteError> {
    let resource = api_resource();
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        // Nothing else here would be looked at: not even a UID.
        "metadata": {"name": name, "namespace": namespace},
        "status": status,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    Ok(Observed::new(api.patch_status(name, &params, &Patch::Apply(&body)).await?))
}

/// Puts a status in the place of the one that is there, except for what belongs to other field managers:
/// conditions of other types, and the webhooks. By a patch: no other right is needed than for
/// [`apply`].
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
        // A conflict when somebody else has changed the object since it was read.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": object.metadata.resource_version},
        {"op": "add", "path": "/status", "value": status},
    ]);
    let patch = Patch::<()>::Json(serde_json::from_value(patch).map_err(kube::Error::SerdeError)?);
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    Ok(Observed::new(api.patch_status(name, &params, &patch).await?))
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_not_found() => Self::NotFound,
            kube::Error::Api(status) if status.is_conflict() => Self::Conflict,
            kube::Error::Api(status) if status.is_forbidden() => Self::Denied(status.message),
            // The server's message repeats values; which fields it names is told by its causes.
            kube::Error::Api(status) if status.is_invalid() => Self::Invalid(
                status
                    .details
                    .map_or_else(Vec::new, |details| details.causes)
                    .into_iter()
                    .map(|cause| cause.field)
                    .collect::<Vec<_>>()
                    .join(", "),
            ),
            kube::Error::Api(status) if status.code == 500 => Self::Failed(status.code),
            kube::Error::Api(status) => Self::Unavailable(format!("{} (HTTP {})", status.reason, status.code)),
            kube::Error::SerdeError(_) => Self::Unavailable("an answer that can't be read".to_owned()),
            error => Self::Unavailable(error.to_string()),
        }
    }
}
