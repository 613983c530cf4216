//! A notification as each kind of receiver reads it.
//!
//! Every text that comes from a cluster is hostile: a pod's owner writes reasons, messages and logs.
//! Each format keeps such text out of its markup, and keeps within its receiver's limits whatever the
//! text is.

mod alertmanager;
mod budget;
mod cloudevents;
mod discord;
mod generic;
mod labels;
mod message_text;
mod pagerduty;
mod slack;
mod teams;

#[cfg(test)]
mod tests;

pub(super) use budget::Room;

use super::{Notification, destination::Destination};
use crate::api::WebhookFormat;

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The header `Content-Type`.
    pub content_type: &'static str,
    /// The body: JSON.
    pub body: Vec<u8>,
}

/// Puts a notification into the form that its receiver reads.
#[must_use]
pub fn render(notification: &Notification, destination: &Destination) -> Request {
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
