//! The storm: incidents beyond those that are tracked one by one.
//!
//! The status stores only their count and a hash of their keys, so that a thousand need no more space than one. The
//! receiver is sent the exact count, again when it has doubled, and otherwise at most every `storm_interval` while the
//! incidents change. If a critical incident joins, the message is sent after `critical_storm_interval`, and names the
//! namespace: whoever keeps a storm going must not hide it.

use super::{
    Incident,
    lifecycle::{Event, Life},
    notification::Storm,
    refusal, sanitize,
    times::{elapses_at, has_elapsed, whole_seconds},
    webhook_state::WebhookState,
};
use crate::api::{AlertPhase, Severity, StormStatus};

/// Updates the storm from the incidents in `overflow`.
pub(super) fn update(webhook: &mut WebhookState<'_>) {
    let count = i64::try_from(webhook.overflow.len()).unwrap_or(i64::MAX);
    let at = webhook.circumstances();
    let maybe_delivered = at.maybe_delivered;
    let Some(mut storm) = webhook.status.storm.take() else {
        if count > 0 {
            webhook.status.storm = Some(StormStatus {
                since: whole_seconds(webhook.now),
                count,
                members: webhook.overflow_hash.clone(),
                severity: webhook.storm_severity(),
                phase: AlertPhase::Queued,
                sent_at: None,
                began_elsewhere: false,
                gone_since: None,
                refused_at: None,
                held_back: 0,
            });
        }
        return;
    };
    let maybe_sent = storm.has_begun() || storm.phase == AlertPhase::Announcing && maybe_delivered;
    match storm.phase {
        AlertPhase::Resolving => {
            if count > 0 {
                Life::from(&mut storm).on(Event::Lasts, at);
            }
        }
        AlertPhase::Queued | AlertPhase::Announcing if !maybe_sent => {
            // Incidents that ended unsent are counted as dropped. Those that are now tracked one by one or held back are not.
            let remaining = webhook.newly_tracked.saturating_add(webhook.newly_held_back);
            let remaining = i64::try_from(remaining).unwrap_or(i64::MAX);
            let dropped = storm.count.saturating_sub(count).saturating_sub(remaining).max(0);
            webhook.status.dropped = webhook.status.dropped.saturating_add(dropped);
            if count == 0 {
                return;
            }
            storm.count = count;
            storm.severity = webhook.storm_severity();
        }
        _ => {
            if storm.phase == AlertPhase::Announcing && !maybe_delivered && is_muted(webhook) {
                // It is sent when the mute ends. Until then, its number counts as changed.
                Life::from(&mut storm).on(Event::LeftOut, at);
                storm.members.clear();
            }
            if count > 0 {
                storm.gone_since = None;
            } else if !webhook.is_incomplete() {
                storm.gone_since.get_or_insert_with(|| whole_seconds(webhook.now));
            }
            if is_resolved(webhook, &storm) {
                match storm.phase {
                    AlertPhase::Announcing if !maybe_delivered => _ = Life::from(&mut storm).on(Event::LeftOut, at),
                    AlertPhase::Firing if !webhook.policy.send_resolved => return,
                    _ => {}
                }
            }
        }
    }
    webhook.status.storm = Some(storm);
}

/// Whether the receiver may have been sent the storm, and not yet its end.
pub(super) fn was_sent(webhook: &WebhookState<'_>) -> bool {
    webhook.status.storm.as_ref().is_some_and(|storm| match storm.phase {
        AlertPhase::Queued => storm.has_begun(),
        AlertPhase::Announcing => storm.has_begun() || webhook.may_be_delivered(),
        AlertPhase::Firing | AlertPhase::Resolving | AlertPhase::Resolved => true,
    })
}

/// Whether the storm was announced, and there are still incidents in it.
pub(super) fn lasts(storm: &StormStatus) -> bool {
    storm.phase == AlertPhase::Firing && storm.gone_since.is_none()
}

/// Whether silences or quiet hours hold back news about the storm, because they mute all of its incidents.
pub(super) fn is_muted(webhook: &WebhookState<'_>) -> bool {
    let is_muted = |incident: &&Incident| webhook.mutes.contains_key(incident.key.as_str());
    !webhook.overflow.is_empty() && webhook.overflow.iter().all(is_muted)
}

/// Whether the storm has been gone long enough to count as resolved.
fn is_resolved(webhook: &WebhookState<'_>, storm: &StormStatus) -> bool {
    has_elapsed(storm.gone_since.as_ref(), webhook.policy.keep_firing_for(0), webhook.now)
}

/// Whether the storm needs a message: it began, doubled, changed a while ago, or is resolved.
pub(super) fn needs_message(webhook: &WebhookState<'_>, storm: &StormStatus) -> bool {
    match storm.phase {
        _ if refusal::storm_waits(webhook, storm) => false,
        AlertPhase::Queued => !webhook.overflow.is_empty(),
        AlertPhase::Firing if is_resolved(webhook, storm) => true,
        AlertPhase::Firing if fires_elsewhere(storm) => !webhook.overflow.is_empty() && !is_muted(webhook),
        AlertPhase::Firing if has_changed(webhook, storm) && !is_muted(webhook) => {
            let sent = usize::try_from(storm.count).unwrap_or_default();
            webhook.overflow.len() >= sent.saturating_mul(2)
                || has_elapsed(storm.sent_at.as_ref(), interval(webhook, storm), webhook.now)
        }
        _ => false,
    }
}

/// The minimum time from the last message about a storm to one about its change.
fn interval(webhook: &WebhookState<'_>, storm: &StormStatus) -> std::time::Duration {
    let pacing = &webhook.policy.pacing;
    if new_critical(webhook, storm).is_empty() { pacing.storm_interval } else { pacing.critical_storm_interval }
}

/// The namespaces of the critical incidents that became due after the last message about the storm, those that are due for
/// longest first. Empty for common causes of several namespaces.
pub(super) fn new_critical(webhook: &WebhookState<'_>, storm: &StormStatus) -> Vec<String> {
    let is_new = |incident: &&&Incident| {
        let due = webhook.policy.due_at(incident, webhook.now);
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

fn fires_elsewhere(storm: &StormStatus) -> bool {
    WebhookState::fires_elsewhere(storm.phase, storm.sent_at.as_ref(), storm.gone_since.as_ref())
}

/// When [`needs_message`] may become true without a change of the incidents.
pub(super) fn wakes_at(webhook: &WebhookState<'_>, storm: &StormStatus) -> Option<jiff::Timestamp> {
    if storm.gone_since.is_some() {
        return elapses_at(storm.gone_since.as_ref(), webhook.policy.keep_firing_for(0));
    }
    if refusal::storm_waits(webhook, storm) {
        return refusal::storm_retry_at(&webhook.status, storm);
    }
    let changed = storm.phase == AlertPhase::Firing && has_changed(webhook, storm) && !is_muted(webhook);
    if changed { elapses_at(storm.sent_at.as_ref(), interval(webhook, storm)) } else { None }
}

/// Whether the incidents differ from those that the receiver was last sent.
pub(super) fn has_changed(webhook: &WebhookState<'_>, storm: &StormStatus) -> bool {
    !webhook.overflow.is_empty() && storm.members != webhook.overflow_hash
}

/// Includes the storm, or its end, in the message that is about to be sent.
pub(super) fn mark(webhook: &mut WebhookState<'_>) {
    let Some(mut storm) = webhook.status.storm.take() else { return };
    let is_over = storm.phase == AlertPhase::Firing && is_resolved(webhook, &storm);
    let event = if is_over { Event::EndAnnounced } else { Event::Announced };
    Life::from(&mut storm).on(event, webhook.circumstances());
    if storm.phase == AlertPhase::Announcing && !webhook.overflow.is_empty() {
        storm.count = i64::try_from(webhook.overflow.len()).unwrap_or(i64::MAX);
        storm.members.clone_from(&webhook.overflow_hash);
    }
    webhook.status.storm = Some(storm);
}
