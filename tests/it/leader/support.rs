//! Replicas, and what the audit log and the receiver have recorded of them.

use std::{collections::HashMap, path::PathBuf, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams},
};
use orchestr_testbed::{Options, Received, Receiver, eventually, until};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Child;

use crate::{
    alerts::support::{spec, webhook},
    command::{self, run},
    pod_statuses::crash_looping,
    proxy::Proxy,
    support::TIMEOUT,
    test_env::{TestEnv, listed},
};

pub const LEASE: &str = "orchestr";

/// A cluster with a failing pod, an object with a webhook, and a Lease that is free.
pub struct Cluster {
    pub env: TestEnv,
    pub receiver: Receiver,
    logs: TempDir,
}

/// A running replica. It is killed when the value is dropped.
pub struct Replica {
    pub name: &'static str,
    pub program: Child,
    log: PathBuf,
}

/// A write that the API server has accepted.
#[derive(Debug)]
pub struct Write {
    /// The name of the replica.
    pub by: String,
    pub resource: String,
    pub received: Timestamp,
    pub done: Timestamp,
}

impl Cluster {
    pub async fn start(name: &str) -> Self {
        let options = Options { audit_log: true, ..Options::default() };
        let env = TestEnv::with_own_plane(name, options).await;
        let receiver = Receiver::start().await.unwrap();
        env.secret("ops", &[("url", &receiver.url("/hook?routing_key=0123456789abcdef0123456789abcdef"))]).await;
        env.pod("cart-0", crash_looping(7)).await;
        env.object("cluster", spec(&[webhook("ops", "PagerDuty", json!({}))])).await;
        let cluster = Self { env, receiver, logs: TempDir::new().unwrap() };
        // As a replica leaves it that has ended.
        let lease = json!({"metadata": {"name": LEASE}, "spec": {"leaseDurationSeconds": 1}});
        cluster.leases().create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
        cluster
    }

    pub fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.env.client.clone(), &self.env.namespace)
    }

    fn config(&self, name: &str) -> Config {
        self.env.plane.user(name, &["system:masters"])
    }

    pub fn replica(&self, name: &'static str) -> Replica {
        self.replica_with(name, &[])
    }

    /// A replica with further flags.
    pub fn replica_with(&self, name: &'static str, flags: &[&str]) -> Replica {
        let kubeconfig = self.env.plane.kubeconfig_for(name, &self.config(name)).unwrap();
        self.run(name, kubeconfig, flags)
    }

    /// A proxy with the rights of a replica.
    pub async fn proxy(&self, name: &str) -> Proxy {
        Proxy::start(Client::try_from(self.config(name)).unwrap()).await
    }

    pub fn replica_through(&self, name: &'static str, proxy: &Proxy) -> Replica {
        self.replica_through_with(name, proxy, &[])
    }

    pub fn replica_through_with(&self, name: &'static str, proxy: &Proxy, flags: &[&str]) -> Replica {
        let kubeconfig = self.env.plane.kubeconfig_for(&format!("{name}-proxy"), &proxy.config()).unwrap();
        self.run(name, kubeconfig, flags)
    }

    fn run(&self, name: &'static str, kubeconfig: PathBuf, flags: &[&str]) -> Replica {
        let log = self.logs.path().join(format!("{name}.log"));
        let file = std::fs::File::options().create(true).append(true).open(&log).unwrap();
        let mut command =
            run(&kubeconfig, &["--webhook-allow-http", "--webhook-allow-loopback", "--log-format", "json"]);
        command.args(["--leader-elect", "--lease-name", LEASE, "--lease-namespace", &self.env.namespace]);
        command.args(["--namespaces", &self.env.namespace]).args(flags).env("HOSTNAME", name);
        Replica { name, program: command.stderr(file).spawn().unwrap(), log }
    }

    /// Starts a replica and waits until it leads and has sent the first alert, and then starts the others.
    pub async fn replicas(&self, names: &[&'static str]) -> Vec<Replica> {
        let mut replicas = vec![self.replica(names[0])];
        self.wait_until_settled(names[0]).await;
        for name in &names[1..] {
            replicas.push(self.replica(name));
        }
        for replica in &replicas[1..] {
            replica.wait_for_log("the Lease has a new holder").await;
        }
        replicas
    }

    /// Waits until a replica leads and the first alert is sent and recorded.
    pub async fn wait_until_settled(&self, leader: &str) {
        self.wait_for_leader(&[leader]).await;
        self.wait_until_delivered(1).await;
    }

    /// Waits until one of these replicas holds the Lease, and returns its name.
    pub async fn wait_for_leader(&self, names: &[&str]) -> String {
        let holder = |lease: &Lease| {
            let holder = lease.spec.as_ref()?.holder_identity.as_ref()?.split_once('_')?.0.to_owned();
            names.contains(&holder.as_str()).then_some(holder)
        };
        let held = |lease: Option<&Lease>| lease.and_then(holder).is_some();
        let lease = until(self.leases(), LEASE, TIMEOUT, held).await.unwrap();
        holder(&lease.unwrap()).unwrap()
    }

    /// Waits until the receiver has this many requests, and the outcome of the last one is stored.
    pub async fn wait_until_delivered(&self, count: usize) {
        self.receiver.wait_for(count, TIMEOUT).await.unwrap();
        self.env
            .until("the delivery is recorded", |status| {
                status.webhooks.iter().any(|ops| ops.last_success.is_some() && ops.pending.is_none())
            })
            .await;
    }

    /// Waits until the status lists exactly these pods.
    pub async fn wait_for_pods(&self, names: &[&str]) {
        self.env.until("the pods are listed", |status| listed(status) == names).await;
    }

    pub async fn edit_lease(&self, spec: Value) {
        // A merge patch with a null removes what it does not name.
        let mut patch = json!({"spec": {
            "holderIdentity": null, "leaseDurationSeconds": null, "acquireTime": null, "renewTime": null,
            "leaseTransitions": null,
        }});
        for (field, value) in spec.as_object().unwrap() {
            patch["spec"][field] = value.clone();
        }
        self.leases().patch(LEASE, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    }

    /// What the replicas have written so far, except for the Lease, in this order.
    pub fn writes(&self) -> Vec<Write> {
        self.accepted(|resource| resource != "leases")
    }

    /// When the replicas have written the Lease.
    pub fn lease_writes(&self) -> Vec<Write> {
        self.accepted(|resource| resource == "leases")
    }

    /// The first write of the Lease by a replica. The API server logs a request after it has answered it.
    pub async fn first_lease_write(&self, replica: &str) -> Write {
        eventually("a write of the Lease is logged", Duration::from_secs(10), async || {
            let writes = self.lease_writes();
            writes.into_iter().find(|write| write.by == replica).ok_or_else(|| format!("none by {replica}"))
        })
        .await
        .unwrap()
    }

    fn accepted(&self, wanted: impl Fn(&str) -> bool) -> Vec<Write> {
        let mut writes: Vec<Write> = self
            .requests()
            .iter()
            .filter(|entry| entry["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300))
            .filter_map(write)
            .filter(|write| wanted(&write.resource))
            .collect();
        writes.sort_by_key(|write| write.received);
        writes
    }

    /// The audit log of the replicas' writes, including those that were refused.
    pub fn requests(&self) -> Vec<Value> {
        let mut log = self.env.plane.audit_log().unwrap();
        log.retain(|entry| {
            let is_write = ["create", "update", "patch", "delete"].map(Value::from).contains(&entry["verb"]);
            is_write && entry["impersonatedUser"]["username"].as_str().is_some_and(|user| user.starts_with("replica-"))
        });
        log
    }

    /// Checks that no two replicas have written at the same time, and that they have written in this order.
    pub fn assert_writers(&self, expected: &[&str]) {
        let writes = self.writes();
        let mut writers: Vec<&str> = writes.iter().map(|write| write.by.as_str()).collect();
        writers.dedup();
        assert_eq!(writers, expected, "{writes:#?}");
        for pair in writes.windows(2).filter(|pair| pair[0].by != pair[1].by) {
            assert!(pair[0].done <= pair[1].received, "{pair:#?}");
        }
    }

    /// Checks that the receiver got exactly these messages, each once: what happens to the alert about a pod.
    pub fn assert_received(&self, expected: &[(&str, &str)]) {
        let received = self.receiver.received();
        let mut pods = HashMap::new();
        let mut messages = Vec::new();
        for event in received.iter().map(Received::json) {
            let key = event["dedup_key"].to_string();
            if let Some(pod) = event["payload"]["component"].as_str() {
                pods.insert(key.clone(), pod.to_owned());
            }
            let action = event["event_action"].as_str().unwrap_or_default().to_owned();
            messages.push((action, pods.get(&key).cloned().unwrap_or_default()));
        }
        let mut expected: Vec<_> = expected.iter().map(|&(action, pod)| (action.to_owned(), pod.to_owned())).collect();
        messages.sort();
        expected.sort();
        assert_eq!(
            messages,
            expected,
            "{:#?}",
            received.iter().map(|event| event.json().to_string()).collect::<Vec<_>>()
        );
        let mut ids: Vec<_> = received.iter().map(|request| request.header("webhook-id").to_owned()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), received.len(), "each message has an ID of its own");
    }
}

impl Replica {
    pub async fn signal(&self, signal: &str) {
        command::signal(&self.program, signal).await;
    }

    /// Waits until a line of its log contains this text.
    pub async fn wait_for_log(&self, text: &str) {
        self.wait_for_lines(text, 1).await;
    }

    pub async fn wait_for_lines(&self, text: &str, count: usize) {
        eventually(&format!("{} logs {text:?}", self.name), TIMEOUT, async || match self.lines(text) {
            lines if lines >= count => Ok(()),
            lines => Err(format!("{lines} lines")),
        })
        .await
        .unwrap();
    }

    pub fn lines(&self, text: &str) -> usize {
        std::fs::read_to_string(&self.log).unwrap_or_default().lines().filter(|line| line.contains(text)).count()
    }

    /// Waits until it has ended, and checks that it has succeeded.
    pub async fn ended(&mut self) {
        let status =
            tokio::time::timeout(Duration::from_secs(20), self.program.wait()).await.expect("it ends").unwrap();
        assert!(status.success(), "{status}");
    }
}

fn write(entry: &Value) -> Option<Write> {
    let time = |field: &str| entry[field].as_str()?.parse().ok();
    Some(Write {
        by: entry["impersonatedUser"]["username"].as_str()?.to_owned(),
        resource: entry["objectRef"]["resource"].as_str()?.to_owned(),
        received: time("requestReceivedTimestamp")?,
        done: time("stageTimestamp")?,
    })
}
