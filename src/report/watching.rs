//! Builds the status of an object whose pods are watched, and the incidents for its alerts.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    api::{self, CommonCause, OrchestrStatus, PodProblem, condition, reason},
    logs::Masking,
};

use super::{
    alert_incidents,
    change::OmittedIncidents,
    common_causes,
    conditions::{self, Conditions},
    fair, fit,
    incidents::{self, FindOwnership, Group, Workload},
    input::{Input, Report},
    json_size,
    problem::{self, FindTail, PodFinding, Problem},
    quote, summary,
    tracker::Tracker,
    truncate,
    wire::{count, wire_time},
};

/// Builds the report on an object whose pods are watched.
#[must_use]
pub fn watching<'a>(input: &Input<'a>, find_tail: FindTail<'_>) -> Report<'a> {
    let problems = problem::ordered(&input.findings, input.masking);
    let lookup = incidents::Lookup { workload: input.find_workload, ownership: input.find_ownership };
    let mut incidents = incidents::ordered(&problems, input.missing, input.tracker, lookup);
    let common = common_causes::find(&problems, input.missing, input.pods_on_node);

    let conditions = Conditions { generation: input.generation, previous: input.previous, now: input.now };
    let watching = summary::watching(input.watched_pods, input.unreadable.as_ref(), &input.warnings);
    let ready = match &input.wrong {
        None => conditions.condition(condition::READY, "True", reason::WATCHING, &watching),
        Some(wrong) => {
            conditions.condition(condition::READY, "False", reason::INVALID_SPEC, &format!("{wrong}: {watching}"))
        }
    };
    let reasons = summary::Reasons::of(&problems, input.missing);
    let is_unhealthy = !problems.is_empty() || !input.missing.is_empty();
    let message = is_unhealthy.then(|| summary::unhealthy(&reasons, problems.len(), input.watched_pods));
    let health = conditions::pods_healthy(conditions::Evidence {
        problems: message.as_deref(),
        watched: input.watched_pods,
        unreadable: input.unreadable.as_ref(),
        unread_jobs: input.unread_jobs,
        outside: input.outside.as_deref(),
        denied: input.denied.as_deref(),
    });
    let healthy = conditions.condition(condition::PODS_HEALTHY, health.status, health.reason, &health.message);

    let listed_causes = common.listed().map(|own| own.in_status(input.masking));
    let mut status = OrchestrStatus {
        observed_generation: Some(input.generation),
        last_check_time: Some(wire_time(input.now)),
        conditions: vec![ready, healthy],
        watched_pods: count(input.watched_pods),
        problematic_pod_count: count(problems.len()),
        missing_pods: count(input.missing.iter().map(|own| own.missing).fold(0, u64::saturating_add)),
        ignored_pods: count(input.ignored_pods),
        top_reason: truncate::with_ellipsis(reasons.top(), summary::REASON_LIMIT).into_owned(),
        top_cause: summary::top_cause(&problems, input.missing),
        common_causes: fit::prefix(listed_causes, fit::COMMON_CAUSE_BYTES),
        // Nothing is listed yet, so the size includes the most digits that this count may have.
        omitted_pods: count(problems.len()),
        ..OrchestrStatus::default()
    };
    let reserved = |group: &Group<'_>| if input.logs && group.may_quote() { quote::ROOM } else { 0 };
    let (listed, omitted) = list(&incidents, reserved, input.masking);
    status.omitted_incidents = count(incidents.len() - listed.len());
    let mut reserve = 0;
    for (group, mut incident) in listed {
        if input.logs {
            incident.log_line = group.log_line(find_tail);
        }
        reserve += reserved(group).saturating_sub(quote::size(&incident.log_line));
        status.incidents.push(incident);
    }

    let budget = fit::budget(input.has_webhooks).saturating_sub(json_size::size(&status));
    let chosen = fair::pick(&problems, &incidents, input.max_pods);
    let (rows, listed) = fit::pods(&chosen, input.logs, find_tail, fit::Budget { bytes: budget, reserve });
    status.omitted_pods = count(problems.len() - rows.len());
    let shown = rows.iter().zip(listed).flat_map(|(row, problem)| {
        let Problem { pod, finding, .. } = *problem;
        finding.containers.iter().take(row.container_issues.len()).map(move |container| (pod, container))
    });
    let shown = shown.collect();
    status.problematic_pods = rows;

    if input.has_webhooks {
        alert_incidents::add_texts(&mut incidents, input, find_tail);
        let causes = common.in_alerts(input.masking);
        for Group { incident, identity, .. } in &mut incidents {
            incident.common_cause = common.of(identity).and_then(|index| causes.get(index)).map(Arc::clone);
        }
    }
    let incidents = incidents.into_iter().map(|group| group.incident).collect();
    Report { status, omitted, incidents, shown, problems }
}

/// The incidents that the status lists, and those for which it has no room. `reserved` is what a quotation may take besides.
fn list<'g, 'a>(
    incidents: &'g [Group<'a>],
    reserved: impl Fn(&Group<'a>) -> usize,
    masking: Option<&Masking<'_>>,
) -> (Vec<(&'g Group<'a>, api::Incident)>, OmittedIncidents) {
    let namespaces: Vec<&str> = incidents.iter().map(|own| own.identity.namespace).collect();
    let room = fair::Room { items: fit::MAX_INCIDENTS, bytes: fit::INCIDENT_BYTES };
    let mut measured = BTreeMap::new();
    let chosen = fair::take_turns(&namespaces, room, |index| {
        let Some(group) = incidents.get(index) else { return 0 };
        let incident = group.in_status(masking);
        let size = fit::listed(&incident).saturating_add(reserved(group));
        measured.insert(index, incident);
        size
    });
    let others = incidents.iter().enumerate().filter(|(index, _)| chosen.binary_search(index).is_err());
    let omitted = OmittedIncidents::new(others.map(|(_, own)| own.incident.key.as_str()));
    let listed = chosen.iter().filter_map(|index| Some((incidents.get(*index)?, measured.remove(index)?)));
    (listed.collect(), omitted)
}

/// All incidents and rows for these pods, in the order of the status, with nothing left out. It keeps no state, so it
/// is for single checks such as `orchestr scan`, and says which problems may have begun earlier than the pods show.
pub(crate) fn in_full(
    findings: &[PodFinding<'_>],
    ownership: FindOwnership<'_>,
    find_tail: FindTail<'_>,
) -> (Vec<api::Incident>, Vec<PodProblem>) {
    let tracker = Tracker::default();
    let problems = problem::ordered(findings, None);
    let lookup = incidents::Lookup { workload: &|_, _| Workload::default(), ownership };
    let incidents = incidents::ordered(&problems, &[], &tracker, lookup);
    // Nobody has counted the owners' pods, so only an annotation says how severe a problem is.
    let listed = incidents.iter().map(|own| api::Incident {
        severity: own.annotated_severity,
        since_at_latest: own.since_at_latest,
        log_line: own.log_line(find_tail),
        ..own.in_status(None)
    });
    let row = |problem: &Problem<'_>| {
        let mut row = problem.show(&problem::Detail::FULL);
        row.since_at_latest = problem.finding.since_at_latest;
        for (issue, container) in row.container_issues.iter_mut().zip(&problem.finding.containers) {
            if let Some(tail) = find_tail(problem.pod, container) {
                issue.logs = tail.text.to_string();
                issue.log_source = Some(tail.source);
                issue.log_note = tail.note;
            }
        }
        row
    };
    (listed.collect(), problems.iter().map(row).collect())
}

/// What the message of PodsHealthy and `commonCauses` say about these pods, of which there is at least one. Like [`in_full`],
/// it is for single checks.
pub(crate) fn overview(
    findings: &[PodFinding<'_>],
    watched_pods: u64,
    pods_on_node: &dyn Fn(&str) -> u64,
) -> (String, Vec<CommonCause>) {
    let problems = problem::ordered(findings, None);
    let message = summary::unhealthy(&summary::Reasons::of(&problems, &[]), problems.len(), watched_pods);
    let common = common_causes::find(&problems, &[], pods_on_node);
    let listed = common.listed().map(|own| CommonCause { since_at_latest: own.since_at_latest, ..own.in_status(None) });
    (message, listed.collect())
}
