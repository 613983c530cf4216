//! From the JSON of a pod to [`Pod`], without building what isn't used.

use std::{borrow::Cow, fmt, marker::PhantomData};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::api::IGNORE_ANNOTATION;

use super::History;
use super::pod::{
    ContainerSpec, ContainerState, ContainerStatus, Controller, ExitCodes, Pod, PodCondition, RestartPolicy, Running,
    TEXT_LIMIT, Terminated, Uid, Waiting,
};

/// The most containers, conditions, labels or finalizers that are kept of one pod: the API server takes
/// pods of up to 1.5 MiB, which can hold thousands.
pub(super) const LIST_LIMIT: usize = 256;

/// Why a pod could not be decoded. Tells where, never what stood there: pods hold secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// In JSON.
    #[error("{kind} at line {line}, column {column}")]
    Json {
        /// What stood there instead of what was awaited.
        kind: &'static str,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// In protobuf.
    #[error("a value of the wrong type, or an early end")]
    Protobuf,
}

impl From<serde_json::Error> for DecodeError {
    fn from(error: serde_json::Error) -> Self {
        use serde_json::error::Category;
        let kind = match error.classify() {
            Category::Io | Category::Eof => "an early end",
            Category::Syntax => "no JSON",
            Category::Data => "a value of the wrong type",
        };
        Self::Json { kind, line: error.line(), column: error.column() }
    }
}

/// Decodes one pod.
///
/// # Errors
/// When the text isn't JSON, or a field that is used has another type than the API gives it.
pub fn from_json(json: &str) -> Result<Pod, DecodeError> {
    versioned_from_json(json).map(|(pod, _)| pod)
}

/// Decodes one pod, and its resource version, which is of use only to its watch.
pub(super) fn versioned_from_json(json: &str) -> Result<(Pod, String), DecodeError> {
    let mut wire = serde_json::from_str::<WirePod>(json)?;
    let resource_version = std::mem::take(&mut wire.metadata.resource_version);
    Ok((wire.into(), resource_version))
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        WirePod::deserialize(deserializer).map(Into::into)
    }
}

impl From<WirePod> for Pod {
    fn from(WirePod { metadata, spec, status }: WirePod) -> Self {
        Self {
            uid: Uid::from_text(&metadata.uid),
            namespace: metadata.namespace,
            name: metadata.name,
            labels: metadata.labels.0,
            ignored: metadata.annotations.0,
            controller: metadata.owner_references.into_iter().find(|owner| owner.controller).map(|owner| Controller {
                api_version: owner.api_version,
                kind: owner.kind,
                name: owner.name,
                uid: owner.uid,
            }),
            finalizers: metadata.finalizers.into_iter().map(|Text(text)| text).collect(),
            created: metadata.creation_timestamp,
            deletion: metadata.deletion_timestamp,
            node: spec.node_name,
            restart_policy: RestartPolicy::from_name(&spec.restart_policy).unwrap_or_default(),
            init_containers: spec.init_containers.into_iter().map(Into::into).collect(),
            containers: spec.containers.into_iter().map(Into::into).collect(),
            phase: status.phase,
            reason: status.reason,
            message: status.message,
            started: status.start_time,
            conditions: status.conditions.into_iter().map(Into::into).collect(),
            init_statuses: status.init_container_statuses.into_iter().map(Into::into).collect(),
            statuses: status.container_statuses.into_iter().map(Into::into).collect(),
            history: History::default(),
        }
    }
}

impl Uid {
    /// The identity that a UID's text stands for. Texts that are no UUID are hashed (FNV-1a), which keeps
    /// them apart as well as chance allows.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        let digits = || text.bytes().filter(|byte| *byte != b'-');
        if digits().count() == 32 && digits().all(|byte| byte.is_ascii_hexdigit()) {
            let digit = |byte| u128::from(char::from(byte).to_digit(16).unwrap_or_default());
            return digits().fold(0, |uid: u128, byte| uid << 4 | digit(byte)).into();
        }
        let hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |hash: u128, byte| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        });
        hash.into()
    }
}

// The wire's shape. Fields that stand in no type here are skipped by serde_json without being built.

#[derive(Deserialize, Default)]
#[serde(default)]
struct WirePod {
    #[serde(deserialize_with = "or_default")]
    metadata: WireMeta,
    #[serde(deserialize_with = "or_default")]
    spec: WireSpec,
    #[serde(deserialize_with = "or_default")]
    status: WireStatus,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireMeta {
    #[serde(deserialize_with = "text")]
    uid: String,
    #[serde(deserialize_with = "text")]
    namespace: String,
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    resource_version: String,
    #[serde(deserialize_with = "or_default")]
    labels: Labels,
    #[serde(deserialize_with = "or_default")]
    annotations: Ignored,
    #[serde(deserialize_with = "list")]
    owner_references: Vec<WireOwner>,
    #[serde(deserialize_with = "list")]
    finalizers: Vec<Text>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireOwner {
    #[serde(rename = "apiVersion", deserialize_with = "text")]
    api_version: String,
    #[serde(deserialize_with = "text")]
    kind: String,
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    uid: String,
    #[serde(deserialize_with = "or_default")]
    controller: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireSpec {
    #[serde(deserialize_with = "text")]
    node_name: String,
    #[serde(deserialize_with = "text")]
    restart_policy: String,
    #[serde(deserialize_with = "list")]
    init_containers: Vec<WireContainer>,
    #[serde(deserialize_with = "list")]
    containers: Vec<WireContainer>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireContainer {
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "text")]
    restart_policy: String,
    #[serde(deserialize_with = "list")]
    restart_policy_rules: Vec<WireRestartRule>,
    #[serde(deserialize_with = "list")]
    resize_policy: Vec<WireResizePolicy>,
    readiness_probe: Option<IgnoredAny>,
    #[serde(deserialize_with = "or_default")]
    resources: WireResources,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireRestartRule {
    #[serde(deserialize_with = "text")]
    action: String,
    #[serde(deserialize_with = "or_default")]
    exit_codes: WireExitCodes,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireExitCodes {
    #[serde(deserialize_with = "text")]
    operator: String,
    #[serde(deserialize_with = "list")]
    values: Vec<i32>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireResizePolicy {
    #[serde(deserialize_with = "text")]
    restart_policy: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireResources {
    #[serde(deserialize_with = "or_default")]
    limits: WireLimits,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireLimits {
    #[serde(deserialize_with = "text")]
    memory: String,
}

impl From<WireContainer> for ContainerSpec {
    fn from(wire: WireContainer) -> Self {
        Self {
            name: wire.name,
            restart_policy: RestartPolicy::from_name(&wire.restart_policy),
            restart_rules: wire.restart_policy_rules.into_iter().filter_map(exit_codes).collect(),
            restarts_on_resize: wire.resize_policy.iter().any(|policy| policy.restart_policy == RESTART_CONTAINER),
            readiness_probe: wire.readiness_probe.is_some(),
            memory_limit: wire.resources.limits.memory,
        }
    }
}

/// What `resizePolicy[].restartPolicy` holds if a resize restarts the container.
pub(super) const RESTART_CONTAINER: &str = "RestartContainer";

fn exit_codes(rule: WireRestartRule) -> Option<ExitCodes> {
    restart_rule(&rule.action, &rule.exit_codes.operator, rule.exit_codes.values)
}

/// The exit codes after which a rule of `restartPolicyRules` restarts the container, or all of the pod's.
pub(super) fn restart_rule(action: &str, operator: &str, values: Vec<i32>) -> Option<ExitCodes> {
    let negated = match operator {
        "In" => false,
        "NotIn" => true,
        _ => return None,
    };
    matches!(action, "Restart" | "RestartAllContainers").then_some(ExitCodes { negated, values })
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireStatus {
    #[serde(deserialize_with = "text")]
    phase: String,
    #[serde(deserialize_with = "text")]
    reason: String,
    #[serde(deserialize_with = "text")]
    message: String,
    start_time: Option<Timestamp>,
    #[serde(deserialize_with = "list")]
    conditions: Vec<WireCondition>,
    #[serde(deserialize_with = "list")]
    init_container_statuses: Vec<WireContainerStatus>,
    #[serde(deserialize_with = "list")]
    container_statuses: Vec<WireContainerStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireCondition {
    #[serde(rename = "type", deserialize_with = "text")]
    kind: String,
    #[serde(deserialize_with = "text")]
    status: String,
    #[serde(deserialize_with = "text")]
    reason: String,
    #[serde(deserialize_with = "text")]
    message: String,
    last_transition_time: Option<Timestamp>,
}

impl From<WireCondition> for PodCondition {
    fn from(wire: WireCondition) -> Self {
        Self {
            kind: wire.kind,
            status: wire.status,
            reason: wire.reason,
            message: wire.message,
            since: wire.last_transition_time,
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireContainerStatus {
    #[serde(deserialize_with = "text")]
    name: String,
    #[serde(deserialize_with = "or_default")]
    ready: bool,
    started: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    restart_count: i32,
    #[serde(deserialize_with = "or_default")]
    state: WireState,
    #[serde(deserialize_with = "or_default")]
    last_state: WireState,
}

impl From<WireContainerStatus> for ContainerStatus {
    fn from(wire: WireContainerStatus) -> Self {
        Self {
            name: wire.name,
            ready: wire.ready,
            started: wire.started,
            restarts: wire.restart_count,
            state: ContainerState {
                waiting: wire.state.waiting.map(|wire| Waiting { reason: wire.reason, message: wire.message }),
                running: wire.state.running.map(|wire| Running { started: wire.started_at }),
                terminated: wire.state.terminated.map(Into::into),
            },
            last: wire.last_state.terminated.map(Into::into),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireState {
    waiting: Option<WireWaiting>,
    running: Option<WireRunning>,
    terminated: Option<WireTerminated>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireWaiting {
    #[serde(deserialize_with = "text")]
    reason: String,
    #[serde(deserialize_with = "text")]
    message: String,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireRunning {
    started_at: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct WireTerminated {
    #[serde(deserialize_with = "or_default")]
    exit_code: i32,
    #[serde(deserialize_with = "or_default")]
    signal: i32,
    #[serde(deserialize_with = "text")]
    reason: String,
    #[serde(deserialize_with = "text")]
    message: String,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    #[serde(rename = "containerID", deserialize_with = "text")]
    container_id: String,
}

impl From<WireTerminated> for Terminated {
    fn from(wire: WireTerminated) -> Self {
        Self {
            exit_code: wire.exit_code,
            signal: wire.signal,
            reason: wire.reason,
            message: wire.message,
            started: wire.started_at,
            finished: wire.finished_at,
            container_id: wire.container_id,
        }
    }
}

/// A null, which Go writes for an empty value, is that empty value.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let mut text: String = or_default(deserializer)?;
    if text.len() > TEXT_LIMIT {
        text.truncate(text.floor_char_boundary(TEXT_LIMIT));
        text.shrink_to_fit();
    }
    Ok(text)
}

#[derive(Default)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer).map(Self)
    }
}

fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    struct List<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            // One container is usual, and a vector that grows by itself begins with room for four.
            let mut list = Vec::with_capacity(1);
            while list.len() < LIST_LIMIT {
                match seq.next_element()? {
                    Some(element) => list.push(element),
                    None => return Ok(list),
                }
            }
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(list)
        }
    }

    deserializer.deserialize_any(List(PhantomData))
}

/// Label pairs, sorted by key.
#[derive(Default)]
struct Labels(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Labels;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut labels = Vec::with_capacity(map.size_hint().unwrap_or_default().min(LIST_LIMIT));
                while let Some((Text(key), Text(value))) = map.next_entry()? {
                    if labels.len() < LIST_LIMIT {
                        labels.push((key, value));
                    }
                }
                labels.sort_unstable();
                Ok(Labels(labels))
            }
        }

        deserializer.deserialize_map(Pairs)
    }
}

/// Whether the annotations hold [`IGNORE_ANNOTATION`] with the value "true".
#[derive(Default)]
struct Ignored(bool);

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Annotations;

        impl<'de> Visitor<'de> for Annotations {
            type Value = Ignored;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut ignored = false;
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    if key == IGNORE_ANNOTATION {
                        ignored = map.next_value::<String>()? == "true";
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Ignored(ignored))
            }
        }

        deserializer.deserialize_map(Annotations)
    }
}

#[cfg(test)]
mod tests;
