//! Questions about time, and when their answers change.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How far a node's clock may run ahead of ours and still be believed.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Answers questions about the present, and remembers when the first of its answers will be another.
pub(super) struct Clock {
    now: Timestamp,
    changes: Option<Timestamp>,
}

impl Clock {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { now, changes: None }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// When time alone makes one of the answers given another; always after now.
    pub(super) fn changes(&self) -> Option<Timestamp> {
        self.changes
    }

    /// Whether an instant has come.
    pub(super) fn reached(&mut self, instant: Timestamp) -> bool {
        if instant <= self.now {
            return true;
        }
        self.changes = Some(self.changes.map_or(instant, |changes| changes.min(instant)));
        false
    }

    /// When something began: the first of these that can be believed. Instants in the future can't, nor
    /// can the epoch, which the kubelet writes where there was no such moment.
    pub(super) fn began(&mut self, evidence: impl IntoIterator<Item = Option<Timestamp>>) -> Option<Timestamp> {
        evidence.into_iter().flatten().find(|instant| self.credible(*instant))
    }

    /// The later of two instants, where the second can be believed.
    pub(super) fn later(&mut self, began: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
        began.max(other.filter(|instant| self.credible(*instant)))
    }

    fn credible(&mut self, instant: Timestamp) -> bool {
        instant > Timestamp::UNIX_EPOCH && self.reached(instant.checked_sub(SKEW).unwrap_or(Timestamp::MIN))
    }
}

/// An instant moved by a duration; the last instant there is where that lies beyond it.
pub(super) fn after(instant: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| instant.checked_add(duration).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn remembers_the_first_change() {
        let mut clock = Clock::new(at(1000));
        assert!(clock.reached(at(1000)));
        assert_eq!(clock.changes(), None);
        assert!(!clock.reached(at(1030)) && !clock.reached(at(1010)) && !clock.reached(at(1020)));
        assert_eq!(clock.changes(), Some(at(1010)));
    }

    #[test]
    fn the_first_credible_evidence_counts() {
        let mut clock = Clock::new(at(1000));
        assert_eq!(clock.began([None, Some(at(0)), Some(at(900)), Some(at(800))]), Some(at(900)));
        assert_eq!(clock.began([Some(at(1299)), Some(at(800))]), Some(at(1299)), "a clock ahead of ours");
        assert_eq!(clock.changes(), None);
        assert_eq!(clock.began([Some(at(9000)), Some(at(800))]), Some(at(800)));
        assert_eq!(clock.changes(), Some(at(8700)), "when it begins to be believed");
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(after(at(10), Duration::from_secs(5)), at(15));
        assert_eq!(after(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(after(at(10), Duration::MAX), Timestamp::MAX);
    }
}
