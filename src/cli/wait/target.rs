//! What to wait for, as named on the command line.

use std::fmt;

/// The longest name of an object.
const NAME_LIMIT: usize = 253;

/// A kind of object that can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    Pod,
}

/// The names of a kind that kubectl accepts, and its API group.
const NAMES: [(Kind, &[&str], &str); 5] = [
    (Kind::Deployment, &["deployment", "deployments", "deploy"], "apps"),
    (Kind::StatefulSet, &["statefulset", "statefulsets", "sts"], "apps"),
    (Kind::DaemonSet, &["daemonset", "daemonsets", "ds"], "apps"),
    (Kind::Job, &["job", "jobs"], "batch"),
    (Kind::Pod, &["pod", "pods", "po"], ""),
];

impl Kind {
    /// Parses `deploy`, `Deployment`, `deployments.apps` or `deployments.v1.apps`, as kubectl does.
    fn parse(text: &str) -> Option<Self> {
        let text = text.to_lowercase();
        let (name, group) = match text.split_once('.') {
            Some((name, group)) => (name, Some(group.strip_prefix("v1.").unwrap_or(group))),
            None => (text.as_str(), None),
        };
        let (kind, _, own_group) = NAMES.iter().find(|(_, names, _)| names.contains(&name))?;
        group.is_none_or(|group| group == *own_group).then_some(*kind)
    }

    /// The singular in lower case, as kubectl prints it.
    pub(super) const fn singular(self) -> &'static str {
        match self {
            Self::Deployment => "deployment",
            Self::StatefulSet => "statefulset",
            Self::DaemonSet => "daemonset",
            Self::Job => "job",
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
            Self::Pod => "pods",
        }
    }
}

/// An argument of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    /// `KIND/NAME`
    Named(Kind, String),
    /// `pods`, whose labels a flag selects.
    Pods,
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Named(Kind, String),
    /// The pods with these labels.
    Selected(String),
}

/// For example `deployment/cart`, or `pods -l app=cart`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(kind, name) => write!(f, "{}/{name}", kind.singular()),
            Self::Selected(labels) => write!(f, "pods -l {labels}"),
        }
    }
}

/// Parses an argument of the command.
pub(super) fn argument(text: &str) -> Result<Argument, String> {
    let Some((kind, name)) = text.split_once('/') else {
        return match Kind::parse(text) {
            Some(Kind::Pod) => Ok(Argument::Pods),
            Some(kind) => Err(format!("must be KIND/NAME, such as {}/cart", kind.singular())),
            None => Err("must be KIND/NAME, such as deployment/cart".to_owned()),
        };
    };
    let kind = Kind::parse(kind).ok_or(
        "is of a kind that cannot be waited for: deployment, statefulset, daemonset, job and pod can, and their short names",
    )?;
    if !is_object_name(name) {
        return Err(format!("{name:?} is not the name of an object"));
    }
    Ok(Argument::Named(kind, name.to_owned()))
}

/// Whether the API server accepts this as the name of an object. Anything else must not become part of a URL.
pub(super) fn is_object_name(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    name.len() <= NAME_LIMIT && name.bytes().all(is_inner) && is_end(name.bytes().next()) && is_end(name.bytes().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_names_of_kubectl() {
        for (text, kind) in [
            ("deployment/cart", Kind::Deployment),
            ("deployments/cart", Kind::Deployment),
            ("deploy/cart", Kind::Deployment),
            ("Deployment/cart", Kind::Deployment),
            ("deployment.apps/cart", Kind::Deployment),
            ("deployments.v1.apps/cart", Kind::Deployment),
            ("sts/cart", Kind::StatefulSet),
            ("statefulsets/cart", Kind::StatefulSet),
            ("ds/cart", Kind::DaemonSet),
            ("daemonset.apps/cart", Kind::DaemonSet),
            ("job/cart", Kind::Job),
            ("jobs.batch/cart", Kind::Job),
            ("po/cart", Kind::Pod),
            ("pods/cart", Kind::Pod),
        ] {
            assert_eq!(argument(text), Ok(Argument::Named(kind, "cart".to_owned())), "{text}");
        }
        for text in ["pod", "pods", "po", "Pods"] {
            assert_eq!(argument(text), Ok(Argument::Pods), "{text}");
        }
    }

    #[test]
    fn rejects_what_names_no_workload() {
        for (text, message) in [
            ("cart", "must be KIND/NAME, such as deployment/cart"),
            ("sts", "must be KIND/NAME, such as statefulset/cart"),
            ("deploy/", "\"\" is not the name of an object"),
            ("deploy/a/b", "\"a/b\" is not the name of an object"),
            ("deploy/../../secrets", "\"../../secrets\" is not the name of an object"),
            ("deploy/Cart", "\"Cart\" is not the name of an object"),
            ("deploy/cart\u{1b}[2J", "\"cart\\u{1b}[2J\" is not the name of an object"),
            (
                "cronjob/cart",
                "is of a kind that cannot be waited for: deployment, statefulset, daemonset, job and pod can, and their short names",
            ),
            (
                "deployment.example.com/cart",
                "is of a kind that cannot be waited for: deployment, statefulset, daemonset, job and pod can, and their short names",
            ),
        ] {
            assert_eq!(argument(text), Err(message.to_owned()), "{text}");
        }
        assert!(!is_object_name(&"a".repeat(NAME_LIMIT + 1)) && is_object_name(&"a".repeat(NAME_LIMIT)));
    }

    #[test]
    fn is_printed_as_kubectl_prints_it() {
        assert_eq!(Target::Named(Kind::StatefulSet, "db".to_owned()).to_string(), "statefulset/db");
        assert_eq!(Target::Selected("app=cart".to_owned()).to_string(), "pods -l app=cart");
    }
}
