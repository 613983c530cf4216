//! A replica leads, follows, and leads again.

use k8s_openapi::api::batch::v1::Job;
use serde_json::json;

use super::support::Cluster;
use crate::{
    pod_statuses::{ago, completed, crash_looping, failed},
    proxy::{ProxiedRequest, ProxyAction},
    test_env::TestEnv,
};

fn is_of_job(request: &ProxiedRequest) -> bool {
    request.method == "GET" && request.path.ends_with("/jobs/sums")
}

/// A Job with a failed pod.
async fn failing_job(env: &TestEnv) {
    let owner = env.job("sums", json!({"startTime": ago(600), "active": 1, "failed": 1})).await;
    env.pod_with("sums-0", owner, failed(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_leads_again_reads_again_what_it_had_read() {
    let cluster = Cluster::start("leader-again").await;
    let proxy = cluster.proxy("replica-a").await;
    let first = cluster.replica_through("replica-a", &proxy);
    cluster.wait_until_settled("replica-a").await;
    failing_job(&cluster.env).await;
    cluster.wait_for_pods(&["cart-0", "sums-0"]).await;
    cluster.wait_until_delivered(2).await;

    let mut second = cluster.replica("replica-b");
    second.wait_for_log("the Lease has a new holder").await;
    first.signal("-STOP").await;
    cluster.wait_for_leader(&["replica-b"]).await;
    first.signal("-CONT").await;
    first.wait_for_log("stopped leading").await;
    let mut status = completed(10);
    // It cannot be changed.
    status.as_object_mut().unwrap().remove("startTime");
    cluster.env.set_status_of::<Job>("sums", status).await;
    // It notices that by the next end of a pod of the Job, or when it reads the Job again.
    cluster.env.patch_pod("sums-0", json!({"metadata": {"labels": {"round": "1"}}})).await;
    cluster.wait_for_pods(&["cart-0"]).await;
    cluster.wait_until_delivered(3).await;

    proxy.on(is_of_job, ProxyAction::Hang);
    let before = proxy.count(is_of_job);
    second.signal("-TERM").await;
    second.ended().await;
    cluster.wait_for_leader(&["replica-a"]).await;
    proxy.wait_for_requests("the Job is read again", before + 1, is_of_job).await;
    proxy.rule(|_| ProxyAction::Forward);
    cluster.env.pod("web-0", crash_looping(3)).await;
    cluster.wait_for_pods(&["cart-0", "web-0"]).await;
    cluster.wait_until_delivered(4).await;
    cluster.assert_received(&[("trigger", "cart-0"), ("trigger", "sums"), ("resolve", "sums"), ("trigger", "web-0")]);
    cluster.assert_writers(&["replica-a", "replica-b", "replica-a"]);
}
