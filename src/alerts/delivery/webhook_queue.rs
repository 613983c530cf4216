//! The queue of one webhook: decides what to send next, and tracks it from the decision to the receiver's answer.
//! No I/O: the [`Worker`](super::worker::Worker) reads Secrets, stores and sends for it.

mod receiver;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    DeliveryTimings,
    delivered_condition::WebhookSummary,
    farewells::{LastMessages, LeftReceiver},
    persist::share,
    secrets::{Endpoint, Unavailable, WebhookSecrets},
    send::Attempt,
};
use crate::{
    alerts::{
        EndpointSpec, Farewell, Notification, ObjectInput, Step, StepInput, ValidatedWebhook, last_messages, record,
        retry::AttemptOutcome, step, thread,
    },
    api::{AlertPhase, AlertStatus, MessageKind, WebhookStatus},
    backoff::Backoff,
};

/// How often the Secrets are read while the webhook works.
const READ_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// When to read the Secrets again after the API server did not answer. The delay doubles up to [`READ_RETRY_MAX`].
const READ_RETRY: Duration = Duration::from_secs(5);
const READ_RETRY_MAX: Duration = Duration::from_secs(60);
/// How many reads in a row fail before this is reported. A single one is usually repeated with success.
const UNANSWERED_READS: u32 = 2;

pub(super) struct WebhookQueue {
    pub webhook: ValidatedWebhook,
    /// The state that decisions start from: the stored state, or a newer one that includes the last outcome.
    base: Arc<WebhookStatus>,
    stage: Stage,
    secrets: SecretsCache,
    timings: DeliveryTimings,
    /// The delays between reads of the Secrets while the webhook fails, until a Secret or the spec changes.
    failing_reads: Backoff,
    /// The delays between reads that the API server does not answer.
    unanswered_reads: Backoff,
    /// The last endpoint that could be used. Alerts are resent to it while the Secrets cannot be read.
    last_usable: Option<UsableEndpoint>,
    /// The receiver before the present one, until it was sent the end of what it was sent.
    left: Option<LeftReceiver>,
    /// The stored receiver, if an event has said that its alerts could not be ended.
    given_up: Option<String>,
    last_sent: Option<Timestamp>,
    wake: Option<Timestamp>,
}

enum Stage {
    Idle,
    Decided(Box<Decision>),
    /// The message with this ID.
    Sending(String),
}

/// What remains of a [`Step`] until it is stored.
struct Decision {
    /// That of the queue if they are equal.
    state: Arc<WebhookStatus>,
    send: Option<Notification>,
    /// Until it is being stored, the next decision may replace it.
    is_storing: bool,
}

#[derive(Default)]
struct SecretsCache {
    latest: Option<ReadSecrets>,
    is_reading: bool,
    /// Why the last read failed, if the API server did not say anything about the Secrets.
    unanswered: Option<Unavailable>,
    /// Overrides the regular interval.
    read_at: Option<Instant>,
}

struct ReadSecrets {
    secrets: WebhookSecrets,
    read_at: Instant,
    /// When to read them again if the webhook fails.
    retry_after: Duration,
}

struct UsableEndpoint {
    receiver: String,
    endpoint: Arc<Endpoint>,
    /// When its Secret was read last.
    read_at: Instant,
}

/// An action of the worker for a queue.
pub(super) enum Action {
    Wait,
    ReadSecrets,
    /// Send a message that needs no storing.
    Send(Box<Notification>),
}

impl WebhookQueue {
    pub fn new(webhook: ValidatedWebhook, stored: Option<Arc<WebhookStatus>>, timings: DeliveryTimings) -> Self {
        let name = webhook.policy.name.clone();
        Self {
            webhook: paced(webhook, timings),
            base: stored.unwrap_or_else(|| Arc::new(WebhookStatus { name, ..WebhookStatus::default() })),
            stage: Stage::Idle,
            secrets: SecretsCache::default(),
            timings,
            failing_reads: Backoff::new(timings.secrets_retry_interval, READ_INTERVAL),
            unanswered_reads: Backoff::new(READ_RETRY, READ_RETRY_MAX),
            last_usable: None,
            left: None,
            given_up: None,
            last_sent: None,
            wake: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.webhook.policy.name
    }

    /// Takes a spec that has changed after `changed_after`.
    pub fn update_spec(&mut self, webhook: ValidatedWebhook, changed_after: Instant) {
        if webhook.endpoint != self.webhook.endpoint {
            // At once.
            self.secrets.read_at = Some(changed_after);
            self.failing_reads.reset();
            let (old, new) = (&self.webhook.endpoint, &webhook.endpoint);
            if !new.reads_same(old) {
                self.secrets.latest = None;
            }
            if (new.format, &new.url_from) != (old.format, &old.url_from)
                && let Some(UsableEndpoint { receiver, endpoint, .. }) = self.last_usable.take()
            {
                self.leave(receiver, Ok(endpoint), changed_after);
            }
        }
        self.webhook = paced(webhook, self.timings);
    }

    /// Decides what to do next, unless a message is being stored or sent.
    pub fn next_action(
        &mut self,
        input: &ObjectInput<'_>,
        stored: Option<&Arc<WebhookStatus>>,
        now: Instant,
    ) -> Action {
        self.wake = None;
        if !self.secrets.is_reading && self.next_read().is_none_or(|at| at <= now) {
            self.secrets.is_reading = true;
            return Action::ReadSecrets;
        }
        if self.is_busy() {
            return Action::Wait;
        }
        self.stage = Stage::Idle;
        self.convert_receiver();
        let step_input = self.step_input(input);
        let is_decided = step_input.object.incidents_known;
        let Step { state, message, wake } = step(&self.base, &step_input);
        self.wake = wake;
        if message.is_some() && !self.may_use_secrets(now) {
            return self.read_secrets();
        }
        let state = if state == *self.base { Arc::clone(&self.base) } else { Arc::new(state) };
        let is_stored = stored == Some(&state) && state == self.base;
        match message {
            Some(message) if is_stored || input.is_unstored || message.kind == MessageKind::Resend => {
                self.base = state;
                self.stage = Stage::Sending(message.id.clone());
                Action::Send(Box::new(message))
            }
            // Nothing was decided that is to be stored.
            None if !is_decided => Action::Wait,
            send => {
                self.stage = Stage::Decided(Box::new(Decision { state, send, is_storing: false }));
                Action::Wait
            }
        }
    }

    fn step_input<'a>(&'a self, input: &ObjectInput<'a>) -> StepInput<'a> {
        let secrets = self.secrets.latest.as_ref().map(|latest| &latest.secrets);
        // A webhook whose spec is wrong keeps its alerts as they are, because it is not known which it should have.
        let is_known = secrets.is_some() && self.webhook.endpoint.wrong.is_none();
        StepInput {
            object: ObjectInput { incidents_known: input.incidents_known && is_known, ..*input },
            policy: &self.webhook.policy,
            config: secrets.map_or("", |secrets| &secrets.config),
            receiver: secrets.filter(|secrets| secrets.endpoint.is_ok()).map(|secrets| secrets.receiver.as_str()),
            can_resend: self.last_usable.is_some(),
            last_sent: self.last_sent,
        }
    }

    /// Whether a message may be sent with the Secrets that were read last: if they were read just now, and for as long
    /// as they cannot be read.
    fn may_use_secrets(&self, now: Instant) -> bool {
        let is_fresh =
            |latest: &ReadSecrets| now.saturating_duration_since(latest.read_at) < self.timings.secrets_max_age;
        let is_read_due = self.secrets.read_at.is_some();
        self.secrets.unanswered.is_some() || !is_read_due && self.secrets.latest.as_ref().is_some_and(is_fresh)
    }

    fn read_secrets(&mut self) -> Action {
        if std::mem::replace(&mut self.secrets.is_reading, true) { Action::Wait } else { Action::ReadSecrets }
    }

    /// The last messages to the receiver if the object was deleted, if there is anything to end.
    pub fn deletion_notices(&self, input: &ObjectInput<'_>, now: Instant) -> Option<LastMessages> {
        let UsableEndpoint { receiver, endpoint, .. } = self.last_usable.as_ref()?;
        let messages = last_messages(&self.base, &self.step_input(input), Farewell::ObjectDeleted, &|_| false);
        let (receiver, endpoint) = (receiver.clone(), Ok(Arc::clone(endpoint)));
        let to = LeftReceiver { receiver, endpoint, webhook: self.webhook.clone(), left_after: now };
        (!messages.is_empty()).then_some(LastMessages { to, messages })
    }

    /// When to read the Secrets next. Absent: immediately.
    fn next_read(&self) -> Option<Instant> {
        if self.secrets.read_at.is_some() {
            return self.secrets.read_at;
        }
        let latest = self.secrets.latest.as_ref()?;
        let interval = if self.is_failing(&latest.secrets) {
            latest.retry_after
        } else if self.has_open_alerts() {
            self.timings.secrets_max_age
        } else {
            READ_INTERVAL
        };
        Some(latest.read_at + interval)
    }

    /// Whether the receiver is to be sent the end of alerts, also if the webhook leaves it.
    fn has_open_alerts(&self) -> bool {
        let is_open = |alert: &AlertStatus| alert.phase == AlertPhase::Firing;
        self.webhook.policy.send_resolved && (self.base.storm.is_some() || self.base.alerts.iter().any(is_open))
    }

    fn is_failing(&self, secrets: &WebhookSecrets) -> bool {
        secrets.endpoint.is_err() || self.base.last_error.is_some() || self.base.stopped
    }

    /// When to call [`next_action`](Self::next_action) again if nothing happens: for a decision, by the cluster's
    /// clock, and to read the Secrets.
    pub fn wakes(&self) -> (Option<Timestamp>, Option<Instant>) {
        let next_read = if self.secrets.is_reading { None } else { self.next_read() };
        (self.wake.filter(|_| !self.is_busy()), next_read)
    }

    /// Keeps the state once in memory if one of `known` is equal.
    pub fn share_state(&mut self, known: &[Arc<WebhookStatus>]) {
        share(&mut self.base, known);
        if let Stage::Decided(decision) = &mut self.stage {
            share(&mut decision.state, known);
        }
    }

    /// The state that the next decision starts from.
    pub fn state_before(&self) -> &WebhookStatus {
        &self.base
    }

    /// The state to store.
    pub fn state(&self) -> &Arc<WebhookStatus> {
        match &self.stage {
            Stage::Decided(decision) => &decision.state,
            Stage::Idle | Stage::Sending(_) => &self.base,
        }
    }

    /// Whether a message can be sent as soon as its state is stored.
    pub fn is_urgent(&self) -> bool {
        matches!(&self.stage, Stage::Decided(decision) if decision.send.is_some())
    }

    fn is_storing(&self) -> bool {
        matches!(&self.stage, Stage::Decided(decision) if decision.is_storing)
    }

    pub fn is_sending(&self) -> bool {
        matches!(self.stage, Stage::Sending(_))
    }

    /// Whether it is sending the message with this ID. A webhook of the same name may have been removed while it was
    /// sending.
    pub fn sends_message(&self, id: &str) -> bool {
        matches!(&self.stage, Stage::Sending(sent) if sent == id)
    }

    fn is_busy(&self) -> bool {
        self.is_storing() || self.is_sending()
    }

    /// Whether it is known if the webhook's Secrets can be used.
    pub fn knows_secrets(&self) -> bool {
        self.secrets.latest.is_some() || self.unreadable().is_some()
    }

    /// Why the webhook cannot be used.
    fn unusable(&self) -> Option<&str> {
        let wrong = self.webhook.endpoint.wrong.as_deref();
        let latest = self.secrets.latest.as_ref().map(|latest| &latest.secrets);
        wrong.or_else(|| latest?.endpoint.as_ref().err().map(String::as_str))
    }

    /// Why the webhook's Secrets cannot be read, although they may exist.
    fn unreadable(&self) -> Option<String> {
        let error = self.secrets.unanswered.filter(|_| self.unanswered_reads.failures() >= UNANSWERED_READS)?;
        let is_usable = self.secrets.latest.as_ref().is_some_and(|latest| latest.secrets.endpoint.is_ok());
        let remedy = "; until it is restarted, the operator sends to the receiver that it read before";
        Some(format!("{error}{}", if is_usable { remedy } else { "" }))
    }

    pub fn summary(&self) -> WebhookSummary<'_> {
        WebhookSummary { state: self.state(), unusable: self.unusable(), unreadable: self.unreadable() }
    }

    /// Drops a decision that is not being stored yet.
    pub fn drop_decision(&mut self) {
        if !self.is_busy() {
            self.stage = Stage::Idle;
        }
    }

    /// Notes that the worker has begun to store the state.
    pub fn on_storing(&mut self) {
        if let Stage::Decided(decision) = &mut self.stage {
            decision.is_storing = true;
        }
    }

    /// Notes whether the state was stored. Returns the message to send now. After a failure the next decision starts
    /// afresh, as the incidents may have changed.
    pub fn on_stored(&mut self, success: bool) -> Option<Notification> {
        if !self.is_storing() {
            return None;
        }
        let Stage::Decided(decision) = std::mem::replace(&mut self.stage, Stage::Idle) else { return None };
        if !success {
            return None;
        }
        self.base = decision.state;
        if let Some(message) = &decision.send {
            self.stage = Stage::Sending(message.id.clone());
        }
        decision.send
    }

    /// Where to send a message. If the Secrets are unusable, alerts are resent to the last usable endpoint.
    pub fn endpoint(&self, kind: MessageKind) -> Result<Arc<Endpoint>, String> {
        let latest = self.secrets.latest.as_ref().map(|latest| latest.secrets.endpoint.clone());
        match (latest, &self.last_usable) {
            (Some(Ok(endpoint)), _) => Ok(endpoint),
            (_, Some(usable)) if kind == MessageKind::Resend => Ok(Arc::clone(&usable.endpoint)),
            (Some(Err(error)), _) => Err(error),
            (None, _) => Err("its Secrets are not read yet".to_owned()),
        }
    }

    /// Takes the Secrets that were read for `spec`, unless it has changed since.
    pub fn on_secrets(&mut self, spec: &EndpointSpec, result: Result<WebhookSecrets, Unavailable>, now: Instant) {
        self.secrets.is_reading = false;
        if *spec != *self.webhook.endpoint {
            return;
        }
        match result {
            Ok(secrets) => {
                if let Ok(endpoint) = &secrets.endpoint {
                    self.note_receiver(&secrets, Arc::clone(endpoint), now);
                }
                self.secrets.read_at = None;
                self.secrets.unanswered = None;
                self.unanswered_reads.reset();
                let is_unchanged =
                    self.secrets.latest.as_ref().is_some_and(|latest| latest.secrets.config == secrets.config);
                if !is_unchanged || !self.is_failing(&secrets) {
                    self.failing_reads.reset();
                }
                let retry_after = self.failing_reads.next_delay();
                self.secrets.latest = Some(ReadSecrets { secrets, read_at: now, retry_after });
            }
            Err(error) => {
                self.secrets.read_at = Some(now + self.unanswered_reads.next_delay());
                self.secrets.unanswered = Some(error);
            }
        }
    }

    pub fn on_sent(&mut self, message: &Notification, attempt: &Attempt, wall: Timestamp) {
        self.stage = Stage::Idle;
        let mut state = record(&self.base, message, &attempt.outcome, wall, fastrand::f64());
        if let Some(begun) = &attempt.thread {
            thread::note(&mut state, message, begun);
        }
        self.base = Arc::new(state);
        if matches!(attempt.outcome, AttemptOutcome::Answered { status: 200..=299, .. }) {
            self.last_sent = Some(wall);
        }
    }
}

/// Tests shorten the times of a webhook.
fn paced(mut webhook: ValidatedWebhook, timings: DeliveryTimings) -> ValidatedWebhook {
    webhook.policy.pacing = webhook.policy.pacing.divided_by(timings.pacing_divisor);
    webhook
}
