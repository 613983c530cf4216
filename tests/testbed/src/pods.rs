//! Thousands of pods, as in a busy cluster: about 4 KB each, mostly fields that the operator does not read.
//!
//! They are for [`ControlPlane::load`](crate::ControlPlane::load). Their JSON is formatted directly as text, because
//! building 150,000 `serde_json` values would take longer than loading them.

use std::fmt::Write;

/// Describes the pods of a cluster.
#[derive(Debug, Clone)]
pub struct Shape {
    /// Namespaces, `team-0` and so on. Default: 100.
    pub namespaces: usize,
    /// Deployments over all namespaces, each with its share of the pods. Default: 500.
    pub workloads: usize,
    /// Nodes, `node-0` and so on. Default: 200.
    pub nodes: usize,
    /// Variables in each container's environment. Default: 20.
    pub env: usize,
    /// Of this many workloads, one is crash-looping with all of its pods; 0: no workload is. Default: 100.
    pub crash_looping: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self { namespaces: 100, workloads: 500, nodes: 200, env: 20, crash_looping: 100 }
    }
}

/// The state of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// Running and ready.
    Healthy,
    /// In CrashLoopBackOff after being OOM-killed.
    CrashLooping {
        /// The restart count.
        restarts: u32,
    },
}

/// The characters of Kubernetes' generated names. They lack vowels, so that they form no words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The key in etcd and the JSON of pod number `index`. The result depends only on the arguments.
pub fn filler(index: usize, shape: &Shape) -> (String, String) {
    let workload = index % shape.workloads.max(1);
    let crashing = shape.crash_looping > 0 && workload.is_multiple_of(shape.crash_looping);
    let health = if crashing { Health::CrashLooping { restarts: 7 } } else { Health::Healthy };
    filler_as(index, shape, health)
}

/// Like [`filler`], but with the given health: for pods that change.
pub fn filler_as(index: usize, shape: &Shape, health: Health) -> (String, String) {
    let (namespace, name) = filler_name(index, shape);
    let workload = index % shape.workloads.max(1);
    let node = index % shape.nodes.max(1);
    let mut env = String::with_capacity(shape.env * 56);
    for number in 0..shape.env {
        let comma = if number > 0 { "," } else { "" };
        let _ = write!(env, r#"{comma}{{"name":"SETTING_{number:02}","value":"of service {workload}"}}"#);
    }
    let status = status(index, &name, &namespace, node, health);
    let json = format!(
        r##"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","generateName":"service-{workload}-{hash}-","namespace":"{namespace}","uid":"{uid}","generation":1,"creationTimestamp":"2025-11-03T08:15:02Z","labels":{{"app.kubernetes.io/name":"service-{workload}","app.kubernetes.io/part-of":"{namespace}","pod-template-hash":"{hash}"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"service-{workload}-{hash}","uid":"5e1f0000-0000-4000-8000-{workload:012x}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"2025-11-03T08:15:02Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:generateName":{{}},"f:labels":{{".":{{}},"f:app.kubernetes.io/name":{{}},"f:app.kubernetes.io/part-of":{{}},"f:pod-template-hash":{{}}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"5e1f0000-0000-4000-8000-{workload:012x}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{"k:{{\"name\":\"app\"}}":{{".":{{}},"f:env":{{}},"f:image":{{}},"f:imagePullPolicy":{{}},"f:name":{{}},"f:resources":{{}}}}}},"f:dnsPolicy":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:securityContext":{{}}}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2025-11-03T08:15:09Z","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{"k:{{\"type\":\"ContainersReady\"}}":{{".":{{}},"f:status":{{}},"f:type":{{}}}},"k:{{\"type\":\"Ready\"}}":{{".":{{}},"f:status":{{}},"f:type":{{}}}}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:phase":{{}},"f:podIP":{{}},"f:startTime":{{}}}}}},"subresource":"status"}}]}},"spec":{{"containers":[{{"name":"app","image":"registry.example/{namespace}/service-{workload}:1.{workload}.0","ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}}],"env":[{env}],"resources":{{"limits":{{"memory":"512Mi"}},"requests":{{"cpu":"100m","memory":"256Mi"}}}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"default","serviceAccount":"default","nodeName":"node-{node}","securityContext":{{}},"schedulerName":"default-scheduler","priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}},"status":{status}}}"##,
        hash = hash(workload),
        uid = uid(index),
    );
    (key(&namespace, &name), json)
}

/// The namespace and name of pod number `index`.
pub fn filler_name(index: usize, shape: &Shape) -> (String, String) {
    let workload = index % shape.workloads.max(1);
    let namespace = workload % shape.namespaces.max(1);
    let name = format!("service-{workload}-{}-{}", hash(workload), word(index, 5));
    (format!("team-{namespace}"), name)
}

/// The key of a pod in etcd.
pub fn key(namespace: &str, name: &str) -> String {
    format!("/registry/pods/{namespace}/{name}")
}

fn status(index: usize, name: &str, namespace: &str, node: usize, health: Health) -> String {
    let uid = uid(index);
    let (ready, why, container) = match health {
        Health::Healthy => (
            "True",
            "",
            r#""state":{"running":{"startedAt":"2025-11-03T08:15:08Z"}},"lastState":{},"ready":true,"restartCount":0,"started":true"#.to_owned(),
        ),
        Health::CrashLooping { restarts } => (
            "False",
            r#","reason":"ContainersNotReady","message":"containers with unready status: [app]""#,
            format!(
                r#""state":{{"waiting":{{"reason":"CrashLoopBackOff","message":"back-off 5m0s restarting failed container=app pod={name}_{namespace}({uid})"}}}},"lastState":{{"terminated":{{"exitCode":137,"reason":"OOMKilled","startedAt":"2025-11-03T08:40:31Z","finishedAt":"2025-11-03T08:40:44Z","containerID":"containerd://{index:064x}"}}}},"ready":false,"restartCount":{restarts},"started":false"#
            ),
        ),
    };
    let ip = format!("10.{}.{}.{}", index >> 16 & 255, index >> 8 & 255, index & 255);
    let host = format!("192.168.{}.{}", node >> 8 & 255, node & 255);
    format!(
        r#"{{"observedGeneration":1,"phase":"Running","conditions":[{{"type":"PodReadyToStartContainers","status":"True","lastProbeTime":null,"lastTransitionTime":"2025-11-03T08:15:08Z"}},{{"type":"Initialized","status":"True","lastProbeTime":null,"lastTransitionTime":"2025-11-03T08:15:02Z"}},{{"type":"Ready","status":"{ready}","lastProbeTime":null,"lastTransitionTime":"2025-11-03T08:15:09Z"{why}}},{{"type":"ContainersReady","status":"{ready}","lastProbeTime":null,"lastTransitionTime":"2025-11-03T08:15:09Z"{why}}},{{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2025-11-03T08:15:02Z"}}],"hostIP":"{host}","hostIPs":[{{"ip":"{host}"}}],"podIP":"{ip}","podIPs":[{{"ip":"{ip}"}}],"startTime":"2025-11-03T08:15:02Z","containerStatuses":[{{"name":"app",{container},"image":"registry.example/{namespace}/service:1","imageID":"registry.example/{namespace}/service@sha256:{node:064x}","containerID":"containerd://{index:064x}","resources":{{}}}}],"qosClass":"Burstable"}}"#
    )
}

fn uid(index: usize) -> String {
    format!("0f111e50-0000-4000-8000-{index:012x}")
}

/// A pod-template-hash, which has the same characters.
fn hash(workload: usize) -> String {
    // Multiplication by an odd number spreads consecutive indexes over the range.
    word(workload.wrapping_mul(0x9E37_79B1), 10)
}

fn word(mut number: usize, length: usize) -> String {
    let mut word = String::with_capacity(length);
    for _ in 0..length {
        word.push(char::from(ALPHABET[number % ALPHABET.len()]));
        number /= ALPHABET.len();
    }
    word
}
