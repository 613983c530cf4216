//! What the problem of a pod, or of missing pods, may have in common with others: the subject that the API has proven to be
//! its cause.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use crate::{
    api::{Cause, ProblemKind},
    diagnosis::{Explanation, SubjectKind},
    pods::Pod,
};

use super::super::{identity::Identity, incident::MissingPods, problem::Problem, truncate, wire::seconds};

/// The registry of images whose names contain none. It answers alike for images that do not exist and for those that
/// require credentials, so a refusal is no evidence about other images.
const DEFAULT_REGISTRY: &str = "docker.io";

/// What problems are compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Subject<'a> {
    pub(super) kind: SubjectKind,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    /// Of a registry only: that it limits the rate of pulls does not explain that it refuses credentials.
    pub(super) cause: Cause,
}

/// One problem, as far as it matters here.
pub(super) struct Trouble<'a> {
    pub(super) incident: Identity<'a>,
    pub(super) kind: ProblemKind,
    pub(super) explanation: &'a Explanation,
    /// Empty if no kubelet has reported on the pod: who creates a pod may write any name of a node into it.
    pub(super) node: &'a str,
    pub(super) image: &'a str,
    pub(super) since: Timestamp,
    pub(super) since_at_latest: bool,
    pub(super) pods: u64,
}

/// The nodes with pods of each cause that may or may not be the node's fault.
pub(super) type NodesByCause<'a> = HashMap<(Cause, &'a str), HashSet<&'a str>>;

/// By cause and namespace: what the events of one namespace say must not contradict those of another.
pub(super) fn nodes_by_cause<'a>(troubles: &[Trouble<'a>]) -> NodesByCause<'a> {
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

impl<'a> Trouble<'a> {
    pub(super) fn of_pod(problem: &Problem<'a>) -> Self {
        let Problem { pod, finding, since, .. } = problem;
        Self {
            incident: problem.identity(),
            kind: finding.kind,
            explanation: &finding.explanation,
            node: if is_reported(pod) { truncate::name(&pod.node) } else { "" },
            image: image(pod, &finding.container),
            since: *since,
            since_at_latest: finding.since_at_latest,
            pods: 1,
        }
    }

    pub(super) fn of_missing(missing: &'a MissingPods) -> Self {
        Self {
            incident: Identity::of_missing(missing),
            kind: ProblemKind::Missing,
            explanation: &missing.explanation,
            node: "",
            image: "",
            since: seconds(missing.since),
            since_at_latest: false,
            pods: missing.missing,
        }
    }

    /// Whether the problem has a subject, whatever the nodes of other problems are.
    pub(super) fn may_have_subject(&self) -> bool {
        let cause = self.explanation.cause;
        is_perhaps_of_node(cause) || self.subject(&NodesByCause::new()).is_some() || self.image_subject().is_some()
    }

    /// What causes the problem, as far as it may affect other pods; not an image.
    pub(super) fn subject(&self, nodes: &NodesByCause<'a>) -> Option<Subject<'a>> {
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
            Cause::QuotaExceeded | Cause::QuotaRequires => self.named(&[SubjectKind::ResourceQuota]),
            Cause::VolumeUnbound | Cause::VolumeNotFound => self.named(&[SubjectKind::StorageClass]),
            _ if self.kind == ProblemKind::NodeLost => self.node_subject(),
            _ => None,
        }
    }

    pub(super) fn image_subject(&self) -> Option<Subject<'a>> {
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

    pub(super) fn image_name(&self) -> &'a str {
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
