//! What the status stores of the incident of an alert.

use super::{WebhookState, container, namespace, owner};
use crate::{
    alerts::{
        Incident,
        common_cause::MAX_MEMBERS,
        memory::{Earlier, IncidentMemory},
        policy::NotificationPolicy,
        sanitize,
        times::whole_seconds,
    },
    api::{AlertPhase, AlertStatus, Cause, Owner, Severity, TEAM_LENGTH},
};

impl WebhookState<'_> {
    /// The highest severity by which the webhook matches incidents of the storm.
    pub(in crate::alerts) fn storm_severity(&self) -> Option<Severity> {
        self.overflow.iter().map(|incident| labels(self.policy, self.memory, incident, None).0).max()
    }

    /// Stores the latest reason that matches the webhook, and its cause, for the resolved message: by then the incident is gone.
    pub(super) fn update_reasons(&mut self) {
        for alert in &mut self.status.alerts {
            let Some(incident) = self.incidents.get(alert.key.as_str()) else { continue };
            let matches = !incident.members.is_empty() || self.policy.matching_reason(incident, &[]).is_some();
            if alert.phase != AlertPhase::Resolved && matches {
                let reason = sanitize::single_line(&incident.reason, 128);
                // A cause that is not proven at present is that of the same reason before, such as after a restart.
                if incident.cause != Cause::Unknown || alert.reason != reason {
                    alert.cause = incident.cause;
                }
                alert.reason = reason;
            }
        }
    }

    /// Stores the severity and the team of alerts that were not sent yet. Later they stay: they are labels, and Alertmanager
    /// considers an alert with other labels another alert.
    pub(super) fn update_labels(&mut self) {
        for alert in &mut self.status.alerts {
            let Some(incident) = self.incidents.get(alert.key.as_str()) else { continue };
            if alert.phase == AlertPhase::Queued && alert.sent_at.is_none() {
                let (severity, team) = labels(self.policy, self.memory, incident, Some(alert));
                (alert.severity, alert.team) = (Some(severity), team);
            }
        }
    }

    pub(super) fn queued_alert(&self, incident: &Incident) -> AlertStatus {
        let previous = self.status.alerts.iter().find(|alert| alert.key == *incident.key);
        let earlier = self.memory.earlier(&incident.key, None);
        let reason = self.policy.matching_reason(incident, &earlier.reasons);
        let (severity, team) = labels(self.policy, self.memory, incident, None);
        AlertStatus {
            key: incident.key.to_string(),
            namespace: namespace(incident),
            owner: owner(incident),
            container: container(incident),
            kind: incident.kind,
            reason: sanitize::single_line(reason.unwrap_or(&incident.reason), 128),
            cause: incident.cause,
            severity: Some(severity),
            team,
            since: whole_seconds(incident.since),
            phase: AlertPhase::Queued,
            sent_at: None,
            began_elsewhere: false,
            gone_since: None,
            returns: previous.map_or(0, |alert| alert.returns.saturating_add(1)),
            refused_at: None,
            held_back: 0,
            controllers: controllers(incident),
            members: incident.members.iter().take(MAX_MEMBERS).map(|member| member.key.clone()).collect(),
        }
    }
}

/// The severity and the team by which the webhook matches an incident.
fn labels(
    policy: &NotificationPolicy,
    memory: &IncidentMemory,
    incident: &Incident,
    alert: Option<&AlertStatus>,
) -> (Severity, String) {
    let earlier = if incident.members.is_empty() {
        memory.earlier(&incident.key, alert)
    } else {
        // The webhook matches the members, not their common cause.
        Earlier::default()
    };
    let severity = policy.matching_severity(incident, &earlier.severities).unwrap_or(incident.severity);
    let team = policy.matching_team(incident, &earlier.teams).unwrap_or(&incident.team);
    (severity, sanitize::single_line(team, TEAM_LENGTH))
}

/// As many as the status lists.
pub(super) fn controllers(incident: &Incident) -> Vec<Owner> {
    let owner =
        |own: &Owner| Owner { kind: sanitize::single_line(&own.kind, 63), name: sanitize::single_line(&own.name, 253) };
    incident.controllers.iter().take(3).map(owner).collect()
}
