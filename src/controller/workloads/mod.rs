//! Finds pods that should exist but do not: because of an event, a workload is read, and read again until it has its pods.
//!
//! An event alone proves nothing. A workload misses pods if its status says so, and for as long as it does. After a restart
//! of the operator, the workloads of the incidents in the status are read again. No I/O: the caller starts the reads.

mod failed_creation;
mod key;
mod object;
mod read;
mod report;
mod state;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::{
    api::{AlertPhase, NamespacedName, OrchestrStatus, Owner, Ownership, ProblemKind, is_object_name},
    events::Event,
    pods::Pod,
};

pub(super) use self::{
    failed_creation::is_about_missing_pods,
    key::WorkloadKey,
    read::{WorkloadQuery, WorkloadReading, read},
    report::Reported,
};
use self::{
    failed_creation::{FailedCreation, NO_REFUSAL, Refusal, workload_of},
    key::WorkloadKind,
    state::{Known, Resumed, State},
};

/// The most workloads that are watched for missing pods, in all and in one namespace.
const MOST: usize = 1000;
const MOST_IN_NAMESPACE: usize = 200;
/// The most workloads beyond those that are counted.
const MOST_COUNTED: usize = 10_000;
/// The most owners that are remembered as deleted.
const MOST_GONE: usize = 1024;
/// The most workloads that are remembered as not existing, so that further events about them cause no reads.
const MOST_ABSENT: usize = 512;
/// How long after it had its pods a workload is remembered, because its next event may be counted from an earlier trouble.
const MEMORY: SignedDuration = SignedDuration::from_hours(1);
/// The share of the longest delay between two reads of a workload that each workload causes, so that all of them together
/// need at most four reads a second, which is what the limiter of these requests allows.
const DELAY_EACH: Duration = Duration::from_millis(250);

/// The namespace and the top controller of workloads.
type OwnerKey = (String, Owner);

/// The workloads that could not create pods.
#[derive(Debug, Default)]
pub(super) struct Workloads {
    known: BTreeMap<WorkloadKey, State>,
    /// Workloads that an event named and that do not exist, the most recent last. A UID never returns.
    absent: VecDeque<WorkloadKey>,
    /// Since when the owners with missing pods have missed any.
    open: BTreeMap<OwnerKey, Timestamp>,
    /// The owners whose workloads were deleted while pods were missing, the most recent last.
    gone: VecDeque<OwnerKey>,
    /// Workloads beyond the limits, by namespace.
    omitted: BTreeMap<String, HashSet<WorkloadKey>>,
    next_due: Option<Instant>,
}

impl Workloads {
    /// Takes an event. Returns whether the objects that select its namespace must be reconciled.
    pub(super) fn on_event(&mut self, event: &Event, now: Instant, wall: Timestamp) -> bool {
        let Some(key) = workload_of(event).filter(|key| !self.absent.contains(key)) else { return false };
        if !self.known.contains_key(&key) && !self.has_room(&key) {
            let is_full = self.omitted.values().map(HashSet::len).sum::<usize>() >= MOST_COUNTED;
            return !is_full && self.omitted.entry(key.namespace.clone()).or_default().insert(key);
        }
        if let Some(omitted) = self.omitted.get_mut(&key.namespace) {
            omitted.remove(&key);
        }
        let state = self.known.entry(key).or_insert_with(|| State::new(now));
        let is_changed = state.add(FailedCreation::new(event, wall), now);
        self.update_next_due();
        is_changed
    }

    /// Whether the controller of this pod has lacked pods.
    pub(super) fn is_watched(&self, pod: &Pod) -> bool {
        of_namespace(&self.known, &pod.namespace).any(|(key, _)| is_controller(key, pod))
    }

    /// A pod appeared or vanished: its controller may lack fewer pods now, or more.
    pub(super) fn pods_changed(&mut self, pod: &Pod, now: Instant) {
        let keys = of_namespace(&self.known, &pod.namespace).map(|(key, _)| key);
        let keys: Vec<_> = keys.filter(|key| is_controller(key, pod)).cloned().collect();
        for key in keys {
            self.known.entry(key).and_modify(|state| state.pods_changed(now));
            self.update_next_due();
        }
    }

    /// Continues the incidents of missing pods in the status of an object, after a restart of the operator. Alerts last
    /// longer than the list of incidents, which may be cut: their workloads are read, and reported if pods are missing.
    pub(super) fn resume(&mut self, object: &NamespacedName, status: &OrchestrStatus, now: Instant) {
        for incident in status.incidents.iter().filter(|incident| incident.kind == ProblemKind::Missing) {
            let resumed = Resumed {
                at: now,
                objects: vec![object.clone()],
                owner: incident.owner.clone(),
                missing: incident.pods.try_into().unwrap_or_default(),
                of: incident.of.try_into().unwrap_or_default(),
                refusal: Refusal::from_sentence(&incident.namespace, incident.cause, &incident.message),
                since: incident.since.0,
                ownership: Ownership::listed(incident).non_empty(),
            };
            self.resume_workloads(&incident.namespace, &incident.controllers, &resumed, now);
        }
        let listed: HashSet<&str> = status.incidents.iter().map(|incident| incident.key.as_str()).collect();
        let alerts = status.webhooks.iter().flat_map(|webhook| &webhook.alerts).filter(|alert| {
            let is_open = alert.kind == ProblemKind::Missing && alert.phase != AlertPhase::Resolved;
            is_open && !listed.contains(alert.key.as_str())
        });
        for alert in alerts {
            let resumed = Resumed {
                at: now,
                objects: vec![object.clone()],
                owner: alert.owner.clone(),
                missing: 0,
                of: 0,
                refusal: NO_REFUSAL.clone(),
                since: alert.since.0,
                ownership: None,
            };
            self.resume_workloads(&alert.namespace, &alert.controllers, &resumed, now);
        }
        self.update();
    }

    /// Plans to read the controllers of an incident, or its owner if that creates its pods itself.
    fn resume_workloads(&mut self, namespace: &str, controllers: &[Owner], resumed: &Resumed, now: Instant) {
        let controllers = if controllers.is_empty() { std::slice::from_ref(&resumed.owner) } else { controllers };
        for controller in controllers {
            let Some(kind) = WorkloadKind::from_name(&controller.kind) else { continue };
            if !is_object_name(namespace) || !is_object_name(&controller.name) {
                continue;
            }
            let (namespace, name) = (namespace.to_owned(), controller.name.clone());
            let key = WorkloadKey { namespace, kind, name, uid: String::new() };
            if !self.known.contains_key(&key) && !self.has_room(&key) {
                continue;
            }
            self.known.entry(key).or_insert_with(|| State::new(now)).resume(resumed, now);
        }
    }

    /// Whether a workload of this owner was not read since the restart, so that it is unknown whether it still lacks pods.
    pub(super) fn is_unread(&self, namespace: &str, owner: &Owner) -> bool {
        let unread = |state: &State| matches!(state.known(), Some(Known::Resumed(resumed)) if resumed.owner == *owner);
        self.known.iter().any(|(key, state)| key.namespace == namespace && unread(state))
    }

    /// Forgets what was read. The workloads that events have named are read again; incidents in statuses are resumed.
    pub(super) fn forget_readings(&mut self, now: Instant) {
        // A workload that was resumed from a status is resumed again.
        self.known.retain(|_, state| state.forget_reading(now));
        self.open.clear();
        self.update();
    }

    /// When [`take_due`](Self::take_due) will return a read.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.next_due
    }

    /// The reads to start now.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<WorkloadQuery> {
        if self.next_due.is_none_or(|due| due > now) {
            return Vec::new();
        }
        let due = self.known.iter_mut().filter(|(_, state)| state.due().is_some_and(|due| due <= now));
        let queries = due.map(|(key, state)| WorkloadQuery { key: key.clone(), pod: state.begin_read(now) }).collect();
        self.update_next_due();
        queries
    }

    /// Stores the result of a read. Returns whether the objects that select the namespace must be reconciled.
    pub(super) fn answered(
        &mut self,
        key: &WorkloadKey,
        reading: WorkloadReading,
        now: Instant,
        wall: Timestamp,
    ) -> bool {
        let longest = DELAY_EACH * u32::try_from(self.known.len()).unwrap_or(u32::MAX);
        let Some(mut state) = self.known.remove(key) else { return false };
        let was_reported = state.owner().map(|owner| (key.namespace.clone(), owner.clone()));
        let (mut is_changed, mut key, mut is_gone) = (false, key.clone(), false);
        match reading {
            WorkloadReading::Gone => {
                (is_changed, is_gone) = (was_reported.is_some(), true);
                if !key.uid.is_empty() {
                    self.absent.push_back(key.clone());
                    if self.absent.len() > MOST_ABSENT {
                        self.absent.pop_front();
                    }
                }
            }
            WorkloadReading::Denied(denial) => is_changed = state.denied(denial, now),
            WorkloadReading::Unavailable => state.read_later(longest, now),
            WorkloadReading::Read(workload) => {
                if key.uid.is_empty() {
                    key.uid.clone_from(&workload.uid);
                    // An event may have named the workload before this read.
                    if let Some(known) = self.known.remove(&key) {
                        state.merge(known);
                    }
                }
                is_changed = state.read(key.kind, *workload, longest, now, wall);
            }
        }
        if !is_gone {
            self.known.insert(key, state);
        }
        self.update();
        if let Some(owner) = was_reported.filter(|owner| is_gone && !self.open.contains_key(owner)) {
            self.gone.push_back(owner);
            if self.gone.len() > MOST_GONE {
                self.gone.pop_front();
            }
        }
        is_changed
    }

    /// The owners whose workloads were deleted while pods were missing.
    pub(super) fn gone(&self) -> impl Iterator<Item = (&str, &Owner)> {
        self.gone.iter().map(|(namespace, owner)| (namespace.as_str(), owner))
    }

    /// Forgets workloads in namespaces that no object selects, and those that have had their pods for a while.
    pub(super) fn compact(&mut self, is_selected: impl Fn(&str) -> bool, wall: Timestamp) {
        let mut selected = HashMap::<String, bool>::new();
        self.known.retain(|key, state| {
            let is_selected = match selected.get(&key.namespace) {
                Some(is_selected) => *is_selected,
                None => *selected.entry(key.namespace.clone()).or_insert(is_selected(&key.namespace)),
            };
            state.is_reading() || is_selected && !state.has_been_complete_for(MEMORY, wall)
        });
        let known = &self.known;
        // If there is room, they are added with their next events.
        self.omitted.retain(|namespace, _| {
            is_selected(namespace)
                && (known.len() >= MOST / 2 || in_namespace(known, namespace) >= MOST_IN_NAMESPACE / 2)
        });
        self.update();
    }

    /// Whether another workload can be added. If there are too many, one that has its pods is forgotten.
    fn has_room(&mut self, key: &WorkloadKey) -> bool {
        let is_crowded = in_namespace(&self.known, &key.namespace) >= MOST_IN_NAMESPACE;
        if !is_crowded && self.known.len() < MOST {
            return true;
        }
        // Removing one of another namespace does not make room in a crowded one.
        let mut candidates = self.known.iter().filter(|(own, _)| !is_crowded || own.namespace == key.namespace);
        let Some(complete) = candidates.find(|(_, state)| state.is_complete()).map(|(own, _)| own.clone()) else {
            return false;
        };
        self.known.remove(&complete);
        true
    }

    fn update(&mut self) {
        let mut open = BTreeMap::<OwnerKey, Timestamp>::new();
        for (key, state) in &self.known {
            let (Some(owner), Some(since)) = (state.owner(), state.since()) else { continue };
            let owner = (key.namespace.clone(), owner.clone());
            let before = self.open.get(&owner).copied();
            let first = open.entry(owner).or_insert(since);
            *first = (*first).min(since).min(before.unwrap_or(since));
        }
        self.gone.retain(|owner| !open.contains_key(owner));
        self.open = open;
        self.update_next_due();
    }

    fn update_next_due(&mut self) {
        self.next_due = self.known.values().filter_map(State::due).min();
    }
}

/// Whether a workload controls a pod. An event may name any UID, but only workloads in its own namespace.
fn is_controller(key: &WorkloadKey, pod: &Pod) -> bool {
    !key.uid.is_empty() && pod.controller.as_ref().is_some_and(|controller| controller.uid == key.uid.as_str())
}

fn of_namespace<'a>(
    known: &'a BTreeMap<WorkloadKey, State>,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a WorkloadKey, &'a State)> {
    let (namespace_of_first, kind) = (namespace.to_owned(), WorkloadKind::FIRST);
    let first = WorkloadKey { namespace: namespace_of_first, kind, name: String::new(), uid: String::new() };
    known.range(first..).take_while(move |(key, _)| key.namespace == namespace)
}

fn in_namespace(known: &BTreeMap<WorkloadKey, State>, namespace: &str) -> usize {
    of_namespace(known, namespace).count()
}
