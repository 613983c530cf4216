//! A replica ends in good order, as in a rollout.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use orchestr_testbed::Reply;

use super::support::Cluster;
use crate::{
    pod_statuses::crash_looping,
    proxy::{ProxiedRequest, ProxyAction},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_next_replica_leads_within_a_second_of_sigterm() {
    let cluster = Cluster::start("leader-term").await;
    let mut replicas = cluster.replicas(&["replica-a", "replica-b"]).await;
    let signalled = Timestamp::now();
    replicas[0].signal("-TERM").await;
    replicas[0].ended().await;
    cluster.wait_for_leader(&["replica-b"]).await;
    let took = cluster.first_lease_write("replica-b").await.done;
    assert!(took.duration_since(signalled) < SignedDuration::from_secs(1), "{signalled} {took}");
    cluster.env.delete_pod("cart-0").await;
    cluster.receiver.wait_for(2, Duration::from_secs(90)).await.unwrap();
    cluster.assert_received(&[("trigger", "cart-0"), ("resolve", "cart-0")]);
    cluster.assert_writers(&["replica-a", "replica-b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_follower_changes_nothing() {
    let cluster = Cluster::start("leader-follower").await;
    let mut replicas = cluster.replicas(&["replica-a", "replica-b"]).await;
    replicas[1].signal("-TERM").await;
    replicas[1].ended().await;
    cluster.env.pod("web-0", crash_looping(3)).await;
    cluster.wait_for_pods(&["cart-0", "web-0"]).await;
    cluster.wait_until_delivered(2).await;
    cluster.assert_writers(&["replica-a"]);
    assert_eq!(cluster.lease_writes().iter().filter(|write| write.by == "replica-b").count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_not_released_while_a_write_is_under_way() {
    let cluster = Cluster::start("leader-drain").await;
    let proxy = cluster.proxy("replica-a").await;
    let mut first = cluster.replica_through("replica-a", &proxy);
    cluster.wait_until_settled("replica-a").await;
    let second = cluster.replica("replica-b");
    second.wait_for_log("the Lease has a new holder").await;
    proxy.on(ProxiedRequest::is_status_write, ProxyAction::Hang);
    let before = proxy.count(ProxiedRequest::is_status_write);
    cluster.env.pod("web-0", crash_looping(3)).await;
    proxy.wait_for_requests("a write hangs", before + 1, ProxiedRequest::is_status_write).await;
    first.signal("-TERM").await;
    first.ended().await;
    let ended = Timestamp::now();
    cluster.wait_for_leader(&["replica-b"]).await;
    let took = cluster.first_lease_write("replica-b").await.received;
    assert!(took.duration_since(ended) > SignedDuration::from_secs(7), "{ended} {took}");
    cluster.wait_for_pods(&["cart-0", "web-0"]).await;
    cluster.assert_writers(&["replica-a", "replica-b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_does_not_answer_does_not_keep_the_lease() {
    let cluster = Cluster::start("leader-receiver").await;
    let mut replicas = cluster.replicas(&["replica-a", "replica-b"]).await;
    cluster.receiver.then([Reply::Hang]);
    cluster.env.pod("web-0", crash_looping(3)).await;
    cluster.receiver.wait_for(2, Duration::from_secs(90)).await.unwrap();
    let signalled = Timestamp::now();
    replicas[0].signal("-TERM").await;
    replicas[0].ended().await;
    cluster.wait_for_leader(&["replica-b"]).await;
    let took = cluster.first_lease_write("replica-b").await.done;
    assert!(took.duration_since(signalled) < SignedDuration::from_secs(2), "{signalled} {took}");
    // The next leader sends the message again.
    let received = cluster.receiver.wait_for(3, Duration::from_secs(90)).await.unwrap();
    assert_eq!(received[1].header("webhook-id"), received[2].header("webhook-id"));
    cluster.receiver.release();
    cluster.assert_writers(&["replica-a", "replica-b"]);
}
