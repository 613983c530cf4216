//! How pods are decoded from both encodings.

use bytes::Bytes;
use kube::core::ObjectList;
use prost::Message;
use serde_json::{Value, json};

use super::{
    message::{Container, HttpGetAction, IntOrString, PodSpec, PodStatus, ProbeHandler, TcpSocketAction},
    pod::LIST_LIMIT,
    testing::decode_json_as_protobuf,
    *,
};

/// Decodes a pod from both encodings, which must give the same.
fn decoded(pod: &Value) -> Pod {
    let from_json = from_json(&pod.to_string()).unwrap();
    let from_protobuf = decode_json_as_protobuf(pod).unwrap();
    assert_eq!(Pod { requirements: from_json.requirements.clone(), ..from_protobuf }, from_json);
    from_json
}

#[test]
fn keeps_used_fields_and_skips_the_rest() {
    let pod = decoded(&json!({
        "kind": "Pod",
        "metadata": {
            "uid": "0d1b2c3d-0000-0000-0000-00000000000f", "name": "a", "namespace": "b", "labels": {"z": "1", "a": "2"},
            "annotations": {"x": "y", "kopf.dev/ignore": "true"}, "managedFields": [{}],
            "ownerReferences": [
                {"kind": "Other", "name": "o", "uid": "1"},
                {"kind": "ReplicaSet", "name": "r", "uid": "2", "controller": true},
            ],
        },
        "spec": {"nodeName": "n", "containers": [{
            "name": "app", "env": [{"name": "P", "value": "s"}], "resources": {"limits": {"memory": "1Gi"}},
            "lifecycle": {"preStop": {"exec": {"command": ["/bin/drain"]}}},
        }]},
        "status": {"phase": "Running", "conditions": null, "containerStatuses": [{
            "name": "app", "ready": true, "restartCount": 3, "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
            "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        }]},
    }));
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
    assert!(from_json(r#"{"metadata":{"annotations":{"kopf.dev/ignore":true}}}"#).is_err(), "is it ignored or not?");
}

#[test]
fn accepts_empty_objects_and_nulls() {
    assert_eq!(from_json("{}").unwrap(), Pod { uid: Uid::from_text(""), ..Pod::default() });
    assert!(from_json(r#"{"metadata":null,"spec":null,"status":{"containerStatuses":null}}"#).is_ok());
    let pod = from_json(
        r#"{"spec":{"terminationGracePeriodSeconds":null,"imagePullSecrets":[{}],"schedulingGates":null,"readinessGates":[{}],
            "containers":[{"image":null,"command":null,"args":[],"livenessProbe":null,"readinessProbe":{},
                "startupProbe":{"httpGet":{"port":null},"periodSeconds":null,"terminationGracePeriodSeconds":-1}},
                {"command":["  "],"startupProbe":{"exec":{}},"livenessProbe":{"grpc":null,"tcpSocket":{}}}]}}"#,
    )
    .unwrap();
    assert!(!pod.has_pull_secrets, "no secret is named");
    assert_eq!((pod.termination_grace, pod.readiness_gates), (None, vec!["".into()]));
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
fn bounds_texts_and_names() {
    let pod = decoded(&json!({
        "metadata": {"finalizers": vec!["f"; LIST_LIMIT + 9]}, "status": {"message": "é ".repeat(TEXT_LIMIT)},
    }));
    assert_eq!(pod.finalizers.count(), LIST_LIMIT + 9);
    assert_eq!(pod.finalizers.to_string(), "f, f, f, f, f, f, f, f and 257 more");
    let length = pod.message.len();
    assert!(length <= TEXT_LIMIT && pod.message.ends_with("é …") && length > TEXT_LIMIT - 9, "{}", pod.message);
    let message = Bytes::from_static(b"cut \xe2\x82");
    let pod = Pod::from(&message::Pod { status: PodStatus { message, ..Default::default() }, ..Default::default() });
    assert_eq!(pod.message, "cut \u{fffd}", "protobuf may contain invalid UTF-8");
}

#[test]
fn keeps_only_the_first_word_of_a_command() {
    let first = |container: Value| decoded(&json!({"spec": {"containers": [container]}})).containers[0].command.clone();
    assert_eq!(first(json!({"command": ["/app/srv --password=hunter2", "x"], "args": ["y"]})), "/app/srv");
    assert_eq!(first(json!({"args": ["serve", "--password=hunter2"]})), "serve");
    assert_eq!(first(json!({"command": [""], "args": ["serve"]})), "", "the arguments are not the command");
    assert_eq!(first(json!({"command": ["sleep", 3600]})), "sleep", "as people write it in files");
    assert_eq!(first(json!({"command": [format!("/{}", "x".repeat(2 * TEXT_LIMIT))], "args": ["x"]})).len(), 317);
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
fn names_a_pod_that_cannot_be_decoded() {
    let list: ObjectList<WatchedPod> = serde_json::from_str(
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
            {"metadata":{"name":"a","namespace":"n","uid":"1","resourceVersion":"5"}},
            {"metadata":{"name":"b","namespace":"n","uid":"2","resourceVersion":"6"},"status":{"phase":["hunter2"]}},
            {"metadata":{"name":"c","namespace":"n","uid":"3","resourceVersion":"7"}}]}"#,
    )
    .unwrap();
    let [a, b, c] = list.items.try_into().unwrap();
    assert_eq!(a.pod.unwrap().name, "a");
    let undecodable = b.pod.unwrap_err();
    assert_eq!((undecodable.uid, undecodable.to_string().as_str()), (Uid::from_text("2"), "n/b"));
    assert_eq!(c.pod.unwrap().name, "c");

    let metadata = message::ObjectMeta { name: "bad".into(), resource_version: "7".into(), ..Default::default() };
    let mut bytes = message::Pod { metadata, ..Default::default() }.encode_to_vec();
    // A spec that is a number.
    bytes.extend([0x10, 7]);
    let decoded = WatchedPod::from_protobuf(bytes.into());
    let undecodable = decoded.object.pod.unwrap_err();
    assert_eq!((decoded.resource_version.as_str(), undecodable.name.as_str()), ("7", "bad"));
    assert_eq!(undecodable.error.to_string(), "a value of the wrong type, or an unexpected end");
}

#[test]
fn decodes_malformed_messages_with_defaults() {
    let probe = |handler| Some(message::Probe { handler, period_seconds: -1, ..Default::default() });
    let name = |kind| Some(IntOrString { kind, int: -7, string: Bytes::from_static(b"w\xffb") });
    let get = HttpGetAction { port: name(2), scheme: "HTTPS".into(), ..Default::default() };
    let socket = TcpSocketAction { port: name(0), host: "\u{202e}".into() };
    let container = Container {
        liveness_probe: probe(ProbeHandler::default()),
        readiness_probe: probe(ProbeHandler { http_get: Some(get), ..Default::default() }),
        startup_probe: probe(ProbeHandler { tcp_socket: Some(socket), ..Default::default() }),
        ..Default::default()
    };
    let spec = PodSpec {
        containers: vec![container],
        termination_grace_period_seconds: Some(i64::MIN),
        image_pull_secrets: vec![message::Name::default()],
        scheduling_gates: std::iter::repeat_with(message::Name::default).take(2 * LIST_LIMIT).collect(),
        ..Default::default()
    };
    let pod = Pod::from(&message::Pod { spec, ..Default::default() });
    let gates = pod.scheduling_gates.count();
    assert_eq!((pod.termination_grace, pod.has_pull_secrets, gates), (None, false, 2 * LIST_LIMIT));
    let container = &pod.containers[0];
    let action = |probe: &Option<Box<Probe>>| probe.as_ref().unwrap().action.clone();
    assert_eq!(action(&container.liveness_probe), "");
    assert_eq!(action(&container.readiness_probe), "GET https://:w\u{fffd}b/");
    assert_eq!(action(&container.startup_probe), "TCP \u{202e}:-7");
    assert_eq!(container.startup_probe.as_ref().unwrap().period, 10);
}

fn probe(probe: Value) -> Probe {
    let pod = decoded(&json!({"spec": {"containers": [{"name": "app", "livenessProbe": probe}]}}));
    *pod.containers[0].liveness_probe.clone().unwrap()
}

#[test]
fn describes_each_probe_in_a_few_words() {
    let http = |scheme: &str, host: &str, port: Value, path: &str| json!({"httpGet": {"scheme": scheme, "host": host, "port": port, "path": path}});
    for (handler, action) in [
        (http("", "", json!(8080), "/healthz"), "GET :8080/healthz"),
        (http("HTTP", "", json!("http"), "healthz"), "GET :http/healthz"),
        (http("HTTPS", "", json!(8443), "/x"), "GET https://:8443/x"),
        (http("HTTP", "db.example.com", json!(80), ""), "GET db.example.com:80/"),
        (http("HTTP", "", json!(80), "/ready?token=hunter2"), "GET :80/ready"),
        (json!({"tcpSocket": {"port": 5432}}), "TCP :5432"),
        (json!({"tcpSocket": {"host": "127.0.0.1", "port": "sql"}}), "TCP 127.0.0.1:sql"),
        (json!({"grpc": {"port": 9000}}), "gRPC :9000"),
        (json!({"grpc": {"port": 9000, "service": "ready"}}), "gRPC :9000 ready"),
        (json!({"exec": {"command": ["pg_isready", "--password=x"]}}), "exec pg_isready"),
        (json!({}), ""),
    ] {
        assert_eq!(probe(handler).action, action);
    }
    let long = probe(http("", "", json!(80), &"/é".repeat(1000))).action;
    assert!(long.len() <= 256 && long.len() > 252, "{}", long.len());
}

#[test]
fn fills_in_the_defaults_of_probes() {
    for (times, expected) in [
        (json!({}), (0, 10, 1, 3, None)),
        (
            json!({"initialDelaySeconds": -5, "periodSeconds": -1, "timeoutSeconds": -1, "failureThreshold": -1,
                "terminationGracePeriodSeconds": -1}),
            (0, 10, 1, 3, None),
        ),
        (
            json!({"initialDelaySeconds": 30, "periodSeconds": 5, "timeoutSeconds": 2, "failureThreshold": 6,
                "terminationGracePeriodSeconds": 1_i64 << 40}),
            (30, 5, 2, 6, Some(u32::MAX)),
        ),
    ] {
        let probe = probe(times);
        let shown =
            (probe.initial_delay, probe.period, probe.timeout, probe.failure_threshold, probe.termination_grace);
        assert_eq!(shown, expected);
    }
}

/// The port that the liveness probe of the container `app` asks for, and those declared.
fn undeclared(probed: &Value, ports: &Value, others: &Value) -> Option<(String, String)> {
    let probe = json!({"httpGet": {"port": probed, "path": "/"}});
    let pod = decoded(&json!({"metadata": {"name": "a"}, "spec": {
        "initContainers": [{"name": "mesh", "restartPolicy": "Always", "ports": others}],
        "containers": [{"name": "app", "ports": ports, "livenessProbe": probe}],
    }}));
    let undeclared = pod.containers[0].liveness_probe.as_ref().unwrap().undeclared_port.as_deref().cloned()?;
    Some((undeclared.port.to_string(), undeclared.declared.to_string()))
}

#[test]
fn keeps_ports_of_probes_that_no_container_declares() {
    let web = json!([{"name": "web", "containerPort": 80}, {"containerPort": 443, "protocol": "TCP"}]);
    let (udp, none) = (json!([{"name": "dns", "containerPort": 53, "protocol": "UDP"}]), json!([]));
    let (other, mesh) = (json!([{"containerPort": 80}]), json!([{"name": "status", "containerPort": 15021}]));
    let many = json!((1..=300).map(|port| json!({"containerPort": port})).collect::<Vec<_>>());
    for (what, probed, ports, others, expected) in [
        ("a number", json!(80), &web, &none, None),
        ("a name", json!("web"), &web, &none, None),
        ("a number as text", json!("80"), &web, &none, None),
        ("another number", json!(8080), &web, &none, Some(("8080", "80, 443"))),
        ("another name", json!("http"), &web, &none, Some(("http", "80, 443"))),
        ("a container that declares none", json!(8080), &none, &none, None),
        ("a name that it lacks", json!("http"), &none, &none, Some(("http", ""))),
        ("probes use TCP", json!(53), &udp, &none, None),
        ("the kubelet finds the name of any port", json!("dns"), &udp, &none, None),
        ("the number of another container", json!(15021), &other, &mesh, None),
        ("the name of another container", json!("status"), &other, &mesh, Some(("status", "80"))),
        ("one of many", json!(300), &many, &none, None),
        ("none of many", json!(8080), &many, &none, Some(("8080", "1, 2, 3, 4, 5, 6, 7, 8 and 292 more"))),
    ] {
        let expected = expected.map(|(port, declared)| (port.to_owned(), declared.to_owned()));
        assert_eq!(undeclared(&probed, ports, others), expected, "{what}");
    }
}

#[test]
fn reads_which_memory_limits_a_limit_range_has_set() {
    let marked = |annotation: &str| {
        let pod = decoded(&json!({
            "metadata": {"name": "a", "annotations": {"kubernetes.io/limit-ranger": annotation}},
            "spec": {"initContainers": [{"name": "prep"}], "containers": [{"name": "app"}, {"name": "app-2"}]},
        }));
        let all = pod.init_containers.iter().chain(&pod.containers);
        all.filter(|own| own.has_limit_of_range).map(|own| own.name.to_string()).collect::<Vec<_>>()
    };
    for (rest, expected) in [
        ("cpu, memory request for container app; cpu, memory limit for container app", &["app"] as &[&str]),
        ("memory limit for container app; memory limit for init container prep", &["prep", "app"]),
        ("cpu limit for container app; memory request for container app-2", &[]),
        ("memory limit for container ; memory limit for container app-3; x", &[]),
        ("", &[]),
    ] {
        assert_eq!(marked(&format!("LimitRanger plugin set: {rest}")), expected, "{rest}");
    }
    assert!(marked("memory limit for container app").is_empty());
}

#[test]
fn reads_what_an_unscheduled_pod_requires() {
    let mut pod = json!({
        "metadata": {"name": "db-0"},
        "spec": {
            "nodeSelector": {"disk": "ssd"}, "overhead": {"cpu": 1},
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
            "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "2"}}}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}],
                    "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}]},
            ]}}},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "db"}}, {"name": "tmp", "ephemeral": {}},
                {"name": "config", "configMap": {"name": "x"}},
            ],
        },
    });
    let own = decoded(&pod).requirements.unwrap();
    let shown = |terms: &NodeTerms| terms.first.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!((shown(&own.selector), own.affinity.len()), (vec!["disk=ssd".to_owned()], 1));
    assert_eq!(shown(&own.affinity[0]), ["zone in (a, b)", "metadata.name!=n"]);
    let requests: Vec<_> = own.requests.iter().map(|(name, own)| format!("{own} {name}")).collect();
    assert_eq!(requests, ["3 cpu", "1Gi memory"], "the most at a time, and the overhead");
    assert_eq!((own.claims.to_string().as_str(), &*own.tolerations.first[0].key), ("db, db-0-tmp", "gpu"));
    pod["spec"]["nodeName"] = "node-1".into();
    assert_eq!(decoded(&pod).requirements, None);
    pod["spec"]["nodeName"] = Value::Null;
    pod["spec"]["tolerations"] = 7.into();
    assert_eq!(
        from_json(&pod.to_string()).unwrap().requirements,
        None,
        "they only explain, so they do not hide the pod"
    );
}
