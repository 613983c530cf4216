//! Decides how long an object pauses after a reconcile that wrote nothing. Without pauses, a rollout watched by many
//! objects would take all of the thread's time, and statuses that do change would be late.

use std::time::Duration;

use tokio::time::Instant;

/// The share of the time that reconciles may take before objects pause.
const TARGET: f64 = 0.3;
/// How long the share is measured for.
const WINDOW: Duration = Duration::from_millis(200);
/// The shortest pause. Shorter ones are not worth a timer and are skipped.
const LEAST: Duration = Duration::from_millis(20);
/// The longest pause.
const MOST: Duration = Duration::from_secs(10);

/// Measures the share of the time that reconciles take, and adjusts the pause to it.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    busy: Duration,
    pause: Duration,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, busy: Duration::ZERO, pause: Duration::ZERO }
    }

    /// Records a reconcile.
    pub(super) fn reconciled(&mut self, took: Duration, now: Instant) {
        self.busy += took;
        let window = now.saturating_duration_since(self.since);
        if window < WINDOW {
            return;
        }
        let share = self.busy.as_secs_f64() / window.as_secs_f64();
        // The effect of a change shows only in the next round, so the pause changes in small steps.
        let pause = self.pause.max(LEAST).mul_f64((share / TARGET).clamp(0.5, 1.5)).min(MOST);
        self.pause = if pause < LEAST { Duration::ZERO } else { pause };
        (self.since, self.busy) = (now, Duration::ZERO);
    }

    /// The pause of one object. It is random, so that objects that were changed together do not stay together.
    pub(super) fn pause(&self) -> Duration {
        self.pause.mul_f64(0.75 + 0.5 * fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the time that objects take if they change all the time, and their pause after a minute.
    fn simulate(objects: usize, cost: Duration) -> (f64, Duration) {
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
            // The debounce takes 20 ms, and there is always another change.
            due[index] = now + pace.pause().max(Duration::from_millis(20));
        }
        (busy.as_secs_f64() / 10.0, pace.pause)
    }

    #[test]
    fn few_objects_do_not_pause() {
        for (objects, cost) in [(1, 1_000), (16, 100)] {
            let (_, pause) = simulate(objects, Duration::from_micros(cost));
            assert_eq!(pause, Duration::ZERO, "{objects} objects of {cost} µs");
        }
    }

    #[test]
    fn many_objects_leave_most_of_the_time_to_others() {
        for (objects, cost) in [(300, 500), (300, 4_000), (1_000, 1_000), (20, 20_000)] {
            let (share, pause) = simulate(objects, Duration::from_micros(cost));
            assert!((0.15..0.45).contains(&share), "{objects} objects of {cost} µs: {share:.2}, pause {pause:?}");
        }
    }

    #[test]
    fn the_pause_ends_with_the_load() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for millis in 1..10_000 {
            pace.reconciled(Duration::from_millis(1), start + Duration::from_millis(millis));
        }
        assert!(pace.pause() >= MOST.mul_f64(0.75));
        for round in 1..20 {
            pace.reconciled(Duration::from_millis(1), start + Duration::from_millis(10_000) + round * WINDOW);
        }
        assert_eq!(pace.pause(), Duration::ZERO);
    }
}
