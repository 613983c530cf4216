//! Decodes events from protobuf. The numbers of the fields come from `generated.proto` in `k8s.io/api/core/v1` and in
//! apimachinery's `meta/v1`. All other fields are skipped.

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event as ApiEvent;
use prost::Message;

use crate::watch::protobuf::{Decode, Decoded, bounded_text, message::Time};

use super::{
    WatchedEvent,
    watched_event::{Fields, NAME_LIMIT},
};

/// Decodes Warning events.
pub(super) struct DecodeEvent;

impl Decode for DecodeEvent {
    type Api = ApiEvent;
    type Object = WatchedEvent;

    fn decode(raw: Bytes) -> Decoded<WatchedEvent> {
        let mut message = Event::default();
        if message.merge(raw).is_err() {
            // What was read before the error may be wrong.
            message = Event { metadata: message.metadata, ..Event::default() };
        }
        let object: WatchedEvent = message.into();
        Decoded { resource_version: object.resource_version.clone(), object }
    }
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    involved: Option<ObjectReference>,
    #[prost(bytes = "bytes", tag = "3")]
    reason: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    message: Bytes,
    #[prost(message, optional, tag = "6")]
    first: Option<Time>,
    #[prost(message, optional, tag = "7")]
    last: Option<Time>,
    #[prost(int32, tag = "8")]
    count: i32,
    #[prost(bytes = "bytes", tag = "9")]
    kind: Bytes,
    // `meta/v1.MicroTime` differs from Time only in JSON.
    #[prost(message, optional, tag = "10")]
    event_time: Option<Time>,
    #[prost(message, optional, tag = "11")]
    series: Option<EventSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMeta {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    resource_version: Bytes,
    #[prost(message, optional, tag = "8")]
    created: Option<Time>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectReference {
    #[prost(bytes = "bytes", tag = "1")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    namespace: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    uid: Bytes,
    #[prost(bytes = "bytes", tag = "7")]
    field_path: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct EventSeries {
    #[prost(int32, tag = "1")]
    count: i32,
    #[prost(message, optional, tag = "2")]
    last: Option<Time>,
}

impl From<Event> for WatchedEvent {
    fn from(event: Event) -> Self {
        let metadata = event.metadata.unwrap_or_default();
        let involved = event.involved.unwrap_or_default();
        let series = event.series.unwrap_or_default();
        let fields = Fields {
            name: &metadata.name,
            kind: &event.kind,
            reason: &event.reason,
            message: &event.message,
            involved_kind: &involved.kind,
            involved_namespace: &involved.namespace,
            involved_name: &involved.name,
            involved_uid: &involved.uid,
            field_path: &involved.field_path,
            count: event.count,
            series_count: series.count,
            created: time(metadata.created),
            first: time(event.first),
            last: time(event.last),
            event_time: time(event.event_time),
            series_last: time(series.last),
        };
        Self::new(&fields, bounded_text(&metadata.resource_version, NAME_LIMIT).into_owned())
    }
}

fn time(time: Option<Time>) -> Option<Timestamp> {
    time?.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn warning() -> Vec<u8> {
        let involved = ObjectReference { kind: "Pod".into(), uid: "u".into(), ..ObjectReference::default() };
        let metadata = ObjectMeta { name: "a.1".into(), resource_version: "7".into(), created: None };
        let event = Event {
            metadata: Some(metadata),
            involved: Some(involved),
            kind: "Warning".into(),
            message: Bytes::from_static(b"exit\xff"),
            ..Event::default()
        };
        event.encode_to_vec()
    }

    #[test]
    fn passes_over_a_malformed_event_and_knows_its_version() {
        let Decoded { object, resource_version } = DecodeEvent::decode(warning().into());
        assert_eq!((object.event.unwrap().message.as_str(), resource_version.as_str()), ("exit\u{fffd}", "7"));
        let mut bytes = warning();
        // A reason that is a number.
        bytes.extend([0x18, 7]);
        let Decoded { object, resource_version } = DecodeEvent::decode(bytes.into());
        assert_eq!((object.event, resource_version.as_str()), (None, "7"));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in prop::collection::vec(prop::num::u8::ANY, 0..60), at in 0_usize..60) {
            let mut damaged = warning();
            let length = damaged.len();
            damaged.splice(at.min(length)..(at + bytes.len()).min(length), bytes.iter().copied());
            for bytes in [bytes, damaged] {
                DecodeEvent::decode(bytes.into());
            }
        }
    }
}
