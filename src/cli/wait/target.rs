//! What to wait for, as named on the command line. It is read once before it is watched, so that a wrong name or a missing
//! permission is an error and no wait.

use std::{fmt, time::Duration};

use k8s_openapi::api::core::v1::Namespace;
use serde::de::IgnoredAny;
use tokio::time::timeout;

use crate::{
    cli::{Failure, connect::Cluster, kind},
    facts::get,
    pods::WatchedPod,
};

use super::workload::Workload;

pub(super) use crate::cli::kind::{Argument, Kind};

/// The kinds that can be waited for. A CronJob is never done: its Jobs are.
const KINDS: [Kind; 5] = [Kind::Deployment, Kind::StatefulSet, Kind::DaemonSet, Kind::Job, Kind::Pod];

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

/// Parses an argument of the command: `KIND/NAME`, or `pods` that a flag selects.
pub(super) fn argument(text: &str) -> Result<Argument, String> {
    let argument = kind::argument(text, "waited for", &KINDS)?;
    let Argument::Word(word) = &argument else { return Ok(argument) };
    match Kind::parse(word) {
        Some(Kind::Pod) => Ok(argument),
        Some(kind) if KINDS.contains(&kind) => Err(format!("must be KIND/NAME, such as {}/cart", kind.singular())),
        _ => Err("must be KIND/NAME, such as deployment/cart".to_owned()),
    }
}

/// What to watch for a target.
pub(super) struct Watched {
    pub(super) target: Target,
    /// The UID of the object, and the labels of its pods. Absent for pods.
    pub(super) workload: Option<(String, String)>,
    /// The UID of a pod; otherwise empty.
    pub(super) pod_uid: String,
}

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Reads a target.
///
/// # Errors
/// If it does not exist, or may not be read.
pub(super) async fn look_up(cluster: &Cluster, namespace: &str, target: Target) -> Result<Watched, Failure> {
    let Target::Named(kind, name) = &target else {
        namespace_exists(cluster, namespace).await?;
        return Ok(Watched { target, workload: None, pod_uid: String::new() });
    };
    let json = cluster.get(*kind, namespace, name, TIMEOUT).await?;
    let undecodable = |error| cluster.target.describe(&kube::Error::SerdeError(error));
    let Some(workload) = Workload::decode(*kind, &json).map_err(undecodable)? else {
        let watched: WatchedPod = serde_json::from_str(&json).map_err(undecodable)?;
        return Ok(Watched { target, workload: None, pod_uid: watched.uid().to_string() });
    };
    let unreadable = |error| Failure::new(format!("cannot read the selector of {target}: {error}"));
    let labels = workload.selector().map_err(unreadable)?;
    let workload = Some((workload.uid().to_owned(), labels));
    Ok(Watched { target, workload, pod_uid: String::new() })
}

/// Fails if the namespace does not exist: without pods, one could wait for them for ever. If this may not be checked, the
/// wait goes on.
async fn namespace_exists(cluster: &Cluster, namespace: &str) -> Result<(), Failure> {
    let namespaces = get::<Namespace, IgnoredAny>(&cluster.client, None, namespace);
    match timeout(TIMEOUT, namespaces).await.map_err(|_| cluster.target.timed_out(TIMEOUT.as_secs()))? {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(Failure::new(format!("there is no namespace {namespace:?}"))),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
        Err(error) => Err(cluster.target.describe(&error)),
    }
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
            assert_eq!(argument(text), Ok(Argument::Word(text.to_owned())), "{text}");
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
    }

    #[test]
    fn is_printed_as_kubectl_prints_it() {
        assert_eq!(Target::Named(Kind::StatefulSet, "db".to_owned()).to_string(), "statefulset/db");
        assert_eq!(Target::Selected("app=cart".to_owned()).to_string(), "pods -l app=cart");
    }
}
