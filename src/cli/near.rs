//! The objects that exist in the place of one that does not, such as `app-configuration` for a missing `app-config`.
//!
//! The names are read with the rights of the caller, by `scan`, `explain` and `wait` only: the operator must not read the names
//! of Secrets. Of Secrets, nothing but metadata is read, and of ConfigMaps the keys without their values. What cannot be read is
//! not suggested.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret, ServiceAccount};
use kube::{
    Client,
    api::{GetParams, ListParams},
    core::{ObjectList, PartialObjectMeta, Request, Resource},
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use strsim::osa_distance;
use tokio::time::{Duration, Instant, timeout_at};

use crate::{
    api::Cause,
    render::{explanation::ReferenceKind, safe::printable},
    watch::read_body,
};

/// The most names of one kind in a namespace that are compared.
const PAGE: u32 = 500;
/// The most bytes of a response.
const BYTES: usize = 8 << 20;
/// The most requests of a command, and how long they take together.
const REQUESTS: usize = 50;
const WITHIN: Duration = Duration::from_secs(10);
/// Objects that every namespace has, so that they are not what somebody meant.
const EVERYWHERE: [&str; 2] = ["kube-root-ca.crt", "istio-ca-root-cert"];

/// What a sentence says does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing<'a> {
    kind: ReferenceKind,
    name: &'a str,
    /// The key that the object lacks; absent if the object itself does not exist.
    key: Option<&'a str>,
}

/// Reads names, each list once.
pub(super) struct NearNames {
    client: Client,
    lists: HashMap<(ReferenceKind, String), Vec<String>>,
    requests: usize,
    deadline: Option<Instant>,
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
            let names = match kind {
                ReferenceKind::ConfigMap => self.names::<ConfigMap>(namespace).await,
                ReferenceKind::Secret => self.names::<Secret>(namespace).await,
                ReferenceKind::PersistentVolumeClaim => self.names::<PersistentVolumeClaim>(namespace).await,
                ReferenceKind::ServiceAccount => self.names::<ServiceAccount>(namespace).await,
            };
            self.lists.insert(place.clone(), names);
        }
        let names = self.lists.get(&place).into_iter().flatten().map(String::as_str);
        closest(name, names).map(|near| printable(&format!("there is a {kind:?} {near}"))).unwrap_or_default()
    }

    async fn names<K: Resource<DynamicType = ()> + Clone>(&mut self, namespace: &str) -> Vec<String> {
        let list: Option<ObjectList<PartialObjectMeta<K>>> = self.read::<K, _>(namespace, None).await;
        list.into_iter().flat_map(|list| list.items).filter_map(|own| own.metadata.name).collect()
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
        Cause::ConfigMapMissing => object(ReferenceKind::ConfigMap, " needs the ConfigMap ", ", which does not exist"),
        Cause::SecretMissing => object(ReferenceKind::Secret, " needs the Secret ", ", which does not exist"),
        Cause::VolumeNotFound => {
            object(ReferenceKind::PersistentVolumeClaim, "the PersistentVolumeClaim ", " does not exist")
        }
        Cause::ServiceAccountMissing => {
            object(ReferenceKind::ServiceAccount, "the service account ", " does not exist")
        }
        Cause::KeyMissing => {
            let name = between(", which the ConfigMap ", " does not have")?;
            let key = between(" needs the key ", ", which the ConfigMap ")?;
            Some(Missing { kind: ReferenceKind::ConfigMap, name, key: Some(key) })
        }
        _ => None,
    }
}

/// The closest of these names. Of several, the one with the smallest edit distance, and then the first in alphabetical order.
fn closest<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let lower = wanted.to_lowercase();
    let near = names.filter(|name| *name != wanted && !EVERYWHERE.contains(name) && is_close(wanted, name));
    near.min_by_key(|name| (osa_distance(&lower, &name.to_lowercase()), *name))
}

/// Whether one of two names may be meant by the other: it has a typing error, or the words of the other and more.
fn is_close(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let (words, others) = (split(&one), split(&other));
    is_misspelt(&one, &other, &words, &others) || has_words_of(&words, &others)
}

fn split(name: &str) -> Vec<&str> {
    name.split(['-', '.', '_']).filter(|word| !word.is_empty()).collect()
}

/// One or two wrong letters. Numbers are no typing errors: `data-0` and `data-1` are two objects.
fn is_misspelt(one: &str, other: &str, words: &[&str], others: &[&str]) -> bool {
    let shorter = one.chars().count().min(other.chars().count());
    let most = match shorter {
        ..4 => return one == other,
        4..8 => 1,
        _ => 2,
    };
    let digits = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>();
    // A wrong letter in a short word makes another word.
    let is_wrong_word = |(one, other): (&&str, &&str)| one == other || one.len().min(other.len()) >= 4;
    let are_words = words.len() != others.len() || words.iter().zip(others).all(is_wrong_word);
    digits(one) == digits(other) && are_words && osa_distance(one, other) <= most
}

/// Whether the words of one are also words of the other, in any order, and the other has few more. Hashes at the end, such as
/// those of Kustomize, do not count.
fn has_words_of(words: &[&str], others: &[&str]) -> bool {
    let (words, others) = (without_hash(words), without_hash(others));
    let (fewer, mut more) =
        if words.len() <= others.len() { (words, others.to_vec()) } else { (others, words.to_vec()) };
    let most = more.len();
    let is_part = fewer.iter().all(|word| match more.iter().position(|other| is_same_word(word, other)) {
        Some(place) => {
            more.swap_remove(place);
            true
        }
        None => false,
    });
    // What is left may be a number, such as of a replica.
    let is_numbered = more.iter().any(|word| word.bytes().all(|own| own.is_ascii_digit()));
    is_part && !is_numbered && !fewer.is_empty() && 5 * fewer.len() >= 3 * most
}

fn without_hash<'w, 'n>(words: &'w [&'n str]) -> &'w [&'n str] {
    let is_hash = |word: &str| word.len() >= 5 && word.contains(|own: char| own.is_ascii_digit());
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() && is_hash(last) => rest,
        _ => words,
    }
}

/// `config` and `configuration`, `secret` and `secrets`.
fn is_same_word(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    one == other || short.len() >= 4 && long.starts_with(short) && !long.contains(|own: char| own.is_ascii_digit())
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
                object(ReferenceKind::ConfigMap, "app-config"),
            ),
            (
                Cause::SecretMissing,
                "the volume tls needs the Secret tls, which does not exist",
                object(ReferenceKind::Secret, "tls"),
            ),
            (
                Cause::VolumeNotFound,
                "the PersistentVolumeClaim data does not exist",
                object(ReferenceKind::PersistentVolumeClaim, "data"),
            ),
            (Cause::VolumeNotFound, "the PersistentVolumeClaim of the volume data does not exist", None),
            (Cause::VolumeNotFound, "the PersistentVolume pv-1 of the claim data does not exist", None),
            (
                Cause::ServiceAccountMissing,
                "its pods cannot be created: the service account robot does not exist",
                object(ReferenceKind::ServiceAccount, "robot"),
            ),
            (
                Cause::KeyMissing,
                "app needs the key LOG_LEVEL, which the ConfigMap settings does not have",
                Some(Missing { kind: ReferenceKind::ConfigMap, name: "settings", key: Some("LOG_LEVEL") }),
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

    #[test]
    fn names_that_may_be_meant_are_close() {
        for (wanted, existing) in [
            ("app-config", "app-configuration"),
            ("app-config", "app-confg"),
            ("app-config", "app-configs"),
            ("app-config", "appconfig"),
            ("app-config", "config-app"),
            ("app-config", "app-config-prod"),
            ("shop-app-config", "app-config"),
            ("app-config", "app-config-5d9f7c8h2k"),
            ("app-config-m2h5b9t4gd", "app-config-5d9f7c8h2k"),
            ("db-credentials", "db-credential"),
            ("db-credentials", "db-crednetials"),
            ("redis-pvc", "redis-pvc-data"),
            ("postgres", "postgers"),
            ("prometheus", "promethues"),
            ("deployer", "deploy"),
            ("LOG_LEVEL", "log-level"),
            ("DATABASE_URL", "DATABASEURL"),
            ("conf.yaml", "config.yaml"),
            ("cart_settings", "cart-settings"),
            ("regcred", "regcreds"),
        ] {
            let found = closest(wanted, ["kube-root-ca.crt", "unrelated", existing].into_iter());
            assert_eq!(found, Some(existing), "{wanted}");
        }
    }

    #[test]
    fn names_of_other_objects_are_not_close() {
        for (wanted, existing) in [
            ("app-config", "app-secret"),
            ("app-config", "cart-config"),
            ("app-config", "app"),
            ("app-config", "config"),
            ("redis", "redis-credentials"),
            ("payments-db-credentials", "payments-db-backup"),
            ("data-redis-0", "data-redis-1"),
            ("data-0", "data-1"),
            ("app-tls", "api-tls"),
            ("db", "bd"),
            ("tls", "tsl"),
            ("config-v1", "config-v2"),
            ("kube-root-ca", "kube-root-ca.crt"),
            ("default", "builder"),
            ("settings", "settings"),
            ("web-data", "web-data-2"),
            ("", "a"),
        ] {
            assert_eq!(closest(wanted, std::iter::once(existing)), None, "{wanted} and {existing}");
        }
    }

    #[test]
    fn the_closest_name_is_suggested() {
        let names = ["app-configuration", "app-configs", "app-config-b", "app-config-a"];
        assert_eq!(closest("app-config", names.into_iter()), Some("app-configs"));
        assert_eq!(closest("app-config", names[2..].iter().copied()), Some("app-config-a"));
        let hostile = "-".repeat(300_000);
        assert_eq!(closest("app-config", std::iter::once(hostile.as_str())), None);
    }
}
