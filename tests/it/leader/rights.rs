//! A replica that may not use the Lease.

use super::support::Cluster;
use crate::proxy::ProxyAction;

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_may_not_write_the_lease_says_so() {
    let cluster = Cluster::start("leader-rights").await;
    let proxy = cluster.proxy("replica-a").await;
    proxy.rule(|request| match request.path.contains("/leases") && request.method != "GET" {
        true => ProxyAction::Refuse(403, "leases is forbidden: it cannot update the Lease"),
        false => ProxyAction::Forward,
    });
    let replica = cluster.replica_through("replica-a", &proxy);
    replica.wait_for_log("it cannot update the Lease").await;
    proxy.wait_for_requests("it tries again", 3, |request| request.method == "PUT").await;
    assert_eq!(replica.lines("it cannot update the Lease"), 1);
    cluster.assert_writers(&[]);
    proxy.rule(|_| ProxyAction::Forward);
    cluster.wait_until_settled("replica-a").await;
}
