//! Whose pod it is.

use crate::{
    api::Owner,
    pods::{Controller, Pod},
};

/// The pod's top controller as far as names tell: a ReplicaSet whose name ends in the pod's
/// `pod-template-hash` is its Deployment's. A Job stays a Job, whatever CronJob made it.
#[must_use]
pub fn owner(pod: &Pod) -> Option<Owner> {
    let Controller { kind, name, .. } = pod.controller.as_ref()?;
    if kind.is_empty() || name.is_empty() {
        return None;
    }
    let deployment = || {
        let (_, hash) = pod.labels.iter().find(|(key, _)| key == "pod-template-hash")?;
        name.strip_suffix(hash.as_str())?.strip_suffix('-').filter(|name| !hash.is_empty() && !name.is_empty())
    };
    Some(match deployment() {
        Some(name) if kind == "ReplicaSet" => Owner { kind: "Deployment".to_owned(), name: name.to_owned() },
        _ => Owner { kind: kind.clone(), name: name.clone() },
    })
}

/// The Job whose state decides whether this pod is a problem: a failed pod of a Job that completed all
/// the same is none. Absent for every other pod.
///
/// The owner reference names it, in the pod's namespace; another API group's Job is told apart by its UID.
#[must_use]
pub fn needs_job(pod: &Pod) -> Option<&Controller> {
    let judged = pod.phase == "Failed" && pod.deletion.is_none() && !pod.ignored;
    pod.controller.as_ref().filter(|controller| judged && controller.kind == "Job" && !controller.name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(kind: &str, name: &str, hash: Option<&str>) -> Pod {
        Pod {
            controller: Some(Controller { kind: kind.into(), name: name.into(), uid: "1".into() }),
            labels: hash.map(|hash| ("pod-template-hash".into(), hash.into())).into_iter().collect(),
            ..Pod::default()
        }
    }

    #[test]
    fn names_tell_the_top_controller() {
        for (kind, name, hash, expected) in [
            ("ReplicaSet", "cart-5d9f", Some("5d9f"), "Deployment/cart"),
            ("ReplicaSet", "cart-5d9f", Some("other"), "ReplicaSet/cart-5d9f"),
            ("ReplicaSet", "cart-5d9f", None, "ReplicaSet/cart-5d9f"),
            ("ReplicaSet", "cart5d9f", Some("5d9f"), "ReplicaSet/cart5d9f"),
            ("ReplicaSet", "-5d9f", Some("5d9f"), "ReplicaSet/-5d9f"),
            ("ReplicaSet", "cart-", Some(""), "ReplicaSet/cart-"),
            ("StatefulSet", "db-5d9f", Some("5d9f"), "StatefulSet/db-5d9f"),
            ("Job", "backup-29384750", None, "Job/backup-29384750"),
            ("Node", "node-7", None, "Node/node-7"),
        ] {
            let owner = owner(&pod(kind, name, hash)).unwrap();
            assert_eq!(format!("{}/{}", owner.kind, owner.name), expected);
        }
        assert_eq!(owner(&Pod::default()), None);
        assert_eq!(owner(&pod("", "x", None)), None);
    }

    #[test]
    fn only_failed_pods_of_jobs_need_their_job() {
        let failed = Pod { phase: "Failed".into(), ..pod("Job", "sums", None) };
        assert_eq!(needs_job(&failed).unwrap().name, "sums");
        let none = |pod: Pod| assert_eq!(needs_job(&pod), None);
        none(Pod { phase: "Running".into(), ..failed.clone() });
        none(Pod { ignored: true, ..failed.clone() });
        none(Pod { deletion: Some(jiff::Timestamp::UNIX_EPOCH), ..failed.clone() });
        none(Pod { phase: "Failed".into(), ..pod("ReplicaSet", "sums", None) });
        none(Pod { controller: None, ..failed });
    }
}
