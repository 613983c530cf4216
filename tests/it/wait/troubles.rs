//! Troubles that cannot mend themselves end a wait early.

use std::time::Instant;

use k8s_openapi::api::{batch::v1::Job, core::v1::Event};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use orchestr_testbed::{Answer, Kubelet};
use serde_json::{Value, json};

use super::support::{Rollout, Wait, assert_ended, bad_image, crash_loop, creating, job, pod_of, waits};
use crate::{
    pod_statuses::{ago, healthy},
    test_env::TestEnv,
};

/// Waits for a new rollout, then lets the pod have this status, and asserts that the wait fails soon.
async fn fails(env: &TestEnv, name: &str, flags: &[&str], status: Value, parts: &[&str]) {
    let rollout = Rollout::new(env, name, 3).await;
    let pod = rollout.pod(env, "a", creating()).await;
    let target = format!("deploy/{name}");
    let wait = Wait::start(env, &[&[target.as_str()], flags].concat());
    wait.says(&format!("deployment/{name}: 0 of 3 replicas updated; {pod} ContainerCreating")).await;
    env.set_status(&pod, status).await;
    let appeared = Instant::now();
    let ended = wait.ends().await;
    assert_ended(name, appeared, &ended, 1, &[&[pod.as_str()], parts].concat());
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_at_the_first_trouble_that_cannot_mend_itself() {
    let env = TestEnv::new("wait-fails").await;
    fails(
        &env,
        "bad-image",
        &[],
        bad_image(),
        &["the registry registry.example does not have the image", "ImageNotFound"],
    )
    .await;
    fails(&env, "bad-name", &[], waits("InvalidImageName", "couldn't parse image name"), &["ImageNameInvalid"]).await;
    let denied = "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized";
    fails(&env, "image-auth", &["--grace", "1s"], waits("ErrImagePull", denied), &["ImageAuth"]).await;
    let missing = "configmap \"cart-config\" not found";
    let sentence = "app needs the ConfigMap cart-config, which does not exist";
    fails(&env, "no-config", &["--grace", "1s"], waits("CreateContainerConfigError", missing), &[sentence]).await;
    let command = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create \
         failed: unable to start container process: exec: \"/app/serve\": stat /app/serve: no such file or directory: unknown";
    fails(
        &env,
        "no-command",
        &[],
        waits("RunContainerError", command),
        &["the command /app/serve of app was not found"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shows_the_log_of_a_container_that_crashes_in_a_loop() {
    let env = TestEnv::new("wait-crash").await;
    let node = env.namespace.clone();
    let kubelet = Kubelet::start(&env.plane, &node).await.unwrap();
    let rollout = Rollout::new(&env, "crash-loop", 2).await;
    let name = rollout.pod(&env, "a", creating()).await;
    // Its node is that of the kubelet.
    let pod = env.pods().get(&name).await.unwrap();
    let changes = json!({"metadata": {"labels": pod.metadata.labels, "ownerReferences": pod.metadata.owner_references,
        "creationTimestamp": ago(5)}, "spec": {"nodeName": node}});
    env.pod_with(&name, changes, creating()).await;
    let log = "connecting to postgres://cart:hunter2@db/cart\n\u{1b}[31mpanic: no such table: orders\u{1b}[0m\n";
    kubelet.script(&env.namespace, &name, "app", true, Answer::text(log));
    let wait = Wait::start(&env, &["deploy/crash-loop"]);
    wait.says("ContainerCreating").await;
    env.set_status(&name, crash_loop()).await;
    let appeared = Instant::now();
    let ended = wait.ends().await;
    let parts = [
        "CrashLoopBackOff",
        "app exited with code 1",
        "its log says: \"panic: no such table: orders\"",
        "log of the previous run of app:",
        "| panic: no such table: orders",
    ];
    assert_ended("crash-loop", appeared, &ended, 1, &parts);
    assert!(!format!("{ended:?}").contains("hunter2") && !ended.out.contains('\u{1b}'), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_when_the_controller_gives_up() {
    let env = TestEnv::new("wait-given-up").await;
    let rollout = Rollout::new(&env, "deadline", 2).await;
    rollout.pod(&env, "a", crate::pod_statuses::not_ready(40)).await;
    let wait = Wait::start(&env, &["deploy/deadline"]);
    wait.says("0 of 2 replicas updated").await;
    rollout
        .condition(&env, "Progressing", "False", "ProgressDeadlineExceeded", "ReplicaSet has timed out progressing.")
        .await;
    let appeared = Instant::now();
    let parts = ["it exceeded its progress deadline: ReplicaSet has timed out progressing; app is not ready"];
    assert_ended("progress deadline", appeared, &wait.ends().await, 1, &parts);

    let rollout = Rollout::new(&env, "quota", 2).await;
    let wait = Wait::start(&env, &["deploy/quota", "--grace", "1s"]);
    wait.says("0 of 2 replicas updated").await;
    let message =
        "pods \"quota-new-x\" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=4, limited: pods=4";
    rollout.condition(&env, "ReplicaFailure", "True", "FailedCreate", message).await;
    let appeared = Instant::now();
    let parts = ["its pods cannot be created: the ResourceQuota pods is exceeded: 1 of pods requested, 4 of 4 used"];
    assert_ended("quota", appeared, &wait.ends().await, 1, &parts);

    // No other pod has to end before this one fits.
    let too_small = message.replace("pods=4", "pods=0");
    // The status of a Job does not say why its pods cannot be created, but events do.
    let uid = job(&env, "sums").await;
    let wait = Wait::start(&env, &["job/sums", "--grace", "1s"]);
    wait.says("job/sums: 0 of 1 pod succeeded").await;
    let events: Api<Event> = Api::namespaced(env.client.clone(), &env.namespace);
    let refused = |name: &str, first: i64| {
        json!({
            "metadata": {"name": name, "namespace": env.namespace}, "type": "Warning", "reason": "FailedCreate", "count": 4,
            "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "namespace": env.namespace, "name": "sums", "uid": uid},
            "message": format!("Error creating: {too_small}"), "firstTimestamp": ago(first), "lastTimestamp": ago(-3),
        })
    };
    // Events that were written before the watch of events began are not seen, so it is repeated.
    let appeared = Instant::now();
    let mut written = 0;
    let mut wait = wait;
    while !wait.has_ended() && written < 40 {
        let event = serde_json::from_value(refused(&format!("sums.{written}"), 5)).unwrap();
        events.create(&PostParams::default(), &event).await.unwrap();
        written += 1;
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    }
    assert_ended(
        "quota of a Job",
        appeared,
        &wait.ends().await,
        1,
        &["its pods cannot be created: the ResourceQuota pods"],
    );
    // A single check watches nothing, so it lists these events.
    let once = Wait::start(&env, &["job/sums", "--grace", "1s", "--timeout", "0"]).ends().await;
    assert_ended("a single check", Instant::now(), &once, 1, &["its pods cannot be created: the ResourceQuota pods"]);
}

/// An old pod whose preStop hook takes 70 s keeps its place in the quota until its end.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_quota_is_waited_for_while_a_pod_terminates() {
    let env = TestEnv::new("wait-room").await;
    let message =
        "pods \"cart-new-x\" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=4, limited: pods=4";
    let mut waits = Vec::new();
    for name in ["cart", "stuck"] {
        let rollout = Rollout::new(&env, name, 1).await;
        let old = rollout.pod_of(&env, "old", "a", healthy()).await;
        if name == "cart" {
            let slowly = DeleteParams { grace_period_seconds: Some(70), ..DeleteParams::default() };
            env.pods().delete(&old, &slowly).await.unwrap();
        }
        let wait = Wait::start(&env, &[&format!("deploy/{name}"), "--grace", "1s"]);
        // What had failed for longer than the grace when the wait began would be given the time of a whole back-off.
        wait.says("0 of 1 replica updated").await;
        rollout.condition(&env, "ReplicaFailure", "True", "FailedCreate", message).await;
        wait.says("0 of 1 replica updated; pods cannot be created: the ResourceQuota pods is exceeded").await;
        waits.push((rollout, wait));
    }
    let (_, stuck) = waits.pop().unwrap();
    let (rollout, mut wait) = waits.pop().unwrap();
    // It began later, and its grace is over.
    assert_eq!(stuck.ends().await.code, 1);
    assert!(!wait.has_ended(), "{:#?}", wait.ends().await);
    env.delete_pod("cart-old-a").await;
    rollout.pod(&env, "a", healthy()).await;
    rollout.is_done(&env).await;
    assert_ended("full quota", Instant::now(), &wait.ends().await, 0, &["deployment/cart is healthy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_failed_for_good_fails_a_wait_for_labels() {
    let env = TestEnv::new("wait-batch").await;
    for (name, phase) in [("good", "Succeeded"), ("bad", "Failed")] {
        let uid = job(&env, name).await;
        let pod = pod_of(&env, "Job", name, &uid, "", "1", json!({"phase": phase, "reason": "Evicted"})).await;
        env.patch_pod(&pod, json!({"metadata": {"labels": {"app": "batch"}}})).await;
    }
    let check = async || Wait::start(&env, &["-l", "app=batch", "--timeout", "0"]).ends().await;
    let ended = check().await;
    assert_eq!(ended.code, 3, "its Job may try again: {ended:#?}");
    let time = ago(5);
    let failed = json!({"failed": 2, "startTime": ago(60), "conditions": [
        {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": time},
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "lastTransitionTime": time}]});
    let wait = Wait::start(&env, &["-l", "app=batch"]);
    wait.says("1 of 2 pods ready; bad-1 Evicted").await;
    env.set_status_of::<Job>("bad", failed).await;
    assert_ended("a failed Job", Instant::now(), &wait.ends().await, 1, &["bad-1", "Evicted"]);
    let ended = check().await;
    assert_eq!(ended.code, 1, "{ended:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_old_revision_fails_no_rollout() {
    let env = TestEnv::new("wait-old").await;
    let rollout = Rollout::new(&env, "cart", 2).await;
    for suffix in ["a", "b"] {
        rollout.pod_of(&env, "old", suffix, crash_loop()).await;
    }
    rollout.pod_of(&env, "old", "c", bad_image()).await;
    rollout.pod(&env, "a", creating()).await;
    let wait = Wait::start(&env, &["deploy/cart"]);
    wait.says("0 of 2 replicas updated; cart-new-a ContainerCreating").await;
    env.set_status("cart-new-a", healthy()).await;
    rollout.pod(&env, "b", healthy()).await;
    rollout.counts(&env, 3, 2, 2).await;
    wait.says("1 old replica left to terminate").await;
    rollout.is_done(&env).await;
    let appeared = Instant::now();
    assert_ended(
        "a broken old revision",
        appeared,
        &wait.ends().await,
        0,
        &["deployment/cart is healthy", "2 replicas"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_targets_ends_the_wait() {
    let env = TestEnv::new("wait-several").await;
    let (one, two) = (Rollout::new(&env, "one", 1).await, Rollout::new(&env, "two", 1).await);
    let uid = job(&env, "migrate").await;
    one.pod(&env, "a", healthy()).await;
    one.is_done(&env).await;
    let wait = Wait::start(&env, &["deploy/one", "deploy/two", "job/migrate"]);
    wait.says("deployment/one: healthy, 1 replica").await;
    wait.says("job/migrate: 0 of 1 pod succeeded").await;
    let pod = pod_of(&env, "Job", "migrate", &uid, "", "x", creating()).await;
    two.pod(&env, "a", bad_image()).await;
    let appeared = Instant::now();
    let ended = wait.ends().await;
    let parts = [
        "deployment/one is healthy",
        "deployment/two failed",
        "job/migrate was still waited for: 0 of 1 pod succeeded",
    ];
    assert_ended("one of several", appeared, &ended, 1, &parts);
    assert!(!ended.out.contains(&pod), "{}", ended.out);
}
