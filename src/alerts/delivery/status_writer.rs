//! Decides when to write an object's delivery status, and notices when another client has changed it. No I/O.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::persist::{DeliveryStatus, StoredStatus};
use crate::{
    backoff::Backoff,
    bounded::Rates,
    status_apply::{is_newer, is_older},
};

/// The minimum time between two writes that no message waits for.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// The bounds of the backoff after a failed write.
const RETRY_DELAY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// After how many failures in a row they are reported.
const REPORTED_FAILURES: u32 = 2;

pub(super) struct StatusWriter {
    /// The status that was written last, or that another client has put in its place.
    stored: DeliveryStatus,
    /// The API server's last answer to a write. It lacks fields that the installed CRD does not define.
    answered: StoredStatus,
    /// The status that the controller's watch has delivered.
    observed: Arc<StoredStatus>,
    /// The status of a write that is under way or has failed: the API server may have stored it nevertheless.
    uncertain: Option<DeliveryStatus>,
    other_writer: OtherWriter,
    /// Another client has changed what was stored: write it again.
    must_restore: bool,
    is_writing: bool,
    last_write: Option<Instant>,
    backoff: Backoff,
    retry_at: Option<Instant>,
    refused: Option<Refused>,
}

/// Every write fails, although the object is this process's to write.
pub(super) struct Refused {
    pub since: Instant,
    /// Why the last one failed. Holds no values.
    pub error: String,
}

impl StatusWriter {
    pub fn new(observed: Arc<StoredStatus>) -> Self {
        Self {
            stored: observed.status.clone(),
            answered: StoredStatus::clone(&observed),
            observed,
            uncertain: None,
            other_writer: OtherWriter::default(),
            must_restore: false,
            is_writing: false,
            last_write: None,
            backoff: Backoff::new(RETRY_DELAY.0, RETRY_DELAY.1),
            retry_at: None,
            refused: None,
        }
    }

    pub fn stored(&self) -> &DeliveryStatus {
        &self.stored
    }

    pub fn is_writing(&self) -> bool {
        self.is_writing
    }

    pub fn must_restore(&self) -> bool {
        self.must_restore
    }

    /// Whether the last write has failed. Then the next one is also made if nothing has changed, to notice when writes
    /// succeed again.
    pub fn has_failed(&self) -> bool {
        self.backoff.failures() > 0
    }

    /// Whether writes keep failing. A single one is usually repeated with success.
    pub fn is_failing(&self) -> bool {
        self.backoff.failures() >= REPORTED_FAILURES
    }

    pub fn refused(&self) -> Option<&Refused> {
        self.refused.as_ref()
    }

    /// When the next write may start, if not now.
    pub fn wait_until(&self, urgent: bool, now: Instant) -> Option<Instant> {
        let not_before = self.last_write.map(|last| last + WRITE_INTERVAL).max(self.other_writer.write_after);
        not_before.filter(|_| !urgent).max(self.retry_at).filter(|at| *at > now)
    }

    pub fn on_start(&mut self, status: DeliveryStatus, now: Instant) {
        self.is_writing = true;
        self.last_write = Some(now);
        self.must_restore = false;
        self.uncertain = Some(status);
    }

    pub fn on_success(&mut self, answer: StoredStatus) {
        self.is_writing = false;
        if let Some(written) = self.uncertain.take() {
            self.stored = written;
        }
        self.answered = answer;
        self.backoff.reset();
        self.retry_at = None;
        self.refused = None;
        self.share();
    }

    /// `error` is absent if the object may not be this process's to write.
    pub fn on_failure(&mut self, error: Option<String>, now: Instant) {
        self.is_writing = false;
        let since = self.refused.as_ref().map_or(now, |refused| refused.since);
        self.refused = error.map(|error| Refused { since, error });
        self.retry_at = Some(now + self.backoff.next_delay());
    }

    pub fn observe(&mut self, observed: Arc<StoredStatus>) {
        if is_older(&observed.resource_version, &self.observed.resource_version) {
            // The cluster was put back to an earlier state, which may lack what was written since.
            self.answered.resource_version.clear();
        }
        self.observed = observed;
        self.share();
    }

    /// Keeps the states of webhooks that are equal once in memory.
    fn share(&mut self) {
        self.stored.share(&self.observed.status);
        self.answered.status.share(&self.observed.status);
        self.answered.status.share(&self.stored);
    }

    /// Checks whether another client has changed the stored status. If so, the next write restores it, so that no open page
    /// is lost and nothing is sent twice. Returns whether to log a warning.
    pub fn detect_other_writer(&mut self, now: Instant) -> bool {
        if self.is_writing || !is_newer(&self.observed.resource_version, &self.answered.resource_version) {
            return false;
        }
        self.answered.resource_version.clone_from(&self.observed.resource_version);
        if self.observed.status == self.answered.status {
            return false;
        }
        let is_own_write = self.uncertain.as_ref() == Some(&self.observed.status);
        self.answered.status.clone_from(&self.observed.status);
        self.stored.clone_from(&self.observed.status);
        if is_own_write {
            return false;
        }
        self.must_restore = true;
        self.other_writer.record_write(now)
    }
}

/// The bounds of the wait after a write by the other writer.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5 * 60));
/// The other writer counts as stopped when it has written nothing for this long.
const GONE_AFTER: Duration = Duration::from_secs(15 * 60);
/// The number of writes after which to log a warning. A person who edits the status makes only one or two.
const WARN_AFTER: u32 = 3;

/// Another writer of the delivery state, such as a second operator in the same cluster. Two operators would overwrite each other's
/// state for as long as both run, so each waits longer after every write of the other.
#[derive(Debug)]
struct OtherWriter {
    backoff: Backoff,
    last_write: Option<Instant>,
    /// The earliest time of the next write that no message waits for.
    write_after: Option<Instant>,
}

impl Default for OtherWriter {
    fn default() -> Self {
        Self { backoff: Backoff::new(WAIT.0, WAIT.1), last_write: None, write_after: None }
    }
}

impl OtherWriter {
    /// Records a write by the other writer. Returns whether to log a warning, which is true only once until the other
    /// writer stops.
    fn record_write(&mut self, now: Instant) -> bool {
        if self.last_write.is_some_and(|last| now.saturating_duration_since(last) > GONE_AFTER) {
            self.backoff.reset();
        }
        self.last_write = Some(now);
        self.write_after = Some(now + self.backoff.next_delay());
        self.backoff.failures() == WARN_AFTER
    }
}

/// The maximum number of concurrent writes of statuses. A write of a large object counts as several.
pub(super) const API_REQUESTS: u32 = 16;

/// Smaller objects are neither counted nor paced.
const SMALL: usize = 32 << 10;
/// How many bytes of objects a namespace may write in a second, on average.
const ALLOWANCE: f64 = (64 << 10) as f64;
/// How long an unused allowance is saved up for: 2 MiB. Half of it is kept for writes that a message waits for.
const SAVED: Duration = Duration::from_secs(32);
/// What one write takes of the allowance at most.
const MOST: Duration = Duration::from_secs(10);

/// Paces the writes of the webhooks' states: what each namespace has left of its allowance. An API server needs a tenth of a second
/// or more for a large object, however small the written part is, and a tenant decides how large its objects are and how often
/// their alerts change.
#[derive(Debug, Default)]
pub(super) struct WritePace(Mutex<Rates>);

impl WritePace {
    /// Takes the allowance for a write of an object of this size. If there is not enough, returns when to try again, and
    /// otherwise nothing. `is_urgent` is whether a message waits for the write.
    pub fn take(&self, namespace: &str, bytes: usize, is_urgent: bool, now: Instant) -> Option<Instant> {
        if bytes < SMALL {
            return None;
        }
        let mut rates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = Duration::from_secs_f64(bytes as f64 / ALLOWANCE).min(MOST);
        let saved = if is_urgent { SAVED } else { SAVED / 2 };
        if rates.take(namespace, cost, saved, now) { None } else { rates.wait_until(namespace, saved, now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_since_when_every_write_is_refused() {
        let (mut writer, start) = (StatusWriter::new(Arc::default()), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let error = || Some("Forbidden (403)".to_owned());
        let since = |writer: &StatusWriter| writer.refused().map(|refused| refused.since);
        writer.on_failure(error(), after(0));
        assert!(writer.has_failed() && !writer.is_failing(), "a single failure is not reported");
        writer.on_failure(error(), after(60));
        assert!(writer.is_failing());
        assert_eq!(since(&writer), Some(after(0)));
        // The object may belong to someone else now.
        writer.on_failure(None, after(120));
        assert!(writer.is_failing());
        assert_eq!(since(&writer), None);
        writer.on_failure(error(), after(180));
        assert_eq!(since(&writer), Some(after(180)));
        writer.on_success(StoredStatus::default());
        assert_eq!((since(&writer), writer.has_failed()), (None, false));
    }

    #[test]
    fn two_writers_back_off_from_each_other_and_warn_once() {
        let (begin, mut writers) = (Instant::now(), [OtherWriter::default(), OtherWriter::default()]);
        let (mut now, mut writes, mut warnings) = (begin, Vec::new(), 0);
        while now < begin + Duration::from_secs(3_600) {
            for index in [0, 1] {
                warnings += u32::from(writers[index].record_write(now));
                now = writers[index].write_after.unwrap();
                writes.push(now);
            }
        }
        let within = |seconds| writes.iter().filter(|at| **at < begin + Duration::from_secs(seconds)).count();
        assert!(within(20) <= 10 && within(3_600) <= 40, "{} and {}", within(20), within(3_600));
        assert_eq!(warnings, 2, "one by each");
    }

    #[test]
    fn occasional_edits_by_a_person_cause_no_warning_and_no_wait() {
        let mut writer = OtherWriter::default();
        let mut now = Instant::now();
        for _ in 0..10 {
            assert!(!writer.record_write(now));
            assert!(writer.write_after.unwrap() <= now + Duration::from_secs(1));
            now += Duration::from_secs(3_600);
        }
    }

    /// How many writes of this size begin in a time if objects of the namespace always have something to write.
    fn writes(
        pace: &WritePace,
        namespace: &str,
        bytes: usize,
        is_urgent: bool,
        from: Instant,
        time: Duration,
    ) -> usize {
        let (mut now, mut writes) = (from, 0);
        while now < from + time {
            match pace.take(namespace, bytes, is_urgent, now) {
                Some(at) => now = at,
                None => writes += 1,
            }
            assert!(writes < 100_000);
        }
        writes
    }

    #[test]
    fn a_namespace_writes_its_allowance_after_what_it_has_saved() {
        let (pace, start) = (WritePace::default(), Instant::now());
        let minute = Duration::from_secs(60);
        // 2 MiB at once, of which half is for urgent writes, and then half a write in a second.
        assert_eq!(writes(&pace, "evil", 128 << 10, false, start, minute), 9 + 29);
        assert_eq!(writes(&pace, "evil", 128 << 10, true, start + minute, Duration::from_millis(1)), 9);
        assert_eq!(writes(&pace, "shop", 128 << 10, true, start, minute), 17 + 29, "another namespace has its own");
        assert_eq!(writes(&pace, "huge", 1 << 30, true, start, minute), 4 + 6, "it is not locked out");
    }

    #[test]
    fn small_objects_are_not_paced() {
        let (pace, now) = (WritePace::default(), Instant::now());
        assert!((0..10_000).all(|_| pace.take("shop", SMALL - 1, false, now).is_none()));
    }
}
