//! What the operator keeps of an object's status in the API.
//!
//! A status may take 256 KiB, and there may be a thousand objects. So only the small fields are kept, a hash of the
//! lists, and as JSON the history and what the history and events tell about ended incidents. Until the tracker has resumed
//! from the lists, they are kept as well, but without logs and messages.

use std::io;

use ring::digest::{Context, SHA256};

use crate::api::{Incident, LastTermination, OrchestrStatus, PodProblem};

use super::{
    change::{Change, Lists, compare},
    fit,
    history::{History, MESSAGE_LIMIT, most_pods},
    truncate,
    wire::number,
};

/// The most bytes of JSON that are kept of the incidents and of the pods to resume from: more than a status of the operator
/// ever has. Another writer may exceed it.
const PODS_LIMIT: usize = 192 * 1024;

/// The status in the API.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KnownStatus {
    /// All fields but the lists, which are empty.
    head: OrchestrStatus,
    lists: Digest,
    /// The most pods of each incident, by its key.
    most_pods: Box<[(u64, i64)]>,
    /// A status with the history, the incidents, and until the tracker has resumed the pods, as JSON.
    details: Box<[u8]>,
    is_resumed: bool,
}

/// A hash of what is compared of the lists of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digest([u8; 32]);

impl KnownStatus {
    /// `is_resumed` is whether the tracker has resumed, so that the lists are no longer needed.
    pub(crate) fn new(mut status: OrchestrStatus, is_resumed: bool) -> Self {
        let lists = Digest::of(&status);
        let mut details = OrchestrStatus::default();
        History::take(&mut status).put_into(&mut details);
        status.common_causes = Vec::new();
        let pods = std::mem::take(&mut status.problematic_pods);
        let mut incidents = std::mem::take(&mut status.incidents);
        incidents.iter_mut().for_each(|incident| incident.log_line = String::new());
        let incidents = incidents.into_iter().take(fit::MAX_INCIDENTS);
        details.incidents = fit::prefix(incidents, fit::STORED_INCIDENT_BYTES);
        if !is_resumed {
            details.problematic_pods = fit::prefix(pods.into_iter().map(without_texts), PODS_LIMIT);
        }
        let most_pods = details.incidents.iter().filter_map(|own| Some((number(&own.key)?, most_pods(own))));
        let mut most_pods: Box<[_]> = most_pods.collect();
        most_pods.sort_unstable();
        let mut known = Self { head: status, lists, most_pods, details: Box::default(), is_resumed };
        known.keep(details);
        known
    }

    fn keep(&mut self, mut details: OrchestrStatus) {
        if self.is_resumed {
            details.problematic_pods = Vec::new();
            details.incidents.iter_mut().for_each(shorten);
        }
        self.details = serde_json::to_vec(&details).unwrap_or_default().into();
    }

    fn details(&self) -> OrchestrStatus {
        serde_json::from_slice(&self.details).unwrap_or_default()
    }

    /// All fields but the lists, which are empty.
    pub(crate) fn head(&self) -> &OrchestrStatus {
        &self.head
    }

    pub(crate) fn history(&self) -> History {
        History::take(&mut self.details())
    }

    /// Sets the most pods that each incident of the next status has had.
    pub(crate) fn keep_most_pods(&self, incidents: &mut [Incident]) {
        for incident in incidents {
            let known = number(&incident.key)
                .and_then(|key| self.most_pods.binary_search_by_key(&key, |(key, _)| *key).ok())
                .and_then(|place| self.most_pods.get(place));
            incident.most_pods = known.map_or(0, |(_, most)| *most).max(incident.pods);
            if incident.most_pods == incident.pods {
                incident.most_pods = 0;
            }
        }
    }

    /// The status with its incidents as the history contains them, to compare them with those of the next status. Until the
    /// tracker has resumed, with all that it resumes from.
    pub(crate) fn with_lists(&self) -> OrchestrStatus {
        let OrchestrStatus { incidents, problematic_pods, .. } = self.details();
        OrchestrStatus { incidents, problematic_pods, ..self.head.clone() }
    }

    /// The tracker has resumed.
    pub(crate) fn resumed(&mut self) {
        if !std::mem::replace(&mut self.is_resumed, true) {
            self.keep(self.details());
        }
    }

    /// Compares the status with a new one, see [`differs`](super::differs). `keeps_lists` is whether the write of the new
    /// status will keep the lists in the API.
    pub(crate) fn differs(&self, new: &OrchestrStatus, keeps_lists: bool) -> Change {
        compare(&self.head, new, || keeps_lists || self.lists == Digest::of(new))
    }

    /// Whether two statuses are equal, including the fields of other writers.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.lists == other.lists && self.head == other.head
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.details.len() + size_of_val(&*self.most_pods)
    }
}

impl Digest {
    fn of(status: &OrchestrStatus) -> Self {
        let mut hash = Hash(Context::new(&SHA256));
        // Writing into a hash cannot fail.
        let _ = serde_json::to_writer(&mut hash, &Lists::of(status));
        let mut digest = [0; 32];
        digest.copy_from_slice(hash.0.finish().as_ref());
        Self(digest)
    }
}

struct Hash(Context);

impl io::Write for Hash {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.update(buffer);
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Keeps of an incident what the history contains of it.
fn shorten(incident: &mut Incident) {
    incident.pods = most_pods(incident);
    incident.message = truncate::with_ellipsis(&incident.message, MESSAGE_LIMIT).into_owned();
    let Incident { hint, example_pods, controllers, team, runbook, dashboard, invalid_annotations, .. } = incident;
    [hint, team, runbook, dashboard].into_iter().for_each(|text| *text = String::new());
    (*example_pods, *controllers, *invalid_annotations) = (Vec::new(), Vec::new(), Vec::new());
    (incident.of, incident.most_pods, incident.severity, incident.revision) = (0, 0, None, None);
}

/// Keeps what the tracker resumes from.
fn without_texts(mut pod: PodProblem) -> PodProblem {
    pod.status = String::new();
    pod.message = String::new();
    pod.evidence = Vec::new();
    pod.phase = String::new();
    pod.node = String::new();
    for issue in &mut pod.container_issues {
        issue.reason = String::new();
        issue.message = String::new();
        issue.logs = String::new();
        issue.log_source = None;
        issue.log_note = String::new();
        if let Some(LastTermination { message, reason, finished_at, .. }) = &mut issue.last_termination {
            (*message, *reason, *finished_at) = (String::new(), String::new(), None);
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::{LogSource, WebhookStatus},
        diagnosis::Finding,
        pods::{Pod, Uid},
        report::{
            OmittedIncidents, differs,
            tests::{Scenario, crashing},
            transitions,
        },
    };

    fn pods(reason: &str) -> impl Iterator<Item = (Pod, Finding)> {
        (0..50).map(move |pod| {
            let (own, finding) = crashing("shop", &format!("cart-{pod}"), reason, 50);
            (Pod { uid: Uid::from(pod), ..own }, finding)
        })
    }

    /// A status of 50 pods with logs, which are different in each round.
    fn large(round: u8) -> OrchestrStatus {
        let mut status = Scenario { watched: 80, ..Scenario::of(pods("OOMKilled")) }.status(None);
        for (pod, row) in status.problematic_pods.iter_mut().enumerate() {
            let issue = &mut row.container_issues[0];
            issue.logs = format!("{round}: line of the log of pod {pod}\n").repeat(60);
            issue.log_source = Some(LogSource::Previous);
        }
        status
    }

    #[test]
    fn takes_a_fraction_of_the_status() {
        let status = large(1);
        let size = serde_json::to_vec(&status).unwrap().len();
        assert!(size > 100_000, "{size}");
        let mut known = KnownStatus::new(status, false);
        assert!((1_000..size / 3).contains(&known.bytes()), "{} of {size}", known.bytes());
        known.resumed();
        assert!(known.bytes() < 50 * 300, "{}", known.bytes());
        assert!(known.head().problematic_pods.is_empty() && known.head().incidents.is_empty());
    }

    #[test]
    fn is_bounded_whatever_another_writer_puts_into_the_status() {
        let mut status = large(1);
        status.problematic_pods = (0..50).flat_map(|_| status.problematic_pods.clone()).collect();
        status.incidents = (0..50).flat_map(|_| status.incidents.clone()).collect();
        status.incidents[0].message = "x".repeat(1 << 20);
        let known = KnownStatus::new(status, false);
        assert!(known.bytes() < PODS_LIMIT + 2 * fit::STORED_INCIDENT_BYTES + 1024, "{}", known.bytes());
    }

    #[test]
    fn compares_as_the_whole_status_does() {
        let old = large(1);
        let known = KnownStatus::new(old.clone(), true);
        assert_eq!(known.differs(&old, false), Change::None);
        type Edit = fn(&mut OrchestrStatus);
        let edits: [Edit; 8] = [
            |status| status.problematic_pods[49].container_issues[0].logs.push('x'),
            |status| status.problematic_pods.truncate(49),
            |status| status.incidents[0].pods += 1,
            |status| {
                status.common_causes = vec![
                    serde_json::from_str(
                        r#"{"kind":"Node","name":"a","owners":3,"pods":3,"since":"2026-11-01T10:00:00Z","message":""}"#,
                    )
                    .unwrap(),
                ];
            },
            |status| status.problematic_pod_count += 1,
            |status| status.conditions[0].message.push('x'),
            |status| status.watched_pods += 1,
            |status| status.webhooks.push(WebhookStatus { name: "ops".to_owned(), ..WebhookStatus::default() }.into()),
        ];
        for (index, edit) in edits.into_iter().enumerate() {
            let mut new = old.clone();
            edit(&mut new);
            assert_eq!(known.differs(&new, false), differs(Some(&old), &new), "edit {index}");
            assert!(!known.is_same(&KnownStatus::new(new, true)), "edit {index}");
        }
        let without = OrchestrStatus { problematic_pods: Vec::new(), ..old.clone() };
        assert_eq!(known.differs(&without, true), Change::None, "the lists in the API stay");
        let mut quoting = old.clone();
        quoting.incidents[0].log_line = "panic: no such table: orders".to_owned();
        for (old, new) in [(&old, &quoting), (&quoting, &old)] {
            let known = KnownStatus::new(old.clone(), true);
            assert_eq!((known.differs(new, false), differs(Some(old), new)), (Change::None, Change::None));
        }
        assert!(known.is_same(&KnownStatus::new(old, false)));
    }

    #[test]
    fn the_end_of_an_incident_is_found_with_what_its_event_names() {
        let old = large(1);
        let known = KnownStatus::new(old.clone(), true).with_lists();
        let new = Scenario::default().status(Some(&old));
        let none = OmittedIncidents::default();
        let found = transitions(Some(&known), &new, &none);
        let expected = transitions(Some(&old), &new, &none);
        assert_eq!((found.ended.len(), found.began.len()), (expected.ended.len(), 0));
        for (found, expected) in found.ended.iter().zip(expected.ended) {
            let named = |own: &Incident| {
                let Incident { key, namespace, owner, container, kind, reason, since, .. } = own.clone();
                (key, namespace, owner, container, kind, reason, since)
            };
            assert_eq!(named(found), named(expected));
        }
        assert_eq!(transitions(Some(&known), &old, &none), transitions(Some(&old), &old, &none));
    }

    #[test]
    fn keeps_what_the_tracker_resumes_from() {
        let status = large(1);
        let known = KnownStatus::new(status.clone(), false).with_lists();
        assert_eq!(known.incidents, status.incidents);
        assert_eq!((known.observed_generation, known.conditions), (status.observed_generation, status.conditions));
        let resumed = |pods: &[PodProblem]| -> Vec<_> {
            let exits = |pod: &PodProblem| -> Vec<_> {
                let last = |own: &crate::api::ContainerIssue| own.last_termination.as_ref().map(|last| last.exit_code);
                pod.container_issues.iter().map(|own| (own.name.clone(), last(own))).collect()
            };
            let identity = |pod: &PodProblem| (pod.namespace.clone(), pod.name.clone(), pod.owner.clone());
            pods.iter()
                .map(|pod| (identity(pod), pod.kind, pod.reason.clone(), pod.cause, pod.since.clone(), exits(pod)))
                .collect()
        };
        assert_eq!(resumed(&known.problematic_pods), resumed(&status.problematic_pods));
        assert_eq!(known.problematic_pods.len(), 50);
    }
}
