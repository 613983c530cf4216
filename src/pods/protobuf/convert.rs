//! Converts protobuf messages into the pod model.

use arcstr::ArcStr;
use bytes::Bytes;
use jiff::Timestamp;
use prost::Message;

use crate::{
    api::{IGNORE_ANNOTATION, Ownership},
    pods::{
        ContainerSpec, ContainerState, ContainerStatus, Controller, DecodeError, ExitCodes, History, HostPort, Omitted,
        Pod, PodCondition, Probe, RestartPolicy, Running, Terminated, Uid, UndecodablePod, Waiting, WatchedPod,
        limit_range,
        pod::{LIST_LIMIT, RESTART_CONTAINER, first_word, seconds},
        probe::{Handler, Timing},
        requirements,
        undeclared_port::{DeclaredPort, DeclaredPorts},
    },
};

use super::{
    fields::{first_names, text},
    message, unscheduled,
};

/// Decodes a pod. One that is malformed is still named if its metadata precedes the problem, so that it does not fail
/// the whole list.
pub(super) fn decode_pod(raw: Bytes) -> WatchedPod {
    let mut message = message::Pod::default();
    let result = message.merge(raw.clone());
    let names = message.metadata.as_ref().map(|own| [&own.uid, &own.namespace, &own.name, &own.resource_version]);
    let [own_uid, namespace, name, resource_version] = names.map(|names| names.map(Bytes::clone)).unwrap_or_default();
    let decoded = match result {
        Ok(()) => {
            let mut pod = Pod::from(message);
            if requirements::matter(&pod.node, &pod.phase) {
                pod.requirements = unscheduled::requirements(&pod.name, raw);
            }
            pod.bounded()
        }
        Err(_) => Err(DecodeError::Protobuf),
    };
    let pod = decoded.map(Box::new).map_err(|error| {
        let [namespace, name] = [namespace, name].map(|name| text(&name).to_string());
        UndecodablePod { uid: uid(&own_uid), namespace, name, error }
    });
    WatchedPod { pod, resource_version: text(&resource_version).to_string() }
}

impl From<message::Pod> for Pod {
    fn from(message::Pod { metadata, spec, status }: message::Pod) -> Self {
        let metadata = metadata.unwrap_or_default();
        let spec = spec.unwrap_or_default();
        let status = status.unwrap_or_default();
        let ignored = |pair: &message::Pair| pair.key == IGNORE_ANNOTATION && pair.value == "true";
        let mut labels: Vec<_> = list(metadata.labels, |message::Pair { key, value }| (text(&key), text(&value)));
        labels.sort_unstable();
        let ports: Vec<_> = declared_ports(&spec).collect();
        let limit_range = metadata.annotations.iter().find(|own| own.key == limit_range::ANNOTATION);
        let limit_range = limit_range.map(|own| text(&own.value));
        let mut pod = Self {
            uid: uid(&metadata.uid),
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            labels,
            ignored: metadata.annotations.iter().any(ignored),
            ownership: ownership(&metadata.annotations).non_empty(),
            controller: metadata.owner_references.into_iter().find(|owner| owner.controller).map(|owner| Controller {
                api_version: text(&owner.api_version),
                kind: text(&owner.kind),
                name: text(&owner.name),
                uid: text(&owner.uid),
            }),
            finalizers: first_names(&metadata.finalizers, |finalizer| finalizer),
            generation: metadata.generation.filter(|generation| *generation != 0),
            created: time(metadata.creation_timestamp),
            deletion: time(metadata.deletion_timestamp),
            deletion_grace: metadata.deletion_grace_period_seconds,
            node: text(&spec.node_name),
            requirements: None,
            host_ports: host_ports(&spec),
            restart_policy: restart_policy(&spec.restart_policy).unwrap_or_default(),
            termination_grace: spec.termination_grace_period_seconds.and_then(seconds),
            has_pull_secrets: spec.image_pull_secrets.iter().any(|secret| !secret.name.is_empty()),
            scheduling_gates: first_names(&spec.scheduling_gates, |gate| &gate.name),
            readiness_gates: list(spec.readiness_gates, |gate| text(&gate.name)),
            init_containers: list(spec.init_containers, Into::into),
            containers: list(spec.containers, Into::into),
            phase: text(&status.phase),
            reason: text(&status.reason),
            message: text(&status.message),
            started: time(status.start_time),
            conditions: list(status.conditions, Into::into),
            init_statuses: list(status.init_container_statuses, Into::into),
            statuses: list(status.container_statuses, Into::into),
            omitted: Omitted::default(),
            history: History::default(),
        };
        pod.keep_undeclared_ports(&ports);
        if let Some(annotation) = limit_range {
            pod.mark_limits_of_ranges(&annotation);
        }
        pod
    }
}

impl From<message::Container> for ContainerSpec {
    fn from(container: message::Container) -> Self {
        let limits = container.resources.unwrap_or_default().limits;
        let memory = limits.into_iter().find(|limit| limit.key == "memory").and_then(|limit| limit.value);
        Self {
            name: text(&container.name),
            restart_policy: restart_policy(&container.restart_policy),
            restart_rules: container
                .restart_policy_rules
                .into_iter()
                .take(LIST_LIMIT + 1)
                .filter_map(exit_codes)
                .collect(),
            restarts_on_resize: container.resize_policy.iter().any(|policy| policy.restart_policy == RESTART_CONTAINER),
            has_pre_stop: container.lifecycle.is_some_and(|lifecycle| lifecycle.pre_stop.is_some()),
            image: text(&container.image),
            command: container.command.first().or(container.args.first()).map_or_else(ArcStr::new, first),
            liveness_probe: container.liveness_probe.map(probe),
            readiness_probe: container.readiness_probe.map(probe),
            startup_probe: container.startup_probe.map(probe),
            memory_limit: text(&memory.unwrap_or_default().string),
            has_limit_of_range: false,
        }
    }
}

fn host_ports(spec: &message::PodSpec) -> Box<[HostPort]> {
    let ports = spec.init_containers.iter().chain(&spec.containers).flat_map(|container| &container.ports);
    HostPort::first(
        ports.filter_map(|port| HostPort::new(port.host_port.into(), &text(&port.protocol), &text(&port.host_ip))),
    )
}

fn declared_ports(spec: &message::PodSpec) -> impl Iterator<Item = DeclaredPorts> {
    let [init, app] = [&spec.init_containers, &spec.containers].map(|list| list.iter().take(LIST_LIMIT + 1));
    let of = |port: &message::ContainerPort| (port.container_port.into(), text(&port.name), text(&port.protocol));
    init.chain(app).map(move |container| DeclaredPort::all(container.ports.iter().map(of)))
}

fn first(word: &Bytes) -> ArcStr {
    first_word(&text(word))
}

fn probe(probe: message::Probe) -> Box<Probe> {
    let handler = match probe.handler.unwrap_or_default() {
        message::ProbeHandler { exec: Some(exec), .. } => {
            Handler::Exec { program: exec.command.first().map_or_else(ArcStr::new, first) }
        }
        message::ProbeHandler { http_get: Some(get), .. } => Handler::HttpGet {
            scheme: text(&get.scheme),
            host: text(&get.host),
            port: port(get.port),
            path: text(&get.path),
        },
        message::ProbeHandler { tcp_socket: Some(socket), .. } => {
            Handler::TcpSocket { host: text(&socket.host), port: port(socket.port) }
        }
        message::ProbeHandler { grpc: Some(grpc), .. } => {
            Handler::Grpc { port: grpc.port.to_string().into(), service: text(&grpc.service) }
        }
        _ => Handler::Unknown,
    };
    let timing = Timing {
        initial_delay: probe.initial_delay_seconds.into(),
        period: probe.period_seconds.into(),
        timeout: probe.timeout_seconds.into(),
        failure_threshold: probe.failure_threshold.into(),
        termination_grace: probe.termination_grace_period_seconds,
    };
    Box::new(Probe::new(&handler, &timing))
}

fn port(port: Option<message::IntOrString>) -> ArcStr {
    match port.unwrap_or_default() {
        message::IntOrString { kind: 0, int, .. } => int.to_string().into(),
        message::IntOrString { string, .. } => text(&string),
    }
}

impl From<message::PodCondition> for PodCondition {
    fn from(condition: message::PodCondition) -> Self {
        Self {
            kind: text(&condition.kind),
            status: text(&condition.status),
            reason: text(&condition.reason),
            message: text(&condition.message),
            since: time(condition.last_transition_time),
        }
    }
}

impl From<message::ContainerStatus> for ContainerStatus {
    fn from(status: message::ContainerStatus) -> Self {
        let state = status.state.unwrap_or_default();
        Self {
            name: text(&status.name),
            ready: status.ready,
            started: status.started,
            restarts: status.restart_count,
            state: ContainerState {
                waiting: state
                    .waiting
                    .map(|waiting| Waiting { reason: text(&waiting.reason), message: text(&waiting.message) }),
                running: state.running.map(|running| Running { started: time(running.started_at) }),
                terminated: state.terminated.map(Into::into),
            },
            last: status.last_state.unwrap_or_default().terminated.map(Into::into),
        }
    }
}

impl From<message::ContainerStateTerminated> for Terminated {
    fn from(terminated: message::ContainerStateTerminated) -> Self {
        Self {
            exit_code: terminated.exit_code,
            signal: terminated.signal,
            reason: text(&terminated.reason),
            message: text(&terminated.message),
            started: time(terminated.started_at),
            finished: time(terminated.finished_at),
            container_id: text(&terminated.container_id),
        }
    }
}

fn ownership(annotations: &[message::Pair]) -> Ownership {
    let mut ownership = Ownership::default();
    for message::Pair { key, value } in annotations {
        if let Ok(key) = str::from_utf8(key)
            && Ownership::has_annotation(key)
        {
            ownership.set(key, Some(&String::from_utf8_lossy(value)));
        }
    }
    ownership
}

fn restart_policy(name: &[u8]) -> Option<RestartPolicy> {
    RestartPolicy::from_name(&String::from_utf8_lossy(name))
}

fn exit_codes(rule: message::ContainerRestartRule) -> Option<ExitCodes> {
    let codes = rule.exit_codes.unwrap_or_default();
    let values = codes.values.into_iter().take(LIST_LIMIT + 1).collect();
    ExitCodes::from_restart_rule(&text(&rule.action), &text(&codes.operator), values)
}

fn list<T, U>(items: Vec<T>, convert: impl Fn(T) -> U) -> Vec<U> {
    // `collect` would reuse the allocation of the messages, which are several times larger.
    // One more, so that a list that is too long is noticed.
    let mut list = Vec::with_capacity(items.len().min(LIST_LIMIT + 1));
    list.extend(items.into_iter().take(LIST_LIMIT + 1).map(convert));
    list
}

fn uid(bytes: &[u8]) -> Uid {
    Uid::from_text(&String::from_utf8_lossy(bytes))
}

fn time(time: Option<message::Time>) -> Option<Timestamp> {
    time?.into()
}
