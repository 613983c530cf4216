//! A pod as a list or watch returns it: decoded, or at least named.

use std::fmt;

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use crate::watch::{decode::Decoded, message::bounded_text};

use super::{
    Pod, Requirements, TEXT_LIMIT, Uid,
    convert::uid,
    message::{self, Outline, OutlineMeta, UnscheduledPod},
    pod::LIST_LIMIT,
    requirements,
};

/// An item of a list or watch. A pod that cannot be decoded does not fail the whole list.
#[derive(Clone, Debug)]
pub struct WatchedPod {
    pub pod: Result<Box<Pod>, UndecodablePod>,
}

/// Decodes one pod from JSON.
///
/// # Errors
/// When the text is not JSON, or a field that is used has another type than the API defines.
pub fn from_json(json: &str) -> Result<Pod, DecodeError> {
    convert(&serde_json::from_str(json)?, || serde_json::from_str(json).ok())
}

/// From text in JSON, or from a [`serde_json::Value`].
impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_json(Box::<RawValue>::deserialize(deserializer)?.get()).map_err(D::Error::custom)
    }
}

/// Converts a pod, and if it is not scheduled, what is read of it in a second pass. That matters only for explanations, so
/// it may be missing.
fn convert(message: &message::Pod, unscheduled: impl FnOnce() -> Option<UnscheduledPod>) -> Result<Pod, DecodeError> {
    let mut pod = Pod::from(message);
    if requirements::matter(&pod.node, &pod.phase) {
        pod.requirements = unscheduled().and_then(|unscheduled| Requirements::of(&pod.name, &unscheduled.spec));
    }
    pod.bounded()
}

impl WatchedPod {
    /// Decodes a pod from protobuf. One that is malformed is still named if its metadata precedes the problem, so that it
    /// does not fail the whole list.
    pub(super) fn from_protobuf(raw: Bytes) -> Decoded<Self> {
        let mut message = message::Pod::default();
        let merged = message.merge(raw.clone()).map_err(|_| DecodeError::Protobuf);
        let pod = merged.and_then(|()| convert(&message, || UnscheduledPod::decode(raw).ok()));
        Self::named(pod, &message.metadata.outline())
    }

    /// Decodes a pod from JSON. One that is malformed is named by its metadata.
    ///
    /// # Errors
    /// When the metadata cannot be decoded either.
    pub(super) fn from_json(json: &[u8]) -> serde_json::Result<Decoded<Self>> {
        let (pod, names) = match serde_json::from_slice::<message::Pod>(json) {
            Ok(message) => (convert(&message, || serde_json::from_slice(json).ok()), message.metadata.outline()),
            Err(error) => (Err(error.into()), serde_json::from_slice::<Outline>(json)?.metadata),
        };
        Ok(Self::named(pod, &names))
    }

    fn named(pod: Result<Pod, DecodeError>, names: &OutlineMeta) -> Decoded<Self> {
        let string = |own: &Bytes| bounded_text(own, TEXT_LIMIT).into_owned();
        let pod = pod.map(Box::new).map_err(|error| UndecodablePod {
            uid: uid(&names.uid),
            namespace: string(&names.namespace),
            name: string(&names.name),
            error,
        });
        Decoded { object: Self { pod }, resource_version: string(&names.resource_version) }
    }

    #[must_use]
    pub fn uid(&self) -> Uid {
        self.pod.as_ref().map_or_else(|pod| pod.uid, |pod| pod.uid)
    }
}

impl<'de> Deserialize<'de> for WatchedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let decoded = Self::from_json(raw.get().as_bytes());
        decoded.map(|decoded| decoded.object).map_err(|_| D::Error::custom("an object without metadata"))
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
