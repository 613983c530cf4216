//! Why nodes do not fit: in the words of the scheduler, and what the nodes show beyond them.

use crate::{
    api::Cause,
    pods::{NodeTerm, Pod, Requirements},
};

use super::{
    super::{
        cluster_nodes::{ClusterNodes, NodeNames, Taint},
        messages::first_of,
    },
    parse::matches,
};

/// How many terms, and how many taints, a sentence names.
const NAMED: usize = 3;

/// Why some nodes do not fit.
pub(super) struct Exclusion<'a> {
    pub(super) nodes: usize,
    pub(super) reason: &'a str,
    pub(super) cause: Cause,
}

/// The parts of `2 Insufficient cpu, 3 node(s) had untolerated taint {gpu: }`.
pub(super) fn exclusions(reasons: &str) -> Vec<Exclusion<'_>> {
    let mut starts: Vec<usize> = vec![0];
    starts.extend(reasons.match_indices(", ").map(|(at, _)| at + 2).filter(|at| is_count(&reasons[*at..])));
    starts.push(reasons.len() + 2);
    let parts = starts.windows(2).filter_map(|pair| reasons.get(pair[0]..pair[1].saturating_sub(2)));
    parts
        .filter_map(|part| part.split_once(' '))
        .map(|(count, reason)| Exclusion { nodes: count.parse().unwrap_or(0), reason, cause: cause_of(reason) })
        .collect()
}

fn is_count(text: &str) -> bool {
    text.split_once(' ').is_some_and(|(count, _)| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The reasons that have a code. Others, such as topology spread constraints, have none.
const REASONS: [(&str, Cause); 18] = [
    ("Insufficient {}", Cause::InsufficientResources),
    ("Too many pods{}", Cause::InsufficientResources),
    ("node(s) did not have enough free storage{}", Cause::InsufficientResources),
    ("node(s) had untolerated taint{}", Cause::Taints),
    ("node(s) had taint{}", Cause::Taints),
    ("node(s) were unschedulable{}", Cause::NodeCordoned),
    ("node(s) didn't match Pod's node affinity{}", Cause::NodeSelector),
    ("node(s) didn't match node selector{}", Cause::NodeSelector),
    ("node(s) didn't match the requested node name{}", Cause::NodeSelector),
    ("node(s) didn't match pod affinity{}", Cause::PodAffinity),
    ("node(s) didn't match pod anti-affinity{}", Cause::PodAffinity),
    ("node(s) didn't satisfy existing pods anti-affinity{}", Cause::PodAffinity),
    ("node(s) didn't match PersistentVolume's node affinity{}", Cause::VolumeNodeAffinity),
    ("node(s) had volume node affinity conflict{}", Cause::VolumeNodeAffinity),
    ("node(s) had no available volume zone{}", Cause::VolumeNodeAffinity),
    ("node(s) didn't have free ports{}", Cause::PortConflict),
    ("node(s) didn't find available persistent volumes{}", Cause::VolumeUnbound),
    ("{}bound to non-existent pv(s){}", Cause::VolumeNotFound),
];

fn cause_of(reason: &str) -> Cause {
    REASONS.iter().find(|(pattern, _)| matches(pattern, reason)).map_or(Cause::Unknown, |(_, cause)| *cause)
}

/// The cause that remains if several kinds of reasons exclude nodes. `are_taints_reserved` is whether all taints are those of
/// control planes, also if the scheduler does not name them.
pub(super) fn decide(exclusions: &[Exclusion<'_>], are_taints_reserved: bool) -> Cause {
    // Control plane nodes are not meant for ordinary pods.
    let is_reserved = |exclusion: &&Exclusion<'_>| {
        let taints = ["{node-role.kubernetes.io/control-plane:", "{node-role.kubernetes.io/master:"];
        let is_named = || taints.iter().any(|taint| exclusion.reason.contains(taint));
        exclusion.cause == Cause::Taints && (are_taints_reserved || is_named())
    };
    let others: Vec<_> = exclusions.iter().filter(|exclusion| !is_reserved(exclusion)).collect();
    let considered = if others.is_empty() { exclusions.iter().collect() } else { others };
    let has = |cause: Cause| considered.iter().any(|exclusion| exclusion.cause == cause);
    let only = |causes: &[Cause]| considered.iter().all(|exclusion| causes.contains(&exclusion.cause));
    let Some(first) = considered.first() else { return Cause::Unknown };
    if only(&[first.cause]) {
        return first.cause;
    }
    // Nodes that lack a resource or a port have passed the checks of taints and selectors. Nodes with a special resource
    // are often tainted, so a missing toleration may be the cause as well.
    let is_special =
        |exclusion: &&&Exclusion<'_>| exclusion.cause == Cause::InsufficientResources && exclusion.reason.contains('/');
    let mixes = |cause: Cause, others: &[Cause]| {
        has(cause) && considered.iter().all(|exclusion| exclusion.cause == cause || others.contains(&exclusion.cause))
    };
    let earlier = [Cause::Taints, Cause::NodeCordoned, Cause::NodeSelector];
    match () {
        () if mixes(Cause::InsufficientResources, &earlier)
            && !considered.iter().any(|exclusion| is_special(&exclusion)) =>
        {
            Cause::InsufficientResources
        }
        () if mixes(Cause::PortConflict, &earlier) => Cause::PortConflict,
        // The nodes that match the selector are not those of the volume, or of the other pods.
        () if mixes(Cause::VolumeNodeAffinity, &[Cause::NodeSelector]) => Cause::VolumeNodeAffinity,
        () if mixes(Cause::PodAffinity, &[Cause::NodeSelector]) => Cause::PodAffinity,
        () => Cause::Unknown,
    }
}

/// What the nodes show. Nothing if they are not known, or if the scheduler's words are about other nodes than those that there
/// are now: then they were written before a node came or went.
#[derive(Default)]
pub(super) struct Shown {
    /// For example `no node has disk=ssd`.
    pub(super) selector: Option<String>,
    /// For example `the largest node has 2`.
    pub(super) resources: Option<String>,
    /// For example `dedicated=gpu:NoSchedule on gpu-1, gpu-2, gpu-3 and 7 more`.
    pub(super) taints: Option<String>,
    /// Whether the taints are those of control planes only.
    pub(super) are_taints_reserved: bool,
    /// For example `rig-node is cordoned`.
    pub(super) cordoned: Option<String>,
}

/// Whether the nodes may show more than the scheduler says.
pub(super) fn may_show_more(pod: &Pod, exclusions: &[Exclusion<'_>]) -> bool {
    let requirements = pod.requirements.as_deref();
    exclusions.iter().any(|exclusion| match exclusion.cause {
        Cause::NodeCordoned => true,
        Cause::Taints => is_unnamed(exclusion),
        Cause::NodeSelector => {
            requirements.is_some_and(|required| !required.selector.first.is_empty() || !required.affinity.is_empty())
        }
        Cause::InsufficientResources => {
            let resource = lacking(exclusion);
            requirements
                .is_some_and(|required| required.requests.iter().any(|(request, _)| Some(request.as_str()) == resource))
        }
        _ => false,
    })
}

/// The resource that nodes lack.
pub(super) fn lacking<'a>(exclusion: &Exclusion<'a>) -> Option<&'a str> {
    exclusion.reason.strip_prefix("Insufficient ")
}

/// Newer schedulers do not name the taints.
fn is_unnamed(exclusion: &Exclusion<'_>) -> bool {
    exclusion.cause == Cause::Taints && !exclusion.reason.contains('{')
}

impl Shown {
    /// `count` is how many nodes the scheduler says there are.
    pub(super) fn of(pod: &Pod, count: usize, exclusions: &[Exclusion<'_>], nodes: Option<&ClusterNodes>) -> Self {
        let mut shown = Self::default();
        let Some(nodes) = nodes.filter(|nodes| nodes.count() == count) else { return shown };
        let excluded = |cause: Cause| exclusions.iter().filter(move |exclusion| exclusion.cause == cause);
        let number = |cause: Cause| excluded(cause).map(|exclusion| exclusion.nodes).sum::<usize>();
        let requirements = pod.requirements.as_deref();
        if excluded(Cause::NodeSelector).next().is_some() {
            shown.selector = requirements.and_then(|required| selector(required, nodes));
        }
        shown.resources = requirements.and_then(|required| resources(required, exclusions, nodes));
        if nodes.cordoned().count > 0 && number(Cause::NodeCordoned) == nodes.cordoned().count {
            let verb = if nodes.cordoned().count == 1 { "is" } else { "are" };
            shown.cordoned = Some(format!("{} {verb} cordoned", nodes.cordoned()));
        }
        if excluded(Cause::Taints).any(is_unnamed) {
            let tolerations = requirements.map(|required| required.tolerations.clone()).unwrap_or_default();
            let untolerated = nodes.untolerated(&tolerations).unwrap_or_default();
            if untolerated.values().map(|nodes| nodes.count).sum::<usize>() == number(Cause::Taints) {
                shown.are_taints_reserved = untolerated.keys().all(|taint| taint.is_of_control_plane());
                shown.taints = taints(untolerated.into_iter().collect());
            }
        }
        shown
    }

    /// The cause that the nodes prove, whatever else excludes some of them: no node has what the pod requires.
    pub(super) fn proven(&self) -> Cause {
        match (&self.selector, &self.resources) {
            (Some(_), _) => Cause::NodeSelector,
            (None, Some(_)) => Cause::InsufficientResources,
            (None, None) => Cause::Unknown,
        }
    }

    /// All of it, for a pod that different nodes exclude for different reasons.
    pub(super) fn all(&self) -> Option<String> {
        let taints = self.taints.as_ref().map(|taints| format!("the pod does not tolerate {taints}"));
        let all: Vec<_> = taints.into_iter().chain(self.cordoned.clone()).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// Which terms no node has, so that no node matches the pod's node selector or any alternative of its node affinity.
fn selector(requirements: &Requirements, nodes: &ClusterNodes) -> Option<String> {
    let Requirements { selector, affinity, .. } = requirements;
    let mut terms: Vec<&NodeTerm> = selector.first.iter().filter(|term| nodes.none_matches(term)).collect();
    if terms.is_empty() {
        let of_alternatives =
            affinity.iter().map(|alternative| alternative.first.iter().find(|term| nodes.none_matches(term)));
        terms = of_alternatives.collect::<Option<_>>()?;
        terms.dedup();
    }
    let has = |term: &NodeTerm| matches!(&*term.operator, "In" | "Exists");
    let verb = if terms.iter().all(|term| has(term)) { "has" } else { "matches" };
    match terms.as_slice() {
        [] => None,
        [_] if selector.first.len() + affinity.iter().map(|alternative| alternative.first.len()).sum::<usize>()
            == 1 =>
        {
            Some(format!("no node {verb} it"))
        }
        [term] => Some(format!("no node {verb} {term}")),
        terms => Some(format!("no node {verb} any of {}", first_of(terms, NAMED, 0))),
    }
}

/// Which requests exceed what the largest node offers.
fn resources(requirements: &Requirements, exclusions: &[Exclusion<'_>], nodes: &ClusterNodes) -> Option<String> {
    let lacking: Vec<&str> = exclusions.iter().filter_map(lacking).collect();
    let requests: Vec<_> =
        requirements.requests.iter().filter(|(resource, _)| lacking.contains(&resource.as_str())).collect();
    let of = |resource: &str| if requests.len() > 1 { format!(" {resource}") } else { String::new() };
    let exceeding = requests.iter().filter_map(|(resource, request)| {
        let largest = nodes.largest(resource);
        match request.milli() > largest.milli() {
            true if largest.is_zero() && requests.len() == 1 => Some("no node offers any".to_owned()),
            true if largest.is_zero() => Some(format!("no node offers {resource}")),
            true => Some(format!("the largest node has {}{}", largest.short(), of(resource))),
            false => None,
        }
    });
    let exceeding: Vec<_> = exceeding.take(NAMED).collect();
    (!exceeding.is_empty()).then(|| exceeding.join("; "))
}

/// Those of control planes come last: they are not meant for ordinary pods.
fn taints(mut untolerated: Vec<(&Taint, NodeNames)>) -> Option<String> {
    untolerated.sort_by_key(|(taint, _)| taint.is_of_control_plane());
    let taints = untolerated.iter().map(|(taint, nodes)| format!("{taint} on {nodes}"));
    (!untolerated.is_empty()).then(|| first_of(taints, NAMED, 0))
}
