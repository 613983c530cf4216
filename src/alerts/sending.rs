//! What the receiver was sent about an alert, or about the storm: the phases, and every transition between them.
//!
//! The arrows out of *Announcing* and *Resolving* are taken when the receiver accepts the message, the others as soon as
//! their condition holds.
//!
//! ```text
//!           older than `after`         in a message             gone long enough
//! (none) ───────────────────▶ Queued ─────────▶ Announcing ─▶ Firing ─────▶ Resolving ─▶ Resolved
//!     ▲                                                                                     │
//!     └──────────── `resolved_retention` is over, or the incident returned ─────────────────┘
//! ```

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::times::whole_seconds;
use crate::api::{AlertPhase, AlertStatus, StormStatus, WebhookStatus};

/// What alerts and the storm have in common.
pub(super) struct Sending<'a> {
    pub phase: &'a mut AlertPhase,
    sent_at: &'a mut Option<Time>,
    began_elsewhere: &'a mut bool,
    gone_since: &'a mut Option<Time>,
    pub refused_at: &'a mut Option<Time>,
    held_back: &'a mut i64,
}

/// All alerts, and the storm.
pub(super) fn all(status: &mut WebhookStatus) -> impl Iterator<Item = Sending<'_>> {
    status.alerts.iter_mut().map(Sending::from).chain(status.storm.iter_mut().map(Sending::from))
}

impl<'a> From<&'a mut AlertStatus> for Sending<'a> {
    fn from(alert: &'a mut AlertStatus) -> Self {
        let AlertStatus { phase, sent_at, began_elsewhere, gone_since, refused_at, held_back, .. } = alert;
        Self { phase, sent_at, began_elsewhere, gone_since, refused_at, held_back }
    }
}

impl<'a> From<&'a mut StormStatus> for Sending<'a> {
    fn from(storm: &'a mut StormStatus) -> Self {
        let StormStatus { phase, sent_at, began_elsewhere, gone_since, refused_at, held_back, .. } = storm;
        Self { phase, sent_at, began_elsewhere, gone_since, refused_at, held_back }
    }
}

impl Sending<'_> {
    fn has_begun(&self) -> bool {
        self.sent_at.is_some() || *self.began_elsewhere
    }

    /// Corrects what was edited, or written with a clock ahead of ours. A phase that only another version knows is read as
    /// Queued. If something was sent, its end must be sent.
    pub fn repair(&mut self, now: Timestamp) {
        if *self.phase == AlertPhase::Queued && self.has_begun() {
            *self.phase = AlertPhase::Firing;
        }
        for at in [&mut *self.sent_at, self.refused_at, self.gone_since].into_iter().flatten() {
            at.0 = at.0.min(whole_seconds(now).0);
        }
    }

    /// Returns to the phase before the pending message, because it is dropped, or does not contain this.
    pub fn revert(&mut self) {
        *self.phase = match *self.phase {
            AlertPhase::Announcing if !self.has_begun() => AlertPhase::Queued,
            AlertPhase::Announcing | AlertPhase::Resolving => AlertPhase::Firing,
            phase => phase,
        };
    }

    /// Its incident is there. Returns whether it had ended before.
    pub fn resume(&mut self) -> bool {
        let was_resolving = *self.phase == AlertPhase::Resolving;
        if was_resolving {
            *self.phase = AlertPhase::Firing;
        }
        self.gone_since.take().is_some() || was_resolving
    }

    /// The incident of an announcement has ended. If the receiver may have accepted the announcement, the end is sent, and
    /// the incident begins again if it returns.
    pub fn withdraw(&mut self, maybe_delivered: bool) {
        *self.began_elsewhere |= maybe_delivered && self.sent_at.is_none();
        self.revert();
    }

    /// The receiver refused the pending message, which was about nothing else if `alone` is set. If an earlier attempt may
    /// have been accepted, the end must be sent, whatever happens before.
    pub fn refuse(&mut self, alone: Option<&Time>, maybe_delivered: bool) {
        *self.began_elsewhere |= maybe_delivered && *self.phase == AlertPhase::Announcing;
        if maybe_delivered && *self.phase == AlertPhase::Resolving {
            // The receiver may have its end, so it begins again if it returns.
            self.begin_again();
        }
        self.revert();
        *self.refused_at = alone.cloned().or(self.refused_at.take());
    }

    /// The receiver accepted a message about it, or is no longer sent any.
    pub fn settle(&mut self, phase: AlertPhase, now: Timestamp) {
        *self.phase = phase;
        (*self.sent_at, *self.began_elsewhere) = (Some(whole_seconds(now)), false);
    }

    /// It is sent as if it began, but its end is sent whatever happens before.
    pub fn begin_again(&mut self) {
        (*self.began_elsewhere, *self.sent_at) = (true, None);
    }

    /// The messages go to another receiver from now on. The phase stays: a queued alert is withdrawn when it is muted, but the
    /// end of one that the old receiver was sent must be sent.
    pub fn change_receiver(&mut self, maybe_delivered: bool) {
        let was_announced = match *self.phase {
            AlertPhase::Firing | AlertPhase::Resolving => true,
            AlertPhase::Announcing => self.sent_at.is_some() || maybe_delivered,
            AlertPhase::Queued | AlertPhase::Resolved => false,
        };
        if was_announced {
            self.begin_again();
        }
        *self.held_back = 0;
    }
}
