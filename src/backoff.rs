//! How long to wait before the next try.

use std::time::Duration;

/// Exponential backoff: the bound doubles with every failure up to a cap, and each delay is drawn from
/// the upper half of it, so that many who failed together don't come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    failures: u32,
}

impl Backoff {
    /// Delays from `base` to `cap`.
    #[must_use]
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, failures: 0 }
    }

    /// Counts a failure, and returns how long to wait after it.
    pub fn next_delay(&mut self) -> Duration {
        let bound = self.base.saturating_mul(1 << self.failures.min(20)).min(self.cap);
        self.failures = self.failures.saturating_add(1);
        bound.mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// How many failures there were since the last success.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Forgets the failures, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_its_cap_within_its_jitter() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        for bound in [100, 200, 400, 800, 1000, 1000] {
            let delay = backoff.next_delay().as_millis();
            assert!((bound / 2..=bound).contains(&delay), "{delay} of {bound}");
        }
        backoff.reset();
        assert!(backoff.next_delay().as_millis() <= 100);
    }

    #[test]
    fn many_failures_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
        backoff.failures = u32::MAX;
        assert!(backoff.next_delay() <= Duration::from_secs(60));
    }
}
