//! The state of the objects: how many pods have problems, and the incidents. The index bounds how many pods may have problems,
//! and with that the incidents that are known: a few bytes are kept of each.
//!
//! An incident has one series even if several objects report it, with the values of the object that reported it first. At
//! most [`INCIDENTS`] have series; if there are more, namespaces share the places equally. Objects that report the same
//! incidents share one list of them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use super::labels::{Labels, OTHER, label_value};
use crate::{
    api::{CommonCause, NamespacedName, ProblemKind},
    bounded::WeightedCache,
    report::{Incident, Report},
};

/// The most incidents with series.
pub(super) const INCIDENTS: usize = 2_000;
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

#[derive(Debug)]
pub(super) struct State {
    /// By name, so that a page shows the same ones each time if there are too many.
    objects: BTreeMap<NamespacedName, Object>,
    /// The known incidents by their keys.
    known: HashMap<u64, Known>,
    /// Those with series.
    incidents: WeightedCache<u64, Shown>,
    /// The list that was made last.
    latest: Arc<[u64]>,
}

#[derive(Debug)]
struct Object {
    generation: i64,
    series: Arc<ObjectSeries>,
    /// The keys of its incidents, sorted.
    incidents: Arc<[u64]>,
}

#[derive(Debug)]
struct Known {
    kind: ProblemKind,
    /// How many objects report it.
    reports: u32,
}

#[derive(Debug)]
struct Shown {
    labels: Arc<Labels<7>>,
    pods: u64,
    since: i64,
    /// The object whose values these are. Absent if it does not report the incident any more.
    source: Option<NamespacedName>,
}

/// The series of an object, without the label that names it.
#[derive(Debug)]
pub(super) struct ObjectSeries {
    pub(super) pods: u64,
    pub(super) problems: Vec<(Labels<2>, u64)>,
    pub(super) common_causes: Vec<(Labels<2>, i64)>,
}

/// A copy of the state. Its parts are shared, so that it takes little time to make.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) objects: Vec<(NamespacedName, Arc<ObjectSeries>)>,
    /// How many objects have no series.
    pub(super) omitted_objects: usize,
    /// The labels, the pods and the beginning of each incident.
    pub(super) incidents: Vec<(Arc<Labels<7>>, u64, i64)>,
    /// How many incidents have no series.
    pub(super) omitted_incidents: usize,
}

impl Default for State {
    fn default() -> Self {
        let incidents = WeightedCache::new(INCIDENTS, 0);
        Self { objects: BTreeMap::new(), known: HashMap::new(), incidents, latest: Arc::default() }
    }
}

impl State {
    pub(super) fn report(
        &mut self,
        object: &NamespacedName,
        report: &ObjectReport<'_>,
        incidents: &[Incident],
    ) -> Changes {
        let previous = self.objects.remove(object);
        let mut keys: Vec<u64> = incidents.iter().map(key_of).collect();
        keys.sort_unstable();
        keys.dedup();
        let keys = if *self.latest == *keys { Arc::clone(&self.latest) } else { Arc::from(keys) };
        self.latest = Arc::clone(&keys);

        let (mut changes, mut new) = (Changes::default(), HashSet::new());
        let old = previous.as_ref().map_or_else(Arc::default, |known| Arc::clone(&known.incidents));
        for (key, incident) in incidents.iter().map(|incident| (key_of(incident), incident)) {
            // Once, also if several incidents have the same key.
            if old.binary_search(&key).is_err() && new.insert(key) {
                let known = self.known.entry(key).or_insert(Known { kind: incident.kind, reports: 0 });
                known.reports += 1;
                if known.reports == 1 {
                    changes.opened.push(known.kind);
                }
            }
        }
        for key in old.iter().filter(|key| keys.binary_search(key).is_err()) {
            changes.resolved.extend(self.release(*key, object));
        }
        // After those that are over have made room.
        for incident in incidents {
            self.show(incident, object);
        }
        // Problems found by the first report started earlier, and after a change of the spec other pods are selected.
        if previous.is_none_or(|known| known.generation != report.generation) {
            changes = Changes::default();
        }
        let limit = (PROBLEMS / (self.objects.len() + 1)).clamp(1, PROBLEMS_OF_OBJECT);
        let series = ObjectSeries {
            pods: report.pods,
            problems: problems(&report.problems, limit),
            common_causes: common_causes(report.common_causes),
        };
        let state = Object { generation: report.generation, series: Arc::new(series), incidents: keys };
        self.objects.insert(object.clone(), state);
        changes
    }

    pub(super) fn withdraw(&mut self, object: &NamespacedName) {
        let Some(known) = self.objects.remove(object) else { return };
        for key in known.incidents.iter() {
            self.release(*key, object);
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let objects = self.objects.iter().take(OBJECTS);
        let incidents = self.incidents.values().map(|own| (Arc::clone(&own.labels), own.pods, own.since));
        let incidents: Vec<_> = incidents.collect();
        Snapshot {
            objects: objects.map(|(name, object)| (name.clone(), Arc::clone(&object.series))).collect(),
            omitted_objects: self.objects.len().saturating_sub(OBJECTS),
            omitted_incidents: self.known.len() - incidents.len(),
            incidents,
        }
    }

    /// Updates the series of an incident, or adds it if its namespace has less than its share or there is room.
    fn show(&mut self, incident: &Incident, object: &NamespacedName) {
        let (key, since) = (key_of(incident), incident.since.as_second());
        if let Some(shown) = self.incidents.get_mut(&key) {
            if shown.source.as_ref().is_none_or(|source| source == object) {
                shown.source = Some(object.clone());
                (shown.pods, shown.since) = (incident.pods, since);
                let labels = labels(incident);
                if *shown.labels != labels {
                    shown.labels = Arc::new(labels);
                }
            }
            return;
        }
        let namespace = label_value(&incident.namespace);
        if !self.incidents.has_room(&namespace, 1) {
            return;
        }
        let (labels, source) = (Arc::new(labels(incident)), Some(object.clone()));
        let shown = Shown { labels, pods: incident.pods, since, source };
        self.incidents.insert(key, shown, 1, &namespace);
        while let Some(displaced) = self.incidents.excess() {
            self.incidents.remove(&displaced);
        }
    }

    /// An object does not report an incident any more. Returns the incident's kind if no object does.
    fn release(&mut self, key: u64, object: &NamespacedName) -> Option<ProblemKind> {
        let known = self.known.get_mut(&key)?;
        known.reports = known.reports.saturating_sub(1);
        if known.reports == 0 {
            self.incidents.remove(&key);
            return self.known.remove(&key).map(|known| known.kind);
        }
        if let Some(shown) = self.incidents.get_mut(&key).filter(|shown| shown.source.as_ref() == Some(object)) {
            shown.source = None;
        }
        None
    }
}

/// The key of an incident as a number, which takes less memory.
fn key_of(incident: &Incident) -> u64 {
    u64::from_str_radix(&incident.key, 16).unwrap_or_default()
}

fn labels(incident: &Incident) -> Labels<7> {
    [
        ("namespace", label_value(&incident.namespace)),
        ("owner_kind", label_value(&incident.owner.kind)),
        ("owner_name", label_value(&incident.owner.name)),
        ("container", label_value(&incident.container)),
        ("kind", incident.kind.as_str().into()),
        ("reason", label_value(&incident.reason)),
        ("cause", incident.cause.as_str().into()),
    ]
}

/// The largest counts. The others are added up, so that the sum is exact.
fn problems(counts: &[ProblemCount<'_>], limit: usize) -> Vec<(Labels<2>, u64)> {
    // Names that differ only in characters that are replaced have one series: two with the same labels would make the page
    // invalid.
    let mut by_labels = HashMap::new();
    for count in counts {
        let labels = [("namespace", label_value(count.namespace)), ("reason", label_value(count.reason))];
        *by_labels.entry(labels).or_default() += count.pods;
    }
    let mut problems: Vec<(Labels<2>, u64)> = by_labels.into_iter().collect();
    problems.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    if problems.len() > limit {
        let rest = problems.drain(limit - 1..).map(|(_, pods)| pods).sum();
        problems.push(([("namespace", OTHER.into()), ("reason", OTHER.into())], rest));
    }
    problems
}

fn common_causes(causes: &[CommonCause]) -> Vec<(Labels<2>, i64)> {
    let mut seen = HashSet::new();
    let series = causes.iter().take(COMMON_CAUSES).map(|cause| {
        ([("cause_kind", label_value(&cause.kind)), ("cause_name", label_value(&cause.name))], cause.pods)
    });
    series.filter(|(labels, _)| seen.insert(labels.clone())).collect()
}

#[cfg(test)]
mod tests;
