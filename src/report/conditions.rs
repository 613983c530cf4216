//! Builds conditions. A condition keeps its transition time while its status stays the same.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::OrchestrStatus;

use super::{truncate, wire::wire_time};

/// The values that all conditions of one status share.
pub(super) struct Conditions<'a> {
    pub(super) generation: i64,
    pub(super) previous: Option<&'a OrchestrStatus>,
    pub(super) now: Timestamp,
}

impl Conditions<'_> {
    pub(super) fn is_true(&self, kind: &str, reason: &str, message: &str) -> Condition {
        self.condition(kind, "True", reason, message)
    }

    pub(super) fn is_false(&self, kind: &str, reason: &str, message: &str) -> Condition {
        self.condition(kind, "False", reason, message)
    }

    pub(super) fn is_unknown(&self, kind: &str, reason: &str, message: &str) -> Condition {
        self.condition(kind, "Unknown", reason, message)
    }

    pub(super) fn condition(&self, kind: &str, status: &str, reason: &str, message: &str) -> Condition {
        let unchanged = self
            .previous
            .and_then(|previous| previous.conditions.iter().find(|old| old.type_ == kind))
            .filter(|old| old.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: truncate::condition_message(message),
            observed_generation: Some(self.generation),
            last_transition_time: wire_time(unchanged.map_or(self.now, |old| old.last_transition_time.0)),
        }
    }
}
