//! Stores the state of an object's webhooks in its status.

use std::sync::Arc;

use futures::FutureExt;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{TaskResult, Worker};
use crate::{
    alerts::delivery::{
        delivered_condition::delivered_condition,
        persist::{DeliveryStatus, NotStored, StoredStatus, persist},
        status_writer::API_REQUESTS,
        webhook_queue::WebhookQueue,
    },
    api::{NamespacedName, reason},
};

/// A write of a larger object takes a permit for each of these bytes.
const BYTES_PER_PERMIT: usize = 128 * 1024;

/// How many permits the write of an object of this size takes: the answer to a write takes several times its size in memory,
/// and the API server needs time for the whole object, however small the written part is.
fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes / BYTES_PER_PERMIT).map_or(API_REQUESTS, |further| further.saturating_add(1).min(API_REQUESTS))
}

impl Worker {
    /// Starts a write if the status has changed. Returns when to try again if the write must wait.
    pub(super) fn write(&mut self, now: Instant, wall: Timestamp) -> Option<Instant> {
        if self.writer.is_writing() {
            return None;
        }
        let status = self.delivery_status(wall);
        if status == *self.writer.stored() {
            self.has_unstored_outcome = false;
            if !self.writer.has_failed() {
                return None;
            }
        }
        let urgent = self.has_unstored_outcome || self.queues.iter().any(WebhookQueue::is_urgent);
        // Until everything is known, the status that an earlier run has stored stays.
        let is_complete = self.input.incidents_known && self.queues.iter().all(WebhookQueue::knows_secrets);
        if !is_complete && !urgent && !self.writer.must_restore() && !self.queues.is_empty() {
            return None;
        }
        if let Some(at) = self.writer.wait_until(urgent, now) {
            return Some(at);
        }
        // At a shutdown, the last outcomes are stored without delay.
        if !self.context.shutdown.is_cancelled()
            && let Some(at) = self.context.write_pace.take(&self.object.key.namespace, self.input.bytes, urgent, now)
        {
            return Some(at);
        }
        self.writer.on_start(status.clone(), now);
        self.has_unstored_outcome = false;
        self.queues.iter_mut().for_each(WebhookQueue::on_storing);
        let (context, object, permits) = (Arc::clone(&self.context), self.object.clone(), permits(self.input.bytes));
        self.tasks.push(
            async move {
                let _permits = context.api_permits.acquire_many(permits).await;
                TaskResult::Written(persist(&context.client, &object, &status).await)
            }
            .boxed(),
        );
        None
    }

    pub(super) fn delivery_status(&self, wall: Timestamp) -> DeliveryStatus {
        let summaries: Vec<_> = self.queues.iter().map(WebhookQueue::summary).collect();
        let expired: Vec<&str> = self.input.mute_rules.expired(wall).collect();
        let previous = self.writer.stored().condition.as_ref();
        let condition = delivered_condition(&summaries, &expired, self.input.generation, previous, wall);
        DeliveryStatus { webhooks: self.queues.iter().map(|queue| Arc::clone(queue.state())).collect(), condition }
    }

    pub(super) fn on_written(&mut self, result: Result<StoredStatus, NotStored>, now: Instant) {
        let success = result.is_ok();
        match result {
            Ok(answer) => self.writer.on_success(answer),
            Err(NotStored::NotLeader) => self.writer.on_failure(None, now),
            Err(NotStored::NotOwner(error)) => {
                self.warn_not_stored(&error);
                self.writer.on_failure(None, now);
            }
            Err(NotStored::Failed(error)) => {
                self.warn_not_stored(&error);
                self.writer.on_failure(Some(error), now);
            }
        }
        for index in 0..self.queues.len() {
            let queue = &mut self.queues[index];
            let before = queue.state_before().dropped;
            let message = queue.on_stored(success);
            let dropped = u64::try_from(queue.state_before().dropped.saturating_sub(before)).unwrap_or_default();
            if dropped > 0 {
                self.context.alert_log.dropped(&self.source, queue.name(), dropped);
            }
            if let Some(message) = message {
                self.send(index, Box::new(message));
            }
        }
        self.has_unstored_outcome |= !success;
        self.detect_other_writer(now);
        self.share_states();
    }

    fn warn_not_stored(&self, error: &str) {
        let NamespacedName { namespace, name } = &self.object.key;
        tracing::warn!(namespace, name, error, "could not store the state of the webhooks");
    }

    /// When messages are sent without being stored, unless a write succeeds before.
    pub(super) fn unstored_at(&self) -> Option<Instant> {
        self.writer.refused().map(|refused| refused.since + self.context.timings.unstored_after)
    }

    /// Whether messages are sent without being stored now. Says so when this begins.
    pub(super) fn update_unstored(&mut self, now: Instant) -> bool {
        let was_unstored = self.is_unstored;
        self.is_unstored = self.unstored_at().is_some_and(|at| at <= now);
        if self.is_unstored
            && !was_unstored
            && let Some(refused) = self.writer.refused()
        {
            let note = format!(
                "alerts are sent although their state cannot be stored ({}): after a restart, what lasts is sent again, possibly \
                 in other messages with other IDs, and what has ended stays open at receivers that track alerts",
                refused.error
            );
            self.notify("", reason::ALERTS_NOT_STORED, note);
        }
        self.is_unstored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_writes_take_several_permits_of_those_there_are() {
        let sizes = [0, 127 << 10, 128 << 10, 500 << 10, 1536 << 10, 1 << 30, usize::MAX];
        assert_eq!(sizes.map(permits), [1, 1, 2, 4, 13, API_REQUESTS, API_REQUESTS]);
    }
}
