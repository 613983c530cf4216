//! CloudEvents 1.0 in structured mode. `data` is the Generic format.

use http::HeaderValue;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    generic::{Generic, payload},
    message_text,
    receiver::{Receiver, RenderError, Request},
};
use crate::{
    alerts::{Alert, Notification, sanitize},
    api::MessageKind,
};

/// The limits of the Generic format keep the event within the 64 KiB that intermediaries must forward.
pub(super) struct CloudEvents;

impl Receiver for CloudEvents {
    fn names_budget(&self) -> usize {
        Generic.names_budget()
    }

    fn min_size(&self, alert: &Alert, now: Timestamp) -> usize {
        Generic.min_size(alert, now)
    }

    fn request(&self, notification: &Notification, _key: &str) -> Result<Request, RenderError> {
        let content_type = HeaderValue::from_static("application/cloudevents+json");
        Ok(Request { content_type, ..Request::json(&event(notification, &payload(notification))) })
    }
}

/// The event's `id` is that of the message: the same for all attempts, so that receivers can drop duplicates.
fn event(notification: &Notification, data: &Value) -> Value {
    let source = &notification.source;
    let object = &source.object;
    let cluster = message_text::cluster(notification);
    let cluster = if cluster.is_empty() { cluster } else { format!("/clusters/{}", path_segment(&cluster)) };
    let subject = [&source.uid, &sanitize::single_line(&notification.webhook, 63)].map(String::as_str).join("/");
    let kind = match notification.kind {
        MessageKind::Test => "test",
        _ if notification.firing() == 0 => "resolved",
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
        "data": data,
    })
}

/// Percent-encodes a name for a URI path.
fn path_segment(name: &str) -> String {
    url::form_urlencoded::byte_serialize(name.as_bytes()).collect::<String>().replace('+', "%20")
}
