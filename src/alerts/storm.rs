//! The storm: incidents beyond those that are tracked one by one.
//!
//! It is an alert like others, but the status stores only the count of its incidents and a hash of their keys, so that a
//! thousand need no more space than one. The receiver is sent the exact count, again when it has doubled, and otherwise at
//! most every `storm_interval` while the incidents change. If a critical incident joins, the message is sent after
//! `critical_storm_interval`, and names the namespace: whoever keeps a storm going must not hide it.

use jiff::Timestamp;

use super::{Incident, notification::Storm, sanitize, state::WebhookState, times::elapses_at};
use crate::api::{AlertPhase, AlertStatus, Overflow, Severity};

/// The incidents of the storm now.
pub(super) fn overflow(webhook: &WebhookState<'_>) -> Overflow {
    Overflow { count: webhook.overflow.len() as u64, hash: webhook.overflow_hash.clone() }
}

/// Whether the incidents of a storm differ from those that the receiver was last sent.
pub(super) fn has_changed(webhook: &WebhookState<'_>, alert: &AlertStatus) -> bool {
    let Some(sent) = &alert.overflow else { return false };
    alert.phase == AlertPhase::Firing && !webhook.overflow.is_empty() && sent.hash != webhook.overflow_hash
}

/// When the receiver is to be sent that a storm has changed, which may be in the past.
pub(super) fn news_at(webhook: &WebhookState<'_>, storm: &AlertStatus) -> Option<Timestamp> {
    let sent = storm.overflow.as_ref().filter(|_| has_changed(webhook, storm) && !webhook.is_muted(storm))?;
    let has_doubled = webhook.overflow.len() as u64 >= sent.count.saturating_mul(2);
    let pacing = &webhook.input.policy.pacing;
    let has_critical = !new_critical(webhook, storm).is_empty();
    let interval = if has_critical { pacing.critical_storm_interval } else { pacing.storm_interval };
    if has_doubled { Some(webhook.input.now) } else { elapses_at(storm.sent_at.as_ref(), interval) }
}

/// The namespaces of the critical incidents that became due after the last message about the storm, those that are due for
/// longest first. Empty for common causes of several namespaces.
pub(super) fn new_critical(webhook: &WebhookState<'_>, storm: &AlertStatus) -> Vec<String> {
    let is_new = |incident: &&&Incident| {
        let due = webhook.input.policy.due_at(incident, webhook.input.now);
        let sent = storm.sent_at.as_ref().map(|sent| sent.0);
        incident.severity == Severity::Critical
            && sent.is_none_or(|sent| due.is_some_and(|due| due > sent))
            && !webhook.mutes.contains_key(incident.key.as_str())
    };
    let mut incidents: Vec<&&Incident> = webhook.overflow.iter().filter(is_new).collect();
    incidents.sort_by_key(|incident| (incident.since, &incident.key));
    let mut namespaces = Vec::new();
    for incident in incidents {
        let namespace = sanitize::single_line(incident.counted_in(), 63);
        let is_known = namespaces.contains(&namespace) || webhook.was_mentioned(&namespace, Severity::Critical);
        if !is_known && namespaces.len() < Storm::NAMESPACES {
            namespaces.push(namespace);
        }
    }
    namespaces
}
