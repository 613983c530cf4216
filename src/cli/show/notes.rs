//! What limits the meaning of a status, beside the number of pods with problems.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::api::{OrchestrStatus, condition, reason};

/// The operator updates each status at least every five minutes.
const STALE: SignedDuration = SignedDuration::from_mins(10);

/// Ignored pods, every condition that limits what the status can report, and whether it is old; a sentence each.
pub(super) fn notes(status: &OrchestrStatus, generation: Option<i64>, now: Timestamp) -> Vec<String> {
    let mut notes = Vec::new();
    match status.ignored_pods {
        ..=0 => {}
        1 => notes.push("1 pod with ignored problems.".to_owned()),
        ignored => notes.push(format!("{ignored} pods with ignored problems.")),
    }
    for Condition { type_, status, reason, message, .. } in &status.conditions {
        match (type_.as_str(), status.as_str()) {
            (condition::PODS_HEALTHY | condition::STALLED, _) => {}
            // Warnings follow the number of pods, such as permissions that are missing.
            (condition::READY, "True") => {
                notes.extend(message.split_once("; ").map(|(_, warnings)| warnings.to_owned()));
            }
            (condition::ALERTS_DELIVERED, "True") => {}
            (condition::ALERTS_DELIVERED, _) if reason == reason::NOTHING_SENT => {}
            _ => notes.push(format!("{type_}={status} ({reason}): {message}")),
        }
    }
    if status.last_check_time.as_ref().is_some_and(|time| now.duration_since(time.0) > STALE) {
        notes.push("The status is old: the operator updates it every few minutes while it runs.".to_owned());
    }
    if generation.is_some() && status.observed_generation.is_some() && generation != status.observed_generation {
        notes.push("The spec was changed since: the status is that of an older spec.".to_owned());
    }
    notes
}
