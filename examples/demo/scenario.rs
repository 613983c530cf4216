//! The steps of the demo: which pods fail and recover, their statuses and logs, and the problems to be reported.

use std::sync::LazyLock;

use orchestr_testbed::objects::{ago, container, controlled_by, merged, uid_of};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::{
    Result,
    faults::{self, ON_SICK_NODE, ROLLOUT, ROLLOUT_LOG, SICK_NODE, Stored},
};

/// The node whose kubelet serves logs.
pub const NODE: &str = "node-demo";

/// A pod with a problem: `namespace/pod`, STATUS, reason.
pub type Problem = (&'static str, &'static str, &'static str);

/// A change of the cluster.
pub struct Step {
    pub title: &'static str,
    /// The pods that are created, changed or deleted.
    pub changes: &'static [Change],
    /// All problems after the step.
    pub problems: &'static [&'static [Problem]],
    /// How many pods are missing after the step.
    pub missing: i64,
    /// The names of all common causes after the step.
    pub common_causes: &'static [&'static str],
}

pub enum Change {
    /// A pod of pods.yaml is created.
    Fails(Problem),
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
            Change::Fails(OOM),
            Change::Fails(IMAGE),
            Change::Fails(CONFIG),
            Change::Fails(MIGRATION),
            Change::Fails(ROOM),
            Change::Fails(EVICTED),
        ],
        problems: &[&[OOM, IMAGE, CONFIG, MIGRATION, ROOM, EVICTED]],
        missing: 0,
        common_causes: &[],
    },
    Step {
        title: "Four more: not ready though Running, crashed, stuck while terminating, a failed Job",
        changes: &[
            Change::Fails(READY),
            Change::Fails(CRASHED),
            Change::Fails(STUCK),
            Change::Fails(JOB),
            Change::Objects(faults::failed_readiness_probe),
        ],
        problems: &[&[OOM, IMAGE, CONFIG, MIGRATION, ROOM, EVICTED, READY, CRASHED, STUCK, JOB]],
        missing: 0,
        common_causes: &[],
    },
    Step {
        title: "A new revision crashes while the old one serves, a quota refuses three pods, and a node stops reporting",
        changes: &[
            Change::Log(ROLLOUT[0].0, ROLLOUT_LOG),
            Change::Log(ROLLOUT[1].0, ROLLOUT_LOG),
            Change::Log(ROLLOUT[2].0, ROLLOUT_LOG),
            Change::Objects(faults::rollout),
            Change::Objects(faults::refused_by_quota),
            Change::Objects(faults::node_stops_reporting),
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
            Change::Objects(faults::node_returns),
            Change::Recovers("shop/catalog-7b6d4f9c55-m4nq2"),
            Change::Recovers("bank/payments-6f5b8d7c99-kk8tz"),
            Change::Recovers("shop/search-85bd7f6c9d-9gq6d"),
            Change::Deleted("ml/notebook-59c8b7d6f4-zz5vl"),
        ],
        problems: &[&[OOM, MIGRATION, ROOM, CRASHED, STUCK, JOB], &ROLLOUT],
        missing: 3,
        common_causes: &[],
    },
];

/// A pod of pods.yaml as it is written to the cluster.
pub struct FailingPod {
    pub pod: Value,
    /// The container, whether it is the log of its previous instance, and the text.
    pub log: Option<(String, bool, String)>,
}

impl FailingPod {
    pub fn new(namespace: &str, name: &str) -> Result<Self> {
        static AGO: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"<(\d+) s ago>").ok());
        let Some(times) = AGO.as_ref() else { return Err("no pattern".into()) };
        let text = times
            .replace_all(include_str!("pods.yaml"), |found: &Captures<'_>| ago(found[1].parse().unwrap_or_default()));
        let mut pods: Value = serde_yaml::from_str(&text)?;
        let mut entry = pods[format!("{namespace}/{name}")].take();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let log = text(&entry["log"]["text"]).map(|log| {
            let container = text(&entry["log"]["container"]).unwrap_or_else(|| "app".to_owned());
            (container, entry["log"]["previous"] == true, log)
        });
        let mut changes = entry["pod"].take();
        for list in ["initContainerStatuses", "containerStatuses"] {
            for status in changes["status"][list].as_array_mut().into_iter().flatten() {
                *status = container("", status.take());
            }
        }
        let owner = text(&entry["owner"]).and_then(|owner| Some(owned(owner.split_once('/')?)));
        let metadata = merged(owner.unwrap_or_else(|| json!({})), &json!({"creationTimestamp": ago(900)}));
        let base = json!({"metadata": metadata, "spec": {"nodeName": NODE}});
        Ok(Self { pod: orchestr_testbed::objects::pod(namespace, name, merged(base, &changes)), log })
    }
}

/// The metadata of a pod of this controller.
fn owned((kind, name): (&str, &str)) -> Value {
    let hash = name.rsplit_once('-').filter(|_| kind == "ReplicaSet");
    let labels = hash.map_or(json!({}), |(_, hash)| json!({"pod-template-hash": hash}));
    json!({"labels": labels, "ownerReferences": controlled_by(kind, name, uid_of(name))})
}
