//! What follows when a receiver refuses a message for its content, as with 400: it is sent with less detail, and then
//! in parts, until the incidents that the receiver refuses stand alone. Those are marked and retried slowly, so that
//! they hold up no others:
//!
//! ```text
//! [a b c d] refused ─▶ the same with names only, refused ─▶ [a b] accepted ─▶ [c d] refused ─▶ [c] refused: marked ─▶ [d]
//! ```
//!
//! A part that is accepted doubles the next one, so that one refused incident among many costs few requests.
//!
//! A receiver that has accepted nothing since its first refusal counts as failing, because nothing shows that the
//! incidents are the reason. One incident at a time is then sent as a probe. If it is accepted, all others are sent as
//! if they had never been refused.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    lifecycle::{Circumstances, Event},
    notification::Notification,
    policy::NotificationPolicy,
    state::{WebhookState, is_ongoing},
    times::{elapses_at, has_elapsed, whole_seconds},
};
use crate::api::{AlertPhase, AlertStatus, Detail, MessageKind, PendingMessage, WebhookStatus};

/// How long an incident that the receiver refused alone is not sent again.
const RETRY_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// How long no refused incident is sent again while the receiver accepts nothing.
const PROBE_INTERVAL: Duration = Duration::from_secs(90);
/// The minimum time between two parts of a message, and between messages about what waited for the receiver.
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
            None => announce_again(state, now),
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
    let included = state.alerts_and_storm().filter(|alert| alert.phase.is_pending()).count();
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
        state.last_refusal.clone_from(&state.last_error);
        if state.accepts_others {
            state.last_error = None;
        }
    }
    let at = Circumstances { now, maybe_delivered: pending.maybe_delivered };
    state.alerts_and_storm_mut().for_each(|alert| alert.on(Event::Refused { alone: included == 1 }, at));
    true
}

/// Half of a number of incidents, but at least one.
fn half(number: usize) -> i64 {
    i64::try_from(number / 2).unwrap_or(MAX_PART).max(1)
}

/// Lets all firing alerts be sent again as if they began, in parts: a receiver that has to be sent all alerts again and
/// again refuses them together. An incident that has ended, but may return, begins only if it does.
fn announce_again(state: &mut WebhookStatus, now: Timestamp) {
    let at = Circumstances { now, maybe_delivered: false };
    let mut number = 0;
    for alert in state.alerts_and_storm_mut().filter(|alert| is_ongoing(alert) && alert.refused_at.is_none()) {
        alert.on(Event::BeginsAgain, at);
        number += 1;
    }
    state.part_size = half(number);
    state.resend_detail = Detail::Full;
}

/// Updates the state after the receiver has accepted a message.
pub(super) fn on_accepted(state: &mut WebhookStatus, sent: &Notification, now: Timestamp) {
    let was_refusing_all = refuses_all(state);
    state.accepts_others |= state.last_refusal.is_some() || state.part_size > 0;
    if sent.kind == MessageKind::Resend {
        return;
    }
    // PagerDuty's end of an incident has no text, so it says nothing about others unless the receiver accepted nothing
    // before.
    if names_refused(state, sent, was_refusing_all) {
        let accepts_others = state.accepts_others;
        forget(state);
        state.accepts_others = accepts_others;
        return;
    }
    if was_refusing_all {
        // Another incident was accepted. Those that were refused before are due again, one at a time.
        let due = whole_seconds(now.checked_sub(RETRY_INTERVAL).unwrap_or(now));
        state.alerts_and_storm_mut().filter_map(|alert| alert.refused_at.as_mut()).for_each(|at| *at = due.clone());
        state.part_size = state.part_size.max(1);
    }
    let doubled = state.part_size.saturating_mul(2);
    state.part_size = if doubled > MAX_PART { 0 } else { doubled };
    if sent.kind == MessageKind::Firing && sent.detail == Detail::Full {
        state.resend_detail = Detail::Full;
    }
}

/// Whether a message is about an incident that the receiver refused before.
fn names_refused(state: &WebhookStatus, sent: &Notification, includes_ends: bool) -> bool {
    let ends = sent.resolved.iter().filter(|_| includes_ends);
    let is_refused = |key: &str| state.alerts.iter().any(|alert| alert.key == key && alert.refused_at.is_some());
    sent.started.iter().chain(ends).any(|named| is_refused(&named.key))
        || sent.storm.is_some() && state.storm.as_ref().is_some_and(|storm| storm.refused_at.is_some())
}

/// Whether the receiver has accepted nothing since it first refused an incident alone.
fn refuses_all(state: &WebhookStatus) -> bool {
    state.last_refusal.is_some() && !state.accepts_others
}

/// Forgets what the receiver refused, because the webhook or its Secret has changed.
pub(super) fn forget(state: &mut WebhookStatus) {
    state.alerts_and_storm_mut().for_each(|alert| alert.refused_at = None);
    (state.part_size, state.resend_detail, state.last_refusal) = (0, Detail::Full, None);
    state.accepts_others = false;
}

/// The alerts that the receiver refuses.
pub(super) fn refused(state: &WebhookStatus) -> impl Iterator<Item = &AlertStatus> {
    state.alerts_and_storm().filter(|alert| alert.refused_at.is_some() && alert.phase != AlertPhase::Resolved)
}

/// Drops the words of the receiver as soon as it refuses nothing any more.
pub(super) fn clean_up(state: &mut WebhookStatus) {
    if refused(state).next().is_none()
        && let Some(refusal) = state.last_refusal.take()
    {
        // Nothing is left that could show that the receiver works.
        state.last_error.take_if(|error| *error == refusal);
    }
}

/// Notes that all that the receiver was to be sent is sent, apart from what it refuses.
pub(super) fn on_all_sent(state: &mut WebhookStatus) {
    state.part_size = 0;
    state.accepts_others &= state.last_refusal.is_some();
}

/// Whether an alert is not sent at present because the receiver refused it.
pub(super) fn waits(webhook: &WebhookState<'_>, alert: &AlertStatus) -> bool {
    let Some(refused) = &alert.refused_at else { return false };
    // The end of its incident is another message, which may be accepted.
    let is_new_end = webhook.is_resolved(alert) && alert.gone_since.as_ref().is_some_and(|gone| gone.0 > refused.0);
    !is_new_end && retry_at(&webhook.status, alert).is_some_and(|at| at > webhook.input.now)
}

/// When a refused alert is sent again at the latest.
pub(super) fn retry_at(state: &WebhookStatus, alert: &AlertStatus) -> Option<Timestamp> {
    let refused_at = alert.refused_at.as_ref()?;
    if !refuses_all(state) {
        return elapses_at(Some(refused_at), RETRY_INTERVAL);
    }
    elapses_at(state.last_refusal.as_ref().map(|refusal| &refusal.time), PROBE_INTERVAL)
}

/// Whether the end of an incident was refused for so long that it is given up.
pub(super) fn is_end_given_up(alert: &AlertStatus, now: Timestamp) -> bool {
    alert.refused_at.is_some() && has_elapsed(alert.gone_since.as_ref(), END_KEPT, now)
}

/// How many incidents the next message may report.
pub(super) fn part_size(webhook: &WebhookState<'_>) -> usize {
    match usize::try_from(webhook.status.part_size) {
        _ if webhook.input.policy.pacing.single_incident => 1,
        Ok(size) if size > 0 => size,
        _ => usize::MAX,
    }
}

/// The minimum time from a delivered message to the next.
pub(super) fn group_interval(state: &WebhookStatus, policy: &NotificationPolicy) -> Duration {
    let interval = policy.pacing.group_interval;
    // Until everything is sent that waited for the receiver.
    let is_catching_up = state.part_size > 0 || state.accepts_others && state.last_refusal.is_none();
    if is_catching_up { interval.min(PART_INTERVAL) } else { interval }
}

/// How much a new message about the marked alerts contains at first.
pub(super) fn detail(state: &WebhookStatus) -> Detail {
    let is_refused = |alert: &AlertStatus| alert.refused_at.is_some() && alert.phase.is_pending();
    let is_retried = state.alerts_and_storm().any(is_refused);
    if state.part_size > 0 || is_retried { Detail::Names } else { Detail::Full }
}

/// How many current incidents the receiver has refused and not accepted before.
pub(super) fn unsent(webhook: &WebhookState<'_>) -> usize {
    let is_unsent = |alert: &&AlertStatus| {
        alert.refused_at.is_some() && webhook.begins(alert) && webhook.incidents.contains_key(alert.key.as_str())
    };
    webhook.status.alerts.iter().filter(is_unsent).count()
}
