//! How a wait ended, as all outputs show it. All texts are redacted, on one line, and safe for a terminal.

use std::time::Duration;

use crate::{api::LogSource, cli::printable::printable};

pub(super) use crate::cli::printable::clean;

use super::{decide::Failure, evidence::Log, outlook::Trouble};

/// How the wait for one target ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// For example `deployment/cart`.
    pub(super) target: String,
    pub(super) end: End,
    /// How far it was.
    pub(super) what: String,
    pub(super) took: Duration,
    /// What is wrong with its pods, the cause of a failure first.
    pub(super) details: Vec<Detail>,
    /// How many pods have troubles that the details omit.
    pub(super) more: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Failed(Failure),
    TimedOut,
    /// Another target failed before.
    Unfinished,
}

/// What is wrong with one pod, or with several alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Detail {
    pub(super) pod: String,
    /// How many pods have the same trouble.
    pub(super) alike: usize,
    /// The STATUS of kubectl.
    pub(super) status: String,
    /// The cause, or the reason if it is not known.
    pub(super) code: String,
    pub(super) message: String,
    pub(super) evidence: Vec<String>,
    /// Such as `log of the previous run of app`; absent if there is no log to show.
    pub(super) log_title: Option<String>,
    pub(super) log: Vec<String>,
}

impl Outcome {
    pub(super) fn failure(&self) -> Option<Failure> {
        match &self.end {
            End::Failed(failure) => Some(failure.clone()),
            End::TimedOut => Some(Failure { code: "TimedOut".to_owned(), message: self.what.clone() }),
            End::Done | End::Unfinished => None,
        }
    }
}

/// Groups troubles that have the same cause. The log is that of the first of each group.
pub(super) fn groups(troubles: &[Trouble]) -> Vec<(&Trouble, usize)> {
    let mut groups: Vec<(&Trouble, usize)> = Vec::new();
    for trouble in troubles {
        let is_alike = |other: &Trouble| {
            let (one, other) = (&trouble.finding, &other.finding);
            one.container == other.container && one.explanation.message == other.explanation.message
        };
        match groups.iter_mut().find(|(first, _)| is_alike(first)) {
            Some((_, alike)) => *alike += 1,
            None => groups.push((trouble, 1)),
        }
    }
    groups
}

impl Detail {
    pub(super) fn new(trouble: &Trouble, alike: usize, log: Option<Log>) -> Self {
        let finding = &trouble.finding;
        let explanation = &finding.explanation;
        let (log_title, log) = log.map_or((None, Vec::new()), |log| {
            let (title, lines) = shown(log);
            (Some(title), lines)
        });
        Self {
            pod: printable(&trouble.pod.name),
            alike,
            status: printable(&finding.status),
            code: printable(trouble.code()),
            message: clean(&explanation.message),
            evidence: explanation.evidence.iter().map(|line| clean(line)).collect(),
            log_title,
            log,
        }
    }
}

/// The title and the lines of a log.
fn shown(Log { container, tail }: Log) -> (String, Vec<String>) {
    let container = printable(&container);
    let source = match tail.source {
        LogSource::Unavailable => return (format!("no log of {container}: {}", printable(&tail.note)), Vec::new()),
        LogSource::Current => format!("log of {container}"),
        LogSource::Previous => format!("log of the previous run of {container}"),
        LogSource::TerminationMessage => format!("termination message of {container}"),
    };
    let note = if tail.note.is_empty() { String::new() } else { format!(" ({})", printable(&tail.note)) };
    // A tab is harmless, and common in stack traces.
    let lines = tail.text.lines().map(|line| printable(&line.replace('\t', "    "))).collect();
    (format!("{source}{note}"), lines)
}
