//! Replaces incidents that have a common cause by one incident about this cause, for one webhook.
//!
//! A receiver is sent one alert about the common cause, which names its members. An incident that the receiver was
//! already sent keeps its own alert until it ends.
//!
//! A cause is sometimes attributed differently while its incidents last, for example to a registry instead of an image.
//! The alert about the first cause then lasts until each of its members is over or has no common cause. Incidents that
//! it reported do not start an alert about the second cause, unless that has other members too.
//!
//! A cause may be one that somebody provoked, for example by pods whose images another team will use. It must not hide the
//! incidents of others: an incident that joins after the alert was sent, from a namespace without an incident that was
//! reported, or more severe than those, gets an alert of its own. Further incidents of this namespace join silently.
//!
//! If the common cause is over, its members stay silent until its alert is resolved, because most of them are about to
//! end as well. Those that remain are then sent one by one, and the end of the alert says how many they are: a node that
//! now explains the problems of two owners only may be as broken as before.
//!
//! A cause that rests on events is unknown after a restart until the events are read. Until then, at most for ten minutes,
//! the stored members stay members.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use arcstr::ArcStr;
use jiff::Timestamp;

use super::{
    Incident, Member, Texts,
    input::PlanInput,
    memory::{Earlier, IncidentMemory},
    mute::Mute,
    policy::NotificationPolicy,
    times::{duration_between, has_elapsed, whole_seconds},
};
use crate::api::{AlertPhase, AlertStatus, Cause, Owner, Severity, WebhookStatus};

/// How many members an alert about a common cause needs.
const MEMBERS: usize = 2;

/// The most members of a common cause that are stored.
pub(super) const MAX_MEMBERS: usize = 32;

/// The incidents that match a webhook.
pub struct Grouped<'a> {
    /// Those that are sent one by one.
    single: Vec<&'a Incident>,
    /// One for each common cause, in place of its members.
    common: Vec<Incident>,
    /// How many incidents stay silent until the alert about their common cause is resolved.
    pub held: usize,
    /// How many members continue without a common cause whose alert is resolved, by its key.
    remaining: HashMap<String, u64>,
}

impl<'a> Grouped<'a> {
    /// Groups the incidents that match the webhook.
    pub fn new(previous: &WebhookStatus, input: &PlanInput<'a>) -> Self {
        let active: Vec<&AlertStatus> =
            previous.alerts.iter().filter(|alert| alert.phase != AlertPhase::Resolved).collect();
        let matching = matching(previous, &active, input);
        let sent: HashSet<&str> =
            active.iter().filter(|alert| alert.members.is_empty()).map(|alert| alert.key.as_str()).collect();

        let alerts: HashMap<&str, &AlertStatus> =
            active.iter().filter(|alert| !alert.members.is_empty()).map(|alert| (alert.key.as_str(), *alert)).collect();
        // After a restart, a stored member stays one until its cause is known, unless the cause was over before.
        let may_lack_cause = |incident: &Incident| input.memory.may_lack_cause(incident, input.now);
        let lasting: Vec<&AlertStatus> = alerts.values().copied().filter(|alert| alert.gone_since.is_none()).collect();
        let is_stored =
            |incident: &Incident| lasting.iter().any(|alert| alert.members.iter().any(|key| *key == *incident.key));
        let has_cause =
            |incident: &Incident| incident.common_cause.is_some() || may_lack_cause(incident) && is_stored(incident);
        let mut candidates: Vec<&'a Incident> = matching
            .iter()
            .copied()
            .filter(|incident| !sent.contains(incident.key.as_str()) && has_cause(incident))
            .collect();
        let unreported = unreported(previous, &active, &matching, &candidates);
        candidates.retain(|incident| !unreported.contains(incident.key.as_str()));
        let mut members = members_by_cause(&alerts, &candidates);
        let reported: HashSet<&str> = members
            .iter()
            .filter_map(|(cause, members)| Some((alerts.get(cause)?, members)))
            .flat_map(|(alert, members)| members.iter().filter(|member| is_reported(member, alert)))
            .map(|member| member.key.as_str())
            .collect();
        members.retain(|cause, members| {
            alerts.contains_key(cause) || members.iter().any(|member| !reported.contains(member.key.as_str()))
        });

        // The alerts about common causes that are over, but not yet resolved.
        let ending: Vec<&AlertStatus> = alerts
            .values()
            .copied()
            .filter(|alert| alert.phase != AlertPhase::Resolving)
            .filter(|alert| !members.contains_key(alert.key.as_str()))
            .filter(|alert| {
                let keep_firing_for = input.policy.keep_firing_for(alert.returns);
                !has_elapsed(alert.gone_since.as_ref(), keep_firing_for, input.now)
            })
            .collect();
        // The status stores only some of many members. The others were reported with them, or began since.
        let may_be_member = |incident: &Incident| {
            let reported = |alert: &&AlertStatus| {
                alert.members.len() >= MAX_MEMBERS && alert.sent_at.is_some() && is_reported(incident, alert)
            };
            may_lack_cause(incident) && lasting.iter().any(reported)
        };
        let is_held = |incident: &Incident| {
            !sent.contains(incident.key.as_str())
                && (may_be_member(incident) || ending.iter().any(|alert| was_member(incident, alert, input.memory)))
        };
        let grouped: HashSet<&str> = members.values().flatten().map(|incident| incident.key.as_str()).collect();
        let mut single = matching;
        single.retain(|incident| !grouped.contains(incident.key.as_str()));
        let all = single.len();
        single.retain(|incident| !is_held(incident));
        let held = all - single.len();
        let common = members
            .iter()
            .filter_map(|(cause, members)| combine(cause, members, alerts.get(cause).copied(), &reported))
            .collect();
        Self { single, common, held, remaining: remaining(previous, input) }
    }

    /// How many problems of a common cause continue although its alert is resolved.
    pub fn remaining(&self, cause: &str) -> u64 {
        self.remaining.get(cause).copied().unwrap_or_default()
    }

    /// Why incidents of a webhook are held back, by key. A common cause is held back only if all of its incidents that are due
    /// are.
    pub(super) fn mutes(&self, input: &PlanInput<'_>) -> HashMap<&str, Mute> {
        if input.mutes.is_empty() {
            return HashMap::new();
        }
        let find = |incident: &Incident| input.mutes.get(&incident.key).cloned();
        let single: HashMap<&str, &Incident> =
            input.incidents.iter().map(|incident| (incident.key.as_str(), incident)).collect();
        let find_common = |common: &Incident| {
            let members = common.members.iter().filter_map(|member| single.get(member.key.as_str()).copied());
            let is_due =
                |member: &&Incident| input.policy.due_at(member, input.now).is_some_and(|due| due <= input.now);
            // It is free as soon as the first of its incidents is.
            members.filter(is_due).map(find).collect::<Option<Vec<Mute>>>()?.into_iter().min()
        };
        let mute =
            |incident: &Incident| if incident.members.is_empty() { find(incident) } else { find_common(incident) };
        self.iter().filter_map(|incident| Some((incident.key.as_str(), mute(incident)?))).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Incident> {
        self.single.iter().copied().chain(&self.common)
    }
}

/// The status stores only some of many members. Memory has the others until a restart.
fn was_member(incident: &Incident, alert: &AlertStatus, memory: &IncidentMemory) -> bool {
    alert.members.iter().any(|key| *key == *incident.key)
        || alert.members.len() >= MAX_MEMBERS && memory.common_cause(&incident.key) == Some(alert.key.as_str())
}

fn remaining(previous: &WebhookStatus, input: &PlanInput<'_>) -> HashMap<String, u64> {
    let causes = previous.alerts.iter().filter(|alert| !alert.members.is_empty());
    let count = |alert: &AlertStatus| {
        let continues = |incident: &&Incident| was_member(incident, alert, input.memory);
        input.incidents.iter().filter(continues).count() as u64
    };
    causes.map(|alert| (alert.key.clone(), count(alert))).collect()
}

fn matching<'a>(previous: &WebhookStatus, active: &[&AlertStatus], input: &PlanInput<'a>) -> Vec<&'a Incident> {
    let sent: HashMap<&str, &AlertStatus> = active.iter().map(|alert| (alert.key.as_str(), *alert)).collect();
    let mut causes: HashMap<&str, Vec<&AlertStatus>> = HashMap::new();
    for alert in active {
        for member in &alert.members {
            causes.entry(member).or_default().push(alert);
        }
    }
    let held: HashSet<&str> =
        previous.muted.iter().flat_map(|muted| &muted.incidents).map(|incident| incident.key.as_str()).collect();
    // What the status lists has matched, maybe by a severity, a team or a reason that only the memory before a restart had.
    let has_matched = |key: &str| {
        previous.config == input.config && (sent.contains_key(key) || causes.contains_key(key) || held.contains(key))
    };
    let (policy, memory): (&NotificationPolicy, &IncidentMemory) = (input.policy, input.memory);
    let matches = |incident: &&Incident| {
        if has_matched(&incident.key) {
            return policy.matches_namespace(incident);
        }
        if policy.matches(incident, &Earlier::default()) {
            return true;
        }
        let mut earlier = memory.earlier(&incident.key, sent.get(incident.key.as_str()).copied());
        // After a restart, only the alert about the common cause shows what its members were.
        for cause in causes.get(incident.key.as_str()).into_iter().flatten() {
            earlier.add_labels(cause);
        }
        policy.matches(incident, &earlier)
    };
    input.incidents.iter().filter(matches).collect()
}

/// The keys of the incidents that need an alert of their own, because the alert about their common cause was sent and says
/// nothing about incidents of their namespace that are as severe.
fn unreported<'a>(
    previous: &WebhookStatus,
    active: &[&AlertStatus],
    matching: &[&'a Incident],
    candidates: &[&'a Incident],
) -> HashSet<&'a str> {
    let may_be_delivered =
        previous.pending.as_ref().is_some_and(|pending| pending.in_flight || pending.maybe_delivered);
    let is_sent =
        |alert: &AlertStatus| alert.sent_at.is_some() || alert.phase == AlertPhase::Announcing && may_be_delivered;
    let causes: HashMap<&str, (&AlertStatus, HashSet<&str>)> = active
        .iter()
        .filter(|alert| !alert.members.is_empty() && is_sent(alert))
        .map(|alert| (alert.key.as_str(), (*alert, alert.members.iter().map(String::as_str).collect())))
        .collect();
    if causes.is_empty() {
        return HashSet::new();
    }
    let own: HashSet<&str> = active
        .iter()
        .filter(|alert| alert.members.is_empty() && is_sent(alert))
        .map(|alert| alert.key.as_str())
        .collect();
    // By cause and namespace, the highest severity that was reported.
    let mut reported: HashMap<(&str, &str), Severity> = HashMap::new();
    let mut stored_anywhere: HashSet<&str> = HashSet::new();
    let mut namespaces: HashMap<&str, HashSet<&str>> = HashMap::new();
    for incident in matching {
        let mut report = |cause| {
            let highest = reported.entry((cause, incident.namespace.as_str())).or_insert(incident.severity);
            *highest = incident.severity.max(*highest);
        };
        for (cause, (_, members)) in &causes {
            if members.contains(incident.key.as_str()) {
                report(*cause);
                stored_anywhere.insert(&incident.key);
                namespaces.entry(cause).or_default().insert(&incident.namespace);
            }
        }
        if let Some(common) = incident.common_cause.as_ref().filter(|_| own.contains(incident.key.as_str())) {
            report(&common.key);
        }
    }
    // The status stores only some of many members. If those are of many namespaces, more were reported with them.
    let is_perhaps_reported = |cause: &str, (alert, members): &(&AlertStatus, HashSet<&str>), incident: &Incident| {
        members.len() >= MAX_MEMBERS
            && namespaces.get(cause).is_some_and(|namespaces| namespaces.len() * 2 >= MAX_MEMBERS)
            && is_reported(incident, alert)
    };
    let is_unreported = |incident: &&&'a Incident| {
        let Some(common) = &incident.common_cause else { return false };
        let Some(alert) = causes.get(common.key.as_str()) else { return false };
        let highest = reported.get(&(common.key.as_str(), incident.namespace.as_str()));
        !stored_anywhere.contains(incident.key.as_str())
            && highest.is_none_or(|highest| incident.severity > *highest)
            && !is_perhaps_reported(&common.key, alert, incident)
    };
    candidates.iter().filter(is_unreported).map(|incident| incident.key.as_str()).collect()
}

/// The incidents that an alert about each common cause stands for, by the key of the cause. An incident that moved to
/// another cause still belongs to the alert that stores it as a member, so that this alert does not end before.
fn members_by_cause<'a, 'b>(
    alerts: &HashMap<&'b str, &'b AlertStatus>,
    candidates: &[&'a Incident],
) -> BTreeMap<&'b str, Vec<&'a Incident>>
where
    'a: 'b,
{
    let mut stored: HashMap<&str, Vec<&'b str>> = HashMap::new();
    for (cause, alert) in alerts {
        for member in &alert.members {
            stored.entry(member).or_default().push(cause);
        }
    }
    let is_stored = |cause: &str, incident: &Incident| {
        stored.get(incident.key.as_str()).is_some_and(|causes| causes.contains(&cause))
    };
    let mut members: BTreeMap<&'b str, Vec<&'a Incident>> = BTreeMap::new();
    for incident in candidates.iter().copied() {
        for cause in stored.get(incident.key.as_str()).into_iter().flatten() {
            members.entry(cause).or_default().push(incident);
        }
        if let Some(common) = incident.common_cause.as_ref().filter(|common| !is_stored(&common.key, incident)) {
            members.entry(&common.key).or_default().push(incident);
        }
    }
    members
        .retain(|cause, members| members.len() >= MEMBERS || members.iter().any(|incident| is_stored(cause, incident)));
    members
}

/// Whether a member that has another cause by now is named in the last message about this one, or in the next if there was
/// none. If it began after the last message, it is news, even if it was a member earlier.
fn is_reported(member: &Incident, alert: &AlertStatus) -> bool {
    alert.sent_at.as_ref().is_none_or(|sent| whole_seconds(member.since).0 <= sent.0)
}

/// The team of all these incidents; empty if they have different ones.
fn common_team(members: &[&Incident]) -> ArcStr {
    let first = members.first().map(|member| &member.team);
    first.filter(|team| members.iter().all(|member| member.team == **team)).cloned().unwrap_or_default()
}

/// An incident about the common cause of these incidents. It is due as soon as the first of those is that no alert about
/// another common cause reported.
fn combine(
    cause: &str,
    members: &[&Incident],
    alert: Option<&AlertStatus>,
    reported: &HashSet<&str>,
) -> Option<Incident> {
    let since = members.iter().map(|member| member.since).min()?;
    let problem_at =
        |member: &&Incident| -> Timestamp { member.since.saturating_add(member.tolerated).unwrap_or(Timestamp::MAX) };
    let is_old = |member: &Incident| alert.is_some() || reported.contains(member.key.as_str());
    let new = members.iter().filter(|member| !is_old(member));
    let tolerated = new.map(problem_at).min().map_or(Duration::ZERO, |at| duration_between(since, at));
    let mut ordered = members.to_vec();
    let rank = |member: &Incident| (is_old(member), Reverse(member.severity), member.since);
    ordered.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.key.cmp(&b.key)));
    // The status stores, and a message names, only the first of many members: one of each namespace, then a second.
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut round = |member: &Incident, namespace| {
        let count = counts.entry(namespace).or_default();
        *count += 1;
        (is_old(member), *count)
    };
    let mut ordered: Vec<_> = ordered.into_iter().map(|member| (round(member, &member.namespace), member)).collect();
    ordered.sort_by_key(|(round, _)| *round);
    let common = members.iter().filter_map(|member| member.common_cause.as_ref()).find(|common| common.key == cause);
    let description = match (common, alert) {
        (Some(common), _) => Incident {
            namespace: common.namespace.as_str().into(),
            owner: Owner { kind: common.kind.clone(), name: common.name.clone() }.into(),
            reason: common.cause.as_str().into(),
            cause: common.cause,
            texts: Texts { message: common.message.clone(), ..Texts::default() }.into(),
            ..Incident::default()
        },
        // All members moved to other causes. An earlier sentence about this one may be wrong by now.
        (None, Some(alert)) => Incident { cause: Cause::from_name(&alert.reason), ..Incident::from(alert) },
        (None, None) => return None,
    };
    Some(Incident {
        key: cause.into(),
        since,
        tolerated,
        pods: members.iter().map(|member| member.pods).fold(0, u64::saturating_add),
        severity: members.iter().map(|member| member.severity).max().unwrap_or_default(),
        team: common_team(members),
        members: ordered
            .into_iter()
            .map(|(_, member)| Member {
                key: member.key.to_string(),
                namespace: member.namespace.to_string(),
                owner: Owner::clone(&member.owner),
                pods: member.pods,
            })
            .collect(),
        ..description
    })
}
