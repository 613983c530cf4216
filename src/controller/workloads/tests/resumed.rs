//! Incidents of missing pods that a status from before a restart lists.

use super::*;

/// A status with an incident of a Deployment.
fn incident(controllers: &[(&str, &str)]) -> OrchestrStatus {
    let owner = |(kind, name): &(&str, &str)| json!({"kind": kind, "name": name});
    let incident: Incident = serde_json::from_value(json!({
        "key": "0", "kind": "Missing", "namespace": "shop", "owner": owner(&("Deployment", "api")),
        "reason": "FailedCreate", "cause": "QuotaExceeded", "message": "0 of 3 pods exist: the quota is exceeded",
        "pods": 3, "of": 3, "since": wall(-500).to_string(), "controllers": controllers.iter().map(owner).collect::<Vec<_>>(),
    }))
    .unwrap();
    let other = Incident { kind: ProblemKind::Crash, ..incident.clone() };
    OrchestrStatus { incidents: vec![other, incident], ..OrchestrStatus::default() }
}

#[test]
fn continues_an_incident_until_its_workload_was_read() {
    let object = NamespacedName::new("ns", "object");
    for (reading, expected) in [
        (replica_set("api-5d9f", 1, 3, Some(-20)), Some((2, wall(-500), Cause::ServiceAccountMissing))),
        (replica_set("api-5d9f", 1, 3, None), Some((2, wall(-500), Cause::QuotaExceeded))),
        (replica_set("api-5d9f", 3, 3, None), None),
        (WorkloadReading::Gone, None),
        (WorkloadReading::Denied("no".to_owned()), Some((3, wall(-500), Cause::QuotaExceeded))),
        (WorkloadReading::Unavailable, Some((3, wall(-500), Cause::QuotaExceeded))),
    ] {
        let mut sequence = Sequence::new();
        sequence.workloads.resume(&object, &incident(&[("ReplicaSet", "api-5d9f")]), sequence.now);
        let found = |sequence: &Sequence| {
            let missing = sequence.missing();
            missing.first().map(|own| (own.missing, own.since, own.explanation.cause))
        };
        assert_eq!(found(&sequence), Some((3, wall(-500), Cause::QuotaExceeded)));
        assert_eq!(sequence.missing()[0].explanation.message, "0 of 3 pods exist: the quota is exceeded");
        let others =
            sequence.workloads.report(&NamespacedName::new("ns", "other"), &|_, _| true, &|_, _| false, sequence.wall);
        assert!(others.missing.is_empty(), "its status does not list it");
        assert_eq!(sequence.reads(), ["api-5d9f"]);
        let unnamed = WorkloadKey { uid: String::new(), ..replica_set_key() };
        sequence.answer(&unnamed, reading.clone());
        assert_eq!(found(&sequence), expected, "{reading:?}");
        assert_eq!(sequence.workloads.gone().count(), usize::from(reading == WorkloadReading::Gone));
    }
}

#[test]
fn missing_pods_have_the_annotations_of_template_or_status() {
    let mut status = incident(&[("ReplicaSet", "api-5d9f")]);
    let listed = &mut status.incidents[1];
    (listed.severity, listed.team) = (Some(Severity::Info), "checkout".to_owned());
    // Somebody has edited the status.
    listed.runbook = "javascript:alert(1)".to_owned();
    let mut sequence = Sequence::new();
    sequence.workloads.resume(&NamespacedName::new("ns", "object"), &status, sequence.now);
    let found = |sequence: &Sequence| {
        let ownership = sequence.missing().remove(0).ownership.unwrap_or_default();
        assert_eq!((ownership.runbook.as_str(), ownership.invalid().count()), ("", 0));
        (ownership.severity, ownership.team.to_string())
    };
    assert_eq!(found(&sequence), (Some(Severity::Info), "checkout".to_owned()));
    assert_eq!(sequence.reads(), ["api-5d9f"]);
    let WorkloadReading::Read(mut read) = replica_set("api-5d9f", 1, 3, Some(-20)) else { panic!() };
    let mut ownership = Ownership::default();
    ownership.set("kopf.dev/team", Some("web"));
    read.ownership = ownership.non_empty();
    sequence.answer(&WorkloadKey { uid: String::new(), ..replica_set_key() }, WorkloadReading::Read(read));
    assert_eq!(found(&sequence), (None, "web".to_owned()));
}

#[test]
fn a_resumed_incident_keeps_its_reason() {
    let sentence = "the ResourceQuota mem-cap is exceeded: 1 of pods requested, 2 of 2 used";
    let mut status = incident(&[]);
    status.incidents[1].owner = Owner { kind: "StatefulSet".to_owned(), name: "api".to_owned() };
    status.incidents[1].message = format!("0 of 3 pods exist: {sentence}");
    let mut sequence = Sequence::new();
    sequence.workloads.resume(&NamespacedName::new("ns", "object"), &status, sequence.now);
    let stateful_set = |replicas: u32| {
        workload(WorkloadKind::StatefulSet, "api", json!({"replicas": 3}), json!({"replicas": replicas}))
    };
    for second in [0, 60] {
        sequence.at(second);
        let due = sequence.workloads.take_due(sequence.now);
        sequence.answer(&due[0].key, stateful_set(0));
        let explanation = &sequence.missing()[0].explanation;
        assert_eq!(explanation.message, format!("0 of 3 pods exist: {sentence}"));
        assert_eq!(explanation.cause, Cause::QuotaExceeded);
        assert_eq!(explanation.subject.as_ref().map(|own| own.name.as_str()), Some("mem-cap"));
    }
    // Another shortage has its own reason.
    for (second, replicas) in [(120, 3), (180, 0)] {
        sequence.at(second);
        let stateful_set = stateful_set(replicas);
        let named = key(WorkloadKind::StatefulSet, "api");
        sequence.answer(&named, stateful_set);
    }
    sequence.at(240);
    assert_eq!(sequence.missing()[0].explanation.cause, Cause::Unknown);
}

#[test]
fn an_early_event_continues_the_incident_of_the_status() {
    let mut sequence = Sequence::new();
    let object = NamespacedName::new("ns", "object");
    sequence.workloads.resume(&object, &incident(&[("ReplicaSet", "api-5d9f")]), sequence.now);
    sequence.event(&event(WorkloadKind::ReplicaSet, "api-5d9f", NO_ACCOUNT, 0));
    assert_eq!(sequence.reads(), ["api-5d9f", "api-5d9f"]);
    let unnamed = WorkloadKey { uid: String::new(), ..replica_set_key() };
    sequence.answer(&replica_set_key(), replica_set("api-5d9f", 0, 3, Some(-20)));
    assert_eq!(sequence.missing()[0].since, wall(-500));
    sequence.answer(&unnamed, replica_set("api-5d9f", 0, 3, Some(-20)));
    assert_eq!((sequence.missing()[0].since, sequence.missing()[0].missing), (wall(-500), 3));
    assert_eq!(sequence.workloads.known.len(), 1);
}

#[test]
fn a_resumed_shortage_ends_after_the_longest_pause() {
    let mut sequence = Sequence::new();
    let stateful_set = |replicas: u32| {
        workload(WorkloadKind::StatefulSet, "api", json!({"replicas": 3}), json!({"replicas": replicas}))
    };
    let mut status = incident(&[]);
    status.incidents[1].owner = Owner { kind: "StatefulSet".to_owned(), name: "api".to_owned() };
    sequence.workloads.resume(&NamespacedName::new("ns", "object"), &status, sequence.now);
    let mut ended = None;
    for second in 0..3600 {
        sequence.at(second);
        for query in sequence.workloads.take_due(sequence.now) {
            sequence.answer(&query.key, stateful_set(1));
        }
        if sequence.missing().is_empty() && ended.is_none() {
            ended = Some(second);
        }
    }
    assert!((1200..1300).contains(&ended.unwrap()), "{ended:?}");
    assert_eq!(sequence.workloads.gone().count(), 0);
}

#[test]
fn names_of_a_status_are_never_requested_if_they_are_not_valid() {
    let mut sequence = Sequence::new();
    let status = incident(&[("ReplicaSet", "../secrets/x"), ("Rollout", "api"), ("Job", "")]);
    sequence.workloads.resume(&NamespacedName::new("ns", "object"), &status, sequence.now);
    assert!(sequence.reads().is_empty());
}

/// The status lists a hundred incidents at most.
#[test]
fn an_unlisted_incident_is_unread_until_its_workload_is() {
    for (answer, missing) in [(replica_set("api-5d9f", 0, 3, Some(-7200)), 1), (replica_set("api-5d9f", 3, 3, None), 0)]
    {
        let mut sequence = Sequence::new();
        let status = serde_json::from_value(json!({"webhooks": [{"name": "ops", "alerts": [{
            "key": "5f0c2a915f0c2a91", "namespace": "shop", "owner": {"kind": "Deployment", "name": "api"},
            "kind": "Missing", "reason": "FailedCreate", "since": wall(-7200).to_string(), "phase": "Firing",
            "sentAt": wall(-7100).to_string(), "controllers": [{"kind": "ReplicaSet", "name": "api-5d9f"}],
        }]}]}));
        sequence.workloads.resume(&NamespacedName::new("ns", "object"), &status.unwrap(), sequence.now);
        let owner = Owner { kind: "Deployment".to_owned(), name: "api".to_owned() };
        assert!(sequence.workloads.is_unread("shop", &owner) && !sequence.workloads.is_unread("ml", &owner));
        assert!(sequence.missing().is_empty(), "the alert does not say how many pods are missing");
        assert_eq!(sequence.reads(), ["api-5d9f"]);
        sequence.answer(&WorkloadKey { uid: String::new(), ..replica_set_key() }, WorkloadReading::Unavailable);
        assert!(sequence.workloads.is_unread("shop", &owner));
        let warnings = |sequence: &Sequence| sequence.workloads.warnings(|_| true, sequence.now);
        sequence.at(599);
        assert!(warnings(&sequence).is_empty());
        sequence.at(600);
        let unwatched = "Deployment api could not be read for 10 minutes, so missing pods are no longer watched";
        assert_eq!(warnings(&sequence), [unwatched]);
        assert!(sequence.workloads.is_unread("shop", &owner), "it is not over");
        assert_eq!(sequence.reads(), ["api-5d9f"]);
        sequence.answer(&WorkloadKey { uid: String::new(), ..replica_set_key() }, answer);
        assert!(!sequence.workloads.is_unread("shop", &owner) && warnings(&sequence).is_empty());
        let found: Vec<_> = sequence.missing().iter().map(|own| (own.missing, own.since)).collect();
        assert_eq!(found, vec![(3, wall(-7200)); missing]);
    }
}
