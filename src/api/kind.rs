//! The kinds of problems, which stay the same while the kubelet's reasons change.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kind of a problem. It is part of an incident's identity, so it does not change while the incident lasts.
///
/// The schema does not list the values: an operator that is newer than the installed CRD must still be able to write
/// its status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProblemKind {
    /// A container failed, or keeps failing.
    Crash,
    /// An image cannot be pulled.
    Image,
    /// A container cannot be created or started.
    Start,
    /// The pod as a whole failed, such as by eviction.
    Failed,
    /// The pod runs but is not ready.
    NotReady,
    /// The pod is not scheduled to a node.
    Unschedulable,
    /// The pod is scheduled, but its containers are not created.
    Creating,
    /// An init container is still running.
    Initializing,
    /// The pod's deletion does not complete.
    Terminating,
    /// The pod's node no longer reports.
    NodeLost,
    /// Pods that should exist do not.
    Missing,
    /// A kind that this version does not know, written by another version.
    #[default]
    Unknown,
}

impl ProblemKind {
    /// All kinds that this version reports.
    pub const ALL: [Self; 11] = [
        Self::Crash,
        Self::Image,
        Self::Start,
        Self::Failed,
        Self::NotReady,
        Self::Unschedulable,
        Self::Creating,
        Self::Initializing,
        Self::Terminating,
        Self::NodeLost,
        Self::Missing,
    ];

    /// The name in specs and statuses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Crash => "Crash",
            Self::Image => "Image",
            Self::Start => "Start",
            Self::Failed => "Failed",
            Self::NotReady => "NotReady",
            Self::Unschedulable => "Unschedulable",
            Self::Creating => "Creating",
            Self::Initializing => "Initializing",
            Self::Terminating => "Terminating",
            Self::NodeLost => "NodeLost",
            Self::Missing => "Missing",
            Self::Unknown => "Unknown",
        }
    }

    /// The kind of this name; [`ProblemKind::Unknown`] if this version has none.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name).unwrap_or_default()
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ProblemKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ProblemKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer).map(|name| Self::from_name(&name))
    }
}

impl JsonSchema for ProblemKind {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ProblemKind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string"})
    }
}

/// Whether a name in a spec is the kind or the reason of a problem. Reasons that alternate during one incident are
/// synonyms: a crash is an Error before it is a CrashLoopBackOff, and a failed pull is an ErrImagePull before its back-off.
pub fn matches_reason(name: &str, kind: ProblemKind, reason: &str) -> bool {
    const SYNONYMS: [[&str; 2]; 2] = [["ErrImagePull", "ImagePullBackOff"], ["Error", "CrashLoopBackOff"]];
    name == reason
        || name == kind.as_str()
        || SYNONYMS.iter().any(|synonyms| synonyms.contains(&name) && synonyms.contains(&reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_names_are_accepted() {
        for kind in ProblemKind::ALL {
            assert_eq!(ProblemKind::from_name(kind.as_str()), kind);
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(serde_json::from_str::<ProblemKind>(&json).unwrap(), kind);
        }
        assert_eq!(serde_json::from_str::<ProblemKind>(r#""Newer""#).unwrap(), ProblemKind::Unknown);
    }
}
