//! A status as a page.

use jiff::Timestamp;

use crate::{
    api::{NamespacedName, OrchestrStatus, condition},
    cli::{
        html::{Report, Verdict, headline, no_problems, reasons, render},
        timeline::Timeline,
    },
    version::version_and_revision,
};

use super::{
    notes::notes,
    selection::Selection,
    text::{Health, find, health},
};

/// Renders the selected parts of the status.
pub(super) fn page(
    object: &NamespacedName,
    status: &OrchestrStatus,
    generation: Option<i64>,
    selection: &Selection<'_>,
    now: Timestamp,
) -> String {
    let NamespacedName { namespace, name } = object;
    let message = find(status, condition::PODS_HEALTHY).map_or("", |condition| condition.message.as_str());
    let (verdict, headline) = match health(status) {
        Health::Healthy => (Verdict::Healthy, no_problems(status.watched_pods)),
        Health::Unhealthy if status.problematic_pod_count == 0 => (Verdict::Unhealthy, "Pods are missing".to_owned()),
        Health::Unhealthy => (Verdict::Unhealthy, headline(status.problematic_pod_count, status.watched_pods)),
        Health::Unknown => (Verdict::Unknown, "It is unknown whether the pods are healthy".to_owned()),
    };
    let mut not_seen = notes(status, generation, now);
    if !selection.is_everything {
        not_seen.insert(0, "Other pods and incidents were not selected.".to_owned());
    } else if status.omitted_incidents > 0 {
        not_seen.push(format!("The status omits {} incidents.", status.omitted_incidents));
    }
    let listed = selection.pods.len();
    let timeline = Timeline::of(status, None, now);
    // Of an object that has always been watched and had no incident, there is nothing to draw.
    let has_history = !(status.history.is_empty() && status.unwatched.is_empty());
    render(&Report {
        context: None,
        verdict,
        headline: &headline,
        summary: if verdict == Verdict::Healthy { "" } else { reasons(message) },
        subject: &format!("{namespace}/{name}"),
        as_of: status.last_check_time.as_ref().map(|time| time.0),
        not_seen,
        common_causes: if selection.is_everything { &status.common_causes } else { &[] },
        incidents: selection.incidents.clone(),
        pods: selection.pods.clone(),
        problematic_pods: match usize::try_from(status.problematic_pod_count) {
            Ok(all) if selection.is_everything => all.max(listed),
            _ => listed,
        },
        history: (selection.is_everything && has_history).then_some(&timeline),
        version: version_and_revision(),
    })
}
