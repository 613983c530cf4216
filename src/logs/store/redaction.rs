//! Makes the tails that policies show from the stored ends of logs.

use std::{collections::HashSet, sync::Arc};

use super::{
    super::{
        LogEnd, Tail,
        life::{TailKey, TailState},
        log_queue::OnNode,
    },
    TailStore,
};
use crate::{api::NamespacedName, bounded::Turn};

const NOT_REDACTED: &str = "left out: it could not be redacted";

/// A redaction to run, which may take milliseconds.
#[derive(Debug)]
pub struct Redaction {
    key: TailKey,
    end: Arc<LogEnd>,
    generation: u64,
    message: Arc<str>,
    _turn: Turn,
}

/// The result of a [`Redaction`].
#[derive(Debug)]
pub struct Redacted {
    key: TailKey,
    generation: u64,
    tail: Tail,
}

impl Redaction {
    /// Makes the tail that the policy shows.
    #[must_use]
    pub fn run(self) -> Redacted {
        let Self { key, end, generation, message, _turn } = self;
        let tail = end.show(&key.policy, &message);
        Redacted { key, generation, tail }
    }

    /// The result if it could not be redacted: nothing of it is shown.
    #[must_use]
    pub fn failed(&self) -> Redacted {
        Redacted { key: self.key.clone(), generation: self.generation, tail: Tail::unavailable(NOT_REDACTED) }
    }
}

impl TailStore {
    /// Queues a redaction for a namespace. Returns false if it gets no place.
    pub(super) fn queue_redaction(&mut self, key: &TailKey, namespace: &Arc<str>) -> bool {
        let Some(tail) = self.tail_mut(key) else { return false };
        if tail.is_masking || tail.queued.contains(namespace) {
            return true;
        }
        tail.queued.push(Arc::clone(namespace));
        let Some((loser, displaced)) = self.redactions.push(namespace, OnNode::default(), key.clone()) else {
            return true;
        };
        if let Some(tail) = self.tail_mut(&displaced) {
            tail.queued.retain(|waiting| *waiting != loser);
        }
        loser != *namespace
    }

    /// The next redaction to run.
    pub fn next_redaction(&mut self) -> Option<Redaction> {
        loop {
            let (namespace, key, (), turn) = self.redactions.pop(|_| true, |_| Some(()))?;
            let Some(life) = self.lives.get_mut(&key.instance) else { continue };
            let Some(tail) = life.tails.get_mut(&key.policy) else { continue };
            tail.queued.retain(|waiting| *waiting != namespace);
            if tail.is_masking || tail.is_shown() {
                continue;
            }
            // If the end was evicted in the meantime, the log is read again when an object asks for it.
            let Some(end) = life.end.clone() else { continue };
            tail.is_masking = true;
            let message = Arc::clone(&tail.message);
            return Some(Redaction { key, end, generation: life.generation, message, _turn: turn });
        }
    }

    /// Stores the result of a redaction. Returns the objects that waited for it.
    pub fn redacted(&mut self, result: Redacted) -> HashSet<Arc<NamespacedName>> {
        let Redacted { key, generation, tail: shown } = result;
        let Some(life) = self.lives.get_mut(&key.instance) else { return HashSet::new() };
        let is_current = life.generation == generation;
        let Some(tail) = life.tails.get_mut(&key.policy) else { return HashSet::new() };
        tail.is_masking = false;
        // Otherwise the end was replaced in the meantime, perhaps because it may be that of another instance. The objects
        // ask again.
        if is_current && !matches!(tail.state, TailState::Evicted(_)) {
            tail.show(shown);
            self.tails.resize(&key, tail.size());
        }
        let waiting = tail.take_waiting();
        self.evict();
        waiting
    }
}
