//! Renders a notification in the format of its receiver.
//!
//! Reasons, messages and logs are untrusted: the owners of pods write them. Each format keeps them from being read as
//! markup, and keeps each message within the limits of its receiver.

mod alertmanager;
mod cloudevents;
mod custom;
mod discord;
mod facts;
mod generic;
mod labels;
mod markup;
mod message_text;
mod pagerduty;
mod receiver;
mod slack;
mod teams;

pub use custom::CustomFormat;
pub(super) use custom::{end, example};
pub(super) use message_text::farewell;
pub(super) use receiver::{MessageBudget, Receiver};
pub use receiver::{Pacing, RenderError, Request};

use super::Notification;
use crate::api::WebhookFormat;

/// What is special about a format: one row for each. `Custom` is that of a webhook whose templates cannot be used.
pub(super) fn receiver(format: WebhookFormat) -> &'static dyn Receiver {
    match format {
        WebhookFormat::Generic => &generic::Generic,
        WebhookFormat::Alertmanager => &alertmanager::Alertmanager,
        WebhookFormat::Slack => &slack::Slack,
        WebhookFormat::Discord => &discord::Discord,
        WebhookFormat::Teams => &teams::Teams,
        WebhookFormat::PagerDuty => &pagerduty::PagerDuty,
        WebhookFormat::CloudEvents => &cloudevents::CloudEvents,
        WebhookFormat::Custom => &custom::Unusable,
    }
}

/// Renders a notification in a format that a spec does not describe. `key` is the part of the receiver's URL that belongs into
/// the message, such as PagerDuty's routing key; empty for most formats.
///
/// # Errors
/// If the format is Custom.
pub fn render(notification: &Notification, format: WebhookFormat, key: &str) -> Result<Request, RenderError> {
    receiver(format).request(notification, key)
}
