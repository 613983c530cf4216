//! Derives the state of a node from a pod on it. Node objects are not read.

use crate::pods::Pod;

use super::messages;

/// A message if the pod shows that its node is gone or no longer reports.
pub(super) fn trouble(pod: &Pod) -> Option<String> {
    let node = messages::node(pod);
    // Written by the node lifecycle controller of older clusters when it deleted a pod.
    if pod.reason == "NodeLost" {
        return Some(format!("{node} is gone (NodeLost)"));
    }
    let disruption = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True");
    match disruption.map(|condition| condition.reason.as_str()) {
        Some("DeletionByPodGC") => return Some(format!("{node} is gone (DeletionByPodGC)")),
        // An administrator may have set the taint on a healthy node.
        Some("DeletionByTaintManager") if !has_stopped_reporting(pod) => {
            return Some(format!("{node} has a taint that evicts the pod (DeletionByTaintManager)"));
        }
        Some("DeletionByTaintManager") => {
            return Some(format!("{node} is not ready or unreachable (DeletionByTaintManager)"));
        }
        _ => {}
    }
    has_stopped_reporting(pod).then(|| format!("{node} has stopped reporting"))
}

/// Whether the node of the pod no longer exists.
pub(super) fn is_gone(pod: &Pod) -> bool {
    let disruption = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True");
    pod.reason == "NodeLost" || disruption.is_some_and(|condition| condition.reason == "DeletionByPodGC")
}

/// Whether the node lifecycle controller has marked the pod as not ready because its node does not report.
pub(super) fn has_stopped_reporting(pod: &Pod) -> bool {
    // The kubelet always sets a reason when Ready is False. When a node stops reporting, the node lifecycle controller
    // sets Ready to False and changes nothing else.
    pod.condition("Ready").is_some_and(|ready| ready.status == "False" && ready.reason.is_empty())
        && pod.is_true("ContainersReady")
}
