//! Reads what explains a trouble beside the pod: events about it, and the end of its log.

use std::{collections::HashSet, sync::Arc};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use kube::Client;
use tokio::time::{Instant, timeout_at};

use crate::{
    api::LogSource,
    diagnosis::needs_events,
    events::{WatchedEvent, list_events},
    logs::{LogPlan, LogPolicy, LogReader, LogRequest, ReadLimits, Tail},
    pods::Uid,
};

use super::outlook::Trouble;

/// For how many objects events are listed during a wait. Later events are watched.
const EVENT_LISTS: usize = 20;
/// The bytes of a log that are shown, at most.
const LOG_BYTES: u32 = 16 * 1024;

const LATE: &str = "reading logs took too long";

/// Lists the events about objects from before the watch of events began.
pub(super) struct EventLists {
    client: Client,
    namespace: String,
    asked: HashSet<Uid>,
    pub(super) reads: FuturesUnordered<BoxFuture<'static, Vec<WatchedEvent>>>,
}

impl EventLists {
    pub(super) fn new(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned(), asked: HashSet::new(), reads: FuturesUnordered::new() }
    }

    /// Starts a list for a pod whose trouble events may explain, once.
    pub(super) fn ask(&mut self, trouble: &Trouble) {
        if needs_events(&trouble.finding) {
            self.ask_about(trouble.pod.uid);
        }
    }

    /// Starts a list for an object, once.
    pub(super) fn ask_about(&mut self, uid: Uid) {
        if self.asked.len() >= EVENT_LISTS || !self.asked.insert(uid) {
            return;
        }
        let (client, namespace) = (self.client.clone(), self.namespace.clone());
        // An event is only evidence: without it, less is explained.
        let read = async move { list_events(&client, &namespace, uid).await.unwrap_or_default() };
        self.reads.push(read.boxed());
    }

    /// The next result. Waits forever if no list is under way.
    pub(super) async fn next(&mut self) -> Vec<WatchedEvent> {
        match self.reads.next().await {
            Some(events) => events,
            None => std::future::pending().await,
        }
    }
}

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
        let read = timeout_at(self.deadline, self.reader.read(&request.read())).await;
        let tail = match read {
            Ok(result) => {
                let mut tail = result.end.show(&self.policy, &request.termination_message);
                if tail.source == LogSource::Current {
                    tail.source = request.source();
                }
                tail
            }
            Err(_) => Tail::unavailable(LATE),
        };
        Some(Log { container: container.name.to_string(), tail })
    }
}
