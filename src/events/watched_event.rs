//! An event as a list or watch returns it.

use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;

use crate::{partial_text::cut_end, watch::protobuf::bounded_text};

use super::{Event, InvolvedObject, reasons::is_normal_evidence};

/// The longest name, kind, reason or UID, in bytes. Names have at most 253 characters.
pub(super) const NAME_LIMIT: usize = 256;
/// The longest message, in bytes. The API server accepts 1,024 in new events, but any length in core/v1 events.
const MESSAGE_LIMIT: usize = 1024;

/// An item of a list or watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedEvent {
    /// Identifies the event among those about the same object. When an event occurs again, its count changes.
    pub id: u64,
    /// Absent if it explains nothing, does not concern an object, or could not be decoded.
    pub event: Option<Box<Event>>,
    pub resource_version: String,
}

/// The fields of an event in the API, in either encoding.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) name: &'a [u8],
    pub(super) kind: &'a [u8],
    pub(super) reason: &'a [u8],
    pub(super) message: &'a [u8],
    pub(super) involved_kind: &'a [u8],
    pub(super) involved_namespace: &'a [u8],
    pub(super) involved_name: &'a [u8],
    pub(super) involved_uid: &'a [u8],
    pub(super) field_path: &'a [u8],
    pub(super) count: i32,
    pub(super) series_count: i32,
    pub(super) created: Option<Timestamp>,
    pub(super) first: Option<Timestamp>,
    pub(super) last: Option<Timestamp>,
    /// When the event occurred, or first occurred. Written by newer reporters instead of `first` and `last`.
    pub(super) event_time: Option<Timestamp>,
    pub(super) series_last: Option<Timestamp>,
}

impl WatchedEvent {
    pub(super) fn new(fields: &Fields<'_>, resource_version: String) -> Self {
        let mut hasher = DefaultHasher::new();
        fields.name.hash(&mut hasher);
        Self { id: hasher.finish(), event: event(fields).map(Box::new), resource_version }
    }
}

fn event(fields: &Fields<'_>) -> Option<Event> {
    let is_evidence = match fields.kind {
        b"Warning" => true,
        b"Normal" => is_normal_evidence(fields.reason, fields.message),
        _ => false,
    };
    if !is_evidence || fields.involved_kind.is_empty() || fields.involved_uid.is_empty() {
        return None;
    }
    let count = fields.count.max(fields.series_count).max(1);
    Some(Event {
        involved: InvolvedObject {
            kind: name(fields.involved_kind),
            namespace: name(fields.involved_namespace),
            name: name(fields.involved_name),
            uid: name(fields.involved_uid),
            container: container(&name(fields.field_path)).to_owned(),
        },
        reason: name(fields.reason),
        message: message(fields.message),
        count: count.unsigned_abs(),
        first: fields.first.or(fields.event_time).or(fields.created),
        last: fields.last.max(fields.series_last).or(fields.event_time).or(fields.created),
    })
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
    use super::*;

    fn warning() -> Fields<'static> {
        Fields {
            name: b"cart.1",
            kind: b"Warning",
            reason: b"Unhealthy",
            involved_kind: b"Pod",
            involved_uid: b"u",
            ..Fields::default()
        }
    }

    fn at(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(second).ok()
    }

    #[test]
    fn passes_over_events_that_explain_nothing_or_concern_no_object() {
        let is_kept = |fields| WatchedEvent::new(&fields, String::new()).event.is_some();
        assert!(is_kept(warning()));
        assert!(!is_kept(Fields { kind: b"Normal", ..warning() }));
        let normal = |reason, message| Fields { kind: b"Normal", reason, message, ..warning() };
        assert!(is_kept(normal(b"Killing", b"Container app failed liveness probe, will be restarted")));
        assert!(is_kept(normal(b"FailedPostStartHook", b"PostStartHook failed")));
        assert!(!is_kept(normal(b"Killing", b"Stopping container app")));
        assert!(!is_kept(normal(b"Started", b"Container started")));
        assert!(!is_kept(Fields { kind: b"", ..warning() }));
        assert!(!is_kept(Fields { involved_kind: b"", ..warning() }));
        assert!(!is_kept(Fields { involved_uid: b"", ..warning() }));
    }

    #[test]
    fn reads_counts_and_times_of_old_and_new_reporters() {
        let read = |fields| {
            let event = event(&fields).unwrap();
            (event.count, event.first, event.last)
        };
        assert_eq!(read(Fields { count: 3, first: at(1), last: at(9), ..warning() }), (3, at(1), at(9)));
        assert_eq!(read(Fields { event_time: at(4), created: at(5), ..warning() }), (1, at(4), at(4)));
        let series = Fields { event_time: at(4), series_count: 7, series_last: at(8), ..warning() };
        assert_eq!(read(series), (7, at(4), at(8)));
        assert_eq!(read(Fields { count: -5, created: at(2), ..warning() }), (1, at(2), at(2)));
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
        let fields = Fields { message: long.as_bytes(), reason: long.as_bytes(), ..warning() };
        let event = event(&fields).unwrap();
        assert!((NAME_LIMIT - 2..=NAME_LIMIT).contains(&event.reason.len()), "{}", event.reason.len());
        assert_eq!(event.message, "é ".repeat(340) + "…");
        assert_eq!(event.message.capacity(), event.message.len());
    }
}
