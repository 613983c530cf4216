//! Writing an object's status: server-side apply, bounded in time, its failures told apart.

use std::time::Duration;

use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::ApiResource,
};
use serde_json::json;
use tokio::time::timeout;

use crate::api::{Orchestr, OrchestrStatus};

use super::object::{ObjectKey, Observed};

/// The field manager that owns what the controller writes.
pub const FIELD_MANAGER: &str = "orchestr";

/// How long one write may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Why a write failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object is gone, or another one has its name.
    #[error("the object is gone")]
    Gone,
    /// RBAC refuses it.
    #[error("refused: {0}")]
    Denied(String),
    /// The schema refuses it: the installed CRD is not this version's.
    #[error("the installed CRD does not take this status: {0}")]
    Invalid(String),
    /// The API server doesn't answer, or can't.
    #[error("{0}")]
    Unavailable(String),
}

/// Objects as the API gives them, whatever their schema was when they were made.
#[must_use]
pub fn resource() -> ApiResource {
    ApiResource::erase::<Orchestr>(&())
}

/// Applies a status, and returns the object as it stands then.
///
/// # Errors
/// See [`WriteError`]; only [`WriteError::Gone`] is final.
pub async fn apply(
    client: &Client,
    (namespace, name): &ObjectKey,
    uid: &str,
    status: &OrchestrStatus,
) -> Result<Observed, WriteError> {
    let resource = resource();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        // The UID makes this a conflict when another object has taken the name.
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "status": status,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let object = timeout(TIMEOUT, api.patch_status(name, &params, &Patch::Apply(&body)))
        .await
        .map_err(|_| WriteError::Unavailable(format!("no answer within {} s", TIMEOUT.as_secs())))??;
    Ok(Observed::new(object))
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_not_found() || status.is_conflict() => Self::Gone,
            kube::Error::Api(status) if status.is_forbidden() => Self::Denied(status.message),
            // The server's message repeats values; which fields it names is told by its causes.
            kube::Error::Api(status) if status.is_invalid() => Self::Invalid(
                status.details.map_or_else(Vec::new, |details| details.causes).into_iter().map(|cause| cause.field).collect::<Vec<_>>().join(", "),
            ),
            kube::Error::Api(status) => Self::Unavailable(format!("{} ({})", status.reason, status.code)),
            kube::Error::SerdeError(_) => Self::Unavailable("an answer that can't be read".to_owned()),
            error => Self::Unavailable(error.to_string()),
        }
    }
}
