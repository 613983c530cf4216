//! Decodes one object of a file, whose kind is not known in advance.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::{CronJob, Job},
    core, events,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::pods::Pod;

use super::collector::Collector;

/// An object that was read but not decoded yet, so that one malformed object does not fail the whole list.
pub(super) trait Object: DeserializeOwned {
    fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error>;

    /// Makes an object of these fields.
    fn with_fields(fields: Vec<(&'static str, Self)>) -> Result<Self, serde_json::Error>;
}

impl Object for Box<RawValue> {
    fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    fn with_fields(fields: Vec<(&'static str, Self)>) -> Result<Self, serde_json::Error> {
        let fields: Vec<_> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        RawValue::from_string(format!("{{{}}}", fields.join(",")))
    }
}

/// For YAML, whose text is not kept.
impl Object for Value {
    fn decode<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        T::deserialize(self)
    }

    fn with_fields(fields: Vec<(&'static str, Self)>) -> Result<Self, serde_json::Error> {
        Ok(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }
}

/// The fields that identify an object.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Header {
    api_version: Option<String>,
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

/// Whether an object is a pod without a name, such as `{"kind": "Pod"}`, which no API server returns.
pub(super) fn is_nameless_pod(object: &impl Object) -> bool {
    let header: Header = object.decode().unwrap_or_default();
    header.kind.as_deref() == Some("Pod")
        && header.metadata.is_none_or(|meta| meta.name.is_none_or(|name| name.is_empty()))
}

/// Adds an object to the collector. One without a kind is a pod: the API's own lists omit the kind of their items.
pub(super) fn add_object(collector: &mut Collector, object: &impl Object) {
    let header: Header = object.decode().unwrap_or_default();
    match header.kind.as_deref() {
        None | Some("Pod") => match object.decode::<Pod>() {
            Ok(pod) if !pod.name.is_empty() => collector.add_pod(pod),
            _ => {
                let Meta { namespace, name, labels, .. } = header.metadata.unwrap_or_default();
                let labels = labels.and_then(|labels| BTreeMap::deserialize(labels).ok());
                collector.add_undecodable(namespace.as_deref(), &name.unwrap_or_default(), labels.as_ref());
            }
        },
        Some(kind) => {
            match kind {
                "Job" => _ = object.decode::<Job>().map(|job| collector.add_job(job)),
                "CronJob" => _ = object.decode::<CronJob>().map(|cron_job| collector.add_cron_job(cron_job)),
                // Only v1 and v1beta1 exist, which have the same fields.
                "Event" if header.api_version.is_some_and(|version| version.starts_with("events.k8s.io/")) => {
                    _ = object.decode::<events::v1::Event>().map(|event| collector.view.add_event(event.into()));
                }
                "Event" => _ = object.decode::<core::v1::Event>().map(|event| collector.view.add_event(event.into())),
                _ => {}
            }
            collector.add_other_object(kind.to_owned());
        }
    }
}
