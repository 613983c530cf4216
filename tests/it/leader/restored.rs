//! etcd is restored from a backup while replicas run.

use super::support::Cluster;
use crate::pod_statuses::{crash_looping, healthy};

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_cluster_that_ended_the_lease_sends_nothing_again() {
    let cluster = Cluster::start("leader-restored").await;
    let env = &cluster.env;
    env.pod("web-0", healthy()).await;
    let replicas = cluster.replicas(&["replica-a", "replica-b"]).await;
    let backup = env.plane.back_up().await.unwrap();
    env.set_status("web-0", crash_looping(3)).await;
    cluster.wait_for_pods(&["cart-0", "web-0"]).await;
    cluster.wait_until_delivered(2).await;
    env.pod("late-0", crash_looping(3)).await;
    cluster.wait_until_delivered(3).await;

    env.plane.kill_api_server().await.unwrap();
    replicas[0].wait_for_log("stopped leading").await;
    env.plane.restore(&backup).await.unwrap();
    env.plane.start_api_server().await.unwrap();
    // The kubelet writes it again.
    env.set_status("web-0", crash_looping(3)).await;
    cluster.wait_for_leader(&["replica-a", "replica-b"]).await;
    // What was created after the backup is over.
    cluster.receiver.wait_for(4, std::time::Duration::from_secs(120)).await.unwrap();
    env.pod("new-0", crash_looping(3)).await;
    cluster.wait_for_pods(&["cart-0", "new-0", "web-0"]).await;
    cluster.wait_until_delivered(5).await;
    cluster.assert_received(&[
        ("trigger", "cart-0"),
        ("trigger", "web-0"),
        ("trigger", "late-0"),
        ("resolve", "late-0"),
        ("trigger", "new-0"),
    ]);
}
