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

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    bounded::{FairQueue, Lane, Rates},
};

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

/// The permits in use, and the objects that wait for one.
#[derive(Debug, Default)]
pub(super) struct WriteLimiter {
    writes: Writes,
    waiting: FairQueue<Waiting, IsRetry>,
    granted: u64,
}

#[derive(Debug)]
struct Waiting {
    key: NamespacedName,
    is_retry: bool,
    bytes: usize,
}

/// Whether an object's last write failed. Those after a failure do not hold up others.
type IsRetry = bool;

impl Lane for IsRetry {
    fn is_beside(&self, _other: &Self) -> bool {
        true
    }
}

/// Permission for one write. It must be returned to [`WriteLimiter::release`].
#[derive(Debug)]
#[must_use]
pub(super) struct WritePermit(u64);

/// What was written, and how much a namespace may still write.
#[derive(Debug, Default)]
struct Writes {
    /// Those under way, and the paced ones until their pause is over.
    present: Vec<Write>,
    allowances: Rates,
}

#[derive(Debug)]
struct Write {
    number: u64,
    namespace: String,
    is_retry: bool,
    bytes: usize,
    began: Instant,
    is_paced: bool,
    /// Once it has ended: the end of the pause after it.
    pauses_until: Option<Instant>,
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
    /// Returns a permit if the limits allow another write. `is_retry` is whether the object's last write failed, and `bytes`
    /// the size of the object with its new status.
    pub(super) fn acquire(
        &mut self,
        key: &NamespacedName,
        is_retry: bool,
        bytes: usize,
        now: Instant,
    ) -> Option<WritePermit> {
        let Answer::Yes { is_paced } = self.writes.answer(&key.namespace, is_retry, bytes, now) else { return None };
        self.granted += 1;
        let (number, namespace) = (self.granted, key.namespace.clone());
        let Writes { present, allowances } = &mut self.writes;
        if !is_paced {
            allowances.take(&namespace, Duration::from_secs_f64(bytes as f64 / ALLOWANCE).min(MOST), SAVED, now);
        }
        self.waiting.charge(&namespace, 1);
        present.retain(|write| write.pauses_until.is_none_or(|until| until > now));
        present.push(Write { number, namespace, is_retry, bytes, began: now, is_paced, pauses_until: None });
        Some(WritePermit(number))
    }

    pub(super) fn release(&mut self, WritePermit(number): WritePermit, now: Instant) {
        let present = &mut self.writes.present;
        let Some(place) = present.iter().position(|write| write.number == number) else { return };
        match present.get_mut(place) {
            Some(write) if write.is_paced => {
                write.pauses_until = Some(now + now.saturating_duration_since(write.began).min(LONGEST));
            }
            _ => _ = present.swap_remove(place),
        }
    }

    /// Remembers an object that waits for a permit. It must not be waiting already.
    pub(super) fn enqueue(&mut self, key: NamespacedName, is_retry: bool, bytes: usize) {
        let namespace = key.namespace.clone();
        self.waiting.push(&namespace, is_retry, Waiting { key, is_retry, bytes });
    }

    /// The status of an object that waits has changed.
    pub(super) fn resize(&mut self, key: &NamespacedName, bytes: usize) {
        if let Some(own) = self.waiting.items_mut(&key.namespace).find(|own| own.key == *key) {
            own.bytes = bytes;
        }
    }

    /// Removes and returns an object that may write now. Namespaces take turns.
    pub(super) fn next_waiting(&mut self, now: Instant) -> Option<NamespacedName> {
        let Self { writes, waiting, .. } = self;
        let allows =
            |_: &IsRetry, own: &Waiting| matches!(writes.answer_to(own, now), Answer::Yes { .. }).then_some(());
        waiting.pop_if(|_, _| true, allows).map(|(_, own, ())| own.key)
    }

    /// When [`next_waiting`](Self::next_waiting) returns an object, unless a write ends before; absent if only that helps.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        let answers = self.waiting.heads().filter_map(|own| match self.writes.answer_to(own, now) {
            Answer::Yes { .. } => Some(now),
            Answer::At(at) => Some(at),
            Answer::AfterAnother => None,
        });
        answers.min()
    }

    /// Forgets an object that waits.
    pub(super) fn forget(&mut self, key: &NamespacedName) {
        self.waiting.remove(&key.namespace, |own| own.key == *key);
    }
}

impl Writes {
    fn answer_to(&self, own: &Waiting, now: Instant) -> Answer {
        self.answer(&own.key.namespace, own.is_retry, own.bytes, now)
    }

    fn answer(&self, namespace: &str, is_retry: bool, bytes: usize, now: Instant) -> Answer {
        let (all, all_bytes) = sum(self.under_way());
        // A thousand objects may wait, and each is asked about, so the rest is not counted in vain.
        if all >= ALL {
            return Answer::AfterAnother;
        }
        let own = || self.under_way().filter(|write| write.namespace == namespace);
        let (of_namespace, namespace_bytes) = sum(own());
        let has_retries = || self.under_way().filter(|write| write.is_retry).count() >= RETRIES;
        let is_full_of_bytes = all_bytes >= ALL_BYTES || namespace_bytes >= NAMESPACE_BYTES;
        if of_namespace >= PER_NAMESPACE || is_retry && has_retries() || bytes > SMALL && is_full_of_bytes {
            return Answer::AfterAnother;
        }
        if bytes > SMALL
            && let Some(at) = self.busy_until(now)
        {
            return Answer::At(at);
        }
        let pauses =
            self.present.iter().filter(|write| write.namespace == namespace).filter_map(|own| own.pauses_until);
        if let Some(until) = pauses.max().filter(|until| *until > now) {
            return Answer::At(until);
        }
        let Some(allowed_at) = self.allowances.wait_until(namespace, SAVED, now) else {
            return Answer::Yes { is_paced: false };
        };
        // Beyond the allowance.
        if own().any(|write| write.is_paced) {
            return Answer::At(allowed_at);
        }
        let paced = self.present.iter().filter(|write| write.is_paced);
        let ends = paced.map(Write::busy_until).filter(|ends| *ends > now);
        if ends.clone().count() < PACED {
            return Answer::Yes { is_paced: true };
        }
        Answer::At(ends.min().map_or(allowed_at, |ends| ends.min(allowed_at)))
    }

    fn under_way(&self) -> impl Iterator<Item = &Write> + Clone {
        self.present.iter().filter(|write| write.pauses_until.is_none())
    }

    /// If enough bytes are being written to keep the API server busy, when the first of these writes hangs.
    fn busy_until(&self, now: Instant) -> Option<Instant> {
        let busy = self.under_way().filter(|write| write.bytes > SMALL && write.hangs_from() > now);
        let (_, bytes) = sum(busy.clone());
        busy.map(Write::hangs_from).min().filter(|_| bytes >= BUSY_BYTES)
    }
}

impl Write {
    /// When it has taken [`LONGEST`].
    fn hangs_from(&self) -> Instant {
        self.began + LONGEST
    }

    /// Until when it takes one of the places of paced writes. One that has taken [`LONGEST`] gives its place back.
    fn busy_until(&self) -> Instant {
        let hangs_from = self.hangs_from();
        self.pauses_until.filter(|until| *until < hangs_from + LONGEST).unwrap_or(hangs_from)
    }
}

/// How many writes these are, and their bytes.
fn sum<'a>(writes: impl Iterator<Item = &'a Write>) -> (usize, usize) {
    writes.fold((0, 0), |(count, bytes), write| (count + 1, bytes.saturating_add(write.bytes)))
}

#[cfg(test)]
impl WriteLimiter {
    /// Whether nothing is written and nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.writes.under_way().next().is_none() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests;
