//! Causes of problems.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! causes {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Why something is broken. A cause is given only if evidence from the API proves it, otherwise it is Unknown.
        ///
        /// The codes are part of the API. The schema does not list them: an operator that is newer than the installed
        /// CRD must still be able to write its status.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Cause {
            $($(#[$doc])* $name,)*
            /// The API does not prove a cause, or another version of the operator wrote one.
            #[default]
            Unknown,
        }

        impl Cause {
            /// All causes except Unknown.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The code in statuses and alerts.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    Self::Unknown => "Unknown",
                }
            }
        }
    };
}

causes! {
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
    /// The registry limits the rate of pulls.
    ImageRateLimited,
    /// The registry cannot be reached: DNS, connection or TLS.
    RegistryUnreachable,
    /// The image's name cannot be parsed.
    ImageNameInvalid,
    /// The image does not exist for the node's platform.
    ImagePlatform,
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
    /// A PersistentVolumeClaim is not bound.
    VolumeUnbound,
    /// A PersistentVolumeClaim, volume or StorageClass does not exist.
    VolumeNotFound,
    /// A volume cannot be attached or mounted.
    MountFailed,
    /// The pod's sandbox or network cannot be set up.
    SandboxFailed,
    /// No node has enough free resources.
    InsufficientResources,
    /// No node matches the pod's node selector or affinity.
    NodeSelector,
    /// The pod does not tolerate the taints of the nodes.
    Taints,
    /// The host port is taken on the nodes.
    PortConflict,
    /// A scheduling gate holds the pod.
    SchedulingGate,
    /// A ResourceQuota refuses the pod.
    QuotaExceeded,
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
}

impl Cause {
    /// The cause of this code; Unknown if this version has none.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        Self::ALL.iter().copied().find(|cause| cause.as_str() == name).unwrap_or_default()
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Cause {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Cause {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer).map(|name| Self::from_name(&name))
    }
}

impl JsonSchema for Cause {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Cause".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_unknown_codes_are_accepted() {
        for cause in Cause::ALL {
            let json = serde_json::to_string(cause).unwrap();
            assert_eq!(serde_json::from_str::<Cause>(&json).unwrap(), *cause);
        }
        assert_eq!(serde_json::from_str::<Cause>(r#""Newer""#).unwrap(), Cause::Unknown);
    }
}
