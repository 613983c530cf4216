//! What it takes for each kind of workload to be done.

use std::time::Instant;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    batch::v1::Job,
};
use kube::{Api, api::DeleteParams};
use orchestr_testbed::Options;
use serde_json::json;

use super::support::{Rollout, Wait, assert_ended, bad_image, creating, daemon_set, job, pod_of, stateful_set};
use crate::{command::orchestr, pod_statuses::healthy, running_command::RunningCommand, test_env::TestEnv};

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_each_kind_of_workload() {
    let env = TestEnv::new("wait-kinds").await;

    let rollout = Rollout::new(&env, "cart", 1).await;
    let wait = Wait::start(&env, &["deployments.apps/cart"]);
    wait.says("deployment/cart: 0 of 1 replica updated").await;
    rollout.pod(&env, "a", healthy()).await;
    rollout.is_done(&env).await;
    let appeared = Instant::now();
    assert_ended("Deployment", appeared, &wait.ends().await, 0, &["deployment/cart is healthy"]);

    let uid = stateful_set(&env, "db", json!({"type": "RollingUpdate"})).await;
    let wait = Wait::start(&env, &["sts/db"]);
    wait.says("statefulset/db: its controller has not seen the present spec yet").await;
    let status = |ready: i32, updated: i32| {
        json!({"observedGeneration": 1, "replicas": 2, "readyReplicas": ready, "availableReplicas": ready,
            "updatedReplicas": updated, "updateRevision": "db-2", "currentRevision": "db-1"})
    };
    env.set_status_of::<StatefulSet>("db", status(1, 1)).await;
    // The other pod still has the old revision.
    pod_of(&env, "StatefulSet", "db", &uid, "db-1", "0", bad_image()).await;
    pod_of(&env, "StatefulSet", "db", &uid, "db-2", "1", healthy()).await;
    wait.says("statefulset/db: 1 of 2 pods ready").await;
    env.delete_pod("db-0").await;
    pod_of(&env, "StatefulSet", "db", &uid, "db-2", "0", healthy()).await;
    env.set_status_of::<StatefulSet>("db", status(2, 2)).await;
    let appeared = Instant::now();
    assert_ended("StatefulSet", appeared, &wait.ends().await, 0, &["statefulset/db is healthy", "2 pods"]);

    let uid = daemon_set(&env, "agent").await;
    let status = |updated: i32, available: i32| {
        json!({"observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0,
            "numberReady": available, "updatedNumberScheduled": updated, "numberAvailable": available})
    };
    env.set_status_of::<DaemonSet>("agent", status(1, 1)).await;
    pod_of(&env, "DaemonSet", "agent", &uid, "one", "x", bad_image()).await;
    let wait = Wait::start(&env, &["ds/agent"]);
    wait.says("daemonset/agent: 1 of 2 pods updated").await;
    // The status counts a pod that does not exist.
    pod_of(&env, "DaemonSet", "agent", &uid, "two", "v", healthy()).await;
    env.set_status_of::<DaemonSet>("agent", status(2, 2)).await;
    wait.says("2 pods, but only 1 of the pods of its newest revision exist").await;
    pod_of(&env, "DaemonSet", "agent", &uid, "two", "w", healthy()).await;
    let appeared = Instant::now();
    assert_ended("DaemonSet", appeared, &wait.ends().await, 0, &["daemonset/agent is healthy"]);
    env.set_status_of::<DaemonSet>("agent", status(2, 1)).await;
    let wait = Wait::start(&env, &["ds/agent"]);
    wait.says("daemonset/agent: 1 of 2 updated pods available").await;
    pod_of(&env, "DaemonSet", "agent", &uid, "two", "y", bad_image()).await;
    let appeared = Instant::now();
    assert_ended("DaemonSet, bad image", appeared, &wait.ends().await, 1, &["agent-y", "ImageNotFound"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_for_jobs_and_pods() {
    let env = TestEnv::new("wait-jobs").await;
    let uid = job(&env, "good").await;
    // It may not change.
    let started = crate::pod_statuses::ago(60);
    let wait = Wait::start(&env, &["job/good"]);
    wait.says("job/good: 0 of 1 pod succeeded").await;
    // The first attempt fails. The Job decides whether that matters.
    pod_of(&env, "Job", "good", &uid, "", "1", json!({"phase": "Failed", "reason": "Evicted"})).await;
    env.set_status_of::<Job>("good", json!({"failed": 1, "active": 1, "startTime": started})).await;
    wait.says("0 of 1 pod succeeded, 1 failed").await;
    let ended = |kind: &str, target: &str, reason: &str| {
        let time = crate::pod_statuses::ago(5);
        let mut status = json!({"active": 0, "succeeded": 1, "startTime": started, "conditions": [
            {"type": target, "status": "True", "reason": reason, "lastTransitionTime": time},
            {"type": kind, "status": "True", "reason": reason, "message": "no more", "lastTransitionTime": time}]});
        if kind == "Complete" {
            status["completionTime"] = json!(time);
        } else {
            status["succeeded"] = json!(0);
        }
        status
    };
    env.set_status_of::<Job>("good", ended("Complete", "SuccessCriteriaMet", "CompletionsReached")).await;
    let appeared = Instant::now();
    assert_ended("Job", appeared, &wait.ends().await, 0, &["job/good is healthy", "1 pod succeeded"]);

    // A complete Job may be deleted, for example when its `ttlSecondsAfterFinished` are over.
    let wait = Wait::start(&env, &["job/good", "-l", "app=late"]);
    wait.says("job/good: healthy, 1 pod succeeded").await;
    let jobs = env.api::<Job>();
    jobs.delete("good", &DeleteParams::background()).await.unwrap();
    let gone =
        async || if jobs.get_opt("good").await.unwrap().is_none() { Ok(()) } else { Err("it exists".to_owned()) };
    orchestr_testbed::eventually("the Job is gone", crate::support::TIMEOUT, gone).await.unwrap();
    wait.says("pods -l app=late: no pod has these labels").await;
    env.pod_with("late", json!({"metadata": {"labels": {"app": "late"}}}), healthy()).await;
    let appeared = Instant::now();
    assert_ended("Job, deleted when complete", appeared, &wait.ends().await, 0, &["job/good is healthy"]);

    job(&env, "bad").await;
    let wait = Wait::start(&env, &["job/bad"]);
    wait.says("job/bad: 0 of 1 pod succeeded").await;
    env.set_status_of::<Job>("bad", ended("Failed", "FailureTarget", "BackoffLimitExceeded")).await;
    let appeared = Instant::now();
    assert_ended("Job, failed", appeared, &wait.ends().await, 1, &["job/bad failed", "the Job has failed: no more"]);

    let wait = Wait::start(&env, &["-l", "app=probe"]);
    wait.says("pods -l app=probe: no pod has these labels").await;
    let labels = json!({"metadata": {"labels": {"app": "probe"}}});
    // With only a ready pod, the wait would be over.
    env.pod_with("probe-b", labels.clone(), creating()).await;
    env.pod_with("probe-a", labels, healthy()).await;
    wait.says("pods -l app=probe: 1 of 2 pods ready; probe-b ContainerCreating").await;
    env.set_status("probe-b", healthy()).await;
    let appeared = Instant::now();
    assert_ended("pods -l", appeared, &wait.ends().await, 0, &["2 pods ready or succeeded"]);

    let wait = Wait::start(&env, &["pod/probe-a"]);
    let appeared = Instant::now();
    assert_ended("pod/NAME", appeared, &wait.ends().await, 0, &["pod/probe-a is healthy"]);
    env.set_status("probe-a", json!({"phase": "Failed", "reason": "Evicted", "message": "low on memory"})).await;
    let wait = Wait::start(&env, &["pods", "-l", "app=probe"]);
    assert_ended("a pod that failed", Instant::now(), &wait.ends().await, 1, &["probe-a", "Evicted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn follows_kubectl_if_deleted_paused_or_scaled_to_zero() {
    let env = TestEnv::new("wait-changed").await;
    let deployments: Api<Deployment> = Api::namespaced(env.client.clone(), &env.namespace);
    for (name, again) in [("deleted", false), ("replaced", true)] {
        Rollout::new(&env, name, 2).await;
        let wait = Wait::start(&env, &[&format!("deploy/{name}")]);
        wait.says("0 of 2 replicas updated").await;
        let foreground = DeleteParams { propagation_policy: None, ..DeleteParams::default() };
        deployments.delete(name, &foreground).await.unwrap();
        let appeared = Instant::now();
        if again {
            let copy = json!({"metadata": {"name": name}, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app", "image": "a"}]}}}});
            deployments.create(&Default::default(), &serde_json::from_value(copy).unwrap()).await.unwrap();
        }
        assert_ended(name, appeared, &wait.ends().await, 1, &["it was deleted"]);
    }

    let rollout = Rollout::new(&env, "paused", 2).await;
    let patch = json!({"spec": {"paused": true}});
    deployments.patch("paused", &Default::default(), &kube::api::Patch::Merge(&patch)).await.unwrap();
    let status = json!({"observedGeneration": 2, "replicas": 2, "availableReplicas": 2, "updatedReplicas": 0});
    env.set_status_of::<Deployment>("paused", status).await;
    // The pods of the revision before the pause are not the newest.
    rollout.pod(&env, "a", bad_image()).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "shop/cart:2"}]}}}});
    deployments.patch("paused", &Default::default(), &kube::api::Patch::Strategic(&patch)).await.unwrap();
    env.set_status_of::<Deployment>("paused", json!({"observedGeneration": 3})).await;
    let wait = Wait::start(&env, &["deploy/paused", "--timeout", "3s"]);
    wait.says("it is paused, and cannot finish before `kubectl rollout resume`").await;
    assert_ended(
        "paused",
        Instant::now(),
        &wait.ends().await,
        3,
        &["deployment/paused timed out after 3s: 0 of 2 replicas updated"],
    );

    let rollout = Rollout::new(&env, "zero", 0).await;
    rollout.counts(&env, 1, 0, 1).await;
    let wait = Wait::start(&env, &["deploy/zero"]);
    wait.says("1 old replica left to terminate").await;
    rollout.counts(&env, 0, 0, 0).await;
    assert_ended("scaled to zero", Instant::now(), &wait.ends().await, 0, &["0 replicas"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn waits_through_an_outage_of_the_api_server() {
    let env = TestEnv::with_own_plane("wait-outage", Options { audit_log: true, ..Options::default() }).await;
    let rollout = Rollout::new(&env, "cart", 1).await;
    rollout.pod(&env, "a", creating()).await;
    let wait = Wait::start(&env, &["deploy/cart"]);
    wait.says("cart-new-a ContainerCreating").await;
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let flags = ["scan", "--watch", "--kubeconfig", kubeconfig, "-n", env.namespace.as_str(), "--pending", "1h"];
    let watch = RunningCommand::start(orchestr(&flags));
    watch.says("No problems").await;
    env.plane.kill_api_server().await.unwrap();
    wait.says("the API server cannot be asked; still waiting: ").await;
    // A short outage is not mentioned.
    watch.says("the API server cannot be asked since ").await;
    env.plane.start_api_server().await.unwrap();
    wait.says("the API server answers again").await;
    watch.says("the API server answers again").await;
    env.set_status("cart-new-a", healthy()).await;
    rollout.is_done(&env).await;
    assert_ended("outage", Instant::now(), &wait.ends().await, 0, &["deployment/cart is healthy"]);
    let (code, out, err) = watch.interrupt().await;
    assert_eq!((code, out.as_str()), (0, ""), "{err}");

    // A list that starts with a version, as a streaming list does, may be older than what was applied before the wait.
    let log = env.plane.audit_log().unwrap();
    let uris = log.iter().filter_map(|event| event["requestURI"].as_str());
    let reads: Vec<&str> = uris.filter(|uri| uri.contains("/deployments?") || uri.contains("/replicasets?")).collect();
    assert!(reads.iter().any(|uri| !uri.contains("watch=")), "{reads:?}");
    assert!(
        !reads.iter().any(|uri| uri.contains("sendInitialEvents") || uri.contains("resourceVersion=0&")),
        "{reads:?}"
    );
}

/// During an outage, a Job completes, and its `ttlSecondsAfterFinished` are over.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_end_was_not_seen_is_not_called_failed() {
    let env = TestEnv::with_own_plane("wait-unseen", Options::default()).await;
    job(&env, "sums").await;
    let wait = Wait::start(&env, &["job/sums"]);
    wait.says("job/sums: 0 of 1 pod succeeded").await;
    env.plane.kill_api_server().await.unwrap();
    env.plane.delete_prefix(&format!("/registry/jobs/{}/sums", env.namespace)).await.unwrap();
    env.plane.start_api_server().await.unwrap();
    let ended = wait.ends().await;
    assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{ended:#?}");
    let sentence = "job/sums: it was deleted while it could not be watched, so nothing shows whether it had completed";
    assert!(ended.err.contains(sentence), "{ended:#?}");

    // Its deletion is seen, and it had not completed.
    job(&env, "sums").await;
    let wait = Wait::start(&env, &["job/sums"]);
    wait.says("job/sums: 0 of 1 pod succeeded").await;
    let jobs = env.api::<Job>();
    jobs.delete("sums", &DeleteParams::background()).await.unwrap();
    assert_ended("a Job deleted before its end", Instant::now(), &wait.ends().await, 1, &["it was deleted"]);
}
