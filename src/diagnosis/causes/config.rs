//! Reads which ConfigMap, Secret or key is missing from the kubelet's errors.

use crate::api::Cause;

use super::{
    super::finding::{Subject, SubjectKind},
    parse::quoted,
};

/// What is missing, for a sentence.
pub(super) struct Missing {
    pub(super) cause: Cause,
    /// For example `the ConfigMap app-config, which does not exist`.
    pub(super) what: String,
    pub(super) subject: Option<Subject>,
}

/// Reads an error that consists of nothing else. `namespace` is that of the pod.
pub(super) fn missing(error: &str, namespace: &str) -> Option<Missing> {
    missing_object(error, namespace).or_else(|| missing_key(error, namespace)).or_else(|| missing_item(error))
}

/// `configmap "app-config" not found`; older kubelets write the plural.
fn missing_object(error: &str, namespace: &str) -> Option<Missing> {
    let kinds = [
        ("configmap ", SubjectKind::ConfigMap, Cause::ConfigMapMissing),
        ("configmaps ", SubjectKind::ConfigMap, Cause::ConfigMapMissing),
        ("secret ", SubjectKind::Secret, Cause::SecretMissing),
        ("secrets ", SubjectKind::Secret, Cause::SecretMissing),
    ];
    kinds.into_iter().find_map(|(prefix, kind, cause)| {
        let (name, rest) = quoted(error.strip_prefix(prefix)?)?;
        // A projected volume joins several errors.
        if !(rest == " not found" || rest.starts_with(" not found, ") || rest.starts_with(" not found]")) {
            return None;
        }
        let what = format!("the {} {name}, which does not exist", kind.as_str());
        Some(Missing { cause, what, subject: Some(Subject::namespaced(kind, namespace, name)) })
    })
}

/// `couldn't find key DB_URL in Secret shop/db`. The kubelet never names an object of another namespace than the pod's, so a
/// text that does was forged.
fn missing_key(error: &str, own: &str) -> Option<Missing> {
    let (key, rest) = error.strip_prefix("couldn't find key ")?.split_once(" in ")?;
    let (kind, name) = rest.split_once(' ')?;
    let kind = match kind {
        "ConfigMap" => SubjectKind::ConfigMap,
        "Secret" => SubjectKind::Secret,
        _ => return None,
    };
    let (namespace, name) = name.split_once('/').filter(|(namespace, _)| *namespace == own)?;
    let what = format!("the key {key}, which the {} {name} does not have", kind.as_str());
    Some(Missing { cause: Cause::KeyMissing, what, subject: Some(Subject::namespaced(kind, namespace, name)) })
}

/// `configmap references non-existent config key: app.yaml`. The object is not named.
fn missing_item(error: &str) -> Option<Missing> {
    let (kind, key) = [
        ("ConfigMap", "configmap references non-existent config key: "),
        ("Secret", "references non-existent secret key: "),
    ]
    .into_iter()
    .find_map(|(kind, prefix)| Some((kind, error.strip_prefix(prefix)?)))?;
    Some(Missing {
        cause: Cause::KeyMissing,
        what: format!("the key {key}, which its {kind} does not have"),
        subject: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_missing() {
        for (error, cause, what, object) in [
            (
                "configmap \"nope\" not found",
                Cause::ConfigMapMissing,
                "the ConfigMap nope, which does not exist",
                Some("nope"),
            ),
            ("secrets \"db\" not found", Cause::SecretMissing, "the Secret db, which does not exist", Some("db")),
            (
                "couldn't find key DB_URL in Secret shop/db",
                Cause::KeyMissing,
                "the key DB_URL, which the Secret db does not have",
                Some("db"),
            ),
            (
                "couldn't find key a in ConfigMap shop/app",
                Cause::KeyMissing,
                "the key a, which the ConfigMap app does not have",
                Some("app"),
            ),
            (
                "configmap references non-existent config key: app.yaml",
                Cause::KeyMissing,
                "the key app.yaml, which its ConfigMap does not have",
                None,
            ),
            (
                "references non-existent secret key: tls.key",
                Cause::KeyMissing,
                "the key tls.key, which its Secret does not have",
                None,
            ),
        ] {
            let found = missing(error, "shop").unwrap();
            assert_eq!((found.cause, found.what.as_str()), (cause, what));
            assert_eq!(
                found.subject.map(|subject| (subject.namespace, subject.name)),
                object.map(|name| ("shop".into(), name.into()))
            );
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
