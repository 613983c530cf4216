//! Limits writes of statuses, so that no namespace can keep others waiting: in the API server, in memory, or for a permit.
//!
//! - *In number.* A write can hang, for instance in an admission webhook, so neither one namespace nor the objects whose
//!   writes failed may use up all permits.
//! - *In bytes under way.* A large status and the answer to its write take several times their size in memory. Large
//!   writes at the same time also make each other slow in the API server, and all other requests.
//! - *In bytes over time.* An API server needs a tenth of a second or more to apply a status of 256 KiB. A namespace
//!   that writes more than its allowance is paced: one write at a time, and then a pause as long as the write took. So
//!   it keeps the API server busy for about half of the time, however fast that is. There are only a few such writes at
//!   a time in all, and namespaces take turns.
//!
//! No clock: callers pass the time.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{api::NamespacedName, bounded::TokenBucket};

/// The most concurrent writes. Each is also limited in time.
const ALL: usize = 64;
/// The most of them in one namespace.
const PER_NAMESPACE: usize = 8;
/// The most of them for objects whose last write failed.
const RETRIES: usize = 16;
/// No further write begins while this many bytes are being written, so that a write waits only for others.
const ALL_BYTES: usize = 2 << 20;
/// The same for writes that take less than [`LONGEST`] so far. One that hangs keeps others waiting no longer.
const BUSY_BYTES: usize = 256 << 10;
/// The same in one namespace, however long they take.
const NAMESPACE_BYTES: usize = 128 << 10;
/// The bounds in bytes under way do not apply to smaller writes: those in number bound them as well.
const SMALL: usize = 32 << 10;
/// How many bytes a namespace may write in a second without being paced, on average.
const ALLOWANCE: f64 = (160 << 10) as f64;
/// What one write takes of the allowance at most.
const MOST: Duration = Duration::from_secs(10);
/// How long an unused allowance is saved up for.
const SAVED: Duration = Duration::from_millis(3_200);
/// The most paced writes under way or followed by their pause.
const PACED: usize = 2;
/// A write that takes longer is not waited for, because it does not keep the API server busy. Also the longest pause.
const LONGEST: Duration = Duration::from_secs(2);
/// How often namespaces that need nothing are forgotten.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// The permits in use, and the objects that wait for one.
#[derive(Debug)]
pub(super) struct WriteLimiter {
    in_use: InUse,
    retries: usize,
    namespaces: HashMap<String, Namespace>,
    paced: Vec<Paced>,
    /// The writes under way that are not [`SMALL`].
    large: Vec<Large>,
    /// How many permits were granted, and how many objects had to wait.
    granted: u64,
    queued: u64,
    sweep_at: Instant,
}

#[derive(Debug, Default)]
struct Namespace {
    in_use: InUse,
    allowance: TokenBucket,
    /// Whether a paced write is under way.
    is_paced: bool,
    /// The end of the pause after the last one.
    pauses_until: Option<Instant>,
    /// The number of its last permit.
    last_granted: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    name: String,
    is_retry: bool,
    bytes: usize,
    number: u64,
}

/// A paced write, or the pause after it.
#[derive(Clone, Copy, Debug)]
struct Paced {
    number: u64,
    ends: Instant,
}

/// A write that is not small.
#[derive(Clone, Copy, Debug)]
struct Large {
    number: u64,
    bytes: usize,
    /// When it has taken [`LONGEST`].
    hangs_from: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct InUse {
    permits: usize,
    bytes: usize,
}

impl InUse {
    fn add(&mut self, bytes: usize) {
        self.permits += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn remove(&mut self, bytes: usize) {
        self.permits = self.permits.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Permission for one write. It must be returned to [`WriteLimiter::release`].
#[derive(Debug)]
#[must_use]
pub(super) struct WritePermit {
    namespace: String,
    is_retry: bool,
    bytes: usize,
    began: Instant,
    number: u64,
    is_paced: bool,
}

/// Whether a write may begin.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Yes {
        is_paced: bool,
    },
    /// Not before this time.
    At(Instant),
    /// Not before another write has ended.
    AfterAnother,
}

impl WriteLimiter {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            in_use: InUse::default(),
            retries: 0,
            namespaces: HashMap::new(),
            paced: Vec::with_capacity(PACED),
            large: Vec::new(),
            granted: 0,
            queued: 0,
            sweep_at: now + SWEEP_INTERVAL,
        }
    }

    /// Returns a permit if the limits allow another write. `is_retry` is whether the object's last write failed, and `bytes`
    /// the size of the object with its new status.
    pub(super) fn acquire(
        &mut self,
        key: &NamespacedName,
        is_retry: bool,
        bytes: usize,
        now: Instant,
    ) -> Option<WritePermit> {
        let Answer::Yes { is_paced } = self.answer(self.namespaces.get(&key.namespace), is_retry, bytes, now) else {
            return None;
        };
        self.granted += 1;
        self.in_use.add(bytes);
        self.retries += usize::from(is_retry);
        let own = self.namespaces.entry(key.namespace.clone()).or_default();
        own.in_use.add(bytes);
        own.last_granted = self.granted;
        if bytes > SMALL {
            self.large.push(Large { number: self.granted, bytes, hangs_from: now + LONGEST });
        }
        if is_paced {
            own.is_paced = true;
            self.paced.retain(|paced| paced.ends > now);
            self.paced.push(Paced { number: self.granted, ends: now + LONGEST });
        } else {
            own.allowance.take(Duration::from_secs_f64(bytes as f64 / ALLOWANCE).min(MOST), SAVED, now);
        }
        let (namespace, number) = (key.namespace.clone(), self.granted);
        Some(WritePermit { namespace, is_retry, bytes, began: now, number, is_paced })
    }

    pub(super) fn release(&mut self, permit: WritePermit, now: Instant) {
        let WritePermit { namespace, is_retry, bytes, began, number, is_paced } = permit;
        self.in_use.remove(bytes);
        self.large.retain(|own| own.number != number);
        self.retries = self.retries.saturating_sub(usize::from(is_retry));
        let pauses_until = now + now.saturating_duration_since(began).min(LONGEST);
        if let Some(own) = self.namespaces.get_mut(&namespace) {
            own.in_use.remove(bytes);
            if is_paced {
                own.is_paced = false;
                own.pauses_until = Some(pauses_until);
            }
        }
        if let Some(place) = self.paced.iter_mut().find(|own| own.number == number) {
            place.ends = pauses_until;
        }
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP_INTERVAL;
            self.namespaces.retain(|_, own| !own.is_idle(now));
        }
    }

    /// Remembers an object that waits for a permit. It must not be waiting already.
    pub(super) fn enqueue(&mut self, NamespacedName { namespace, name }: NamespacedName, is_retry: bool, bytes: usize) {
        self.queued += 1;
        let waiting = Waiting { name, is_retry, bytes, number: self.queued };
        self.namespaces.entry(namespace).or_default().waiting.push_back(waiting);
    }

    /// The status of an object that waits has changed.
    pub(super) fn resize(&mut self, key: &NamespacedName, bytes: usize) {
        let waiting = self.namespaces.get_mut(&key.namespace).map(|own| &mut own.waiting);
        if let Some(own) = waiting.into_iter().flatten().find(|own| own.name == key.name) {
            own.bytes = bytes;
        }
    }

    /// Removes and returns an object that may write now: of the namespaces in which one waits, that whose last permit is the
    /// oldest, and in it the object that has waited longest.
    pub(super) fn next_waiting(&mut self, now: Instant) -> Option<NamespacedName> {
        let allowed = self.namespaces.iter().filter_map(|(namespace, own)| {
            let allows = |waiting: &&Waiting| matches!(self.answer_to(own, waiting, now), Answer::Yes { .. });
            let first = own.candidates().find(allows)?;
            Some((own.last_granted, first.number, namespace.clone()))
        });
        let (_, number, namespace) = allowed.min()?;
        let waiting = &mut self.namespaces.get_mut(&namespace)?.waiting;
        let place = waiting.iter().position(|own| own.number == number)?;
        waiting.remove(place).map(|own| NamespacedName { namespace, name: own.name })
    }

    /// When [`next_waiting`](Self::next_waiting) returns an object, unless a write ends before; absent if only that helps.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        let waiting = self.namespaces.values().flat_map(|own| own.candidates().map(move |waiting| (own, waiting)));
        let answers = waiting.filter_map(|(own, waiting)| match self.answer_to(own, waiting, now) {
            Answer::Yes { .. } => Some(now),
            Answer::At(at) => Some(at),
            Answer::AfterAnother => None,
        });
        answers.min()
    }

    /// Forgets an object that waits.
    pub(super) fn forget(&mut self, key: &NamespacedName) {
        if let Some(own) = self.namespaces.get_mut(&key.namespace) {
            own.waiting.retain(|waiting| waiting.name != key.name);
        }
    }

    fn answer_to(&self, own: &Namespace, waiting: &Waiting, now: Instant) -> Answer {
        self.answer(Some(own), waiting.is_retry, waiting.bytes, now)
    }

    fn answer(&self, own: Option<&Namespace>, is_retry: bool, bytes: usize, now: Instant) -> Answer {
        let in_use = own.map(|own| own.in_use).unwrap_or_default();
        let is_full = self.in_use.permits >= ALL || in_use.permits >= PER_NAMESPACE;
        let is_full_of_bytes = self.in_use.bytes >= ALL_BYTES || in_use.bytes >= NAMESPACE_BYTES;
        if is_full || is_retry && self.retries >= RETRIES || bytes > SMALL && is_full_of_bytes {
            return Answer::AfterAnother;
        }
        if bytes > SMALL
            && let Some(at) = self.busy_until(now)
        {
            return Answer::At(at);
        }
        let Some(own) = own else { return Answer::Yes { is_paced: false } };
        if let Some(until) = own.pauses_until.filter(|until| *until > now) {
            return Answer::At(until);
        }
        let Some(allowed_at) = own.allowance.wait_until(SAVED, now) else {
            return Answer::Yes { is_paced: false };
        };
        // Beyond the allowance.
        if own.is_paced {
            return Answer::At(allowed_at);
        }
        let ends = self.paced.iter().map(|paced| paced.ends).filter(|ends| *ends > now);
        if ends.clone().count() < PACED {
            return Answer::Yes { is_paced: true };
        }
        Answer::At(ends.min().map_or(allowed_at, |ends| ends.min(allowed_at)))
    }

    /// If enough bytes are being written to keep the API server busy, when the first of these writes hangs.
    fn busy_until(&self, now: Instant) -> Option<Instant> {
        let busy = self.large.iter().filter(|own| own.hangs_from > now);
        let bytes = busy.clone().fold(0_usize, |sum, own| sum.saturating_add(own.bytes));
        busy.map(|own| own.hangs_from).min().filter(|_| bytes >= BUSY_BYTES)
    }
}

impl Namespace {
    /// The first of the objects that wait, and the first that does not wait after a failure.
    fn candidates(&self) -> impl Iterator<Item = &Waiting> {
        let first = self.waiting.front();
        let fresh = first.filter(|own| own.is_retry).and_then(|_| self.waiting.iter().find(|own| !own.is_retry));
        first.into_iter().chain(fresh)
    }

    /// Whether it may be forgotten.
    fn is_idle(&self, now: Instant) -> bool {
        let is_over = |at: Option<Instant>| at.is_none_or(|at| at <= now);
        self.in_use.permits == 0 && self.waiting.is_empty() && self.allowance.is_full(now) && is_over(self.pauses_until)
    }
}

#[cfg(test)]
impl WriteLimiter {
    /// Whether nothing is written and nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.in_use == InUse::default()
            && self.retries == 0
            && self.namespaces.values().all(|own| own.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests;
