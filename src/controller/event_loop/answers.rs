//! Handles the answers to requests, and the results of other tasks.

use tokio::time::Instant;

use crate::{facts::Question, report};

use super::{
    super::{
        events::spec_event,
        status::{ObservedStatus, StatusWrite, WriteError},
        tasks::TaskResult,
    },
    Controller,
};

impl Controller {
    pub(super) fn on_task_result(&mut self, result: TaskResult) {
        let now = Instant::now();
        match result {
            TaskResult::StatusWritten { permit, write, result } => {
                self.queue.release(permit, now);
                self.on_status_written(&write, result, now);
            }
            TaskResult::LogRead { instance, result } => {
                self.metrics.log_read(result.as_str());
                for key in self.reconciler.log_requests.read_ended(&instance, result, now) {
                    self.queue.log_arrived(&key, now);
                }
            }
            TaskResult::LogRedacted(result) => {
                for key in self.reconciler.log_requests.redacted(*result) {
                    self.queue.log_arrived(&key, now);
                }
            }
            TaskResult::Answered { question, answer, events } => {
                for object in self.reconciler.answered(&question, answer, events, now) {
                    match question {
                        Question::Job(_) | Question::EventsOf { .. } => self.queue.mark_dirty(&object, now),
                        _ => self.queue.log_arrived(&object, now),
                    }
                }
            }
            TaskResult::WorkloadRead { key, reading } => {
                for object in self.reconciler.workload_read(&key, reading, now, self.clock.now()) {
                    self.queue.mark_dirty(&object, now);
                }
            }
            TaskResult::PatternsChecked(check, result) => self.on_patterns_checked(&check, result, now),
            TaskResult::TextsMasked(answer) => {
                for object in self.reconciler.masked_texts.answered(answer) {
                    self.queue.log_arrived(&object, now);
                }
            }
        }
    }

    fn on_status_written(
        &mut self,
        write: &StatusWrite,
        result: Result<Box<ObservedStatus>, WriteError>,
        now: Instant,
    ) {
        let StatusWrite { key, uid, term, status: written, omitted, .. } = write;
        self.metrics.status_written(result.as_ref().err().map_or("written", WriteError::as_str));
        // If another object has the name now, this write is not its own.
        let Some(object) = self.objects.get_mut(key).filter(|object| object.uid == *uid) else { return };
        // Since then, another replica may have written the status.
        let result = if *term == object.term { result } else { Err(WriteError::Conflict) };
        let (answer, events) = match result {
            Ok(answer) => {
                self.queue.write_succeeded(key);
                object.written_in = *term;
                if report::is_watching(written) {
                    object.gap = None;
                }
                if let Some(since) = write.dirty_since {
                    self.metrics.detected(now.saturating_duration_since(since));
                }
                (Some(*answer), object.events_after(written, omitted, now))
            }
            Err(error) => {
                let (delay, failures) = self.queue.write_failed(key, now);
                if let Some(schedule) = self.queue.schedule(key) {
                    schedule.is_still_unanswered(write.dirty_since);
                }
                let retry_seconds = delay.as_secs_f32();
                // Usually the object was just deleted, and the watch will report that.
                if matches!(error, WriteError::NotFound | WriteError::Conflict) && failures == 1 {
                    tracing::debug!(namespace = key.namespace, name = key.name, %error, retry_seconds, "could not write the status");
                } else {
                    tracing::warn!(namespace = key.namespace, name = key.name, %error, retry_seconds, "could not write the status");
                }
                // If the schema rejects the spec, it may reject every status, so the event is published without it.
                let events = match (&error, object.wrong_spec(), failures) {
                    (WriteError::Invalid(_), Some(spec), 1) => vec![spec_event(spec)],
                    _ => Vec::new(),
                };
                (None, events)
            }
        };
        if !events.is_empty() {
            object.event_limiter.add_dropped(self.event_publisher.publish(key, uid, events, now));
        }
        if object.write_ended(answer) {
            self.queue.mark_dirty(key, now);
        }
    }
}
