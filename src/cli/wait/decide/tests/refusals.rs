use crate::events::InvolvedObject;

use super::*;

const DENIED: &str = "admission webhook \"w.example.com\" denied the request: not signed";

/// A Deployment whose pods have been refused since the tenth second.
fn refused(message: &str) -> Workload {
    let condition = json!({"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message,
        "lastTransitionTime": text(10)});
    deployment(json!({"replicas": 3, "updatedReplicas": 0, "conditions": [condition]}))
}

fn event(uid: &str, message: &str, first: i64, last: i64) -> Event {
    Event {
        involved: InvolvedObject { kind: "X".to_owned(), uid: uid.to_owned(), ..InvolvedObject::default() },
        related: None,
        reason: "FailedCreate".to_owned(),
        message: message.to_owned(),
        count: 2,
        first: Some(at(first)),
        last: Some(at(last)),
    }
}

#[test]
fn a_refusing_quota_is_hopeless_after_a_grace() {
    let webhook =
        "Internal error occurred: failed calling webhook \"w.example.com\": failed to call webhook: connection refused";
    let decided = |message: &str, progressed: Option<i64>, refused_at: Option<i64>, now: i64| {
        let refusals = refused_at.map(|last| event("rs-new", message, 15, last)).into_iter().collect();
        let workload = Some(refused(message));
        Known { workload, refusals, progressed: progressed.map(at), ..Known::default() }.decide(now)
    };
    let first = decided(QUOTA, None, None, 30);
    assert_eq!(first.recheck, Some(at(70)));
    let what = "0 of 3 replicas updated; pods cannot be created: the ResourceQuota pods is exceeded";
    assert!(first.what.starts_with(what), "{}", first.what);
    for (message, progressed, refused_at, now, expected) in [
        (QUOTA, None, None, 30, "waiting"),
        (QUOTA, None, None, 70, "QuotaExceeded"),
        // An old pod has ended since, which makes room.
        (QUOTA, Some(50), None, 70, "waiting"),
        // The controller doubles its pauses: the next attempt is at most as late after this as the first refusal was before it.
        (QUOTA, Some(50), None, 119, "waiting"),
        (QUOTA, Some(50), None, 120, "QuotaExceeded"),
        (QUOTA, Some(50), Some(81), 82, "QuotaExceeded"),
        // Another attempt failed.
        (QUOTA, None, Some(41), 42, "QuotaExceeded"),
        (QUOTA, None, Some(36), 42, "waiting"),
        // The webhook may come back.
        (webhook, None, None, 9000, "waiting"),
        (DENIED, None, None, 9000, "WebhookRefused"),
    ] {
        let decision = decided(message, progressed, refused_at, now);
        assert_eq!(code(&decision), expected, "{message}: {progressed:?} {refused_at:?} {now}");
    }
}

/// A pod that terminates, such as one whose preStop hook takes 70 s, leaves the quota at its end.
#[test]
fn a_full_quota_is_waited_for_while_a_pod_terminates() {
    let too_small = "pods \"cart-x\" is forbidden: exceeded quota: cpu, requested: cpu=4, used: cpu=0, limited: cpu=2";
    for (message, is_terminating, expected) in [
        (QUOTA, true, "waiting"),
        (QUOTA, false, "QuotaExceeded"),
        // No pod that ends helps these.
        (DENIED, true, "WebhookRefused"),
        (too_small, true, "QuotaExceeded"),
    ] {
        let mut old = pod("old", "a", ready());
        old.deletion = is_terminating.then(|| at(80));
        let (workload, refusals) = (Some(refused(message)), vec![event("rs-new", message, 10, 79)]);
        let known = Known { workload, pods: seen(vec![old]), refusals, ..Known::default() };
        assert_eq!(code(&known.decide(79)), expected, "{message} {is_terminating}");
    }
}

#[test]
fn refusals_that_change_are_waited_for() {
    let set = json!({"metadata": {"name": "db", "uid": "s", "generation": 1}, "spec": {"replicas": 2, "serviceName": "db",
        "selector": {}, "template": {}}, "status": {"observedGeneration": 1, "replicas": 0, "updateRevision": "db-2"}});
    let used = |count: &str| QUOTA.replace("used: pods=4", &format!("used: pods={count}"));
    for (before, expected) in [("4", "QuotaExceeded"), ("6", "waiting")] {
        let refusals = vec![event("s", &used(before), 2, 30), event("s", &used("4"), 2, 40)];
        let target = Target::Named(Kind::StatefulSet, "db".to_owned());
        let workload = Some(workload(Kind::StatefulSet, set.clone()));
        assert_eq!(code(&Known { target, workload, refusals, ..Known::default() }.decide(41)), expected, "{before}");
    }
}

#[test]
fn events_say_why_other_workloads_lack_pods() {
    let policy = "pods \"sums-x\" is forbidden: violates PodSecurity \"restricted:latest\": runAsNonRoot != true";
    let larger = QUOTA.replace("pods=4", "pods=0");
    for (message, [first, last, now], expected, what) in [
        (policy, [2, 20, 25], "waiting", ""),
        (policy, [2, 33, 34], "PolicyRefused", ""),
        // Perhaps there was no other attempt.
        (policy, [2, 20, 900], "waiting", ""),
        // It is older than the wait.
        (policy, [-900, -5, 900], "waiting", ""),
        // A Job queues until others leave the quota, unless it is larger than the quota.
        (
            QUOTA,
            [2, 890, 900],
            "waiting",
            "; pods cannot be created: the ResourceQuota pods is exceeded: 1 of pods requested, 4 of 4 used",
        ),
        (&larger, [2, 33, 34], "QuotaExceeded", ""),
    ] {
        let refusals = vec![event("j", &format!("Error creating: {message}"), first, last)];
        let target = Target::Named(Kind::Job, "sums".to_owned());
        let job = json!({"metadata": {"name": "sums", "uid": "j"}, "spec": {"template": {}}});
        let workload = Some(workload(Kind::Job, job));
        let decision = Known { target, workload, refusals, ..Known::default() }.decide(now);
        assert_eq!(code(&decision), expected, "{message} {first} {last} {now}");
        assert!(decision.what.ends_with(what), "{}", decision.what);
    }
}
