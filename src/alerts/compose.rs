//! Builds messages from a webhook's state. Each message contains every alert that is marked as part of it: alerts that
//! do not fit are reverted, and sent in the next message.

use arcstr::ArcStr;
use ring::digest::{Context, SHA256};

use super::{
    common_cause::{self, Grouped},
    formats::MessageBudget,
    input::StepInput,
    lifecycle::Event,
    notification::{Alert, Farewell, Notification, Storm, count_reasons},
    refusal,
    state::{WebhookState, is_ongoing},
    thread::thread_of,
    times::has_elapsed,
};
use crate::{
    api::{AlertPhase, AlertStatus, Detail, MessageKind, PendingMessage, Severity, WebhookStatus},
    hex::hex,
};

/// How long a resolved alert is sent again to a receiver that expires alerts.
const RESEND_RESOLVED: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// Reverts the marked alerts that do not fit into one message. Firing alerts precede resolved ones, the oldest first.
pub(super) fn revert_excess(webhook: &mut WebhookState<'_>) {
    let mut budget = MessageBudget::of(webhook.input.policy.receiver());
    let at = webhook.circumstances();
    for phase in [AlertPhase::Announcing, AlertPhase::Resolving] {
        let excess: Vec<ArcStr> = alerts_where(webhook, |alert| alert.phase == phase)
            .into_iter()
            .filter(|alert| !budget.try_add(alert, webhook.input.now))
            .map(|alert| alert.incident.key)
            .collect();
        let excess = webhook.status.alerts.iter_mut().filter(|alert| excess.iter().any(|key| *key == alert.key));
        excess.for_each(|alert| alert.on(Event::LeftOut, at));
    }
}

/// Builds the message about the marked alerts and the storm. A message of the kind Resend is not the pending one.
pub(super) fn compose(webhook: &WebhookState<'_>, message: &PendingMessage) -> Notification {
    let (input, pacing) = (webhook.input, &webhook.input.policy.pacing);
    let (kind, created, detail) = (message.kind, message.created.0, message.detail);
    let single = pacing.single_incident;
    let resend = kind == MessageKind::Resend;
    let names_only = detail == Detail::Names;
    let mut started = alerts_where(webhook, |alert| match alert.phase {
        AlertPhase::Announcing => !resend || webhook.status.may_be_delivered() && !names_only,
        _ => false,
    });
    // An incident that has ended is never listed as firing. An alert still to be sent as a start, maybe after a
    // silence, gets its own message: listed as ongoing, it would count as sent.
    let is_listed = |alert: &AlertStatus| !single && is_ongoing(alert) && (resend || alert.sent_at.is_some());
    let mut resolved = alerts_where(webhook, |alert| {
        !resend && alert.phase == AlertPhase::Resolving
            || pacing.resend_interval.is_some() && is_resent(webhook, alert) && !names_only
    });
    for alert in &mut resolved {
        let stored = webhook.status.alerts.iter().find(|stored| stored.key == alert.key);
        alert.resolved_at = stored.and_then(|stored| stored.gone_since.as_ref()).map(|at| at.0).or(Some(created));
        alert.incident.pods = 0;
    }
    let mut storm = storm(webhook, message);
    let is_of_ends = kind == MessageKind::Resolved && storm.as_ref().is_none_or(|storm| storm.resolved_at.is_none());
    let thread = if is_of_ends { thread_of(&webhook.status, &resolved) } else { None };
    // What the receiver refuses has messages of its own. An answer in a thread lists what is in that thread.
    let firing = alerts_where(webhook, |alert| {
        is_listed(alert) && alert.refused_at.is_none() && thread.as_ref().is_none_or(|thread| *thread == alert.thread)
    });
    let overflow = if storm.is_some() { webhook.overflow.as_slice() } else { &[] };
    // A message with names only says nothing about the incidents that it does not name: the receiver may refuse it for
    // them.
    let counted = started.iter().chain(&firing).map(|alert| alert.reason.as_str());
    let counted = counted.chain(overflow.iter().map(|incident| incident.reason.as_str()));
    let reasons = count_reasons(counted.filter(|_| !names_only));
    let mut budget = MessageBudget::of(input.policy.receiver());
    for alert in started.iter().chain(&resolved) {
        budget.try_add(alert, webhook.input.now);
    }
    let all = webhook.status.alerts.iter().filter(|alert| is_listed(alert)).count();
    let is_held_back = |alert: &&AlertStatus| is_ongoing(alert) && alert.sent_at.is_none() && webhook.is_muted(alert);
    let held_back = webhook.status.alerts.iter().filter(is_held_back).count();
    let is_ending = |alert: &&AlertStatus| !single && alert.phase == AlertPhase::Firing && alert.gone_since.is_some();
    let ending = webhook.status.alerts.iter().filter(is_ending).count();
    let mut ongoing: Vec<Alert> = firing
        .into_iter()
        .filter(|alert| (resend || !names_only) && budget.try_add(alert, webhook.input.now))
        .collect();
    // PagerDuty's events are about one incident, and a resolve event has no text.
    let has_text = !resend && (!single || !started.is_empty() || storm.as_ref().is_some_and(|storm| storm.count > 0));
    let muted = webhook.status.muted.as_ref().filter(|_| has_text);
    let ended_while_muted = muted.map_or(0, |muted| u64::try_from(muted.ended).unwrap_or_default());
    if ended_while_muted > 0 && pacing.resend_interval.is_some() {
        // The alert that the message says it with, see `formats::labels::alerts`.
        let first = started.iter_mut().chain(&mut resolved).chain(&mut ongoing).next();
        let storm = storm.as_mut().map(|storm| &mut storm.held_back);
        first.map(|alert| &mut alert.held_back).or(storm).into_iter().for_each(|number| *number = ended_while_muted);
    }
    Notification {
        id: message.id.clone(),
        kind,
        source: input.source.clone(),
        webhook: input.policy.name.clone(),
        created,
        now: input.now,
        detail,
        omitted: (all - ongoing.len()) as u64,
        unsent: count_unsent(webhook, storm.is_some()),
        ending: ending as u64,
        refused: if resend { 0 } else { refusal::unsent(webhook) as u64 },
        muted: if resend { 0 } else { (webhook.muted.len() + held_back) as u64 },
        ended_while_muted,
        mentions: mentions(webhook, kind, &started, storm.as_ref()),
        started,
        ongoing,
        resolved,
        storm,
        reasons,
        thread,
        farewell: None,
    }
}

/// Whom a message mentions: only if it announces alerts, and not if it repeats or resolves them. A storm counts if it
/// was not sent yet, or if a critical incident joined it. The incidents of one namespace cause a mention once per
/// `mention_interval`.
fn mentions(webhook: &WebhookState<'_>, kind: MessageKind, started: &[Alert], storm: Option<&Storm>) -> Vec<String> {
    if kind != MessageKind::Firing {
        return Vec::new();
    }
    let new_storm =
        webhook.status.storm.as_ref().filter(|own| own.phase == AlertPhase::Announcing && own.sent_at.is_none());
    let overflow = webhook.overflow.iter().filter(|_| new_storm.is_some());
    let overflow = overflow.map(|incident| (incident.counted_in(), incident.severity));
    let announced = started.iter().map(|alert| (alert.counted_in(), alert.severity)).chain(overflow);
    let joined = storm.iter().flat_map(|storm| &storm.critical).map(|_| Severity::Critical);
    let severities: Vec<Severity> = announced
        .filter(|(namespace, severity)| !webhook.was_mentioned(namespace, *severity))
        .map(|(_, severity)| severity)
        .chain(joined)
        .collect();
    webhook.input.policy.mentions.of(&severities)
}

/// The alerts that satisfy a condition, the oldest first.
fn alerts_where(webhook: &WebhookState<'_>, condition: impl Fn(&AlertStatus) -> bool) -> Vec<Alert> {
    let mut alerts: Vec<_> = webhook.status.alerts.iter().filter(|alert| condition(alert)).collect();
    alerts.sort_by(|a, b| (a.since.0, &a.key).cmp(&(b.since.0, &b.key)));
    let (links, cluster) = (&webhook.input.policy.links, &webhook.input.source.cluster);
    let new = |alert: &AlertStatus| {
        let is_over = matches!(alert.phase, AlertPhase::Resolving | AlertPhase::Resolved);
        let remaining =
            if is_over && !alert.members.is_empty() { common_cause::remaining(alert, webhook.input) } else { 0 };
        Alert { remaining, ..Alert::new(alert, webhook.incident(alert), links, cluster) }
    };
    alerts.into_iter().map(new).collect()
}

fn storm(webhook: &WebhookState<'_>, message: &PendingMessage) -> Option<Storm> {
    let storm = webhook.status.storm.as_ref()?;
    let sent = storm.overflow.as_ref().map_or(0, |overflow| overflow.count);
    let resend = message.kind == MessageKind::Resend;
    let count = match storm.phase {
        // The current incidents may be unknown when a message is sent again.
        AlertPhase::Firing if resend => sent,
        AlertPhase::Announcing if !resend => sent,
        // A new receiver is sent a storm when it has incidents. Otherwise it would count as sent, although nothing was
        // said.
        AlertPhase::Firing if storm.sent_at.is_none() && webhook.overflow.is_empty() => return None,
        AlertPhase::Firing if !webhook.input.policy.pacing.single_incident => webhook.overflow.len() as u64,
        AlertPhase::Resolving if !resend => 0,
        _ => return None,
    };
    let is_resolving = storm.phase == AlertPhase::Resolving;
    let resolved_at =
        if is_resolving { storm.gone_since.as_ref().map(|at| at.0).or(Some(message.created.0)) } else { None };
    let announces = storm.phase == AlertPhase::Announcing && message.kind == MessageKind::Firing;
    let critical = if announces { webhook.new_critical(storm) } else { Vec::new() };
    // Absent if an older version stored it, whose label was always `warning`.
    let first_severity = storm.severity.unwrap_or_default();
    let severity = webhook.storm_severity().unwrap_or(first_severity);
    let held_back = u64::try_from(storm.held_back).unwrap_or_default();
    Some(Storm { count, since: storm.since.0, resolved_at, severity, first_severity, critical, held_back })
}

/// How many current incidents the receiver was sent neither before nor in this message, without those that are held
/// back.
fn count_unsent(webhook: &WebhookState<'_>, includes_storm: bool) -> u64 {
    let is_sent = |alert: &&AlertStatus| {
        matches!(alert.phase, AlertPhase::Announcing | AlertPhase::Firing) && !webhook.begins(alert)
    };
    let sent = webhook.status.alerts.iter().filter(is_sent).filter(|alert| webhook.lasts(alert));
    let counted =
        if includes_storm || webhook.input.policy.pacing.single_incident { webhook.overflow.len() } else { 0 };
    let others = sent.count() + counted + webhook.muted.len() + refusal::unsent(webhook);
    (webhook.held + webhook.incidents.len()).saturating_sub(others) as u64
}

/// Whether a resolved alert is still sent to a receiver that expires alerts.
pub(super) fn is_resent(webhook: &WebhookState<'_>, alert: &AlertStatus) -> bool {
    alert.phase == AlertPhase::Resolved
        && alert.refused_at.is_none()
        && webhook.input.policy.send_resolved
        && !has_elapsed(alert.sent_at.as_ref(), RESEND_RESOLVED, webhook.input.now)
}

/// The last messages to a receiver. They end every alert that it may consider firing, except those with the keys that
/// `is_kept` accepts, and say why.
#[must_use]
pub fn last_messages(
    state: &WebhookStatus,
    input: &StepInput<'_>,
    farewell: Farewell,
    is_kept: &dyn Fn(&str) -> bool,
) -> Vec<Notification> {
    if !input.policy.send_resolved || state.stopped {
        return Vec::new();
    }
    let grouped = Grouped::new(state, input);
    let webhook = WebhookState::new(state, input, &grouped);
    let (policy, now) = (input.policy, input.now);
    let mut messages: Vec<Notification> = Vec::new();
    let mut budget = MessageBudget::of(policy.receiver());
    let empty = |number: usize| Notification {
        id: format!("{}-{number}", new_id(&webhook, MessageKind::Resolved, true)),
        kind: MessageKind::Resolved,
        source: input.source.clone(),
        webhook: policy.name.clone(),
        created: now,
        now,
        farewell: Some(farewell),
        ..Notification::default()
    };
    for mut alert in alerts_where(&webhook, |alert| state.may_be_open(alert) && !is_kept(&alert.key)) {
        alert.resolved_at = Some(now);
        (alert.incident.pods, alert.remaining) = (0, 0);
        if messages.is_empty() || policy.pacing.single_incident || !budget.try_add(&alert, now) {
            messages.push(empty(messages.len()));
            budget = MessageBudget::of(policy.receiver());
            budget.try_add(&alert, now);
        }
        if let Some(message) = messages.last_mut() {
            message.resolved.push(alert);
        }
    }
    if let Some(storm) = state.storm.as_ref().filter(|storm| state.may_be_open(storm)) {
        let first_severity = storm.severity.unwrap_or_default();
        let storm = Storm {
            since: storm.since.0,
            resolved_at: Some(now),
            severity: first_severity,
            first_severity,
            ..Storm::default()
        };
        match messages.last_mut().filter(|_| !policy.pacing.single_incident) {
            Some(message) => message.storm = Some(storm),
            None => messages.push(Notification { storm: Some(storm), ..empty(messages.len()) }),
        }
    }
    for message in messages.iter_mut().filter(|message| message.storm.is_none()) {
        message.thread = thread_of(state, &message.resolved);
    }
    messages
}

/// How many alerts the receiver may consider firing, if it is to be sent their ends.
#[must_use]
pub(super) fn open_alerts(state: &WebhookStatus) -> usize {
    if state.sends_no_ends { 0 } else { state.alerts_and_storm().filter(|alert| state.may_be_open(alert)).count() }
}

/// The ID of a new message about the alerts that are marked.
///
/// It is not unique if the state cannot be stored, because a restarted operator finds no trace of such a message. If it plans
/// the same one, the receiver recognizes it by its ID. It may group the incidents in other messages, which have other IDs,
/// and it does not send the end of an incident that has ended in the meantime.
pub(super) fn new_id(webhook: &WebhookState<'_>, kind: MessageKind, is_unique: bool) -> String {
    let (state, input) = (&webhook.status, webhook.input);
    let alerts = state.alerts_and_storm().filter(|alert| is_part(kind, alert.phase));
    let mut parts: Vec<String> = alerts.map(|alert| part(kind, alert)).collect();
    parts.sort_unstable();
    let object = &input.source.object;
    let receiver = [&input.source.uid, &object.namespace, &object.name, &input.policy.name, &state.receiver];
    let time = is_unique.then(|| input.now.as_nanosecond().to_string());
    let mut hash = Context::new(&SHA256);
    hash.update(&[kind as u8]);
    for part in receiver.into_iter().chain(&time).chain(&parts) {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    hex(&hash.finish().as_ref()[..16])
}

fn is_part(kind: MessageKind, phase: AlertPhase) -> bool {
    match phase {
        AlertPhase::Announcing | AlertPhase::Resolving => true,
        // A repetition for a group marks no alerts.
        AlertPhase::Firing => kind == MessageKind::Repeat,
        AlertPhase::Queued | AlertPhase::Resolved => false,
    }
}

fn part(kind: MessageKind, alert: &AlertStatus) -> String {
    // An incident that ended and came back with the same start is announced again.
    let AlertStatus { key, phase, since, sent_at, returns, overflow, .. } = alert;
    // Each repetition has an ID of its own.
    let repeated = sent_at.as_ref().filter(|_| kind == MessageKind::Repeat);
    let times = [Some(since), repeated].map(|time| time.map(|time| time.0.as_second()));
    format!("{key} {} {times:?} {returns} {overflow:?}", *phase as u8)
}
