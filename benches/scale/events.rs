//! What Warning events cost: an hour's events within seconds, at increasing numbers an hour.

use std::time::Duration;

use orchestr_testbed::pods::{Shape, filler_name};
use serde_json::json;

use crate::{
    Flags, Outcome,
    churn::{flip_probes, make_probes},
    cluster::Cluster,
    figures::Figures,
    observer::Observer,
    process::Process,
};

const TIMEOUT: Duration = Duration::from_secs(120);
/// How long to wait before the events.
const SETTLING: Duration = Duration::from_secs(3);
const PODS: usize = 10_000;
/// Events in an hour.
const RATES: [usize; 4] = [0, 2_000, 20_000, 100_000];
/// The rate that has a budget, and that budget in MiB.
const BUDGETED_RATE: usize = 20_000;
const BUDGET: f64 = 6.0;

pub async fn run(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("events")?;
    let cluster = Cluster::start(PODS, Shape::default()).await?;
    let most = flags.most.unwrap_or(usize::MAX);
    let mut without = None;
    let mut written = 0;
    for rate in RATES.into_iter().filter(|&rate| rate <= most) {
        cluster.clear_objects().await?;
        cluster.object("cluster", json!({"excludeNamespaces": ["probe-*"]})).await?;
        make_probes(&cluster).await?;
        let mut observer = Observer::new(&cluster);
        let requests_before = cluster.requests()?;
        let process = Process::start(&flags.binary, &cluster.kubeconfig, &[], flags.log.as_deref())?;
        observer
            .until("a full status", TIMEOUT, |name, status| name == "cluster" && status.watched_pods == PODS as i64)
            .await?;
        tokio::time::sleep(SETTLING).await;
        let cpu = process.cpu()?;
        cluster.plane.load((written..written + rate).map(|index| event(index, &cluster.shape))).await?;
        written += rate;
        // While events are handled, changes of pods must not wait.
        let latencies = flip_probes(&cluster, &mut observer, flags.window.min(Duration::from_secs(20))).await?;
        let mut add = |name: &str, value: f64, unit: &str| figures.add("events", rate, name, value, unit);
        add("processor time, with that of 20 s of changes", (process.cpu()? - cpu).as_secs_f64(), "s")?;
        for (request, count) in cluster.requests()?.since(&requests_before) {
            if request.ends_with(" events") && !request.starts_with("create") && !request.starts_with("patch") {
                add(&format!("requests: {request}"), count as f64, "")?;
            }
        }
        let peak = process.peak_mib()?;
        add("peak resident memory", peak, "MiB")?;
        let base = *without.get_or_insert(peak);
        let budget = Some(BUDGET).filter(|_| rate == BUDGETED_RATE);
        figures.add_budgeted("events", rate, "more than without events", peak - base, "MiB", budget)?;
        figures.add_latencies("events", rate, "latency", latencies, [None, None])?;
        process.stop().await?;
    }
    figures.print();
    Ok(())
}

/// The key in etcd and the JSON of event number `index`: each of another pod and with a message of its own.
fn event(index: usize, shape: &Shape) -> (String, String) {
    let (namespace, pod) = filler_name(index % PODS, shape);
    let (reason, message) = match index % 3 {
        0 => (
            "Unhealthy",
            format!(
                "Readiness probe failed: Get \"http://10.0.{}.{}:8080/healthz\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
                index >> 8 & 255,
                index & 255
            ),
        ),
        1 => (
            "FailedMount",
            format!(
                "MountVolume.SetUp failed for volume \"settings-{index}\" : configmap \"settings-{index}\" not found"
            ),
        ),
        _ => (
            "BackOff",
            format!(
                "Back-off restarting failed container app in pod {pod}_{namespace}(0f111e50-0000-4000-8000-{index:012x})"
            ),
        ),
    };
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let name = format!("{pod}.{index:016x}");
    let json = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("0e7e0000-0000-4000-8000-{index:012x}"), "creationTimestamp": now},
        "involvedObject": {
            "apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": pod,
            "uid": format!("0f111e50-0000-4000-8000-{:012x}", index % PODS), "fieldPath": "spec.containers{app}",
        },
        "type": "Warning", "reason": reason, "message": message, "count": 1 + index % 40,
        "firstTimestamp": now, "lastTimestamp": now, "source": {"component": "kubelet", "host": "node-0"},
    });
    (format!("/registry/events/{namespace}/{name}"), json.to_string())
}
