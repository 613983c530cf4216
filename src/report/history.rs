//! The history of an object: the incidents that have ended, and the spans in which the pods were not watched.
//!
//! The history changes only when a status is written, and only together with other fields: an incident is added by the write
//! that removes it from `incidents`, so a crash between the two is not possible. It follows from the status in the API and
//! the new one alone, and so it survives restarts.
//!
//! An incident that leaves the list has not always ended. None is added
//!
//! - if the spec has changed, also while the pods were not watched: the pods may just not be selected any more;
//! - while the pods are not watched (paused, invalid spec, no access, outage…), and none that was removed by a pause;
//! - if its pods cannot be judged: they are undecodable, have lost the labels that select them, are excluded by an
//!   annotation, or their namespace is not watched any more ([`Step::is_unclear`]);
//! - if it was cut from a list that is too long.
//!
//! Entries of namespaces that the object does not select any more are dropped: who may read the object may not be allowed to
//! read these namespaces ([`Step::selects`]).
//!
//! If the pods were not watched just before, it is only known that an incident ended in that time, and the entry says so
//! ([`EndedIncident::last_seen`]).

use std::cmp::Reverse;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::api::{EndedIncident, Incident, OrchestrStatus, UnwatchedSpan, condition, reason};

use super::{
    change::{OmittedIncidents, find, gone},
    fair, fit, truncate,
    wire::{count, seconds, wire_time},
};

/// The most incidents in a history, and the most bytes of JSON that they may take.
const MAX_ENTRIES: usize = 50;
const ENTRY_BYTES: usize = 16 * 1024;
/// The most spans in a history. One takes less than 150 bytes.
const MAX_SPANS: usize = 20;
/// How long entries and spans are kept.
const KEPT: SignedDuration = SignedDuration::from_hours(7 * 24);
/// The longest message, in bytes.
pub(super) const MESSAGE_LIMIT: usize = 160;
/// A span in which the operator was not running begins with the last check, which is up to five minutes before it stopped.
/// So a span up to this length may be a restart.
pub(crate) const RESTART: SignedDuration = SignedDuration::from_mins(6);
/// A shorter interruption of the watch is not recorded: a restart of the API server takes less time.
const INTERRUPTION: SignedDuration = SignedDuration::from_secs(60);

/// The history in a status.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct History {
    /// The most recent first.
    entries: Vec<EndedIncident>,
    /// The most recent first. Only the first may be open.
    unwatched: Vec<UnwatchedSpan>,
    since: Option<Timestamp>,
    omitted: i64,
}

/// A time until now in which the pods were not watched, and that the status in the API may not show yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) from: Timestamp,
    /// As of [`UnwatchedSpan::reason`].
    pub(crate) reason: &'static str,
}

impl Gap {
    /// The gap before the start of this process, if the status was written by another one.
    pub(crate) fn before_start(status: Option<&OrchestrStatus>) -> Option<Self> {
        let from = status?.last_check_time.as_ref()?.0;
        Some(Self { from, reason: reason::NOT_RUNNING })
    }

    /// Whether the history contains the gap if it ends now.
    pub(crate) fn is_recorded(self, now: Timestamp) -> bool {
        is_recorded(self.reason, self.from, now)
    }
}

/// What happened from the status in the API to the new one.
pub(crate) struct Step<'a> {
    /// The status in the API with its incidents; their messages may be cut.
    pub(crate) old: Option<&'a OrchestrStatus>,
    /// Absent if this process has watched the pods without interruption since it wrote or confirmed the status in the API.
    pub(crate) gap: Option<Gap>,
    /// The incidents that the new status does not list.
    pub(crate) omitted: &'a OmittedIncidents,
    /// Whether it cannot be known if the incident has ended.
    pub(crate) is_unclear: &'a dyn Fn(&Incident) -> bool,
    /// Whether the object may show this namespace now.
    pub(crate) selects: &'a dyn Fn(&str) -> bool,
    pub(crate) now: Timestamp,
}

/// Whether a status says that the pods are watched. They are as well if only a part of the spec is wrong.
pub(crate) fn is_watching(status: &OrchestrStatus) -> bool {
    let is_stalled = find(status, condition::STALLED).is_some_and(|stalled| stalled.status == "True");
    let ready = find(status, condition::READY);
    !is_stalled && ready.is_some_and(|ready| ready.status == "True" || ready.reason == reason::INVALID_SPEC)
}

/// The largest number of pods of an incident so far.
pub(super) fn most_pods(incident: &Incident) -> i64 {
    incident.most_pods.max(incident.pods)
}

impl History {
    /// Moves the history out of a status.
    pub(crate) fn take(status: &mut OrchestrStatus) -> Self {
        let (entries, unwatched) = (std::mem::take(&mut status.history), std::mem::take(&mut status.unwatched));
        let unreadable = count(entries.unreadable + unwatched.unreadable);
        // What cannot be read is dropped, and is not younger than the status.
        let checked = status.last_check_time.as_ref().filter(|_| unreadable > 0).map(|time| time.0);
        Self {
            entries: entries.items,
            unwatched: unwatched.items,
            since: status.history_since.take().map(|since| checked.map_or(since.0, |checked| since.0.max(checked))),
            omitted: std::mem::take(&mut status.omitted_history).max(0).saturating_add(unreadable),
        }
    }

    /// Adds the history to a status, which must have none.
    pub(crate) fn put_into(self, status: &mut OrchestrStatus) {
        status.history = self.entries.into();
        status.unwatched = self.unwatched.into();
        status.history_since = self.since.map(wire_time);
        status.omitted_history = self.omitted;
    }

    /// The history to write with a new status.
    #[must_use]
    pub(crate) fn advance(mut self, new: &OrchestrStatus, step: &Step<'_>) -> Self {
        let now = seconds(step.now);
        self.repair(now);
        if step.old.is_none_or(|old| old.observed_generation != new.observed_generation) {
            // The new spec may have patterns that would mask more of them.
            self.entries.iter_mut().for_each(|own| own.message.clear());
        }
        // Before the pods were watched for the first time, there is no history.
        if is_watching(new) {
            self.watched(new, step, now);
        } else if self.since.is_some() {
            self.not_watched(new, step, now);
        }
        self.drop_other_namespaces(step.selects);
        self.cut(now);
        self
    }

    fn watched(&mut self, new: &OrchestrStatus, step: &Step<'_>, now: Timestamp) {
        let open = self.unwatched.first().is_some_and(|span| span.until.is_none()).then(|| self.unwatched.remove(0));
        let mut is_comparable = step.old.is_some_and(|old| old.observed_generation == new.observed_generation);
        let mut last_seen = None;
        if let Some(span) = open {
            is_comparable &= !span.spec_changed;
            last_seen = Some(self.close(span, now));
        } else if let Some(Gap { from, reason }) = step.gap {
            let from = seconds(from).min(now);
            let span = UnwatchedSpan {
                from: Time(from),
                until: None,
                reason: reason.to_owned(),
                spec_changed: step.old.is_some() && !is_comparable,
            };
            last_seen = Some(from);
            if self.since.is_some() {
                self.close(span, now);
            }
        }
        self.since.get_or_insert(now);

        let gone =
            step.old.filter(|_| is_comparable).map_or_else(Vec::new, |old| gone(&old.incidents, new, step.omitted));
        for incident in gone.into_iter().filter(|incident| !(step.is_unclear)(incident)) {
            let entry = ended(incident, last_seen, now);
            self.entries.retain(|own| own.key != entry.key || own.began != entry.began);
            self.entries.push(entry);
        }
        // An incident that returns with its beginning has not ended. One that began later is another one, although it may
        // have begun before the end of the first: a pod is not reported before its threshold has passed.
        self.entries.retain(|own| {
            let lasts = |incident: &Incident| incident.key == own.key && seconds(incident.since.0) == own.began.0;
            !new.incidents.iter().any(lasts)
        });
    }

    fn not_watched(&mut self, new: &OrchestrStatus, step: &Step<'_>, now: Timestamp) {
        let reason = find(new, condition::READY).map_or("", |ready| ready.reason.as_str());
        let spec_changed = step.old.is_some_and(|old| old.observed_generation != new.observed_generation);
        let mut span = UnwatchedSpan { from: Time(now), until: None, reason: reason.to_owned(), spec_changed };
        match self.unwatched.first_mut().filter(|open| open.until.is_none()) {
            Some(open) if open.reason == reason => {
                open.spec_changed |= spec_changed;
                return;
            }
            Some(open) => {
                // The next span continues this one.
                span.spec_changed |= open.spec_changed;
                if is_recorded(&open.reason, open.from.0, now) {
                    open.until = Some(Time(now));
                } else {
                    span.from = open.from.clone();
                    self.unwatched.remove(0);
                }
            }
            None => {
                if let Some(gap) = step.gap {
                    let from = Time(seconds(gap.from).min(now));
                    if gap.reason == reason::NOT_RUNNING && gap.is_recorded(now) {
                        let (until, reason) = (Some(Time(now)), gap.reason.to_owned());
                        self.unwatched.insert(0, UnwatchedSpan { from, until, reason, spec_changed });
                    } else {
                        span.from = from;
                    }
                }
            }
        }
        self.unwatched.insert(0, span);
    }

    /// Ends a span, and returns when the spans began that follow each other up to it.
    fn close(&mut self, span: UnwatchedSpan, now: Timestamp) -> Timestamp {
        let mut from = span.from.0;
        for earlier in &self.unwatched {
            if earlier.until.as_ref().is_none_or(|until| until.0 < from) {
                break;
            }
            from = from.min(earlier.from.0);
        }
        if is_recorded(&span.reason, span.from.0, now) {
            self.unwatched.insert(0, UnwatchedSpan { until: Some(Time(now)), ..span });
        }
        from
    }

    /// Corrects what another writer or a clock has put out of order.
    fn repair(&mut self, now: Timestamp) {
        for own in &mut self.entries {
            let ended = seconds(own.ended.0).min(now);
            let began = seconds(own.began.0).min(ended);
            own.last_seen = own.last_seen.take().map(|seen| Time(seconds(seen.0).clamp(began, ended)));
            (own.began, own.ended, own.pods) = (Time(began), Time(ended), own.pods.max(0));
            for name in
                [&mut own.namespace, &mut own.owner.kind, &mut own.owner.name, &mut own.container, &mut own.reason]
            {
                name.truncate(truncate::name(name).len());
            }
            own.message = truncate::with_ellipsis(&own.message, MESSAGE_LIMIT).into_owned();
        }
        self.unwatched.sort_by_key(|span| Reverse(span.from.0));
        let mut next = None;
        for span in &mut self.unwatched {
            let from = seconds(span.from.0).min(now);
            let until = span.until.take().map(|until| until.0).or(next);
            span.until = until.map(|until| Time(seconds(until).clamp(from, now)));
            span.from = Time(from);
            span.reason = truncate::name(&span.reason).to_owned();
            next = Some(from);
        }
        self.since = self.since.map(|since| seconds(since).min(now));
    }

    /// Drops the entries of namespaces that the object does not select. They are not counted as omitted, because no bound has
    /// dropped them.
    fn drop_other_namespaces(&mut self, selects: &dyn Fn(&str) -> bool) {
        let dropped = self.entries.extract_if(.., |own| !selects(&own.namespace));
        self.since = dropped.map(|own| Some(own.ended.0)).fold(self.since, Option::max);
    }

    /// Drops what is too old, and of what is too much the oldest of the namespaces that take the most.
    fn cut(&mut self, now: Timestamp) {
        self.entries.sort_by(|one, other| {
            (other.ended.0, other.began.0, &one.key).cmp(&(one.ended.0, one.began.0, &other.key))
        });
        let oldest = now.checked_sub(KEPT).unwrap_or(Timestamp::MIN);
        let mut complete_since = self.since;
        let mut dropped = |time: Timestamp| complete_since = complete_since.max(Some(time));

        let fresh = self.entries.iter().take_while(|own| own.ended.0 >= oldest).count();
        self.entries.drain(fresh..).for_each(|own| dropped(own.ended.0));
        let namespaces: Vec<&str> = self.entries.iter().map(|own| &*own.namespace).collect();
        let room = fair::Room { items: MAX_ENTRIES, bytes: ENTRY_BYTES };
        let kept = fair::take_turns(&namespaces, room, |index| self.entries.get(index).map_or(0, fit::listed));
        self.omitted = self.omitted.saturating_add(count(fresh - kept.len()));
        let mut index = 0..;
        let cut = self.entries.extract_if(.., |_| index.next().is_none_or(|own| kept.binary_search(&own).is_err()));
        cut.for_each(|own| dropped(own.ended.0));

        let end = |span: &UnwatchedSpan| span.until.as_ref().map_or(now, |until| until.0);
        let kept = self.unwatched.iter().take(MAX_SPANS).take_while(|span| end(span) >= oldest).count();
        self.unwatched.drain(kept..).for_each(|span| dropped(end(&span)));
        self.since = complete_since;
    }
}

/// Whether a span is worth an entry.
fn is_recorded(reason: &str, from: Timestamp, until: Timestamp) -> bool {
    let length = until.duration_since(from);
    match reason {
        reason::NOT_RUNNING => length > RESTART,
        reason::SYNCING => length >= INTERRUPTION,
        _ => length > SignedDuration::ZERO,
    }
}

pub(super) fn ended(incident: &Incident, last_seen: Option<Timestamp>, now: Timestamp) -> EndedIncident {
    let began = seconds(incident.since.0).min(now);
    EndedIncident {
        key: incident.key.clone(),
        kind: incident.kind,
        namespace: incident.namespace.clone(),
        owner: incident.owner.clone(),
        container: incident.container.clone(),
        reason: incident.reason.clone(),
        cause: incident.cause,
        message: truncate::with_ellipsis(&incident.message, MESSAGE_LIMIT).into_owned(),
        pods: most_pods(incident),
        began: Time(began),
        last_seen: last_seen.map(|seen| Time(seen.clamp(began, now))),
        ended: Time(now),
    }
}

#[cfg(test)]
mod tests;
