//! How severe problems are, and their kinds, which stay the same while the kubelet's reasons change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::open_enum::open_enum;

open_enum! {
    /// The kind of a problem. It is part of an incident's identity, so it does not change while the incident lasts.
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
    } else {
        /// A kind that this version does not know, written by another version.
        Unknown
    }
}

/// Whether a name in a spec is the kind or the reason of a problem. Reasons that alternate during one incident are
/// synonyms: a crash is an Error before it is a CrashLoopBackOff, and a failed pull is an ErrImagePull before its back-off.
pub fn matches_reason(name: &str, kind: ProblemKind, reason: &str) -> bool {
    reason_names(kind, reason).any(|known| known == name)
}

/// The names by which a spec may mean a problem of this kind and reason.
pub fn reason_names(kind: ProblemKind, reason: &str) -> impl Iterator<Item = &str> {
    const SYNONYMS: [[&str; 2]; 2] = [["ErrImagePull", "ImagePullBackOff"], ["Error", "CrashLoopBackOff"]];
    let synonyms = SYNONYMS.into_iter().filter(move |synonyms| synonyms.contains(&reason)).flatten();
    [reason, kind.as_str()].into_iter().chain(synonyms)
}

/// How severe an incident is, from the least to the most. Written in lower case, as the label `severity` of Prometheus' alerts
/// usually is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Someone should look at it, but not at night.
    #[default]
    Warning,
    /// Someone should be called.
    Critical,
}

impl Severity {
    /// The severity of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Info, Self::Warning, Self::Critical].into_iter().find(|severity| severity.as_str() == name)
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}
