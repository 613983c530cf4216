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
                let due = !kept.reading && kept.due.is_some_and(|due| due <= now);
                kept.reading |= due;
                due
            }
            Entry::Vacant(_) if held >= self.limits.tails => false,
            Entry::Vacant(entry) => {
                entry.insert(Kept { tail: None, reading: true, tries: 0, due: None, sequence: 0 });
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

    /// When the first log is due to be read again.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.kept.values().filter(|kept| !kept.reading).filter_map(|kept| kept.due).min()
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
