//! The names of objects that commands accept, as kubectl accepts them.

use kube::core::{ApiResource, GroupVersionKind};

use crate::api::{NamespacedName, is_object_name};

/// An argument that names an object, or the objects that other flags select.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// `KIND/NAME`
    Named(Kind, String),
    /// A word without a kind: the name of a pod, or a kind.
    Word(String),
}

/// Parses an argument of a command to which an object of these kinds can be `done`.
pub(super) fn argument(text: &str, done: &str, kinds: &[Kind]) -> Result<Argument, String> {
    let Some((kind, name)) = text.split_once('/') else { return Ok(Argument::Word(text.to_owned())) };
    let kind = Kind::parse(kind).filter(|kind| kinds.contains(kind)).ok_or_else(|| {
        let (last, others) = kinds.split_last().map_or(("", Vec::new()), |(last, others)| {
            (last.singular(), others.iter().map(|kind| kind.singular()).collect())
        });
        format!("is of a kind that cannot be {done}: {} and {last} can, and their short names", others.join(", "))
    })?;
    Ok(Argument::Named(kind, name_of_object(name)?))
}

/// Checks the name of an object.
pub(super) fn name_of_object(name: &str) -> Result<String, String> {
    if is_object_name(name) { Ok(name.to_owned()) } else { Err(format!("{name:?} is not the name of an object")) }
}

/// Parses `NAMESPACE/NAME`.
pub(super) fn object_name(text: &str) -> Result<NamespacedName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("must be NAMESPACE/NAME".to_owned()),
    }
}

/// A kind of object that commands accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Pod,
}

/// A kind, its name in the API, its names for kubectl (the singular, the plural, and the short one if it has one), its API group,
/// and its resource in the terms of RBAC.
type Names = (Kind, &'static str, &'static [&'static str], &'static str, &'static str);

/// In the order of the kinds.
const NAMES: [Names; 6] = [
    (Kind::Deployment, "Deployment", &["deployment", "deployments", "deploy"], "apps", "deployments.apps"),
    (Kind::StatefulSet, "StatefulSet", &["statefulset", "statefulsets", "sts"], "apps", "statefulsets.apps"),
    (Kind::DaemonSet, "DaemonSet", &["daemonset", "daemonsets", "ds"], "apps", "daemonsets.apps"),
    (Kind::Job, "Job", &["job", "jobs"], "batch", "jobs.batch"),
    (Kind::CronJob, "CronJob", &["cronjob", "cronjobs", "cj"], "batch", "cronjobs.batch"),
    (Kind::Pod, "Pod", &["pod", "pods", "po"], "", "pods"),
];

impl Kind {
    fn names(self) -> Names {
        NAMES[self as usize]
    }

    /// Parses `deploy`, `Deployment`, `deployments.apps` or `deployments.v1.apps`, as kubectl does.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let (name, group) = match text.split_once('.') {
            Some((name, group)) => (name, Some(group.strip_prefix("v1.").unwrap_or(group))),
            None => (text.as_str(), None),
        };
        let (kind, _, _, own_group, _) = NAMES.into_iter().find(|(_, _, names, ..)| names.contains(&name))?;
        group.is_none_or(|group| group == own_group).then_some(kind)
    }

    /// How the API names its objects.
    pub(super) fn api_resource(self) -> ApiResource {
        let (_, kind, names, group, _) = self.names();
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", kind), names[1])
    }

    /// The singular in lower case, as kubectl prints it.
    pub(super) fn singular(self) -> &'static str {
        self.names().2[0]
    }

    /// The resource in the terms of RBAC.
    pub(super) fn resource(self) -> &'static str {
        self.names().4
    }

    /// The kind as the API writes it.
    pub(super) fn api_kind(self) -> &'static str {
        self.names().1
    }

    /// The kind with this name in the API, if its API version is that of the kind.
    pub(super) fn of_api(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let names = NAMES.into_iter().find(|(_, own, _, of, _)| *own == kind && *of == group)?;
        Some(names.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_names() {
        for (kind, name, names, ..) in NAMES {
            assert_eq!((kind.api_kind(), kind.singular()), (name, names[0]));
            assert_eq!((format!("{kind:?}"), name.to_lowercase().as_str()), (name.to_owned(), names[0]));
        }
    }

    #[test]
    fn distinguishes_kinds_of_other_groups() {
        for (api_version, kind, expected) in [
            ("apps/v1", "Deployment", Some(Kind::Deployment)),
            ("batch/v1", "Job", Some(Kind::Job)),
            ("v1", "Pod", Some(Kind::Pod)),
            ("batch.volcano.sh/v1alpha1", "Job", None),
            ("v1", "Job", None),
            ("apps/v1", "ReplicaSet", None),
        ] {
            assert_eq!(Kind::of_api(api_version, kind), expected, "{api_version} {kind}");
        }
    }
}
