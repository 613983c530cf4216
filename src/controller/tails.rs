//! Which logs are read, and for whom.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use tokio::time::Instant;

use crate::{
    diagnosis::ContainerFinding,
    logs::{LogPolicy, LogRequest, Outcome, Tail, TailKey, TailStore},
    pods::Pod,
};

use super::object::ObjectKey;

/// What was read, what is being read, and who waits for it.
#[derive(Debug, Default)]
pub struct Tails {
    store: TailStore,
    waiting: HashMap<TailKey, HashSet<ObjectKey>>,
    /// Transient failures: what stands in the store is shown until then, and read again.
    again: HashMap<TailKey, Instant>,
}

/// What asking for a tail has come to.
#[derive(Debug)]
pub struct Asked {
    /// Whether there is nothing to show yet.
    pub is_lacking: bool,
    /// A read that the caller is to start.
    pub request: Option<LogRequest>,
    /// When it is worth asking again, after a transient failure.
    pub again: Option<Instant>,
}

impl Tails {
    /// The log that explains a container's trouble, if it was read.
    #[must_use]
    pub fn get(&self, pod: &Pod, container: &ContainerFinding, policy: &Arc<LogPolicy>) -> Option<&Tail> {
        self.store.get(&TailKey::new(pod, container, policy))
    }

    /// Asks for it on behalf of an object.
    pub fn ask(
        &mut self,
        pod: &Pod,
        container: &ContainerFinding,
        policy: &Arc<LogPolicy>,
        object: &ObjectKey,
        now: Instant,
    ) -> Asked {
        let key = TailKey::new(pod, container, policy);
        let is_lacking = self.store.get(&key).is_none();
        let again = self.again.get(&key).copied();
        if !is_lacking && again.is_none_or(|at| at > now) {
            return Asked { is_lacking, request: None, again };
        }
        let waiting = self.waiting.entry(key.clone());
        let is_new = matches!(waiting, std::collections::hash_map::Entry::Vacant(_));
        waiting.or_default().insert(object.clone());
        Asked { is_lacking, request: is_new.then(|| LogRequest::new(pod, container, Arc::clone(policy))), again: None }
    }

    /// A read has ended. Returns the objects that wait for it.
    pub fn answered(&mut self, key: &TailKey, outcome: Outcome, now: Instant) -> HashSet<ObjectKey> {
        match outcome.retry {
            Some(delay) => self.again.insert(key.clone(), now + delay),
            None => self.again.remove(key),
        };
        self.store.insert(key.clone(), outcome.tail);
        self.waiting.remove(key).unwrap_or_default()
    }

    /// Forgets what belongs to pods that are gone.
    pub fn retain(&mut self, is_kept: impl Fn(&TailKey) -> bool) {
        self.again.retain(|key, _| is_kept(key));
        self.store.retain(is_kept);
    }
}
