//! Detects another writer of the delivery state, such as a second operator in the same cluster. Two operators would
//! overwrite each other's state for as long as both run, so each waits longer after every write of the other.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;

/// The bounds of the wait after a write by the other writer.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5 * 60));
/// The other writer counts as stopped when it has written nothing for this long.
const GONE_AFTER: Duration = Duration::from_secs(15 * 60);
/// The number of writes after which to log a warning. A person who edits the status makes only one or two.
const WARN_AFTER: u32 = 3;

#[derive(Debug)]
pub(super) struct OtherWriter {
    backoff: Backoff,
    last_write: Option<Instant>,
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
    pub fn record_write(&mut self, now: Instant) -> bool {
        if self.last_write.is_some_and(|last| now.saturating_duration_since(last) > GONE_AFTER) {
            self.backoff.reset();
        }
        self.last_write = Some(now);
        self.write_after = Some(now + self.backoff.next_delay());
        self.backoff.failures() == WARN_AFTER
    }

    /// The earliest time of the next write that no message waits for.
    pub fn write_after(&self) -> Option<Instant> {
        self.write_after
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writers_back_off_from_each_other_and_warn_once() {
        let (begin, mut writers) = (Instant::now(), [OtherWriter::default(), OtherWriter::default()]);
        let (mut now, mut writes, mut warnings) = (begin, Vec::new(), 0);
        while now < begin + Duration::from_secs(3_600) {
            for index in [0, 1] {
                warnings += u32::from(writers[index].record_write(now));
                now = writers[index].write_after().unwrap();
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
            assert!(writer.write_after().unwrap() <= now + Duration::from_secs(1));
            now += Duration::from_secs(3_600);
        }
    }
}
