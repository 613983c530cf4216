//! How objects are decoded, and what pages, watches and their updates consist of, independent of the encoding.

use std::sync::Arc;

use bytes::Bytes;
use kube::{Resource, core::Status};
use serde::de::DeserializeOwned;

use super::message::{AnyObject, AnyObjectMeta, ListMeta, bounded_text};

/// The longest text of a Status and of the metadata of a list, in bytes.
const TEXT_LIMIT: usize = 4096;

/// A bookmark with this annotation ends the initial events of a streaming list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An object with its `metadata.resourceVersion`, which is empty if it could not be read.
#[derive(Debug)]
pub(crate) struct Decoded<K> {
    pub(crate) object: K,
    pub(crate) resource_version: String,
}

type FromJson<K> = dyn Fn(&[u8]) -> serde_json::Result<Decoded<K>> + Send + Sync;

/// Decodes the objects of a collection.
pub(crate) struct Decoder<K> {
    pub(super) from_json: Arc<FromJson<K>>,
    /// Absent for objects that are requested in JSON only.
    pub(super) from_protobuf: Option<FromProtobuf<K>>,
}

/// Decodes objects of one kind. One that is malformed must not fail the whole list, so there is no error.
pub(super) struct FromProtobuf<K> {
    pub(super) kind: String,
    pub(super) decode: fn(Bytes) -> Decoded<K>,
}

impl<K: 'static> Decoder<K> {
    /// Decodes objects of the type `A` of the API from either encoding.
    pub(crate) fn new<A: Resource<DynamicType = ()>>(
        from_json: fn(&[u8]) -> serde_json::Result<Decoded<K>>,
        from_protobuf: fn(Bytes) -> Decoded<K>,
    ) -> Self {
        let from_protobuf = FromProtobuf { kind: A::kind(&()).into_owned(), decode: from_protobuf };
        Self { from_json: Arc::new(from_json), from_protobuf: Some(from_protobuf) }
    }

    /// Decodes objects from JSON, and converts each.
    pub(crate) fn json<O: DeserializeOwned>(convert: impl Fn(O) -> K + Send + Sync + 'static) -> Self {
        let from_json = move |json: &[u8]| {
            let AnyObject { metadata } = serde_json::from_slice(json)?;
            let object = convert(serde_json::from_slice(json)?);
            Ok(Decoded { object, resource_version: short_text(&metadata.resource_version) })
        };
        Self { from_json: Arc::new(from_json), from_protobuf: None }
    }
}

#[derive(Debug)]
pub(crate) enum Part<K> {
    Object(K),
    /// The end of the page. Without a continue token, it is the last page, and the list is complete as of this resource
    /// version.
    End {
        token: Option<String>,
        resource_version: String,
    },
}

/// An event of a watch.
#[derive(Debug)]
pub(crate) enum WatchEvent<K> {
    /// An object was created or changed, or is part of a streaming list.
    Applied(Decoded<K>),
    /// An object was deleted. The resource version is that of the deletion.
    Deleted(Decoded<K>),
    /// All events up to this version were sent. `ends_list` marks the end of a streaming list.
    Bookmark { resource_version: String, ends_list: bool },
    /// The watch cannot continue.
    Error(Box<Status>),
    /// The response ended regularly. If the stream ends without this, the response may have been cut off.
    End,
}

/// A change of a watched collection, or of the watch itself.
#[derive(Debug)]
pub enum WatchUpdate<K> {
    /// A new list begins. Objects that are not listed before [`WatchUpdate::Synced`] no longer exist.
    Relisting,
    /// An object of the new list.
    Listed(K),
    /// The new list is complete.
    Synced,
    /// An object was created or changed.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
    /// The watch has resumed; missed events follow.
    Behind,
    /// All missed events have been received.
    CaughtUp,
    /// The cluster is in an earlier state than what was received, as after etcd was restored from a backup, or it is another
    /// cluster. A new list follows.
    WentBack,
    /// The API server forbids the list or the watch. Its message names the verb and the resource.
    Denied(String),
    /// Another error. The known objects stay valid, and the stream retries by itself.
    Failed(String),
}

/// The text for [`WatchUpdate::WentBack`] where it is reported like another error.
pub(crate) const WENT_BACK: &str = "the cluster was put back to an earlier state";

impl<K> WatchUpdate<K> {
    /// Whether it is about an object, and not about the watch.
    pub fn is_of_object(&self) -> bool {
        matches!(self, Self::Listed(_) | Self::Applied(_) | Self::Deleted(_))
    }
}

impl ListMeta {
    /// The end of a page; absent if it has neither a token nor a version.
    pub(super) fn end<K>(&self) -> Option<Part<K>> {
        let token = Some(short_text(&self.continue_token)).filter(|token| !token.is_empty());
        let resource_version = short_text(&self.resource_version);
        (token.is_some() || !resource_version.is_empty()).then_some(Part::End { token, resource_version })
    }
}

impl AnyObject {
    /// The object as a bookmark; absent if it has no version.
    pub(super) fn bookmark<K>(&self) -> Option<WatchEvent<K>> {
        let AnyObjectMeta { resource_version, annotations } = &self.metadata;
        let ends_list = annotations.iter().any(|pair| pair.key == INITIAL_EVENTS_END);
        let resource_version = short_text(resource_version);
        (!resource_version.is_empty()).then_some(WatchEvent::Bookmark { resource_version, ends_list })
    }
}

pub(super) fn short_text(bytes: &[u8]) -> String {
    bounded_text(bytes, TEXT_LIMIT).into_owned()
}
