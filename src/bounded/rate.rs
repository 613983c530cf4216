//! Rates with a burst, of one thing or of each namespace. No clock: callers pass the time.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// How many namespaces there are at least before those that need nothing are forgotten.
const SWEEP_AT: usize = 64;

/// A token bucket, which is kept as one time: when it is full again. What something costs, and what the bucket can hold, is
/// given as the time in which that flows in. By default it is full.
///
/// For example, `take(5 s, 45 s)` allows ten of something at once, and after that one more every 5 s.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenBucket {
    full_at: Option<Instant>,
}

impl TokenBucket {
    /// The time from which on no more than `burst` is missing, if it is still to come.
    pub(crate) fn wait_until(&self, burst: Duration, now: Instant) -> Option<Instant> {
        self.full_at?.checked_sub(burst).filter(|at| *at > now)
    }

    /// Takes `cost` if no more than `burst` is missing. Returns whether it did.
    pub(crate) fn take(&mut self, cost: Duration, burst: Duration, now: Instant) -> bool {
        let is_granted = self.wait_until(burst, now).is_none();
        if is_granted {
            self.full_at = Some(self.full_at.map_or(now, |at| at.max(now)) + cost);
        }
        is_granted
    }

    /// Takes `cost`, also if as much is missing, but no more than `most` in all.
    pub(crate) fn charge(&mut self, cost: Duration, most: Duration, now: Instant) {
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + cost;
        self.full_at = Some(full_at.min(now + most));
    }

    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.full_at.is_none_or(|at| at <= now)
    }
}

/// A token bucket for each namespace. Full ones are forgotten. A bucket outlives the objects of its namespace, so that
/// deleting and creating them grants nothing.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    buckets: HashMap<String, TokenBucket>,
    sweep_at: usize,
}

impl Rates {
    /// See [`TokenBucket::wait_until`].
    pub(crate) fn wait_until(&self, namespace: &str, burst: Duration, now: Instant) -> Option<Instant> {
        self.buckets.get(namespace)?.wait_until(burst, now)
    }

    /// See [`TokenBucket::take`].
    pub(crate) fn take(&mut self, namespace: &str, cost: Duration, burst: Duration, now: Instant) -> bool {
        self.bucket(namespace, now).take(cost, burst, now)
    }

    /// See [`TokenBucket::charge`].
    pub(crate) fn charge(&mut self, namespace: &str, cost: Duration, most: Duration, now: Instant) {
        self.bucket(namespace, now).charge(cost, most, now);
    }

    /// How many namespaces have a bucket that is not full.
    pub(crate) fn busy(&self, now: Instant) -> usize {
        self.buckets.values().filter(|bucket| !bucket.is_full(now)).count()
    }

    fn bucket(&mut self, namespace: &str, now: Instant) -> &mut TokenBucket {
        if self.buckets.len() >= self.sweep_at.max(SWEEP_AT) {
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
            self.sweep_at = 2 * self.buckets.len();
        }
        self.buckets.entry(namespace.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However somebody asks, no more than the burst and what flows in is granted, and no less if they ask all the time.
        #[test]
        fn grants_the_burst_and_then_the_rate(
            millis in 1_u64..1_000,
            burst in 0_u32..50,
            pauses in prop::collection::vec(0_u64..2_000, 1..300),
        ) {
            let (start, interval) = (Instant::now(), Duration::from_millis(millis));
            let (mut bucket, mut now, mut granted) = (TokenBucket::default(), start, 0);
            for pause in pauses {
                now += Duration::from_millis(pause);
                while bucket.take(interval, burst * interval, now) {
                    granted += 1;
                }
                let flowed = (now - start).as_millis() / interval.as_millis();
                prop_assert!(granted <= u128::from(burst) + 1 + flowed, "{granted}");
                prop_assert!(bucket.wait_until(burst * interval, now).is_some_and(|at| at <= now + interval));
            }
            prop_assert!(granted > u128::from(burst));
        }
    }

    #[test]
    fn each_namespace_has_a_rate_and_full_buckets_are_forgotten() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        let (interval, burst) = (Duration::from_secs(6), Duration::from_secs(6 * 49));
        // 38 objects a second for an hour, each with an event.
        let at = |number: u32| start + Duration::from_secs(1) * number / 38;
        let granted = (0..38 * 3600).filter(|number| rates.take("attacker", interval, burst, at(*number))).count();
        assert_eq!(granted, 50 + 599, "a burst, and then one every 6 s");
        assert!(rates.take("shop", interval, burst, start));
        for number in 0..10_000 {
            rates.take(&number.to_string(), interval, burst, start + number * Duration::from_secs(7));
        }
        assert!(rates.buckets.len() <= 2 * SWEEP_AT, "{}", rates.buckets.len());
    }
}
