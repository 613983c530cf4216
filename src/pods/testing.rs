//! The pods of unit tests.

use orchestr_testbed::objects;
use prost::Message;
use serde_json::Value;

use super::{Controller, DecodeError, Pod, WatchedPod, from_json, message};

/// A pod in the namespace `shop` as a kubelet writes it, with these changes.
pub(crate) fn pod(name: &str, changes: Value) -> Pod {
    from_json(&objects::pod("shop", name, changes).to_string()).unwrap()
}

pub(crate) fn controller(kind: &str, name: &str, uid: &str) -> Controller {
    let api_version = objects::api_version(kind).into();
    Controller { api_version, kind: kind.into(), name: name.into(), uid: uid.into() }
}

/// Encodes a pod in protobuf and decodes it.
pub(crate) fn decode_json_as_protobuf(pod: &Value) -> Result<Pod, DecodeError> {
    let message: message::Pod = serde_json::from_str(&pod.to_string()).unwrap();
    let decoded = WatchedPod::from_protobuf(message.encode_to_vec().into());
    decoded.object.pod.map(|pod| *pod).map_err(|undecodable| undecodable.error)
}
