//! The reasons that problems have, and which of two says more.

/// Reasons that say only that something failed, those that say least first. Every other reason says more.
const VAGUE: [&str; 7] =
    ["Pending", "Failed", "Error", "CrashLoopBackOff", "ImagePullBackOff", "RunContainerError", "CreateContainerError"];

/// Reasons beside [`VAGUE`] that Kubernetes and common runtimes use, for noticing typing errors.
const SPECIFIC: [&str; 62] = [
    "BackoffLimitExceeded",
    "Completed",
    "ContainerCannotRun",
    "ContainerCreating",
    "ContainerGCFailed",
    "ContainerStatusUnknown",
    "CreateContainerConfigError",
    "CreatePodSandboxError",
    "ConfigPodSandboxError",
    "KillPodSandboxError",
    "DeadlineExceeded",
    "DeletionByPodGC",
    "DeletionByTaintManager",
    "ErrImageNeverPull",
    "ErrImagePull",
    "Evicted",
    "EvictionByEvictionAPI",
    "FailedCreate",
    "ImageInspectError",
    "Initializing",
    "InitContainerError",
    "InvalidImageName",
    "KillContainerError",
    "MatchNodeSelector",
    "NetworkNotReady",
    "NodeAffinity",
    "NodeLost",
    "NodeName",
    "NodePorts",
    "NodeShutdown",
    "NodeUnschedulable",
    "NotReady",
    "OOMKilled",
    "OutOfcpu",
    "OutOfephemeral-storage",
    "OutOfmemory",
    "OutOfpods",
    "Pending",
    "PodInitializing",
    "PodOSNotSupported",
    "PostStartHookError",
    "PreCreateHookError",
    "PreStartHookError",
    "PreemptionByScheduler",
    "Preempting",
    "RegistryUnavailable",
    "SchedulingGated",
    "SetupNetworkError",
    "Shutdown",
    "SignatureValidationFailed",
    "StartError",
    "StuckTerminating",
    "TaintToleration",
    "Terminated",
    "TerminationByKubelet",
    "TopologyAffinityError",
    "UnexpectedAdmissionError",
    "Unhealthy",
    "Unknown",
    "Unschedulable",
    "VolumeMountsFailed",
    "InvalidNodeInfo",
];

/// How much a reason says: the larger, the more.
#[must_use]
pub fn specificity(reason: &str) -> usize {
    VAGUE.iter().position(|vague| *vague == reason).unwrap_or(VAGUE.len())
}

/// Whether a reason is one that Kubernetes or a common runtime uses. Others may exist: drivers and runtimes make up
/// their own.
#[must_use]
pub fn is_known_reason(reason: &str) -> bool {
    VAGUE.contains(&reason) || SPECIFIC.contains(&reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_says_more_than_a_loop_and_a_loop_more_than_an_error() {
        assert!(specificity("Error") < specificity("CrashLoopBackOff"));
        assert!(specificity("CrashLoopBackOff") < specificity("OOMKilled"));
        assert_eq!(specificity("OOMKilled"), specificity("AnythingElse"));
    }

    #[test]
    fn typing_errors_are_not_known() {
        assert!(is_known_reason("ImagePullBackOff") && is_known_reason("Evicted"));
        assert!(!is_known_reason("ImagePullBackof") && !is_known_reason("oomkilled"));
    }
}
