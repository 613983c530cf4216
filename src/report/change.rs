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
    if !find(new, condition::PODS_HEALTHY).is_some_and(|condition| condition.status != "Unknown") {
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
