//! What a tenant can make an object say about the pods of other namespaces that it selects. Pods are as a kubelet writes
//! them, which a tenant cannot; the events about one's own pods may say anything, and so may one's own registry.

use orchestr_testbed::objects::{self, container, controlled_by, status};
use serde_json::{Value, json};

use super::*;
use crate::{api::Cause, report::tests::common_causes::grouped_by_key};

const EVIL: &str = "evil";
const VICTIM: &str = "tenant-b";
const NOW: i64 = 10_000;

/// A pod that a kubelet has reported on.
fn reported(namespace: &str, owner: &str, node: &str, image: &str, waiting: Value) -> Value {
    let since = "1970-01-01T00:10:00Z";
    let mut status = status("Pending", false, since, [container("app", json!({"state": {"waiting": waiting}}))]);
    status["conditions"][1]["type"] = json!("PodReadyToStartContainers");
    let owners = controlled_by("StatefulSet", owner, "2");
    let metadata = json!({"uid": "1", "creationTimestamp": since, "ownerReferences": owners});
    let spec = json!({"nodeName": node, "containers": [{"name": "app", "image": image}]});
    objects::pod(namespace, owner, json!({"metadata": metadata, "spec": spec, "status": status}))
}

fn creating(namespace: &str, owner: &str, node: &str) -> Value {
    reported(namespace, owner, node, "app:1", json!({"reason": "ContainerCreating"}))
}

fn pulling(namespace: &str, owner: &str, image: &str, message: &str) -> Value {
    reported(namespace, owner, "node-1", image, json!({"reason": "ErrImagePull", "message": message}))
}

/// The problem of a pod with these events about it, which are seconds old.
fn judged(pod: &Value, events: &[(&str, &str)]) -> (Pod, Finding) {
    let pod = crate::pods::from_json(&pod.to_string()).unwrap();
    let events: Vec<_> = events
        .iter()
        .map(|(reason, message)| Event {
            reason: (*reason).to_owned(),
            message: (*message).to_owned(),
            count: 25,
            first: Some(at(NOW - 600)),
            last: Some(at(NOW - 5)),
            ..Event::default()
        })
        .collect();
    let facts = Facts { events: events.into(), ..Facts::default() };
    let Health::Problem(finding) = assess(&pod, &facts, &Thresholds::default(), at(NOW)).health else {
        panic!("{} has a problem", pod.name)
    };
    (pod, *finding)
}

fn owners(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("o{number:02}"))
}

fn report(pods: impl IntoIterator<Item = (Pod, Finding)>) -> OrchestrStatus {
    Scenario { other_pods_on_node: 0, ..Scenario::of(pods) }.status(None)
}

fn sentences(status: &OrchestrStatus) -> Vec<&str> {
    status.common_causes.iter().map(|own| own.message.as_str()).collect()
}

/// The owners of a namespace's incidents by the common cause under which an alert is sent; empty for those sent alone.
fn alerts_of(namespace: &str, pods: impl IntoIterator<Item = (Pod, Finding)>) -> Vec<(String, Vec<String>)> {
    let scenario = Scenario { other_pods_on_node: 0, webhooks: true, ..Scenario::of(pods) };
    grouped_by_key(&scenario, |incident| incident.namespace == namespace)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_subject_in_another_namespace_than_the_pods_is_ignored() {
    let forged =
        "MountVolume.SetUp failed for volume \"0\" : couldn't find key password in Secret tenant-b/payments-db";
    // Each on a node of its own, so that the nodes explain nothing.
    let evil = || owners(12).map(|own| judged(&creating(EVIL, &own, &own), &[("FailedMount", forged)]));
    assert_eq!(sentences(&report(evil())), [""; 0], "a cause with the namespace of others");

    let error = json!({
        "reason": "CreateContainerConfigError",
        "message": "couldn't find key password in Secret tenant-b/payments-db",
    });
    let lacking = |own: &str| judged(&reported(VICTIM, own, "node-2", "app:1", error.clone()), &[]);
    let pods = || evil().chain(["api", "jobs"].map(lacking));
    assert_eq!(
        sentences(&report(pods())),
        ["Secret tenant-b/payments-db lacks a key: 2 pods of 2 owners cannot start"]
    );
    assert_eq!(alerts_of(EVIL, pods()), [(String::new(), owners(12).collect::<Vec<_>>())]);
    assert_eq!(alerts_of(VICTIM, pods()), [("payments-db".to_owned(), names(&["api", "jobs"]))]);
}

#[test]
fn a_forged_subject_does_not_win_over_genuine_events() {
    let forged =
        "MountVolume.SetUp failed for volume \"0\" : couldn't find key password in Secret tenant-b/payments-db";
    let genuine = "MountVolume.SetUp failed for volume \"tls\" : secret \"own-tls\" not found";
    for events in [[forged, genuine], [genuine, forged]] {
        let (_, finding) = judged(&creating(EVIL, "web", "node-1"), &events.map(|text| ("FailedMount", text)));
        assert_eq!(finding.explanation.message, "the volume tls needs the Secret own-tls, which does not exist");
    }
}

#[test]
fn forged_causes_leave_room_for_other_namespaces() {
    let forged = |name: usize| {
        owners(3).map(move |own| {
            let text = format!("MountVolume.SetUp failed for volume \"0\" : secret \"forged-{name}\" not found");
            judged(&creating(EVIL, &format!("{own}-{name}"), "node-1"), &[("FailedMount", &text)])
        })
    };
    let error = json!({"reason": "CreateContainerConfigError", "message": "secret \"payments-db\" not found"});
    let lacking = |own: &str| judged(&reported(VICTIM, own, "node-2", "app:1", error.clone()), &[]);
    let pods = || (0..12).flat_map(forged).chain(["api", "jobs"].map(lacking));
    let status = report(pods());
    assert_eq!(status.common_causes.len(), 10);
    let listed = status.common_causes.iter().any(|own| own.name == "tenant-b/payments-db");
    assert!(listed, "{:?}", status.common_causes);
    assert_eq!(alerts_of(VICTIM, pods()), [("payments-db".to_owned(), names(&["api", "jobs"]))]);
    // Those that the list has no room for are not over.
    let evil = alerts_of(EVIL, pods());
    assert!(evil.len() == 12 && evil.iter().all(|(name, owners)| !name.is_empty() && owners.len() == 3), "{evil:?}");
}

#[test]
fn the_registry_of_an_image_is_the_one_in_its_name() {
    for answer in [
        "failed to resolve reference \"evil.example/a:1\": Head \"https://registry.shared.example/v2/a?ns=evil.example\": \
         dial tcp: lookup registry.shared.example: no such host",
        "failed to resolve reference \"evil.example/a:1\": unexpected status 500: see https://registry.shared.example/?ns=x \
         i/o timeout",
        "toomanyrequests: You have reached your pull rate limit: https://registry.shared.example/limits?ns=docker.io",
        "registry.shared.example refuses: toomanyrequests at docker.io",
    ] {
        let evil = owners(3).map(|own| judged(&pulling(EVIL, &own, &format!("evil.example/{own}:1"), answer), &[]));
        let unreachable = "failed to resolve reference \"registry.shared.example/app:1\": Head \
                           \"https://registry.shared.example/v2/app\": dial tcp 10.0.0.1:443: i/o timeout";
        let pods: Vec<_> =
            evil.chain([judged(&pulling(VICTIM, "api", "registry.shared.example/app:1", unreachable), &[])]).collect();
        let causes = report(pods.clone()).common_causes;
        assert!(causes.iter().all(|own| own.name == "evil.example"), "{answer}: {causes:?}");
        assert_eq!(alerts_of(VICTIM, pods), [(String::new(), names(&["api"]))], "{answer}");
    }
}

#[test]
fn events_about_images_explain_only_their_own_namespace() {
    let error = "Head \"https://registry.shared.example/v2/app\": dial tcp 10.0.0.1:443: i/o timeout";
    let forged = format!("Failed to pull image \"registry.shared.example/a:1\": {error}");
    let backing_off = |namespace, own: &str| {
        let waiting = json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image \"x\""});
        judged(
            &reported(namespace, own, "node-1", &format!("registry.shared.example/{own}:1"), waiting),
            &[("Failed", &forged)],
        )
    };
    let pods = || {
        let evil = owners(3).map(|own| backing_off(EVIL, &own));
        evil.chain([judged(&pulling(VICTIM, "api", "registry.shared.example/app:1", error), &[])])
    };
    assert_eq!(alerts_of(VICTIM, pods()), [(String::new(), names(&["api"]))]);
    assert_eq!(
        sentences(&report(pods())),
        ["registry registry.shared.example cannot be reached: 3 pods of 3 owners cannot pull 3 images"]
    );
    assert_eq!(alerts_of(EVIL, pods()), [("registry.shared.example".to_owned(), names(&["o00", "o01", "o02"]))]);
    // What the kubelet wrote into the pods explains them all.
    let shown =
        ["a", "b"].map(|own| judged(&pulling(EVIL, own, &format!("registry.shared.example/{own}"), error), &[]));
    let victim = judged(&pulling(VICTIM, "api", "registry.shared.example/app:1", error), &[]);
    assert_eq!(
        alerts_of(VICTIM, shown.into_iter().chain([victim])),
        [("registry.shared.example".to_owned(), names(&["api"]))]
    );
}

#[test]
fn a_node_that_does_not_exist_explains_nothing() {
    let text = "Failed to create pod sandbox: rpc error: code = Unknown desc = no IP addresses";
    let unreported = |own: String| {
        let mut pod = creating(EVIL, &own, "node-x");
        pod["status"] = json!({"phase": "Pending"});
        judged(&pod, &[("FailedCreatePodSandBox", text)])
    };
    assert_eq!(sentences(&report(owners(3).map(unreported))), [""; 0]);
    // The garbage collector fails pods of nodes that do not exist.
    let collected = |own: String| {
        let mut pod = creating(EVIL, &own, "node-x");
        pod["status"] = json!({"phase": "Failed", "conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }]});
        judged(&pod, &[])
    };
    assert_eq!(sentences(&report(owners(3).map(collected))), [""; 0]);
}

#[test]
fn events_about_sandboxes_explain_only_their_own_namespace() {
    let text = "Failed to create pod sandbox: rpc error: code = Unknown desc = no IP addresses";
    let failing =
        |namespace, own: &str| judged(&creating(namespace, own, "node-1"), &[("FailedCreatePodSandBox", text)]);
    let pods = || owners(3).map(|own| failing(EVIL, &own)).chain([failing(VICTIM, "api")]);
    assert_eq!(
        sentences(&report(pods())),
        ["node-1 cannot set up sandboxes of pods: 3 of its 4 pods, of 3 owners, cannot start"]
    );
    assert_eq!(alerts_of(VICTIM, pods()), [(String::new(), names(&["api"]))]);
    // Another node that seems to have the same trouble in another namespace does not hide a true one.
    let elsewhere = judged(&creating(EVIL, "o", "node-2"), &[("FailedCreatePodSandBox", text)]);
    let pods = ["a", "b", "c"].map(|own| failing(VICTIM, own)).into_iter().chain([elsewhere]);
    assert_eq!(alerts_of(VICTIM, pods), [("node-1".to_owned(), names(&["a", "b", "c"]))]);
}

#[test]
fn a_silent_node_explains_pods_of_all_namespaces() {
    let silent = |namespace, own: &str| {
        let mut pod = creating(namespace, own, "node-1");
        pod["status"]["phase"] = json!("Running");
        pod["status"]["conditions"] = json!([
            {"type": "ContainersReady", "status": "True", "lastTransitionTime": "1970-01-01T00:10:00Z"},
            {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:10:00Z"},
        ]);
        pod["status"]["containerStatuses"][0]["state"] = json!({"running": {"startedAt": "1970-01-01T00:10:00Z"}});
        judged(&pod, &[])
    };
    let pods = || [silent("a", "x"), silent("b", "y"), silent("c", "z")];
    assert_eq!(sentences(&report(pods())), ["node-1 does not report: 3 of its 3 pods, of 3 owners, are not ready"]);
    assert_eq!(alerts_of("c", pods()), [("node-1".to_owned(), names(&["z"]))]);
}

#[test]
fn what_a_status_has_shown_is_not_replaced_by_what_events_say() {
    let error = "Head \"https://ghcr.io/v2/acme/cart\": dial tcp 10.0.0.1:443: i/o timeout";
    let (pod, shown) = judged(&pulling("shop", "cart", "ghcr.io/acme/cart:1", error), &[]);
    // Older kubelets write no error while they back off.
    let waiting = json!({"reason": "ImagePullBackOff", "message": "Back-off pulling image \"ghcr.io/acme/cart:1\""});
    let text = format!("Failed to pull image \"ghcr.io/acme/cart:1\": {error}");
    let backing_off = reported("shop", "cart", "node-1", "ghcr.io/acme/cart:1", waiting);
    let (_, told) = judged(&backing_off, &[("Failed", &text)]);
    assert_eq!(told.explanation.cause, Cause::RegistryUnreachable);
    assert_ne!(told.explanation.subject, shown.explanation.subject);
    let mut tracker = Tracker::default();
    let mut update = |finding: &Finding| {
        let mut found = vec![(&pod, Box::new(finding.clone()))];
        tracker.update(&mut found, &UpdateContext::default(), &mut SharedProblems::default());
        *found.remove(0).1
    };
    update(&shown);
    let told = update(&told);
    assert_eq!(told.explanation.subject, shown.explanation.subject);
    assert_eq!(told.explanation.evidence.len(), 1, "its evidence is that of the present");
}

/// A pod that crashed at this second.
fn crashed(namespace: &str, owner: &str, since: i64) -> (Pod, Finding) {
    crashing(namespace, owner, "Error", since)
}

fn rows_of(status: &OrchestrStatus, namespace: &str) -> usize {
    status.problematic_pods.iter().filter(|pod| pod.namespace == namespace).count()
}

#[test]
fn namespaces_share_the_rows_of_pods_equally() {
    // The attacker's incidents are the most recent.
    let evil = |count: usize| owners(count).map(|own| crashed(EVIL, &own, 700));
    let victim = |count: usize| owners(count).map(|own| crashed(VICTIM, &own, 500));
    let status = report(evil(60).chain(victim(31)));
    assert_eq!((rows_of(&status, EVIL), rows_of(&status, VICTIM)), (25, 25));
    let status = report(evil(60).chain(victim(3)).chain(victim(3)));
    assert_eq!((rows_of(&status, EVIL), rows_of(&status, VICTIM)), (47, 3), "one of each incident before a second");
    let status = report(evil(20).chain(evil(20)).chain(evil(20)).chain(victim(1)).chain(victim(1)).chain(victim(1)));
    assert_eq!((rows_of(&status, EVIL), rows_of(&status, VICTIM)), (47, 3), "the rest is shared as well");
    // Also where not even the shortest rows fit.
    let long = |(mut pod, mut finding): (Pod, Finding)| {
        finding.explanation.evidence = vec!["x".repeat(512); 4];
        pod.node = "n".repeat(253).into();
        (pod, finding)
    };
    let pods = evil(200).chain(victim(200)).map(long);
    let status = Scenario { max_pods: 500, ..Scenario::of(pods) }.status(None);
    let (evil, victim) = (rows_of(&status, EVIL), rows_of(&status, VICTIM));
    assert!(evil + victim < 400 && evil.abs_diff(victim) <= 1, "{evil} and {victim}");
}
