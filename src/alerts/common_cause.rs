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
    input::StepInput,
    memory::Seen,
    mute::Mute,
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
}

impl<'a> Grouped<'a> {
    /// Groups the incidents that match the webhook.
    pub fn new(previous: &WebhookStatus, input: &StepInput<'a>) -> Self {
        let mut single = matching(previous, input);
        let present: HashMap<&str, &Incident> =
            single.iter().map(|incident| (incident.key.as_str(), *incident)).collect();
        let own: HashMap<&str, &AlertStatus> = active(previous)
            .filter(|alert| alert.members.is_empty())
            .map(|alert| (alert.key.as_str(), alert))
            .collect();
        let mut causes: HashMap<&str, KnownCause<'_>> = active(previous)
            .filter(|alert| !alert.members.is_empty())
            .map(|alert| (alert.key.as_str(), KnownCause::new(alert, previous, &present)))
            .collect();
        for incident in
            own.values().filter(|alert| is_sent(alert, previous)).filter_map(|alert| present.get(&*alert.key))
        {
            let cause = incident.common_cause.as_ref().and_then(|common| causes.get_mut(common.key.as_str()));
            cause.into_iter().for_each(|cause| cause.report(incident));
        }
        let mut stored: HashMap<&str, Vec<&KnownCause<'_>>> = HashMap::new();
        for cause in causes.values() {
            cause.members.iter().for_each(|member| stored.entry(member).or_default().push(cause));
        }
        let stored = |incident: &Incident| stored.get(incident.key.as_str()).map_or(&[][..], Vec::as_slice);

        let may_lack_cause = |incident: &Incident| input.memory.may_lack_cause(incident, input.now);
        let is_member = |incident: &Incident| match &incident.common_cause {
            // After a restart, a stored member stays one until its cause is known, unless the cause was over before.
            None => may_lack_cause(incident) && stored(incident).iter().any(|cause| cause.lasts()),
            // The others need alerts of their own, because the one about their common cause says nothing about them.
            Some(common) => {
                stored(incident).iter().any(|cause| cause.is_sent)
                    || causes.get(common.key.as_str()).is_none_or(|cause| cause.covers(incident))
            }
        };
        // An incident that moved to another cause still belongs to the alert that stores it as a member, so that this alert
        // does not end before.
        let mut members: BTreeMap<&str, Vec<&'a Incident>> = BTreeMap::new();
        for incident in single.iter().filter(|incident| !own.contains_key(incident.key.as_str()) && is_member(incident))
        {
            let present = incident.common_cause.iter().map(|common| common.key.as_str());
            let stored = stored(incident).iter().map(|cause| cause.alert.key.as_str());
            for cause in stored.chain(present).collect::<HashSet<_>>() {
                members.entry(cause).or_default().push(incident);
            }
        }
        let is_stored = |cause: &str, incident: &Incident| stored(incident).iter().any(|own| own.alert.key == *cause);
        members.retain(|cause, members| {
            members.len() >= MEMBERS || members.iter().any(|incident| is_stored(cause, incident))
        });
        let is_reported = |(cause, members): (&&str, &Vec<&'a Incident>)| -> Vec<&'a str> {
            let Some(cause) = causes.get(cause) else { return Vec::new() };
            members.iter().filter(|member| cause.has_reported(member)).map(|member| member.key.as_str()).collect()
        };
        let reported: HashSet<&str> = members.iter().flat_map(is_reported).collect();
        members.retain(|cause, members| {
            causes.contains_key(cause) || members.iter().any(|member| !reported.contains(member.key.as_str()))
        });

        // The common causes that are over, but not yet resolved.
        let ending: Vec<&KnownCause<'_>> = causes
            .values()
            .filter(|cause| cause.alert.phase != AlertPhase::Resolving && !members.contains_key(&*cause.alert.key))
            .filter(|KnownCause { alert, .. }| {
                !has_elapsed(alert.gone_since.as_ref(), input.policy.keep_firing_for(alert.returns), input.now)
            })
            .collect();
        // The status stores only some of many members. The others were reported with them, or began since.
        let may_be_member = |incident: &Incident| {
            let reported = |cause: &KnownCause<'_>| {
                cause.lasts() && cause.may_have_more() && cause.alert.sent_at.is_some() && cause.has_reported(incident)
            };
            may_lack_cause(incident) && causes.values().any(reported)
        };
        let is_held = |incident: &Incident| {
            let was_member = |cause: &&KnownCause<'_>| was_member(incident, cause.alert, input);
            !own.contains_key(incident.key.as_str()) && (may_be_member(incident) || ending.iter().any(was_member))
        };
        let grouped: HashSet<&str> = members.values().flatten().map(|incident| incident.key.as_str()).collect();
        single.retain(|incident| !grouped.contains(incident.key.as_str()));
        let all = single.len();
        single.retain(|incident| !is_held(incident));
        let common = members.iter().filter_map(|(cause, members)| {
            combine(cause, members, causes.get(cause).map(|cause| cause.alert), &reported)
        });
        Self { held: all - single.len(), common: common.collect(), single }
    }

    /// Why incidents of a webhook are held back, by key. A common cause is held back only if all of its incidents that are due
    /// are.
    pub(super) fn mutes(&self, input: &StepInput<'_>) -> HashMap<&str, Mute> {
        if input.mutes.is_empty() {
            return HashMap::new();
        }
        let find = |incident: &Incident| input.mutes.get(&incident.key).cloned();
        let single: HashMap<&str, &Incident> =
            input.incidents.iter().map(|incident| (incident.key.as_str(), incident)).collect();
        let find_common = |common: &Incident| {
            let members = common.members.iter().filter_map(|member| single.get(member.key.as_str()).copied());
            // It is free as soon as the first of its incidents is.
            members.filter(|member| input.is_due(member)).map(find).collect::<Option<Vec<Mute>>>()?.into_iter().min()
        };
        let mute =
            |incident: &Incident| if incident.members.is_empty() { find(incident) } else { find_common(incident) };
        self.iter().filter_map(|incident| Some((incident.key.as_str(), mute(incident)?))).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Incident> {
        self.single.iter().copied().chain(&self.common)
    }
}

fn active(status: &WebhookStatus) -> impl Iterator<Item = &AlertStatus> {
    status.alerts.iter().filter(|alert| alert.phase != AlertPhase::Resolved)
}

/// Whether the present receiver was sent an alert, or may have been.
fn is_sent(alert: &AlertStatus, status: &WebhookStatus) -> bool {
    alert.sent_at.is_some() || alert.phase == AlertPhase::Announcing && status.may_be_delivered()
}

/// A common cause that has an alert.
struct KnownCause<'a> {
    alert: &'a AlertStatus,
    is_sent: bool,
    /// Those that are stored.
    members: HashSet<&'a str>,
    /// How many namespaces those of them have that last.
    namespaces: usize,
    /// The highest severity of each namespace that the receiver was sent.
    reported: HashMap<&'a str, Severity>,
}

impl<'a> KnownCause<'a> {
    fn new(alert: &'a AlertStatus, status: &WebhookStatus, present: &HashMap<&str, &'a Incident>) -> Self {
        let members = alert.members.iter().map(String::as_str).collect();
        let mut cause =
            Self { alert, is_sent: is_sent(alert, status), members, namespaces: 0, reported: HashMap::new() };
        alert.members.iter().filter_map(|key| present.get(&**key)).for_each(|incident| cause.report(incident));
        cause.namespaces = cause.reported.len();
        cause
    }

    fn report(&mut self, incident: &'a Incident) {
        let highest = self.reported.entry(&incident.namespace).or_insert(incident.severity);
        *highest = incident.severity.max(*highest);
    }

    fn lasts(&self) -> bool {
        self.alert.gone_since.is_none()
    }

    /// Whether there may be members that are not stored.
    fn may_have_more(&self) -> bool {
        self.members.len() >= MAX_MEMBERS
    }

    /// Whether a member is named in the last message about the cause, or in the next if there was none. If it began after the
    /// last message, it is news, even if it was a member earlier.
    fn has_reported(&self, member: &Incident) -> bool {
        self.alert.sent_at.as_ref().is_none_or(|sent| whole_seconds(member.since).0 <= sent.0)
    }

    /// Whether an incident that is not stored needs no alert of its own: the receiver was not sent the cause yet, or knows an
    /// incident of its namespace that is as severe. If the stored members are of many namespaces, more were reported with
    /// them.
    fn covers(&self, incident: &Incident) -> bool {
        !self.is_sent
            || self.reported.get(incident.namespace.as_str()).is_some_and(|highest| incident.severity <= *highest)
            || self.may_have_more() && self.namespaces * 2 >= MAX_MEMBERS && self.has_reported(incident)
    }
}

/// The status stores only some of many members. Memory has the others until a restart.
fn was_member(incident: &Incident, alert: &AlertStatus, input: &StepInput<'_>) -> bool {
    alert.members.iter().any(|key| *key == *incident.key)
        || alert.members.len() >= MAX_MEMBERS && input.memory.common_cause(&incident.key) == Some(alert.key.as_str())
}

/// How many problems of a common cause continue.
pub(super) fn remaining(alert: &AlertStatus, input: &StepInput<'_>) -> u64 {
    input.incidents.iter().filter(|incident| was_member(incident, alert, input)).count() as u64
}

/// The incidents that match the webhook. What the status lists has matched, maybe by a severity, a team or a reason that only
/// the memory before a restart had.
fn matching<'a>(previous: &WebhookStatus, input: &StepInput<'a>) -> Vec<&'a Incident> {
    let mut listed: HashMap<&str, Vec<Seen>> = HashMap::new();
    for alert in active(previous) {
        for key in alert.members.iter().chain([&alert.key]) {
            listed.entry(key).or_default().push(Seen::of_alert(alert));
        }
    }
    for incident in previous.muted.iter().flat_map(|muted| &muted.incidents) {
        listed.entry(&incident.key).or_default();
    }
    let matches = |incident: &&Incident| match listed.get(incident.key.as_str()) {
        Some(_) if previous.config == input.config => input.policy.matches_namespace(incident),
        listed => {
            let earlier = [input.memory.earlier(&incident.key), listed.map_or(&[], Vec::as_slice)].concat();
            input.policy.matches(incident, &earlier)
        }
    };
    input.incidents.iter().filter(matches).collect()
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
