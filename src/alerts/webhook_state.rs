//! The state of one webhook, updated from the current incidents. It decides which alerts need a message, but sends
//! nothing.
//!
//! An alert goes through these phases. The arrows out of *Announcing* and *Resolving* are taken when the receiver
//! accepts the message, the others as soon as their condition holds.
//!
//! ```text
//!           older than `after`         in a message             gone long enough
//! (none) ───────────────────▶ Queued ─────────▶ Announcing ─▶ Firing ─────▶ Resolving ─▶ Resolved
//!     ▲                                                                                     │
//!     └──────────── `resolved_retention` is over, or the incident returned ─────────────────┘
//! ```

mod alert_fields;
mod space;

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    common_cause::Grouped,
    incident::{GoneAlerts, Incident, IncidentMemory},
    mute::{Mute, MuteRules},
    muted,
    plan_input::PlanInput,
    policy::NotificationPolicy,
    refusal, retry,
    times::{has_elapsed, later, whole_seconds},
};
use crate::api::{AlertPhase, AlertStatus, MessageKind, Severity, WebhookStatus};

use self::{alert_fields::is_about, space::overflow_hash};

pub(super) use self::space::counted_in;

/// The limit for the alerts of all webhooks in the status of one object, in bytes of JSON.
pub(crate) const ALERT_BYTES: usize = 64 * 1024;

/// The share of [`ALERT_BYTES`] of each webhook, in bytes of JSON.
#[must_use]
pub(crate) fn alert_bytes(webhooks: usize) -> usize {
    ALERT_BYTES / webhooks.max(1)
}

/// The most members of a common cause that are stored.
pub(super) const MAX_MEMBERS: usize = 32;

/// A webhook's status while it is being updated, with what the update depends on.
pub(super) struct WebhookState<'a> {
    pub status: WebhookStatus,
    pub policy: &'a NotificationPolicy,
    /// `--cluster-name`; may be empty.
    pub cluster: &'a str,
    pub now: Timestamp,
    memory: &'a IncidentMemory,
    gone: &'a GoneAlerts,
    /// The current incidents that match the webhook, by key, with common causes in place of their members.
    pub incidents: HashMap<&'a str, &'a Incident>,
    /// How many current incidents stay silent until the alert about their common cause is resolved.
    pub held: usize,
    grouped: &'a Grouped<'a>,
    /// All current incidents, also those that do not match the webhook.
    pub current: &'a [Incident],
    pub mute_rules: &'a MuteRules,
    /// Why incidents are neither announced nor repeated now, by key.
    pub mutes: HashMap<&'a str, Mute>,
    /// The incidents that would be announced if they were not muted.
    pub muted: Vec<&'a Incident>,
    /// Due incidents beyond those that are tracked one by one: the storm.
    pub overflow: Vec<&'a Incident>,
    /// A hash of the keys of `overflow`.
    pub overflow_hash: String,
    /// How many incidents this update started to track, one by one or as members of a common cause.
    pub newly_tracked: usize,
    /// By how many more incidents are held back than before this update.
    pub newly_held_back: usize,
    bytes: usize,
}

impl<'a> WebhookState<'a> {
    pub fn new(previous: &WebhookStatus, input: &PlanInput<'a>, grouped: &'a Grouped<'a>) -> Self {
        let PlanInput { policy, memory, gone, mute_rules, bytes, now, incidents: current, .. } = *input;
        // An alert about another incident with the same key must end first: it is not about this one.
        let active = previous.alerts.iter().filter(|alert| alert.phase != AlertPhase::Resolved);
        // Of several alerts with the same key, the first counts.
        let active: HashMap<&str, &AlertStatus> = active.rev().map(|alert| (alert.key.as_str(), alert)).collect();
        let is_of_other =
            |incident: &Incident| active.get(incident.key.as_str()).is_some_and(|alert| !is_about(alert, incident));
        let mut incidents = HashMap::new();
        for incident in grouped.iter().filter(|incident| !is_of_other(incident)) {
            incidents.entry(incident.key.as_str()).or_insert(incident);
        }
        Self {
            status: previous.clone(),
            policy,
            cluster: &input.source.cluster,
            now,
            memory,
            gone,
            incidents,
            held: grouped.held,
            grouped,
            current,
            mute_rules,
            mutes: muted::find_all(grouped, input),
            muted: Vec::new(),
            overflow: Vec::new(),
            overflow_hash: String::new(),
            newly_tracked: 0,
            newly_held_back: 0,
            bytes,
        }
    }

    /// Sets the receiver. A new receiver is sent the firing alerts again, those that are muted later. It is also sent the
    /// end of alerts that began at the old one, because people may have seen them begin.
    pub fn set_receiver(&mut self, receiver: &str) {
        if self.status.receiver == receiver {
            return;
        }
        let was_known = !self.status.receiver.is_empty();
        receiver.clone_into(&mut self.status.receiver);
        if !was_known {
            return;
        }
        let maybe_delivered = self.may_be_delivered();
        match &mut self.status.pending {
            Some(pending) if pending.kind == MessageKind::Repeat => {
                self.revert_pending();
                self.status.pending = None;
            }
            Some(pending) => (pending.in_flight, pending.maybe_delivered) = (false, false),
            None => {}
        }
        // They keep their phase: a queued alert is withdrawn when it is muted, but the end of these must be sent.
        let begins_elsewhere = |phase: AlertPhase, sent_at: &mut Option<Time>| {
            let was_announced = match phase {
                AlertPhase::Firing | AlertPhase::Resolving => true,
                AlertPhase::Announcing => sent_at.is_some() || maybe_delivered,
                AlertPhase::Queued | AlertPhase::Resolved => false,
            };
            was_announced.then(|| *sent_at = None).is_some()
        };
        for alert in &mut self.status.alerts {
            alert.began_elsewhere |= begins_elsewhere(alert.phase, &mut alert.sent_at);
            alert.held_back = 0;
        }
        if let Some(storm) = &mut self.status.storm {
            storm.began_elsewhere |= begins_elsewhere(storm.phase, &mut storm.sent_at);
            storm.held_back = 0;
        }
    }

    /// Whether the alert or the storm fires, but began at another receiver, and must be sent to this one.
    pub fn fires_elsewhere(phase: AlertPhase, sent_at: Option<&Time>, gone_since: Option<&Time>) -> bool {
        phase == AlertPhase::Firing && sent_at.is_none() && gone_since.is_none()
    }

    /// Whether the next message says that the alert's incident began.
    pub fn begins(&self, alert: &AlertStatus) -> bool {
        alert.phase == AlertPhase::Queued
            || Self::fires_elsewhere(alert.phase, alert.sent_at.as_ref(), alert.gone_since.as_ref())
                && !muted::is_muted(self, alert)
    }

    /// Updates the alerts from the current incidents, and sets `overflow` to the incidents that belong to the storm.
    pub fn update_alerts(&mut self) {
        self.repair();
        self.update_presence();
        self.update_reasons();
        self.update_labels();
        self.update_members();
        self.update_controllers();
        self.withdraw_ended();
        self.advance_phases();
        muted::withdraw(self);
        self.enqueue_due();
        muted::withdraw_repetition(self);
        muted::update(self);
        self.overflow_hash = overflow_hash(&self.overflow);
    }

    /// Drops what is no longer needed, after alerts and storm are updated.
    pub fn clean_up(&mut self) {
        self.evict_resolved();
        self.drop_empty_pending();
        refusal::clean_up(&mut self.status);
        if !self.may_be_delivered() && !self.announces() {
            // The alerts that it announced were withdrawn or dropped, and the ends of others are left.
            let announcement = self.status.pending.as_mut().filter(|pending| pending.kind == MessageKind::Firing);
            announcement.into_iter().for_each(|pending| pending.kind = MessageKind::Resolved);
        }
    }

    /// Whether the pending message says that an incident or the storm began.
    pub fn announces(&self) -> bool {
        let alerts = self.status.alerts.iter().any(|alert| alert.phase == AlertPhase::Announcing);
        alerts || self.status.storm.as_ref().is_some_and(|storm| storm.phase == AlertPhase::Announcing)
    }

    /// Whether incidents of this namespace that are at least this severe must not cause another mention yet.
    pub fn was_mentioned(&self, namespace: &str, severity: Severity) -> bool {
        let interval = self.policy.pacing.mention_interval;
        let mut mentioned = self.status.mentioned.iter();
        mentioned.any(|mention| {
            mention.namespace == namespace
                && mention.severity >= severity
                && !has_elapsed(Some(&mention.at), interval, self.now)
        })
    }

    /// Whether the webhook matches a current incident.
    pub fn matches(&self, incident: &Incident) -> bool {
        self.policy.matches(incident, &self.memory.earlier(&incident.key, None))
    }

    /// How many problems of a common cause continue although its alert is resolved.
    pub fn remaining(&self, alert: &AlertStatus) -> u64 {
        match alert.phase {
            AlertPhase::Resolving | AlertPhase::Resolved => self.grouped.remaining(&alert.key),
            AlertPhase::Queued | AlertPhase::Announcing | AlertPhase::Firing => 0,
        }
    }

    /// Whether the receiver may already have received the pending message.
    pub fn may_be_delivered(&self) -> bool {
        self.status.pending.as_ref().is_some_and(|pending| pending.in_flight || pending.maybe_delivered)
    }

    /// Whether there may be further incidents, which are not known.
    pub fn is_incomplete(&self) -> bool {
        self.gone.is_incomplete
    }

    /// Whether an alert's incident has been gone long enough to count as resolved.
    pub fn is_resolved(&self, alert: &AlertStatus) -> bool {
        has_elapsed(alert.gone_since.as_ref(), self.keep_firing_for(alert), self.now)
    }

    /// How long an alert keeps firing after its incident is gone.
    pub fn keep_firing_for(&self, alert: &AlertStatus) -> Duration {
        if self.gone.ended.contains(&alert.key) {
            self.policy.pacing.keep_deleted_firing_for
        } else {
            self.policy.keep_firing_for(alert.returns)
        }
    }

    /// Repairs a status that was edited, or written with a clock ahead of ours. Without this, messages would wait until
    /// that clock's time.
    fn repair(&mut self) {
        // A webhook is only ever stopped together with an error.
        self.status.stopped &= self.status.last_error.is_some();
        if self.status.pending.is_none() {
            self.revert_pending();
        }
        self.repair_phases();
        let limit = |at: &mut Option<Time>, latest: Timestamp| {
            if let Some(at) = at {
                at.0 = at.0.min(whole_seconds(latest).0);
            }
        };
        let now = self.now;
        limit(&mut self.status.next_attempt, later(now, retry::MAX_WAIT).unwrap_or(Timestamp::MAX));
        limit(&mut self.status.last_success, now);
        let mention_interval = self.policy.pacing.mention_interval;
        for mention in &mut self.status.mentioned {
            mention.at.0 = mention.at.0.min(now);
        }
        self.status.mentioned.retain(|mention| !has_elapsed(Some(&mention.at), mention_interval, now));
        for alert in &mut self.status.alerts {
            limit(&mut alert.sent_at, now);
            limit(&mut alert.refused_at, now);
            limit(&mut alert.gone_since, now);
        }
        if let Some(storm) = &mut self.status.storm {
            limit(&mut storm.sent_at, now);
            limit(&mut storm.refused_at, now);
            limit(&mut storm.gone_since, now);
        }
    }

    /// A phase that only another version knows is read as Queued. If something was sent, its end must be sent.
    fn repair_phases(&mut self) {
        for alert in &mut self.status.alerts {
            alert.phase = repaired(alert.phase, alert.has_begun());
        }
        if let Some(storm) = &mut self.status.storm {
            storm.phase = repaired(storm.phase, storm.has_begun());
        }
    }

    /// Reverts the alerts of the pending message to the phase they had before it.
    pub fn revert_pending(&mut self) {
        for alert in &mut self.status.alerts {
            alert.phase = reverted(alert.phase, alert.has_begun());
        }
        if let Some(storm) = &mut self.status.storm {
            storm.phase = reverted(storm.phase, storm.has_begun());
        }
    }

    /// Records since when each alert's incident is gone, and counts the incidents that returned.
    fn update_presence(&mut self) {
        let maybe_delivered = self.may_be_delivered();
        for alert in &mut self.status.alerts {
            let present = self.incidents.contains_key(alert.key.as_str());
            match alert.phase {
                // A returning incident becomes a new alert. This one keeps the end that Alertmanager is sent repeatedly.
                AlertPhase::Resolved => {}
                // The receiver may have received the end: it must be delivered before the alert can fire again.
                AlertPhase::Resolving if maybe_delivered => {}
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
                _ if self.gone.unclear.contains(&alert.key) => {}
                _ => {
                    alert.gone_since.get_or_insert_with(|| whole_seconds(self.now));
                }
            }
        }
    }

    /// Takes alerts whose incidents have ended out of the pending message, so that it does not call them firing. If the
    /// receiver may have accepted it, their end is sent, and they begin again if the incidents return.
    fn withdraw_ended(&mut self) {
        let maybe_delivered = self.may_be_delivered();
        let is_ended = |alert: &&mut AlertStatus| alert.phase == AlertPhase::Announcing && alert.gone_since.is_some();
        for alert in self.status.alerts.iter_mut().filter(is_ended) {
            alert.began_elsewhere |= maybe_delivered && alert.sent_at.is_none();
            alert.phase = reverted(alert.phase, alert.has_begun());
        }
    }

    /// Drops queued alerts whose incidents are gone, and resolves firing ones silently without `sendResolved`.
    fn advance_phases(&mut self) {
        let mut alerts = std::mem::take(&mut self.status.alerts);
        alerts.retain_mut(|alert| match alert.phase {
            AlertPhase::Queued => {
                let drop = self.is_resolved(alert);
                self.status.dropped = self.status.dropped.saturating_add(if drop { self.ended(alert) } else { 0 });
                !drop
            }
            AlertPhase::Firing => {
                let is_given_up = refusal::is_end_given_up(alert, self.now);
                self.status.dropped = self.status.dropped.saturating_add(is_given_up.into());
                if is_given_up || !self.policy.send_resolved && self.is_resolved(alert) {
                    alert.phase = AlertPhase::Resolved;
                    (alert.sent_at, alert.began_elsewhere) = (Some(whole_seconds(self.now)), false);
                }
                true
            }
            AlertPhase::Announcing | AlertPhase::Resolving | AlertPhase::Resolved => true,
        });
        self.status.alerts = alerts;
    }

    /// How many incidents ended with an alert: those with a common cause may go on without it.
    fn ended(&self, alert: &AlertStatus) -> i64 {
        if alert.members.is_empty() {
            return 1;
        }
        let lasts = |key: &&String| self.current.iter().any(|incident| incident.key == **key);
        i64::try_from(alert.members.iter().filter(|key| !lasts(key)).count()).unwrap_or(i64::MAX)
    }

    /// Drops a pending message that no alert and no storm needs any more.
    fn drop_empty_pending(&mut self) {
        let Some(pending) = &self.status.pending else { return };
        let repeats = pending.kind == MessageKind::Repeat;
        let needed = |phase: AlertPhase, gone_since: &Option<Time>| match phase {
            AlertPhase::Announcing | AlertPhase::Resolving => true,
            AlertPhase::Firing => repeats && gone_since.is_none(),
            AlertPhase::Queued | AlertPhase::Resolved => false,
        };
        let alerts = self.status.alerts.iter().any(|alert| needed(alert.phase, &alert.gone_since));
        let storm = self.status.storm.as_ref().is_some_and(|storm| needed(storm.phase, &storm.gone_since));
        if !alerts && !storm {
            self.status.pending = None;
        }
    }
}

fn repaired(phase: AlertPhase, has_begun: bool) -> AlertPhase {
    if phase == AlertPhase::Queued && has_begun { AlertPhase::Firing } else { phase }
}

/// The phase before the pending message.
pub(super) fn reverted(phase: AlertPhase, has_begun: bool) -> AlertPhase {
    match phase {
        AlertPhase::Announcing if has_begun => AlertPhase::Firing,
        AlertPhase::Announcing => AlertPhase::Queued,
        AlertPhase::Resolving => AlertPhase::Firing,
        phase => phase,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_share_the_space_for_alerts() {
        assert_eq!([0, 1, 2, 10].map(alert_bytes), [65_536, 65_536, 32_768, 6_553]);
    }
}
