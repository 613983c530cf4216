//! The owner of a pod, its revision, and the rule for replaced pods: the controller of a failed pod has, or had, a healthy pod
//! that was created later.

use arcstr::{ArcStr, literal};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::{
    api::Owner,
    pods::{Controller, Pod},
};

use super::world::JobFacts;

/// The labels that hold the hash in the name of a ReplicaSet, and the kind of controller that creates such ReplicaSets.
const TEMPLATE_HASHES: [(&str, &str); 2] =
    [("pod-template-hash", "Deployment"), ("rollouts-pod-template-hash", "Rollout")];

const CONTROLLER_REVISION_HASH: &str = "controller-revision-hash";

/// The top controller of a pod. Unlike those of an [`Owner`], its texts may be shared between pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodOwner {
    pub kind: ArcStr,
    /// The name, in the pod's namespace.
    pub name: ArcStr,
}

impl From<PodOwner> for Owner {
    fn from(PodOwner { kind, name }: PodOwner) -> Self {
        Self { kind: kind.to_string(), name: name.to_string() }
    }
}

/// The pod's top controller, derived from names in the pod: a ReplicaSet whose name ends in the pod's template hash belongs to
/// a Deployment or an Argo Rollout. Only the Job object shows that a Job belongs to a CronJob.
#[must_use]
pub fn owner(pod: &Pod) -> Option<PodOwner> {
    let (kind, name) = owner_names(pod)?;
    Some(PodOwner { kind: kind.into(), name: name.into() })
}

/// The kind and name of [`owner`].
#[must_use]
pub(crate) fn owner_names(pod: &Pod) -> Option<(&str, &str)> {
    let Controller { kind, name, .. } = pod.controller.as_ref()?;
    if kind.is_empty() || name.is_empty() {
        return None;
    }
    let template = |(label, owner)| {
        let (_, hash) = pod.labels.iter().find(|(key, _)| key == label)?;
        let name = name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
        (!hash.is_empty() && !name.is_empty()).then_some((owner, name))
    };
    let top = if kind == "ReplicaSet" { TEMPLATE_HASHES.into_iter().find_map(template) } else { None };
    Some(top.unwrap_or((kind, name)))
}

/// The label of pods that differs between the revisions of an owner of this kind. Of a StatefulSet and a DaemonSet, the
/// revisions are ControllerRevisions; of the others, ReplicaSets.
#[must_use]
pub(crate) fn revision_label(owner_kind: &str) -> Option<&'static str> {
    match owner_kind {
        "StatefulSet" | "DaemonSet" => Some(CONTROLLER_REVISION_HASH),
        _ => TEMPLATE_HASHES.into_iter().find(|(_, kind)| *kind == owner_kind).map(|(label, _)| label),
    }
}

/// Whether the owner or the revision of a pod depends on the label of this key.
#[must_use]
pub(crate) fn is_revision_label(key: &str) -> bool {
    key == CONTROLLER_REVISION_HASH || TEMPLATE_HASHES.into_iter().any(|(label, _)| label == key)
}

/// The revision of its owner that a pod belongs to, as the value of [`revision_label`].
#[must_use]
pub(crate) fn revision_hash(pod: &Pod) -> Option<&str> {
    let (kind, _) = owner_names(pod)?;
    let label = revision_label(kind)?;
    let (_, hash) = pod.labels.iter().find(|(key, _)| key == label)?;
    Some(hash.as_str()).filter(|hash| !hash.is_empty())
}

/// The name of the ReplicaSet or ControllerRevision that has this value of [`revision_label`].
#[must_use]
pub(crate) fn revision_name(owner_kind: &str, owner_name: &str, hash: &str) -> String {
    // A StatefulSet writes the name into the label, and a DaemonSet only the hash.
    if owner_kind == "StatefulSet" { hash.to_owned() } else { format!("{owner_name}-{hash}") }
}

/// The top controller of a workload that creates pods: the Deployment or Rollout of a ReplicaSet, or the CronJob of a Job.
/// For others it is the workload itself, as for their pods.
#[must_use]
pub(crate) fn workload_owner(kind: &str, name: &str, references: &[OwnerReference]) -> Owner {
    let controller = references.iter().find(|reference| reference.controller == Some(true));
    let top = controller.filter(|controller| !controller.name.is_empty()).filter(|controller| {
        let group = controller.api_version.split_once('/').map_or("", |(group, _)| group);
        match kind {
            "ReplicaSet" => TEMPLATE_HASHES.iter().any(|(_, owner)| controller.kind == *owner),
            "Job" => controller.kind == "CronJob" && group == "batch",
            _ => false,
        }
    });
    let (kind, name) = top.map_or((kind, name), |top| (top.kind.as_str(), top.name.as_str()));
    Owner { kind: kind.to_owned(), name: name.to_owned() }
}

/// The top controller, including a CronJob that the Job object names.
pub(super) fn owner_with(pod: &Pod, job: Option<&JobFacts>) -> Option<PodOwner> {
    match job.and_then(|job| job.cron_job.as_ref()) {
        Some(name) => Some(PodOwner { kind: literal!("CronJob"), name: name.into() }),
        None => owner(pod),
    }
}

/// The Job that must be read before a problem of this pod can be reported: it shows whether another attempt succeeded, and
/// which CronJob is the owner. None for pods of other controllers, including Jobs of other API groups.
#[must_use]
pub(crate) fn needs_job(pod: &Pod) -> Option<&Controller> {
    pod.controller.as_ref().filter(|controller| {
        let group = controller.api_version.split_once('/').map_or("", |(group, _)| group);
        controller.kind == "Job" && group == "batch" && !controller.name.is_empty()
    })
}

/// The kinds of owners that replace a failed pod by one of another name. Other controllers delete a pod before they
/// replace it.
const REPLACING_OWNERS: [&str; 4] = ["Deployment", "ReplicaSet", "Rollout", "ReplicationController"];

/// The owner of a pod if it is one that replaces failed pods.
pub(crate) fn replacing_owner(pod: &Pod) -> Option<(&str, &str)> {
    owner_names(pod).filter(|(kind, _)| REPLACING_OWNERS.contains(kind))
}

/// When a pod that is healthy under any thresholds was created, if it replaces the failed pods that are older.
pub(crate) fn replaces_older_than(healthy: &Pod) -> Option<Timestamp> {
    healthy.created.filter(|_| healthy.phase == "Running")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::testing::controller;

    fn pod(kind: &str, name: &str, labels: &[(&str, &str)]) -> Pod {
        let controller = controller(kind, name, "1");
        let labels = labels.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        Pod { controller: Some(controller), labels, ..Pod::default() }
    }

    #[test]
    fn finds_the_top_controller_by_the_template_hash() {
        const HASH: &str = "pod-template-hash";
        for (kind, name, labels, expected) in [
            ("ReplicaSet", "cart-5d9f", [(HASH, "5d9f")].as_slice(), "Deployment/cart"),
            ("ReplicaSet", "cart-5d9f", &[("rollouts-pod-template-hash", "5d9f")], "Rollout/cart"),
            ("ReplicaSet", "cart-5d9f", &[(HASH, "other")], "ReplicaSet/cart-5d9f"),
            ("ReplicaSet", "cart-5d9f", &[], "ReplicaSet/cart-5d9f"),
            ("ReplicaSet", "cart5d9f", &[(HASH, "5d9f")], "ReplicaSet/cart5d9f"),
            ("ReplicaSet", "-5d9f", &[(HASH, "5d9f")], "ReplicaSet/-5d9f"),
            ("ReplicaSet", "cart-", &[(HASH, "")], "ReplicaSet/cart-"),
            ("StatefulSet", "db-5d9f", &[(HASH, "5d9f")], "StatefulSet/db-5d9f"),
            ("Job", "backup-29384750", &[], "Job/backup-29384750"),
            ("Node", "node-7", &[], "Node/node-7"),
        ] {
            let owner = owner(&pod(kind, name, labels)).unwrap();
            assert_eq!(format!("{}/{}", owner.kind, owner.name), expected);
        }
        assert_eq!(owner(&Pod::default()), None);
        assert_eq!(owner(&pod("", "x", &[])), None);
    }

    #[test]
    fn finds_the_revision_of_a_pod() {
        for (kind, name, label, expected) in [
            ("ReplicaSet", "cart-5d9f", "pod-template-hash", Some("5d9f")),
            ("ReplicaSet", "cart-5d9f", "rollouts-pod-template-hash", Some("5d9f")),
            ("ReplicaSet", "cart-other", "pod-template-hash", None),
            ("StatefulSet", "db", "controller-revision-hash", Some("5d9f")),
            ("DaemonSet", "agent", "controller-revision-hash", Some("5d9f")),
            ("DaemonSet", "agent", "pod-template-hash", None),
            ("Job", "backup", "controller-revision-hash", None),
        ] {
            let pod = pod(kind, name, &[(label, "5d9f")]);
            assert_eq!(revision_hash(&pod), expected, "{kind}/{name} {label}");
        }
        assert_eq!(revision_hash(&pod("DaemonSet", "agent", &[("controller-revision-hash", "")])), None);
        for (kind, hash, name) in [
            ("Deployment", "5d9f", "cart-5d9f"),
            ("Rollout", "5d9f", "cart-5d9f"),
            ("DaemonSet", "5d9f", "cart-5d9f"),
            ("StatefulSet", "cart-5d9f", "cart-5d9f"),
        ] {
            assert_eq!(revision_name(kind, "cart", hash), name);
        }
    }

    #[test]
    fn finds_the_owner_of_a_workload() {
        let reference = |api_version: &str, kind: &str, controller| OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: "top".to_owned(),
            uid: "u".to_owned(),
            controller: Some(controller),
            ..OwnerReference::default()
        };
        for (kind, references, expected) in [
            ("ReplicaSet", vec![reference("apps/v1", "Deployment", true)], "Deployment/top"),
            ("ReplicaSet", vec![reference("argoproj.io/v1alpha1", "Rollout", true)], "Rollout/top"),
            ("ReplicaSet", vec![reference("apps/v1", "Deployment", false)], "ReplicaSet/api"),
            ("ReplicaSet", vec![reference("example.com/v1", "App", true)], "ReplicaSet/api"),
            (
                "ReplicaSet",
                vec![OwnerReference { name: String::new(), ..reference("apps/v1", "Deployment", true) }],
                "ReplicaSet/api",
            ),
            ("ReplicaSet", vec![], "ReplicaSet/api"),
            ("Job", vec![reference("batch/v1", "CronJob", true)], "CronJob/top"),
            ("Job", vec![reference("example.com/v1", "CronJob", true)], "Job/api"),
            ("StatefulSet", vec![reference("example.com/v1", "Database", true)], "StatefulSet/api"),
            (
                "ReplicationController",
                vec![reference("apps.openshift.io/v1", "DeploymentConfig", true)],
                "ReplicationController/api",
            ),
        ] {
            let owner = workload_owner(kind, "api", &references);
            assert_eq!(format!("{}/{}", owner.kind, owner.name), expected);
        }
    }

    #[test]
    fn finds_the_cron_job_of_a_job() {
        let job = JobFacts { cron_job: Some("backup".to_owned()), ..JobFacts::default() };
        let owner = owner_with(&pod("Job", "backup-29384750", &[]), Some(&job)).unwrap();
        assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("CronJob", "backup"));
    }

    #[test]
    fn only_pods_of_batch_jobs_need_their_job() {
        assert_eq!(needs_job(&pod("Job", "sums", &[])).unwrap().name, "sums");
        assert_eq!(needs_job(&pod("ReplicaSet", "sums", &[])), None);
        assert_eq!(needs_job(&pod("Job", "", &[])), None);
        assert_eq!(needs_job(&Pod::default()), None);
        let mut foreign = pod("Job", "sums", &[]);
        for version in ["v1", "", "batch.volcano.sh/v1alpha1", "batch"] {
            foreign.controller.as_mut().unwrap().api_version = version.into();
            assert_eq!(needs_job(&foreign), None, "{version}");
        }
    }

    #[test]
    fn only_some_kinds_of_owners_replace_their_failed_pods() {
        for kind in ["ReplicaSet", "ReplicationController", "Rollout", "StatefulSet", "DaemonSet", "Job"] {
            let is_one = replacing_owner(&pod(kind, "web", &[])).is_some();
            assert_eq!(is_one, REPLACING_OWNERS.contains(&kind), "{kind}");
        }
        let succeeded = Pod { phase: "Succeeded".into(), created: Some(Timestamp::UNIX_EPOCH), ..Pod::default() };
        assert_eq!(replaces_older_than(&succeeded), None);
    }
}
