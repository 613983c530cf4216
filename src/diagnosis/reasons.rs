//! Known reasons, and how specific each is.

use crate::api::ProblemKind;

/// Reasons that give no cause, the least specific first. Every other reason is more specific.
const VAGUE: [&str; 7] =
    ["Pending", "Failed", "Error", "CrashLoopBackOff", "ImagePullBackOff", "RunContainerError", "CreateContainerError"];

/// Other reasons that Kubernetes and common runtimes use, for detecting typos.
const SPECIFIC: &str = "
    BackoffLimitExceeded Completed ConfigPodSandboxError ContainerCannotRun ContainerCreating ContainerGCFailed
    ContainerStatusUnknown CreateContainerConfigError CreatePodSandboxError DeadlineExceeded DeletionByPodGC
    DeletionByTaintManager ErrImageNeverPull ErrImagePull Evicted EvictionByEvictionAPI FailedCreate ImageInspectError
    InitContainerError Initializing InvalidImageName InvalidNodeInfo KillContainerError KillPodSandboxError
    MatchNodeSelector NetworkNotReady NodeAffinity NodeLost NodeName NodePorts NodeShutdown NodeUnschedulable NotReady
    OOMKilled OutOfcpu OutOfephemeral-storage OutOfmemory OutOfpods PodInitializing PodOSNotSupported
    PostStartHookError PreCreateHookError PreStartHookError Preempting PreemptionByScheduler RegistryUnavailable
    SchedulingGated SetupNetworkError Shutdown SignatureValidationFailed StartError StuckTerminating TaintToleration
    Terminated TerminationByKubelet TopologyAffinityError UnexpectedAdmissionError Unhealthy Unknown Unschedulable
    VolumeMountsFailed
";

/// A rank: the more specific the reason, the higher.
#[must_use]
pub(crate) fn specificity(reason: &str) -> usize {
    VAGUE.iter().position(|vague| *vague == reason).unwrap_or(VAGUE.len())
}

/// Whether Kubernetes or a common runtime uses this reason. Drivers and runtimes may define others.
#[must_use]
pub(crate) fn is_known_reason(reason: &str) -> bool {
    VAGUE.contains(&reason) || SPECIFIC.split_whitespace().any(|specific| specific == reason)
}

/// The known kind or reason that an unknown name is likely to mean: the same but for upper and lower case, or but for two
/// letters.
#[must_use]
pub(crate) fn near_reason(name: &str) -> Option<&'static str> {
    /// Two letters of a shorter name are most of it.
    const SHORTEST: usize = 5;
    const MOST_EDITS: usize = 2;
    let known = ProblemKind::ALL.iter().map(|kind| kind.as_str()).chain(VAGUE).chain(SPECIFIC.split_whitespace());
    let edits = |known: &str| strsim::levenshtein(&name.to_ascii_lowercase(), &known.to_ascii_lowercase());
    let nearest = known.map(|known| (edits(known), known)).min_by_key(|(edits, _)| *edits);
    let most = if name.len() < SHORTEST { 0 } else { MOST_EDITS };
    nearest.filter(|(edits, _)| *edits <= most).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_causes_above_crash_loops_above_errors() {
        assert!(specificity("Error") < specificity("CrashLoopBackOff"));
        assert!(specificity("CrashLoopBackOff") < specificity("OOMKilled"));
        assert_eq!(specificity("OOMKilled"), specificity("AnythingElse"));
    }

    #[test]
    fn finds_the_reason_that_was_meant() {
        for (name, near) in [
            ("OOMkilled", Some("OOMKilled")),
            ("oom-killed", Some("OOMKilled")),
            ("CrashLoopBackof", Some("CrashLoopBackOff")),
            ("crash", Some("Crash")),
            ("NotRedy", Some("NotReady")),
            ("Bananas", None),
            ("", None),
            ("Eror", None),
        ] {
            assert_eq!(near_reason(name), near, "{name}");
        }
    }

    #[test]
    fn does_not_know_misspelt_reasons() {
        assert!(is_known_reason("ImagePullBackOff") && is_known_reason("Evicted"));
        assert!(!is_known_reason("ImagePullBackof") && !is_known_reason("oomkilled"));
    }
}
