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
mod tests {
    use super::*;

    fn key(name: &str) -> NamespacedName {
        NamespacedName::new("shop", name)
    }

    /// A queue with one dirty object, and a time at which it is due.
    fn with_dirty_object() -> (WorkQueue, NamespacedName, Instant) {
        let (key, start) = (key("cluster"), Instant::now());
        let mut queue = WorkQueue::new(start, Timings::default());
        queue.insert(&key);
        queue.mark_dirty(&key, start);
        (queue, key, start + Duration::from_secs(10))
    }

    #[test]
    fn changes_during_a_write_are_due_after_it() {
        let (mut queue, key, now) = with_dirty_object();
        assert_eq!(queue.next(now).as_ref(), Some(&key));
        let permit = queue.begin_write(&key, 0, now).unwrap();
        queue.reconciled(&key, Duration::ZERO, now);
        queue.mark_dirty(&key, now);
        assert!(queue.is_writing(&key) && queue.next_due(now).is_none());
        queue.release(permit, now);
        queue.write_succeeded(&key);
        assert!(queue.next_due(now).is_some_and(|due| due > now));
    }

    #[test]
    fn a_failed_write_is_retried_with_growing_delays() {
        let (mut queue, key, mut now) = with_dirty_object();
        for failures in 1..=5 {
            assert_eq!(queue.next(now).as_ref(), Some(&key));
            let permit = queue.begin_write(&key, 0, now).unwrap();
            queue.release(permit, now);
            let (delay, counted) = queue.write_failed(&key, now);
            assert_eq!(counted, failures);
            assert!(queue.next(now + delay / 2).is_none());
            now += delay.max(Duration::from_secs(2));
        }
        queue.forget_failures(&key);
        assert_eq!(queue.next(now).as_ref(), Some(&key));
        let permit = queue.begin_write(&key, 0, now).unwrap();
        queue.release(permit, now);
        assert_eq!(queue.write_failed(&key, now).1, 1);
    }

    /// A queue of which all permits of a namespace are in use, and an object that waits for one.
    fn without_permits(start: Instant) -> (WorkQueue, Vec<WritePermit>, NamespacedName) {
        let mut queue = WorkQueue::new(start, Timings::default());
        let mut permits = Vec::new();
        loop {
            let key = key(&permits.len().to_string());
            queue.insert(&key);
            let Some(permit) = queue.begin_write(&key, 0, start) else { return (queue, permits, key) };
            permits.push(permit);
        }
    }

    #[test]
    fn an_object_without_a_permit_is_reconciled_when_one_is_free() {
        let start = Instant::now();
        let (mut queue, mut permits, waiting) = without_permits(start);
        assert_eq!(queue.next(start), None);
        queue.release(permits.pop().unwrap(), start);
        assert_eq!(queue.next(start), Some(waiting));
        assert_eq!(queue.next(start), None);
    }

    #[test]
    fn an_object_without_a_permit_is_reconciled_once_a_second() {
        let start = Instant::now();
        let (mut queue, mut permits, waiting) = without_permits(start);
        let mut reconciles = 0;
        let mut now = start;
        while now < start + Duration::from_secs(10) {
            now += Duration::from_millis(10);
            queue.mark_dirty(&waiting, now);
            if queue.next(now).is_some() {
                assert!(queue.begin_write(&waiting, 0, now).is_none());
                queue.reconciled(&waiting, Duration::from_millis(1), now);
                reconciles += 1;
            }
        }
        assert!((9..=11).contains(&reconciles), "{reconciles}");
        queue.release(permits.pop().unwrap(), now);
        assert_eq!(queue.next(now), Some(waiting.clone()));
        assert!(!queue.schedule(&waiting).unwrap().wait_for_logs(now));
        permits.extend(queue.begin_write(&waiting, 0, now));
        assert!(queue.is_writing(&waiting));
        assert!(queue.schedule(&waiting).unwrap().wait_for_logs(now), "the next status may wait for them");
    }

    #[test]
    fn another_namespace_does_not_wait_for_large_writes() {
        let start = Instant::now();
        let mut queue = WorkQueue::new(start, Timings::default());
        for namespace in 0..6 {
            for name in 0..20 {
                let key = NamespacedName::new(format!("n{namespace}"), name.to_string());
                queue.insert(&key);
                let _permit = queue.begin_write(&key, 500 << 10, start);
            }
        }
        let other = key("cluster");
        queue.insert(&other);
        assert!(queue.begin_write(&other, 30 << 10, start).is_some());
    }

    #[test]
    fn removed_objects_are_not_due() {
        let (mut queue, key, now) = with_dirty_object();
        queue.remove(&key);
        assert_eq!((queue.next(now), queue.next_due(now)), (None, None));
    }

    #[test]
    fn another_namespace_waits_for_one_reconcile_at_most() {
        const COST: Duration = Duration::from_millis(20);
        let start = Instant::now();
        let mut queue = WorkQueue::new(start, Timings::default());
        for name in 0..1_000 {
            let key = NamespacedName::new("many", name.to_string());
            queue.insert(&key);
            queue.mark_dirty(&key, start);
        }
        let other = key("cluster");
        queue.insert(&other);
        let mut now = start + Duration::from_secs(1);
        for _ in 0..100 {
            queue.mark_dirty(&other, now);
            now += Duration::from_millis(30);
            let mut waited = 0;
            loop {
                let next = queue.next(now).unwrap();
                let cost = if next == other { Duration::from_millis(1) } else { COST };
                now += cost;
                queue.reconciled(&next, cost, now);
                if next == other {
                    break;
                }
                queue.mark_dirty(&next, now);
                waited += 1;
            }
            assert!(waited <= 1, "{waited}");
        }
    }

    /// The share of the time that the objects of namespaces take if they change all the time and have nothing to write, and
    /// the longest pause of an object of each.
    fn simulate(namespaces: &[(&str, u32, Duration)]) -> (f64, Vec<Duration>) {
        let start = Instant::now();
        let mut queue = WorkQueue::new(start, Timings::default());
        let (mut now, mut busy, mut pauses) = (start, Duration::ZERO, vec![Duration::ZERO; namespaces.len()]);
        let mut due: BTreeSet<(Instant, usize, u32)> = BTreeSet::new();
        for (place, (_, objects, _)) in namespaces.iter().enumerate() {
            due.extend((0..*objects).map(|object| (start, place, object)));
        }
        let measured = start + Duration::from_secs(50);
        while now < start + Duration::from_secs(90) {
            let (at, place, object) = due.pop_first().unwrap();
            let (namespace, _, cost) = namespaces[place];
            now = now.max(at) + cost;
            busy += if now > measured { cost } else { Duration::ZERO };
            let until = queue.pause(namespace, cost, now).unwrap_or(now);
            pauses[place] = pauses[place].max(until - now);
            // The debounce takes 20 ms, and there is always another change.
            due.insert((until.max(now + Duration::from_millis(20)), place, object));
        }
        (busy.as_secs_f64() / 40.0, pauses)
    }

    #[test]
    fn few_objects_do_not_pause_and_many_leave_time_to_others() {
        let micros = Duration::from_micros;
        for few in [("shop", 1, micros(1_000)), ("shop", 16, micros(100))] {
            assert_eq!(simulate(&[few]).1, [Duration::ZERO], "{few:?}");
        }
        for (objects, cost) in [(300, 500), (300, 4_000), (1_000, 1_000), (20, 20_000), (3_000, 1_000)] {
            let (share, pauses) = simulate(&[("shop", objects, micros(cost))]);
            assert!((0.14..0.45).contains(&share), "{objects} objects of {cost} µs: {share:.2}");
            assert!(pauses[0] <= LONGEST_PAUSE, "{pauses:?}");
        }
    }

    #[test]
    fn expensive_objects_pause_only_their_own_namespace() {
        let millis = Duration::from_millis;
        let (share, pauses) =
            simulate(&[("greedy", 20, millis(20)), ("modest", 1, millis(1)), ("large", 20, millis(20))]);
        assert_eq!(pauses[1], Duration::ZERO);
        assert!(pauses[0] > millis(2_000) && pauses[2] > millis(2_000) && share < 0.25, "{share:.2} {pauses:?}");
    }

    /// Twelve namespaces take all the time that they get. In another one, an object changes every 5 s, and each of its reconciles
    /// takes 50 ms: that is less than its part in the long run, so nobody waits for it.
    #[test]
    fn an_object_that_seldom_changes_does_not_pause_while_others_are_busy() {
        let (start, millis) = (Instant::now(), Duration::from_millis);
        let mut queue = WorkQueue::new(start, Timings::default());
        let mut pauses = Vec::new();
        for tick in 0..6_000 {
            let now = start + tick * millis(10);
            queue.pause(&format!("busy-{}", tick % 12), millis(10), now);
            if tick % 500 == 499 {
                pauses.push(queue.pause("shop", millis(50), now).map_or(Duration::ZERO, |until| until - now));
            }
        }
        assert_eq!(pauses, [Duration::ZERO; 12]);
    }

    #[test]
    fn objects_with_a_permit_alternate_with_turns() {
        let start = Instant::now();
        let mut queue = WorkQueue::new(start, Timings::default());
        let mut permits = Vec::new();
        for index in 0..200 {
            let key = NamespacedName::new(format!("many{}", index % 20), index.to_string());
            queue.insert(&key);
            permits.extend(queue.begin_write(&key, 0, start));
        }
        permits.drain(..).for_each(|permit| queue.release(permit, start));
        let other = key("cluster");
        queue.insert(&other);
        queue.mark_dirty(&other, start);
        let now = start + Duration::from_secs(1);
        let order = [queue.next(now), queue.next(now), queue.next(now)].map(Option::unwrap);
        assert_eq!(order.iter().position(|key| *key == other), Some(1), "{order:?}");
    }

    #[test]
    fn keeps_nothing_of_deleted_objects() {
        let mut now = Instant::now();
        let mut queue = WorkQueue::new(now, Timings::default());
        let mut permits = Vec::new();
        for object in 0..10_000 {
            let key = NamespacedName::new(format!("n{}", object % 7), object.to_string());
            queue.insert(&key);
            queue.mark_dirty(&key, now);
            now += Duration::from_millis(26);
            if object % 3 == 0
                && let Some(next) = queue.next(now)
            {
                permits.extend(queue.begin_write(&next, 100_000, now));
                queue.reconciled(&next, Duration::from_millis(5), now);
            }
            queue.remove(&key);
            if permits.len() > 20 {
                permits.drain(..).for_each(|permit| queue.release(permit, now));
            }
        }
        permits.drain(..).for_each(|permit| queue.release(permit, now));
        assert!(queue.entries.is_empty() && queue.due.is_empty() && queue.turns.is_empty());
        assert_eq!((queue.next(now), queue.next_due(now)), (None, None));
        assert!(queue.write_limiter.is_idle());
    }
}
