//! Changes pods: many changes that affect no status, and a few pods (probes) that fail and recover.

use std::time::{Duration, Instant};

use futures::{
    StreamExt, TryStreamExt,
    future::{ready, try_join_all},
    stream::BoxStream,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    runtime::watcher::{self, Event, watcher},
};
use orchestr_testbed::{
    ControlPlane,
    pods::{Health, Shape, filler, filler_as},
};
use serde_json::json;

use crate::{Outcome, cluster::Cluster, observer::Observer, trouble};

/// Connections over which background changes are written; each waits for etcd's answer.
const LANES: usize = 8;
/// The number of probes. Each is a pod with its own `Orchestr`, because a status is written at most once a second: with
/// a shared one, the latency would include the wait after the write for another probe.
pub const PROBES: usize = 16;
/// The minimum and the maximum time between two changes of one probe.
const REST: [Duration; 2] = [Duration::from_millis(1_200), Duration::from_millis(1_800)];

/// Rewrites healthy pods at this rate per second, and returns the number of writes.
pub async fn background(
    plane: &ControlPlane,
    shape: &Shape,
    pods: usize,
    rate: usize,
    during: Duration,
) -> Outcome<u64> {
    if rate == 0 {
        tokio::time::sleep(during).await;
        return Ok(0);
    }
    let lanes = (0..LANES).map(|lane| async move {
        let mut writer = plane.writer().await?;
        let mut ticks = tokio::time::interval(Duration::from_secs_f64(LANES as f64 / rate as f64));
        let end = Instant::now() + during;
        let mut written = 0;
        for round in 2.. {
            for index in (lane..pods).step_by(LANES) {
                if (index % shape.workloads.max(1)).is_multiple_of(shape.crash_looping.max(1))
                    && shape.crash_looping > 0
                {
                    continue;
                }
                if Instant::now() >= end {
                    return Ok(written);
                }
                ticks.tick().await;
                let (key, json) = filler(index, shape);
                let json = json.replacen(r#""observedGeneration":1"#, &format!(r#""observedGeneration":{round}"#), 1);
                writer.put(&key, json).await?;
                written += 1;
            }
        }
        Outcome::Ok(written)
    });
    Ok(try_join_all(lanes).await?.into_iter().sum())
}

/// The shape of the probes' pods: each has its own namespace, and all are on the kubelet's node.
fn probe_shape() -> Shape {
    Shape { namespaces: 1, workloads: 1, nodes: 200, env: 20, crash_looping: 0 }
}

fn probe(number: usize, health: Health) -> (String, String) {
    // UIDs are derived from the index, so probes use other indexes than the other pods.
    let (key, json) = filler_as(10_000_000 + number, &probe_shape(), health);
    let namespace = format!("probe-{number}");
    (key.replace("/team-0/", &format!("/{namespace}/")), json.replace("\"team-0\"", &format!("\"{namespace}\"")))
}

/// Creates the healthy probes and their objects.
pub async fn make_probes(cluster: &Cluster) -> Outcome {
    cluster.plane.load((0..PROBES).map(|number| probe(number, Health::Healthy))).await?;
    for number in 0..PROBES {
        let name = format!("probe-{number}");
        cluster.object(&name, json!({"namespaces": [name]})).await?;
    }
    Ok(())
}

/// The latencies of changes.
#[derive(Default)]
pub struct Latencies {
    /// From just before a pod is written to etcd, until a watch of this bench receives the status.
    pub statuses: Vec<Duration>,
    /// The same until a watch of this bench receives the pod: the part of the latency that the API server causes.
    pub pods: Vec<Duration>,
}

/// The container ID of a probe's instance.
fn life(number: usize, restarts: u32) -> String {
    format!("{number:032x}{restarts:032x}")
}

/// The container IDs of the probes, from a watch of pods.
fn lives(cluster: &Cluster) -> BoxStream<'static, watcher::Result<String>> {
    let namespaces: Vec<String> = (0..PROBES).map(|number| format!("probe-{number}")).collect();
    let labels = format!("app.kubernetes.io/part-of in ({})", namespaces.join(","));
    let pods = watcher(Api::<Pod>::all(cluster.client.clone()), watcher::Config::default().labels(&labels));
    let id = |pod: Pod| pod.status?.container_statuses?.into_iter().next()?.container_id;
    pods.try_filter_map(move |event| {
        ready(Ok(match event {
            Event::Apply(pod) | Event::InitApply(pod) => id(pod),
            _ => None,
        }))
    })
    .boxed()
}

/// Changes the probes' states. Fails if the status does not follow a change within 30 s.
pub async fn flip_probes(cluster: &Cluster, observer: &mut Observer, during: Duration) -> Outcome<Latencies> {
    struct Probe {
        restarts: u32,
        failing: bool,
        changed: Option<Instant>,
        next: Instant,
    }

    let rest = || REST[0] + (REST[1] - REST[0]).mul_f64(fastrand::f64());
    let start = Instant::now();
    let mut probes: Vec<Probe> = (0..PROBES)
        .map(|_| Probe { restarts: 0, failing: false, changed: None, next: start + REST[1].mul_f64(fastrand::f64()) })
        .collect();
    let mut writer = cluster.plane.writer().await?;
    let mut lives = lives(cluster);
    let mut latencies = Latencies::default();
    loop {
        let now = Instant::now();
        let ends = now >= start + during;
        if ends && probes.iter().all(|probe| probe.changed.is_none()) {
            break;
        }
        if let Some(number) =
            probes.iter().position(|probe| probe.changed.is_some_and(|at| now - at > Duration::from_secs(30)))
        {
            return Err(trouble(format!("a change of probe-{number} was not seen within 30 s")));
        }
        let resting = probes.iter_mut().enumerate().filter(|(_, probe)| !ends && probe.changed.is_none());
        let due = resting.min_by_key(|(_, probe)| probe.next);
        let wake = due.as_ref().map_or(now + Duration::from_secs(1), |(_, probe)| probe.next);
        tokio::select! {
            // Handles updates before it makes further changes.
            biased;
            Some(told) = lives.next() => {
                let (told, at) = (told?, Instant::now());
                let is_it = |(number, probe): &(usize, &Probe)| told.ends_with(&life(*number, probe.restarts));
                let changed = probes.iter().enumerate().find(is_it).and_then(|(_, probe)| probe.changed);
                latencies.pods.extend(changed.map(|changed| at - changed));
            }
            seen = observer.next() => {
                let seen = seen?;
                let number = seen.name.strip_prefix("probe-").and_then(|number| number.parse::<usize>().ok());
                if let Some(probe) = number.and_then(|number| probes.get_mut(number))
                    && (seen.status.problematic_pod_count == 1) == probe.failing
                    && let Some(changed) = probe.changed.take()
                {
                    latencies.statuses.push(seen.at - changed);
                    probe.next = seen.at + rest();
                }
            }
            () = tokio::time::sleep_until(wake.into()) => {
                let Some((number, probe)) = due else { continue };
                probe.failing = !probe.failing;
                // Each crash has a new container ID, so that the operator reads the log again.
                probe.restarts += 1;
                let health = if probe.failing { Health::CrashLooping { restarts: probe.restarts } } else { Health::Healthy };
                let (key, json) = self::probe(number, health);
                probe.changed = Some(Instant::now());
                let of_any_life = format!("{:064x}", 10_000_000 + number);
                writer.put(&key, json.replace(&of_any_life, &life(number, probe.restarts))).await?;
            }
        }
    }
    Ok(latencies)
}
