//! Limits how many events are published: about an object, and about the objects of a namespace.

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

/// How many events an object may have in a burst. After that, one more every [`OBJECT_REFILL`].
const OBJECT_BURST: u32 = 10;
const OBJECT_REFILL: Duration = Duration::from_secs(30);
/// How many events the objects of a namespace may have in a burst, also those that are deleted. After that, one more every
/// [`NAMESPACE_REFILL`].
const NAMESPACE_BURST: u32 = 50;
const NAMESPACE_REFILL: Duration = Duration::from_secs(6);
/// The most namespaces whose events are counted. Those of others are dropped until one of these has its burst again.
const MOST_NAMESPACES: usize = 4096;

/// A number of tokens that grows with time up to a limit.
#[derive(Debug)]
struct Tokens {
    left: u32,
    refilled: Instant,
    most: u32,
    interval: Duration,
}

impl Tokens {
    fn new(most: u32, interval: Duration, now: Instant) -> Self {
        Self { left: most, refilled: now, most, interval }
    }

    fn refill(&mut self, now: Instant) {
        while self.left < self.most && now.saturating_duration_since(self.refilled) >= self.interval {
            self.left += 1;
            self.refilled += self.interval;
        }
        if self.left == self.most {
            self.refilled = now;
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let is_granted = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_granted
    }
}

/// Limits the events of one object.
#[derive(Debug)]
pub(in crate::controller) struct EventLimiter {
    tokens: Tokens,
    /// How many incidents began or ended without an event since the last one.
    dropped: usize,
}

impl EventLimiter {
    pub(in crate::controller) fn new(now: Instant) -> Self {
        Self { tokens: Tokens::new(OBJECT_BURST, OBJECT_REFILL, now), dropped: 0 }
    }

    /// Counts events that were granted but not published.
    pub(in crate::controller) fn add_dropped(&mut self, events: usize) {
        self.dropped += events;
    }

    /// Whether another event may be published. Counts it if not.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let is_granted = self.tokens.take(now);
        self.dropped += usize::from(!is_granted);
        is_granted
    }

    /// How many changes had no event since this was last called.
    pub(super) fn take_dropped(&mut self) -> usize {
        std::mem::take(&mut self.dropped)
    }
}

/// Limits the events about the objects of each namespace. It outlives the objects, so that deleting and creating them
/// grants no further events.
#[derive(Debug, Default)]
pub(super) struct NamespaceLimiter {
    namespaces: HashMap<String, Tokens>,
}

impl NamespaceLimiter {
    /// How many of these events about an object in a namespace may be published.
    pub(super) fn take(&mut self, namespace: &str, events: usize, now: Instant) -> usize {
        if !self.namespaces.contains_key(namespace) {
            if self.namespaces.len() >= MOST_NAMESPACES {
                self.sweep(now);
            }
            if self.namespaces.len() >= MOST_NAMESPACES {
                return 0;
            }
            self.namespaces.insert(namespace.to_owned(), Tokens::new(NAMESPACE_BURST, NAMESPACE_REFILL, now));
        }
        let Some(tokens) = self.namespaces.get_mut(namespace) else { return 0 };
        (0..events).take_while(|_| tokens.take(now)).count()
    }

    /// Forgets the namespaces that have their burst again.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.namespaces.retain(|_, tokens| {
            tokens.refill(now);
            tokens.left < tokens.most
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creating_objects_again_grants_a_namespace_no_further_events() {
        let (mut limiter, start) = (NamespaceLimiter::default(), Instant::now());
        let mut published = 0;
        // 38 objects a second for an hour, each with an event.
        for number in 0..38 * 3600 {
            let now = start + Duration::from_secs(1) * number / 38;
            published += limiter.take("attacker", 1, now);
        }
        assert_eq!(published, 50 + 599, "a burst, and then one every 6 s");
        assert_eq!(limiter.take("shop", 60, start), 50, "another namespace has its own");
    }

    #[test]
    fn namespaces_are_forgotten_when_they_have_their_burst_again() {
        let (mut limiter, start) = (NamespaceLimiter::default(), Instant::now());
        for number in 0..2 * MOST_NAMESPACES {
            let granted = limiter.take(&number.to_string(), 1, start);
            assert_eq!(granted, usize::from(number < MOST_NAMESPACES), "{number}");
        }
        let later = start + NAMESPACE_REFILL;
        assert_eq!(limiter.take("shop", 1, later), 1);
        assert_eq!(limiter.namespaces.len(), 1);
    }
}
