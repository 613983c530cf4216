//! The containers and conditions of a pod, and the state of a node. Pure.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, NodeCondition, Taint},
    apimachinery::pkg::apis::meta::v1::Time,
};

use crate::{
    api::{ContainerKind, ContainerStateName},
    pods::{ContainerSpec, ContainerStatus, Pod, PodCondition, Probe, Terminated},
    render::safe::clean,
};

use super::{
    events::seconds,
    explanation::{ConditionPart, ContainerPart, NodePart, TerminationPart},
};

/// The conditions that are True of a healthy pod, besides its readiness gates. That of the sandbox follows from others.
const EXPECTED: [&str; 4] = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
/// The conditions that are True if something is wrong.
const UNEXPECTED: [&str; 2] = ["DisruptionTarget", "PodResizePending"];
/// The conditions that are False if a node is well. Of other conditions, which controllers may add, it is not known which status
/// is good.
const NODE_TROUBLES: [&str; 6] =
    ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "KernelDeadlock", "ReadonlyFilesystem"];
/// The most taints of a node that are shown.
const TAINTS: usize = 20;

/// The containers in the order of the pod, init containers first.
pub(super) fn containers(pod: &Pod) -> Vec<ContainerPart> {
    let init = pod.init_containers.iter().map(|spec| {
        let kind = if pod.is_sidecar(&spec.name) { ContainerKind::Sidecar } else { ContainerKind::Init };
        (spec, kind, &pod.init_statuses)
    });
    let apps = pod.containers.iter().map(|spec| (spec, ContainerKind::App, &pod.statuses));
    let status = |statuses: &[ContainerStatus], name: &str| statuses.iter().find(|own| own.name == name).cloned();
    init.chain(apps)
        .map(|(spec, kind, statuses)| container(spec, kind, &status(statuses, &spec.name).unwrap_or_default()))
        .collect()
}

fn container(spec: &ContainerSpec, kind: ContainerKind, status: &ContainerStatus) -> ContainerPart {
    let (name, reason, message, since) = match &status.state {
        state if state.running.is_some() => {
            let since = state.running.as_ref().and_then(|running| running.started);
            (ContainerStateName::Running, "", "", since)
        }
        state => match (&state.terminated, &state.waiting) {
            (Some(ended), _) => (ContainerStateName::Terminated, &*ended.reason, "", ended.finished),
            (None, Some(waiting)) => (ContainerStateName::Waiting, &*waiting.reason, &*waiting.message, None),
            (None, None) => (ContainerStateName::Waiting, "", "", None),
        },
    };
    let last = status.state.terminated.as_ref().or(status.last.as_ref());
    let probes =
        [("liveness", &spec.liveness_probe), ("readiness", &spec.readiness_probe), ("startup", &spec.startup_probe)];
    ContainerPart {
        name: clean(&spec.name),
        kind,
        image: clean(&spec.image),
        state: name,
        reason: clean(reason),
        message: clean(message),
        since: since.and_then(credible),
        ready: status.ready,
        restarts: status.restarts,
        last_termination: last.map(termination),
        memory_limit: clean(&spec.memory_limit),
        probes: probes.iter().filter_map(|(kind, own)| Some(probe(kind, own.as_deref()?))).collect(),
    }
}

fn termination(ended: &Terminated) -> TerminationPart {
    TerminationPart {
        exit_code: ended.exit_code,
        reason: clean(&ended.reason),
        started_at: ended.started.and_then(credible),
        finished_at: ended.finished.and_then(credible),
        message: clean(&ended.message),
    }
}

/// The kubelet writes the epoch as the start of an instance that never ran.
fn credible(time: Timestamp) -> Option<Time> {
    (time > Timestamp::UNIX_EPOCH).then(|| seconds(time))
}

fn probe(kind: &str, probe: &Probe) -> String {
    let Probe { action, initial_delay, period, timeout, failure_threshold, .. } = probe;
    let delay = if *initial_delay == 0 { String::new() } else { format!(", first after {initial_delay} s") };
    let failures =
        if *failure_threshold == 1 { "1 failure".to_owned() } else { format!("{failure_threshold} failures") };
    clean(&format!(
        "{kind} probe: {action} every {period} s{delay}, times out after {timeout} s, fails after {failures}"
    ))
}

/// The conditions that are not as they should be.
pub(super) fn conditions(pod: &Pod) -> Vec<ConditionPart> {
    let is_expected = |condition: &PodCondition| {
        let kind = condition.kind.as_str();
        EXPECTED.contains(&kind) || pod.readiness_gates.iter().any(|gate| *gate == kind)
    };
    let is_wrong = |condition: &&PodCondition| {
        if UNEXPECTED.contains(&condition.kind.as_str()) {
            return condition.status == "True";
        }
        // A pod that has completed is not ready any more.
        is_expected(condition) && condition.status != "True" && pod.phase != "Succeeded"
    };
    let part = |own: &PodCondition| condition([&own.kind, &own.status, &own.reason, &own.message], own.since);
    pod.conditions.iter().filter(is_wrong).map(part).collect()
}

fn condition([kind, status, reason, message]: [&str; 4], since: Option<Timestamp>) -> ConditionPart {
    let [kind, status, reason, message] = [kind, status, reason, message].map(clean);
    ConditionPart { kind, status, reason, message, since: since.and_then(credible) }
}

/// What is wrong with a node.
pub(super) fn node(name: &str, node: Option<&Node>) -> NodePart {
    let status = node.and_then(|node| node.status.as_ref());
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let wrong = conditions.iter().filter(|condition| {
        let kind = condition.type_.as_str();
        (kind == "Ready" && condition.status != "True")
            || (NODE_TROUBLES.contains(&kind) && condition.status != "False")
    });
    let part = |own: &NodeCondition| {
        let [reason, message] = [&own.reason, &own.message].map(|text| text.as_deref().unwrap_or_default());
        condition([&own.type_, &own.status, reason, message], own.last_transition_time.as_ref().map(|time| time.0))
    };
    let spec = node.and_then(|node| node.spec.as_ref());
    let taints = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    NodePart {
        name: clean(name),
        exists: node.is_some(),
        unschedulable: spec.and_then(|spec| spec.unschedulable) == Some(true),
        conditions: wrong.map(part).collect(),
        taints: taints.iter().take(TAINTS).map(taint).collect(),
    }
}

/// As kubectl prints it, such as `dedicated=gpu:NoSchedule`.
fn taint(taint: &Taint) -> String {
    let value = taint.value.as_deref().filter(|value| !value.is_empty());
    clean(&match value {
        Some(value) => format!("{}={value}:{}", taint.key, taint.effect),
        None => format!("{}:{}", taint.key, taint.effect),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value, status: Value) -> Pod {
        crate::pods::from_json(&json!({"metadata": {"name": "a"}, "spec": spec, "status": status}).to_string()).unwrap()
    }

    #[test]
    fn describes_each_container() {
        let pod = pod(
            json!({
                "initContainers": [
                    {"name": "migrate", "image": "m:1"},
                    {"name": "proxy", "image": "p:1", "restartPolicy": "Always"},
                ],
                "containers": [{
                    "name": "app", "image": "cart:1", "resources": {"limits": {"memory": "512Mi"}},
                    "livenessProbe": {"httpGet": {"path": "/healthz?token=hunter2", "port": 8080}, "initialDelaySeconds": 5},
                }],
            }),
            json!({
                "phase": "Running",
                "initContainerStatuses": [{"name": "migrate", "state": {"terminated": {
                    "exitCode": 0, "reason": "Completed", "finishedAt": "2026-03-01T10:00:00Z"}}}],
                "containerStatuses": [{
                    "name": "app", "restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": "1970-01-01T00:00:00Z"}},
                }],
            }),
        );
        let parts = containers(&pod);
        let kinds: Vec<_> = parts.iter().map(|part| (part.name.as_str(), part.kind, part.state)).collect();
        assert_eq!(
            kinds,
            [
                ("migrate", ContainerKind::Init, ContainerStateName::Terminated),
                ("proxy", ContainerKind::Sidecar, ContainerStateName::Waiting),
                ("app", ContainerKind::App, ContainerStateName::Waiting),
            ]
        );
        let app = &parts[2];
        assert_eq!((app.reason.as_str(), app.restarts, app.memory_limit.as_str()), ("CrashLoopBackOff", 7, "512Mi"));
        let last = app.last_termination.as_ref().unwrap();
        assert_eq!((last.exit_code, last.reason.as_str(), &last.started_at), (137, "OOMKilled", &None));
        let probe = "liveness probe: GET :8080/healthz every 10 s, first after 5 s, times out after 1 s, fails after 3 failures";
        assert_eq!(app.probes, [probe]);
    }

    #[test]
    fn lists_only_the_conditions_that_are_wrong() {
        let kinds = |phase: &str, conditions: &[(&str, &str)]| {
            let conditions: Vec<_> =
                conditions.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
            let gates = json!({"readinessGates": [{"conditionType": "example.com/gate"}]});
            let pod = pod(gates, json!({"phase": phase, "conditions": conditions}));
            super::conditions(&pod).into_iter().map(|condition| condition.kind).collect::<Vec<_>>().join(" ")
        };
        let all = [
            ("PodScheduled", "True"),
            ("Ready", "False"),
            ("DisruptionTarget", "True"),
            ("PodResizePending", "False"),
            ("example.com/gate", "False"),
            ("example.com/other", "False"),
        ];
        assert_eq!(kinds("Running", &all), "Ready DisruptionTarget example.com/gate");
        assert_eq!(kinds("Succeeded", &all), "DisruptionTarget");
        assert_eq!(kinds("Running", &[("Ready", "True"), ("Initialized", "Unknown")]), "Initialized");
    }

    #[test]
    fn describes_what_is_wrong_with_a_node() {
        let object: Node = serde_json::from_value(json!({
            "metadata": {"name": "node-7"},
            "spec": {"unschedulable": true, "taints": [
                {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
            ]},
            "status": {"conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure"},
                {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"},
                {"type": "example.com/SufficientIP", "status": "True"},
            ]},
        }))
        .unwrap();
        let part = node("node-7", Some(&object));
        let kinds: Vec<_> = part.conditions.iter().map(|own| (own.kind.as_str(), own.status.as_str())).collect();
        assert_eq!(kinds, [("DiskPressure", "True"), ("Ready", "Unknown")]);
        assert_eq!(part.taints, ["dedicated=gpu:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"]);
        assert!(part.exists && part.unschedulable && !node("node-7", None).exists);
    }
}
