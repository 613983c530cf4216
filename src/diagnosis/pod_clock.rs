//! Questions about time, and when their answers change.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{clock::MAX_SKEW, pods::Pod};

/// Answers questions about the present of one pod, and remembers when the first of its answers will change.
///
/// The times in a pod come from several clocks. The index notes how far the clocks of the node and of the API server
/// were seen to be ahead of ours; times are set back by that much.
pub(super) struct PodClock {
    now: Timestamp,
    changes: Option<Timestamp>,
    created: Option<Timestamp>,
    node_ahead: SignedDuration,
}

impl PodClock {
    pub(super) fn new(pod: &Pod, now: Timestamp) -> Self {
        let seconds = |seconds: u32| SignedDuration::from_secs(seconds.into());
        let mut clock = Self { now, changes: None, created: None, node_ahead: seconds(pod.history.node_ahead) };
        let created = pod.created.filter(|created| clock.credible(*created));
        clock.created = created.map(|created| before(created, seconds(pod.history.server_ahead)));
        clock
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

    /// When something began: the first of these times that can be believed, else when the pod was created. Times far
    /// in the future can't be believed, nor can the epoch, which the kubelet writes if there was no such moment.
    pub(super) fn began(&mut self, evidence: impl IntoIterator<Item = Option<Timestamp>>) -> Option<Timestamp> {
        let found = evidence.into_iter().flatten().find(|instant| self.credible(*instant));
        found.map(|instant| self.corrected(instant)).or(self.created)
    }

    /// The later of a time from [`Self::began`] and another, if the other can be believed.
    pub(super) fn later(&mut self, began: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
        began.max(other.filter(|instant| self.credible(*instant)).map(|instant| self.corrected(instant)))
    }

    /// A time by our clock. What lies shortly before the pod's creation was written by a clock that is behind; what lies
    /// long before it is true: a static pod's containers may be older than the pod that mirrors it.
    fn corrected(&self, instant: Timestamp) -> Timestamp {
        let instant = before(instant, self.node_ahead);
        match self.created {
            Some(created) if instant < created && created.duration_since(instant) <= MAX_SKEW => created,
            _ => instant,
        }
    }

    fn credible(&mut self, instant: Timestamp) -> bool {
        instant > Timestamp::UNIX_EPOCH && self.reached(before(instant, MAX_SKEW))
    }
}

/// An instant moved back; the first instant there is if that lies before it.
fn before(instant: Timestamp, duration: SignedDuration) -> Timestamp {
    instant.checked_sub(duration).unwrap_or(Timestamp::MIN)
}

/// An instant moved by a duration; the last instant there is if that lies beyond it.
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
    fn remembers_the_first_change() {
        let mut clock = clock(&Pod::default());
        assert!(clock.reached(at(10_000)));
        assert_eq!(clock.changes(), None);
        assert!(!clock.reached(at(10_030)) && !clock.reached(at(10_010)) && !clock.reached(at(10_020)));
        assert_eq!(clock.changes(), Some(at(10_010)));
    }

    #[test]
    fn the_first_credible_evidence_counts() {
        let mut clock = clock(&Pod::default());
        assert_eq!(clock.began([None, Some(at(0)), Some(at(900)), Some(at(800))]), Some(at(900)));
        assert_eq!(clock.began([Some(at(10_599)), Some(at(800))]), Some(at(10_599)), "a clock ahead of ours");
        assert_eq!(clock.changes(), None);
        assert_eq!(clock.began([Some(at(19_000)), Some(at(800))]), Some(at(800)));
        assert_eq!(clock.changes(), Some(at(18_400)), "when it begins to be believed");
    }

    #[test]
    fn a_clock_that_is_behind_makes_no_pod_older_than_it_is() {
        let mut clock = clock(&Pod { created: Some(at(9_970)), ..Pod::default() });
        assert_eq!(clock.began([Some(at(9_400))]), Some(at(9_970)));
        assert_eq!(clock.later(Some(at(9_000)), Some(at(9_400))), Some(at(9_970)));
        assert_eq!(clock.began([None]), Some(at(9_970)));
        assert_eq!(clock.began([Some(at(9_300))]), Some(at(9_300)), "a static pod's container");
    }

    #[test]
    fn a_clock_that_is_ahead_is_set_back() {
        let mut pod = Pod { created: Some(at(9_000)), started: Some(at(10_500)), ..Pod::default() };
        pod.update_history(None, at(9_980));
        let mut clock = clock(&pod);
        assert_eq!(clock.began([pod.started]), Some(at(9_980)), "it was seen 20 s ago, when it was new");
        assert_eq!(clock.later(Some(at(9_500)), Some(at(10_510))), Some(at(9_990)));
    }

    #[test]
    fn sums_saturate() {
        assert_eq!(after(at(10), Duration::from_secs(5)), at(15));
        assert_eq!(after(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(after(at(10), Duration::MAX), Timestamp::MAX);
    }
}
