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

/// What an incident is or was while it lasts, of that which `match` selects incidents by and which may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    /// Empty if it is unknown. So is the team, which may also be absent.
    pub reason: ArcStr,
    pub severity: Option<Severity>,
    pub team: ArcStr,
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
    latest: Seen,
    /// What it was before, each once. Empty if it has always been the same, as most incidents.
    earlier: Vec<Seen>,
    /// The latest one.
    common_cause: Option<Arc<CommonCause>>,
}

impl IncidentMemory {
    /// The limit for each incident.
    const LIMIT: usize = 8;
    /// How long after a restart a common cause may be unknown, although its incidents are known.
    const SETTLING: Duration = Duration::from_secs(10 * 60);

    /// The memory after a restart: what the status stores of the incidents that are held back.
    #[must_use]
    pub fn restored(webhooks: &[Arc<WebhookStatus>], now: Timestamp) -> Self {
        let held_back = webhooks.iter().flat_map(|webhook| &webhook.muted).flat_map(|muted| &muted.incidents);
        let restored = held_back.filter(|incident| !incident.reason.is_empty()).map(|incident| {
            let latest = Seen { reason: incident.reason.as_str().into(), ..Seen::default() };
            (incident.key.as_str().into(), Remembered { latest, earlier: Vec::new(), common_cause: None })
        });
        Self { incidents: restored.collect(), settled_at: later(now, Self::SETTLING) }
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

    /// What a current incident was before. A webhook or a silence that matched it continues to match it, because the incident
    /// is the same.
    pub(super) fn earlier(&self, key: &str) -> &[Seen] {
        self.incidents.get(key).map_or(&[], |incident| &incident.earlier)
    }
}

impl Remembered {
    fn new(incident: &Incident, known: Option<Self>) -> Self {
        let latest =
            Seen { reason: incident.reason.clone(), severity: Some(incident.severity), team: incident.team.clone() };
        let common_cause = incident.common_cause.clone();
        let Some(mut known) = known else { return Self { latest, earlier: Vec::new(), common_cause } };
        if known.latest != latest && !known.earlier.contains(&known.latest) {
            known.earlier.truncate(IncidentMemory::LIMIT - 1);
            known.earlier.push(known.latest);
        }
        Self { latest, earlier: known.earlier, common_cause: common_cause.or(known.common_cause) }
    }
}

impl Seen {
    /// The severity and the team that an alert was sent with, and the latest reason by which the webhook matched it: the
    /// status lasts longer than the memory. That of a common cause is no reason of its members.
    pub(super) fn of_alert(alert: &AlertStatus) -> Self {
        let reason = if alert.members.is_empty() { alert.reason.as_str().into() } else { ArcStr::new() };
        Self { reason, severity: alert.severity, team: alert.team.as_str().into() }
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
    fn remembers_some_reasons_of_an_incident_until_it_is_gone() {
        let mut memory = IncidentMemory::default();
        for (reason, earlier) in [("A", &[][..]), ("A", &[]), ("B", &["A"]), ("A", &["A", "B"]), ("C", &["A", "B"])] {
            memory.update(&[incident(reason)]);
            let known: Vec<_> = memory.earlier("a").iter().map(|seen| seen.reason.as_str()).collect();
            assert_eq!(known, earlier, "after {reason}");
        }
        for number in 0..20 {
            memory.update(&[incident(&number.to_string())]);
        }
        let known: Vec<_> = memory.earlier("a").iter().map(|seen| seen.reason.as_str()).collect();
        assert_eq!(known, ["A", "B", "C", "0", "1", "2", "3", "18"], "the first ones, and the latest");
        memory.update(&[]);
        assert_eq!(memory.earlier("a"), []);
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
