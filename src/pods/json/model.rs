//! The shape of a pod in JSON. serde_json skips fields that are not listed here without building them.

use arcstr::ArcStr;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use crate::pods::{
    ContainerSpec, ContainerState, ContainerStatus, Controller, ExitCodes, FirstNames, History, HostPort, NodeTerm,
    Omitted, Pod, PodCondition, Requirements, RestartPolicy, Running, Terminated, Toleration, Uid, Waiting,
    pod::{RESTART_CONTAINER, first_word, seconds},
    requirements::{self, ContainerRequests, Requests, SpecFields},
    undeclared_port::{DeclaredPort, DeclaredPorts},
};

use super::{
    fields::{Annotations, Labels, Text, find, first, first_names, list, or_default, requests, text},
    probe::ProbeJson,
};

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct PodJson {
    #[serde(deserialize_with = "or_default")]
    pub(super) metadata: MetaJson,
    #[serde(deserialize_with = "or_default")]
    spec: SpecJson,
    #[serde(deserialize_with = "or_default")]
    status: StatusJson,
}

impl From<PodJson> for Pod {
    fn from(PodJson { metadata, mut spec, status }: PodJson) -> Self {
        let requirements = spec.requirements(&metadata.name, &status.phase);
        let ports: Vec<_> = spec.declared_ports().collect();
        let mut pod = Self {
            uid: Uid::from_text(&metadata.uid),
            namespace: metadata.namespace,
            name: metadata.name,
            labels: metadata.labels.0,
            ignored: metadata.annotations.ignored,
            ownership: metadata.annotations.ownership.non_empty(),
            controller: metadata.owner_references.map(|owner| Controller {
                api_version: owner.api_version,
                kind: owner.kind,
                name: owner.name,
                uid: owner.uid,
            }),
            finalizers: metadata.finalizers,
            generation: metadata.generation,
            created: metadata.creation_timestamp,
            deletion: metadata.deletion_timestamp,
            deletion_grace: metadata.deletion_grace_period_seconds,
            requirements,
            host_ports: spec.host_ports(),
            node: spec.node_name,
            restart_policy: RestartPolicy::from_name(&spec.restart_policy).unwrap_or_default(),
            termination_grace: spec.termination_grace_period_seconds.and_then(seconds),
            has_pull_secrets: spec.image_pull_secrets.iter().any(|secret| !secret.name.is_empty()),
            scheduling_gates: spec.scheduling_gates,
            readiness_gates: spec.readiness_gates.into_iter().map(|gate| gate.condition_type).collect(),
            init_containers: spec.init_containers.into_iter().map(Into::into).collect(),
            containers: spec.containers.into_iter().map(Into::into).collect(),
            phase: status.phase,
            reason: status.reason,
            message: status.message,
            started: status.start_time,
            conditions: status.conditions.into_iter().map(Into::into).collect(),
            init_statuses: status.init_container_statuses.into_iter().map(Into::into).collect(),
            statuses: status.container_statuses.into_iter().map(Into::into).collect(),
            omitted: Omitted::default(),
            history: History::default(),
        };
        pod.keep_undeclared_ports(&ports);
        pod.mark_limits_of_ranges(&metadata.annotations.limit_range);
        pod
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct MetaJson {
    #[serde(deserialize_with = "text")]
    uid: ArcStr,
    #[serde(deserialize_with = "text")]
    namespace: ArcStr,
    #[serde(deserialize_with = "text")]
    name: ArcStr,
    #[serde(deserialize_with = "text")]
    pub(super) resource_version: ArcStr,
    #[serde(deserialize_with = "or_default")]
    labels: Labels,
    #[serde(deserialize_with = "or_default")]
    annotations: Annotations,
    #[serde(deserialize_with = "controller")]
    owner_references: Option<OwnerJson>,
    #[serde(deserialize_with = "first_names::<_, Text>")]
    finalizers: FirstNames,
    generation: Option<i64>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    deletion_grace_period_seconds: Option<i64>,
}

/// The first owner that is the controller.
fn controller<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OwnerJson>, D::Error> {
    find(deserializer, |owner: &OwnerJson| owner.controller)
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OwnerJson {
    #[serde(rename = "apiVersion", deserialize_with = "text")]
    api_version: ArcStr,
    #[serde(deserialize_with = "text")]
    kind: ArcStr,
    #[serde(deserialize_with = "text")]
    name: ArcStr,
    #[serde(deserialize_with = "text")]
    uid: ArcStr,
    #[serde(deserialize_with = "or_default")]
    controller: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    #[serde(deserialize_with = "text")]
    node_name: ArcStr,
    #[serde(deserialize_with = "text")]
    restart_policy: ArcStr,
    termination_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "list")]
    image_pull_secrets: Vec<NameJson>,
    #[serde(deserialize_with = "first_names::<_, NameJson>")]
    scheduling_gates: FirstNames,
    #[serde(deserialize_with = "list")]
    readiness_gates: Vec<ReadinessGateJson>,
    #[serde(deserialize_with = "list")]
    init_containers: Vec<ContainerJson>,
    #[serde(deserialize_with = "list")]
    containers: Vec<ContainerJson>,
    #[serde(deserialize_with = "or_default")]
    node_selector: Labels,
    #[serde(deserialize_with = "or_default")]
    affinity: AffinityJson,
    #[serde(deserialize_with = "or_default")]
    resources: ResourcesJson,
    #[serde(deserialize_with = "requests")]
    overhead: Requests,
    #[serde(deserialize_with = "list")]
    volumes: Vec<VolumeJson>,
    #[serde(deserialize_with = "list")]
    tolerations: Vec<TolerationJson>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct TolerationJson {
    #[serde(deserialize_with = "text")]
    key: ArcStr,
    #[serde(deserialize_with = "text")]
    operator: ArcStr,
    #[serde(deserialize_with = "text")]
    value: ArcStr,
    #[serde(deserialize_with = "text")]
    effect: ArcStr,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct VolumeJson {
    #[serde(deserialize_with = "text")]
    name: ArcStr,
    persistent_volume_claim: Option<ClaimJson>,
    ephemeral: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ClaimJson {
    #[serde(deserialize_with = "text")]
    claim_name: ArcStr,
}

impl VolumeJson {
    fn claim(&self, pod: &str) -> Option<ArcStr> {
        let of_ephemeral = || self.ephemeral.map(|_| requirements::ephemeral_claim(pod, &self.name));
        self.persistent_volume_claim.as_ref().map(|claim| claim.claim_name.clone()).or_else(of_ephemeral)
    }
}

impl SpecJson {
    fn requirements(&mut self, pod: &str, phase: &str) -> Option<Box<Requirements>> {
        if !requirements::matter(&self.node_name, phase) {
            return None;
        }
        let required =
            std::mem::take(&mut self.affinity).node_affinity.required_during_scheduling_ignored_during_execution;
        let alternatives = required.node_selector_terms.into_iter().map(|term| {
            let terms = term.match_expressions.into_iter().chain(term.match_fields);
            terms.map(|own| NodeTerm { key: own.key, operator: own.operator, values: own.values }).collect()
        });
        let requests = |containers: &[ContainerJson]| {
            let requests = containers.iter().map(|container| ContainerRequests {
                is_sidecar: container.restart_policy == "Always",
                requests: container.resources.requests.clone(),
            });
            requests.collect()
        };
        Requirements::of(SpecFields {
            claims: self.volumes.iter().filter_map(|volume| volume.claim(pod)).collect(),
            selector: std::mem::take(&mut self.node_selector).0,
            affinity: alternatives.collect(),
            init_containers: requests(&self.init_containers),
            containers: requests(&self.containers),
            pod: std::mem::take(&mut self.resources.requests),
            overhead: std::mem::take(&mut self.overhead),
            tolerations: std::mem::take(&mut self.tolerations)
                .into_iter()
                .map(|TolerationJson { key, operator, value, effect }| Toleration { key, operator, value, effect })
                .collect(),
        })
    }

    fn declared_ports(&self) -> impl Iterator<Item = DeclaredPorts> {
        let of = |port: &PortJson| (port.container_port, port.name.clone(), port.protocol.clone());
        let containers = self.init_containers.iter().chain(&self.containers);
        containers.map(move |container| DeclaredPort::all(container.ports.iter().map(of)))
    }

    fn host_ports(&self) -> Box<[HostPort]> {
        let ports = self.init_containers.iter().chain(&self.containers).flat_map(|container| &container.ports);
        HostPort::first(ports.filter_map(|port| HostPort::new(port.host_port, &port.protocol, &port.host_ip)))
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct AffinityJson {
    #[serde(deserialize_with = "or_default")]
    node_affinity: NodeAffinityJson,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NodeAffinityJson {
    #[serde(deserialize_with = "or_default")]
    required_during_scheduling_ignored_during_execution: NodeSelectorJson,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelectorJson {
    #[serde(deserialize_with = "list")]
    node_selector_terms: Vec<NodeSelectorTermJson>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelectorTermJson {
    #[serde(deserialize_with = "list")]
    match_expressions: Vec<NodeTermJson>,
    #[serde(deserialize_with = "list")]
    match_fields: Vec<NodeTermJson>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NodeTermJson {
    #[serde(deserialize_with = "text")]
    key: ArcStr,
    #[serde(deserialize_with = "text")]
    operator: ArcStr,
    #[serde(deserialize_with = "first_names::<_, Text>")]
    values: FirstNames,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct PortJson {
    #[serde(deserialize_with = "text")]
    name: ArcStr,
    #[serde(deserialize_with = "or_default")]
    container_port: i64,
    #[serde(deserialize_with = "or_default")]
    host_port: i64,
    #[serde(deserialize_with = "text")]
    protocol: ArcStr,
    #[serde(rename = "hostIP", deserialize_with = "text")]
    host_ip: ArcStr,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct NameJson {
    #[serde(deserialize_with = "text")]
    name: ArcStr,
}

impl From<NameJson> for ArcStr {
    fn from(NameJson { name }: NameJson) -> Self {
        name
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ReadinessGateJson {
    #[serde(deserialize_with = "text")]
    condition_type: ArcStr,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ContainerJson {
    #[serde(deserialize_with = "text")]
    name: ArcStr,
    #[serde(deserialize_with = "text")]
    restart_policy: ArcStr,
    #[serde(deserialize_with = "list")]
    restart_policy_rules: Vec<RestartRuleJson>,
    #[serde(deserialize_with = "list")]
    resize_policy: Vec<ResizePolicyJson>,
    #[serde(deserialize_with = "text")]
    image: ArcStr,
    #[serde(deserialize_with = "first")]
    command: Option<ArcStr>,
    #[serde(deserialize_with = "first")]
    args: Option<ArcStr>,
    liveness_probe: Option<ProbeJson>,
    readiness_probe: Option<ProbeJson>,
    startup_probe: Option<ProbeJson>,
    #[serde(deserialize_with = "or_default")]
    lifecycle: LifecycleJson,
    #[serde(deserialize_with = "or_default")]
    resources: ResourcesJson,
    #[serde(deserialize_with = "list")]
    ports: Vec<PortJson>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RestartRuleJson {
    #[serde(deserialize_with = "text")]
    action: ArcStr,
    #[serde(deserialize_with = "or_default")]
    exit_codes: ExitCodesJson,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ExitCodesJson {
    #[serde(deserialize_with = "text")]
    operator: ArcStr,
    #[serde(deserialize_with = "list")]
    values: Vec<i32>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ResizePolicyJson {
    #[serde(deserialize_with = "text")]
    restart_policy: ArcStr,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct LifecycleJson {
    pre_stop: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourcesJson {
    #[serde(deserialize_with = "or_default")]
    limits: LimitsJson,
    #[serde(deserialize_with = "requests")]
    requests: Requests,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LimitsJson {
    #[serde(deserialize_with = "text")]
    memory: ArcStr,
}

impl RestartRuleJson {
    fn into_exit_codes(self) -> Option<ExitCodes> {
        ExitCodes::from_restart_rule(&self.action, &self.exit_codes.operator, self.exit_codes.values)
    }
}

impl From<ContainerJson> for ContainerSpec {
    fn from(json: ContainerJson) -> Self {
        Self {
            name: json.name,
            restart_policy: RestartPolicy::from_name(&json.restart_policy),
            restart_rules: json.restart_policy_rules.into_iter().filter_map(RestartRuleJson::into_exit_codes).collect(),
            restarts_on_resize: json.resize_policy.iter().any(|policy| policy.restart_policy == RESTART_CONTAINER),
            has_pre_stop: json.lifecycle.pre_stop.is_some(),
            image: json.image,
            command: first_word(&json.command.or(json.args).unwrap_or_default()),
            liveness_probe: json.liveness_probe.map(Into::into),
            readiness_probe: json.readiness_probe.map(Into::into),
            startup_probe: json.startup_probe.map(Into::into),
            memory_limit: json.resources.limits.memory,
            has_limit_of_range: false,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson {
    #[serde(deserialize_with = "text")]
    phase: ArcStr,
    #[serde(deserialize_with = "text")]
    reason: ArcStr,
    #[serde(deserialize_with = "text")]
    message: ArcStr,
    start_time: Option<Timestamp>,
    #[serde(deserialize_with = "list")]
    conditions: Vec<ConditionJson>,
    #[serde(deserialize_with = "list")]
    init_container_statuses: Vec<ContainerStatusJson>,
    #[serde(deserialize_with = "list")]
    container_statuses: Vec<ContainerStatusJson>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ConditionJson {
    #[serde(rename = "type", deserialize_with = "text")]
    kind: ArcStr,
    #[serde(deserialize_with = "text")]
    status: ArcStr,
    #[serde(deserialize_with = "text")]
    reason: ArcStr,
    #[serde(deserialize_with = "text")]
    message: ArcStr,
    last_transition_time: Option<Timestamp>,
}

impl From<ConditionJson> for PodCondition {
    fn from(json: ConditionJson) -> Self {
        Self {
            kind: json.kind,
            status: json.status,
            reason: json.reason,
            message: json.message,
            since: json.last_transition_time,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatusJson {
    #[serde(deserialize_with = "text")]
    name: ArcStr,
    #[serde(deserialize_with = "or_default")]
    ready: bool,
    started: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    restart_count: i32,
    #[serde(deserialize_with = "or_default")]
    state: StateJson,
    #[serde(deserialize_with = "or_default")]
    last_state: StateJson,
}

impl From<ContainerStatusJson> for ContainerStatus {
    fn from(json: ContainerStatusJson) -> Self {
        Self {
            name: json.name,
            ready: json.ready,
            started: json.started,
            restarts: json.restart_count,
            state: ContainerState {
                waiting: json.state.waiting.map(|json| Waiting { reason: json.reason, message: json.message }),
                running: json.state.running.map(|json| Running { started: json.started_at }),
                terminated: json.state.terminated.map(Into::into),
            },
            last: json.last_state.terminated.map(Into::into),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct StateJson {
    waiting: Option<WaitingJson>,
    running: Option<RunningJson>,
    terminated: Option<TerminatedJson>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WaitingJson {
    #[serde(deserialize_with = "text")]
    reason: ArcStr,
    #[serde(deserialize_with = "text")]
    message: ArcStr,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RunningJson {
    started_at: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct TerminatedJson {
    #[serde(deserialize_with = "or_default")]
    exit_code: i32,
    #[serde(deserialize_with = "or_default")]
    signal: i32,
    #[serde(deserialize_with = "text")]
    reason: ArcStr,
    #[serde(deserialize_with = "text")]
    message: ArcStr,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    #[serde(rename = "containerID", deserialize_with = "text")]
    container_id: ArcStr,
}

impl From<TerminatedJson> for Terminated {
    fn from(json: TerminatedJson) -> Self {
        Self {
            exit_code: json.exit_code,
            signal: json.signal,
            reason: json.reason,
            message: json.message,
            started: json.started_at,
            finished: json.finished_at,
            container_id: json.container_id,
        }
    }
}
