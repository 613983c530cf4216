//! All events about an object, Normal ones too.

use std::cmp::Reverse;

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Event as ApiEvent, apimachinery::pkg::apis::meta::v1::Time};
use kube::api::ListParams;

use crate::{events::CLAIM, render::safe::clean};

use super::{
    explanation::{EventPart, Events},
    reader::{Page, Reader},
};

/// The most events that are shown.
pub(super) const SHOWN: usize = 50;
/// The most events that are read. The API server does not sort them by time.
const READ: u32 = 500;

/// The events about the object with this UID, and whether there are more. Absent if they could not be read.
pub(super) async fn read(reader: &Reader<'_>, what: &str, uid: &str) -> Option<(Vec<ApiEvent>, bool)> {
    // A UID that does not consist of these could change the selector.
    if uid.is_empty() || !uid.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Some((Vec::new(), false));
    }
    let params = ListParams::default().fields(&format!("involvedObject.uid={uid}")).limit(READ);
    let page = reader.list::<ApiEvent, ApiEvent>(&format!("the events of {what}"), &params).await?;
    let more = page.next().is_some();
    Some((page.into_items(), more))
}

/// The Warning events about a claim, whose name must be valid: others could change the selector.
pub(super) async fn of_claim(reader: &Reader<'_>, claim: &str) -> Vec<ApiEvent> {
    let fields = format!("involvedObject.kind={CLAIM},involvedObject.name={claim},type=Warning");
    let what = format!("the events of PersistentVolumeClaim {claim}");
    let params = ListParams::default().fields(&fields).limit(READ);
    reader.list::<ApiEvent, ApiEvent>(&what, &params).await.map(Page::into_items).unwrap_or_default()
}

/// The newest of these events.
pub(super) fn newest(events: &[ApiEvent], more: bool, limit: usize) -> Events {
    let mut shown: Vec<EventPart> = events.iter().map(part).collect();
    shown.sort_by_key(|event| Reverse(event.last.as_ref().map(|last| last.0)));
    let omitted = shown.len().saturating_sub(limit);
    shown.truncate(limit);
    Events { shown, omitted, more }
}

/// When an event last occurred.
pub(super) fn last(event: &ApiEvent) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    last.max(series).or(event.event_time.as_ref().map(|time| time.0)).or(created(event))
}

fn created(event: &ApiEvent) -> Option<Timestamp> {
    event.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

fn part(event: &ApiEvent) -> EventPart {
    let text = |text: &Option<String>| clean(text.as_deref().unwrap_or_default());
    let involved = &event.involved_object;
    let container = involved.field_path.as_deref().and_then(|path| path.split_once('{')?.1.strip_suffix('}'));
    let about = match container {
        Some(container) => format!("container {}", clean(container)),
        None => format!("{} {}", text(&involved.kind), text(&involved.name)),
    };
    let source = event.source.as_ref().map(|source| text(&source.component)).unwrap_or_default();
    let first = event.first_timestamp.as_ref().map(|time| time.0);
    let first = first.or(event.event_time.as_ref().map(|time| time.0)).or(created(event));
    let series = event.series.as_ref().and_then(|series| series.count);
    EventPart {
        about,
        kind: text(&event.type_),
        reason: text(&event.reason),
        message: text(&event.message),
        count: event.count.max(series).unwrap_or_default().max(1),
        first: first.map(seconds),
        last: last(event).map(seconds),
        from: if source.is_empty() { text(&event.reporting_component) } else { source },
    }
}

/// A time in whole seconds.
pub(super) fn seconds(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(reason: &str, message: &str, last: &str) -> ApiEvent {
        serde_json::from_value(json!({
            "metadata": {"name": reason}, "type": "Warning", "reason": reason, "message": message, "count": 3,
            "involvedObject": {"kind": "Pod", "name": "cart", "fieldPath": "spec.containers{app}"},
            "firstTimestamp": "2026-03-01T10:00:00Z", "lastTimestamp": last, "source": {"component": "kubelet"},
        }))
        .unwrap()
    }

    #[test]
    fn shows_the_newest_events_first_and_counts_the_others() {
        let events: Vec<_> = (0..60).map(|i| event("BackOff", "x", &format!("2026-03-01T11:00:{i:02}Z"))).collect();
        let Events { shown, omitted, more } = newest(&events, true, SHOWN);
        assert_eq!((shown.len(), omitted, more), (50, 10, true));
        assert_eq!(shown[0].last, Some(Time("2026-03-01T11:00:59Z".parse().unwrap())));
        assert_eq!((shown[0].about.as_str(), shown[0].count, shown[0].from.as_str()), ("container app", 3, "kubelet"));
    }

    #[test]
    fn masks_credentials_and_replaces_control_characters() {
        let hostile = "Failed\u{1b}[31m postgres://cart:hunter2@db\u{202e}\n::error::x";
        let shown = part(&event("\u{1b}]0;x\u{7}Failed", hostile, "2026-03-01T11:00:00Z"));
        let text = format!("{}{}", shown.reason, shown.message);
        assert!(!text.contains("hunter2") && !text.contains(['\u{1b}', '\u{202e}', '\n', '\u{7}']), "{text:?}");
    }

    #[test]
    fn reads_the_times_of_newer_reporters() {
        let event: ApiEvent = serde_json::from_value(json!({
            "metadata": {}, "involvedObject": {"kind": "Pod", "name": "cart"}, "eventTime": "2026-03-01T10:00:00.000000Z",
            "series": {"count": 7, "lastObservedTime": "2026-03-01T11:00:00.500000Z"}, "reportingComponent": "scheduler",
        }))
        .unwrap();
        let shown = part(&event);
        let time = |text: &str| Some(Time(text.parse().unwrap()));
        assert_eq!((shown.first, shown.last), (time("2026-03-01T10:00:00Z"), time("2026-03-01T11:00:00Z")));
        assert_eq!((shown.count, shown.from.as_str(), shown.about.as_str()), (7, "scheduler", "Pod cart"));
    }
}
