//! Many objects that select the same pods during a rollout. The pods are starting, so no status shows them: every
//! change affects every object, but does not cause a write.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use orchestr_testbed::{
    ControlPlane,
    objects::{ago, pod, stored},
    pods::{Shape, filler_name},
};
use serde_json::json;

use crate::{
    Flags, Outcome,
    churn::{PROBES, flip_probes, make_probes},
    cluster::Cluster,
    figures::Figures,
    observer::Observer,
    process::Process,
};

/// The number of pods that do not change.
const PODS: usize = 10_000;
/// The number of pods that start at the same time.
const STARTING: usize = 500;
/// Connections over which changes are written; each waits for etcd's answer.
const LANES: usize = 8;
const TIMEOUT: Duration = Duration::from_secs(300);

pub async fn run(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("rollout")?;
    let shape = Shape { crash_looping: 0, ..Shape::default() };
    let cluster = Cluster::start(flags.pods.first().copied().unwrap_or(PODS).min(PODS), shape).await?;
    for number in 0..flags.objects {
        cluster.object(&format!("object-{number}"), json!({"excludeNamespaces": ["probe-*"]})).await?;
    }
    make_probes(&cluster).await?;
    let mut observer = Observer::new(&cluster);
    let process = Process::start(&flags.binary, &cluster.kubeconfig, &[], flags.log.as_deref())?;
    let mut first = std::collections::BTreeSet::new();
    while first.len() < flags.objects + PROBES {
        let seen = observer.until("every object's status", TIMEOUT, |_, status| status.watched_pods > 0).await?;
        first.insert(seen.name);
    }
    for rate in [0, 100, 1_000] {
        let name = |what: &str| format!("{rate} changes/s: {what}");
        let before = (process.cpu()?, cluster.requests()?);
        let (written, latencies) = tokio::try_join!(
            starting(&cluster.plane, &cluster.shape, rate, flags.window),
            flip_probes(&cluster, &mut observer, flags.window),
        )?;
        let mut add =
            |what: &str, value: f64, unit: &str| figures.add("objects", flags.objects, &name(what), value, unit);
        add("attained", written as f64 / flags.window.as_secs_f64(), "changes/s")?;
        let busy = (process.cpu()? - before.0).as_secs_f64() / flags.window.as_secs_f64();
        add("processor", busy * 100.0, "%")?;
        let after = cluster.requests()?;
        let others = after.writes.iter().filter(|(name, _)| !name.starts_with("probe-"));
        let writes = others.map(|(name, writes)| writes.len() - before.1.writes.get(name).map_or(0, Vec::len));
        add("writes of the objects that see the rollout", writes.sum::<usize>() as f64, "")?;
        figures.add_latencies("objects", flags.objects, &name("latency of other objects"), latencies, [None, None])?;
    }
    figures.print();
    process.stop().await
}

/// Changes starting pods at this rate per second, and returns the number of changes.
async fn starting(plane: &ControlPlane, shape: &Shape, rate: usize, during: Duration) -> Outcome<u64> {
    if rate == 0 {
        tokio::time::sleep(during).await;
        return Ok(0);
    }
    let lanes = (0..LANES).map(|lane| async move {
        let mut writer = plane.writer().await?;
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(LANES as f64 / rate as f64));
        let end = Instant::now() + during;
        let mut written = 0;
        for round in 0.. {
            for index in (lane..STARTING).step_by(LANES) {
                if Instant::now() >= end {
                    return Ok(written);
                }
                ticks.tick().await;
                let (key, pod) = starts(index, round, shape);
                writer.put(&key, pod).await?;
                written += 1;
            }
        }
        Outcome::Ok(written)
    });
    Ok(try_join_all(lanes).await?.into_iter().sum())
}

/// A pod whose containers started to be created just now.
fn starts(index: usize, round: u64, shape: &Shape) -> (String, String) {
    let (namespace, _) = filler_name(index, shape);
    let name = format!("starts-{index}");
    let now = ago(0);
    let changes = json!({
        "metadata": {"creationTimestamp": now, "labels": {"app.kubernetes.io/name": "rollout"}},
        "spec": {"nodeName": "node-0"},
        "status": {
            "phase": "Pending", "startTime": now, "message": format!("round {round}"),
            "conditions": [{"type": "PodScheduled", "status": "True"}],
        },
    });
    stored("pods", &pod(&namespace, &name, changes))
}
