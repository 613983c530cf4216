use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::*;
use crate::render::{
    document::Document,
    text::{self, Layout},
    timeline_fixtures::{noon, status as history},
};

fn status() -> OrchestrStatus {
    serde_json::from_value(json!({
        "observedGeneration": 2,
        "lastCheckTime": "2026-03-01T11:59:48Z",
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "Watching", "message": "watching 40 pods; may not list events",
                "lastTransitionTime": "2026-03-01T10:00:00Z"},
            {"type": "PodsHealthy", "status": "False", "reason": "PodsUnhealthy",
                "message": "2 of 40 pods: 1 OOMKilled (shop/cart-5d9f-a), 1 Error (shop/mailer-0)",
                "lastTransitionTime": "2026-03-01T10:00:00Z"},
            {"type": "AlertsDelivered", "status": "False", "reason": "DeliveryFailing", "message": "ops: 503",
                "lastTransitionTime": "2026-03-01T10:00:00Z"},
        ],
        "watchedPods": 40, "problematicPodCount": 2, "missingPods": 1, "ignoredPods": 2,
        "commonCauses": [{
            "kind": "Node", "name": "node-7", "owners": 3, "pods": 9, "since": "2026-03-01T11:30:00Z",
            "message": "node-7 does not report: 9 of its 9 pods, of 3 owners, are not ready",
        }],
        "incidents": [{
            "key": "5f0c2a915f0c2a91", "kind": "Crash", "namespace": "shop",
            "owner": {"kind": "Deployment", "name": "cart"}, "container": "app", "reason": "OOMKilled",
            "cause": "OutOfMemory", "message": "app was OOM-killed 7 times, 31–34 s after its start; limit 512Mi",
            "pods": 1, "of": 10, "since": "2026-03-01T05:00:00Z", "examplePods": ["cart-5d9f-a"],
            "revision": {"name": "cart-5d9f", "healthyBefore": 7, "changes": ["memory limit of app: 1Gi → 512Mi"]},
        }, {
            "key": "00c0ffee00c0ffee", "kind": "Crash", "namespace": "shop",
            "owner": {"kind": "StatefulSet", "name": "mailer"}, "container": "app", "reason": "Error",
            "cause": "Unknown", "pods": 1, "since": "2026-03-01T11:55:00Z", "examplePods": ["mailer-0"],
        }],
        "problematicPods": [{
            "name": "cart-5d9f-a", "namespace": "shop", "status": "CrashLoopBackOff", "kind": "Crash",
            "reason": "OOMKilled", "cause": "OutOfMemory", "node": "node-7",
            "message": "container app was OOM-killed (exit 137), 7 restarts, limit 512Mi, and a long text follows",
            "evidence": ["BackOff ×7, last 11:58:00Z: back-off restarting failed container"],
            "owner": {"kind": "Deployment", "name": "cart"}, "since": "2026-03-01T05:00:00Z",
            "containerIssues": [{
                "name": "app", "type": "App", "state": "Waiting", "reason": "CrashLoopBackOff", "ready": false,
                "restarts": 7, "logs": "one\n\ttwo\nthree\u{1b}[2J\u{202e}\n", "logSource": "Previous",
                "logNote": "the log was cut",
                "lastTermination": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-03-01T11:58:00Z"},
            }],
        }, {
            "name": "mailer-0", "namespace": "shop", "status": "Error", "kind": "Crash", "reason": "Error",
            "owner": {"kind": "StatefulSet", "name": "mailer"}, "since": "2026-03-01T11:55:00Z",
            "containerIssues": [{
                "name": "app", "type": "Init", "state": "Terminated", "ready": false, "restarts": 0,
                "logSource": "Unavailable", "logNote": "the node does not respond",
            }],
        }],
    }))
    .unwrap()
}

fn section(status: &OrchestrStatus) -> Section {
    let read = ReadStatus { status: status.clone(), generation: Some(2), now: noon() };
    of(&NamespacedName::new("ops", "cluster"), &read)
}

/// What is selected of a status.
fn selected(status: &OrchestrStatus, wanted: &str) -> Option<Section> {
    let mut section = section(status);
    select(&mut section, wanted).then_some(section)
}

fn text_of(section: &Section, width: usize, log_lines: usize) -> String {
    text::plain(&text::write(&Document::of(section.clone(), String::new()), Layout { width, log_lines }))
}

#[test]
fn prints_everything_that_a_person_needs() {
    let status = status();
    assert_eq!(
        text_of(&section(&status), 80, 2),
        "\
ops/cluster, checked 12s ago
2 of 40 pods: 1 OOMKilled (shop/cart-5d9f-a), 1 Error (shop/mailer-0)
2 pods with ignored problems.
may not list events
AlertsDelivered=False (DeliveryFailing): ops: 503

Common causes
  Node node-7  9 pods of 3 owners  30m
      node-7 does not report: 9 of its 9 pods, of 3 owners, are not ready

Incidents
  shop/cart (Deployment)  OOMKilled  OutOfMemory  1 of 10 pods  7h
      app was OOM-killed 7 times, 31–34 s after its start; limit 512Mi
      only revision cart-5d9f fails; 7 pods of the one before are healthy
      changed: memory limit of app: 1Gi → 512Mi
  shop/mailer (StatefulSet)  Error  1 pod  5m

Pods
  shop/cart-5d9f-a  CrashLoopBackOff  OOMKilled  on node-7  7h
      container app was OOM-killed (exit 137), 7 restarts, limit 512Mi, and a
        long text follows
      evidence: BackOff ×7, last 11:58:00Z: back-off restarting failed container
      container app: Waiting (CrashLoopBackOff), 7 restarts, terminated 2m ago
        with exit code 137 (OOMKilled)
        log of the previous run (the log was cut; the last 2 of 3 lines here):
        |     two
        | three\u{fffd}[2J\u{fffd}
  shop/mailer-0  Error  5m
      init container app: Terminated
        no log: the node does not respond
"
    );
}

#[test]
fn selects_by_pod_owner_and_key() {
    let status = status();
    for (wanted, incidents, pods) in [
        ("cart-5d9f-a", vec!["cart"], vec!["cart-5d9f-a"]),
        ("shop/cart-5d9f-a", vec!["cart"], vec!["cart-5d9f-a"]),
        ("cart", vec!["cart"], vec!["cart-5d9f-a"]),
        ("shop/mailer", vec!["mailer"], vec!["mailer-0"]),
        ("00c0", vec!["mailer"], vec!["mailer-0"]),
        ("00c0ffee00c0ffee", vec!["mailer"], vec!["mailer-0"]),
    ] {
        let section = selected(&status, wanted).unwrap();
        let names: Vec<_> = section.incidents.iter().map(|incident| incident.owner.name.as_str()).collect();
        assert_eq!(names, incidents, "{wanted}");
        assert_eq!(section.pods.iter().map(|pod| pod.name.as_str()).collect::<Vec<_>>(), pods, "{wanted}");
        let text = text_of(&section, 80, usize::MAX);
        assert!(text.starts_with("ops/cluster, checked 12s ago\n") && !text.contains("Common causes"), "{text}");
        assert!(text.contains(&section.incidents[0].key), "{text}");
    }
    for wanted in ["", "00c", "cart-5d9f", "bank/cart", "shop/", "/"] {
        assert!(selected(&status, wanted).is_none(), "{wanted}");
    }
}

#[test]
fn says_that_a_status_is_old_or_of_another_spec() {
    let mut status = status();
    status.last_check_time = Some(Time("2026-03-01T09:00:00Z".parse().unwrap()));
    status.observed_generation = Some(1);
    let text = text_of(&section(&status), 80, 0);
    assert!(text.contains("checked 3h ago\n") && text.contains("The status is old: "), "{text}");
    assert!(text.contains("The spec was changed since"), "{text}");
}

#[test]
fn a_status_is_old_when_its_history_ends() {
    let status = history();
    for (minutes, is_old) in [(6, false), (7, true)] {
        let now = noon() + SignedDuration::from_mins(minutes);
        let is_said = notes(&status, None, now).iter().any(|note| note.starts_with("The status is old: "));
        let timeline = Timeline::of(&NamespacedName::new("ops", "cluster"), &status, None, now);
        assert_eq!((is_said, !timeline.is_known_until_now()), (is_old, is_old), "{minutes}");
    }
}

#[test]
fn health_is_unknown_unless_the_condition_says_otherwise() {
    let mut status = status();
    assert_eq!(verdict(&status), Verdict::Unhealthy);
    status.conditions[1].status = "True".to_owned();
    assert_eq!(verdict(&status), Verdict::Healthy);
    status.conditions[1].status = "Unknown".to_owned();
    assert_eq!(verdict(&status), Verdict::Unknown);
    let text = text_of(&section(&status), 80, 0);
    assert!(text.contains("It is unknown whether the pods are healthy (PodsUnhealthy): 2 of 40 pods"), "{text}");
    status.conditions.clear();
    assert_eq!(verdict(&status), Verdict::Unknown);
}

#[test]
fn no_line_of_wrapped_text_is_wider_than_the_terminal() {
    let mut status = status();
    status.problematic_pods[0].message = "wörd ".repeat(100);
    let text = text_of(&section(&status), 40, 10);
    let wide: Vec<_> = text.lines().filter(|line| line.starts_with("      w") && line.chars().count() > 40).collect();
    assert!(wide.is_empty() && text.lines().filter(|line| line.contains("wörd")).count() > 10, "{wide:?}");
}

#[test]
fn prints_the_last_incidents_that_have_ended() {
    let mut status = history();
    let ended = "
Ended recently
  shop/mailer (StatefulSet)  Error  ExitCode  2 pods  lasted 34m  ended 86m ago
  ml/train-gpu-with-a-long-name (Job)  ImagePullBackOff  1 pod  lasted 30m to 140m  ended 32h ago
";
    let all = text_of(&section(&status), 100, 3);
    assert!(all.ends_with(ended), "{all}");
    let one = text_of(&selected(&status, "cart").unwrap(), 100, 3);
    assert!(!one.contains("Ended recently"), "{one}");
    status.history.items = vec![status.history.items; 4].concat();
    let many = text_of(&section(&status), 100, 3);
    assert!(many.ends_with("\n  and 3 more: see orchestr show --history\n"), "{many}");
}

fn set_pods_healthy(status: &mut OrchestrStatus, value: &str) {
    let healthy = status.conditions.iter_mut().find(|own| own.type_ == "PodsHealthy").unwrap();
    healthy.status = value.to_owned();
}

#[test]
fn a_history_is_green_only_if_the_pods_are_known_to_be_healthy() {
    let verdict = |hours: i64, change: fn(&mut OrchestrStatus)| {
        let mut status = history();
        status.incidents.clear();
        set_pods_healthy(&mut status, "True");
        change(&mut status);
        let now = noon() + SignedDuration::from_hours(hours);
        let object = NamespacedName::new("ops", "cluster");
        of_history(&object, &status, Timeline::of(&object, &status, None, now)).verdict
    };
    assert_eq!(verdict(0, |_| ()), Verdict::Healthy);
    assert_eq!(verdict(0, |status| set_pods_healthy(status, "False")), Verdict::Unhealthy);
    assert_eq!(
        verdict(0, |status| set_pods_healthy(status, "Unknown")),
        Verdict::Unknown,
        "paused, or an invalid spec"
    );
    assert_eq!(verdict(0, |status| *status = OrchestrStatus::default()), Verdict::Unknown, "never checked");
    assert_eq!(verdict(0, |status| status.history_since = None), Verdict::Unknown, "no history");
    assert_eq!(verdict(1, |_| ()), Verdict::Unknown, "the operator has stopped");
}
