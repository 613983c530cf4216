//! Runs the operator against a real API server while pods fail and recover, and prints the reported problems.
//!
//! `cargo run --example demo` runs until Ctrl-C. With `--once` it ends after the last step. Both fail if the status
//! does not list exactly the problems of each step.

#![allow(clippy::print_stdout, reason = "a demo prints")]

mod cluster;
mod faults;
mod receiver;
mod scenario;

use std::{error::Error, process::ExitCode, time::Duration};

use orchestr::{
    alerts::{
        address::AddressPolicy,
        delivery::{AlertLog, DeliveryOptions},
        destination::UrlPolicy,
    },
    api::OrchestrStatus,
    app,
    config::{LogFormat, Logging, RunConfig, StreamingLists, TelemetryConfig, Timings},
    metrics::Metrics,
    telemetry,
    watchdog::Heartbeat,
};
use orchestr_testbed::{ControlPlane, Kubelet, Options};
use tokio_util::sync::CancellationToken;

use self::{
    cluster::Cluster,
    scenario::{STEPS, Step},
};

/// The limit for the status to follow a step, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The pause after each step, to read it.
const READING_TIME: Duration = Duration::from_secs(6);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    let once = std::env::args().skip(1).any(|argument| argument == "--once");
    let result = tokio::select! {
        result = run(once) => result,
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(once: bool) -> Result<()> {
    heading("Starting etcd and kube-apiserver (built once with Go, which takes some minutes)");
    let plane = ControlPlane::start(Options::default()).await?;
    let kubelet = Kubelet::start(&plane, scenario::NODE).await?;
    let cluster = Cluster::new(&plane, &kubelet).await?;
    println!("{} healthy pods in {} namespaces, and more to come.", cluster.healthy, cluster.namespaces);

    heading("Starting the operator");
    let shutdown = CancellationToken::new();
    let config = RunConfig {
        namespaces: None,
        own_namespace_only: false,
        cluster_name: None,
        streaming_lists: StreamingLists::Auto,
        pod_log_reads: 8,
        // The demo's receiver is on this machine.
        webhooks: DeliveryOptions {
            urls: UrlPolicy { plain_http: true, addresses: AddressPolicy { private: true, loopback: true } },
            proxy_from_env: false,
        },
        leader_election: None,
        logging: Logging { format: LogFormat::Text, filter: "warn".to_owned() },
        telemetry: TelemetryConfig::default(),
        timings: Timings::default(),
    };
    let (metrics, heartbeat) = (Metrics::with_state(), Heartbeat::default());
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let metrics_url = format!("http://{}/metrics", listener.local_addr()?);
    telemetry::start(Some(listener), None, metrics.clone(), heartbeat.clone())?;
    let operator = tokio::spawn({
        let (client, shutdown) = (plane.admin()?, shutdown.clone());
        async move { app::run(client, &config, metrics, AlertLog::default(), heartbeat, shutdown).await }
    });

    for step in STEPS {
        run_step(&cluster, step).await?;
        if !once {
            tokio::time::sleep(READING_TIME).await;
        }
    }

    cluster.show_everything(once).await?;
    heading("Alerts: the message that a Slack channel gets if the object has a webhook");
    let receiver = receiver::receive_first(&plane).await?;
    if !once {
        heading("Try it yourself in another terminal; Ctrl-C ends the demo");
        println!("  export KUBECONFIG={}", plane.admin_kubeconfig().display());
        println!("  kubectl get orchestr -A");
        println!("  kubectl get orchestr -n {} {} -o yaml", cluster::NAMESPACE, cluster::OBJECT);
        println!("  curl {metrics_url}");
        println!("  cargo run -- show {}/{}", cluster::NAMESPACE, cluster::OBJECT);
        println!("  cargo run -- scan");
        println!("Alerts from now on:");
        receiver::receive_more(&receiver).await?;
    }
    shutdown.cancel();
    tokio::time::timeout(TIMEOUT, operator).await??;
    println!("\nEvery problem was reported, and every recovered pod was removed from the report.");
    Ok(())
}

/// Applies a step, and waits until the status lists its problems.
async fn run_step(cluster: &Cluster<'_>, step: &Step) -> Result<()> {
    heading(step.title);
    let begun = std::time::Instant::now();
    cluster.apply(step).await?;
    let expected = cluster.expected(step);
    let is_reported = |status: &OrchestrStatus| {
        let common_causes: Vec<_> = status.common_causes.iter().map(|cause| cause.name.as_str()).collect();
        reported(status) == expected && status.missing_pods == step.missing && common_causes == step.common_causes
    };
    let status = cluster.wait_for_status(TIMEOUT, is_reported).await?;
    println!("The status was up to date after {} ms.\n", begun.elapsed().as_millis());
    cluster.show_objects().await?;
    cluster::show_incidents(&status);
    Ok(())
}

/// The reported pods with STATUS and reason, sorted.
fn reported(status: &OrchestrStatus) -> Vec<(String, String, String)> {
    let mut reported: Vec<_> = status
        .problematic_pods
        .iter()
        .map(|pod| (format!("{}/{}", pod.namespace, pod.name), pod.status.clone(), pod.reason.clone()))
        .collect();
    reported.sort();
    reported
}

fn heading(text: &str) {
    println!("\n=== {text}");
}
