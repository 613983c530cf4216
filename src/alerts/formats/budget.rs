//! How much fits into a message: what it names is decided on before it is made, and the rest is cut until it fits.

use jiff::Timestamp;

use super::{discord, labels, slack, teams};
use crate::{
    alerts::{Alert, Notification},
    api::{Detail, WebhookFormat},
};

/// How much of a message is shown beside what names its incidents, which is never cut. Counts are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// How many incidents are shown with all facts, where the others get a line each.
    pub detailed: usize,
    /// How much of each one's log, in UTF-16 code units.
    pub logs: usize,
    /// How much of each one's message, likewise.
    pub message: usize,
}

impl Shape {
    /// Only what names the incidents.
    pub const LEAST: Self = Self { detailed: 0, logs: 0, message: 0 };
}

/// A shorter piece of a log isn't worth its room.
const LOGS_WORTH_SHOWING: usize = 200;
/// A message is cut to this before it is left out.
const SHORT_MESSAGE: usize = 100;

/// The room for what one message names. An incident is marked as sent only if it is named.
#[derive(Debug)]
pub(in crate::alerts) struct Room {
    format: WebhookFormat,
    left: usize,
    is_empty: bool,
}

impl Room {
    /// All of a message's, in the unit in which its receiver measures; what every message needs is taken off.
    pub fn of(format: WebhookFormat) -> Self {
        let left = match format {
            WebhookFormat::Slack => slack::ROOM,
            WebhookFormat::Discord => discord::ROOM,
            WebhookFormat::Teams => teams::ROOM,
            WebhookFormat::Generic | WebhookFormat::CloudEvents => labels::ROOM,
            // One incident is one event.
            WebhookFormat::PagerDuty => 0,
            // It would take an alert that is left out for over.
            WebhookFormat::Alertmanager => usize::MAX,
        };
        Self { format, left, is_empty: true }
    }

    /// Takes the room that one more incident needs. If there is too little, nothing more is taken; a first one always
    /// fits.
    pub fn takes(&mut self, alert: &Alert, now: Timestamp) -> bool {
        if self.left == usize::MAX {
            return true;
        }
        let needed = match self.format {
            WebhookFormat::Slack => slack::needs(alert, now),
            WebhookFormat::Discord => discord::needs(alert, now),
            WebhookFormat::Teams => teams::needs(alert, now),
            WebhookFormat::Generic | WebhookFormat::CloudEvents => labels::needs(alert),
            WebhookFormat::PagerDuty | WebhookFormat::Alertmanager => 1,
        };
        let fits = std::mem::take(&mut self.is_empty) || needed <= self.left;
        self.left = if fits { self.left.saturating_sub(needed) } else { 0 };
        fits
    }
}

/// Makes a message as large as may be: logs go first, then messages, then facts.
pub(super) fn fit<T>(
    notification: &Notification,
    full: Shape,
    limit: usize,
    make: impl Fn(Shape) -> T,
    measure: impl Fn(&T) -> usize,
) -> T {
    let mut shape = match notification.detail {
        Detail::Full => full,
        Detail::NoLogs => Shape { logs: 0, ..full },
        Detail::Names => Shape::LEAST,
    };
    loop {
        let made = make(shape);
        if shape == Shape::LEAST || measure(&made) <= limit {
            return made;
        }
        if shape.logs > 0 {
            shape.logs = if shape.logs > LOGS_WORTH_SHOWING { shape.logs / 2 } else { 0 };
        } else if shape.message > 0 {
            shape.message = if shape.message > SHORT_MESSAGE { SHORT_MESSAGE } else { 0 };
        } else {
            shape.detailed /= 2;
        }
    }
}
