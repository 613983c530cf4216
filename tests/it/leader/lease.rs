//! Someone deletes or edits the Lease.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::DeleteParams;
use orchestr_testbed::until;
use serde_json::json;

use super::support::{Cluster, LEASE};
use crate::{pod_statuses::crash_looping, support::TIMEOUT};

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_restores_a_deleted_lease() {
    let cluster = Cluster::start("leader-deleted").await;
    let replicas = cluster.replicas(&["replica-a", "replica-b", "replica-c"]).await;
    cluster.leases().delete(LEASE, &DeleteParams::default()).await.unwrap();
    cluster.wait_for_leader(&["replica-a"]).await;
    for edited in [json!({}), json!({"holderIdentity": ""}), json!({"leaseDurationSeconds": i32::MAX})] {
        cluster.edit_lease(edited).await;
        cluster.wait_for_leader(&["replica-a"]).await;
    }
    cluster.env.pod("web-0", crash_looping(3)).await;
    cluster.wait_for_pods(&["cart-0", "web-0"]).await;
    cluster.wait_until_delivered(2).await;
    cluster.assert_received(&[("trigger", "cart-0"), ("trigger", "web-0")]);
    cluster.assert_writers(&["replica-a"]);
    assert_eq!(replicas.iter().map(|replica| replica.lines("stopped leading")).sum::<usize>(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_times_in_a_lease_do_not_matter() {
    let cluster = Cluster::start("leader-times").await;
    let replicas = cluster.replicas(&["replica-a", "replica-b"]).await;
    let mut writers = vec!["replica-a".to_owned()];
    for minutes in [-10, 10] {
        let time = MicroTime(Timestamp::now() + SignedDuration::from_mins(minutes));
        let edited = Timestamp::now();
        // As a replica would write it whose clock is wrong by minutes.
        cluster
            .edit_lease(json!({
                "holderIdentity": "someone", "leaseDurationSeconds": 15, "leaseTransitions": i32::MAX,
                "acquireTime": time, "renewTime": time,
            }))
            .await;
        let next = cluster.wait_for_leader(&["replica-a", "replica-b"]).await;
        let lease = until(cluster.leases(), LEASE, TIMEOUT, |lease| lease.is_some()).await.unwrap().unwrap();
        let waited = lease.spec.unwrap().acquire_time.unwrap().0.duration_since(edited);
        assert!(waited >= SignedDuration::from_secs(15), "{waited}");
        assert!(waited < SignedDuration::from_secs(20), "{waited}");
        if writers.last() != Some(&next) {
            writers.push(next);
        }
        let name = format!("web{minutes}");
        cluster.env.pod(&name, crash_looping(3)).await;
        cluster.env.until("it is listed", |status| status.problematic_pods.iter().any(|pod| pod.name == name)).await;
    }
    cluster.wait_until_delivered(3).await;
    cluster.assert_received(&[("trigger", "cart-0"), ("trigger", "web-10"), ("trigger", "web10")]);
    cluster.assert_writers(&writers.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(replicas[0].lines("stopped leading") >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_lease_is_created_and_claimed_later() {
    let cluster = Cluster::start("leader-missing").await;
    cluster.leases().delete(LEASE, &DeleteParams::default()).await.unwrap();
    let begun = Timestamp::now();
    let _replicas = [cluster.replica("replica-a"), cluster.replica("replica-b")];
    let leader = cluster.wait_for_leader(&["replica-a", "replica-b"]).await;
    assert!(Timestamp::now().duration_since(begun) >= SignedDuration::from_secs(15));
    cluster.wait_until_settled(&leader).await;
    cluster.assert_received(&[("trigger", "cart-0")]);
    cluster.assert_writers(&[&leader]);
}
