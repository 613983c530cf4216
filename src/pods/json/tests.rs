use kube::core::ObjectList;

use super::*;
use crate::pods::{TEXT_LIMIT, pod::LIST_LIMIT};

#[test]
fn keeps_used_fields_and_skips_the_rest() {
    let pod = from_json(
        r#"{"kind":"Pod","metadata":{"uid":"0d1b2c3d-0000-0000-0000-00000000000f","name":"a","namespace":"b",
            "labels":{"z":"1","a":"2"},"annotations":{"x":"y","kopf.dev/ignore":"true"},"managedFields":[{}],
            "ownerReferences":[{"kind":"Other","name":"o","uid":"1"},{"kind":"ReplicaSet","name":"r","uid":"2","controller":true}]},
            "spec":{"containers":[{"name":"app","env":[{"name":"P","value":"s"}],"resources":{"limits":{"memory":"1Gi"}}}],"nodeName":"n"},
            "status":{"phase":"Running","conditions":null,"containerStatuses":[{"name":"app","ready":true,"restartCount":3,
            "state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}},"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]}}"#,
    )
    .unwrap();
    assert_eq!(pod.uid, Uid::from(0x0d1b_2c3d_0000_0000_0000_0000_0000_000f));
    assert_eq!(pod.labels, [("a".into(), "2".into()), ("z".into(), "1".into())]);
    assert!(pod.ignored);
    assert_eq!(pod.controller.unwrap().kind, "ReplicaSet");
    assert_eq!(pod.containers[0].memory_limit, "1Gi");
    assert_eq!(pod.statuses[0].last.as_ref().unwrap().exit_code, 137);
    assert_eq!(pod.statuses[0].state.running.as_ref().unwrap().started, "2026-01-02T03:04:05Z".parse().ok());
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
        "é".repeat(TEXT_LIMIT),
    );
    let pod = from_json(&json).unwrap();
    assert_eq!(pod.finalizers.len(), LIST_LIMIT);
    assert_eq!(pod.message, "é".repeat(TEXT_LIMIT / 2));
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
