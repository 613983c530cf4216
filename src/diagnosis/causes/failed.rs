//! Explains why a pod as a whole has failed: evictions, preemptions, deadlines, and pods that their node refused.

use crate::{api::Cause, pods::Pod};

use super::{
    super::{
        finding::{Subject, SubjectKind},
        messages, node,
        one_line::{MESSAGE_LIMIT, one_line},
    },
    Found, View,
};

pub(super) fn explain(view: &View<'_>) -> Found {
    let pod = view.pod;
    if let Some(message) = node::trouble(pod) {
        return node_not_ready(pod, message);
    }
    let cause = match pod.reason.as_str() {
        "Evicted" => evicted(&pod.message),
        // Written by the kubelet when a critical pod needs the room.
        "Preempting" => Cause::Preempted,
        "DeadlineExceeded" => Cause::DeadlineExceeded,
        // The kubelet checks some of the scheduler's rules again, and refuses the pod.
        "OutOfcpu" | "OutOfmemory" | "OutOfpods" | "OutOfephemeral-storage" => Cause::InsufficientResources,
        "NodeAffinity" | "MatchNodeSelector" => Cause::NodeSelector,
        "NodePorts" => Cause::PortConflict,
        "TaintToleration" => Cause::Taints,
        _ => {
            if let Some(found) = disruption(pod) {
                return found;
            }
            Cause::Unknown
        }
    };
    let message = one_line(&pod.message, MESSAGE_LIMIT);
    let sentence = match (cause, message.as_str()) {
        (Cause::Unknown, _) if pod.reason.is_empty() && message.is_empty() => {
            "the pod has failed, and its status gives no reason".to_owned()
        }
        (_, "") if pod.reason.is_empty() => String::new(),
        (_, "") => format!("the pod has failed: {}", pod.reason),
        (Cause::NodePressure, message) => format!("{} evicted the pod: {message}", messages::node(pod)),
        (Cause::EphemeralStorageLimit, message) => {
            format!("the pod was evicted because it exceeded a storage limit: {message}")
        }
        (Cause::Preempted, message) => format!("the pod was preempted: {message}"),
        (Cause::DeadlineExceeded, message) => format!("the pod ran into its active deadline: {message}"),
        (_, message) => message.to_owned(),
    };
    Found::new(cause, sentence)
}

pub(super) fn node_not_ready(pod: &Pod, message: String) -> Found {
    // The taint manager deletes pods because of any NoExecute taint, also one that an administrator set.
    let cause =
        if node::is_gone(pod) || node::has_stopped_reporting(pod) { Cause::NodeNotReady } else { Cause::Unknown };
    let found = Found::new(cause, message);
    if cause == Cause::Unknown || pod.node.is_empty() {
        found
    } else {
        found.about(Subject::cluster_wide(SubjectKind::Node, &pod.node))
    }
}

fn evicted(message: &str) -> Cause {
    let message = message.strip_prefix("Pod was rejected: ").unwrap_or(message);
    let storage = message.contains(" exceeded its local ephemeral storage limit ")
        || message.starts_with("Pod ephemeral local storage usage exceeds the total limit")
        || message.starts_with("Usage of EmptyDir volume ") && message.contains(" exceeds the limit ");
    match () {
        () if storage => Cause::EphemeralStorageLimit,
        () if message.starts_with("The node was low on resource: ")
            || message.starts_with("The node had condition: ") =>
        {
            Cause::NodePressure
        }
        () => Cause::Unknown,
    }
}

/// The disruption that ends the pod, if its condition names one that has a code.
pub(super) fn disruption(pod: &Pod) -> Option<Found> {
    let disruption = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True")?;
    if disruption.reason == "PreemptionByScheduler" {
        return Some(Found::new(Cause::Preempted, "a pod of higher priority took the pod's place on its node"));
    }
    let message = disruption.message.as_str();
    if disruption.reason == "TerminationByKubelet" && message.starts_with("Pod was preempted by Kubelet") {
        return Some(Found::new(Cause::Preempted, "the node preempted the pod to make room for a critical pod"));
    }
    node::trouble(pod).map(|message| node_not_ready(pod, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{diagnosis::Facts, pods::PodCondition};

    #[track_caller]
    fn fails(reason: &str, message: &str, cause: Cause, sentence: &str) {
        let pod = Pod { reason: reason.into(), message: message.into(), phase: "Failed".into(), ..Pod::default() };
        let found = explain(&View { pod: &pod, facts: &Facts::default(), now: jiff::Timestamp::UNIX_EPOCH });
        assert_eq!((found.cause, found.sentence.as_str()), (cause, sentence), "{reason}: {message}");
    }

    #[test]
    fn explains_evictions() {
        fails(
            "Evicted",
            "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ",
            Cause::NodePressure,
            "its node evicted the pod: The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi.",
        );
        fails(
            "Evicted",
            "The node had condition: [DiskPressure]. ",
            Cause::NodePressure,
            "its node evicted the pod: The node had condition: [DiskPressure].",
        );
        for message in [
            "Container app exceeded its local ephemeral storage limit \"1Gi\". ",
            "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ",
            "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". ",
        ] {
            let sentence = format!("the pod was evicted because it exceeded a storage limit: {}", message.trim());
            fails("Evicted", message, Cause::EphemeralStorageLimit, &sentence);
        }
        fails(
            "Evicted",
            "Pod was rejected: The node had condition: [MemoryPressure]. ",
            Cause::NodePressure,
            "its node evicted the pod: Pod was rejected: The node had condition: [MemoryPressure].",
        );
        fails("Evicted", "by hand", Cause::Unknown, "by hand");
        fails("Evicted", "", Cause::Unknown, "the pod has failed: Evicted");
    }

    #[test]
    fn explains_other_ends_of_pods() {
        fails(
            "Preempting",
            "Preempted in order to admit critical pod",
            Cause::Preempted,
            "the pod was preempted: Preempted in order to admit critical pod",
        );
        fails(
            "DeadlineExceeded",
            "Pod was active on the node longer than the specified deadline",
            Cause::DeadlineExceeded,
            "the pod ran into its active deadline: Pod was active on the node longer than the specified deadline",
        );
        fails(
            "OutOfcpu",
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 900, capacity: 4000",
            Cause::InsufficientResources,
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 900, capacity: 4000",
        );
        fails(
            "NodeLost",
            "Node n which was running pod is unresponsive",
            Cause::NodeNotReady,
            "its node is gone (NodeLost)",
        );
        fails("UnexpectedAdmissionError", "Allocate failed", Cause::Unknown, "Allocate failed");
        fails("", "", Cause::Unknown, "the pod has failed, and its status gives no reason");
    }

    #[test]
    fn explains_disruptions() {
        let disrupted = |reason: &str, status: &str, message: &str| {
            let condition = PodCondition {
                kind: "DisruptionTarget".into(),
                status: status.into(),
                reason: reason.into(),
                message: message.into(),
                since: None,
            };
            let pod = Pod { conditions: vec![condition], ..Pod::default() };
            disruption(&pod).map(|found| found.cause)
        };
        assert_eq!(disrupted("PreemptionByScheduler", "True", ""), Some(Cause::Preempted));
        assert_eq!(disrupted("PreemptionByScheduler", "False", ""), None);
        assert_eq!(disrupted("TerminationByKubelet", "True", "The node was low on resource: memory."), None);
        let critical = "Pod was preempted by Kubelet to accommodate a critical pod.";
        assert_eq!(disrupted("TerminationByKubelet", "True", critical), Some(Cause::Preempted));
        assert_eq!(disrupted("DeletionByPodGC", "True", ""), Some(Cause::NodeNotReady));
        assert_eq!(disrupted("DeletionByTaintManager", "True", ""), Some(Cause::Unknown), "its taint is not known");
        assert_eq!(disrupted("EvictionByEvictionAPI", "True", "Eviction API: evicting"), None);
    }
}
