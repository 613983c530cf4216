//! The reasons of the Warning events about pods that can explain a problem. All others are dropped as they are read: for
//! instance BackOff, whose text the pod's status contains, and those of policy engines, which report every pod.

/// In alphabetical order.
const REASONS: [&str; 35] = [
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
    "NetworkNotReady",
    "NodeNotReady",
    "Preempted",
    "Preempting",
    "ProbeWarning",
    "ResizeDeferred",
    "ResizeInfeasible",
    "UnexpectedAdmissionError",
    "Unhealthy",
    "VolumeConditionAbnormal",
    "VolumeResizeFailed",
];

/// The reason, if an event with it can explain a pod's problem.
pub(crate) fn known(reason: &str) -> Option<&'static str> {
    REASONS.iter().find(|known| **known == reason).copied()
}
