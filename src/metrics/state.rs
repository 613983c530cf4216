//! The state of the objects: how many pods have problems, and the incidents. Bounded however many there are.
//!
//! An incident has one series even if several objects report it, with the values of the object that reported it first. At
//! most [`INCIDENTS`] have series; if there are more, namespaces share the places equally. Objects that report the same
//! incidents share one list of them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{clean::label_value, terminations::OTHER};
use crate::{
    api::{CommonCause, NamespacedName, ProblemKind},
    report::{Incident, Report},
};

/// The most incidents with series.
pub(super) const INCIDENTS: usize = 2_000;
/// The most incidents that are known, with or without series. Further ones count as omitted.
const KNOWN: usize = 100_000;
/// The most objects with series.
pub(super) const OBJECTS: usize = 2_000;
/// The most series of problems by namespace and reason: of all objects, and of one.
const PROBLEMS: usize = 4_000;
const PROBLEMS_OF_OBJECT: usize = 256;
/// The most common causes of an object with series.
const COMMON_CAUSES: usize = 10;

/// What an object reports when its pods are known.
#[derive(Debug, Default)]
pub(crate) struct ObjectReport<'a> {
    /// Of the spec. After a change, incidents may begin and end because other pods are selected.
    pub(crate) generation: i64,
    pub(crate) pods: u64,
    pub(crate) problems: Vec<ProblemCount<'a>>,
    pub(crate) common_causes: &'a [CommonCause],
}

/// How many pods of a namespace have a problem with this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProblemCount<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) pods: u64,
}

impl<'a> From<&'a Report<'_>> for ObjectReport<'a> {
    fn from(report: &'a Report<'_>) -> Self {
        let problems = report.pods_by_reason().into_iter();
        Self {
            generation: report.status.observed_generation.unwrap_or_default(),
            pods: u64::try_from(report.status.watched_pods).unwrap_or_default(),
            problems: problems.map(|((namespace, reason), pods)| ProblemCount { namespace, reason, pods }).collect(),
            common_causes: &report.status.common_causes,
        }
    }
}

/// The incidents that began and ended with a report.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) opened: Vec<ProblemKind>,
    pub(super) resolved: Vec<ProblemKind>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// By name, so that a page shows the same ones each time if there are too many.
    objects: BTreeMap<NamespacedName, ObjectState>,
    /// The known incidents. The index of a slot is the incident's ID.
    slots: Vec<Slot>,
    free: Vec<u32>,
    ids: HashMap<u64, u32>,
    /// The slots of each namespace that have series.
    namespaces: HashMap<Arc<str>, BTreeSet<u32>>,
    /// How many series each namespace has. The last one has the most; the smaller name decides a tie.
    by_count: BTreeSet<(usize, Reverse<Arc<str>>)>,
    with_series: usize,
    /// How many namespaces were compared to make room.
    #[cfg(test)]
    comparisons: usize,
    next_object: u64,
    /// The list that was made last.
    latest: Arc<[u32]>,
}

#[derive(Debug)]
struct ObjectState {
    /// Distinguishes objects of the same name.
    number: u64,
    generation: i64,
    pods: u64,
    problems: Arc<[Problem]>,
    common_causes: Arc<[CommonCauseSeries]>,
    /// The IDs of its incidents, sorted.
    incidents: Arc<[u32]>,
    /// How many incidents are left out because too many are known.
    unknown: usize,
}

#[derive(Debug)]
struct Slot {
    key: u64,
    kind: ProblemKind,
    /// How many objects report it; 0: the slot is free.
    reports: u32,
    series: Option<Box<Series>>,
}

#[derive(Debug)]
struct Series {
    labels: Arc<IncidentLabels>,
    pods: u64,
    since: i64,
    /// The object whose values these are. Absent if it does not report the incident any more.
    source: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct IncidentLabels {
    pub(super) namespace: String,
    pub(super) owner_kind: String,
    pub(super) owner_name: String,
    pub(super) container: String,
    pub(super) kind: &'static str,
    pub(super) reason: String,
    pub(super) cause: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) namespace: String,
    pub(super) reason: String,
    pub(super) pods: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommonCauseSeries {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) pods: i64,
}

/// A copy of the state. Its parts are shared, so that it takes little time to make.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) objects: Vec<ObjectSeries>,
    /// How many objects have no series.
    pub(super) omitted_objects: usize,
    pub(super) incidents: Vec<(Arc<IncidentLabels>, u64, i64)>,
    /// How many incidents have no series.
    pub(super) omitted_incidents: usize,
}

#[derive(Debug)]
pub(super) struct ObjectSeries {
    pub(super) name: NamespacedName,
    pub(super) pods: u64,
    pub(super) problems: Arc<[Problem]>,
    pub(super) common_causes: Arc<[CommonCauseSeries]>,
}

impl State {
    pub(super) fn report(
        &mut self,
        object: &NamespacedName,
        report: &ObjectReport<'_>,
        incidents: &[Incident],
    ) -> Changes {
        let previous = self.objects.remove(object);
        let number = previous.as_ref().map_or(self.next_object, |known| known.number);
        if previous.is_none() {
            self.next_object += 1;
        }
        let (mut ids, mut unknown) = (Vec::new(), 0);
        for incident in incidents {
            match self.id(incident) {
                Some(id) => ids.push(id),
                None => unknown += 1,
            }
        }
        ids.sort_unstable();
        ids.dedup();
        let ids = if *self.latest == *ids { Arc::clone(&self.latest) } else { Arc::from(ids) };
        self.latest = Arc::clone(&ids);

        let mut changes = Changes::default();
        let old = previous.as_ref().map_or_else(|| Arc::from([]), |known| Arc::clone(&known.incidents));
        for id in ids.iter().filter(|id| old.binary_search(id).is_err()) {
            let slot = &mut self.slots[*id as usize];
            slot.reports += 1;
            if slot.reports == 1 {
                changes.opened.push(slot.kind);
            }
        }
        for id in old.iter().filter(|id| ids.binary_search(id).is_err()) {
            changes.resolved.extend(self.release(*id, number));
        }
        // After those that are over have made room.
        for incident in incidents {
            if let Some(id) = self.ids.get(&number_of(incident)) {
                self.show(*id, incident, number);
            }
        }
        // What a first report finds has begun before, and after a change of the spec other pods are selected.
        if previous.is_none_or(|known| known.generation != report.generation) {
            changes = Changes::default();
        }
        let limit = (PROBLEMS / (self.objects.len() + 1)).clamp(1, PROBLEMS_OF_OBJECT);
        let state = ObjectState {
            number,
            generation: report.generation,
            pods: report.pods,
            problems: problems(&report.problems, limit),
            common_causes: common_causes(report.common_causes),
            incidents: ids,
            unknown,
        };
        self.objects.insert(object.clone(), state);
        changes
    }

    pub(super) fn withdraw(&mut self, object: &NamespacedName) {
        let Some(known) = self.objects.remove(object) else { return };
        for id in known.incidents.iter() {
            self.release(*id, known.number);
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let objects = self.objects.iter().take(OBJECTS).map(|(name, object)| ObjectSeries {
            name: name.clone(),
            pods: object.pods,
            problems: Arc::clone(&object.problems),
            common_causes: Arc::clone(&object.common_causes),
        });
        let series = self.slots.iter().filter_map(|slot| slot.series.as_ref());
        let unknown = self.objects.values().map(|object| object.unknown).max().unwrap_or_default();
        Snapshot {
            objects: objects.collect(),
            omitted_objects: self.objects.len().saturating_sub(OBJECTS),
            incidents: series.map(|own| (Arc::clone(&own.labels), own.pods, own.since)).collect(),
            omitted_incidents: self.ids.len() - self.with_series + unknown,
        }
    }

    /// The ID of an incident; absent if too many are known. A new slot is free until an object is counted.
    fn id(&mut self, incident: &Incident) -> Option<u32> {
        let key = number_of(incident);
        if let Some(id) = self.ids.get(&key) {
            return Some(*id);
        }
        if self.ids.len() >= KNOWN {
            return None;
        }
        let slot = Slot { key, kind: incident.kind, reports: 0, series: None };
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).ok()?
            }
        };
        self.ids.insert(key, id);
        Some(id)
    }

    /// Updates the series of an incident, or adds it if there is room.
    fn show(&mut self, id: u32, incident: &Incident, object: u64) {
        match &mut self.slots[id as usize].series {
            Some(series) if series.source.is_none_or(|source| source == object) => {
                series.source = Some(object);
                (series.pods, series.since) = (incident.pods, incident.since.as_second());
                let reason = label_value(&incident.reason);
                if (series.labels.cause, series.labels.reason.as_str()) != (incident.cause.as_str(), reason.as_str()) {
                    let labels = IncidentLabels { reason, cause: incident.cause.as_str(), ..(*series.labels).clone() };
                    series.labels = Arc::new(labels);
                }
            }
            Some(_) => {}
            None => {
                let namespace = label_value(&incident.namespace);
                if !self.make_room(&namespace) {
                    return;
                }
                self.change_slots(&namespace, |slots| slots.insert(id));
                self.with_series += 1;
                let labels = IncidentLabels {
                    namespace,
                    owner_kind: label_value(&incident.owner.kind),
                    owner_name: label_value(&incident.owner.name),
                    container: label_value(&incident.container),
                    kind: incident.kind.as_str(),
                    reason: label_value(&incident.reason),
                    cause: incident.cause.as_str(),
                };
                let series = Series {
                    labels: Arc::new(labels),
                    pods: incident.pods,
                    since: incident.since.as_second(),
                    source: Some(object),
                };
                self.slots[id as usize].series = Some(Box::new(series));
            }
        }
    }

    /// Whether there is room for a series of this namespace. If it has less than its share, a series of the namespace with
    /// the most is removed for it.
    fn make_room(&mut self, namespace: &str) -> bool {
        if self.with_series < INCIDENTS {
            return true;
        }
        let own = self.namespaces.get(namespace).map_or(0, BTreeSet::len);
        let others = self.namespaces.len() - usize::from(own > 0);
        let share = INCIDENTS / (others + 1);
        #[cfg(test)]
        {
            self.comparisons += 1;
        }
        if own >= share {
            return false;
        }
        let Some((_, Reverse(largest))) = self.by_count.last().filter(|(count, _)| *count > share) else {
            return false;
        };
        let Some(evicted) = self.namespaces.get(largest).and_then(|slots| slots.first().copied()) else { return false };
        self.remove_series(evicted);
        true
    }

    fn remove_series(&mut self, slot: u32) {
        let Some(series) = self.slots[slot as usize].series.take() else { return };
        self.with_series -= 1;
        self.change_slots(&series.labels.namespace, |slots| slots.remove(&slot));
    }

    /// Changes which slots of a namespace have series.
    fn change_slots(&mut self, namespace: &str, change: impl FnOnce(&mut BTreeSet<u32>) -> bool) {
        let (name, mut slots) =
            self.namespaces.remove_entry(namespace).unwrap_or_else(|| (Arc::from(namespace), BTreeSet::new()));
        self.by_count.remove(&(slots.len(), Reverse(Arc::clone(&name))));
        change(&mut slots);
        if !slots.is_empty() {
            self.by_count.insert((slots.len(), Reverse(Arc::clone(&name))));
            self.namespaces.insert(name, slots);
        }
    }

    /// An object does not report an incident any more. Returns the incident's kind if no object does.
    fn release(&mut self, id: u32, object: u64) -> Option<ProblemKind> {
        let slot = &mut self.slots[id as usize];
        slot.reports = slot.reports.saturating_sub(1);
        if slot.reports > 0 {
            if let Some(series) = slot.series.as_mut().filter(|series| series.source == Some(object)) {
                series.source = None;
            }
            return None;
        }
        let (key, kind) = (slot.key, slot.kind);
        self.remove_series(id);
        self.ids.remove(&key);
        self.free.push(id);
        Some(kind)
    }
}

/// The key of an incident as a number, which takes less memory.
fn number_of(incident: &Incident) -> u64 {
    u64::from_str_radix(&incident.key, 16).unwrap_or_default()
}

/// The largest counts. The others are added up, so that the sum is exact.
fn problems(counts: &[ProblemCount<'_>], limit: usize) -> Arc<[Problem]> {
    let mut counts = counts.to_vec();
    counts.sort_unstable_by_key(|count| (Reverse(count.pods), count.namespace, count.reason));
    let listed = if counts.len() > limit { limit - 1 } else { counts.len() };
    let mut problems: Vec<Problem> = counts[..listed]
        .iter()
        .map(|count| Problem {
            namespace: label_value(count.namespace),
            reason: label_value(count.reason),
            pods: count.pods,
        })
        .collect();
    // Two series with the same labels would make the page invalid.
    let mut seen = HashSet::new();
    let rest: u64 = counts[listed..].iter().map(|count| count.pods).sum();
    let mut merged = rest;
    problems.retain(|problem| {
        let is_new = seen.insert((problem.namespace.clone(), problem.reason.clone()));
        merged += if is_new { 0 } else { problem.pods };
        is_new
    });
    if merged > 0 {
        problems.push(Problem { namespace: OTHER.to_owned(), reason: OTHER.to_owned(), pods: merged });
    }
    problems.into()
}

fn common_causes(causes: &[CommonCause]) -> Arc<[CommonCauseSeries]> {
    let mut seen = HashSet::new();
    let series = causes.iter().take(COMMON_CAUSES).map(|cause| CommonCauseSeries {
        kind: label_value(&cause.kind),
        name: label_value(&cause.name),
        pods: cause.pods,
    });
    series.filter(|cause| seen.insert((cause.kind.clone(), cause.name.clone()))).collect()
}

#[cfg(test)]
mod tests;
