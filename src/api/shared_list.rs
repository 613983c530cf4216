//! Serializes lists of [`Arc`]s, as `#[serde(serialize_with)]`. The feature `rc` of serde would do it for every `Arc`.

use std::sync::Arc;

use serde::{Serialize, Serializer};

pub(crate) fn serialize<T: Serialize, S: Serializer>(items: &[Arc<T>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().map(Arc::as_ref))
}
