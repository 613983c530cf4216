//! The pods of unit tests.

use orchestr_testbed::objects;
use serde_json::Value;

use super::{Controller, Pod, from_json};

/// A pod in the namespace `shop` as a kubelet writes it, with these changes.
pub(crate) fn pod(name: &str, changes: Value) -> Pod {
    from_json(&objects::pod("shop", name, changes).to_string()).unwrap()
}

pub(crate) fn controller(kind: &str, name: &str, uid: &str) -> Controller {
    let api_version = objects::api_version(kind).into();
    Controller { api_version, kind: kind.into(), name: name.into(), uid: uid.into() }
}
