//! The history of an object in the order of time: incidents that have ended, those that last, and the spans in which the pods
//! were not watched.

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::{
    api::{Cause, NamespacedName, OrchestrStatus, Owner, ProblemKind, reason},
    diagnosis::human_duration,
    report::RESTART,
};

use super::numbers::counted;

/// What happened in a time, also as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Timeline {
    /// `namespace/name`.
    pub(super) object: String,
    /// Since when all incidents that have ended are known; absent if the status has no history.
    pub(super) since: Option<Timestamp>,
    /// The present; of a file, the time of the last check.
    pub(crate) until: Timestamp,
    /// Those that last first, then by their ends; the most recent first.
    pub(super) incidents: Vec<Past>,
    /// The most recent first.
    pub(super) unwatched: Vec<Unwatched>,
    /// How many ended incidents the operator has dropped, and how many that last the status omits.
    dropped_incidents: i64,
    omitted_incidents: i64,
    /// How many entries another version has written that this one cannot read.
    unreadable_entries: usize,
}

/// An incident.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Past {
    key: String,
    kind: ProblemKind,
    namespace: String,
    pub(super) owner: Owner,
    container: String,
    pub(super) reason: String,
    pub(super) cause: Cause,
    pub(super) message: String,
    /// The most that were affected at the same time.
    pub(super) pods: i64,
    pub(super) began: Timestamp,
    /// When it was last known to last, if the pods were not watched when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_seen: Option<Timestamp>,
    /// The latest time at which it may have ended; `null` if it lasts.
    pub(super) ended: Option<Timestamp>,
}

/// A span in which the pods were not watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Unwatched {
    pub(super) from: Timestamp,
    /// Absent if they are still not watched.
    pub(super) until: Option<Timestamp>,
    pub(super) reason: String,
}

/// When a status was last checked, if that is longer ago than a restart takes. The status of an operator that has stopped, or
/// that cannot write it, does not say so.
pub(crate) fn stopped_at(status: &OrchestrStatus, now: Timestamp) -> Option<Timestamp> {
    let checked = status.last_check_time.as_ref()?.0;
    (now.duration_since(checked) > RESTART).then_some(checked)
}

impl Timeline {
    /// The history of a status; with `within`, what lasted or ended in the time before now.
    pub(crate) fn of(
        object: &NamespacedName,
        status: &OrchestrStatus,
        within: Option<SignedDuration>,
        now: Timestamp,
    ) -> Self {
        let lasting = status.incidents.iter().map(|own| Past {
            key: own.key.clone(),
            kind: own.kind,
            namespace: own.namespace.clone(),
            owner: own.owner.clone(),
            container: own.container.clone(),
            reason: own.reason.clone(),
            cause: own.cause,
            message: own.message.clone(),
            pods: own.most_pods.max(own.pods),
            began: own.since.0,
            last_seen: None,
            ended: None,
        });
        let ended = status.history.iter().map(|own| Past {
            key: own.key.clone(),
            kind: own.kind,
            namespace: own.namespace.clone(),
            owner: own.owner.clone(),
            container: own.container.clone(),
            reason: own.reason.clone(),
            cause: own.cause,
            message: own.message.clone(),
            pods: own.pods,
            began: own.began.0,
            last_seen: own.last_seen.as_ref().map(|seen| seen.0),
            ended: Some(own.ended.0),
        });
        let mut unwatched: Vec<_> = status
            .unwatched
            .iter()
            .map(|own| Unwatched {
                from: own.from.0,
                until: own.until.as_ref().map(|until| until.0),
                reason: own.reason.clone(),
            })
            .collect();
        if let Some(checked) = stopped_at(status, now)
            && unwatched.iter().all(|own| own.until.is_some())
        {
            unwatched.push(Unwatched { from: checked, until: None, reason: reason::NOT_RUNNING.to_owned() });
        }
        let earliest = within.and_then(|within| now.checked_sub(within).ok());
        let is_within = |end: Option<Timestamp>| end.is_none_or(|end| earliest.is_none_or(|earliest| end >= earliest));
        let mut incidents: Vec<_> = lasting.chain(ended).filter(|own| is_within(own.ended)).collect();
        incidents.sort_by_key(|own| Reverse((own.ended.unwrap_or(Timestamp::MAX), own.began)));
        unwatched.retain(|own| is_within(own.until));
        unwatched.sort_by_key(|own| Reverse(own.from));
        let since = status.history_since.as_ref().map(|since| since.0);
        Self {
            object: format!("{}/{}", object.namespace, object.name),
            since: since.map(|since| earliest.map_or(since, |earliest| since.max(earliest))),
            until: now,
            incidents,
            unwatched,
            // What was dropped ended before the history is complete.
            dropped_incidents: if earliest.is_some_and(|earliest| since.is_some_and(|since| since <= earliest)) {
                0
            } else {
                status.omitted_history
            },
            omitted_incidents: status.omitted_incidents,
            unreadable_entries: status.history.unreadable + status.unwatched.unreadable,
        }
    }

    /// Whether the pods were watched last, so that no incident can be missing that lasts now.
    pub(crate) fn is_known_until_now(&self) -> bool {
        self.since.is_some() && self.unwatched.iter().all(|own| own.until.is_some())
    }

    /// Such as `3 incidents ended since 2026-03-01 11:00 UTC, and 1 lasts`. If some of them ended before all are known, it says
    /// since when they are.
    pub(crate) fn headline(&self) -> String {
        let lasting = self.incidents.iter().filter(|own| own.ended.is_none()).count();
        let ended = match self.incidents.len() - lasting {
            0 => "no incident ended".to_owned(),
            ended => format!("{} ended", counted(ended, "incident")),
        };
        let since = match self.since {
            None => String::new(),
            // The namespace that takes the most of a history loses its oldest incidents first, so older ones of others may be left.
            Some(since) if self.incidents.iter().any(|own| own.has_ended_before(since)) => {
                format!(" (complete since {} UTC)", minute(since))
            }
            Some(since) => format!(" since {} UTC", minute(since)),
        };
        let lasting = match lasting {
            0 => String::new(),
            1 => ", and 1 lasts".to_owned(),
            many => format!(", and {many} last"),
        };
        format!("{ended}{since}{lasting}")
    }

    /// What the history does not contain, a sentence each.
    pub(super) fn limits(&self) -> Vec<String> {
        let mut limits = Vec::new();
        if self.since.is_none() {
            limits.push("The status has no history: the pods have not been watched yet.".to_owned());
        }
        match self.dropped_incidents {
            ..=0 => {}
            1 => limits.push("1 earlier incident was dropped, because the history is limited.".to_owned()),
            many => limits.push(format!("{many} earlier incidents were dropped, because the history is limited.")),
        }
        match self.unreadable_entries {
            0 => {}
            1 => limits.push("1 entry of the history cannot be read: another version has written it.".to_owned()),
            many => {
                limits.push(format!("{many} entries of the history cannot be read: another version has written them."));
            }
        }
        match self.omitted_incidents {
            ..=0 => {}
            1 => limits.push("The status omits 1 incident that lasts.".to_owned()),
            many => limits.push(format!("The status omits {many} incidents that last.")),
        }
        limits
    }
}

impl Past {
    /// How long it lasted, such as `34m`, `34m to 2h` or `34m so far`.
    pub(super) fn lasted(&self, now: Timestamp) -> String {
        let until = |end: Timestamp| human_duration(end.duration_since(self.began).max(SignedDuration::ZERO));
        let Some(ended) = self.ended else { return format!("{} so far", until(now)) };
        match self.last_seen.map(until).filter(|least| *least != until(ended)) {
            Some(least) => format!("{least} to {}", until(ended)),
            None => until(ended),
        }
    }

    pub(super) fn has_ended_before(&self, time: Timestamp) -> bool {
        self.ended.is_some_and(|ended| ended < time)
    }

    /// `namespace/name`.
    pub(super) fn workload(&self) -> String {
        format!("{}/{}", self.namespace, self.owner.name)
    }
}

impl Unwatched {
    /// Why, such as `it was paused`.
    pub(super) fn explanation(&self) -> &str {
        match self.reason.as_str() {
            reason::NOT_RUNNING => "the operator was not running, or could not write the status",
            reason::PAUSED => "it was paused",
            reason::ALERTS_NOT_SET | reason::INVALID_SPEC => "the spec was invalid",
            reason::POD_ACCESS_DENIED => "the operator was not allowed to watch pods",
            reason::SYNCING => "pods could not be read",
            other => other,
        }
    }

    pub(super) fn lasted(&self, now: Timestamp) -> String {
        let length = self.until.unwrap_or(now).duration_since(self.from).max(SignedDuration::ZERO);
        let so_far = if self.until.is_none() { " so far" } else { "" };
        format!("{}{so_far}", human_duration(length))
    }
}

/// Such as `2026-03-01 11:00`, in UTC.
pub(super) fn minute(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
pub(crate) mod tests;
