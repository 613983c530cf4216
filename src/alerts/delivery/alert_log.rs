//! `--alert-log`: a line of JSON for each attempt to send a message, which names the message, its incidents and the result.
//!
//! A line contains names and times, but neither texts nor logs of incidents, and nothing of a Secret. Nothing waits for it to be
//! written: lines that the file or the reader does not take in time are left out, counted, and announced in the log itself.

mod writer;

use std::{
    io,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use serde::Serialize;

use super::send::Attempt;
use crate::{
    alerts::{Alert, Notification, Source, formats::farewell, retry::AttemptOutcome, sanitize},
    api::{Cause, MessageKind, Owner, TEAM_LENGTH},
    metrics::Metrics,
};
use writer::LineWriter;

/// How many lines may wait to be written.
const WAITING: usize = 256;
/// The largest line in bytes. Container runtimes cut longer ones apart, and many log pipelines drop them.
const LINE: usize = 16_000;
/// The least time between two warnings that lines are not written.
const WARN_INTERVAL: Duration = Duration::from_secs(60);
/// The field `target`, by which these lines differ from those of the operator's own log in the same stream.
const TARGET: &str = "orchestr::alert_log";

/// Clones share the log. By default, there is none.
#[derive(Clone, Debug, Default)]
pub struct AlertLog(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    lines: SyncSender<Job>,
    losses: Arc<Losses>,
}

enum Job {
    Write(String),
    /// Answer when all lines before are written.
    Flush(SyncSender<()>),
}

/// The lines that were not written since the last one that was.
#[derive(Debug)]
struct Losses {
    lines: AtomicU64,
    warned: Mutex<Option<Instant>>,
    metrics: Metrics,
}

impl AlertLog {
    /// Appends to a file, which is created if necessary; `-` is standard output.
    ///
    /// # Errors
    /// If the file cannot be opened, or the thread not be started.
    pub fn start(target: &Path, metrics: Metrics) -> io::Result<Self> {
        let writer = LineWriter::open(target)?;
        let (sender, lines) = sync_channel(WAITING);
        let losses = Arc::new(Losses { lines: AtomicU64::new(0), warned: Mutex::default(), metrics });
        let shared = Arc::new(Shared { lines: sender, losses: Arc::clone(&losses) });
        thread::Builder::new().name("alert-log".to_owned()).spawn(move || write(writer, &lines, &losses))?;
        Ok(Self(Some(shared)))
    }

    /// Waits until all lines are written, but no longer than this.
    pub fn close(&self, limit: Duration) {
        let Some(shared) = &self.0 else { return };
        let (done, is_done) = sync_channel(1);
        let is_written = shared.lines.try_send(Job::Flush(done)).is_ok() && is_done.recv_timeout(limit).is_ok();
        if !is_written {
            tracing::warn!("the last lines of the alert log may be missing: it is not written in time");
        }
    }

    /// An attempt to send a message. Messages that only keep alerts alive, which Alertmanager is sent every minute, have no line.
    pub(super) fn sent(&self, message: &Notification, progress: Progress, attempt: &Attempt) {
        if self.0.is_some() && message.kind != MessageKind::Resend {
            self.push(|| line(message, progress, attempt, Timestamp::now()));
        }
    }

    /// Incidents whose start, or whose end, is not sent any more.
    pub(super) fn dropped(&self, source: &Source, webhook: &str, incidents: u64) {
        self.push(|| {
            let head = Head::new("WARN", "not sent", source, Timestamp::now());
            json(&Dropped { head, webhook, result: "dropped", incidents_dropped: incidents })
        });
    }

    fn push(&self, line: impl FnOnce() -> String) {
        let Some(shared) = &self.0 else { return };
        match shared.lines.try_send(Job::Write(line())) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => shared.losses.lost("dropped", "its file or reader is too slow"),
            Err(TrySendError::Disconnected(_)) => shared.losses.lost("dropped", "its thread has ended"),
        }
    }
}

/// Runs until all clones of the log are dropped.
fn write(mut writer: LineWriter, lines: &Receiver<Job>, losses: &Losses) {
    for job in lines {
        match job {
            Job::Write(line) => match losses.announce(&mut writer).and_then(|()| writer.write(&line)) {
                Ok(()) => losses.metrics.alert_log_line("written"),
                Err(error) => losses.lost("failed", &error.to_string()),
            },
            // Whoever waits for it may have given up.
            Job::Flush(done) => _ = done.send(()),
        }
    }
}

impl Losses {
    /// Counts a line that is not written.
    fn lost(&self, result: &'static str, why: &str) {
        self.lines.fetch_add(1, Ordering::Relaxed);
        self.metrics.alert_log_line(result);
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|at| at.elapsed() >= WARN_INTERVAL) {
            *warned = Some(Instant::now());
            tracing::warn!(why, "lines of the alert log are not written");
        }
    }

    /// Says in the log how many lines are missing, if any are.
    fn announce(&self, writer: &mut LineWriter) -> io::Result<()> {
        let lines = self.lines.load(Ordering::Relaxed);
        if lines > 0 {
            let source = Source::default();
            let head = Head::new("WARN", "lines are missing here", &source, Timestamp::now());
            writer.write(&json(&Missing { head, lines }))?;
            self.lines.fetch_sub(lines, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// What a webhook's state says about an attempt.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    pub format: &'static str,
    /// The number of the attempt at the message; zero if they are not counted.
    pub attempt: i64,
    /// When the webhook is tried next, if the message was not delivered.
    pub retry_at: Option<Timestamp>,
}

/// The fields that all lines have. The first four are those of the operator's own log.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    timestamp: Timestamp,
    level: &'static str,
    target: &'static str,
    message: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cluster: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    object: &'a str,
}

impl<'a> Head<'a> {
    fn new(level: &'static str, message: &'static str, source: &'a Source, timestamp: Timestamp) -> Self {
        let Source { object, cluster, .. } = source;
        Self { timestamp, level, target: TARGET, message, cluster, namespace: &object.namespace, object: &object.name }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sent<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    webhook: &'a str,
    format: &'static str,
    id: &'a str,
    kind: &'static str,
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The HTTP status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    milliseconds: u64,
    #[serde(skip_serializing_if = "is_zero")]
    attempt: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
    incidents: Vec<Entry>,
    /// How many incidents the message, or this line, has no room to name.
    #[serde(skip_serializing_if = "is_zero")]
    omitted: u64,
    /// The number of incidents beyond those that are sent one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    storm: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Dropped<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    webhook: &'a str,
    result: &'static str,
    incidents_dropped: u64,
}

#[derive(Serialize)]
struct Missing<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    lines: u64,
}

/// An incident in a line: `status`, `startsAt` and `endsAt` as of an alert of Alertmanager, the others as in the status of the
/// object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    key: String,
    status: &'static str,
    /// The message only repeats it, because it continues.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ongoing: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    owner: Owner,
    #[serde(skip_serializing_if = "String::is_empty")]
    container: String,
    kind: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "is_unknown")]
    cause: Cause,
    severity: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    team: String,
    starts_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_at: Option<Timestamp>,
}

impl Entry {
    fn new(alert: &Alert, ongoing: bool) -> Self {
        let Owner { kind, name } = &*alert.owner;
        Self {
            key: sanitize::single_line(&alert.key, 32),
            status: if alert.resolved_at.is_some() { "resolved" } else { "firing" },
            ongoing,
            namespace: sanitize::single_line(&alert.namespace, 63),
            owner: Owner { kind: sanitize::single_line(kind, 63), name: sanitize::single_line(name, 253) },
            container: sanitize::single_line(&alert.container, 63),
            kind: if alert.is_common_cause { "CommonCause" } else { alert.kind.as_str() },
            reason: sanitize::single_line(&alert.reason, 128),
            cause: alert.cause,
            severity: alert.severity.as_str(),
            team: sanitize::single_line(&alert.team, TEAM_LENGTH),
            starts_at: alert.since,
            ends_at: alert.resolved_at,
        }
    }
}

/// The line about an attempt. It names the incidents that begin or end before those that continue, as far as there is room.
fn line(message: &Notification, progress: Progress, attempt: &Attempt, now: Timestamp) -> String {
    let (is_delivered, status) = match attempt.outcome {
        AttemptOutcome::Answered { status, .. } => ((200..300).contains(&status), Some(status)),
        AttemptOutcome::Reported { status, .. } | AttemptOutcome::Refused { status, .. } => (false, Some(status)),
        _ => (false, None),
    };
    let (level, text) = if is_delivered { ("INFO", "delivered") } else { ("WARN", "not delivered") };
    let changed = message.started.iter().chain(&message.resolved).map(|alert| Entry::new(alert, false));
    let mut line = Sent {
        head: Head::new(level, text, &message.source, now),
        webhook: &message.webhook,
        format: progress.format,
        id: &message.id,
        kind: message.kind.as_str(),
        result: attempt.outcome.as_str(),
        // Of the receiver's answer, only the status: its text may quote the message.
        reason: (!is_delivered).then(|| attempt.outcome.reason()),
        status,
        milliseconds: u64::try_from(attempt.latency.as_millis()).unwrap_or(u64::MAX),
        attempt: progress.attempt,
        retry_at: progress.retry_at.filter(|_| !is_delivered),
        note: message.farewell.map(farewell),
        incidents: changed.chain(message.ongoing.iter().map(|alert| Entry::new(alert, true))).collect(),
        omitted: message.omitted,
        storm: message.storm.as_ref().map(|storm| storm.count),
    };
    loop {
        let text = json(&line);
        if text.len() <= LINE || line.incidents.is_empty() {
            return text;
        }
        let kept = line.incidents.len() * 3 / 4;
        line.omitted += (line.incidents.len() - kept) as u64;
        line.incidents.truncate(kept);
    }
}

/// One line of JSON with its line break. The types above can always be serialized.
fn json(line: &impl Serialize) -> String {
    serde_json::to_string(line).unwrap_or_default() + "\n"
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

fn is_unknown(cause: &Cause) -> bool {
    *cause == Cause::Unknown
}

#[cfg(test)]
mod tests;
