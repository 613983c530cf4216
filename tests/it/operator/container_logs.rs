//! Logs from the kubelet to the status.

use std::time::Duration;

use orchestr::api::{ContainerIssue, LogSource, OrchestrStatus};
use orchestr_testbed::{Answer, Kubelet, eventually};
use serde_json::{Value, json};

use crate::{
    command::{ends, orchestr},
    pod_statuses::{self, crash_looping, merge, not_ready, waiting},
    proxy::SETTLE_TIME,
    support::TIMEOUT,
    test_env::{TestEnv, listed, watch_all, watch_with},
};

/// A kubelet with a node that only this test uses.
async fn kubelet(env: &TestEnv) -> Kubelet {
    Kubelet::start(&env.plane, &format!("node-{}", env.namespace)).await.unwrap()
}

fn on(kubelet: &Kubelet) -> Value {
    json!({"spec": {"nodeName": kubelet.node_name()}})
}

fn issue<'a>(status: &'a OrchestrStatus, pod: &str) -> Option<&'a ContainerIssue> {
    status.problematic_pods.iter().find(|own| own.name == pod)?.container_issues.first()
}

fn source(status: &OrchestrStatus, pod: &str) -> Option<LogSource> {
    issue(status, pod)?.log_source
}

fn log<'a>(status: &'a OrchestrStatus, pod: &str) -> &'a str {
    issue(status, pod).map_or("", |issue| &issue.logs)
}

fn ended(container: &str, code: i32, message: &str) -> Value {
    let mut status = pod_statuses::failed(code);
    let ended = json!({"state": {"terminated": {"message": message, "containerID": container}}});
    merge(&mut status["containerStatuses"][0], &ended);
    status
}

#[tokio::test(flavor = "multi_thread")]
async fn shows_the_log_that_belongs_to_each_problem() {
    let env = TestEnv::new("logs").await;
    let kubelet = kubelet(&env).await;
    let namespace = env.namespace.as_str();
    kubelet.script(
        namespace,
        "crashing",
        "app",
        true,
        Answer::text("connecting with password=hunter2\nout of memory\n"),
    );
    kubelet.script(namespace, "slow", "app", false, Answer::text("still warming up\n"));
    kubelet.script(namespace, "failed", "app", false, Answer::text("no such table\n"));
    kubelet.script(namespace, "quiet", "app", false, Answer::text(""));
    kubelet.script(namespace, "lost", "app", true, Answer::no_previous("lost", "app"));
    env.pod_with("crashing", on(&kubelet), crash_looping(3)).await;
    env.pod_with("slow", on(&kubelet), not_ready(600)).await;
    env.pod_with("failed", on(&kubelet), ended("containerd://a", 1, "")).await;
    env.pod_with("quiet", on(&kubelet), ended("containerd://b", 2, "the disk is full")).await;
    env.pod_with("lost", on(&kubelet), crash_looping(4)).await;
    env.pod_with("elsewhere", json!({"spec": {"nodeName": "gone"}}), crash_looping(5)).await;
    env.pod_with("pulling", on(&kubelet), waiting("ImagePullBackOff", "Back-off pulling image", 60)).await;
    env.object("cluster", watch_all()).await;
    env.object("none", watch_with(json!({"logs": {"enabled": false}}))).await;
    let _operator = env.operator().start();
    let status = env
        .until("every log was looked for", |status| {
            status.problematic_pods.len() == 7
                && status.problematic_pods.iter().all(|pod| source(status, &pod.name).is_some())
        })
        .await;
    let log_of = |pod: &str| {
        let issue = issue(&status, pod).unwrap();
        (issue.log_source.unwrap(), issue.logs.as_str(), issue.log_note.as_str())
    };
    let (source, text, note) = log_of("crashing");
    assert_eq!((source, note), (LogSource::Previous, ""));
    assert!(text.contains("out of memory") && text.contains("password=") && !text.contains("hunter2"), "{text}");
    assert_eq!(log_of("slow"), (LogSource::Current, "still warming up", ""));
    assert_eq!(log_of("failed"), (LogSource::Current, "no such table", ""));
    assert_eq!(log_of("quiet"), (LogSource::TerminationMessage, "the disk is full", "the log is empty"));
    assert_eq!(log_of("lost"), (LogSource::Unavailable, "", "the kubelet has no log of the previous instance"));
    assert_eq!(log_of("elsewhere"), (LogSource::Unavailable, "", "the pod's node is gone"));
    assert_eq!(log_of("pulling"), (LogSource::Unavailable, "", "the container never started"));
    assert_eq!(kubelet.requests_for(namespace, "pulling"), []);
    let none = env.wait_for_status("none", "all are reported", |status| status.problematic_pod_count == 7).await;
    assert!(none.problematic_pods.iter().flat_map(|pod| &pod.container_issues).all(|issue| issue.log_source.is_none()));
}

/// What the command prints as JSON.
fn printed(env: &TestEnv, args: &[&str]) -> Value {
    let kubeconfig = ["--kubeconfig", env.plane.admin_kubeconfig().to_str().unwrap(), "-n", &env.namespace];
    let (_, out, err) = ends(&mut orchestr(&[args, &kubeconfig].concat()));
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {err}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn quotes_the_line_of_the_log_that_says_why() {
    let env = TestEnv::new("quotes").await;
    let kubelet = kubelet(&env).await;
    let log = "starting\n2026-11-23 10:11:12 ERROR no login with password=hunter2\nINFO bye\n";
    kubelet.script(&env.namespace, "cart", "app", false, Answer::text(log));
    env.pod_with("cart", on(&kubelet), ended("containerd://a", 1, "")).await;
    env.object("cluster", watch_all()).await;
    env.object("none", watch_with(json!({"logs": {"enabled": false}}))).await;
    let operator = env.operator().start();
    let status = env.until("the log is quoted", |status| {
        status.incidents.first().is_some_and(|incident| !incident.log_line.is_empty())
    });
    let incident = status.await.incidents.remove(0);
    let line = "ERROR no login with password=[REDACTED]";
    assert_eq!(incident.log_line, line);
    assert!(!incident.message.contains("its log says"), "{}", incident.message);
    let none = env.wait_for_status("none", "it is reported", |status| !status.incidents.is_empty()).await;
    assert_eq!(none.incidents[0].log_line, "");
    let published =
        async || Some(env.events("cluster").await).filter(|events| !events.is_empty()).ok_or("none".to_owned());
    let events = eventually("an event is published", TIMEOUT, published).await.unwrap();
    assert!(!format!("{events:?}").contains("no login"), "{events:?}");
    operator.stop().await;

    let scanned = printed(&env, &["scan", "--logs", "-o", "json"]);
    assert_eq!(scanned["incidents"][0]["logLine"], line);
    assert_eq!(printed(&env, &["scan", "-o", "json"])["incidents"][0].get("logLine"), None);
    let explained = printed(&env, &["explain", "cart", "-o", "json"]);
    assert_eq!(explained["pods"][0]["logLine"], line);
}

/// A log that the status does not show may be read for another object.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_line_alone_causes_no_write() {
    let env = TestEnv::new("line-alone").await;
    let kubelet = kubelet(&env).await;
    kubelet.script_default(Answer::text("panic: no such table: orders\n"));
    for pod in ["cart", "pay"] {
        env.pod_with(pod, on(&kubelet), ended("containerd://a", 1, "")).await;
    }
    env.object("short", watch_with(json!({"report": {"maxPods": 1}}))).await;
    let operator = env.operator().start();
    let quoting = |status: &OrchestrStatus| status.incidents.iter().filter(|own| !own.log_line.is_empty()).count();
    let status = env.wait_for_status("short", "the log of its only row is there", |status| quoting(status) == 1).await;
    assert_eq!((status.incidents.len(), listed(&status).len()), (2, 1));
    let before = env.objects().get("short").await.unwrap().metadata.resource_version;

    env.object("long", watch_all()).await;
    env.wait_for_status("long", "both are quoted", |status| quoting(status) == 2).await;
    // The short status is computed again.
    env.pod("web", pod_statuses::healthy()).await;
    env.delete_pod("web").await;
    env.wait_until_caught_up().await;
    tokio::time::sleep(SETTLE_TIME).await;
    let after = env.objects().get("short").await.unwrap();
    assert_eq!(after.metadata.resource_version, before, "{:#?}", after.status);

    env.pod_with("web", on(&kubelet), ended("containerd://a", 1, "")).await;
    let all = |status: &OrchestrStatus| status.incidents.len() == 3 && quoting(status) == 3;
    env.wait_for_status("short", "the line is in the next status", all).await;
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_the_log_of_each_container_instance_once() {
    let env = TestEnv::new("lives").await;
    let kubelet = kubelet(&env).await;
    let namespace = env.namespace.as_str();
    kubelet.script(namespace, "cart", "app", true, Answer::text("first\n"));
    env.pod_with("cart", on(&kubelet), crash_looping(3)).await;
    env.object("one", watch_all()).await;
    env.object("other", watch_all()).await;
    let operator = env.operator().start();
    for name in ["one", "other"] {
        env.wait_for_status(name, "the log is there", |status| log(status, "cart") == "first").await;
    }
    for round in 0..10 {
        env.patch_pod("cart", json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
    }
    env.wait_until_caught_up().await;
    assert_eq!(kubelet.requests_for(namespace, "cart").len(), 1);
    operator.stop().await;

    // The next instance has another log.
    let operator = env.operator().start();
    kubelet.script(namespace, "cart", "app", true, Answer::text("second\n"));
    env.set_status("cart", crash_looping(4)).await;
    let status = env.wait_for_status("one", "the next log is there", |status| log(status, "cart") == "second").await;
    assert_eq!(source(&status, "cart"), Some(LogSource::Previous));
    operator.stop().await;
}

/// The container is restarted while the log of its previous instance is being read.
#[tokio::test(flavor = "multi_thread")]
async fn shows_the_newer_log_after_a_restart_during_the_read() {
    let env = TestEnv::new("race").await;
    let kubelet = kubelet(&env).await;
    let namespace = env.namespace.as_str();
    let slow = Answer::Slow { text: b"the former life\n".to_vec(), chunk: 4, every: Duration::from_millis(500) };
    kubelet.script(namespace, "cart", "app", true, slow);
    env.pod_with("cart", on(&kubelet), crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    kubelet.wait_for_requests(1, crate::support::TIMEOUT).await.unwrap();
    kubelet.script(namespace, "cart", "app", true, Answer::text("the newer life\n"));
    env.set_status("cart", crash_looping(4)).await;
    let record = env.record("cluster").await;
    env.until("the newer log is there", |status| log(status, "cart") == "the newer life").await;
    kubelet.wait_until_idle(crate::support::TIMEOUT).await.unwrap();
    env.wait_until_caught_up().await;
    assert_eq!(log(&env.status("cluster").await, "cart"), "the newer life", "and stays");
    for (_, object) in record.states().await {
        let status = object.status.unwrap_or_default();
        let restarts = issue(&status, "cart").map(|issue| issue.restarts);
        assert!(
            !(restarts == Some(4) && log(&status, "cart") == "the former life"),
            "the former life's log stands beside the newer life"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_kubelets_delay_no_status_and_no_other_log() {
    let env = TestEnv::new("dead").await;
    let kubelet = kubelet(&env).await;
    let namespace = env.namespace.as_str();
    kubelet.script_default(Answer::Hanging);
    kubelet.script(namespace, "cart", "app", true, Answer::text("out of memory\n"));
    let alive = format!("alive-{namespace}");
    kubelet.register(&env.plane, &alive).await.unwrap();
    for number in 0..50 {
        // The kubelets of ten nodes hang.
        let node = format!("dead-{}-{namespace}", number % 10);
        if number < 10 {
            kubelet.register(&env.plane, &node).await.unwrap();
        }
        env.pod_with(&format!("stuck-{number:02}"), json!({"spec": {"nodeName": node}}), crash_looping(3)).await;
    }
    env.object("cluster", watch_with(json!({"report": {"maxPods": 100}}))).await;
    let operator = env.operator().start();
    let begun = std::time::Instant::now();
    let status = env.until("all are reported", |status| status.problematic_pod_count == 50).await;
    let first = begun.elapsed();
    assert!(status.problematic_pods.iter().all(|pod| source(&status, &pod.name) != Some(LogSource::Current)));
    // The first read times out after 5 s.
    assert!(first < Duration::from_secs(5), "{first:?}");

    let begun = std::time::Instant::now();
    env.pod_with("cart", json!({"spec": {"nodeName": alive}}), crash_looping(4)).await;
    let status = env.until("another's log is there", |status| log(status, "cart") == "out of memory").await;
    assert_eq!(source(&status, "cart"), Some(LogSource::Previous));
    // Reading the logs one by one would have taken 250 s.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let status = env
        .until("one is given up", |status| {
            (0..50).any(|number| source(status, &format!("stuck-{number:02}")).is_some())
        })
        .await;
    let given_up = status.problematic_pods.iter().filter(|pod| pod.name != "cart").find_map(|pod| {
        pod.container_issues[0].log_source.map(|source| (source, pod.container_issues[0].log_note.as_str()))
    });
    assert_eq!(given_up, Some((LogSource::Unavailable, "no answer from the kubelet within 5 s")));
    assert!(listed(&status).len() == 51);
    let begun = std::time::Instant::now();
    operator.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(3), "readings are dropped: {:?}", begun.elapsed());
}

/// Later statuses wait for logs briefly, but a user is waiting for the first.
#[tokio::test(flavor = "multi_thread")]
async fn writes_the_first_status_without_waiting_for_logs() {
    let env = TestEnv::new("first-logs").await;
    let kubelet = kubelet(&env).await;
    // Sooner than the limit after which a status is written without its logs.
    let late = Answer::Slow { text: b"out of memory".to_vec(), chunk: 64, every: Duration::from_millis(50) };
    kubelet.script(&env.namespace, "cart", "app", true, late);
    env.pod_with("cart", on(&kubelet), crash_looping(3)).await;
    env.object("cluster", watch_all()).await;
    let record = env.record("cluster").await;
    let _operator = env.operator().start();
    env.until("the log follows", |status| log(status, "cart") == "out of memory").await;
    let states = record.states().await;
    let statuses: Vec<_> = states.iter().filter_map(|(_, object)| object.status.as_ref()).collect();
    assert_eq!((listed(statuses[0]), log(statuses[0], "cart")), (vec!["cart"], ""));
}
