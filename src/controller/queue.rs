//! Decides which object is reconciled next, and which one may write its status. No I/O; callers pass the time.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    api::NamespacedName,
    backoff::Backoff,
    bounded::{FairQueue, Rates, TokenBucket},
    config::Timings,
};

use super::{
    schedule::Schedule,
    write_limiter::{WriteLimiter, WritePermit},
};

/// The delays between failed writes of one status.
const FIRST_RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The share of the time that reconciles without a change may take. Without pauses, a rollout watched by many objects would
/// take all of the thread's time, and statuses that do change would be late.
const SHARE: f64 = 0.15;
/// For how long an unused share is saved up, and the longest pause of an object.
const SAVED: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The objects to reconcile, each with its schedule and its write under way.
#[derive(Debug)]
pub(super) struct WorkQueue {
    timings: Timings,
    entries: HashMap<NamespacedName, Entry>,
    /// Entries in the order in which they become due. [`Entry::queued_at`] is an entry's place.
    due: BTreeSet<(Instant, NamespacedName)>,
    /// The entries that are due.
    turns: FairQueue<String>,
    /// When they were last added to.
    turns_since: Instant,
    write_limiter: WriteLimiter,
    /// Whether the last object that was reconciled had waited for a permit to write.
    had_permit: bool,
    /// The time that reconciles may take, in all and in each namespace.
    time: TokenBucket,
    times: Rates,
}

#[derive(Debug)]
struct Entry {
    schedule: Schedule,
    queued_at: Option<Instant>,
    /// Whether it is in [`WorkQueue::turns`].
    has_turn: bool,
    awaits_permit: bool,
    is_writing: bool,
    retries: Backoff,
}

impl Entry {
    fn new(timings: &Timings) -> Self {
        Self {
            schedule: Schedule::new(timings),
            queued_at: None,
            has_turn: false,
            awaits_permit: false,
            is_writing: false,
            retries: Backoff::new(FIRST_RETRY, LONGEST_RETRY),
        }
    }
}

impl WorkQueue {
    pub(super) fn new(now: Instant, timings: Timings) -> Self {
        Self {
            timings,
            entries: HashMap::new(),
            due: BTreeSet::new(),
            turns: FairQueue::default(),
            turns_since: now,
            write_limiter: WriteLimiter::default(),
            had_permit: false,
            time: TokenBucket::default(),
            times: Rates::default(),
        }
    }

    /// Adds an object. It is not due until it is marked dirty.
    pub(super) fn insert(&mut self, key: &NamespacedName) {
        self.entries.entry(key.clone()).or_insert_with(|| Entry::new(&self.timings));
    }

    pub(super) fn remove(&mut self, key: &NamespacedName) {
        let Some(entry) = self.entries.remove(key) else { return };
        if let Some(queued_at) = entry.queued_at {
            self.due.remove(&(queued_at, key.clone()));
        }
        if entry.has_turn {
            self.turns.remove(&key.namespace, |name| *name == key.name);
        }
        if entry.awaits_permit {
            self.write_limiter.forget(key);
        }
    }

    /// Call this when something changed that the object's status may show.
    pub(super) fn mark_dirty(&mut self, key: &NamespacedName, now: Instant) {
        self.reschedule(key, |schedule| schedule.mark_dirty(now));
    }

    pub(super) fn mark_all_dirty(&mut self, now: Instant) {
        self.reschedule_all(|schedule| schedule.mark_dirty(now));
    }

    /// Marks all objects dirty and skips the debounce, for instance after a complete list of pods.
    pub(super) fn mark_all_dirty_without_debounce(&mut self, now: Instant) {
        self.reschedule_all(|schedule| schedule.mark_dirty_without_debounce(now));
    }

    /// A log has arrived that the object's status may wait for.
    pub(super) fn log_arrived(&mut self, key: &NamespacedName, now: Instant) {
        self.reschedule(key, |schedule| schedule.log_arrived(now));
    }

    /// When [`next`](Self::next) will return an object, unless something happens before: a write that ends wakes the caller
    /// anyway.
    pub(super) fn next_due(&self, now: Instant) -> Option<Instant> {
        let due = if self.turns.is_empty() { self.due.first().map(|(at, _)| *at) } else { Some(self.turns_since) };
        due.into_iter().chain(self.write_limiter.next_at(now)).min()
    }

    /// The next object to reconcile: one that has waited for a permit to write and may have it now, or one that is due, of
    /// the namespace whose turn it is. If there are both, they alternate.
    /// The caller then calls [`reconciled`](Self::reconciled).
    pub(super) fn next(&mut self, now: Instant) -> Option<NamespacedName> {
        let next = if self.had_permit {
            self.next_turn(now).or_else(|| self.next_with_permit(now))
        } else {
            self.next_with_permit(now).or_else(|| self.next_turn(now))
        };
        self.had_permit &= next.is_some();
        next
    }

    fn next_with_permit(&mut self, now: Instant) -> Option<NamespacedName> {
        let key = self.write_limiter.next_waiting(now)?;
        self.had_permit = true;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.awaits_permit = false;
            entry.schedule.has_waited();
        }
        Some(key)
    }

    fn next_turn(&mut self, now: Instant) -> Option<NamespacedName> {
        while self.due.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, key)) = self.due.pop_first() else { break };
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            entry.queued_at = None;
            entry.has_turn = true;
            self.turns_since = now;
            self.turns.push(&key.namespace, (), key.name);
        }
        loop {
            let (namespace, name) = self.turns.pop()?;
            let key = NamespacedName::new(&*namespace, name);
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            entry.has_turn = false;
            // Further changes may have postponed it since it was queued.
            if !entry.is_writing && entry.schedule.due().is_some_and(|due| due <= now) {
                self.had_permit = false;
                return Some(key);
            }
            self.requeue(&key);
        }
    }

    /// Call this after an object was reconciled, with the time that it took. If its status was not written, the object
    /// is postponed, so that others get their turn. While it waits for a permit to write, it is only reconciled for its alerts.
    pub(super) fn reconciled(&mut self, key: &NamespacedName, took: Duration, now: Instant) {
        self.turns.charge(&key.namespace, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        let awaits_permit = self.entries.get(key).is_some_and(|entry| entry.awaits_permit);
        let interval = awaits_permit.then(|| now + self.timings.status_write_interval);
        let until = self.pause(&key.namespace, took, now).into_iter().chain(interval).max();
        let is_idle = |entry: &Entry| !entry.is_writing;
        self.reschedule_if(key, is_idle, |schedule| schedule.postpone_until(until.unwrap_or(now)));
    }

    /// Records the time of a reconcile. Returns until when the object pauses: if all together take more than their share, and
    /// its namespace more than its part of it. The objects of such a namespace then follow each other at its pace.
    fn pause(&mut self, namespace: &str, took: Duration, now: Instant) -> Option<Instant> {
        let cost = took.div_f64(SHARE);
        self.time.charge(cost, SAVED + LONGEST_PAUSE, now);
        // Each busy namespace saves up as much time as if it were the only one: an object that changes now and then must not
        // pause because others are busy.
        let busy = u32::try_from(self.times.busy(now)).unwrap_or(u32::MAX).max(1);
        let saved = SAVED.saturating_mul(busy);
        self.times.charge(namespace, cost.saturating_mul(busy), saved.saturating_add(LONGEST_PAUSE), now);
        self.time.wait_until(SAVED, now)?;
        self.times.wait_until(namespace, saved, now)
    }

    /// The schedule of an object that is being reconciled. Changes take effect with [`reconciled`](Self::reconciled).
    pub(super) fn schedule(&mut self, key: &NamespacedName) -> Option<&mut Schedule> {
        self.entries.get_mut(key).map(|entry| &mut entry.schedule)
    }

    /// When the first change of an object was received that no status shows yet.
    pub(super) fn dirty_since(&self, key: &NamespacedName) -> Option<Instant> {
        self.entries.get(key).and_then(|entry| entry.schedule.dirty_since())
    }

    /// Whether a write of the object's status is under way.
    pub(super) fn is_writing(&self, key: &NamespacedName) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.is_writing)
    }

    /// Starts a write of this size if the limits allow it. Otherwise the object waits for a permit and is reconciled again then.
    pub(super) fn begin_write(&mut self, key: &NamespacedName, bytes: usize, now: Instant) -> Option<WritePermit> {
        let entry = self.entries.get_mut(key)?;
        let is_retry = entry.retries.failures() > 0;
        if entry.awaits_permit {
            // Its turn comes with `next`.
            entry.schedule.pause();
            self.write_limiter.resize(key, bytes);
            return None;
        }
        let Some(permit) = self.write_limiter.acquire(key, is_retry, bytes, now) else {
            entry.schedule.pause();
            entry.awaits_permit = true;
            self.write_limiter.enqueue(key.clone(), is_retry, bytes);
            return None;
        };
        entry.schedule.writing(now);
        entry.is_writing = true;
        Some(permit)
    }

    /// Returns the permit of a write that has ended, also if its object is gone.
    pub(super) fn release(&mut self, permit: WritePermit, now: Instant) {
        self.write_limiter.release(permit, now);
    }

    pub(super) fn write_succeeded(&mut self, key: &NamespacedName) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.is_writing = false;
            entry.retries.reset();
        }
        self.requeue(key);
    }

    /// Returns the delay until the next try, and how many writes have failed in a row.
    pub(super) fn write_failed(&mut self, key: &NamespacedName, now: Instant) -> (Duration, u32) {
        let Some(entry) = self.entries.get_mut(key) else { return (FIRST_RETRY, 1) };
        entry.is_writing = false;
        let delay = entry.retries.next_delay();
        entry.schedule.failed(now, delay);
        let failures = entry.retries.failures();
        self.requeue(key);
        (delay, failures)
    }

    /// Forgets failed writes, since a changed spec may end their cause.
    pub(super) fn forget_failures(&mut self, key: &NamespacedName) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.retries.reset();
        }
    }

    fn reschedule(&mut self, key: &NamespacedName, change: impl FnOnce(&mut Schedule)) {
        self.reschedule_if(key, |_| true, change);
    }

    fn reschedule_if(
        &mut self,
        key: &NamespacedName,
        condition: impl FnOnce(&Entry) -> bool,
        change: impl FnOnce(&mut Schedule),
    ) {
        if let Some(entry) = self.entries.get_mut(key)
            && condition(entry)
        {
            change(&mut entry.schedule);
        }
        self.requeue(key);
    }

    fn reschedule_all(&mut self, change: impl Fn(&mut Schedule)) {
        let keys: Vec<_> = self.entries.keys().cloned().collect();
        for key in keys {
            self.reschedule(&key, &change);
        }
    }

    /// Moves an object to its place in the order.
    fn requeue(&mut self, key: &NamespacedName) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        // `next` looks at it anyway.
        if entry.has_turn {
            return;
        }
        // Changes during a write are answered after it.
        let due = if entry.is_writing { None } else { entry.schedule.due() };
        // A place that is too early is corrected by `next`. Otherwise every event of a burst would move the object.
        let stays = entry.queued_at.zip(due).is_some_and(|(queued_at, due)| queued_at <= due);
        if stays || entry.queued_at == due {
            return;
        }
        if let Some(queued_at) = entry.queued_at.take() {
            self.due.remove(&(queued_at, key.clone()));
        }
        if let Some(due) = due {
            entry.queued_at = Some(due);
            self.due.insert((due, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
