//! What the nodes show about a pod that none of them takes, beyond the words of the scheduler.

use crate::{
    api::Cause,
    pods::{NodeTerm, Pod, Requirements},
};

use super::{
    super::cluster_nodes::{ClusterNodes, NodeNames, Taint},
    exclusions::Exclusion,
};

/// How many terms, and how many taints, a sentence names.
const NAMED: usize = 3;

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
    exclusions.iter().any(|own| match own.cause {
        Cause::NodeCordoned => true,
        Cause::Taints => is_unnamed(own),
        Cause::NodeSelector => {
            requirements.is_some_and(|own| !own.selector.first.is_empty() || !own.affinity.is_empty())
        }
        Cause::InsufficientResources => {
            let resource = lacking(own);
            requirements.is_some_and(|own| own.requests.iter().any(|(request, _)| Some(request.as_str()) == resource))
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
        let excluded = |cause: Cause| exclusions.iter().filter(move |own| own.cause == cause);
        let number = |cause: Cause| excluded(cause).map(|own| own.nodes).sum::<usize>();
        let requirements = pod.requirements.as_deref();
        if excluded(Cause::NodeSelector).next().is_some() {
            shown.selector = requirements.and_then(|own| selector(own, nodes));
        }
        shown.resources = requirements.and_then(|own| resources(own, exclusions, nodes));
        if nodes.cordoned().count > 0 && number(Cause::NodeCordoned) == nodes.cordoned().count {
            let verb = if nodes.cordoned().count == 1 { "is" } else { "are" };
            shown.cordoned = Some(format!("{} {verb} cordoned", nodes.cordoned()));
        }
        if excluded(Cause::Taints).any(is_unnamed) {
            let tolerations = requirements.map(|own| own.tolerations.clone()).unwrap_or_default();
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
        let of_alternatives = affinity.iter().map(|own| own.first.iter().find(|term| nodes.none_matches(term)));
        terms = of_alternatives.collect::<Option<_>>()?;
        terms.dedup();
    }
    let has = |term: &NodeTerm| matches!(&*term.operator, "In" | "Exists");
    let verb = if terms.iter().all(|term| has(term)) { "has" } else { "matches" };
    match terms.as_slice() {
        [] => None,
        [_] if selector.first.len() + affinity.iter().map(|own| own.first.len()).sum::<usize>() == 1 => {
            Some(format!("no node {verb} it"))
        }
        [term] => Some(format!("no node {verb} {term}")),
        terms => {
            let named: Vec<_> = terms.iter().take(NAMED).map(ToString::to_string).collect();
            let more = and_more(terms.len() - named.len());
            Some(format!("no node {verb} any of {}{more}", named.join(", ")))
        }
    }
}

/// Which requests exceed what the largest node offers.
fn resources(requirements: &Requirements, exclusions: &[Exclusion<'_>], nodes: &ClusterNodes) -> Option<String> {
    let lacking: Vec<&str> = exclusions.iter().filter_map(lacking).collect();
    let requests: Vec<_> = requirements.requests.iter().filter(|(own, _)| lacking.contains(&own.as_str())).collect();
    let of = |resource: &str| if requests.len() > 1 { format!(" {resource}") } else { String::new() };
    let exceeding = requests.iter().filter_map(|(resource, request)| {
        let largest = nodes.largest(resource)?;
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
    let named: Vec<_> = untolerated.iter().take(NAMED).map(|(taint, nodes)| format!("{taint} on {nodes}")).collect();
    let more = and_more(untolerated.len() - named.len());
    (!named.is_empty()).then(|| format!("{}{more}", named.join(", ")))
}

fn and_more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {count} more") }
}
