//! Which logs are read, and for whom.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tokio::time::Instant;

use crate::{
    diagnosis::ContainerFinding,
    logs::{ContainerInstance, LogPlan, LogPolicy, LogRequest, ReadResult, Tail, TailStore},
    pods::Pod,
};

use crate::api::NamespacedName;

/// What was read, what is being read, and who waits for it.
#[derive(Debug, Default)]
pub struct LogRequests {
    store: TailStore,
    waiting: HashMap<ContainerInstance, HashSet<NamespacedName>>,
    /// The container instances that were asked for since the last sweep, and between the two before it.
    asked: [HashSet<ContainerInstance>; 2],
}

/// What asking for a tail has come to.
#[derive(Debug, Default)]
pub struct Asked {
    /// Whether there is nothing to show yet.
    pub is_lacking: bool,
    /// A read that the caller is to start.
    pub request: Option<LogRequest>,
    /// When a log that could not be had is worth another try.
    pub due: Option<Instant>,
}

impl LogRequests {
    /// The log that explains a container's trouble, if it was read.
    #[must_use]
    pub fn get(&self, pod: &Pod, container: &ContainerFinding, policy: &Arc<LogPolicy>) -> Option<Tail> {
        match LogRequest::plan(pod, container, policy) {
            LogPlan::Unavailable(tail) => Some(tail),
            LogPlan::Read(request) => self.store.get(&request),
        }
    }

    /// Asks for it on behalf of an object.
    pub fn ask(
        &mut self,
        pod: &Pod,
        container: &ContainerFinding,
        policy: &Arc<LogPolicy>,
        object: &NamespacedName,
        now: Instant,
    ) -> Asked {
        let LogPlan::Read(request) = LogRequest::plan(pod, container, policy) else { return Asked::default() };
        self.asked[0].insert(request.instance.clone());
        let is_lacking = self.store.get(&request).is_none();
        let begins = self.store.begin(&request, now.into_std());
        if is_lacking || begins {
            self.waiting.entry(request.instance.clone()).or_default().insert(object.clone());
        }
        let due = if begins { None } else { self.store.due(&request).map(Instant::from_std) };
        Asked { is_lacking, request: begins.then_some(request), due }
    }

    /// A read has ended. Returns the objects that wait for it.
    pub fn answered(&mut self, request: &LogRequest, outcome: ReadResult, now: Instant) -> HashSet<NamespacedName> {
        self.store.finish(request, outcome, now.into_std());
        self.waiting.remove(&request.instance).unwrap_or_default()
    }

    /// Forgets what nobody has asked for since the sweep before the last.
    pub fn sweep(&mut self) {
        let [recent, before] = &self.asked;
        let is_asked = |instance: &ContainerInstance| recent.contains(instance) || before.contains(instance);
        self.store.retain(|instance, _| is_asked(instance));
        self.waiting.retain(|instance, _| is_asked(instance));
        self.asked[1] = std::mem::take(&mut self.asked[0]);
    }
}
