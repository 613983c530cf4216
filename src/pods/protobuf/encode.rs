//! Encodes pods from JSON in protobuf, with the fields that tests need.

use bytes::Bytes;
use prost::Message;
use serde_json::Value;

use crate::pods::{DecodeError, Pod};

use super::{
    convert::decode_pod,
    message::{
        self, Container, ContainerPort, ContainerRestartRule, ContainerRestartRuleOnExitCodes, ContainerState,
        ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, HttpGetAction,
        IntOrString, Name, ObjectMeta, OwnerReference, Pair, PodCondition, PodSpec, PodStatus, Probe, ProbeHandler,
        Time,
    },
};

/// Encodes a pod in protobuf and decodes it.
pub(crate) fn decode_json_as_protobuf(pod: &Value) -> Result<Pod, DecodeError> {
    decode_pod(encode(pod).into()).pod.map(|pod| *pod).map_err(|undecodable| undecodable.error)
}

fn encode(pod: &Value) -> Vec<u8> {
    let metadata = &pod["metadata"];
    let pairs = |pairs: &Value| {
        let pairs = pairs.as_object().into_iter().flatten();
        pairs.map(|(key, value)| Pair { key: key.clone().into(), value: text(value) }).collect()
    };
    let metadata = ObjectMeta {
        name: text(&metadata["name"]),
        namespace: text(&metadata["namespace"]),
        uid: text(&metadata["uid"]),
        labels: pairs(&metadata["labels"]),
        annotations: pairs(&metadata["annotations"]),
        finalizers: list(&metadata["finalizers"], text),
        owner_references: list(&metadata["ownerReferences"], |owner| OwnerReference {
            kind: text(&owner["kind"]),
            name: text(&owner["name"]),
            uid: text(&owner["uid"]),
            api_version: text(&owner["apiVersion"]),
            controller: owner["controller"] == true,
        }),
        ..ObjectMeta::default()
    };
    let spec = &pod["spec"];
    let spec = PodSpec {
        node_name: text(&spec["nodeName"]),
        scheduling_gates: list(&spec["schedulingGates"], |gate| Name { name: text(&gate["name"]) }),
        readiness_gates: list(&spec["readinessGates"], |gate| Name { name: text(&gate["conditionType"]) }),
        init_containers: list(&spec["initContainers"], container),
        containers: list(&spec["containers"], container),
        ..PodSpec::default()
    };
    let status = &pod["status"];
    let status = PodStatus {
        phase: text(&status["phase"]),
        reason: text(&status["reason"]),
        message: text(&status["message"]),
        conditions: list(&status["conditions"], |condition| PodCondition {
            kind: text(&condition["type"]),
            status: text(&condition["status"]),
            reason: text(&condition["reason"]),
            message: text(&condition["message"]),
            ..PodCondition::default()
        }),
        init_container_statuses: list(&status["initContainerStatuses"], container_status),
        container_statuses: list(&status["containerStatuses"], container_status),
        ..PodStatus::default()
    };
    message::Pod { metadata: Some(metadata), spec: Some(spec), status: Some(status) }.encode_to_vec()
}

fn container(container: &Value) -> Container {
    Container {
        name: text(&container["name"]),
        image: text(&container["image"]),
        command: list(&container["command"], text),
        restart_policy: text(&container["restartPolicy"]),
        ports: list(&container["ports"], |port| ContainerPort {
            name: text(&port["name"]),
            container_port: number(&port["containerPort"]),
            host_port: number(&port["hostPort"]),
            protocol: text(&port["protocol"]),
            host_ip: text(&port["hostIP"]),
        }),
        liveness_probe: probe(&container["livenessProbe"]),
        readiness_probe: probe(&container["readinessProbe"]),
        startup_probe: probe(&container["startupProbe"]),
        restart_policy_rules: list(&container["restartPolicyRules"], |rule| ContainerRestartRule {
            action: text(&rule["action"]),
            exit_codes: Some(ContainerRestartRuleOnExitCodes {
                operator: text(&rule["exitCodes"]["operator"]),
                values: list(&rule["exitCodes"]["values"], number),
            }),
        }),
        ..Container::default()
    }
}

fn probe(probe: &Value) -> Option<Probe> {
    let get = present(&probe["httpGet"])?;
    let port = match &get["port"] {
        Value::String(name) => IntOrString { kind: 1, string: name.clone().into(), ..IntOrString::default() },
        port => IntOrString { int: number(port), ..IntOrString::default() },
    };
    let get = HttpGetAction { path: text(&get["path"]), port: Some(port), ..HttpGetAction::default() };
    Some(Probe { handler: Some(ProbeHandler { http_get: Some(get), ..ProbeHandler::default() }), ..Probe::default() })
}

fn container_status(status: &Value) -> ContainerStatus {
    ContainerStatus {
        name: text(&status["name"]),
        state: present(&status["state"]).map(state),
        last_state: present(&status["lastState"]).map(state),
        ready: status["ready"] == true,
        restart_count: number(&status["restartCount"]),
        started: None,
    }
}

fn state(state: &Value) -> ContainerState {
    let time = |time: &Value| {
        let time: Option<jiff::Timestamp> = time.as_str().and_then(|time| time.parse().ok());
        time.map(|time| Time { seconds: Some(time.as_second()) })
    };
    ContainerState {
        waiting: present(&state["waiting"]).map(|waiting| ContainerStateWaiting {
            reason: text(&waiting["reason"]),
            message: text(&waiting["message"]),
        }),
        running: present(&state["running"])
            .map(|running| ContainerStateRunning { started_at: time(&running["startedAt"]) }),
        terminated: present(&state["terminated"]).map(|ended| ContainerStateTerminated {
            exit_code: number(&ended["exitCode"]),
            reason: text(&ended["reason"]),
            message: text(&ended["message"]),
            container_id: text(&ended["containerID"]),
            ..ContainerStateTerminated::default()
        }),
    }
}

fn present(value: &Value) -> Option<&Value> {
    Some(value).filter(|value| !value.is_null())
}

fn list<T>(value: &Value, convert: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().into_iter().flatten().map(convert).collect()
}

fn text(value: &Value) -> Bytes {
    value.as_str().unwrap_or_default().to_owned().into()
}

fn number(value: &Value) -> i32 {
    value.as_i64().unwrap_or_default().try_into().unwrap_or_default()
}
