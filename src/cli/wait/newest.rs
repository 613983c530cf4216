//! Which pods belong to the newest revision of a workload. Only these decide about a rollout. Pure.

use std::collections::HashMap;

use k8s_openapi::{api::apps::v1::ControllerRevision, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::{
    cli::kind::Kind,
    diagnosis::{PodTemplate, WorkloadObject, owner_names, revision_hash},
    pods::Pod,
};

use super::workload::Workload;

/// The annotation with the number of a Deployment's revision, on the Deployment and on its ReplicaSets.
const REVISION_NUMBER: &str = "deployment.kubernetes.io/revision";
const TEMPLATE_HASH: &str = "pod-template-hash";
const REVISION_HASH: &str = "controller-revision-hash";

/// A ReplicaSet or ControllerRevision.
#[derive(Clone, Debug)]
pub(super) struct Revision {
    pub(super) name: String,
    uid: String,
    /// The UID of its controller.
    controller: String,
    /// Grows with each revision. A rollback gives an old revision a new number.
    number: Option<i64>,
    /// The hash in the label of its pods.
    hash: String,
    /// That of a ReplicaSet.
    template: Option<Box<PodTemplate>>,
}

impl Revision {
    pub(super) fn of_replica_set(object: WorkloadObject) -> Self {
        let number = revision_number(&object.metadata);
        let template = object.spec.and_then(|spec| spec.template);
        Self { number, template, ..Self::new(object.metadata, TEMPLATE_HASH) }
    }

    pub(super) fn of_controller_revision(object: ControllerRevision) -> Self {
        Self { number: Some(object.revision), ..Self::new(object.metadata, REVISION_HASH) }
    }

    fn new(metadata: ObjectMeta, label: &str) -> Self {
        let controller = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        Self {
            controller: controller.map(|owner| owner.uid.clone()).unwrap_or_default(),
            hash: metadata.labels.as_ref().and_then(|labels| labels.get(label).cloned()).unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            number: None,
            template: None,
        }
    }
}

/// The newest revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Newest {
    /// The pods that the object with this UID controls.
    ControlledBy(String),
    /// Of these pods, those with this hash.
    Hashed { controller: String, hash: String },
    /// It exists, but its watch has not shown it yet.
    Unlisted,
    /// It does not exist yet, or is not known.
    Unknown,
}

impl Newest {
    pub(super) fn of<'a>(workload: &Workload, revisions: impl Iterator<Item = &'a Revision>) -> Self {
        let uid = workload.uid();
        let own: Vec<_> = revisions.filter(|revision| !uid.is_empty() && revision.controller == uid).collect();
        match workload.kind() {
            Kind::Job => Self::ControlledBy(uid.to_owned()),
            Kind::StatefulSet => match workload.update_revision() {
                Some(hash) => Self::Hashed { controller: uid.to_owned(), hash: hash.to_owned() },
                None => Self::Unknown,
            },
            Kind::DaemonSet => match own.into_iter().max_by_key(|revision| revision.number) {
                Some(Revision { hash, .. }) if !hash.is_empty() => {
                    Self::Hashed { controller: uid.to_owned(), hash: hash.clone() }
                }
                _ => Self::Unknown,
            },
            Kind::Deployment | Kind::CronJob | Kind::Pod => {
                // The controller writes the number of the newest ReplicaSet before it writes `observedGeneration`. Of two
                // watches, one may be behind: then no ReplicaSet has this number, rather than an old one.
                let Some(number) = revision_number(workload.metadata()) else { return Self::Unknown };
                // In a rollback, it gives an old ReplicaSet the next number, and may write `observedGeneration` before it
                // copies that number to the Deployment.
                if !workload.is_paused() && own.iter().any(|revision| revision.number > Some(number)) {
                    return Self::Unlisted;
                }
                let newest = own.into_iter().find(|revision| {
                    // While a Deployment is paused, its controller creates no ReplicaSet for a changed template.
                    let is_same = || revision.has_template(workload.template());
                    revision.number == Some(number) && (!workload.is_paused() || is_same())
                });
                match newest {
                    Some(revision) => Self::ControlledBy(revision.uid.clone()),
                    None if workload.is_paused() => Self::Unknown,
                    None => Self::Unlisted,
                }
            }
        }
    }

    pub(super) fn includes(&self, pod: &Pod) -> bool {
        let is_controlled = |uid: &str| !uid.is_empty() && pod.controller.as_ref().is_some_and(|own| own.uid == uid);
        match self {
            Self::Unknown | Self::Unlisted => false,
            Self::ControlledBy(uid) => is_controlled(uid),
            Self::Hashed { controller, hash } => {
                is_controlled(controller)
                    && pod.labels.iter().any(|(key, value)| key == REVISION_HASH && value == hash.as_str())
            }
        }
    }

    /// Whether it is this ReplicaSet.
    pub(super) fn is(&self, revision: &Revision) -> bool {
        matches!(self, Self::ControlledBy(uid) if *uid == revision.uid)
    }

    /// The UID that events about pods that could not be created name.
    pub(super) fn creator(&self) -> Option<&str> {
        match self {
            Self::ControlledBy(uid) | Self::Hashed { controller: uid, .. } => Some(uid),
            Self::Unknown | Self::Unlisted => None,
        }
    }
}

/// The youngest pod of each owner. Its revision is the newest one, as far as pods show that without their workloads.
pub(super) struct Youngest<'a>(HashMap<(&'a str, &'a str), &'a Pod>);

impl<'a> Youngest<'a> {
    pub(super) fn of(pods: impl Iterator<Item = &'a Pod>) -> Self {
        let mut youngest: HashMap<_, &Pod> = HashMap::new();
        for pod in pods {
            if let Some(owner) = owner_names(pod) {
                let known = youngest.entry(owner).or_insert(pod);
                if pod.created > known.created {
                    *known = pod;
                }
            }
        }
        Self(youngest)
    }

    /// Whether the owner of a pod has created one of another revision later.
    pub(super) fn supersedes(&self, pod: &Pod) -> bool {
        let youngest = owner_names(pod).and_then(|owner| self.0.get(&owner));
        youngest.is_some_and(|youngest| {
            let is_other =
                revision_hash(pod).is_some_and(|hash| revision_hash(youngest).is_some_and(|own| own != hash));
            is_other && youngest.created > pod.created
        })
    }
}

impl Revision {
    /// Whether it has this template, besides the hash that the controller adds.
    fn has_template(&self, template: Option<&PodTemplate>) -> bool {
        let (Some(mut own), Some(template)) = (self.template.clone(), template) else { return false };
        if let Some(labels) = own.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
            labels.remove(TEMPLATE_HASH);
        }
        *own == *template
    }
}

fn revision_number(metadata: &ObjectMeta) -> Option<i64> {
    metadata.annotations.as_ref()?.get(REVISION_NUMBER)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use orchestr_testbed::objects::controlled_by;
    use serde_json::{Value, json};

    use super::*;

    fn replica_set(hash: &str, number: &str, controller: &str, image: &str) -> Revision {
        let labels = json!({"app": "cart", "pod-template-hash": hash});
        Revision::of_replica_set(
            serde_json::from_value(json!({
                "metadata": {
                    "name": format!("cart-{hash}"), "uid": format!("rs-{hash}"), "labels": labels,
                    "annotations": {REVISION_NUMBER: number},
                    "ownerReferences": controlled_by("Deployment", "cart", controller),
                },
                "spec": {"selector": {}, "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app", "image": image}]}}},
            }))
            .unwrap(),
        )
    }

    fn workload(kind: Kind, object: Value) -> Workload {
        Workload::new(kind, serde_json::from_value(object).unwrap())
    }

    fn deployment(number: Option<&str>, paused: bool, image: &str) -> Workload {
        let annotations = number.map(|number| json!({REVISION_NUMBER: number}));
        let template =
            json!({"metadata": {"labels": {"app": "cart"}}, "spec": {"containers": [{"name": "app", "image": image}]}});
        let object = json!({
            "metadata": {"name": "cart", "uid": "d", "annotations": annotations},
            "spec": {"selector": {}, "paused": paused, "template": template},
        });
        workload(Kind::Deployment, object)
    }

    fn pod(controller: &str, labels: Value) -> Pod {
        let owners = controlled_by("X", "x", controller);
        crate::pods::testing::pod("p", json!({"metadata": {"labels": labels, "ownerReferences": owners}}))
    }

    #[test]
    fn the_newest_replica_set_has_the_number_of_the_deployment() {
        let sets = [
            replica_set("one", "3", "d", "a:1"),
            replica_set("two", "2", "d", "a:2"),
            replica_set("three", "9", "other", "a:3"),
        ];
        let newest = |workload: &Workload| Newest::of(workload, sets.iter());
        // A rollback has made the older ReplicaSet the newest.
        assert_eq!(newest(&deployment(Some("3"), false, "a:1")), Newest::ControlledBy("rs-one".to_owned()));
        assert_eq!(newest(&deployment(Some("2"), false, "a:1")), Newest::Unlisted, "a rollback under way");
        assert_eq!(newest(&deployment(Some("4"), false, "a:4")), Newest::Unlisted, "its ReplicaSet is not listed yet");
        assert_eq!(newest(&deployment(Some("9"), false, "a:3")), Newest::Unlisted, "of another Deployment");
        assert_eq!(newest(&deployment(None, false, "a:1")), Newest::Unknown);
        assert_eq!(newest(&deployment(Some("3"), true, "a:1")), Newest::ControlledBy("rs-one".to_owned()));
        assert_eq!(newest(&deployment(Some("3"), true, "a:4")), Newest::Unknown, "paused, with a changed template");
    }

    #[test]
    fn the_newest_revision_of_a_daemon_set_has_the_highest_number() {
        let revision = |hash: &str, number: i64, controller: &str| {
            let owners = controlled_by("DaemonSet", "agent", controller);
            Revision::of_controller_revision(
                serde_json::from_value(json!({
                    "metadata": {"name": format!("agent-{hash}"), "uid": hash, "labels": {REVISION_HASH: hash}, "ownerReferences": owners},
                    "revision": number,
                }))
                .unwrap(),
            )
        };
        let set = workload(Kind::DaemonSet, json!({"metadata": {"name": "agent", "uid": "s"}}));
        let all = [revision("aa", 3, "s"), revision("bb", 2, "s"), revision("cc", 8, "other")];
        let newest = Newest::of(&set, all.iter());
        assert_eq!(newest, Newest::Hashed { controller: "s".to_owned(), hash: "aa".to_owned() });
        assert!(newest.includes(&pod("s", json!({REVISION_HASH: "aa"}))));
        assert!(!newest.includes(&pod("s", json!({REVISION_HASH: "bb"}))));
        assert!(!newest.includes(&pod("s", json!({}))));
        assert!(!newest.includes(&pod("other", json!({REVISION_HASH: "aa"}))));
        assert_eq!(Newest::of(&set, [].iter()), Newest::Unknown);
    }

    #[test]
    fn the_status_of_a_stateful_set_names_its_newest_revision() {
        let set = |status: Value| {
            let object = json!({"metadata": {"name": "db", "uid": "s"}, "status": status});
            Newest::of(&workload(Kind::StatefulSet, object), [].iter())
        };
        let hashed = Newest::Hashed { controller: "s".to_owned(), hash: "db-2".to_owned() };
        assert_eq!(set(json!({"replicas": 1, "updateRevision": "db-2", "currentRevision": "db-1"})), hashed);
        assert_eq!(set(json!({"replicas": 0})), Newest::Unknown);
        assert_eq!(set(Value::Null), Newest::Unknown);
    }

    #[test]
    fn all_pods_of_a_job_are_of_its_only_revision() {
        let job = workload(Kind::Job, json!({"metadata": {"name": "sums", "uid": "j"}}));
        let newest = Newest::of(&job, [].iter());
        assert!(newest.includes(&pod("j", json!({}))) && !newest.includes(&pod("k", json!({}))));
        assert!(!newest.includes(&Pod::default()));
        assert!(!Newest::ControlledBy(String::new()).includes(&Pod::default()));
    }
}
