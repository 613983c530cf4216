//! Incidents that are too many to be told, or remembered, one by one.
//!
//! Of these only the number and a hash of the keys are kept, so that a thousand take no more room than
//! one. The receiver is told the exact number, again when it has doubled, and otherwise not more often
//! than every few minutes while it changes.

use ring::digest::{Context, SHA256};

use super::webhook_state::{WebhookState, has_been, seconds, will_have_been};
use crate::{
    api::{AlertPhase, StormStatus},
    hex::hex,
};

/// Brings the storm up to date with the incidents that overflow.
pub(super) fn update(webhook: &mut WebhookState<'_>) {
    let count = i64::try_from(webhook.overflow.len()).unwrap_or(i64::MAX);
    let uncertain = webhook.is_uncertain();
    webhook.members = members(webhook);
    let Some(mut storm) = webhook.status.storm.take() else {
        if count > 0 {
            webhook.status.storm = Some(StormStatus {
                since: seconds(webhook.now),
                count,
                members: webhook.members.clone(),
                phase: AlertPhase::Queued,
                sent_at: None,
                gone_since: None,
            });
        }
        return;
    };
    let told = storm.sent_at.is_some() || storm.phase == AlertPhase::Announcing && uncertain;
    match storm.phase {
        AlertPhase::Resolving => {
            if count > 0 && !uncertain {
                storm.phase = AlertPhase::Firing;
                storm.gone_since = None;
            }
        }
        // Which of them ended isn't known, only how many; what moved to those told one by one did not.
        AlertPhase::Queued | AlertPhase::Announcing if !told => {
            let adopted = i64::try_from(webhook.adopted).unwrap_or(i64::MAX);
            let ended = storm.count.saturating_sub(count).saturating_sub(adopted).max(0);
            webhook.status.dropped = webhook.status.dropped.saturating_add(ended);
            if count == 0 {
                return;
            }
            storm.count = count;
        }
        _ => {
            if count > 0 {
                storm.gone_since = None;
            } else {
                storm.gone_since.get_or_insert_with(|| seconds(webhook.now));
            }
            if is_over(webhook, &storm) {
                match storm.phase {
                    AlertPhase::Announcing if !uncertain => storm.phase = AlertPhase::Firing,
                    AlertPhase::Firing if !webhook.policy.send_resolved => return,
                    _ => {}
                }
            }
        }
    }
    webhook.status.storm = Some(storm);
}

/// Whether there have been no such incidents for long enough.
pub(super) fn is_over(webhook: &WebhookState<'_>, storm: &StormStatus) -> bool {
    has_been(storm.gone_since.as_ref(), webhook.policy.hold(0), webhook.now)
}

/// Whether the receiver is to be told of the storm: that it began, has doubled, has changed, or is over.
pub(super) fn is_due(webhook: &WebhookState<'_>, storm: &StormStatus) -> bool {
    match storm.phase {
        AlertPhase::Queued => !webhook.overflow.is_empty(),
        AlertPhase::Firing if is_over(webhook, storm) => true,
        AlertPhase::Firing if has_changed(webhook, storm) => {
            let told = usize::try_from(storm.count).unwrap_or_default();
            webhook.overflow.len() >= told.saturating_mul(2)
                || has_been(storm.sent_at.as_ref(), webhook.policy.pace.storm_interval, webhook.now)
        }
        _ => false,
    }
}

/// When that may change by itself.
pub(super) fn due_at(webhook: &WebhookState<'_>, storm: &StormStatus) -> Option<jiff::Timestamp> {
    if storm.gone_since.is_some() {
        return will_have_been(storm.gone_since.as_ref(), webhook.policy.hold(0));
    }
    let changed = storm.phase == AlertPhase::Firing && has_changed(webhook, storm);
    if changed { will_have_been(storm.sent_at.as_ref(), webhook.policy.pace.storm_interval) } else { None }
}

/// Whether the incidents are others than those that the receiver was told of.
pub(super) fn has_changed(webhook: &WebhookState<'_>, storm: &StormStatus) -> bool {
    !webhook.overflow.is_empty() && storm.members != webhook.members
}

/// Marks the storm as told, or as over, by the message that is about to be sent.
pub(super) fn mark(webhook: &mut WebhookState<'_>) {
    let Some(mut storm) = webhook.status.storm.take() else { return };
    match storm.phase {
        AlertPhase::Firing if is_over(webhook, &storm) => storm.phase = AlertPhase::Resolving,
        AlertPhase::Queued | AlertPhase::Announcing | AlertPhase::Firing => {
            storm.phase = AlertPhase::Announcing;
            if !webhook.overflow.is_empty() {
                storm.count = i64::try_from(webhook.overflow.len()).unwrap_or(i64::MAX);
                storm.members.clone_from(&webhook.members);
            }
        }
        AlertPhase::Resolving | AlertPhase::Resolved => {}
    }
    webhook.status.storm = Some(storm);
}

fn members(webhook: &WebhookState<'_>) -> String {
    let mut keys: Vec<&str> = webhook.overflow.iter().map(|incident| incident.key.as_str()).collect();
    keys.sort_unstable();
    let mut hash = Context::new(&SHA256);
    for key in keys {
        hash.update(key.as_bytes());
        hash.update(&[0]);
    }
    hex(&hash.finish().as_ref()[..8])
}
