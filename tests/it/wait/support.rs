//! Workloads as their controllers write them, and `orchestr wait` under way.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
};
use kube::{
    Api, Resource,
    api::{Patch, PatchParams, PostParams},
    core::NamespaceResourceScope,
};
use orchestr_testbed::{eventually, finish};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{command::orchestr, pod_statuses::ago, support::TIMEOUT, test_env::TestEnv};

/// `orchestr wait` under way.
pub struct Wait {
    child: Child,
    errors: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

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
        let all = [&["wait", "--kubeconfig", kubeconfig, "-n", &env.namespace], args].concat();
        let mut command = orchestr(&all);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pipe = BufReader::new(child.stderr.take().unwrap());
        let errors = Arc::new(Mutex::new(Vec::new()));
        let lines = Arc::clone(&errors);
        let reader = std::thread::spawn(move || {
            pipe.lines().map_while(Result::ok).for_each(|line| lines.lock().unwrap().push(line));
        });
        Self { child, errors, reader }
    }

    /// Waits for a line of progress that contains this text.
    pub async fn says(&self, part: &str) {
        let what = format!("it says {part:?}");
        let found = eventually(&what, TIMEOUT, async || {
            let lines = self.errors.lock().unwrap();
            if lines.iter().any(|line| line.contains(part)) { Ok(()) } else { Err(lines.join("\n")) }
        });
        found.await.unwrap();
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end, without blocking the test's other tasks.
    pub async fn ends(self) -> Ended {
        let Self { child, errors, reader } = self;
        tokio::task::spawn_blocking(move || {
            let said = || errors.lock().unwrap().join("\n");
            let output = finish(child, TIMEOUT).unwrap_or_else(|error| panic!("{error}; it said:\n{}", said()));
            let at = Instant::now();
            reader.join().unwrap();
            let err = errors.lock().unwrap().join("\n");
            let mut out = String::new();
            output.stdout.as_slice().read_to_string(&mut out).unwrap();
            Ended { code: output.status.code().unwrap(), out, err, at }
        })
        .await
        .unwrap()
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

async fn create<K>(env: &TestEnv, object: Value) -> String
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Serialize
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(env.client.clone(), &env.namespace);
    let made = api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    made.meta().uid.clone().unwrap()
}

pub async fn set_status<K>(env: &TestEnv, name: &str, status: Value)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(env.client.clone(), &env.namespace);
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

fn template(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app", "image": "shop/cart:1"}]}})
}

pub fn owner(kind: &str, name: &str, uid: &str) -> Value {
    let version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    json!([{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true}])
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
                "metadata": {"name": format!("{name}-{hash}"), "labels": labels, "ownerReferences": owner("Deployment", name, &uid),
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
        set_status::<Deployment>(env, &self.name, status).await;
    }

    pub async fn is_done(&self, env: &TestEnv) {
        self.counts(env, self.replicas, self.replicas, self.replicas).await;
    }

    pub async fn condition(&self, env: &TestEnv, kind: &str, status: &str, reason: &str, message: &str) {
        let conditions = json!([{"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": ago(0), "lastUpdateTime": ago(0)}]);
        set_status::<Deployment>(env, &self.name, json!({"conditions": conditions})).await;
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
            "metadata": {"labels": labels, "ownerReferences": owner("ReplicaSet", &set, uid), "creationTimestamp": ago(5)},
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
                "ownerReferences": owner("DaemonSet", name, &uid)},
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
        json!({"labels": labels, "ownerReferences": owner(kind, workload, uid), "creationTimestamp": ago(5)});
    let changes = json!({"metadata": metadata});
    env.pod_with(&name, changes, status).await;
    name
}

/// A pod whose container `app` is waiting.
pub fn waits(reason: &str, message: &str) -> Value {
    json!({
        "phase": "Pending", "startTime": ago(5),
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(5)},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(5)},
        ],
        "containerStatuses": [{
            "name": "app", "ready": false, "started": false, "restartCount": 0, "image": "", "imageID": "", "lastState": {},
            "state": {"waiting": {"reason": reason, "message": message}},
        }],
    })
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
    json!({
        "phase": "Running", "startTime": ago(400),
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": ago(400)},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(400)},
        ],
        "containerStatuses": [{
            "name": "app", "ready": false, "started": false, "restartCount": 5, "image": "", "imageID": "",
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s restarting failed container=app"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error", "startedAt": ago(200), "finishedAt": ago(198),
                "containerID": format!("containerd://{:064}", 5)}},
        }],
    })
}
