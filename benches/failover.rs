//! Measures how long it takes until another replica writes after the leader was killed, or ended by SIGTERM:
//!
//! ```sh
//! cargo bench --bench failover
//! ```
//!
//! Two replicas run against a real API server; 20 times each, the leader is killed or ended at a random moment, and another
//! replica is started. A failing pod is shown in the status of one object.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::{
    error::Error,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::PostParams};
use orchestr::api::{Orchestr, crd::crd};
use orchestr_testbed::{
    ControlPlane, Options,
    objects::{pod, stored},
    until,
};
use serde_json::json;
use tokio::process::{Child, Command};

const ROUNDS: usize = 20;
const LIMIT: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "default";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

struct Replica {
    name: String,
    program: Child,
}

#[tokio::main]
async fn main() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let client = plane.admin()?;
    plane.install(&crd()).await?;
    let objects = Api::<Orchestr>::namespaced(client.clone(), NAMESPACE);
    let evicted = json!({"phase": "Failed", "reason": "Evicted"});
    let (key, pod) = stored("pods", &pod(NAMESPACE, "cart-0", json!({"status": evicted})));
    plane.put(&key, pod).await?;
    let object = json!({
        "apiVersion": "kopf.dev/v1", "kind": "Orchestr", "metadata": {"name": "cluster"},
        "spec": {"alerts": {"checkRunningPods": true}},
    });
    objects.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let leases = Api::<Lease>::namespaced(client, NAMESPACE);

    let mut number = 0;
    let mut start = || {
        number += 1;
        replica(plane.admin_kubeconfig(), format!("replica-{number}"))
    };
    let mut replicas = vec![start()?];
    let first = leader(&leases, &replicas).await?;
    until(objects.clone(), "cluster", LIMIT, |object| object.is_some_and(|object| object.status.is_some())).await?;
    println!(
        "{} leads\n\n| the leader is | until the Lease has a new holder | until that has written | worst |",
        replicas[first].name
    );
    println!("|---|---|---|---|");
    for (what, signal) in [("killed (SIGKILL)", "-KILL"), ("ended (SIGTERM)", "-TERM")] {
        let (mut taken, mut written) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            replicas.push(start()?);
            let leader_index = leader(&leases, &replicas).await?;
            // The follower lists the pods, and the moment within the renewals is random.
            tokio::time::sleep(Duration::from_secs(3) + Duration::from_millis(fastrand::u64(..2000))).await;
            let mut old = replicas.swap_remove(leader_index);
            let version = objects.get("cluster").await?.resource_version();
            let begun = Instant::now();
            let pid = old.program.id().ok_or("it has ended")?.to_string();
            Command::new("kill").args([signal, &pid]).status().await?;
            let took = async { leader(&leases, &replicas).await.map(|_| begun.elapsed()) };
            let wrote = async {
                let is_new =
                    |object: Option<&Orchestr>| object.is_some_and(|object| object.resource_version() != version);
                until(objects.clone(), "cluster", LIMIT, is_new).await.map(|_| begun.elapsed())
            };
            let (took, wrote) = tokio::join!(took, wrote);
            taken.push(took?);
            written.push(wrote?);
            old.program.wait().await?;
        }
        taken.sort();
        written.sort();
        let seconds = |times: &[Duration], index: usize| times[index].as_secs_f64();
        println!(
            "| {what} | {:.2} s | {:.2} s | {:.2} s |",
            seconds(&taken, ROUNDS / 2),
            seconds(&written, ROUNDS / 2),
            seconds(&written, ROUNDS - 1)
        );
    }
    Ok(())
}

fn replica(kubeconfig: &Path, name: String) -> Result<Replica> {
    let program = Command::new(env!("CARGO_BIN_EXE_orchestr"))
        .args(["run", "--leader-elect", "--namespaces", NAMESPACE, "--lease-namespace", NAMESPACE])
        .env_clear()
        .env("KUBECONFIG", kubeconfig)
        .env("HOSTNAME", &name)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    Ok(Replica { name, program })
}

/// Waits until one of the replicas holds the Lease, and returns its index.
async fn leader(leases: &Api<Lease>, replicas: &[Replica]) -> Result<usize> {
    let index = |lease: &Lease| {
        let (holder, _) = lease.spec.as_ref()?.holder_identity.as_ref()?.split_once('_')?;
        replicas.iter().position(|replica| replica.name == holder)
    };
    let lease = until(leases.clone(), "orchestr", LIMIT, |lease| lease.and_then(index).is_some()).await?;
    lease.as_ref().and_then(index).ok_or_else(|| "no leader".into())
}
