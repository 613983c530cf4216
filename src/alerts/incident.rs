//! Incidents as receivers are sent them, and what is remembered of each while it lasts.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::api::{AlertPhase, AlertStatus, NamespacedName, Owner, ProblemKind};

/// The object that alerts come from. Its UID separates objects of the same name in two clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub object: NamespacedName,
    /// Empty if unknown, as in a test message.
    pub uid: String,
    /// `--cluster-name`; may be empty.
    pub cluster: String,
}

impl From<NamespacedName> for Source {
    fn from(object: NamespacedName) -> Self {
        Self { object, uid: String::new(), cluster: String::new() }
    }
}

/// Current problems with the same namespace, owner, container and kind.
///
/// [`super::plan`] receives all incidents, including those that the status has no space for.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// A hash of namespace, owner, container and kind, as in the status.
    pub key: String,
    pub namespace: String,
    /// The top controller, derived from names; a pod without controller is its own owner.
    pub owner: Owner,
    /// The failing container; empty if the problem is not of one container.
    pub container: String,
    /// Part of the incident's identity, unlike the reason.
    pub kind: ProblemKind,
    /// The most specific reason of its pods, such as OOMKilled. May change while the incident lasts.
    pub reason: String,
    /// When it began. Must not move forward while the incident lasts, or it never gets older than a webhook's `after`:
    /// see [`IncidentMemory`].
    pub since: Timestamp,
    /// The threshold that had to pass after `since` before it counted as a problem. `after` is counted from its end.
    pub tolerated: Duration,
    /// The number of pods; exact.
    pub pods: u64,
    pub example_pods: Vec<String>,
    pub message: String,
    /// The last lines of an example pod's log, redacted; may be empty.
    pub logs: Arc<str>,
    /// Why the log is missing or was cut; may be empty.
    pub log_note: String,
}

/// Remembers from one reconcile to the next when each current incident began, and the reasons that it had. An incident
/// keeps its age even if all of its pods are replaced by pods that fail in the same way.
#[derive(Debug, Default)]
pub struct IncidentMemory {
    incidents: HashMap<String, Remembered>,
}

#[derive(Debug)]
struct Remembered {
    began: Timestamp,
    reasons: Vec<String>,
}

impl IncidentMemory {
    /// The limit of remembered reasons for each incident.
    const MAX_REASONS: usize = 4;

    /// Sets each incident's `since` back to when the incident began, and forgets incidents that are gone.
    pub fn update(&mut self, incidents: &mut [Incident]) {
        let mut current = HashMap::with_capacity(incidents.len());
        for incident in incidents {
            let known = self.incidents.remove(&incident.key);
            let mut known = known.unwrap_or_else(|| Remembered { began: incident.since, reasons: Vec::new() });
            incident.since = incident.since.min(known.began);
            known.began = incident.since;
            if !known.reasons.contains(&incident.reason) {
                known.reasons.truncate(Self::MAX_REASONS - 1);
                known.reasons.push(incident.reason.clone());
            }
            current.insert(incident.key.clone(), known);
        }
        self.incidents = current;
    }

    /// The reasons that a current incident had. A webhook that matched one of them continues to match the incident.
    pub(super) fn reasons(&self, key: &str) -> &[String] {
        self.incidents.get(key).map_or(&[], |known| &known.reasons)
    }
}

/// The unresolved alerts whose incidents are gone. The caller checks which of them can come back.
pub(crate) fn gone_alerts<'a>(
    webhooks: &'a [crate::api::WebhookStatus],
    incidents: &[Incident],
) -> impl Iterator<Item = &'a AlertStatus> {
    let present: std::collections::HashSet<String> = incidents.iter().map(|incident| incident.key.clone()).collect();
    let alerts = webhooks.iter().flat_map(|webhook| &webhook.alerts);
    alerts.filter(move |alert| alert.phase != AlertPhase::Resolved && !present.contains(&alert.key))
}

/// The time from one instant to another; zero if the second is earlier.
pub(super) fn duration_between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// `None` beyond the year 9999.
pub(super) fn later(from: Timestamp, by: Duration) -> Option<Timestamp> {
    from.checked_add(by).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn incident(key: &str, since: i64) -> Incident {
        Incident {
            key: key.to_owned(),
            namespace: "shop".to_owned(),
            owner: Owner { kind: "Deployment".to_owned(), name: "cart".to_owned() },
            container: String::new(),
            kind: ProblemKind::Crash,
            reason: "Error".to_owned(),
            since: Timestamp::from_second(since).unwrap(),
            tolerated: std::time::Duration::ZERO,
            pods: 1,
            example_pods: Vec::new(),
            message: String::new(),
            logs: Arc::from(""),
            log_note: String::new(),
        }
    }

    #[test]
    fn an_incident_keeps_its_age_when_its_pods_are_replaced() {
        let mut memory = IncidentMemory::default();
        let mut update = |incidents: &[(&str, i64)]| -> Vec<i64> {
            let mut incidents: Vec<_> = incidents.iter().map(|(key, since)| incident(key, *since)).collect();
            memory.update(&mut incidents);
            incidents.iter().map(|incident| incident.since.as_second()).collect()
        };
        assert_eq!(update(&[("a", 10), ("b", 5)]), [10, 5]);
        assert_eq!(update(&[("a", 30), ("b", 3)]), [10, 3]);
        assert_eq!(update(&[("b", 40)]), [3]);
        assert_eq!(update(&[("a", 50), ("b", 50)]), [50, 3], "an incident that was gone starts over");
    }

    #[test]
    fn durations_are_never_negative_and_times_never_overflow() {
        let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(90).unwrap());
        assert_eq!(duration_between(early, late), Duration::from_secs(90));
        assert_eq!(duration_between(late, early), Duration::ZERO);
        assert_eq!(later(Timestamp::MAX, Duration::from_secs(1)), None);
        assert_eq!(later(early, Duration::MAX), None);
    }
}
