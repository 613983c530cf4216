//! Tests of the revision that fails, and of the number of an owner's pods.

use super::*;
use crate::pods::Controller;

/// A crashing pod of this revision of the Deployment cart.
fn of_revision(hash: &str, reason: &str) -> (Pod, Finding) {
    let (mut pod, finding) = crashing("shop", "cart", reason, 50);
    pod.labels = vec![("pod-template-hash".into(), hash.into())];
    let (kind, name) = ("ReplicaSet".to_owned(), format!("cart-{hash}"));
    pod.controller = Some(Controller { kind: kind.into(), name: name.into(), ..Controller::default() });
    (pod, finding)
}

#[test]
fn shows_the_revision_that_all_pods_share() {
    let revision = FailingRevision { name: "two".to_owned(), healthy_before: 7, ..FailingRevision::default() };
    let workload = Workload { of: 10, revision: Some(revision) };
    for (hashes, shown) in [
        (["two", "two", "two"], true),
        (["two", "one", "two"], false),
        (["one", "two", "two"], false),
        (["one"; 3], false),
    ] {
        let pods = hashes.map(|hash| of_revision(hash, "Error"));
        let scenario = Scenario { workload: workload.clone(), webhooks: true, ..Scenario::of(pods) };
        let [incident] = &scenario.status(None).incidents[..] else { panic!("one incident") };
        assert_eq!((incident.pods, incident.of), (3, 10));
        let revision = incident.revision.as_ref().map(|revision| (&*revision.name, revision.healthy_before));
        assert_eq!(revision, shown.then_some(("two", 7)), "{hashes:?}");
        assert_eq!(scenario.alert_incidents()[0].texts.revision, incident.revision);
    }
}

#[test]
fn does_not_count_the_pods_of_a_cron_job() {
    let (pod, mut finding) = crashing("shop", "nightly", "Error", 50);
    finding.owner = Some(PodOwner { kind: "CronJob".into(), name: "nightly".into() });
    let scenario = Scenario { workload: Workload { of: 1, revision: None }, ..Scenario::of([(pod, finding)]) };
    assert_eq!(scenario.status(None).incidents[0].of, 0);
}
