//! Random pods: real and constructed ones with parts of their status exchanged, including some that no kubelet would
//! write.

use orchestr_testbed::fixtures;
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};

use crate::cases::{Case, case, made, t};

/// A random pod with this name.
pub fn any_pod() -> impl Strategy<Value = Case> {
    let base = select([vec![case("bare")], made(), real()].concat());
    (base, vec(change(), 0..5)).prop_map(|(pod, changes)| changes.into_iter().fold(pod, apply))
}

/// Pods as a real kubelet wrote them.
pub fn real() -> Vec<Case> {
    fixtures::real_pods().into_iter().map(Case).collect()
}

fn apply(pod: Case, (path, value): Change) -> Case {
    pod.with(|pod| *path.iter().fold(pod, |part, key| &mut part[*key]) = value)
}

/// A part of a pod, and its new value.
type Change = (&'static [&'static str], Value);

fn change() -> impl Strategy<Value = Change> {
    fn set<T: Into<Value> + std::fmt::Debug>(
        path: &'static [&'static str],
        value: impl Strategy<Value = T> + 'static,
    ) -> BoxedStrategy<Change> {
        value.prop_map(move |value| (path, value.into())).boxed()
    }
    prop_oneof![
        set(&["status", "phase"], phase()),
        set(&["status", "reason"], reason()),
        set(&["status", "message"], text()),
        set(&["status", "startTime"], time()),
        set(&["status", "conditions"], vec(condition(), 0..6)),
        set(&["status", "initContainerStatuses"], vec(status(), 0..4)),
        set(&["status", "containerStatuses"], vec(status(), 0..4)),
        set(&["spec", "initContainers"], specs("init", 0..4)),
        set(&["spec", "containers"], specs("app", 1..4)),
        set(&["spec", "nodeName"], select(vec!["", "node-7"])),
        set(&["metadata", "creationTimestamp"], time()),
        set(&["metadata", "deletionTimestamp"], time()),
        set(&["metadata", "finalizers"], vec(Just("example.com/hold"), 0..3)),
        set(&["status"], Just(json!({}))),
    ]
}

fn phase() -> impl Strategy<Value = &'static str> {
    select(vec!["Pending", "Running", "Running", "Succeeded", "Failed", "Unknown", "", "Weird"])
}

fn reason() -> impl Strategy<Value = &'static str> {
    select(vec![
        "",
        "",
        "Completed",
        "Error",
        "OOMKilled",
        "PodInitializing",
        "ContainerCreating",
        "CrashLoopBackOff",
        "ImagePullBackOff",
        "NodeLost",
        "Evicted",
        "SchedulingGated",
        "Unschedulable",
        "Init:Odd",
        "NotReady",
        "Running",
        "Ünïcode \u{202e}",
        "\n",
    ])
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{0,40}", Just("wide 🦀\t\r\n".repeat(300))]
}

/// Absent, ordinary, and at the limits of arithmetic.
fn time() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        6 => (-1000_i64..1000).prop_map(|seconds| t(seconds).into()),
        1 => select(vec!["1970-01-01T00:00:00Z", "1812-06-01T00:00:00Z", "2999-01-01T00:00:00Z", "9999-12-30T22:00:00Z"])
            .prop_map(Value::from),
    ]
}

fn condition() -> impl Strategy<Value = Value> {
    let kind = select(vec![
        "PodScheduled",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodReadyToStartContainers",
        "DisruptionTarget",
    ]);
    (kind, select(vec!["True", "False", "Unknown"]), reason(), text(), time()).prop_map(
        |(kind, status, reason, message, since)| {
            json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
        },
    )
}

fn specs(prefix: &'static str, count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Value>> {
    vec((any::<bool>(), option::of(Just("1Gi"))), count).prop_map(move |specs| {
        let specs = specs.into_iter().enumerate().map(|(index, (sidecar, limit))| {
            let mut spec = json!({"name": format!("{prefix}{index}"), "image": "example/app:1"});
            if sidecar && prefix == "init" {
                spec["restartPolicy"] = "Always".into();
            }
            if let Some(limit) = limit {
                spec["resources"] = json!({"limits": {"memory": limit}});
            }
            spec
        });
        specs.collect()
    })
}

/// Statuses of containers that may be missing in the spec, or be in it twice.
fn status() -> impl Strategy<Value = Value> {
    let name = select(vec!["app", "app0", "app1", "init0", "init1", "init2", "mesh", "ghost"]);
    (name, state(), option::of(termination()), any::<bool>(), option::of(any::<bool>()), restarts()).prop_map(
        |(name, state, last, ready, started, restarts)| {
            json!({
                "name": name, "state": state, "lastState": {"terminated": last}, "ready": ready, "started": started,
                "restartCount": restarts, "image": "example/app:1", "imageID": "",
            })
        },
    )
}

fn restarts() -> impl Strategy<Value = i32> {
    prop_oneof![5 => 0..9, 1 => Just(i32::MAX), 1 => Just(-1)]
}

fn state() -> impl Strategy<Value = Value> {
    let waiting = || (reason(), text()).prop_map(|(reason, message)| json!({"reason": reason, "message": message}));
    let running = || time().prop_map(|started| json!({"startedAt": started}));
    let one = prop_oneof![
        waiting().prop_map(|waiting| json!({"waiting": waiting})),
        running().prop_map(|running| json!({"running": running})),
        termination().prop_map(|termination| json!({"terminated": termination})),
    ];
    prop_oneof![
        9 => one,
        1 => (option::of(waiting()), option::of(running()), option::of(termination())).prop_map(
            |(waiting, running, terminated)| json!({"waiting": waiting, "running": running, "terminated": terminated}),
        ),
    ]
}

fn termination() -> impl Strategy<Value = Value> {
    let code = select(vec![0, 0, 1, 128, 137, 143, -1, i32::MAX, i32::MIN]);
    (code, select(vec![0, 0, 0, 9, 15]), reason(), text(), time(), time(), select(vec!["", "containerd://1"])).prop_map(
        |(code, signal, reason, message, started, finished, id)| {
            json!({
                "exitCode": code, "signal": signal, "reason": reason, "message": message,
                "startedAt": started, "finishedAt": finished, "containerID": id,
            })
        },
    )
}
