//! Serializes lists of [`Arc`]s, as `#[serde(with)]`. The feature `rc` of serde would do it for every `Arc`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<T: Serialize, S: Serializer>(items: &[Arc<T>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().map(Arc::as_ref))
}

pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Arc<T>>, D::Error> {
    Ok(Vec::deserialize(deserializer)?.into_iter().map(Arc::new).collect())
}
