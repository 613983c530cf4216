//! Converts messages into the pod model.

use std::{cell::LazyCell, collections::HashSet};

use arcstr::ArcStr;
use bytes::Bytes;
use serde::{Deserialize, Deserializer};

use crate::{
    api::{IGNORE_ANNOTATION, Ownership},
    watch::message::{Pair, bounded_text, time},
};

use super::{
    ContainerSpec, ContainerState, ContainerStatus, Controller, ExitCodes, FirstNames, History, HostPort, Omitted, Pod,
    PodCondition, Probe, RestartPolicy, Running, TEXT_LIMIT, Terminated, Uid, UndeclaredPort, Waiting,
    message::{self, ContainerPort, HttpGetAction, IntOrString, ProbeHandler, TcpSocketAction},
    pod::{FIRST_NAMES, LIST_LIMIT, RESTART_CONTAINER, seconds, within},
};

/// The API server notes here which limits come from a LimitRange:
/// `LimitRanger plugin set: cpu, memory request for container app; memory limit for container app`.
const LIMIT_RANGE_ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The longest description of a probe, in bytes.
const ACTION_LIMIT: usize = 256;

/// The API's defaults of `periodSeconds`, `timeoutSeconds` and `failureThreshold`.
const DEFAULT_PERIOD: u32 = 10;
const DEFAULT_TIMEOUT: u32 = 1;
const DEFAULT_FAILURE_THRESHOLD: u32 = 3;

impl From<&message::Pod> for Pod {
    fn from(message::Pod { metadata, spec, status }: &message::Pod) -> Self {
        let ports = || spec.init_containers.iter().chain(&spec.containers).flat_map(|container| &container.ports);
        let declared = LazyCell::new(|| {
            ports().filter(|port| is_tcp(port)).map(|port| port.container_port).collect::<HashSet<_>>()
        });
        let has_default_limit = limits_of_ranges(metadata);
        let container = |own: &message::Container, is_init| ContainerSpec {
            has_limit_of_range: has_default_limit(&own.name, is_init),
            ..container(own, &|port| declared.contains(&port))
        };
        Self {
            uid: uid(&metadata.uid),
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            labels: pairs(&metadata.labels),
            ignored: metadata.annotations.iter().any(|own| own.key == IGNORE_ANNOTATION && own.value == "true"),
            ownership: ownership(metadata).non_empty(),
            controller: metadata.owner_references.iter().find(|owner| owner.controller).map(|owner| Controller {
                api_version: text(&owner.api_version),
                kind: text(&owner.kind),
                name: text(&owner.name),
                uid: text(&owner.uid),
            }),
            finalizers: first_names(&metadata.finalizers, |finalizer| finalizer),
            generation: metadata.generation.filter(|generation| *generation != 0),
            created: time(&metadata.creation_timestamp),
            deletion: time(&metadata.deletion_timestamp),
            deletion_grace: metadata.deletion_grace_period_seconds,
            node: text(&spec.node_name),
            requirements: None,
            host_ports: HostPort::first(ports()),
            restart_policy: restart_policy(&spec.restart_policy).unwrap_or_default(),
            termination_grace: spec.termination_grace_period_seconds.and_then(seconds),
            has_pull_secrets: spec.image_pull_secrets.iter().any(|secret| !secret.name.is_empty()),
            scheduling_gates: first_names(&spec.scheduling_gates, |gate| &gate.name),
            readiness_gates: list(&spec.readiness_gates, |gate| text(&gate.condition_type)),
            init_containers: list(&spec.init_containers, |own| container(own, true)),
            containers: list(&spec.containers, |own| container(own, false)),
            phase: text(&status.phase),
            reason: text(&status.reason),
            message: text(&status.message),
            started: time(&status.start_time),
            conditions: list(&status.conditions, condition),
            init_statuses: list(&status.init_container_statuses, container_status),
            statuses: list(&status.container_statuses, container_status),
            omitted: Omitted::default(),
            history: History::default(),
        }
    }
}

fn ownership(metadata: &message::ObjectMeta) -> Ownership {
    let mut ownership = Ownership::default();
    for message::Annotation { key, value } in &metadata.annotations {
        if let Ok(key) = str::from_utf8(key)
            && Ownership::has_annotation(key)
        {
            ownership.set(key, Some(&String::from_utf8_lossy(value)));
        }
    }
    ownership
}

/// Whether a LimitRange has set the memory limit of a container, given its name and whether it is an init container.
fn limits_of_ranges(metadata: &message::ObjectMeta) -> impl Fn(&[u8], bool) -> bool {
    let annotation = metadata.annotations.iter().find(|own| own.key == LIMIT_RANGE_ANNOTATION);
    let annotation = annotation.map(|own| text(&own.value)).unwrap_or_default();
    move |container, is_init| {
        let mut parts = annotation.strip_prefix("LimitRanger plugin set: ").unwrap_or_default().split("; ");
        let of_container = if is_init { " limit for init container " } else { " limit for container " };
        parts.any(|part| {
            part.split_once(of_container).is_some_and(|(resources, name)| {
                name.as_bytes() == container && resources.split(", ").any(|resource| resource == "memory")
            })
        })
    }
}

/// Converts a container, given whether any container of the pod declares a TCP port.
fn container(own: &message::Container, declares: &dyn Fn(i32) -> bool) -> ContainerSpec {
    let memory = own.resources.limits.iter().find(|limit| limit.key == "memory");
    let probe = |probe: &Option<message::Probe>| {
        let probe = probe.as_ref()?;
        Some(Box::new(Probe { undeclared_port: undeclared_port(&probe.handler, own, declares), ..Probe::from(probe) }))
    };
    ContainerSpec {
        name: text(&own.name),
        restart_policy: restart_policy(&own.restart_policy),
        restart_rules: own.restart_policy_rules.iter().take(LIST_LIMIT + 1).filter_map(exit_codes).collect(),
        restarts_on_resize: own.resize_policy.iter().any(|policy| policy.restart_policy == RESTART_CONTAINER),
        has_pre_stop: own.lifecycle.pre_stop.is_some(),
        image: text(&own.image),
        command: first_word(own.command.first().or(own.args.first())),
        liveness_probe: probe(&own.liveness_probe),
        readiness_probe: probe(&own.readiness_probe),
        startup_probe: probe(&own.startup_probe),
        memory_limit: memory.map(|limit| text(&limit.value.string)).unwrap_or_default(),
        has_limit_of_range: false,
    }
}

/// The first word of a command line, whose further words may contain secrets.
fn first_word(command: Option<&Bytes>) -> ArcStr {
    let command = command.map(|command| text(command)).unwrap_or_default();
    command.split_whitespace().next().unwrap_or_default().into()
}

fn exit_codes(rule: &message::ContainerRestartRule) -> Option<ExitCodes> {
    let values = rule.exit_codes.values.iter().copied().take(LIST_LIMIT + 1).collect();
    ExitCodes::from_restart_rule(&text(&rule.action), &text(&rule.exit_codes.operator), values)
}

impl From<&message::Probe> for Probe {
    fn from(own: &message::Probe) -> Self {
        // The API server reads 0 as the default.
        let or_default = |value: i32, default| seconds(value.into()).filter(|seconds| *seconds > 0).unwrap_or(default);
        Self {
            action: within(action(&own.handler), ACTION_LIMIT).into(),
            undeclared_port: None,
            initial_delay: seconds(own.initial_delay_seconds.into()).unwrap_or_default(),
            period: or_default(own.period_seconds, DEFAULT_PERIOD),
            timeout: or_default(own.timeout_seconds, DEFAULT_TIMEOUT),
            failure_threshold: or_default(own.failure_threshold, DEFAULT_FAILURE_THRESHOLD),
            termination_grace: own.termination_grace_period_seconds.and_then(seconds),
        }
    }
}

impl<'de> Deserialize<'de> for Probe {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        message::Probe::deserialize(deserializer).map(|probe| Self::from(&probe))
    }
}

/// What a probe does, in a few words. The API server accepts exactly one handler.
fn action(handler: &ProbeHandler) -> String {
    if let Some(exec) = &handler.exec {
        format!("exec {}", first_word(exec.command.first()))
    } else if let Some(get) = &handler.http_get {
        let [scheme, host, path] = [&get.scheme, &get.host, &get.path].map(|own| text(own));
        let scheme = match scheme.as_str() {
            "" | "HTTP" => String::new(),
            other => format!("{}://", other.to_lowercase()),
        };
        // A query may contain a token.
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        format!("GET {scheme}{host}:{}{slash}{path}", port(&get.port))
    } else if let Some(socket) = &handler.tcp_socket {
        format!("TCP {}:{}", text(&socket.host), port(&socket.port))
    } else if let Some(grpc) = &handler.grpc {
        let service = text(&grpc.service);
        format!("gRPC :{}{}{service}", grpc.port, if service.is_empty() { "" } else { " " })
    } else {
        String::new()
    }
}

fn port(port: &Option<IntOrString>) -> ArcStr {
    match port {
        None => arcstr::literal!("0"),
        Some(IntOrString { kind: 0, int, .. }) => int.to_string().into(),
        Some(IntOrString { string, .. }) => text(string),
    }
}

/// The port of the container that a probe asks for, if no container declares it. A process may listen on any port, so this is
/// only worth saying if the probe fails.
fn undeclared_port(
    handler: &ProbeHandler,
    own: &message::Container,
    declares: &dyn Fn(i32) -> bool,
) -> Option<Box<UndeclaredPort>> {
    let asked = match handler {
        ProbeHandler { exec: Some(_), .. } => return None,
        ProbeHandler { http_get: Some(HttpGetAction { host, port: own, .. }), .. }
        | ProbeHandler { tcp_socket: Some(TcpSocketAction { host, port: own }), .. } => {
            if !host.is_empty() {
                return None;
            }
            port(own)
        }
        ProbeHandler { grpc: Some(grpc), .. } => grpc.port.to_string().into(),
        _ => return None,
    };
    let number = asked.parse::<u16>().ok().map(i32::from);
    // The kubelet looks for a name in the probe's own container, whatever its protocol, and then reads it as a number.
    let is_declared = own.ports.iter().any(|port| port.name == asked.as_bytes()) || number.is_some_and(declares);
    let numbers = own.ports.iter().filter(|port| is_tcp(port)).map(|port| port.container_port.to_string());
    let numbers: FirstNames = numbers.collect();
    // A container that declares nothing says nothing about its process, but lacks the name.
    let is_silent = numbers.is_empty() && number.is_some();
    (!is_declared && !is_silent).then(|| Box::new(UndeclaredPort { port: asked, declared: numbers }))
}

/// Whether a probe may ask for a port: probes use TCP.
fn is_tcp(port: &ContainerPort) -> bool {
    matches!(&*port.protocol, b"" | b"TCP") && u16::try_from(port.container_port).is_ok_and(|number| number > 0)
}

fn condition(own: &message::PodCondition) -> PodCondition {
    PodCondition {
        kind: text(&own.kind),
        status: text(&own.status),
        reason: text(&own.reason),
        message: text(&own.message),
        since: time(&own.last_transition_time),
    }
}

fn container_status(own: &message::ContainerStatus) -> ContainerStatus {
    let message::ContainerState { waiting, running, terminated: ended } = &own.state;
    ContainerStatus {
        name: text(&own.name),
        ready: own.ready,
        started: own.started,
        restarts: own.restart_count,
        state: ContainerState {
            waiting: waiting.as_ref().map(|own| Waiting { reason: text(&own.reason), message: text(&own.message) }),
            running: running.as_ref().map(|own| Running { started: time(&own.started_at) }),
            terminated: ended.as_ref().map(terminated),
        },
        last: own.last_state.terminated.as_ref().map(terminated),
    }
}

fn terminated(own: &message::ContainerStateTerminated) -> Terminated {
    Terminated {
        exit_code: own.exit_code,
        signal: own.signal,
        reason: text(&own.reason),
        message: text(&own.message),
        started: time(&own.started_at),
        finished: time(&own.finished_at),
        container_id: text(&own.container_id),
    }
}

fn restart_policy(name: &[u8]) -> Option<RestartPolicy> {
    match name {
        b"Always" => Some(RestartPolicy::Always),
        b"OnFailure" => Some(RestartPolicy::OnFailure),
        b"Never" => Some(RestartPolicy::Never),
        _ => None,
    }
}

/// The entries of a map, sorted by key.
pub(super) fn pairs(pairs: &[Pair]) -> Vec<(ArcStr, ArcStr)> {
    let mut pairs = list(pairs, |pair| (text(&pair.key), text(&pair.value)));
    pairs.sort_unstable();
    pairs
}

/// The elements of a list, and one more than are accepted, so that a list that is too long is noticed.
pub(super) fn list<T, U>(items: &[T], convert: impl Fn(&T) -> U) -> Vec<U> {
    items.iter().take(LIST_LIMIT + 1).map(convert).collect()
}

pub(super) fn first_names<T>(items: &[T], name: impl Fn(&T) -> &Bytes) -> FirstNames {
    let first = items.iter().take(FIRST_NAMES).map(|item| text(name(item))).collect();
    FirstNames { first, more: items.len().saturating_sub(FIRST_NAMES).try_into().unwrap_or(u32::MAX) }
}

pub(super) fn uid(bytes: &[u8]) -> Uid {
    Uid::from_text(&bounded_text(bytes, TEXT_LIMIT))
}

/// A text of at most [`TEXT_LIMIT`] bytes; invalid UTF-8 becomes U+FFFD.
pub(super) fn text(bytes: &[u8]) -> ArcStr {
    bounded_text(bytes, TEXT_LIMIT).into()
}
