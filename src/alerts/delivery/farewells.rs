//! The last messages to a receiver: of an object that was deleted, or of a webhook that has left the receiver. Best effort:
//! nothing about them is stored.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep, timeout_at};

use super::{
    AlertLog,
    alert_log::Progress,
    http_client::HttpClient,
    secrets::Endpoint,
    send::{Attempt, send},
};
use crate::alerts::{Notification, ValidatedWebhook, retry::AttemptOutcome};

/// How long to try, for all receivers of an object together.
pub(super) const DELETION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait before the second and the third attempt.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Sends `messages` in order, and reports each attempt. Stops and returns false when one cannot be delivered.
async fn send_all(
    http: &HttpClient,
    endpoint: &Endpoint,
    messages: &[Notification],
    timeout: Duration,
    report: impl Fn(&Notification, i64, &Attempt),
) -> bool {
    for mut message in messages.iter().cloned() {
        let mut delays = RETRY_DELAYS.into_iter();
        for number in 1.. {
            let attempt = send(http, endpoint, &message, timeout).await;
            report(&message, number, &attempt);
            if matches!(attempt.outcome, AttemptOutcome::Refused { .. }) {
                // The thread may not exist any more.
                message.thread = None;
            }
            match (attempt.outcome, delays.next()) {
                (AttemptOutcome::Answered { status: 200..=299, .. }, _) => break,
                (AttemptOutcome::Answered { status: 410, .. }, _) | (_, None) => return false,
                (_, Some(delay)) => sleep(delay).await,
            }
        }
    }
    true
}

/// For how long after a webhook has left it a receiver is sent anything. Later it may belong to someone else.
pub(super) const SENT_WITHIN: Duration = Duration::from_secs(60);

/// Why a receiver cannot be sent anything if this process has not read its Secret.
pub(super) const UNKNOWN: &str = "the operator was restarted since, and does not know its URL";
/// The same if the Secrets of the webhook could not be used for too long after its spec had changed.
pub(super) const UNKNOWN_PRESENT: &str = "it was not known within a minute whether the webhook has another receiver";

/// A receiver that a webhook has left.
pub(super) struct LeftReceiver {
    /// Identifies it, see [`super::secrets::WebhookSecrets`].
    pub receiver: String,
    /// An error says why it cannot be sent anything.
    pub endpoint: Result<Arc<Endpoint>, &'static str>,
    /// As it was when it sent to this receiver.
    pub webhook: ValidatedWebhook,
    /// The webhook has left it then or later.
    pub left_after: Instant,
}

/// The last messages to a receiver.
pub(super) struct LastMessages {
    pub to: LeftReceiver,
    pub messages: Vec<Notification>,
}

impl LastMessages {
    /// How many alerts they end.
    pub fn alerts(&self) -> usize {
        self.messages.iter().map(|message| message.resolved.len() + usize::from(message.storm.is_some())).sum()
    }

    /// Sends them. Returns why not all have arrived.
    ///
    /// # Errors
    /// If the receiver is not known, was left too long ago, or does not accept them in time.
    pub async fn send(self, http: &HttpClient, log: &AlertLog) -> Result<(), &'static str> {
        let endpoint = self.to.endpoint?;
        let deadline = self.to.left_after + SENT_WITHIN;
        if deadline <= Instant::now() {
            return Err("the change was noticed more than a minute later");
        }
        let policy = &self.to.webhook.policy;
        let report = |message: &Notification, attempt, ended: &Attempt| {
            log.sent(message, Progress { format: policy.format.as_str(), attempt, retry_at: None }, ended);
        };
        let sent = send_all(http, &endpoint, &self.messages, policy.timeout, report);
        match timeout_at(deadline, sent).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => Err("it did not accept the messages"),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::{
        alerts::{
            delivery::{DeliveryOptions, system_lookup},
            destination::{Destination, UrlPolicy},
        },
        api::{NamespacedName, WebhookFormat},
    };

    /// The last messages to a receiver that no client reaches.
    fn last_messages(left_after: Instant, is_known: bool) -> LastMessages {
        let url = json!({"secretKeyRef": {"name": "s", "key": "url"}});
        let webhook = serde_json::from_value(json!({"name": "ops", "format": "Slack", "urlFrom": url})).unwrap();
        let webhook = ValidatedWebhook::validate_all(&[webhook], &mut Vec::new()).remove(0);
        let destination =
            Destination::new(WebhookFormat::Slack, b"https://192.0.2.1/hook", UrlPolicy::default()).unwrap();
        let endpoint = is_known.then(|| {
            Arc::new(Endpoint { destination, custom: None, headers: HeaderMap::new(), keys: None, tls: None })
        });
        let endpoint = endpoint.ok_or(UNKNOWN);
        let object = NamespacedName::new("shop", "cluster");
        let message = Notification::test("id".to_owned(), object, "ops".to_owned(), Timestamp::UNIX_EPOCH);
        let messages = vec![message.resolved("id".to_owned(), Timestamp::UNIX_EPOCH)];
        LastMessages { to: LeftReceiver { receiver: String::new(), endpoint, webhook, left_after }, messages }
    }

    #[tokio::test]
    async fn nothing_is_sent_a_minute_after_the_change() {
        let http = HttpClient::new(DeliveryOptions::default(), system_lookup());
        let left_after = Instant::now().checked_sub(SENT_WITHIN).unwrap();
        assert_eq!(last_messages(left_after, true).alerts(), 1);
        let late = last_messages(left_after, true).send(&http, &AlertLog::default()).await;
        assert_eq!(late, Err("the change was noticed more than a minute later"));
        let unknown = last_messages(Instant::now(), false).send(&http, &AlertLog::default()).await;
        assert_eq!(unknown, Err(UNKNOWN));
    }
}
