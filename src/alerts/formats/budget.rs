//! How many incidents one message can name. This is decided before the message is rendered, because an incident is
//! marked as sent only if the message names it.

use jiff::Timestamp;

use super::{discord, labels, slack, teams};
use crate::{alerts::Alert, api::WebhookFormat};

/// The space for the names of incidents in one message.
#[derive(Debug)]
pub(in crate::alerts) struct MessageBudget {
    format: WebhookFormat,
    left: usize,
    is_empty: bool,
}

impl MessageBudget {
    /// The budget of an empty message, in the unit in which the receiver measures messages.
    pub fn of(format: WebhookFormat) -> Self {
        let left = match format {
            WebhookFormat::Slack => slack::NAMES_BUDGET,
            WebhookFormat::Discord => discord::NAMES_BUDGET,
            WebhookFormat::Teams => teams::NAMES_BUDGET,
            WebhookFormat::Generic | WebhookFormat::CloudEvents => labels::NAMES_BUDGET,
            // Each event is about one incident.
            WebhookFormat::PagerDuty => 0,
            // Alertmanager resolves alerts that it is not sent, so none may be left out.
            WebhookFormat::Alertmanager => usize::MAX,
        };
        Self { format, left, is_empty: true }
    }

    /// Adds an incident if it fits. The first one always fits. After one that does not fit, no other does.
    pub fn try_add(&mut self, alert: &Alert, now: Timestamp) -> bool {
        if self.left == usize::MAX {
            return true;
        }
        let size = match self.format {
            WebhookFormat::Slack => slack::min_size(alert, now),
            WebhookFormat::Discord => discord::min_size(alert, now),
            WebhookFormat::Teams => teams::min_size(alert, now),
            WebhookFormat::Generic | WebhookFormat::CloudEvents => labels::min_size(alert),
            WebhookFormat::PagerDuty | WebhookFormat::Alertmanager => 1,
        };
        let fits = std::mem::take(&mut self.is_empty) || size <= self.left;
        self.left = if fits { self.left.saturating_sub(size) } else { 0 };
        fits
    }
}
