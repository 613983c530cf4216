//! A status, or the incidents and pods of it that are selected, as all formats show it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    api::{Incident, NamespacedName, OrchestrStatus, PodProblem, condition, reason},
    render::{
        Timeline,
        document::{Extent, Section, StatusPart, Verdict, headline, no_problems, reasons},
        numbers::counted,
        stopped_at,
    },
};

/// The fewest digits of an incident's key that select it.
const KEY_DIGITS: usize = 4;

/// The status of an object, from the cluster or a file.
pub(super) struct ReadStatus {
    pub(super) status: OrchestrStatus,
    /// `metadata.generation`.
    pub(super) generation: Option<i64>,
    /// The time of the API server; of a file, the time of the last check.
    pub(super) now: Timestamp,
}

/// Keeps what `wanted` names: a pod, the owner of pods (each with or without its namespace), or the key of an incident or its
/// beginning. The incidents of a pod are kept with it, as the pods of an incident are. Returns whether anything is left.
pub(super) fn select(section: &mut Section, wanted: &str) -> bool {
    let Section { incidents, pods, .. } = section;
    let is_wanted_pod = |pod: &PodProblem| names(wanted, &pod.namespace, &pod.name);
    if pods.iter().any(is_wanted_pod) {
        pods.retain(is_wanted_pod);
        incidents.retain(|incident| pods.iter().any(|pod| belongs(pod, incident)));
    } else {
        incidents.retain(|incident| {
            let has_key = wanted.len() >= KEY_DIGITS && incident.key.starts_with(wanted);
            has_key
                || names(wanted, &incident.namespace, &incident.owner.name)
                // A pod that the list of pods omits.
                || incident.example_pods.iter().any(|pod| names(wanted, &incident.namespace, pod))
        });
        pods.retain(|pod| incidents.iter().any(|incident| belongs(pod, incident)));
    }
    let is_any = !(incidents.is_empty() && pods.is_empty());
    section.problematic_pod_count = pods.len();
    section.common_causes.clear();
    let statement = std::mem::take(&mut section.status.statement);
    section.status = StatusPart { statement, extent: Extent::Selected, ..StatusPart::default() };
    is_any
}

/// Whether `wanted` is this name, or the namespace and the name.
fn names(wanted: &str, namespace: &str, name: &str) -> bool {
    match wanted.split_once('/') {
        Some((wanted_namespace, wanted)) => wanted_namespace == namespace && wanted == name,
        None => wanted == name,
    }
}

/// Whether a pod is one of an incident. A pod without an owner is its own owner.
fn belongs(pod: &PodProblem, incident: &Incident) -> bool {
    let is_owner = match &pod.owner {
        Some(owner) => *owner == incident.owner,
        None => incident.owner.name == pod.name,
    };
    let has_container = || pod.container_issues.iter().any(|issue| issue.name == incident.container);
    is_owner
        && pod.namespace == incident.namespace
        && pod.kind == incident.kind
        && (incident.container.is_empty() || pod.container_issues.is_empty() || has_container())
}

/// Why nothing was selected. A name that is not in the status is not healthy for that reason: it may be misspelt.
pub(super) fn not_found(object: &NamespacedName, status: &OrchestrStatus, wanted: &str) -> String {
    let NamespacedName { namespace, name } = object;
    let omitted = match status.omitted_pods {
        ..=0 => String::new(),
        omitted => format!(", but omits {} with problems", counted(omitted, "pod")),
    };
    format!("the status of {namespace}/{name} names no pod, owner or incident {wanted:?}{omitted}")
}

/// The status of an object.
pub(super) fn of(object: &NamespacedName, read: &ReadStatus) -> Section {
    let ReadStatus { status, generation, now } = read;
    let healthy = status.conditions.iter().find(|condition| condition.type_ == condition::PODS_HEALTHY);
    let (reason, message) = healthy.map_or(("", ""), |condition| (&condition.reason, &condition.message));
    let unknown = "It is unknown whether the pods are healthy";
    let (verdict, headline) = match verdict(status) {
        Verdict::Unhealthy if status.problematic_pod_count == 0 => (Verdict::Unhealthy, "Pods are missing".to_owned()),
        Verdict::Unhealthy => (Verdict::Unhealthy, headline(status.problematic_pod_count, status.watched_pods)),
        Verdict::Healthy => (Verdict::Healthy, no_problems(status.watched_pods)),
        Verdict::Unknown => (Verdict::Unknown, unknown.to_owned()),
    };
    // If the object was always watched and had no incident, there is nothing to draw.
    let has_history = !(status.history.is_empty() && status.unwatched.is_empty());
    let listed = status.problematic_pods.len();
    Section {
        verdict,
        headline,
        summary: if verdict == Verdict::Healthy { String::new() } else { reasons(message).to_owned() },
        problematic_pod_count: usize::try_from(status.problematic_pod_count).unwrap_or(0).max(listed),
        incidents: status.incidents.to_vec(),
        pods: status.problematic_pods.to_vec(),
        not_seen: notes(status, *generation, *now),
        common_causes: status.common_causes.clone(),
        status: StatusPart {
            statement: match (verdict, healthy) {
                (Verdict::Unknown, Some(_)) => format!("{unknown} ({reason}): {message}"),
                (Verdict::Unknown, None) => format!("{unknown}."),
                _ => message.to_owned(),
            },
            extent: Extent::All,
            omitted_incidents: status.omitted_incidents,
            omitted_pods: status.omitted_pods,
            history: has_history.then(|| Timeline::of(object, status, None, *now)),
        },
        subject: format!("{}/{}", object.namespace, object.name),
        as_of: status.last_check_time.as_ref().map(|time| time.0),
        now: *now,
        ..Section::default()
    }
}

/// Only the history of an object. It is green only if no incident can be missing that lasts now.
pub(super) fn of_history(object: &NamespacedName, status: &OrchestrStatus, timeline: Timeline) -> Section {
    let mut headline = timeline.headline();
    if let Some(first) = headline.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let verdict = match verdict(status) {
        Verdict::Healthy if !timeline.is_known_until_now() => Verdict::Unknown,
        verdict => verdict,
    };
    Section {
        verdict,
        headline,
        subject: format!("{}/{}", object.namespace, object.name),
        as_of: Some(timeline.until),
        now: timeline.until,
        status: StatusPart { extent: Extent::History, history: Some(timeline), ..StatusPart::default() },
        ..Section::default()
    }
}

/// Whether the status says that the pods are healthy.
fn verdict(status: &OrchestrStatus) -> Verdict {
    let healthy = status.conditions.iter().find(|condition| condition.type_ == condition::PODS_HEALTHY);
    match healthy.map(|condition| condition.status.as_str()) {
        Some("True") => Verdict::Healthy,
        Some("False") => Verdict::Unhealthy,
        _ => Verdict::Unknown,
    }
}

/// Ignored pods, every condition that limits what the status can report, and whether it is old; a sentence each.
fn notes(status: &OrchestrStatus, generation: Option<i64>, now: Timestamp) -> Vec<String> {
    let mut notes = Vec::new();
    match status.ignored_pods {
        ..=0 => {}
        ignored => notes.push(format!("{} with ignored problems.", counted(ignored, "pod"))),
    }
    for Condition { type_, status, reason, message, .. } in &status.conditions {
        match (type_.as_str(), status.as_str()) {
            (condition::PODS_HEALTHY | condition::STALLED, _) => {}
            // Warnings follow the number of pods, such as permissions that are missing.
            (condition::READY, "True") => {
                notes.extend(message.split_once("; ").map(|(_, warnings)| warnings.to_owned()));
            }
            (condition::ALERTS_DELIVERED, "True") => {}
            (condition::ALERTS_DELIVERED, _) if reason == reason::NOTHING_SENT => {}
            _ => notes.push(format!("{type_}={status} ({reason}): {message}")),
        }
    }
    if stopped_at(status, now).is_some() {
        notes.push("The status is old: the operator updates it every few minutes while it runs.".to_owned());
    }
    if generation.is_some() && status.observed_generation.is_some() && generation != status.observed_generation {
        notes.push("The spec was changed since: the status is that of an older spec.".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests;
