//! One webhook of one object, between its state as stored and its receiver. No I/O.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use tokio::time::Instant;

use super::secrets::{Endpoint, Reading, Unavailable, Unusable};
use crate::{
    alerts::{Incident, Notification, ObjectName, Plan, Situation, Subscriber, plan, record, retry::Outcome},
    api::{Webhook, WebhookStatus},
};

/// How old what was read of the Secrets may be while something is wrong: a person may be mending it.
const TROUBLED: Duration = Duration::from_secs(10);
/// How old it may be when a message is sent.
const FRESH: Duration = Duration::from_secs(30);
/// How old it may be otherwise.
const STALE: Duration = Duration::from_secs(5 * 60);
/// When the API server is asked again after it gave no answer.
const UNANSWERED: Duration = Duration::from_secs(5);

/// What is to be told, and how much of the status it may take.
pub(super) struct News<'a> {
    pub object: &'a ObjectName,
    pub incidents: &'a [Incident],
    pub bytes: usize,
}

pub(super) struct Line {
    pub subscriber: Subscriber,
    /// The state that decisions start from: as it is stored, or newer by an outcome.
    base: WebhookStatus,
    /// Where it stands in the protocol.
    stage: Stage,
    secrets: Secrets,
    last_sent: Option<Timestamp>,
    wake: Option<Timestamp>,
}

enum Stage {
    /// Nothing is on its way.
    Idle,
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
    /// When to read next, whatever happens.
    due: Option<Instant>,
}

struct Known {
    config: String,
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
    pub fn new(subscriber: Subscriber, known: Option<WebhookStatus>) -> Self {
        let name = subscriber.policy.name.clone();
        Self {
            subscriber,
            base: known.unwrap_or_else(|| WebhookStatus { name, ..WebhookStatus::default() }),
            stage: Stage::Idle,
            secrets: Secrets::default(),
            last_sent: None,
            wake: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.subscriber.policy.name
    }

    /// Takes up what a new spec says of this webhook.
    pub fn respec(&mut self, subscriber: Subscriber, now: Instant) {
        if subscriber.webhook != self.subscriber.webhook {
            self.secrets.due = Some(now);
            self.secrets.known = None;
        }
        self.subscriber = subscriber;
    }

    /// Decides what to do, unless something is on its way.
    pub fn look(
        &mut self,
        news: Option<&News<'_>>,
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
        self.stage = Stage::Idle;
        let (Some(news), Some(known)) = (news, &self.secrets.known) else { return Wish::Nothing };
        let decision = plan(
            &self.base,
            &Situation {
                object: news.object,
                policy: &self.subscriber.policy,
                incidents: news.incidents,
                config: &known.config,
                last_sent: self.last_sent,
                bytes: news.bytes,
                now: wall,
            },
        );
        self.wake = decision.wake;
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
            Stage::Idle | Stage::Sending => &self.base,
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
            self.stage = Stage::Idle;
        }
    }

    /// The present decision is being stored.
    pub fn storing(&mut self) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Decided(decision) => Stage::Storing(decision),
            stage => stage,
        };
    }

    /// What was decided is stored, or could not be. Returns the message that is to be sent now.
    pub fn stored(&mut self, safely: bool) -> Option<Notification> {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
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

    /// To what a message is sent.
    pub fn endpoint(&self) -> Result<Arc<Endpoint>, Unusable> {
        let unknown = || Unusable("its Secrets are not read yet".to_owned());
        self.secrets.known.as_ref().map_or_else(|| Err(unknown()), |known| known.endpoint.clone())
    }

    /// What reading the Secrets of a webhook has come to, whose spec may have changed since.
    pub fn read(&mut self, webhook: &Webhook, reading: Result<Reading, Unavailable>, now: Instant) {
        self.secrets.reading = false;
        if *webhook != self.subscriber.webhook {
            return;
        }
        match reading {
            Ok(Reading { config, endpoint }) => {
                self.secrets.due = None;
                self.secrets.known = Some(Known { config, endpoint, read: now });
            }
            Err(Unavailable) => self.secrets.due = Some(now + UNANSWERED),
        }
    }

    /// How an attempt ended.
    pub fn sent(&mut self, message: &Notification, outcome: &Outcome, wall: Timestamp) {
        self.stage = Stage::Idle;
        self.base = record(&self.base, message, outcome, wall, fastrand::f64());
        if matches!(outcome, Outcome::Answered { status: 200..=299, .. }) {
            self.last_sent = Some(wall);
        }
    }
}
