//! The leader cannot reach the API server, or nobody can.

use std::time::Duration;

use super::support::Cluster;
use crate::{pod_statuses::crash_looping, proxy::ProxyAction};

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_cut_off_stops_before_another_one_begins() {
    let cluster = Cluster::start("leader-cut").await;
    let proxy = cluster.proxy("replica-a").await;
    let first = cluster.replica_through("replica-a", &proxy);
    cluster.wait_until_settled("replica-a").await;
    let mut second = cluster.replica("replica-b");
    second.wait_for_log("the Lease has a new holder").await;
    // It can still reach the receiver.
    proxy.rule(|request| match request.is_status_write() || request.path.contains("/leases") {
        true => ProxyAction::Hang,
        false => ProxyAction::Refuse(503, "cut off"),
    });
    proxy.end_watches();
    cluster.env.pod("web-0", crash_looping(3)).await;
    first.wait_for_log("stopped leading").await;
    assert_eq!(cluster.lease_writes().iter().filter(|write| write.by == "replica-b").count(), 0, "nobody leads");
    cluster.wait_for_leader(&["replica-b"]).await;
    cluster.wait_for_pods(&["cart-0", "web-0"]).await;
    cluster.wait_until_delivered(2).await;

    proxy.rule(|_| ProxyAction::Forward);
    first.wait_for_log("the Lease can be used again").await;
    cluster.env.delete_pod("cart-0").await;
    cluster.wait_until_delivered(3).await;
    second.signal("-TERM").await;
    second.ended().await;
    cluster.wait_for_leader(&["replica-a"]).await;
    cluster.env.delete_pod("web-0").await;
    cluster.wait_for_pods(&[]).await;
    cluster.receiver.wait_for(4, Duration::from_secs(90)).await.unwrap();
    cluster.assert_received(&[
        ("trigger", "cart-0"),
        ("trigger", "web-0"),
        ("resolve", "cart-0"),
        ("resolve", "web-0"),
    ]);
    cluster.assert_writers(&["replica-a", "replica-b", "replica-a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_that_ends_the_lease_sends_nothing() {
    let cluster = Cluster::start("leader-outage").await;
    let replicas = cluster.replicas(&["replica-a", "replica-b"]).await;
    cluster.env.plane.stop_api_server().await.unwrap();
    replicas[0].wait_for_log("stopped leading").await;
    cluster.env.plane.start_api_server().await.unwrap();
    let leader = cluster.wait_for_leader(&["replica-a", "replica-b"]).await;
    cluster.env.pod("web-0", crash_looping(3)).await;
    cluster.wait_for_pods(&["cart-0", "web-0"]).await;
    cluster.wait_until_delivered(2).await;
    cluster.assert_received(&[("trigger", "cart-0"), ("trigger", "web-0")]);
    let writers = if leader == "replica-a" { vec!["replica-a"] } else { vec!["replica-a", "replica-b"] };
    cluster.assert_writers(&writers);
}
