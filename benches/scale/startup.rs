//! The startup time and memory of the operator in a cluster without pods.

use std::time::Duration;

use serde_json::json;

use orchestr_testbed::pods::Shape;

use crate::{
    Flags, Outcome,
    cluster::Cluster,
    figures::{Figures, median},
    observer::Observer,
    process::Process,
};

pub async fn run(flags: &Flags) -> Outcome {
    let mut figures = Figures::new("startup")?;
    let cluster = Cluster::start(0, Shape { nodes: 1, ..Shape::default() }).await?;
    let (mut times, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..flags.rounds {
        cluster.clear_objects().await?;
        cluster.object("cluster", json!({})).await?;
        let mut observer = Observer::new(&cluster);
        let process = Process::start(&flags.binary, &cluster.kubeconfig, &[], flags.log.as_deref())?;
        let is_watching = |_: &str, status: &orchestr::api::OrchestrStatus| {
            status.conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        };
        let seen = observer.until("Ready", Duration::from_secs(30), is_watching).await?;
        times.push((seen.at - process.started).as_secs_f64() * 1e3);
        memory.push(process.peak_mib()?);
        process.stop().await?;
    }
    figures.add("pods", 0, "exec to a status seen as Ready, median", median(times), "ms")?;
    figures.add("pods", 0, "peak resident memory, median", median(memory), "MiB")?;
    let size = std::fs::metadata(&flags.binary)?.len() as f64 / f64::from(1 << 20);
    figures.add("pods", 0, "the binary", size, "MiB")?;
    figures.print();
    Ok(())
}
