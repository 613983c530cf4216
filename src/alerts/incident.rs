//! An incident as it is told, and how old it is.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;

use crate::api::{AlertPhase, AlertStatus, NamespacedName, Owner, ProblemKind};

/// Where alerts come from. Its UID keeps the alerts of two objects apart that have the same name in two clusters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The object that watches the pods.
    pub object: NamespacedName,
    /// The object's UID; empty if it is not known, as in a test message.
    pub uid: String,
    /// The cluster's name (`--cluster-name`); empty if it has none.
    pub cluster: String,
}

impl From<NamespacedName> for Source {
    fn from(object: NamespacedName) -> Self {
        Self { object, uid: String::new(), cluster: String::new() }
    }
}

/// Pods that fail alike, now: same namespace, owner, container and kind of problem. All of them are handed to
/// [`super::plan`], not only those that the status has room for.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    /// The hash of namespace, owner, container and kind that the status shows too.
    pub key: String,
    /// The pods' namespace.
    pub namespace: String,
    /// Their top controller as far as names tell; a pod without one is its own owner.
    pub owner: Owner,
    /// The container that causes the problem; empty where the pod as a whole does.
    pub container: String,
    /// The kind of problem, such as Crash. It is part of the incident's identity; the reason is not.
    pub kind: ProblemKind,
    /// The most telling reason of its pods, such as OOMKilled. It may change while the incident lasts.
    pub reason: String,
    /// When it began. It must not move forward while the incident goes on, or the incident never gets
    /// older than a webhook's `after`: see [`IncidentMemory`].
    pub since: Timestamp,
    /// For how long after that it was no problem yet: what `after` is counted from comes later by this.
    pub tolerated: Duration,
    /// How many pods; exact.
    pub pods: u64,
    /// A few of them.
    pub example_pods: Vec<String>,
    /// The cause in words.
    pub message: String,
    /// The last lines of an example pod's log, masked; empty where there is none.
    pub logs: Arc<str>,
    /// Why there is no log, or what was cut from it; often empty.
    pub log_note: String,
}

/// What is remembered of each present incident from one reconcile to the next: when it began, and the reasons that it
/// had. The pods of an incident may all be replaced by others that fail alike: each pod is young, the incident is not.
#[derive(Debug, Default)]
pub struct IncidentMemory {
    known: HashMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    began: Timestamp,
    reasons: Vec<String>,
}

impl IncidentMemory {
    /// How many reasons of one incident are remembered.
    const REASONS: usize = 4;

    /// Sets each incident's `since` back to when it was first seen, if that is earlier, and forgets
    /// incidents that are no more.
    pub fn update(&mut self, incidents: &mut [Incident]) {
        let mut present = HashMap::with_capacity(incidents.len());
        for incident in incidents {
            let known = self.known.remove(&incident.key);
            let mut known = known.unwrap_or_else(|| Known { began: incident.since, reasons: Vec::new() });
            incident.since = incident.since.min(known.began);
            known.began = incident.since;
            if !known.reasons.contains(&incident.reason) {
                known.reasons.truncate(Self::REASONS - 1);
                known.reasons.push(incident.reason.clone());
            }
            present.insert(incident.key.clone(), known);
        }
        self.known = present;
    }

    /// The reasons that a present incident had earlier. A webhook that matched it then still does.
    pub(super) fn reasons(&self, key: &str) -> &[String] {
        self.known.get(key).map_or(&[], |known| &known.reasons)
    }
}

/// The alerts that some receiver was sent, or is about to be, whose incidents are no more: for each, whoever watches the
/// pods can tell whether it may come back.
pub fn gone_alerts<'a>(
    webhooks: &'a [crate::api::WebhookStatus],
    incidents: &[Incident],
) -> impl Iterator<Item = &'a AlertStatus> {
    let present: std::collections::HashSet<String> = incidents.iter().map(|incident| incident.key.clone()).collect();
    let alerts = webhooks.iter().flat_map(|webhook| &webhook.alerts);
    alerts.filter(move |alert| alert.phase != AlertPhase::Resolved && !present.contains(&alert.key))
}

/// The time from one instant to another; nothing where the clock went backwards.
pub(super) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// An instant and a time later; absent beyond the year 9999.
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
    fn an_incident_whose_pods_are_replaced_keeps_its_age() {
        let mut memory = IncidentMemory::default();
        let mut seen = |incidents: &[(&str, i64)]| -> Vec<i64> {
            let mut incidents: Vec<_> = incidents.iter().map(|(key, since)| incident(key, *since)).collect();
            memory.update(&mut incidents);
            incidents.iter().map(|incident| incident.since.as_second()).collect()
        };
        assert_eq!(seen(&[("a", 10), ("b", 5)]), [10, 5]);
        assert_eq!(seen(&[("a", 30), ("b", 3)]), [10, 3]);
        assert_eq!(seen(&[("b", 40)]), [3]);
        assert_eq!(seen(&[("a", 50), ("b", 50)]), [50, 3], "an incident that was gone begins anew");
    }

    #[test]
    fn time_never_runs_backwards_nor_beyond_its_end() {
        let (early, late) = (Timestamp::UNIX_EPOCH, Timestamp::from_second(90).unwrap());
        assert_eq!(between(early, late), Duration::from_secs(90));
        assert_eq!(between(late, early), Duration::ZERO);
        assert_eq!(later(Timestamp::MAX, Duration::from_secs(1)), None);
        assert_eq!(later(early, Duration::MAX), None);
    }
}
