//! Asks for the logs that statuses show, on behalf of objects.

use std::{collections::HashSet, sync::Arc};

use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    bounded::Turn,
    diagnosis::ContainerFinding,
    logs::{
        Asker, ContainerInstance, LogPolicy, LogRead, LogRequest, Permit, QueueLimits, ReadResult, Redacted, Redaction,
        StoreLimits, Tail, TailStore,
    },
    pods::Pod,
};

/// The logs that were read or are being read.
#[derive(Debug)]
pub(super) struct LogRequests {
    store: TailStore,
    /// Whether a task may have become ready to start.
    may_have_work: bool,
}

/// The answer to [`LogRequests::ask`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogAnswer {
    /// Whether no log can be shown yet.
    pub(super) is_lacking: bool,
    /// When to ask again.
    pub(super) due: Option<Instant>,
}

/// A read to start, with the permissions that it holds until it ends.
#[derive(Debug)]
pub(super) struct DueRead {
    pub(super) read: LogRead,
    pub(super) permit: Permit,
    pub(super) turn: Turn,
}

impl LogRequests {
    /// `concurrency` is how many logs are read concurrently.
    pub(super) fn new(concurrency: usize) -> Self {
        let limits = StoreLimits::default();
        let reads = QueueLimits { running: concurrency, ..limits.reads };
        Self { store: TailStore::new(StoreLimits { reads, ..limits }), may_have_work: false }
    }

    /// The log that explains a container's problem, or why it is missing. Absent until it was read.
    pub(super) fn get(
        &self,
        pod: &Pod,
        container: &ContainerFinding,
        policy: &Arc<LogPolicy>,
        asker: &Asker,
    ) -> Option<Tail> {
        match LogRequest::plan(pod, container, policy) {
            Err(tail) => Some(tail),
            Ok(request) => self.store.get(&request, &asker.namespace),
        }
    }

    /// Asks for that log on behalf of an object.
    pub(super) fn ask(
        &mut self,
        pod: &Pod,
        container: &ContainerFinding,
        policy: &Arc<LogPolicy>,
        asker: &Asker,
        now: Instant,
    ) -> LogAnswer {
        let Ok(request) = LogRequest::plan(pod, container, policy) else { return LogAnswer::default() };
        self.may_have_work = true;
        let answer = self.store.ask(&request, asker, now.into_std());
        LogAnswer { is_lacking: answer.is_lacking, due: answer.due.map(Instant::from_std) }
    }

    /// The logs to read and the redactions to run now. `allow` returns a permit to read from a node.
    pub(super) fn take_due(
        &mut self,
        now: Instant,
        mut allow: impl FnMut(&Arc<str>) -> Option<Permit>,
    ) -> (Vec<DueRead>, Vec<Redaction>) {
        if !std::mem::take(&mut self.may_have_work) {
            return (Vec::new(), Vec::new());
        }
        let redactions = std::iter::from_fn(|| self.store.next_redaction()).collect();
        let reads = std::iter::from_fn(|| {
            let (read, permit, turn) = self.store.next_read(now.into_std(), &mut allow)?;
            Some(DueRead { read, permit, turn })
        });
        (reads.collect(), redactions)
    }

    /// Stores the result of a read. Returns the objects to reconcile.
    pub(super) fn read_ended(
        &mut self,
        instance: &ContainerInstance,
        result: ReadResult,
        now: Instant,
    ) -> HashSet<Arc<NamespacedName>> {
        self.may_have_work = true;
        self.store.read_ended(instance, result, now.into_std())
    }

    /// Stores the result of a redaction. Returns the objects to reconcile.
    pub(super) fn redacted(&mut self, result: Redacted) -> HashSet<Arc<NamespacedName>> {
        self.may_have_work = true;
        self.store.redacted(result)
    }

    /// Forgets logs that no object has asked for since the sweep before the last one.
    pub(super) fn sweep(&mut self) {
        self.store.sweep();
    }
}
