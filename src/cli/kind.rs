//! The names of objects that commands accept, as kubectl accepts them.

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::{CronJob, Job},
    core::v1::Pod,
};
use kube::core::{ApiResource, GroupVersionKind, Resource};

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

/// The names of a kind that kubectl accepts, and its API group.
const NAMES: [(Kind, &[&str], &str); 6] = [
    (Kind::Deployment, &["deployment", "deployments", "deploy"], "apps"),
    (Kind::StatefulSet, &["statefulset", "statefulsets", "sts"], "apps"),
    (Kind::DaemonSet, &["daemonset", "daemonsets", "ds"], "apps"),
    (Kind::Job, &["job", "jobs"], "batch"),
    (Kind::CronJob, &["cronjob", "cronjobs", "cj"], "batch"),
    (Kind::Pod, &["pod", "pods", "po"], ""),
];

impl Kind {
    /// Parses `deploy`, `Deployment`, `deployments.apps` or `deployments.v1.apps`, as kubectl does.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let (name, group) = match text.split_once('.') {
            Some((name, group)) => (name, Some(group.strip_prefix("v1.").unwrap_or(group))),
            None => (text.as_str(), None),
        };
        let (kind, _, own_group) = NAMES.iter().find(|(_, names, _)| names.contains(&name))?;
        group.is_none_or(|group| group == *own_group).then_some(*kind)
    }

    /// How the API names its objects.
    pub(super) fn api_resource(self) -> ApiResource {
        let (plural, group) = NAMES.iter().find(|(kind, ..)| *kind == self).map_or(("", ""), |own| (own.1[1], own.2));
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", self.api_kind()), plural)
    }

    /// The singular in lower case, as kubectl prints it.
    pub(super) const fn singular(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
            Self::Job => "job",
            Self::CronJob => "cronjob",
            Self::Pod => "pod",
        }
    }

    /// The resource in the terms of RBAC.
    pub(super) const fn resource(self) -> &'static str {
        match self {
            Self::Deployment => "deployments.apps",
            Self::StatefulSet => "statefulsets.apps",
            Self::DaemonSet => "daemonsets.apps",
            Self::Job => "jobs.batch",
            Self::CronJob => "cronjobs.batch",
            Self::Pod => "pods",
        }
    }

    /// The kind as the API writes it.
    pub(super) const fn api_kind(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
            Self::Pod => "Pod",
        }
    }

    /// The kind with this name in the API, if its API version is that of the kind.
    pub(super) fn of_api(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        NAMES.iter().find(|(own, _, of)| own.api_kind() == kind && *of == group).map(|(own, ..)| *own)
    }

    /// The path of its objects in a namespace.
    pub(super) fn url_path(self, namespace: &str) -> String {
        let namespace = Some(namespace);
        match self {
            Self::Deployment => Deployment::url_path(&(), namespace),
            Self::StatefulSet => StatefulSet::url_path(&(), namespace),
            Self::DaemonSet => DaemonSet::url_path(&(), namespace),
            Self::Job => Job::url_path(&(), namespace),
            Self::CronJob => CronJob::url_path(&(), namespace),
            Self::Pod => Pod::url_path(&(), namespace),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
