//! How many incidents one message can name. This is decided before the message is rendered, because an incident is
//! marked as sent only if the message names it.

use jiff::Timestamp;

use super::receiver::Receiver;
use crate::alerts::Alert;

/// The space for the names of incidents in one message.
pub(in crate::alerts) struct MessageBudget {
    receiver: &'static dyn Receiver,
    left: usize,
    is_empty: bool,
}

impl MessageBudget {
    /// The budget of an empty message, in the unit in which the receiver measures messages.
    pub fn of(receiver: &'static dyn Receiver) -> Self {
        Self { receiver, left: receiver.names_budget(), is_empty: true }
    }

    /// Adds an incident if it fits. The first one always fits. After one that does not fit, no other does.
    pub fn try_add(&mut self, alert: &Alert, now: Timestamp) -> bool {
        let size = self.receiver.min_size(alert, now);
        let fits = std::mem::take(&mut self.is_empty) || size <= self.left;
        self.left = if fits { self.left.saturating_sub(size) } else { 0 };
        fits
    }
}
