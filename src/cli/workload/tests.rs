use serde_json::{Value, json};

use super::*;

fn progress(kind: Kind, spec: Value, status: Value) -> Progress {
    let object = json!({"metadata": {"name": "cart", "generation": 2, "uid": "u"}, "spec": spec, "status": status});
    let workload = Workload::new(kind, serde_json::from_value(object).unwrap());
    assert_eq!((workload.kind(), workload.uid()), (kind, "u"));
    workload.progress()
}

fn waiting(text: &str) -> Progress {
    Progress::Waiting(text.to_owned())
}

fn done(text: &str) -> Progress {
    Progress::Done(text.to_owned())
}

const UNSEEN: Progress = Progress::Unobserved(UNOBSERVED);

#[test]
fn a_deployment_is_done_when_all_replicas_are_updated() {
    let progress = |spec: Value, status: Value| {
        let mut full = json!({"selector": {}, "template": {}});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        progress(Kind::Deployment, full, status)
    };
    let status = |replicas: i32, updated: i32, available: i32| json!({"observedGeneration": 2, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available});
    let three = || json!({"replicas": 3});
    for (spec, status, expected) in [
        (three(), Value::Null, UNSEEN),
        (
            three(),
            json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}),
            UNSEEN,
        ),
        (three(), json!({"observedGeneration": 2}), waiting("0 of 3 replicas updated")),
        (three(), status(3, 1, 3), waiting("1 of 3 replicas updated")),
        (three(), status(4, 3, 3), waiting("1 old replica left to terminate")),
        (three(), status(3, 3, 1), waiting("1 of 3 updated replicas available")),
        (three(), status(3, 3, 3), done("3 replicas")),
        (json!({}), status(1, 1, 1), done("1 replica")),
        (json!({"replicas": 0}), status(0, 0, 0), done("0 replicas")),
        (json!({"replicas": 0}), status(2, 0, 0), waiting("2 old replicas left to terminate")),
        (
            json!({"replicas": 1, "paused": true}),
            status(1, 0, 1),
            waiting("0 of 1 replica updated; it is paused, and cannot finish before `kubectl rollout resume`"),
        ),
        // Paused without a change of the template.
        (json!({"replicas": 1, "paused": true}), status(1, 1, 1), done("1 replica")),
    ] {
        assert_eq!(progress(spec.clone(), status.clone()), expected, "{spec} {status}");
    }
    let mut exceeded = status(1, 1, 0);
    exceeded["conditions"] = json!([{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
        "message": "ReplicaSet \"cart-5d9f\" has timed out progressing."}]);
    let failed = Progress::Failed {
        reason: "ProgressDeadlineExceeded".to_owned(),
        message: "it exceeded its progress deadline: ReplicaSet \"cart-5d9f\" has timed out progressing".to_owned(),
    };
    assert_eq!(progress(json!({"replicas": 1}), exceeded.clone()), failed);
    // The condition is about an earlier spec.
    exceeded["observedGeneration"] = json!(1);
    assert_eq!(progress(json!({"replicas": 1}), exceeded), UNSEEN);
}

#[test]
fn a_stateful_set_is_done_beyond_its_partition() {
    let progress = |spec: Value, status: Value| {
        let mut full =
            json!({"selector": {}, "template": {}, "replicas": 3, "updateStrategy": {"type": "RollingUpdate"}});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        progress(Kind::StatefulSet, full, status)
    };
    let status = |ready: i32, updated: i32| json!({"observedGeneration": 2, "replicas": 3, "readyReplicas": ready, "updatedReplicas": updated});
    let partition =
        |from: i32| json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": from}}});
    for (spec, status, expected) in [
        (json!({}), Value::Null, UNSEEN),
        (json!({}), json!({"replicas": 3}), UNSEEN),
        (json!({}), json!({"replicas": 3, "observedGeneration": 1}), UNSEEN),
        (json!({}), status(1, 3), waiting("1 of 3 pods ready")),
        (json!({}), status(3, 1), waiting("1 of 3 pods updated")),
        (json!({}), status(3, 3), done("3 pods")),
        (json!({"replicas": 0}), status(0, 0), done("0 pods")),
        (partition(0), status(3, 2), waiting("2 of 3 pods updated")),
        (partition(2), status(3, 0), waiting("0 of 1 pod beyond partition 2 updated")),
        (partition(2), status(3, 1), done("3 pods, 1 of them updated (partition 2)")),
        (partition(9), status(3, 0), done("3 pods, 0 of them updated (partition 9)")),
    ] {
        assert_eq!(progress(spec.clone(), status.clone()), expected, "{spec} {status}");
    }
    let on_delete = progress(json!({"updateStrategy": {"type": "OnDelete"}}), status(3, 3));
    assert!(matches!(on_delete, Progress::Unknowable(text) if text.starts_with("its update strategy is OnDelete: ")));
}

#[test]
fn a_daemon_set_is_done_when_each_node_has_an_updated_pod() {
    let progress = |strategy: &str, status: Value| {
        progress(Kind::DaemonSet, json!({"selector": {}, "template": {}, "updateStrategy": {"type": strategy}}), status)
    };
    let status = |generation: i32, desired: i32, updated: i32, available: i32| {
        json!({"observedGeneration": generation, "desiredNumberScheduled": desired, "currentNumberScheduled": desired,
            "numberMisscheduled": 0, "numberReady": available, "updatedNumberScheduled": updated, "numberAvailable": available})
    };
    for (status, expected) in [
        (Value::Null, UNSEEN),
        (status(1, 3, 3, 3), UNSEEN),
        (status(2, 3, 1, 3), waiting("1 of 3 pods updated")),
        (status(2, 3, 3, 2), waiting("2 of 3 updated pods available")),
        (status(2, 3, 3, 3), done("3 pods")),
        (status(2, 0, 0, 0), done("0 pods")),
    ] {
        assert_eq!(progress("RollingUpdate", status.clone()), expected, "{status}");
    }
    assert!(matches!(progress("OnDelete", status(2, 3, 3, 3)), Progress::Unknowable(_)));
}

#[test]
fn the_conditions_of_a_job_decide() {
    let condition = |kind: &str, status: &str| {
        json!({"failed": 1, "succeeded": 2, "conditions": [{"type": kind, "status": status, "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit"}]})
    };
    let failed = || Progress::Failed {
        reason: "BackoffLimitExceeded".to_owned(),
        message: "the Job has failed: Job has reached the specified backoff limit".to_owned(),
    };
    for (spec, status, expected) in [
        (json!({}), Value::Null, waiting("0 of 1 pod succeeded")),
        (json!({"completions": 5, "parallelism": 2}), json!({"succeeded": 3}), waiting("3 of 5 pods succeeded")),
        (json!({"parallelism": 2}), json!({"failed": 3}), waiting("0 of 2 pods succeeded, 3 failed")),
        (json!({}), condition("Complete", "True"), done("2 pods succeeded")),
        (json!({}), condition("Failed", "True"), failed()),
        (json!({}), condition("FailureTarget", "True"), failed()),
        (json!({}), condition("Failed", "False"), waiting("2 of 1 pod succeeded, 1 failed")),
        (json!({"suspend": true}), json!({}), waiting("it is suspended, and cannot finish before it is resumed")),
    ] {
        let mut full = json!({"template": {}});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        assert_eq!(progress(Kind::Job, full, status.clone()), expected, "{spec} {status}");
    }
}

#[test]
fn reads_why_the_pods_of_a_deployment_cannot_be_created() {
    let deployment = |reason: &str, status: &str| {
        let failure = json!({"type": "ReplicaFailure", "status": status, "reason": reason, "message": "no",
            "lastTransitionTime": "2026-03-01T12:00:00Z"});
        let object = json!({"metadata": {}, "status": {"conditions": [failure]}});
        Workload::new(Kind::Deployment, serde_json::from_value(object).unwrap())
    };
    let created = deployment("FailedCreate", "True");
    assert_eq!(created.replica_failure(), Some(("no", "2026-03-01T12:00:00Z".parse().ok())));
    assert_eq!(deployment("FailedCreate", "False").replica_failure(), None);
    assert_eq!(deployment("FailedDelete", "True").replica_failure(), None);
}
