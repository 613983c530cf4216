//! The budgets: memory, the time to the first status, processor time and latency, at several sizes.

use std::time::Duration;

use orchestr_testbed::pods::{Shape, filler};
use serde_json::json;

use crate::{
    Flags, Outcome,
    churn::{background, flip_probes, make_probes},
    cluster::{Cluster, JSON, PROTOBUF},
    figures::{Figures, median},
    observer::Observer,
    process::Process,
};

/// The limit for a first status.
const TIMEOUT: Duration = Duration::from_secs(300);
/// How long to wait before the memory is measured.
const SETTLING: Duration = Duration::from_secs(10);

/// A mode of listing pods, with the factor by which it may exceed the budgets.
struct ListMode {
    name: &'static str,
    flags: &'static [&'static str],
    allowance: f64,
}

const LIST_MODES: [ListMode; 2] = [
    ListMode { name: "streamed", flags: &[], allowance: 1.0 },
    ListMode { name: "paged", flags: &["--streaming-lists", "never"], allowance: 1.5 },
];

/// The budgets at a number of pods.
struct Budgets {
    /// The peak resident memory, in MiB.
    memory: f64,
    /// The first full status against one raw LIST in JSON, and against one in protobuf.
    lists: [f64; 2],
}

fn budgets(pods: usize) -> Option<Budgets> {
    match pods {
        10_000 => Some(Budgets { memory: 16.0, lists: [1.0, 1.3] }),
        50_000 => Some(Budgets { memory: 24.0, lists: [0.75, 1.2] }),
        150_000 => Some(Budgets { memory: 40.0, lists: [0.75, 1.2] }),
        _ => None,
    }
}

pub async fn run(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("budgets")?;
    for &pods in &flags.pods {
        println!("\n{pods} pods");
        let cluster = Cluster::start(pods, Shape::default()).await?;
        first_status(&cluster, flags, &mut figures).await?;
        if !flags.no_churn {
            steady(&cluster, flags, &mut figures).await?;
        }
    }
    figures.print();
    Ok(())
}

/// Keeps a cluster running, for other programs.
pub async fn hold(flags: &Flags) -> Outcome {
    let pods = flags.pods.first().copied().unwrap_or_default();
    let cluster = Cluster::start(pods, Shape::default()).await?;
    cluster.object("cluster", json!({})).await?;
    println!("  KUBECONFIG={}", cluster.kubeconfig.display());
    tokio::time::sleep(flags.window).await;
    Ok(())
}

/// The number of failing pods in the cluster.
fn troubled(cluster: &Cluster) -> i64 {
    let broken = (0..cluster.pods.min(cluster.shape.workloads))
        .filter(|&index| filler(index, &cluster.shape).1.contains("CrashLoopBackOff"));
    let per_workload = |workload: usize| (cluster.pods - workload).div_ceil(cluster.shape.workloads);
    broken.map(per_workload).sum::<usize>() as i64
}

/// In each round, makes a raw LIST and starts the operator in each list mode.
pub async fn first_status(cluster: &Cluster, flags: &Flags, figures: &mut Figures) -> Outcome {
    let at = cluster.pods;
    let expected = (cluster.pods as i64, troubled(cluster));
    let (mut raw, mut raw_protobuf) = (Vec::new(), Vec::new());
    let mut list_bytes = 0;
    let mut times = [Vec::new(), Vec::new()];
    let mut peaks = [Vec::new(), Vec::new()];
    let mut settled = [Vec::new(), Vec::new()];
    for round in 0..flags.rounds {
        let (time, bytes) = cluster.raw_list(JSON).await?;
        raw.push(time.as_secs_f64());
        list_bytes = bytes;
        for (index, way) in LIST_MODES.iter().enumerate() {
            let sent_before = cluster.pod_bytes().await?;
            cluster.clear_objects().await?;
            cluster.object("cluster", json!({})).await?;
            let mut observer = Observer::new(cluster);
            let requests_before = cluster.requests()?;
            let process = Process::start(&flags.binary, &cluster.kubeconfig, way.flags, flags.log.as_deref())?;
            let seen = observer
                .until("a full and correct status", TIMEOUT, |name, status| {
                    name == "cluster" && (status.watched_pods, status.problematic_pod_count) == expected
                })
                .await?;
            times[index].push((seen.at - process.started).as_secs_f64());
            peaks[index].push(process.peak_mib()?);
            if round + 1 == flags.rounds {
                tokio::time::sleep(SETTLING.min(flags.window)).await;
                settled[index].push((process.resident_mib()?, process.anonymous_mib()?, process.cpu()?.as_secs_f64()));
                let requests = cluster.requests()?.since(&requests_before);
                for (request, count) in requests {
                    figures.add("pods", at, &format!("{}: requests: {request}", way.name), count as f64, "")?;
                }
                let sent = cluster.pod_bytes().await? - sent_before;
                figures.add("pods", at, &format!("{}: pods sent by the API server", way.name), sent / 1e6, "MB")?;
            }
            process.stop().await?;
        }
        raw_protobuf.push(cluster.raw_list(PROTOBUF).await?.0.as_secs_f64());
    }
    figures.add("pods", at, "raw LIST: bytes", list_bytes as f64 / 1e6, "MB")?;
    figures.add("pods", at, "raw LIST: median", median(raw.clone()), "s")?;
    figures.add("pods", at, "raw LIST in protobuf: median", median(raw_protobuf.clone()), "s")?;
    for (index, way) in LIST_MODES.iter().enumerate() {
        let name = |what: &str| format!("{}: {what}", way.name);
        let budgets = budgets(at);
        figures.add("pods", at, &name("exec to first full status, median"), median(times[index].clone()), "s")?;
        for (list, (encoding, raw)) in [("JSON", &raw), ("protobuf", &raw_protobuf)].into_iter().enumerate() {
            let ratios = times[index].iter().zip(raw).map(|(time, raw)| time / raw).collect();
            let budget = budgets.as_ref().map(|budgets| budgets.lists[list] * way.allowance);
            let name = name(&format!("the same, against the raw LIST in {encoding}, median"));
            figures.add_budgeted("pods", at, &name, median(ratios), "×", budget)?;
        }
        let budget = budgets.map(|budgets| budgets.memory * way.allowance);
        let peak = peaks[index].iter().copied().fold(0.0, f64::max);
        figures.add_budgeted("pods", at, &name("peak resident memory"), peak, "MiB", budget)?;
        for &(resident, anonymous, cpu) in &settled[index] {
            figures.add("pods", at, &name("settled resident memory"), resident, "MiB")?;
            figures.add("pods", at, &name("of it, not backed by files"), anonymous, "MiB")?;
            figures.add("pods", at, &name("processor time until settled"), cpu, "s")?;
        }
    }
    Ok(())
}

/// Measures the operator when idle, and while pods change.
async fn steady(cluster: &Cluster, flags: &Flags, figures: &mut Figures) -> Outcome {
    let at = cluster.pods;
    cluster.clear_objects().await?;
    cluster.object("cluster", json!({"excludeNamespaces": ["probe-*"]})).await?;
    make_probes(cluster).await?;
    let expected = (cluster.pods as i64, troubled(cluster));
    let mut observer = Observer::new(cluster);
    let started = jiff::Timestamp::now();
    let process = Process::start(&flags.binary, &cluster.kubeconfig, &[], flags.log.as_deref())?;
    observer
        .until("a full and correct status", TIMEOUT, |name, status| {
            name == "cluster" && (status.watched_pods, status.problematic_pod_count) == expected
        })
        .await?;
    tokio::time::sleep(SETTLING.min(flags.window)).await;

    let before = process.cpu()?;
    tokio::time::sleep(flags.window).await;
    let per_minute = 60.0 / flags.window.as_secs_f64();
    figures.add("pods", at, "idle: processor time", (process.cpu()? - before).as_secs_f64() * per_minute, "s/min")?;

    for rate in [100, 1_000] {
        let name = |what: &str| format!("{rate} changes/s: {what}");
        let before = (process.cpu()?, cluster.pod_bytes().await?, cluster.requests()?);
        let (written, latencies) = tokio::try_join!(
            background(&cluster.plane, &cluster.shape, cluster.pods, rate, flags.window),
            flip_probes(cluster, &mut observer, flags.window),
        )?;
        let cpu = (process.cpu()? - before.0).as_secs_f64() * per_minute;
        let sent = (cluster.pod_bytes().await? - before.1) * per_minute;
        figures.add("pods", at, &name("attained"), written as f64 / flags.window.as_secs_f64(), "changes/s")?;
        figures.add("pods", at, &name("processor time"), cpu, "s/min")?;
        figures.add("pods", at, &name("pods sent by the API server, to itself too"), sent / 1e6, "MB/min")?;
        let budgets = if rate == 100 { [Some(40.0), Some(100.0)] } else { [None, Some(200.0)] };
        figures.add_latencies("pods", at, &name("latency"), latencies, budgets)?;
        for (request, count) in cluster.requests()?.since(&before.2) {
            figures.add("pods", at, &name(&format!("requests: {request}")), count as f64, "")?;
        }
        figures.add("pods", at, &name("peak resident memory so far"), process.peak_mib()?, "MiB")?;
    }
    if let Some(least) = cluster.requests()?.least_interval(started) {
        figures.add("pods", at, "least time between two writes of one status", least, "s")?;
    }
    process.stop().await
}
