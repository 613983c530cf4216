//! Compares the times in a pod with the present, and computes when the result changes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{clock::MAX_SKEW, pods::Pod};

/// Compares the times in one pod with the present, and records when the first comparison will change.
///
/// The times in a pod come from several clocks. The pod's history holds how far the clocks of the node and of the API
/// server were ahead of ours; the times are corrected by that.
pub(super) struct PodClock {
    now: Timestamp,
    recheck: Option<Timestamp>,
    created: Option<Timestamp>,
    node_ahead: SignedDuration,
}

impl PodClock {
    pub(super) fn new(pod: &Pod, now: Timestamp) -> Self {
        let seconds = |seconds: u32| SignedDuration::from_secs(seconds.into());
        let mut clock = Self { now, recheck: None, created: None, node_ahead: seconds(pod.history.node_ahead) };
        let created = pod.created.filter(|created| clock.is_credible(*created));
        clock.created = created.map(|created| before(created, seconds(pod.history.server_ahead)));
        clock
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// When the result of a comparison so far will change; always after `now`.
    pub(super) fn recheck(&self) -> Option<Timestamp> {
        self.recheck
    }

    /// Whether an instant has passed.
    pub(super) fn has_passed(&mut self, instant: Timestamp) -> bool {
        if instant <= self.now {
            return true;
        }
        self.recheck = Some(self.recheck.map_or(instant, |recheck| recheck.min(instant)));
        false
    }

    /// When a state began: the first credible time, or else the pod's creation. Times far in the future are not credible,
    /// and neither is the epoch, which the kubelet writes for an instance that never started.
    pub(super) fn start_time(&mut self, evidence: impl IntoIterator<Item = Option<Timestamp>>) -> Option<Timestamp> {
        let found = evidence.into_iter().flatten().find(|instant| self.is_credible(*instant));
        found.map(|instant| self.corrected(instant)).or(self.created)
    }

    /// The later of a time from [`Self::start_time`] and another, if the other is credible.
    pub(super) fn later(&mut self, start: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
        start.max(other.filter(|instant| self.is_credible(*instant)).map(|instant| self.corrected(instant)))
    }

    /// Converts a time to our clock. A time shortly before the pod's creation was written by a clock that is behind. A
    /// time long before it is correct, because the containers of a static pod may be older than its mirror pod.
    fn corrected(&self, instant: Timestamp) -> Timestamp {
        let instant = before(instant, self.node_ahead);
        match self.created {
            Some(created) if created.duration_since(instant) <= MAX_SKEW => instant.max(created),
            _ => instant,
        }
    }

    fn is_credible(&mut self, instant: Timestamp) -> bool {
        instant > Timestamp::UNIX_EPOCH && self.has_passed(before(instant, MAX_SKEW))
    }
}

/// Subtracts, saturating.
fn before(instant: Timestamp, duration: SignedDuration) -> Timestamp {
    instant.checked_sub(duration).unwrap_or(Timestamp::MIN)
}

/// Adds, saturating.
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

    fn clock(pod: &Pod) -> PodClock {
        PodClock::new(pod, at(10_000))
    }

    #[test]
    fn records_the_first_recheck() {
        let mut clock = clock(&Pod::default());
        assert!(clock.has_passed(at(10_000)));
        assert_eq!(clock.recheck(), None);
        assert!(!clock.has_passed(at(10_030)) && !clock.has_passed(at(10_010)) && !clock.has_passed(at(10_020)));
        assert_eq!(clock.recheck(), Some(at(10_010)));
    }

    #[test]
    fn uses_the_first_credible_time() {
        let mut clock = clock(&Pod::default());
        assert_eq!(clock.start_time([None, Some(at(0)), Some(at(900)), Some(at(800))]), Some(at(900)));
        assert_eq!(clock.start_time([Some(at(10_599)), Some(at(800))]), Some(at(10_599)), "a clock ahead of ours");
        assert_eq!(clock.recheck(), None);
        assert_eq!(clock.start_time([Some(at(19_000)), Some(at(800))]), Some(at(800)));
        assert_eq!(clock.recheck(), Some(at(18_400)), "when it becomes credible");
    }

    #[test]
    fn raises_times_shortly_before_creation_to_the_creation() {
        let mut clock = clock(&Pod { created: Some(at(9_970)), ..Pod::default() });
        assert_eq!(clock.start_time([Some(at(9_400))]), Some(at(9_970)));
        assert_eq!(clock.later(Some(at(9_000)), Some(at(9_400))), Some(at(9_970)));
        assert_eq!(clock.start_time([None]), Some(at(9_970)));
        assert_eq!(clock.start_time([Some(at(9_300))]), Some(at(9_300)), "a static pod's container");
    }

    #[test]
    fn corrects_times_of_a_clock_that_is_ahead() {
        let mut pod = Pod { created: Some(at(9_000)), started: Some(at(10_500)), ..Pod::default() };
        pod.update_history(None, at(9_980));
        let mut clock = clock(&pod);
        assert_eq!(clock.start_time([pod.started]), Some(at(9_980)), "it was seen 20 s ago, when it was new");
        assert_eq!(clock.later(Some(at(9_500)), Some(at(10_510))), Some(at(9_990)));
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(after(at(10), Duration::from_secs(5)), at(15));
        assert_eq!(after(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(after(at(10), Duration::MAX), Timestamp::MAX);
    }
}
