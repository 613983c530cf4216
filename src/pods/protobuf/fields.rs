//! Reads fields that several messages have.

use arcstr::ArcStr;
use bytes::Bytes;

use crate::{
    pods::{FirstNames, TEXT_LIMIT},
    watch::protobuf::bounded_text,
};

pub(super) fn first_names<T>(items: &[T], name: impl Fn(&T) -> &Bytes) -> FirstNames {
    let mut names = FirstNames::default();
    items.iter().for_each(|item| names.push(|| text(name(item))));
    names
}

/// A text of at most [`TEXT_LIMIT`] bytes; invalid UTF-8 becomes U+FFFD.
pub(super) fn text(bytes: &[u8]) -> ArcStr {
    bounded_text(bytes, TEXT_LIMIT).into()
}
