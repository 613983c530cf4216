//! What follows when a receiver refuses a message for its content, as with 400: it is sent with less detail, and then in
//! parts, until the incidents that the receiver refuses stand alone. Those are marked and retried slowly, so that they hold up
//! no others:
//!
//! ```text
//! [a b c d] refused ─▶ the same with names only, refused ─▶ [a b] accepted ─▶ [c d] refused ─▶ [c] refused: marked ─▶ [d]
//! ```
//!
//! A part that is accepted doubles the next one, so that one refused incident among many costs few requests.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    notification::Notification,
    policy::NotificationPolicy,
    sending::{self, Sending},
    times::{has_elapsed, whole_seconds},
    webhook_state::WebhookState,
};
use crate::api::{AlertPhase, AlertStatus, Detail, MessageKind, PendingMessage, StormStatus, WebhookStatus};

/// How long an incident that the receiver refused alone is not sent again.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// The minimum time between two parts of a message.
const PART_INTERVAL: Duration = Duration::from_secs(1);
/// Larger parts are not limited: no message names more incidents.
const MAX_PART: i64 = 256;
/// How long the end of an incident is retried. Until then its alert takes space from others.
const END_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Updates the state after the receiver has refused a message. Returns whether the next attempt differs.
///
/// `state.last_error` is about this refusal.
pub(super) fn reduce(state: &mut WebhookStatus, sent: &Notification, now: Timestamp) -> bool {
    if sent.kind == MessageKind::Resend {
        match less(state.resend_detail) {
            Some(detail) => state.resend_detail = detail,
            None => announce_again(state),
        }
        return true;
    }
    let Some(mut pending) = state.pending.take_if(|pending| pending.id == sent.id) else { return false };
    match less(pending.detail) {
        Some(detail) => {
            pending.detail = detail;
            state.pending = Some(pending);
            true
        }
        None => split(state, pending, now),
    }
}

fn less(detail: Detail) -> Option<Detail> {
    match detail {
        Detail::Full => Some(Detail::NoLogs),
        Detail::NoLogs => Some(Detail::Names),
        Detail::Names => None,
    }
}

/// Takes the message apart, or marks the only incident that it is about.
fn split(state: &mut WebhookStatus, pending: PendingMessage, now: Timestamp) -> bool {
    let included = sending::all(state).filter(|own| own.phase.is_pending()).count();
    if included == 0 {
        // A repetition, which names nothing at this detail. Its alerts are repeated in parts that name them.
        let repeated = state.alerts.iter().filter(|alert| alert.phase == AlertPhase::Firing).count();
        if state.part_size > 0 {
            state.pending = Some(pending);
            return false;
        }
        state.part_size = half(repeated);
        return true;
    }
    if included > 1 {
        state.part_size = half(included);
    } else {
        state.last_refusal = state.last_error.take();
    }
    let refused_at = (included == 1).then(|| whole_seconds(now));
    for mut own in sending::all(state).filter(|own| own.phase.is_pending()) {
        own.refuse(refused_at.as_ref(), pending.maybe_delivered);
    }
    true
}

/// Half of a number of incidents, but at least one.
fn half(number: usize) -> i64 {
    i64::try_from(number / 2).unwrap_or(MAX_PART).max(1)
}

/// Lets all firing alerts be sent again as if they began, in parts: a receiver that has to be sent all alerts again and again
/// refuses them together.
fn announce_again(state: &mut WebhookStatus) {
    let mut number = 0;
    for alert in state.alerts.iter_mut().filter(|alert| alert.phase == AlertPhase::Firing && alert.refused_at.is_none())
    {
        Sending::from(alert).begin_again();
        number += 1;
    }
    if let Some(storm) = state.storm.as_mut().filter(|storm| storm.phase == AlertPhase::Firing) {
        Sending::from(storm).begin_again();
    }
    state.part_size = half(number);
    state.resend_detail = Detail::Full;
}

/// Updates the state after the receiver has accepted a message.
pub(super) fn on_accepted(state: &mut WebhookStatus, sent: &Notification) {
    let doubled = state.part_size.saturating_mul(2);
    state.part_size = if doubled > MAX_PART { 0 } else { doubled };
    if sent.kind == MessageKind::Firing && sent.detail == Detail::Full {
        state.resend_detail = Detail::Full;
    }
}

/// Forgets what the receiver refused, because the webhook or its Secret has changed.
pub(super) fn forget(state: &mut WebhookStatus) {
    sending::all(state).for_each(|own| *own.refused_at = None);
    (state.part_size, state.resend_detail, state.last_refusal) = (0, Detail::Full, None);
}

/// The incidents that the receiver refuses, and whether it refuses the number of those in a storm.
pub(super) fn refused(state: &WebhookStatus) -> (impl Iterator<Item = &AlertStatus>, bool) {
    let is_refused = |alert: &&AlertStatus| alert.refused_at.is_some() && alert.phase != AlertPhase::Resolved;
    let storm = state.storm.as_ref().is_some_and(|storm| storm.refused_at.is_some());
    (state.alerts.iter().filter(is_refused), storm)
}

/// Drops the words of the receiver as soon as it refuses nothing any more.
pub(super) fn clean_up(state: &mut WebhookStatus) {
    let is_any_refused = {
        let (mut alerts, storm) = refused(state);
        storm || alerts.next().is_some()
    };
    state.last_refusal.take_if(|_| !is_any_refused);
}

/// Whether an alert is not sent at present because the receiver refused it.
pub(super) fn waits(webhook: &WebhookState<'_>, alert: &AlertStatus) -> bool {
    let Some(refused) = &alert.refused_at else { return false };
    // The end of its incident is another message, which may be accepted.
    let is_new_end = webhook.is_resolved(alert) && alert.gone_since.as_ref().is_some_and(|gone| gone.0 > refused.0);
    !is_new_end && !has_elapsed(Some(refused), RETRY_INTERVAL, webhook.now)
}

/// The same for the storm.
pub(super) fn storm_waits(storm: &StormStatus, now: Timestamp) -> bool {
    storm.refused_at.is_some() && !has_elapsed(storm.refused_at.as_ref(), RETRY_INTERVAL, now)
}

/// Whether the end of an incident was refused for so long that it is given up.
pub(super) fn is_end_given_up(alert: &AlertStatus, now: Timestamp) -> bool {
    alert.refused_at.is_some() && has_elapsed(alert.gone_since.as_ref(), END_KEPT, now)
}

/// How many incidents the next message may report.
pub(super) fn part_size(webhook: &WebhookState<'_>) -> usize {
    match usize::try_from(webhook.status.part_size) {
        _ if webhook.policy.pacing.single_incident => 1,
        Ok(size) if size > 0 => size,
        _ => usize::MAX,
    }
}

/// The minimum time from a delivered message to the next.
pub(super) fn group_interval(state: &WebhookStatus, policy: &NotificationPolicy) -> Duration {
    let interval = policy.pacing.group_interval;
    if state.part_size > 0 { interval.min(PART_INTERVAL) } else { interval }
}

/// How much a new message about the marked alerts contains at first.
pub(super) fn detail(state: &WebhookStatus) -> Detail {
    let is_refused = |alert: &AlertStatus| alert.refused_at.is_some() && alert.phase.is_pending();
    let is_retried = state.alerts.iter().any(is_refused);
    if state.part_size > 0 || is_retried { Detail::Names } else { Detail::Full }
}

/// How many current incidents the receiver has refused and not accepted before.
pub(super) fn unsent(webhook: &WebhookState<'_>) -> usize {
    let is_unsent = |alert: &&AlertStatus| {
        alert.refused_at.is_some() && webhook.begins(alert) && webhook.incidents.contains_key(alert.key.as_str())
    };
    webhook.status.alerts.iter().filter(is_unsent).count()
}
