//! Decodes events from JSON, for API servers and proxies that do not support protobuf.

use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Event as ApiEvent, EventSeries},
    events::v1::Event as NewApiEvent,
};

use super::{WatchedEvent, watched_event::Fields};

impl From<ApiEvent> for WatchedEvent {
    fn from(event: ApiEvent) -> Self {
        convert(event)
    }
}

/// For files, which may contain events of either API group. The API server returns each event in both.
impl From<NewApiEvent> for WatchedEvent {
    fn from(event: NewApiEvent) -> Self {
        convert(ApiEvent {
            metadata: event.metadata,
            type_: event.type_,
            reason: event.reason,
            message: event.note,
            involved_object: event.regarding.unwrap_or_default(),
            count: event.deprecated_count,
            first_timestamp: event.deprecated_first_timestamp,
            last_timestamp: event.deprecated_last_timestamp,
            event_time: event.event_time,
            series: event.series.map(|series| EventSeries {
                count: Some(series.count),
                last_observed_time: Some(series.last_observed_time),
            }),
            ..ApiEvent::default()
        })
    }
}

pub(super) fn convert(event: ApiEvent) -> WatchedEvent {
    let (metadata, involved) = (event.metadata, event.involved_object);
    let series = event.series.unwrap_or_default();
    let fields = Fields {
        name: bytes(&metadata.name),
        kind: bytes(&event.type_),
        reason: bytes(&event.reason),
        message: bytes(&event.message),
        involved_kind: bytes(&involved.kind),
        involved_namespace: bytes(&involved.namespace),
        involved_name: bytes(&involved.name),
        involved_uid: bytes(&involved.uid),
        field_path: bytes(&involved.field_path),
        count: event.count.unwrap_or_default(),
        series_count: series.count.unwrap_or_default(),
        created: seconds(metadata.creation_timestamp.map(|time| time.0)),
        first: seconds(event.first_timestamp.map(|time| time.0)),
        last: seconds(event.last_timestamp.map(|time| time.0)),
        event_time: seconds(event.event_time.map(|time| time.0)),
        series_last: seconds(series.last_observed_time.map(|time| time.0)),
    };
    WatchedEvent::new(&fields, metadata.resource_version.unwrap_or_default())
}

fn bytes(text: &Option<String>) -> &[u8] {
    text.as_deref().unwrap_or_default().as_bytes()
}

/// Only whole seconds are used, as from protobuf.
fn seconds(time: Option<Timestamp>) -> Option<Timestamp> {
    Timestamp::from_second(time?.as_second()).ok()
}
