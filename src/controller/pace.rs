//! How long an object rests after it was reconciled for nothing. With many objects over the same pods, a rollout would
//! otherwise take all of the thread's time, and statuses that do change would wait. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// The share of the time that reconciling may take before objects rest.
const TARGET: f64 = 0.3;
/// How long the share is measured.
const WINDOW: Duration = Duration::from_millis(200);
/// The shortest rest. Shorter ones are not worth a timer and are skipped.
const LEAST: Duration = Duration::from_millis(20);
/// The longest rest.
const MOST: Duration = Duration::from_secs(10);

/// The share that is taken, and the rest that keeps it small.
#[derive(Debug)]
pub struct Pace {
    since: Instant,
    busy: Duration,
    rest: Duration,
}

impl Pace {
    /// Nothing has been reconciled yet.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        Self { since: now, busy: Duration::ZERO, rest: Duration::ZERO }
    }

    /// An object was reconciled, which took so long.
    pub fn reconciled(&mut self, took: Duration, now: Instant) {
        self.busy += took;
        let window = now.saturating_duration_since(self.since);
        if window < WINDOW {
            return;
        }
        let share = self.busy.as_secs_f64() / window.as_secs_f64();
        // After a change of the rest, it takes a round until its effect is seen: so it changes by steps.
        let rest = self.rest.max(LEAST).mul_f64((share / TARGET).clamp(0.5, 1.5)).min(MOST);
        self.rest = if rest < LEAST { Duration::ZERO } else { rest };
        (self.since, self.busy) = (now, Duration::ZERO);
    }

    /// How long an object rests for which there was nothing to write.
    #[must_use]
    pub fn rest(&self) -> Duration {
        // Objects that were changed together are not reconciled together for ever.
        self.rest.mul_f64(0.75 + 0.5 * fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the time that so many objects take which change all the time, and the rest, after a minute.
    fn clear(objects: usize, cost: Duration) -> (f64, Duration) {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let mut due = vec![start; objects];
        let (mut now, mut busy) = (start, Duration::ZERO);
        let measured = start + Duration::from_secs(50);
        while now < start + Duration::from_secs(60) {
            let (index, at) = due.iter().copied().enumerate().min_by_key(|(_, at)| *at).unwrap();
            now = now.max(at) + cost;
            if now > measured {
                busy += cost;
            }
            pace.reconciled(cost, now);
            // A burst is answered after 20 ms of quiet; there is always another.
            due[index] = now + pace.rest().max(Duration::from_millis(20));
        }
        (busy.as_secs_f64() / 10.0, pace.rest)
    }

    #[test]
    fn few_objects_do_not_rest() {
        for (objects, cost) in [(1, 1_000), (16, 100)] {
            let (_, rest) = clear(objects, Duration::from_micros(cost));
            assert_eq!(rest, Duration::ZERO, "{objects} objects of {cost} µs");
        }
    }

    #[test]
    fn many_objects_leave_most_of_the_time_to_others() {
        for (objects, cost) in [(300, 500), (300, 4_000), (1_000, 1_000), (20, 20_000)] {
            let (share, rest) = clear(objects, Duration::from_micros(cost));
            assert!((0.15..0.45).contains(&share), "{objects} objects of {cost} µs: {share:.2}, rest {rest:?}");
        }
    }

    #[test]
    fn the_rest_ends_with_the_load() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for millis in 1..10_000 {
            pace.reconciled(Duration::from_millis(1), start + Duration::from_millis(millis));
        }
        assert!(pace.rest() >= MOST.mul_f64(0.75));
        for round in 1..20 {
            pace.reconciled(Duration::from_millis(1), start + Duration::from_millis(10_000) + round * WINDOW);
        }
        assert_eq!(pace.rest(), Duration::ZERO);
    }
}
