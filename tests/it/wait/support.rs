//! Workloads as their controllers write them, and `orchestr wait` under way.

use std::time::{Duration, Instant};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
};
use serde_json::{Value, json};

use crate::{
    command::orchestr,
    pod_statuses::{ago, container, controlled_by, status, terminated, waiting},
    running_command::RunningCommand,
    test_env::{Namespaced, TestEnv},
};

/// `orchestr wait` under way.
pub struct Wait(RunningCommand);

/// How `orchestr wait` ended.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub out: String,
    pub err: String,
    pub at: Instant,
}

impl Wait {
    /// With a short stability window, because most tests are about something else.
    pub fn start(env: &TestEnv, args: &[&str]) -> Self {
        Self::start_with_defaults(env, &[&["--stable", "100ms"], args].concat())
    }

    pub fn start_with_defaults(env: &TestEnv, args: &[&str]) -> Self {
        let kubeconfig = env.plane.admin_kubeconfig().to_str().unwrap();
        Self(RunningCommand::start(orchestr(
            &[&["wait", "--kubeconfig", kubeconfig, "-n", &env.namespace], args].concat(),
        )))
    }

    /// Waits for a line of progress that contains this text.
    pub async fn says(&self, part: &str) {
        self.0.says(part).await;
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.has_ended()
    }

    pub async fn ends(self) -> Ended {
        let (code, out, err) = self.0.ends().await;
        let out = out.lines().flat_map(|line| [line, "\n"]).collect();
        Ended { code, out, err, at: Instant::now() }
    }
}

/// Asserts how it ended, soon after the state appeared, and prints a row of the table of scenarios.
#[track_caller]
pub fn assert_ended(scenario: &str, appeared: Instant, ended: &Ended, code: i32, parts: &[&str]) {
    let seconds = ended.at.saturating_duration_since(appeared);
    let said = ended.out.lines().next().unwrap_or_else(|| ended.err.lines().last().unwrap_or_default());
    println!("| {scenario} | {code} | {said} | {:.1} s |", seconds.as_secs_f64());
    assert_eq!(ended.code, code, "{scenario}: {ended:#?}");
    for part in parts {
        assert!(ended.out.contains(part) || ended.err.contains(part), "{scenario}: {part:?} is missing: {ended:#?}");
    }
    // The promise is two seconds. A test on a busy machine may take longer.
    assert!(seconds < Duration::from_secs(10), "{scenario} took {seconds:?}");
}

/// Creates an object and returns its UID.
async fn create<K: Namespaced>(env: &TestEnv, object: Value) -> String {
    env.create::<K>(object).await.meta().uid.clone().unwrap()
}

fn template(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app", "image": "shop/cart:1"}]}})
}

/// A Deployment with two revisions, of which `new` is the newest.
pub struct Rollout {
    pub name: String,
    pub replicas: i32,
    /// The hash and the UID of each ReplicaSet, the newest last.
    sets: Vec<(String, String)>,
}

impl Rollout {
    pub async fn new(env: &TestEnv, name: &str, replicas: i32) -> Self {
        Self::with_hashes(env, name, replicas, ["old", "new"]).await
    }

    /// A Deployment whose ReplicaSets have these hashes.
    pub async fn with_hashes(env: &TestEnv, name: &str, replicas: i32, hashes: [&str; 2]) -> Self {
        let uid = create::<Deployment>(
            env,
            json!({
                "metadata": {"name": name, "annotations": {"deployment.kubernetes.io/revision": "2"}},
                "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(name)},
            }),
        )
        .await;
        let mut sets = Vec::new();
        for (hash, number) in hashes.into_iter().zip(["1", "2"]) {
            let labels = json!({"app": name, "pod-template-hash": hash});
            let mut template = template(name);
            template["metadata"]["labels"] = labels.clone();
            let set = json!({
                "metadata": {"name": format!("{name}-{hash}"), "labels": labels, "ownerReferences": controlled_by("Deployment", name, uid.as_str()),
                    "annotations": {"deployment.kubernetes.io/revision": number}},
                "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
            });
            sets.push((hash.to_owned(), create::<ReplicaSet>(env, set).await));
        }
        let rollout = Self { name: name.to_owned(), replicas, sets };
        rollout.counts(env, replicas, 0, replicas).await;
        rollout
    }

    /// Sets the status of the Deployment.
    pub async fn counts(&self, env: &TestEnv, replicas: i32, updated: i32, available: i32) {
        let status = json!({
            "observedGeneration": 1, "replicas": replicas, "updatedReplicas": updated, "readyReplicas": available,
            "availableReplicas": available, "unavailableReplicas": (replicas - available).max(0),
        });
        env.set_status_of::<Deployment>(&self.name, status).await;
    }

    pub async fn is_done(&self, env: &TestEnv) {
        self.counts(env, self.replicas, self.replicas, self.replicas).await;
    }

    pub async fn condition(&self, env: &TestEnv, kind: &str, status: &str, reason: &str, message: &str) {
        let conditions = json!([{"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": ago(0), "lastUpdateTime": ago(0)}]);
        env.set_status_of::<Deployment>(&self.name, json!({"conditions": conditions})).await;
    }

    /// Creates a pod of the newest revision.
    pub async fn pod(&self, env: &TestEnv, suffix: &str, status: Value) -> String {
        self.pod_of(env, &self.sets[1].0, suffix, status).await
    }

    /// Creates a pod of the revision with this hash.
    pub async fn pod_of(&self, env: &TestEnv, hash: &str, suffix: &str, status: Value) -> String {
        let set = format!("{}-{hash}", self.name);
        let (_, uid) = self.sets.iter().find(|(own, _)| own == hash).unwrap();
        let name = format!("{set}-{suffix}");
        let labels = json!({"app": self.name, "pod-template-hash": hash});
        let changes = json!({
            "metadata": {"labels": labels, "ownerReferences": controlled_by("ReplicaSet", &set, uid.as_str()), "creationTimestamp": ago(5)},
            "spec": {"containers": [{"name": "app", "image": "registry.example/cart:1.4.3"}]},
        });
        env.pod_with(&name, changes, status).await;
        name
    }
}

pub async fn stateful_set(env: &TestEnv, name: &str, strategy: Value) -> String {
    let labels = json!({"app": name});
    let spec = json!({
        "replicas": 2, "serviceName": name, "selector": {"matchLabels": labels}, "template": template(name),
        "updateStrategy": strategy,
    });
    create::<StatefulSet>(env, json!({"metadata": {"name": name}, "spec": spec})).await
}

pub async fn daemon_set(env: &TestEnv, name: &str) -> String {
    let labels = json!({"app": name});
    let spec = json!({"selector": {"matchLabels": labels}, "template": template(name)});
    let uid = create::<DaemonSet>(env, json!({"metadata": {"name": name}, "spec": spec})).await;
    for (hash, number) in [("one", 1), ("two", 2)] {
        let revision = json!({
            "metadata": {"name": format!("{name}-{hash}"), "labels": {"app": name, "controller-revision-hash": hash},
                "ownerReferences": controlled_by("DaemonSet", name, uid.as_str())},
            "data": {}, "revision": number,
        });
        create::<ControllerRevision>(env, revision).await;
    }
    uid
}

/// Creates a Job. The API server sets its selector, by which its pods are found.
pub async fn job(env: &TestEnv, name: &str) -> String {
    let spec = json!({"backoffLimit": 1, "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "app", "image": "shop/sums:1"}]}}});
    create::<Job>(env, json!({"metadata": {"name": name}, "spec": spec})).await
}

/// Creates a pod of a workload other than a Deployment.
pub async fn pod_of(
    env: &TestEnv,
    kind: &str,
    workload: &str,
    uid: &str,
    hash: &str,
    suffix: &str,
    status: Value,
) -> String {
    let name = format!("{workload}-{suffix}");
    let labels = match kind {
        "Job" => json!({"batch.kubernetes.io/controller-uid": uid, "job-name": workload}),
        _ => json!({"app": workload, "controller-revision-hash": hash}),
    };
    let metadata =
        json!({"labels": labels, "ownerReferences": controlled_by(kind, workload, uid), "creationTimestamp": ago(5)});
    let changes = json!({"metadata": metadata});
    env.pod_with(&name, changes, status).await;
    name
}

/// A pod whose container `app` is waiting.
pub fn waits(reason: &str, message: &str) -> Value {
    waiting(reason, message, 5)
}

pub fn creating() -> Value {
    waits("ContainerCreating", "")
}

/// The error of containerd for a tag that does not exist.
pub fn bad_image() -> Value {
    waits(
        "ErrImagePull",
        "rpc error: code = NotFound desc = failed to pull and unpack image \"registry.example/cart:1.4.3\": failed to resolve \
         reference \"registry.example/cart:1.4.3\": registry.example/cart:1.4.3: not found",
    )
}

/// A container that has crashed often, and was first started minutes ago.
pub fn crash_loop() -> Value {
    let message = "back-off 2m40s restarting failed container=app";
    let mut last = terminated(1, &ago(200), &ago(198));
    last["terminated"]["containerID"] = json!(format!("containerd://{:064}", 5));
    let app = json!({
        "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": message}}, "lastState": last,
    });
    status("Running", false, &ago(400), [container("app", app)])
}
