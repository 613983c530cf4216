//! Reads the end of the log that explains a trouble.

use std::sync::Arc;

use kube::Client;
use tokio::time::{Instant, timeout_at};

use crate::logs::{LogPlan, LogPolicy, LogReader, LogRequest, ReadLimits, Tail};

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
