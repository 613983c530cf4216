//! From findings to the object's status. Pure: the same input always gives the same bytes.
//!
//! [`watching`] and [`idle`] make a whole status, except for what other field managers write into it
//! (`webhooks` and the condition AlertsDelivered): server-side apply leaves theirs alone. [`differs`]
//! tells whether a status is worth a write, and [`transitions`] what began and ended between two.

mod alert_incidents;
mod change;
mod conditions;
mod fair;
mod fit;
mod health;
mod incidents;
mod json;
mod not_watching;
mod problem;
mod text;
mod tracker;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub use alert_incidents::alert_incidents;
pub use change::{Change, Transitions, differs, is_own, transitions};
pub use not_watching::{NotWatching, not_watching};
pub use tracker::{Surroundings, Tracker};

use crate::{
    api::{Incident, OrchestrStatus, PodProblem, condition, reason},
    diagnosis::{ContainerFinding, Finding},
    logs::{LogPolicy, Tail},
    pods::Pod,
};
use conditions::Conditions;

/// The longest message of a condition, in bytes.
pub const CONDITION_MESSAGE_LIMIT: usize = 1024;

/// A pod with what is wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct Troubled<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What is wrong with it.
    pub finding: &'a Finding,
}

/// What an object's status is made of.
pub struct Input<'a> {
    /// The generation of the spec.
    pub generation: i64,
    /// `spec.report.maxPods`.
    pub max_pods: usize,
    /// How many pods the object selects.
    pub watched_pods: u64,
    /// Those of them with a problem, in any order.
    pub troubled: Vec<Troubled<'a>>,
    /// How many pods could not be decoded, and one of them.
    pub unreadable: Option<(u64, String)>,
    /// Why selected namespaces are not watched, if there are any.
    pub outside: Option<String>,
    /// Whether logs are shown: then room is kept for those that have yet to be read.
    pub logs: bool,
    /// What was read of a container's log: absent while it wasn't looked for.
    pub tail: &'a dyn Fn(&Pod, &ContainerFinding) -> Option<Tail>,
    /// What is masked in messages, which may quote what a container said; credentials where absent.
    pub masking: Option<&'a LogPolicy>,
    /// What is remembered of earlier reconciles; it has been updated with `troubled`.
    pub tracker: &'a Tracker,
    /// How many pods have a problem that is not reported.
    pub ignored_pods: u64,
    /// What the status should warn of, such as a right that is missing, in words.
    pub warnings: Vec<String>,
    /// Whether the status has further writers' parts: those of webhooks.
    pub has_webhooks: bool,
    /// The status as it stands in the API: transition times are kept from it.
    pub previous: Option<&'a OrchestrStatus>,
    /// The time.
    pub now: Timestamp,
}

/// The status of an object whose pods are watched.
///
#[must_use]
pub fn watching(input: &Input<'_>) -> OrchestrStatus {
    let problems = problem::ordered(input);
    let incidents = incidents::ordered(&problems, input.tracker);

    let conditions = Conditions { generation: input.generation, previous: input.previous, now: input.now };
    let ready = text::watching(input.watched_pods, input.unreadable.as_ref(), &input.warnings);
    let reasons = text::Reasons::of(&problems);
    let message = (!problems.is_empty()).then(|| text::unhealthy(&reasons, problems.len(), input.watched_pods));
    let health = health::pods_healthy(health::Seen {
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
        top_reason: text::shortened(reasons.top(), text::REASON_LIMIT).into_owned(),
        // Before anything is listed, all is left out: so the digits of both counts are in the size.
        omitted_pods: count(problems.len()),
        omitted_incidents: count(incidents.len()),
        ..OrchestrStatus::default()
    };
    let listed = incidents.iter().take(fit::MAX_INCIDENTS).map(incidents::Group::incident);
    status.incidents = fit::prefix(listed, fit::INCIDENT_BYTES);
    status.omitted_incidents = count(incidents.len() - status.incidents.len());

    let budget = fit::budget(input.has_webhooks).saturating_sub(json::size(&status));
    status.problematic_pods = fit::pods(&fair::pick(&problems, &incidents, input.max_pods), input, budget);
    status.omitted_pods = count(problems.len() - status.problematic_pods.len());
    status
}

/// Everything a status would tell of these pods, in its order, with nothing left out to fit: for whom
/// asks once and keeps nothing.
#[must_use]
pub fn in_full(troubled: Vec<Troubled<'_>>, now: Timestamp) -> (Vec<Incident>, Vec<PodProblem>) {
    let tracker = Tracker::default();
    let input = Input {
        generation: 0,
        max_pods: troubled.len(),
        watched_pods: 0,
        troubled,
        unreadable: None,
        outside: None,
        logs: false,
        tail: &|_, _| None,
        masking: None,
        tracker: &tracker,
        ignored_pods: 0,
        warnings: Vec::new(),
        has_webhooks: false,
        previous: None,
        now,
    };
    let problems = problem::ordered(&input);
    let incidents = incidents::ordered(&problems, &tracker);
    (
        incidents.iter().map(incidents::Group::incident).collect(),
        problems.iter().map(|problem| problem.show(&problem::Detail::FULL)).collect(),
    )
}

/// A count as the API has it.
fn count(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// A time as the API writes it: in whole seconds. What lies before 1970 is no time that a cluster means,
/// and would not be read back.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second().max(0)).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn wire_time(time: Timestamp) -> Time {
    Time(seconds(time))
}

#[cfg(test)]
mod tests;
