//! The pods that benches load.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use orchestr_testbed::pods::{Shape, filler, filler_name, key};

#[test]
fn makes_pods_of_four_kilobytes() {
    let shape = Shape::default();
    for index in [0, 1, 149_999] {
        let (key, json) = filler(index, &shape);
        let pod: Pod = serde_json::from_str(&json).unwrap();
        let (namespace, name) = (pod.metadata.namespace.unwrap(), pod.metadata.name.unwrap());
        assert_eq!(key, self::key(&namespace, &name));
        assert_eq!((namespace, name), filler_name(index, &shape));
        assert!((3_500..5_000).contains(&json.len()), "{} bytes", json.len());
    }
}

#[test]
fn gives_each_pod_its_own_name_and_one_in_a_hundred_a_problem() {
    let shape = Shape::default();
    let pods: Vec<_> = (0..10_000).map(|index| filler(index, &shape)).collect();
    let keys: BTreeSet<_> = pods.iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), pods.len());
    let crashing = pods.iter().filter(|(_, json)| json.contains("CrashLoopBackOff"));
    assert_eq!(crashing.count(), 100);
}
