//! The order in which a webhook's state is updated from the current incidents.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    held_back,
    lifecycle::Event,
    refusal, retry, sanitize,
    state::{WebhookState, is_listed, labels},
    times::{has_elapsed, later, whole_seconds},
};
use crate::api::{AlertPhase, AlertStatus, Cause, MessageKind};

/// What becomes of an alert.
enum Next {
    Stays,
    /// So many incidents have ended before they were sent.
    Ended(i64),
    /// Silences or quiet hours hold it back before it was sent.
    HeldBack,
}

impl WebhookState<'_> {
    /// Takes over a changed spec, Secret or receiver.
    pub fn configure(&mut self) {
        let input = self.input;
        self.status.name.clone_from(&input.policy.name);
        self.status.sends_no_ends = !input.policy.send_resolved;
        if self.status.config != input.config {
            input.config.clone_into(&mut self.status.config);
            self.status.stopped = false;
            self.status.next_attempt = None;
            self.status.failures = 0;
            self.status.refusals = 0;
            refusal::forget(&mut self.status);
        }
        if let Some(receiver) = input.receiver.filter(|receiver| *receiver != self.status.receiver) {
            let was_known = !self.status.receiver.is_empty();
            receiver.clone_into(&mut self.status.receiver);
            if was_known {
                self.change_receiver();
            }
        }
    }

    /// A new receiver is sent the firing alerts again, those that are muted later. It is also sent the end of alerts that
    /// began at the old one, because people may have seen them begin.
    fn change_receiver(&mut self) {
        let at = self.circumstances();
        match &mut self.status.pending {
            Some(pending) if pending.kind == MessageKind::Repeat => self.drop_pending(),
            Some(pending) => (pending.in_flight, pending.maybe_delivered) = (false, false),
            None => {}
        }
        self.status.alerts_and_storm_mut().for_each(|alert| alert.on(Event::ReceiverChanged, at));
    }

    /// Updates the alerts and the storm from the current incidents.
    pub fn update(&mut self) {
        self.repair();
        self.update_texts();
        self.update_lists();
        self.step_alerts();
        let left = self.enqueue_due();
        held_back::update(self);
        self.step_storm(left);
        self.evict_resolved();
        self.drop_empty_pending();
        refusal::clean_up(&mut self.status);
    }

    /// Repairs a status that was edited, or written with a clock ahead of ours. Without this, messages would wait until
    /// that clock's time.
    fn repair(&mut self) {
        // A webhook is only ever stopped together with an error.
        self.status.stopped &= self.status.last_error.is_some();
        if self.status.pending.is_none() {
            self.drop_pending();
        }
        let limit = |at: &mut Option<Time>, latest: Timestamp| {
            if let Some(at) = at {
                at.0 = at.0.min(whole_seconds(latest).0);
            }
        };
        let now = self.input.now;
        limit(&mut self.status.next_attempt, later(now, retry::MAX_WAIT).unwrap_or(Timestamp::MAX));
        limit(&mut self.status.last_success, now);
        let mention_interval = self.input.policy.pacing.mention_interval;
        for mention in &mut self.status.mentioned {
            mention.at.0 = mention.at.0.min(now);
        }
        self.status.mentioned.retain(|mention| !has_elapsed(Some(&mention.at), mention_interval, now));
        let at = self.circumstances();
        self.status.alerts_and_storm_mut().for_each(|alert| alert.on(Event::Read, at));
    }

    /// Stores the latest reason that matches the webhook, and its cause, for the resolved message: by then the incident is
    /// gone. The severity and the team stay once they were sent: they are labels, and Alertmanager considers an alert with
    /// other labels another alert.
    fn update_texts(&mut self) {
        for alert in self.status.alerts.iter_mut().filter(|alert| alert.phase != AlertPhase::Resolved) {
            let Some(incident) = self.incidents.get(alert.key.as_str()) else { continue };
            if !incident.members.is_empty() || self.input.policy.matching_reason(incident, &[]).is_some() {
                let reason = sanitize::single_line(&incident.reason, 128);
                // A cause that is not proven at present is that of the same reason before, such as after a restart.
                if incident.cause != Cause::Unknown || alert.reason != reason {
                    alert.cause = incident.cause;
                }
                alert.reason = reason;
            }
            if alert.phase == AlertPhase::Queued && alert.sent_at.is_none() {
                let (severity, team) = labels(self.input, incident, Some(alert));
                (alert.severity, alert.team) = (Some(severity), team);
            }
        }
    }

    /// Takes each alert one step further, and drops those that are no longer needed.
    fn step_alerts(&mut self) {
        let mut alerts = std::mem::take(&mut self.status.alerts);
        let mut withdrawn = Vec::new();
        alerts.retain_mut(|alert| match self.step(alert) {
            Next::Stays => true,
            Next::Ended(incidents) => {
                self.status.dropped = self.status.dropped.saturating_add(incidents);
                false
            }
            Next::HeldBack => {
                withdrawn.extend(held_back::incidents(alert));
                false
            }
        });
        self.status.alerts = alerts;
        held_back::list(self, withdrawn);
    }

    /// The same for the storm. `left` incidents were in a storm that was not sent, and are tracked one by one or held back now.
    fn step_storm(&mut self, left: usize) {
        let overflow = self.present_overflow();
        let Some(mut storm) = self.status.storm.take() else {
            if overflow.count > 0 {
                let since = whole_seconds(self.input.now);
                self.status.storm = Some(AlertStatus::storm(since, self.storm_severity(), overflow));
            }
            return;
        };
        if !self.status.may_be_open(&storm) {
            // Those that ended unsent are counted.
            let before = storm.overflow.map_or(0, |before| before.count);
            let ended = before.saturating_sub(overflow.count).saturating_sub(left as u64);
            self.status.dropped = self.status.dropped.saturating_add_unsigned(ended);
            if overflow.count == 0 {
                return;
            }
            storm.severity = self.storm_severity();
            storm.overflow = Some(overflow);
        }
        self.step(&mut storm);
        self.status.storm = Some(storm).filter(|storm| storm.phase != AlertPhase::Resolved);
    }

    fn step(&mut self, alert: &mut AlertStatus) -> Next {
        let at = self.circumstances();
        if self.lasts(alert) {
            alert.on(Event::Lasts, at);
        } else if !self.is_unclear(alert) {
            alert.on(Event::Ended, at);
        }
        let is_over = self.is_resolved(alert);
        match alert.phase {
            AlertPhase::Queued if is_over => return Next::Ended(self.ended(alert)),
            AlertPhase::Firing => {
                let is_given_up = refusal::is_end_given_up(alert, self.input.now);
                self.status.dropped = self.status.dropped.saturating_add(is_given_up.into());
                if is_given_up || is_over && !self.input.policy.send_resolved {
                    alert.on(Event::EndsSilently, at);
                }
                return Next::Stays;
            }
            AlertPhase::Announcing if at.maybe_delivered => return Next::Stays,
            AlertPhase::Queued | AlertPhase::Announcing => {}
            AlertPhase::Resolving | AlertPhase::Resolved => return Next::Stays,
        }
        if !held_back::holds_back(self, alert) {
            return Next::Stays;
        }
        alert.on(Event::LeftOut, at);
        // If a receiver was sent it, it fires, because its end must be sent.
        if alert.phase == AlertPhase::Queued { Next::HeldBack } else { Next::Stays }
    }

    /// How many incidents ended with an alert: those with a common cause may go on without it.
    fn ended(&self, alert: &AlertStatus) -> i64 {
        if alert.members.is_empty() {
            return 1;
        }
        let lasts = |key: &&String| self.input.incidents.iter().any(|incident| incident.key == **key);
        i64::try_from(alert.members.iter().filter(|key| !lasts(key)).count()).unwrap_or(i64::MAX)
    }

    /// Drops a pending message that no alert needs any more.
    fn drop_empty_pending(&mut self) {
        let maybe_delivered = self.status.may_be_delivered();
        let Some(pending) = &self.status.pending else { return };
        // Unless it is sent in parts, or each incident has a message of its own, a repetition lists what is not marked.
        let lists_all = pending.kind == MessageKind::Repeat
            && self.status.part_size == 0
            && !self.input.policy.pacing.single_incident;
        let is_needed = |alert: &AlertStatus| {
            alert.phase.is_pending() || lists_all && is_listed(alert) && (maybe_delivered || !self.is_muted(alert))
        };
        if !self.status.alerts_and_storm().any(is_needed) {
            self.status.pending = None;
        }
        if !maybe_delivered && !self.announces() {
            // The alerts that it announced were withdrawn or dropped, and only ends remain.
            let announcement = self.status.pending.as_mut().filter(|pending| pending.kind == MessageKind::Firing);
            announcement.into_iter().for_each(|pending| pending.kind = MessageKind::Resolved);
        }
    }
}
