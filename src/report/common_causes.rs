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

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use jiff::Timestamp;

use crate::{
    api::{self, Cause, ProblemKind},
    diagnosis::{Explanation, SubjectKind},
    logs::{Masking, clean_text},
    pods::Pod,
};

use super::{
    identity::{Identity, id},
    incident,
    missing::MissingPods,
    problem::Problem,
    truncate,
    wire::{count, seconds, wire_time},
};

/// How many common causes the status lists. Alerts group the incidents of all: a cause that has no room in a list is not
/// over.
const MAX_LISTED: usize = 10;
/// How many common causes have a sentence in alerts.
const MAX_SENTENCES: usize = 100;
/// The longest sentence, in bytes.
const MESSAGE_LIMIT: usize = 512;
/// How many owners a node, an image or a registry must affect: two may fail at the same time by coincidence.
const OWNERS: usize = 3;
/// How many owners an object must affect that is proven to be missing or exhausted.
const OWNERS_OF_MISSING_OBJECT: usize = 2;
/// The registry of images whose names contain none. It answers alike for images that do not exist and for those that
/// require credentials, so a refusal is no evidence about other images.
const DEFAULT_REGISTRY: &str = "docker.io";

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
    /// How many different images cannot be pulled.
    images: usize,
    /// How many pods the node has.
    pods_on_node: u64,
    /// Those of its pods.
    namespaces: BTreeSet<&'a str>,
}

/// What problems are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Subject<'a> {
    kind: SubjectKind,
    namespace: &'a str,
    name: &'a str,
    /// Of a registry only: that it limits the rate of pulls does not explain that it refuses credentials.
    cause: Cause,
}

/// One problem, as far as it matters here.
struct Trouble<'a> {
    incident: Identity<'a>,
    kind: ProblemKind,
    explanation: &'a Explanation,
    /// Empty if no kubelet has reported on the pod: who creates a pod may write any name of a node into it.
    node: &'a str,
    image: &'a str,
    since: Timestamp,
    pods: u64,
}

/// What a subject explains.
#[derive(Default)]
struct Explained<'a> {
    owners: HashSet<[&'a str; 3]>,
    pods: u64,
    since: Option<Timestamp>,
    causes: BTreeMap<Cause, u64>,
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

/// The nodes with pods of each cause that may or may not be the node's fault.
type NodesByCause<'a> = HashMap<(Cause, &'a str), HashSet<&'a str>>;

/// By cause and namespace: what the events of one namespace say must not contradict those of another.
fn nodes_by_cause<'a>(troubles: &[Trouble<'a>]) -> NodesByCause<'a> {
    let mut nodes = NodesByCause::new();
    for trouble in troubles {
        if is_perhaps_of_node(trouble.explanation.cause) && !trouble.node.is_empty() {
            nodes.entry((trouble.explanation.cause, trouble.incident.namespace)).or_default().insert(trouble.node);
        }
    }
    nodes
}

/// A sandbox or a volume may fail because of the node, but also because of the network or the storage. Only events show it, or
/// what the pod's own spec caused, so it explains pods of one namespace only.
fn is_perhaps_of_node(cause: Cause) -> bool {
    matches!(cause, Cause::SandboxFailed | Cause::MountFailed)
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

impl<'a> Trouble<'a> {
    fn of_pod(problem: &Problem<'a>) -> Self {
        let Problem { pod, finding, since, .. } = problem;
        Self {
            incident: problem.identity(),
            kind: finding.kind,
            explanation: &finding.explanation,
            node: if is_reported(pod) { truncate::name(&pod.node) } else { "" },
            image: image(pod, &finding.container),
            since: *since,
            pods: 1,
        }
    }

    fn of_missing(missing: &'a MissingPods) -> Self {
        Self {
            incident: Identity::of_missing(missing),
            kind: ProblemKind::Missing,
            explanation: &missing.explanation,
            node: "",
            image: "",
            since: seconds(missing.since),
            pods: missing.missing,
        }
    }

    /// Whether the problem has a subject, whatever the nodes of other problems are.
    fn may_have_subject(&self) -> bool {
        let cause = self.explanation.cause;
        is_perhaps_of_node(cause) || self.subject(&NodesByCause::new()).is_some() || self.image_subject().is_some()
    }

    /// What causes the problem, as far as it may affect other pods; not an image.
    fn subject(&self, nodes: &NodesByCause<'a>) -> Option<Subject<'a>> {
        match self.explanation.cause {
            Cause::NodeNotReady | Cause::NodePressure => self.node_subject(),
            // If pods on other nodes have the same problem, the network or the storage may be the cause.
            cause if is_perhaps_of_node(cause) => {
                let namespace = self.incident.namespace;
                let is_only_node = nodes.get(&(cause, namespace)).is_some_and(|nodes| nodes.len() == 1);
                self.node_subject().filter(|_| is_only_node).map(|node| Subject { namespace, ..node })
            }
            Cause::RegistryUnreachable | Cause::ImageRateLimited | Cause::ImageAuth => self.registry_subject(),
            Cause::ConfigMapMissing | Cause::SecretMissing | Cause::KeyMissing => {
                self.named(&[SubjectKind::ConfigMap, SubjectKind::Secret])
            }
            Cause::QuotaExceeded => self.named(&[SubjectKind::ResourceQuota]),
            Cause::VolumeUnbound | Cause::VolumeNotFound => self.named(&[SubjectKind::StorageClass]),
            _ if self.kind == ProblemKind::NodeLost => self.node_subject(),
            _ => None,
        }
    }

    fn image_subject(&self) -> Option<Subject<'a>> {
        let is_of_image = matches!(
            self.explanation.cause,
            Cause::ImageNotFound
                | Cause::ImagePlatform
                | Cause::ImageNameInvalid
                | Cause::ImageAuth
                | Cause::ImageRateLimited
                | Cause::RegistryUnreachable
        );
        let name = self.image_name();
        let namespace = self.namespace_of_image();
        (is_of_image && !name.is_empty())
            .then(|| Subject { namespace, ..Subject::cluster_wide(SubjectKind::Image, name) })
    }

    /// The only namespace whose pods a trouble with an image may explain; empty if it may explain those of all, because the
    /// pod's status shows it. Credentials are those of a namespace.
    fn namespace_of_image(&self) -> &'a str {
        let is_shown = self.explanation.subject.as_deref().is_some_and(|named| named.namespace.is_empty());
        if is_shown && self.explanation.cause != Cause::ImageAuth { "" } else { self.incident.namespace }
    }

    /// The subject of the explanation, if it is of one of these kinds, and not in another namespace than the pod.
    fn named(&self, kinds: &[SubjectKind]) -> Option<Subject<'a>> {
        let named = self.explanation.subject.as_deref().filter(|subject| kinds.contains(&subject.kind))?;
        let (namespace, name) = (named.namespace.as_str(), named.name.as_str());
        let is_own = namespace.is_empty() || namespace == self.incident.namespace;
        is_own.then_some(Subject { kind: named.kind, namespace, name, cause: Cause::Unknown })
    }

    fn node_subject(&self) -> Option<Subject<'a>> {
        (!self.node.is_empty()).then(|| Subject::cluster_wide(SubjectKind::Node, self.node))
    }

    fn registry_subject(&self) -> Option<Subject<'a>> {
        let cause = self.explanation.cause;
        let image = self.image_name();
        let registry = match &self.explanation.subject {
            Some(named) if named.kind == SubjectKind::Registry => named.name.as_str(),
            _ if image.is_empty() => return None,
            _ => registry(image),
        };
        let name = match cause {
            Cause::ImageAuth if registry == DEFAULT_REGISTRY => return None,
            // Credentials are valid for the images of one project.
            Cause::ImageAuth => image.rsplit_once('/').map_or(registry, |(project, _)| project),
            _ => registry,
        };
        let namespace = self.namespace_of_image();
        Some(Subject { cause, namespace, ..Subject::cluster_wide(SubjectKind::Registry, name) })
    }

    fn image_name(&self) -> &'a str {
        match &self.explanation.subject {
            Some(named) if named.kind == SubjectKind::Image => named.name.as_str(),
            _ => self.image,
        }
    }
}

/// Whether a kubelet has written into the pod's status, so that its node exists.
fn is_reported(pod: &Pod) -> bool {
    pod.started.is_some() || !pod.statuses.is_empty() || !pod.init_statuses.is_empty()
}

/// The image of a container; empty if it is unknown.
fn image<'a>(pod: &'a Pod, container: &str) -> &'a str {
    let mut containers = pod.init_containers.iter().chain(&pod.containers);
    containers.find(|spec| spec.name == container).map_or("", |spec| spec.image.as_str())
}

/// The host of an image's registry, with its port.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => DEFAULT_REGISTRY,
    }
}

impl<'a> Subject<'a> {
    fn cluster_wide(kind: SubjectKind, name: &'a str) -> Self {
        Self { kind, namespace: "", name, cause: Cause::Unknown }
    }
}

impl<'a> Explained<'a> {
    fn add(&mut self, trouble: &Trouble<'a>) {
        let Identity { namespace, owner_kind, owner_name, .. } = trouble.incident;
        self.owners.insert([namespace, owner_kind, owner_name]);
        self.pods = self.pods.saturating_add(trouble.pods);
        self.since = Some(self.since.map_or(trouble.since, |since| since.min(trouble.since)));
        let pods = self.causes.entry(trouble.explanation.cause).or_default();
        *pods = pods.saturating_add(trouble.pods);
        self.images.insert(trouble.image_name());
    }

    fn common_cause(self, subject: Subject<'a>, pods_on_node: &dyn Fn(&str) -> u64) -> Option<CommonCause<'a>> {
        let owners = self.owners.len();
        let namespaces = self.owners.iter().map(|[namespace, ..]| *namespace).collect();
        let pods_on_node = if subject.kind == SubjectKind::Node { pods_on_node(subject.name) } else { 0 };
        let is_common = match subject.kind {
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
