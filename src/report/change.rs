//! What one status says that another didn't.

use std::collections::HashSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::api::{Incident, OrchestrStatus, condition};

use super::text;

/// How much a new status differs from the one that stands in the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Not at all: nothing is to be written.
    None,
    /// By the number of watched pods alone, and by the messages that tell it: worth no write of its own
    /// while pods come and go, and one a minute at most.
    CountOnly,
    /// By something that users wait for.
    Substantial,
}

/// Compares the status as it stands in the API with a new one from [`watching`](super::watching) or
/// [`idle`](super::idle). What other field managers wrote into the old one is left out of account.
#[must_use]
pub fn differs(old: Option<&OrchestrStatus>, new: &OrchestrStatus) -> Change {
    let Some(old) = old else { return Change::Substantial };
    let same = old.observed_generation == new.observed_generation
        && old.problematic_pod_count == new.problematic_pod_count
        && old.ignored_pods == new.ignored_pods
        && old.top_reason == new.top_reason
        && old.omitted_pods == new.omitted_pods
        && old.omitted_incidents == new.omitted_incidents
        && old.incidents == new.incidents
        && old.problematic_pods == new.problematic_pods;
    if same && old.watched_pods == new.watched_pods && own(old).eq(own(new)) {
        return Change::None;
    }
    let uncounted = |status: &OrchestrStatus, condition: Option<&Condition>| {
        condition.map(|condition| Condition {
            message: text::without_count(&condition.message, status.watched_pods),
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

/// The types of the conditions that are written here.
const OWN: [&str; 3] = [condition::READY, condition::PODS_HEALTHY, condition::STALLED];

/// Whether conditions of this type are written here; others are other field managers'.
#[must_use]
pub fn is_own(kind: &str) -> bool {
    OWN.contains(&kind)
}

/// The conditions that are written here, in a fixed order.
fn own(status: &OrchestrStatus) -> impl Iterator<Item = Option<&Condition>> {
    OWN.into_iter().map(|kind| find(status, kind))
}

fn find<'a>(status: &'a OrchestrStatus, kind: &str) -> Option<&'a Condition> {
    status.conditions.iter().find(|condition| condition.type_ == kind)
}

/// The incidents that began and ended from one status to the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transitions<'a> {
    /// As the new status has them.
    pub began: Vec<&'a Incident>,
    /// As the old status had them.
    pub ended: Vec<&'a Incident>,
}

/// What began and ended between two statuses, in the order of their lists. Only what is certain:
///
/// - nothing, where the new status doesn't come from looking at pods (paused, no access…);
/// - no end, where the spec changed: the pods may only be selected no longer;
/// - no end of an incident that may just have been cut from the new list, and no beginning of one that
///   may just have been cut from the old list. A cut list ends with its oldest incident, so these are the
///   ones that began no later than that.
#[must_use]
pub fn transitions<'a>(old: Option<&'a OrchestrStatus>, new: &'a OrchestrStatus) -> Transitions<'a> {
    if find(new, condition::PODS_HEALTHY).is_none_or(|condition| condition.status == "Unknown") {
        return Transitions::default();
    }
    let Some(old) = old else { return Transitions { began: new.incidents.iter().collect(), ended: Vec::new() } };
    Transitions {
        began: missing(&new.incidents, old),
        ended: if old.observed_generation == new.observed_generation {
            missing(&old.incidents, new)
        } else {
            Vec::new()
        },
    }
}

/// Those of the incidents that a status certainly doesn't have.
fn missing<'a>(incidents: &'a [Incident], status: &OrchestrStatus) -> Vec<&'a Incident> {
    let listed: HashSet<&str> = status.incidents.iter().map(|incident| &*incident.key).collect();
    let cut = status.omitted_incidents > 0;
    let oldest: Option<&Time> = status.incidents.last().map(|incident| &incident.since);
    incidents
        .iter()
        .filter(|incident| !listed.contains(&*incident.key))
        .filter(|incident| !cut || oldest.is_some_and(|oldest| incident.since > *oldest))
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::report::{
        NotWatching, fit, not_watching,
        tests::{World, at, crashing},
    };

    fn keys(incidents: &[&Incident]) -> Vec<String> {
        incidents.iter().map(|incident| format!("{}/{}", incident.namespace, incident.owner.name)).collect()
    }

    #[test]
    fn what_others_write_is_no_change() {
        let world = World::of([crashing("shop", "cart", "OOMKilled", 50)]);
        let mut old = world.status(None);
        old.webhooks.push(serde_json::from_value(serde_json::json!({"name": "ops"})).unwrap());
        old.conditions.insert(0, Condition { type_: "AlertsDelivered".to_owned(), ..old.conditions[0].clone() });
        let new = World { now: at(900), ..world }.status(Some(&old));
        assert_eq!(differs(Some(&old), &new), Change::None);
        assert!(new.webhooks.is_empty(), "another writer's");
        assert_eq!(new.conditions.len(), 2, "the third is another writer's");
    }

    #[test]
    fn a_first_status_is_substantial() {
        assert_eq!(differs(None, &World::default().status(None)), Change::Substantial);
        assert_eq!(differs(Some(&OrchestrStatus::default()), &World::default().status(None)), Change::Substantial);
    }

    #[test]
    fn pods_that_come_and_go_only_change_the_count() {
        for troubled in [vec![], vec![crashing("shop", "cart", "OOMKilled", 50)]] {
            let old = World { watched: 12, ..World::of(troubled.clone()) }.status(None);
            let new = World { watched: 2, ..World::of(troubled) }.status(Some(&old));
            assert_eq!(differs(Some(&old), &new), Change::CountOnly);
        }
    }

    #[test]
    fn anything_else_is_substantial() {
        let base = || World { watched: 12, ..World::of([crashing("shop", "cart", "OOMKilled", 50)]) };
        let old = base().status(None);
        let restarted = {
            let mut world = base();
            world.pods[0].1.containers[0].restarts += 1;
            world
        };
        let changed = [
            ("the generation", World { generation: 4, ..base() }),
            ("an unreadable pod", World { unreadable: Some((1, "a/b (no JSON)".to_owned())), ..base() }),
            ("another pod", World { watched: 12, ..World::of([crashing("shop", "pay", "OOMKilled", 50)]) }),
            ("a recovery", World { watched: 12, ..World::default() }),
            ("a restart", restarted),
        ];
        for (what, world) in changed {
            assert_eq!(differs(Some(&old), &world.status(Some(&old))), Change::Substantial, "{what}");
        }
        assert_eq!(
            differs(Some(&old), &not_watching(&NotWatching::Syncing, 3, Some(&old), at(900))),
            Change::Substantial
        );
    }

    #[test]
    fn incidents_begin_and_end() {
        let old = World::of([crashing("shop", "cart", "OOMKilled", 50), crashing("shop", "pay", "Error", 40)]);
        let new = World::of([crashing("shop", "pay", "Error", 40), crashing("shop", "web", "Error", 60)]);
        let old = old.status(None);
        let new = new.status(Some(&old));
        let found = transitions(Some(&old), &new);
        assert_eq!(
            (keys(&found.began), keys(&found.ended)),
            (vec!["shop/web".to_owned()], vec!["shop/cart".to_owned()])
        );
        assert_eq!(keys(&transitions(None, &new).began), ["shop/web", "shop/pay"]);
        assert_eq!(transitions(Some(&new), &new), Transitions::default());
    }

    #[test]
    fn what_is_not_looked_at_has_not_ended() {
        let old = World::of([crashing("shop", "cart", "OOMKilled", 50)]).status(None);
        for state in [NotWatching::Paused, NotWatching::AlertsNotSet, NotWatching::Syncing] {
            assert_eq!(transitions(Some(&old), &not_watching(&state, 3, Some(&old), at(900))), Transitions::default());
        }
        let narrowed = World { generation: 4, ..World::default() }.status(Some(&old));
        assert_eq!(transitions(Some(&old), &narrowed), Transitions::default());
        let recovered = World::default().status(Some(&old));
        assert_eq!(keys(&transitions(Some(&old), &recovered).ended), ["shop/cart"]);
    }

    #[test]
    fn what_the_bound_cuts_has_neither_ended_nor_begun() {
        let seconds = |pods: std::ops::Range<i64>| pods.map(|n| crashing("shop", &format!("d{n:03}"), "Error", n));
        let full = i64::try_from(fit::MAX_INCIDENTS).unwrap();
        let few = World::of(seconds(1..full)).status(None);
        assert_eq!(few.omitted_incidents, 0);
        let many = World::of(seconds(0..full + 5)).status(Some(&few));
        assert_eq!(many.omitted_incidents, 5);

        let grown = transitions(Some(&few), &many);
        assert_eq!(keys(&grown.ended), Vec::<String>::new(), "d001 to d004 were cut");
        assert_eq!(grown.began.len(), 5, "d100 to d104; d000 is not listed");
        let shrunk = transitions(Some(&many), &few);
        assert_eq!(keys(&shrunk.began), Vec::<String>::new(), "d001 to d004 are shown again");
        assert_eq!(shrunk.ended.len(), 5);
    }

    #[test]
    fn times_are_compared_as_they_are_written() {
        let mut world = World::of([crashing("shop", "cart", "OOMKilled", 50)]);
        world.pods[0].1.since = Timestamp::new(50, 987_654_321).unwrap();
        world.now = Timestamp::new(100, 123_456_789).unwrap();
        for finished in [Timestamp::MIN, Timestamp::new(49, 999_999_999).unwrap(), Timestamp::MAX] {
            world.pods[0].1.containers[0].last_termination.as_mut().unwrap().finished = Some(finished);
            let status = world.status(None);
            let read: OrchestrStatus = serde_json::from_str(&serde_json::to_string(&status).unwrap()).unwrap();
            assert_eq!(read, status);
            assert_eq!(differs(Some(&read), &world.status(Some(&read))), Change::None);
        }
    }
}
