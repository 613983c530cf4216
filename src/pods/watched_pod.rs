//! A pod as a list or watch returns it: decoded, or at least named.

use std::fmt;

use super::{Pod, Uid, pod::LIST_LIMIT};

/// An item of a list or watch. A pod that cannot be decoded does not fail the whole list.
#[derive(Clone, Debug)]
pub struct WatchedPod {
    pub pod: Result<Box<Pod>, UndecodablePod>,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

impl WatchedPod {
    #[must_use]
    pub fn uid(&self) -> Uid {
        self.pod.as_ref().map_or_else(|pod| pod.uid, |pod| pod.uid)
    }
}

/// A pod that could not be decoded. Its metadata is set as far as it could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndecodablePod {
    pub uid: Uid,
    pub namespace: String,
    pub name: String,
    pub error: DecodeError,
}

impl UndecodablePod {
    /// A pod that was decoded, but for which there is no room.
    pub(crate) fn without_room(pod: &Pod, error: DecodeError) -> Self {
        let (namespace, name) = (pod.namespace.to_string(), pod.name.to_string());
        Self { uid: pod.uid, namespace, name, error }
    }
}

/// `namespace/name`.
impl fmt::Display for UndecodablePod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Why a pod could not be decoded. Names the position but never the content: pods hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The line and column count from 1.
    #[error("{problem} at line {line}, column {column}")]
    Json { problem: &'static str, line: usize, column: usize },
    #[error("a value of the wrong type, or an unexpected end")]
    Protobuf,
    #[error("more than {LIST_LIMIT} labels, containers, conditions or gates")]
    LongList,
    #[error("its containers are too large")]
    TooLarge,
    #[error("its namespace has too many long labels")]
    LongLabels,
    #[error("its namespace has too many pods that may have a problem")]
    NoRoom,
}

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        use serde_json::error::Category;
        let problem = match error.classify() {
            Category::Io | Category::Eof => "an unexpected end",
            Category::Syntax => "invalid JSON",
            Category::Data => "a value of the wrong type",
        };
        Self::Json { problem, line: error.line(), column: error.column() }
    }
}
