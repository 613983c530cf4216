//! Writes the controller's part of an object's status; see [`status_apply`](crate::status_apply) for the other part.

use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Client, api::Patch};
use serde_json::json;
use tokio::time::{Instant, timeout};

use crate::{
    api::{NamespacedName, OrchestrStatus, StoredObject, api_resource},
    report::{Change, History, NotWatching, OmittedIncidents, Step, differs, is_own, keep_lists, not_watching},
    status_apply::{FieldManager, ObjectVersion, StatusTarget},
};

use super::{
    object::may_show,
    observed::{ObservedStatus, settings},
    write_error::WriteError,
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
    /// Whether the lists in the API stay: they are not in memory, see [`KnownStatus`](crate::report::KnownStatus).
    pub(super) keeps_lists: bool,
    /// Whether the object's tracker has resumed from a status.
    pub(super) is_resumed: bool,
    /// When the first change that it shows was received; absent if time alone has changed it.
    pub(super) dirty_since: Option<Instant>,
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
    in_time.map_err(|_| {
        WriteError::Unavailable(format!("not finished within {} s; requests: {}", TIMEOUT.as_secs(), target.requests()))
    })?
}

/// Writes the status of an object that is not watched because its namespace has more than `max`. Takes at most 10 seconds.
pub(super) async fn write_notice(
    client: &Client,
    key: &NamespacedName,
    max: usize,
    own_namespace_only: bool,
    wall: Timestamp,
) -> Result<(), WriteError> {
    let object = read_object(client, key).await?;
    let Some(status) = notice(&object, max, own_namespace_only, wall) else { return Ok(()) };
    let version = ObjectVersion::new(object.resource_version());
    let write = StatusWrite {
        key: key.clone(),
        uid: object.uid,
        version,
        term: None,
        status,
        omitted: OmittedIncidents::default(),
        keeps_lists: false,
        is_resumed: true,
        dirty_since: None,
    };
    write_status(client, &mut { write }).await.map(drop)
}

/// The status of an object that is not watched because its namespace has more than `max`; absent if it has it already.
fn notice(object: &StoredObject, max: usize, own_namespace_only: bool, wall: Timestamp) -> Option<OrchestrStatus> {
    let settings = settings(object, own_namespace_only).ok();
    let only = own_namespace_only.then_some(&*object.key.namespace);
    let selects = |namespace: &str| may_show(settings.as_ref(), only, namespace);
    let mut old = object.status();
    let mut status = not_watching(&NotWatching::TooManyObjects { max }, object.generation, old.as_ref(), wall);
    let shows_others = old.as_ref().is_some_and(|old| !History::has_only(old, &selects));
    let history = old.as_mut().map(History::take).unwrap_or_default();
    let omitted = &OmittedIncidents::default();
    let step = Step { old: old.as_ref(), gap: None, omitted, is_unclear: &|_| true, selects: &selects, now: wall };
    history.advance(&status, &step).put_into(&mut status);
    (shows_others || differs(old.as_ref(), &status) != Change::None).then_some(status)
}

/// Reads an object. Takes at most 10 seconds.
pub(super) async fn read_object(client: &Client, key: &NamespacedName) -> Result<StoredObject, WriteError> {
    let api: Api<StoredObject> = Api::namespaced_with(client.clone(), &key.namespace, &api_resource());
    let in_time = timeout(TIMEOUT, api.get(&key.name)).await;
    Ok(in_time.map_err(|_| WriteError::Unavailable(format!("no answer within {} s", TIMEOUT.as_secs())))??)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_waits_shows_no_history_of_other_namespaces_if_it_is_confined_to_its_own() {
        let entry = |namespace: &str| {
            json!({
                "key": "5f0c2a915f0c2a91", "kind": "Crash", "namespace": namespace, "reason": "Error", "pods": 1,
                "owner": {"kind": "Deployment", "name": "cart"},
                "began": "2026-11-01T10:00:00Z", "ended": "2026-11-01T10:05:00Z",
            })
        };
        let wall: Timestamp = "2026-11-01T11:00:00Z".parse().unwrap();
        let object = |namespaces: serde_json::Value, status: &OrchestrStatus| -> StoredObject {
            let object = json!({
                "apiVersion": "kopf.dev/v1", "kind": "Orchestr",
                "metadata": {"name": "cluster", "namespace": "shop", "generation": 3, "resourceVersion": "9"},
                "spec": {"alerts": {"checkRunningPods": true}, "pods": {"namespaces": namespaces}},
                "status": status,
            });
            serde_json::from_str(&object.to_string()).unwrap()
        };
        let mut status = notice(&object(json!(["*"]), &OrchestrStatus::default()), 20, false, wall).unwrap();
        status.history = serde_json::from_value(json!([entry("bank"), entry("shop")])).unwrap();
        let namespaces = |status: Option<OrchestrStatus>| -> Option<Vec<String>> {
            status.map(|status| status.history.iter().map(|own| own.namespace.clone()).collect())
        };
        assert_eq!(namespaces(notice(&object(json!(["*"]), &status), 20, false, wall)), None, "nothing has changed");
        let own = Some(vec!["shop".to_owned()]);
        assert_eq!(namespaces(notice(&object(json!(["*"]), &status), 20, true, wall)), own);
        assert_eq!(namespaces(notice(&object(json!(["s*"]), &status), 20, false, wall)), own);
        let confined = notice(&object(json!(["*"]), &status), 20, true, wall).unwrap();
        assert_eq!(namespaces(notice(&object(json!(["*"]), &confined), 20, true, wall)), None);
    }
}
