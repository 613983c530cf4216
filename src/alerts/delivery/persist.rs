//! Stores the delivery state in an object's status: the only write of this module to the cluster.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use serde::Serialize;
use tokio::time::timeout;

use crate::{
    api::{NamespacedName, OrchestrStatus, WebhookStatus, condition, serialize_shared},
    leader::NotLeader,
    status_apply::{FieldManager, ObjectVersion, StatusTarget},
};

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct ObjectRef {
    pub key: NamespacedName,
    /// A new object of the same name must not get the state of the old one.
    pub uid: String,
    pub version: ObjectVersion,
}

/// The part of an object's status that delivery owns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DeliveryStatus {
    /// In the spec's order. Applying it removes all other webhooks from the status.
    pub webhooks: Vec<Arc<WebhookStatus>>,
    /// AlertsDelivered; absent without webhooks.
    pub condition: Option<Condition>,
}

impl DeliveryStatus {
    /// Replaces states by those in `known` that are equal. A state may take 64 KiB, so each is kept once.
    pub fn share(&mut self, known: &Self) {
        self.webhooks.iter_mut().for_each(|state| share(state, &known.webhooks));
    }
}

/// Replaces a webhook's state by an equal one, if there is one.
pub(super) fn share(state: &mut Arc<WebhookStatus>, known: &[Arc<WebhookStatus>]) {
    if let Some(known) = known.iter().find(|known| *known == state) {
        *state = Arc::clone(known);
    }
}

/// A [`DeliveryStatus`] as the API server has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StoredStatus {
    pub resource_version: String,
    pub status: DeliveryStatus,
}

impl StoredStatus {
    pub fn new(resource_version: &str, status: Option<&OrchestrStatus>) -> Self {
        let webhooks = status.map(|status| status.webhooks.clone()).unwrap_or_default();
        let condition = status.and_then(|status| {
            status.conditions.iter().find(|condition| condition.type_ == condition::ALERTS_DELIVERED).cloned()
        });
        Self { resource_version: resource_version.to_owned(), status: DeliveryStatus { webhooks, condition } }
    }
}

/// Why a status may not be stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotStored {
    /// This replica does not lead any more. The dispatcher ends the worker.
    NotLeader,
    /// The object may belong to someone else: it was deleted or replaced, another client keeps changing it, or the API
    /// server does not know this client. The text holds no values.
    NotOwner(String),
    /// For another reason. The text holds no values.
    Failed(String),
}

/// The fields of a [`DeliveryStatus`] in the object's status.
#[derive(Debug, Serialize)]
struct Fields<'a> {
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "serialize_shared")]
    webhooks: &'a [Arc<WebhookStatus>],
    #[serde(skip_serializing_if = "Option::is_none")]
    conditions: Option<[&'a Condition; 1]>,
}

/// Applies a status, and returns what the API server has stored.
///
/// # Errors
/// If the status may not be stored; the caller retries. If the object was deleted, the controller's watch reports that.
pub(super) async fn persist(
    client: &Client,
    object: &ObjectRef,
    status: &DeliveryStatus,
) -> Result<StoredStatus, NotStored> {
    let conditions = status.condition.as_ref().map(|condition| [condition]);
    let fields = Fields { webhooks: &status.webhooks, conditions };
    let ObjectRef { key, uid, version } = object;
    let target = StatusTarget::new(client, key, uid, version);
    match timeout(TIMEOUT, target.apply(FieldManager::Alerts, &fields)).await {
        Ok(Ok(answer)) if answer.uid == *uid => {
            Ok(StoredStatus::new(answer.resource_version(), answer.status().as_ref()))
        }
        Ok(Ok(_)) => Err(NotStored::NotOwner("another object has taken the name".to_owned())),
        Ok(Err(kube::Error::Api(status))) => {
            // The server's message may quote values.
            let text = format!("{} ({})", status.reason, status.code);
            let is_owner = !matches!(status.code, 401 | 404 | 409);
            Err(if is_owner { NotStored::Failed(text) } else { NotStored::NotOwner(text) })
        }
        Ok(Err(kube::Error::Service(error))) if error.is::<NotLeader>() => Err(NotStored::NotLeader),
        Ok(Err(_)) => Err(NotStored::Failed("the API server can't be reached".to_owned())),
        Err(_) => Err(NotStored::Failed(format!("not finished within {} s", TIMEOUT.as_secs()))),
    }
}
