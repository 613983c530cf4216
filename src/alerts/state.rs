//! The state of one webhook: its stored status, and what the update of that depends on.
//!
//! Incidents beyond those that are tracked one by one are the storm: an alert like others, of whose incidents the status
//! stores only the count and a hash of their keys, so that a thousand need no more space than one.

use std::{collections::HashMap, time::Duration};

use jiff::Timestamp;

use super::{
    Incident,
    common_cause::{Grouped, MAX_MEMBERS},
    input::StepInput,
    lifecycle::{Circumstances, Event},
    memory::Seen,
    mute::Mute,
    notification::Storm,
    sanitize,
    times::{elapses_at, has_elapsed, whole_seconds},
};
use crate::api::{AlertPhase, AlertStatus, Overflow, Owner, Severity, TEAM_LENGTH, WebhookStatus};

/// A webhook's status while it is being updated, with what the update depends on.
pub(super) struct WebhookState<'a> {
    pub status: WebhookStatus,
    pub input: &'a StepInput<'a>,
    /// The current incidents that match the webhook, by key, with common causes in place of their members.
    pub incidents: HashMap<&'a str, &'a Incident>,
    /// How many current incidents stay silent until the alert about their common cause is resolved.
    pub held: usize,
    /// Why incidents are neither announced nor repeated now, by key.
    pub mutes: HashMap<&'a str, Mute>,
    /// The incidents that would be announced if they were not muted.
    pub muted: Vec<&'a Incident>,
    /// Due incidents beyond those that are tracked one by one: the storm.
    pub overflow: Vec<&'a Incident>,
    /// A hash of the keys of `overflow`.
    pub overflow_hash: String,
}

impl<'a> WebhookState<'a> {
    pub fn new(previous: &WebhookStatus, input: &'a StepInput<'a>, grouped: &'a Grouped<'a>) -> Self {
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
            input,
            incidents,
            held: grouped.held,
            mutes: grouped.mutes(input),
            muted: Vec::new(),
            overflow: Vec::new(),
            overflow_hash: String::new(),
        }
    }

    pub fn circumstances(&self) -> Circumstances {
        Circumstances { now: self.input.now, maybe_delivered: self.status.may_be_delivered() }
    }

    /// The incident of an alert, unless that is a storm.
    pub fn incident(&self, alert: &AlertStatus) -> Option<&'a Incident> {
        self.incidents.get(alert.key.as_str()).copied().filter(|_| alert.overflow.is_none())
    }

    /// Whether there are incidents that an alert is about.
    pub fn lasts(&self, alert: &AlertStatus) -> bool {
        if alert.overflow.is_some() { !self.overflow.is_empty() } else { self.incident(alert).is_some() }
    }

    /// Whether it is not known if the incident of an alert is gone.
    pub fn is_unclear(&self, alert: &AlertStatus) -> bool {
        let gone = self.input.gone;
        if alert.overflow.is_some() { gone.is_incomplete } else { gone.unclear.contains(&alert.key) }
    }

    /// Whether silences or quiet hours hold back news about an alert now: about a storm, if they mute all of its incidents.
    pub fn is_muted(&self, alert: &AlertStatus) -> bool {
        let is_muted = |incident: &&Incident| self.mutes.contains_key(incident.key.as_str());
        if alert.overflow.is_none() {
            return self.mutes.contains_key(alert.key.as_str());
        }
        !self.overflow.is_empty() && self.overflow.iter().all(is_muted)
    }

    /// Whether the next message says that the alert's incident began: nothing was sent about it, or another receiver was sent
    /// it, and this one was not.
    pub fn begins(&self, alert: &AlertStatus) -> bool {
        let is_elsewhere = is_ongoing(alert) && alert.sent_at.is_none();
        let is_empty = alert.overflow.is_some() && self.overflow.is_empty();
        alert.phase == AlertPhase::Queued || is_elsewhere && !is_empty && !self.is_muted(alert)
    }

    /// Whether the pending message says that an incident or the storm began.
    pub fn announces(&self) -> bool {
        self.status.alerts_and_storm().any(|alert| alert.phase == AlertPhase::Announcing)
    }

    /// Whether incidents of this namespace that are at least this severe must not cause another mention yet.
    pub fn was_mentioned(&self, namespace: &str, severity: Severity) -> bool {
        let interval = self.input.policy.pacing.mention_interval;
        let mut mentioned = self.status.mentioned.iter();
        mentioned.any(|mention| {
            mention.namespace == namespace
                && mention.severity >= severity
                && !has_elapsed(Some(&mention.at), interval, self.input.now)
        })
    }

    /// Drops the pending message.
    pub fn drop_pending(&mut self) {
        let at = self.circumstances();
        self.status.alerts_and_storm_mut().for_each(|alert| alert.on(Event::LeftOut, at));
        self.status.pending = None;
    }

    /// Whether an alert's incident has been gone long enough to count as resolved.
    pub fn is_resolved(&self, alert: &AlertStatus) -> bool {
        has_elapsed(alert.gone_since.as_ref(), self.keep_firing_for(alert), self.input.now)
    }

    /// How long an alert keeps firing after its incident is gone.
    pub fn keep_firing_for(&self, alert: &AlertStatus) -> Duration {
        if self.input.gone.ended.contains(&alert.key) {
            self.input.policy.pacing.keep_deleted_firing_for
        } else {
            self.input.policy.keep_firing_for(alert.returns)
        }
    }

    /// The incidents of the storm now.
    pub fn present_overflow(&self) -> Overflow {
        Overflow { count: self.overflow.len() as u64, hash: self.overflow_hash.clone() }
    }

    /// Whether the incidents of a storm differ from those that the receiver was last sent.
    pub fn has_changed(&self, alert: &AlertStatus) -> bool {
        let Some(sent) = &alert.overflow else { return false };
        alert.phase == AlertPhase::Firing && !self.overflow.is_empty() && sent.hash != self.overflow_hash
    }

    /// When the receiver is to be sent that a storm has changed, which may be in the past: as soon as it has doubled, and
    /// otherwise some time after the last message, sooner if a critical incident joined it.
    pub fn news_at(&self, storm: &AlertStatus) -> Option<Timestamp> {
        let sent = storm.overflow.as_ref().filter(|_| self.has_changed(storm) && !self.is_muted(storm))?;
        let pacing = &self.input.policy.pacing;
        let has_critical = !self.new_critical(storm).is_empty();
        let interval = if has_critical { pacing.critical_storm_interval } else { pacing.storm_interval };
        let has_doubled = self.overflow.len() as u64 >= sent.count.saturating_mul(2);
        if has_doubled { Some(self.input.now) } else { elapses_at(storm.sent_at.as_ref(), interval) }
    }

    /// The namespaces of the critical incidents that became due after the last message about the storm, those that are due
    /// for longest first: whoever keeps a storm going must not hide them. Empty for common causes of several namespaces.
    pub fn new_critical(&self, storm: &AlertStatus) -> Vec<String> {
        let is_new = |incident: &&&Incident| {
            let due = self.input.policy.due_at(incident, self.input.now);
            let sent = storm.sent_at.as_ref().map(|sent| sent.0);
            incident.severity == Severity::Critical
                && sent.is_none_or(|sent| due.is_some_and(|due| due > sent))
                && !self.mutes.contains_key(incident.key.as_str())
        };
        let mut incidents: Vec<&&Incident> = self.overflow.iter().filter(is_new).collect();
        incidents.sort_by_key(|incident| (incident.since, &incident.key));
        let mut namespaces = Vec::new();
        for incident in incidents {
            let namespace = sanitize::single_line(incident.counted_in(), 63);
            let is_known = namespaces.contains(&namespace) || self.was_mentioned(&namespace, Severity::Critical);
            if !is_known && namespaces.len() < Storm::NAMESPACES {
                namespaces.push(namespace);
            }
        }
        namespaces
    }

    /// The highest severity by which the webhook matches incidents of the storm.
    pub fn storm_severity(&self) -> Option<Severity> {
        self.overflow.iter().map(|incident| labels(self.input, incident, None).0).max()
    }

    /// A new alert about an incident.
    pub fn queued_alert(&self, incident: &Incident) -> AlertStatus {
        let previous = self.status.alerts.iter().find(|alert| alert.key == *incident.key);
        let reason = self.input.policy.matching_reason(incident, self.input.memory.earlier(&incident.key));
        let (severity, team) = labels(self.input, incident, None);
        let (namespace, owner, container) = names(incident);
        AlertStatus {
            namespace,
            owner,
            container,
            kind: incident.kind,
            reason: sanitize::single_line(reason.unwrap_or(&incident.reason), 128),
            cause: incident.cause,
            severity: Some(severity),
            team,
            returns: previous.map_or(0, |alert| alert.returns.saturating_add(1)),
            controllers: controllers(incident),
            members: incident.members.iter().take(MAX_MEMBERS).map(|member| member.key.clone()).collect(),
            ..AlertStatus::queued(&incident.key, whole_seconds(incident.since))
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

/// The severity and the team by which the webhook matches an incident.
pub(super) fn labels(input: &StepInput<'_>, incident: &Incident, alert: Option<&AlertStatus>) -> (Severity, String) {
    // The webhook matches the members of a common cause, not the cause.
    let earlier = if incident.members.is_empty() {
        [input.memory.earlier(&incident.key), alert.map(Seen::of_alert).as_slice()].concat()
    } else {
        Vec::new()
    };
    let severity = input.policy.matching_severity(incident, &earlier).unwrap_or(incident.severity);
    let team = input.policy.matching_team(incident, &earlier).unwrap_or(&incident.team);
    (severity, sanitize::single_line(team, TEAM_LENGTH))
}

/// Whether an alert is about this incident. The key alone is a hash that is short enough to be forged.
fn is_about(alert: &AlertStatus, incident: &Incident) -> bool {
    let (namespace, owner, container) = names(incident);
    alert.key == *incident.key
        && alert.kind == incident.kind
        && (&alert.namespace, &alert.owner, &alert.container) == (&namespace, &owner, &container)
}

fn names(incident: &Incident) -> (String, Owner, String) {
    let [namespace, container] = [&incident.namespace, &incident.container].map(|name| sanitize::single_line(name, 63));
    (namespace, owner(&incident.owner), container)
}

fn owner(owner: &Owner) -> Owner {
    Owner { kind: sanitize::single_line(&owner.kind, 63), name: sanitize::single_line(&owner.name, 253) }
}

/// The controllers that cannot create pods: as many as the status lists.
pub(super) fn controllers(incident: &Incident) -> Vec<Owner> {
    incident.controllers.iter().take(3).map(owner).collect()
}
