//! Causes of problems.

use super::open_enum::open_enum;

open_enum! {
    /// Why something is broken. A cause is given only if evidence from the API proves it, otherwise it is Unknown.
    pub enum Cause {
        /// The container exceeded its memory limit, or its node ran out of memory.
        OutOfMemory,
        /// A process of the container other than the main one was OOM-killed.
        ChildOutOfMemory,
        /// The liveness probe failed, so the kubelet killed the container.
        LivenessProbe,
        /// The startup probe failed, so the kubelet killed the container.
        StartupProbe,
        /// The readiness probe fails.
        ReadinessProbe,
        /// A readiness gate of the pod is not True.
        ReadinessGate,
        /// The postStart hook failed.
        PostStartHook,
        /// The preStop hook runs on after the grace period of the deleted pod, or failed.
        PreStopHook,
        /// The process exited with an error code of its own.
        ExitCode,
        /// The process was ended by a signal.
        Signal,
        /// The process ends successfully, but the pod restarts it.
        Completed,
        /// The registry has no such image or tag.
        ImageNotFound,
        /// The registry refuses the credentials, or requires some.
        ImageAuth,
        /// The registry does not say whether the repository does not exist or requires credentials.
        ImageNotFoundOrPrivate,
        /// The registry limits the rate of pulls.
        ImageRateLimited,
        /// The registry cannot be reached: DNS, connection or TLS.
        RegistryUnreachable,
        /// The image's name cannot be parsed.
        ImageNameInvalid,
        /// The image does not exist for the node's platform.
        ImagePlatform,
        /// The image is not on the node, and the pod's pull policy is Never.
        ImageNeverPull,
        /// A ConfigMap does not exist.
        ConfigMapMissing,
        /// A Secret does not exist.
        SecretMissing,
        /// A ConfigMap or Secret lacks a key.
        KeyMissing,
        /// The runtime did not find the command in the container.
        CommandNotFound,
        /// The command may not be executed.
        PermissionDenied,
        /// The container's security context refuses the image's user.
        SecurityContext,
        /// A PersistentVolumeClaim is not bound.
        VolumeUnbound,
        /// A PersistentVolumeClaim, volume or StorageClass does not exist.
        VolumeNotFound,
        /// The pod's volume is on another node than the pod may run on.
        VolumeNodeAffinity,
        /// A volume cannot be attached or mounted.
        MountFailed,
        /// The pod's sandbox or network cannot be set up.
        SandboxFailed,
        /// No node has enough free resources.
        InsufficientResources,
        /// No node matches the pod's node selector or affinity.
        NodeSelector,
        /// No node satisfies the affinity or anti-affinity of pods.
        PodAffinity,
        /// The pod does not tolerate the taints of the nodes.
        Taints,
        /// The nodes are cordoned.
        NodeCordoned,
        /// The host port is taken on the nodes.
        PortConflict,
        /// A scheduling gate holds the pod.
        SchedulingGate,
        /// A ResourceQuota refuses the pod.
        QuotaExceeded,
        /// A ResourceQuota requires the pod to set a request or limit.
        QuotaRequires,
        /// Pod Security or another admission policy refuses the pod.
        PolicyRefused,
        /// An admission webhook refuses the pod or fails.
        WebhookRefused,
        /// The pod's service account does not exist.
        ServiceAccountMissing,
        /// The node is gone or does not report.
        NodeNotReady,
        /// The node evicted the pod because it ran low on a resource.
        NodePressure,
        /// The pod exceeded its limit of ephemeral storage.
        EphemeralStorageLimit,
        /// A pod of higher priority took its place.
        Preempted,
        /// The pod or its Job ran into its active deadline.
        DeadlineExceeded,
        /// A finalizer holds the deleted pod.
        Finalizer,
        /// A resize cannot be carried out on the node.
        ResizeInfeasible,
    } else {
        /// The API does not prove a cause, or another version of the operator wrote one.
        Unknown
    }
}
