//! One object of a list, before it is known what it is.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::pods::Pod;

use super::tally::Tally;

/// An object that was read without looking into it, so that one which can't be decoded spoils no other.
pub(super) trait Object: DeserializeOwned {
    /// Decodes it.
    fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error>;

    /// The object with these fields.
    fn with_fields(fields: Vec<(&'static str, Self)>) -> Result<Self, serde_json::Error>;
}

/// JSON as it was written.
impl Object for Box<RawValue> {
    fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    fn with_fields(fields: Vec<(&'static str, Self)>) -> Result<Self, serde_json::Error> {
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        RawValue::from_string(format!("{{{}}}", fields.join(",")))
    }
}

/// What YAML holds.
impl Object for Value {
    fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        T::deserialize(self)
    }

    fn with_fields(fields: Vec<(&'static str, Self)>) -> Result<Self, serde_json::Error> {
        Ok(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// Enough of an object to tell what it is.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Head {
    kind: Option<String>,
    metadata: Option<Meta>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Meta {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    labels: Option<Value>,
}

/// Whether an object that is no list is an empty pod, such as `{"kind": "Pod"}`: no API server has one without a name.
pub(super) fn is_nameless_pod(object: &impl Object) -> bool {
    let head: Head = object.decode().unwrap_or_default();
    head.kind.as_deref() == Some("Pod") && head.metadata.is_none_or(|meta| meta.name.is_none_or(|name| name.is_empty()))
}

/// Looks at an object. Without a kind, as in the lists that the API itself gives, it is a pod.
pub(super) fn look(tally: &mut Tally, object: &impl Object) {
    let head: Head = object.decode().unwrap_or_default();
    match head.kind.as_deref() {
        None | Some("Pod") => match object.decode::<Pod>() {
            Ok(pod) if !pod.name.is_empty() => tally.pod(pod),
            _ => {
                let Meta { namespace, name, labels, .. } = head.metadata.unwrap_or_default();
                let labels = labels.and_then(|labels| BTreeMap::deserialize(labels).ok());
                tally.unreadable(namespace.as_deref(), &name.unwrap_or_default(), labels.as_ref());
            }
        },
        Some(kind) => {
            if kind == "Job"
                && let Ok(job) = object.decode::<Job>()
            {
                tally.job(&job);
            }
            tally.stranger(kind.to_owned());
        }
    }
}
