//! Explains why a pod is not scheduled, from the scheduler's message.
//!
//! The scheduler checks each node in a fixed order and names the first reason that excludes it:
//! `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint {gpu: }. preemption: …`.

use crate::api::Cause;

use super::{
    super::{
        finding::Basis,
        one_line::{MESSAGE_LIMIT, one_line},
    },
    Found, View,
    evidence::text,
    parse::quoted,
};

/// More of a message is not read.
const READ_LIMIT: usize = 4 * MESSAGE_LIMIT;

pub(super) fn explain(view: &View<'_>) -> Found {
    let pod = view.pod;
    let condition = pod.condition("PodScheduled");
    if condition.is_some_and(|condition| condition.reason == "SchedulingGated") {
        let sentence = match pod.scheduling_gates.count() {
            0 => "a scheduling gate holds the pod".to_owned(),
            1 => format!("the scheduling gate {} holds the pod", pod.scheduling_gates),
            _ => format!("the scheduling gates {} hold the pod", pod.scheduling_gates),
        };
        return Found::new(Cause::SchedulingGate, sentence);
    }
    let own = condition.map_or("", |condition| condition.message.as_str());
    let reported = || view.events(&["FailedScheduling"], "").next().map(text).unwrap_or_default();
    let message = if own.is_empty() { reported() } else { own };
    if message.is_empty() {
        return Found::silent("no scheduler has reported on the pod");
    }
    of_message(&one_line(message, READ_LIMIT))
}

fn of_message(message: &str) -> Found {
    if message.contains("binding volumes: ") && message.starts_with("running PreBind plugin \"VolumeBinding\"") {
        return Found::new(Cause::VolumeUnbound, format!("the volumes of the pod could not be bound: {message}"));
    }
    if message.starts_with("no nodes available to schedule pods") {
        return Found::unknown("the cluster has no nodes that the scheduler knows");
    }
    let (nodes, reasons) = match fit_error(message) {
        Some((nodes, reasons)) => (Some(nodes), reasons),
        None => (None, message),
    };
    if let Some(found) = claim(reasons) {
        return found;
    }
    let Some(nodes) = nodes else { return Found::unknown(format!("the pod cannot be scheduled: {message}")) };
    let exclusions = exclusions(reasons);
    // The scheduler does not check the resources of a node that it has excluded for another reason.
    let among = |cause: Cause| match nodes {
        1 => "the only node".to_owned(),
        _ if exclusions.iter().any(|exclusion| exclusion.cause != cause) => "none of the other nodes".to_owned(),
        nodes => format!("none of {nodes} nodes"),
    };
    let (cause, sentence) = match decide(&exclusions) {
        Cause::InsufficientResources => {
            let verb = if nodes == 1 { "lacks" } else { "has" };
            let resources = resources(&exclusions);
            let what = if nodes == 1 { format!("free {resources}") } else { format!("enough free {resources}") };
            (Cause::InsufficientResources, format!("{} {verb} {what}: {reasons}", among(Cause::InsufficientResources)))
        }
        Cause::Taints => (Cause::Taints, format!("the pod does not tolerate the taints of the nodes: {reasons}")),
        // The affinity to other pods.
        Cause::NodeSelector if exclusions.iter().all(|own| own.cause != Cause::NodeSelector || is_about_pods(own)) => {
            let verb = if nodes == 1 { "does not satisfy" } else { "satisfies" };
            let among = among(Cause::NodeSelector);
            (Cause::NodeSelector, format!("{among} {verb} the affinity or anti-affinity to other pods: {reasons}"))
        }
        Cause::NodeSelector => {
            let verb = if nodes == 1 { "does not match" } else { "matches" };
            let among = among(Cause::NodeSelector);
            (Cause::NodeSelector, format!("{among} {verb} the pod's node selector or affinity: {reasons}"))
        }
        Cause::PortConflict => (Cause::PortConflict, format!("the pod's host port is taken: {reasons}")),
        Cause::VolumeUnbound => (Cause::VolumeUnbound, format!("no PersistentVolume fits the pod's claims: {reasons}")),
        Cause::VolumeNotFound => {
            (Cause::VolumeNotFound, format!("a PersistentVolume of the pod does not exist: {reasons}"))
        }
        _ if nodes == 1 => (Cause::Unknown, format!("the only node does not fit: {reasons}")),
        _ => (Cause::Unknown, format!("none of {nodes} nodes fits: {reasons}")),
    };
    Found::new(cause, sentence).based_on(Basis::State)
}

/// The number of nodes and the reasons in `0/5 nodes are available: REASONS. preemption: …`.
fn fit_error(message: &str) -> Option<(u32, &str)> {
    let (nodes, rest) = message.strip_prefix("0/")?.split_once(" nodes are available: ")?;
    // The rest is about preemption, which does not help either.
    let rest = rest.split_once(" preemption: ").map_or(rest, |(reasons, _)| reasons);
    let reasons = rest.split_once(". ").map_or(rest, |(reasons, _)| reasons);
    Some((nodes.parse().ok()?, reasons.trim_end_matches(['.', ',', ' '])))
}

/// What the scheduler says about the pod's claims, which concerns all nodes.
fn claim(reasons: &str) -> Option<Found> {
    if reasons.contains("pod has unbound immediate PersistentVolumeClaims") {
        return Some(Found::new(Cause::VolumeUnbound, "a PersistentVolumeClaim of the pod is not bound"));
    }
    let (name, rest) = quoted(reasons.strip_prefix("persistentvolumeclaim ")?)?;
    if rest.starts_with(" not found") {
        return Some(Found::new(Cause::VolumeNotFound, format!("the PersistentVolumeClaim {name} does not exist")));
    }
    let (volume, _) = quoted(rest.strip_prefix(" bound to non-existent persistentvolume ")?)?;
    let sentence = format!("the PersistentVolume {volume} of the claim {name} does not exist");
    Some(Found::new(Cause::VolumeNotFound, sentence))
}

/// Why some nodes do not fit.
struct Exclusion<'a> {
    reason: &'a str,
    cause: Cause,
}

/// The parts of `2 Insufficient cpu, 3 node(s) had untolerated taint {gpu: }`.
fn exclusions(reasons: &str) -> Vec<Exclusion<'_>> {
    let mut starts: Vec<usize> = vec![0];
    starts.extend(reasons.match_indices(", ").map(|(at, _)| at + 2).filter(|at| is_count(&reasons[*at..])));
    starts.push(reasons.len() + 2);
    let parts = starts.windows(2).filter_map(|pair| reasons.get(pair[0]..pair[1].saturating_sub(2)));
    parts
        .filter_map(|part| part.split_once(' '))
        .map(|(_, reason)| Exclusion { reason, cause: cause_of(reason) })
        .collect()
}

fn is_count(text: &str) -> bool {
    text.split_once(' ').is_some_and(|(count, _)| !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Unknown for the reasons that have no code, such as topology spread constraints.
fn cause_of(reason: &str) -> Cause {
    let taints = ["node(s) had untolerated taint", "node(s) had taint", "node(s) were unschedulable"];
    let selectors = [
        "node(s) didn't match Pod's node affinity",
        "node(s) didn't match node selector",
        "node(s) didn't match the requested node name",
        "node(s) didn't match pod affinity",
        "node(s) didn't match pod anti-affinity",
        "node(s) didn't satisfy existing pods anti-affinity",
    ];
    let starts_with = |prefixes: &[&str]| prefixes.iter().any(|prefix| reason.starts_with(prefix));
    match () {
        () if starts_with(&["Insufficient ", "Too many pods", "node(s) did not have enough free storage"]) => {
            Cause::InsufficientResources
        }
        () if starts_with(&taints) => Cause::Taints,
        () if starts_with(&selectors) => Cause::NodeSelector,
        () if reason.starts_with("node(s) didn't have free ports") => Cause::PortConflict,
        () if reason.starts_with("node(s) didn't find available persistent volumes") => Cause::VolumeUnbound,
        () if reason.contains("bound to non-existent pv(s)") => Cause::VolumeNotFound,
        () => Cause::Unknown,
    }
}

/// The cause that remains if several kinds of reasons exclude nodes.
fn decide(exclusions: &[Exclusion<'_>]) -> Cause {
    // Control plane nodes are not meant for ordinary pods.
    let is_reserved = |exclusion: &&Exclusion<'_>| {
        let taints = ["{node-role.kubernetes.io/control-plane:", "{node-role.kubernetes.io/master:"];
        exclusion.cause == Cause::Taints && taints.iter().any(|taint| exclusion.reason.contains(taint))
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
    let excluded = [Cause::Taints, Cause::NodeSelector];
    match () {
        () if has(Cause::InsufficientResources)
            && only(&[excluded[0], excluded[1], Cause::InsufficientResources])
            && !considered.iter().any(|exclusion| is_special(&exclusion))
            && !affinity_to_pods(&considered) =>
        {
            Cause::InsufficientResources
        }
        () if has(Cause::PortConflict)
            && only(&[excluded[0], excluded[1], Cause::PortConflict])
            && !affinity_to_pods(&considered) =>
        {
            Cause::PortConflict
        }
        () => Cause::Unknown,
    }
}

/// The affinity to other pods is checked last, so these nodes have passed all other checks.
fn affinity_to_pods(exclusions: &[&Exclusion<'_>]) -> bool {
    exclusions.iter().any(|exclusion| is_about_pods(exclusion))
}

fn is_about_pods(exclusion: &Exclusion<'_>) -> bool {
    exclusion.cause == Cause::NodeSelector && exclusion.reason.contains("affinity rules")
}

/// The names of the resources, for example `cpu and memory`.
fn resources(exclusions: &[Exclusion<'_>]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for exclusion in exclusions.iter().filter(|exclusion| exclusion.cause == Cause::InsufficientResources) {
        let name = match exclusion.reason.strip_prefix("Insufficient ") {
            Some(name) => name,
            None if exclusion.reason.starts_with("Too many pods") => "room for pods",
            None => "storage",
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_messages_of_the_scheduler() {
        const PREEMPTION: &str = " preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.";
        for (reasons, cause, sentence) in [
            (
                "3 Insufficient cpu, 2 Insufficient memory, 5 Too many pods.",
                Cause::InsufficientResources,
                "none of 5 nodes has enough free cpu and memory and room for pods: 3 Insufficient cpu, 2 Insufficient memory, 5 \
                 Too many pods",
            ),
            (
                "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 4 Insufficient nvidia.com/gpu.",
                Cause::InsufficientResources,
                "none of the other nodes has enough free nvidia.com/gpu: 1 node(s) had untolerated taint \
                 {node-role.kubernetes.io/control-plane: }, 4 Insufficient nvidia.com/gpu",
            ),
            (
                "2 node(s) had untolerated taint {gpu: yes}, 3 node(s) had untolerated taint {a/b: c}.",
                Cause::Taints,
                "the pod does not tolerate the taints of the nodes: 2 node(s) had untolerated taint {gpu: yes}, 3 node(s) had \
                 untolerated taint {a/b: c}",
            ),
            (
                "5 node(s) had untolerated taint(s).",
                Cause::Taints,
                "the pod does not tolerate the taints of the nodes: 5 node(s) had untolerated taint(s)",
            ),
            (
                "5 node(s) had taint {key1: value1}, that the pod didn't tolerate.",
                Cause::Taints,
                "the pod does not tolerate the taints of the nodes: 5 node(s) had taint {key1: value1}, that the pod didn't \
                 tolerate",
            ),
            (
                "1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 4 node(s) didn't match Pod's node \
                 affinity/selector.",
                Cause::NodeSelector,
                "none of the other nodes matches the pod's node selector or affinity: 1 node(s) had untolerated taint \
                 {node-role.kubernetes.io/control-plane: }, 4 node(s) didn't match Pod's node affinity/selector",
            ),
            (
                "5 node(s) didn't have free ports for the requested pod ports.",
                Cause::PortConflict,
                "the pod's host port is taken: 5 node(s) didn't have free ports for the requested pod ports",
            ),
            (
                "3 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector.",
                Cause::InsufficientResources,
                "none of the other nodes has enough free cpu: 3 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector",
            ),
            (
                "pod has unbound immediate PersistentVolumeClaims.",
                Cause::VolumeUnbound,
                "a PersistentVolumeClaim of the pod is not bound",
            ),
            (
                "persistentvolumeclaim \"nope\" not found. not found",
                Cause::VolumeNotFound,
                "the PersistentVolumeClaim nope does not exist",
            ),
            (
                "persistentvolumeclaim \"data\" bound to non-existent persistentvolume \"pv-1\".",
                Cause::VolumeNotFound,
                "the PersistentVolume pv-1 of the claim data does not exist",
            ),
            // Any of the two may be the cause.
            (
                "2 node(s) had untolerated taint {gpu: yes}, 3 node(s) didn't match Pod's node affinity/selector.",
                Cause::Unknown,
                "none of 5 nodes fits: 2 node(s) had untolerated taint {gpu: yes}, 3 node(s) didn't match Pod's node \
                 affinity/selector",
            ),
            (
                "2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint {nvidia.com/gpu: }.",
                Cause::Unknown,
                "none of 5 nodes fits: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint {nvidia.com/gpu: }",
            ),
            (
                "5 node(s) didn't match pod topology spread constraints.",
                Cause::Unknown,
                "none of 5 nodes fits: 5 node(s) didn't match pod topology spread constraints",
            ),
        ] {
            for rest in [
                "",
                PREEMPTION,
                " no new claims to deallocate, preemption: 0/5 nodes are available: 5 No preemption victims.",
            ] {
                let found = of_message(&format!("0/5 nodes are available: {reasons}{rest}"));
                assert_eq!((found.cause, found.sentence.as_str()), (cause, sentence), "{reasons}{rest}");
            }
        }
    }

    #[test]
    fn keeps_the_words_of_other_messages() {
        for (message, cause, sentence) in [
            ("oops", Cause::Unknown, "the pod cannot be scheduled: oops"),
            ("0/3 nodes are available", Cause::Unknown, "the pod cannot be scheduled: 0/3 nodes are available"),
            (
                "0/x nodes are available: 1 Insufficient cpu",
                Cause::Unknown,
                "the pod cannot be scheduled: 0/x nodes are available: 1 Insufficient cpu",
            ),
            (
                "0/1 nodes are available: 1 Insufficient cpu.",
                Cause::InsufficientResources,
                "the only node lacks free cpu: 1 Insufficient cpu",
            ),
            ("0/2 nodes are available: .", Cause::Unknown, "none of 2 nodes fits: "),
            (
                "no nodes available to schedule pods",
                Cause::Unknown,
                "the cluster has no nodes that the scheduler knows",
            ),
        ] {
            let found = of_message(message);
            assert_eq!((found.cause, found.sentence.as_str()), (cause, sentence));
        }
        let binding = "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
        assert_eq!(of_message(binding).cause, Cause::VolumeUnbound);
    }
}
