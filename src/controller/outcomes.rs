//! What the controller's tasks have come to.

use tokio::time::Instant;

use crate::{
    api::OrchestrStatus,
    logs::{self, LogRequest},
};

use super::{
    Controller,
    events::spec_event,
    jobs::{JobKey, JobReading},
    object::{ObjectKey, Observed},
    slots::Slot,
    status::WriteError,
    takeover,
};

/// What a task has come to that changes the cluster.
pub(super) enum Outcome {
    Written {
        slot: Slot,
        key: ObjectKey,
        uid: String,
        sent: Box<OrchestrStatus>,
        result: Result<Box<Observed>, WriteError>,
    },
    CleanedUp {
        key: ObjectKey,
        result: Result<bool, WriteError>,
    },
}

/// What a task has come to that reads.
pub(super) enum ReadOutcome {
    Log { request: Box<LogRequest>, outcome: logs::Outcome },
    Job { key: JobKey, reading: JobReading },
}

impl Controller {
    pub(super) fn on_outcome(&mut self, outcome: Outcome) {
        let now = Instant::now();
        match outcome {
            Outcome::Written { slot, key, uid, sent, result } => {
                self.slots.give_back(slot);
                self.on_written(&key, &uid, &sent, result, now);
                self.queue(&key);
            }
            Outcome::CleanedUp { key, result } => {
                if let Err(error) = &result {
                    tracing::warn!(namespace = key.0, name = key.1, %error, "could not remove what the Kopf operator left");
                }
                if self.takeovers.ended(&key, &result, now) {
                    tracing::warn!(
                        namespace = key.0,
                        name = key.1,
                        "what the Kopf operator leaves comes back whenever it is removed: stop that operator first"
                    );
                }
            }
        }
    }

    fn on_written(
        &mut self,
        key: &ObjectKey,
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
                    object.ration.missed(self.teller.tell(key, uid, events));
                }
                Some(*answer)
            }
            Err(error) => {
                let delay = object.backoff.next_delay();
                object.schedule.failed(now, delay);
                // The status of a spec that the schema refuses may be refused with it.
                if let (WriteError::Invalid(_), Err(spec), 1) = (&error, &object.settings, object.backoff.failures()) {
                    object.ration.missed(self.teller.tell(key, uid, vec![spec_event(spec)]));
                }
                let retry_seconds = delay.as_secs_f32();
                match error {
                    // As a rule the watch is about to tell that it was deleted.
                    WriteError::NotFound | WriteError::Conflict if object.backoff.failures() == 1 => {
                        tracing::debug!(namespace = key.0, name = key.1, %error, retry_seconds, "could not write the status");
                    }
                    error => {
                        tracing::warn!(namespace = key.0, name = key.1, %error, retry_seconds, "could not write the status");
                    }
                }
                None
            }
        };
        if object.written(answer) {
            object.schedule.touch(now);
        }
    }

    pub(super) fn on_read(&mut self, outcome: ReadOutcome) {
        let now = Instant::now();
        match outcome {
            ReadOutcome::Log { request, outcome } => {
                for waiting in self.tails.answered(&request, outcome, now) {
                    if let Some(object) = self.objects.get_mut(&waiting) {
                        object.schedule.log_arrived(now);
                    }
                    self.queue(&waiting);
                }
            }
            ReadOutcome::Job { key, reading } => {
                if self.jobs.answered(&key, reading, now) {
                    let views = self.index.viewers_of_job(&key.uid);
                    self.touch_views(views);
                }
            }
        }
    }

    pub(super) fn clean_up(&mut self, key: ObjectKey) {
        tracing::info!(namespace = key.0, name = key.1, "removing what the Kopf operator left");
        let (client, permits) = (self.client.clone(), self.side_requests.clone());
        self.tasks.spawn(async move {
            let _permit = permits.acquire_owned().await;
            let result = takeover::remove_leftovers(&client, &key).await;
            Outcome::CleanedUp { key, result }
        });
    }
}
