//! How far back failures are kept: as far as the most demanding object needs, in coarse steps. To raise it, all pods
//! must be listed again; so it is raised seldom, and lowered only when nobody has needed it for long. Pure.

use std::time::Duration;

use tokio::time::Instant;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The steps; beyond the last, what is needed. The first is the default of `spec.thresholds.restarted`.
const STEPS: [Duration; 5] = [
    Duration::from_secs(10 * MINUTE),
    Duration::from_secs(HOUR),
    Duration::from_secs(6 * HOUR),
    Duration::from_secs(DAY),
    Duration::from_secs(7 * DAY),
];
/// How long nobody must have needed it before it is lowered.
const PATIENCE: Duration = Duration::from_secs(HOUR);

/// What is kept before anybody has asked for more.
pub const LEAST: Duration = STEPS[0];

/// The step that covers what is needed.
#[must_use]
pub fn step(needed: Duration) -> Duration {
    STEPS.into_iter().find(|step| *step >= needed).unwrap_or(needed)
}

/// Decides when less is kept.
#[derive(Debug, Default)]
pub struct Lowering {
    unneeded_since: Option<Instant>,
}

impl Lowering {
    /// Returns what to keep from now on, if that is less than what is kept.
    pub fn lowered(&mut self, kept: Duration, needed: Duration, now: Instant) -> Option<Duration> {
        let step = step(needed);
        if step >= kept {
            self.unneeded_since = None;
            return None;
        }
        let since = *self.unneeded_since.get_or_insert(now);
        if now.saturating_duration_since(since) < PATIENCE {
            return None;
        }
        self.unneeded_since = None;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(minutes * MINUTE)
    }

    #[test]
    fn many_different_needs_are_few_steps() {
        let mut steps: Vec<_> = (0..=7 * 24 * 60).map(|needed| step(minutes(needed))).collect();
        steps.dedup();
        assert_eq!(steps, STEPS);
        assert_eq!(step(minutes(10)), LEAST, "the default needs no second list");
        assert_eq!(step(Duration::from_secs(30 * DAY)), Duration::from_secs(30 * DAY));
    }

    #[test]
    fn what_nobody_needs_is_dropped_after_an_hour() {
        let start = Instant::now();
        let mut lowering = Lowering::default();
        let (kept, few, many) = (minutes(360), minutes(20), minutes(200));
        for (minute, needed, lowered) in [
            (0, few, None),
            (59, few, None),
            // Somebody needs it after all.
            (60, many, None),
            (61, few, None),
            (120, few, None),
            (121, few, Some(minutes(60))),
        ] {
            assert_eq!(lowering.lowered(kept, needed, start + minutes(minute)), lowered, "minute {minute}");
        }
    }
}
