//! Reads which ConfigMap, Secret or key is missing from the kubelet's errors.

use crate::api::Cause;

use super::{
    super::finding::{Subject, SubjectKind},
    Found,
    parse::parts,
};

/// What is missing, for a sentence.
pub(super) struct Missing {
    pub(super) cause: Cause,
    /// For example `the ConfigMap app-config, which does not exist`.
    pub(super) what: String,
    pub(super) subject: Option<Subject>,
}

impl Missing {
    /// For example `app needs the ConfigMap app-config, which does not exist`.
    pub(super) fn needed_by(self, name: &str) -> Found {
        Found { subject: self.subject, ..Found::new(self.cause, format!("{name} needs {}", self.what)) }
    }
}

/// Older kubelets write the plural.
const OBJECTS: [(&str, SubjectKind, Cause); 4] = [
    ("configmap {q} not found", SubjectKind::ConfigMap, Cause::ConfigMapMissing),
    ("configmaps {q} not found", SubjectKind::ConfigMap, Cause::ConfigMapMissing),
    ("secret {q} not found", SubjectKind::Secret, Cause::SecretMissing),
    ("secrets {q} not found", SubjectKind::Secret, Cause::SecretMissing),
];

const KEYS: [(&str, SubjectKind); 2] = [
    ("couldn't find key {} in ConfigMap {}/{}", SubjectKind::ConfigMap),
    ("couldn't find key {} in Secret {}/{}", SubjectKind::Secret),
];

/// The object is not named.
const ITEMS: [(&str, SubjectKind); 2] = [
    ("configmap references non-existent config key: {}", SubjectKind::ConfigMap),
    ("references non-existent secret key: {}", SubjectKind::Secret),
];

/// Reads an error that consists of nothing else. `namespace` is that of the pod: the kubelet never names an object of another
/// one, so a text that does was forged.
pub(super) fn missing(error: &str, namespace: &str) -> Option<Missing> {
    // A projected volume joins several errors.
    let error = error.split([',', ']']).next().unwrap_or(error);
    let object = OBJECTS.iter().find_map(|(pattern, kind, cause)| Some((*kind, *cause, parts(pattern, error)?)));
    if let Some((kind, cause, [name])) = object {
        let what = format!("the {} {name}, which does not exist", kind.as_str());
        return Some(Missing { cause, what, subject: Some(Subject::namespaced(kind, namespace, name)) });
    }
    let key = KEYS.iter().find_map(|(pattern, kind)| Some((*kind, parts(pattern, error)?)));
    if let Some((kind, [key, named, name])) = key.filter(|(_, [_, named, _])| *named == namespace) {
        let what = format!("the key {key}, which the {} {name} does not have", kind.as_str());
        return Some(Missing { cause: Cause::KeyMissing, what, subject: Some(Subject::namespaced(kind, named, name)) });
    }
    let (kind, [key]) = ITEMS.iter().find_map(|(pattern, kind)| Some((kind, parts(pattern, error)?)))?;
    let what = format!("the key {key}, which its {} does not have", kind.as_str());
    Some(Missing { cause: Cause::KeyMissing, what, subject: None })
}

#[cfg(test)]
mod tests {
    use super::{super::tests::rows, *};

    #[test]
    fn reads_what_is_missing() {
        for [error, cause, what, object] in rows(include_str!("../../../tests/fixtures/messages/missing.tsv")) {
            let found = missing(error, "shop").unwrap();
            assert_eq!((found.cause.as_str(), found.what.as_str()), (cause, what));
            let subject = found.subject.map_or("-".to_owned(), |subject| subject.namespace + "/" + &subject.name);
            assert_eq!(subject.trim_start_matches("shop/"), object);
        }
    }

    #[test]
    fn other_errors_name_nothing() {
        for error in [
            "",
            "configmap \"nope\"",
            "configmap nope not found",
            "failed to sync configmap cache: timed out waiting for the condition",
            "object \"shop\"/\"app\" not registered",
            "couldn't find key a in Pod shop/app",
            "couldn't find key password in Secret payments/db",
            "could not run because configmap \"nope\" not found",
        ] {
            assert!(missing(error, "shop").is_none(), "{error}");
        }
    }
}
