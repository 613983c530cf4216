//! The leader is killed, or stopped and continued.

use std::time::Duration;

use jiff::SignedDuration;

use super::support::Cluster;
use crate::{
    pod_statuses::crash_looping,
    proxy::{ProxiedRequest, ProxyAction},
    test_env::listed,
};

#[tokio::test(flavor = "multi_thread")]
async fn another_replica_continues_after_the_leader_was_killed() {
    let cluster = Cluster::start("leader-kill").await;
    let mut replicas = cluster.replicas(&["replica-a", "replica-b", "replica-c"]).await;
    replicas[0].program.kill().await.unwrap();
    // While none leads, one problem ends and another one begins.
    cluster.env.delete_pod("cart-0").await;
    cluster.env.pod("web-0", crash_looping(3)).await;
    let second = cluster.wait_for_leader(&["replica-b", "replica-c"]).await;
    cluster.wait_for_pods(&["web-0"]).await;
    cluster.receiver.wait_for(3, Duration::from_secs(90)).await.unwrap();
    cluster.assert_received(&[("trigger", "cart-0"), ("resolve", "cart-0"), ("trigger", "web-0")]);
    cluster.assert_writers(&["replica-a", &second]);

    // It writes within two seconds of the write by which it took the Lease.
    let took = cluster.first_lease_write(&second).await.done;
    let wrote = cluster.writes().iter().find(|write| write.by == second).unwrap().done;
    assert!(wrote.duration_since(took) < SignedDuration::from_secs(2), "{took} {wrote}");

    let index = replicas.iter().position(|replica| replica.name == second).unwrap();
    replicas[index].program.kill().await.unwrap();
    let third = if second == "replica-b" { "replica-c" } else { "replica-b" };
    cluster.wait_for_leader(&[third]).await;
    cluster.env.pod("db-0", crash_looping(3)).await;
    cluster.receiver.wait_for(4, Duration::from_secs(90)).await.unwrap();
    cluster.assert_received(&[("trigger", "cart-0"), ("resolve", "cart-0"), ("trigger", "web-0"), ("trigger", "db-0")]);
    cluster.assert_writers(&["replica-a", &second, third]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_leader_that_continues_stays_silent() {
    let cluster = Cluster::start("leader-stop").await;
    let replicas = cluster.replicas(&["replica-a", "replica-b"]).await;
    replicas[0].signal("-STOP").await;
    cluster.env.pod("web-0", crash_looping(3)).await;
    cluster.wait_for_leader(&["replica-b"]).await;
    cluster.wait_for_pods(&["cart-0", "web-0"]).await;
    cluster.wait_until_delivered(2).await;
    // When it continues, all events of the meantime are ready, its timers are due, and its Lease is over.
    replicas[0].signal("-CONT").await;
    replicas[0].wait_for_log("stopped leading").await;
    cluster.env.pod("db-0", crash_looping(3)).await;
    cluster.wait_for_pods(&["cart-0", "db-0", "web-0"]).await;
    cluster.wait_until_delivered(3).await;
    cluster.assert_received(&[("trigger", "cart-0"), ("trigger", "web-0"), ("trigger", "db-0")]);
    cluster.assert_writers(&["replica-a", "replica-b"]);

    // It follows, and takes over again.
    drop(replicas);
    let replica = cluster.replica("replica-c");
    cluster.wait_for_leader(&["replica-c"]).await;
    cluster.env.delete_pod("cart-0").await;
    cluster.wait_for_pods(&["db-0", "web-0"]).await;
    cluster.assert_writers(&["replica-a", "replica-b", "replica-c"]);
    drop(replica);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_an_earlier_leader_that_arrives_late_is_refused() {
    let cluster = Cluster::start("leader-late").await;
    let proxy = cluster.proxy("replica-a").await;
    let first = cluster.replica_through("replica-a", &proxy);
    cluster.wait_until_settled("replica-a").await;
    let second = cluster.replica("replica-b");
    second.wait_for_log("the Lease has a new holder").await;
    // The process is stopped while its write is under way.
    proxy.rule(|request| match request.is_status_write() {
        true => ProxyAction::ForwardLate(Duration::from_secs(25)),
        false => ProxyAction::Forward,
    });
    let before = proxy.count(ProxiedRequest::is_status_write);
    cluster.env.pod("web-0", crash_looping(3)).await;
    proxy.wait_for_requests("a status is written", before + 1, ProxiedRequest::is_status_write).await;
    first.signal("-STOP").await;
    cluster.wait_for_leader(&["replica-b"]).await;
    cluster.env.delete_pod("cart-0").await;
    cluster.wait_for_pods(&["web-0"]).await;
    orchestr_testbed::eventually("the late write is refused", Duration::from_secs(60), async || {
        let late = cluster.requests().into_iter().filter(|entry| {
            entry["impersonatedUser"]["username"] == "replica-a" && entry["responseStatus"]["code"] == 409
        });
        if late.count() > 0 { Ok(()) } else { Err("no conflict yet".to_owned()) }
    })
    .await
    .unwrap();
    assert_eq!(listed(&cluster.env.status("cluster").await), ["web-0"]);
    cluster.assert_writers(&["replica-a", "replica-b"]);
}
