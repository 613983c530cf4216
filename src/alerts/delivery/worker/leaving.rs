//! Ends the alerts of receivers that webhooks have left.

use std::sync::Arc;

use futures::FutureExt;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{TaskResult, Worker};
use crate::{
    alerts::{
        Incident,
        delivery::{farewells::LastMessages, webhook_queue::WebhookQueue},
        open_alerts,
    },
    api::reason,
};

/// The most receivers of one object that are sent their last messages at the same time, and the most removed webhooks that
/// wait for it. Beyond this limit, each further webhook causes an event.
const MOST: usize = 20;

impl Worker {
    /// Notes which webhooks were removed.
    pub(super) fn leave(&mut self, old: Vec<WebhookQueue>, removed_after: Instant) {
        for mut queue in old {
            queue.on_removed(removed_after);
            if self.leaving.len() < MOST {
                self.leaving.push(queue);
            } else {
                self.not_ended(queue.name(), open_alerts(queue.state()), "too many webhooks were removed");
            }
        }
    }

    /// Reports webhooks that were removed while no operator was running.
    pub(super) fn report_removed_early(&self) {
        for state in &self.writer.stored().webhooks {
            if self.queues.iter().all(|queue| queue.name() != state.name) {
                let reason = "the operator was not running when the webhook was removed";
                self.not_ended(&state.name, open_alerts(state), reason);
            }
        }
    }

    /// Sends the last messages to receivers that webhooks have left.
    pub(super) fn end_left_alerts(&mut self, queues: &mut [WebhookQueue], incidents: &[Incident], wall: Timestamp) {
        let now = Instant::now();
        let left: Vec<_> = queues.iter_mut().map(|queue| queue.take_left(false, now)).collect();
        let (sending, mut removed): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.leaving).into_iter().partition(WebhookQueue::is_sending);
        self.leaving = sending;
        let left_by_removed: Vec<_> = removed.iter_mut().map(|queue| queue.take_left(true, now)).collect();
        let input = self.object_input(incidents, wall);
        let all = queues.iter().zip(left).chain(removed.iter().zip(left_by_removed));
        let messages: Vec<_> = all
            .filter_map(|(queue, left)| Some((queue.name().to_owned(), queue.last_messages(left?, &input, queues)?)))
            .collect();
        for (webhook, messages) in messages {
            self.send_last_messages(webhook, messages);
        }
    }

    fn send_last_messages(&mut self, webhook: String, messages: LastMessages) {
        let alerts = messages.alerts();
        if self.farewells.len() >= MOST {
            return self.not_ended(&webhook, alerts, "too many webhooks have left their receivers");
        }
        self.farewells.push((webhook.clone(), alerts));
        let context = Arc::clone(&self.context);
        self.tasks.push(
            async move {
                let _permit = context.deletion_permits.acquire().await;
                TaskResult::Left { webhook, alerts, result: messages.send(&context.http, &context.alert_log).await }
            }
            .boxed(),
        );
    }

    pub(super) fn on_left(&mut self, webhook: &str, alerts: usize, result: Result<(), &'static str>) {
        if let Some(index) = self.farewells.iter().position(|(name, number)| name == webhook && *number == alerts) {
            self.farewells.swap_remove(index);
        }
        if let Err(reason) = result {
            self.not_ended(webhook, alerts, reason);
        }
    }

    /// Reports, at a shutdown, the receivers that were not sent their last messages. The status does not contain them any more.
    pub(super) fn report_unfinished(&self) {
        let waiting = self.leaving.iter().map(|queue| (queue.name(), open_alerts(queue.state())));
        let sending = self.farewells.iter().map(|(webhook, alerts)| (webhook.as_str(), *alerts));
        for (webhook, alerts) in waiting.chain(sending) {
            self.not_ended(webhook, alerts, "the operator was stopped before it accepted the messages");
        }
    }

    fn not_ended(&self, webhook: &str, alerts: usize, why: &str) {
        let (alerts, them) = match alerts {
            0 => return,
            1 => ("1 alert stays open".to_owned(), "it"),
            many => (format!("{many} alerts stay open"), "them"),
        };
        let note =
            format!("{alerts} at the receiver that webhook {webhook} has left, because {why}: resolve {them} there");
        self.notify(webhook, reason::ALERTS_NOT_ENDED, note);
    }
}
