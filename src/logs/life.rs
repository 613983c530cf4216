//! What is stored about the log of one container instance.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Asker, ContainerInstance, LogEnd, LogPolicy, LogRead, LogRequest, ReadResult, Tail, log_end::Need};
use crate::{
    api::{LogSource, NamespacedName},
    backoff::doubled,
};

/// How often a log is read, at most, if each read fails for a temporary reason.
pub(super) const MAX_TRIES: u32 = 5;

/// The longest delay between two tries.
const MAX_DELAY: Duration = Duration::from_secs(300);

/// How long after its start a container may still be reported as not running: a kubelet updates the status about every
/// 10 s.
pub(super) const STATUS_DELAY: Duration = Duration::from_secs(30);

/// How long after a read its log may be read again because its text was evicted.
pub(super) const REREAD_DELAY: Duration = Duration::from_secs(60);

/// For how many namespaces a log is read without that delay.
const MAX_SERVED: usize = 16;

/// The approximate memory of a tail besides its text, in bytes.
pub(super) const OVERHEAD: usize = 1024;

/// The log of a container instance.
#[derive(Debug)]
pub(super) struct Life {
    /// How to read it, by the latest state of the pod.
    pub(super) target: LogRead,
    /// The end of the log, unless it was not read or was evicted.
    pub(super) end: Option<Arc<LogEnd>>,
    /// Changes with `end`.
    pub(super) generation: u64,
    pub(super) reading: Option<Reading>,
    /// The namespaces in whose queues a read waits.
    pub(super) queued: Vec<Arc<str>>,
    pub(super) last_read: Option<Instant>,
    /// When to retry a failed read.
    pub(super) due: Option<Instant>,
    /// When the log was last requested as that of the present instance. A kubelet offers only "present" and "previous".
    pub(super) read_as_present: Option<Instant>,
    pub(super) tails: HashMap<Arc<LogPolicy>, TailEntry>,
    tries: u32,
    /// The namespaces that waited for a read.
    served: Vec<Arc<str>>,
    /// Whether the end was read again because a policy needs more than the first one.
    was_deepened: bool,
}

/// A read under way.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) namespace: Arc<str>,
    previous: bool,
}

/// The part of a log that one policy shows. Objects with equal policies share it.
#[derive(Debug, Default)]
pub(super) struct TailEntry {
    pub(super) state: TailState,
    /// Whether the text is older than the stored end.
    pub(super) is_stale: bool,
    pub(super) is_masking: bool,
    /// The namespaces in whose queues its redaction waits.
    pub(super) queued: Vec<Arc<str>>,
    /// The objects that wait for it, and their namespaces.
    pub(super) waiting: HashSet<Arc<NamespacedName>>,
    pub(super) namespaces: Vec<Arc<str>>,
    /// Why nothing is under way, if so.
    pub(super) delay: Option<&'static str>,
    /// The termination message of the instance.
    pub(super) message: Arc<str>,
    /// The sweep before which it was last asked for.
    pub(super) asked: u32,
}

#[derive(Debug, Default)]
pub(super) enum TailState {
    #[default]
    Wanted,
    Shown(Tail),
    /// Removed to make room for others; with the size that it had.
    Evicted(usize),
}

/// Identifies a tail.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TailKey {
    pub(super) instance: ContainerInstance,
    pub(super) policy: Arc<LogPolicy>,
}

impl TailKey {
    pub(super) fn of(request: &LogRequest) -> Self {
        Self { instance: request.read.instance.clone(), policy: Arc::clone(&request.policy) }
    }
}

impl Life {
    pub(super) fn new(target: LogRead) -> Self {
        Self {
            target,
            end: None,
            generation: 0,
            reading: None,
            queued: Vec::new(),
            last_read: None,
            due: None,
            read_as_present: None,
            tails: HashMap::new(),
            tries: 0,
            served: Vec::new(),
            was_deepened: false,
        }
    }

    /// Forgets a text that may be that of the next instance: that one may have been the present one when the log was read.
    /// Returns whether it did.
    pub(super) fn forget_if_doubtful(&mut self, request: &LogRequest, now: Instant) -> bool {
        let is_doubtful = request.started_again
            && self.reading.is_none()
            && self.read_as_present.take().is_some_and(|read| now < read + STATUS_DELAY);
        if is_doubtful {
            self.end = None;
            self.generation += 1;
            self.due = Some(now);
            for tail in self.tails.values_mut() {
                tail.state = TailState::Wanted;
                tail.is_stale = false;
            }
        }
        is_doubtful
    }

    /// Whether a failed read is to be retried now.
    pub(super) fn is_retry_due(&self, now: Instant) -> bool {
        self.reading.is_none() && self.due.is_some_and(|due| due <= now)
    }

    /// When the log may be read on behalf of a namespace, for a policy that the stored end does not cover.
    pub(super) fn next_read(&self, namespace: &Arc<str>, now: Instant) -> Instant {
        let is_first = self.served.len() < MAX_SERVED && !self.served.contains(namespace);
        match self.last_read {
            None => now,
            Some(_) if self.end.is_some() && !self.was_deepened => now,
            // Its end may have been evicted before this namespace asked for it.
            Some(_) if self.end.is_none() && is_first => now,
            Some(last) => self.due.map_or(last + REREAD_DELAY, |due| due.min(last + REREAD_DELAY)),
        }
    }

    /// Begins a read if one is still needed.
    pub(super) fn begin(&mut self, namespace: Arc<str>, now: Instant) -> Option<LogRead> {
        let wanted = self.tails.iter().filter(|(_, tail)| !tail.is_shown()).map(|(policy, _)| Need::of(policy));
        let wanted = wanted.reduce(Need::or);
        let is_retry = self.is_retry_due(now);
        let is_covered = wanted.is_none_or(|need| self.end.as_ref().is_some_and(|end| end.covers(need)));
        if self.reading.is_some() || (!is_retry && (is_covered || self.next_read(&namespace, now) > now)) {
            return None;
        }
        let deepens = !is_retry && self.end.is_some();
        self.was_deepened |= deepens;
        let before = self.end.as_ref().map(|end| end.read);
        let need = if deepens { Some(Need::MOST) } else { wanted.into_iter().chain(before).reduce(Need::or) };
        let read = LogRead { need: need.unwrap_or(self.target.need), ..self.target.clone() };
        self.reading = Some(Reading { namespace, previous: read.previous });
        Some(read)
    }

    /// Stores the result of a read, and returns the read. A retry without a text does not replace one.
    pub(super) fn end(&mut self, result: ReadResult, now: Instant) -> Option<Reading> {
        let reading = self.reading.take()?;
        self.tries += 1;
        self.last_read = Some(now);
        for namespace in self.tails.values().flat_map(|tail| &tail.namespaces) {
            if self.served.len() < MAX_SERVED && !self.served.contains(namespace) {
                self.served.push(Arc::clone(namespace));
            }
        }
        self.read_as_present = (!reading.previous).then_some(now);
        self.due = result
            .retry
            .filter(|_| self.tries < MAX_TRIES)
            .and_then(|delay| now.checked_add(doubled(delay, self.tries - 1, MAX_DELAY)));
        if result.end.is_empty() && self.end.as_ref().is_some_and(|end| !end.is_empty()) {
            return Some(reading);
        }
        for tail in self.tails.values_mut() {
            let keeps = result.end.is_empty() && matches!(&tail.state, TailState::Shown(tail) if is_log(tail));
            tail.is_stale = matches!(tail.state, TailState::Shown(_)) && !keeps;
        }
        self.end = Some(Arc::new(result.end));
        self.generation += 1;
        Some(reading)
    }
}

impl TailEntry {
    /// Whether there is nothing to do.
    pub(super) fn is_shown(&self) -> bool {
        !self.is_stale && !matches!(self.state, TailState::Wanted)
    }

    /// The bytes that count against the bound.
    pub(super) fn size(&self) -> usize {
        OVERHEAD
            + match &self.state {
                TailState::Shown(tail) => tail.text.len() + tail.telling_line.len() + tail.note.len(),
                TailState::Wanted => self.message.len(),
                TailState::Evicted(_) => 0,
            }
    }

    /// Shows a tail. One without a text does not replace one with a text.
    pub(super) fn show(&mut self, tail: Tail) {
        self.is_stale = false;
        self.delay = None;
        let keeps = matches!(&self.state, TailState::Shown(old) if !old.text.is_empty() && tail.text.is_empty());
        if !keeps {
            self.state = TailState::Shown(tail);
        }
    }

    /// Notes why nothing is under way, unless something is on behalf of another object.
    pub(super) fn delay_by(&mut self, note: &'static str) {
        if self.waiting.is_empty() {
            self.delay = Some(note);
        }
    }

    pub(super) fn wait(&mut self, asker: &Asker) {
        self.waiting.insert(Arc::clone(&asker.object));
        if !self.namespaces.contains(&asker.namespace) {
            self.namespaces.push(Arc::clone(&asker.namespace));
        }
    }

    /// The objects that wait for it, which wait no longer.
    pub(super) fn take_waiting(&mut self) -> HashSet<Arc<NamespacedName>> {
        self.namespaces.clear();
        std::mem::take(&mut self.waiting)
    }
}

fn is_log(tail: &Tail) -> bool {
    matches!(tail.source, LogSource::Current | LogSource::Previous)
}
