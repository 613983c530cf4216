use arcstr::ArcStr;
use kube::core::ObjectList;

use super::*;
use crate::pods::{TEXT_LIMIT, pod::LIST_LIMIT};

#[test]
fn keeps_used_fields_and_skips_the_rest() {
    let pod = from_json(
        r#"{"kind":"Pod","metadata":{"uid":"0d1b2c3d-0000-0000-0000-00000000000f","name":"a","namespace":"b",
            "labels":{"z":"1","a":"2"},"annotations":{"x":"y","kopf.dev/ignore":"true"},"managedFields":[{}],
            "ownerReferences":[{"kind":"Other","name":"o","uid":"1"},{"kind":"ReplicaSet","name":"r","uid":"2","controller":true}]},
            "spec":{"containers":[{"name":"app","env":[{"name":"P","value":"s"}],"resources":{"limits":{"memory":"1Gi"}},
            "lifecycle":{"preStop":{"exec":{"command":["/bin/drain"]}}}}],"nodeName":"n"},
            "status":{"phase":"Running","conditions":null,"containerStatuses":[{"name":"app","ready":true,"restartCount":3,
            "state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}},"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}"#,
    )
    .unwrap();
    assert_eq!(pod.uid, Uid::from(0x0d1b_2c3d_0000_0000_0000_0000_0000_000f));
    assert_eq!(pod.labels, [("a".into(), "2".into()), ("z".into(), "1".into())]);
    assert!(pod.ignored);
    assert_eq!(pod.controller.unwrap().kind, "ReplicaSet");
    assert_eq!(pod.containers[0].memory_limit, "1Gi");
    assert!(pod.containers[0].has_pre_stop);
    assert_eq!(pod.statuses[0].last.as_ref().unwrap().exit_code, 137);
    assert_eq!(pod.statuses[0].state.running.as_ref().unwrap().started, "2026-01-02T03:04:05Z".parse().ok());
}

#[test]
fn ignores_annotations_of_another_type() {
    let pod = from_json(
        r#"{"metadata":{"annotations":{"kopf.dev/team":{"a":[1]},"kopf.dev/severity":null,"kopf.dev/runbook":5}}}"#,
    );
    let invalid: Vec<_> = pod.unwrap().ownership.unwrap().invalid().collect();
    assert_eq!(invalid, ["kopf.dev/severity", "kopf.dev/team", "kopf.dev/runbook"]);
}

#[test]
fn accepts_empty_objects_and_nulls() {
    assert_eq!(from_json("{}").unwrap(), Pod { uid: Uid::from_text(""), ..Pod::default() });
    assert!(from_json(r#"{"metadata":null,"spec":null,"status":{"containerStatuses":null}}"#).is_ok());
}

#[test]
fn bounds_texts_and_lists() {
    let json = format!(
        r#"{{"metadata":{{"finalizers":[{}]}},"status":{{"message":"{}"}}}}"#,
        vec![r#""f""#; LIST_LIMIT + 9].join(","),
        "é ".repeat(TEXT_LIMIT),
    );
    let pod = from_json(&json).unwrap();
    assert_eq!(pod.finalizers.count(), LIST_LIMIT + 9);
    assert_eq!(pod.finalizers.to_string(), "f, f, f, f, f, f, f, f and 257 more");
    assert!(
        pod.message.len() <= TEXT_LIMIT && pod.message.ends_with("é …") && pod.message.len() > TEXT_LIMIT - 9,
        "{}",
        pod.message
    );
}

#[test]
fn accepts_nulls_and_empty_objects_in_a_spec() {
    let pod = from_json(
        r#"{"spec":{"terminationGracePeriodSeconds":null,"imagePullSecrets":[{}],"schedulingGates":null,"readinessGates":[{}],
            "containers":[{"image":null,"command":null,"args":[],"livenessProbe":null,"readinessProbe":{},
                "startupProbe":{"httpGet":{"port":null},"periodSeconds":null,"terminationGracePeriodSeconds":-1}},
                {"command":["  "],"startupProbe":{"exec":{}},"livenessProbe":{"grpc":null,"tcpSocket":{}}}]}}"#,
    )
    .unwrap();
    assert!(!pod.has_pull_secrets, "no secret is named");
    assert_eq!((pod.termination_grace, pod.readiness_gates), (None, vec![ArcStr::new()]));
    let [app, other] = &pod.containers[..] else { panic!() };
    assert!(app.image.is_empty() && app.command.is_empty() && other.command.is_empty());
    assert_eq!(app.liveness_probe, None);
    assert_eq!(app.readiness_probe.as_ref().unwrap().action, "");
    let startup = app.startup_probe.as_ref().unwrap();
    assert_eq!((&*startup.action, startup.period, startup.termination_grace), ("GET :0/", 10, None));
    assert_eq!(other.startup_probe.as_ref().unwrap().action, "exec ");
    assert_eq!(other.liveness_probe.as_ref().unwrap().action, "TCP :0");
}

#[test]
fn keeps_only_the_first_word_of_a_command() {
    let first = |container: &str| {
        let pod = from_json(&format!(r#"{{"spec":{{"containers":[{container}]}}}}"#)).unwrap();
        pod.containers[0].command.clone()
    };
    let long = format!(r#"{{"command":["/{}"],"args":["x"]}}"#, "x".repeat(2 * TEXT_LIMIT));
    assert_eq!(first(r#"{"command":["/app/srv --password=hunter2","x"],"args":["y"]}"#), "/app/srv");
    assert_eq!(first(r#"{"args":["serve","--password=hunter2"]}"#), "serve");
    assert_eq!(first(&long).len(), 317);
}

#[test]
fn refuses_values_of_another_type_in_a_spec() {
    for container in [
        r#"{"command":"sh"}"#,
        r#"{"command":[7]}"#,
        r#"{"image":7}"#,
        r#"{"livenessProbe":[7]}"#,
        r#"{"livenessProbe":{"periodSeconds":"10"}}"#,
        r#"{"livenessProbe":{"httpGet":{"port":{}}}}"#,
    ] {
        let error = from_json(&format!(r#"{{"spec":{{"containers":[{container}]}}}}"#)).unwrap_err().to_string();
        assert!(error.contains("wrong type"), "{container}: {error}");
    }
}

#[test]
fn errors_name_the_position_but_not_the_content() {
    let error = from_json(r#"{"status":{"phase":{"password":"hunter2"}}}"#).unwrap_err().to_string();
    assert!(error.contains("wrong type") && error.contains("line 1"), "{error}");
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn decodes_a_list_that_contains_a_bad_pod() {
    let list: ObjectList<JsonPod> = serde_json::from_str(
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
            {"metadata":{"name":"a","namespace":"n","uid":"1","resourceVersion":"5"}},
            {"metadata":{"name":"b","namespace":"n","uid":"2","resourceVersion":"6"},"status":{"phase":["hunter2"]}},
            {"metadata":{"name":"c","namespace":"n","uid":"3","resourceVersion":"7"}}]}"#,
    )
    .unwrap();
    let [a, b, c] = list.items.try_into().unwrap();
    assert_eq!(a.pod.pod.unwrap().name, "a");
    assert_eq!(b.meta.resource_version.as_deref(), Some("6"));
    let undecodable = b.pod.pod.unwrap_err();
    assert_eq!((undecodable.uid, undecodable.to_string().as_str()), (Uid::from_text("2"), "n/b"));
    assert_eq!(c.pod.pod.unwrap().name, "c");
}
