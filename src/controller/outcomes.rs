//! What the controller's tasks have come to.

use tokio::time::Instant;

use crate::{
    api::{NamespacedName, OrchestrStatus},
    logs::{self, LogRequest},
};

use super::{
    Controller,
    events::spec_event,
    jobs::{JobKey, JobReading},
    kopf_migration,
    object::Observed,
    status::WriteError,
    write_limiter::Slot,
};

/// What a task has come to that changes the cluster.
pub(super) enum Outcome {
    Written {
        slot: Slot,
        key: NamespacedName,
        uid: String,
        sent: Box<OrchestrStatus>,
        result: Result<Box<Observed>, WriteError>,
    },
    CleanedUp {
        key: NamespacedName,
        result: Result<bool, WriteError>,
    },
}

/// What a task has come to that reads.
pub(super) enum ReadOutcome {
    Log { request: Box<LogRequest>, outcome: logs::ReadResult },
    Job { key: JobKey, reading: JobReading },
}

impl Controller {
    pub(super) fn on_outcome(&mut self, outcome: Outcome) {
        let now = Instant::now();
        match outcome {
            Outcome::Written { slot, key, uid, sent, result } => {
                self.write_limiter.give_back(slot);
                self.on_written(&key, &uid, &sent, result, now);
                self.queue(&key);
            }
            Outcome::CleanedUp { key, result } => {
                if let Err(error) = &result {
                    tracing::warn!(namespace = key.namespace, name = key.name, %error, "could not remove what the Kopf operator left");
                }
                if self.kopf_migrations.ended(&key, &result, now) {
                    tracing::warn!(
                        namespace = key.namespace,
                        name = key.name,
                        "what the Kopf operator leaves comes back whenever it is removed: stop that operator first"
                    );
                }
            }
        }
    }

    fn on_written(
        &mut self,
        key: &NamespacedName,
        uid: &str,
        sent: &OrchestrStatus,
        result: Result<Box<Observed>, WriteError>,
        now: Instant,
    ) {
        let Some(object) = self.objects.get_mut(key).filter(|object| object.uid == uid) else { return };
        let answer = match result {
            Ok(answer) => {
                object.backoff.reset();
                let events = object.events_of(sent, now);
                if !events.is_empty() {
                    object.event_limiter.missed(self.event_publisher.tell(key, uid, events));
                }
                Some(*answer)
            }
            Err(error) => {
                let delay = object.backoff.next_delay();
                object.schedule.failed(now, delay);
                // The status of a spec that the schema refuses may be refused with it.
                if let (WriteError::Invalid(_), Err(spec), 1) = (&error, &object.settings, object.backoff.failures()) {
                    object.event_limiter.missed(self.event_publisher.tell(key, uid, vec![spec_event(spec)]));
                }
                let retry_seconds = delay.as_secs_f32();
                match error {
                    // As a rule the watch is about to tell that it was deleted.
                    WriteError::NotFound | WriteError::Conflict if object.backoff.failures() == 1 => {
                        tracing::debug!(namespace = key.namespace, name = key.name, %error, retry_seconds, "could not write the status");
                    }
                    error => {
                        tracing::warn!(namespace = key.namespace, name = key.name, %error, retry_seconds, "could not write the status");
                    }
                }
                None
            }
        };
        if object.written(answer) {
            object.schedule.mark_dirty(now);
        }
    }

    pub(super) fn on_read(&mut self, outcome: ReadOutcome) {
        let now = Instant::now();
        match outcome {
            ReadOutcome::Log { request, outcome } => {
                for waiting in self.log_requests.answered(&request, outcome, now) {
                    if let Some(object) = self.objects.get_mut(&waiting) {
                        object.schedule.log_arrived(now);
                    }
                    self.queue(&waiting);
                }
            }
            ReadOutcome::Job { key, reading } => {
                if self.jobs.answered(&key, reading, now) {
                    let views = self.index.viewers_of_job(&key.uid);
                    self.mark_views_dirty(views);
                }
            }
        }
    }

    pub(super) fn clean_up(&mut self, key: NamespacedName) {
        tracing::info!(namespace = key.namespace, name = key.name, "removing what the Kopf operator left");
        let (client, permits) = (self.client.clone(), self.side_requests.clone());
        self.tasks.spawn(async move {
            let _permit = permits.acquire_owned().await;
            let result = kopf_migration::remove_leftovers(&client, &key).await;
            Outcome::CleanedUp { key, result }
        });
    }
}
