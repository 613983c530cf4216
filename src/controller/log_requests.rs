//! Decides which logs to read, and which objects wait for them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    diagnosis::ContainerFinding,
    logs::{ContainerInstance, LogPlan, LogPolicy, LogRequest, ReadResult, Tail, TailStore},
    pods::Pod,
};

/// The logs that were read or are being read, and the objects that wait for them.
#[derive(Debug, Default)]
pub(super) struct LogRequests {
    store: TailStore,
    waiting: HashMap<ContainerInstance, HashSet<NamespacedName>>,
    /// The container instances that were asked for since the last sweep, and in the interval before it.
    asked: [HashSet<ContainerInstance>; 2],
}

/// The answer to [`LogRequests::ask`].
#[derive(Debug, Default)]
pub(super) struct LogAnswer {
    /// Whether no log can be shown yet.
    pub(super) is_lacking: bool,
    /// A read that is due now. The caller starts it.
    pub(super) request: Option<LogRequest>,
    /// When to retry a read that failed.
    pub(super) due: Option<Instant>,
}

impl LogRequests {
    /// The log that explains a container's problem, if it was read.
    pub(super) fn get(&self, pod: &Pod, container: &ContainerFinding, policy: &Arc<LogPolicy>) -> Option<Tail> {
        match LogRequest::plan(pod, container, policy) {
            LogPlan::Unavailable(tail) => Some(tail),
            LogPlan::Read(request) => self.store.get(&request),
        }
    }

    /// Asks for that log on behalf of an object, and whether to read it now.
    pub(super) fn ask(
        &mut self,
        pod: &Pod,
        container: &ContainerFinding,
        policy: &Arc<LogPolicy>,
        object: &NamespacedName,
        now: Instant,
    ) -> LogAnswer {
        let LogPlan::Read(request) = LogRequest::plan(pod, container, policy) else { return LogAnswer::default() };
        self.asked[0].insert(request.instance.clone());
        let is_lacking = self.store.get(&request).is_none();
        let begins = self.store.begin(&request, now.into_std());
        if is_lacking || begins {
            self.waiting.entry(request.instance.clone()).or_default().insert(object.clone());
        }
        let due = if begins { None } else { self.store.due(&request).map(Instant::from_std) };
        LogAnswer { is_lacking, request: begins.then_some(request), due }
    }

    /// Stores the result of a read. Returns the objects that wait for it.
    pub(super) fn answered(
        &mut self,
        request: &LogRequest,
        outcome: ReadResult,
        now: Instant,
    ) -> HashSet<NamespacedName> {
        self.store.finish(request, outcome, now.into_std());
        self.waiting.remove(&request.instance).unwrap_or_default()
    }

    /// Forgets logs that no object has asked for since the sweep before the last one.
    pub(super) fn sweep(&mut self) {
        let [recent, before] = &self.asked;
        let is_asked = |instance: &ContainerInstance| recent.contains(instance) || before.contains(instance);
        self.store.retain(|instance, _| is_asked(instance));
        self.waiting.retain(|instance, _| is_asked(instance));
        self.asked[1] = std::mem::take(&mut self.asked[0]);
    }
}
