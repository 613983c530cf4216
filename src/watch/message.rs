//! The messages of the API, reduced to the fields that are used. One definition serves both encodings: prost decodes it from
//! protobuf by the number of each field, and serde from JSON by its name. The numbers come from `generated.proto` in
//! Kubernetes' `k8s.io/api` and `k8s.io/apimachinery`. All other fields are skipped, and neither decoder builds anything
//! for them.
//!
//! Texts are bytes, because the API server also accepts and returns invalid UTF-8 in protobuf. Nothing is cut here: a
//! message takes about as much memory as the bytes that it is decoded from, which are bounded, and it is converted at once.

use std::{borrow::Cow, collections::BTreeMap};

use bytes::Bytes;
use jiff::Timestamp;
use prost::Message;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny},
};

/// Defines messages by their fields with the attributes of prost, and adds those of serde. In JSON, a field has its name in
/// camel case, and null counts as absent: Go writes null for an empty list or map.
///
/// The fields of a message that is marked `(inline)` belong to the message around it in JSON. There, it is a field with the
/// attribute `#[serde(flatten)]`.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident $(($inline:ident))? {
        $($(#[$attribute:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(::prost::Message, ::serde::Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub(crate) struct $name {
            $(
                $(#[$attribute])*
                #[serde(deserialize_with = "crate::watch::message::Field::read")]
                pub(crate) $field: $type,
            )*
        }

        impl $crate::watch::message::Field for $name {
            fn read<'de, D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::watch::message::messages!(@read $($inline)? deserializer)
            }
        }

        impl $crate::watch::message::Item for $name {
            fn read_list<'de, D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Self>, D::Error> {
                $crate::watch::message::or_default(deserializer)
            }
        }
    )*};
    (@read inline $deserializer:ident) => { ::serde::Deserialize::deserialize($deserializer) };
    (@read $deserializer:ident) => { $crate::watch::message::or_default($deserializer) };
}

pub(crate) use messages;

/// The type of a field, as it is read from JSON.
pub(crate) trait Field: Sized {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// The type of the elements of a list, or of the entries of a map.
pub(crate) trait Item: Sized {
    fn read_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Self>, D::Error>;
}

pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads the entries of a map, which are the elements of a list in protobuf.
pub(crate) fn entries<'de, D: Deserializer<'de>, V: Deserialize<'de>, T>(
    deserializer: D,
    entry: impl Fn(Bytes, V) -> Result<T, D::Error>,
) -> Result<Vec<T>, D::Error> {
    let map: BTreeMap<String, V> = or_default(deserializer)?;
    map.into_iter().map(|(key, value)| entry(key.into(), value)).collect()
}

impl Field for Bytes {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default::<_, String>(deserializer).map(Self::from)
    }
}

/// Only the first must be a text: in files, there are numbers among the arguments of commands.
impl Item for Bytes {
    fn read_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Self>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Element {
            Text(Option<String>),
            Other(IgnoredAny),
        }
        let elements: Vec<Element> = or_default(deserializer)?;
        let texts = elements.into_iter().enumerate().map(|(index, element)| match element {
            Element::Text(text) => Ok(text.unwrap_or_default().into()),
            Element::Other(IgnoredAny) if index == 0 => Err(D::Error::custom("an element that is not a text")),
            Element::Other(IgnoredAny) => Ok(Self::new()),
        });
        texts.collect()
    }
}

impl Field for bool {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer)
    }
}

/// A number beyond the range, which no API server writes, counts as the largest or smallest one.
impl Field for i32 {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        or_default(deserializer).map(saturated)
    }
}

impl Item for i32 {
    fn read_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Self>, D::Error> {
        let numbers: Vec<i64> = or_default(deserializer)?;
        Ok(numbers.into_iter().map(saturated).collect())
    }
}

pub(crate) fn saturated(number: i64) -> i32 {
    number.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

impl<T: for<'a> Deserialize<'a>> Field for Option<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl<T: Item> Field for Vec<T> {
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::read_list(deserializer)
    }
}

messages! {
    /// `runtime.Unknown`, the envelope.
    Unknown {
        #[prost(message, required, tag = 1)] type_meta: TypeMeta,
        #[prost(bytes = "bytes", tag = 2)] raw: Bytes,
    }

    TypeMeta {
        #[prost(bytes = "bytes", tag = 2)] kind: Bytes,
    }

    WatchEvent {
        #[prost(bytes = "bytes", tag = 1)] kind: Bytes,
        #[prost(message, required, tag = 2)] object: RawExtension,
    }

    RawExtension {
        #[prost(bytes = "bytes", tag = 1)] raw: Bytes,
    }

    /// A list of any type, reduced to its metadata.
    AnyList {
        #[prost(message, required, tag = 1)] metadata: ListMeta,
    }

    ListMeta {
        #[prost(bytes = "bytes", tag = 2)] resource_version: Bytes,
        #[prost(bytes = "bytes", tag = 3)] #[serde(rename = "continue")] continue_token: Bytes,
    }

    /// `meta/v1.Status`, an error response.
    Status {
        #[prost(bytes = "bytes", tag = 3)] message: Bytes,
        #[prost(bytes = "bytes", tag = 4)] reason: Bytes,
        #[prost(int32, tag = 6)] code: i32,
    }

    /// An object of any type, reduced to its metadata.
    AnyObject {
        #[prost(message, required, tag = 1)] metadata: AnyObjectMeta,
    }

    AnyObjectMeta {
        #[prost(bytes = "bytes", tag = 6)] resource_version: Bytes,
        #[prost(message, repeated, tag = 12)] annotations: Vec<Pair>,
    }
}

/// An entry of a `map<string, string>`.
#[derive(Message)]
pub(crate) struct Pair {
    #[prost(bytes = "bytes", tag = 1)]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = 2)]
    pub(crate) value: Bytes,
}

impl Item for Pair {
    fn read_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Self>, D::Error> {
        entries(deserializer, |key, value: Option<String>| Ok(Self { key, value: value.unwrap_or_default().into() }))
    }
}

/// `meta/v1` `Time` and `MicroTime`, in whole seconds. Go's zero time is an empty message; the epoch, which kubelets write for
/// containers that never started, is not.
#[derive(Message)]
pub(crate) struct Time {
    #[prost(int64, optional, tag = 1)]
    pub(crate) seconds: Option<i64>,
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self { seconds: Some(Timestamp::deserialize(deserializer)?.as_second()) })
    }
}

/// Go's zero time, and times outside the range of RFC 3339, count as absent.
pub(crate) fn time(time: &Option<Time>) -> Option<Timestamp> {
    Timestamp::from_second(time.as_ref()?.seconds?).ok()
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
