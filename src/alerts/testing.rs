//! A webhook for unit tests.

use crate::api::{SecretKeyRef, SecretKeySource, Webhook, WebhookFormat};

/// A webhook with defaults.
pub(super) fn webhook(format: WebhookFormat) -> Webhook {
    Webhook {
        name: "ops".to_owned(),
        format,
        url_from: SecretKeySource { secret_key_ref: SecretKeyRef { name: "s".to_owned(), key: "url".to_owned() } },
        signing_key_from: None,
        headers_from: None,
        ca_from: None,
        after: None,
        repeat_every: None,
        send_resolved: None,
        match_: None,
        mentions: None,
        custom: None,
        timeout: None,
    }
}
