//! The history as JSON.

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    api::{Cause, NamespacedName, Owner, ProblemKind},
    cli::timeline::{End, Past, Timeline, Unwatched},
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    object: String,
    since: Option<Timestamp>,
    until: Timestamp,
    incidents: Vec<Incident<'a>>,
    unwatched: Vec<Span<'a>>,
    dropped_incidents: i64,
    omitted_incidents: i64,
    unreadable_entries: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Incident<'a> {
    key: &'a str,
    kind: ProblemKind,
    namespace: &'a str,
    owner: &'a Owner,
    container: &'a str,
    reason: &'a str,
    cause: Cause,
    message: &'a str,
    pods: i64,
    began: Timestamp,
    /// When it was last known to last, if the pods were not watched when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seen: Option<Timestamp>,
    /// `null` if it lasts.
    ended: Option<Timestamp>,
}

#[derive(Serialize)]
struct Span<'a> {
    from: Timestamp,
    until: Option<Timestamp>,
    reason: &'a str,
}

pub(super) fn document(object: &NamespacedName, timeline: &Timeline<'_>) -> serde_json::Result<String> {
    let NamespacedName { namespace, name } = object;
    let document = Document {
        object: format!("{namespace}/{name}"),
        since: timeline.since,
        until: timeline.until,
        incidents: timeline.incidents.iter().map(incident).collect(),
        unwatched: timeline
            .unwatched
            .iter()
            .map(|&Unwatched { from, until, reason }| Span { from, until, reason })
            .collect(),
        dropped_incidents: timeline.dropped,
        omitted_incidents: timeline.omitted,
        unreadable_entries: timeline.unreadable,
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn incident<'a>(own: &Past<'a>) -> Incident<'a> {
    let Past { key, kind, namespace, owner, container, reason, cause, message, pods, began, end } = *own;
    let last_seen = if let End::Between(seen, _) = end { Some(seen) } else { None };
    let ended = end.last();
    Incident { key, kind, namespace, owner, container, reason, cause, message, pods, began, last_seen, ended }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::cli::timeline::tests::{noon, status};

    #[test]
    fn lists_incidents_and_spans() {
        let status = status();
        let text = document(&NamespacedName::new("ops", "cluster"), &Timeline::of(&status, None, noon())).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&document["object"], &document["since"]), (&"ops/cluster".into(), &"2026-02-27T08:00:00Z".into()));
        let ends: Vec<_> = document["incidents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|own| (own["ended"].as_str(), own["lastSeen"].as_str()))
            .collect();
        assert_eq!(
            ends,
            [
                (None, None),
                (Some("2026-03-01T10:34:00Z"), None),
                (Some("2026-02-28T04:00:00Z"), Some("2026-02-28T02:10:00Z"))
            ]
        );
        assert_eq!(document["unwatched"][0]["reason"], "NotRunning");
    }
}
