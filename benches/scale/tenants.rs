//! Many objects of many namespaces: over the same failing pods, and as large as the API server accepts.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use kube::{Api, api::PostParams};
use orchestr::api::Orchestr;
use orchestr_testbed::pods::Shape;
use serde_json::{Value, json};

use crate::{Flags, Outcome, cluster::Cluster, figures::Figures, observer::Observer, process::Process, trouble};

/// Of 20 workloads, one is crash-looping: 500 pods.
const PODS: usize = 10_000;
/// Objects per namespace.
const PER_NAMESPACE: usize = 20;
/// The budget for the peak resident memory of 1,000 objects over the same failing pods, in MiB.
const BUDGET: f64 = 128.0;
/// How many objects of the largest size there are, and the bytes of labels of each. The API server stores the name of each
/// label again in `managedFields`.
const LARGE_OBJECTS: usize = 200;
const LABEL_BYTES: usize = 550_000;
/// The API server limits all annotations of an object to 256 KiB.
const ANNOTATION_BYTES: usize = 250_000;
const TIMEOUT: Duration = Duration::from_secs(300);
/// How much longer to wait for each object: its status is written three or four times, and the API server needs up to
/// 150 ms of processor time for a write of 140 KiB.
const PER_OBJECT: Duration = Duration::from_secs(1);
/// How often the memory is read.
const SAMPLE: Duration = Duration::from_millis(50);

/// Objects that select the same 500 failing pods.
pub async fn same_pods(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("same-pods")?;
    let cluster = Cluster::start(PODS, Shape { crash_looping: 20, ..Shape::default() }).await?;
    for count in [1, 100, flags.most.unwrap_or(1_000)] {
        cluster.clear_objects_of(&tenants(count)).await?;
        create(&cluster, count, |_| json!({})).await?;
        for start in ["first start", "restart"] {
            let process = Process::start(&flags.binary, &cluster.kubeconfig, &[], flags.log.as_deref())?;
            let is_restart = start == "restart";
            let read_back = if is_restart { Some(peak_while_reading(&process, TIMEOUT).await?) } else { None };
            let settled = settle(&cluster, &process, count, is_restart).await?;
            let mut add = |name: &str, value: f64, unit: &str, budget: Option<f64>| {
                figures.add_budgeted("objects", count, &format!("{start}: {name}"), value, unit, budget)
            };
            add("to the last complete status", settled.as_secs_f64(), "s", None)?;
            if let Some(read_back) = read_back {
                add("peak resident memory while the statuses are read back", read_back, "MiB", Some(BUDGET))?;
            }
            add("peak resident memory", process.peak_mib()?, "MiB", Some(BUDGET))?;
            add("settled", process.resident_mib()?, "MiB", None)?;
            add("processor time", process.cpu()?.as_secs_f64(), "s", None)?;
            process.stop().await?;
        }
    }
    figures.print();
    Ok(())
}

/// Objects of the largest size, whose list a restarted operator receives.
pub async fn large_objects(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("large-objects")?;
    let cluster = Cluster::start(100, Shape::default()).await?;
    let count = flags.most.unwrap_or(LARGE_OBJECTS);
    let metadata = |number: usize| {
        let labels: serde_json::Map<_, _> = (0..LABEL_BYTES / 300)
            .map(|label| (format!("{number}-{label:05}.{}/{}", "d".repeat(200), "n".repeat(50)), json!("v")))
            .collect();
        json!({"labels": labels, "annotations": {"example.com/large": "a".repeat(ANNOTATION_BYTES)}})
    };
    create(&cluster, count, metadata).await?;
    for start in ["first start", "restart"] {
        let process = Process::start(&flags.binary, &cluster.kubeconfig, &[], flags.log.as_deref())?;
        let settled = settle(&cluster, &process, count, start == "restart").await?;
        let mut add = |name: &str, value: f64, unit: &str| {
            figures.add("objects", count, &format!("{start}: {name}"), value, unit)
        };
        add("to the last status", settled.as_secs_f64(), "s")?;
        add("peak resident memory", process.peak_mib()?, "MiB")?;
        add("settled", process.resident_mib()?, "MiB")?;
        process.stop().await?;
    }
    figures.print();
    Ok(())
}

fn tenants(objects: usize) -> Vec<String> {
    (0..objects.div_ceil(PER_NAMESPACE)).map(|tenant| format!("tenant-{tenant}")).collect()
}

/// Creates objects, at most 20 in each namespace.
async fn create(cluster: &Cluster, count: usize, metadata: impl Fn(usize) -> Value) -> Outcome {
    for namespace in tenants(count) {
        cluster.plane.ensure_namespace(&namespace).await?;
    }
    let metadata = &metadata;
    stream::iter(0..count)
        .map(|number| async move {
            let api: Api<Orchestr> =
                Api::namespaced(cluster.client.clone(), &format!("tenant-{}", number / PER_NAMESPACE));
            let mut object = json!({
                "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": metadata(number),
                "spec": {"alerts": {"checkRunningPods": true}},
            });
            object["metadata"]["name"] = json!(format!("object-{number}"));
            api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
            Outcome::Ok(())
        })
        .buffer_unordered(4)
        .try_collect()
        .await
}

/// The peak memory until the operator needs no processor time for a moment for the first time: then it has read all objects
/// with their statuses, and waits for the pods, or has read these too.
async fn peak_while_reading(process: &Process, limit: Duration) -> Outcome<f64> {
    let deadline = Instant::now() + limit;
    let mut busy = process.cpu()?;
    while Instant::now() < deadline {
        tokio::time::sleep(SAMPLE).await;
        let cpu = process.cpu()?;
        if !cpu.is_zero() && cpu == busy {
            return process.peak_mib();
        }
        busy = cpu;
    }
    Err(trouble("the operator does not read the statuses".to_owned()))
}

/// Waits until every object has a complete status and nothing is written any more. Returns the time until then.
async fn settle(cluster: &Cluster, process: &Process, count: usize, has_status: bool) -> Outcome<Duration> {
    let began = process.started;
    if !has_status {
        let mut observer = Observer::new(cluster);
        let mut complete = BTreeSet::new();
        while complete.len() < count {
            let seen = observer
                .until("every object's status", TIMEOUT, |name, status| {
                    !complete.contains(name)
                        && status.conditions.iter().any(|own| own.type_ == "PodsHealthy" && own.status != "Unknown")
                })
                .await?;
            complete.insert(seen.name);
        }
    }
    // Logs follow, and events come back. The operator is settled when it needs no more processor time.
    let (mut settled, mut busy) = (began.elapsed(), process.cpu()?);
    let deadline = Instant::now() + TIMEOUT + PER_OBJECT * u32::try_from(count)?;
    let mut quiet = 0;
    while quiet < 5 {
        if Instant::now() > deadline {
            return Err(trouble("the operator does not settle".to_owned()));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let cpu = process.cpu()?;
        if cpu - busy > Duration::from_millis(30) {
            (settled, quiet) = (began.elapsed(), 0);
        } else {
            quiet += 1;
        }
        busy = cpu;
    }
    Ok(settled)
}
