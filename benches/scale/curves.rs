//! How cost grows with pods, objects, failures and long logs, and with a hanging kubelet.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use orchestr::api::{LogSource, OrchestrStatus, PodProblem};
use orchestr_testbed::{
    Answer,
    pods::{Health, Shape, filler, filler_as, filler_name},
};
use serde_json::json;

use crate::{
    Flags, Outcome,
    budgets::first_status,
    churn::{PROBES, flip_probes, make_probes},
    cluster::Cluster,
    figures::Figures,
    observer::Observer,
    process::Process,
    trouble,
};

const TIMEOUT: Duration = Duration::from_secs(120);
/// The number of pods for the curves that vary something else.
const PODS: usize = 10_000;
/// The most pods that fail at the same time, and the budget for the peak resident memory, in MiB.
const MOST_FAILURES: usize = 5_000;
const FAILURES_BUDGET: f64 = 48.0;
/// The number of pods that a tenant makes.
const LARGE_PODS: usize = 600;
/// Bytes in a long line.
const LONG_LINE: usize = 3_000_000;
/// Containers with such a line, and pods on a node whose kubelet hangs.
const FEW: usize = 50;
const HANGING_NODE: usize = 7;

/// All pods are healthy at first.
fn sound() -> Shape {
    Shape { crash_looping: 0, ..Shape::default() }
}

/// Increasing numbers of pods.
pub async fn pods(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("pods")?;
    let most = flags.most.unwrap_or(150_000);
    for pods in [1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 150_000].into_iter().filter(|&pods| pods <= most)
    {
        let cluster = Cluster::start(pods, Shape::default()).await?;
        first_status(&cluster, flags, &mut figures).await?;
    }
    figures.print();
    Ok(())
}

/// Increasing numbers of `Orchestr` objects, each with its own selection.
pub async fn objects(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("objects")?;
    let most = flags.most.unwrap_or(1_000);
    let cluster = Cluster::start(PODS, Shape::default()).await?;
    for count in [1, 10, 100, 300, 1_000].into_iter().filter(|&count| count <= most) {
        let mut add = |name: &str, value: f64, unit: &str| figures.add("objects", count, name, value, unit);
        cluster.clear_objects().await?;
        let mut expected = BTreeMap::new();
        for number in 0..count {
            let workload = number % cluster.shape.workloads;
            let (namespace, _) = filler_name(workload, &cluster.shape);
            let label = json!({"app.kubernetes.io/name": format!("service-{workload}")});
            let name = format!("object-{number}");
            cluster.object(&name, json!({"namespaces": [namespace], "selector": {"matchLabels": label}})).await?;
            expected.insert(name, (PODS - workload).div_ceil(cluster.shape.workloads) as i64);
        }
        let mut observer = Observer::new(&cluster);
        let requests = cluster.requests()?;
        let process = Process::start(&flags.binary, &cluster.kubeconfig, &[], flags.log.as_deref())?;
        let mut last = process.started;
        while !expected.is_empty() {
            let seen = observer
                .until("every object's status", TIMEOUT, |name, status| {
                    expected.get(name) == Some(&status.watched_pods)
                })
                .await?;
            expected.remove(&seen.name);
            last = seen.at;
        }
        add("exec to the last object's first status", (last - process.started).as_secs_f64(), "s")?;
        make_probes(&cluster).await?;
        for _ in 0..PROBES {
            observer
                .until("a probe's status", TIMEOUT, |name, status| {
                    name.starts_with("probe") && status.watched_pods == 1
                })
                .await?;
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        let made = cluster.requests()?.since(&requests);
        for request in ["list pods", "watch pods"] {
            add(&format!("requests: {request}"), made.get(request).copied().unwrap_or_default() as f64, "")?;
        }
        let before = (process.cpu()?, cluster.requests()?);
        let latencies = flip_probes(&cluster, &mut observer, flags.window.min(Duration::from_secs(20))).await?;
        let changes = latencies.statuses.len();
        add(
            "processor time for a change that concerns one object",
            (process.cpu()? - before.0).as_secs_f64() * 1e3 / changes as f64,
            "ms",
        )?;
        let after = cluster.requests()?;
        let others = after
            .writes
            .iter()
            .filter(|(name, _)| !name.starts_with("probe-"))
            .map(|(name, writes)| writes.len() - before.1.writes.get(name).map_or(0, Vec::len));
        add("writes of objects that it does not concern", others.sum::<usize>() as f64, "")?;
        add("peak resident memory", process.peak_mib()?, "MiB")?;
        figures.add_latencies("objects", count, "latency", latencies, [Some(40.0), Some(100.0)])?;
        process.stop().await?;
    }
    figures.print();
    Ok(())
}

/// Increasing numbers of pods that fail at the same time, each with a log.
pub async fn failures(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("failures")?;
    let most = flags.most.unwrap_or(MOST_FAILURES);
    let cluster = Cluster::start(PODS, sound()).await?;
    for count in [1, 10, 100, 500, 1_000, 2_000, MOST_FAILURES] {
        if !(flags.least..=most).contains(&count) {
            continue;
        }
        let failing = |index| filler_as(index, &cluster.shape, Health::CrashLooping { restarts: 1 });
        storm(&cluster, flags, &mut figures, ("failing pods", count), (0..count).map(failing), has_logs).await?;
    }
    figures.print();
    Ok(())
}

/// Containers whose log is one line of 3 MB.
pub async fn long_logs(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("long-logs")?;
    let cluster = Cluster::start(PODS, sound()).await?;
    script(&cluster, 0..FEW, &Answer::Text(vec![b'x'; LONG_LINE]));
    for count in [1, 10, FEW] {
        let failing = |index| filler_as(index, &cluster.shape, Health::CrashLooping { restarts: 1 });
        storm(&cluster, flags, &mut figures, ("containers", count), (0..count).map(failing), has_logs).await?;
    }
    figures.print();
    Ok(())
}

/// A tenant makes pods with 256 long labels and finalizers that hold them.
pub async fn large_pods(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("large-pods")?;
    let cluster = Cluster::start(PODS, sound()).await?;
    cluster.object("cluster", json!({})).await?;
    let mut observer = Observer::new(&cluster);
    let process = Process::start(&flags.binary, &cluster.kubeconfig, &[], flags.log.as_deref())?;
    let all = PODS as i64;
    observer.until("a first status", TIMEOUT, |name, status| name == "cluster" && status.watched_pods == all).await?;
    figures.add("large pods", 0, "peak resident memory", process.peak_mib()?, "MiB")?;
    for count in [100, LARGE_PODS] {
        cluster.plane.load((0..count).map(large_pod)).await?;
        tokio::time::sleep(Duration::from_secs(10)).await;
        figures.add("large pods", count, "peak resident memory", process.peak_mib()?, "MiB")?;
        figures.add("large pods", count, "resident memory", process.resident_mib()?, "MiB")?;
    }
    figures.print();
    process.stop().await
}

/// A pod with 256 labels and 256 finalizers, all as long as the API allows, which waits for its deletion.
fn large_pod(index: usize) -> (String, String) {
    let name = format!("large-{index}");
    let list = |make: &dyn Fn(usize) -> String| (0..256).map(make).collect::<Vec<_>>().join(",");
    let domain = format!("{0}.{0}.{0}.{1}", "d".repeat(63), "d".repeat(60));
    let labels = list(&|n| format!(r#""{domain}/{}{n:03}":"{}{index:06}""#, "k".repeat(60), "v".repeat(57)));
    let finalizers = list(&|n| format!(r#""{domain}/{}{n:03}""#, "f".repeat(60)));
    let json = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"tenant","uid":"1a56e000-0000-4000-8000-{index:012x}","creationTimestamp":"2025-11-03T08:15:02Z","deletionTimestamp":"2025-11-03T09:15:02Z","deletionGracePeriodSeconds":0,"labels":{{{labels}}},"finalizers":[{finalizers}]}},"spec":{{"containers":[{{"name":"app","image":"example/app"}}]}},"status":{{"phase":"Running"}}}}"#
    );
    (orchestr_testbed::pods::key("tenant", &name), json)
}

/// The kubelet of a node hangs, while pods on it and on other nodes fail.
pub async fn hang(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("hang")?;
    let cluster = Cluster::start(PODS, sound()).await?;
    let on_node = |index: &usize| index % cluster.shape.nodes == HANGING_NODE;
    script(&cluster, (0..PODS).filter(on_node).take(FEW), &Answer::Hanging);
    for count in [0, FEW] {
        let hanging = (0..PODS).filter(on_node).take(count);
        let others = (0..PODS).filter(|index| !on_node(index)).take(FEW / 2);
        let failing = |index| filler_as(index, &cluster.shape, Health::CrashLooping { restarts: 1 });
        let pods = hanging.chain(others).map(failing);
        let hangs = format!("node-{HANGING_NODE}");
        let looked_for = |status: &OrchestrStatus| has_logs_of(status, |pod| pod.node != hangs);
        storm(&cluster, flags, &mut figures, ("pods on a hanging node", count), pods, looked_for).await?;
    }
    figures.print();
    Ok(())
}

/// Sets the kubelet's answer for these pods. The others have a short log.
fn script(cluster: &Cluster, pods: impl Iterator<Item = usize>, answer: &Answer) {
    for index in pods {
        let (namespace, name) = filler_name(index, &cluster.shape);
        for previous in [false, true] {
            cluster.kubelet.script(&namespace, &name, "app", previous, answer.clone());
        }
    }
}

fn has_logs(status: &OrchestrStatus) -> bool {
    has_logs_of(status, |_| true)
}

fn has_logs_of(status: &OrchestrStatus, wanted: impl Fn(&PodProblem) -> bool) -> bool {
    let mut containers = status.problematic_pods.iter().filter(|pod| wanted(pod)).flat_map(|pod| &pod.container_issues);
    containers.all(|own| matches!(own.log_source, Some(LogSource::Current | LogSource::Previous)))
}

/// Makes these pods fail at the same time while probes change, and recovers them.
async fn storm(
    cluster: &Cluster,
    flags: &Flags,
    figures: &mut Figures,
    (variable, at): (&str, usize),
    pods: impl Iterator<Item = (String, String)>,
    is_complete: impl Fn(&OrchestrStatus) -> bool,
) -> Outcome {
    let pods: Vec<_> = pods.collect();
    cluster.clear_objects().await?;
    cluster.object("cluster", json!({"excludeNamespaces": ["probe-*"]})).await?;
    make_probes(cluster).await?;
    let mut observer = Observer::new(cluster);
    let process = Process::start(&flags.binary, &cluster.kubeconfig, &[], flags.log.as_deref())?;
    let all = cluster.pods as i64;
    observer.until("a first status", TIMEOUT, |name, status| name == "cluster" && status.watched_pods == all).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;

    let asked = cluster.kubelet.requests().len();
    let before = process.cpu()?;
    let began = Instant::now();
    let writing = async {
        cluster.plane.load(pods.iter().cloned()).await?;
        Outcome::Ok(began.elapsed())
    };
    let mut watching = Observer::new(cluster);
    let counting = async {
        let count = pods.len() as i64;
        let counted = watching
            .until("the exact count", TIMEOUT, |name, status| {
                name == "cluster" && status.problematic_pod_count == count
            })
            .await?;
        let complete = if is_complete(&counted.status) {
            None
        } else {
            let wanted = |name: &str, status: &OrchestrStatus| name == "cluster" && is_complete(status);
            Some(watching.until("the logs", TIMEOUT, wanted).await?)
        };
        Outcome::Ok((counted, complete))
    };
    let probing = flip_probes(cluster, &mut observer, flags.window.min(Duration::from_secs(20)));
    let (written, (counted, complete), latencies) = tokio::try_join!(writing, counting, probing)?;
    let mut add = |name: &str, value: f64, unit: &str| figures.add(variable, at, name, value, unit);
    add("writing them took", written.as_secs_f64(), "s")?;
    add("first write to exact count", (counted.at - began).as_secs_f64(), "s")?;
    let last = complete.as_ref().unwrap_or(&counted);
    add("first write to every log that is to be had", (last.at - began).as_secs_f64(), "s")?;
    let bytes = serde_json::to_vec(&last.status)?.len();
    if bytes > 256 * 1024 {
        return Err(trouble(format!("a status of {bytes} bytes")));
    }
    add("status", bytes as f64 / 1024.0, "KiB")?;
    add("log requests to the kubelet, with the probes'", (cluster.kubelet.requests().len() - asked) as f64, "")?;
    add("most concurrent requests", cluster.kubelet.peak_in_flight() as f64, "")?;
    add("processor time meanwhile", (process.cpu()? - before).as_secs_f64(), "s")?;
    let budget = Some(FAILURES_BUDGET).filter(|_| variable == "failing pods" && at == MOST_FAILURES);
    figures.add_budgeted(variable, at, "peak resident memory", process.peak_mib()?, "MiB", budget)?;
    figures.add_latencies(variable, at, "latency of other pods", latencies, [Some(40.0), Some(100.0)])?;

    let healthy: Vec<_> = (0..cluster.pods)
        .map(|index| filler(index, &cluster.shape))
        .filter(|(key, _)| pods.iter().any(|(failed, _)| failed == key))
        .collect();
    cluster.plane.load(healthy).await?;
    process.stop().await
}
