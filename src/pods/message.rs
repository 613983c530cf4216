//! The messages of a pod, with the fields that a [`Pod`](super::Pod) is made of.

use bytes::Bytes;
use prost::Message;
use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny},
};

use crate::{
    api::IGNORE_ANNOTATION,
    watch::message::{Item, Pair, Time, entries, messages, saturated},
};

messages! {
    /// A pod, without the fields that matter only until it is scheduled. Those are in [`UnscheduledPod`].
    Pod {
        #[prost(message, required, tag = 1)] metadata: ObjectMeta,
        #[prost(message, required, tag = 2)] spec: PodSpec,
        #[prost(message, required, tag = 3)] status: PodStatus,
    }

    ObjectMeta {
        #[prost(bytes = "bytes", tag = 1)] name: Bytes,
        #[prost(bytes = "bytes", tag = 3)] namespace: Bytes,
        #[prost(bytes = "bytes", tag = 5)] uid: Bytes,
        #[prost(bytes = "bytes", tag = 6)] resource_version: Bytes,
        #[prost(int64, optional, tag = 7)] generation: Option<i64>,
        #[prost(message, optional, tag = 8)] creation_timestamp: Option<Time>,
        #[prost(message, optional, tag = 9)] deletion_timestamp: Option<Time>,
        #[prost(int64, optional, tag = 10)] deletion_grace_period_seconds: Option<i64>,
        #[prost(message, repeated, tag = 11)] labels: Vec<Pair>,
        #[prost(message, repeated, tag = 12)] annotations: Vec<Annotation>,
        #[prost(message, repeated, tag = 13)] owner_references: Vec<OwnerReference>,
        #[prost(bytes = "bytes", repeated, tag = 14)] finalizers: Vec<Bytes>,
    }

    OwnerReference {
        #[prost(bytes = "bytes", tag = 1)] kind: Bytes,
        #[prost(bytes = "bytes", tag = 3)] name: Bytes,
        #[prost(bytes = "bytes", tag = 4)] uid: Bytes,
        #[prost(bytes = "bytes", tag = 5)] api_version: Bytes,
        #[prost(bool, tag = 6)] controller: bool,
    }

    PodSpec {
        #[prost(message, repeated, tag = 2)] containers: Vec<Container>,
        #[prost(bytes = "bytes", tag = 3)] restart_policy: Bytes,
        #[prost(int64, optional, tag = 4)] termination_grace_period_seconds: Option<i64>,
        #[prost(bytes = "bytes", tag = 10)] node_name: Bytes,
        #[prost(message, repeated, tag = 15)] image_pull_secrets: Vec<Name>,
        #[prost(message, repeated, tag = 20)] init_containers: Vec<Container>,
        #[prost(message, repeated, tag = 28)] readiness_gates: Vec<PodReadinessGate>,
        #[prost(message, repeated, tag = 38)] scheduling_gates: Vec<Name>,
    }

    /// `LocalObjectReference` and `PodSchedulingGate`.
    Name {
        #[prost(bytes = "bytes", tag = 1)] name: Bytes,
    }

    PodReadinessGate {
        #[prost(bytes = "bytes", tag = 1)] condition_type: Bytes,
    }

    Container {
        #[prost(bytes = "bytes", tag = 1)] name: Bytes,
        #[prost(bytes = "bytes", tag = 2)] image: Bytes,
        #[prost(bytes = "bytes", repeated, tag = 3)] command: Vec<Bytes>,
        #[prost(bytes = "bytes", repeated, tag = 4)] args: Vec<Bytes>,
        #[prost(message, repeated, tag = 6)] ports: Vec<ContainerPort>,
        #[prost(message, required, tag = 8)] resources: Limits,
        #[prost(message, optional, tag = 10)] liveness_probe: Option<Probe>,
        #[prost(message, optional, tag = 11)] readiness_probe: Option<Probe>,
        #[prost(message, required, tag = 12)] lifecycle: Lifecycle,
        #[prost(message, optional, tag = 22)] startup_probe: Option<Probe>,
        #[prost(message, repeated, tag = 23)] resize_policy: Vec<ContainerResizePolicy>,
        #[prost(bytes = "bytes", tag = 24)] restart_policy: Bytes,
        #[prost(message, repeated, tag = 25)] restart_policy_rules: Vec<ContainerRestartRule>,
    }

    ContainerPort {
        #[prost(bytes = "bytes", tag = 1)] name: Bytes,
        #[prost(int32, tag = 2)] host_port: i32,
        #[prost(int32, tag = 3)] container_port: i32,
        #[prost(bytes = "bytes", tag = 4)] protocol: Bytes,
        #[prost(bytes = "bytes", tag = 5)] #[serde(rename = "hostIP")] host_ip: Bytes,
    }

    /// `ResourceRequirements`.
    Limits {
        #[prost(message, repeated, tag = 1)] limits: Vec<Amount>,
    }

    Lifecycle {
        #[prost(message, optional, tag = 2)] pre_stop: Option<Present>,
    }

    Probe {
        #[prost(message, required, tag = 1)] #[serde(flatten)] handler: ProbeHandler,
        #[prost(int32, tag = 2)] initial_delay_seconds: i32,
        #[prost(int32, tag = 3)] timeout_seconds: i32,
        #[prost(int32, tag = 4)] period_seconds: i32,
        #[prost(int32, tag = 6)] failure_threshold: i32,
        #[prost(int64, optional, tag = 7)] termination_grace_period_seconds: Option<i64>,
    }

    ProbeHandler (inline) {
        #[prost(message, optional, tag = 1)] exec: Option<ExecAction>,
        #[prost(message, optional, tag = 2)] http_get: Option<HttpGetAction>,
        #[prost(message, optional, tag = 3)] tcp_socket: Option<TcpSocketAction>,
        #[prost(message, optional, tag = 4)] grpc: Option<GrpcAction>,
    }

    ExecAction {
        #[prost(bytes = "bytes", repeated, tag = 1)] command: Vec<Bytes>,
    }

    HttpGetAction {
        #[prost(bytes = "bytes", tag = 1)] path: Bytes,
        #[prost(message, optional, tag = 2)] port: Option<IntOrString>,
        #[prost(bytes = "bytes", tag = 3)] host: Bytes,
        #[prost(bytes = "bytes", tag = 4)] scheme: Bytes,
    }

    TcpSocketAction {
        #[prost(message, optional, tag = 1)] port: Option<IntOrString>,
        #[prost(bytes = "bytes", tag = 2)] host: Bytes,
    }

    GrpcAction {
        #[prost(int32, tag = 1)] port: i32,
        #[prost(bytes = "bytes", tag = 2)] service: Bytes,
    }

    ContainerResizePolicy {
        #[prost(bytes = "bytes", tag = 2)] restart_policy: Bytes,
    }

    ContainerRestartRule {
        #[prost(bytes = "bytes", tag = 1)] action: Bytes,
        #[prost(message, required, tag = 2)] exit_codes: ContainerRestartRuleOnExitCodes,
    }

    ContainerRestartRuleOnExitCodes {
        #[prost(bytes = "bytes", tag = 1)] operator: Bytes,
        #[prost(int32, repeated, packed = "false", tag = 2)] values: Vec<i32>,
    }

    PodStatus {
        #[prost(bytes = "bytes", tag = 1)] phase: Bytes,
        #[prost(message, repeated, tag = 2)] conditions: Vec<PodCondition>,
        #[prost(bytes = "bytes", tag = 3)] message: Bytes,
        #[prost(bytes = "bytes", tag = 4)] reason: Bytes,
        #[prost(message, optional, tag = 7)] start_time: Option<Time>,
        #[prost(message, repeated, tag = 8)] container_statuses: Vec<ContainerStatus>,
        #[prost(message, repeated, tag = 10)] init_container_statuses: Vec<ContainerStatus>,
    }

    PodCondition {
        #[prost(bytes = "bytes", tag = 1)] #[serde(rename = "type")] kind: Bytes,
        #[prost(bytes = "bytes", tag = 2)] status: Bytes,
        #[prost(message, optional, tag = 4)] last_transition_time: Option<Time>,
        #[prost(bytes = "bytes", tag = 5)] reason: Bytes,
        #[prost(bytes = "bytes", tag = 6)] message: Bytes,
    }

    ContainerStatus {
        #[prost(bytes = "bytes", tag = 1)] name: Bytes,
        #[prost(message, required, tag = 2)] state: ContainerState,
        #[prost(message, required, tag = 3)] last_state: ContainerState,
        #[prost(bool, tag = 4)] ready: bool,
        #[prost(int32, tag = 5)] restart_count: i32,
        #[prost(bool, optional, tag = 9)] started: Option<bool>,
    }

    ContainerState {
        #[prost(message, optional, tag = 1)] waiting: Option<ContainerStateWaiting>,
        #[prost(message, optional, tag = 2)] running: Option<ContainerStateRunning>,
        #[prost(message, optional, tag = 3)] terminated: Option<ContainerStateTerminated>,
    }

    ContainerStateWaiting {
        #[prost(bytes = "bytes", tag = 1)] reason: Bytes,
        #[prost(bytes = "bytes", tag = 2)] message: Bytes,
    }

    ContainerStateRunning {
        #[prost(message, optional, tag = 1)] started_at: Option<Time>,
    }

    ContainerStateTerminated {
        #[prost(int32, tag = 1)] exit_code: i32,
        #[prost(int32, tag = 2)] signal: i32,
        #[prost(bytes = "bytes", tag = 3)] reason: Bytes,
        #[prost(bytes = "bytes", tag = 4)] message: Bytes,
        #[prost(message, optional, tag = 5)] started_at: Option<Time>,
        #[prost(message, optional, tag = 6)] finished_at: Option<Time>,
        #[prost(bytes = "bytes", tag = 7)] #[serde(rename = "containerID")] container_id: Bytes,
    }

    /// The fields of a pod that matter only until it is scheduled. They are decoded in a second pass over the pods that have
    /// no node, so that the others do not cost more.
    UnscheduledPod {
        #[prost(message, required, tag = 2)] spec: UnscheduledPodSpec,
    }

    UnscheduledPodSpec {
        #[prost(message, repeated, tag = 1)] volumes: Vec<Volume>,
        #[prost(message, repeated, tag = 2)] containers: Vec<UnscheduledContainer>,
        #[prost(message, repeated, tag = 7)] node_selector: Vec<Pair>,
        #[prost(message, required, tag = 18)] affinity: Affinity,
        #[prost(message, repeated, tag = 20)] init_containers: Vec<UnscheduledContainer>,
        #[prost(message, repeated, tag = 22)] tolerations: Vec<Toleration>,
        #[prost(message, repeated, tag = 32)] overhead: Vec<Amount>,
        #[prost(message, required, tag = 40)] resources: Requests,
    }

    Volume {
        #[prost(bytes = "bytes", tag = 1)] name: Bytes,
        #[prost(message, required, tag = 2)] #[serde(flatten)] source: VolumeSource,
    }

    VolumeSource (inline) {
        #[prost(message, optional, tag = 10)] persistent_volume_claim: Option<PersistentVolumeClaimVolumeSource>,
        #[prost(message, optional, tag = 29)] ephemeral: Option<Present>,
    }

    PersistentVolumeClaimVolumeSource {
        #[prost(bytes = "bytes", tag = 1)] claim_name: Bytes,
    }

    UnscheduledContainer {
        #[prost(message, required, tag = 8)] resources: Requests,
        #[prost(bytes = "bytes", tag = 24)] restart_policy: Bytes,
    }

    /// `ResourceRequirements`.
    Requests {
        #[prost(message, repeated, tag = 2)] requests: Vec<Amount>,
    }

    Toleration {
        #[prost(bytes = "bytes", tag = 1)] key: Bytes,
        #[prost(bytes = "bytes", tag = 2)] operator: Bytes,
        #[prost(bytes = "bytes", tag = 3)] value: Bytes,
        #[prost(bytes = "bytes", tag = 4)] effect: Bytes,
    }

    Affinity {
        #[prost(message, required, tag = 1)] node_affinity: NodeAffinity,
    }

    NodeAffinity {
        #[prost(message, required, tag = 1)]
        required_during_scheduling_ignored_during_execution: NodeSelector,
    }

    NodeSelector {
        #[prost(message, repeated, tag = 1)] node_selector_terms: Vec<NodeSelectorTerm>,
    }

    NodeSelectorTerm {
        #[prost(message, repeated, tag = 1)] match_expressions: Vec<NodeSelectorRequirement>,
        #[prost(message, repeated, tag = 2)] match_fields: Vec<NodeSelectorRequirement>,
    }

    NodeSelectorRequirement {
        #[prost(bytes = "bytes", tag = 1)] key: Bytes,
        #[prost(bytes = "bytes", tag = 2)] operator: Bytes,
        #[prost(bytes = "bytes", repeated, tag = 3)] values: Vec<Bytes>,
    }

    /// The names of a pod whose other fields cannot be decoded.
    Outline {
        #[prost(message, required, tag = 1)] metadata: OutlineMeta,
    }

    OutlineMeta {
        #[prost(bytes = "bytes", tag = 1)] name: Bytes,
        #[prost(bytes = "bytes", tag = 3)] namespace: Bytes,
        #[prost(bytes = "bytes", tag = 5)] uid: Bytes,
        #[prost(bytes = "bytes", tag = 6)] resource_version: Bytes,
    }
}

impl ObjectMeta {
    pub(crate) fn outline(&self) -> OutlineMeta {
        let Self { name, namespace, uid, resource_version, .. } = self;
        let [name, namespace, uid, resource_version] = [name, namespace, uid, resource_version].map(Bytes::clone);
        OutlineMeta { name, namespace, uid, resource_version }
    }
}

/// A message of which only the presence matters.
#[derive(Message)]
pub(crate) struct Present {}

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|IgnoredAny| Self {})
    }
}

/// An entry of the annotations.
#[derive(Message)]
pub(crate) struct Annotation {
    #[prost(bytes = "bytes", tag = 1)]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = 2)]
    pub(crate) value: Bytes,
}

/// In a file, the value of an annotation may be anything. One that is not a text becomes a text that is valid for none of
/// the annotations that are used; whether a pod is ignored must be certain.
impl Item for Annotation {
    fn read_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Self>, D::Error> {
        entries(deserializer, |key, value| match value {
            Scalar::Text(value) => Ok(Self { key, value: value.into() }),
            _ if key == IGNORE_ANNOTATION => Err(D::Error::custom("an annotation that is not a text")),
            _ => Ok(Self { key, value: Bytes::from_static(b"\0") }),
        })
    }
}

/// An entry of a `map<string, resource.Quantity>`.
#[derive(Message)]
pub(crate) struct Amount {
    #[prost(bytes = "bytes", tag = 1)]
    pub(crate) key: Bytes,
    #[prost(message, required, tag = 2)]
    pub(crate) value: Quantity,
}

#[derive(Message)]
pub(crate) struct Quantity {
    #[prost(bytes = "bytes", tag = 1)]
    pub(crate) string: Bytes,
}

/// In a file, quantities may be numbers.
impl Item for Amount {
    fn read_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Self>, D::Error> {
        entries(deserializer, |key, value| {
            let string = match value {
                Scalar::Text(text) => text.into(),
                Scalar::Number(number) => number.to_string().into(),
                Scalar::Other(IgnoredAny) => Bytes::new(),
            };
            Ok(Self { key, value: Quantity { string } })
        })
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Number(serde_json::Number),
    Other(IgnoredAny),
}

/// `util/intstr` `IntOrString`: a port or its name.
#[derive(Message)]
pub(crate) struct IntOrString {
    /// 1 for a string.
    #[prost(int64, tag = 1)]
    pub(crate) kind: i64,
    #[prost(int32, tag = 2)]
    pub(crate) int: i32,
    #[prost(bytes = "bytes", tag = 3)]
    pub(crate) string: Bytes,
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Json {
            Int(i64),
            String(String),
        }
        Ok(match Json::deserialize(deserializer)? {
            Json::Int(int) => Self { kind: 0, int: saturated(int), string: Bytes::new() },
            Json::String(string) => Self { kind: 1, int: 0, string: string.into() },
        })
    }
}
