//! Compares two statuses: whether the new one needs to be written, and which incidents began and ended.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;

use crate::api::{CommonCause, Incident, OrchestrStatus, PodProblem, condition};

use super::{summary, wire::number};

/// How much a new status differs from the one in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Not at all: no write is needed.
    None,
    /// Only in the number of watched pods and in the messages that contain it. Worth at most one write a minute, or pods
    /// that come and go would cause a write each.
    CountOnly,
    /// In any other field.
    Substantial,
}

/// Compares the status in the API with a new one from [`watching`](super::watching) or
/// [`not_watching`](super::not_watching()). Ignores the fields of other field managers, and the history: it changes only
/// together with other fields.
#[must_use]
pub fn differs(old: Option<&OrchestrStatus>, new: &OrchestrStatus) -> Change {
    let Some(old) = old else { return Change::Substantial };
    compare(old, new, || Lists::of(old) == Lists::of(new))
}

/// What is compared of the lists of a status: all but the lines that incidents quote. The log of a pod that the status does
/// not detail may be read and dropped for the sake of another object, so its line may come and go at any time. A line of a log
/// that the status shows changes together with the log.
#[derive(PartialEq, Serialize)]
pub(super) struct Lists<'a> {
    common_causes: &'a [CommonCause],
    incidents: Vec<Cow<'a, Incident>>,
    problematic_pods: &'a [PodProblem],
}

impl<'a> Lists<'a> {
    pub(super) fn of(status: &'a OrchestrStatus) -> Self {
        let unquoted = |incident: &'a Incident| match incident.log_line.as_str() {
            "" => Cow::Borrowed(incident),
            _ => Cow::Owned(Incident { log_line: String::new(), ..incident.clone() }),
        };
        let incidents = status.incidents.iter().map(unquoted).collect();
        Self { common_causes: &status.common_causes, incidents, problematic_pods: &status.problematic_pods }
    }
}

/// Compares two statuses. The caller compares their lists.
pub(super) fn compare(old: &OrchestrStatus, new: &OrchestrStatus, has_same_lists: impl FnOnce() -> bool) -> Change {
    let same = old.observed_generation == new.observed_generation
        && old.problematic_pod_count == new.problematic_pod_count
        && old.missing_pods == new.missing_pods
        && old.ignored_pods == new.ignored_pods
        && old.top_reason == new.top_reason
        && old.top_cause == new.top_cause
        && old.omitted_pods == new.omitted_pods
        && old.omitted_incidents == new.omitted_incidents
        && has_same_lists();
    if same && old.watched_pods == new.watched_pods && own(old).eq(own(new)) {
        return Change::None;
    }
    let uncounted = |status: &OrchestrStatus, condition: Option<&Condition>| {
        condition.map(|condition| Condition {
            message: summary::without_count(&condition.message, status.watched_pods),
            ..condition.clone()
        })
    };
    if same
        && own(old).map(|condition| uncounted(old, condition)).eq(own(new).map(|condition| uncounted(new, condition)))
    {
        Change::CountOnly
    } else {
        Change::Substantial
    }
}

/// The types of the conditions that the controller writes.
const OWN: [&str; 3] = [condition::READY, condition::PODS_HEALTHY, condition::STALLED];

/// Whether the controller writes conditions of this type. Others belong to other field managers.
#[must_use]
pub fn is_own(kind: &str) -> bool {
    OWN.contains(&kind)
}

/// The controller's conditions, in a fixed order.
fn own(status: &OrchestrStatus) -> impl Iterator<Item = Option<&Condition>> {
    OWN.into_iter().map(|kind| find(status, kind))
}

pub(super) fn find<'a>(status: &'a OrchestrStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == kind)
}

/// The keys of the incidents that a status does not list although they last, because they are too many. Without them, an
/// incident that was cut from the list could not be distinguished from one that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmittedIncidents(Box<[u64]>);

impl OmittedIncidents {
    pub(super) fn new<'a>(keys: impl Iterator<Item = &'a str>) -> Self {
        let mut keys: Vec<u64> = keys.filter_map(number).collect();
        keys.sort_unstable();
        Self(keys.into())
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        number(key).is_some_and(|key| self.0.binary_search(&key).is_ok())
    }
}

/// The incidents that began and ended from one status to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transitions<'a> {
    /// As listed in the new status.
    pub began: Vec<&'a Incident>,
    /// As listed in the old status.
    pub ended: Vec<&'a Incident>,
}

/// The incidents that certainly began or ended between two statuses, in the order of their lists. Left out are:
///
/// - all of them, if PodsHealthy is Unknown in the new status (paused, no access…);
/// - ends, if the spec changed: the pods may just not be selected any more;
/// - ends of incidents that the new status only omits;
/// - beginnings of incidents that the old status may have omitted. A cut list contains the most recent incidents of each
///   namespace, and one of each before a second one of any. So these are the incidents that began no later than the oldest
///   one of their namespace, or, if it has none, than the most recent one of any namespace.
#[must_use]
pub fn transitions<'a>(
    old: Option<&'a OrchestrStatus>,
    new: &'a OrchestrStatus,
    omitted: &OmittedIncidents,
) -> Transitions<'a> {
    if find(new, condition::PODS_HEALTHY).is_none_or(|condition| condition.status == "Unknown") {
        return Transitions::default();
    }
    let Some(old) = old else { return Transitions { began: new.incidents.iter().collect(), ended: Vec::new() } };
    Transitions {
        began: missing(&new.incidents, old),
        ended: if old.observed_generation == new.observed_generation {
            gone(&old.incidents, new, omitted)
        } else {
            Vec::new()
        },
    }
}

/// The incidents that a status neither lists nor omits.
pub(super) fn gone<'a>(
    incidents: &'a [Incident],
    status: &OrchestrStatus,
    omitted: &OmittedIncidents,
) -> Vec<&'a Incident> {
    let listed = keys(status);
    incidents.iter().filter(|own| !listed.contains(&*own.key) && !omitted.contains(&own.key)).collect()
}

/// The incidents that a status certainly did not have. Which ones it omitted is no longer known.
fn missing<'a>(incidents: &'a [Incident], status: &OrchestrStatus) -> Vec<&'a Incident> {
    let listed = keys(status);
    let others = incidents.iter().filter(|incident| !listed.contains(&*incident.key));
    if status.omitted_incidents == 0 {
        return others.collect();
    }
    // The most recent and the oldest incident of each namespace.
    let mut namespaces = HashMap::<&str, [&Time; 2]>::new();
    for Incident { namespace, since, .. } in &status.incidents {
        let [newest, oldest] = namespaces.entry(namespace).or_insert([since, since]);
        (*newest, *oldest) = ((*newest).max(since), (*oldest).min(since));
    }
    let of_others = namespaces.values().map(|[newest, _]| *newest).min();
    let certain = |incident: &&Incident| {
        let last = namespaces.get(&*incident.namespace).map(|[_, oldest]| *oldest).or(of_others);
        last.is_some_and(|last| incident.since > *last)
    };
    others.filter(certain).collect()
}

fn keys(status: &OrchestrStatus) -> HashSet<&str> {
    status.incidents.iter().map(|incident| &*incident.key).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{
        api::{Cause, WebhookStatus},
        report::{
            NotWatching, fit, not_watching,
            tests::{Scenario, at, crashing},
        },
    };

    fn keys(incidents: &[&Incident]) -> Vec<String> {
        incidents.iter().map(|incident| format!("{}/{}", incident.namespace, incident.owner.name)).collect()
    }

    /// Of statuses that list all incidents.
    fn between<'a>(old: Option<&'a OrchestrStatus>, new: &'a OrchestrStatus) -> Transitions<'a> {
        transitions(old, new, &OmittedIncidents::default())
    }

    #[test]
    fn ignores_the_fields_of_other_writers() {
        let scenario = Scenario::of([crashing("shop", "cart", "OOMKilled", 50)]);
        let mut old = scenario.status(None);
        old.webhooks.push(WebhookStatus { name: "ops".to_owned(), ..WebhookStatus::default() }.into());
        old.conditions.insert(0, Condition { type_: "AlertsDelivered".to_owned(), ..old.conditions[0].clone() });
        let new = Scenario { now: at(900), ..scenario }.status(Some(&old));
        assert_eq!(differs(Some(&old), &new), Change::None);
        assert!(new.webhooks.is_empty(), "another writer's");
        assert_eq!(new.conditions.len(), 2, "the third is another writer's");
    }

    #[test]
    fn a_first_status_is_substantial() {
        assert_eq!(differs(None, &Scenario::default().status(None)), Change::Substantial);
        assert_eq!(differs(Some(&OrchestrStatus::default()), &Scenario::default().status(None)), Change::Substantial);
    }

    #[test]
    fn a_different_number_of_watched_pods_changes_only_the_count() {
        for pods in [vec![], vec![crashing("shop", "cart", "OOMKilled", 50)]] {
            let old = Scenario { watched: 12, ..Scenario::of(pods.clone()) }.status(None);
            let new = Scenario { watched: 2, ..Scenario::of(pods) }.status(Some(&old));
            assert_eq!(differs(Some(&old), &new), Change::CountOnly);
        }
    }

    #[test]
    fn any_other_difference_is_substantial() {
        let base = || Scenario { watched: 12, ..Scenario::of([crashing("shop", "cart", "OOMKilled", 50)]) };
        let old = base().status(None);
        let restarted = {
            let mut scenario = base();
            scenario.pods[0].1.containers[0].restarts += 1;
            scenario
        };
        let changed = [
            ("the generation", Scenario { generation: 4, ..base() }),
            ("an unreadable pod", Scenario { unreadable: Some((1, "a/b (no JSON)".to_owned())), ..base() }),
            ("another pod", Scenario { watched: 12, ..Scenario::of([crashing("shop", "pay", "OOMKilled", 50)]) }),
            ("a recovery", Scenario { watched: 12, ..Scenario::default() }),
            ("a restart", restarted),
        ];
        for (what, scenario) in changed {
            assert_eq!(differs(Some(&old), &scenario.status(Some(&old))), Change::Substantial, "{what}");
        }
        assert_eq!(
            differs(Some(&old), &not_watching(&NotWatching::Syncing, 3, Some(&old), at(900))),
            Change::Substantial
        );
    }

    #[test]
    fn a_difference_in_a_single_field_is_substantial() {
        let old = Scenario { watched: 12, ..Scenario::of([crashing("shop", "cart", "OOMKilled", 50)]) }.status(None);
        type Edit = fn(&mut OrchestrStatus);
        let edits: [Edit; 13] = [
            |status| status.observed_generation = Some(4),
            |status| status.problematic_pod_count += 1,
            |status| status.missing_pods += 1,
            |status| status.ignored_pods += 1,
            |status| status.top_reason = "Error".to_owned(),
            |status| status.top_cause = Some(Cause::OutOfMemory),
            |status| status.omitted_pods += 1,
            |status| status.omitted_incidents += 1,
            |status| status.incidents[0].pods += 1,
            |status| status.problematic_pods[0].node = "node-8".to_owned(),
            |status| status.conditions[0].message.push_str("; and a warning"),
            |status| status.conditions[1].reason = "Other".to_owned(),
            |status| status.conditions[1].status = "Unknown".to_owned(),
        ];
        for (index, edit) in edits.into_iter().enumerate() {
            let mut new = old.clone();
            edit(&mut new);
            assert_eq!(differs(Some(&old), &new), Change::Substantial, "edit {index}");
            new.watched_pods += 1;
            assert_eq!(differs(Some(&old), &new), Change::Substantial, "edit {index} and the number of pods");
        }
        let later = OrchestrStatus { last_check_time: None, ..old.clone() };
        assert_eq!(differs(Some(&old), &later), Change::None, "the time of the check alone needs no write");
    }

    #[test]
    fn only_three_conditions_are_the_controllers() {
        let types = ["Ready", "PodsHealthy", "Stalled", "AlertsDelivered", ""];
        assert_eq!(types.map(is_own), [true, true, true, false, false]);
    }

    #[test]
    fn reports_incidents_that_began_and_ended() {
        let old = Scenario::of([crashing("shop", "cart", "OOMKilled", 50), crashing("shop", "pay", "Error", 40)]);
        let new = Scenario::of([crashing("shop", "pay", "Error", 40), crashing("shop", "web", "Error", 60)]);
        let old = old.status(None);
        let new = new.status(Some(&old));
        let found = between(Some(&old), &new);
        assert_eq!(
            (keys(&found.began), keys(&found.ended)),
            (vec!["shop/web".to_owned()], vec!["shop/cart".to_owned()])
        );
        assert_eq!(keys(&between(None, &new).began), ["shop/web", "shop/pay"]);
        assert_eq!(between(Some(&new), &new), Transitions::default());
    }

    #[test]
    fn incidents_of_pods_that_are_not_watched_have_not_ended() {
        let old = Scenario::of([crashing("shop", "cart", "OOMKilled", 50)]).status(None);
        for state in [NotWatching::Paused, NotWatching::AlertsNotSet, NotWatching::Syncing] {
            assert_eq!(between(Some(&old), &not_watching(&state, 3, Some(&old), at(900))), Transitions::default());
        }
        let narrowed = Scenario { generation: 4, ..Scenario::default() }.status(Some(&old));
        assert_eq!(between(Some(&old), &narrowed), Transitions::default());
        let recovered = Scenario::default().status(Some(&old));
        assert_eq!(keys(&between(Some(&old), &recovered).ended), ["shop/cart"]);
    }

    #[test]
    fn incidents_cut_from_a_list_have_neither_begun_nor_ended() {
        let seconds = |pods: std::ops::Range<i64>| pods.map(|n| crashing("shop", &format!("d{n:03}"), "Error", n));
        let full = i64::try_from(fit::MAX_INCIDENTS).unwrap();
        let few = Scenario::of(seconds(1..full)).status(None);
        assert_eq!(few.omitted_incidents, 0);
        let (many, omitted) = Scenario::of(seconds(0..full + 5)).listed(Some(&few));
        assert_eq!(many.omitted_incidents, 5);

        let grown = transitions(Some(&few), &many, &omitted);
        assert_eq!(keys(&grown.ended), Vec::<String>::new(), "d001 to d004 were cut");
        assert_eq!(grown.began.len(), 5, "d100 to d104; d000 is not listed");
        let shrunk = between(Some(&many), &few);
        assert_eq!(keys(&shrunk.began), Vec::<String>::new(), "d001 to d004 are shown again");
        assert_eq!(shrunk.ended.len(), 5);

        for (gone, left) in [(50, 4), (5, 4)] {
            let others = Scenario::of(seconds(0..gone).chain(seconds(gone + 1..full + 5)));
            let (without, omitted) = others.listed(Some(&many));
            assert_eq!(without.omitted_incidents, left);
            let one_less = transitions(Some(&many), &without, &omitted);
            assert_eq!(keys(&one_less.ended), [format!("shop/d{gone:03}")], "also if it was the oldest of the list");
        }

        // d000 and d001 began in the same second, and only one of them fits.
        let tied = |pods: std::ops::Range<i64>| {
            let pods = pods.map(|n| crashing("shop", &format!("d{n:03}"), "Error", n.max(1)));
            Scenario::of(pods.collect::<Vec<_>>().into_iter().rev())
        };
        let all = tied(0..full + 1).status(None);
        let without = tied(1..full + 1).status(Some(&all));
        assert_eq!((all.omitted_incidents, without.omitted_incidents), (1, 0));
        assert_eq!(keys(&between(Some(&all), &without).began), Vec::<String>::new(), "d001 may have been cut");
    }

    #[test]
    fn a_full_list_shows_changes_in_other_namespaces() {
        let evil = || (0..500).map(|n| crashing("evil", &format!("e{n:03}"), "Error", 500 + n));
        let with = |others: &[(&str, i64)]| {
            let others: Vec<_> = others.iter().map(|(owner, since)| crashing("shop", owner, "Error", *since)).collect();
            Scenario::of(others.into_iter().chain(evil()))
        };
        let found = |old: &[(&str, i64)], new: &[(&str, i64)]| {
            let old = with(old).status(None);
            let (new, omitted) = with(new).listed(Some(&old));
            assert!(new.omitted_incidents >= 400);
            let found = transitions(Some(&old), &new, &omitted);
            (keys(&found.began), keys(&found.ended))
        };
        let (cart, pay) = (("cart", 10), ("pay", 20));
        let (none, named) = (Vec::<String>::new(), |name: &str| vec![format!("shop/{name}")]);
        assert_eq!(found(&[cart], &[]), (none.clone(), named("cart")), "it is the oldest of all");
        assert_eq!(found(&[cart], &[cart, pay]), (named("pay"), none.clone()));
        assert_eq!(found(&[cart, pay], &[pay]), (none.clone(), named("cart")));
        assert_eq!(found(&[], &[("cart", 1_000)]), (named("cart"), none.clone()));
        assert_eq!(found(&[], &[cart]), (none.clone(), none), "it may have been omitted");
    }

    #[test]
    fn compares_times_in_whole_seconds() {
        let mut scenario = Scenario::of([crashing("shop", "cart", "OOMKilled", 50)]);
        scenario.pods[0].1.since = Timestamp::new(50, 987_654_321).unwrap();
        scenario.now = Timestamp::new(100, 123_456_789).unwrap();
        for finished in [Timestamp::MIN, Timestamp::new(49, 999_999_999).unwrap(), Timestamp::MAX] {
            scenario.pods[0].1.containers[0].last_termination.as_mut().unwrap().finished = Some(finished);
            let status = scenario.status(None);
            let read: OrchestrStatus = serde_json::from_str(&serde_json::to_string(&status).unwrap()).unwrap();
            assert_eq!(read, status);
            assert_eq!(differs(Some(&read), &scenario.status(Some(&read))), Change::None);
        }
    }
}
