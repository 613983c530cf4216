//! Deserializes a document with pods, and hands on each object of its list as soon as that object is complete.

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::{
    collector::Collector,
    object::{Object, add_object, is_nameless_pod},
};

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
