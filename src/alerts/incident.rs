//! Incidents in the form in which receivers are sent them, and the reasons that are remembered while an incident lasts.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use arcstr::ArcStr;
use jiff::Timestamp;

use super::times::later;
use crate::api::{
    AlertPhase, AlertStatus, Cause, NamespacedName, Owner, ProblemKind, Revision, Severity, WebhookStatus,
};

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
/// [`super::plan`] receives all incidents, including those that the status has no space for. Many objects may select the
/// same failing pods, so names and texts are shared between their incidents (`delivery/shared_names.rs` and
/// `shared_texts.rs`), and those that cannot be sent one by one have no texts (`report/alert_incidents.rs`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Incident {
    /// A hash of namespace, owner, container and kind, as in the status.
    pub key: ArcStr,
    pub namespace: ArcStr,
    /// The top controller, derived from names; a pod without controller is its own owner.
    pub owner: Arc<Owner>,
    /// The failing container; empty if the problem is not of one container.
    pub container: ArcStr,
    /// Part of the incident's identity, unlike the reason.
    pub kind: ProblemKind,
    /// The most specific reason of its pods, such as OOMKilled. May change while the incident lasts.
    pub reason: ArcStr,
    /// Unknown unless it is proven. May become known while the incident lasts.
    pub cause: Cause,
    /// When it began. Must not move forward while the incident lasts, or it never gets older than a webhook's `after`.
    /// The report's tracker ensures that.
    pub since: Timestamp,
    /// The threshold that had to pass after `since` before it counted as a problem. `after` is counted from its end.
    pub tolerated: Duration,
    /// The number of pods; exact.
    pub pods: u64,
    /// How many pods the owner has in all; zero if unknown.
    pub of: u64,
    /// From an annotation; otherwise critical if none of the owner's pods works. May change while the incident lasts.
    pub severity: Severity,
    /// From an annotation, like the URLs; empty if unknown. May change while the incident lasts.
    pub team: ArcStr,
    pub runbook: ArcStr,
    pub dashboard: ArcStr,
    pub texts: Arc<Texts>,
    /// The cause that the incident has in common with others.
    pub common_cause: Option<Arc<CommonCause>>,
    /// Whether it is about the object's own spec, and not about pods. Each webhook is sent it, whatever its `match`.
    pub is_of_spec: bool,
    /// The controllers that cannot create pods, if pods are missing.
    pub controllers: Vec<Owner>,
    /// The incidents that this one stands for, if it is about a common cause itself: first those that no alert about
    /// another common cause reported; of these, the most severe of each namespace, then the second of each, and so on.
    pub members: Vec<Member>,
}

impl Incident {
    /// The namespace that takes the space for the incident's alert.
    pub(super) fn counted_in(&self) -> &str {
        namespace_of(&self.namespace, &self.members)
    }
}

/// The namespace of an incident: if it is about a common cause without one, that of its members. Empty if these are in several.
pub(super) fn namespace_of<'a>(own: &'a str, members: &'a [Member]) -> &'a str {
    let mut namespaces = members.iter().map(|member| member.namespace.as_str());
    match namespaces.next() {
        Some(first) if own.is_empty() && namespaces.all(|other| other == first) => first,
        _ => own,
    }
}

/// What an alert shows of an incident, and what decides nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    pub example_pods: Vec<String>,
    /// One sentence: the cause, or what is known.
    pub message: String,
    /// The revision that fails, if an earlier one is still healthy.
    pub revision: Option<Revision>,
    /// What supports the cause beside the pods themselves, redacted: that of an example pod.
    pub evidence: Vec<String>,
    /// The last lines of an example pod's log, redacted; may be empty.
    pub logs: Arc<str>,
    /// Why the log is missing or was cut; may be empty.
    pub log_note: ArcStr,
}

impl Texts {
    /// The note of texts that were left out.
    pub const LEFT_OUT: ArcStr = arcstr::literal!("left out: there are too many incidents");

    /// Those of an incident whose texts were left out.
    #[must_use]
    pub fn left_out() -> Self {
        Self { log_note: Self::LEFT_OUT, ..Self::default() }
    }

    /// About how many bytes they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let revision = self.revision.as_ref();
        let changes = revision.into_iter().flat_map(|revision| revision.changes.iter().chain([&revision.name]));
        let texts = self.example_pods.iter().chain(&self.evidence).chain(changes);
        // Each also has a place in memory.
        let texts: usize = texts.map(|text| text.len() + size_of::<String>()).sum();
        size_of::<Self>() + self.message.len() + texts + self.logs.len() + self.log_note.len()
    }
}

/// An incident that has a common cause with others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The key of the incident.
    pub key: String,
    pub namespace: String,
    pub owner: Owner,
    /// The number of pods.
    pub pods: u64,
}

/// A cause that several incidents have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonCause {
    /// A hash of kind, namespace and name.
    pub key: String,
    /// For example Node.
    pub kind: String,
    /// Empty if the cause is not an object in a namespace.
    pub namespace: String,
    pub name: String,
    pub cause: Cause,
    /// One sentence.
    pub message: String,
}

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

    #[test]
    fn a_source_without_uid_and_cluster_has_only_a_name() {
        let object = NamespacedName { namespace: "shop".to_owned(), name: "cluster".to_owned() };
        let expected = Source { object: object.clone(), uid: String::new(), cluster: String::new() };
        assert_eq!(Source::from(object), expected);
    }
}
