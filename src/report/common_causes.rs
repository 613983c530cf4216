//! Finds the causes that several incidents have in common: a node, an image, a registry, or an object that is missing or
//! exhausted.
//!
//! Each problem names at most one subject, which the API has proven to be its cause. Problems have a common cause only if
//! they have the same subject, so unrelated faults are never merged. A subject becomes a common cause if it explains the
//! problems of several owners.
//!
//! Refused credentials are a common cause within one namespace only, because `imagePullSecrets` are objects of the pods'
//! namespace: those of one namespace prove nothing about those of another. A cause that only events show is limited to
//! one namespace as well, because everyone who may create events in a namespace writes their texts: the subject of such a
//! problem is in the namespace of its pod.
//! What explains pods of several namespaces is in the statuses of the pods, which the kubelet, the scheduler and the node
//! controller write.

mod subject;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    api::{self, Cause},
    diagnosis::SubjectKind,
    logs::{Masking, clean_text},
};

use super::{
    identity::{Identity, id},
    incident::{self, MissingPods},
    problem::Problem,
    truncate,
    wire::{count, wire_time},
};

use self::subject::{Subject, Trouble, nodes_by_cause};

/// How many common causes the status lists. Alerts group the incidents of all: a cause that has no room in a list is not
/// over.
const MAX_LISTED: usize = 10;
/// How many common causes have a sentence in alerts.
const MAX_SENTENCES: usize = 100;
/// How many owners a node, an image or a registry must affect: two may fail at the same time by coincidence.
const OWNERS: usize = 3;
/// How many owners an object must affect that is proven to be missing or exhausted.
const OWNERS_OF_MISSING_OBJECT: usize = 2;
/// The longest sentence, in bytes.
const MESSAGE_LIMIT: usize = 512;

/// The common causes of an object, and the incidents that belong to them.
pub(super) struct CommonCauses<'a> {
    /// Those that explain most pods come first.
    causes: Vec<CommonCause<'a>>,
    /// The index of the only common cause of an incident.
    members: HashMap<Identity<'a>, usize>,
}

/// What several incidents have in common.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CommonCause<'a> {
    subject: Subject<'a>,
    /// That of most pods.
    cause: Cause,
    owners: u64,
    pods: u64,
    /// When the first of the problems began.
    since: Timestamp,
    /// Whether one of its problems may have begun before.
    pub(super) since_at_latest: bool,
    /// How many different images cannot be pulled.
    images: usize,
    /// How many pods the node has.
    pods_on_node: u64,
    /// Those of its pods.
    namespaces: BTreeSet<&'a str>,
}

/// What a subject explains.
#[derive(Default)]
struct Explained<'a> {
    owners: HashSet<[&'a str; 3]>,
    pods: u64,
    since: Option<Timestamp>,
    since_at_latest: bool,
    causes: BTreeMap<Cause, u64>,
    /// The owners of the pods whose own statuses show that their node does not report.
    owners_on_silent_node: HashSet<[&'a str; 3]>,
    images: HashSet<&'a str>,
}

/// Finds the common causes. `pods_on_node` returns how many pods a node has.
pub(super) fn find<'a>(
    problems: &[Problem<'a>],
    missing: &'a [MissingPods],
    pods_on_node: &dyn Fn(&str) -> u64,
) -> CommonCauses<'a> {
    let existing = problems.iter().map(Trouble::of_pod);
    let all = existing.chain(missing.iter().map(Trouble::of_missing));
    // Most problems have no subject. Of thousands of these, only the incidents are kept.
    let mut others = HashSet::new();
    let mut troubles: Vec<Trouble<'a>> = Vec::new();
    for trouble in all {
        if trouble.may_have_subject() {
            troubles.push(trouble);
        } else {
            others.insert(trouble.incident);
        }
    }
    let nodes_of_mounts = nodes_by_cause(&troubles);

    // A registry explains more than each of its images, so the images are considered last.
    let mut subjects: Vec<Option<Subject<'a>>> =
        troubles.iter().map(|trouble| trouble.subject(&nodes_of_mounts)).collect();
    let mut causes = qualified(&troubles, &subjects, pods_on_node);
    let listed: HashSet<Subject<'a>> = causes.iter().map(|own| own.subject).collect();
    for (trouble, subject) in troubles.iter().zip(&mut subjects) {
        if subject.is_none_or(|subject| !listed.contains(&subject)) {
            *subject = trouble.image_subject();
        }
    }
    causes.extend(
        qualified(&troubles, &subjects, pods_on_node).into_iter().filter(|own| own.subject.kind == SubjectKind::Image),
    );

    causes.sort_by_key(|own| (Reverse(own.pods), own.subject));
    // A registry is listed once, with the cause that explains more.
    let mut names = HashSet::new();
    causes.retain(|own| names.insert((own.subject.kind, own.subject.namespace, own.subject.name)));
    let members = members(&troubles, &subjects, &causes, others);
    CommonCauses { causes, members }
}

/// The subjects that explain enough to be common causes.
fn qualified<'a>(
    troubles: &[Trouble<'a>],
    subjects: &[Option<Subject<'a>>],
    pods_on_node: &dyn Fn(&str) -> u64,
) -> Vec<CommonCause<'a>> {
    let mut explained: BTreeMap<Subject<'a>, Explained<'a>> = BTreeMap::new();
    for (trouble, subject) in troubles.iter().zip(subjects) {
        if let Some(subject) = subject {
            explained.entry(*subject).or_default().add(trouble);
        }
    }
    let causes = explained.into_iter().filter_map(|(subject, explained)| explained.common_cause(subject, pods_on_node));
    causes.collect()
}

/// Assigns each incident to the common cause of most of its pods, if all of its pods have one. An incident with another
/// pod has another fault as well, and is shown on its own; `others` are such incidents.
fn members<'a>(
    troubles: &[Trouble<'a>],
    subjects: &[Option<Subject<'a>>],
    causes: &[CommonCause<'a>],
    mut others: HashSet<Identity<'a>>,
) -> HashMap<Identity<'a>, usize> {
    let indexes: HashMap<Subject<'a>, usize> =
        causes.iter().enumerate().map(|(index, own)| (own.subject, index)).collect();
    let mut pods: HashMap<Identity<'a>, BTreeMap<usize, u64>> = HashMap::new();
    for (trouble, subject) in troubles.iter().zip(subjects) {
        match subject.and_then(|subject| indexes.get(&subject)) {
            Some(index) => {
                let pods = pods.entry(trouble.incident).or_default().entry(*index).or_default();
                *pods = pods.saturating_add(trouble.pods);
            }
            None => _ = others.insert(trouble.incident),
        }
    }
    pods.into_iter()
        .filter(|(incident, _)| !others.contains(incident))
        .filter_map(|(incident, pods)| {
            let most = pods.into_iter().max_by_key(|(index, pods)| (*pods, Reverse(*index)));
            most.map(|(index, _)| (incident, index))
        })
        .collect()
}

impl<'a> CommonCauses<'a> {
    /// Those that the status lists. Namespaces take turns: first the largest cause of each, then the second of each. A cause
    /// of several namespaces has the best of their places.
    pub(super) fn listed(&self) -> impl Iterator<Item = &CommonCause<'a>> {
        let mut chosen = self.by_turns();
        chosen.truncate(MAX_LISTED);
        chosen.sort_unstable();
        chosen.into_iter().filter_map(|index| self.causes.get(index))
    }

    /// All of them for alerts. Only the first have a sentence, chosen like those of the status.
    pub(super) fn in_alerts(&self, masking: Option<&Masking<'_>>) -> Vec<Arc<incident::CommonCause>> {
        let with_sentence: HashSet<usize> = self.by_turns().into_iter().take(MAX_SENTENCES).collect();
        let causes = self.causes.iter().enumerate();
        causes.map(|(index, own)| Arc::new(own.in_alerts(masking, with_sentence.contains(&index)))).collect()
    }

    fn by_turns(&self) -> Vec<usize> {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut turns: Vec<(usize, usize)> = Vec::with_capacity(self.causes.len());
        for (index, own) in self.causes.iter().enumerate() {
            let mut first = usize::MAX;
            for namespace in &own.namespaces {
                let place = places.entry(namespace).or_default();
                first = first.min(*place);
                *place += 1;
            }
            turns.push((first, index));
        }
        turns.sort_unstable();
        turns.into_iter().map(|(_, index)| index).collect()
    }

    /// The index of the common cause of an incident.
    pub(super) fn of(&self, incident: &Identity<'a>) -> Option<usize> {
        self.members.get(incident).copied()
    }
}

impl<'a> Explained<'a> {
    fn add(&mut self, trouble: &Trouble<'a>) {
        let Identity { namespace, owner_kind, owner_name, .. } = trouble.incident;
        self.owners.insert([namespace, owner_kind, owner_name]);
        if trouble.explanation.cause == Cause::NodeNotReady {
            self.owners_on_silent_node.insert([namespace, owner_kind, owner_name]);
        }
        self.pods = self.pods.saturating_add(trouble.pods);
        self.since = Some(self.since.map_or(trouble.since, |since| since.min(trouble.since)));
        self.since_at_latest |= trouble.since_at_latest;
        let pods = self.causes.entry(trouble.explanation.cause).or_default();
        *pods = pods.saturating_add(trouble.pods);
        self.images.insert(trouble.image_name());
    }

    fn common_cause(self, subject: Subject<'a>, pods_on_node: &dyn Fn(&str) -> u64) -> Option<CommonCause<'a>> {
        let owners = self.owners.len();
        let namespaces = self.owners.iter().map(|[namespace, ..]| *namespace).collect();
        let pods_on_node = if subject.kind == SubjectKind::Node { pods_on_node(subject.name) } else { 0 };
        let is_common = match subject.kind {
            // The node controller marks the pods itself. It leaves out those that had not been ready before, so their number
            // says nothing.
            SubjectKind::Node if self.owners_on_silent_node.len() >= OWNERS => true,
            SubjectKind::Node => owners >= OWNERS && pods_on_node > 0 && self.pods.saturating_mul(2) > pods_on_node,
            SubjectKind::Image => owners >= OWNERS,
            SubjectKind::Registry => owners >= OWNERS && self.images.len() > 1,
            SubjectKind::ConfigMap | SubjectKind::Secret | SubjectKind::ResourceQuota | SubjectKind::StorageClass => {
                owners >= OWNERS_OF_MISSING_OBJECT
            }
        };
        let (cause, _) = self.causes.into_iter().max_by_key(|(cause, pods)| (*pods, Reverse(*cause)))?;
        is_common.then_some(CommonCause {
            subject,
            cause,
            owners: owners as u64,
            pods: self.pods,
            since: self.since?,
            since_at_latest: self.since_at_latest,
            images: self.images.len(),
            // An evicted pod may be gone from the node.
            pods_on_node: pods_on_node.max(self.pods),
            namespaces,
        })
    }
}

impl CommonCause<'_> {
    /// The kind, such as Node.
    fn kind(&self) -> &'static str {
        self.subject.kind.as_str()
    }

    fn full_name(&self) -> String {
        let name = truncate::shown_name(self.subject.name);
        match self.subject.namespace {
            "" => name,
            namespace => format!("{namespace}/{name}"),
        }
    }

    /// The common cause as alerts contain it.
    fn in_alerts(&self, masking: Option<&Masking<'_>>, with_sentence: bool) -> incident::CommonCause {
        let parts = ["CommonCause", self.kind(), self.subject.namespace, self.subject.name];
        incident::CommonCause {
            key: id(&parts).key(),
            kind: self.kind().to_owned(),
            namespace: self.subject.namespace.to_owned(),
            name: truncate::shown_name(self.subject.name),
            cause: self.cause,
            message: if with_sentence { self.message(masking) } else { String::new() },
        }
    }

    /// The common cause as the status lists it.
    pub(super) fn in_status(&self, masking: Option<&Masking<'_>>) -> api::CommonCause {
        api::CommonCause {
            kind: self.kind().to_owned(),
            name: self.full_name(),
            owners: count(self.owners),
            pods: count(self.pods),
            since: wire_time(self.since),
            since_at_latest: false,
            message: self.message(masking),
        }
    }

    /// For example "node-7 does not report: 9 of its 10 pods, of 4 owners, are not ready".
    fn message(&self, masking: Option<&Masking<'_>>) -> String {
        let (name, full_name) = (truncate::shown_name(self.subject.name), self.full_name());
        let affected = format!("{} of {} owners", pods(self.pods), self.owners);
        let text = match self.subject.kind {
            SubjectKind::Node => {
                let (fault, effect) = match self.cause {
                    Cause::NodePressure => ("ran low on a resource", "are affected"),
                    Cause::SandboxFailed => ("cannot set up sandboxes of pods", "cannot start"),
                    Cause::MountFailed => ("cannot mount volumes", "cannot start"),
                    _ => ("does not report", "are not ready"),
                };
                let of = format!("{} of its {}", self.pods, pods(self.pods_on_node));
                format!("{name} {fault}: {of}, of {} owners, {effect}", self.owners)
            }
            SubjectKind::Image => {
                let fault = match self.cause {
                    Cause::ImageNotFound => "does not exist",
                    Cause::ImagePlatform => "does not exist for the platform of the nodes",
                    Cause::ImageNameInvalid => "has an invalid name",
                    Cause::ImageAuth => &format!("is refused to the namespace {}", self.subject.namespace),
                    Cause::ImageRateLimited => "is refused by its registry, which limits the rate of pulls",
                    _ => "cannot be pulled, because its registry cannot be reached",
                };
                format!("image {name} {fault}: {affected} cannot start")
            }
            SubjectKind::Registry => {
                let fault = match self.cause {
                    Cause::ImageRateLimited => "limits the rate of pulls",
                    Cause::ImageAuth => &format!("refuses access to the namespace {}", self.subject.namespace),
                    _ => "cannot be reached",
                };
                format!("registry {name} {fault}: {affected} cannot pull {} images", self.images)
            }
            SubjectKind::ConfigMap | SubjectKind::Secret => {
                let fault = if self.cause == Cause::KeyMissing { "lacks a key" } else { "does not exist" };
                format!("{} {full_name} {fault}: {affected} cannot start", self.kind())
            }
            SubjectKind::ResourceQuota => {
                format!("ResourceQuota {full_name} is exceeded: {affected} cannot be created")
            }
            SubjectKind::StorageClass => {
                let fault = if self.cause == Cause::VolumeNotFound { "does not exist" } else { "provides no volumes" };
                format!("StorageClass {name} {fault}: {affected} wait for a volume")
            }
        };
        clean_text(&text, masking, MESSAGE_LIMIT)
    }
}

fn pods(number: u64) -> String {
    if number == 1 { "1 pod".to_owned() } else { format!("{number} pods") }
}
