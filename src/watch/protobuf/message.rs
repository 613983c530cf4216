//! The protobuf messages around objects: the envelope, watch events, the metadata of lists and objects, and Status. The
//! numbers come from `generated.proto` in apimachinery's `meta/v1` and `runtime`. All other fields are skipped.
//!
//! Texts are bytes, because the API server also accepts and returns invalid UTF-8 in protobuf.

use bytes::Bytes;
use prost::Message;

/// The first bytes of an envelope.
pub(crate) const MAGIC: [u8; 4] = *b"k8s\0";
/// `Unknown.typeMeta`.
pub(crate) const TYPE_META: u64 = 1;
/// `Unknown.raw`.
pub(crate) const RAW: u64 = 2;

/// `runtime.Unknown`, the envelope.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Unknown {
    #[prost(message, optional, tag = "1")]
    pub type_meta: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    pub raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeMeta {
    #[prost(bytes = "bytes", tag = "2")]
    pub kind: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchEvent {
    #[prost(bytes = "bytes", tag = "1")]
    pub kind: Bytes,
    #[prost(message, optional, tag = "2")]
    pub object: Option<RawExtension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    pub raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListMeta {
    #[prost(bytes = "bytes", tag = "2")]
    pub resource_version: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub continue_token: Bytes,
}

/// `meta/v1.Status`, an error response.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(bytes = "bytes", tag = "3")]
    pub message: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub reason: Bytes,
    #[prost(int32, tag = "6")]
    pub code: i32,
}

/// An object of any type, reduced to its metadata.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyObject {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<AnyObjectMeta>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyObjectMeta {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    pub resource_version: Bytes,
    #[prost(message, repeated, tag = "12")]
    pub annotations: Vec<Pair>,
}

/// An entry of a `map<string, string>`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Pair {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

/// `meta/v1.Time`, in whole seconds. Go's zero time is an empty message; the epoch, which kubelets write for containers
/// that never started, is not.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Time {
    #[prost(int64, optional, tag = "1")]
    pub seconds: Option<i64>,
}
