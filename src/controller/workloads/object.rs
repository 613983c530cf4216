//! Workloads in the API: the controllers that create pods, reduced to the fields that show whether pods are missing.

use jiff::Timestamp;

use crate::{
    api::{IGNORE_ANNOTATION, Owner, Ownership},
    diagnosis::{WorkloadCondition, WorkloadObject, WorkloadSpec, WorkloadStatus, workload_owner},
};

use super::{
    failed_creation::{DEADLINE_EXCEEDED, Refusal},
    key::WorkloadKind,
};

/// The most labels of a pod template that are kept.
const LABELS: usize = 64;

/// The relevant fields of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller) struct Workload {
    pub(super) uid: String,
    pub(super) created: Option<Timestamp>,
    /// The top controller.
    pub(super) owner: Owner,
    /// The labels of its pods, sorted by key.
    pub(super) labels: Vec<(String, String)>,
    /// Whether an annotation excludes its pods from reports.
    pub(super) is_ignored: bool,
    /// The annotations of its pods that are about ownership.
    pub(super) ownership: Option<Box<Ownership>>,
    pub(super) existence: Existence,
    /// When it first failed to create a pod, or a deadline ended the Job, and why, if its status says so.
    pub(super) failure: Option<(Option<Timestamp>, Refusal)>,
    /// How many pods of a Job have failed. After a failure it waits before it creates the next pod.
    pub(super) failed: u64,
}

/// Whether a workload has the pods that it should have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::controller) enum Existence {
    Complete,
    /// Fewer exist, and its status confirms that it cannot create them.
    Missing {
        missing: u64,
        of: u64,
    },
    /// Fewer exist, but the reason may be another one.
    Unclear {
        missing: u64,
        of: u64,
    },
    /// A deadline has ended the Job, so these will never exist.
    Ended {
        of: u64,
    },
}

impl Existence {
    /// How many pods are missing of how many.
    pub(super) fn numbers(self) -> (u64, u64) {
        match self {
            Self::Complete => (0, 0),
            Self::Missing { missing, of } | Self::Unclear { missing, of } => (missing, of),
            Self::Ended { of } => (of, of),
        }
    }
}

impl Workload {
    /// `named_pod_exists` applies to StatefulSets: whether the pod exists that could not be created; absent if it is not
    /// known which one that was.
    pub(super) fn new(kind: WorkloadKind, object: &WorkloadObject, named_pod_exists: Option<bool>) -> Self {
        let WorkloadObject { metadata, spec, status, .. } = object;
        let no_spec = WorkloadSpec::default();
        let spec = spec.as_ref().unwrap_or(&no_spec);
        let template = spec.template.as_ref().and_then(|template| template.metadata.as_ref());
        let labels = template.and_then(|template| template.labels.clone()).unwrap_or_default();
        let annotations = template.and_then(|template| template.annotations.as_ref());
        let ignored = annotations.and_then(|annotations| annotations.get(IGNORE_ANNOTATION));
        let mut ownership = Ownership::default();
        annotations.into_iter().flatten().for_each(|(name, value)| ownership.set(name, Some(value)));
        let name = metadata.name.as_deref().unwrap_or_default();
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let failure = status.as_ref().and_then(|status| {
            let (condition, refusal) = match (kind, status.replica_failure()) {
                (_, Some(own)) => (own, Refusal::new(namespace, own.message.as_deref().unwrap_or_default())),
                (WorkloadKind::Job, None) => (deadline(status)?, Refusal::deadline(spec.active_deadline_seconds)),
                _ => return None,
            };
            Some((condition.since(), refusal))
        });
        let is_deleting = metadata.deletion_timestamp.is_some();
        let existence = match status {
            _ if is_deleting => Existence::Complete,
            // A workload that its controller has not handled yet has no pods, but not because it failed.
            None => Existence::Complete,
            Some(status) => existence(kind, spec, status, named_pod_exists),
        };
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            owner: workload_owner(kind.as_str(), name, metadata.owner_references.as_deref().unwrap_or_default()),
            labels: labels.into_iter().take(LABELS).collect(),
            is_ignored: ignored.is_some_and(|value| value == "true"),
            ownership: ownership.non_empty(),
            existence,
            failure,
            failed: status.as_ref().map_or(0, |status| count(status.failed)),
        }
    }
}

/// The condition Failed of a Job that its deadline has ended.
fn deadline(status: &WorkloadStatus) -> Option<&WorkloadCondition> {
    status.true_condition("Failed").filter(|own| own.reason.as_deref() == Some(DEADLINE_EXCEEDED))
}

fn existence(
    kind: WorkloadKind,
    spec: &WorkloadSpec,
    status: &WorkloadStatus,
    named_pod_exists: Option<bool>,
) -> Existence {
    let (of, existing) = match kind {
        WorkloadKind::ReplicaSet | WorkloadKind::ReplicationController | WorkloadKind::StatefulSet => {
            (count(spec.replicas.or(Some(1))), count(status.replicas))
        }
        WorkloadKind::DaemonSet => (count(status.desired_number_scheduled), count(status.current_number_scheduled)),
        WorkloadKind::Job if deadline(status).is_some() => {
            return Existence::Ended { of: left_of_job(spec, status).max(1) };
        }
        WorkloadKind::Job => (wanted_by_job(spec, status), count(status.active)),
    };
    // Only Jobs have this field in the version of the API that is read. Some of them wait for these pods.
    let missing = of.saturating_sub(existing).saturating_sub(match kind {
        WorkloadKind::Job => count(status.terminating),
        _ => 0,
    });
    if missing == 0 {
        return Existence::Complete;
    }
    let is_certain = match kind {
        WorkloadKind::ReplicaSet | WorkloadKind::ReplicationController => status.replica_failure().is_some(),
        // It creates its pods one after the other, and waits until each is ready.
        WorkloadKind::StatefulSet if spec.pod_management_policy.as_deref() != Some("Parallel") => {
            match named_pod_exists {
                Some(true) => return Existence::Complete,
                Some(false) => true,
                None => existing == 0,
            }
        }
        WorkloadKind::StatefulSet | WorkloadKind::DaemonSet | WorkloadKind::Job => true,
    };
    if is_certain { Existence::Missing { missing, of } } else { Existence::Unclear { missing, of } }
}

/// How many pods of a Job should be running.
fn wanted_by_job(spec: &WorkloadSpec, status: &WorkloadStatus) -> u64 {
    let has_ended = ["Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"]
        .iter()
        .any(|kind| status.true_condition(kind).is_some());
    if has_ended || spec.suspend == Some(true) { 0 } else { left_of_job(spec, status) }
}

/// How many pods of a Job would run if nothing held it back.
fn left_of_job(spec: &WorkloadSpec, status: &WorkloadStatus) -> u64 {
    let (parallelism, succeeded) = (count(spec.parallelism.or(Some(1))), count(status.succeeded));
    match spec.completions {
        // A Job with a work queue creates no pods after the first has succeeded.
        None if succeeded > 0 => 0,
        None => parallelism,
        Some(completions) => {
            let failed_indexes = status.failed_indexes.as_deref().map_or(0, indexes);
            count(Some(completions)).saturating_sub(succeeded).saturating_sub(failed_indexes).min(parallelism)
        }
    }
}

/// How many indexes a list such as `1,3-5` contains.
fn indexes(list: &str) -> u64 {
    let range = |item: &str| {
        let (from, to) = item.split_once('-').unwrap_or((item, item));
        Some(to.parse::<u64>().ok()?.checked_sub(from.parse().ok()?)?.saturating_add(1))
    };
    list.split(',').filter_map(range).fold(0, u64::saturating_add)
}

fn count(number: Option<i64>) -> u64 {
    number.unwrap_or_default().try_into().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn existence_of(kind: WorkloadKind, spec: Value, status: Value, named_pod_exists: Option<bool>) -> Existence {
        let json = json!({"metadata": {"name": "api"}, "spec": spec, "status": status});
        Workload::new(kind, &serde_json::from_value(json).unwrap(), named_pod_exists).existence
    }

    fn failing() -> Value {
        json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    }

    #[test]
    fn a_replica_set_misses_pods_if_its_condition_says_so() {
        use WorkloadKind::ReplicaSet;
        let missing = |spec, status| existence_of(ReplicaSet, spec, status, None);
        let two = Existence::Missing { missing: 2, of: 3 };
        assert_eq!(missing(json!({"replicas": 3}), json!({"replicas": 1, "conditions": failing()})), two);
        assert_eq!(missing(json!({}), json!({"conditions": failing()})), Existence::Missing { missing: 1, of: 1 });
        assert_eq!(
            missing(json!({"replicas": 3}), json!({"replicas": 1})),
            Existence::Unclear { missing: 2, of: 3 },
            "its controller may not have updated the status yet"
        );
        let mut delete = failing();
        delete[0]["reason"] = json!("FailedDelete");
        for (spec, status) in [
            (json!({"replicas": 3}), json!({"replicas": 3, "conditions": failing()})),
            (json!({"replicas": 0}), json!({"replicas": 0, "conditions": failing()})),
            (json!({"replicas": 1}), json!({"replicas": 2, "conditions": delete})),
            (json!({"replicas": -1}), json!({"replicas": i64::MIN, "conditions": null})),
            (json!({"replicas": 3}), Value::Null),
        ] {
            assert_eq!(missing(spec.clone(), status.clone()), Existence::Complete, "{spec} {status}");
        }
        let most = Existence::Missing { missing: i64::MAX as u64, of: i64::MAX as u64 };
        assert_eq!(missing(json!({"replicas": i64::MAX}), json!({"conditions": failing()})), most);
    }

    #[test]
    fn a_stateful_set_misses_the_pod_that_was_refused() {
        use WorkloadKind::StatefulSet;
        let ordered = json!({"replicas": 3, "podManagementPolicy": "OrderedReady"});
        let all = Existence::Missing { missing: 3, of: 3 };
        let two = Existence::Missing { missing: 2, of: 3 };
        for (spec, replicas, exists, expected) in [
            (&ordered, 0, None, all),
            (&ordered, 0, Some(false), all),
            (&ordered, 1, Some(false), two),
            // The first pod exists and is not ready, so the others are not created yet.
            (&ordered, 1, Some(true), Existence::Complete),
            (&ordered, 1, None, Existence::Unclear { missing: 2, of: 3 }),
            (&ordered, 3, Some(false), Existence::Complete),
            (&json!({"replicas": 3, "podManagementPolicy": "Parallel"}), 1, Some(true), two),
        ] {
            let found = existence_of(StatefulSet, spec.clone(), json!({"replicas": replicas}), exists);
            assert_eq!(found, expected, "{spec} {replicas} {exists:?}");
        }
    }

    #[test]
    fn a_daemon_set_misses_pods_on_nodes_without_one() {
        let missing = |status| existence_of(WorkloadKind::DaemonSet, json!({}), status, None);
        assert_eq!(
            missing(json!({"desiredNumberScheduled": 5, "currentNumberScheduled": 2})),
            Existence::Missing { missing: 3, of: 5 }
        );
        assert_eq!(missing(json!({"desiredNumberScheduled": 5, "currentNumberScheduled": 5})), Existence::Complete);
        assert_eq!(missing(json!({})), Existence::Complete);
    }

    #[test]
    fn a_job_misses_the_pods_that_it_still_needs() {
        let missing = |spec, status| match existence_of(WorkloadKind::Job, spec, status, None) {
            Existence::Complete => (0, 0),
            Existence::Missing { missing, of } => (missing, of),
            Existence::Unclear { .. } | Existence::Ended { .. } => panic!(),
        };
        let of_ten = || json!({"parallelism": 4, "completions": 10});
        let ended = |kind| json!({"conditions": [{"type": kind, "status": "True"}]});
        for (spec, status, expected) in [
            (json!({}), json!({}), (1, 1)),
            (json!({}), json!({"active": 1}), (0, 0)),
            (json!({"parallelism": 3}), json!({"active": 1}), (2, 3)),
            (json!({"parallelism": 3}), json!({"active": 1, "succeeded": 1}), (0, 0)),
            (of_ten(), json!({}), (4, 4)),
            (of_ten(), json!({"active": 1, "succeeded": 8}), (1, 2)),
            (of_ten(), json!({"active": 1, "terminating": 2}), (1, 4)),
            (of_ten(), json!({"succeeded": 3, "failedIndexes": "1,3-5,8"}), (2, 2)),
            (of_ten(), json!({"succeeded": 10}), (0, 0)),
            (json!({"suspend": true}), json!({}), (0, 0)),
            (json!({}), ended("Complete"), (0, 0)),
            (json!({}), ended("FailureTarget"), (0, 0)),
        ] {
            assert_eq!(missing(spec.clone(), status.clone()), expected, "{spec} {status}");
        }
    }

    #[test]
    fn counts_indexes_of_a_list() {
        for (list, expected) in
            [("", 0), ("3", 1), ("1,3-5,8", 5), ("5-3,x,1-y,2", 1), ("0-18446744073709551615", u64::MAX)]
        {
            assert_eq!(indexes(list), expected, "{list}");
        }
    }

    #[test]
    fn a_workload_that_is_being_deleted_misses_nothing() {
        let json = json!({
            "metadata": {"name": "api", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"replicas": 3}, "status": {"conditions": failing()},
        });
        let workload = Workload::new(WorkloadKind::ReplicaSet, &serde_json::from_value(json).unwrap(), None);
        assert_eq!(workload.existence, Existence::Complete);
    }

    #[test]
    fn reads_the_template_the_owner_and_the_failure() {
        let json = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": {"name": "api-5d9f", "uid": "u", "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api", "uid": "d", "controller": true}]},
            "spec": {"replicas": 1, "template": {"metadata": {
                "labels": {"b": "2", "a": "1"},
                "annotations": {"kopf.dev/ignore": "true", "kopf.dev/team": "checkout", "kopf.dev/severity": "page"}}}},
            "status": {"conditions": failing()},
        });
        let workload = Workload::new(WorkloadKind::ReplicaSet, &serde_json::from_value(json).unwrap(), None);
        assert_eq!((workload.owner.kind.as_str(), workload.owner.name.as_str()), ("Deployment", "api"));
        assert_eq!(workload.labels, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
        assert!(workload.is_ignored && workload.uid == "u");
        let ownership = workload.ownership.unwrap();
        assert_eq!((ownership.team.as_str(), ownership.severity), ("checkout", None));
        assert_eq!(ownership.invalid().collect::<Vec<_>>(), ["kopf.dev/severity"]);
        assert_eq!(workload.failure, Some(("2026-01-01T00:00:00Z".parse().ok(), Refusal::new("", "no"))));
    }
}
