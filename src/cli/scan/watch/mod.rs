//! `orchestr scan --watch`: keeps watching the pods, and shows what changes.
//!
//! A [`Collector`] keeps what the watches have shown, and judges it. `screen` shows the result: on a terminal a
//! table that is drawn again, otherwise a line for each change.

mod screen;

use std::{process::ExitCode, time::Duration};

use futures::{
    StreamExt,
    stream::{BoxStream, SelectAll},
};
use jiff::Timestamp;
use tokio::{
    select,
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep_until},
};

use crate::{
    cli::{
        Failure,
        connect::{Retries, connect},
        live::{self, ClusterView, Note, Outage, OutageNews},
    },
    clock::ClusterClock,
    config::StreamingLists,
    events::{WatchedEvent, watch_events},
    logs::clean_text,
    pods::{WatchedPod, watch_pods},
    watch::WatchUpdate,
};

use super::{
    cluster::{Source, check_namespaces_exist},
    collector::Collector,
    filter::Filter,
    flags::{INCOMPLETE, Output, PROBLEMS, ScanFlags},
};
use screen::{Screen, Shown};

/// The shortest time between two drawings, or between two groups of lines.
const INTERVAL: Duration = Duration::from_secs(1);
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
    let thresholds = flags.thresholds.thresholds();
    let view = ClusterView::of(source.cluster.client.clone(), thresholds.restarted, source.timeout, READ_JOBS_AGAIN);
    let pods = Collector::of_watches(&scopes, view, thresholds, filter);
    let screen = Screen::new(flags.output == Output::Wide);
    let run = Run { source: &source, clock, pods, screen, outage: Outage::default(), was_unreachable: false };
    run.until_interrupted(updates).await
}

struct Run<'a> {
    source: &'a Source,
    clock: ClusterClock,
    pods: Collector,
    screen: Screen,
    outage: Outage,
    /// Whether the API server could not be asked at some time of the outage. Otherwise, missed changes were read.
    was_unreachable: bool,
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
                    let namespaces = self.pods.filter.namespaces.clone();
                    select! {
                        checked = check_namespaces_exist(self.source, &namespaces) => checked?,
                        () = signals.next() => break,
                    }
                }
                let time = self.clock.now();
                self.pods.now = time;
                self.pods.view.compact(time, now);
                self.pods.judge();
                // The watches show later events; this lists the earlier ones.
                let troubled = self.pods.troubled_namespaces();
                self.pods.view.read(troubled.keys().map(String::as_str), now);
                let outage = self.outage(now, time);
                let recheck = self.pods.recheck.map(|recheck| now + live::until(recheck, time));
                let is_current = self.pods.failure().is_none();
                let missing_events = self.pods.view.missing_events().map(Note::as_str);
                last = Shown { is_synced: self.pods.is_synced(), is_current, outage, missing_events };
                let again = match self.screen.show(&self.pods, &last, now) {
                    Ok(again) => again,
                    // The reader has closed the pipe.
                    Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => break,
                    Err(error) => return Err(Failure::new(format!("cannot write the output: {error}"))),
                };
                shown_at = Some(now).filter(|_| last.is_synced);
                let wakes = [recheck, again, self.outage.due(), self.pods.view.due(now)];
                due = wakes.into_iter().flatten().fold(now + Duration::from_secs(3600), Instant::min);
                due = due.max(now + INTERVAL);
            }
            select! {
                Some(update) = updates.next() => {
                    live::arrived(update, &mut updates).into_iter().for_each(|update| self.apply(update));
                }
                note = self.pods.view.next() => match note {
                    Some(note @ (Note::JobsDenied | Note::CronJobsDenied)) => self.screen.note(note.as_str()),
                    // A terminal shows the others for as long as they are true.
                    Some(note) => self.screen.report(note.as_str()),
                    None => {}
                },
                () = sleep_until(due) => continue,
                () = signals.next() => break,
            }
            // What changes is shown immediately, unless something was shown within the last second.
            due = due.min(shown_at.map_or(now, |shown| shown + INTERVAL));
        }
        Ok(exit_code(&self.pods, &last))
    }

    fn apply(&mut self, update: Update) {
        match update {
            Update::Pod(index, update) => {
                self.pods.now = self.clock.now();
                self.pods.apply(index, update);
            }
            Update::Event(WatchUpdate::Applied(event)) => self.pods.view.add_event(event),
            Update::Event(WatchUpdate::Denied(_)) => {
                let note = self.pods.view.note(Note::EventsDenied);
                note.iter().for_each(|note| self.screen.note(note.as_str()));
            }
            Update::Event(_) => {}
        }
    }

    /// Fails if the pods may not be read from the beginning.
    fn fail_if_denied(&self) -> Result<(), Failure> {
        let Some((namespace, message)) = self.pods.denial() else { return Ok(()) };
        Err(live::denied(&self.source.cluster.target, "pods", namespace, message))
    }

    /// The sentence that what is shown may be outdated, if that lasts.
    fn outage(&mut self, now: Instant, time: Timestamp) -> Option<String> {
        let (failure, error) = (self.pods.failure(), self.pods.error());
        self.was_unreachable |= error.is_some();
        let news = self.outage.update(failure.is_some(), now, time);
        let sentence = self.outage.began().zip(failure).map(|(began, why)| outdated(began, error, why));
        match news {
            Some(OutageNews::Began) => sentence.iter().for_each(|sentence| self.screen.report(sentence)),
            Some(OutageNews::Ended) if self.was_unreachable => self.screen.report("the API server answers again"),
            Some(OutageNews::Ended) => self.screen.report("the missed changes have been read"),
            None => {}
        }
        self.was_unreachable &= failure.is_some();
        sentence
    }
}

/// Since when what is shown may be outdated, and why: the error of the API server, if it cannot be asked.
fn outdated(began: Timestamp, error: Option<&str>, why: &str) -> String {
    let (began, why) = (began.strftime("%Y-%m-%dT%H:%M:%SZ"), clean_text(why, None, ERROR_LIMIT));
    match error {
        Some(_) => format!("the API server cannot be asked since {began}, so this may be outdated: {why}"),
        None => format!("this may be outdated since {began}: {why}"),
    }
}

/// As of `scan` for the last state: 2 if it is not known.
fn exit_code(pods: &Collector, last: &Shown) -> ExitCode {
    match pods.problems.len() {
        _ if !last.is_synced || last.outage.is_some() => ExitCode::from(INCOMPLETE),
        1.. => ExitCode::from(PROBLEMS),
        0 if !pods.is_complete() => ExitCode::from(INCOMPLETE),
        0 => ExitCode::SUCCESS,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_server_that_answers_is_not_called_unreachable() {
        let began = "2026-03-01T12:00:00Z".parse().unwrap();
        assert_eq!(
            outdated(began, Some("refused"), "refused"),
            "the API server cannot be asked since 2026-03-01T12:00:00Z, so this may be outdated: refused"
        );
        assert_eq!(
            outdated(began, None, "missed changes are still being read"),
            "this may be outdated since 2026-03-01T12:00:00Z: missed changes are still being read"
        );
    }
}
