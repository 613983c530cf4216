//! The selection of pods by `orchestr scan`. A selection that is empty by mistake must not be reported as healthy.

mod clusters;
mod logs;
mod outputs;
mod watch;

use k8s_openapi::api::core::v1::{Event, Namespace, Pod, ServiceAccount};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::{
    command::{assert_fails, assert_usage_error, ends, fed, list, orchestr},
    one_answer::{replaced, superseded},
    pod_statuses::{crash_looping, healthy},
    test_env::TestEnv,
};

fn pod(namespace: &str, name: &str, changes: Value) -> Value {
    let mut pod = json!({
        "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "status": {"phase": "Succeeded"},
    });
    for (field, value) in changes.as_object().unwrap() {
        pod[field] = value.clone();
    }
    pod
}

#[tokio::test]
async fn rejects_a_namespace_that_does_not_exist() {
    let env = TestEnv::new("scan-missing").await;
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let scan = |more: &[&str]| orchestr(&[&["scan", "--kubeconfig", kubeconfig], more].concat());
    assert_fails(&mut scan(&["-n", "nosuchns"]), "there is no namespace \"nosuchns\"");
    assert_fails(&mut scan(&["-n", "nosuchns", "-l", "app=cart", "-o", "json"]), "there is no namespace \"nosuchns\"");
    assert_fails(&mut scan(&["-n", "nosuch-*"]), "no namespace matches \"nosuch-*\"");

    // An empty namespace is no error.
    let namespace = env.namespace.as_str();
    let nothing = format!("No pods found in {namespace} namespace.\n");
    assert_eq!(ends(&mut scan(&["-n", namespace])), (0, String::new(), nothing.clone()));
    let pattern = format!("{}?", &namespace[..namespace.len() - 1]);
    assert_eq!(ends(&mut scan(&["-n", &pattern])).0, 0);
    let (code, _, err) = ends(&mut scan(&["-n", namespace, "--fail-on-empty"]));
    assert_eq!((code, err), (2, nothing + "orchestr: there were no pods to check (--fail-on-empty)\n"));
    env.pod("well", healthy()).await;
    assert_eq!(ends(&mut scan(&["-n", namespace, "--fail-on-empty"])).0, 0);
}

#[tokio::test]
async fn scans_several_namespaces_and_patterns() {
    let (shop, bank) = (TestEnv::new("scan-shop").await, TestEnv::new("scan-bank").await);
    shop.pod("cart", crash_looping(7)).await;
    bank.pod("ledger", crash_looping(7)).await;
    let kubeconfig = shop.plane.admin_kubeconfig().to_str().unwrap();
    let both = format!("{},{}", shop.namespace, bank.namespace);
    let pattern = format!("{{{},{}}}*", shop.namespace, bank.namespace);
    for namespaces in [&["-n", &*both][..], &["-n", &*shop.namespace, "-n", &*bank.namespace], &["-n", &*pattern]] {
        let (code, out, err) = ends(&mut orchestr(&[&["scan", "--kubeconfig", kubeconfig], namespaces].concat()));
        assert_eq!(code, 1, "{err}");
        assert!(err.starts_with("2 of 2 pods in namespaces ") && err.ends_with(" have problems.\n"), "{err}");
        assert!(out.starts_with("NAMESPACE ") && out.contains("cart") && out.contains("ledger"), "{out}");
    }
    let missing = format!("{},nosuchns", shop.namespace);
    let sentence = "there is no namespace \"nosuchns\"";
    assert_fails(&mut orchestr(&["scan", "--kubeconfig", kubeconfig, "-n", &missing]), sentence);
}

#[tokio::test]
async fn fails_if_it_cannot_check_that_the_namespace_exists() {
    let env = TestEnv::new("scan-blind").await;
    let namespace = env.namespace.as_str();
    let accounts = Api::<ServiceAccount>::namespaced(env.client.clone(), namespace);
    let account = serde_json::from_value(json!({"metadata": {"name": "blind"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    // It may list pods, and nothing else.
    let subject = format!("--serviceaccount={namespace}:blind");
    for grant in [
        &["create", "role", "blind", "--namespace", namespace, "--verb=list", "--resource=pods"][..],
        &["create", "rolebinding", "blind", "--namespace", namespace, "--role=blind", &subject],
    ] {
        let granted = env.plane.kubectl(grant, None).await.unwrap();
        assert!(granted.status.success(), "{}", granted.stderr);
    }
    let access = env.plane.service_account(namespace, "blind").await.unwrap();
    let kubeconfig = access.kubeconfig().to_str().unwrap();
    let scan = || ends(&mut orchestr(&["scan", "--kubeconfig", kubeconfig, "-n", namespace]));
    let wanted = format!(
        "orchestr: found no pods in \"{namespace}\", and cannot check whether it exists: RBAC does not allow \
         \"system:serviceaccount:{namespace}:blind\" to get namespaces in namespace {namespace}"
    );
    let (code, _, err) = orchestr_testbed::eventually("the grant is in effect", crate::support::TIMEOUT, async || {
        let outcome = scan();
        if outcome.2.contains("list pods") { Err(outcome.2) } else { Ok(outcome) }
    })
    .await
    .unwrap();
    assert!(code == 2 && err.starts_with(&wanted), "{code} {err}");
    env.pod("well", healthy()).await;
    assert_eq!(scan(), (0, String::new(), format!("No problems in {namespace} namespace: 1 pod.\n")));
}

#[tokio::test]
async fn compares_numeric_labels_as_numbers() {
    let env = TestEnv::new("scan-cores").await;
    for (name, cores) in [("small", "2"), ("large", "16")] {
        env.pod_with(name, json!({"metadata": {"labels": {"cores": cores}}}), crash_looping(7)).await;
    }
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let (_, out, _) = ends(&mut orchestr(&["scan", "--kubeconfig", kubeconfig, "-n", &env.namespace, "-l", "cores>2"]));
    assert!(out.contains("large") && !out.contains("small"), "{out}");
    let file = list(&[
        pod(
            "shop",
            "small",
            json!({"metadata": {"name": "small", "labels": {"cores": "2"}}, "status": {"phase": "Failed"}}),
        ),
        pod(
            "shop",
            "large",
            json!({"metadata": {"name": "large", "labels": {"cores": "16"}}, "status": {"phase": "Failed"}}),
        ),
    ]);
    let (code, out, err) = fed(&["scan", "-f", "-", "-l", "cores>2"], &file);
    assert_eq!((code, err.as_str()), (1, "1 of 1 pods has a problem.\n"));
    assert!(out.contains("large"), "{out}");
}

#[test]
fn rejects_a_file_without_the_named_namespace() {
    let file = list(&[pod("shop", "cart", json!({})), pod("team-a", "train", json!({}))]);
    let scan = |more: &[&str]| fed(&[&["scan", "-f", "-"], more].concat(), &file);
    for (wanted, missing) in [("none", "none"), ("shop,none", "none"), ("shop,none-*", "none-*")] {
        let sentence = format!("orchestr: standard input contains no pods of namespace \"{missing}\"\n");
        assert_eq!(scan(&["-n", wanted]), (2, String::new(), sentence));
    }
    assert_eq!(scan(&["-n", "shop,team-*"]).2, "No problems in namespaces shop, team-*: 2 pods.\n");
    assert_eq!(
        scan(&["-n", "shop", "-l", "app=none"]),
        (0, String::new(), "No pods found in shop namespace.\n".to_owned())
    );
    assert_eq!(scan(&["-n", "shop", "-l", "app=none", "--fail-on-empty"]).0, 2);
    assert_eq!(fed(&["scan", "-f", "-", "--fail-on-empty"], r#"{"kind":"List","items":[]}"#).0, 2);
    assert_fails(
        &mut orchestr(&["scan", "-n", "Shop"]),
        "--namespace: \"Shop\" is not a glob pattern of namespaces: lower-case letters, digits, -, *, ?, [a-z], [!a-z] and \
         {one,other}",
    );
}

#[test]
fn counts_undecodable_pods_only_within_the_selection() {
    let bad = pod("ml", "bad", json!({"status": {"phase": ["hunter2"]}}));
    let file = list(&[bad, pod("shop", "well", json!({}))]);
    let scan = |more: &[&str]| fed(&[&["scan", "-f", "-"], more].concat(), &file);
    assert_eq!(scan(&[]).0, 2);
    assert_eq!(scan(&["-n", "shop"]), (0, String::new(), "No problems in shop namespace: 1 pod.\n".to_owned()));
    assert_eq!(scan(&["-n", "ml"]).0, 2);
}

#[test]
fn rejects_a_document_without_a_pod() {
    let (code, out, err) = fed(&["scan", "-f", "-"], r#"{"kind": "Pod"}"#);
    assert_eq!((code, out.as_str()), (2, ""));
    assert_eq!(
        err,
        "orchestr: cannot read pods from standard input: it contains a Pod without a name instead of pods: create it with \
         `kubectl get pods -A -o json`\n"
    );
}

#[test]
fn shows_the_format_of_an_invalid_time() {
    assert_usage_error(
        &mut orchestr(&["scan", "-f", "-", "--at", "yesterday"]),
        &["error: invalid value 'yesterday' for '--at <TIME>': is not a time such as 2026-03-01T12:00:00Z or \
         2026-03-01T13:00:00+01:00\n"],
    );
}

fn not_ready(namespace: &str) -> Value {
    json!({
        "kind": "Pod",
        "metadata": {"name": "search", "namespace": namespace, "uid": "5f0c2a91-0000-4000-8000-000000000001"},
        "spec": {"nodeName": "node-7", "containers": [{
            "name": "app", "image": "search:1", "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}},
        }]},
        "status": {
            "phase": "Running", "startTime": "2026-03-01T10:00:00Z",
            "conditions": [{
                "type": "Ready", "status": "False", "reason": "ContainersNotReady",
                "message": "containers with unready status: [app]", "lastTransitionTime": "2026-03-01T10:00:00Z",
            }],
            "containerStatuses": [{
                "name": "app", "ready": false, "started": true, "restartCount": 0,
                "state": {"running": {"startedAt": "2026-03-01T10:00:01Z"}},
            }],
        },
    })
}

fn failed_probe(namespace: &str, pod_uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "search.1", "namespace": namespace},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": "search", "uid": pod_uid,
            "fieldPath": "spec.containers{app}",
        },
        "type": "Warning", "reason": "Unhealthy", "count": 41,
        "message": "Readiness probe failed: HTTP probe failed with statuscode: 503",
        "firstTimestamp": "2026-03-01T10:00:10Z", "lastTimestamp": "2026-03-01T10:59:00Z",
    })
}

/// The same event as `kubectl get events.events.k8s.io` prints it, and as a reporter of that group writes it.
fn failed_probes_in_new_group(pod_uid: &str) -> [Value; 2] {
    let Value::Object(mut event) = failed_probe("shop", pod_uid) else { panic!("no object") };
    event.insert("apiVersion".to_owned(), json!("events.k8s.io/v1"));
    let mut rename = |from: &str, to: &str| {
        let value = event.remove(from).unwrap();
        event.insert(to.to_owned(), value);
    };
    rename("involvedObject", "regarding");
    rename("message", "note");
    let mut series = event.clone();
    for (from, to) in [("count", "Count"), ("firstTimestamp", "FirstTimestamp"), ("lastTimestamp", "LastTimestamp")] {
        let value = event.remove(from).unwrap();
        event.insert(format!("deprecated{to}"), value);
        series.remove(from);
    }
    series.insert("eventTime".to_owned(), json!("2026-03-01T10:00:10.000000Z"));
    series.insert("series".to_owned(), json!({"count": 41, "lastObservedTime": "2026-03-01T10:59:00.000000Z"}));
    [event.into(), series.into()]
}

#[test]
fn uses_the_events_in_a_file_as_evidence() {
    let uid = "5f0c2a91-0000-4000-8000-000000000001";
    let cause = |objects: &[Value]| {
        let (code, out, err) = fed(&["scan", "-f", "-", "-o", "json"], &list(objects));
        assert_eq!((code, err.as_str()), (1, ""));
        let output: Value = serde_json::from_str(&out).unwrap();
        let pod = output["problematicPods"][0].clone();
        (pod["cause"].as_str().unwrap().to_owned(), pod["evidence"].to_string())
    };
    assert_eq!(cause(&[not_ready("shop")]).1, "null");
    let (code, evidence) = cause(&[failed_probe("shop", uid), not_ready("shop")]);
    assert_eq!(code, "ReadinessProbe");
    assert!(evidence.contains("Unhealthy ×41, last 10:59:00Z") && evidence.contains("statuscode: 503"), "{evidence}");
    for event in failed_probes_in_new_group(uid) {
        assert_eq!(cause(&[event.clone(), not_ready("shop")]), (code.clone(), evidence.clone()), "{event}");
    }
    let other = "5f0c2a91-0000-4000-8000-000000000002";
    assert_eq!(cause(&[not_ready("shop"), failed_probe("shop", other)]).1, "null", "the event of another pod");
}

/// As the operator judges them.
#[test]
fn a_file_shows_replaced_pods_and_superseded_runs() {
    let now = jiff::Timestamp::now();
    let scan = |objects: &[Value]| {
        let (code, out, _) = fed(&["scan", "-f", "-", "-o", "json"], &list(objects));
        let output: Value = serde_json::from_str(&out).unwrap();
        (code, output["problematicPodCount"].clone())
    };
    for state in [replaced(now), superseded(now)] {
        assert_eq!(scan(&state.objects), (0, json!(0)), "{}", state.name);
        // Without the pod that replaced it, or the CronJob that has succeeded.
        let lacks = |object: &&Value| object["kind"] != "CronJob" && object["status"]["phase"] != "Running";
        let others: Vec<_> = state.objects.iter().filter(lacks).cloned().collect();
        assert_eq!(scan(&others), (1, json!(1)), "{}", state.name);
    }
}

#[tokio::test]
async fn annotations_of_the_namespace_apply_to_a_scan() {
    let env = TestEnv::new("scan-team").await;
    let namespaces: Api<Namespace> = Api::all(env.plane.admin().unwrap());
    let annotations =
        json!({"metadata": {"annotations": {"kopf.dev/team": "checkout", "kopf.dev/severity": "critical"}}});
    namespaces.patch(&env.namespace, &PatchParams::default(), &Patch::Merge(&annotations)).await.unwrap();
    env.pod("cart", crash_looping(7)).await;
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let (_, out, err) = ends(&mut orchestr(&["scan", "--kubeconfig", kubeconfig, "-n", &env.namespace, "-o", "json"]));
    let output: Value = serde_json::from_str(&out).unwrap();
    let incident = &output["incidents"][0];
    assert_eq!((&incident["team"], &incident["severity"]), (&json!("checkout"), &json!("critical")), "{out}{err}");
}

#[tokio::test]
async fn reads_the_events_that_explain_a_problem() {
    let env = TestEnv::new("scan-events").await;
    let Value::Object(mut fixture) = not_ready(&env.namespace) else { panic!("no object") };
    let status = fixture.remove("status").unwrap();
    fixture["metadata"] = json!({});
    env.pod_with("search", Value::Object(fixture), status).await;
    let pods: Api<Pod> = Api::namespaced(env.plane.admin().unwrap(), &env.namespace);
    let uid = pods.get("search").await.unwrap().metadata.uid.unwrap();
    let event: Event = serde_json::from_value(failed_probe(&env.namespace, &uid)).unwrap();
    let events: Api<Event> = Api::namespaced(env.plane.admin().unwrap(), &env.namespace);
    events.create(&PostParams::default(), &event).await.unwrap();

    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let scan = ["scan", "--kubeconfig", kubeconfig, "-n", &env.namespace, "-o", "json", "--not-ready", "1s"];
    let (code, out, _) = ends(&mut orchestr(&scan));
    assert_eq!(code, 1);
    let output: Value = serde_json::from_str(&out).unwrap();
    let pod = &output["problematicPods"][0];
    assert_eq!(pod["cause"], "ReadinessProbe");
    assert!(pod["evidence"].to_string().contains("statuscode: 503"), "{pod}");
}
