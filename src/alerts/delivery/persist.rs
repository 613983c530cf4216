//! The one place where delivery writes to the cluster: its own part of an object's status.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::api::{NamespacedName, OrchestrStatus, WebhookStatus, api_resource, condition};

/// The field manager that owns `status.webhooks` and the condition AlertsDelivered. The controller's own
/// writes leave them alone, and these leave alone what is the controller's.
pub const FIELD_MANAGER: &str = "orchestr-alerts";

/// How long one write may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Which object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectId {
    pub key: NamespacedName,
    /// Another object of the same name must not get this one's state.
    pub uid: String,
}

/// What is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The state of each webhook, in the spec's order. What it leaves out is removed.
    pub webhooks: Vec<WebhookStatus>,
    /// AlertsDelivered; absent without webhooks.
    pub condition: Option<Condition>,
}

/// A record as the API has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// The object's resource version.
    pub version: String,
    /// The record.
    pub record: Record,
}

impl Stored {
    /// What is stored in an object's status.
    #[must_use]
    pub fn new(version: &str, status: Option<&OrchestrStatus>) -> Self {
        let webhooks = status.map(|status| status.webhooks.clone()).unwrap_or_default();
        let condition = status.and_then(|status| {
            status.conditions.iter().find(|condition| condition.type_ == condition::ALERTS_DELIVERED).cloned()
        });
        Self { version: version.to_owned(), record: Record { webhooks, condition } }
    }

    /// Whether this was stored later than `other`. Resource versions are ordered numbers (KEP-5504); were they not, it
    /// would be taken for later.
    #[must_use]
    pub fn is_newer_than(&self, other: &str) -> bool {
        match (self.version.parse::<u128>(), other.parse::<u128>()) {
            (Ok(version), Ok(other)) => version > other,
            _ => self.version != other,
        }
    }
}

/// Stores a record, and returns what the API then has. An error is worth another try; of an object that is gone, the
/// controller's watch tells.
///
/// # Errors
/// When it is not certain that it was stored, in words without any value.
pub async fn persist(client: &Client, object: &ObjectId, record: &Record) -> Result<Stored, String> {
    let resource = api_resource();
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &object.key.namespace, &resource);
    let mut status = json!({});
    if !record.webhooks.is_empty() {
        status["webhooks"] = json!(record.webhooks);
    }
    if let Some(condition) = &record.condition {
        status["conditions"] = json!([condition]);
    }
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        // Nothing else here would be looked at: not even a UID.
        "metadata": {"name": object.key.name, "namespace": object.key.namespace},
        "status": status,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    match timeout(TIMEOUT, api.patch_status(&object.key.name, &params, &Patch::Apply(&body))).await {
        Ok(Ok(answer)) if answer.metadata.uid.as_ref() == Some(&object.uid) => {
            let status = answer.data.get("status").and_then(|status| OrchestrStatus::deserialize(status).ok());
            Ok(Stored::new(answer.metadata.resource_version.as_deref().unwrap_or_default(), status.as_ref()))
        }
        Ok(Ok(_)) => Err("another object has taken the name".to_owned()),
        // The server's message repeats values.
        Ok(Err(kube::Error::Api(status))) => Err(format!("{} ({})", status.reason, status.code)),
        Ok(Err(_)) => Err("the API server can't be reached".to_owned()),
        Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
    }
}
