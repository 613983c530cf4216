//! Which logs are read, and for whom.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tokio::time::Instant;

use crate::{
    diagnosis::ContainerFinding,
    logs::{Choice, Life, LogPolicy, LogRequest, Outcome, Tail, TailStore},
    pods::Pod,
};

use crate::api::NamespacedName;

/// What was read, what is being read, and who waits for it.
#[derive(Debug, Default)]
pub struct LogRequests {
    store: TailStore,
    waiting: HashMap<Life, HashSet<NamespacedName>>,
    /// The lives that were asked for since the last sweep, and between the two before it.
    asked: [HashSet<Life>; 2],
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
        match LogRequest::choose(pod, container, policy) {
            Choice::Known(tail) => Some(tail),
            Choice::Read(request) => self.store.get(&request),
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
        let Choice::Read(request) = LogRequest::choose(pod, container, policy) else { return Asked::default() };
        self.asked[0].insert(request.life.clone());
        let is_lacking = self.store.get(&request).is_none();
        let begins = self.store.begin(&request, now.into_std());
        if is_lacking || begins {
            self.waiting.entry(request.life.clone()).or_default().insert(object.clone());
        }
        let due = if begins { None } else { self.store.due(&request).map(Instant::from_std) };
        Asked { is_lacking, request: begins.then_some(request), due }
    }

    /// A read has ended. Returns the objects that wait for it.
    pub fn answered(&mut self, request: &LogRequest, outcome: Outcome, now: Instant) -> HashSet<NamespacedName> {
        self.store.finish(request, outcome, now.into_std());
        self.waiting.remove(&request.life).unwrap_or_default()
    }

    /// Forgets what nobody has asked for since the sweep before the last.
    pub fn sweep(&mut self) {
        let [recent, before] = &self.asked;
        let is_asked = |life: &Life| recent.contains(life) || before.contains(life);
        self.store.retain(|life, _| is_asked(life));
        self.waiting.retain(|life, _| is_asked(life));
        self.asked[1] = std::mem::take(&mut self.asked[0]);
    }
}
