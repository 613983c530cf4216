//! Keeps the tails of logs as long as their container instances are of interest.

use std::{
    collections::{BTreeMap, HashMap, hash_map},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{ContainerInstance, LogPolicy, LogRequest, ReadResult, Tail};
use crate::{api::LogSource, backoff::doubled};

/// How often a log is read, at most, if each read fails for a temporary reason.
const MAX_TRIES: u32 = 5;

/// The longest delay between two tries.
const MAX_DELAY: Duration = Duration::from_secs(300);

/// How long after its start a container may still be reported as not running: a kubelet updates the status about every
/// 10 s.
const STATUS_DELAY: Duration = Duration::from_secs(30);

/// The approximate memory of an entry besides its text, in bytes.
const OVERHEAD: usize = 512;

/// Bounds of a [`TailStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of all texts, with 512 more for each.
    pub bytes: usize,
    /// The number of entries.
    pub tails: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { bytes: 16 * 1024 * 1024, tails: 20_000 }
    }
}

/// Tails of logs by container instance and policy, and which of them are being read. It has no clock and reads nothing
/// itself: the caller asks [`begin`](Self::begin) before it reads, and passes the result to [`finish`](Self::finish).
///
/// When the texts exceed the bound, the one that was read first is evicted. A note takes its place, and that log is not
/// read again.
#[derive(Debug, Default)]
pub struct TailStore {
    limits: StoreLimits,
    entries: HashMap<Key, Entry>,
    /// The entries with a text, in the order in which they were read.
    order: BTreeMap<u64, Key>,
    sequence: u64,
    bytes: usize,
}

/// Objects with the same policy share an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    instance: ContainerInstance,
    policy: Arc<LogPolicy>,
}

#[derive(Debug)]
struct Entry {
    /// Absent until the first read has finished.
    tail: Option<Tail>,
    is_reading: bool,
    tries: u32,
    /// When to read again, if that may help.
    due: Option<Instant>,
    sequence: u64,
    /// When the log was last requested as that of the present instance. A kubelet offers only "present" and "previous".
    read_as_present: Option<Instant>,
}

impl TailStore {
    #[must_use]
    pub fn new(limits: StoreLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The stored tail, if the log was read. Its source is the request's: an instance that was the present one when its
    /// log was read may be the previous one by now.
    #[must_use]
    pub fn get(&self, request: &LogRequest) -> Option<Tail> {
        let mut tail = self.entries.get(&Key::of(request))?.tail.clone()?;
        if matches!(tail.source, LogSource::Current | LogSource::Previous) {
            tail.source = request.source();
        }
        Some(tail)
    }

    /// Whether the caller should read a log now. Returns true once per read: the next time is after
    /// [`finish`](Self::finish), and only if another try is due.
    pub fn begin(&mut self, request: &LogRequest, now: Instant) -> bool {
        let count = self.entries.len();
        match self.entries.entry(Key::of(request)) {
            hash_map::Entry::Occupied(entry) => {
                let entry = entry.into_mut();
                // If the next instance had already started at that time, the log that was read is that instance's.
                let is_doubtful = request.started_again
                    && !entry.is_reading
                    && entry.read_as_present.take().is_some_and(|read| now < read + STATUS_DELAY);
                if is_doubtful {
                    self.bytes -= entry.size();
                    self.order.remove(&entry.sequence);
                    entry.tail = None;
                }
                let is_due = !entry.is_reading && (is_doubtful || entry.due.is_some_and(|due| due <= now));
                entry.is_reading |= is_due;
                is_due
            }
            hash_map::Entry::Vacant(_) if count >= self.limits.tails => false,
            hash_map::Entry::Vacant(entry) => {
                entry.insert(Entry {
                    tail: None,
                    is_reading: true,
                    tries: 0,
                    due: None,
                    sequence: 0,
                    read_as_present: None,
                });
                true
            }
        }
    }

    /// Stores the result of a read. It is dropped if the entry was removed in the meantime.
    pub fn finish(&mut self, request: &LogRequest, result: ReadResult, now: Instant) {
        let key = Key::of(request);
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.is_reading = false;
        entry.tries += 1;
        entry.read_as_present = (!request.previous).then_some(now);
        entry.due = result
            .retry
            .filter(|_| entry.tries < MAX_TRIES)
            .and_then(|delay| now.checked_add(doubled(delay, entry.tries - 1, MAX_DELAY)));
        self.order.remove(&entry.sequence);
        self.bytes -= entry.size();
        // A retry that returns no text does not replace one.
        if entry.tail.as_ref().is_none_or(|old| old.text.is_empty() || !result.tail.text.is_empty()) {
            entry.tail = Some(result.tail);
        }
        self.bytes += entry.size();
        if entry.size() > 0 {
            self.sequence += 1;
            entry.sequence = self.sequence;
            self.order.insert(self.sequence, key);
        }
        self.evict();
    }

    /// Removes the entries that no longer matter.
    pub(crate) fn retain(&mut self, mut matters: impl FnMut(&ContainerInstance, &LogPolicy) -> bool) {
        let (order, bytes) = (&mut self.order, &mut self.bytes);
        self.entries.retain(|key, entry| {
            let stays = matters(&key.instance, &key.policy);
            if !stays {
                order.remove(&entry.sequence);
                *bytes -= entry.size();
            }
            stays
        });
    }

    /// When a log is due to be read again, if another try may help.
    #[must_use]
    pub(crate) fn due(&self, request: &LogRequest) -> Option<Instant> {
        self.entries.get(&Key::of(request)).filter(|entry| !entry.is_reading)?.due
    }

    /// The number of entries, and the bytes that count against the bound.
    #[cfg(test)]
    fn size(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    fn evict(&mut self) {
        while self.bytes > self.limits.bytes {
            let Some((_, key)) = self.order.pop_first() else { break };
            let Some(entry) = self.entries.get_mut(&key) else { continue };
            self.bytes -= entry.size();
            entry.due = None;
            entry.tail = Some(Tail::unavailable("left out: the logs of all failing containers take too much room"));
        }
    }
}

impl Key {
    fn of(request: &LogRequest) -> Self {
        Self { instance: request.instance.clone(), policy: Arc::clone(&request.policy) }
    }
}

impl Entry {
    /// The bytes that count against the bound: a text with its overhead.
    fn size(&self) -> usize {
        match &self.tail {
            Some(tail) if !tail.text.is_empty() => tail.text.len() + tail.note.len() + OVERHEAD,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{logs::InstanceId, pods::Uid};

    fn request(restarts: i32, tail_lines: u32, previous: bool) -> LogRequest {
        LogRequest {
            instance: ContainerInstance {
                uid: Uid::from(1),
                container: "app".into(),
                id: InstanceId::Running(restarts),
            },
            namespace: "shop".into(),
            pod: "cart".into(),
            node: "n".into(),
            previous,
            started_again: false,
            termination_message: "".into(),
            policy: Arc::new(LogPolicy { tail_lines, max_bytes: 4096, redact: true, redact_patterns: Vec::new() }),
        }
    }

    fn result(text: &str, retry: Option<u64>) -> ReadResult {
        let tail = Tail { source: LogSource::Current, text: text.into(), note: String::new() };
        ReadResult { tail, retry: retry.map(Duration::from_secs) }
    }

    fn text(store: &mut TailStore, request: &LogRequest) -> Option<String> {
        store.get(request).map(|tail| tail.text.clone())
    }

    #[test]
    fn reads_a_log_once_per_instance_and_policy() {
        let (mut store, now) = (TailStore::new(StoreLimits::default()), Instant::now());
        let first = request(1, 20, false);
        assert!(store.begin(&first, now));
        assert!(!store.begin(&first, now), "it is being read");
        assert_eq!(store.get(&first), None);
        store.finish(&first, result("one", None), now);
        assert!(!store.begin(&first, now) && !store.begin(&request(1, 20, true), now), "it was read");
        assert!(store.begin(&request(2, 20, false), now) && store.begin(&request(1, 10, false), now));
        assert_eq!(store.get(&first).map(|tail| tail.source), Some(LogSource::Current));
        let later = request(1, 20, true);
        assert_eq!(
            store.get(&later).map(|tail| tail.source),
            Some(LogSource::Previous),
            "the instance has ended by now"
        );
    }

    #[test]
    fn reads_a_log_again_that_may_belong_to_the_next_instance() {
        let (mut store, now) = (TailStore::new(StoreLimits::default()), Instant::now());
        let ended = request(1, 20, false);
        let again = LogRequest { started_again: true, ..request(1, 20, true) };
        for (seen, doubtful) in [(now + STATUS_DELAY / 2, true), (now + STATUS_DELAY, false)] {
            store = TailStore::new(StoreLimits::default());
            assert!(store.begin(&ended, now));
            store.finish(&ended, result("of which instance?", None), now);
            assert!(!store.begin(&request(1, 20, true), seen), "it is waiting to be started");
            assert_eq!(store.begin(&again, seen), doubtful);
            assert_eq!(text(&mut store, &again).is_none(), doubtful);
            if doubtful {
                store.finish(&again, result("the log of the previous instance", None), seen);
            }
            assert!(!store.begin(&again, seen), "once");
        }
        assert_eq!(store.size().1, result("of which instance?", None).tail.text.len() + OVERHEAD);
    }

    #[test]
    fn retries_temporary_failures_with_backoff_and_a_limit() {
        let (mut store, start) = (TailStore::new(StoreLimits::default()), Instant::now());
        let request = request(1, 20, false);
        assert!(store.begin(&request, start));
        store.finish(&request, result("part", Some(10)), start);
        assert_eq!(store.due(&request), Some(start + Duration::from_secs(10)));
        assert!(!store.begin(&request, start + Duration::from_secs(9)));
        let mut now = start + Duration::from_secs(10);
        let mut tries = 1;
        while store.begin(&request, now) {
            assert_eq!(store.due(&request), None, "it is being read");
            tries += 1;
            store.finish(&request, result("", Some(10)), now);
            now = store.due(&request).unwrap_or(now);
        }
        assert_eq!((tries, now), (MAX_TRIES, start + Duration::from_secs(10 + 20 + 40 + 80)));
        assert_eq!(text(&mut store, &request).as_deref(), Some("part"), "a retry without a text keeps the old one");
    }

    #[test]
    fn evicts_the_oldest_texts_and_does_not_read_them_again() {
        let (mut store, now) = (TailStore::new(StoreLimits { bytes: 3 * (OVERHEAD + 100), tails: 10 }), Instant::now());
        for restarts in 0..5 {
            assert!(store.begin(&request(restarts, 20, false), now));
            store.finish(&request(restarts, 20, false), result(&"x".repeat(100), Some(1)), now);
        }
        assert_eq!(store.size(), (5, 3 * (OVERHEAD + 100)));
        let gone = store.get(&request(0, 20, false)).unwrap();
        assert!(gone.source == LogSource::Unavailable && gone.note.contains("too much room"));
        assert!(!store.begin(&request(0, 20, false), now + Duration::from_secs(100)));
        assert_eq!(text(&mut store, &request(4, 20, false)), Some("x".repeat(100)));

        store.retain(|instance, _| instance.id == InstanceId::Running(3));
        assert_eq!(store.size(), (1, OVERHEAD + 100));
        store.retain(|_, _| false);
        assert_eq!(store.size(), (0, 0));
        assert!(store.order.is_empty());
    }

    #[test]
    fn bounds_the_number_of_tails() {
        let (mut store, now) = (TailStore::new(StoreLimits { bytes: 1 << 20, tails: 2 }), Instant::now());
        assert!(store.begin(&request(0, 20, false), now) && store.begin(&request(1, 20, false), now));
        assert!(!store.begin(&request(2, 20, false), now));
        assert_eq!(store.size().0, 2);
    }

    #[test]
    fn drops_a_result_that_no_object_waits_for() {
        let (mut store, now) = (TailStore::new(StoreLimits::default()), Instant::now());
        let request = request(1, 20, false);
        assert!(store.begin(&request, now));
        store.retain(|_, _| false);
        store.finish(&request, result("late", None), now);
        assert_eq!(store.get(&request), None);
        assert_eq!(store.size(), (0, 0));
    }
}
