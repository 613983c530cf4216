//! A thousand objects on one watch.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use kube::runtime::watcher::{self, Event, watcher};
use orchestr::api::Orchestr;
use orchestr_testbed::{Options, pods};
use serde_json::{Value, json};

use crate::{
    proxy::{ProxiedRequest, Proxy},
    support::{TIMEOUT, streams_lists},
    test_env::{TestEnv, watch_with},
};

const OBJECTS: usize = 1000;
const PODS: usize = 400;

/// Pods in four namespaces and of twenty workloads, of which number 0 and 10 crash.
fn shape() -> pods::Shape {
    pods::Shape { namespaces: 4, workloads: 20, nodes: 5, crash_looping: 10, ..pods::Shape::default() }
}

/// The `spec.pods` of an object, how many pods it selects, and how many of them fail.
fn selection(index: usize) -> (Value, i64, i64) {
    let each = (PODS / 20) as i64;
    match index % 5 {
        0 => (json!({}), 20 * each, 2 * each),
        1 => (json!({"namespaces": ["team-0"]}), 5 * each, each),
        2 => (json!({"excludeNamespaces": ["team-[01]"]}), 10 * each, each),
        3 => {
            let workload = index / 5 % 20;
            let app = format!("service-{workload}");
            let fails = i64::from(workload.is_multiple_of(10));
            (json!({"selector": {"matchLabels": {"app.kubernetes.io/name": app}}}), each, fails * each)
        }
        _ => (json!({"ignoreReasons": ["OOMKilled"]}), 20 * each, 0),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_one_watch_between_a_thousand_objects() {
    let env = TestEnv::with_own_plane("many", Options::default()).await;
    for namespace in 0..4 {
        env.plane.ensure_namespace(&format!("team-{namespace}")).await.unwrap();
    }
    env.plane.load((0..PODS).map(|index| pods::filler(index, &shape()))).await.unwrap();
    let made = stream::iter(0..OBJECTS).map(|index| {
        let spec =
            watch_with(json!({"pods": selection(index).0, "logs": {"enabled": false}, "report": {"maxPods": 1}}));
        let env = &env;
        async move { env.object(&format!("object-{index}"), spec).await }
    });
    made.buffer_unordered(16).for_each(async |_| {}).await;
    let proxy = Proxy::start(env.client.clone()).await;
    let watches = pod_watches(&env).await;
    let _operator = env.operator().through(&proxy).whole_cluster().start();

    wait_for_counts(&env, 0).await;
    let requests = proxy.count(ProxiedRequest::is_of_pods);
    assert!(requests == 1 || !streams_lists(), "one list and watch in one, not {requests}");
    assert_eq!(pod_watches(&env).await, watches + 1);

    // One pod of each failing workload recovers. Only the objects that select it are written.
    let writes = proxy.count(ProxiedRequest::is_status_write);
    let recovered = [0, 10].map(|index| pods::filler_as(index, &shape(), pods::Health::Healthy));
    env.plane.load(recovered).await.unwrap();
    wait_for_counts(&env, 1).await;
    let concerned = (0..OBJECTS).filter(|&index| selection(index).2 > 0).count();
    let written = proxy.count(ProxiedRequest::is_status_write) - writes;
    assert!((concerned..=2 * concerned).contains(&written), "{written} writes for {concerned} objects");
    assert_eq!(proxy.count(ProxiedRequest::is_of_pods), requests);
}

/// Waits until every object has the counts of its own selection, after this many pods of each failing workload have
/// recovered.
async fn wait_for_counts(env: &TestEnv, recovered: i64) {
    let mut events = watcher(env.objects(), watcher::Config::default()).boxed();
    let mut pending: BTreeMap<String, String> =
        (0..OBJECTS).map(|index| (format!("object-{index}"), "not seen yet".to_owned())).collect();
    let counts = async {
        while !pending.is_empty() {
            if let Some(Ok(Event::Apply(object) | Event::InitApply(object))) = events.next().await {
                let name = object.metadata.name.clone().unwrap();
                match wrong(&object, recovered) {
                    Some(difference) => pending.insert(name, difference),
                    None => pending.remove(&name),
                };
            }
        }
    };
    let in_time = tokio::time::timeout(TIMEOUT, counts).await.is_ok();
    assert!(in_time, "{} objects have other counts, such as {:?}", pending.len(), pending.first_key_value());
}

/// The watches of pods that the API server serves, including its own.
async fn pod_watches(env: &TestEnv) -> u32 {
    let metrics = env.plane.metrics().await.unwrap();
    let watches = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_longrunning_requests{") && line.contains(r#"resource="pods""#));
    watches.map(|line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()).sum()
}

/// The difference of an object's counts from the expected ones, after this many pods of each failing workload have
/// recovered.
fn wrong(object: &Orchestr, recovered: i64) -> Option<String> {
    let name = object.metadata.name.as_deref().unwrap();
    let index = name.strip_prefix("object-").unwrap().parse().unwrap();
    let (selected, watched, failing) = selection(index);
    let failing = failing - recovered * (failing / (PODS / 20) as i64);
    let Some(status) = &object.status else { return Some(format!("{name} has no status")) };
    let shown = (status.watched_pods, status.problematic_pod_count);
    (shown != (watched, failing)).then(|| format!("{name} ({selected}) shows {shown:?}, not {:?}", (watched, failing)))
}
