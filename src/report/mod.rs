//! Builds an object's status, and the incidents for its alerts, from the findings about its pods. Pure: the same input
//! always gives the same bytes.
//!
//! [`watching`] and [`not_watching()`] build a whole status without the fields that belong to the alerts' writer.
//! [`differs`] decides whether a status needs to be written, and [`transitions`] lists the incidents that began and
//! ended between two statuses.

mod alert_incidents;
mod change;
mod conditions;
mod fair;
mod fit;
mod health;
mod identity;
mod incidents;
mod json_size;
mod not_watching;
mod problem;
mod summary;
mod tracker;
mod truncate;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub use change::{Change, Transitions, differs, transitions};
pub use tracker::{Tracker, UpdateContext};

pub(crate) use change::is_own;
pub(crate) use not_watching::{NotWatching, not_watching};

use crate::{
    alerts,
    api::{Incident, OrchestrStatus, PodProblem, condition, reason},
    diagnosis::{ContainerFinding, Finding},
    logs::{LogPolicy, Tail},
    pods::Pod,
};
use conditions::Conditions;
use problem::Problem;

/// The longest message of a condition, in bytes.
const CONDITION_MESSAGE_LIMIT: usize = 1024;

/// A pod with a problem.
#[derive(Clone, Copy, Debug)]
pub struct Troubled<'a> {
    pub pod: &'a Pod,
    pub finding: &'a Finding,
}

/// Looks up a container's log; absent until it was read.
pub type FindTail<'a> = &'a dyn Fn(&Pod, &ContainerFinding) -> Option<Tail>;

/// The inputs of [`watching`].
pub struct Input<'a> {
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.report.maxPods`.
    pub max_pods: usize,
    /// How many pods the object selects.
    pub watched_pods: u64,
    /// The pods with a problem, in any order.
    pub troubled: Vec<Troubled<'a>>,
    /// How many pods could not be decoded, and one of them.
    pub unreadable: Option<(u64, String)>,
    /// Which selected namespaces are not watched and why, if any.
    pub outside: Option<String>,
    /// Whether logs are shown: then room is reserved for logs that are still to be read.
    pub logs: bool,
    /// What to mask in messages, which may quote a container's output; absent for the default policy.
    pub masking: Option<&'a LogPolicy>,
    /// The memory of earlier reconciles, already updated with `troubled`.
    pub tracker: &'a Tracker,
    /// How many pods have a problem that the spec or an annotation excludes.
    pub ignored_pods: u64,
    /// Sentences added to Ready's message, for instance about a missing right.
    pub warnings: Vec<String>,
    /// Whether the object has webhooks: then room is reserved for their state, and incidents are returned for alerts.
    pub has_webhooks: bool,
    /// The status in the API. Transition times are kept from it.
    pub previous: Option<&'a OrchestrStatus>,
    pub now: Timestamp,
}

/// The outcome of one reconcile of an object whose pods are watched.
pub struct Report<'a> {
    pub status: OrchestrStatus,
    /// All incidents, for alerts; empty without webhooks. Unlike the status' list it is never cut.
    pub incidents: Vec<alerts::Incident>,
    /// The containers that the status lists, each with its pod. The status shows their logs.
    pub shown: Vec<(&'a Pod, &'a ContainerFinding)>,
}

/// Builds the report on an object whose pods are watched.
#[must_use]
pub fn watching<'a>(input: &Input<'a>, find_tail: FindTail<'_>) -> Report<'a> {
    let problems = problem::ordered(&input.troubled, input.masking);
    let incidents = incidents::ordered(&problems, input.tracker);

    let conditions = Conditions { generation: input.generation, previous: input.previous, now: input.now };
    let ready = summary::watching(input.watched_pods, input.unreadable.as_ref(), &input.warnings);
    let reasons = summary::Reasons::of(&problems);
    let message = (!problems.is_empty()).then(|| summary::unhealthy(&reasons, problems.len(), input.watched_pods));
    let health = health::pods_healthy(health::Evidence {
        problems: message.as_deref(),
        watched: input.watched_pods,
        unreadable: input.unreadable.as_ref(),
        outside: input.outside.as_deref(),
    });
    let healthy = conditions.condition(condition::PODS_HEALTHY, health.status, health.reason, &health.message);

    let mut status = OrchestrStatus {
        observed_generation: Some(input.generation),
        last_check_time: Some(wire_time(input.now)),
        conditions: vec![conditions.is_true(condition::READY, reason::WATCHING, &ready), healthy],
        watched_pods: count(input.watched_pods),
        problematic_pod_count: count(problems.len()),
        ignored_pods: count(input.ignored_pods),
        top_reason: truncate::with_ellipsis(reasons.top(), summary::REASON_LIMIT).into_owned(),
        // Nothing is listed yet, so the size includes the most digits that these counts may have.
        omitted_pods: count(problems.len()),
        omitted_incidents: count(incidents.len()),
        ..OrchestrStatus::default()
    };
    let listed = incidents.iter().take(fit::MAX_INCIDENTS).map(incidents::Group::incident);
    status.incidents = fit::prefix(listed, fit::INCIDENT_BYTES);
    status.omitted_incidents = count(incidents.len() - status.incidents.len());

    let budget = fit::budget(input.has_webhooks).saturating_sub(json_size::size(&status));
    let (rows, listed) = fit::pods(&fair::pick(&problems, &incidents, input.max_pods), input.logs, find_tail, budget);
    status.omitted_pods = count(problems.len() - rows.len());
    let shown = rows.iter().zip(listed).flat_map(|(row, problem)| {
        let Problem { pod, finding, .. } = *problem;
        finding.containers.iter().take(row.container_issues.len()).map(move |container| (pod, container))
    });
    let shown = shown.collect();
    status.problematic_pods = rows;

    let alerted = if input.has_webhooks { incidents.as_slice() } else { &[] };
    let incidents =
        alerted.iter().map(|group| alert_incidents::alert_incident(group, input.masking, find_tail)).collect();
    Report { status, incidents, shown }
}

/// All incidents and rows for these pods, in the order of the status, with nothing left out. Remembers nothing: for a
/// single look such as `orchestr scan`.
pub(crate) fn in_full(troubled: &[Troubled<'_>]) -> (Vec<Incident>, Vec<PodProblem>) {
    let tracker = Tracker::default();
    let problems = problem::ordered(troubled, None);
    let incidents = incidents::ordered(&problems, &tracker);
    (
        incidents.iter().map(incidents::Group::incident).collect(),
        problems.iter().map(|problem| problem.show(&problem::Detail::FULL)).collect(),
    )
}

fn count(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// A time in whole seconds, as the API stores it. Times before 1970 are never meant, and would not be read back.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second().max(0)).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn wire_time(time: Timestamp) -> Time {
    Time(seconds(time))
}

#[cfg(test)]
mod tests;
