//! What a receiver knows, held against what there is. Nothing here decides to send.
//!
//! An incident goes through these phases; each arrow away from *Announcing* and *Resolving* is taken
//! when the receiver has taken the message, the others as soon as they are true.
//!
//! ```text
//!            older than `after`         in a message             gone for long
//! (nothing) ───────────────────▶ Queued ─────────▶ Announcing ─▶ Firing ─────▶ Resolving ─▶ Resolved
//!     ▲                                                                                       │
//!     └───────────────── `memory` is over, or it came back and is told anew ──────────────────┘
//! ```

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    incident::{Incident, IncidentMemory, between, later},
    plan::PlanInput,
    policy::NotificationPolicy,
    retry, sanitize, storm,
};
use crate::api::{AlertPhase, AlertStatus, MessageKind, Owner, WebhookStatus};

/// How much of a status all the alerts of an object's webhooks may take together, in bytes of JSON.
pub const ALERT_BYTES: usize = 64 * 1024;

/// How much of a status the alerts of one webhook may take, in bytes of JSON.
#[must_use]
pub fn alert_bytes(webhooks: usize) -> usize {
    ALERT_BYTES / webhooks.max(1)
}

/// The state of one webhook while it is brought up to date.
pub(super) struct WebhookState<'a> {
    pub status: WebhookStatus,
    pub policy: &'a NotificationPolicy,
    pub now: Timestamp,
    /// Whether messages can be sent.
    usable: bool,
    memory: &'a IncidentMemory,
    /// The absent incidents that cannot come back.
    ended: &'a [String],
    /// All incidents that match.
    pub present: HashMap<&'a str, &'a Incident>,
    /// Those that are due, but beyond what is told one by one.
    pub overflow: Vec<&'a Incident>,
    /// A hash of their keys.
    pub members: String,
    /// How many were taken up to be told one by one.
    pub adopted: usize,
    bytes: usize,
}

impl<'a> WebhookState<'a> {
    pub fn new(previous: &WebhookStatus, input: &PlanInput<'a>) -> Self {
        let PlanInput { policy, incidents, memory, ended, bytes, now, .. } = *input;
        let active = previous.alerts.iter().filter(|alert| alert.phase != AlertPhase::Resolved);
        let sent: HashMap<&str, &str> = active.map(|alert| (alert.key.as_str(), alert.reason.as_str())).collect();
        let matches = |incident: &&Incident| {
            let mut earlier = memory.reasons(&incident.key).to_vec();
            earlier.extend(sent.get(incident.key.as_str()).map(|reason| (*reason).to_owned()));
            policy.matches(incident, &earlier)
        };
        let present = incidents.iter().filter(matches).map(|incident| (incident.key.as_str(), incident)).collect();
        Self {
            status: previous.clone(),
            policy,
            now,
            usable: input.receiver.is_some(),
            memory,
            ended,
            present,
            overflow: Vec::new(),
            members: String::new(),
            adopted: 0,
            bytes,
        }
    }

    /// Notes who the receiver is. Another one knows nothing: it is sent what goes on. An end is sent to it as well, as
    /// people may know of the beginning.
    pub fn address(&mut self, receiver: &str) {
        if self.status.receiver == receiver {
            return;
        }
        let was_known = !self.status.receiver.is_empty();
        receiver.clone_into(&mut self.status.receiver);
        if !was_known {
            return;
        }
        match &mut self.status.pending {
            Some(pending) if pending.kind == MessageKind::Repeat => {
                self.unmark();
                self.status.pending = None;
            }
            Some(pending) => (pending.in_flight, pending.maybe_delivered) = (false, false),
            None => {}
        }
        let forget = |phase: &mut AlertPhase, sent_at: &mut Option<Time>, gone: bool| {
            if *phase == AlertPhase::Firing && !gone {
                (*phase, *sent_at) = (AlertPhase::Queued, None);
            }
        };
        for alert in &mut self.status.alerts {
            forget(&mut alert.phase, &mut alert.sent_at, alert.gone_since.is_some());
        }
        if let Some(storm) = &mut self.status.storm {
            forget(&mut storm.phase, &mut storm.sent_at, storm.gone_since.is_some());
        }
    }

    /// Brings the state up to date with what there is.
    pub fn update(&mut self) {
        self.mend();
        self.notice_absence();
        self.note_reasons();
        self.pass_what_is_over();
        self.enqueue_what_is_due();
        storm::update(self);
        self.forget();
        self.drop_pending_without_purpose();
    }

    /// Whether the pending message may have been taken by the receiver.
    pub fn is_uncertain(&self) -> bool {
        self.status.pending.as_ref().is_some_and(|pending| pending.in_flight || pending.maybe_delivered)
    }

    /// Whether an alert's incident has been gone for long enough to be over.
    pub fn is_over(&self, alert: &AlertStatus) -> bool {
        has_been(alert.gone_since.as_ref(), self.hold(alert), self.now)
    }

    /// How long an alert's incident must be gone before it is over.
    pub fn hold(&self, alert: &AlertStatus) -> Duration {
        if self.ended.contains(&alert.key) { self.policy.pace.settle } else { self.policy.hold(alert.returns) }
    }

    /// Makes sense of a status that was edited, or written by a clock that was ahead of ours: what is to
    /// be told must not wait for that clock's time.
    fn mend(&mut self) {
        // It stops with an error only.
        self.status.stopped &= self.status.last_error.is_some();
        if self.status.pending.is_none() {
            self.unmark();
        }
        let limit = |at: &mut Option<Time>, latest: Option<Timestamp>| {
            let latest = latest.unwrap_or(Timestamp::MAX);
            if at.as_ref().is_some_and(|at| at.0 > latest) {
                *at = Some(seconds(latest));
            }
        };
        let now = Some(self.now);
        limit(&mut self.status.next_attempt, later(self.now, retry::LONGEST));
        limit(&mut self.status.last_success, now);
        for alert in &mut self.status.alerts {
            limit(&mut alert.sent_at, now);
            limit(&mut alert.gone_since, now);
        }
        if let Some(storm) = &mut self.status.storm {
            limit(&mut storm.sent_at, now);
            limit(&mut storm.gone_since, now);
        }
    }

    /// Takes back what the pending message was to tell.
    pub fn unmark(&mut self) {
        for alert in &mut self.status.alerts {
            alert.phase = before(alert.phase, alert.sent_at.is_some());
        }
        if let Some(storm) = &mut self.status.storm {
            storm.phase = before(storm.phase, storm.sent_at.is_some());
        }
    }

    fn notice_absence(&mut self) {
        let uncertain = self.is_uncertain();
        for alert in &mut self.status.alerts {
            let present = self.present.contains_key(alert.key.as_str());
            match alert.phase {
                AlertPhase::Resolved => {}
                // The receiver may know that it is over: that must be finished before it can begin anew.
                AlertPhase::Resolving if uncertain => {}
                AlertPhase::Resolving if present => {
                    alert.phase = AlertPhase::Firing;
                    alert.gone_since = None;
                    alert.returns = alert.returns.saturating_add(1);
                }
                _ if present => {
                    if alert.gone_since.take().is_some() {
                        alert.returns = alert.returns.saturating_add(1);
                    }
                }
                _ => {
                    alert.gone_since.get_or_insert_with(|| seconds(self.now));
                }
            }
        }
    }

    /// Keeps the reason for the message that tells the end, when the incident itself is no more: the last one that the
    /// webhook asks for.
    fn note_reasons(&mut self) {
        for alert in &mut self.status.alerts {
            let Some(incident) = self.present.get(alert.key.as_str()) else { continue };
            if alert.phase != AlertPhase::Resolved && self.policy.matches(incident, &[]) {
                alert.reason = sanitize::single_line(&incident.reason, 128);
            }
        }
    }

    fn pass_what_is_over(&mut self) {
        let uncertain = self.is_uncertain();
        let mut alerts = std::mem::take(&mut self.status.alerts);
        alerts.retain_mut(|alert| match alert.phase {
            // It may have been told: it must be told for certain, under the same id, and then its end.
            AlertPhase::Announcing if uncertain => true,
            AlertPhase::Announcing if alert.sent_at.is_some() => {
                if self.is_over(alert) {
                    alert.phase = AlertPhase::Firing;
                }
                true
            }
            AlertPhase::Queued | AlertPhase::Announcing => {
                // A receiver that takes its messages is sent this one when its turn comes.
                let fails = self.status.failures > 0 || !self.usable;
                let too_late =
                    fails && has_been(alert.gone_since.as_ref(), self.policy.give_up(alert.returns), self.now);
                self.status.dropped = self.status.dropped.saturating_add(i64::from(too_late));
                !too_late
            }
            AlertPhase::Firing => {
                if !self.policy.send_resolved && self.is_over(alert) {
                    alert.phase = AlertPhase::Resolved;
                    alert.sent_at = Some(seconds(self.now));
                }
                true
            }
            AlertPhase::Resolving | AlertPhase::Resolved => true,
        });
        self.status.alerts = alerts;
    }

    fn enqueue_what_is_due(&mut self) {
        let active = |alert: &&AlertStatus| alert.phase != AlertPhase::Resolved;
        let known: HashSet<&str> = self.status.alerts.iter().filter(active).map(|alert| alert.key.as_str()).collect();
        let mut due: Vec<&Incident> = self
            .present
            .values()
            .copied()
            .filter(|incident| !known.contains(incident.key.as_str()))
            .filter(|incident| self.policy.ripe_at(incident, self.now).is_some_and(|ripe| ripe <= self.now))
            .collect();
        due.sort_by(|a, b| (a.since, &a.key).cmp(&(b.since, &b.key)));

        let tracked = self.policy.pace.tracked;
        let count = known.len();
        let mut bytes: usize = self.status.alerts.iter().filter(active).map(size).sum();
        let fresh: Vec<AlertStatus> =
            due.iter().take(tracked.saturating_sub(count)).map(|incident| self.queued(incident)).collect();
        // A storm is told one by one again only when it has clearly calmed down: else each end of an
        // incident would make room for a message about another.
        let calm =
            count + due.len() <= tracked * 3 / 4 && bytes + fresh.iter().map(size).sum::<usize>() <= self.bytes * 3 / 4;
        if self.status.storm.is_some() && !calm {
            self.overflow = due;
            return;
        }
        for alert in fresh {
            if bytes + size(&alert) > self.bytes {
                break;
            }
            bytes += size(&alert);
            self.adopted += 1;
            self.status.alerts.retain(|known| known.key != alert.key);
            self.status.alerts.push(alert);
        }
        self.overflow = due.split_off(self.adopted);
    }

    fn queued(&self, incident: &Incident) -> AlertStatus {
        let before = self.status.alerts.iter().find(|alert| alert.key == incident.key);
        let reason = self.policy.matching_reason(incident, self.memory.reasons(&incident.key));
        AlertStatus {
            key: incident.key.clone(),
            namespace: sanitize::single_line(&incident.namespace, 63),
            owner: Owner {
                kind: sanitize::single_line(&incident.owner.kind, 63),
                name: sanitize::single_line(&incident.owner.name, 253),
            },
            container: sanitize::single_line(&incident.container, 63),
            kind: incident.kind,
            reason: sanitize::single_line(reason.unwrap_or(&incident.reason), 128),
            since: seconds(incident.since),
            phase: AlertPhase::Queued,
            sent_at: None,
            gone_since: None,
            returns: before.map_or(0, |alert| alert.returns.saturating_add(1)),
        }
    }

    fn forget(&mut self) {
        let (now, memory) = (self.now, self.policy.pace.memory);
        let is_memory = |alert: &AlertStatus| alert.phase == AlertPhase::Resolved;
        self.status.alerts.retain(|alert| !(is_memory(alert) && has_been(alert.sent_at.as_ref(), memory, now)));
        let mut bytes: usize = self.status.alerts.iter().map(size).sum();
        let mut count = self.status.alerts.len();
        while bytes > self.bytes || count > self.policy.pace.tracked {
            let oldest = self
                .status
                .alerts
                .iter()
                .enumerate()
                .filter(|(_, alert)| is_memory(alert))
                .min_by_key(|(_, alert)| alert.sent_at.as_ref().map(|at| at.0));
            let Some((index, alert)) = oldest else { break };
            bytes -= size(alert);
            count -= 1;
            self.status.alerts.remove(index);
        }
    }

    fn drop_pending_without_purpose(&mut self) {
        let Some(pending) = &self.status.pending else { return };
        let marked = |phase| matches!(phase, AlertPhase::Announcing | AlertPhase::Resolving);
        let repeats = pending.kind == MessageKind::Repeat;
        let goes_on = |phase, gone: &Option<Time>| repeats && phase == AlertPhase::Firing && gone.is_none();
        let purpose =
            self.status.alerts.iter().any(|alert| marked(alert.phase) || goes_on(alert.phase, &alert.gone_since))
                || self
                    .status
                    .storm
                    .as_ref()
                    .is_some_and(|storm| marked(storm.phase) || goes_on(storm.phase, &storm.gone_since));
        if !purpose {
            self.status.pending = None;
        }
    }
}

/// The phase before a message that told of it was decided on.
pub(super) fn before(phase: AlertPhase, told: bool) -> AlertPhase {
    match phase {
        AlertPhase::Announcing if told => AlertPhase::Firing,
        AlertPhase::Announcing => AlertPhase::Queued,
        AlertPhase::Resolving => AlertPhase::Firing,
        phase => phase,
    }
}

/// Whether something has been so for so long.
pub(super) fn has_been(since: Option<&Time>, long: Duration, now: Timestamp) -> bool {
    since.is_some_and(|since| between(since.0, now) >= long)
}

/// When something will have been so for so long.
pub(super) fn will_have_been(since: Option<&Time>, long: Duration) -> Option<Timestamp> {
    since.and_then(|since| later(since.0, long))
}

/// An instant as a status holds it: without a fraction of a second, so that what was stored and what is
/// in memory are the same.
pub(super) fn seconds(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// How long an alert is as JSON, at most.
fn size(alert: &AlertStatus) -> usize {
    const REST: usize = 300;
    let texts = [&alert.key, &alert.namespace, &alert.owner.kind, &alert.owner.name, &alert.container, &alert.reason];
    let escaped = |byte: u8| if matches!(byte, b'"' | b'\\') { 2 } else { 1 };
    REST + texts.iter().flat_map(|text| text.bytes()).map(escaped).sum::<usize>()
}
