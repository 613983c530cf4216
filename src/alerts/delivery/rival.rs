//! A second writer of what delivery remembers, such as another operator in the same cluster. Each of the two would write
//! its own view again and again: whoever notices the other waits longer each time.

use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;

/// The shortest and the longest wait.
const WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5 * 60));
/// After so long without a change by somebody else, there is no second writer any more.
const QUIET: Duration = Duration::from_secs(15 * 60);
/// A change or two are a person's.
const TELLING: u32 = 3;

/// What is known of a second writer.
#[derive(Debug)]
pub(super) struct Rival {
    backoff: Backoff,
    last: Option<Instant>,
    until: Option<Instant>,
}

impl Default for Rival {
    fn default() -> Self {
        Self { backoff: Backoff::new(WAITS.0, WAITS.1), last: None, until: None }
    }
}

impl Rival {
    /// Notes that somebody else wrote. Returns whether it is worth a line in the log: once for each rivalry.
    pub fn wrote(&mut self, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) > QUIET) {
            self.backoff.reset();
        }
        self.last = Some(now);
        self.until = Some(now + self.backoff.next_delay());
        self.backoff.failures() == TELLING
    }

    /// When the next write that no message waits for may be made.
    pub fn patience(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_writers_write_a_few_times_and_log_once() {
        let (begin, mut rivals) = (Instant::now(), [Rival::default(), Rival::default()]);
        let (mut now, mut writes, mut logged) = (begin, Vec::new(), 0);
        while now < begin + Duration::from_secs(3_600) {
            for index in [0, 1] {
                logged += u32::from(rivals[index].wrote(now));
                now = rivals[index].patience().unwrap();
                writes.push(now);
            }
        }
        let within = |seconds| writes.iter().filter(|at| **at < begin + Duration::from_secs(seconds)).count();
        assert!(within(20) <= 10 && within(3_600) <= 40, "{} and {}", within(20), within(3_600));
        assert_eq!(logged, 2, "once by each");
    }

    #[test]
    fn a_person_who_edits_the_status_now_and_then_is_no_rival() {
        let mut rival = Rival::default();
        let mut now = Instant::now();
        for _ in 0..10 {
            assert!(!rival.wrote(now));
            assert!(rival.patience().unwrap() <= now + Duration::from_secs(1));
            now += Duration::from_secs(3_600);
        }
    }
}
