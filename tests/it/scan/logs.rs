//! `orchestr scan --logs`, with a scripted kubelet.

use std::{process::Stdio, time::Duration};

use orchestr_testbed::{Answer, Kubelet, eventually, finish};
use serde_json::{Value, json};

use crate::{
    command::{assert_usage_error, ends, orchestr},
    pod_statuses::{container, controlled_by, crash_looping, not_ready, restarted},
    support::TIMEOUT,
    test_env::{TestEnv, watch_with},
};

async fn kubelet(env: &TestEnv, name: &str) -> Kubelet {
    Kubelet::start(&env.plane, &format!("{name}-{}", env.namespace)).await.unwrap()
}

fn on(kubelet: &Kubelet) -> Value {
    json!({"spec": {"nodeName": kubelet.node_name()}})
}

fn scan(env: &TestEnv, more: &[&str]) -> std::process::Command {
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    orchestr(&[&["scan", "--kubeconfig", kubeconfig, "-n", &env.namespace, "--logs"], more].concat())
}

/// The containers of each pod in the output of `-o json`, and the standard error.
fn issues(env: &TestEnv, more: &[&str]) -> (Value, String) {
    let (code, out, err) = ends(&mut scan(env, &[&["-o", "json"], more].concat()));
    assert_eq!(code, 1, "{err}");
    let output: Value = serde_json::from_str(&out).unwrap();
    let rows = output["problematicPods"].as_array().unwrap().iter();
    let issues: serde_json::Map<_, _> =
        rows.map(|row| (row["name"].as_str().unwrap().to_owned(), row["containerIssues"][0].clone())).collect();
    (issues.into(), err)
}

#[tokio::test(flavor = "multi_thread")]
async fn shows_the_same_logs_as_the_status_of_an_object() {
    let env = TestEnv::new("scan-logs").await;
    let kubelet = kubelet(&env, "node").await;
    let namespace = env.namespace.as_str();
    let secret = "connecting with password=hunter2\n\u{1b}[31mout of memory\u{202e}\n";
    kubelet.script(namespace, "crashing", "app", true, Answer::text(secret));
    kubelet.script(namespace, "slow", "app", false, Answer::text("still warming up\n"));
    kubelet.script(namespace, "lost", "app", true, Answer::no_previous("lost", "app"));
    kubelet.script(namespace, "quiet", "app", true, Answer::text(""));
    env.pod_with("crashing", on(&kubelet), crash_looping(3)).await;
    env.pod_with("slow", on(&kubelet), not_ready(600)).await;
    env.pod_with("lost", on(&kubelet), crash_looping(4)).await;
    let mut quiet = crash_looping(5);
    quiet["containerStatuses"][0]["lastState"]["terminated"]["message"] = json!("the disk is full");
    env.pod_with("quiet", on(&kubelet), quiet).await;
    env.pod_with("elsewhere", json!({"spec": {"nodeName": "gone"}}), crash_looping(6)).await;
    env.pod_with("pending", json!({"spec": {"nodeName": null}}), json!({"phase": "Pending"})).await;

    let (ours, err) = issues(&env, &[]);
    assert_eq!(err, "");
    for (pod, source, text, note) in [
        ("slow", "Current", "still warming up", None),
        ("quiet", "TerminationMessage", "the disk is full", Some("the log is empty")),
        ("lost", "Unavailable", "", Some("the kubelet has no log of the previous instance")),
        ("elsewhere", "Unavailable", "", Some("the pod's node is gone")),
    ] {
        let issue = &ours[pod];
        assert_eq!((issue["logSource"].as_str(), issue["logNote"].as_str()), (Some(source), note), "{pod}: {issue}");
        assert_eq!(issue["logs"].as_str().unwrap_or_default(), text, "{pod}");
    }
    let log = ours["crashing"]["logs"].as_str().unwrap();
    assert!(log.starts_with("connecting with password=") && log.ends_with("\nout of memory"), "{log:?}");
    assert!(!log.contains("hunter2"), "{log}");

    env.object("all", watch_with(json!({"pods": {"namespaces": [namespace]}}))).await;
    let operator = env.operator().start();
    let status = env
        .wait_for_status("all", "every log was looked for", |status| {
            let mut issues = status.problematic_pods.iter().flat_map(|pod| &pod.container_issues);
            status.problematic_pod_count == 6 && issues.all(|issue| issue.log_source.is_some())
        })
        .await;
    operator.stop().await;
    for pod in status.problematic_pods.iter().filter(|pod| !pod.container_issues.is_empty()) {
        let theirs = serde_json::to_value(&pod.container_issues[0]).unwrap();
        assert_eq!(ours[&pod.name], theirs, "{}", pod.name);
    }

    let (code, out, err) = ends(&mut scan(&env, &[]));
    assert_eq!((code, err), (1, format!("6 of 6 pods in {namespace} namespace have problems.\n")));
    for part in [
        "\n\nPods\n",
        &format!("\n  {namespace}/crashing  CrashLoopBackOff  OOMKilled  on {}  ", kubelet.node_name()),
        "\n        log of the previous run:\n        | connecting with password=",
        "\n        | out of memory\n",
        "\n        termination message (the log is empty):\n        | the disk is full\n",
        "\n        no log: the pod's node is gone\n",
    ] {
        assert!(out.contains(part), "{part:?} is missing from:\n{out}");
    }
    assert!(!out.contains("hunter2") && !out.contains(&format!("  {namespace}/pending")), "{out}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_another_log_if_the_container_was_restarted_meanwhile() {
    let env = TestEnv::new("scan-again").await;
    let kubelet = kubelet(&env, "node").await;
    let namespace = env.namespace.as_str();
    let slowly = |text: &str| Answer::Slow { text: text.into(), chunk: 1, every: Duration::from_millis(200) };
    kubelet.script(namespace, "cart", "app", false, slowly("of the new run\n"));
    kubelet.script(namespace, "cart", "app", true, Answer::text("of the run that failed\n"));
    let ended = json!({"exitCode": 2, "reason": "Error", "containerID": "containerd://a"});
    let app = container("app", json!({"state": {"terminated": ended}}));
    let ended = json!({"phase": "Running", "containerStatuses": [app]});
    env.pod_with("cart", on(&kubelet), ended).await;
    let scan = scan(&env, &["-o", "json"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    eventually("the log is being read", TIMEOUT, async || match kubelet.requests_for(namespace, "cart").len() {
        0 => Err("there was no request".to_owned()),
        _ => Ok(()),
    })
    .await
    .unwrap();
    // As `restarted`, of a pod that ends in the same way.
    env.set_status("cart", restarted(5)).await;
    let output = finish(scan.unwrap(), TIMEOUT).unwrap();
    let output: Value = serde_json::from_slice(&output.stdout).unwrap();
    let issue = &output["problematicPods"][0]["containerIssues"][0];
    assert_eq!(
        (&issue["logs"], &issue["logSource"]),
        (&json!("of the run that failed"), &json!("Previous")),
        "{issue}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_kubelet_delays_only_the_logs_of_its_pods() {
    let env = TestEnv::new("scan-hang").await;
    let (hanging, other) = (kubelet(&env, "hanging").await, kubelet(&env, "other").await);
    hanging.script_default(Answer::Hanging);
    other.script_default(Answer::text("here\n"));
    for index in 0..20 {
        env.pod_with(&format!("hanging-{index}"), on(&hanging), crash_looping(3)).await;
        env.pod_with(&format!("other-{index}"), on(&other), crash_looping(3)).await;
    }
    let (issues, err) = issues(&env, &["--log-timeout", "8s"]);
    for index in 0..20 {
        assert_eq!(issues[format!("other-{index}")]["logs"], "here");
    }
    let notes = (0..20).map(|index| issues[format!("hanging-{index}")]["logNote"].as_str().unwrap().to_owned());
    let (first, late): (Vec<_>, Vec<_>) = notes.partition(|note| note == "no answer from the kubelet within 5 s");
    // Two reads at a time, of 5 s each.
    assert_eq!((first.len(), late.len()), (2, 18), "{late:?}");
    assert!(late.iter().all(|note| note == "not read within 8 s"), "{late:?}");
    assert_eq!(err, "orchestr: could not read 18 logs in time: --log-timeout sets how long to read logs\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_a_bounded_number_of_logs_first_of_each_incident() {
    let env = TestEnv::new("scan-many").await;
    let kubelet = kubelet(&env, "node").await;
    kubelet.script_default(Answer::text("here\n"));
    let owners = controlled_by("StatefulSet", "many", "1");
    let owner = json!({"metadata": {"ownerReferences": owners}, "spec": {"nodeName": kubelet.node_name()}});
    for index in 0..205 {
        env.pod_with(&format!("many-{index}"), owner.clone(), crash_looping(3)).await;
    }
    // The oldest problem of all, but of an incident of its own.
    env.pod_with("alone", on(&kubelet), not_ready(6000)).await;
    let (issues, err) = issues(&env, &["--log-timeout", "50s"]);
    assert_eq!(err, "orchestr: left out 6 logs: at most 200 are read\n");
    assert_eq!(issues["alone"]["logs"], "here");
    let read = issues.as_object().unwrap().values().filter(|issue| issue["logs"] == "here").count();
    let unread = issues.as_object().unwrap().values().filter(|issue| issue["logSource"].is_null()).count();
    assert_eq!((read, unread), (200, 6));
}

#[test]
fn a_file_contains_no_logs() {
    assert_usage_error(
        &mut orchestr(&["scan", "-f", "-", "--logs"]),
        &["error: the argument '--filename <FILE>' cannot be used with '--logs'"],
    );
    assert_usage_error(&mut orchestr(&["scan", "--log-timeout", "5s"]), &["--logs"]);
}
