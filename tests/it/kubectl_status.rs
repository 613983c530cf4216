//! Compares STATUS, READY and RESTARTS with the table of a real API server, which kubectl prints unchanged.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use orchestr::{
    diagnosis::{kubectl_status, ready_counts, restarts},
    pods::{ContainerSpec, Pod, Probe, from_json, pods},
    watch::{WatchUpdate, list_watch::ListWatch},
};
use orchestr_testbed::{ControlPlane, fixtures, shared};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};

use crate::{
    arbitrary::{any_pod, real},
    cases::{Case, after, case, made, running, termination},
    support::TIMEOUT,
};

/// Concurrent requests.
const CONCURRENCY: usize = 16;

/// A finalizer that keeps a deleted pod.
const FINALIZER: &str = "orchestr.test/hold";

/// Writes a pod in the steps of a user who creates it, a kubelet that sets its status, and a user who deletes it.
async fn write(pods: &Api<ApiPod>, case: &Case) -> kube::Result<()> {
    let Value::Object(meta) = &case.0["metadata"] else { panic!("{case:?}") };
    let mut meta = meta.clone();
    meta.retain(|key, _| ["name", "labels", "annotations", "ownerReferences", "finalizers"].contains(&key.as_str()));
    let deleted = case.0["metadata"]["deletionTimestamp"].is_string();
    if deleted && meta.get("finalizers").is_none_or(|finalizers| finalizers == &json!([])) {
        meta.insert("finalizers".to_owned(), json!([FINALIZER]));
    }
    let mut spec = case.0["spec"].clone();
    if spec["containers"] == json!([]) {
        spec["containers"] = json!([{"name": "app", "image": "example/app:1"}]);
    }
    let pod = serde_json::from_value(json!({"metadata": meta, "spec": spec})).map_err(kube::Error::SerdeError)?;
    pods.create(&PostParams::default(), &pod).await?;

    let mut status = case.0["status"].clone();
    if let Some(status) = status.as_object_mut() {
        // The API server derives this field from the spec.
        status.remove("qosClass");
    }
    let patch = Patch::Merge(json!({"status": status}));
    pods.patch_status(case.name(), &PatchParams::default(), &patch).await?;
    if deleted {
        pods.delete(case.name(), &DeleteParams::default()).await?;
    }
    Ok(())
}

/// The pods of a namespace as listed in protobuf, in pages if necessary.
async fn listed_in_protobuf(plane: &ControlPlane, namespace: &str, streaming: bool) -> BTreeMap<String, Pod> {
    let mut events = ListWatch::new(pods(plane.admin().unwrap(), Some(namespace), 20), streaming).into_stream();
    assert!(matches!(events.next().await, Some(Ok(WatchUpdate::Relisting))));
    let mut pods = BTreeMap::new();
    loop {
        let event = tokio::time::timeout(TIMEOUT, events.next()).await.expect("the list continues");
        match event.unwrap().unwrap() {
            WatchUpdate::Listed(seen) => {
                let pod = seen.pod.unwrap();
                assert!(pods.insert(pod.name.to_string(), *pod).is_none());
            }
            WatchUpdate::Synced => return pods,
            other => panic!("{other:?}"),
        }
    }
}

/// Compares every pod of the namespace.
async fn compare(plane: &ControlPlane, namespace: &str, expected: usize, hint: &str) -> BTreeMap<String, String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let before = Timestamp::now();
    let table = plane.table(&path).await.unwrap();
    let later = Timestamp::now();
    let resource = ApiResource::erase::<ApiPod>(&());
    let api = Api::<DynamicObject>::namespaced_with(plane.admin().unwrap(), namespace, &resource);
    let list = api.list(&ListParams::default()).await.unwrap();
    let pods: BTreeMap<String, Value> =
        list.into_iter().map(|pod| (pod.name_any(), serde_json::to_value(pod).unwrap())).collect();
    assert_eq!((table.rows.len(), pods.len()), (expected, expected), "all pods are there");

    for streaming in [true, false] {
        let listed = listed_in_protobuf(plane, namespace, streaming).await;
        for (name, json) in &pods {
            let of_json = from_json(&json.to_string()).unwrap();
            assert_eq!(listed.get(name), Some(&of_json), "{name} in protobuf, streaming: {streaming}");
        }
        assert_eq!(listed.len(), pods.len());
    }

    let mut differences = Vec::new();
    let mut statuses = BTreeMap::new();
    for row in &table.rows {
        let json = &pods[&row.name];
        let pod: Pod = from_json(&json.to_string()).unwrap();
        let cell = |column: &'static str| table.cell(row, column).unwrap();
        let (ready, total) = ready_counts(&pod);
        let mut differs = |column: &'static str, ours: String| {
            if cell(column) != ours {
                differences.push(format!(
                    "{column} of {}: the API server prints {:?}, we print {ours:?}: {}",
                    row.name,
                    cell(column),
                    shown(json),
                ));
            }
        };
        differs("STATUS", kubectl_status(&pod));
        differs("READY", format!("{ready}/{total}"));
        // The API server rendered the table at a time between these two.
        if !instants(before, later).any(|now| restarts(&pod, now) == cell("RESTARTS")) {
            differs("RESTARTS", restarts(&pod, before));
        }
        statuses.insert(row.name.clone(), cell("STATUS").to_owned());
    }
    assert!(differences.is_empty(), "{hint}{} differences:\n{}", differences.len(), differences.join("\n"));
    statuses
}

fn instants(from: Timestamp, to: Timestamp) -> impl Iterator<Item = Timestamp> {
    let step = SignedDuration::from_millis(250);
    std::iter::successors(Some(from), move |instant| Some(*instant + step))
        .take_while(move |instant| *instant <= to + step)
}

/// The fields of a pod that determine the columns.
fn shown(pod: &Value) -> Value {
    let names = |list: &str| -> Vec<_> {
        let specs = pod["spec"][list].as_array().into_iter().flatten();
        specs.map(|spec| json!([spec["name"], spec["restartPolicy"]])).collect()
    };
    json!({
        "deletionTimestamp": pod["metadata"]["deletionTimestamp"],
        "initContainers": names("initContainers"),
        "containers": names("containers"),
        "status": pod["status"],
    })
}

async fn write_all(plane: &ControlPlane, cases: Vec<Case>) -> String {
    let namespace = plane.namespace("printed").await.unwrap();
    let pods = &Api::namespaced(plane.admin().unwrap(), &namespace);
    stream::iter(cases)
        .map(|case| async move { write(pods, &case).await.map_err(|error| format!("{}: {error}", case.name())) })
        .buffer_unordered(CONCURRENCY)
        .try_collect::<Vec<()>>()
        .await
        .unwrap();
    namespace
}

#[tokio::test]
async fn columns_of_constructed_pods_match_kubectl() {
    let plane = shared().await;
    let cases = made();
    assert!(cases.len() >= 60);
    let namespace = write_all(plane, cases.clone()).await;
    let statuses = compare(plane, &namespace, cases.len(), "").await;
    // Each step of printPod determined the STATUS of some pod.
    for status in [
        "Running",
        "Evicted",
        "SchedulingGated",
        "Init:Error",
        "Init:Signal:9",
        "Init:ExitCode:4",
        "Init:CrashLoopBackOff",
        "Init:0/1",
        "Init:1/2",
        "CrashLoopBackOff",
        "OOMKilled",
        "ExitCode:3",
        "Signal:9",
        "ExitCode:9",
        "NotReady",
        "Completed",
        "Unknown",
        "Terminating",
        "Pending",
    ] {
        assert!(statuses.values().any(|printed| printed == status), "no pod is printed as {status}: {statuses:?}");
    }
}

/// A pod that sets every field of the spec that is decoded, as a user writes it.
fn with_probes_and_gates() -> Case {
    case("probes-and-gates").app(running("app", 5)).with(|pod| {
        pod["metadata"]["finalizers"] = json!([]);
        pod["metadata"]["annotations"] = json!({
            "kopf.dev/ignore": "true", "kopf.dev/team": "web",
            "kubernetes.io/limit-ranger": "LimitRanger plugin set: memory limit for container app",
        });
        let spec = &mut pod["spec"];
        spec["nodeSelector"] = json!({"disk": "ssd"});
        spec["resources"] = json!({"requests": {"memory": "2Gi"}});
        spec["tolerations"] =
            json!([{"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}, {"operator": "Exists"}]);
        spec["affinity"] =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a", "b"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-9"]}],
            }]}}});
        spec["volumes"] = json!([
            {"name": "data", "persistentVolumeClaim": {"claimName": "db"}},
            {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            }}}},
        ]);
        spec["nodeName"] = Value::Null;
        spec["terminationGracePeriodSeconds"] = 7.into();
        spec["imagePullSecrets"] = json!([{"name": "regcred"}]);
        spec["schedulingGates"] = json!([{"name": "example.com/quota"}]);
        spec["readinessGates"] = json!([{"conditionType": "example.com/registered"}]);
        spec["initContainers"] = json!([{
            "name": "mesh", "image": "example/mesh:2", "restartPolicy": "Always", "args": ["proxy", "--token=x"],
            "startupProbe": {"grpc": {"port": 9000}, "terminationGracePeriodSeconds": 3},
            "livenessProbe": {"tcpSocket": {"port": "sql", "host": "127.0.0.1"}},
            "readinessProbe": {"exec": {"command": ["pg_isready", "-p", "hunter2"]}, "periodSeconds": 3},
            "ports": [{"name": "sql", "containerPort": 5432}], "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
        }]);
        let app = &mut spec["containers"][0];
        app["command"] = json!(["/app/srv", "--password=x"]);
        app["args"] = json!(["serve"]);
        app["resources"] = json!({"limits": {"memory": "512Mi"}});
        app["resizePolicy"] = json!([{"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        app["livenessProbe"] = json!({"httpGet": {"port": 8080}, "initialDelaySeconds": 30, "failureThreshold": 6});
        app["readinessProbe"] =
            json!({"httpGet": {"port": "web", "path": "/ready", "scheme": "HTTPS"}, "timeoutSeconds": 4});
        app["startupProbe"] = json!({"grpc": {"port": 9000, "service": "start"}});
        app["ports"] = json!([
            {"name": "web", "containerPort": 8443}, {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"},
        ]);
    })
}

#[tokio::test]
async fn decodes_probes_and_gates_alike_from_json_and_protobuf() {
    let plane = shared().await;
    let namespace = write_all(plane, vec![with_probes_and_gates()]).await;
    compare(plane, &namespace, 1, "").await;
    let pods = listed_in_protobuf(plane, &namespace, true).await;
    let pod = &pods["probes-and-gates"];
    assert_eq!((pod.termination_grace, pod.has_pull_secrets), (Some(7), true));
    assert_eq!(pod.scheduling_gates.first(), ["example.com/quota"]);
    assert_eq!(pod.readiness_gates, ["example.com/registered"]);
    assert!(pod.ignored && pod.ownership.as_ref().is_some_and(|own| own.team == "web"));
    let required = pod.requirements.as_deref().unwrap();
    let terms = [&required.selector, &required.affinity[0]].map(|terms| terms.first.iter().map(ToString::to_string));
    let terms: Vec<_> = terms.into_iter().flatten().collect();
    assert_eq!(terms, ["disk=ssd", "zone notin (a, b)", "metadata.name=node-9"]);
    assert_eq!(required.claims.to_string(), "db, probes-and-gates-tmp");
    assert!(required.requests.iter().any(|(name, amount)| name == "memory" && amount.to_string() == "2Gi"));
    let toleration = &required.tolerations.first[0];
    let toleration = [&toleration.key, &toleration.operator, &toleration.value, &toleration.effect];
    assert_eq!(toleration, ["gpu", "Equal", "a", "NoSchedule"]);
    assert_eq!(pod.host_ports.iter().map(ToString::to_string).collect::<Vec<_>>(), ["5353/UDP"]);
    let [mesh, app] = [&pod.init_containers[0], &pod.containers[0]];
    assert!(mesh.has_pre_stop && app.restarts_on_resize && app.has_limit_of_range && app.memory_limit == "512Mi");
    assert_eq!((&*mesh.image, &*mesh.command, &*app.command), ("example/mesh:2", "proxy", "/app/srv"));
    let shown = |spec: &ContainerSpec| {
        [&spec.startup_probe, &spec.liveness_probe, &spec.readiness_probe].map(|probe| {
            let Probe { action, initial_delay, period, timeout, failure_threshold, termination_grace, .. } =
                &**probe.as_ref().unwrap();
            (action.to_string(), [*initial_delay, *period, *timeout, *failure_threshold], *termination_grace)
        })
    };
    let probe = |action: &str, times, grace| (action.to_owned(), times, grace);
    assert_eq!(
        shown(app),
        [
            probe("gRPC :9000 start", [0, 10, 1, 3], None),
            probe("GET :8080/", [30, 10, 1, 6], None),
            probe("GET https://:web/ready", [0, 10, 4, 3], None),
        ]
    );
    assert_eq!(
        shown(mesh),
        [
            probe("gRPC :9000", [0, 10, 1, 3], Some(3)),
            probe("TCP 127.0.0.1:sql", [0, 10, 1, 3], None),
            probe("exec pg_isready", [0, 3, 1, 3], None),
        ]
    );
}

#[tokio::test]
async fn columns_of_real_pods_match_the_api_server() {
    let plane = shared().await;
    let namespace = write_all(plane, real()).await;
    let statuses = compare(plane, &namespace, real().len(), "").await;
    for real in fixtures::real_statuses() {
        assert_eq!(statuses[real.name], real.status, "{}", real.name);
    }
}

/// Times since the last restart in every format that RESTARTS has.
#[tokio::test]
async fn restarts_show_how_long_ago() {
    let plane = shared().await;
    let now = Timestamp::now();
    let seconds = [
        -3600,
        -1,
        0,
        59,
        119,
        150,
        180,
        599,
        660,
        10_799,
        10_900,
        14_400,
        28_799,
        28_900,
        172_000,
        176_400,
        259_200,
        690_000,
        700_000,
        63_000_000,
        63_300_000,
        94_608_000,
        252_000_000,
        253_000_000,
        9_000_000_000,
        20_000_000_000,
    ];
    let cases = seconds.map(|ago| {
        let mut ended = termination(1, "Error", 0);
        ended["finishedAt"] =
            now.checked_sub(SignedDuration::from_secs(ago)).unwrap().strftime("%FT%TZ").to_string().into();
        case(&format!("ago-{}", ago.to_string().replace('-', "minus"))).app(after(ended, 3, running("app", 60)))
    });
    let namespace = write_all(plane, cases.to_vec()).await;
    compare(plane, &namespace, cases.len(), "").await;
}

/// Pods that no kubelet would write, written directly to etcd.
#[tokio::test]
async fn columns_of_random_pods_match_the_api_server() {
    const COUNT: usize = 400;
    let plane = shared().await;
    let namespace = plane.namespace("any").await.unwrap();
    let seed = match std::env::var("ORCHESTR_TEST_SEED") {
        Ok(seed) => seed.parse().expect("ORCHESTR_TEST_SEED is a number"),
        Err(_) => 20_260_301_u64,
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = any_pod();
    let pods = (0..COUNT).map(|index| {
        let name = format!("any-{index:03}");
        let mut pod = strategy.new_tree(&mut runner).unwrap().current().0;
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = name.as_str().into();
        pod["metadata"]["namespace"] = namespace.as_str().into();
        pod["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        (format!("/registry/pods/{namespace}/{name}"), pod.to_string())
    });
    let pods: Vec<_> = pods.collect();
    plane.load(pods).await.unwrap();
    let hint = format!("ORCHESTR_TEST_SEED={seed} shows the same pods again. ");
    compare(plane, &namespace, COUNT, &hint).await;
}
