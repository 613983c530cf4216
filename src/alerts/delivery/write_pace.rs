//! Paces the writes of the webhooks' states. An API server needs a tenth of a second or more for a large object,
//! however small the written part is, and a tenant decides how large its objects are and how often their alerts change.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::bounded::Rates;

/// Smaller objects are neither counted nor paced.
const SMALL: usize = 32 << 10;
/// How many bytes of objects a namespace may write in a second, on average.
const ALLOWANCE: f64 = (64 << 10) as f64;
/// How long an unused allowance is saved up for: 2 MiB. Half of it is kept for writes that a message waits for.
const SAVED: Duration = Duration::from_secs(32);
/// What one write takes of the allowance at most.
const MOST: Duration = Duration::from_secs(10);

/// What each namespace has left of its allowance.
#[derive(Debug, Default)]
pub(super) struct WritePace(Mutex<Rates>);

impl WritePace {
    /// Takes the allowance for a write of an object of this size. If there is not enough, returns when to try again, and
    /// otherwise nothing. `is_urgent` is whether a message waits for the write.
    pub fn take(&self, namespace: &str, bytes: usize, is_urgent: bool, now: Instant) -> Option<Instant> {
        if bytes < SMALL {
            return None;
        }
        let mut rates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let cost = Duration::from_secs_f64(bytes as f64 / ALLOWANCE).min(MOST);
        let saved = if is_urgent { SAVED } else { SAVED / 2 };
        if rates.take(namespace, cost, saved, now) { None } else { rates.wait_until(namespace, saved, now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many writes of this size begin in a time if objects of the namespace always have something to write.
    fn writes(
        pace: &WritePace,
        namespace: &str,
        bytes: usize,
        is_urgent: bool,
        from: Instant,
        time: Duration,
    ) -> usize {
        let (mut now, mut writes) = (from, 0);
        while now < from + time {
            match pace.take(namespace, bytes, is_urgent, now) {
                Some(at) => now = at,
                None => writes += 1,
            }
            assert!(writes < 100_000);
        }
        writes
    }

    #[test]
    fn a_namespace_writes_its_allowance_after_what_it_has_saved() {
        let (pace, start) = (WritePace::default(), Instant::now());
        let minute = Duration::from_secs(60);
        // 2 MiB at once, of which half is for urgent writes, and then half a write in a second.
        assert_eq!(writes(&pace, "evil", 128 << 10, false, start, minute), 9 + 29);
        assert_eq!(writes(&pace, "evil", 128 << 10, true, start + minute, Duration::from_millis(1)), 9);
        assert_eq!(writes(&pace, "shop", 128 << 10, true, start, minute), 17 + 29, "another namespace has its own");
        assert_eq!(writes(&pace, "huge", 1 << 30, true, start, minute), 4 + 6, "it is not locked out");
    }

    #[test]
    fn small_objects_are_not_paced() {
        let (pace, now) = (WritePace::default(), Instant::now());
        assert!((0..10_000).all(|_| pace.take("shop", SMALL - 1, false, now).is_none()));
    }
}
