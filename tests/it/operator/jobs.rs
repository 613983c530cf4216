//! Failed pods of Jobs.

use k8s_openapi::api::batch::v1::{CronJob, Job};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    command::{ends, orchestr},
    pod_statuses::{ago, completed, controlled_by, crash_looping, failed, failed_for_good},
    proxy::{ProxiedRequest, Proxy, ProxyAction},
    test_env::{TestEnv, condition, listed, watch_all},
};

fn succeeded() -> Value {
    let mut status = failed(0);
    status["phase"] = json!("Succeeded");
    status
}

fn is_of_job(request: &ProxiedRequest, name: &str) -> bool {
    request.method == "GET" && request.path.ends_with(&format!("/jobs/{name}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_failed_pods_only_of_jobs_that_did_not_complete() {
    let env = TestEnv::new("jobs").await;
    let good = env.job("good", completed(10)).await;
    let bad = env.job("bad", failed_for_good(10)).await;
    env.pod_with("good-1", good.clone(), failed(1)).await;
    env.pod_with("good-2", good.clone(), succeeded()).await;
    env.pod_with("bad-1", bad.clone(), failed(1)).await;
    // The owner reference names a Job that does not exist, with the UID of another Job.
    let mut gone = good.clone();
    gone["metadata"]["ownerReferences"][0]["name"] = json!("gone");
    env.pod_with("gone-1", gone, failed(1)).await;
    // Another Job has that name now.
    let mut other = bad.clone();
    other["metadata"]["ownerReferences"][0]["name"] = json!("good");
    env.pod_with("other-1", other, failed(1)).await;

    let proxy = Proxy::start(env.client.clone()).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    let status =
        env.until("the failures are reported", |status| listed(status) == ["bad-1", "gone-1", "other-1"]).await;
    assert_eq!((status.problematic_pods[0].reason.as_str(), status.watched_pods), ("Error", 5));

    // After many events, each finished Job has been read once.
    for round in 0..5 {
        for pod in ["good-1", "bad-1"] {
            env.patch_pod(pod, json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
        }
        env.wait_until_caught_up().await;
    }
    assert_eq!((proxy.count(|request| is_of_job(request, "bad")), listed(&env.status("cluster").await).len()), (1, 3));
    // Once for its own pod, and once for the pod of another Job with the same name.
    assert_eq!(proxy.count(|request| is_of_job(request, "good")), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn clears_failed_pods_when_their_job_completes() {
    let env = TestEnv::new("jobs-later").await;
    let owner = env.job("sums", json!({"active": 1, "failed": 1})).await;
    env.pod_with("sums-1", owner.clone(), failed(1)).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    env.until("the failure is reported", |status| listed(status) == ["sums-1"]).await;

    env.pod_with("sums-2", owner, succeeded()).await;
    // The Job controller takes a moment.
    env.wait_until_caught_up().await;
    env.set_status_of::<Job>("sums", completed(10)).await;
    let soon = std::time::Duration::from_secs(30);
    env.wait_for_status_within(soon, "cluster", "the pods of the completed Job are no longer reported", |status| {
        listed(status).is_empty()
    })
    .await;
}

/// A Job of a CronJob.
async fn run_of(env: &TestEnv, cron_job: &str, name: &str, status: Value) -> Value {
    let owner = env.job(name, status).await;
    let uid = env.api::<CronJob>().get(cron_job).await.unwrap().metadata.uid;
    let owners = json!({"metadata": {"ownerReferences": controlled_by("CronJob", cron_job, uid)}});
    env.api::<Job>().patch(name, &PatchParams::default(), &Patch::Merge(owners)).await.unwrap();
    owner
}

async fn cron_job(env: &TestEnv, name: &str, last_success: i64) {
    let api: Api<CronJob> = Api::namespaced(env.client.clone(), &env.namespace);
    let cron_job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name},
        "spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "app", "image": "example.com/app:1"}],
        }}}}},
    });
    api.patch(name, &PatchParams::apply("tests"), &Patch::Apply(cron_job)).await.unwrap();
    let status = json!({"status": {"lastSuccessfulTime": ago(last_success)}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn clears_a_failed_run_when_a_later_one_succeeds() {
    let env = TestEnv::new("cron").await;
    cron_job(&env, "nightly", 86_400).await;
    let first = run_of(&env, "nightly", "nightly-1", failed_for_good(10)).await;
    env.pod_with("nightly-1-a", first, failed(1)).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().start();
    let status = env.until("the failed run is reported", |status| listed(status) == ["nightly-1-a"]).await;
    let owner = &status.incidents[0].owner;
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("CronJob", "nightly"));
    let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
    let explain = ["explain", "nightly-1-a", "-n", &env.namespace, "--kubeconfig", kubeconfig];
    let (code, out, _) = ends(&mut orchestr(&explain));
    assert!(code == 1 && !out.contains("a later run"), "{out}");

    let second = run_of(&env, "nightly", "nightly-2", completed(10)).await;
    cron_job(&env, "nightly", 0).await;
    env.pod_with("nightly-2-a", second, succeeded()).await;
    let soon = std::time::Duration::from_secs(30);
    let status =
        env.wait_for_status_within(soon, "cluster", "the failure is over", |status| listed(status).is_empty()).await;
    assert_eq!(condition(&status, "PodsHealthy").0, "True");
    let (code, out, _) = ends(&mut orchestr(&explain));
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(code == 0 && words.contains("a later run of the CronJob nightly has succeeded"), "{out}");
}

/// The only problem is a pod of a failed Job: PodsHealthy must not become True before the Job was read.
#[tokio::test(flavor = "multi_thread")]
async fn stays_unhealthy_after_a_restart_until_jobs_are_read() {
    let env = TestEnv::new("jobs-restart").await;
    let owner = env.job("sums", failed_for_good(10)).await;
    env.pod_with("sums-1", owner, failed(1)).await;
    env.object("cluster", watch_all()).await;
    let operator = env.operator().start();
    let before = env.until("the failure is reported", |status| !listed(status).is_empty()).await;
    operator.stop().await;

    let record = env.record("cluster").await;
    let proxy = Proxy::start(env.client.clone()).await;
    proxy.on(|request| is_of_job(request, "sums"), ProxyAction::AnswerLate(std::time::Duration::from_secs(2)));
    let operator = env.operator().through(&proxy).start();
    // The second problem makes the operator write the status.
    env.pod("cart", crash_looping(3)).await;
    let after = env.until("another problem", |status| listed(status) == ["cart", "sums-1"]).await;
    for (_, object) in record.states().await {
        let status = object.status.unwrap_or_default();
        assert_eq!(condition(&status, "PodsHealthy").0, "False", "{status:?}");
        assert!(listed(&status).contains(&"sums-1"), "{status:?}");
    }
    let healthy = |status: &orchestr::api::OrchestrStatus| {
        status.conditions.iter().find(|own| own.type_ == "PodsHealthy").map(|own| own.last_transition_time.clone())
    };
    assert_eq!(healthy(&after), healthy(&before));
    let since = |status: &orchestr::api::OrchestrStatus| {
        status.incidents.iter().find(|own| own.owner.name == "sums").map(|own| (own.key.clone(), own.since.clone()))
    };
    assert_eq!(since(&after), since(&before));
    operator.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_missing_jobs_once_and_foreign_jobs_never() {
    let env = TestEnv::new("jobs-gone").await;
    let owner = |api: &str, name: &str| {
        let mut owners = controlled_by("Job", name, "u");
        owners[0]["apiVersion"] = json!(api);
        json!({"metadata": {"ownerReferences": owners}})
    };
    env.pod_with("gone-1", owner("batch/v1", "gone"), failed(1)).await;
    env.pod_with("foreign-1", owner("batch.volcano.sh/v1alpha1", "foreign"), failed(1)).await;
    let proxy = Proxy::start(env.client.clone()).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    env.until("both fail", |status| listed(status) == ["foreign-1", "gone-1"]).await;
    for round in 0..5 {
        for pod in ["gone-1", "foreign-1"] {
            env.patch_pod(pod, json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
        }
        env.wait_until_caught_up().await;
    }
    assert_eq!(proxy.count(|request| is_of_job(request, "gone")), 1);
    assert_eq!(proxy.count(|request| is_of_job(request, "foreign")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_a_missing_permission_for_jobs() {
    let env = TestEnv::new("jobs-refused").await;
    let owner = env.job("sums", failed_for_good(10)).await;
    env.pod_with("sums-1", owner, failed(1)).await;
    let proxy = Proxy::start(env.client.clone()).await;
    proxy.on(|request| is_of_job(request, "sums"), ProxyAction::Refuse(403, "jobs.batch \"sums\" is forbidden"));
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    let status = env.until("the failure", |status| listed(status) == ["sums-1"]).await;
    let (ready, reason, message) = condition(&status, "Ready");
    assert_eq!((ready, reason), ("True", "Watching"));
    assert!(message.contains("could not read the Job of a failed pod: jobs.batch \"sums\" is forbidden"), "{message}");
}

/// While a Job cannot be read, it is unknown whether its failed pod is a problem.
#[tokio::test(flavor = "multi_thread")]
async fn retries_a_job_read_before_reporting_its_pods() {
    let env = TestEnv::new("jobs-moment").await;
    let owner = env.job("sums", completed(10)).await;
    env.pod_with("sums-1", owner.clone(), failed(1)).await;
    env.pod_with("sums-2", owner, succeeded()).await;
    env.object("cluster", watch_all()).await;
    let operator = env.operator().start();
    env.until("it is healthy", |status| condition(status, "PodsHealthy").0 == "True").await;
    operator.stop().await;

    let record = env.record("cluster").await;
    let proxy = Proxy::start(env.client.clone()).await;
    let failures = std::sync::atomic::AtomicUsize::new(2);
    proxy.rule(move |request| {
        let left = std::sync::atomic::Ordering::Relaxed;
        let fails = is_of_job(request, "sums") && failures.fetch_update(left, left, |left| left.checked_sub(1)).is_ok();
        if fails { ProxyAction::Refuse(500, "etcdserver: leader changed") } else { ProxyAction::Forward }
    });
    let operator = env.operator().through(&proxy).start();
    env.pod("cart", crash_looping(3)).await;
    env.until("another problem", |status| listed(status) == ["cart"]).await;
    for (_, object) in record.states().await {
        let status = object.status.unwrap_or_default();
        assert!(!listed(&status).contains(&"sums-1"), "{status:?}");
    }
    assert!(proxy.count(|request| is_of_job(request, "sums")) >= 3);
    operator.stop().await;
}

/// The name of a CronJob comes from an owner reference, which anyone can write. Whoever changes an ended pod all the time
/// must not cause a read each time.
#[tokio::test(flavor = "multi_thread")]
async fn reads_a_failed_job_once_if_its_cron_job_does_not_exist() {
    let env = TestEnv::new("jobs-orphan").await;
    let owner = env.job("sums", failed_for_good(10)).await;
    let forged = json!({"metadata": {"ownerReferences": controlled_by("CronJob", "forged", "u")}});
    env.api::<Job>().patch("sums", &PatchParams::default(), &Patch::Merge(forged)).await.unwrap();
    env.pod_with("sums-1", owner, failed(1)).await;
    let proxy = Proxy::start(env.client.clone()).await;
    env.object("cluster", watch_all()).await;
    let _operator = env.operator().through(&proxy).start();
    env.until("it is reported", |status| listed(status) == ["sums-1"]).await;
    for round in 0..20 {
        env.patch_pod("sums-1", json!({"metadata": {"labels": {"round": round.to_string()}}})).await;
        env.wait_until_caught_up().await;
    }
    let of_cron_job = |request: &ProxiedRequest| request.path.ends_with("/cronjobs/forged");
    assert_eq!((proxy.count(|request| is_of_job(request, "sums")), proxy.count(of_cron_job)), (1, 1));
}
