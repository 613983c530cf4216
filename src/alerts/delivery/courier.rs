//! The task that serves one object's webhooks: one write of its status at a time, one request at a time
//! for each webhook.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep_until, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    HttpClient,
    condition::{Seen, delivered},
    farewell::{FAREWELL, last_messages},
    line::{Line, ObjectInput, Wish},
    persist::{ObjectId, Record, Stored, persist},
    rival::Rival,
    secrets::{Reading, SecretReader, Unavailable},
    send::{Attempt, send},
};
use crate::{
    alerts::{Incident, IncidentMemory, Notification, Source, ValidatedWebhook, alert_bytes, retry::AttemptOutcome},
    api::{NamespacedName, Webhook},
    backoff::Backoff,
    clock::ClusterClock,
};

/// The least time from one write to the next where no message waits for it.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// How long nothing is done at most; clocks may be set meanwhile.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// What all couriers share.
pub(super) struct Office {
    pub client: Client,
    pub clock: ClusterClock,
    pub http: Arc<HttpClient>,
    pub secrets: SecretReader,
    /// Requests to the API server that may be under way at once.
    pub permits: Arc<Semaphore>,
    /// Objects whose receivers may be sent their last messages at once.
    pub farewells: Arc<Semaphore>,
    /// The cluster's name; empty if it has none.
    pub cluster: String,
    pub shutdown: CancellationToken,
}

/// What the controller last said of an object.
#[derive(Clone, Default)]
pub(super) struct Feed {
    pub generation: i64,
    pub subscribers: Arc<[ValidatedWebhook]>,
    /// Absent while nothing is known of the pods, or the object is paused.
    pub incidents: Option<Arc<[Incident]>>,
    /// The keys of incidents that are gone and cannot come back.
    pub ended: Arc<[String]>,
    /// What the API has stored.
    pub stored: Arc<Stored>,
    /// Whether the object was deleted.
    pub deleted: bool,
}

pub(super) struct Courier {
    office: Arc<Office>,
    object: ObjectId,
    source: Source,
    generation: i64,
    lines: Vec<Line>,
    memory: IncidentMemory,
    /// All incidents, as they were known last.
    incidents: Vec<Incident>,
    /// Whether they are known at present.
    known: bool,
    ended: Arc<[String]>,
    /// As it stands in the API.
    stored: Record,
    /// As the API last answered, and in which version. It may lack what the installed CRD does not know.
    answered: Stored,
    /// What the API has by what the controller saw.
    seen: Arc<Stored>,
    /// What was written, by writes whose outcome is not known.
    tried: Option<Record>,
    rival: Rival,
    /// Somebody else has changed what was stored.
    restore: bool,
    writing: bool,
    last_write: Option<Instant>,
    backoff: Backoff,
    not_before: Option<Instant>,
    /// An outcome waits to be recorded.
    unrecorded: bool,
    doing: FuturesUnordered<BoxFuture<'static, Done>>,
}

enum Done {
    Read { webhook: Box<Webhook>, reading: Result<Reading, Unavailable> },
    Written { record: Box<Record>, result: Result<Stored, String> },
    Sent { name: String, message: Box<Notification>, attempt: Attempt },
}

impl Courier {
    pub fn new(office: Arc<Office>, object: ObjectId, stored: Arc<Stored>) -> Self {
        Self {
            source: Source { object: object.key.clone(), uid: object.uid.clone(), cluster: office.cluster.clone() },
            office,
            object,
            generation: 0,
            lines: Vec::new(),
            memory: IncidentMemory::default(),
            incidents: Vec::new(),
            known: false,
            ended: Arc::default(),
            stored: stored.record.clone(),
            answered: Stored::clone(&stored),
            seen: stored,
            tried: None,
            rival: Rival::default(),
            restore: false,
            writing: false,
            last_write: None,
            backoff: Backoff::new(Duration::from_millis(500), Duration::from_secs(60)),
            not_before: None,
            unrecorded: false,
            doing: FuturesUnordered::new(),
        }
    }

    /// Serves until the controller lets go of the object, or, at a shutdown, until what is under way has
    /// been recorded.
    pub async fn run(mut self, mut feed: watch::Receiver<Feed>) {
        let shutdown = self.office.shutdown.clone();
        let first = feed.borrow_and_update().clone();
        self.take(first);
        loop {
            if feed.borrow().deleted {
                return self.farewell().await;
            }
            let stopping = shutdown.is_cancelled();
            let wake = self.act(stopping);
            if stopping && self.is_done() {
                return;
            }
            tokio::select! {
                () = shutdown.cancelled(), if !stopping => {}
                changed = feed.changed(), if !stopping => match changed {
                    Ok(()) => {
                        let next = feed.borrow_and_update().clone();
                        self.take(next);
                    }
                    Err(_) => return,
                },
                Some(done) = self.doing.next() => self.on_done(done),
                () = sleep_until(wake) => {}
            }
        }
    }

    fn is_done(&self) -> bool {
        !self.writing && !self.unrecorded && self.lines.iter().all(|line| !line.is_sending())
    }

    fn take(&mut self, feed: Feed) {
        let now = Instant::now();
        self.generation = feed.generation;
        let mut old = std::mem::take(&mut self.lines);
        for subscriber in feed.subscribers.iter() {
            let known = old.iter().position(|line| line.name() == subscriber.policy.name);
            self.lines.push(match known.map(|index| old.swap_remove(index)) {
                Some(mut line) => {
                    line.update_spec(subscriber.clone(), now);
                    line
                }
                None => {
                    let stored = self.stored.webhooks.iter().find(|state| state.name == subscriber.policy.name);
                    Line::new(subscriber.clone(), stored.cloned())
                }
            });
        }
        self.known = feed.incidents.is_some();
        if let Some(incidents) = feed.incidents {
            self.incidents = incidents.to_vec();
            self.memory.update(&mut self.incidents);
        }
        self.ended = feed.ended;
        self.seen = feed.stored;
        self.notice_others(now);
    }

    /// Notices that somebody else has changed what is stored. It is written again as it is remembered here: no page that
    /// is open is lost, and nothing is sent twice.
    fn notice_others(&mut self, now: Instant) {
        if self.writing || !self.seen.is_newer_than(&self.answered.version) {
            return;
        }
        self.answered.version.clone_from(&self.seen.version);
        if self.seen.record == self.answered.record {
            return;
        }
        let ours = self.tried.as_ref() == Some(&self.seen.record);
        self.answered.record.clone_from(&self.seen.record);
        self.stored.clone_from(&self.seen.record);
        if ours {
            return;
        }
        self.restore = true;
        if self.rival.wrote(now) {
            let NamespacedName { namespace, name } = &self.object.key;
            tracing::warn!(
                namespace,
                name,
                "somebody else keeps changing status.webhooks or AlertsDelivered: does a second operator run in this \
                 cluster?"
            );
        }
    }

    fn input(&self) -> ObjectInput<'_> {
        ObjectInput {
            source: &self.source,
            incidents: &self.incidents,
            known: self.known,
            memory: &self.memory,
            ended: &self.ended,
            bytes: alert_bytes(self.lines.len()),
        }
    }

    /// Sends the last messages of an object that was deleted: nobody watches any more what its receivers take for firing.
    async fn farewell(mut self) {
        let deadline = Instant::now() + FAREWELL;
        let said = timeout_at(deadline, async {
            while self.lines.iter().any(Line::is_sending) {
                match self.doing.next().await {
                    Some(Done::Sent { name, message, attempt }) => self.on_sent(&name, &message, &attempt),
                    Some(_) => {}
                    None => break,
                }
            }
            let _permit = self.office.farewells.acquire().await;
            let input = self.input();
            let farewells = self.lines.iter().filter_map(|line| {
                let (endpoint, messages) = line.farewell(&input, self.office.clock.now())?;
                Some(last_messages(&self.office.http, endpoint, messages, line.subscriber.policy.timeout))
            });
            futures::future::join_all(farewells).await.into_iter().all(|taken| taken)
        })
        .await;
        let NamespacedName { namespace, name } = &self.object.key;
        match said {
            Ok(true) => tracing::debug!(namespace, name, "nothing of the object is left open"),
            _ => tracing::warn!(namespace, name, "a receiver did not learn that the object was deleted"),
        }
    }

    /// Begins all that can be begun, and returns when to look again.
    fn act(&mut self, stopping: bool) -> Instant {
        let (now, wall) = (Instant::now(), self.office.clock.now());
        if stopping {
            self.lines.iter_mut().for_each(Line::rest);
        } else {
            self.decide(now, wall);
        }
        let at = self.write(now, wall);
        let mut wake = now + LONGEST_REST;
        for line in &self.lines {
            let (time, secrets) = line.wakes();
            let time = time.map(|at| now + Duration::try_from(at.duration_since(wall)).unwrap_or_default());
            wake = time.into_iter().chain(secrets).fold(wake, Instant::min);
        }
        // A clock that ticks in seconds must not make this spin.
        at.into_iter().fold(wake, Instant::min).max(now + Duration::from_millis(20))
    }

    fn decide(&mut self, now: Instant, wall: Timestamp) {
        let mut lines = std::mem::take(&mut self.lines);
        let input = ObjectInput { bytes: alert_bytes(lines.len()), ..self.input() };
        let wishes: Vec<Wish> = lines
            .iter_mut()
            .map(|line| {
                let stored = self.stored.webhooks.iter().find(|state| state.name == line.name());
                line.look(&input, stored, now, wall)
            })
            .collect();
        self.lines = lines;
        for (index, wish) in wishes.into_iter().enumerate() {
            match wish {
                Wish::Nothing => {}
                Wish::Read => self.read(index),
                Wish::Send(message) => self.send(index, message),
            }
        }
    }

    fn read(&mut self, index: usize) {
        let office = Arc::clone(&self.office);
        let (namespace, webhook) = (self.object.key.namespace.clone(), self.lines[index].subscriber.webhook.clone());
        self.doing.push(
            async move {
                let _permit = office.permits.acquire().await;
                let reading = office.secrets.read(&namespace, &webhook).await;
                Done::Read { webhook: Box::new(webhook), reading }
            }
            .boxed(),
        );
    }

    fn send(&mut self, index: usize, message: Box<Notification>) {
        let line = &self.lines[index];
        let (endpoint, name) = (line.endpoint(message.kind), line.name().to_owned());
        let (http, timeout) = (Arc::clone(&self.office.http), line.subscriber.policy.timeout);
        self.doing.push(
            async move {
                let attempt = match endpoint {
                    Ok(endpoint) => send(&http, &endpoint, &message, timeout).await,
                    Err(error) => Attempt { outcome: AttemptOutcome::Unusable(error.0), latency: Duration::ZERO },
                };
                Done::Sent { name, message, attempt }
            }
            .boxed(),
        );
    }

    /// Begins a write if there is something to be written, or returns when that may be done.
    fn write(&mut self, now: Instant, wall: Timestamp) -> Option<Instant> {
        if self.writing {
            return None;
        }
        let record = self.record(wall);
        if record == self.stored {
            self.unrecorded = false;
            return None;
        }
        let urgent = self.unrecorded || self.lines.iter().any(Line::is_urgent);
        // What is not yet known is no input: the state of an earlier run stands until it is.
        let unknown = !self.known || self.lines.iter().any(|line| !line.is_known());
        if unknown && !urgent && !self.restore && !self.lines.is_empty() {
            return None;
        }
        let paced = self.last_write.map(|last| last + WRITE_INTERVAL).max(self.rival.patience()).filter(|_| !urgent);
        if let Some(at) = paced.max(self.not_before).filter(|at| *at > now) {
            return Some(at);
        }
        self.writing = true;
        self.last_write = Some(now);
        self.unrecorded = false;
        self.restore = false;
        self.tried = Some(record.clone());
        self.lines.iter_mut().for_each(Line::storing);
        let (office, object) = (Arc::clone(&self.office), self.object.clone());
        self.doing.push(
            async move {
                let _permit = office.permits.acquire().await;
                let result = persist(&office.client, &object, &record).await;
                Done::Written { record: Box::new(record), result }
            }
            .boxed(),
        );
        None
    }

    fn record(&self, wall: Timestamp) -> Record {
        let webhooks: Vec<_> = self.lines.iter().map(|line| line.state().clone()).collect();
        let seen: Vec<_> =
            self.lines.iter().zip(&webhooks).map(|(line, state)| Seen { state, unusable: line.unusable() }).collect();
        let condition = delivered(&seen, self.generation, self.stored.condition.as_ref(), wall);
        Record { webhooks, condition }
    }

    fn on_done(&mut self, done: Done) {
        let now = Instant::now();
        match done {
            Done::Read { webhook, reading } => {
                if let Some(line) = self.lines.iter_mut().find(|line| line.name() == webhook.name) {
                    line.read(&webhook, reading, now);
                }
            }
            Done::Written { record, result } => self.on_written(*record, result, now),
            Done::Sent { name, message, attempt } => self.on_sent(&name, &message, &attempt),
        }
    }

    fn on_written(&mut self, record: Record, result: Result<Stored, String>, now: Instant) {
        self.writing = false;
        let safely = result.is_ok();
        match result {
            Ok(answer) => {
                self.stored = record;
                self.answered = answer;
                self.tried = None;
                self.backoff.reset();
                self.not_before = None;
            }
            Err(error) => {
                let delay = self.backoff.next_delay();
                self.not_before = Some(now + delay);
                let NamespacedName { namespace, name } = &self.object.key;
                tracing::warn!(namespace, name, error, "could not store the state of the webhooks");
            }
        }
        for index in 0..self.lines.len() {
            if let Some(message) = self.lines[index].stored(safely) {
                self.send(index, Box::new(message));
            }
        }
        self.unrecorded |= !safely;
        self.notice_others(now);
    }

    fn on_sent(&mut self, name: &str, message: &Notification, attempt: &Attempt) {
        let sender = |line: &&mut Line| line.name() == name && line.is_sending();
        let Some(line) = self.lines.iter_mut().find(sender) else { return };
        line.sent(message, &attempt.outcome, self.office.clock.now());
        self.unrecorded = true;
        let NamespacedName { namespace, name: object } = &self.object.key;
        // As u64: the log writes a u128 as text.
        let milliseconds = u64::try_from(attempt.latency.as_millis()).unwrap_or(u64::MAX);
        match &attempt.outcome {
            AttemptOutcome::Answered { status: status @ 200..=299, .. } => {
                tracing::info!(namespace, object, webhook = name, status, milliseconds, id = message.id, "delivered");
            }
            outcome => {
                let reason = outcome.reason();
                tracing::warn!(
                    namespace,
                    object,
                    webhook = name,
                    reason,
                    milliseconds,
                    id = message.id,
                    "not delivered"
                );
            }
        }
    }
}
