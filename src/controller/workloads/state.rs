//! The known state of one workload.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::{
    api::{NamespacedName, Owner, Ownership},
    backoff::doubled,
};

use super::{
    failed_creation::{FailedCreation, NO_REFUSAL, Refusal},
    key::WorkloadKind,
    object::{Existence, Workload},
};

/// How long pods must be missing before that is a problem.
pub(super) const TOLERATED: Duration = Duration::from_secs(30);
/// The delay between the first two reads of a workload. It doubles with each further read, up to [`SLOWEST`].
const SOONEST: Duration = Duration::from_secs(2);
const SLOWEST: Duration = Duration::from_secs(60);
/// The shortest time between two reads, since controllers write events in bursts.
const INTERVAL: Duration = Duration::from_secs(1);
/// After so many reads in a row that brought nothing new, the interval doubles with each further one, up to
/// [`LONGEST_INTERVAL`].
const FEW_UNCHANGED: u32 = 3;
const LONGEST_INTERVAL: Duration = Duration::from_secs(10);
/// How long after a pod has appeared or vanished its controller has usually updated its status.
const STATUS_LAG: Duration = Duration::from_millis(500);
/// A status may be older than an event that arrived less than this ago.
const FRESH: Duration = Duration::from_secs(10);
/// The delays between reads that RBAC denies.
const DENIED: Duration = Duration::from_secs(60);
const DENIED_SLOWEST: Duration = Duration::from_secs(15 * 60);
/// How long a status may be unclear. Between two attempts, a ReplicaSet has no condition for a moment.
const UNCLEAR: Duration = Duration::from_secs(10);
/// How long it may be unclear after a restart of the operator: controllers retry at least every 1000 s, and the next event
/// makes it clear.
const UNCLEAR_AFTER_RESTART: Duration = Duration::from_secs(20 * 60);

#[derive(Debug)]
pub(super) struct State {
    event: Option<FailedCreation>,
    /// When the last event arrived.
    event_at: Instant,
    /// The result of the last successful read.
    workload: Option<Workload>,
    /// How many pods are missing of how many, and since when.
    shortage: Option<Shortage>,
    resumed: Option<Resumed>,
    /// Why the pods of a resumed incident could not be created, until it ends.
    resumed_refusal: Option<Refusal>,
    /// The API server's message if it denied the last read; else empty.
    pub(super) denial: String,
    /// When it last had all its pods.
    complete_at: Option<Timestamp>,
    /// How many pods of a Job had failed when it was first read after the last event.
    failed_before: Option<u64>,
    unclear_since: Option<Instant>,
    is_reading: bool,
    /// Whether something happened during a read.
    is_outdated: bool,
    read_at: Option<Instant>,
    last_read: Option<Instant>,
    /// How many reads in a row brought nothing new.
    unchanged: u32,
    delay: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shortage {
    missing: u64,
    of: u64,
    since: Timestamp,
}

/// An incident in a status that an earlier run of the operator wrote.
#[derive(Clone, Debug)]
pub(super) struct Resumed {
    pub(super) at: Instant,
    /// The objects whose statuses list it, or have an alert about it.
    pub(super) objects: Vec<NamespacedName>,
    pub(super) owner: Owner,
    /// Zero if only an alert is known, which does not say it.
    pub(super) missing: u64,
    pub(super) of: u64,
    pub(super) refusal: Refusal,
    pub(super) since: Timestamp,
    /// As the status lists it, also if it comes from the namespace.
    pub(super) ownership: Option<Box<Ownership>>,
}

/// What is known about missing pods.
pub(super) enum Known<'a> {
    /// The workload was read.
    Read { workload: &'a Workload, missing: u64, of: u64, refusal: &'a Refusal },
    /// It was not read since the operator started.
    Resumed(&'a Resumed),
}

impl State {
    /// A workload that is not to be read yet.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            event: None,
            event_at: now,
            workload: None,
            shortage: None,
            resumed: None,
            resumed_refusal: None,
            denial: String::new(),
            complete_at: None,
            failed_before: None,
            unclear_since: None,
            is_reading: false,
            is_outdated: false,
            read_at: None,
            last_read: None,
            unchanged: 0,
            delay: SOONEST,
        }
    }

    /// Adds an event. Returns whether the reason for a shortage has changed.
    pub(super) fn add(&mut self, mut event: FailedCreation, now: Instant) -> bool {
        let before = self.event.take();
        if self.is_complete() {
            // The earlier events concern an earlier shortage.
        } else if let Some(first) = before.as_ref().and_then(|before| before.first) {
            event.first = Some(event.first.map_or(first, |own| own.min(first)));
        }
        let is_changed = before.is_none_or(|before| before.refusal != event.refusal);
        self.event = Some(event);
        self.event_at = now;
        (self.failed_before, self.unclear_since) = (None, None);
        self.read_soon(now, INTERVAL);
        is_changed && self.owner().is_some()
    }

    /// Forgets all but the events, and since when they concern a new shortage. Returns whether there are any.
    pub(super) fn forget_reading(&mut self, now: Instant) -> bool {
        let (event, event_at, complete_at) = (self.event.take(), self.event_at, self.complete_at);
        *self = Self { event, event_at, complete_at, failed_before: self.failed_before, ..Self::new(now) };
        if self.event.is_some() {
            self.read_soon(now, Duration::ZERO);
        }
        self.event.is_some()
    }

    pub(super) fn pods_changed(&mut self, now: Instant) {
        if self.shortage.is_some() || self.read_at.is_some() || self.is_reading {
            self.read_soon(now + STATUS_LAG, Duration::ZERO);
        }
    }

    pub(super) fn resume(&mut self, resumed: &Resumed, now: Instant) {
        match &mut self.resumed {
            None => self.resumed = Some(resumed.clone()),
            Some(known) => {
                known.since = known.since.min(resumed.since);
                if known.missing == 0 {
                    (known.missing, known.of) = (resumed.missing, resumed.of);
                    known.refusal.clone_from(&resumed.refusal);
                }
                known.objects.extend(resumed.objects.iter().cloned());
            }
        }
        if self.workload.is_none() {
            self.read_soon(now, Duration::ZERO);
        }
    }

    /// Adds what was learned of the same workload before its UID was known.
    pub(super) fn merge(&mut self, other: Self) {
        self.is_outdated |= other.is_outdated || other.read_at.is_some() && other.workload.is_none();
        self.event_at = self.event_at.max(other.event_at);
        self.event = self.event.take().or(other.event);
        self.workload = self.workload.take().or(other.workload);
        self.shortage = self.shortage.or(other.shortage);
        self.complete_at = self.complete_at.or(other.complete_at);
    }

    /// When a read is due, if one is and none is under way.
    pub(super) fn due(&self) -> Option<Instant> {
        self.read_at.filter(|_| !self.is_reading)
    }

    /// Begins a read. Returns the pod to look for, if any.
    pub(super) fn begin_read(&mut self, now: Instant) -> Option<String> {
        (self.is_reading, self.read_at, self.last_read) = (true, None, Some(now));
        self.event.as_ref().and_then(|event| event.pod.clone())
    }

    pub(super) fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// The workload could not be read.
    pub(super) fn read_later(&mut self, longest: Duration, now: Instant) {
        self.is_reading = false;
        self.unchanged = self.unchanged.saturating_add(1);
        self.schedule(longest, now);
    }

    /// RBAC denied the read. Returns whether that changes a status. What was known before stays: a lost right is no
    /// recovery.
    pub(super) fn denied(&mut self, denial: String, now: Instant) -> bool {
        self.is_reading = false;
        self.is_outdated = false;
        self.unchanged = self.unchanged.saturating_add(1);
        let delay = self.delay.max(DENIED);
        self.read_at = Some(now + delay);
        self.delay = (2 * delay).min(DENIED_SLOWEST);
        std::mem::replace(&mut self.denial, denial.clone()) != denial
    }

    /// The workload was read. Returns whether the result changes a status.
    pub(super) fn read(
        &mut self,
        kind: WorkloadKind,
        workload: Workload,
        longest: Duration,
        now: Instant,
        wall: Timestamp,
    ) -> bool {
        self.is_reading = false;
        let was_denied = !std::mem::take(&mut self.denial).is_empty();
        let before = (self.shortage, self.resumed.is_some());
        let found = self.certain(kind, &workload, now);
        match found {
            Existence::Missing { .. } | Existence::Ended { .. } => {
                let (missing, of) = found.numbers();
                let since = self.shortage.map(|shortage| shortage.since);
                let since = since.unwrap_or_else(|| self.began(&workload, wall));
                self.shortage = Some(Shortage { missing, of, since });
            }
            Existence::Unclear { missing, of } => {
                // Its numbers are up to date, but it does not begin a shortage.
                let since = self.shortage.map(|shortage| shortage.since);
                let since = since.or(self.resumed.as_ref().map(|resumed| resumed.since));
                self.shortage = since.map(|since| Shortage { missing, of, since });
            }
            Existence::Complete => {
                (self.shortage, self.resumed, self.complete_at) = (None, None, Some(wall));
                self.resumed_refusal = None;
            }
        }
        if matches!(found, Existence::Missing { .. } | Existence::Ended { .. }) {
            self.resumed_refusal = self.resumed.take().map(|resumed| resumed.refusal).or(self.resumed_refusal.take());
        }
        let is_same = self.workload.as_ref() == Some(&workload);
        self.unchanged = if is_same { self.unchanged.saturating_add(1) } else { 0 };
        self.workload = Some(workload);
        if found == Existence::Complete && !self.is_outdated && now >= self.event_at + FRESH {
            self.read_at = None;
        } else {
            if matches!(found, Existence::Unclear { .. }) && self.resumed.is_none() {
                self.delay = SOONEST;
            }
            self.schedule(longest, now);
        }
        if let Some(shortage) = self.shortage {
            // A shortage is read again just before it becomes a problem.
            let age = Duration::try_from(wall.duration_since(shortage.since)).unwrap_or_default();
            if let Some(left) = (TOLERATED - INTERVAL).checked_sub(age).filter(|left| *left >= INTERVAL) {
                self.read_at = self.read_at.map(|at| at.min(now + left));
            }
        }
        was_denied || before != (self.shortage, self.resumed.is_some()) || self.shortage.is_some() && !is_same
    }

    /// What the status of a workload says, together with the events and the time.
    fn certain(&mut self, kind: WorkloadKind, workload: &Workload, now: Instant) -> Existence {
        let is_outdated_job = kind == WorkloadKind::Job && {
            let before = *self.failed_before.get_or_insert(workload.failed);
            let is_old = self.shortage.is_none() && self.event.as_ref().is_some_and(|event| event.is_old);
            // After a pod has failed, the Job waits before it creates the next one.
            workload.failed > before || is_old && workload.failed > 0
        };
        match workload.existence {
            Existence::Missing { .. } if is_outdated_job => Existence::Complete,
            Existence::Unclear { .. } => {
                let since = *self.unclear_since.get_or_insert(now);
                let patience = if self.resumed.is_some() { UNCLEAR_AFTER_RESTART } else { UNCLEAR };
                if now >= since + patience { Existence::Complete } else { workload.existence }
            }
            existence => {
                self.unclear_since = None;
                existence
            }
        }
    }

    /// When a shortage began that has just been found.
    fn began(&self, workload: &Workload, wall: Timestamp) -> Timestamp {
        if let Some(resumed) = &self.resumed {
            return resumed.since.min(wall);
        }
        let failed = workload.failure.as_ref().and_then(|(since, _)| *since);
        let first = self.event.as_ref().and_then(|event| event.first);
        let began = failed.or(first).filter(|began| *began > Timestamp::UNIX_EPOCH).unwrap_or(wall);
        // The first event may be of an earlier shortage.
        [workload.created, self.complete_at].into_iter().flatten().fold(began, Timestamp::max).min(wall)
    }

    /// Whether nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.shortage.is_none() && self.resumed.is_none() && self.complete_at.is_some() && !self.is_reading
    }

    pub(super) fn has_been_complete_for(&self, duration: SignedDuration, wall: Timestamp) -> bool {
        self.is_complete() && self.complete_at.is_none_or(|at| wall.duration_since(at) > duration)
    }

    /// The owner of missing pods, and since when they are missing; absent if none are known to be.
    pub(super) fn owner(&self) -> Option<&Owner> {
        match self.known()? {
            Known::Read { workload, .. } => Some(&workload.owner),
            Known::Resumed(resumed) => Some(&resumed.owner),
        }
    }

    pub(super) fn since(&self) -> Option<Timestamp> {
        self.shortage.map(|shortage| shortage.since).or(self.resumed.as_ref().map(|resumed| resumed.since))
    }

    /// What is known about missing pods, if any are.
    pub(super) fn known(&self) -> Option<Known<'_>> {
        if let (Some(workload), Some(Shortage { missing, of, .. })) = (&self.workload, self.shortage) {
            return Some(Known::Read { workload, missing, of, refusal: self.refusal(workload) });
        }
        self.resumed.as_ref().map(Known::Resumed)
    }

    /// Why the pods could not be created: as the last event says, or else the status.
    fn refusal<'a>(&'a self, workload: &'a Workload) -> &'a Refusal {
        let resumed = self.resumed.as_ref().map(|resumed| &resumed.refusal).or(self.resumed_refusal.as_ref());
        match (&self.event, &workload.failure) {
            // The event may be of an earlier failure to create a pod.
            (_, Some((_, refusal))) if matches!(workload.existence, Existence::Ended { .. }) => refusal,
            (Some(event), _) => &event.refusal,
            (None, Some((_, refusal))) => refusal,
            (None, None) => resumed.unwrap_or(&NO_REFUSAL),
        }
    }

    /// Plans a read at this time, or later if the last reads brought nothing new.
    fn read_soon(&mut self, at: Instant, interval: Duration) {
        let interval = self.interval(interval);
        let at = self.last_read.map_or(at, |read| at.max(read + interval));
        self.delay = SOONEST.max(interval);
        self.is_outdated |= self.is_reading;
        self.read_at = Some(self.read_at.map_or(at, |planned| planned.min(at)));
    }

    /// The shortest time between two reads.
    fn interval(&self, usual: Duration) -> Duration {
        match self.unchanged.checked_sub(FEW_UNCHANGED) {
            Some(more) => doubled(INTERVAL, more, LONGEST_INTERVAL),
            None => usual,
        }
    }

    fn schedule(&mut self, longest: Duration, now: Instant) {
        // This follows a read, so the interval begins now.
        let soon = std::mem::take(&mut self.is_outdated).then(|| now + STATUS_LAG.max(self.interval(STATUS_LAG)));
        let planned = self.read_at.or(soon);
        let usual = now + self.delay;
        self.read_at = Some(planned.map_or(usual, |planned| planned.min(usual)));
        self.delay = (2 * self.delay).min(SLOWEST.max(longest));
    }
}
