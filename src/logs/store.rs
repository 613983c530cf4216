//! The ends of logs that were read, kept for as long as their containers' lives matter.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Life, LogPolicy, LogRequest, Outcome, Tail};
use crate::api::LogSource;

/// How often a log is read that can't be had for a reason that passes, before the last answer stands.
const TRIES: u32 = 5;

/// The longest wait between two tries.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How long before a container is seen to run again it may have been started: a kubelet reports its
/// containers about every 10 s.
const DOUBT: Duration = Duration::from_secs(30);

/// What one kept tail takes beside its text, in bytes, roughly.
const OVERHEAD: usize = 512;

/// Bounds of a [`TailStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// The bytes that all of it may take.
    pub bytes: usize,
    /// How many tails.
    pub tails: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { bytes: 16 * 1024 * 1024, tails: 20_000 }
    }
}

/// The ends of logs by life and policy, and which are being read. Holds no clock and does no reading:
/// its owner asks [`begin`](Self::begin) before it reads, and tells [`finish`](Self::finish) what came.
///
/// Where the bytes don't suffice, the text that was read first is given up, its container's note says
/// so, and it isn't read again.
#[derive(Debug, Default)]
pub struct TailStore {
    limits: StoreLimits,
    kept: HashMap<Key, Kept>,
    /// The order in which texts were read.
    order: BTreeMap<u64, Key>,
    sequence: u64,
    bytes: usize,
    evicted: u64,
    refused: u64,
}

/// Two objects that ask the same of the same log share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    life: Life,
    policy: Arc<LogPolicy>,
}

#[derive(Debug)]
struct Kept {
    /// Absent while it is read for the first time.
    tail: Option<Tail>,
    reading: bool,
    tries: u32,
    /// When to read again, where that may help.
    due: Option<Instant>,
    sequence: u64,
    /// When it was last read as the log of the present life: kubelets know no other name for it.
    read_as_present: Option<Instant>,
}

impl TailStore {
    /// An empty store.
    #[must_use]
    pub fn new(limits: StoreLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What is known of a log. Its source is told as of this request: a life that was the present one
    /// when it was read may be the previous one by now.
    #[must_use]
    pub fn get(&self, request: &LogRequest) -> Option<Tail> {
        let mut tail = self.kept.get(&Key::of(request))?.tail.clone()?;
        if matches!(tail.source, LogSource::Current | LogSource::Previous) {
            tail.source = request.source();
        }
        Some(tail)
    }

    /// Whether a log is to be read now. Answers so once: the next time after [`finish`](Self::finish),
    /// and only where another try may help and is due.
    pub fn begin(&mut self, request: &LogRequest, now: Instant) -> bool {
        let held = self.kept.len();
        match self.kept.entry(Key::of(request)) {
            Entry::Occupied(entry) => {
                let kept = entry.into_mut();
                // Where the next life had begun by then, what was read is its log, not this one's.
                let doubtful = request.started_again
                    && !kept.reading
                    && kept.read_as_present.take().is_some_and(|read| now < read + DOUBT);
                if doubtful {
                    self.bytes -= kept.size();
                    self.order.remove(&kept.sequence);
                    kept.tail = None;
                }
                let due = !kept.reading && (doubtful || kept.due.is_some_and(|due| due <= now));
                kept.reading |= due;
                due
            }
            Entry::Vacant(_) if held >= self.limits.tails => {
                self.refused += 1;
                false
            }
            Entry::Vacant(entry) => {
                entry.insert(Kept {
                    tail: None,
                    reading: true,
                    tries: 0,
                    due: None,
                    sequence: 0,
                    read_as_present: None,
                });
                true
            }
        }
    }

    /// Keeps what came of a reading. What nobody waits for any more is dropped.
    pub fn finish(&mut self, request: &LogRequest, outcome: Outcome, now: Instant) {
        let key = Key::of(request);
        let Some(kept) = self.kept.get_mut(&key) else { return };
        kept.reading = false;
        kept.tries += 1;
        kept.read_as_present = (!request.previous).then_some(now);
        kept.due = outcome
            .retry
            .filter(|_| kept.tries < TRIES)
            .and_then(|wait| now.checked_add((wait * 2_u32.pow(kept.tries - 1)).min(LONGEST_WAIT)));
        self.order.remove(&kept.sequence);
        self.bytes -= kept.size();
        // A try that brought nothing takes nothing away.
        let better = kept.tail.as_ref().is_none_or(|old| old.text.is_empty() || !outcome.tail.text.is_empty());
        if better {
            kept.tail = Some(outcome.tail);
        }
        self.bytes += kept.size();
        if kept.size() > 0 {
            self.sequence += 1;
            kept.sequence = self.sequence;
            self.order.insert(self.sequence, key);
        }
        self.evict();
    }

    /// Forgets a reading that came to nothing, such as one that was cancelled, so that it can begin again.
    pub fn abandon(&mut self, request: &LogRequest) {
        if let Entry::Occupied(mut entry) = self.kept.entry(Key::of(request)) {
            entry.get_mut().reading = false;
            if entry.get().tail.is_none() {
                entry.remove();
            }
        }
    }

    /// Forgets the lives that don't matter any more.
    pub fn retain(&mut self, mut matters: impl FnMut(&Life, &LogPolicy) -> bool) {
        let (order, bytes) = (&mut self.order, &mut self.bytes);
        self.kept.retain(|key, kept| {
            let stays = matters(&key.life, &key.policy);
            if !stays {
                order.remove(&kept.sequence);
                *bytes -= kept.size();
            }
            stays
        });
    }

    /// When a log is due to be read again, if another try may help.
    #[must_use]
    pub fn due(&self, request: &LogRequest) -> Option<Instant> {
        self.kept.get(&Key::of(request)).filter(|kept| !kept.reading)?.due
    }

    /// How many tails are kept, and how many bytes they take.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.kept.len(), self.bytes)
    }

    /// How many texts were given up for want of room, ever.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// How often a log wasn't read because so many are kept, ever.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn evict(&mut self) {
        while self.bytes > self.limits.bytes {
            let Some((_, key)) = self.order.pop_first() else { break };
            let Some(kept) = self.kept.get_mut(&key) else { continue };
            self.bytes -= kept.size();
            kept.due = None;
            kept.tail = Some(Tail::unavailable("left out: the logs of all failing containers take too much room"));
            self.evicted += 1;
        }
    }
}

impl Key {
    fn of(request: &LogRequest) -> Self {
        Self { life: request.life.clone(), policy: Arc::clone(&request.policy) }
    }
}

impl Kept {
    /// The bytes that count against the bound: those of a text, with its overhead.
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
    use crate::{logs::Which, pods::Uid};

    fn request(which: i32, tail_lines: u32, previous: bool) -> LogRequest {
        LogRequest {
            life: Life { uid: Uid::from(1), container: "app".into(), which: Which::Running(which) },
            namespace: "shop".into(),
            pod: "cart".into(),
            node: "n".into(),
            previous,
            started_again: false,
            termination_message: "".into(),
            policy: Arc::new(LogPolicy { tail_lines, max_bytes: 4096, redact: true, redact_patterns: Vec::new() }),
        }
    }

    fn outcome(text: &str, retry: Option<u64>) -> Outcome {
        let tail = Tail { source: LogSource::Current, text: text.into(), note: String::new() };
        Outcome { tail, retry: retry.map(Duration::from_secs) }
    }

    fn text(store: &mut TailStore, request: &LogRequest) -> Option<String> {
        store.get(request).map(|tail| tail.text.clone())
    }

    #[test]
    fn a_log_is_read_once_for_each_life_and_policy() {
        let (mut store, now) = (TailStore::new(StoreLimits::default()), Instant::now());
        let first = request(1, 20, false);
        assert!(store.begin(&first, now));
        assert!(!store.begin(&first, now), "it is being read");
        assert_eq!(store.get(&first), None);
        store.finish(&first, outcome("one", None), now);
        assert!(!store.begin(&first, now) && !store.begin(&request(1, 20, true), now), "it was read");
        assert!(store.begin(&request(2, 20, false), now) && store.begin(&request(1, 10, false), now));
        assert_eq!(store.get(&first).map(|tail| tail.source), Some(LogSource::Current));
        let later = request(1, 20, true);
        assert_eq!(store.get(&later).map(|tail| tail.source), Some(LogSource::Previous), "the life is over by now");
    }

    #[test]
    fn a_log_that_may_be_the_next_lifes_is_read_again_once() {
        let (mut store, now) = (TailStore::new(StoreLimits::default()), Instant::now());
        let ended = request(1, 20, false);
        let again = LogRequest { started_again: true, ..request(1, 20, true) };
        for (seen, doubtful) in [(now + DOUBT / 2, true), (now + DOUBT, false)] {
            store = TailStore::new(StoreLimits::default());
            assert!(store.begin(&ended, now));
            store.finish(&ended, outcome("whose is it?", None), now);
            assert!(!store.begin(&request(1, 20, true), seen), "it waits to be started");
            assert_eq!(store.begin(&again, seen), doubtful);
            assert_eq!(text(&mut store, &again).is_none(), doubtful);
            if doubtful {
                store.finish(&again, outcome("the former life's", None), seen);
            }
            assert!(!store.begin(&again, seen), "once");
        }
        assert_eq!(store.size().1, outcome("whose is it?", None).tail.text.len() + OVERHEAD);
    }

    #[test]
    fn what_may_pass_is_tried_again_ever_less_often_and_not_for_ever() {
        let (mut store, start) = (TailStore::new(StoreLimits::default()), Instant::now());
        let request = request(1, 20, false);
        assert!(store.begin(&request, start));
        store.finish(&request, outcome("part", Some(10)), start);
        assert_eq!(store.due(&request), Some(start + Duration::from_secs(10)));
        assert!(!store.begin(&request, start + Duration::from_secs(9)));
        let mut now = start + Duration::from_secs(10);
        let mut tries = 1;
        while store.begin(&request, now) {
            assert_eq!(store.due(&request), None, "it is being read");
            tries += 1;
            store.finish(&request, outcome("", Some(10)), now);
            now = store.due(&request).unwrap_or(now);
        }
        assert_eq!((tries, now), (TRIES, start + Duration::from_secs(10 + 20 + 40 + 80)));
        assert_eq!(text(&mut store, &request).as_deref(), Some("part"), "a try that brings nothing takes nothing");
    }

    #[test]
    fn bytes_are_bounded_and_what_goes_is_told_and_not_read_again() {
        let (mut store, now) = (TailStore::new(StoreLimits { bytes: 3 * (OVERHEAD + 100), tails: 10 }), Instant::now());
        for life in 0..5 {
            assert!(store.begin(&request(life, 20, false), now));
            store.finish(&request(life, 20, false), outcome(&"x".repeat(100), Some(1)), now);
        }
        assert_eq!((store.size(), store.evicted()), ((5, 3 * (OVERHEAD + 100)), 2));
        let gone = store.get(&request(0, 20, false)).unwrap();
        assert!(gone.source == LogSource::Unavailable && gone.note.contains("too much room"));
        assert!(!store.begin(&request(0, 20, false), now + Duration::from_secs(100)));
        assert_eq!(text(&mut store, &request(4, 20, false)), Some("x".repeat(100)));

        store.retain(|life, _| life.which == Which::Running(3));
        assert_eq!(store.size(), (1, OVERHEAD + 100));
        store.retain(|_, _| false);
        assert_eq!(store.size(), (0, 0));
        assert!(store.order.is_empty());
    }

    #[test]
    fn tails_are_bounded() {
        let (mut store, now) = (TailStore::new(StoreLimits { bytes: 1 << 20, tails: 2 }), Instant::now());
        assert!(store.begin(&request(0, 20, false), now) && store.begin(&request(1, 20, false), now));
        assert!(!store.begin(&request(2, 20, false), now));
        assert_eq!(store.refused(), 1);
    }

    #[test]
    fn what_was_given_up_can_begin_again() {
        let (mut store, now) = (TailStore::new(StoreLimits::default()), Instant::now());
        let request = request(1, 20, false);
        assert!(store.begin(&request, now));
        store.abandon(&request);
        assert!(store.begin(&request, now));
        store.retain(|_, _| false);
        store.finish(&request, outcome("late", None), now);
        assert_eq!(store.get(&request), None);
        assert_eq!(store.size(), (0, 0));
    }
}
