//! A CloudEvent, version 1.0, in structured mode. Its data is the generic body.

use serde_json::{Value, json};

use super::generic;
use crate::{
    alerts::{Notification, text},
    api::MessageKind,
};

/// An event's id is the message's: it stays the same when the message is sent again, so that receivers
/// can tell. The generic body's own limit keeps the event within the 64 KiB that every intermediary
/// must forward.
pub(super) fn render(notification: &Notification) -> Value {
    let object = &notification.object;
    let kind = match notification.kind {
        MessageKind::Test => "test",
        _ if notification.is_resolved() => "resolved",
        _ => "firing",
    };
    json!({
        "specversion": "1.0",
        "id": notification.id,
        "source": format!("/apis/kopf.dev/v1/namespaces/{}/orchestrs/{}", object.namespace, object.name),
        "type": format!("dev.kopf.orchestr.alerts.{kind}"),
        "subject": text::line(&notification.webhook, 63),
        "time": notification.created,
        "datacontenttype": "application/json",
        "data": generic::render(notification),
    })
}
