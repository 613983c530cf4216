//! A pod as it comes off the wire: decoded if it can be, and named if it can't.

use std::{borrow::Cow, fmt};

use k8s_openapi::{NamespaceResourceScope, api::core::v1 as core, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use super::{DecodeError, Pod, Uid, decode::versioned_from_json};

/// What a list or a watch holds where a pod should stand. Decoding one never fails because of what is in
/// it: a list of thousands must not be lost for one bad pod.
#[derive(Clone, Debug)]
pub struct WatchedPod {
    /// The pod, or why there is none.
    pub pod: Result<Box<Pod>, UndecodablePod>,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

/// A pod that could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndecodablePod {
    /// Its identity, if that could be read.
    pub uid: Uid,
    /// Its namespace, if that could be read.
    pub namespace: String,
    /// Its name, if that could be read.
    pub name: String,
    /// What is wrong with it.
    pub error: DecodeError,
}

/// As users name a pod.
impl fmt::Display for UndecodablePod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl<'de> Deserialize<'de> for WatchedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        let outline = || serde_json::from_str::<Outline>(raw.get());
        match versioned_from_json(raw.get()) {
            Ok((pod, resource_version)) => Ok(Self { pod: Ok(Box::new(pod)), resource_version }),
            Err(error) => {
                let Outline { metadata } = outline().map_err(|_| D::Error::custom("an object without metadata"))?;
                let OutlineMeta { uid, namespace, name, resource_version } = metadata;
                let unreadable = UndecodablePod { uid: Uid::from_text(&uid), namespace, name, error };
                Ok(Self { pod: Err(unreadable), resource_version })
            }
        }
    }
}

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

/// A pod in JSON, as kube's watcher wants it.
#[derive(Clone, Debug)]
pub struct JsonPod {
    /// What is used of it.
    pub pod: WatchedPod,
    /// Holds the resource version, which kube's watcher resumes from, and nothing else.
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
mod tests {
    use kube::core::ObjectList;

    use super::*;

    #[test]
    fn one_bad_pod_leaves_the_list_whole() {
        let list: ObjectList<JsonPod> = serde_json::from_str(
            r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
                {"metadata":{"name":"a","namespace":"n","uid":"1","resourceVersion":"5"}},
                {"metadata":{"name":"b","namespace":"n","uid":"2","resourceVersion":"6"},"status":{"phase":["hunter2"]}},
                {"metadata":{"name":"c","namespace":"n","uid":"3","resourceVersion":"7"}}]}"#,
        )
        .unwrap();
        let [a, b, c] = list.items.try_into().unwrap();
        assert_eq!(a.pod.pod.unwrap().name, "a");
        assert_eq!(b.meta.resource_version.as_deref(), Some("6"));
        let unreadable = b.pod.pod.unwrap_err();
        assert_eq!((unreadable.uid, unreadable.to_string().as_str()), (Uid::from_text("2"), "n/b"));
        assert_eq!(c.pod.pod.unwrap().name, "c");
    }
}
