use std::sync::Arc;

use jiff::Timestamp;
use orchestr_testbed::objects::merged;
use serde_json::json;

use super::{super::tests::rows, *};
use crate::{
    diagnosis::{ClaimFacts, ClusterNodes, Facts, PortHolders},
    events::InvolvedObject,
};

/// What explains a pod with this message of the scheduler, in the second 1000.
fn explained(message: &str, pod: &Pod, facts: &Facts) -> Found {
    of_message(message, &Case { pod, events: &facts.events, world: facts, now: at(1000) })
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn reads_the_messages_of_the_scheduler() {
    const PREEMPTION: &str = " preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.";
    for [reasons, cause, sentence] in rows(include_str!("../../../../tests/fixtures/messages/scheduler.tsv")) {
        for rest in [
            "",
            PREEMPTION,
            " no new claims to deallocate, preemption: 0/5 nodes are available: 5 No preemption victims.",
        ] {
            let message = format!("0/5 nodes are available: {reasons}{rest}");
            let found = explained(&message, &Pod::default(), &Facts::default());
            assert_eq!((found.cause.as_str(), found.sentence.as_str()), (cause, sentence), "{reasons}{rest}");
        }
    }
}

#[test]
fn keeps_the_words_of_other_messages() {
    for (message, cause, sentence) in [
        ("oops", Cause::Unknown, "the pod cannot be scheduled: oops"),
        ("0/3 nodes are available", Cause::Unknown, "the pod cannot be scheduled: 0/3 nodes are available"),
        (
            "0/x nodes are available: 1 Insufficient cpu",
            Cause::Unknown,
            "the pod cannot be scheduled: 0/x nodes are available: 1 Insufficient cpu",
        ),
        (
            "0/1 nodes are available: 1 Insufficient cpu.",
            Cause::InsufficientResources,
            "the only node lacks free cpu: 1 Insufficient cpu",
        ),
        ("0/2 nodes are available: .", Cause::Unknown, "none of 2 nodes fits: "),
        ("no nodes available to schedule pods", Cause::Unknown, "the cluster has no nodes that the scheduler knows"),
    ] {
        let found = explained(message, &Pod::default(), &Facts::default());
        assert_eq!((found.cause, found.sentence.as_str()), (cause, sentence));
    }
    let binding = "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";
    assert_eq!(explained(binding, &Pod::default(), &Facts::default()).cause, Cause::VolumeUnbound);
}
#[test]
fn names_what_the_pod_requires() {
    let in_zones =
        |zones: serde_json::Value| json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": zones}]});
    let affinity = |terms: serde_json::Value| {
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        json!({"affinity": {"nodeAffinity": required}})
    };
    let operators = json!([{"matchExpressions": [
        {"key": "gpu", "operator": "Exists"}, {"key": "spot", "operator": "DoesNotExist"},
        {"key": "arch", "operator": "NotIn", "values": ["arm64"]}, {"key": "cores", "operator": "Gt", "values": ["8"]},
    ]}]);
    let resources = |cpu: &str| json!({"requests": {"cpu": cpu, "nvidia.com/gpu": "2"}});
    let hundred: serde_json::Map<_, _> = (100..200).map(|number| (format!("k{number}"), json!("v"))).collect();
    const SELECTOR: &str = "1 node(s) didn't match Pod's node affinity/selector";
    const LACKS: &str = "1 Insufficient cpu, 1 Insufficient nvidia.com/gpu, 1 Insufficient memory";
    for (spec, reasons, sentence) in [
        (json!({"nodeSelector": {"disk": "ssd"}}), SELECTOR, "does not match the pod's node selector disk=ssd: "),
        (
            json!({"nodeSelector": hundred}),
            SELECTOR,
            "does not match the pod's node selector k100=v, k101=v, k102=v and 97 more: ",
        ),
        (
            affinity(json!([in_zones(json!(["a", "b"])), in_zones(json!(["c"]))])),
            SELECTOR,
            "does not match the pod's node affinity zone in (a, b) or zone=c: ",
        ),
        (affinity(operators), SELECTOR, "does not match the pod's node affinity gpu, !spot, arch!=arm64 and 1 more: "),
        (json!({}), SELECTOR, "does not match the pod's node selector or affinity: "),
        // The sidecar runs beside the containers. The init container needs less.
        (
            json!({"containers": [{"name": "a", "resources": resources("2")}, {"name": "b", "resources": resources("1500m")}],
                "initContainers": [{"name": "c", "resources": resources("1"), "restartPolicy": "Always"},
                    {"name": "d", "resources": {"requests": {"cpu": 3, "memory": "1Gi"}}}],
                "overhead": {"cpu": "250m"}}),
            LACKS,
            "lacks free cpu and nvidia.com/gpu and memory: the pod requests 4750m cpu and 6 nvidia.com/gpu and 1Gi memory (",
        ),
        (
            json!({"containers": [{"name": "a", "resources": resources("2")}], "resources": {"requests": {"cpu": "999"}}}),
            LACKS,
            "lacks free cpu and nvidia.com/gpu and memory: the pod requests 999 cpu and 2 nvidia.com/gpu (",
        ),
    ] {
        let pod = crate::pods::testing::pod("a", json!({"spec": merged(spec, &json!({"nodeName": null}))}));
        let found = explained(&format!("0/1 nodes are available: {reasons}."), &pod, &Facts::default());
        assert!(found.sentence.starts_with(&format!("the only node {sentence}{reasons}")), "{}", found.sentence);
    }
}

/// Nodes of two CPUs.
fn nodes(changes: &[serde_json::Value]) -> Option<Arc<ClusterNodes>> {
    let mut nodes = ClusterNodes::default();
    for (number, change) in changes.iter().enumerate() {
        let node = json!({"metadata": {"name": format!("node-{number}"), "labels": {"disk": "ssd"}},
            "status": {"allocatable": {"cpu": "2", "memory": "16384256Ki"}}});
        nodes.add(&serde_json::from_value(merged(node, change)).unwrap());
    }
    Some(Arc::new(nodes))
}

#[test]
fn names_what_no_node_has() {
    let (plain, cordoned) = (json!({}), json!({"spec": {"unschedulable": true}}));
    let tainted = |key: &str| json!({"spec": {"taints": [{"key": key, "value": "blocked", "effect": "NoSchedule"}]}});
    let (fault, reserved) = (tainted("sre-fault"), tainted("node-role.kubernetes.io/control-plane"));
    let requests =
        |requests: serde_json::Value| json!({"containers": [{"name": "a", "resources": {"requests": requests}}]});
    let terms = |keys: &[&str]| {
        let term = |key: &&str| json!({"matchExpressions": [{"key": key, "operator": "Exists"}]});
        let terms: Vec<_> = keys.iter().map(term).collect();
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    const SELECTOR: &str = "node(s) didn't match Pod's node affinity/selector";
    const CPU: &str = "2 Insufficient cpu";
    for (spec, reasons, nodes, cause, sentence) in [
        (
            json!({"nodeSelector": {"label": "someLabel"}}),
            format!("2 {SELECTOR}"),
            nodes(&[plain.clone(), plain.clone()]),
            Cause::NodeSelector,
            "none of 2 nodes matches the pod's node selector label=someLabel: no node has it (",
        ),
        (
            json!({"nodeSelector": {"disk": "ssd", "gpu": "a100"}}),
            format!("2 {SELECTOR}"),
            nodes(&[plain.clone(), plain.clone()]),
            Cause::NodeSelector,
            "none of 2 nodes matches the pod's node selector disk=ssd, gpu=a100: no node has gpu=a100 (",
        ),
        (
            terms(&["gpu", "tpu"]),
            format!("2 {SELECTOR}"),
            nodes(&[plain.clone(), plain.clone()]),
            Cause::NodeSelector,
            "none of 2 nodes matches the pod's node affinity gpu or tpu: no node has any of gpu, tpu (",
        ),
        // A node has one of the alternatives, or is new.
        (
            terms(&["gpu", "disk"]),
            format!("2 {SELECTOR}"),
            nodes(&[plain.clone(), plain.clone()]),
            Cause::NodeSelector,
            "none of 2 nodes matches the pod's node affinity gpu or disk: 2 node(s)",
        ),
        (
            json!({"nodeSelector": {"label": "someLabel"}}),
            format!("2 {SELECTOR}"),
            nodes(&[plain.clone(), plain.clone(), plain.clone()]),
            Cause::NodeSelector,
            "none of 2 nodes matches the pod's node selector label=someLabel: 2 node(s)",
        ),
        // Whatever excludes the other node, none has the label.
        (
            json!({"nodeSelector": {"label": "someLabel"}}),
            format!("1 {SELECTOR}, 1 node(s) had untolerated taint {{gpu: }}"),
            nodes(&[plain.clone(), plain.clone()]),
            Cause::NodeSelector,
            "none of the other nodes matches the pod's node selector label=someLabel: no node has it (",
        ),
        (
            json!({"nodeSelector": {"disk": "ssd"}}),
            format!("1 {SELECTOR}, 1 node(s) had untolerated taint(s)"),
            nodes(&[plain.clone(), reserved.clone()]),
            Cause::NodeSelector,
            "none of the other nodes matches the pod's node selector disk=ssd: 1 node(s)",
        ),
        (
            requests(json!({"cpu": "999"})),
            CPU.to_owned(),
            nodes(&[plain.clone(), plain.clone()]),
            Cause::InsufficientResources,
            "none of 2 nodes has enough free cpu: the pod requests 999 cpu; the largest node has 2 (2 ",
        ),
        (
            requests(json!({"cpu": "2", "memory": "64Gi", "nvidia.com/gpu": "5"})),
            format!("{CPU}, 2 Insufficient memory, 2 Insufficient nvidia.com/gpu"),
            nodes(&[plain.clone(), plain.clone()]),
            Cause::InsufficientResources,
            "none of 2 nodes has enough free cpu and memory and nvidia.com/gpu: the pod requests 2 cpu and 64Gi memory and 5 \
             nvidia.com/gpu; the largest node has 15.6Gi memory; no node offers nvidia.com/gpu (",
        ),
        (
            json!({}),
            "2 node(s) had untolerated taint(s)".to_owned(),
            nodes(&[fault.clone(), reserved.clone()]),
            Cause::Taints,
            "the pod does not tolerate the taints of the nodes: sre-fault=blocked:NoSchedule on node-0, \
             node-role.kubernetes.io/control-plane=blocked:NoSchedule on node-1 (2 node(s)",
        ),
        // Another node has got the taint since.
        (
            json!({}),
            "2 node(s) had untolerated taint(s)".to_owned(),
            nodes(&[fault.clone(), plain.clone()]),
            Cause::Taints,
            "the pod does not tolerate the taints of the nodes: 2 node(s)",
        ),
        (
            json!({}),
            "2 node(s) were unschedulable".to_owned(),
            nodes(&[cordoned.clone(), cordoned.clone()]),
            Cause::NodeCordoned,
            "node-0 and node-1 are cordoned: 2 node(s)",
        ),
        (
            json!({}),
            "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable".to_owned(),
            nodes(&[fault, cordoned]),
            Cause::Unknown,
            "none of 2 nodes fits: the pod does not tolerate sre-fault=blocked:NoSchedule on node-0; node-1 is cordoned (",
        ),
    ] {
        let pod = crate::pods::testing::pod("a", json!({"spec": merged(spec, &json!({"nodeName": null}))}));
        let message = format!("0/2 nodes are available: {reasons}.");
        let found = explained(&message, &pod, &Facts { nodes, ..Facts::default() });
        assert!(found.cause == cause && found.sentence.starts_with(sentence), "{:?} {}", found.cause, found.sentence);
    }
}

#[test]
fn a_sentence_about_thousands_of_nodes_is_one_line() {
    let tainted = |key: usize| json!({"spec": {"taints": [{"key": format!("key-{key}"), "effect": "NoSchedule"}]}});
    let nodes = nodes(&(0..5000).map(|number| tainted(number % 9)).collect::<Vec<_>>());
    let message = "0/5000 nodes are available: 5000 node(s) had untolerated taint(s).";
    let found = explained(message, &Pod::default(), &Facts { nodes, ..Facts::default() });
    assert!(
        found.sentence.contains("key-0:NoSchedule on node-0, node-1008, node-1017 and 553 more"),
        "{}",
        found.sentence
    );
    assert!(found.sentence.ends_with(" and 6 more (5000 node(s) had untolerated taint(s))"), "{}", found.sentence);
    assert!(found.sentence.len() < MESSAGE_LIMIT, "{}", found.sentence.len());
}

#[test]
fn asks_for_the_nodes_only_if_they_may_show_more() {
    let asks = |spec: serde_json::Value, reasons: &str| {
        let message = format!("0/2 nodes are available: {reasons}.");
        let pod = crate::pods::testing::pod("a", json!({"spec": merged(spec, &json!({"nodeName": null}))}));
        let (_, reasons) = fit_error(&message).unwrap();
        may_show_more(&pod, &exclusions(reasons))
    };
    let selector = json!({"nodeSelector": {"disk": "ssd"}});
    let requests = json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}]});
    for (spec, reasons, expected) in [
        (json!({}), "2 node(s) were unschedulable", true),
        (json!({}), "2 node(s) had untolerated taint(s)", true),
        (json!({}), "2 node(s) had untolerated taint {dedicated: gpu}", false),
        (selector, "2 node(s) didn't match Pod's node affinity/selector", true),
        (json!({}), "2 node(s) didn't match the requested node name", false),
        (requests.clone(), "2 Insufficient cpu", true),
        (requests, "2 Too many pods", false),
        (json!({}), "2 node(s) didn't have free ports for the requested pod ports", false),
        (json!({}), "pod has unbound immediate PersistentVolumeClaims", false),
    ] {
        assert_eq!(asks(spec, reasons), expected, "{reasons}");
    }
}

#[test]
fn names_the_pod_that_has_the_port() {
    const MESSAGE: &str = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    let ports = json!([{"containerPort": 9100, "hostPort": 9100}]);
    let spec = |node: &str| json!({"nodeName": node, "containers": [{"name": "app", "ports": ports}]});
    let mut holders = PortHolders::default();
    holders.see(&crate::pods::testing::pod("exporter", json!({"spec": spec("rig-node")})));
    let pod = crate::pods::testing::pod("a", json!({"spec": spec(""), "status": {"phase": "Pending"}}));
    for (may_name, sentence) in [
        (true, "host port 9100 is taken by shop/exporter on rig-node: 1 node(s)"),
        (false, "host port 9100 is taken by a pod that is not shown here: 1 node(s)"),
    ] {
        let facts = Facts { port_holder: holders.holder(&pod, |_| may_name), ..Facts::default() };
        let found = explained(MESSAGE, &pod, &facts);
        assert!(found.sentence.starts_with(sentence), "{}", found.sentence);
    }
}
#[test]
fn names_the_claim_and_why_it_is_not_bound() {
    const MESSAGE: &str = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found";
    const MISSING: &str = "storageclass.storage.k8s.io \"standard-v2\" not found";
    let pod = |claims: &[&str]| {
        let volumes = claims.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let volumes: Vec<_> = volumes.chain([json!({"name": "scratch", "emptyDir": {}})]).collect();
        let pod = json!({"metadata": {"creationTimestamp": "1970-01-01T00:10:00Z"}, "spec": {"nodeName": null, "volumes": volumes}});
        crate::pods::testing::pod("redis-0", pod)
    };
    let event = |kind: &str, message: &str, last: i64| {
        let involved =
            InvolvedObject { kind: kind.to_owned(), name: "redis-pvc".to_owned(), ..InvolvedObject::default() };
        let (reason, message) = ("ProvisioningFailed".to_owned(), message.to_owned());
        Event { involved, reason, message, last: Some(at(last)), ..Event::default() }
    };
    let claim = "PersistentVolumeClaim";
    for (claims, events, sentence) in [
        (&["redis-pvc"][..], vec![], "the PersistentVolumeClaim redis-pvc is not bound"),
        (&["data", "redis-pvc"], vec![], "one of the PersistentVolumeClaims data, redis-pvc is not bound"),
        (&[], vec![], "a PersistentVolumeClaim of the pod is not bound"),
        (
            &["data", "redis-pvc"],
            vec![event(claim, MISSING, 900)],
            "the PersistentVolumeClaim redis-pvc is not bound: the StorageClass standard-v2 does not exist",
        ),
        (
            &["redis-pvc"],
            vec![event(claim, "failed to provision volume with StorageClass \"fast\": no space", 900)],
            "the PersistentVolumeClaim redis-pvc is not bound: failed to provision volume with StorageClass \"fast\": no space",
        ),
        // Before the pod was created, and about a pod.
        (&["redis-pvc"], vec![event(claim, MISSING, 500)], "the PersistentVolumeClaim redis-pvc is not bound"),
        (&["redis-pvc"], vec![event("Pod", MISSING, 900)], "the PersistentVolumeClaim redis-pvc is not bound"),
    ] {
        let facts = Facts { events: events.into(), ..Facts::default() };
        let found = explained(MESSAGE, &pod(claims), &facts);
        assert_eq!((found.cause, found.sentence.as_str()), (Cause::VolumeUnbound, sentence));
        let late =
            of_message(MESSAGE, &Case { pod: &pod(claims), events: &facts.events, world: &facts, now: at(9000) });
        assert!(!late.sentence.contains("StorageClass"), "{}", late.sentence);
    }
}

#[test]
fn names_why_a_claim_is_not_bound() {
    const CLASS: &str = "the StorageClass standard-v2 does not exist";
    const UNBOUND: &str = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
    const UNFIT: &str = "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.";
    let volumes = json!([
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "logs"}},
    ]);
    let pod = crate::pods::testing::pod("redis-0", json!({"spec": {"nodeName": null, "volumes": volumes}}));
    let claim = |name: &str, is_unbound: bool, waits_for_pod: bool, why: &str| {
        (ArcStr::from(name), Arc::new(ClaimFacts { is_unbound, waits_for_pod, why: why.to_owned() }))
    };
    for (message, claims, sentence) in [
        (
            UNBOUND,
            vec![claim("data", false, false, ""), claim("logs", true, false, CLASS)],
            "the PersistentVolumeClaim logs is not bound: the StorageClass standard-v2 does not exist",
        ),
        (
            UNBOUND,
            vec![claim("data", true, true, ""), claim("logs", true, false, "")],
            "the PersistentVolumeClaim logs is not bound",
        ),
        // Not all are known, or each may be the one.
        (UNBOUND, vec![claim("logs", true, false, "")], "one of the PersistentVolumeClaims data, logs is not bound"),
        (
            UNBOUND,
            vec![claim("data", true, false, ""), claim("logs", true, false, "")],
            "one of the PersistentVolumeClaims data, logs is not bound",
        ),
        (
            UNFIT,
            vec![claim("data", true, true, "it wants 5Gi of class local, and no volume is free")],
            "no PersistentVolume fits the PersistentVolumeClaim data: it wants 5Gi of class local, and no volume is free (3 \
             node(s) didn't find available persistent volumes to bind)",
        ),
        (
            UNFIT,
            Vec::new(),
            "no PersistentVolume fits the PersistentVolumeClaims data, logs: 3 node(s) didn't find available persistent volumes \
             to bind",
        ),
    ] {
        let found = explained(message, &pod, &Facts { claims, ..Facts::default() });
        assert_eq!((found.cause, found.sentence.as_str()), (Cause::VolumeUnbound, sentence));
    }
}
