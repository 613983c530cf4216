//! An event, reduced to the fields that serve as evidence, and how it is decoded.

use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use jiff::Timestamp;
use prost::Message;
use serde::{Deserialize, Deserializer};

use crate::{
    partial_text::cut_end,
    watch::{
        decode::Decoded,
        message::{Time, bounded_text, messages, time},
    },
};

/// The longest name, kind, reason or UID, in bytes. Names have at most 253 characters.
const NAME_LIMIT: usize = 256;
/// The longest message, in bytes. The API server accepts 1,024 in new events, but any length in core/v1 events.
const MESSAGE_LIMIT: usize = 1024;

/// The reasons of the events about pods that can explain a problem, in alphabetical order. All others are dropped as they are
/// read: for instance BackOff, whose text the pod's status contains, and those of policy engines, which report every pod.
const REASONS: [&str; 37] = [
    "ContainerProbeWarning",
    "ErrImageNeverPull",
    "Evicted",
    "ExceededGracePeriod",
    "Failed",
    "FailedAttachVolume",
    "FailedCreatePodContainer",
    "FailedCreatePodSandBox",
    "FailedKillPod",
    "FailedMapVolume",
    "FailedMount",
    "FailedMountOnFilesystemMismatch",
    "FailedPodSandBoxStatus",
    "FailedPostStartHook",
    "FailedPreStopHook",
    "FailedPrepareDynamicResources",
    "FailedResourceClaimCreation",
    "FailedScheduling",
    "FailedSync",
    "FailedToRetrieveImagePullSecret",
    "FailedUnmount",
    "FailedValidation",
    "FileSystemResizeFailed",
    "InspectFailed",
    "Killing",
    "NetworkNotReady",
    "NodeNotReady",
    "Preempted",
    "Preempting",
    "ProbeWarning",
    "ProvisioningFailed",
    "ResizeDeferred",
    "ResizeInfeasible",
    "UnexpectedAdmissionError",
    "Unhealthy",
    "VolumeConditionAbnormal",
    "VolumeResizeFailed",
];

/// Whether an event of type Normal can explain a problem. The kubelet also reports that it kills the containers of a deleted
/// pod: `Stopping container app`.
fn is_normal_evidence(reason: &[u8], message: &[u8]) -> bool {
    match reason {
        b"FailedPostStartHook" | b"Preempted" => true,
        b"Killing" => !message.starts_with(b"Stopping container "),
        _ => false,
    }
}

/// The reason, if an event with it can explain a pod's problem.
pub(crate) fn known_reason(reason: &str) -> Option<&'static str> {
    REASONS.iter().find(|known| **known == reason).copied()
}

/// An event. Repetitions of the same event are counted.
///
/// Like that of a pod, its content is never trusted: texts are cut to a bound as they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub involved: InvolvedObject,
    /// Another object that it concerns, such as the pod for which the scheduler has preempted this one.
    pub related: Option<Box<InvolvedObject>>,
    /// For example FailedMount.
    pub reason: String,
    /// May quote the output of a probe, and so contain secrets.
    pub message: String,
    /// How often it occurred: at least 1.
    pub count: u32,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
}

impl Event {
    /// The message. The recorder of events puts some words before it if similar events are frequent.
    #[must_use]
    pub fn text(&self) -> &str {
        self.message.strip_prefix("(combined from similar events): ").unwrap_or(&self.message)
    }
}

/// The object that an event concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvolvedObject {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The container that `fieldPath` names, as in `spec.containers{app}`; empty if none.
    pub container: String,
}

/// An item of a list or watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedEvent {
    /// Identifies the event among those about the same object. When an event occurs again, its count changes.
    pub id: u64,
    /// Absent if it explains nothing, does not concern an object, or could not be decoded.
    pub event: Option<Box<Event>>,
}

messages! {
    /// A `core/v1` event. Some fields have another name in `events.k8s.io/v1`. The API server returns each event in both, but
    /// a file may contain either.
    EventMessage {
        #[prost(message, required, tag = 1)] metadata: ObjectMeta,
        #[prost(message, required, tag = 2)] #[serde(alias = "regarding")] involved_object: ObjectReference,
        #[prost(bytes = "bytes", tag = 3)] reason: Bytes,
        #[prost(bytes = "bytes", tag = 4)] #[serde(alias = "note")] message: Bytes,
        #[prost(message, optional, tag = 6)] #[serde(alias = "deprecatedFirstTimestamp")] first_timestamp: Option<Time>,
        #[prost(message, optional, tag = 7)] #[serde(alias = "deprecatedLastTimestamp")] last_timestamp: Option<Time>,
        #[prost(int32, tag = 8)] #[serde(alias = "deprecatedCount")] count: i32,
        #[prost(bytes = "bytes", tag = 9)] #[serde(rename = "type")] kind: Bytes,
        /// When the event occurred, or first occurred. Written by newer reporters instead of the two timestamps.
        #[prost(message, optional, tag = 10)] event_time: Option<Time>,
        #[prost(message, required, tag = 11)] series: EventSeries,
        #[prost(message, optional, tag = 13)] related: Option<ObjectReference>,
    }

    ObjectMeta {
        #[prost(bytes = "bytes", tag = 1)] name: Bytes,
        #[prost(bytes = "bytes", tag = 6)] resource_version: Bytes,
        #[prost(message, optional, tag = 8)] creation_timestamp: Option<Time>,
    }

    ObjectReference {
        #[prost(bytes = "bytes", tag = 1)] kind: Bytes,
        #[prost(bytes = "bytes", tag = 2)] namespace: Bytes,
        #[prost(bytes = "bytes", tag = 3)] name: Bytes,
        #[prost(bytes = "bytes", tag = 4)] uid: Bytes,
        #[prost(bytes = "bytes", tag = 7)] field_path: Bytes,
    }

    EventSeries {
        #[prost(int32, tag = 1)] count: i32,
        #[prost(message, optional, tag = 2)] last_observed_time: Option<Time>,
    }
}

impl WatchedEvent {
    /// Decodes an event from protobuf. Of a malformed one, only the metadata is used: what was read of the rest before the
    /// error may be wrong.
    pub(super) fn from_protobuf(raw: Bytes) -> Decoded<Self> {
        let mut message = EventMessage::default();
        if message.merge(raw).is_err() {
            message = EventMessage { metadata: message.metadata, ..EventMessage::default() };
        }
        Self::decoded(&message)
    }

    pub(super) fn from_json(json: &[u8]) -> serde_json::Result<Decoded<Self>> {
        serde_json::from_slice(json).map(|message| Self::decoded(&message))
    }

    fn decoded(message: &EventMessage) -> Decoded<Self> {
        Decoded { object: Self::from(message), resource_version: name(&message.metadata.resource_version) }
    }
}

/// For files.
impl<'de> Deserialize<'de> for WatchedEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        EventMessage::deserialize(deserializer).map(|message| Self::from(&message))
    }
}

impl From<&EventMessage> for WatchedEvent {
    fn from(message: &EventMessage) -> Self {
        let mut hasher = DefaultHasher::new();
        message.metadata.name.hash(&mut hasher);
        Self { id: hasher.finish(), event: evidence(message).map(Box::new) }
    }
}

fn evidence(own: &EventMessage) -> Option<Event> {
    let is_evidence = match &own.kind[..] {
        b"Warning" => true,
        b"Normal" => is_normal_evidence(&own.reason, &own.message),
        _ => false,
    };
    let involved = &own.involved_object;
    if !is_evidence || involved.kind.is_empty() || involved.uid.is_empty() {
        return None;
    }
    let (event_time, created) = (time(&own.event_time), time(&own.metadata.creation_timestamp));
    let last = time(&own.last_timestamp).max(time(&own.series.last_observed_time));
    Some(Event {
        involved: InvolvedObject::from(involved),
        related: own.related.as_ref().map(|related| Box::new(related.into())),
        reason: name(&own.reason),
        message: message(&own.message),
        count: own.count.max(own.series.count).max(1).unsigned_abs(),
        first: time(&own.first_timestamp).or(event_time).or(created),
        last: last.or(event_time).or(created),
    })
}

impl From<&ObjectReference> for InvolvedObject {
    fn from(own: &ObjectReference) -> Self {
        Self {
            kind: name(&own.kind),
            namespace: name(&own.namespace),
            name: name(&own.name),
            uid: name(&own.uid),
            container: container(&name(&own.field_path)).to_owned(),
        }
    }
}

/// A message that is as long as accepted may have been cut by its reporter.
fn message(bytes: &[u8]) -> String {
    let text = bounded_text(bytes, MESSAGE_LIMIT);
    if text.len() + 3 < MESSAGE_LIMIT {
        return text.into_owned();
    }
    let mut cut = cut_end(&text, MESSAGE_LIMIT);
    cut.shrink_to_fit();
    cut
}

fn name(bytes: &[u8]) -> String {
    bounded_text(bytes, NAME_LIMIT).into_owned()
}

/// The container that a field path such as `spec.containers{app}` names; empty if none.
fn container(field_path: &str) -> &str {
    let name = field_path.split_once('{').and_then(|(_, rest)| rest.strip_suffix('}'));
    name.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// Decodes a Warning with these changes from both encodings, which must give the same.
    fn decoded(changes: &Value) -> Option<Event> {
        let mut event = json!({
            "metadata": {"name": "cart.1", "resourceVersion": "7"}, "type": "Warning", "reason": "Unhealthy",
            "involvedObject": {"kind": "Pod", "uid": "u"},
        });
        orchestr_testbed::objects::merge(&mut event, changes);
        let message: EventMessage = serde_json::from_value(event.clone()).unwrap();
        let of_protobuf = WatchedEvent::from_protobuf(message.encode_to_vec().into());
        let of_json = WatchedEvent::from_json(event.to_string().as_bytes()).unwrap();
        assert_eq!(of_json.object, of_protobuf.object);
        assert_eq!([of_json.resource_version, of_protobuf.resource_version], ["7", "7"]);
        of_json.object.event.map(|event| *event)
    }

    #[test]
    fn passes_over_events_that_explain_nothing_or_name_no_object() {
        let normal = |reason: &str, message: &str| json!({"type": "Normal", "reason": reason, "message": message});
        for (changes, is_kept) in [
            (json!({}), true),
            (json!({"type": "Normal"}), false),
            (normal("Killing", "Container app failed liveness probe, will be restarted"), true),
            (normal("FailedPostStartHook", "PostStartHook failed"), true),
            (normal("Killing", "Stopping container app"), false),
            (normal("Started", "Container started"), false),
            (json!({"type": ""}), false),
            (json!({"involvedObject": {"kind": ""}}), false),
            (json!({"involvedObject": {"uid": ""}}), false),
        ] {
            assert_eq!(decoded(&changes).is_some(), is_kept, "{changes}");
        }
    }

    #[test]
    fn reads_counts_and_times_of_old_and_new_reporters() {
        let at = |minute: i32| format!("2026-01-01T00:0{minute}:00Z");
        for (changes, count, first, last) in [
            (json!({"count": 3, "firstTimestamp": at(1), "lastTimestamp": at(9)}), 3, 1, 9),
            (json!({"eventTime": at(4), "metadata": {"creationTimestamp": at(5)}, "count": null}), 1, 4, 4),
            (json!({"eventTime": at(4), "series": {"count": 7, "lastObservedTime": at(8)}}), 7, 4, 8),
            (json!({"count": -5, "metadata": {"creationTimestamp": at(2)}}), 1, 2, 2),
            (
                json!({"deprecatedCount": 4, "deprecatedFirstTimestamp": at(1), "deprecatedLastTimestamp": at(2)}),
                4,
                1,
                2,
            ),
        ] {
            let event = decoded(&changes).unwrap();
            let [first, last] = [first, last].map(|minute| at(minute).parse().ok());
            assert_eq!((event.count, event.first, event.last), (count, first, last), "{changes}");
        }
    }

    #[test]
    fn reads_the_names_that_events_v1_gives_to_fields() {
        let event = json!({
            "type": "Warning", "reason": "Unhealthy", "note": "503",
            "regarding": {"kind": "Pod", "uid": "u", "fieldPath": "spec.containers{app}"},
        });
        let event = serde_json::from_value::<WatchedEvent>(event).unwrap().event.unwrap();
        assert_eq!((&*event.message, &*event.involved.container), ("503", "app"));
    }

    #[test]
    fn reads_the_container_from_the_field_path() {
        for (path, name) in [
            ("spec.containers{app}", "app"),
            ("spec.initContainers{setup}", "setup"),
            ("spec.containers[2]", ""),
            ("implicitly required container POD", ""),
            ("}{", ""),
            ("", ""),
        ] {
            assert_eq!(container(path), name, "{path}");
        }
    }

    #[test]
    fn cuts_long_texts() {
        let long = "é ".repeat(1 << 20);
        let event = decoded(&json!({"message": long, "reason": long})).unwrap();
        assert!((NAME_LIMIT - 2..=NAME_LIMIT).contains(&event.reason.len()), "{}", event.reason.len());
        assert_eq!(event.message, "é ".repeat(340) + "…");
    }

    fn warning() -> Vec<u8> {
        let involved_object = ObjectReference { kind: "Pod".into(), uid: "u".into(), ..Default::default() };
        let metadata = ObjectMeta { name: "a.1".into(), resource_version: "7".into(), creation_timestamp: None };
        let message = Bytes::from_static(b"exit\xff");
        EventMessage { metadata, involved_object, kind: "Warning".into(), message, ..Default::default() }
            .encode_to_vec()
    }

    #[test]
    fn passes_over_a_malformed_event_and_knows_its_version() {
        let read = WatchedEvent::from_protobuf(warning().into());
        assert_eq!((&*read.object.event.unwrap().message, &*read.resource_version), ("exit\u{fffd}", "7"));
        let mut bytes = warning();
        // A reason that is a number.
        bytes.extend([0x18, 7]);
        let read = WatchedEvent::from_protobuf(bytes.into());
        assert_eq!((read.object.event, &*read.resource_version), (None, "7"));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(prop::num::u8::ANY, 0..60), at in 0_usize..60) {
            let mut damaged = warning();
            let length = damaged.len();
            damaged.splice(at.min(length)..(at + bytes.len()).min(length), bytes.iter().copied());
            for bytes in [bytes, damaged] {
                WatchedEvent::from_protobuf(bytes.into());
            }
        }
    }
}
