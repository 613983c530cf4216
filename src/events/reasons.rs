//! The reasons of the events about pods that can explain a problem. All others are dropped as they are read: for instance
//! BackOff, whose text the pod's status contains, and those of policy engines, which report every pod.

/// In alphabetical order.
const REASONS: [&str; 37] = [
    "ContainerProbeWarning",
    "ErrImageNeverPull",
    "Evicted",
    "ExceededGracePeriod",
    "Failed",
    "FailedAttachVolume",
    "FailedCreatePodContainer",
    "FailedCreatePodSandBox",
    "FailedKillPod",
    "FailedMapVolume",
    "FailedMount",
    "FailedMountOnFilesystemMismatch",
    "FailedPodSandBoxStatus",
    "FailedPostStartHook",
    "FailedPreStopHook",
    "FailedPrepareDynamicResources",
    "FailedResourceClaimCreation",
    "FailedScheduling",
    "FailedSync",
    "FailedToRetrieveImagePullSecret",
    "FailedUnmount",
    "FailedValidation",
    "FileSystemResizeFailed",
    "InspectFailed",
    "Killing",
    "NetworkNotReady",
    "NodeNotReady",
    "Preempted",
    "Preempting",
    "ProbeWarning",
    "ProvisioningFailed",
    "ResizeDeferred",
    "ResizeInfeasible",
    "UnexpectedAdmissionError",
    "Unhealthy",
    "VolumeConditionAbnormal",
    "VolumeResizeFailed",
];

/// Whether an event of type Normal can explain a problem. The kubelet also reports that it kills the containers of a deleted
/// pod: `Stopping container app`.
pub(super) fn is_normal_evidence(reason: &[u8], message: &[u8]) -> bool {
    match reason {
        b"FailedPostStartHook" | b"Preempted" => true,
        b"Killing" => !message.starts_with(b"Stopping container "),
        _ => false,
    }
}

/// The reason, if an event with it can explain a pod's problem.
pub(crate) fn known(reason: &str) -> Option<&'static str> {
    REASONS.iter().find(|known| **known == reason).copied()
}
