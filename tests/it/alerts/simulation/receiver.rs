//! The simulated receiver, and the checks of every message that it is sent.

use std::time::Duration;

use jiff::Timestamp;

use super::{Simulation, key, rendered_text};
use orchestr::{
    alerts::{Alert, Notification, retry::AttemptOutcome},
    api::{AlertPhase, Detail, MessageKind, WebhookFormat},
};

/// How a receiver handles a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::alerts) enum Behaviour {
    Accepts,
    Unreachable,
    /// Accepts the message, but its answer is lost.
    AcceptsWithoutAnswering,
    /// Answers 500 without processing the message.
    Fails,
    /// Processes the message, and answers 503.
    AcceptsAndFails,
    RateLimits,
    /// Answers 413 until the message contains names only.
    RejectsDetails,
    /// Answers 413 to every message.
    RejectsAll,
    AnswersNotFound,
    AnswersUnauthorized,
    /// Answers 400 to every message that names the owner of one of these incidents.
    RefusesNaming(&'static [u8]),
    Gone,
}

/// How much of an attempt may have reached the receiver.
pub(super) struct Attempt {
    pub at: Timestamp,
    pub id: String,
    pub kind: MessageKind,
    pub started: Vec<String>,
    pub resolved: Vec<String>,
    pub accepted: bool,
    /// The operator cannot know that the message was not accepted.
    pub maybe_accepted: bool,
    /// The operator knows that the message was accepted.
    pub confirmed: bool,
    /// It is a part of a message that the receiver refused, or follows soon because it waited for the receiver.
    pub is_part: bool,
}

pub(super) fn ok() -> AttemptOutcome {
    AttemptOutcome::Answered { status: 200, retry_after: None }
}

/// Of each accepted message, the time in seconds, the kind, and the keys that started and are resolved.
pub(super) fn accepted(sim: &Simulation) -> Vec<(i64, MessageKind, Vec<String>, Vec<String>)> {
    let start: Timestamp = "2026-07-01T10:00:00Z".parse().unwrap();
    let accepted = sim.attempts.iter().filter(|attempt| attempt.accepted);
    accepted
        .map(|attempt| {
            let at = attempt.at.duration_since(start).as_secs();
            (at, attempt.kind, attempt.started.clone(), attempt.resolved.clone())
        })
        .collect()
}

impl Simulation {
    /// The outcome of an attempt, and whether the receiver accepted the message.
    pub(super) fn receive(&self, message: &Notification) -> (AttemptOutcome, bool) {
        let answered = |status| AttemptOutcome::Answered { status, retry_after: None };
        match self.receiver {
            Behaviour::Accepts => (ok(), true),
            Behaviour::Unreachable => (AttemptOutcome::Unreachable, false),
            Behaviour::AcceptsWithoutAnswering => (AttemptOutcome::TimedOut, true),
            Behaviour::Fails => (answered(500), false),
            Behaviour::AcceptsAndFails => (answered(503), true),
            Behaviour::RateLimits => {
                (AttemptOutcome::Answered { status: 429, retry_after: Some(Duration::from_secs(77)) }, false)
            }
            Behaviour::RejectsDetails if message.detail == Detail::Names => (ok(), true),
            Behaviour::RejectsDetails | Behaviour::RejectsAll => (answered(413), false),
            Behaviour::AnswersNotFound => (answered(404), false),
            Behaviour::AnswersUnauthorized => (answered(401), false),
            Behaviour::RefusesNaming(numbers) => {
                let text = rendered_text(message, self.policy.format);
                let is_refused = numbers.iter().any(|number| text.contains(&key(*number)));
                if is_refused { (answered(400), false) } else { (ok(), true) }
            }
            Behaviour::Gone => (answered(410), false),
        }
    }

    pub(super) fn record_attempt(
        &mut self,
        message: &Notification,
        accepted: bool,
        maybe_accepted: bool,
        confirmed: bool,
    ) {
        self.check_message(message);
        if accepted {
            self.sent.push(message.clone());
            self.note_in_book(message);
        }
        // Resolved alerts that are sent again do not count.
        let is_marked = |alert: &&Alert| {
            let stored = self.stored.alerts.iter().find(|stored| stored.key == alert.key);
            message.kind != MessageKind::Resend
                && stored.is_some_and(|stored| matches!(stored.phase, AlertPhase::Announcing | AlertPhase::Resolving))
        };
        let keys = |alerts: &[Alert]| alerts.iter().filter(is_marked).map(|alert| alert.key.to_string()).collect();
        self.attempts.push(Attempt {
            at: self.now,
            id: message.id.clone(),
            kind: message.kind,
            started: keys(&message.started),
            resolved: keys(&message.resolved),
            accepted,
            maybe_accepted,
            confirmed,
            is_part: self.stored.part_size > 0 || self.stored.accepts_others,
        });
    }

    /// Checks that a message names every alert that it marks as sent, and resolves no incident that continues.
    fn check_message(&self, message: &Notification) {
        let text = rendered_text(message, self.policy.format);
        let may_be_delivered = self
            .attempts
            .iter()
            .any(|attempt| attempt.id == message.id && (attempt.accepted || attempt.maybe_accepted));
        if !may_be_delivered {
            self.check_mutes(message);
            let is_storm_announced = message.storm.as_ref().is_some_and(|storm| storm.count > 0);
            let announces = !message.started.is_empty() || is_storm_announced;
            assert!(message.kind != MessageKind::Firing || announces, "nothing started: {message:?}");
        }
        let marked = self.stored.alerts.iter().filter(|_| message.kind != MessageKind::Resend);
        for alert in marked {
            let listed = match alert.phase {
                AlertPhase::Announcing => message.started.iter().any(|named| named.key == alert.key),
                AlertPhase::Resolving => message.resolved.iter().any(|named| named.key == alert.key),
                _ => continue,
            };
            let is_plain = alert.owner.name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            // PagerDuty's resolve event contains the key only.
            let by_key = self.policy.format == WebhookFormat::PagerDuty && alert.phase == AlertPhase::Resolving;
            assert!(listed && (!is_plain || by_key || text.contains(&alert.owner.name)), "{} in {text}", alert.key);
            let continues =
                self.incidents_known && (self.active.contains_key(&alert.key) || self.has_common_cause(&alert.key));
            let resolves = alert.phase == AlertPhase::Resolving && !may_be_delivered;
            assert!(!(resolves && continues), "{} is resolved although it continues", alert.key);
            if resolves && self.incidents_known {
                self.check_resolved_members(alert);
            }
        }
    }

    /// The messages about one incident that were or may have been accepted: their IDs, and whether the incident started. A
    /// start that may have been accepted, and was refused or ended afterwards, may be followed by another one.
    pub(super) fn history(&self, key: &str) -> Vec<(String, bool)> {
        let mut history: Vec<(String, bool)> = Vec::new();
        let may_be_known = |attempt: &&Attempt| {
            matches!(attempt.kind, MessageKind::Firing | MessageKind::Resolved)
                && (attempt.accepted || attempt.maybe_accepted)
        };
        for attempt in self.attempts.iter().filter(may_be_known) {
            for (keys, starts) in [(&attempt.started, true), (&attempt.resolved, false)] {
                let entry = (attempt.id.clone(), starts);
                if keys.iter().any(|named| named == key) && !history.contains(&entry) {
                    history.push(entry);
                }
            }
        }
        if self.may_start_twice.contains(key) {
            // The last one counts.
            history.reverse();
            history.dedup_by_key(|(_, starts)| *starts);
            history.reverse();
        }
        history
    }

    /// Notes the incidents of a message that may have been accepted before, and that is refused now, whose starts or ends may be
    /// sent twice, or those that
    /// Alertmanager is sent again in parts.
    pub(super) fn note_refusal(&mut self, message: &Notification, outcome: &AttemptOutcome) {
        let was_uncertain = self.stored.pending.as_ref().is_some_and(|pending| pending.maybe_delivered);
        let is_refused = matches!(outcome, AttemptOutcome::Answered { status: 400 | 413, .. });
        let again = match message.kind {
            MessageKind::Resend if is_refused && message.detail == Detail::Names => vec![&message.ongoing],
            MessageKind::Resend | MessageKind::Test => return,
            _ if is_refused && was_uncertain => vec![&message.started, &message.resolved],
            _ => return,
        };
        self.may_start_twice.extend(again.into_iter().flatten().map(|alert| alert.key.to_string()));
    }
}
