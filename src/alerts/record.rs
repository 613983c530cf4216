//! What an attempt's outcome makes of the state.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    incident::later,
    notification::{Alert, Notification},
    retry::{self, AttemptOutcome, Failures, Step},
    sanitize,
    webhook_state::seconds,
};
use crate::api::{AlertPhase, DeliveryError, Detail, MessageKind, WebhookStatus};

/// The longest error text in a status, in UTF-16 code units.
const ERROR_LIMIT: usize = 256;

/// The state after an attempt to send what [`super::plan`] decided on.
///
/// `state` is that decision's, `random` is between 0 and 1.
#[must_use]
pub fn record(
    state: &WebhookStatus,
    sent: &Notification,
    outcome: &AttemptOutcome,
    now: Timestamp,
    random: f64,
) -> WebhookStatus {
    let mut state = state.clone();
    let count = |failures: i64| u32::try_from(failures).unwrap_or(u32::MAX);
    state.refusals = if outcome.is_refusal() { state.refusals.saturating_add(1) } else { 0 };
    let failures = Failures { all: count(state.failures.saturating_add(1)), refusals: count(state.refusals) };
    let mut step = retry::next(outcome, failures, now, random);
    if matches!(step, Step::Shrink { .. }) {
        step = shrink(&mut state, step, failures, now, random);
    }
    if step == Step::Delivered {
        delivered(&mut state, sent, now);
        return state;
    }
    // A reminder that failed leaves open what is open.
    if let Some(pending) = state.pending.as_mut().filter(|pending| pending.id == sent.id) {
        pending.in_flight = false;
        pending.maybe_delivered |= outcome.is_uncertain();
    }
    state.last_error =
        Some(DeliveryError { time: seconds(now), message: sanitize::single_line(&outcome.reason(), ERROR_LIMIT) });
    match step {
        Step::Delivered => {}
        Step::Shrink { at } => state.next_attempt = Some(not_before(at)),
        Step::Retry { at } | Step::Probe { at } => {
            state.failures = i64::from(failures.all);
            state.next_attempt = Some(not_before(at));
        }
        Step::Stop => {
            state.failures = i64::from(failures.all);
            state.next_attempt = None;
            state.stopped = true;
        }
    }
    state
}

/// Makes the next attempt shorter. If the message already is as short as it gets, it is as any other refusal.
fn shrink(state: &mut WebhookStatus, step: Step, failures: Failures, now: Timestamp, random: f64) -> Step {
    let refusal = || retry::next(&AttemptOutcome::Answered { status: 400, retry_after: None }, failures, now, random);
    let Some(pending) = &mut state.pending else { return refusal() };
    pending.detail = match pending.detail {
        Detail::Full => Detail::NoLogs,
        Detail::NoLogs => Detail::Names,
        Detail::Names => return refusal(),
    };
    step
}

fn delivered(state: &mut WebhookStatus, sent: &Notification, now: Timestamp) {
    let recovered = state.failures > 0 || state.last_error.is_some();
    state.failures = 0;
    state.next_attempt = None;
    state.last_error = None;
    // Reminders come and go every minute; they must not make a stream of status writes.
    if sent.kind != MessageKind::Resend || recovered {
        state.last_success = Some(seconds(now));
    }
    if sent.kind == MessageKind::Resend {
        return;
    }
    state.pending = None;
    // A repetition also counts what it has no room to name.
    let repeated = sent.kind == MessageKind::Repeat && sent.hidden > 0;
    for alert in &mut state.alerts {
        let named = |alerts: &[Alert]| alerts.iter().any(|named| named.key == alert.key);
        let told = match alert.phase {
            AlertPhase::Announcing if named(&sent.started) => AlertPhase::Firing,
            AlertPhase::Resolving if named(&sent.resolved) => AlertPhase::Resolved,
            AlertPhase::Firing if repeated || named(&sent.ongoing) => AlertPhase::Firing,
            _ => continue,
        };
        alert.phase = told;
        alert.sent_at = Some(seconds(now));
    }
    let Some(storm) = &mut state.storm else { return };
    match storm.phase {
        AlertPhase::Resolving => state.storm = None,
        AlertPhase::Announcing | AlertPhase::Firing if sent.storm.is_some() => {
            storm.phase = AlertPhase::Firing;
            storm.sent_at = Some(seconds(now));
        }
        _ => {}
    }
}

/// Rounded up to a second: a receiver that asks for two seconds gets them.
fn not_before(at: Timestamp) -> Time {
    let floor = seconds(at);
    if floor.0 == at { floor } else { Time(later(floor.0, std::time::Duration::from_secs(1)).unwrap_or(at)) }
}
