//! Stores the delivery state in an object's status: the only write of this module to the cluster.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use serde_json::json;
use tokio::time::timeout;

use crate::{
    api::{NamespacedName, OrchestrStatus, WebhookStatus, condition},
    leader::NotLeader,
    status_apply::{FieldManager, ObjectVersion, StatusTarget, is_newer},
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
    pub webhooks: Vec<WebhookStatus>,
    /// AlertsDelivered; absent without webhooks.
    pub condition: Option<Condition>,
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

    /// Whether this was stored later than `other`.
    pub fn is_newer_than(&self, other: &str) -> bool {
        is_newer(&self.resource_version, other)
    }
}

/// Why a status may not be stored.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotStored {
    /// This replica does not lead any more. The dispatcher ends the worker.
    NotLeader,
    /// The text holds no values.
    Failed(String),
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
    let mut fields = json!({});
    if !status.webhooks.is_empty() {
        fields["webhooks"] = json!(status.webhooks);
    }
    if let Some(condition) = &status.condition {
        fields["conditions"] = json!([condition]);
    }
    let ObjectRef { key, uid, version } = object;
    let target = StatusTarget::new(client, key, uid, version);
    match timeout(TIMEOUT, target.apply(FieldManager::Alerts, &fields)).await {
        Ok(Ok(answer)) if answer.uid == *uid => {
            Ok(StoredStatus::new(answer.resource_version(), answer.status().as_ref()))
        }
        Ok(Ok(_)) => Err(NotStored::Failed("another object has taken the name".to_owned())),
        // The server's message may quote values.
        Ok(Err(kube::Error::Api(status))) => Err(NotStored::Failed(format!("{} ({})", status.reason, status.code))),
        Ok(Err(kube::Error::Service(error))) if error.is::<NotLeader>() => Err(NotStored::NotLeader),
        Ok(Err(_)) => Err(NotStored::Failed("the API server can't be reached".to_owned())),
        Err(_) => {
            let requests = target.requests();
            Err(NotStored::Failed(format!("not finished within {} s; requests: {requests}", TIMEOUT.as_secs())))
        }
    }
}
