//! A CloudEvent, version 1.0, in structured mode. Its data is the generic body.

use serde_json::{Value, json};

use super::generic;
use crate::{
    alerts::{Notification, sanitize},
    api::MessageKind,
};

/// An event's id is the message's: it stays the same when the message is sent again, so that receivers
/// can tell. The generic body's own limit keeps the event within the 64 KiB that every intermediary
/// must forward.
pub(super) fn render(notification: &Notification) -> Value {
    let source = &notification.source;
    let object = &source.object;
    let cluster = sanitize::single_line(&source.cluster, 63);
    let cluster = if cluster.is_empty() { cluster } else { format!("/clusters/{}", path_segment(&cluster)) };
    let subject = [&source.uid, &sanitize::single_line(&notification.webhook, 63)].map(String::as_str).join("/");
    let kind = match notification.kind {
        MessageKind::Test => "test",
        _ if notification.is_resolved() => "resolved",
        _ => "firing",
    };
    json!({
        "specversion": "1.0",
        "id": notification.id,
        "source": format!("{cluster}/apis/kopf.dev/v1/namespaces/{}/orchestrs/{}", object.namespace, object.name),
        "type": format!("dev.kopf.orchestr.alerts.{kind}"),
        "subject": subject.trim_start_matches('/'),
        "time": notification.created,
        "datacontenttype": "application/json",
        "data": generic::render(notification),
    })
}

/// A name as a part of a URI's path.
fn path_segment(name: &str) -> String {
    url::form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}
