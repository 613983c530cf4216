//! One attempt to deliver a message: render, sign, post.

use std::time::Duration;

use http::{HeaderName, HeaderValue};
use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    answer,
    http_client::{HttpClient, Post},
    secrets::Endpoint,
};
use crate::alerts::{
    Notification,
    formats::render,
    retry::AttemptOutcome,
    signature::{ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER},
};

#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    pub outcome: AttemptOutcome,
    /// From name resolution to the end of the response.
    pub latency: Duration,
}

/// Renders a message, signs it if the webhook has a signing key, and posts it.
pub async fn send(client: &HttpClient, endpoint: &Endpoint, message: &Notification, timeout: Duration) -> Attempt {
    let begun = Instant::now();
    let destination = &endpoint.destination;
    let rendered = render(message, destination.format(), destination.routing_key());
    let now = Timestamp::now();
    let mut headers = endpoint.headers.clone();
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    // Also without a signature: receivers recognize retries by the ID.
    set(ID_HEADER, &message.id);
    set(TIMESTAMP_HEADER, &now.as_second().to_string());
    if let Some(keys) = &endpoint.keys {
        set(SIGNATURE_HEADER, &keys.sign(&message.id, now, &rendered.body));
    }
    let post = Post {
        url: destination.url(),
        tls: endpoint.tls.clone(),
        headers: headers.clone(),
        content_type: rendered.content_type,
        body: rendered.body,
        timeout,
    };
    let (outcome, body) = client.exchange(post).await;
    let outcome = answer::classify(outcome, &body, destination, &headers);
    Attempt { outcome, latency: begun.elapsed() }
}
