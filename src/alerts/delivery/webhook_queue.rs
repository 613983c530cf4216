//! The queue of one webhook: decides what to send next, and tracks it from the decision to the receiver's answer.
//! No I/O: the [`Worker`](super::worker::Worker) reads Secrets, stores and sends for it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use super::{
    persist::share,
    secrets::{Endpoint, Unavailable, Unusable, WebhookSecrets},
};
use crate::{
    alerts::{
        CurrentMutes, EndpointSpec, GoneAlerts, Incident, IncidentMemory, MuteRules, Notification, Plan, PlanInput,
        Source, ValidatedWebhook, deletion_notices, plan, record, resend, retry::AttemptOutcome,
    },
    api::{MessageKind, WebhookStatus},
    backoff::Backoff,
};

/// How often the Secrets are read while the webhook works.
const READ_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// When to read the Secrets again after the API server did not answer. The delay doubles up to [`READ_RETRY_MAX`].
const READ_RETRY: Duration = Duration::from_secs(5);
const READ_RETRY_MAX: Duration = Duration::from_secs(60);
/// Before a message is sent, Secrets that were read longer ago than this are read again.
const MAX_AGE_FOR_SENDING: Duration = Duration::from_secs(30);

/// The incidents of the webhook's object.
#[derive(Clone, Copy)]
pub(super) struct ObjectInput<'a> {
    pub source: &'a Source,
    /// All incidents. If they are not known at present, those that were known last.
    pub incidents: &'a [Incident],
    pub incidents_known: bool,
    pub memory: &'a IncidentMemory,
    pub gone: &'a GoneAlerts,
    pub mute_rules: &'a MuteRules,
    pub mutes: &'a CurrentMutes,
    /// How many bytes of the status the webhook's state may take.
    pub bytes: usize,
}

pub(super) struct WebhookQueue {
    pub webhook: ValidatedWebhook,
    /// The state that decisions start from: the stored state, or a newer one that includes the last outcome.
    base: Arc<WebhookStatus>,
    stage: Stage,
    secrets: SecretsCache,
    /// The delays between reads of the Secrets while the webhook fails, until a Secret or the spec changes.
    failing_reads: Backoff,
    /// The delays between reads that the API server does not answer.
    unanswered_reads: Backoff,
    /// The last endpoint that could be used. Alerts are resent to it while the Secrets cannot be read.
    last_usable: Option<UsableEndpoint>,
    /// The old and the new hash of the receiver: its Secret has changed, but not its URL.
    renamed: Option<(String, String)>,
    last_sent: Option<Timestamp>,
    wake: Option<Timestamp>,
}

enum Stage {
    Idle,
    /// Not stored yet: the next decision may replace it.
    Decided(Box<Decision>),
    Storing(Box<Decision>),
    Sending,
}

/// What remains of a [`Plan`] until it is stored.
struct Decision {
    /// That of the queue if they are equal.
    state: Arc<WebhookStatus>,
    send: Option<Notification>,
}

#[derive(Default)]
struct SecretsCache {
    latest: Option<ReadSecrets>,
    is_reading: bool,
    /// The API server did not answer the last read.
    unanswered: bool,
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
}

/// An action of the worker for a queue.
pub(super) enum Action {
    Wait,
    ReadSecrets,
    /// Send a message that needs no storing.
    Send(Box<Notification>),
}

impl WebhookQueue {
    pub fn new(
        webhook: ValidatedWebhook,
        stored: Option<Arc<WebhookStatus>>,
        secrets_retry_interval: Duration,
    ) -> Self {
        let name = webhook.policy.name.clone();
        Self {
            webhook,
            base: stored.unwrap_or_else(|| Arc::new(WebhookStatus { name, ..WebhookStatus::default() })),
            stage: Stage::Idle,
            secrets: SecretsCache::default(),
            failing_reads: Backoff::new(secrets_retry_interval, READ_INTERVAL),
            unanswered_reads: Backoff::new(READ_RETRY, READ_RETRY_MAX),
            last_usable: None,
            renamed: None,
            last_sent: None,
            wake: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.webhook.policy.name
    }

    pub fn update_spec(&mut self, webhook: ValidatedWebhook, now: Instant) {
        if webhook.endpoint != self.webhook.endpoint {
            self.secrets.read_at = Some(now);
            self.secrets.latest = None;
            self.failing_reads.reset();
            let (old, new) = (&self.webhook.endpoint, &webhook.endpoint);
            if (new.format, &new.url_from) != (old.format, &old.url_from) {
                self.last_usable = None;
            }
        }
        self.webhook = webhook;
    }

    /// Decides what to do next, unless a message is being stored or sent.
    pub fn next_action(
        &mut self,
        input: &ObjectInput<'_>,
        stored: Option<&Arc<WebhookStatus>>,
        now: Instant,
        wall: Timestamp,
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
        if let Some((_, new)) = self.renamed.take_if(|(old, _)| *old == self.base.receiver) {
            Arc::make_mut(&mut self.base).receiver = new;
        }
        if let Some(action) = self.resend(input, now, wall) {
            return action;
        }
        // A webhook whose spec is wrong keeps its alerts as they are, because it is not known which it should have.
        let is_wrong = self.webhook.endpoint.wrong.is_some();
        if self.secrets.latest.is_none() || !input.incidents_known || is_wrong {
            return Action::Wait;
        }
        let Plan { state, send, wake } = plan(&self.base, &self.plan_input(input, wall));
        self.wake = self.wake.into_iter().chain(wake).min();
        if send.is_some() && !self.are_secrets_fresh(now) {
            return self.read_secrets();
        }
        let state = if state == *self.base { Arc::clone(&self.base) } else { Arc::new(state) };
        if stored == Some(&state)
            && state == self.base
            && let Some(message) = send
        {
            self.stage = Stage::Sending;
            return Action::Send(Box::new(message));
        }
        self.stage = Stage::Decided(Box::new(Decision { state, send }));
        Action::Wait
    }

    fn plan_input<'a>(&'a self, input: &ObjectInput<'a>, wall: Timestamp) -> PlanInput<'a> {
        let secrets = self.secrets.latest.as_ref().map(|latest| &latest.secrets);
        PlanInput {
            source: input.source,
            policy: &self.webhook.policy,
            incidents: input.incidents,
            memory: input.memory,
            gone: input.gone,
            mute_rules: input.mute_rules,
            mutes: input.mutes,
            config: secrets.map_or("", |secrets| &secrets.config),
            receiver: secrets.filter(|secrets| secrets.endpoint.is_ok()).map(|secrets| secrets.receiver.as_str()),
            last_sent: self.last_sent,
            bytes: input.bytes,
            now: wall,
        }
    }

    /// Resends alerts to a receiver that forgets them, as Alertmanager does. This needs neither the present incidents nor
    /// readable Secrets, and nothing is stored.
    fn resend(&mut self, input: &ObjectInput<'_>, now: Instant, wall: Timestamp) -> Option<Action> {
        self.last_usable.as_ref()?;
        let (message, wake) = resend(&self.base, &self.plan_input(input, wall));
        self.wake = wake;
        let message = message?;
        if !self.are_secrets_fresh(now) && !self.secrets.unanswered {
            return Some(self.read_secrets());
        }
        self.stage = Stage::Sending;
        Some(Action::Send(Box::new(message)))
    }

    fn are_secrets_fresh(&self, now: Instant) -> bool {
        let latest = self.secrets.latest.as_ref();
        latest.is_some_and(|latest| now.saturating_duration_since(latest.read_at) < MAX_AGE_FOR_SENDING)
    }

    fn read_secrets(&mut self) -> Action {
        if std::mem::replace(&mut self.secrets.is_reading, true) { Action::Wait } else { Action::ReadSecrets }
    }

    /// The last messages to a receiver whose object was deleted, and the endpoint to send them to.
    pub fn deletion_notices(
        &self,
        input: &ObjectInput<'_>,
        wall: Timestamp,
    ) -> Option<(Arc<Endpoint>, Vec<Notification>)> {
        let usable = self.last_usable.as_ref()?;
        Some((Arc::clone(&usable.endpoint), deletion_notices(&self.base, &self.plan_input(input, wall))))
    }

    /// When to read the Secrets next. Absent: immediately.
    fn next_read(&self) -> Option<Instant> {
        if self.secrets.read_at.is_some() {
            return self.secrets.read_at;
        }
        let latest = self.secrets.latest.as_ref()?;
        Some(latest.read_at + if self.is_failing(&latest.secrets) { latest.retry_after } else { READ_INTERVAL })
    }

    fn is_failing(&self, secrets: &WebhookSecrets) -> bool {
        secrets.endpoint.is_err() || self.base.last_error.is_some() || self.base.stopped
    }

    /// When to call [`next_action`](Self::next_action) again if nothing happens: for a decision, by the cluster's clock,
    /// and to read the Secrets.
    pub fn wakes(&self) -> (Option<Timestamp>, Option<Instant>) {
        let next_read = if self.secrets.is_reading { None } else { self.next_read() };
        (self.wake.filter(|_| !self.is_busy()), next_read)
    }

    /// Keeps the state once in memory if one of `known` is equal.
    pub fn share_state(&mut self, known: &[Arc<WebhookStatus>]) {
        share(&mut self.base, known);
        if let Stage::Decided(decision) | Stage::Storing(decision) = &mut self.stage {
            share(&mut decision.state, known);
        }
    }

    /// The state to store.
    pub fn state(&self) -> &Arc<WebhookStatus> {
        match &self.stage {
            Stage::Decided(decision) | Stage::Storing(decision) => &decision.state,
            Stage::Idle | Stage::Sending => &self.base,
        }
    }

    /// Whether a message can be sent as soon as its state is stored.
    pub fn is_urgent(&self) -> bool {
        matches!(&self.stage, Stage::Decided(decision) if decision.send.is_some())
    }

    pub fn is_sending(&self) -> bool {
        matches!(self.stage, Stage::Sending)
    }

    fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Storing(_) | Stage::Sending)
    }

    /// Whether the API server has answered for its Secrets, even if they cannot be used.
    pub fn has_read_secrets(&self) -> bool {
        self.secrets.latest.is_some()
    }

    /// Why the webhook cannot be used.
    pub fn unusable(&self) -> Option<&str> {
        let latest = self.secrets.latest.as_ref()?;
        latest.secrets.endpoint.as_ref().err().map(|error| error.0.as_str())
    }

    /// Whether the last message could not be delivered, none can be, or the receiver refuses some incidents.
    pub fn has_problem(&self) -> bool {
        self.base.last_error.is_some() || self.unusable().is_some() || self.base.last_refusal.is_some()
    }

    /// Whether all that is wrong is that the receiver refuses some incidents for their content.
    pub fn only_refuses(&self) -> bool {
        self.base.last_refusal.is_some() && self.base.last_error.is_none() && self.unusable().is_none()
    }

    /// Drops a decision that is not being stored yet.
    pub fn drop_decision(&mut self) {
        if matches!(self.stage, Stage::Decided(_)) {
            self.stage = Stage::Idle;
        }
    }

    /// Notes that the worker has begun to store the state.
    pub fn on_storing(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Decided(decision) => Stage::Storing(decision),
            stage => stage,
        };
    }

    /// Notes whether the state was stored. Returns the message to send now. After a failure the next decision starts
    /// afresh, as the incidents may have changed.
    pub fn on_stored(&mut self, success: bool) -> Option<Notification> {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Storing(decision) if success => {
                self.base = decision.state;
                if decision.send.is_some() {
                    self.stage = Stage::Sending;
                }
                decision.send
            }
            Stage::Storing(_) => None,
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    /// Where to send a message. If the Secrets are unusable, alerts are resent to the last usable endpoint.
    pub fn endpoint(&self, kind: MessageKind) -> Result<Arc<Endpoint>, Unusable> {
        let latest = self.secrets.latest.as_ref().map(|latest| latest.secrets.endpoint.clone());
        match (latest, &self.last_usable) {
            (Some(Ok(endpoint)), _) => Ok(endpoint),
            (_, Some(usable)) if kind == MessageKind::Resend => Ok(Arc::clone(&usable.endpoint)),
            (Some(Err(error)), _) => Err(error),
            (None, _) => Err(Unusable("its Secrets are not read yet".to_owned())),
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
                    let receiver = &secrets.receiver;
                    let new = UsableEndpoint { receiver: receiver.clone(), endpoint: Arc::clone(endpoint) };
                    let old = self.last_usable.replace(new).filter(|old| old.receiver != *receiver);
                    self.renamed = old
                        .filter(|old| old.endpoint.destination == endpoint.destination)
                        .map(|old| (old.receiver, receiver.clone()));
                }
                self.secrets.read_at = None;
                self.secrets.unanswered = false;
                self.unanswered_reads.reset();
                let is_unchanged =
                    self.secrets.latest.as_ref().is_some_and(|latest| latest.secrets.config == secrets.config);
                if !is_unchanged || !self.is_failing(&secrets) {
                    self.failing_reads.reset();
                }
                let retry_after = self.failing_reads.next_delay();
                self.secrets.latest = Some(ReadSecrets { secrets, read_at: now, retry_after });
            }
            Err(Unavailable) => {
                self.secrets.read_at = Some(now + self.unanswered_reads.next_delay());
                self.secrets.unanswered = true;
            }
        }
    }

    pub fn on_sent(&mut self, message: &Notification, outcome: &AttemptOutcome, wall: Timestamp) {
        self.stage = Stage::Idle;
        self.base = Arc::new(record(&self.base, message, outcome, wall, fastrand::f64()));
        if matches!(outcome, AttemptOutcome::Answered { status: 200..=299, .. }) {
            self.last_sent = Some(wall);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{alerts::alert_bytes, api::NamespacedName};

    fn queue() -> WebhookQueue {
        let spec = serde_json::json!({
            "name": "ops", "format": "Slack", "urlFrom": {"secretKeyRef": {"name": "ops", "key": "url"}},
        });
        let webhooks = ValidatedWebhook::validate_all(&[serde_json::from_value(spec).unwrap()], &mut Vec::new());
        WebhookQueue::new(webhooks.into_iter().next().unwrap(), None, Duration::from_secs(10))
    }

    /// How often the Secrets are read within a time if every read has this result.
    fn reads(
        queue: &mut WebhookQueue,
        from: Instant,
        time: Duration,
        result: impl Fn() -> Result<WebhookSecrets, Unavailable>,
    ) -> usize {
        let (source, memory) = (Source::from(NamespacedName::new("shop", "cluster")), IncidentMemory::default());
        let (mut now, mut reads) = (from, 0);
        while now < from + time {
            let input = ObjectInput {
                source: &source,
                incidents: &[],
                incidents_known: true,
                memory: &memory,
                gone: &GoneAlerts::default(),
                mute_rules: &MuteRules::default(),
                mutes: &CurrentMutes::default(),
                bytes: alert_bytes(1),
            };
            let stored = queue.state().clone();
            if let Action::ReadSecrets = queue.next_action(&input, Some(&stored), now, Timestamp::UNIX_EPOCH) {
                reads += 1;
                let spec = Arc::clone(&queue.webhook.endpoint);
                queue.on_secrets(&spec, result(), now);
            }
            now += Duration::from_secs(1);
        }
        reads
    }

    fn unusable(config: &str) -> Result<WebhookSecrets, Unavailable> {
        let endpoint = Err(Unusable("Secret shop/ops does not exist".to_owned()));
        Ok(WebhookSecrets { config: config.to_owned(), receiver: String::new(), endpoint })
    }

    #[test]
    fn reads_unusable_secrets_less_and_less_often() {
        let (mut queue, start) = (queue(), Instant::now());
        let minute = Duration::from_secs(60);
        let hour = 60 * minute;
        let first = reads(&mut queue, start, minute, || unusable("a"));
        assert!((3..=6).contains(&first), "{first} in the first minute");
        let rest = reads(&mut queue, start + minute, hour, || unusable("a"));
        assert!((10..=30).contains(&rest), "{rest} in the next hour");
        // Someone works on the Secret, so the next change is noticed soon.
        let changed = start + minute + hour;
        let after = reads(&mut queue, changed, 6 * minute, || unusable("b"));
        assert!((4..=12).contains(&after), "{after} in six minutes with a change");
    }

    #[test]
    fn asks_a_server_that_does_not_answer_less_and_less_often() {
        let (mut queue, start) = (queue(), Instant::now());
        let asked = reads(&mut queue, start, Duration::from_secs(3600), || Err(Unavailable));
        assert!((60..=125).contains(&asked), "{asked} in an hour");
    }
}
