//! Keeps the ends of logs, and their tails under each policy, as long as their container instances are of interest.
//!
//! A log is read once per container instance, however many objects and policies show it, and a second time if a policy
//! needs more than the first read. Each policy's tail is made from the stored end. Reads and redactions wait in queues that
//! are fair between the namespaces of the objects that ask for them, and the stored bytes are divided between these
//! namespaces. So the objects of one namespace can neither delay nor evict the logs of another without bound.
//!
//! The store has no clock and does no I/O: the caller asks with [`TailStore::ask`], runs what [`TailStore::next_read`] and
//! [`TailStore::next_redaction`] return, and passes the results back.

mod redaction;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    Asker, ContainerInstance, LogEnd, LogRead, LogRequest, ReadResult, Tail,
    life::{Life, OVERHEAD, TailEntry, TailKey, TailState},
    log_end::Need,
    log_queue::{LogQueue, OnNode, QueueLimits},
};
use crate::{
    api::{LogSource, NamespacedName},
    bounded::{Turn, WeightedCache},
};

pub use self::redaction::{Redacted, Redaction};

/// A namespace with this many waiting redactions starts no further read, so that texts do not pile up.
const MAX_BACKLOG: usize = 32;

/// The delay after which to ask again for a log that found no place in a queue.
const FULL_DELAY: Duration = Duration::from_secs(30);

const EVICTED: &str = "left out: the logs of all failing containers take too much room";
const QUEUE_FULL: &str = "not read yet: too many logs are waiting to be read";
const READ_RECENTLY: &str = "not shown yet: the log was read less than a minute ago, and is then read again";

/// Bounds of a [`TailStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of all tails, with 1 KiB more for each.
    pub tail_bytes: usize,
    /// Bytes of the ends of logs that are kept in case that another policy needs them.
    pub end_bytes: usize,
    pub reads: QueueLimits,
    pub redactions: QueueLimits,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            tail_bytes: 12 * 1024 * 1024,
            end_bytes: 4 * 1024 * 1024,
            reads: QueueLimits { running: 8, waiting: 16_384, waiting_per_namespace: 4096 },
            redactions: QueueLimits { running: 2, waiting: 16_384, waiting_per_namespace: 4096 },
        }
    }
}

/// The answer to [`TailStore::ask`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogAnswer {
    /// Whether a log that is not shown yet is being read.
    pub is_lacking: bool,
    /// When to ask again.
    pub due: Option<Instant>,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct TailStore {
    lives: HashMap<ContainerInstance, Life>,
    tails: WeightedCache<TailKey>,
    ends: WeightedCache<ContainerInstance>,
    reads: LogQueue<ContainerInstance>,
    redactions: LogQueue<TailKey>,
    /// The number of sweeps.
    epoch: u32,
}

impl Default for TailStore {
    fn default() -> Self {
        Self::new(StoreLimits::default())
    }
}

impl TailStore {
    #[must_use]
    pub fn new(limits: StoreLimits) -> Self {
        Self {
            lives: HashMap::new(),
            tails: WeightedCache::new(limits.tail_bytes, OVERHEAD),
            ends: WeightedCache::new(limits.end_bytes, 0),
            reads: LogQueue::new(limits.reads),
            redactions: LogQueue::new(limits.redactions),
            epoch: 0,
        }
    }

    /// The tail to show to the objects of a namespace: a text, or why it is missing. Absent while the log is being read. Its
    /// source is the request's: an instance that was the present one when its log was read may be the previous one by now.
    #[must_use]
    pub fn get(&self, request: &LogRequest, namespace: &Arc<str>) -> Option<Tail> {
        let Some(tail) = self.lives.get(&request.read.instance).and_then(|life| life.tails.get(&request.policy)) else {
            return (!self.tails.has_place(namespace)).then(|| Tail::unavailable(EVICTED));
        };
        match &tail.state {
            TailState::Wanted => tail.delay.map(Tail::unavailable),
            TailState::Evicted(_) => Some(Tail::unavailable(EVICTED)),
            TailState::Shown(tail) => {
                let mut tail = tail.clone();
                if matches!(tail.source, LogSource::Current | LogSource::Previous) {
                    tail.source = request.source();
                }
                Some(tail)
            }
        }
    }

    /// Asks for a log on behalf of an object. Call this whenever a status shows the log.
    pub fn ask(&mut self, request: &LogRequest, asker: &Asker, now: Instant) -> LogAnswer {
        let (key, namespace) = (TailKey::of(request), &asker.namespace);
        let is_known =
            self.lives.get(&request.read.instance).is_some_and(|life| life.tails.contains_key(&request.policy));
        if !is_known && !self.tails.has_place(namespace) {
            return LogAnswer::default();
        }
        let life = self.lives.entry(request.read.instance.clone()).or_insert_with(|| Life::new(request.read.clone()));
        life.target = request.read.clone();
        if life.forget_if_doubtful(request, now) {
            self.ends.remove(&request.read.instance);
        }
        let tail = life
            .tails
            .entry(Arc::clone(&request.policy))
            .or_insert_with(|| TailEntry { message: Arc::clone(&request.termination_message), ..TailEntry::default() });
        tail.asked = self.epoch;
        // An end that is no longer needed goes before one that is not redacted yet.
        if !tail.is_shown() {
            self.ends.touch(&request.read.instance, namespace);
        }
        if is_known {
            self.tails.touch(&key, namespace);
        } else {
            self.tails.insert(key.clone(), (), tail.size(), namespace);
        }
        if let TailState::Evicted(size) = tail.state
            && self.tails.has_room(namespace, size)
        {
            tail.state = TailState::Wanted;
            tail.message = Arc::clone(&request.termination_message);
            // Reserved, so that no more tails come back than there is room for.
            self.tails.resize(&key, size.max(tail.size()));
        }
        let answer = self.advance(&key, asker, now);
        self.evict();
        answer
    }

    /// Starts what a tail needs next.
    fn advance(&mut self, key: &TailKey, asker: &Asker, now: Instant) -> LogAnswer {
        let Some(life) = self.lives.get_mut(&key.instance) else { return LogAnswer::default() };
        let is_retry_due = life.is_retry_due(now);
        let next_read = life.next_read(&asker.namespace, now);
        let Some(tail) = life.tails.get_mut(&key.policy) else { return LogAnswer::default() };
        if tail.is_shown() && !is_retry_due {
            let due = if life.reading.is_some() { None } else { life.due };
            return LogAnswer { is_lacking: false, due };
        }
        let is_covered = !is_retry_due && life.end.as_ref().is_some_and(|end| end.covers(Need::of(&key.policy)));
        let is_late = !is_covered && !is_retry_due && life.reading.is_none() && next_read > now;
        if is_late {
            tail.delay_by(READ_RECENTLY);
            return LogAnswer { is_lacking: false, due: Some(next_read) };
        }
        let is_queued = if is_covered {
            self.queue_redaction(key, &asker.namespace)
        } else {
            life.reading.is_some() || self.queue_read(&key.instance, &asker.namespace)
        };
        let Some(tail) = self.tail_mut(key) else { return LogAnswer::default() };
        if !is_queued {
            tail.delay_by(QUEUE_FULL);
            return LogAnswer { is_lacking: false, due: now.checked_add(FULL_DELAY) };
        }
        tail.delay = None;
        tail.wait(asker);
        LogAnswer { is_lacking: matches!(tail.state, TailState::Wanted), due: None }
    }

    /// Queues a read for a namespace. Returns false if it gets no place.
    fn queue_read(&mut self, instance: &ContainerInstance, namespace: &Arc<str>) -> bool {
        let Some(life) = self.lives.get_mut(instance) else { return false };
        if life.queued.contains(namespace) {
            return true;
        }
        life.queued.push(Arc::clone(namespace));
        let LogRead { node, namespace: pod_namespace, .. } = life.target.clone();
        let Some((loser, displaced)) = self.reads.push(namespace, OnNode { node, pod_namespace }, instance.clone())
        else {
            return true;
        };
        if let Some(life) = self.lives.get_mut(&displaced) {
            life.queued.retain(|waiting| *waiting != loser);
            if life.queued.is_empty() && life.reading.is_none() {
                life.tails.values_mut().for_each(|tail| tail.delay = Some(QUEUE_FULL));
            }
        }
        loser != *namespace
    }

    /// The next log to read, with what `allow` returned for its node.
    pub fn next_read<P>(
        &mut self,
        now: Instant,
        mut allow: impl FnMut(&Arc<str>) -> Option<P>,
    ) -> Option<(LogRead, P, Turn)> {
        loop {
            let redactions = &self.redactions;
            let (namespace, instance, permit, turn) =
                self.reads.pop(|namespace| redactions.waiting_of(namespace) < MAX_BACKLOG, &mut allow)?;
            let Some(life) = self.lives.get_mut(&instance) else { continue };
            life.queued.retain(|waiting| *waiting != namespace);
            if let Some(read) = life.begin(namespace, now) {
                return Some((read, permit, turn));
            }
        }
    }

    /// Stores the result of a read. It is dropped if the entry was removed in the meantime. Returns the objects that need
    /// not wait any longer.
    pub fn read_ended(
        &mut self,
        instance: &ContainerInstance,
        result: ReadResult,
        now: Instant,
    ) -> HashSet<Arc<NamespacedName>> {
        let mut served = HashSet::new();
        let Some(life) = self.lives.get_mut(instance) else { return served };
        let Some(reading) = life.end(result, now) else { return served };
        let Some(end) = life.end.clone() else { return served };
        let waiting = life.tails.iter_mut().filter(|(_, tail)| !tail.waiting.is_empty());
        // The end counts for a namespace that needs most of it.
        let mut users = vec![(None, reading.namespace)];
        let mut to_redact = Vec::new();
        for (policy, tail) in waiting {
            let need = Need::of(policy);
            users.extend(tail.namespaces.iter().map(|namespace| (Some(need), Arc::clone(namespace))));
            // If a policy needs more, it was asked for when the read had begun.
            if tail.is_shown() || !end.covers(need) {
                served.extend(tail.take_waiting());
                continue;
            }
            let key = TailKey { instance: instance.clone(), policy: Arc::clone(policy) };
            if end.is_empty() && tail.message.is_empty() {
                tail.show(end.show(policy, ""));
                self.tails.resize(&key, tail.size());
                served.extend(tail.take_waiting());
            } else {
                to_redact.push((key, tail.namespaces.clone()));
            }
        }
        self.keep_end(instance, &end, users);
        served.extend(self.evict_ends());
        for (key, namespaces) in to_redact {
            let queued = namespaces.iter().filter(|namespace| self.queue_redaction(&key, namespace)).count();
            if queued == 0
                && let Some(tail) = self.tail_mut(&key)
            {
                served.extend(tail.take_waiting());
            }
        }
        self.evict();
        served
    }

    /// Counts the end of a log for one of its users that needs most of it.
    fn keep_end(&mut self, instance: &ContainerInstance, end: &LogEnd, users: Vec<(Option<Need>, Arc<str>)>) {
        self.ends.remove(instance);
        if end.is_empty() {
            return;
        }
        if let Some((_, payer)) = users.iter().max_by_key(|(need, _)| need.map(Need::capacity)) {
            self.ends.insert(instance.clone(), (), end.bytes.len(), payer);
        }
        users.iter().for_each(|(_, namespace)| self.ends.touch(instance, namespace));
    }

    /// Forgets logs that no object has asked for since the sweep before the last one.
    pub fn sweep(&mut self) {
        let epoch = self.epoch;
        let (tails, ends) = (&mut self.tails, &mut self.ends);
        self.lives.retain(|instance, life| {
            life.tails.retain(|policy, tail| {
                let stays = tail.asked + 1 >= epoch;
                if !stays {
                    tails.remove(&TailKey { instance: instance.clone(), policy: Arc::clone(policy) });
                }
                stays
            });
            let stays = !life.tails.is_empty();
            if !stays {
                ends.remove(instance);
            }
            stays
        });
        self.epoch += 1;
        self.tails.sweep();
        self.ends.sweep();
    }

    fn tail_mut(&mut self, key: &TailKey) -> Option<&mut TailEntry> {
        self.lives.get_mut(&key.instance)?.tails.get_mut(&key.policy)
    }

    /// Returns the objects that wait for a tail whose end has gone. They ask again, and the log is then read again.
    fn evict_ends(&mut self) -> HashSet<Arc<NamespacedName>> {
        let mut waiting = HashSet::new();
        while let Some(instance) = self.ends.excess() {
            self.ends.remove(&instance);
            let Some(life) = self.lives.get_mut(&instance) else { continue };
            life.end = None;
            let wanted = life.tails.values_mut().filter(|tail| !tail.is_shown() && !tail.is_masking);
            waiting.extend(wanted.flat_map(TailEntry::take_waiting));
        }
        waiting
    }

    fn evict(&mut self) {
        while let Some(key) = self.tails.excess() {
            let size = self.tails.size(&key);
            let Some(tail) = self.tail_mut(&key).filter(|_| size > OVERHEAD) else {
                self.remove(&key);
                continue;
            };
            tail.state = TailState::Evicted(size);
            tail.is_stale = false;
            tail.message = Arc::default();
            self.tails.resize(&key, OVERHEAD);
        }
    }

    fn remove(&mut self, key: &TailKey) {
        self.tails.remove(key);
        let Some(life) = self.lives.get_mut(&key.instance) else { return };
        life.tails.remove(&key.policy);
        if life.tails.is_empty() {
            self.lives.remove(&key.instance);
            self.ends.remove(&key.instance);
        }
    }
}

#[cfg(test)]
mod tests;
