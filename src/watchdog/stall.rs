//! Decides whether the event loop is stuck. Pure: the caller passes what it saw, and when.

use std::time::Duration;

/// How often to look.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// The most that counts between two looks. If more time passed, the watchdog did not run either: the process was stopped,
/// the machine was suspended, or it has too little processor time. That is not the loop's fault.
const MOST_COUNTED: Duration = Duration::from_secs(2);
/// How long the loop may make no progress before a liveness probe fails.
const LATE: Duration = Duration::from_secs(15);
/// How long the process may take to stop after a signal. Draining takes at most four seconds.
const STOP: Duration = Duration::from_secs(10);

/// What the watchdog has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    Late,
    /// The process was asked to stop, and did not.
    NotStopping,
}

/// What was seen at the looks so far. Only time in which the watchdog itself ran counts.
#[derive(Debug, Default)]
pub(super) struct Stall {
    beats: u64,
    stalled: Duration,
    /// The time since the process was asked to stop.
    stopping: Option<Duration>,
}

impl Stall {
    /// The process was asked to stop.
    pub(super) fn stop(&mut self) {
        self.stopping.get_or_insert(Duration::ZERO);
    }

    /// Looks at the number of beats, `elapsed` after the last look.
    pub(super) fn look(&mut self, beats: u64, elapsed: Duration) -> Verdict {
        let counted = elapsed.min(MOST_COUNTED);
        if let Some(stopping) = &mut self.stopping {
            *stopping += counted;
            if *stopping >= STOP {
                return Verdict::NotStopping;
            }
        }
        self.stalled = if beats == self.beats { self.stalled + counted } else { Duration::ZERO };
        self.beats = beats;
        if self.stalled >= LATE { Verdict::Late } else { Verdict::Fine }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_loop_is_late_after_15_s_without_progress_until_it_beats() {
        let mut stall = Stall::default();
        assert_eq!(stall.look(7, SECOND), Verdict::Fine);
        for second in 1..=60 {
            let expected = if second < 15 { Verdict::Fine } else { Verdict::Late };
            assert_eq!(stall.look(7, SECOND), expected, "{second} s");
        }
        assert_eq!(stall.look(8, SECOND), Verdict::Fine);
    }

    #[test]
    fn time_in_which_the_watchdog_did_not_run_does_not_count() {
        let mut stall = Stall::default();
        assert_eq!(stall.look(1, SECOND), Verdict::Fine);
        // The process is stopped for a day, or the machine is suspended, a few times.
        for _ in 0..5 {
            assert_eq!(stall.look(1, Duration::from_secs(86_400)), Verdict::Fine);
        }
        assert_eq!(stall.look(2, SECOND), Verdict::Fine);
        let mut stopping = Stall::default();
        stopping.stop();
        assert_eq!(stopping.look(1, Duration::from_secs(86_400)), Verdict::Fine);
    }

    #[test]
    fn a_process_that_does_not_stop_is_noticed() {
        let mut stall = Stall::default();
        stall.look(1, SECOND);
        stall.stop();
        for second in 1..10 {
            stall.stop();
            assert_eq!(stall.look(second, SECOND), Verdict::Fine, "{second} s");
        }
        assert_eq!(stall.look(11, SECOND), Verdict::NotStopping);
    }
}
