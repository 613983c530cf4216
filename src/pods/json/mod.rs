//! Decodes pods from JSON, the format of files and of API servers that do not support protobuf.

mod fields;
mod model;
mod probe;

use std::borrow::Cow;

use k8s_openapi::{NamespaceResourceScope, api::core::v1 as core, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use super::{DecodeError, Pod, Probe, Uid, UndecodablePod, WatchedPod};

use self::{model::PodJson, probe::ProbeJson};

/// Decodes one pod.
///
/// # Errors
/// When the text is not JSON, or a field that is used has another type than the API defines.
pub fn from_json(json: &str) -> Result<Pod, DecodeError> {
    decode(json).map(|(pod, _)| pod)
}

/// Decodes a pod and its resource version.
fn decode(json: &str) -> Result<(Pod, String), DecodeError> {
    let mut pod = serde_json::from_str::<PodJson>(json)?;
    let resource_version = std::mem::take(&mut pod.metadata.resource_version);
    Ok((Pod::from(pod).bounded()?, resource_version.to_string()))
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Pod::from(PodJson::deserialize(deserializer)?).bounded().map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Probe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ProbeJson::deserialize(deserializer).map(|probe| *Box::from(probe))
    }
}

impl<'de> Deserialize<'de> for WatchedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        match decode(raw.get()) {
            Ok((pod, resource_version)) => Ok(Self { pod: Ok(Box::new(pod)), resource_version }),
            Err(error) => {
                let outline = serde_json::from_str::<Outline>(raw.get());
                let Outline { metadata } = outline.map_err(|_| D::Error::custom("an object without metadata"))?;
                let OutlineMeta { uid, namespace, name, resource_version } = metadata;
                let undecodable = UndecodablePod { uid: Uid::from_text(&uid), namespace, name, error };
                Ok(Self { pod: Err(undecodable), resource_version })
            }
        }
    }
}

/// The metadata of a pod whose other fields cannot be decoded.
#[derive(Deserialize)]
struct Outline {
    metadata: OutlineMeta,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct OutlineMeta {
    uid: String,
    namespace: String,
    name: String,
    resource_version: String,
}

/// A [`WatchedPod`] as the object type of kube's requests.
#[derive(Clone, Debug)]
pub struct JsonPod {
    pub pod: WatchedPod,
    /// Holds nothing but the resource version, from which a watch resumes.
    meta: ObjectMeta,
}

impl<'de> Deserialize<'de> for JsonPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let pod = WatchedPod::deserialize(deserializer)?;
        let meta = ObjectMeta { resource_version: Some(pod.resource_version.clone()), ..ObjectMeta::default() };
        Ok(Self { pod, meta })
    }
}

impl Resource for JsonPod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        core::Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        core::Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        core::Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        core::Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

#[cfg(test)]
mod tests;
