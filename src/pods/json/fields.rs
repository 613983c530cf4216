//! Deserializers that bound what they keep.

use std::{borrow::Cow, fmt, marker::PhantomData};

use arcstr::ArcStr;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::{
    api::{IGNORE_ANNOTATION, Ownership},
    pods::{
        FirstNames, TEXT_LIMIT, limit_range,
        pod::{LIST_LIMIT, within},
        requirements::Requests,
    },
};

/// Reads null as the default: Go writes null for an empty list or map.
pub(super) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A text of at most [`TEXT_LIMIT`] bytes.
pub(super) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ArcStr, D::Error> {
    Ok(within(or_default::<_, String>(deserializer)?, TEXT_LIMIT).into())
}

/// An element of a list, or a label, as [`text`] reads it.
#[derive(Default)]
pub(super) struct Text(pub(super) ArcStr);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer).map(Self)
    }
}

/// A list of at most [`LIST_LIMIT`] elements, and one more; null is an empty list.
pub(super) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct List<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            // Most pods have one container, and a growing vector would allocate room for four.
            let mut list = Vec::with_capacity(1);
            // One more, so that a list that is too long is noticed.
            while list.len() <= LIST_LIMIT {
                match seq.next_element()? {
                    Some(element) => list.push(element),
                    None => return Ok(list),
                }
            }
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(list)
        }
    }

    deserializer.deserialize_any(List(PhantomData))
}

impl From<Text> for ArcStr {
    fn from(Text(text): Text) -> Self {
        text
    }
}

/// The first names of a list, and how many there are; null is an empty list.
pub(super) fn first_names<'de, D: Deserializer<'de>, T: Deserialize<'de> + Into<ArcStr>>(
    deserializer: D,
) -> Result<FirstNames, D::Error> {
    struct Names<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de> + Into<ArcStr>> Visitor<'de> for Names<T> {
        type Value = FirstNames;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(FirstNames::default())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut names = FirstNames::default();
            while let Some(name) = seq.next_element::<T>()? {
                names.push(|| name.into());
            }
            Ok(names)
        }
    }

    deserializer.deserialize_any(Names::<T>(PhantomData))
}

/// The first element of a list that is wanted.
pub(super) fn find<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
    is_wanted: fn(&T) -> bool,
) -> Result<Option<T>, D::Error> {
    struct Find<T>(fn(&T) -> bool);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Find<T> {
        type Value = Option<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(element) = seq.next_element()? {
                if found.is_none() && (self.0)(&element) {
                    found = Some(element);
                }
            }
            Ok(found)
        }
    }

    deserializer.deserialize_any(Find(is_wanted))
}

/// The first text of a list, of at most [`TEXT_LIMIT`] bytes. The others are skipped.
pub(super) fn first<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ArcStr>, D::Error> {
    struct First;

    impl<'de> Visitor<'de> for First {
        type Value = Option<ArcStr>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let first = seq.next_element()?.map(|Text(text)| text);
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(first)
        }
    }

    deserializer.deserialize_any(First)
}

/// Label pairs, sorted by key.
#[derive(Default)]
pub(super) struct Labels(pub(super) Vec<(ArcStr, ArcStr)>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut labels = Vec::with_capacity(map.size_hint().unwrap_or_default().min(LIST_LIMIT));
                while let Some((Text(key), Text(value))) = map.next_entry()? {
                    if labels.len() <= LIST_LIMIT {
                        labels.push((key, value));
                    }
                }
                labels.sort_unstable();
                Ok(Labels(labels))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

/// The quantities of resources. In a file, they may be numbers.
pub(super) fn requests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Requests, D::Error> {
    struct Map;

    impl<'de> Visitor<'de> for Map {
        type Value = Requests;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("quantities of resources")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Requests::default())
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut requests = Requests::default();
            while let Some((Text(resource), quantity)) = map.next_entry()? {
                match quantity {
                    Quantity::Text(text) => requests.push(resource, &text),
                    Quantity::Number(number) => requests.push(resource, &number.to_string()),
                    Quantity::Other(IgnoredAny) => {}
                }
            }
            Ok(requests)
        }
    }

    deserializer.deserialize_any(Map)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Quantity {
    Text(String),
    Number(serde_json::Number),
    Other(IgnoredAny),
}

/// The annotations that are used.
#[derive(Default)]
pub(super) struct Annotations {
    /// Whether [`IGNORE_ANNOTATION`] is "true".
    pub(super) ignored: bool,
    pub(super) ownership: Ownership,
    /// What a LimitRange has set.
    pub(super) limit_range: String,
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;

        impl<'de> Visitor<'de> for Map {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut annotations = Annotations::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    if key == IGNORE_ANNOTATION {
                        annotations.ignored = map.next_value::<String>()? == "true";
                    } else if key == limit_range::ANNOTATION {
                        if let Value::Text(text) = map.next_value()? {
                            annotations.limit_range = within(text, TEXT_LIMIT);
                        }
                    } else if Ownership::has_annotation(&key) {
                        match map.next_value()? {
                            Value::Text(text) => annotations.ownership.set(&key, Some(&text)),
                            Value::Other(IgnoredAny) => annotations.ownership.set(&key, None),
                        }
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(annotations)
            }
        }

        deserializer.deserialize_map(Map)
    }
}

/// The value of an annotation. The API server accepts only texts, but a file may contain anything.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Other(IgnoredAny),
}
