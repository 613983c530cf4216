//! Replaces incidents that have a common cause by one incident about this cause, for one webhook.
//!
//! A receiver is sent one alert about the common cause, which names its members. An incident that the receiver was
//! already sent keeps its own alert until it ends. If the common cause is over, its members stay silent until its alert
//! is resolved, because most of them are about to end as well. Those that remain are then sent one by one.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    incident::{Incident, IncidentMemory, Member},
    plan_input::PlanInput,
    policy::NotificationPolicy,
    times::{duration_between, has_elapsed},
    webhook_state::MAX_MEMBERS,
};
use crate::api::{AlertPhase, AlertStatus, Cause, Owner, WebhookStatus};

/// How many members an alert about a common cause needs.
const MEMBERS: usize = 2;

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

/// The incidents that match a webhook.
pub(super) struct Grouped<'a> {
    /// Those that are sent one by one.
    single: Vec<&'a Incident>,
    /// One for each common cause, in place of its members.
    common: Vec<Incident>,
    /// How many incidents stay silent until the alert about their common cause is resolved.
    pub held: usize,
}

impl<'a> Grouped<'a> {
    /// Groups the incidents that match the webhook.
    pub fn new(previous: &WebhookStatus, input: &PlanInput<'a>) -> Self {
        let active: Vec<&AlertStatus> =
            previous.alerts.iter().filter(|alert| alert.phase != AlertPhase::Resolved).collect();
        let matching = matching(&active, input);
        let sent: HashSet<&str> =
            active.iter().filter(|alert| alert.members.is_empty()).map(|alert| alert.key.as_str()).collect();

        let mut members: BTreeMap<&str, Vec<&'a Incident>> = BTreeMap::new();
        for incident in matching.iter().copied().filter(|incident| !sent.contains(incident.key.as_str())) {
            if let Some(common) = &incident.common_cause {
                members.entry(&common.key).or_default().push(incident);
            }
        }
        members.retain(|_, members| members.len() >= MEMBERS);

        // The alerts about common causes that are over, but not yet resolved.
        let ending: Vec<&AlertStatus> = active
            .iter()
            .copied()
            .filter(|alert| !alert.members.is_empty() && alert.phase != AlertPhase::Resolving)
            .filter(|alert| !members.contains_key(alert.key.as_str()))
            .filter(|alert| {
                let keep_firing_for = input.policy.keep_firing_for(alert.returns);
                !has_elapsed(alert.gone_since.as_ref(), keep_firing_for, input.now)
            })
            .collect();
        // The status stores only some of many members. Memory has the others until a restart.
        let was_member = |incident: &Incident, alert: &AlertStatus| {
            alert.members.contains(&incident.key)
                || alert.members.len() >= MAX_MEMBERS
                    && input.memory.common_cause(&incident.key) == Some(alert.key.as_str())
        };
        let is_held = |incident: &Incident| {
            !sent.contains(incident.key.as_str()) && ending.iter().any(|alert| was_member(incident, alert))
        };
        let is_member = |incident: &Incident| {
            let common = incident.common_cause.as_ref().filter(|_| !sent.contains(incident.key.as_str()));
            common.is_some_and(|common| members.contains_key(common.key.as_str()))
        };
        let mut single = matching;
        single.retain(|incident| !is_member(incident));
        let all = single.len();
        single.retain(|incident| !is_held(incident));
        let held = all - single.len();
        let common = members.into_values().filter_map(|members| combine(&members)).collect();
        Self { single, common, held }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Incident> {
        self.single.iter().copied().chain(&self.common)
    }
}

fn matching<'a>(active: &[&AlertStatus], input: &PlanInput<'a>) -> Vec<&'a Incident> {
    let sent: std::collections::HashMap<&str, &str> =
        active.iter().map(|alert| (alert.key.as_str(), alert.reason.as_str())).collect();
    let (policy, memory): (&NotificationPolicy, &IncidentMemory) = (input.policy, input.memory);
    let matches = |incident: &&Incident| {
        let mut earlier = memory.reasons(&incident.key).to_vec();
        earlier.extend(sent.get(incident.key.as_str()).map(|reason| (*reason).to_owned()));
        policy.matches(incident, &earlier)
    };
    input.incidents.iter().filter(matches).collect()
}

/// An incident about the common cause of these incidents. It is due as soon as the first of them is.
fn combine(members: &[&Incident]) -> Option<Incident> {
    let common: &Arc<CommonCause> = members.first()?.common_cause.as_ref()?;
    let since = members.iter().map(|member| member.since).min()?;
    let problem_at =
        |member: &&Incident| -> Timestamp { member.since.saturating_add(member.tolerated).unwrap_or(Timestamp::MAX) };
    let tolerated = members.iter().map(problem_at).min().map_or(Duration::ZERO, |at| duration_between(since, at));
    let mut ordered = members.to_vec();
    ordered.sort_by(|a, b| (a.since, &a.key).cmp(&(b.since, &b.key)));
    Some(Incident {
        key: common.key.clone(),
        namespace: common.namespace.clone(),
        owner: Owner { kind: common.kind.clone(), name: common.name.clone() },
        reason: common.cause.as_str().to_owned(),
        cause: common.cause,
        since,
        tolerated,
        pods: members.iter().map(|member| member.pods).fold(0, u64::saturating_add),
        message: common.message.clone(),
        members: ordered
            .into_iter()
            .map(|member| Member {
                key: member.key.clone(),
                namespace: member.namespace.clone(),
                owner: member.owner.clone(),
                pods: member.pods,
            })
            .collect(),
        ..Incident::default()
    })
}
