//! A thousand objects on one watch.

use futures::{StreamExt, stream};
use kube::api::ListParams;
use orchestr::api::Orchestr;
use orchestr_testbed::{Options, eventually, pods};
use serde_json::{Value, json};

use crate::{
    proxy::{ProxiedRequest, Proxy},
    support::TIMEOUT,
    test_env::{TestEnv, watch_with},
};

const OBJECTS: usize = 1000;
const PODS: usize = 400;

/// Pods in four namespaces and of twenty workloads, of which number 0 and 10 crash.
fn shape() -> pods::Shape {
    pods::Shape { namespaces: 4, workloads: 20, nodes: 5, crash_looping: 10, ..pods::Shape::default() }
}

/// What object number `index` selects, how many pods that is, and how many of them fail.
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
async fn a_thousand_objects_share_one_watch() {
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
    let operator = env.operator().through(&proxy).whole_cluster().start();

    let all_told = async |recovered: i64| {
        eventually("each has its own counts", TIMEOUT, async || {
            let objects = env.objects().list(&ListParams::default()).await.unwrap().items;
            let wrong = objects.iter().filter_map(|object| wrong(object, recovered)).next();
            wrong.map_or(Ok(()), Err)
        })
        .await
        .unwrap();
    };
    all_told(0).await;
    assert_eq!(proxy.count(ProxiedRequest::is_of_pods), 1, "one list and watch in one");
    assert_eq!(pod_watches(&env).await, watches + 1);

    // One pod of each workload that fails recovers: those who see it are told, and nobody else is written.
    let writes = proxy.count(ProxiedRequest::is_status_write);
    let recovered = [0, 10].map(|index| pods::filler_as(index, &shape(), pods::Health::Healthy));
    env.plane.load(recovered).await.unwrap();
    all_told(1).await;
    let concerned = (0..OBJECTS).filter(|&index| selection(index).2 > 0).count();
    let written = proxy.count(ProxiedRequest::is_status_write) - writes;
    assert!((concerned..=2 * concerned).contains(&written), "{written} writes for {concerned} objects");
    assert_eq!(proxy.count(ProxiedRequest::is_of_pods), 1);
    operator.stop().await;
}

/// The watches of pods that the API server serves, its own among them.
async fn pod_watches(env: &TestEnv) -> u32 {
    let metrics = env.plane.metrics().await.unwrap();
    let watches = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_longrunning_requests{") && line.contains(r#"resource="pods""#));
    watches.map(|line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap()).sum()
}

/// What is wrong with an object's counts, when of each failing workload so many pods have recovered.
fn wrong(object: &Orchestr, recovered: i64) -> Option<String> {
    let name = object.metadata.name.as_deref().unwrap();
    let index = name.strip_prefix("object-").unwrap().parse().unwrap();
    let (selected, watched, failing) = selection(index);
    let failing = failing - recovered * (failing / (PODS / 20) as i64);
    let Some(status) = &object.status else { return Some(format!("{name} has no status")) };
    let told = (status.watched_pods, status.problematic_pod_count);
    (told != (watched, failing)).then(|| format!("{name} ({selected}) tells {told:?}, not {:?}", (watched, failing)))
}
