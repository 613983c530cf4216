//! The state of one webhook: its stored status, and what the update of that depends on. It decides which alerts need a
//! message, but sends nothing.

mod alert_fields;
mod space;
mod update;

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    Incident,
    common_cause::Grouped,
    input::PlanInput,
    lifecycle::{self, Circumstances, Event},
    memory::{GoneAlerts, IncidentMemory},
    mute::{Mute, MuteRules},
    policy::NotificationPolicy,
    sanitize,
    times::has_elapsed,
};
use crate::api::{ALERT_BYTES, AlertPhase, AlertStatus, Owner, Severity, WebhookStatus};

/// The share of [`ALERT_BYTES`] of each webhook, in bytes of JSON.
#[must_use]
pub(crate) fn alert_bytes(webhooks: usize) -> usize {
    ALERT_BYTES / webhooks.max(1)
}

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
            mutes: grouped.mutes(input),
            muted: Vec::new(),
            overflow: Vec::new(),
            overflow_hash: String::new(),
            newly_tracked: 0,
            newly_held_back: 0,
            bytes,
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
                && !self.is_muted(alert)
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

    /// Whether silences or quiet hours hold back news about an alert now.
    pub fn is_muted(&self, alert: &AlertStatus) -> bool {
        self.mutes.contains_key(alert.key.as_str())
    }

    /// Drops the pending message.
    pub fn drop_pending(&mut self) {
        let at = self.circumstances();
        lifecycle::all(&mut self.status).for_each(|mut life| _ = life.on(Event::LeftOut, at));
        self.status.pending = None;
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

    pub fn circumstances(&self) -> Circumstances {
        Circumstances { now: self.now, maybe_delivered: self.may_be_delivered() }
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
}

pub(super) fn is_ongoing(alert: &AlertStatus) -> bool {
    alert.phase == AlertPhase::Firing && alert.gone_since.is_none()
}

/// Whether a complete repetition names an alert: the receiver was sent it and does not refuse it, and its incident lasts.
pub(super) fn is_listed(alert: &AlertStatus) -> bool {
    is_ongoing(alert) && alert.sent_at.is_some() && alert.refused_at.is_none()
}

/// Whether an alert is about this incident. The key alone is a hash that is short enough to be forged.
fn is_about(alert: &AlertStatus, incident: &Incident) -> bool {
    alert.key == *incident.key
        && alert.kind == incident.kind
        && alert.namespace == namespace(incident)
        && alert.owner == owner(incident)
        && alert.container == container(incident)
}

fn namespace(incident: &Incident) -> String {
    sanitize::single_line(&incident.namespace, 63)
}

fn owner(incident: &Incident) -> Owner {
    Owner {
        kind: sanitize::single_line(&incident.owner.kind, 63),
        name: sanitize::single_line(&incident.owner.name, 253),
    }
}

fn container(incident: &Incident) -> String {
    sanitize::single_line(&incident.container, 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_share_the_space_for_alerts() {
        assert_eq!([0, 1, 2, 10].map(alert_bytes), [65_536, 65_536, 32_768, 6_553]);
    }
}
