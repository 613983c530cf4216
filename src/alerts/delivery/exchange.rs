//! What the controller tells the worker of an object, and what a worker tells the controller.

use std::sync::Arc;

use tokio::time::Instant;

use super::persist::StoredStatus;
use crate::{
    alerts::{GoneAlerts, Incident, MuteRules, ValidatedWebhook},
    api::NamespacedName,
};

/// The latest state of an object, as the controller reports it.
#[derive(Clone, Default)]
pub(super) struct Input {
    pub generation: i64,
    pub webhooks: Arc<[ValidatedWebhook]>,
    /// When the spec before was last known to be the present one: earlier than now if the watch of objects was interrupted.
    pub changed_after: Option<Instant>,
    pub mute_rules: Arc<MuteRules>,
    /// The incidents that were known last.
    pub incidents: Arc<[Incident]>,
    /// Incremented whenever these change.
    pub incidents_version: u64,
    /// False while the pods are not known, or the object is paused.
    pub incidents_known: bool,
    pub gone: Arc<GoneAlerts>,
    /// The status of the object in the API.
    pub observed: Arc<StoredStatus>,
    /// About how many bytes the object takes. The answer to a write contains it.
    pub bytes: usize,
    pub deleted: bool,
}

impl Input {
    /// Whether a worker would decide the same. What is large is compared by address: the dispatcher keeps it if it is equal.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.incidents_version, self.incidents_known) == (other.incidents_version, other.incidents_known)
            && Arc::ptr_eq(&self.webhooks, &other.webhooks)
            && Arc::ptr_eq(&self.mute_rules, &other.mute_rules)
            && Arc::ptr_eq(&self.observed, &other.observed)
            && self.gone == other.gone
            && (self.generation, self.bytes, self.deleted) == (other.generation, other.bytes, other.deleted)
    }
}

/// How many notices may wait for the controller. Further ones are only in the log.
pub(super) const NOTICES: usize = 64;

/// Something that a person should know about an object's webhooks. It becomes an event, because the status may not be writable. It
/// contains no values of Secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryNotice {
    pub object: NamespacedName,
    pub uid: String,
    /// The webhook's name; empty if it concerns all webhooks of the object.
    pub webhook: String,
    /// The reason of the event, a constant of [`crate::api::reason`].
    pub reason: &'static str,
    pub note: String,
}
