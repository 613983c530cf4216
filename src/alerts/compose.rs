//! From a webhook's state to a message: which incidents it names, and what else it says. What is marked in the state
//! always is in the message: marks that don't fit into one message are taken back for the next.

use jiff::Timestamp;
use ring::digest::{Context, SHA256};

use super::{
    formats::Room,
    incident::later,
    notification::{Alert, Notification, Storm, count_reasons},
    plan::PlanInput,
    webhook_state::{WebhookState, before, has_been, will_have_been},
};
use crate::{
    api::{AlertPhase, AlertStatus, Detail, MessageKind, WebhookStatus},
    hex::hex,
};

/// How long a resolved alert is sent again to a receiver that forgets.
const RESEND_RESOLVED: std::time::Duration = std::time::Duration::from_secs(5 * 60);

/// What a message is, beside what it says.
pub(super) struct Envelope {
    pub id: String,
    pub kind: MessageKind,
    pub created: Timestamp,
    pub detail: Detail,
}

/// Takes back the marks of what doesn't fit into one message. What began comes before what ended, the oldest first.
pub(super) fn keep_what_fits(webhook: &mut WebhookState<'_>) {
    let mut room = Room::of(webhook.policy.format);
    for phase in [AlertPhase::Announcing, AlertPhase::Resolving] {
        let late: Vec<String> = alerts(webhook, |alert| alert.phase == phase)
            .into_iter()
            .filter(|alert| !room.takes(alert, webhook.now))
            .map(|alert| alert.key)
            .collect();
        for alert in webhook.status.alerts.iter_mut().filter(|alert| late.contains(&alert.key)) {
            alert.phase = before(alert.phase, alert.sent_at.is_some());
        }
    }
}

/// The message that tells what is marked.
pub(super) fn message(webhook: &WebhookState<'_>, input: &PlanInput<'_>, envelope: Envelope) -> Notification {
    let single = webhook.policy.pace.single;
    let resend = envelope.kind == MessageKind::Resend;
    let started = alerts(webhook, |alert| match alert.phase {
        AlertPhase::Announcing => !resend || webhook.is_uncertain(),
        _ => false,
    });
    let firing = alerts(webhook, |alert| !single && alert.phase == AlertPhase::Firing);
    let resent = |alert: &AlertStatus| alert.phase == AlertPhase::Resolved && is_resent(webhook, alert);
    let mut resolved = alerts(webhook, |alert| {
        !resend && alert.phase == AlertPhase::Resolving || webhook.policy.pace.resend.is_some() && resent(alert)
    });
    for alert in &mut resolved {
        let known = webhook.status.alerts.iter().find(|known| known.key == alert.key);
        alert.resolved_at = known.and_then(|known| known.gone_since.as_ref()).map(|at| at.0).or(Some(envelope.created));
        alert.pods = 0;
    }
    let storm = storm(webhook, &envelope);
    let overflow = if storm.is_some() { webhook.overflow.as_slice() } else { &[] };
    let reasons = count_reasons(
        started
            .iter()
            .chain(&firing)
            .map(|alert| alert.reason.as_str())
            .chain(overflow.iter().map(|incident| incident.reason.as_str())),
    );
    let mut room = Room::of(webhook.policy.format);
    for alert in started.iter().chain(&resolved) {
        room.takes(alert, webhook.now);
    }
    let all = firing.len();
    let ongoing: Vec<Alert> =
        firing.into_iter().filter(|alert| envelope.detail != Detail::Names && room.takes(alert, webhook.now)).collect();
    let Envelope { id, kind, created, detail } = envelope;
    Notification {
        id,
        kind,
        source: input.source.clone(),
        webhook: webhook.policy.name.clone(),
        created,
        now: webhook.now,
        detail,
        hidden: (all - ongoing.len()) as u64,
        unsent: unsent(webhook, storm.is_some()),
        started,
        ongoing,
        resolved,
        storm,
        reasons,
        object_deleted: false,
    }
}

/// The alerts that are wanted, the oldest first.
fn alerts(webhook: &WebhookState<'_>, wanted: impl Fn(&AlertStatus) -> bool) -> Vec<Alert> {
    let mut alerts: Vec<_> = webhook.status.alerts.iter().filter(|alert| wanted(alert)).collect();
    alerts.sort_by(|a, b| (a.since.0, &a.key).cmp(&(b.since.0, &b.key)));
    alerts.iter().map(|alert| Alert::new(alert, webhook.present.get(alert.key.as_str()).copied())).collect()
}

fn storm(webhook: &WebhookState<'_>, envelope: &Envelope) -> Option<Storm> {
    let storm = webhook.status.storm.as_ref()?;
    let known = u64::try_from(storm.count).unwrap_or_default();
    let resend = envelope.kind == MessageKind::Resend;
    let count = match storm.phase {
        // A reminder knows no more than what was sent.
        AlertPhase::Firing if resend => known,
        AlertPhase::Announcing if !resend => known,
        AlertPhase::Firing if !webhook.policy.pace.single => webhook.overflow.len() as u64,
        AlertPhase::Resolving if !resend => 0,
        _ => return None,
    };
    let over = storm.phase == AlertPhase::Resolving;
    let resolved_at = if over { storm.gone_since.as_ref().map(|at| at.0).or(Some(envelope.created)) } else { None };
    Some(Storm { count, since: storm.since.0, resolved_at })
}

/// How many of the present incidents the receiver doesn't know of after this message.
fn unsent(webhook: &WebhookState<'_>, storm_is_told: bool) -> u64 {
    let is_sent = |alert: &&AlertStatus| matches!(alert.phase, AlertPhase::Announcing | AlertPhase::Firing);
    let sent =
        webhook.status.alerts.iter().filter(is_sent).filter(|alert| webhook.present.contains_key(alert.key.as_str()));
    let counted = if storm_is_told || webhook.policy.pace.single { webhook.overflow.len() } else { 0 };
    webhook.present.len().saturating_sub(sent.count() + counted) as u64
}

/// What keeps the alerts of a receiver alive that forgets (Alertmanager), if it is time for it, and when it is next. It
/// depends on what the receiver was sent and on nothing else: it also works while nobody knows what goes on. It changes no
/// state.
#[must_use]
pub fn resend(state: &WebhookStatus, input: &PlanInput<'_>) -> (Option<Notification>, Option<Timestamp>) {
    let Some(every) = input.policy.pace.resend.filter(|_| !state.stopped) else { return (None, None) };
    let webhook = WebhookState::new(state, input);
    let is_known = |alert: &AlertStatus| match alert.phase {
        AlertPhase::Firing => true,
        AlertPhase::Announcing => webhook.is_uncertain(),
        _ => is_resent(&webhook, alert),
    };
    let storm = state.storm.as_ref().is_some_and(|storm| storm.phase == AlertPhase::Firing);
    if !storm && !state.alerts.iter().any(is_known) {
        return (None, None);
    }
    let now = input.now;
    let due = input.last_sent.and_then(|sent| later(sent, every)).unwrap_or(now);
    // Times in the state may be of a clock that was ahead.
    let retry = state.next_attempt.as_ref().map(|next| next.0);
    let retry = retry.filter(|retry| later(now, super::retry::LONGEST).is_some_and(|limit| *retry <= limit));
    let due = due.max(retry.unwrap_or(now));
    if due > now {
        return (None, Some(due));
    }
    let envelope = Envelope {
        id: new_id(&webhook, input, MessageKind::Resend),
        kind: MessageKind::Resend,
        created: now,
        detail: Detail::Full,
    };
    (Some(message(&webhook, input, envelope)), later(now, every))
}

fn is_resent(webhook: &WebhookState<'_>, alert: &AlertStatus) -> bool {
    alert.phase == AlertPhase::Resolved
        && webhook.policy.send_resolved
        && !has_been(alert.sent_at.as_ref(), RESEND_RESOLVED, webhook.now)
}

/// When what goes on is to be told again.
pub(super) fn repeat_at(webhook: &WebhookState<'_>) -> Option<Timestamp> {
    let every = webhook.policy.repeat_every;
    if every.is_zero() || webhook.policy.pace.resend.is_some() {
        return None;
    }
    let alerts = webhook.status.alerts.iter().filter(|alert| goes_on(alert)).map(|alert| alert.sent_at.as_ref());
    let storm =
        webhook.status.storm.iter().filter(|storm| storm.phase == AlertPhase::Firing && storm.gone_since.is_none());
    alerts.chain(storm.map(|storm| storm.sent_at.as_ref())).filter_map(|sent| will_have_been(sent, every)).min()
}

pub(super) fn goes_on(alert: &AlertStatus) -> bool {
    alert.phase == AlertPhase::Firing && alert.gone_since.is_none()
}

/// The last messages of an object that was deleted: that nobody watches any more what its receiver takes for firing.
#[must_use]
pub fn deletion_notices(state: &WebhookStatus, input: &PlanInput<'_>) -> Vec<Notification> {
    if !input.policy.send_resolved || state.stopped {
        return Vec::new();
    }
    let webhook = WebhookState::new(state, input);
    let (policy, now) = (input.policy, input.now);
    let may_be_known = |phase: AlertPhase, sent: bool| match phase {
        AlertPhase::Firing | AlertPhase::Resolving => true,
        AlertPhase::Announcing => sent || webhook.is_uncertain(),
        AlertPhase::Queued | AlertPhase::Resolved => false,
    };
    let mut messages: Vec<Notification> = Vec::new();
    let mut room = Room::of(policy.format);
    let empty = |number: usize| Notification {
        id: format!("{}-{number}", new_id(&webhook, input, MessageKind::Resolved)),
        kind: MessageKind::Resolved,
        source: input.source.clone(),
        webhook: policy.name.clone(),
        created: now,
        now,
        detail: Detail::Full,
        started: Vec::new(),
        ongoing: Vec::new(),
        hidden: 0,
        unsent: 0,
        resolved: Vec::new(),
        storm: None,
        reasons: Vec::new(),
        object_deleted: true,
    };
    for mut alert in alerts(&webhook, |alert| may_be_known(alert.phase, alert.sent_at.is_some())) {
        alert.resolved_at = Some(now);
        alert.pods = 0;
        if messages.is_empty() || policy.pace.single || !room.takes(&alert, now) {
            messages.push(empty(messages.len()));
            room = Room::of(policy.format);
            room.takes(&alert, now);
        }
        if let Some(message) = messages.last_mut() {
            message.resolved.push(alert);
        }
    }
    if let Some(storm) = state.storm.as_ref().filter(|storm| may_be_known(storm.phase, storm.sent_at.is_some())) {
        let storm = Storm { count: 0, since: storm.since.0, resolved_at: Some(now) };
        match messages.last_mut().filter(|_| !policy.pace.single) {
            Some(message) => message.storm = Some(storm),
            None => messages.push(Notification { storm: Some(storm), ..empty(messages.len()) }),
        }
    }
    messages
}

/// An id that no other message has: a reminder may be made at the same instant as one of another kind.
pub(super) fn new_id(webhook: &WebhookState<'_>, input: &PlanInput<'_>, kind: MessageKind) -> String {
    let mut hash = Context::new(&SHA256);
    hash.update(&[kind as u8]);
    let source = input.source;
    let nanoseconds = webhook.now.as_nanosecond().to_string();
    for part in [&source.uid, &source.object.namespace, &source.object.name, &input.policy.name, &nanoseconds] {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    for alert in &webhook.status.alerts {
        hash.update(alert.key.as_bytes());
        hash.update(&[alert.phase as u8]);
    }
    hex(&hash.finish().as_ref()[..16])
}
