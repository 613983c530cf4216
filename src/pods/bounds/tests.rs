use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{
    diagnosis::{Facts, Health, Thresholds, assess, ready_counts},
    pods::{from_json, testing::decode_json_as_protobuf},
};

/// About as large as etcd accepts: 1.5 MiB.
const LARGEST: usize = 1_500_000;

fn container(name: &str, rest: &str) -> Value {
    let probe = json!({"httpGet": {"port": 1, "path": format!("/{}", "p".repeat(4000))}});
    json!({
        "name": format!("{name}-{}", "n".repeat(50)), "image": format!("{rest}{}", "i".repeat(4000)),
        "command": ["c".repeat(4000)], "livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
        "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": (0..255).collect::<Vec<_>>()}}],
    })
}

fn ended(text: &str) -> Value {
    json!({"exitCode": 1, "reason": text.repeat(1000), "message": text.repeat(4096), "containerID": text.repeat(500)})
}

fn status(name: &str) -> Value {
    json!({
        "name": format!("{name}-{}", "n".repeat(50)), "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "w".repeat(4096)}, "terminated": ended("t")},
        "lastState": {"terminated": ended("l")},
    })
}

/// A pod whose every list and text is as long as possible.
fn hostile(count: usize) -> Value {
    let all = |make: &dyn Fn(usize) -> Value| (0..count).map(make).collect::<Vec<_>>();
    let labels: serde_json::Map<_, _> =
        (0..256).map(|n| (format!("{}/{n:063}", "k".repeat(253)), json!("v".repeat(63)))).collect();
    json!({
        "metadata": {
            "name": "n".repeat(253), "namespace": "s".repeat(63), "uid": "1", "labels": labels,
            "annotations": {
                "kopf.dev/severity": "x".repeat(4000), "kopf.dev/team": "t".repeat(63),
                "kopf.dev/runbook": format!("https://r.example/{}", "r".repeat(494)),
                "kopf.dev/dashboard": format!("https://d.example/{}", "d".repeat(494)),
            },
            "finalizers": all(&|n| json!(format!("example.com/{n}-{}", "f".repeat(50)))),
            "ownerReferences": [{"apiVersion": "a".repeat(4000), "kind": "k".repeat(4000), "name": "o".repeat(4000),
                "uid": "u".repeat(4000), "controller": true}],
        },
        "spec": {
            "nodeName": "x".repeat(253), "schedulingGates": all(&|n| json!({"name": format!("example.com/{n}")})),
            "readinessGates": all(&|n| json!({"conditionType": format!("example.com/{n}-{}", "g".repeat(250))})),
            "initContainers": all(&|n| container(&format!("init-{n}"), "")),
            "containers": all(&|n| container(&format!("app-{n}"), "")),
        },
        "status": {
            "phase": "Running", "reason": "r".repeat(4000), "message": "m".repeat(4096),
            "conditions": all(&|n| json!({"type": format!("example.com/{n}-{}", "g".repeat(250)), "status": "False",
                "reason": "r".repeat(1000), "message": "m".repeat(4096)})),
            "initContainerStatuses": all(&|n| status(&format!("init-{n}"))),
            "containerStatuses": all(&|n| status(&format!("app-{n}"))),
        },
    })
}

/// The bytes of a pod without its labels.
fn size(pod: &Pod) -> usize {
    Pod { labels: Vec::new(), ..pod.clone() }.size()
}

fn decoded(pod: &Value) -> Pod {
    let from_json = from_json(&pod.to_string()).unwrap();
    assert_eq!(decode_json_as_protobuf(pod).unwrap(), from_json, "both encodings are cut alike");
    from_json
}

#[test]
fn the_largest_pods_take_a_bounded_amount_of_memory() {
    for count in [1, 5, 20, 50, 256] {
        let json = hostile(count);
        let length = json.to_string().len();
        assert!(count < 50 || length > LARGEST, "{length}");
        let mut pod = decoded(&json);
        assert!(size(&pod) <= POD_LIMIT, "{count}: {} bytes", size(&pod));
        assert_eq!((pod.finalizers.count(), pod.scheduling_gates.count()), (count, count));
        pod.labels.clear();
        pod.reduce();
        assert!(size(&pod) <= 5 * REDUCED_LIMIT, "{count}: reduced to {} bytes", size(&pod));
    }
}

#[test]
fn annotations_of_ownership_are_kept_whole_or_not_at_all() {
    let with = |annotations: Value| {
        decoded(&json!({"metadata": {"name": "web", "namespace": "shop", "uid": "1", "annotations": annotations}}))
    };
    let names = |pod: &Pod| -> Vec<&str> { pod.ownership.iter().flat_map(|own| own.invalid()).collect() };
    assert_eq!(with(json!({"other": "x", "kopf.dev/team": ""})).ownership, None);
    let mut pod = with(json!({
        "kopf.dev/severity": "critical", "kopf.dev/team": "checkout", "kopf.dev/dashboard": "https://d.example/?a=b",
        "kopf.dev/runbook": format!("https://r.example/{}", "r".repeat(494)), "kopf.dev/ignore": "true",
    }));
    pod.reduce();
    let own = pod.ownership.clone().unwrap();
    assert_eq!((own.severity, own.team.as_str()), (Some(crate::api::Severity::Critical), "checkout"));
    assert_eq!((own.runbook.len(), own.dashboard.as_str()), (512, "https://d.example/?a=b"));
    assert!(pod.ignored && names(&pod).is_empty());
    let bad = with(json!({"kopf.dev/team": "<!channel>", "kopf.dev/runbook": format!("https://{}", "r".repeat(600))}));
    assert_eq!(names(&bad), ["kopf.dev/team", "kopf.dev/runbook"]);
    assert_eq!(bad.ownership.as_ref().unwrap().runbook, "");
}

#[test]
fn a_usual_pod_is_kept_whole() {
    let app = |n: usize| format!("app-{n}");
    let message = "x".repeat(800);
    let json = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "labels": {"app": "web"}},
        "spec": {"containers": (0..6).map(|n| json!({"name": app(n), "image": "example/web:1"})).collect::<Vec<_>>()},
        "status": {"phase": "Running", "containerStatuses": (0..6).map(|n| json!({
            "name": app(n), "state": {"waiting": {"reason": "ErrImagePull", "message": message}},
        })).collect::<Vec<_>>()},
    });
    let pod = decoded(&json);
    assert_eq!((pod.containers.len(), pod.statuses.len(), pod.omitted), (6, 6, Omitted::default()));
    assert!(pod.statuses.iter().all(|own| own.state.waiting.as_ref().unwrap().message == message));
}

#[test]
fn keeps_the_containers_in_trouble() {
    let (troubled, count) = (["app-77", "app-200"], 250);
    let name = |n: usize| format!("app-{n}");
    let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    let mut statuses: Vec<_> =
        (0..count).map(|n| json!({"name": name(n), "ready": true, "restartCount": 0, "state": running})).collect();
    for (index, own) in troubled.iter().enumerate() {
        let number: usize = own[4..].parse().unwrap();
        statuses[number] = json!({"name": own, "ready": index == 0, "restartCount": 2, "state": {"waiting": {"reason": "ImagePullBackOff"}}});
    }
    let images = "i".repeat(500);
    let json = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "1"},
        "spec": {"containers": (0..count).map(|n| json!({"name": name(n), "image": images})).collect::<Vec<_>>()},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": statuses},
    });
    let pod = decoded(&json);
    assert!(size(&pod) <= POD_LIMIT && pod.omitted.containers > 0);
    let Health::Problem(finding) =
        assess(&pod, &Facts::default(), &Thresholds::default(), Timestamp::UNIX_EPOCH).health
    else {
        panic!("two containers are in trouble")
    };
    let names: Vec<_> = finding.containers.iter().map(|own| own.name.as_str()).collect();
    assert_eq!(names, troubled);
    let said = format!("; {} more containers were not checked: the pod is too large", pod.omitted.count());
    assert!(finding.message.ends_with(&said), "{}", finding.message);
    assert_eq!(ready_counts(&pod), (count - 2, count));
}

#[test]
fn refuses_lists_in_which_something_could_be_missed() {
    let items = |n: usize, make: &dyn Fn(usize) -> Value| (0..n).map(make).collect::<Vec<_>>();
    for n in [LIST_LIMIT, LIST_LIMIT + 1] {
        let labels: serde_json::Map<_, _> = (0..n).map(|n| (n.to_string(), json!("x"))).collect();
        for pod in [
            json!({"metadata": {"labels": labels}}),
            json!({"spec": {"containers": items(n, &|n| json!({"name": n.to_string()}))}}),
            json!({"spec": {"initContainers": items(n, &|n| json!({"name": n.to_string()}))}}),
            json!({"spec": {"readinessGates": items(n, &|n| json!({"conditionType": n.to_string()}))}}),
            json!({"status": {"containerStatuses": items(n, &|n| json!({"name": n.to_string()}))}}),
            json!({"status": {"initContainerStatuses": items(n, &|n| json!({"name": n.to_string()}))}}),
            json!({"status": {"conditions": items(n, &|n| json!({"type": n.to_string()}))}}),
        ] {
            let results = [from_json(&pod.to_string()), decode_json_as_protobuf(&pod)];
            for result in results {
                let expected = if n > LIST_LIMIT { Some(DecodeError::LongList) } else { None };
                assert_eq!(result.err(), expected, "{n}");
            }
        }
    }
}

#[test]
fn keeps_only_conditions_that_matter() {
    let condition = |kind: &str| json!({"type": kind, "status": "False"});
    let pod = decoded(&json!({
        "spec": {"readinessGates": [{"conditionType": "example.com/lb"}]},
        "status": {"conditions": [condition("Ready"), condition("example.com/lb"), condition("example.com/other")]},
    }));
    let kinds: Vec<_> = pod.conditions.iter().map(|condition| condition.kind.as_str()).collect();
    assert_eq!(kinds, ["Ready", "example.com/lb"]);
}

#[test]
fn texts_are_cut_with_a_mark() {
    let message = "w ".repeat(1000);
    let mut pod = decoded(&json!({
        "spec": {"containers": [{"name": "app", "image": "i".repeat(400)}]},
        "status": {
            "message": message,
            "containerStatuses": [{"name": "app", "state": {"waiting": {"reason": "x".repeat(300), "message": message}}}],
        },
    }));
    pod.reduce();
    let waiting = pod.statuses[0].state.waiting.clone().unwrap();
    assert_eq!(pod.message, "w ".repeat(510) + "…");
    assert_eq!((waiting.message, waiting.reason.len()), (pod.message, 300));
}

/// A pod with the termination message of an app container, and so many other containers.
fn ended_with(message: &str, others: usize) -> Pod {
    let mut containers = vec![json!({"name": "app", "image": "example/app:1"})];
    containers.extend((1..others / 2).map(|n| json!({"name": format!("app-{n}"), "image": "example/web:1"})));
    let init: Vec<_> =
        (0..others.div_ceil(2)).map(|n| json!({"name": format!("init-{n}"), "image": "example/init:1"})).collect();
    decoded(&json!({
        "spec": {"containers": containers, "initContainers": init},
        "status": {"containerStatuses": [{"name": "app", "state": {"terminated": {"exitCode": 1, "message": message}}}]},
    }))
}

#[test]
fn a_message_cut_by_the_kubelet_stays_recognizable() {
    let message = |length: usize| format!("head {}{}", "word ".repeat(length), "end").split_at(length).0.to_owned();
    for (others, length) in [(0, 4096), (0, 2048), (7, 12 * 1024 / 7), (20, 12 * 1024 / 20), (60, 12 * 1024 / 60)] {
        let mut pod = ended_with(&message(length), others);
        for reduced in [false, true] {
            let shown = &pod.statuses[0].state.terminated.as_ref().unwrap().message;
            assert!(shown.starts_with('…'), "{others} {length} {reduced}: {shown}");
            assert!(length == 4096 || shown.ends_with('…'), "{others} {length} {reduced}: {shown}");
            pod.reduce();
        }
    }
    assert_eq!(ended_with(&message(1000), 0).statuses[0].state.terminated.as_ref().unwrap().message, message(1000));
}
