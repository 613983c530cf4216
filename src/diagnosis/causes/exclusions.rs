//! Why nodes do not fit, in the words of the scheduler.

use crate::api::Cause;

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

/// Unknown for the reasons that have no code, such as topology spread constraints.
fn cause_of(reason: &str) -> Cause {
    let taints = ["node(s) had untolerated taint", "node(s) had taint"];
    let selectors = [
        "node(s) didn't match Pod's node affinity",
        "node(s) didn't match node selector",
        "node(s) didn't match the requested node name",
    ];
    let pods = [
        "node(s) didn't match pod affinity",
        "node(s) didn't match pod anti-affinity",
        "node(s) didn't satisfy existing pods anti-affinity",
    ];
    let volumes = [
        "node(s) didn't match PersistentVolume's node affinity",
        "node(s) had volume node affinity conflict",
        "node(s) had no available volume zone",
    ];
    let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| reason.starts_with(prefix));
    match () {
        () if starts_with(&["Insufficient ", "Too many pods", "node(s) did not have enough free storage"]) => {
            Cause::InsufficientResources
        }
        () if starts_with(&taints) => Cause::Taints,
        () if reason.starts_with("node(s) were unschedulable") => Cause::NodeCordoned,
        () if starts_with(&selectors) => Cause::NodeSelector,
        () if starts_with(&pods) => Cause::PodAffinity,
        () if starts_with(&volumes) => Cause::VolumeNodeAffinity,
        () if reason.starts_with("node(s) didn't have free ports") => Cause::PortConflict,
        () if reason.starts_with("node(s) didn't find available persistent volumes") => Cause::VolumeUnbound,
        () if reason.contains("bound to non-existent pv(s)") => Cause::VolumeNotFound,
        () => Cause::Unknown,
    }
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
        () if mixes(Cause::InsufficientResources, &earlier) && !considered.iter().any(|own| is_special(&own)) => {
            Cause::InsufficientResources
        }
        () if mixes(Cause::PortConflict, &earlier) => Cause::PortConflict,
        // The nodes that match the selector are not those of the volume, or of the other pods.
        () if mixes(Cause::VolumeNodeAffinity, &[Cause::NodeSelector]) => Cause::VolumeNodeAffinity,
        () if mixes(Cause::PodAffinity, &[Cause::NodeSelector]) => Cause::PodAffinity,
        () => Cause::Unknown,
    }
}
