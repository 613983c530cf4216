//! One webhook of one object, between its state as stored and its receiver. No I/O.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use super::secrets::{Endpoint, Reading, Unavailable, Unusable};
use crate::{
    alerts::{
        Incident, IncidentMemory, Notification, Plan, PlanInput, Source, ValidatedWebhook, deletion_notices, plan,
        record, resend, retry::AttemptOutcome,
    },
    api::{MessageKind, Webhook, WebhookStatus},
};

/// How old what was read of the Secrets may be while something is wrong: a person may be mending it.
const TROUBLED: Duration = Duration::from_secs(10);
/// How old it may be when a message is sent.
const FRESH: Duration = Duration::from_secs(30);
/// How old it may be otherwise.
const STALE: Duration = Duration::from_secs(5 * 60);
/// When the API server is asked again after it gave no answer.
const UNANSWERED: Duration = Duration::from_secs(5);

/// What there is to send, and how much of the status it may take.
#[derive(Clone, Copy)]
pub(super) struct ObjectInput<'a> {
    pub source: &'a Source,
    /// All incidents, or, if they are not known at present, those that were known last.
    pub incidents: &'a [Incident],
    /// Whether they are known.
    pub known: bool,
    pub memory: &'a IncidentMemory,
    /// The keys of incidents that are gone and cannot come back.
    pub ended: &'a [String],
    pub bytes: usize,
}

pub(super) struct Line {
    pub subscriber: ValidatedWebhook,
    /// The state that decisions start from: as it is stored, or newer by an outcome.
    base: WebhookStatus,
    /// Where it stands in the protocol.
    stage: Stage,
    secrets: Secrets,
    /// What the Secrets last made that could be used. It keeps alerts alive while they can't be read.
    good: Option<Good>,
    /// A receiver's former mark and the one that it has now: its Secret has changed, but not its URL.
    renamed: Option<(String, String)>,
    last_sent: Option<Timestamp>,
    wake: Option<Timestamp>,
}

enum Stage {
    /// Nothing is on its way.
    NotWatching,
    /// A decision that nothing was done about: it may be made anew.
    Decided(Box<Plan>),
    /// The decision is being stored.
    Storing(Box<Plan>),
    /// The message is being sent.
    Sending,
}

#[derive(Default)]
struct Secrets {
    known: Option<Known>,
    /// A read is under way.
    reading: bool,
    /// The last read had no answer.
    unanswered: bool,
    /// When to read next, whatever happens.
    due: Option<Instant>,
}

struct Good {
    receiver: String,
    endpoint: Arc<Endpoint>,
}

struct Known {
    config: String,
    receiver: String,
    endpoint: Result<Arc<Endpoint>, Unusable>,
    read: Instant,
}

/// What a look at a line asks for.
pub(super) enum Wish {
    Nothing,
    /// Its Secrets are to be read.
    Read,
    /// A message that needs no storing is to be sent.
    Send(Box<Notification>),
}

impl Line {
    pub fn new(subscriber: ValidatedWebhook, known: Option<WebhookStatus>) -> Self {
        let name = subscriber.policy.name.clone();
        Self {
            subscriber,
            base: known.unwrap_or_else(|| WebhookStatus { name, ..WebhookStatus::default() }),
            stage: Stage::NotWatching,
            secrets: Secrets::default(),
            good: None,
            renamed: None,
            last_sent: None,
            wake: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.subscriber.policy.name
    }

    /// Takes up what a new spec says of this webhook.
    pub fn update_spec(&mut self, subscriber: ValidatedWebhook, now: Instant) {
        if subscriber.webhook != self.subscriber.webhook {
            self.secrets.due = Some(now);
            self.secrets.known = None;
            let leads_to = |webhook: &Webhook| (webhook.format, webhook.url_from.clone());
            if leads_to(&subscriber.webhook) != leads_to(&self.subscriber.webhook) {
                self.good = None;
            }
        }
        self.subscriber = subscriber;
    }

    /// Decides what to do, unless something is on its way.
    pub fn look(
        &mut self,
        input: &ObjectInput<'_>,
        stored: Option<&WebhookStatus>,
        now: Instant,
        wall: Timestamp,
    ) -> Wish {
        self.wake = None;
        if !self.secrets.reading && self.secrets_are_due(now) {
            self.secrets.reading = true;
            return Wish::Read;
        }
        if matches!(self.stage, Stage::Storing(_) | Stage::Sending) {
            return Wish::Nothing;
        }
        self.stage = Stage::NotWatching;
        if let Some((_, new)) = self.renamed.take_if(|(old, _)| *old == self.base.receiver) {
            self.base.receiver = new;
        }
        if let Some(wish) = self.resend(input, now, wall) {
            return wish;
        }
        let Some(known) = self.secrets.known.as_ref().filter(|_| input.known) else { return Wish::Nothing };
        let decision = plan(&self.base, &self.plan_input(input, wall));
        self.wake = self.wake.into_iter().chain(decision.wake).min();
        let fresh = now.saturating_duration_since(known.read) < FRESH;
        if decision.send.is_some() && !fresh {
            let asks = !std::mem::replace(&mut self.secrets.reading, true);
            return if asks { Wish::Read } else { Wish::Nothing };
        }
        if decision.send.is_some() && decision.state == self.base && stored == Some(&self.base) {
            if let Some(message) = decision.send {
                self.stage = Stage::Sending;
                return Wish::Send(Box::new(message));
            }
            return Wish::Nothing;
        }
        self.stage = Stage::Decided(Box::new(decision));
        Wish::Nothing
    }

    fn plan_input<'a>(&'a self, input: &ObjectInput<'a>, wall: Timestamp) -> PlanInput<'a> {
        let known = self.secrets.known.as_ref();
        PlanInput {
            source: input.source,
            policy: &self.subscriber.policy,
            incidents: input.incidents,
            memory: input.memory,
            ended: input.ended,
            config: known.map_or("", |known| &known.config),
            receiver: known.filter(|known| known.endpoint.is_ok()).map(|known| known.receiver.as_str()),
            last_sent: self.last_sent,
            bytes: input.bytes,
            now: wall,
        }
    }

    /// Keeps the alerts of a receiver alive that forgets. For that neither what goes on nor what the Secrets hold need be
    /// known at present, nor must anything be stored.
    fn resend(&mut self, input: &ObjectInput<'_>, now: Instant, wall: Timestamp) -> Option<Wish> {
        self.good.as_ref()?;
        let (message, wake) = resend(&self.base, &self.plan_input(input, wall));
        self.wake = wake;
        let message = message?;
        let read = self.secrets.known.as_ref().map(|known| known.read);
        let fresh = read.is_some_and(|read| now.saturating_duration_since(read) < FRESH);
        if !fresh && !self.secrets.unanswered {
            let asks = !std::mem::replace(&mut self.secrets.reading, true);
            return Some(if asks { Wish::Read } else { Wish::Nothing });
        }
        self.stage = Stage::Sending;
        Some(Wish::Send(Box::new(message)))
    }

    /// The last messages to a receiver whose object was deleted, and how to send them.
    pub fn farewell(&self, input: &ObjectInput<'_>, wall: Timestamp) -> Option<(Arc<Endpoint>, Vec<Notification>)> {
        let good = self.good.as_ref()?;
        Some((Arc::clone(&good.endpoint), deletion_notices(&self.base, &self.plan_input(input, wall))))
    }

    fn secrets_are_due(&self, now: Instant) -> bool {
        self.secrets_due().is_none_or(|due| due <= now)
    }

    /// When the Secrets are to be read next; absent for at once.
    fn secrets_due(&self) -> Option<Instant> {
        if self.secrets.due.is_some() {
            return self.secrets.due;
        }
        let known = self.secrets.known.as_ref()?;
        let troubled = known.endpoint.is_err() || self.base.last_error.is_some() || self.base.stopped;
        Some(known.read + if troubled { TROUBLED } else { STALE })
    }

    /// When to look again, if nothing happens: by the clock of decisions, and by that of Secrets.
    pub fn wakes(&self) -> (Option<Timestamp>, Option<Instant>) {
        let secrets = if self.secrets.reading { None } else { self.secrets_due() };
        let busy = matches!(self.stage, Stage::Storing(_) | Stage::Sending);
        (self.wake.filter(|_| !busy), secrets)
    }

    /// What is to be stored of it.
    pub fn state(&self) -> &WebhookStatus {
        match &self.stage {
            Stage::Decided(decision) | Stage::Storing(decision) => &decision.state,
            Stage::NotWatching | Stage::Sending => &self.base,
        }
    }

    /// Whether a message waits for what is to be stored.
    pub fn is_urgent(&self) -> bool {
        matches!(&self.stage, Stage::Decided(decision) if decision.send.is_some())
    }

    pub fn is_sending(&self) -> bool {
        matches!(self.stage, Stage::Sending)
    }

    /// Whether its Secrets were read, whatever came of it.
    pub fn is_known(&self) -> bool {
        self.secrets.known.is_some()
    }

    /// Why the webhook can't be used.
    pub fn unusable(&self) -> Option<&str> {
        self.secrets.known.as_ref().and_then(|known| known.endpoint.as_ref().err()).map(|error| error.0.as_str())
    }

    /// Drops a decision that nothing was done about.
    pub fn rest(&mut self) {
        if matches!(self.stage, Stage::Decided(_)) {
            self.stage = Stage::NotWatching;
        }
    }

    /// The present decision is being stored.
    pub fn storing(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::NotWatching) {
            Stage::Decided(decision) => Stage::Storing(decision),
            stage => stage,
        };
    }

    /// What was decided is stored, or could not be. Returns the message that is to be sent now.
    pub fn stored(&mut self, safely: bool) -> Option<Notification> {
        match std::mem::replace(&mut self.stage, Stage::NotWatching) {
            Stage::Storing(decision) if safely => {
                self.base = decision.state;
                if decision.send.is_some() {
                    self.stage = Stage::Sending;
                }
                decision.send
            }
            // It is decided anew: what there is may have changed by the next try.
            Stage::Storing(_) => None,
            stage => {
                self.stage = stage;
                None
            }
        }
    }

    /// To what a message is sent. A reminder goes where the last one went if that is no longer to be read.
    pub fn endpoint(&self, kind: MessageKind) -> Result<Arc<Endpoint>, Unusable> {
        let known = self.secrets.known.as_ref().map(|known| known.endpoint.clone());
        match (known, &self.good) {
            (Some(Ok(endpoint)), _) => Ok(endpoint),
            (_, Some(good)) if kind == MessageKind::Resend => Ok(Arc::clone(&good.endpoint)),
            (Some(Err(error)), _) => Err(error),
            (None, _) => Err(Unusable("its Secrets are not read yet".to_owned())),
        }
    }

    /// What reading the Secrets of a webhook has come to, whose spec may have changed since.
    pub fn read(&mut self, webhook: &Webhook, reading: Result<Reading, Unavailable>, now: Instant) {
        self.secrets.reading = false;
        if *webhook != self.subscriber.webhook {
            return;
        }
        match reading {
            Ok(Reading { config, receiver, endpoint }) => {
                if let Ok(endpoint) = &endpoint {
                    let new = Good { receiver: receiver.clone(), endpoint: Arc::clone(endpoint) };
                    let old = self.good.replace(new).filter(|old| old.receiver != receiver);
                    self.renamed = old
                        .filter(|old| old.endpoint.destination == endpoint.destination)
                        .map(|old| (old.receiver, receiver.clone()));
                }
                self.secrets.due = None;
                self.secrets.unanswered = false;
                self.secrets.known = Some(Known { config, receiver, endpoint, read: now });
            }
            Err(Unavailable) => {
                self.secrets.due = Some(now + UNANSWERED);
                self.secrets.unanswered = true;
            }
        }
    }

    /// How an attempt ended.
    pub fn sent(&mut self, message: &Notification, outcome: &AttemptOutcome, wall: Timestamp) {
        self.stage = Stage::NotWatching;
        self.base = record(&self.base, message, outcome, wall, fastrand::f64());
        if matches!(outcome, AttemptOutcome::Answered { status: 200..=299, .. }) {
            self.last_sent = Some(wall);
        }
    }
}
