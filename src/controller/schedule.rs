//! When an object's status is due. Pure: it is told the time.

use std::time::Duration;

use tokio::time::Instant;

/// How long after the last event of a burst a status is written.
const QUIET: Duration = Duration::from_millis(20);
/// How long after the first event of a burst it is written all the same.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a status waits for the logs that belong to it.
const LOG_PATIENCE: Duration = Duration::from_millis(150);
/// The least time between two writes of one status.
const INTERVAL: Duration = Duration::from_secs(1);

/// What is known of an object's changes and writes.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// The first and the last event that no write has answered.
    burst: Option<(Instant, Instant)>,
    written: Option<Instant>,
    /// No sooner than this: the last write failed.
    not_before: Option<Instant>,
    /// No sooner than this: there was nothing to write, and others want their turn.
    postponed_until: Option<Instant>,
    /// Whether the burst waits for logs.
    waits_for_logs: bool,
    /// Time alone may change the status then.
    recheck: Option<Instant>,
}

impl Schedule {
    /// Something changed that the status may have to tell.
    pub fn mark_dirty(&mut self, now: Instant) {
        let first = self.burst.map_or(now, |(first, _)| first);
        self.burst = Some((first, now));
    }

    /// What a complete list has told needs no time to become quiet.
    pub fn mark_dirty_without_debounce(&mut self, now: Instant) {
        self.mark_dirty(now.checked_sub(QUIET).unwrap_or(now));
    }

    /// Asks for another look at `at`.
    pub fn recheck_at(&mut self, at: Option<Instant>) {
        self.recheck = at;
    }

    /// Logs are being read that the status should show. Returns whether it may still wait for them.
    pub fn wait_for_logs(&mut self, now: Instant) -> bool {
        // Where time alone has brought the change, it begins now.
        let (first, _) = *self.burst.get_or_insert((now, now));
        self.waits_for_logs = now < first + LOG_PATIENCE;
        self.waits_for_logs
    }

    /// A log has come: the status is looked at again, in case it was the last one missing.
    pub fn log_arrived(&mut self, now: Instant) {
        self.waits_for_logs = false;
        if self.burst.is_none() {
            self.mark_dirty(now);
        }
    }

    /// The status was found to say what is to be said.
    pub fn clear(&mut self) {
        self.burst = None;
        self.waits_for_logs = false;
    }

    /// A write begins: what happens from now on is another burst.
    pub fn writing(&mut self, now: Instant) {
        self.clear();
        self.written = Some(now);
        self.not_before = None;
    }

    /// There was nothing to write; the next look comes no sooner than this.
    pub fn postpone_until(&mut self, at: Instant) {
        self.postponed_until = Some(at);
    }

    /// The write failed: try again after `delay`.
    pub fn failed(&mut self, now: Instant, delay: Duration) {
        self.mark_dirty(now);
        self.not_before = Some(now + delay);
    }

    /// When the status was last written, if ever.
    #[must_use]
    pub fn written(&self) -> Option<Instant> {
        self.written
    }

    /// When to look at the object, if ever.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        let change = self.burst.map(|(first, last)| {
            let quiet = (last + QUIET).min(first + PATIENCE);
            let logs = if self.waits_for_logs { first + LOG_PATIENCE } else { quiet };
            quiet.max(logs)
        });
        let due = [change, self.recheck].into_iter().flatten().min()?;
        let written = self.written.map(|written| written + INTERVAL);
        let not_before = [written, self.not_before, self.postponed_until].into_iter().flatten().max();
        Some(not_before.map_or(due, |not_before| due.max(not_before)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_first_change_is_due_when_its_burst_is_quiet() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due(), None);
        schedule.mark_dirty(start);
        assert_eq!(schedule.due(), Some(start + QUIET));
        schedule.mark_dirty(start + ms(10));
        assert_eq!(schedule.due(), Some(start + ms(10) + QUIET));
    }

    #[test]
    fn what_a_list_has_told_is_due_at_once() {
        let start = Instant::now() + ms(1_000);
        let mut schedule = Schedule::default();
        schedule.mark_dirty_without_debounce(start);
        assert!(schedule.due().unwrap() <= start);
        assert!(schedule.wait_for_logs(start));
        schedule.writing(start + ms(10));
        schedule.mark_dirty_without_debounce(start + ms(20));
        assert_eq!(schedule.due(), Some(start + ms(10) + INTERVAL), "but not before its turn");
    }

    #[test]
    fn a_burst_without_end_is_answered_within_a_second() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        for millis in (0..5_000).step_by(10) {
            schedule.mark_dirty(start + ms(millis));
        }
        assert!(schedule.due().unwrap() <= start + ms(1_000));
    }

    #[test]
    fn writes_are_a_second_apart() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.mark_dirty(start);
        schedule.writing(start + ms(20));
        assert_eq!(schedule.due(), None);
        schedule.mark_dirty(start + ms(30));
        assert_eq!(schedule.due(), Some(start + ms(20) + INTERVAL));
        schedule.writing(start + ms(1_020));
        schedule.mark_dirty(start + ms(60_000));
        assert_eq!(schedule.due(), Some(start + ms(60_000) + QUIET));
    }

    #[test]
    fn logs_are_waited_for_but_not_long() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.mark_dirty(start);
        assert!(schedule.wait_for_logs(start + ms(20)));
        assert_eq!(schedule.due(), Some(start + LOG_PATIENCE));
        schedule.log_arrived(start + ms(40));
        assert_eq!(schedule.due(), Some(start + QUIET), "overdue: at once");
        assert!(!schedule.wait_for_logs(start + LOG_PATIENCE));
    }

    #[test]
    fn a_failed_write_is_tried_again_after_its_delay_only() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.mark_dirty(start);
        schedule.writing(start);
        schedule.failed(start + ms(100), ms(5_000));
        schedule.mark_dirty(start + ms(200));
        assert_eq!(schedule.due(), Some(start + ms(5_100)));
        schedule.writing(start + ms(5_100));
        assert_eq!(schedule.due(), None);
    }

    #[test]
    fn an_object_that_rests_is_left_alone() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.postpone_until(start + ms(700));
        schedule.mark_dirty(start + ms(10));
        assert_eq!(schedule.due(), Some(start + ms(700)));
        schedule.clear();
        schedule.mark_dirty(start + ms(690));
        assert_eq!(schedule.due(), Some(start + ms(690) + QUIET));
    }

    #[test]
    fn a_recheck_is_due_by_itself() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.recheck_at(Some(start + ms(90_000)));
        assert_eq!(schedule.due(), Some(start + ms(90_000)));
        assert!(schedule.wait_for_logs(start + ms(90_000)), "logs may be waited for then, too");
        assert_eq!(schedule.due(), Some(start + ms(90_000)), "by then it is overdue");
        schedule.recheck_at(Some(start + ms(100_000)));
        assert_eq!(schedule.due(), Some(start + ms(90_000) + LOG_PATIENCE));
        schedule.writing(start + ms(91_000));
        schedule.recheck_at(Some(start + ms(91_300)));
        assert_eq!(schedule.due(), Some(start + ms(91_000) + INTERVAL), "nor does it come too soon after a write");
    }
}
