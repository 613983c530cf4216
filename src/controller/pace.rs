//! Decides how long an object pauses after a reconcile that wrote nothing. Without pauses, a rollout watched by many
//! objects would take all of the thread's time, and statuses that do change would be late.
//!
//! Each namespace has a pause of its own: one that takes no more than its share of the time does not pause because others
//! take more than theirs.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// The share of the time that reconciles may take before objects pause.
const TARGET: f64 = 0.15;
/// How long the share is measured for.
const WINDOW: Duration = Duration::from_millis(200);
/// The shortest pause. Shorter ones are not worth a timer and are skipped.
const LEAST: Duration = Duration::from_millis(20);
/// The longest pause.
const MOST: Duration = Duration::from_secs(10);

/// Measures the share of the time that reconciles take, and adjusts the pauses to it.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    /// The namespaces that were busy in this window, or pause.
    namespaces: HashMap<String, Namespace>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Namespace {
    busy: Duration,
    pause: Duration,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, namespaces: HashMap::new() }
    }

    /// Records a reconcile.
    pub(super) fn reconciled(&mut self, namespace: &str, took: Duration, now: Instant) {
        match self.namespaces.get_mut(namespace) {
            Some(own) => own.busy += took,
            None => {
                self.namespaces.insert(namespace.to_owned(), Namespace { busy: took, pause: Duration::ZERO });
            }
        }
        let window = now.saturating_duration_since(self.since);
        if window < WINDOW {
            return;
        }
        let share = |busy: Duration| busy.as_secs_f64() / window.as_secs_f64();
        let all = share(self.namespaces.values().map(|own| own.busy).sum());
        let active = self.namespaces.values().filter(|own| !own.busy.is_zero()).count().max(1);
        // The effect of a change shows only in the next round, so the pause changes in small steps.
        let factor = (all / TARGET).clamp(0.5, 1.5);
        for own in self.namespaces.values_mut() {
            let is_modest = all > TARGET && share(own.busy) <= TARGET / active as f64;
            let factor = if is_modest { 0.8 } else { factor };
            let pause = own.pause.max(LEAST).mul_f64(factor).min(MOST);
            own.pause = if pause < LEAST { Duration::ZERO } else { pause };
            own.busy = Duration::ZERO;
        }
        self.namespaces.retain(|_, own| !own.pause.is_zero());
        self.since = now;
    }

    /// The pause of one object. It is random, so that objects that were changed together do not stay together.
    pub(super) fn pause(&self, namespace: &str) -> Duration {
        let pause = self.namespaces.get(namespace).map_or(Duration::ZERO, |own| own.pause);
        pause.mul_f64(0.75 + 0.5 * fastrand::f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the time that objects take if they change all the time, and their pause at the end. The share of a few
    /// seconds varies by a third, so it is measured for 40.
    fn simulate(objects: usize, cost: Duration) -> (f64, Duration) {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let mut due = vec![start; objects];
        let (mut now, mut busy) = (start, Duration::ZERO);
        let measured = start + Duration::from_secs(50);
        while now < start + Duration::from_secs(90) {
            let (index, at) = due.iter().copied().enumerate().min_by_key(|(_, at)| *at).unwrap();
            now = now.max(at) + cost;
            if now > measured {
                busy += cost;
            }
            pace.reconciled("shop", cost, now);
            // The debounce takes 20 ms, and there is always another change.
            due[index] = now + pace.pause("shop").max(Duration::from_millis(20));
        }
        (busy.as_secs_f64() / 40.0, pace.namespaces.get("shop").map_or(Duration::ZERO, |own| own.pause))
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
            pace.reconciled("shop", Duration::from_millis(1), start + Duration::from_millis(millis));
        }
        assert!(pace.pause("shop") >= MOST.mul_f64(0.75));
        for round in 1..20 {
            pace.reconciled("shop", Duration::from_millis(1), start + Duration::from_millis(10_000) + round * WINDOW);
        }
        assert_eq!(pace.pause("shop"), Duration::ZERO);
        assert!(pace.namespaces.is_empty());
    }

    #[test]
    fn expensive_objects_pause_only_their_own_namespace() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        let (mut now, mut longest) = (start, Duration::ZERO);
        for round in 0..2_000 {
            let (namespace, cost) = if round % 20 == 0 { ("modest", 1) } else { ("greedy", 20) };
            now += Duration::from_millis(cost);
            pace.reconciled(namespace, Duration::from_millis(cost), now);
            longest = longest.max(pace.pause("modest"));
        }
        assert_eq!(longest, Duration::ZERO);
        assert!(pace.pause("greedy") >= MOST.mul_f64(0.75), "{:?}", pace.pause("greedy"));
    }

    #[test]
    fn keeps_nothing_of_namespaces_that_are_idle() {
        let start = Instant::now();
        let mut pace = Pace::new(start);
        for namespace in 0..10_000_u32 {
            pace.reconciled(&format!("n{namespace}"), Duration::from_millis(1), start + namespace * WINDOW / 10);
        }
        assert!(pace.namespaces.len() <= 11, "{}", pace.namespaces.len());
    }
}
