//! What the outputs show of the troubles of a target, and the log that explains each.

use std::sync::Arc;

use kube::Client;
use tokio::time::{Instant, timeout_at};

use crate::{
    logs::{LogPlan, LogPolicy, LogReader, LogRequest, ReadLimits, Tail},
    render::{
        document::{Detail, in_parentheses, log_lines, log_name},
        safe::{clean, printable},
    },
    report::{log_line, may_quote, with_hint, with_log_line},
};

use super::outlook::Trouble;

/// The bytes of a log that are shown, at most.
const LOG_BYTES: u32 = 16 * 1024;

const LATE: &str = "reading logs took too long";

/// The end of the log that explains a trouble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) container: String,
    pub(super) tail: Tail,
}

/// Reads logs with the rights of the caller, cleans them and masks credentials.
pub(super) struct Logs {
    reader: LogReader,
    /// When no more logs are read.
    deadline: Instant,
    policy: Arc<LogPolicy>,
}

impl Logs {
    pub(super) fn new(client: Client, lines: u32, deadline: Instant) -> Self {
        let policy = LogPolicy { tail_lines: lines, max_bytes: LOG_BYTES, redact: true, redact_patterns: Vec::new() };
        Self { reader: LogReader::new(client, ReadLimits::default()), deadline, policy: Arc::new(policy) }
    }

    /// The log of the container that causes the trouble; none if the container never started.
    pub(super) async fn read(&self, trouble: &Trouble) -> Option<Log> {
        let Trouble { pod, finding, .. } = trouble;
        let own = finding.containers.iter().find(|container| container.name == finding.container.as_str());
        let container = own.or(finding.containers.first())?;
        let LogPlan::Read(request) = LogRequest::plan(pod, container, &self.policy) else { return None };
        let tail = timeout_at(self.deadline, self.reader.tail(&request)).await;
        let tail = tail.unwrap_or_else(|_| Tail::unavailable(LATE));
        Some(Log { container: container.name.to_string(), tail })
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
    pub(super) fn new(trouble: &Trouble, alike: usize, hint: &str, log: Option<Log>) -> Self {
        let finding = &trouble.finding;
        let explanation = &finding.explanation;
        let is_quoted = may_quote(finding.kind, explanation.cause);
        let line = log.as_ref().filter(|_| is_quoted).map(|log| log_line(&log.tail)).unwrap_or_default();
        let (log_title, log) = log.map_or((None, Vec::new()), |log| {
            let (title, lines) = shown(log);
            (Some(title), lines)
        });
        Self {
            pod: printable(&trouble.pod.name),
            alike,
            status: printable(&finding.status),
            code: printable(trouble.code()),
            message: clean(&with_log_line(&with_hint(&explanation.message, hint), &line)),
            evidence: explanation.evidence.iter().map(|line| clean(line)).collect(),
            log_title,
            log,
        }
    }
}

/// The title and the lines of a log.
fn shown(Log { container, tail }: Log) -> (String, Vec<String>) {
    match log_name(Some(tail.source)) {
        None => (printable(&format!("no log of {container}: {}", tail.note)), Vec::new()),
        Some(name) => {
            let title = printable(&format!("{name} of {container}{}", in_parentheses(&tail.note)));
            (title, log_lines(&tail.text).collect())
        }
    }
}
