//! What decodes objects, and how watch events, Statuses and texts are decoded.

use std::borrow::Cow;

use bytes::Bytes;
use jiff::Timestamp;
use kube::{
    Resource,
    core::{Status, response::StatusSummary},
};
use prost::Message;

use crate::watch::{collection::WatchEvent, json::INITIAL_EVENTS_END};

use super::{
    message::{self, MAGIC},
    wire::Malformed,
};

/// The longest text of a Status and of the metadata of a list, in bytes.
const TEXT_LIMIT: usize = 4096;

/// Decodes the objects of a collection.
pub trait Decode: Send + Sync + 'static {
    /// The type in the API.
    type Api: Resource<DynamicType = ()>;
    type Object: Send + 'static;

    /// Decodes an object. One that is malformed must not fail the whole list, so there is no error.
    fn decode(raw: Bytes) -> Decoded<Self::Object>;
}

pub struct Decoded<K> {
    pub object: K,
    /// `metadata.resourceVersion`; empty if it could not be read.
    pub resource_version: String,
}

/// Decodes an event of a watch.
pub(crate) fn decode_event<D: Decode>(frame: Bytes) -> Result<WatchEvent<D::Object>, Malformed> {
    let message::WatchEvent { kind, object } = message::WatchEvent::decode(frame)?;
    let message::Unknown { type_meta, raw } = envelope(&object.unwrap_or_default().raw)?;
    let object_kind = type_meta.unwrap_or_default().kind;
    let is_own = object_kind == D::Api::kind(&()).as_bytes();
    match &kind[..] {
        b"ADDED" | b"MODIFIED" if is_own => {
            let Decoded { object, resource_version } = D::decode(raw);
            Ok(WatchEvent::Applied { object, resource_version })
        }
        b"DELETED" if is_own => {
            let Decoded { object, resource_version } = D::decode(raw);
            Ok(WatchEvent::Deleted { object, resource_version })
        }
        b"BOOKMARK" if is_own => {
            let metadata = message::AnyObject::decode(raw)?.metadata.unwrap_or_default();
            let resource_version = status_text(&metadata.resource_version);
            if resource_version.is_empty() {
                return Err(Malformed("a bookmark without a resource version"));
            }
            Ok(WatchEvent::Bookmark {
                resource_version,
                ends_list: metadata.annotations.iter().any(|pair| pair.key == INITIAL_EVENTS_END),
            })
        }
        b"ERROR" if object_kind == "Status" => Ok(WatchEvent::Error(Box::new(message::Status::decode(raw)?.into()))),
        _ => Err(Malformed("an event of another type")),
    }
}

fn envelope(bytes: &Bytes) -> Result<message::Unknown, Malformed> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Malformed("no envelope"));
    }
    Ok(message::Unknown::decode(bytes.slice(MAGIC.len()..))?)
}

/// Decodes a Status in its envelope, if the bytes are one.
pub(crate) fn decode_status(bytes: &Bytes) -> Option<Status> {
    let message::Unknown { type_meta, raw } = envelope(bytes).ok()?;
    if type_meta?.kind != "Status" {
        return None;
    }
    message::Status::decode(raw).ok().map(Into::into)
}

impl From<message::Status> for Status {
    fn from(status: message::Status) -> Self {
        Self {
            status: Some(StatusSummary::Failure),
            code: status.code.try_into().unwrap_or_default(),
            message: status_text(&status.message),
            reason: status_text(&status.reason),
            ..Self::default()
        }
    }
}

/// Go's zero time, and times outside the range of RFC 3339, count as absent.
impl From<message::Time> for Option<Timestamp> {
    fn from(time: message::Time) -> Self {
        Timestamp::from_second(time.seconds?).ok()
    }
}

pub(super) fn status_text(bytes: &[u8]) -> String {
    bounded_text(bytes, TEXT_LIMIT).into_owned()
}

/// A text of at most `limit` bytes; invalid UTF-8 becomes U+FFFD.
pub(crate) fn bounded_text(bytes: &[u8], limit: usize) -> Cow<'_, str> {
    // A character has at most four bytes, so the cut below removes any character that is split here.
    match String::from_utf8_lossy(&bytes[..bytes.len().min(limit + 4)]) {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..text.floor_char_boundary(limit)]),
        Cow::Owned(mut text) => {
            text.truncate(text.floor_char_boundary(limit));
            Cow::Owned(text)
        }
    }
}
