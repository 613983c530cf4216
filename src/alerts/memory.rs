//! What is remembered about incidents while they last, and what is known about those that are gone.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use arcstr::ArcStr;
use jiff::Timestamp;

use super::{Incident, times::later};
use crate::{
    api::{AlertPhase, AlertStatus, Severity, WebhookStatus},
    report::CommonCause,
};

/// What an incident was while it lasts, each value once. Empty as long as it has not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Earlier {
    pub reasons: Vec<ArcStr>,
    pub severities: Vec<Severity>,
    pub teams: Vec<ArcStr>,
}

/// Remembers the reasons, severities, teams and common causes of the current incidents from one reconcile to the next.
#[derive(Debug, Default)]
pub struct IncidentMemory {
    incidents: HashMap<ArcStr, Remembered>,
    /// Until when an incident without a common cause may have one, because its events were not read since a restart.
    settled_at: Option<Timestamp>,
}

/// An incident as it was at the last reconcile.
#[derive(Debug)]
struct Remembered {
    reason: ArcStr,
    severity: Severity,
    team: ArcStr,
    /// Absent if it has always been the same: most incidents never change.
    earlier: Option<Box<Earlier>>,
    /// The latest one.
    common_cause: Option<Arc<CommonCause>>,
}

impl IncidentMemory {
    /// The limit of remembered reasons, and of teams, for each incident.
    const LIMIT: usize = 4;
    /// How long after a restart a common cause may be unknown, although its incidents are known.
    const SETTLING: Duration = Duration::from_secs(10 * 60);

    /// The memory after a restart: what the status stores of the incidents that are held back.
    #[must_use]
    pub fn restored(webhooks: &[Arc<WebhookStatus>], now: Timestamp) -> Self {
        let held_back = webhooks.iter().flat_map(|webhook| &webhook.muted).flat_map(|muted| &muted.incidents);
        let restored = held_back.filter(|incident| !incident.reason.is_empty());
        Self {
            incidents: restored.map(|own| (own.key.as_str().into(), Remembered::restored(&own.reason))).collect(),
            settled_at: later(now, Self::SETTLING),
        }
    }

    /// When every common cause is known that can be, if that is still to come.
    pub(super) fn settled_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.settled_at.filter(|at| *at > now)
    }

    /// Whether a current incident may have a common cause that was not found since the restart.
    pub fn may_lack_cause(&self, incident: &Incident, now: Timestamp) -> bool {
        self.settled_at(now).is_some() && incident.common_cause.is_none() && self.common_cause(&incident.key).is_none()
    }

    /// Adds what these incidents are now, and forgets incidents that are gone.
    pub fn update(&mut self, incidents: &[Incident]) {
        let mut current = HashMap::with_capacity(incidents.len());
        for incident in incidents {
            let known = self.incidents.remove(&incident.key);
            current.insert(incident.key.clone(), Remembered::new(incident, known));
        }
        self.incidents = current;
    }

    /// The key of the common cause that a current incident had last.
    pub(super) fn common_cause(&self, key: &str) -> Option<&str> {
        self.incidents.get(key)?.common_cause.as_ref().map(|common| common.key.as_str())
    }

    /// The reasons that a current incident had, if it had several.
    pub(super) fn reasons(&self, key: &str) -> &[ArcStr] {
        self.get(key).map_or(&[], |earlier| &earlier.reasons)
    }

    fn get(&self, key: &str) -> Option<&Earlier> {
        self.incidents.get(key)?.earlier.as_deref()
    }

    /// What a current incident was. A webhook that matched it continues to match it. `alert` is the stored state of the
    /// incident at the webhook: it lasts longer than this memory, and has values that matched.
    pub(super) fn earlier(&self, key: &str, alert: Option<&AlertStatus>) -> Earlier {
        let mut earlier = self.get(key).cloned().unwrap_or_default();
        if let Some(alert) = alert {
            earlier.reasons.push(alert.reason.as_str().into());
            earlier.add_labels(alert);
        }
        earlier
    }
}

impl Remembered {
    /// An incident of which only an earlier reason is known.
    fn restored(reason: &str) -> Self {
        let reason = ArcStr::from(reason);
        let earlier = Earlier { reasons: vec![reason.clone()], ..Earlier::default() };
        Self {
            reason,
            severity: Severity::default(),
            team: ArcStr::new(),
            earlier: Some(Box::new(earlier)),
            common_cause: None,
        }
    }

    fn new(incident: &Incident, known: Option<Self>) -> Self {
        let (mut earlier, last_cause) = match known {
            Some(mut known) => (known.add(incident), known.common_cause),
            None => (None, None),
        };
        if let Some(earlier) = &mut earlier {
            earlier.add(&incident.reason, incident.severity, &incident.team);
        }
        Self {
            reason: incident.reason.clone(),
            severity: incident.severity,
            team: incident.team.clone(),
            earlier,
            common_cause: incident.common_cause.clone().or(last_cause),
        }
    }

    /// What the incident was so far, unless it has always been the same and still is.
    fn add(&mut self, incident: &Incident) -> Option<Box<Earlier>> {
        let is_same =
            self.reason == incident.reason && self.severity == incident.severity && self.team == incident.team;
        self.earlier.take().or_else(|| {
            let mut earlier = Box::<Earlier>::default();
            earlier.add(&self.reason, self.severity, &self.team);
            (!is_same).then_some(earlier)
        })
    }
}

impl Earlier {
    fn add(&mut self, reason: &ArcStr, severity: Severity, team: &ArcStr) {
        remember(&mut self.reasons, reason);
        remember(&mut self.severities, &severity);
        if !team.is_empty() {
            remember(&mut self.teams, team);
        }
    }

    /// Adds the severity and the team that an alert was sent with.
    pub(super) fn add_labels(&mut self, alert: &AlertStatus) {
        self.severities.extend(alert.severity);
        self.teams.extend((!alert.team.is_empty()).then(|| ArcStr::from(alert.team.as_str())));
    }
}

fn remember<T: Clone + PartialEq>(values: &mut Vec<T>, value: &T) {
    if !values.contains(value) {
        values.truncate(IncidentMemory::LIMIT - 1);
        values.push(value.clone());
    }
}

/// What is known about the [`gone_alerts`]: the keys of some of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GoneAlerts {
    /// Their incidents cannot come back, because their owners have no pods left.
    pub ended: Vec<String>,
    /// Their incidents may go on, because something that decides it was not read: these alerts stay as they are.
    pub unclear: Vec<String>,
    /// Further incidents may be unknown, because Jobs were not read yet: a storm does not end.
    pub is_incomplete: bool,
}

/// The unresolved alerts whose incidents are gone. The caller checks which of them can come back.
pub(crate) fn gone_alerts<'a>(
    webhooks: &'a [Arc<WebhookStatus>],
    incidents: &[Incident],
) -> impl Iterator<Item = &'a AlertStatus> {
    let present: HashSet<ArcStr> = incidents.iter().map(|incident| incident.key.clone()).collect();
    let alerts = webhooks.iter().flat_map(|webhook| &webhook.alerts);
    alerts.filter(move |alert| alert.phase != AlertPhase::Resolved && !present.contains(alert.key.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Owner, ProblemKind};

    fn incident(reason: &str) -> Incident {
        Incident {
            key: "a".into(),
            namespace: "shop".into(),
            owner: Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() }.into(),
            kind: ProblemKind::Crash,
            reason: reason.into(),
            pods: 1,
            ..Incident::default()
        }
    }

    #[test]
    fn remembers_four_reasons_of_an_incident_until_it_is_gone() {
        let mut memory = IncidentMemory::default();
        for (reason, remembered) in [
            // As long as nothing has changed, nothing is remembered.
            ("A", [].as_slice()),
            ("A", &[]),
            ("B", &["A", "B"]),
            ("A", &["A", "B"]),
            ("C", &["A", "B", "C"]),
            ("D", &["A", "B", "C", "D"]),
            ("E", &["A", "B", "C", "E"]),
        ] {
            memory.update(&[incident(reason)]);
            assert_eq!(memory.earlier("a", None).reasons, remembered, "after {reason}");
        }
        memory.update(&[]);
        assert_eq!(memory.earlier("a", None), Earlier::default());
    }

    #[test]
    fn gone_alerts_are_unresolved_ones_without_incident() {
        let alert = |key: &str, phase: AlertPhase| {
            serde_json::json!({
                "key": key, "namespace": "shop", "owner": {"kind": "Deployment", "name": "cart"}, "container": "",
                "kind": "Crash", "reason": "Error", "since": "2026-07-01T10:00:00Z", "phase": phase,
            })
        };
        let webhook = |alerts: &[serde_json::Value]| {
            Arc::new(serde_json::from_value(serde_json::json!({"name": "ops", "alerts": alerts})).unwrap())
        };
        let webhooks = [
            webhook(&[
                alert("a", AlertPhase::Firing),
                alert("b", AlertPhase::Queued),
                alert("c", AlertPhase::Resolved),
            ]),
            webhook(&[alert("a", AlertPhase::Resolved), alert("d", AlertPhase::Resolving)]),
        ];
        let gone = |incidents: &[Incident]| -> Vec<String> {
            gone_alerts(&webhooks, incidents).map(|alert| alert.key.clone()).collect()
        };
        assert_eq!(gone(&[incident("Error")]), ["b", "d"]);
        assert_eq!(gone(&[]), ["a", "b", "d"]);
    }
}
