//! The objects that exist in the place of one that does not, such as `app-configuration` for a missing `app-config`.
//!
//! The names are read with the rights of the caller, by `scan`, `explain` and `wait` only: the operator must not read the names
//! of Secrets. Of Secrets, nothing but metadata is read, and of ConfigMaps the keys without their values. What cannot be read is
//! not suggested.

mod closest;

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, ServiceAccount};
use kube::{
    Client,
    api::{GetParams, ListParams},
    core::{Request, Resource},
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use tokio::time::{Duration, Instant, timeout_at};

use crate::{api::Cause, render::safe::printable, watch::body::read_body};

use closest::closest;

/// The most names of one kind in a namespace that are compared.
const PAGE: u32 = 500;
/// The most bytes of a response.
const BYTES: usize = 8 << 20;
/// The most requests of a command, and how long they take together.
const REQUESTS: usize = 50;
const WITHIN: Duration = Duration::from_secs(10);

/// What a sentence says does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing<'a> {
    kind: Kind,
    name: &'a str,
    /// The key that the object lacks; absent if the object itself does not exist.
    key: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    ConfigMap,
    Secret,
    PersistentVolumeClaim,
    ServiceAccount,
}

/// Reads names, each list once.
pub(super) struct NearNames {
    client: Client,
    lists: HashMap<(Kind, String), Vec<String>>,
    requests: usize,
    deadline: Option<Instant>,
}

/// The part of a list that is read.
#[derive(Default, Deserialize)]
struct List {
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

/// A ConfigMap without its values.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Keys {
    #[serde(default)]
    data: Option<BTreeMap<String, IgnoredAny>>,
    #[serde(default)]
    binary_data: Option<BTreeMap<String, IgnoredAny>>,
}

impl Keys {
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        [&self.data, &self.binary_data].into_iter().flatten().flat_map(BTreeMap::keys).map(String::as_str)
    }
}

impl NearNames {
    pub(super) fn new(client: Client) -> Self {
        Self { client, lists: HashMap::new(), requests: 0, deadline: None }
    }

    /// What exists in the place of what the sentence about this cause says is missing, such as `there is a ConfigMap
    /// app-configuration`; empty if nothing is close, or if it cannot be read.
    pub(super) async fn hint(&mut self, namespace: &str, cause: Cause, sentence: &str) -> String {
        let Some(Missing { kind, name, key }) = missing(cause, sentence) else { return String::new() };
        if let Some(key) = key {
            let keys: Keys = self.read::<ConfigMap, _>(namespace, Some(name)).await.unwrap_or_default();
            let near = closest(key, keys.iter());
            return near.map(|near| printable(&format!("it has the key {near}"))).unwrap_or_default();
        }
        let place = (kind, namespace.to_owned());
        if !self.lists.contains_key(&place) {
            let list: Option<List> = match kind {
                Kind::ConfigMap => self.read::<ConfigMap, _>(namespace, None).await,
                Kind::Secret => self.read::<Secret, _>(namespace, None).await,
                Kind::PersistentVolumeClaim => self.read::<PersistentVolumeClaim, _>(namespace, None).await,
                Kind::ServiceAccount => self.read::<ServiceAccount, _>(namespace, None).await,
            };
            let names = list.unwrap_or_default().items.into_iter().map(|own| own.metadata.name);
            self.lists.insert(place.clone(), names.collect());
        }
        let names = self.lists.get(&place).into_iter().flatten().map(String::as_str);
        closest(name, names).map(|near| printable(&format!("there is a {kind:?} {near}"))).unwrap_or_default()
    }

    /// Reads an object, or the metadata of one page of a list.
    async fn read<K, T>(&mut self, namespace: &str, name: Option<&str>) -> Option<T>
    where
        K: Resource<DynamicType = ()>,
        T: DeserializeOwned,
    {
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + WITHIN);
        self.requests += 1;
        if self.requests > REQUESTS {
            return None;
        }
        let request = Request::new(K::url_path(&(), Some(namespace)));
        let request = match name {
            Some(name) => request.get(name, &GetParams::default()),
            None => request.list_metadata(&ListParams::default().limit(PAGE)),
        };
        let body = timeout_at(deadline, read_body(&self.client, request.ok()?, BYTES)).await.ok()?;
        // The error is not shown: it may quote the response.
        serde_json::from_slice(&body.ok()??).ok()
    }
}

/// What a sentence of the diagnosis says is missing.
fn missing(cause: Cause, sentence: &str) -> Option<Missing<'_>> {
    let between = |before: &str, after: &str| {
        let (_, rest) = sentence.split_once(before)?;
        let (name, _) = rest.split_once(after)?;
        (!name.is_empty() && name.len() <= 253 && !name.contains([' ', '/'])).then_some(name)
    };
    let object = |kind, before, after| Some(Missing { kind, name: between(before, after)?, key: None });
    match cause {
        Cause::ConfigMapMissing => object(Kind::ConfigMap, " needs the ConfigMap ", ", which does not exist"),
        Cause::SecretMissing => object(Kind::Secret, " needs the Secret ", ", which does not exist"),
        Cause::VolumeNotFound => object(Kind::PersistentVolumeClaim, "the PersistentVolumeClaim ", " does not exist"),
        Cause::ServiceAccountMissing => object(Kind::ServiceAccount, "the service account ", " does not exist"),
        Cause::KeyMissing => {
            let name = between(", which the ConfigMap ", " does not have")?;
            let key = between(" needs the key ", ", which the ConfigMap ")?;
            Some(Missing { kind: Kind::ConfigMap, name, key: Some(key) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_what_is_missing_from_the_sentence() {
        let object = |kind, name| Some(Missing { kind, name, key: None });
        for (cause, sentence, expected) in [
            (
                Cause::ConfigMapMissing,
                "app needs the ConfigMap app-config, which does not exist",
                object(Kind::ConfigMap, "app-config"),
            ),
            (
                Cause::SecretMissing,
                "the volume tls needs the Secret tls, which does not exist",
                object(Kind::Secret, "tls"),
            ),
            (
                Cause::VolumeNotFound,
                "the PersistentVolumeClaim data does not exist",
                object(Kind::PersistentVolumeClaim, "data"),
            ),
            (Cause::VolumeNotFound, "the PersistentVolumeClaim of the volume data does not exist", None),
            (Cause::VolumeNotFound, "the PersistentVolume pv-1 of the claim data does not exist", None),
            (
                Cause::ServiceAccountMissing,
                "its pods cannot be created: the service account robot does not exist",
                object(Kind::ServiceAccount, "robot"),
            ),
            (
                Cause::KeyMissing,
                "app needs the key LOG_LEVEL, which the ConfigMap settings does not have",
                Some(Missing { kind: Kind::ConfigMap, name: "settings", key: Some("LOG_LEVEL") }),
            ),
            // The keys of a Secret are not read.
            (Cause::KeyMissing, "app needs the key url, which the Secret db does not have", None),
            (Cause::KeyMissing, "the volume a needs the key b, which its ConfigMap does not have", None),
            (Cause::ConfigMapMissing, "app needs the ConfigMap ../x, which does not exist", None),
            (Cause::ExitCode, "app needs the ConfigMap app-config, which does not exist", None),
        ] {
            assert_eq!(missing(cause, sentence), expected, "{sentence}");
        }
    }

    #[test]
    fn reads_keys_without_values() {
        let object = json!({"data": {"a": "hunter2"}, "binaryData": {"b": "aHVudGVyMg=="}});
        let keys: Keys = serde_json::from_value(object).unwrap();
        assert_eq!(keys.iter().collect::<Vec<_>>(), ["a", "b"]);
        let keys: Keys = serde_json::from_value(json!({"data": null})).unwrap();
        assert_eq!(keys.iter().count(), 0);
    }
}
