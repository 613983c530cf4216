//! Deserializes a document with pods, and hands on each object of its list as soon as that object is complete.

use std::collections::BTreeMap;

use k8s_openapi::api::{
    batch::v1::{CronJob, Job},
    core, events,
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Value, value::RawValue};

use crate::{diagnosis::RevisionObject, pods::Pod};

use super::collector::Collector;

/// The fields of a single object that are kept. A list has the first two as well.
const FIELDS: [&str; 4] = ["kind", "metadata", "spec", "status"];

/// The state of reading one file.
pub(super) struct Reading<'a> {
    pub(super) collector: &'a mut Collector,
    /// Called after each object with the number of objects so far.
    pub(super) progress: &'a mut dyn FnMut(u64),
    pub(super) documents: u64,
    /// The content of the first document that is not pods, such as `a Deployment`.
    pub(super) not_pods: Option<String>,
}

impl Reading<'_> {
    fn add(&mut self, object: &impl Object) {
        add_object(self.collector, object);
        (self.progress)(self.collector.objects());
    }
}

/// Deserializes a document, which is a list of objects or one object.
pub(super) struct Document<'r, 'a, O> {
    reading: &'r mut Reading<'a>,
    object: std::marker::PhantomData<O>,
}

impl<'r, 'a, O> Document<'r, 'a, O> {
    pub(super) fn of(reading: &'r mut Reading<'a>) -> Self {
        Self { reading, object: std::marker::PhantomData }
    }

    fn reject(self, content: &str) {
        self.reading.not_pods.get_or_insert(content.to_owned());
    }
}

impl<'de, O: Object> DeserializeSeed<'de> for Document<'_, '_, O> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.reading.documents += 1;
        deserializer.deserialize_any(self)
    }
}

impl<'de, O: Object> Visitor<'de> for Document<'_, '_, O> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pods")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields: Vec<(&'static str, O)> = Vec::new();
        let mut is_list = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                map.next_value_seed(Items::<O>(Document::of(self.reading)))?;
            } else if let Some(field) = FIELDS.into_iter().find(|field| *field == key) {
                fields.push((field, map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        let kind = fields.iter().find(|(field, _)| *field == "kind").and_then(|(_, kind)| kind.decode::<String>().ok());
        match (is_list, kind) {
            // The items of the API's own lists have no kind; the list's kind decides.
            (true, Some(kind)) if kind != "List" && kind != "PodList" => self.reject(&format!("a {kind}")),
            (true, _) => {}
            (false, Some(kind)) if kind == "List" || kind == "PodList" => {}
            (false, None) => self.reject("something else"),
            (false, Some(_)) => {
                let object = O::with_fields(fields).map_err(serde::de::Error::custom)?;
                if is_nameless_pod(&object) {
                    self.reject("a Pod without a name");
                    return Ok(());
                }
                self.reading.add(&object);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Items::<O>(self).visit_seq(seq)
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.reject("text");
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.reject("text");
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.reject("a number");
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.reject("a number");
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.reject("a number");
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.reject("nothing");
        Ok(())
    }
}

/// Deserializes the objects of a list.
struct Items<'r, 'a, O>(Document<'r, 'a, O>);

impl<'de, O: Object> DeserializeSeed<'de> for Items<'_, '_, O> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, O: Object> Visitor<'de> for Items<'_, '_, O> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of pods")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(object) = seq.next_element::<O>()? {
            self.0.reading.add(&object);
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

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
fn is_nameless_pod(object: &impl Object) -> bool {
    let header: Header = object.decode().unwrap_or_default();
    header.kind.as_deref() == Some("Pod")
        && header.metadata.is_none_or(|meta| meta.name.is_none_or(|name| name.is_empty()))
}

/// Adds an object to the collector. One without a kind is a pod: the API's own lists omit the kind of their items.
fn add_object(collector: &mut Collector, object: &impl Object) {
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
            let mut is_used = true;
            match kind {
                "Job" => _ = object.decode::<Job>().map(|job| collector.add_job(job)),
                "CronJob" => _ = object.decode::<CronJob>().map(|cron_job| collector.add_cron_job(cron_job)),
                "ReplicaSet" | "ControllerRevision" => {
                    let Meta { namespace, name, .. } = header.metadata.unwrap_or_default();
                    let json = object.decode::<Value>().unwrap_or_default().to_string();
                    if let Ok(revision) = RevisionObject::from_json(json.as_bytes()) {
                        let [namespace, name] = [namespace, name].map(Option::unwrap_or_default);
                        collector.view.give_revision(namespace, name, revision);
                    }
                }
                "Node" => _ = object.decode().map(|node| collector.view.placement().give_node(&node)),
                "PersistentVolumeClaim" => {
                    let Meta { namespace, name, .. } = header.metadata.unwrap_or_default();
                    let [namespace, name] = [namespace, name].map(Option::unwrap_or_default);
                    _ = object.decode().map(|claim| collector.view.placement().give_claim(namespace, name, claim));
                }
                "StorageClass" => {
                    let name = header.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
                    _ = object.decode().map(|class| collector.view.placement().give_class(name, class));
                }
                "PersistentVolume" => {
                    _ = object.decode().map(|volume| collector.view.placement().give_volume(&volume));
                }
                // Only v1 and v1beta1 exist, which have the same fields.
                "Event" if header.api_version.is_some_and(|version| version.starts_with("events.k8s.io/")) => {
                    _ = object.decode::<events::v1::Event>().map(|event| collector.view.add_event(event.into()));
                }
                "Event" => _ = object.decode::<core::v1::Event>().map(|event| collector.view.add_event(event.into())),
                _ => is_used = false,
            }
            collector.add_other_object(kind, is_used);
        }
    }
}
