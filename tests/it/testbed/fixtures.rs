//! The pods that a real kubelet wrote.

use orchestr_testbed::fixtures::{real_pods, real_statuses};

#[test]
fn has_a_status_for_each_pod() {
    let pods = real_pods();
    let names: Vec<_> = pods.iter().map(|pod| &pod["metadata"]["name"]).collect();
    let statuses = real_statuses();
    assert_eq!(statuses.len(), 27);
    assert_eq!(names, statuses.iter().map(|status| status.name).collect::<Vec<_>>());
}
