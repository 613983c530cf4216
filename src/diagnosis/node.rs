//! What a pod tells of its node, for nodes themselves are not read.

use crate::pods::Pod;

use super::messages;

/// In words, that the pod's node is gone or silent, where the pod shows it.
pub(super) fn trouble(pod: &Pod) -> Option<String> {
    let node = messages::node(pod);
    // The node lifecycle controller of older clusters wrote this to pods that it deleted.
    if pod.reason == "NodeLost" {
        return Some(format!("{node} is gone (NodeLost)"));
    }
    let disruption = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True");
    match disruption.map(|condition| condition.reason.as_str()) {
        Some("DeletionByPodGC") => return Some(format!("{node} is gone (DeletionByPodGC)")),
        Some("DeletionByTaintManager") => {
            return Some(format!("{node} is not ready or unreachable (DeletionByTaintManager)"));
        }
        _ => {}
    }
    // The kubelet always gives a reason why Ready is False. Of a node that stopped reporting, the node
    // lifecycle controller turns Ready to False and leaves all else as it stood.
    let silent = pod.condition("Ready").is_some_and(|ready| ready.status == "False" && ready.reason.is_empty())
        && pod.is_true("ContainersReady");
    silent.then(|| format!("{node} has stopped reporting"))
}
