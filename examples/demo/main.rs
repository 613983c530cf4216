//! A real API server, pods that fail in different ways, the operator, and what it says, live.
//!
//! `cargo run --example demo` goes on until Ctrl-C. With `--once` it runs through, and fails when what it
//! shows is not what it loaded.

#![allow(clippy::print_stdout, reason = "printing is what a demo does")]

mod cast;
mod ear;
mod stage;

use std::{error::Error, process::ExitCode, time::Duration};

use orchestr::{
    alerts::{address::AddressPolicy, delivery::DeliveryOptions, destination::UrlPolicy},
    api::OrchestrStatus,
    app,
    config::{CHECK_INTERVAL, LogFormat, Logging, RunConfig, StreamingLists},
};
use orchestr_testbed::{ControlPlane, Kubelet, Options};
use tokio_util::sync::CancellationToken;

use self::{
    cast::{ACTS, Act},
    stage::Stage,
};

/// How long the status may take to show what an act has changed, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a person has to read what an act has changed.
const READING_TIME: Duration = Duration::from_secs(6);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> ExitCode {
    let once = std::env::args().skip(1).any(|argument| argument == "--once");
    let result = tokio::select! {
        result = play(once) => result,
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

async fn play(once: bool) -> Result<()> {
    heading("Starting etcd and kube-apiserver (built once with Go, which takes some minutes)");
    let plane = ControlPlane::start(Options::default()).await?;
    let kubelet = Kubelet::start(&plane, cast::NODE).await?;
    let stage = Stage::set(&plane, &kubelet).await?;
    println!("{} healthy pods in {} namespaces, and more to come.", stage.healthy, stage.namespaces);

    heading("Starting the operator");
    let shutdown = CancellationToken::new();
    let config = RunConfig {
        namespaces: None,
        cluster_name: None,
        streaming_lists: StreamingLists::Auto,
        pod_log_reads: 8,
        check_interval: CHECK_INTERVAL,
        // The demo's receiver is on this machine.
        webhooks: DeliveryOptions {
            urls: UrlPolicy { plain_http: true, addresses: AddressPolicy { private: true, loopback: true } },
            proxy_from_env: false,
        },
        logging: Logging { format: LogFormat::Text, filter: "warn".to_owned() },
    };
    let operator = tokio::spawn({
        let (client, shutdown) = (plane.admin()?, shutdown.clone());
        async move { app::run(client, &config, shutdown).await }
    });

    for act in ACTS {
        perform(&stage, act).await?;
        if !once {
            tokio::time::sleep(READING_TIME).await;
        }
    }

    stage.show_everything(once).await?;
    heading("Telling somebody: what a Slack channel gets when the object has a webhook");
    let receiver = ear::listen(&plane).await?;
    if !once {
        heading("Look for yourself, in another terminal; Ctrl-C ends the demo");
        println!("  export KUBECONFIG={}", plane.admin_kubeconfig().display());
        println!("  kubectl get orchestr -A");
        println!("  kubectl get orchestr -n {} {} -o yaml", stage::NAMESPACE, stage::OBJECT);
        println!("  cargo run -- scan");
        println!("What is told from now on:");
        ear::go_on(&receiver).await?;
    }
    shutdown.cancel();
    tokio::time::timeout(PATIENCE, operator).await??;
    println!("\nEverything that was loaded was told, and everything that recovered was taken back.");
    Ok(())
}

/// Changes the cluster, and waits until the status says so.
async fn perform(stage: &Stage<'_>, act: &Act) -> Result<()> {
    heading(act.title);
    let begun = std::time::Instant::now();
    stage.change(act).await?;
    let expected = stage.expected(act);
    let status = stage.status_where(PATIENCE, |status| told(status) == expected).await?;
    println!("The status said so after {} ms.\n", begun.elapsed().as_millis());
    stage.show_objects().await?;
    stage::show_problems(&status);
    Ok(())
}

/// What a status says, as far as the demo knows what it must say: each pod's STATUS and reason, sorted.
fn told(status: &OrchestrStatus) -> Vec<(String, String, String)> {
    let mut told: Vec<_> = status
        .problematic_pods
        .iter()
        .map(|pod| (format!("{}/{}", pod.namespace, pod.name), pod.status.clone(), pod.reason.clone()))
        .collect();
    told.sort();
    told
}

fn heading(text: &str) {
    println!("\n=== {text}");
}
