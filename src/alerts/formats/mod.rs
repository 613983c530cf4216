//! Renders a notification in the format of its receiver.
//!
//! Reasons, messages and logs are untrusted: the owners of pods write them. Each format keeps them from being read as
//! markup, and keeps each message within the limits of its receiver.

mod alertmanager;
mod budget;
mod cloudevents;
mod discord;
mod generic;
mod labels;
mod layout;
mod message_text;
mod pagerduty;
mod slack;
mod teams;

#[cfg(test)]
mod tests;

pub(super) use budget::MessageBudget;

use super::{Notification, destination::Destination};
use crate::api::WebhookFormat;

/// An HTTP body with its type.
pub(super) struct Request {
    pub content_type: &'static str,
    /// JSON.
    pub body: Vec<u8>,
}

/// Renders a notification.
pub(super) fn render(notification: &Notification, destination: &Destination) -> Request {
    let (content_type, body) = match destination.format() {
        WebhookFormat::Generic => ("application/json", generic::render(notification)),
        WebhookFormat::Alertmanager => ("application/json", alertmanager::render(notification)),
        WebhookFormat::Slack => ("application/json", slack::render(notification)),
        WebhookFormat::Discord => ("application/json", discord::render(notification)),
        WebhookFormat::Teams => ("application/json", teams::render(notification)),
        WebhookFormat::PagerDuty => ("application/json", pagerduty::render(notification, destination.routing_key())),
        WebhookFormat::CloudEvents => ("application/cloudevents+json", cloudevents::render(notification)),
    };
    Request { content_type, body: body.to_string().into_bytes() }
}
