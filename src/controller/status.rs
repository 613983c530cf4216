//! Writes the controller's part of an object's status; see [`status_apply`](crate::status_apply) for the other part.

use std::time::Duration;

use kube::{Client, api::Patch};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{
    api::{NamespacedName, OrchestrStatus, StoredObject},
    report::{Change, KnownStatus, OmittedIncidents, differs, is_own, keep_lists},
    status_apply::{FieldManager, ObjectVersion, StatusTarget},
};

/// A status to write.
#[derive(Debug)]
pub(super) struct StatusWrite {
    pub(super) key: NamespacedName,
    pub(super) uid: String,
    pub(super) version: ObjectVersion,
    /// The term of the leader that writes it.
    pub(super) term: Option<u64>,
    pub(super) status: OrchestrStatus,
    /// The incidents that the status does not list.
    pub(super) omitted: OmittedIncidents,
    /// Whether the lists in the API stay: they are not in memory, see [`KnownStatus`].
    pub(super) keeps_lists: bool,
    /// Whether the object's tracker has resumed from a status.
    pub(super) is_resumed: bool,
    /// When the first change that it shows was received; absent if time alone has changed it.
    pub(super) dirty_since: Option<Instant>,
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

/// How long one write may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Writes a status, and returns the status as it is afterwards. Takes at most 10 seconds.
pub(super) async fn write_status(client: &Client, write: &mut StatusWrite) -> Result<ObservedStatus, WriteError> {
    let StatusWrite { key, uid, version, status, keeps_lists, is_resumed, .. } = write;
    let target = StatusTarget::new(client, key, uid, version);
    let work = async {
        let applied = if *keeps_lists {
            if let Some(old) = get(&target).await?.status() {
                keep_lists(status, &old);
            }
            // Not repeated after a conflict, because the lists may have changed.
            target.apply_once(FieldManager::Controller, status).await
        } else {
            target.apply(FieldManager::Controller, status).await
        };
        match applied.map_err(WriteError::from) {
            // Another object has the name now. It gets its own status after the watch has reported it.
            Ok(object) if object.uid != *uid => return Err(WriteError::Conflict),
            Ok(object) => {
                let written = object.status();
                // Server-side apply does not remove fields that another writer owns as well, such as a part of a condition.
                if differs(written.as_ref(), status) == Change::None {
                    return Ok(ObservedStatus::with(&object, written, *is_resumed));
                }
            }
            // It fails with HTTP 500 if the stored object is older than the schema and violates it.
            Err(WriteError::Invalid(_) | WriteError::Failed(_)) => {}
            Err(error) => return Err(error),
        }
        let object = replace(&target, status).await?;
        Ok(ObservedStatus::new(&object, *is_resumed))
    };
    let in_time = timeout(TIMEOUT, work).await;
    in_time.map_err(|_| WriteError::Unavailable(format!("not finished within {} s", TIMEOUT.as_secs())))?
}

async fn get(target: &StatusTarget<'_>) -> Result<StoredObject, WriteError> {
    let object = target.read().await?;
    if object.uid == target.uid { Ok(object) } else { Err(WriteError::Conflict) }
}

/// Replaces the status except for the parts of other writers: conditions of other types, and webhooks. Uses a patch, so
/// that it needs no other right than server-side apply.
async fn replace(target: &StatusTarget<'_>, status: &OrchestrStatus) -> Result<StoredObject, WriteError> {
    let object = get(target).await?;
    let mut status = status.clone();
    if let Some(old) = object.status() {
        status.conditions.extend(old.conditions.into_iter().filter(|condition| !is_own(&condition.type_)));
        status.webhooks = old.webhooks;
    }
    let patch = json!([
        // Fails with a conflict if the object has changed since it was read.
        {"op": "replace", "path": "/metadata/resourceVersion", "value": object.resource_version()},
        {"op": "add", "path": "/status", "value": status},
    ]);
    let patch = Patch::<()>::Json(serde_json::from_value(patch).map_err(kube::Error::SerdeError)?);
    Ok(target.patch(&patch).await?)
}

/// Why a write failed. Every failure is retried: if the object is gone, the watch will report that.
#[derive(Debug, thiserror::Error)]
pub(super) enum WriteError {
    /// The object is gone, or the installed CRD has no subresource `status`.
    #[error("the object is gone, or its CRD has no status")]
    NotFound,
    /// Another writer changed the object at the same time, or another object has the name now.
    #[error("the object was changed at the same time")]
    Conflict,
    /// RBAC denies it.
    #[error("refused: {0}")]
    Denied(String),
    /// The schema or an admission policy rejects these fields.
    #[error("refused as invalid: {0}")]
    Invalid(String),
    /// An internal error of the API server.
    #[error("the API server failed (HTTP {0})")]
    Failed(u16),
    /// The API server did not answer, or is overloaded.
    #[error("{0}")]
    Unavailable(String),
}

impl WriteError {
    /// A name from a closed set, for metrics.
    pub(super) fn as_str(&self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Denied(_) => "denied",
            Self::Invalid(_) => "invalid",
            Self::Failed(_) => "server_error",
            Self::Unavailable(_) => "unavailable",
        }
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.is_not_found() => Self::NotFound,
            kube::Error::Api(status) if status.is_conflict() => Self::Conflict,
            kube::Error::Api(status) if status.is_forbidden() => Self::Denied(status.message),
            // The server's message repeats values, so only the names of the fields are kept.
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
