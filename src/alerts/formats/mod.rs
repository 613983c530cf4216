//! Renders a notification in the format of its receiver.
//!
//! Reasons, messages and logs are untrusted: the owners of pods write them. Each format keeps them from being read as
//! markup, and keeps each message within the limits of its receiver.

mod alertmanager;
mod cloudevents;
mod discord;
mod facts;
mod generic;
mod labels;
mod layout;
mod message_text;
mod pagerduty;
mod receiver;
mod slack;
mod teams;

pub use receiver::Pacing;
pub(super) use receiver::{MessageBudget, Receiver};

use super::Notification;
use crate::api::WebhookFormat;

/// What is special about a format: one row for each.
pub(super) fn receiver(format: WebhookFormat) -> &'static dyn Receiver {
    match format {
        WebhookFormat::Generic => &generic::Generic,
        WebhookFormat::Alertmanager => &alertmanager::Alertmanager,
        WebhookFormat::Slack => &slack::Slack,
        WebhookFormat::Discord => &discord::Discord,
        WebhookFormat::Teams => &teams::Teams,
        WebhookFormat::PagerDuty => &pagerduty::PagerDuty,
        WebhookFormat::CloudEvents => &cloudevents::CloudEvents,
    }
}

/// An HTTP body with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub content_type: &'static str,
    /// JSON.
    pub body: Vec<u8>,
}

/// Renders a notification. `key` is the part of the receiver's URL that belongs into the message, such as PagerDuty's routing
/// key; empty for most formats.
#[must_use]
pub fn render(notification: &Notification, format: WebhookFormat, key: &str) -> Request {
    let receiver = receiver(format);
    let body = receiver.render(notification, key).to_string().into_bytes();
    Request { content_type: receiver.content_type(), body }
}
