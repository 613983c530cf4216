//! `orchestr scan --watch`: keeps watching the pods, and shows what changes.
//!
//! [`Pods`](pods::Pods) keeps what the watches have shown, and judges it. It is pure. `view` shows the result: on a terminal a
//! table that is drawn again, otherwise a line for each change.

mod pods;
mod view;

use std::{process::ExitCode, time::Duration};

use futures::{
    FutureExt, StreamExt,
    stream::{BoxStream, SelectAll},
};
use jiff::Timestamp;
use kube::core::Status;
use tokio::{
    select,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep_until},
};

use crate::{
    cli::{
        Failure,
        api_error::{Grant, Permission},
        connect::{Retries, connect},
        event_lists::EventLists,
        jobs::{self, Jobs},
    },
    clock::ClusterClock,
    config::StreamingLists,
    events::{WatchedEvent, watch_events},
    logs::clean_text,
    pods::{WatchedPod, watch_pods},
    watch::WatchUpdate,
};

use super::{
    INCOMPLETE, PROBLEMS, ScanFlags,
    cluster::{Source, check_namespaces_exist},
    collector::Filter,
    output::Output,
};
use pods::Pods;
use view::{Shown, View};

/// The shortest time between two drawings, or between two groups of lines.
const INTERVAL: Duration = Duration::from_secs(1);
/// Shorter outages are not mentioned.
const OUTAGE: Duration = Duration::from_secs(2);
/// The most updates that are applied before the pods are judged again.
const BATCH: usize = 1000;
/// Each namespace needs two connections.
const MOST_NAMESPACES: usize = 50;
/// When a Job that has not ended is read again.
const READ_JOBS_AGAIN: Duration = Duration::from_secs(15);
/// The longest error that is shown, in bytes.
const ERROR_LIMIT: usize = 300;

enum Update {
    Pod(usize, WatchUpdate<WatchedPod>),
    Event(WatchUpdate<WatchedEvent>),
}

pub(super) async fn watch(flags: &ScanFlags, filter: Filter) -> Result<ExitCode, Failure> {
    if !matches!(flags.output, Output::Table | Output::Wide) {
        return Err(Failure::new("--watch prints a table, or a line for each change: it cannot be combined with -o"));
    }
    if flags.clusters.contexts()?.is_some() {
        return Err(Failure::new("--watch is for one cluster: give one --context"));
    }
    let names = filter.namespaces.names();
    let scopes: Vec<Option<String>> = names.map_or_else(|| vec![None], |names| names.into_iter().map(Some).collect());
    if scopes.len() > MOST_NAMESPACES {
        let count = scopes.len();
        return Err(Failure::new(format!("{count} namespaces are too many to watch: name at most {MOST_NAMESPACES}")));
    }
    let mut cluster = connect(&flags.clusters.connection(None), Retries::AtTheCaller).await?;
    let clock = ClusterClock::default();
    cluster.client = clock.wrap_client(cluster.client, |_, _, _| {});
    let source = Source { cluster, timeout: flags.clusters.timeout(false) };
    let mut updates = SelectAll::new();
    for (index, scope) in scopes.iter().enumerate() {
        let client = &source.cluster.client;
        let pods = watch_pods(client.clone(), scope.as_deref(), StreamingLists::Auto, Duration::ZERO);
        updates.push(pods.map(move |update| Update::Pod(index, update)).boxed());
        updates.push(watch_events(client.clone(), scope.as_deref(), Duration::ZERO).map(Update::Event).boxed());
    }
    let pods = Pods::new(flags.thresholds.thresholds(), filter, scopes.len());
    let view = View::new(source.cluster.target.name(), flags.output == Output::Wide);
    let jobs = Jobs::new(source.cluster.client.clone(), source.timeout, READ_JOBS_AGAIN);
    let lists = EventLists::new(source.cluster.client.clone());
    let (outage, are_events_denied) = (Outage::default(), false);
    let run = Run { source: &source, scopes, clock, pods, jobs, lists, view, outage, are_events_denied };
    run.until_interrupted(updates).await
}

struct Run<'a> {
    source: &'a Source,
    scopes: Vec<Option<String>>,
    clock: ClusterClock,
    pods: Pods,
    jobs: Jobs,
    lists: EventLists,
    view: View,
    outage: Outage,
    are_events_denied: bool,
}

impl Run<'_> {
    async fn until_interrupted(
        mut self,
        mut updates: SelectAll<BoxStream<'static, Update>>,
    ) -> Result<ExitCode, Failure> {
        let mut signals = Signals::new().map_err(|error| Failure::new(format!("cannot handle signals: {error}")))?;
        let mut is_checked = false;
        let mut last = Shown::default();
        let mut shown_at: Option<Instant> = None;
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            if now >= due {
                self.fail_if_denied()?;
                if self.pods.is_synced() && !is_checked {
                    is_checked = true;
                    // A namespace that does not exist must not pass as healthy.
                    let namespaces = self.pods.namespaces().clone();
                    select! {
                        checked = check_namespaces_exist(self.source, &namespaces) => checked?,
                        () = signals.next() => break,
                    }
                }
                let time = self.clock.now();
                self.pods.compact(time);
                let mut judged = self.pods.judge(&|job| self.jobs.facts(job), time);
                self.jobs.read(std::mem::take(&mut judged.needed_jobs), now);
                // The watch shows the events from now on.
                judged.problems.iter().for_each(|(pod, _)| self.lists.ask(&pod.namespace));
                let (outage, news) = self.outage.update(self.pods.failure(), now, time);
                news.into_iter().for_each(|news| self.view.report(&news));
                let recheck = judged.recheck.map(|recheck| now + until(recheck, time));
                let is_current = self.pods.failure().is_none();
                last = Shown { is_synced: self.pods.is_synced(), is_current, outage, judged };
                let again = match self.view.show(&mut last, self.pods.namespaces(), time, now) {
                    Ok(again) => again,
                    // The reader has closed the pipe.
                    Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
                    Err(error) => return Err(Failure::new(format!("cannot write the output: {error}"))),
                };
                shown_at = Some(now).filter(|_| last.is_synced);
                let wakes = [recheck, again, self.outage.due(), self.jobs.due(now)];
                due = wakes.into_iter().flatten().fold(now + Duration::from_secs(3600), Instant::min);
                due = due.max(now + INTERVAL);
            }
            select! {
                Some(update) = updates.next() => self.apply_all(update, &mut updates),
                note = self.jobs.next() => match note {
                    Some(note) if note != jobs::FAILED => self.view.note(note),
                    // A terminal shows how many pods are not judged.
                    Some(note) => self.view.report(note),
                    None => {}
                },
                (_, events) = self.lists.next() => {
                    events.into_iter().flatten().for_each(|event| self.pods.add_event(event));
                }
                () = sleep_until(due) => continue,
                () = signals.next() => break,
            }
            // What changes is shown immediately, unless something was shown within the last second.
            due = due.min(shown_at.map_or(now, |shown| shown + INTERVAL));
        }
        Ok(exit_code(&last))
    }

    /// Applies an update and all others that have arrived.
    fn apply_all(&mut self, first: Update, updates: &mut SelectAll<BoxStream<'static, Update>>) {
        self.apply(first);
        for _ in 0..BATCH {
            match updates.next().now_or_never() {
                Some(Some(update)) => self.apply(update),
                _ => return,
            }
        }
    }

    fn apply(&mut self, update: Update) {
        match update {
            Update::Pod(index, update) => self.pods.apply(index, update, self.clock.now()),
            Update::Event(WatchUpdate::Applied(event)) => self.pods.add_event(event),
            Update::Event(WatchUpdate::Denied(_)) if !self.are_events_denied => {
                self.are_events_denied = true;
                self.view.note("you may not watch events: causes that only events prove are missing");
            }
            Update::Event(_) => {}
        }
    }

    /// Fails if the pods may not be read from the beginning.
    fn fail_if_denied(&mut self) -> Result<(), Failure> {
        let Some((index, message)) = self.pods.denial() else { return Ok(()) };
        let verb = if message.contains(" cannot watch ") { "watch" } else { "list" };
        let namespace = self.scopes.get(index).and_then(Option::as_deref);
        let permission = Permission { verb, resource: "pods", namespace, grant: Grant::View };
        let error = kube::Error::Api(Status::failure(&message, "Forbidden").with_code(403).boxed());
        Err(self.source.cluster.target.describe_denied(&error, &permission))
    }
}

/// As of `scan` for the last state: 2 if it is not known.
fn exit_code(last: &Shown) -> ExitCode {
    let judged = &last.judged;
    match judged.problems.len() {
        _ if !last.is_synced || last.outage.is_some() => ExitCode::from(INCOMPLETE),
        1.. => ExitCode::from(PROBLEMS),
        0 if !judged.is_complete() => ExitCode::from(INCOMPLETE),
        0 => ExitCode::SUCCESS,
    }
}

/// How long until a time of the cluster.
fn until(time: Timestamp, now: Timestamp) -> Duration {
    // The estimate of the cluster's clock moves, so a wake-up must not be too early.
    const MARGIN: Duration = Duration::from_millis(20);
    Duration::try_from(time.duration_since(now)).unwrap_or_default().saturating_add(MARGIN)
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Since when the API server cannot be asked, if that lasts.
#[derive(Debug, Default)]
struct Outage {
    since: Option<(Instant, Timestamp)>,
    is_noted: bool,
}

impl Outage {
    /// Returns the sentence about the outage, if there is one, and what is new.
    fn update(&mut self, failure: Option<&str>, now: Instant, time: Timestamp) -> (Option<String>, Option<String>) {
        let Some(failure) = failure else {
            self.since = None;
            let was_noted = std::mem::take(&mut self.is_noted);
            return (None, was_noted.then(|| "the API server answers again".to_owned()));
        };
        let (since, began) = *self.since.get_or_insert((now, time));
        if now < since + OUTAGE {
            return (None, None);
        }
        let why = clean_text(failure, None, ERROR_LIMIT);
        let began = began.strftime("%Y-%m-%dT%H:%M:%SZ");
        let sentence = format!("the API server cannot be asked since {began}, so this may be outdated: {why}");
        let is_new = !std::mem::replace(&mut self.is_noted, true);
        (Some(sentence.clone()), is_new.then_some(sentence))
    }

    /// When there will be something to say.
    fn due(&self) -> Option<Instant> {
        self.since.filter(|_| !self.is_noted).map(|(since, _)| since + OUTAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mentions_an_outage_once_and_not_if_it_is_short() {
        let (now, mut outage) = (Instant::now(), Outage::default());
        let time: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        assert_eq!(outage.update(Some("refused"), now, time), (None, None));
        assert_eq!(outage.due(), Some(now + OUTAGE));
        assert_eq!(outage.update(None, now, time), (None, None));
        assert_eq!(outage.update(Some("refused"), now, time), (None, None));
        let sentence = "the API server cannot be asked since 2026-03-01T12:00:00Z, so this may be outdated: refused";
        let sentence = Some(sentence.to_owned());
        assert_eq!(outage.update(Some("refused"), now + OUTAGE, time), (sentence.clone(), sentence.clone()));
        assert_eq!(outage.update(Some("refused"), now + 2 * OUTAGE, time), (sentence, None));
        let again = Some("the API server answers again".to_owned());
        assert_eq!(outage.update(None, now + 2 * OUTAGE, time), (None, again));
    }
}
