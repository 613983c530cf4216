//! The steps of the demo: which pods fail and recover, their statuses and logs, and the problems to be reported.

use serde_json::{Value, json};

use super::faults::{self, ON_SICK_NODE, ROLLOUT, ROLLOUT_LOG, SICK_NODE, Stored};

/// The node whose kubelet serves logs.
pub const NODE: &str = "node-demo";

/// A pod with a problem: `namespace/pod`, STATUS, reason.
pub type Problem = (&'static str, &'static str, &'static str);

/// A change of the cluster.
pub struct Step {
    pub title: &'static str,
    /// The pods that are created, changed or deleted.
    pub changes: &'static [PodFixture],
    /// All problems after the step.
    pub problems: &'static [&'static [Problem]],
    /// How many pods are missing after the step.
    pub missing: i64,
    /// The names of all common causes after the step.
    pub common_causes: &'static [&'static str],
}

#[derive(Clone, Copy)]
pub enum PodFixture {
    OutOfMemory,
    BadImage,
    NoConfig,
    FailedMigration,
    NoRoom,
    Evicted,
    NotReady,
    Crashed,
    StuckTerminating,
    FailedJob,
    /// The log of a pod's previous container.
    Log(&'static str, &'static str),
    /// Objects that are written to etcd.
    Objects(fn() -> Vec<Stored>),
    Recovers(&'static str),
    Deleted(&'static str),
}

const OOM: Problem = ("shop/cart-5d9f7c6b84-x2x7k", "CrashLoopBackOff", "OOMKilled");
const IMAGE: Problem = ("shop/catalog-7b6d4f9c55-m4nq2", "ImagePullBackOff", "ImagePullBackOff");
const CONFIG: Problem = ("bank/payments-6f5b8d7c99-kk8tz", "CreateContainerConfigError", "CreateContainerConfigError");
const MIGRATION: Problem = ("bank/ledger-0", "Init:CrashLoopBackOff", "CrashLoopBackOff");
const ROOM: Problem = ("ml/train-gpu", "Pending", "Unschedulable");
const EVICTED: Problem = ("ml/notebook-59c8b7d6f4-zz5vl", "Evicted", "Evicted");
const READY: Problem = ("shop/search-85bd7f6c9d-9gq6d", "Running", "NotReady");
/// The name of the pod that is not ready.
pub const NOT_READY_POD: &str = "search-85bd7f6c9d-9gq6d";
const CRASHED: Problem = ("shop/mailer-0", "Error", "Error");
const STUCK: Problem = ("bank/vault-0", "Terminating", "StuckTerminating");
const JOB: Problem = ("ml/nightly-29384756-hx2lp", "Error", "Error");

pub const STEPS: &[Step] = &[
    Step {
        title: "Six pods fail, each in its own way",
        changes: &[
            PodFixture::OutOfMemory,
            PodFixture::BadImage,
            PodFixture::NoConfig,
            PodFixture::FailedMigration,
            PodFixture::NoRoom,
            PodFixture::Evicted,
        ],
        problems: &[&[OOM, IMAGE, CONFIG, MIGRATION, ROOM, EVICTED]],
        missing: 0,
        common_causes: &[],
    },
    Step {
        title: "Four more: not ready though Running, crashed, stuck while terminating, a failed Job",
        changes: &[
            PodFixture::NotReady,
            PodFixture::Crashed,
            PodFixture::StuckTerminating,
            PodFixture::FailedJob,
            PodFixture::Objects(faults::failed_readiness_probe),
        ],
        problems: &[&[OOM, IMAGE, CONFIG, MIGRATION, ROOM, EVICTED, READY, CRASHED, STUCK, JOB]],
        missing: 0,
        common_causes: &[],
    },
    Step {
        title: "A new revision crashes while the old one serves, a quota refuses three pods, and a node stops reporting",
        changes: &[
            PodFixture::Log(ROLLOUT[0].0, ROLLOUT_LOG),
            PodFixture::Log(ROLLOUT[1].0, ROLLOUT_LOG),
            PodFixture::Log(ROLLOUT[2].0, ROLLOUT_LOG),
            PodFixture::Objects(faults::rollout),
            PodFixture::Objects(faults::refused_by_quota),
            PodFixture::Objects(faults::node_stops_reporting),
        ],
        problems: &[
            &[OOM, IMAGE, CONFIG, MIGRATION, ROOM, EVICTED, READY, CRASHED, STUCK, JOB],
            &ROLLOUT,
            &ON_SICK_NODE,
        ],
        missing: 3,
        common_causes: &[SICK_NODE],
    },
    Step {
        title: "The node returns; the image, the Secret and the readiness probe are fixed; the evicted pod is deleted",
        changes: &[
            PodFixture::Objects(faults::node_returns),
            PodFixture::Recovers("shop/catalog-7b6d4f9c55-m4nq2"),
            PodFixture::Recovers("bank/payments-6f5b8d7c99-kk8tz"),
            PodFixture::Recovers("shop/search-85bd7f6c9d-9gq6d"),
            PodFixture::Deleted("ml/notebook-59c8b7d6f4-zz5vl"),
        ],
        problems: &[&[OOM, MIGRATION, ROOM, CRASHED, STUCK, JOB], &ROLLOUT],
        missing: 3,
        common_causes: &[],
    },
];

/// A pod to write to the cluster, and its log.
pub struct PodSpec {
    pub namespace: &'static str,
    pub name: &'static str,
    /// Merged into a minimal pod.
    pub changes: Value,
    pub status: Value,
    /// The container, whether it is the log of its previous instance, and the text.
    pub log: Option<(&'static str, bool, &'static str)>,
    /// The age in seconds. All times in the status are later.
    pub age: i64,
    /// Whether the pod is being deleted and a finalizer keeps it.
    pub deleted_long_ago: bool,
}

impl PodFixture {
    /// The pod to create; `None` for the change of an existing pod.
    pub fn pod(self) -> Option<PodSpec> {
        let plain = |(full, ..): Problem, changes, status| {
            let (namespace, name) = full.split_once('/').unwrap_or(("default", full));
            PodSpec { namespace, name, changes, status, log: None, age: 900, deleted_long_ago: false }
        };
        Some(match self {
            Self::OutOfMemory => PodSpec {
                log: Some((
                    "app",
                    true,
                    concat!(
                        "INFO  cache warm, 184203 products\n",
                        "INFO  connecting to postgres://cart:hunter2@db.shop/cart\n",
                        "WARN  heap at 498 MiB of 512 MiB\n",
                        "WARN  heap at 511 MiB of 512 MiB\n",
                    ),
                )),
                ..plain(
                    OOM,
                    json!({
                        "metadata": owned("ReplicaSet", "cart-5d9f7c6b84"),
                        "spec": {"containers": [{"name": "app", "image": "registry.example/cart:4", "resources": {"limits": {"memory": "512Mi"}}}]},
                    }),
                    waiting(
                        "CrashLoopBackOff",
                        "back-off 5m0s restarting failed container=app pod=cart-5d9f7c6b84-x2x7k_shop",
                        7,
                        Some(json!({
                            "exitCode": 137, "reason": "OOMKilled", "startedAt": ago(80), "finishedAt": ago(60), "containerID": format!("containerd://{:064}", 1),
                        })),
                    ),
                )
            },
            Self::BadImage => plain(
                IMAGE,
                json!({
                    "metadata": owned("ReplicaSet", "catalog-7b6d4f9c55"),
                    "spec": {"containers": [{"name": "app", "image": "registry.example/catalog:lates"}]},
                }),
                pending(waiting(
                    "ImagePullBackOff",
                    "Back-off pulling image \"registry.example/catalog:lates\": ErrImagePull: registry.example/catalog:lates: not found",
                    0,
                    None,
                )),
            ),
            Self::NoConfig => plain(
                CONFIG,
                json!({"metadata": owned("ReplicaSet", "payments-6f5b8d7c99")}),
                pending(waiting("CreateContainerConfigError", "secret \"payments-db\" not found", 0, None)),
            ),
            Self::FailedMigration => PodSpec {
                log: Some((
                    "migrate",
                    true,
                    "applying 0042_add_index.sql\nERROR: column \"iban\" of relation \"ledger\" does not exist\n",
                )),
                ..plain(
                    MIGRATION,
                    json!({
                        "metadata": owned("StatefulSet", "ledger"),
                        "spec": {"initContainers": [{"name": "migrate", "image": "registry.example/ledger:9"}]},
                    }),
                    json!({
                        "phase": "Pending", "startTime": ago(300),
                        "conditions": [
                            {"type": "PodScheduled", "status": "True"},
                            {"type": "Initialized", "status": "False", "reason": "ContainersNotInitialized", "lastTransitionTime": ago(300)},
                            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(300)},
                        ],
                        "initContainerStatuses": [status_of("migrate", 4, json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 1m20s restarting failed container=migrate"}}), Some(json!({
                            "exitCode": 1, "reason": "Error", "startedAt": ago(50), "finishedAt": ago(48), "containerID": format!("containerd://{:064}", 2),
                        })))],
                        "containerStatuses": [status_of("app", 0, json!({"waiting": {"reason": "PodInitializing"}}), None)],
                    }),
                )
            },
            Self::NoRoom => plain(
                ROOM,
                json!({"spec": {"nodeName": null}}),
                json!({
                    "phase": "Pending",
                    "conditions": [{
                        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": ago(600),
                        "message": "0/12 nodes are available: 12 Insufficient nvidia.com/gpu. preemption: 0/12 nodes are available.",
                    }],
                }),
            ),
            Self::Evicted => plain(
                EVICTED,
                json!({"metadata": owned("ReplicaSet", "notebook-59c8b7d6f4")}),
                json!({
                    "phase": "Failed", "reason": "Evicted", "startTime": ago(900),
                    "message": "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 812Mi.",
                }),
            ),
            Self::NotReady => PodSpec {
                log: Some(("app", false, "listening on :8080\nindex not loaded yet: waiting for elastic.shop:9200\n")),
                ..plain(
                    READY,
                    json!({
                        "metadata": owned("ReplicaSet", "search-85bd7f6c9d"),
                        "spec": {"containers": [{
                            "name": "app", "image": "registry.example/search:12",
                            "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
                        }]},
                    }),
                    json!({
                        "phase": "Running", "startTime": ago(900),
                        "conditions": [
                            {"type": "PodScheduled", "status": "True"},
                            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]", "lastTransitionTime": ago(600)},
                        ],
                        "containerStatuses": [status_of("app", 0, json!({"running": {"startedAt": ago(800)}}), None)],
                    }),
                )
            },
            Self::Crashed => PodSpec {
                log: Some((
                    "app",
                    false,
                    "Traceback (most recent call last):\n  File \"/app/main.py\", line 12, in <module>\n    token = os.environ[\"SMTP_TOKEN\"]\nKeyError: 'SMTP_TOKEN'\n",
                )),
                ..plain(
                    CRASHED,
                    json!({"metadata": owned("StatefulSet", "mailer"), "spec": {"restartPolicy": "Always"}}),
                    json!({
                        "phase": "Running", "startTime": ago(20),
                        "conditions": [
                            {"type": "PodScheduled", "status": "True"},
                            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(5)},
                        ],
                        "containerStatuses": [status_of("app", 0, json!({"terminated": {
                            "exitCode": 1, "reason": "Error", "startedAt": ago(15), "finishedAt": ago(5), "containerID": format!("containerd://{:064}", 3),
                        }}), None)],
                    }),
                )
            },
            Self::StuckTerminating => PodSpec {
                age: 9_000,
                deleted_long_ago: true,
                ..plain(
                    STUCK,
                    json!({"metadata": {"finalizers": ["vault.example/unseal"], "ownerReferences": owned("StatefulSet", "vault")["ownerReferences"]}}),
                    json!({
                        "phase": "Running", "startTime": ago(9_000),
                        "conditions": [
                            {"type": "PodScheduled", "status": "True"},
                            {"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": ago(420)},
                        ],
                        "containerStatuses": [status_of("app", 0, json!({"terminated": {
                            "exitCode": 0, "reason": "Completed", "startedAt": ago(8_990), "finishedAt": ago(420), "containerID": format!("containerd://{:064}", 6),
                        }}), None)],
                    }),
                )
            },
            Self::FailedJob => PodSpec {
                log: Some(("app", false, "nightly export: 0 of 12 tables\nerror: disk quota exceeded\n")),
                ..plain(
                    JOB,
                    json!({"metadata": owned("Job", "nightly-29384756"), "spec": {"restartPolicy": "Never"}}),
                    json!({
                        "phase": "Failed", "startTime": ago(120),
                        "conditions": [
                            {"type": "PodScheduled", "status": "True"},
                            {"type": "Ready", "status": "False", "reason": "PodFailed", "lastTransitionTime": ago(30)},
                        ],
                        "containerStatuses": [status_of("app", 0, json!({"terminated": {
                            "exitCode": 2, "reason": "Error", "startedAt": ago(110), "finishedAt": ago(30), "containerID": format!("containerd://{:064}", 4),
                        }}), None)],
                    }),
                )
            },
            Self::Log(..) | Self::Objects(_) | Self::Recovers(_) | Self::Deleted(_) => return None,
        })
    }
}

/// The time `seconds` ago, in the format of the API.
pub fn ago(seconds: i64) -> String {
    let time = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub fn status_of(container: &str, restarts: i32, state: Value, last: Option<Value>) -> Value {
    let last = last.map_or(json!({}), |last| json!({"terminated": last}));
    json!({
        "name": container, "ready": false, "started": state.get("running").is_some(), "restartCount": restarts,
        "image": "registry.example/demo:1", "imageID": "", "state": state, "lastState": last,
    })
}

fn waiting(reason: &str, message: &str, restarts: i32, last: Option<Value>) -> Value {
    json!({
        "phase": "Running", "startTime": ago(900),
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": ago(60)},
        ],
        "containerStatuses": [status_of("app", restarts, json!({"waiting": {"reason": reason, "message": message}}), last)],
    })
}

fn pending(mut status: Value) -> Value {
    status["phase"] = json!("Pending");
    status
}

fn owned(kind: &str, name: &str) -> Value {
    let api = match kind {
        "Job" => "batch/v1",
        _ => "apps/v1",
    };
    let hash = name.rsplit_once('-').map_or("", |(_, hash)| hash);
    let labels = if kind == "ReplicaSet" { json!({"pod-template-hash": hash}) } else { json!({}) };
    json!({
        "labels": labels,
        "ownerReferences": [{"apiVersion": api, "kind": kind, "name": name, "uid": faults::uid(name), "controller": true}],
    })
}
