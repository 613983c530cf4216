//! Decides when an object is reconciled. No clock: callers pass the time.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::{api::OrchestrStatus, config::Timings};

/// How often an object is reconciled without any event: the number of its pods may have changed, which is not an event,
/// and the wall clock may have been set.
pub(super) const REFRESH_INTERVAL: Duration = Duration::from_secs(60);
/// The debounce: how long after the last event of a burst an object is due.
const DEBOUNCE: Duration = Duration::from_millis(20);
/// The longest debounce: how long after the first event of a burst an object is due even if events continue.
const LONGEST_DEBOUNCE: Duration = Duration::from_millis(500);

/// The unanswered changes of an object, and its last write.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    /// The shortest time between two writes.
    write_interval: Duration,
    /// How long a status waits for its logs.
    log_wait: Duration,
    /// The times of the first and the last change since the object was last up to date.
    burst: Option<(Instant, Instant)>,
    /// The time of the first change that no status shows yet.
    unanswered: Option<Instant>,
    written: Option<Instant>,
    /// The earliest retry after a failed write.
    not_before: Option<Instant>,
    /// The end of the pause after a reconcile that wrote nothing.
    postponed_until: Option<Instant>,
    /// Whether the status waits for logs.
    waits_for_logs: bool,
    /// When logs were last too late for a status. Until they are in time again, no status waits for them: it would show
    /// everything else later, and be written again all the same.
    logs_late_at: Option<Instant>,
    /// Whether it has waited for a permit to write, and so does not wait for logs any more.
    has_waited: bool,
    /// When time alone may change the status.
    recheck: Option<Instant>,
}

impl Schedule {
    pub(super) fn new(timings: &Timings) -> Self {
        Self {
            write_interval: timings.status_write_interval,
            log_wait: timings.log_wait,
            burst: None,
            unanswered: None,
            written: None,
            not_before: None,
            postponed_until: None,
            waits_for_logs: false,
            logs_late_at: None,
            has_waited: false,
            recheck: None,
        }
    }

    /// Something changed that the status may show.
    pub(super) fn mark_dirty(&mut self, now: Instant) {
        let first = self.burst.map_or(now, |(first, _)| first);
        self.burst = Some((first, now));
        self.unanswered.get_or_insert(now);
    }

    /// Skips the debounce, for instance after a full list.
    pub(super) fn mark_dirty_without_debounce(&mut self, now: Instant) {
        self.mark_dirty(now.checked_sub(DEBOUNCE).unwrap_or(now));
    }

    /// Schedules a reconcile at `at`, unless there is an earlier one.
    pub(super) fn recheck_at(&mut self, at: Option<Instant>) {
        self.recheck = at;
    }

    /// Logs are being read that the status should show. Returns whether the status may wait for them any longer.
    pub(super) fn wait_for_logs(&mut self, now: Instant) -> bool {
        // If time alone has changed the status, the wait begins now.
        let (first, _) = *self.burst.get_or_insert((now, now));
        let may_come_in_time = self.logs_late_at.is_none() && now < first + self.log_wait;
        if !may_come_in_time && !self.has_waited {
            self.logs_late_at = Some(now);
        }
        self.waits_for_logs = may_come_in_time && !self.has_waited;
        self.waits_for_logs
    }

    /// The status has waited for a permit to write: the next one is not held back for logs, of which some may always be
    /// lacking.
    pub(super) fn has_waited(&mut self) {
        self.has_waited = true;
    }

    /// A log has arrived, which may have been the last one missing.
    pub(super) fn log_arrived(&mut self, now: Instant) {
        self.waits_for_logs = false;
        self.logs_late_at = self.logs_late_at.filter(|at| now >= *at + self.log_wait);
        if self.burst.is_none() {
            self.mark_dirty(now);
        }
    }

    /// When the first change was received that no status shows yet.
    pub(super) fn dirty_since(&self) -> Option<Instant> {
        self.unanswered
    }

    /// The object is up to date.
    pub(super) fn clear(&mut self) {
        self.pause();
        self.unanswered = None;
    }

    /// The object is reconciled again only because of another change, or when the caller schedules it.
    pub(super) fn pause(&mut self) {
        self.burst = None;
        self.waits_for_logs = false;
        self.has_waited = false;
    }

    /// A write failed that would have shown changes from this time on.
    pub(super) fn is_still_unanswered(&mut self, since: Option<Instant>) {
        self.unanswered = self.unanswered.into_iter().chain(since).min();
    }

    /// A write begins. Later changes are a new burst.
    pub(super) fn writing(&mut self, now: Instant) {
        self.clear();
        self.written = Some(now);
        self.not_before = None;
    }

    /// Nothing was written; pauses the object.
    pub(super) fn postpone_until(&mut self, at: Instant) {
        self.postponed_until = Some(at);
    }

    /// The write failed and is retried after `delay`.
    pub(super) fn failed(&mut self, now: Instant, delay: Duration) {
        self.mark_dirty(now);
        self.not_before = Some(now + delay);
    }

    /// The time at which this much time will have passed since the last write, if that is in the future.
    pub(super) fn written_after(&self, now: Instant, interval: Duration) -> Option<Instant> {
        self.written.map(|written| written + interval).filter(|at| now < *at)
    }

    /// When to reconcile the object.
    pub(super) fn due(&self) -> Option<Instant> {
        let change = self.burst.map(|(first, last)| {
            let quiet = (last + DEBOUNCE).min(first + LONGEST_DEBOUNCE);
            let logs = if self.waits_for_logs { first + self.log_wait } else { quiet };
            quiet.max(logs)
        });
        let due = [change, self.recheck].into_iter().flatten().min()?;
        let written = self.written.map(|written| written + self.write_interval);
        let not_before = [written, self.not_before, self.postponed_until].into_iter().flatten().max();
        Some(not_before.map_or(due, |not_before| due.max(not_before)))
    }
}

/// The time until `lastCheckTime` must be refreshed; absent if it must be refreshed now.
pub(super) fn until_check(status: Option<&OrchestrStatus>, interval: Duration, wall: Timestamp) -> Option<Duration> {
    let checked = status?.last_check_time.as_ref()?.0;
    let age = wall.duration_since(checked);
    // A time in the future was written by a wrong clock.
    let ahead = Duration::try_from(-age).unwrap_or_default();
    let left = interval.checked_sub(Duration::try_from(age).unwrap_or_default())?;
    (ahead <= interval && !left.is_zero()).then_some(left)
}

pub(super) fn duration_until(at: Timestamp, wall: Timestamp) -> Duration {
    at.duration_since(wall).try_into().unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE_INTERVAL: Duration = Duration::from_secs(1);
    const LOG_PATIENCE: Duration = Duration::from_millis(150);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_change_is_due_after_the_debounce() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&Timings::default());
        assert_eq!(schedule.due(), None);
        schedule.mark_dirty(start);
        assert_eq!(schedule.due(), Some(start + DEBOUNCE));
        schedule.mark_dirty(start + ms(10));
        assert_eq!(schedule.due(), Some(start + ms(10) + DEBOUNCE));
    }

    #[test]
    fn without_debounce_a_change_is_due_immediately() {
        let start = Instant::now() + ms(1_000);
        let mut schedule = Schedule::new(&Timings::default());
        schedule.mark_dirty_without_debounce(start);
        assert!(schedule.due().unwrap() <= start);
        assert!(schedule.wait_for_logs(start));
        schedule.writing(start + ms(10));
        schedule.mark_dirty_without_debounce(start + ms(20));
        assert_eq!(
            schedule.due(),
            Some(start + ms(10) + WRITE_INTERVAL),
            "but no sooner than a second after the last write"
        );
    }

    #[test]
    fn an_endless_burst_is_answered_within_a_second() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&Timings::default());
        for millis in (0..5_000).step_by(10) {
            schedule.mark_dirty(start + ms(millis));
        }
        assert!(schedule.due().unwrap() <= start + ms(1_000));
    }

    #[test]
    fn writes_are_at_least_a_second_apart() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&Timings::default());
        schedule.mark_dirty(start);
        schedule.writing(start + ms(20));
        assert_eq!(schedule.due(), None);
        schedule.mark_dirty(start + ms(30));
        assert_eq!(schedule.due(), Some(start + ms(20) + WRITE_INTERVAL));
        schedule.writing(start + ms(1_020));
        schedule.mark_dirty(start + ms(60_000));
        assert_eq!(schedule.due(), Some(start + ms(60_000) + DEBOUNCE));
    }

    #[test]
    fn waits_for_logs_only_briefly() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&Timings::default());
        schedule.mark_dirty(start);
        assert!(schedule.wait_for_logs(start + ms(20)));
        assert_eq!(schedule.due(), Some(start + LOG_PATIENCE));
        schedule.log_arrived(start + ms(40));
        assert_eq!(schedule.due(), Some(start + DEBOUNCE), "due immediately");
        assert!(!schedule.wait_for_logs(start + LOG_PATIENCE));
    }

    #[test]
    fn late_logs_are_waited_for_once_they_come_in_time() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&Timings::default());
        let mut lacks_logs = |at: Instant, arrived: Instant| {
            schedule.mark_dirty(at);
            let waits = schedule.wait_for_logs(at + ms(20));
            if waits {
                assert!(!schedule.wait_for_logs(at + LOG_PATIENCE), "in vain");
            }
            schedule.writing(at + LOG_PATIENCE);
            schedule.log_arrived(arrived);
            schedule.writing(arrived);
            waits
        };
        let times = (0..).map(|index| start + ms(10_000 * index));
        // How long after the beginning of the write they arrive.
        let waited: Vec<_> =
            times.zip([600, 500, 140, 500, 20, 20]).map(|(at, late)| lacks_logs(at, at + ms(20 + late))).collect();
        assert_eq!(waited, [true, false, false, true, false, true]);
    }

    #[test]
    fn a_failed_write_is_retried_after_its_delay_and_no_sooner() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&Timings::default());
        schedule.mark_dirty(start);
        schedule.writing(start);
        schedule.failed(start + ms(100), ms(5_000));
        schedule.mark_dirty(start + ms(200));
        assert_eq!(schedule.due(), Some(start + ms(5_100)));
        schedule.writing(start + ms(5_100));
        assert_eq!(schedule.due(), None);
    }

    #[test]
    fn a_postponed_object_is_not_due_before() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&Timings::default());
        schedule.postpone_until(start + ms(700));
        schedule.mark_dirty(start + ms(10));
        assert_eq!(schedule.due(), Some(start + ms(700)));
        schedule.clear();
        schedule.mark_dirty(start + ms(690));
        assert_eq!(schedule.due(), Some(start + ms(690) + DEBOUNCE));
    }

    #[test]
    fn a_recheck_is_due_without_a_change() {
        let start = Instant::now();
        let mut schedule = Schedule::new(&Timings::default());
        schedule.recheck_at(Some(start + ms(90_000)));
        assert_eq!(schedule.due(), Some(start + ms(90_000)));
        assert!(schedule.wait_for_logs(start + ms(90_000)), "it may wait for logs as well");
        assert_eq!(schedule.due(), Some(start + ms(90_000)), "and stays due meanwhile");
        schedule.recheck_at(Some(start + ms(100_000)));
        assert_eq!(schedule.due(), Some(start + ms(90_000) + LOG_PATIENCE));
        schedule.writing(start + ms(91_000));
        schedule.recheck_at(Some(start + ms(91_300)));
        assert_eq!(
            schedule.due(),
            Some(start + ms(91_000) + WRITE_INTERVAL),
            "but no sooner than a second after the last write"
        );
    }
}
