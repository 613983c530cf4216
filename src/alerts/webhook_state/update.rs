//! The order in which a webhook's state is updated from the current incidents.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{WebhookState, is_listed, space::overflow_hash};
use crate::{
    alerts::{
        lifecycle::{self, Circumstances, Event, Life},
        muted, refusal, retry, storm,
        times::{has_elapsed, later, whole_seconds},
    },
    api::{AlertPhase, AlertStatus, MessageKind, StormStatus},
};

/// What becomes of an alert.
enum Next {
    Stays,
    /// So many incidents have ended before they were sent.
    Ended(i64),
    /// Silences or quiet hours hold it back before it was sent.
    HeldBack,
}

impl WebhookState<'_> {
    /// Sets the receiver. A new receiver is sent the firing alerts again, those that are muted later. It is also sent the
    /// end of alerts that began at the old one, because people may have seen them begin.
    pub fn set_receiver(&mut self, receiver: &str) {
        if self.status.receiver == receiver {
            return;
        }
        let was_known = !self.status.receiver.is_empty();
        receiver.clone_into(&mut self.status.receiver);
        if !was_known {
            return;
        }
        let maybe_delivered = self.may_be_delivered();
        match &mut self.status.pending {
            Some(pending) if pending.kind == MessageKind::Repeat => self.drop_pending(),
            Some(pending) => (pending.in_flight, pending.maybe_delivered) = (false, false),
            None => {}
        }
        let at = Circumstances { now: self.now, maybe_delivered };
        lifecycle::all(&mut self.status).for_each(|mut life| _ = life.on(Event::ReceiverChanged, at));
    }

    /// Updates the alerts from the current incidents, and sets `overflow` to the incidents that belong to the storm.
    pub fn update_alerts(&mut self) {
        self.repair();
        self.update_reasons();
        self.update_labels();
        self.update_members();
        self.update_controllers();
        self.step_alerts();
        self.enqueue_due();
        muted::withdraw_repetition(self);
        muted::update(self);
        self.overflow_hash = overflow_hash(&self.overflow);
    }

    /// Drops what is no longer needed, after alerts and storm are updated.
    pub fn clean_up(&mut self) {
        self.evict_resolved();
        self.drop_empty_pending();
        refusal::clean_up(&mut self.status);
        if !self.may_be_delivered() && !self.announces() {
            // The alerts that it announced were withdrawn or dropped, and the ends of others are left.
            let announcement = self.status.pending.as_mut().filter(|pending| pending.kind == MessageKind::Firing);
            announcement.into_iter().for_each(|pending| pending.kind = MessageKind::Resolved);
        }
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
        let now = self.now;
        limit(&mut self.status.next_attempt, later(now, retry::MAX_WAIT).unwrap_or(Timestamp::MAX));
        limit(&mut self.status.last_success, now);
        let mention_interval = self.policy.pacing.mention_interval;
        for mention in &mut self.status.mentioned {
            mention.at.0 = mention.at.0.min(now);
        }
        self.status.mentioned.retain(|mention| !has_elapsed(Some(&mention.at), mention_interval, now));
        let at = self.circumstances();
        lifecycle::all(&mut self.status).for_each(|mut life| _ = life.on(Event::Read, at));
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
                withdrawn.extend(muted::incidents(alert));
                false
            }
        });
        self.status.alerts = alerts;
        muted::list(self, withdrawn);
    }

    fn step(&mut self, alert: &mut AlertStatus) -> Next {
        let at = self.circumstances();
        if self.incidents.contains_key(alert.key.as_str()) {
            let returned = Life::from(&mut *alert).on(Event::Lasts, at);
            alert.returns = alert.returns.saturating_add(returned.into());
        } else if !self.gone.unclear.contains(&alert.key) {
            Life::from(&mut *alert).on(Event::Ended, at);
        }
        let is_over = self.is_resolved(alert);
        match alert.phase {
            AlertPhase::Queued if is_over => return Next::Ended(self.ended(alert)),
            AlertPhase::Firing => {
                let is_given_up = refusal::is_end_given_up(alert, self.now);
                self.status.dropped = self.status.dropped.saturating_add(is_given_up.into());
                if is_given_up || is_over && !self.policy.send_resolved {
                    Life::from(alert).on(Event::EndsSilently, at);
                }
                return Next::Stays;
            }
            AlertPhase::Announcing if alert.sent_at.is_some() || at.maybe_delivered => return Next::Stays,
            AlertPhase::Queued | AlertPhase::Announcing => {}
            AlertPhase::Resolving | AlertPhase::Resolved => return Next::Stays,
        }
        if !muted::holds_back(self, alert) {
            return Next::Stays;
        }
        Life::from(&mut *alert).on(Event::LeftOut, at);
        // If an earlier receiver was sent it, it fires, because its end must be sent.
        if alert.phase == AlertPhase::Queued { Next::HeldBack } else { Next::Stays }
    }

    /// How many incidents ended with an alert: those with a common cause may go on without it.
    fn ended(&self, alert: &AlertStatus) -> i64 {
        if alert.members.is_empty() {
            return 1;
        }
        let lasts = |key: &&String| self.current.iter().any(|incident| incident.key == **key);
        i64::try_from(alert.members.iter().filter(|key| !lasts(key)).count()).unwrap_or(i64::MAX)
    }

    /// Drops a pending message that no alert and no storm needs any more.
    fn drop_empty_pending(&mut self) {
        let Some(pending) = &self.status.pending else { return };
        // Unless each incident has a message of its own, a repetition also lists what is not marked.
        let lists_all = pending.kind == MessageKind::Repeat && !self.policy.pacing.single_incident;
        let alerts = self.status.alerts.iter().any(|alert| alert.phase.is_pending() || lists_all && is_listed(alert));
        let is_needed = |storm: &StormStatus| storm.phase.is_pending() || lists_all && storm::lasts(storm);
        let storm = self.status.storm.as_ref().is_some_and(is_needed);
        if !alerts && !storm {
            self.status.pending = None;
        }
    }
}
