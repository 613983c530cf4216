//! Explains why a pod as a whole has failed: evictions, preemptions, deadlines, and pods that their node refused.

use crate::{api::Cause, pods::Pod};

use super::{
    super::{
        finding::{Subject, SubjectKind},
        messages,
        one_line::{MESSAGE_LIMIT, one_line},
    },
    Case, Found,
    parse::matches,
};

pub(super) fn explain(case: &Case<'_>) -> Found {
    let pod = case.pod;
    if let Some(found) = lost_node(pod) {
        return found;
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

/// What the pod shows about its node if that is gone or no longer reports.
pub(super) fn lost_node(pod: &Pod) -> Option<Found> {
    let (cause, message) = messages::lost_node(pod)?;
    let subject = Subject::cluster_wide(SubjectKind::Node, &pod.node);
    let is_known = cause != Cause::Unknown && !pod.node.is_empty();
    Some(Found { subject: is_known.then_some(subject), ..Found::new(cause, message) })
}

const EVICTIONS: [(&str, Cause); 5] = [
    ("{} exceeded its local ephemeral storage limit {}", Cause::EphemeralStorageLimit),
    ("Pod ephemeral local storage usage exceeds the total limit{}", Cause::EphemeralStorageLimit),
    ("Usage of EmptyDir volume {} exceeds the limit {}", Cause::EphemeralStorageLimit),
    ("The node was low on resource: {}", Cause::NodePressure),
    ("The node had condition: {}", Cause::NodePressure),
];

fn evicted(message: &str) -> Cause {
    let message = message.strip_prefix("Pod was rejected: ").unwrap_or(message);
    let known = EVICTIONS.iter().find(|(pattern, _)| matches(pattern, message));
    known.map_or(Cause::Unknown, |(_, cause)| *cause)
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
    lost_node(pod)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::rows, *};
    use crate::{diagnosis::Facts, pods::PodCondition};

    #[test]
    fn explains_reasons_and_messages_of_failed_pods() {
        let now = jiff::Timestamp::UNIX_EPOCH;
        for [reason, message, cause, sentence] in rows(include_str!("../../../tests/fixtures/messages/failed.tsv")) {
            let pod = Pod { reason: reason.into(), message: message.into(), phase: "Failed".into(), ..Pod::default() };
            let found = explain(&Case { pod: &pod, events: &[], world: &Facts::default(), now });
            assert_eq!((found.cause.as_str(), found.sentence.as_str()), (cause, sentence), "{reason}: {message}");
        }
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
