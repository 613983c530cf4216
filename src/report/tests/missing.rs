//! Tests of incidents of missing pods.

use std::time::Duration;

use super::{
    MissingPods, NotWatching, OmittedIncidents, Scenario, Transitions, at, crashing, differs, not_watching, transitions,
};
use crate::{
    api::{Cause, OrchestrStatus, Owner, ProblemKind},
    diagnosis::Explanation,
    report::Change,
};

fn owner(kind: &str, name: &str) -> Owner {
    Owner { kind: kind.to_owned(), name: name.to_owned() }
}

pub(super) fn missing(name: &str, missing: u64, of: u64) -> MissingPods {
    MissingPods {
        namespace: "shop".to_owned(),
        owner: owner("Deployment", name),
        controllers: vec![owner("ReplicaSet", &format!("{name}-5d9f"))],
        reason: "FailedCreate",
        since: at(700),
        tolerated: Duration::from_secs(30),
        missing,
        of,
        explanation: Explanation {
            cause: Cause::QuotaExceeded,
            message: format!("{} of {of} pods exist: the ResourceQuota mem-cap is exceeded", of - missing).into(),
            ..Explanation::default()
        },
        ownership: None,
    }
}

fn healthy(status: &OrchestrStatus) -> (&str, &str, &str) {
    let condition = &status.conditions[1];
    (&condition.status, &condition.reason, &condition.message)
}

#[test]
fn missing_pods_are_one_incident_without_example_pods() {
    let status = Scenario { missing: vec![missing("api", 3, 3)], watched: 12, ..Scenario::default() }.status(None);
    let [incident] = &status.incidents[..] else { panic!("{:?}", status.incidents) };
    assert_eq!((incident.kind, incident.reason.as_str()), (ProblemKind::Missing, "FailedCreate"));
    assert_eq!((incident.pods, incident.of, incident.since.0), (3, 3, at(700)));
    assert_eq!(incident.cause, Cause::QuotaExceeded);
    assert_eq!(incident.message, "0 of 3 pods exist: the ResourceQuota mem-cap is exceeded");
    assert_eq!((&incident.owner, &*incident.container), (&owner("Deployment", "api"), ""));
    assert_eq!(incident.controllers, [owner("ReplicaSet", "api-5d9f")]);
    assert!(incident.example_pods.is_empty() && status.problematic_pods.is_empty());
    assert_eq!((status.missing_pods, status.problematic_pod_count, status.watched_pods), (3, 0, 12));
    assert_eq!((status.top_reason.as_str(), status.top_cause), ("FailedCreate", Some(Cause::QuotaExceeded)));
}

#[test]
fn names_at_most_three_controllers_and_never_the_owner_itself() {
    let controllers = |names: &[&str]| names.iter().map(|name| owner("Job", name)).collect();
    for (own, expected) in [(vec!["api"], vec![]), (vec!["a", "b", "c", "d"], vec!["a", "b", "c"])] {
        let missing =
            MissingPods { owner: owner("Job", "api"), controllers: controllers(&own), ..missing("api", 1, 1) };
        let status = Scenario { missing: vec![missing], ..Scenario::default() }.status(None);
        assert_eq!(status.incidents[0].controllers, controllers(&expected));
    }
}

#[test]
fn missing_pods_alone_make_an_object_unhealthy() {
    for (watched, own, message) in [
        (0, vec![missing("api", 3, 3)], "0 of 0 pods have a problem; 3 are missing: FailedCreate (shop/api)"),
        (12, vec![missing("api", 1, 3)], "0 of 12 pods have a problem; 1 is missing: FailedCreate (shop/api)"),
        (
            12,
            vec![missing("api", 1, 3), missing("web", 5, 5)],
            "0 of 12 pods have a problem; 6 are missing: FailedCreate (shop/web, shop/api)",
        ),
    ] {
        let status = Scenario { missing: own, watched, ..Scenario::default() }.status(None);
        assert_eq!(healthy(&status), ("False", "PodsUnhealthy", message));
    }
}

#[test]
fn the_message_names_problems_of_pods_before_missing_pods() {
    let scenario = Scenario {
        missing: vec![missing("api", 3, 3)],
        watched: 12,
        ..Scenario::of([crashing("shop", "cart", "OOMKilled", 50)])
    };
    let status = scenario.status(None);
    assert_eq!(healthy(&status).2, "1 of 12 pods: 1 OOMKilled (shop/cart); 3 are missing: FailedCreate (shop/api)");
    assert_eq!(status.top_reason, "FailedCreate", "more pods are missing than crash");
    assert_eq!(status.problematic_pod_count, 1);
    let fewer = Scenario { missing: vec![missing("api", 1, 3)], ..scenario };
    assert_eq!(fewer.status(None).top_reason, "OOMKilled");
}

#[test]
fn the_message_stays_short_for_owners_with_long_names() {
    let names: Vec<_> = ["x", "y", "z"].iter().map(|name| name.repeat(250)).collect();
    let own = names.iter().map(|name| missing(name, 2, 3)).collect();
    let pods = names.iter().map(|name| crashing("shop", name, "Error", 50));
    let status = Scenario { missing: own, watched: 12, ..Scenario::of(pods) }.status(None);
    let (x, message) = (&names[0], healthy(&status).2);
    assert_eq!(
        message,
        format!("3 of 12 pods: 3 Error (shop/{x} and 2 more); 6 are missing: FailedCreate (shop/{x} and 2 more)")
    );
}

#[test]
fn a_different_number_of_missing_pods_is_a_substantial_change() {
    let scenario = |own| Scenario { missing: own, watched: 12, ..Scenario::default() };
    let old = scenario(vec![missing("api", 3, 3)]).status(None);
    for (changed, change) in [
        (scenario(vec![missing("api", 3, 3)]), Change::None),
        (Scenario { watched: 13, ..scenario(vec![missing("api", 3, 3)]) }, Change::CountOnly),
        (scenario(vec![missing("api", 2, 3)]), Change::Substantial),
        (scenario(vec![]), Change::Substantial),
    ] {
        assert_eq!(differs(Some(&old), &changed.status(Some(&old))), change);
    }
}

#[test]
fn missing_pods_begin_and_end_like_other_incidents() {
    let of = |own| Scenario { missing: own, watched: 12, ..Scenario::default() };
    let none = of(vec![]).status(None);
    let some = of(vec![missing("api", 3, 3)]).status(Some(&none));
    assert_eq!(
        transitions(Some(&none), &some, &OmittedIncidents::default()),
        Transitions { began: vec![&some.incidents[0]], ended: vec![] }
    );
    let over = of(vec![]).status(Some(&some));
    assert_eq!(
        transitions(Some(&some), &over, &OmittedIncidents::default()),
        Transitions { began: vec![], ended: vec![&some.incidents[0]] }
    );
}

#[test]
fn missing_pods_are_kept_while_the_pods_are_not_known() {
    let old = Scenario { missing: vec![missing("api", 3, 3)], ..Scenario::default() }.status(None);
    let kept = not_watching(&NotWatching::Syncing, 3, Some(&old), at(900));
    assert_eq!((kept.missing_pods, &kept.incidents), (3, &old.incidents));
    assert_eq!(healthy(&kept).2, "not known at present; the lists show what was found before");
    let paused = not_watching(&NotWatching::Paused, 3, Some(&old), at(900));
    assert_eq!((paused.missing_pods, paused.incidents.len()), (0, 0));
}

#[test]
fn alerts_receive_missing_pods_with_their_sentence() {
    let scenario = Scenario { missing: vec![missing("api", 3, 3)], webhooks: true, ..Scenario::default() };
    let [alert] = &scenario.alert_incidents()[..] else { panic!() };
    assert_eq!((alert.kind, alert.pods, alert.tolerated), (ProblemKind::Missing, 3, Duration::from_secs(30)));
    assert_eq!(alert.texts.message, "0 of 3 pods exist: the ResourceQuota mem-cap is exceeded");
    assert_eq!((alert.since, alert.texts.logs.len(), alert.texts.example_pods.len()), (at(700), 0, 0));
    assert_eq!(alert.key, scenario.status(None).incidents[0].key);
}
