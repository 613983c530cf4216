//! Decides how old a failure may be to be kept: as old as the largest `restarted` threshold needs, in coarse steps. A
//! longer lookback requires a new list of all pods, so it is extended in steps and shortened only after an hour.

use std::time::Duration;

use tokio::time::Instant;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The steps. A larger need is met exactly. The first step is the default of `spec.thresholds.restarted`.
const STEPS: [Duration; 5] = [
    Duration::from_secs(10 * MINUTE),
    Duration::from_secs(HOUR),
    Duration::from_secs(6 * HOUR),
    Duration::from_secs(DAY),
    Duration::from_secs(7 * DAY),
];
/// How long a lookback must have been unneeded before it is shortened.
const PATIENCE: Duration = Duration::from_secs(HOUR);

/// The lookback at the start.
pub(super) const SHORTEST: Duration = STEPS[0];

/// The shortest step that covers the need.
pub(super) fn step(needed: Duration) -> Duration {
    STEPS.into_iter().find(|step| *step >= needed).unwrap_or(needed)
}

/// Decides when to shorten the lookback.
#[derive(Debug, Default)]
pub(super) struct Lookback {
    unneeded_since: Option<Instant>,
}

impl Lookback {
    /// Returns the new lookback if it is shorter than the present one.
    pub(super) fn shortened(&mut self, present: Duration, needed: Duration, now: Instant) -> Option<Duration> {
        let step = step(needed);
        if step >= present {
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
    fn different_needs_share_a_few_steps() {
        let mut steps: Vec<_> = (0..=7 * 24 * 60).map(|needed| step(minutes(needed))).collect();
        steps.dedup();
        assert_eq!(steps, STEPS);
        assert_eq!(step(minutes(10)), SHORTEST, "the default needs no second list");
        assert_eq!(step(Duration::from_secs(30 * DAY)), Duration::from_secs(30 * DAY));
    }

    #[test]
    fn shortens_the_lookback_after_an_hour() {
        let start = Instant::now();
        let mut lookback = Lookback::default();
        let (present, few, many) = (minutes(360), minutes(20), minutes(200));
        for (minute, needed, shortened) in [
            (0, few, None),
            (59, few, None),
            // It is needed again, so the hour starts over.
            (60, many, None),
            (61, few, None),
            (120, few, None),
            (121, few, Some(minutes(60))),
        ] {
            assert_eq!(lookback.shortened(present, needed, start + minutes(minute)), shortened, "minute {minute}");
        }
    }
}
