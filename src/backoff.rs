//! Exponential backoff.

use std::time::Duration;

/// `base`, doubled `times` times, but at most `cap`.
#[must_use]
pub(crate) fn doubled(base: Duration, times: u32, cap: Duration) -> Duration {
    base.saturating_mul(1 << times.min(20)).min(cap)
}

/// Delays that double with every failure up to a cap. Each is drawn from the upper half of its bound, so that clients
/// that failed together do not retry together.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    base: Duration,
    cap: Duration,
    failures: u32,
}

impl Backoff {
    pub(crate) fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, failures: 0 }
    }

    /// Counts a failure and returns the delay before the next try.
    pub(crate) fn next_delay(&mut self) -> Duration {
        let bound = doubled(self.base, self.failures, self.cap);
        self.failures = self.failures.saturating_add(1);
        bound.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// The number of failures since the last success.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// Forgets the failures, after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_cap_with_jitter() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for bound in [100, 200, 400, 800, 1000, 1000] {
            let delay = backoff.next_delay().as_millis();
            assert!((bound / 2..=bound).contains(&delay), "{delay} of {bound}");
        }
        backoff.reset();
        assert!(backoff.next_delay().as_millis() <= 100);
    }

    #[test]
    fn does_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        backoff.failures = u32::MAX;
        assert!(backoff.next_delay() <= Duration::from_secs(60));
        assert_eq!(doubled(Duration::MAX, u32::MAX, Duration::MAX), Duration::MAX);
    }
}
