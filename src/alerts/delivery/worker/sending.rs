//! Sends the messages of an object's webhooks, and reports how that ended.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;

use super::{TaskResult, Worker};
use crate::{
    alerts::{
        Notification,
        delivery::{
            alert_log::Progress,
            send::{Attempt, send},
            webhook_queue::WebhookQueue,
        },
        retry::AttemptOutcome,
    },
    api::NamespacedName,
};

impl Worker {
    pub(super) fn send(&mut self, index: usize, message: Box<Notification>) {
        let queue = &self.queues[index];
        let (endpoint, webhook) = (queue.endpoint(message.kind), queue.name().to_owned());
        let (http, timeout) = (Arc::clone(&self.context.http), queue.webhook.policy.timeout);
        self.tasks.push(
            async move {
                let attempt = match endpoint {
                    Ok(endpoint) => send(&http, &endpoint, &message, timeout).await,
                    Err(error) => {
                        Attempt { outcome: AttemptOutcome::Unusable(error), latency: Duration::ZERO, thread: None }
                    }
                };
                TaskResult::Sent { webhook, message, attempt }
            }
            .boxed(),
        );
    }

    pub(super) fn on_sent(&mut self, webhook: &str, message: &Notification, attempt: &Attempt) {
        let is_sender = |queue: &&mut WebhookQueue| queue.name() == webhook && queue.sends_message(&message.id);
        let Some(queue) = self.leaving.iter_mut().chain(&mut self.queues).find(is_sender) else { return };
        let attempts = queue.state().pending.as_ref().map_or(0, |pending| pending.attempts);
        queue.on_sent(message, attempt, self.context.clock.now());
        let format = queue.webhook.policy.format.as_str();
        self.context.metrics.notification_sent(format, attempt.outcome.as_str());
        let retry_at = queue.state().next_attempt.as_ref().map(|next| next.0);
        self.context.alert_log.sent(message, Progress { format, attempt: attempts, retry_at }, attempt);
        self.has_unstored_outcome = true;
        let NamespacedName { namespace, name: object } = &self.object.key;
        // As u64: tracing's JSON format writes a u128 as a string.
        let milliseconds = u64::try_from(attempt.latency.as_millis()).unwrap_or(u64::MAX);
        let id = &message.id;
        match &attempt.outcome {
            AttemptOutcome::Answered { status: status @ 200..=299, .. } => {
                tracing::info!(namespace, object, webhook, status, milliseconds, id, "delivered");
            }
            outcome => {
                let reason = outcome.reason();
                tracing::warn!(namespace, object, webhook, reason, milliseconds, id, "not delivered");
            }
        }
    }
}
