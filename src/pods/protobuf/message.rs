//! The protobuf messages of a pod, reduced to the fields that a [`Pod`](crate::pods::Pod) has. The numbers come from
//! `generated.proto` in `k8s.io/api/core/v1` and in apimachinery's `meta/v1`. All other fields are skipped.
//!
//! Texts are bytes, because the API server also accepts and returns invalid UTF-8 in protobuf.

use bytes::Bytes;
use prost::Message;

pub(super) use crate::watch::protobuf::message::{Pair, Time};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Pod {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    pub spec: Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    pub status: Option<PodStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ObjectMeta {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub namespace: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub uid: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    pub resource_version: Bytes,
    #[prost(int64, optional, tag = "7")]
    pub generation: Option<i64>,
    #[prost(message, optional, tag = "8")]
    pub creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    pub deletion_timestamp: Option<Time>,
    #[prost(int64, optional, tag = "10")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[prost(message, repeated, tag = "11")]
    pub labels: Vec<Pair>,
    #[prost(message, repeated, tag = "12")]
    pub annotations: Vec<Pair>,
    #[prost(message, repeated, tag = "13")]
    pub owner_references: Vec<OwnerReference>,
    #[prost(bytes = "bytes", repeated, tag = "14")]
    pub finalizers: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct OwnerReference {
    #[prost(bytes = "bytes", tag = "1")]
    pub kind: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub uid: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub api_version: Bytes,
    #[prost(bool, tag = "6")]
    pub controller: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSpec {
    #[prost(message, repeated, tag = "2")]
    pub containers: Vec<Container>,
    #[prost(bytes = "bytes", tag = "3")]
    pub restart_policy: Bytes,
    #[prost(int64, optional, tag = "4")]
    pub termination_grace_period_seconds: Option<i64>,
    #[prost(bytes = "bytes", tag = "10")]
    pub node_name: Bytes,
    #[prost(message, repeated, tag = "15")]
    pub image_pull_secrets: Vec<Name>,
    #[prost(message, repeated, tag = "20")]
    pub init_containers: Vec<Container>,
    #[prost(message, repeated, tag = "28")]
    pub readiness_gates: Vec<Name>,
    #[prost(message, repeated, tag = "38")]
    pub scheduling_gates: Vec<Name>,
}

/// `LocalObjectReference`, `PodReadinessGate` (its `conditionType`) and `PodSchedulingGate`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Name {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Container {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub image: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub command: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub args: Vec<Bytes>,
    #[prost(message, repeated, tag = "6")]
    pub ports: Vec<ContainerPort>,
    #[prost(message, optional, tag = "8")]
    pub resources: Option<ResourceRequirements>,
    #[prost(message, optional, tag = "10")]
    pub liveness_probe: Option<Probe>,
    #[prost(message, optional, tag = "11")]
    pub readiness_probe: Option<Probe>,
    #[prost(message, optional, tag = "12")]
    pub lifecycle: Option<Lifecycle>,
    #[prost(message, optional, tag = "22")]
    pub startup_probe: Option<Probe>,
    #[prost(message, repeated, tag = "23")]
    pub resize_policy: Vec<ContainerResizePolicy>,
    #[prost(bytes = "bytes", tag = "24")]
    pub restart_policy: Bytes,
    #[prost(message, repeated, tag = "25")]
    pub restart_policy_rules: Vec<ContainerRestartRule>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Lifecycle {
    #[prost(message, optional, tag = "2")]
    pub pre_stop: Option<LifecycleHandler>,
}

/// Only whether there is one.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LifecycleHandler {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerPort {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(int32, tag = "2")]
    pub host_port: i32,
    #[prost(int32, tag = "3")]
    pub container_port: i32,
    #[prost(bytes = "bytes", tag = "4")]
    pub protocol: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    pub host_ip: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Probe {
    #[prost(message, optional, tag = "1")]
    pub handler: Option<ProbeHandler>,
    #[prost(int32, tag = "2")]
    pub initial_delay_seconds: i32,
    #[prost(int32, tag = "3")]
    pub timeout_seconds: i32,
    #[prost(int32, tag = "4")]
    pub period_seconds: i32,
    #[prost(int32, tag = "6")]
    pub failure_threshold: i32,
    #[prost(int64, optional, tag = "7")]
    pub termination_grace_period_seconds: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProbeHandler {
    #[prost(message, optional, tag = "1")]
    pub exec: Option<ExecAction>,
    #[prost(message, optional, tag = "2")]
    pub http_get: Option<HttpGetAction>,
    #[prost(message, optional, tag = "3")]
    pub tcp_socket: Option<TcpSocketAction>,
    #[prost(message, optional, tag = "4")]
    pub grpc: Option<GrpcAction>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecAction {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub command: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpGetAction {
    #[prost(bytes = "bytes", tag = "1")]
    pub path: Bytes,
    #[prost(message, optional, tag = "2")]
    pub port: Option<IntOrString>,
    #[prost(bytes = "bytes", tag = "3")]
    pub host: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub scheme: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TcpSocketAction {
    #[prost(message, optional, tag = "1")]
    pub port: Option<IntOrString>,
    #[prost(bytes = "bytes", tag = "2")]
    pub host: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GrpcAction {
    #[prost(int32, tag = "1")]
    pub port: i32,
    #[prost(bytes = "bytes", tag = "2")]
    pub service: Bytes,
}

/// `util/intstr.IntOrString`: a port or its name.
#[derive(Clone, PartialEq, Message)]
pub(super) struct IntOrString {
    /// 1 for a string.
    #[prost(int64, tag = "1")]
    pub kind: i64,
    #[prost(int32, tag = "2")]
    pub int: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub string: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerResizePolicy {
    #[prost(bytes = "bytes", tag = "2")]
    pub restart_policy: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerRestartRule {
    #[prost(bytes = "bytes", tag = "1")]
    pub action: Bytes,
    #[prost(message, optional, tag = "2")]
    pub exit_codes: Option<ContainerRestartRuleOnExitCodes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerRestartRuleOnExitCodes {
    #[prost(bytes = "bytes", tag = "1")]
    pub operator: Bytes,
    #[prost(int32, repeated, packed = "false", tag = "2")]
    pub values: Vec<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResourceRequirements {
    #[prost(message, repeated, tag = "1")]
    pub limits: Vec<Amount>,
}

/// An entry of a `map<string, resource.Quantity>`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Amount {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(message, optional, tag = "2")]
    pub value: Option<Quantity>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Quantity {
    #[prost(bytes = "bytes", tag = "1")]
    pub string: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodStatus {
    #[prost(bytes = "bytes", tag = "1")]
    pub phase: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub conditions: Vec<PodCondition>,
    #[prost(bytes = "bytes", tag = "3")]
    pub message: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub reason: Bytes,
    #[prost(message, optional, tag = "7")]
    pub start_time: Option<Time>,
    #[prost(message, repeated, tag = "8")]
    pub container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    pub init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodCondition {
    #[prost(bytes = "bytes", tag = "1")]
    pub kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub status: Bytes,
    #[prost(message, optional, tag = "4")]
    pub last_transition_time: Option<Time>,
    #[prost(bytes = "bytes", tag = "5")]
    pub reason: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    pub message: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStatus {
    #[prost(bytes = "bytes", tag = "1")]
    pub name: Bytes,
    #[prost(message, optional, tag = "2")]
    pub state: Option<ContainerState>,
    #[prost(message, optional, tag = "3")]
    pub last_state: Option<ContainerState>,
    #[prost(bool, tag = "4")]
    pub ready: bool,
    #[prost(int32, tag = "5")]
    pub restart_count: i32,
    #[prost(bool, optional, tag = "9")]
    pub started: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerState {
    #[prost(message, optional, tag = "1")]
    pub waiting: Option<ContainerStateWaiting>,
    #[prost(message, optional, tag = "2")]
    pub running: Option<ContainerStateRunning>,
    #[prost(message, optional, tag = "3")]
    pub terminated: Option<ContainerStateTerminated>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStateWaiting {
    #[prost(bytes = "bytes", tag = "1")]
    pub reason: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub message: Bytes,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct ContainerStateRunning {
    #[prost(message, optional, tag = "1")]
    pub started_at: Option<Time>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStateTerminated {
    #[prost(int32, tag = "1")]
    pub exit_code: i32,
    #[prost(int32, tag = "2")]
    pub signal: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub reason: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub message: Bytes,
    #[prost(message, optional, tag = "5")]
    pub started_at: Option<Time>,
    #[prost(message, optional, tag = "6")]
    pub finished_at: Option<Time>,
    #[prost(bytes = "bytes", tag = "7")]
    pub container_id: Bytes,
}
