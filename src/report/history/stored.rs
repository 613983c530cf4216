//! A history in memory: a thousand objects may have fifty entries each.

use std::borrow::Cow;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{Cause, EndedIncident, Owner, ProblemKind, UnwatchedSpan};

use super::History;

/// A history as JSON without field names, which takes about half of what it takes in the status. It is empty if the history
/// is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::report) struct StoredHistory(Box<[u8]>);

type Text<'a> = Cow<'a, str>;
/// In seconds since 1970.
type Seconds = i64;
type StoredEntry<'a> = ([Text<'a>; 7], ProblemKind, Cause, i64, Seconds, Option<Seconds>, Seconds);
type StoredSpan<'a> = (Seconds, Option<Seconds>, Text<'a>, bool);
type Stored<'a> = (Vec<StoredEntry<'a>>, Vec<StoredSpan<'a>>, Option<Seconds>, i64);

impl StoredHistory {
    pub(in crate::report) fn new(history: &History) -> Self {
        if *history == History::default() {
            return Self(Box::default());
        }
        let entries: Vec<_> = history.entries.iter().map(entry).collect();
        let spans: Vec<_> = history.unwatched.iter().map(span).collect();
        let stored: Stored<'_> = (entries, spans, history.since.map(Timestamp::as_second), history.omitted);
        Self(serde_json::to_vec(&stored).unwrap_or_default().into())
    }

    pub(in crate::report) fn history(&self) -> History {
        if self.0.is_empty() {
            return History::default();
        }
        let (entries, spans, since, omitted): Stored<'_> = serde_json::from_slice(&self.0).unwrap_or_default();
        History {
            entries: entries.into_iter().map(read_entry).collect(),
            unwatched: spans.into_iter().map(read_span).collect(),
            since: since.map(instant),
            omitted,
        }
    }

    #[cfg(test)]
    pub(in crate::report) fn bytes(&self) -> usize {
        self.0.len()
    }
}

fn entry(own: &EndedIncident) -> StoredEntry<'_> {
    let texts = [&own.key, &own.namespace, &own.owner.kind, &own.owner.name, &own.container, &own.reason, &own.message];
    let last_seen = own.last_seen.as_ref().map(second);
    (texts.map(Cow::from), own.kind, own.cause, own.pods, second(&own.began), last_seen, second(&own.ended))
}

fn read_entry((texts, kind, cause, pods, began, last_seen, ended): StoredEntry<'_>) -> EndedIncident {
    let [key, namespace, owner_kind, owner_name, container, reason, message] = texts.map(Cow::into_owned);
    EndedIncident {
        key,
        kind,
        namespace,
        owner: Owner { kind: owner_kind, name: owner_name },
        container,
        reason,
        cause,
        message,
        pods,
        began: Time(instant(began)),
        last_seen: last_seen.map(|seen| Time(instant(seen))),
        ended: Time(instant(ended)),
    }
}

fn span(own: &UnwatchedSpan) -> StoredSpan<'_> {
    (second(&own.from), own.until.as_ref().map(second), Cow::from(&own.reason), own.spec_changed)
}

fn read_span((from, until, reason, spec_changed): StoredSpan<'_>) -> UnwatchedSpan {
    let until = until.map(|until| Time(instant(until)));
    UnwatchedSpan { from: Time(instant(from)), until, reason: reason.into_owned(), spec_changed }
}

fn second(time: &Time) -> Seconds {
    time.0.as_second()
}

fn instant(second: Seconds) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH)
}
