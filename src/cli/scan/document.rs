//! Deserializes a document with pods, and hands on each object of its list as soon as that object is complete.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
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
    fn add(&mut self, object: &RawValue) {
        add_object(self.collector, object);
        (self.progress)(self.collector.objects);
    }

    /// Skips a document that is neither an object nor a list. Its first byte shows what it is.
    pub(super) fn skip<'de, D: Deserializer<'de>>(&mut self, first: u8, deserializer: D) -> Result<(), D::Error> {
        let content = match first {
            b'n' => "nothing",
            b'-' | b'0'..=b'9' => "a number",
            _ => "text",
        };
        self.documents += 1;
        self.not_pods.get_or_insert(content.to_owned());
        IgnoredAny::deserialize(deserializer).map(drop)
    }
}

/// Deserializes a document that is a list of objects or one object.
pub(super) struct Document<'r, 'a>(pub(super) &'r mut Reading<'a>);

impl Document<'_, '_> {
    fn reject(self, content: &str) {
        self.0.not_pods.get_or_insert(content.to_owned());
    }
}

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        self.0.documents += 1;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("pods")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut fields: Vec<(&str, Box<RawValue>)> = Vec::new();
        let mut is_list = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                map.next_value_seed(Items(Document(self.0)))?;
            } else if let Some(field) = FIELDS.into_iter().find(|field| *field == key) {
                fields.push((field, map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        let kind = fields.iter().find(|(field, _)| *field == "kind").and_then(|(_, kind)| decode::<String>(kind).ok());
        match (is_list, kind) {
            // The items of the API's own lists have no kind; the list's kind decides.
            (true, Some(kind)) if kind != "List" && kind != "PodList" => self.reject(&format!("a {kind}")),
            (true, _) => {}
            (false, Some(kind)) if kind == "List" || kind == "PodList" => {}
            (false, None) => self.reject("something else"),
            (false, Some(_)) => {
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
                let object = RawValue::from_string(format!("{{{}}}", fields.join(",")));
                let object = object.map_err(serde::de::Error::custom)?;
                if is_nameless_pod(&object) {
                    self.reject("a Pod without a name");
                    return Ok(());
                }
                self.0.add(&object);
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<(), A::Error> {
        Items(self).visit_seq(seq)
    }
}

/// Deserializes the objects of a list.
struct Items<'r, 'a>(Document<'r, 'a>);

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a list of pods")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(object) = seq.next_element::<Box<RawValue>>()? {
            self.0.0.add(&object);
        }
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Decodes an object, so that one malformed object does not fail the whole list.
fn decode<'a, T: Deserialize<'a>>(object: &'a RawValue) -> serde_json::Result<T> {
    serde_json::from_str(object.get())
}

/// The fields that identify an object.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Header {
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
fn is_nameless_pod(object: &RawValue) -> bool {
    let header: Header = decode(object).unwrap_or_default();
    header.kind.as_deref() == Some("Pod")
        && header.metadata.is_none_or(|meta| meta.name.is_none_or(|name| name.is_empty()))
}

/// Adds an object to the collector. One without a kind is a pod: the API's own lists omit the kind of their items.
fn add_object(collector: &mut Collector, object: &RawValue) {
    let header: Header = decode(object).unwrap_or_default();
    match header.kind.as_deref() {
        None | Some("Pod") => match decode::<Pod>(object) {
            Ok(pod) if !pod.name.is_empty() => collector.add_pod(pod),
            _ => {
                let Meta { namespace, name, labels, .. } = header.metadata.unwrap_or_default();
                let labels = labels.and_then(|labels| BTreeMap::deserialize(labels).ok());
                collector.add_undecodable(namespace.as_deref(), &name.unwrap_or_default(), labels);
            }
        },
        Some(kind) => {
            let mut is_used = true;
            let Collector { file, view, .. } = &mut *collector;
            let file = file.get_or_insert_default();
            let Meta { namespace, name, .. } = header.metadata.unwrap_or_default();
            let [namespace, name] = [namespace, name].map(Option::unwrap_or_default);
            match kind {
                "Job" => _ = decode(object).map(|job| file.add_job(job)),
                "CronJob" => _ = decode(object).map(|cron_job| file.add_cron_job(cron_job)),
                "Deployment" => _ = decode(object).map(|own| file.add_workload("deployments", own)),
                "StatefulSet" => _ = decode(object).map(|own| file.add_workload("statefulsets", own)),
                "DaemonSet" => _ = decode(object).map(|own| file.add_workload("daemonsets", own)),
                "ReplicaSet" | "ControllerRevision" => {
                    let revision = RevisionObject::from_json(object.get().as_bytes());
                    _ = revision.map(|revision| file.revisions.insert((namespace, name), revision));
                }
                "Node" => _ = decode(object).map(|node| file.add_node(&node)),
                "PersistentVolumeClaim" => {
                    _ = decode(object).map(|claim| file.claims.insert((namespace, name), claim));
                }
                "StorageClass" => _ = decode(object).map(|class| file.classes.insert(name, class)),
                "PersistentVolume" => _ = decode(object).map(|volume| file.add_volume(&volume)),
                "Event" => {
                    _ = decode(object).map(|event| {
                        file.add_event(&event);
                        view.add_event(event);
                    });
                }
                _ => is_used = false,
            }
            collector.add_other_object(kind, is_used);
        }
    }
}
