//! A rate with a burst.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket, which is kept as one time: when it is full again. What something costs, and what the bucket can hold, is
/// given as the time in which that flows in. By default it is full.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TokenBucket {
    full_at: Option<Instant>,
}

impl TokenBucket {
    /// The time from which on no more than `burst` is missing. Absent if it was never used.
    pub(crate) fn available_at(&self, burst: Duration) -> Option<Instant> {
        self.full_at?.checked_sub(burst)
    }

    /// When that is, if it is still to come.
    pub(crate) fn wait_until(&self, burst: Duration, now: Instant) -> Option<Instant> {
        self.available_at(burst).filter(|at| *at > now)
    }

    pub(crate) fn take(&mut self, cost: Duration, now: Instant) {
        self.full_at = Some(self.full_at.map_or(now, |at| at.max(now)) + cost);
    }

    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.full_at.is_none_or(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_rate_after_a_burst() {
        let start = Instant::now();
        let interval = Duration::from_millis(20);
        let mut bucket = TokenBucket::default();
        assert!(bucket.is_full(start));
        let mut now = start;
        let mut within = 0;
        for _ in 0..1000 {
            now = bucket.wait_until(99 * interval, now).unwrap_or(now);
            bucket.take(interval, now);
            within += u32::from(now == start);
        }
        assert_eq!(within, 100);
        assert_eq!((now - start).as_secs(), 18, "the other 900 take 18 s");
        assert!(!bucket.is_full(now + 99 * interval) && bucket.is_full(now + 100 * interval));
        let later = now + Duration::from_secs(3600);
        bucket.take(interval, later);
        assert_eq!(bucket.available_at(Duration::ZERO), Some(later + interval), "it holds no more than the burst");
    }
}
