//! The life of an alert at a receiver: a state machine. [`AlertStatus::on`] is the only place that changes a phase. A storm
//! and a common cause are alerts like that of an incident.
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
use crate::api::{AlertPhase, AlertStatus};

/// What happens to an alert.
#[derive(Clone, Copy)]
pub(super) enum Event {
    /// The state was read. It may have been edited, or written with a clock ahead of ours.
    Read,
    /// The incident is there.
    Lasts,
    /// The incident is gone.
    Ended,
    /// The next message says that it began, that it still lasts, or that a storm has grown.
    Announced,
    /// The next message says that it is over.
    EndAnnounced,
    /// The pending message is dropped, or does not contain it.
    LeftOut,
    /// The receiver accepted a message about it.
    Accepted,
    /// The receiver refused the pending message for its content. `alone`: the message was about nothing else.
    Refused { alone: bool },
    /// The receiver is sent no end of it.
    EndsSilently,
    /// It is sent as if it began, because the receiver refuses all alerts together.
    BeginsAgain,
    /// The messages go to another receiver from now on.
    ReceiverChanged,
}

/// What a transition depends on, apart from the state and the event.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    pub now: Timestamp,
    /// Whether the receiver may already have received the pending message.
    pub maybe_delivered: bool,
}

impl AlertStatus {
    /// Takes the transition for an event, if there is one.
    pub(super) fn on(&mut self, event: Event, at: Circumstances) {
        use AlertPhase::{Announcing, Firing, Queued, Resolved, Resolving};
        let (now, maybe_delivered) = (whole_seconds(at.now), at.maybe_delivered);
        self.phase = match (self.phase, event) {
            (phase, Event::Read) => {
                for at in [&mut self.sent_at, &mut self.refused_at, &mut self.gone_since].into_iter().flatten() {
                    at.0 = at.0.min(now.0);
                }
                // A phase that only another version knows is read as Queued. If something was sent, its end must be sent.
                if phase == Queued && self.has_begun() { Firing } else { phase }
            }

            // A returning incident becomes a new alert. This one keeps the end that Alertmanager is sent repeatedly.
            (Resolved, Event::Lasts | Event::Ended) => Resolved,
            // The receiver may have received the end: it must be delivered before the alert can fire again.
            (Resolving, Event::Lasts | Event::Ended) if maybe_delivered => Resolving,
            (phase, Event::Lasts) => {
                let has_returned = self.gone_since.take().is_some() || phase == Resolving;
                // The incidents of a storm are not known one by one.
                self.returns = self.returns.saturating_add((has_returned && self.overflow.is_none()).into());
                if phase == Resolving { Firing } else { phase }
            }
            (phase, Event::Ended) => {
                self.gone_since.get_or_insert(now);
                // The pending message must not call it firing. If the receiver may have accepted it, the end is sent, and the
                // incident begins again if it returns.
                self.began_elsewhere |= phase == Announcing && maybe_delivered && self.sent_at.is_none();
                if phase == Announcing { self.before_announcement() } else { phase }
            }

            (Queued | Announcing | Firing, Event::Announced) => Announcing,
            (Firing, Event::EndAnnounced) => Resolving,
            (Announcing, Event::LeftOut) => self.before_announcement(),
            (Resolving, Event::LeftOut) => Firing,

            (phase @ (Announcing | Firing | Resolving), Event::Accepted) => {
                (self.sent_at, self.began_elsewhere) = (Some(now), false);
                self.refused_at.take_if(|_| phase.is_pending());
                if phase == Resolving { Resolved } else { Firing }
            }
            (Announcing, Event::Refused { alone }) => {
                // If an earlier attempt may have been accepted, the end must be sent, whatever happens before.
                self.began_elsewhere |= maybe_delivered;
                self.note_refusal(alone, now);
                self.before_announcement()
            }
            (Resolving, Event::Refused { alone }) => {
                if maybe_delivered {
                    // The receiver may have its end, so it begins again if it returns.
                    self.begin_again();
                }
                self.note_refusal(alone, now);
                Firing
            }
            (Firing, Event::EndsSilently) => {
                (self.sent_at, self.began_elsewhere) = (Some(now), false);
                Resolved
            }
            (phase, Event::BeginsAgain) => {
                self.begin_again();
                phase
            }
            (phase, Event::ReceiverChanged) => {
                self.held_back = 0;
                self.thread.clear();
                // The phase stays: a queued alert is withdrawn when it is muted, but the end of one that the old receiver was
                // sent must be sent.
                if matches!(phase, Firing | Resolving)
                    || phase == Announcing && (self.sent_at.is_some() || maybe_delivered)
                {
                    self.begin_again();
                }
                phase
            }

            (phase, _) => phase,
        };
    }

    /// The phase before the pending message announced it.
    fn before_announcement(&mut self) -> AlertPhase {
        // The pending message said how many incidents a storm has. What the receiver was sent before is not stored.
        self.overflow.iter_mut().for_each(|overflow| overflow.hash.clear());
        if self.has_begun() { AlertPhase::Firing } else { AlertPhase::Queued }
    }

    fn note_refusal(&mut self, alone: bool, now: Time) {
        if alone {
            self.refused_at = Some(now);
        }
    }

    /// It is sent as if it began, but its end is sent whatever happens before.
    fn begin_again(&mut self) {
        (self.began_elsewhere, self.sent_at) = (true, None);
        self.thread.clear();
    }
}
